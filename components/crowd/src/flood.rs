//! A job on one core, and floods of others while it runs. The job says when they begin and when they end. Numbers are printed as long as each other, so that what is printed
//! takes as many calls in each run.

use crate::{compute, give_way, one, over, three, told, two};
use bulkhead_component::call::{self, counter_ticks};
use bulkhead_component::range::Range;
use bulkhead_component::{Code, interface, mixed, println};
use bulkhead_kernel_abi::call::{Call, Flag};
use core::hint::black_box;

/// The bit of a listener's end point that says that the job is over; floods signal others.
const IS_OVER: u64 = 1;
/// What is under way when the job ends has come after this time: 2 ms.
const LATE_TICKS: u64 = 125_000;

/// What somebody floods with; states whether there was room for it.
type Flood = fn() -> bool;

/// Signals the job's core.
pub(crate) fn signal() -> bool {
    interface::invoke(one(), [0; 8]).is_ok()
}

/// A null call of its own instance.
pub(crate) fn call() -> bool {
    call::version().is_ok()
}

/// States whether somebody has signalled.
fn is_told() -> bool {
    let flags = Flag::All.number() | Flag::NoWait.number();
    call::call::<{ Call::Receive.number() }>([told(), flags, 0, 0, 0, 0, 0, 0])[0] == Code::Ok.number()
}

/// From one signal of the job to the next: floods this often at once, at a distance in instructions.
pub(crate) fn flood(distance: u64, at_once: u64, flood: Flood) {
    if let Err(code) = call::receive(told(), 0) {
        return println!("flood: {code:?}");
    }
    let (mut done, mut busy) = (0_u64, 0_u64);
    loop {
        for _ in 0..at_once {
            if flood() {
                done += 1;
            } else {
                busy += 1;
            }
        }
        compute(distance);
        give_way();
        if is_told() {
            break;
        }
    }
    println!("flood: {done:08}, {busy:08} more had no room");
}

/// Tells all floods; an empty slot is none.
fn tell_floods() {
    for slot in [one(), two(), three()] {
        let _ = interface::invoke(slot, [0; 8]);
    }
}

/// The job: computes, at each distance makes a null call if it is to, and lets others have their turns.
pub(crate) fn work(distance: u64, instructions: u64, calls: bool) {
    tell_floods();
    // They wake up, and are at it when the job begins.
    give_way();
    let rounds = instructions / distance;
    let begun = counter_ticks();
    for _ in 0..rounds {
        compute(distance);
        if calls {
            let _ = call::version();
        }
        give_way();
    }
    let ticks = counter_ticks() - begun;
    tell_floods();
    let _ = interface::invoke(over(), [0; 8]);
    println!("job: {ticks:012} ticks, {rounds:08} rounds");
}

/// Words that a victim looks at.
const WORDS: u64 = 256;

/// The victim: sums numbers in its memory and makes a null call, again and again, and compares what comes of it and how long it takes. Who attacks has a turn
/// behind each round, so what the kernel does about it is behind the round as well, or shows in its length.
pub(crate) fn watch(rounds: u64) {
    let mut memory = [0_u64; WORDS as usize];
    for (word, place) in memory.iter_mut().zip(0..) {
        *word = mixed(place, WORDS);
    }
    let sum = |memory: &[u64]| black_box(memory).iter().fold(0_u64, |sum, word| sum.rotate_left(5) ^ word);
    let expected = sum(&memory);
    let (mut range, mut wrong) = (Range::EMPTY, 0_u64);
    tell_floods();
    for _ in 0..rounds {
        give_way();
        let before = counter_ticks();
        let found = sum(&memory);
        let answer = call::version();
        range.add(counter_ticks() - before);
        wrong += u64::from(found != expected) + u64::from(answer.is_err());
    }
    tell_floods();
    let _ = interface::invoke(over(), [0; 8]);
    range.print("victim");
    println!("victim: sum {expected:#x}, wrong {wrong}");
}

/// Takes what the floods signal until the job is over, and what comes late; or for this number of milliseconds.
pub(crate) fn listen(milliseconds: u64) {
    let end_ticks = counter_ticks() + milliseconds * LATE_TICKS / 2;
    let (mut woken, mut taken, mut until_ticks) = (0_u64, 0_u64, if milliseconds == 0 { 0 } else { end_ticks });
    loop {
        match call::receive(told(), until_ticks) {
            Ok((bits, count)) => {
                woken += 1;
                taken += count;
                if bits & IS_OVER != 0 {
                    taken -= 1;
                    until_ticks = counter_ticks() + LATE_TICKS;
                }
            }
            Err(Code::TimedOut) => break,
            Err(code) => return println!("listener: {code:?}"),
        }
    }
    println!("listener: {taken:08} signals, woken {woken:08}");
}
