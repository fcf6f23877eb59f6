//! Signals by `invoke` on a Send, and the interrupt of a device.

use crate::{END_POINT, FROM, INTERRUPT, SEND, SEND_END, end};
use bulkhead_component::call;
use bulkhead_component::driver::interrupt_done;
use bulkhead_component::range::Range;
use bulkhead_kernel_abi::call::{Flag, InterruptOperation};
use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering};

/// What a message that ends the receiver has.
const END_BIT: u64 = 2;
/// The first are not counted: what the instance begins with is behind them.
const FIRST: u64 = 16;
/// Long enough for everybody to be through.
const PAUSE: u64 = 8_000;

/// Sends, and says how long that took: without reading the counter and the SVC itself.
fn send() -> u64 {
    let (before, after): (u64, u64);
    // SAFETY: a Send: the kernel keeps x19 to x30 and touches no memory of a component.
    unsafe {
        asm!(
            "mrs {before}, CNTVCT_EL0",
            "svc #0",
            "mrs {after}, CNTVCT_EL0",
            before = out(reg) before,
            after = lateout(reg) after,
            inout("x8") SEND => _,
            out("x0") _, out("x1") _, out("x2") _, out("x3") _, out("x4") _, out("x5") _, out("x6") _, out("x7") _,
            out("x9") _, out("x10") _, out("x11") _, out("x12") _, out("x13") _, out("x14") _, out("x15") _, out("x16") _,
            out("x17") _, out("x18") _,
            options(nostack),
        );
    }
    after - before - 2
}

/// Sends by this slot, behind a note of when.
fn send_by(slot: u64, note: &AtomicU64) {
    // SAFETY: writes a word that is there; a Send, as above.
    unsafe {
        asm!(
            "mrs x9, CNTVCT_EL0",
            "str x9, [{note}]",
            "svc #0",
            note = in(reg) note.as_ptr(),
            inout("x8") slot => _,
            out("x0") _, out("x1") _, out("x2") _, out("x3") _, out("x4") _, out("x5") _, out("x6") _, out("x7") _,
            out("x9") _, out("x10") _, out("x11") _, out("x12") _, out("x13") _, out("x14") _, out("x15") _, out("x16") _,
            out("x17") _, out("x18") _,
            options(nostack),
        );
    }
}

/// Waits for the end point; its bits, and the counter at the first instruction behind.
pub(crate) fn receive() -> (u64, u64) {
    let (bits, now): (u64, u64);
    // SAFETY: the kernel keeps x8 to x30 and touches no memory of a component.
    unsafe {
        asm!(
            "svc #2",
            "mrs {now}, CNTVCT_EL0",
            now = lateout(reg) now,
            inout("x0") END_POINT => _,
            inout("x1") Flag::All.number() => bits,
            inout("x2") 0_u64 => _,
            out("x3") _, out("x4") _, out("x5") _, out("x6") _, out("x7") _,
            options(nostack),
        );
    }
    (bits, now)
}

/// Sends, lets the receiver run, and so on.
fn to_somebody(name: &str, times: u64, give_way: impl Fn()) {
    let mut range = Range::EMPTY;
    for time in 0..times + FIRST {
        give_way();
        let one = send();
        if time >= FIRST {
            range.add(one);
        }
    }
    give_way();
    range.print(name);
    send_by(SEND_END, &FROM);
}

pub(crate) fn to_peer(times: u64) {
    to_somebody("signal_peer", times, || {
        let _ = call::call::<5>([0; 8]);
    });
}

pub(crate) fn to_less(times: u64) {
    to_somebody("signal_less", times, || {
        let _ = call::receive(0, call::counter_ticks() + PAUSE);
    });
}

pub(crate) fn wait() {
    while receive().0 & END_BIT == 0 {}
}

pub(crate) fn to_more(times: u64, compute: impl Fn()) {
    // One more: what is sent before the receiver waits for the first time may be one with the next.
    for _ in 0..=times + FIRST {
        let _ = call::receive(0, call::counter_ticks() + PAUSE);
        compute();
        send_by(SEND, &FROM);
    }
    send_by(SEND_END, &FROM);
}

/// Is sent to while a less important thread runs.
pub(crate) fn answer(times: u64, receive: impl Fn() -> (u64, u64)) {
    let mut range = Range::EMPTY;
    for time in 0.. {
        let (bits, now) = receive();
        if bits & END_BIT != 0 {
            break;
        }
        if (FIRST..times + FIRST).contains(&time) {
            // Without reading the counter, the note of it and the SVC.
            range.add(now - FROM.load(Ordering::Relaxed) - 3);
        }
    }
    range.print("signal_more");
}

/// Serves interrupts while a less important thread looks at the counter.
pub(crate) fn drive(times: u64, client: Option<u64>) {
    let mut range = Range::EMPTY;
    for time in 0..times + FIRST {
        let (_, now) = receive();
        if time >= FIRST {
            // Without reading the counter and the note of it, the last instruction if it was counted exactly.
            range.add(now - FROM.load(Ordering::Relaxed) - 2);
        }
        let _ = interrupt_done(INTERRUPT);
        if let Some(client) = client {
            let _ = call::call::<8>([InterruptOperation::Finish.number(), INTERRUPT, client, 0, 0, 0, 0, 0]);
        }
    }
    end();
    range.print("interrupt");
}
