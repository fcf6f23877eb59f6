//! Calls of the kernel that let nobody else run, counted from the SVC to the instruction behind it: `delegate`, and servers of a band.

use bulkhead_component::range::Range;
use bulkhead_component::{call, println};
use bulkhead_kernel_abi::call::{Call, CapabilityOperation, ServerOperation};
use core::arch::asm;

/// The server's own claim, who gives and who is given; behind them those with whose help there are many words.
const OWN: u64 = 8;
const FROM: u64 = 9;
const TO: u64 = 10;
const HELPERS: u64 = 11;
/// The band, and where its server is.
const BAND: u64 = 8;
const MADE: u64 = 9;

/// 10 ms at 62.5 MHz.
const PERIOD: u64 = 625_000;
/// What the giver has: a tick for each time.
const AMOUNT: u64 = 1 << 40;

/// Makes call `NUMBER`; its code, and its instructions without reading the counter and the SVC itself.
fn counted<const NUMBER: u16>(arguments: [u64; 8]) -> (u64, u64) {
    let [mut x0, x1, x2, x3, x4, x5, x6, x7] = arguments;
    let (before, after): (u64, u64);
    // SAFETY: the kernel keeps x8 to x30 and touches no memory of a component.
    unsafe {
        asm!(
            "mrs {before}, CNTVCT_EL0",
            "svc #{number}",
            "mrs {after}, CNTVCT_EL0",
            number = const NUMBER,
            before = out(reg) before,
            after = lateout(reg) after,
            inout("x0") x0, inout("x1") x1 => _, inout("x2") x2 => _, inout("x3") x3 => _,
            inout("x4") x4 => _, inout("x5") x5 => _, inout("x6") x6 => _, inout("x7") x7 => _,
            options(nostack),
        );
    }
    (x0, after - before - 2)
}

fn give(to: u64, from: u64, ticks: u64) -> (u64, u64) {
    counted::<{ Call::Delegate.number() }>([to, from, ticks, 0, 0, 0, 0, 0])
}

/// Gives a tick this often from one claim to another one; both have been through this number of schedulers.
pub(crate) fn delegate(times: u64, schedulers: u64) {
    let mut refused = give(FROM, OWN, AMOUNT).0;
    for helper in HELPERS..HELPERS + schedulers - 1 {
        // What comes back has one scheduler more. Less than the server's smallest chunk could not be given.
        refused |= give(helper, FROM, PERIOD).0 | give(FROM, helper, PERIOD).0;
    }
    refused |= give(TO, FROM, 1).0;
    let mut range = Range::EMPTY;
    for _ in 0..times {
        let (code, ticks) = give(TO, FROM, 1);
        refused |= code;
        range.add(ticks);
    }
    finish("delegate", &range, refused);
}

/// Makes a server in the band this often; between two of them the first one's time has to come back.
pub(crate) fn create(times: u64) {
    let (mut range, mut refused) = (Range::EMPTY, 0);
    for _ in 0..times {
        let make = [ServerOperation::Create.number(), BAND, PERIOD / 100, PERIOD, MADE, 0, 0, 0];
        let (code, ticks) = counted::<{ Call::Server.number() }>(make);
        range.add(ticks);
        let end = [ServerOperation::Destroy.number(), MADE, 0, 0, 0, 0, 0, 0];
        refused |= code | counted::<{ Call::Server.number() }>(end).0;
        let delete = [CapabilityOperation::Delete.number(), 0, MADE, 0, 0, 0, 0, 0];
        refused |= counted::<{ Call::Capability.number() }>(delete).0;
        let _ = call::receive(0, call::counter_ticks() + PERIOD);
    }
    finish("create", &range, refused);
}

/// A call that was refused took another way.
fn finish(name: &str, range: &Range, refused: u64) {
    if refused == 0 {
        range.print(name);
    } else {
        println!("{name}: refused, {refused:#x}");
    }
}
