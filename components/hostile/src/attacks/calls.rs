//! Calls with values that a program has no reason to pass: each slot, each word.

use super::{own_receive, own_send, succeeded};
use crate::kernel::{capability, code, invoke, poll};
use crate::registers::exchange;
use bulkhead_component::call::{call, counter_ticks, receive};
use bulkhead_component::{Code, println};
use bulkhead_kernel_abi::call::{Call, CapabilityOperation};

/// Empty slots of its table.
const ROOM: u64 = 20;
const MORE_ROOM: u64 = 21;
/// One past its last slot.
const SLOTS: u64 = 24;

/// Values at which something begins or ends.
pub(super) const VALUES: [u64; 28] = [
    0,
    1,
    2,
    7,
    8,
    23,
    24,
    55,
    63,
    64,
    127,
    128,
    255,
    256,
    1023,
    1024,
    0xffff,
    0x1_0000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    1 << 32,
    (1 << 32) + 1,
    0xffff_ff80_4008_0000,
    0x7fff_ffff_ffff_ffff,
    1 << 63,
    u64::MAX - 1,
    u64::MAX,
];

pub(super) fn run(number: u64) {
    match number {
        102 => slots::<{ Call::Receive.number() }>(
            |slot, _, value| [slot, 1 | value & 2, value, 0, 0, 0, 0, 0],
            own_receive(),
        ),
        103 => slots::<{ Call::Events.number() }>(|slot, _, value| [slot, 1, value, value, 0, 0, 0, 0], SLOTS),
        104 => slots::<{ Call::Switch.number() }>(|slot, other, value| [slot, other, value, value, 0, 0, 0, 0], SLOTS),
        106 => {
            slots::<{ Call::Delegate.number() }>(|slot, other, value| [slot, other, value, value, 4, 0, 0, 0], SLOTS)
        }
        107 => operations::<{ Call::Tcap.number() }>(&[]),
        108 => operations::<{ Call::Interrupt.number() }>(&[]),
        109 => operations::<{ Call::Thread.number() }>(&[]),
        110 => operations::<{ Call::Server.number() }>(&[]),
        111 => operations::<{ Call::Memory.number() }>(&[]),
        // Copies and moves between own slots are its right: here the table is always named by a slot that is none, or without a right to it.
        112 => operations::<{ Call::Capability.number() }>(&[CapabilityOperation::Revoke.number()]),
        // `exec` and `exit` are about the own component and need no capability.
        113 => operations::<{ Call::Component.number() }>(&[2, 3]),
        120 => no_calls(),
        121 => lengths(),
        122..=126 => table(number),
        127 => invokes(),
        128 => past(),
        129 => println!("{:?}", receive(0, u64::MAX - 1)),
        130 => println!("{:?}", receive(0, i64::MAX as u64)),
        131 => println!("{:?}", receive(0, 1 << 63)),
        132 => println!("{:?}", receive(own_receive(), 0)),
        133 => flags(),
        _ => {}
    }
}

/// What was granted of what was tried.
#[derive(Default)]
struct Tried {
    all: u64,
    granted: u64,
}

impl Tried {
    fn count(&mut self, answer: [u64; 8]) {
        self.all += 1;
        self.granted += u64::from(code(answer) == Code::Ok);
    }
}

impl Drop for Tried {
    fn drop(&mut self) {
        succeeded::count().add(self.granted);
        println!("tried {}, granted {}", self.all, self.granted);
    }
}

/// Slots of the own table, and values that are none.
fn places() -> impl Iterator<Item = u64> + Clone {
    (0..SLOTS).chain(VALUES.into_iter().filter(|value| *value >= SLOTS))
}

/// A call without operations, of every slot but one that is the attacker's own.
fn slots<const NUMBER: u16>(arguments: fn(u64, u64, u64) -> [u64; 8], own: u64) {
    let mut tried = Tried::default();
    for slot in places().filter(|slot| *slot != own) {
        for (value, other) in VALUES.into_iter().zip(places().cycle().skip(slot as usize % 7)) {
            tried.count(call::<NUMBER>(arguments(slot, other, value)));
        }
    }
}

