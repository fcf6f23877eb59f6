//! A signal through ChaosRT's limiter beside its parts: a signal without a limit, and the limiter alone (CH-E5). The receiver may not preempt, and waits each time.
//!
//! A thread's argument says what it does: 0 sends and counts, 1 receives (bits 7:0); which task of ChaosRT it is (15:8), and how often (from bit 16 on).
#![no_std]
#![no_main]

use bulkhead_component::range::Range;
use bulkhead_component::{Code, call, println};
use bulkhead_rt::{Event, Kernel, Limit, Record, Who};
use core::arch::asm;

bulkhead_component::entry!(main);

mod rt {
    bulkhead_component::import! {
        /// Ends a task.
        pub fn end(me, other);
        /// Waits until a date.
        pub fn sleep(me, until_ticks);
        /// Notifies, within a limit.
        pub fn notify();
    }
}

bulkhead_component::slots! {
    /// The end point of the receiver.
    news;
    /// A way to it that has no limit.
    way;
}

/// 1 ms at 62.5 MHz.
const MILLISECOND: u64 = 62_500;
/// A little more than a millisecond: of ten in 10 ms none is held back, and the receiver waits again.
const PAUSE: u64 = MILLISECOND + MILLISECOND / 8;
/// The limit of ChaosRT's own ways.
const LIMIT: Limit = Limit { window_ticks: 10 * MILLISECOND, maximum: 10 };

/// The limiter alone: nothing is sent.
struct Nothing;

impl Kernel for Nothing {
    #[inline]
    fn now_ticks(&mut self) -> u64 {
        call::counter_ticks()
    }

    fn switch(&mut self, _: Who, _: u64, _: u64, _: u64) -> Result<(), Code> {
        Err(Code::Denied)
    }

    fn events(&mut self, _: Option<u64>) -> Result<Event, Code> {
        Err(Code::Denied)
    }

    #[inline]
    fn send(&mut self, _: u64) -> Result<(), Code> {
        Ok(())
    }

    fn rest(&mut self) {}
}

fn main(argument: u64) {
    let (me, count) = (argument >> 8 & 0xff, argument >> 16);
    if argument as u8 == 0 {
        send(me, count)
    } else {
        hear(count)
    }
    let _ = rt::end(me, me);
}

/// Reads the counter, where it stands in the text.
macro_rules! now {
    () => {{
        let ticks: u64;
        // No ISB, which would be counted: with `-icount` the counter is that of the instruction.
        // SAFETY: reads a counter.
        unsafe { asm!("mrs {}, CNTVCT_EL0", out(reg) ticks, options(nostack)) };
        ticks
    }};
}

/// A signal without a limit, without reading the counter and the SVC itself.
fn raw(slot: u64) -> u64 {
    let before = now!();
    // SAFETY: a Send: the kernel keeps x19 to x30 and touches no memory of a component.
    unsafe {
        asm!(
            "svc #0",
            inout("x8") slot => _,
            out("x0") _, out("x1") _, out("x2") _, out("x3") _, out("x4") _, out("x5") _, out("x6") _, out("x7") _,
            out("x9") _, out("x10") _, out("x11") _, out("x12") _, out("x13") _, out("x14") _, out("x15") _, out("x16") _,
            out("x17") _, out("x18") _,
            options(nostack),
        );
    }
    now!() - before
}

fn send(me: u64, count: u64) {
    let (mut limited, mut signals, mut limiter) = (Range::EMPTY, Range::EMPTY, Range::EMPTY);
    let (record, mut wrong) = (Record::new(LIMIT, 0), 0_u64);
    for _ in 0..count {
        let _ = rt::sleep(me, call::counter_ticks() + PAUSE);
        let before = now!();
        let answer = rt::notify();
        let after = now!();
        wrong += u64::from(answer != Ok(0));
        limited.add(after - before - 1);
        let before = now!();
        let passed = record.notify(&mut Nothing);
        let after = now!();
        wrong += u64::from(passed.is_err());
        limiter.add(after - before - 1);
        let _ = rt::sleep(me, call::counter_ticks() + PAUSE);
        signals.add(raw(way()));
    }
    let _ = rt::sleep(me, call::counter_ticks() + PAUSE);
    println!("signals: {wrong} did not pass");
    limited.print("limited");
    signals.print("signal");
    limiter.print("limiter");
}

/// Waits for as many as that.
fn hear(count: u64) {
    let mut heard = 0;
    while heard < 2 * count {
        match call::receive(news(), 0) {
            Ok((_, more)) => heard += more,
            Err(_) => return,
        }
    }
}
