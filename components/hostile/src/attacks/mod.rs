//! The attacks. What each number is and what is expected of it stands in `tests/hostile-kernel`; from 200 on an attack is begun again by the umpire after
//! each fault, continues where it was, and says by BRK that it is over.

mod calls;
mod deep;
mod instructions;
mod memory;
mod random;
mod state;
mod storms;

use crate::registers::Fresh;
use bulkhead_component::call::receive;
use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering};

/// End point of the accomplice, in the table that the attacker has too.
const ACCOMPLICE: u64 = 18;

bulkhead_component::counts! {
    /// What attacks got that is not theirs: calls that were granted, registers that did not stay, accesses that came back.
    pub succeeded;
}

/// Slots of what the attacker may use: a Send or a Call, and a Receive of its own.
static OWN: [AtomicU64; 2] = [AtomicU64::new(1), AtomicU64::new(2)];

/// Says in which slots that is, for an attacker whose table is another one than the suite's.
pub fn own_slots(send: u64, receive: u64) {
    // One core, and nobody else writes them.
    OWN.iter().zip([send, receive]).for_each(|(slot, number)| slot.store(number, Ordering::Relaxed));
}

fn own_send() -> u64 {
    // As above.
    OWN[0].load(Ordering::Relaxed)
}

fn own_receive() -> u64 {
    // As above.
    OWN[1].load(Ordering::Relaxed)
}

bulkhead_component::noinit! {
    /// How often the accomplice was woken.
    static WOKEN: AtomicU64 = AtomicU64::new(0);
    /// How far an attack is that is begun again: nothing else outlives a fault.
    static PROGRESS: AtomicU64 = AtomicU64::new(0);
}

/// Tries one.
pub fn run(number: u64, fresh: &Fresh) {
    match number {
        1..=29 => memory::run(number),
        30..=69 => instructions::run(number),
        70..=99 => state::run(number, fresh),
        100..=149 => calls::run(number),
        150..=199 => storms::run(number),
        200..=207 => memory::sweep(number),
        208 => storms::faults(),
        220..=249 => random::run(number),
        300..=329 => deep::run(number),
        // A beginning that the umpire did not ask for, and numbers without an attack.
        _ => {}
    }
}

/// Takes what the attacker sends: a second thread of the same component.
pub fn accomplice() {
    // Without its end point it would keep the core for itself.
    while receive(ACCOMPLICE, 0).is_ok() {
        // One core, and nobody else writes it.
        WOKEN.fetch_add(1, Ordering::Relaxed);
    }
}

/// Next step of an attack that is begun again after each step that faults; `None` behind the last one.
fn step(steps: u64) -> Option<u64> {
    // One core: the order of what this thread does is the order in which it sees it.
    let at = PROGRESS.load(Ordering::Relaxed);
    if at >= steps {
        // For the next one.
        PROGRESS.store(0, Ordering::Relaxed);
        return None;
    }
    PROGRESS.store(at + 1, Ordering::Relaxed);
    Some(at)
}

/// Says that an attack that is begun again is over.
fn over() {
    // SAFETY: an exception that the kernel takes: the thread ends here.
    unsafe { asm!("brk #0xd0e") }
}
