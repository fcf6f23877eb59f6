//! Calls of a scheduler, by its own thread: its two others can run when it begins.

use crate::{IS_OVER, Row, TOOK, counted, note, once};
use bulkhead_component::{call, println, task};
use bulkhead_kernel_abi::call::{Call, TcapOperation as Claim};
use core::sync::atomic::Ordering;

const SCHEDULER: u64 = 1;
/// The claim that its server has itself.
const OWN: u64 = 2;
/// Its threads.
const MEMBERS: [u64; 2] = [3, 4];
/// Empty slots.
const FIRST: u64 = 16;
/// More than there can be.
const LAST: u64 = 96;
/// 10 ms.
const A_WHILE: u64 = 625_000;

pub(crate) fn count() {
    let mut row = Row::new("events");
    for _ in 0..2 {
        row.add(counted::<{ Call::Events.number() }>([SCHEDULER, 0, call::counter_ticks() + A_WHILE, 0, 0, 0, 0, 0]));
    }
    // There is none any more: the scheduler waits, and its server has nobody to run.
    note();
    let _ = call::call::<{ Call::Events.number() }>([SCHEDULER, 0, call::counter_ticks() + A_WHILE, 0, 0, 0, 0, 0]);
    row.range.add(TOOK.load(Ordering::Relaxed));
    row.say();
    const TCAP: u16 = Call::Tcap.number();
    let of = |operation: Claim, x1: u64, x2: u64, x3: u64| [operation.number(), x1, x2, x3, 0, 0, 0, 0];
    // As many as there is room for: the last one was looked for longest.
    let (mut row, mut last) = (Row::new("tcap.create"), FIRST);
    for slot in FIRST..LAST {
        let answer = counted::<TCAP>(of(Claim::Create, SCHEDULER, slot, 0));
        if answer.code != 0 {
            break;
        }
        row.add(answer);
        last = slot;
    }
    row.say();
    println!("claims: {}", last - FIRST + 1);
    let give = |to: u64| call::call::<{ Call::Delegate.number() }>([to, OWN, A_WHILE, 0, 0, 0, 0, 0]);
    give(last);
    give(FIRST);
    once::<TCAP>("tcap.transfer", of(Claim::Transfer, FIRST, last, A_WHILE / 2));
    once::<TCAP>("tcap.read", of(Claim::Read, last, 0, 0));
    once::<TCAP>("tcap.priority", of(Claim::Priority, last, 7, 0));
    once::<TCAP>("tcap.merge", of(Claim::Merge, FIRST, last, 0));
    for thread in MEMBERS {
        let _ = task::stop(thread);
    }
    IS_OVER.store(1, Ordering::Relaxed);
    println!("bench done");
}
