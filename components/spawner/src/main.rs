//! Makes processes from programs of the image, waits for their ends, begins one again, and takes them apart: what a shell does. All of that is paid from its quota,
//! and its children's threads run on the server that it has for them.
//!
//! Its argument is a list of what its children do, a byte each, the first one lowest: what the program `worker` says of its argument. 0xff ends it, and the byte behind that says how
//! often it makes all of them, with a rest in between; another 0xff is once. If the first one counts, it is the only one, and the rest says how often.
#![no_std]
#![no_main]

use bulkhead_component::call::{self, component_fault, component_reset, receive};
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
    /// The server of their threads. If one counts, the slot behind it has that of the threads which this one makes: a more important one, so that they run at once.
    jobs;
    /// The number of the program that they are made of.
    worker;
    /// Two empty slots: what a child is given, and the child.
    room;
}

bulkhead_component::counts! {
    /// Processes that were made: children, and those that they say they forked.
    created;
    /// Of those, what came to the end that was expected of it, and was taken apart.
    ended;
    /// Children that were refused, or came to another end.
    unexpected;
}

/// The end of the list of children.
const END: u64 = 0xff;
/// Begins again: the fourth of what a worker does is a fault.
const FAULTS: u64 = 4;
/// Becomes a program, whose number is above.
const EXECS: u64 = 2;
/// Counts, as often as the number above says.
const COUNTS: u64 = 7;

/// Forks as often as the number above says, looks that nothing of it is shared, and exits with how often that was so.
const WORKS: u64 = 9;
/// Forks as often as it can, and its forks do, and they never end: they are taken apart after this long, and each bomb a millisecond later than the one before: not always at the same
/// moment of somebody's period.
const BOMB: u64 = 6;
const BOMB_MS: u64 = 100;
/// The same by spawning, of which the number of the program is above.
const SPAWNS: u64 = 10;
/// No child: it makes children itself until it is refused, which spin, each with this many pages.
const FILLS: u64 = 11;
const SPINS: u64 = 8;
const SPINS_PAGES: u32 = 40;
/// Slots behind the child's that are empty where it does.
const MOST_CHILDREN: u64 = 14;
/// Of the counter, on the emulator.
const TICKS_PER_MS: u64 = 62_500;
/// How often a child that works forks.
const FORKS: u64 = 2;
/// Milliseconds between two times that all are made.
const REST_MS: u64 = 150;

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
    let Ok(version) = call::version() else { return };
    // Who is given it, runs threads on it, and changes nothing of it.
    let theirs = if argument & 0xff == COUNTS { jobs() + 1 } else { jobs() };
    if let Err(code) = process::copy_capability(theirs, room(), right::BIND) {
        return println!("spawner: no server for children, {code:?}");
    }
    let share = Share { pages: 3, ..Share::default() };
    println!("spawner: too small {:?}", process::spawn(worker(), 0, made(), given(), share));
    println!("spawner: no program {:?}", process::spawn(99, 0, made(), given(), share));
    if argument & 0xff == COUNTS {
        run(COUNTS, argument, 0);
        return println!("spawner: over");
    }
    let bytes = argument.to_le_bytes().map(u64::from);
    let mut behind = bytes.into_iter().skip_while(|byte| *byte != END).skip(1);
    let times = behind.next().filter(|times| *times != END).unwrap_or(1);
    let mut number = 0;
    for _ in 0..times {
        for role in bytes.into_iter().take_while(|role| *role != END) {
            run(role, with_more(role), BOMB_MS + number);
            number += 1;
        }
        if times > 1 {
            // The end of a sleep is a deadline that has passed.
            let _ = receive(0, call::counter_ticks() + REST_MS * (version.counter_hz / 1000));
        }
    }
    println!("spawner: over");
}

/// What a child of the list is given.
fn with_more(role: u64) -> u64 {
    match role {
        EXECS | SPAWNS => role | worker() << 8,
        WORKS => role | FORKS << 8,
        _ => role,
    }
}

/// One child that is given this argument, from its beginning to its end; a bomb is left this long.
fn run(role: u64, argument: u64, milliseconds: u64) {
    if role == FILLS {
        return fill(milliseconds);
    }
    let share = match role {
        BOMB | SPAWNS => Share { pages: 300, components: 12, threads: 12, regions: 1 },
        _ => Share { pages: 96, components: 1, threads: 1, regions: 1 },
    };
    let bits = match process::spawn(worker(), argument, made(), given(), share) {
        Ok(bits) => bits,
        Err(code) => {
            unexpected::count().add(1);
            return println!("spawner: {role} is refused, {code:?}");
        }
    };
    created::count().add(1);
    if [BOMB, SPAWNS].contains(&role) {
        let _ = receive(0, call::counter_ticks() + milliseconds * TICKS_PER_MS);
        return println!("spawner: {role} is taken apart {:?}", process::destroy(child()));
    }
    let mut ends = 0;
    loop {
        match receive(told(), 0) {
            Ok((found, _)) if found & bits == bits => {}
            other => return println!("spawner: told {other:?}, not {bits:#x}"),
        }
        let Ok(record) = component_fault(child()) else { return println!("spawner: no record") };
        if role == WORKS {
            return work_is_done(record.kind == FaultKind::Exited.number() && record.syndrome == FORKS);
        }
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
    ended::count().add(1);
}

/// Children until there is no room, which are taken apart after a while.
fn fill(milliseconds: u64) {
    let share = Share { pages: SPINS_PAGES, ..Share::default() };
    let mut children = 0;
    while children < MOST_CHILDREN {
        match process::spawn(worker(), SPINS, Made { to: child() + children, ..made() }, given(), share) {
            Ok(_) => children += 1,
            Err(code) => {
                println!("bomb: {children} children, then {code:?}");
                break;
            }
        }
    }
    let _ = receive(0, call::counter_ticks() + milliseconds * TICKS_PER_MS);
    let end = (0..children).try_for_each(|number| process::destroy(child() + number));
    println!("spawner: {FILLS} is taken apart {end:?}");
}

/// A child that works says nothing, and neither is anything said of it that was expected.
fn work_is_done(is_expected: bool) {
    if is_expected && process::destroy(child()).is_ok() {
        created::count().add(FORKS);
        ended::count().add(1 + FORKS);
    } else {
        unexpected::count().add(1);
        println!("spawner: a child that works came to another end");
    }
}
