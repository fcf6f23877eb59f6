//! Signals one by one, each to a receiver that sleeps. Both note the counter, which all cores advance: from the sender's look to the receiver's first instruction it has counted
//! what both cores executed, since nobody else does anything. One signal before the others is not counted: it finds the receiver's kernel as it began.

use crate::{give_way, one, told};
use bulkhead_component::call::{self, counter_ticks};
use bulkhead_component::{Code, println};
use bulkhead_kernel_abi::call::{Call, Flag};
use core::arch::asm;

/// Between two signals, long after the receiver sleeps again: 320 us.
const DISTANCE_TICKS: u64 = 20_000;

/// Sends; its code, and the counter before. The other core's turn is right behind.
fn signal(slot: u64) -> (u64, u64) {
    let (code, before): (u64, u64);
    // SAFETY: a capability that is no Call: the kernel touches no memory, and no register but those that are clobbered.
    unsafe {
        asm!(
            "mrs x20, CNTVCT_EL0",
            "svc #{number}",
            "yield",
            number = const Call::Invoke.number(),
            out("x20") before,
            inout("x8") slot => code,
            inout("x0") 0_u64 => _, inout("x1") 0_u64 => _, inout("x2") 0_u64 => _, inout("x3") 0_u64 => _,
            inout("x4") 0_u64 => _, inout("x5") 0_u64 => _, inout("x6") 0_u64 => _, inout("x7") 0_u64 => _,
            clobber_abi("C"),
            options(nostack),
        );
    }
    (code, before)
}

/// Waits for a signal; its code, how many came at once, and the counter at the first instruction behind.
fn receive(slot: u64) -> (u64, u64, u64) {
    let (code, count, after): (u64, u64, u64);
    // SAFETY: the kernel keeps x8 to x30 and touches no memory of a component.
    unsafe {
        asm!(
            "svc #{number}",
            "mrs {after}, CNTVCT_EL0",
            number = const Call::Receive.number(),
            after = lateout(reg) after,
            inout("x0") slot => code, inout("x1") Flag::All.number() => _, inout("x2") 0_u64 => count, inout("x3") 0_u64 => _,
            inout("x4") 0_u64 => _, inout("x5") 0_u64 => _, inout("x6") 0_u64 => _, inout("x7") 0_u64 => _,
            options(nostack),
        );
    }
    (code, count, after)
}

/// Until a number of ticks have passed.
fn wait(ticks: u64) {
    let until = counter_ticks() + ticks;
    while counter_ticks() < until {
        give_way();
    }
}

pub(crate) fn send(times: u64) {
    let (mut refused, mut sum) = (0_u64, 0_u64);
    // The other instance starts meanwhile.
    wait(50 * DISTANCE_TICKS);
    for number in 0..=times {
        let (code, before) = signal(one());
        refused += u64::from(code != Code::Ok.number());
        if number != 0 {
            sum = sum.wrapping_add(before);
        }
        wait(DISTANCE_TICKS);
    }
    println!("sent: {times:06}, refused {refused}, at {sum:020}");
}

pub(crate) fn take(times: u64) {
    let (mut taken, mut woken, mut sum) = (0_u64, 0_u64, 0_u64);
    while taken <= times {
        let (code, count, after) = receive(told());
        if code != Code::Ok.number() {
            return println!("taken: refused, {code}");
        }
        if woken != 0 {
            sum = sum.wrapping_add(after);
        }
        (taken, woken) = (taken + count, woken + 1);
    }
    let is_quiet = call::receive(told(), counter_ticks() + 2 * DISTANCE_TICKS) == Err(Code::TimedOut);
    println!("taken: {:06}, woken {:06}, at {sum:020}, quiet {is_quiet}", taken - 1, woken - 1);
}
