//! Makes every call of the kernel in the longest state that its bound names, and counts instructions by the counter: with `-icount shift=4` each is one tick (CH-60).
//!
//! A count is from the call to the next instruction of the caller. Where a call does not come back, or waits, it is to the first look at the counter of who runs next. What is
//! printed has the names that the page of the reference has.
//!
//! The lowest byte of a thread's argument is its role; the instance (`tests/system/src/largest.rs`) has its capabilities in the slots that are named here.
#![no_std]
#![no_main]

mod calls;
mod driver;
mod processes;
mod scheduler;
mod threads;

use bulkhead_component::range::Range;
use bulkhead_component::{Code, call, import, println};
use bulkhead_kernel_abi::call::Call;
use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering};

bulkhead_component::entry!(main);

bulkhead_component::export! {
    /// Enters itself `more` times, and does not come back from there.
    fn deep(_token, more) {
        if more == 0 {
            // A line that is not at its end.
            call::print("deep");
            threads::spin();
        }
        deeper(more - 1).unwrap_or(0)
    }
}

import! {
    /// The same of the other component.
    fn deeper(more);
}

/// Counts all but what the others do, on the most important server.
const COUNTS: u64 = 1;
/// Is on the same server, and runs when the one that counts waits.
const FOLLOWS: u64 = 2;
/// Is on a less important server, and goes as deep as it can.
const GOES_DEEP: u64 = 3;
/// Is a scheduler, and counts.
const SCHEDULES: u64 = 4;
/// Is one of its threads, and ends.
const ENDS: u64 = 5;
/// Makes processes, and counts.
const MAKES: u64 = 6;
/// Drives a device for clients, and counts.
const DRIVES: u64 = 7;
/// Looks at the counter whenever nobody else of the scheduler's server runs.
const WATCHES: u64 = 8;
/// The roles of processes.
const PROCESS: u64 = 16;

/// When the call that does not come back was made.
static FROM: AtomicU64 = AtomicU64::new(0);
/// The watcher need not look any more.
static IS_OVER: AtomicU64 = AtomicU64::new(0);
/// How long it took to who ran next.
static TOOK: AtomicU64 = AtomicU64::new(0);

fn main(argument: u64) {
    match argument & 0xff {
        COUNTS => calls::count(),
        FOLLOWS => threads::follow(),
        GOES_DEEP => threads::go_deep(),
        SCHEDULES => scheduler::count(),
        ENDS => {}
        MAKES => processes::count(),
        DRIVES => driver::drive(),
        WATCHES => threads::watch(),
        role => processes::run(role - PROCESS, argument >> 8),
    }
}

/// The answer of a call, and its instructions without reading the counter and the SVC itself.
#[derive(Clone, Copy)]
struct Answer {
    code: u64,
    value: u64,
    took: u64,
}

impl Answer {
    /// The shorter one, refused if one of them was.
    fn least(self, other: Self) -> Self {
        Self { code: self.code | other.code, value: other.value, took: self.took.min(other.took) }
    }
}

/// Makes a call.
fn counted<const NUMBER: u16>(arguments: [u64; 8]) -> Answer {
    let [x0, x1, x2, x3, x4, x5, x6, x7] = arguments;
    let (code, value, before, after): (u64, u64, u64, u64);
    // SAFETY: the kernel keeps x8 to x30 and touches no memory of a component.
    unsafe {
        asm!(
            "mrs {before}, CNTVCT_EL0",
            "svc #{number}",
            "mrs {after}, CNTVCT_EL0",
            number = const NUMBER,
            before = out(reg) before,
            after = lateout(reg) after,
            inout("x0") x0 => code, inout("x1") x1 => value, inout("x2") x2 => _, inout("x3") x3 => _,
            inout("x4") x4 => _, inout("x5") x5 => _, inout("x6") x6 => _, inout("x7") x7 => _,
            options(nostack),
        );
    }
    Answer { code, value, took: after - before - 2 }
}

/// Counts of one call.
struct Row {
    name: &'static str,
    range: Range,
    refused: u64,
}

impl Row {
    fn new(name: &'static str) -> Self {
        Self { name, range: Range::EMPTY, refused: 0 }
    }

    /// Takes one; returns what it answered.
    fn add(&mut self, answer: Answer) -> u64 {
        self.range.add(answer.took);
        self.refused |= answer.code;
        answer.value
    }

    /// Says them; what was refused took another way.
    fn say(&self) {
        if self.refused == 0 {
            self.range.print(self.name);
        } else {
            println!("{}: refused, {:#x}", self.name, self.refused);
        }
    }
}

/// Makes a call once, and says what it took.
fn once<const NUMBER: u16>(name: &'static str, arguments: [u64; 8]) -> u64 {
    let mut row = Row::new(name);
    let value = row.add(counted::<NUMBER>(arguments));
    row.say();
    value
}

/// Notes when a call is made that somebody else runs after.
fn note() {
    FROM.store(call::counter_ticks(), Ordering::Relaxed);
}

/// Sleeps that others run.
fn sleep(ticks: u64) {
    let _ = call::receive(0, call::counter_ticks() + ticks);
}

/// Empties a slot.
fn empty(slot: u64) -> Code {
    let answer = call::call::<{ Call::Capability.number() }>([2, 0, slot, 0, 0, 0, 0, 0]);
    Code::from_number(answer[0]).unwrap_or(Code::BadCall)
}
