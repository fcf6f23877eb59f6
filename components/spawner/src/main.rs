//! Makes processes from programs of the image, waits for their ends, begins one again, and takes them apart: what a shell does. All of that is paid from its quota,
//! and its children's threads run on the server that it has for them.
//!
//! Its argument is a list of what its children do, a byte each, the first one lowest: what the program `worker` says of its argument. 0xff ends it.
#![no_std]
#![no_main]

use bulkhead_component::call::{component_fault, component_reset, receive};
use bulkhead_component::println;
use bulkhead_component::process::{self, Made, Share};
use bulkhead_kernel_abi::accounts::FaultKind;
use bulkhead_kernel_abi::capability::right;
use core::ops::Range;

bulkhead_component::entry!(main);

bulkhead_component::slots! {
    /// Where it is told of its children's ends.
    told;
    /// From which they are made.
    quota;
    /// The server of their threads.
    jobs;
    /// The number of the program that they are made of.
    worker;
    /// Two empty slots: what a child is given, and the child.
    room;
}

/// The end of the list of children.
const END: u64 = 0xff;
/// Begins again: the fourth of what a worker does is a fault.
const FAULTS: u64 = 4;
/// Becomes a program, whose number is above.
const EXECS: u64 = 2;
/// Counts, as often as the number above says.
const COUNTS: u64 = 7;

/// Where its child is.
fn child() -> u64 {
    room() + 1
}

/// What it is given.
fn given() -> Range<u64> {
    room()..child()
}

fn made() -> Made {
    Made { quota: quota(), payer: jobs(), to: child() }
}

fn main(argument: u64) {
    // Who is given it, runs threads on it, and changes nothing of it.
    if let Err(code) = process::copy_capability(jobs(), room(), right::BIND) {
        return println!("spawner: no server for children, {code:?}");
    }
    let share = Share { pages: 3, ..Share::default() };
    println!("spawner: too small {:?}", process::spawn(worker(), 0, made(), given(), share));
    println!("spawner: no program {:?}", process::spawn(99, 0, made(), given(), share));
    for role in argument.to_le_bytes().map(u64::from).into_iter().take_while(|role| *role != END) {
        run(role);
    }
    println!("spawner: over");
}

/// One child, from its beginning to its end.
fn run(role: u64) {
    let argument = match role {
        EXECS => role | worker() << 8,
        COUNTS => role | 64 << 8,
        _ => role,
    };
    let share = Share { pages: 96, components: 1, threads: 1, regions: 1 };
    let bits = match process::spawn(worker(), argument, made(), given(), share) {
        Ok(bits) => bits,
        Err(code) => return println!("spawner: {role} is refused, {code:?}"),
    };
    let mut ends = 0;
    loop {
        match receive(told(), 0) {
            Ok((found, _)) if found & bits == bits => {}
            other => return println!("spawner: told {other:?}, not {bits:#x}"),
        }
        let Ok(record) = component_fault(child()) else { return println!("spawner: no record") };
        if record.kind == FaultKind::Exited.number() {
            println!("spawner: {role} exited with {}", record.syndrome);
        } else {
            println!("spawner: {role} faulted, kind {}, address {:#x}", record.kind, record.address);
        }
        ends += 1;
        if role == FAULTS && ends < 3 {
            println!("spawner: again {:?}", component_reset(child()));
        } else {
            break;
        }
    }
    println!("spawner: {role} is taken apart {:?}", process::destroy(child()));
}