/// A call of operations: each of them, and numbers that are none, with every slot.
fn operations<const NUMBER: u16>(but: &[u64]) {
    let mut tried = Tried::default();
    // Where 0 is the own table it is left out.
    let first = u64::from(NUMBER == Call::Capability.number());
    for operation in (0..18).chain([255, 256, 1 << 32, 1 << 63, u64::MAX]).filter(|one| !but.contains(one)) {
        for slot in places().filter(|slot| *slot >= first) {
            for (value, other) in VALUES.into_iter().zip(places().cycle().skip(slot as usize % 11)) {
                tried.count(call::<NUMBER>([operation, slot, value, other, value, value, other, slot]));
            }
        }
    }
}

/// Numbers of SVC that are no call's.
fn no_calls() {
    for number in 16..crate::registers::NUMBERS {
        let found = exchange(number, &[3; 33]);
        println!("code {}", found[0]);
    }
}

/// More text than registers hold. What could be right is not tried.
fn lengths() {
    let mut tried = Tried::default();
    for length in (57..300).chain(VALUES.into_iter().filter(|length| *length > 56)) {
        tried.count(call::<{ Call::Print.number() }>([length, 0x2e2e, 0, 0, 0, 0, 0, 0]));
    }
}

/// The own table.
fn table(number: u64) {
    let copy =
        |from: u64, to: u64, rights: u64| capability([CapabilityOperation::Copy.number(), 0, from, 0, to, rights]);
    let moved = |from: u64, to: u64| capability([CapabilityOperation::Move.number(), 0, from, 0, to, 0]);
    let delete = |slot: u64| capability([CapabilityOperation::Delete.number(), 0, slot, 0, 0, 0]);
    let revoke = |slot: u64| capability([CapabilityOperation::Revoke.number(), slot, 0, 0, 0, 0]);
    match number {
        // A copy has no right that its source has not.
        122 => {
            println!("{:?} {:?} {:?}", copy(own_send(), ROOM, u64::MAX), revoke(ROOM), invoke(ROOM));
            println!("{:?} {:?}", copy(ROOM, MORE_ROOM, 0), invoke(MORE_ROOM));
            println!("{:?} {:?}", delete(ROOM), delete(MORE_ROOM));
        }
        // Full, null, outside, empty.
        123 => {
            println!(
                "{:?} {:?} {:?}",
                copy(own_send(), own_receive(), 1),
                copy(own_send(), 0, 1),
                copy(own_send(), SLOTS, 1)
            );
            println!("{:?} {:?} {:?}", copy(ROOM, MORE_ROOM, 1), moved(0, ROOM), delete(ROOM));
        }
        // Used after it was deleted.
        124 => println!("{:?} {:?} {:?}", copy(own_send(), ROOM, 0xff), delete(ROOM), invoke(ROOM)),
        // Used where it was before it was moved.
        125 => {
            println!("{:?} {:?} {:?}", moved(own_send(), ROOM), invoke(own_send()), invoke(ROOM));
            println!("{:?} {:?}", moved(ROOM, own_send()), invoke(own_send()));
        }
        // Every slot without the right to revoke.
        _ => {
            let revoked = (0..SLOTS).filter(|slot| revoke(*slot) == Code::Ok).count();
            succeeded::count().add(revoked as u64);
            println!("{revoked}");
        }
    }
}

/// Every slot that is no Send or Call of the attacker's, and every value.
fn invokes() {
    let granted = places().filter(|slot| *slot != own_send() && invoke(*slot) == Code::Ok).count();
    succeeded::count().add(granted as u64);
    println!("tried {}, granted {granted}", places().count() - 1);
}

/// Dates that have passed.
fn past() {
    let now = counter_ticks();
    println!("{:?} {:?} {:?}", receive(0, 1), receive(0, now), receive(own_receive(), now - 1));
    println!("{:?} {:?}", receive(0, 0), poll(own_receive()));
}

/// Flags that there are not.
fn flags() {
    let mut tried = Tried::default();
    for bit in 2..64 {
        tried.count(call::<{ Call::Receive.number() }>([own_receive(), 1 << bit | 1, 0, 0, 0, 0, 0, 0]));
    }
}
