//! Time that a client gives to a more important server, in phases that nothing has in common, and when that server works for it. What is given is kept back at first, and given a second time later.

use crate::{MILLISECOND, claim, over, told};
use bulkhead_component::{call, mixed, println, schedule};
use core::sync::atomic::{AtomicU64, Ordering};

/// Between two gifts there is at least the client's period, and up to another one.
const CLIENT_PERIOD: u64 = 20 * MILLISECOND;
/// The two gifts. Something is left of a budget of 2 ms: who has given everything cannot run to wait, and stays in front of whom it gave it to.
const GIFTS: [u64; 2] = [MILLISECOND / 2, MILLISECOND];
/// How long a server works for one signal.
const WORKS: u64 = 15 * MILLISECOND;
/// A longer time between two looks at the counter is an absence; a look takes less.
const ABSENCE: u64 = 100;
/// After so long without a signal nobody gives any more.
const PATIENCE: u64 = 200 * MILLISECOND;
/// Most times that are told; further ones are counted.
const MOST: usize = 1024;

/// From when to when it worked: not on a stack, which each role has.
static RAN: [[AtomicU64; 2]; MOST] = [const { [AtomicU64::new(0), AtomicU64::new(0)] }; MOST];

/// Gives twice for each of `times` signals, of which only the second is told.
pub(crate) fn give(times: u64) {
    let (mut date, mut refused) = (call::counter_ticks() + CLIENT_PERIOD, 0_u64);
    for time in 0..times {
        for (gift, ticks) in (0..).zip(GIFTS) {
            date += CLIENT_PERIOD + mixed(time, gift) % CLIENT_PERIOD;
            let _ = call::receive(0, date);
            // Only the second one is told.
            refused += u64::from(schedule::delegate(over(), claim(), ticks, 0, gift != 0).is_err());
        }
    }
    println!("gifts: {refused} of {} refused", 2 * times);
}

/// Works whenever it is told, as much as it can, and says when it did.
pub(crate) fn take() {
    let (mut count, mut signals) = (0, 0_u64);
    while let Ok((_, more)) = call::receive(told(), call::counter_ticks() + PATIENCE) {
        signals += more;
        let (mut from, mut before) = (call::counter_ticks(), call::counter_ticks());
        let end = from + WORKS;
        while before < end {
            let now = call::counter_ticks();
            if now - before > ABSENCE || now >= end {
                let until = if now - before > ABSENCE { before } else { now };
                for (place, ticks) in RAN.get(count).into_iter().flatten().zip([from, until]) {
                    place.store(ticks, Ordering::Relaxed);
                }
                count += 1;
                from = now;
            }
            before = now;
        }
    }
    for one in RAN.iter().take(count) {
        let [from, until] = one.each_ref().map(|ticks| ticks.load(Ordering::Relaxed));
        println!("ran {from} {until}");
    }
    println!("told: {signals} times, {count} runs");
}
