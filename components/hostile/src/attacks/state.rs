//! What is left in registers: for the next thread, on both sides of a call, and of an exclusive access.

use crate::registers::{All, FLAGS, Fresh, NUMBERS, exchange, pattern};
use bulkhead_component::call::counter_ticks;
use bulkhead_component::println;
use bulkhead_kernel_abi::call::Call;
use core::arch::asm;

/// The attacker's mark in patterns.
const MARK: u64 = 0xbad;
/// A Send of the attacker.
const SEND: u64 = 1;
/// Ticks of a short sleep.
const SLEEP: u64 = 5_000;

pub(super) fn run(number: u64, fresh: &Fresh) {
    let put = pattern(MARK, number);
    let call = |call: Call| usize::from(call.number());
    match number {
        // With the argument, which is the number, and nothing else.
        70 | 77 => {
            let others = fresh.iter().skip(1).filter(|word| **word != 0).count();
            println!("x0 is {}, others that are not zero: {others}", fresh[0]);
        }
        71 => kept("version", &put, &exchange(call(Call::Version), &put), 0..4),
        72 => kept("yield", &put, &exchange(call(Call::Yield), &put), 0..1),
        73 => {
            let mut put = put;
            (put[0], put[1], put[2]) = (0, 0, counter_ticks() + SLEEP);
            let found = exchange(call(Call::Receive), &put);
            put[0] = 11;
            kept("a sleep", &put, &found, 0..0);
        }
        74 => kept("no call", &put, &exchange(NUMBERS - 1, &put), 0..1),
        75 => {
            let mut put = put;
            put[8] = 0;
            let found = exchange(call(Call::Invoke), &put);
            // Zeros as after any `invoke`.
            put[9..19].fill(0);
            put[FLAGS] = 0;
            kept("a refused invoke", &put, &found, 8..9);
        }
        // What it leaves must not be what the next one finds.
        76 => {
            exchange(call(Call::Return), &put);
        }
        78 => exclusive(),
        79 => {
            // SAFETY: an exception that the kernel takes.
            unsafe { asm!("msr TPIDRRO_EL0, x0") }
        }
        80 => sends(put),
        _ => {}
    }
}

/// Says which registers are not as they were, but for some.
fn kept(across: &str, put: &All, found: &All, but: core::ops::Range<usize>) {
    let changed = |place: &usize| !but.contains(place) && put.get(*place) != found.get(*place);
    let changed = (0..put.len()).filter(changed).count();
    super::succeeded::count().add(changed as u64);
    println!("across {across}: {changed} changed");
}

/// A send by `invoke` answers as a callee that returned zeros: what is the caller's alone stays.
fn sends(mut put: All) {
    put[8] = SEND;
    let found = exchange(usize::from(Call::Invoke.number()), &put);
    let zero = found.get(..19).map_or(0, |first| first.iter().filter(|word| **word == 0).count());
    let kept = (19..31).filter(|place| put.get(*place) == found.get(*place)).count();
    println!("zero {zero}, kept {kept}, flags {:#x}, own word kept {}", found[FLAGS], found[32] == put[32]);
}

/// The mark of an exclusive load does not outlive a call: somebody else ran.
fn exclusive() {
    let mut word = 5u64;
    let status: u64;
    // SAFETY: exclusive accesses to an own word; between them a call, which keeps x1 to x30.
    unsafe {
        asm!(
            "ldxr x2, [x1]", "svc #5", "stxr w3, x2, [x1]",
            in("x1") &raw mut word, out("x0") _, out("x2") _, out("x3") status, options(nostack),
        );
    }
    println!("the exclusive store answers {}", status & 1);
}
