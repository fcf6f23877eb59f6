//! Storms of a function's own line (H16): never acknowledged, or raised and taken back in a loop.

use crate::edu::Edu;
use crate::number;
use bulkhead_sdk::interrupt::{self, InterruptId};
use bulkhead_sdk::{cpu, println, psci};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

static TAKEN: AtomicU64 = AtomicU64::new(0);
static ENOUGH: AtomicU64 = AtomicU64::new(u64::MAX);

pub(crate) fn run(text: &str, function: Edu) {
    let line = InterruptId(number(text, "line", 0) as u32);
    let count = number(text, "count", 1);
    let drops = number(text, "drop", 0) == 1;
    if !drops {
        ENOUGH.store(count, Relaxed);
    }
    interrupt::on_interrupt(take);
    interrupt::start();
    interrupt::set_edge(line, false);
    interrupt::enable(line);
    cpu::unmask_interrupts();
    println!("intruder: storms");
    let rounds = if drops { count } else { 1 };
    for _ in 0..rounds {
        // Masked, because nobody gets from one instruction to the next under a line that stays high.
        cpu::mask_interrupts();
        function.raise();
        if drops {
            function.acknowledge();
        }
        cpu::unmask_interrupts();
    }
    cpu::wait_until(|| drops);
    println!("intruder: storm over, raised {rounds} times, some taken={}", TAKEN.load(Relaxed) != 0);
}

/// Does nothing about it, so it comes again.
fn take(_: InterruptId) {
    let taken = TAKEN.fetch_add(1, Relaxed) + 1;
    if taken == ENOUGH.load(Relaxed) {
        println!("intruder: storm over, taken {taken} times");
        psci::system_off();
    }
}
