//! Random calls of components that make, fork, replace and destroy processes and share memory, interrupted at random, against what must always be
//! true of threads, stacks, rights and pages (QV-E6, CH-60, CH-61, CH-62). What a call did not change that was refused is compared with a copy of all state.

#[path = "../../sched/tests/support/random.rs"]
mod random;
mod support;

use bulkhead_kernel_abi::Code;
use bulkhead_kernel_abi::accounts::FaultRecord;
use bulkhead_kernel_abi::call::{Call, ComponentOperation, MemoryOperation, ThreadOperation};
use bulkhead_objects::{Choice, Outcome, Sliced};
use random::Random;
use std::collections::{BTreeMap, BTreeSet};
use support::model::Model;
use support::pool::*;
use support::state::Copy;
use support::*;

const STEPS: u64 = 40;

/// What was seen in all cases.
#[derive(Default)]
struct Seen {
    done: BTreeMap<(Call, u64), u64>,
    again: BTreeMap<(Call, u64), u64>,
    refused: BTreeSet<(Call, u64, Code)>,
    abandoned: u64,
}

impl Seen {
    /// And what was seen elsewhere.
    fn and(mut self, other: Self) -> Self {
        for (mine, others) in [(&mut self.done, other.done), (&mut self.again, other.again)] {
            others.into_iter().for_each(|(what, times)| *mine.entry(what).or_insert(0) += times);
        }
        self.refused.extend(other.refused);
        self.abandoned += other.abandoned;
        self
    }
}

/// A slot of a table of 64 or 40: mostly one of the first.
fn slot(random: &mut Random) -> u64 {
    match random.below(16) {
        0 => random.next(),
        1..=3 => random.below(64),
        _ => random.below(12),
    }
}

/// An address: mostly one that something is or may be at.
fn address(random: &mut Random) -> u64 {
    let known = [TEXT, CONSTANTS, DATA, DATA + 0x1000, STACK, 0x1000_0000, 0x1000_1000, 0x2000_0000, 0x2000_0800];
    if random.below(16) == 0 { random.next() } else { known[random.index(known.len())] }
}

fn rights(random: &mut Random) -> u64 {
    [R, R | W, R | W, R, R | X, R | W | X, W, random.next()][random.index(8)]
}

fn granted(random: &mut Random) -> u64 {
    if random.below(16) == 0 {
        return random.next();
    }
    share([8, 9, 12, 20, 30][random.index(5)], random.below(3), random.below(3), random.below(2))
}

/// Arguments for a call that has a chance: of a process, or of the application, whose slots are others.
fn arguments(random: &mut Random, is_host: bool, call: Call) -> [u64; 8] {
    let quota = if is_host { QUOTA } else { OWN_QUOTA };
    let server = if is_host { SERVER } else { 3 };
    let empty = |random: &mut Random| if is_host { EMPTY + random.below(4) } else { 8 + random.below(6) };
    let memory = |random: &mut Random| if is_host { MEMORY } else { [2, 2, 8, 8 + random.below(6)][random.index(4)] };
    let often = |random: &mut Random, usual: u64| if random.below(12) == 0 { slot(random) } else { usual };
    let (to, of, q, s) = (empty(random), memory(random), often(random, quota), often(random, server));
    let pages = if random.below(16) == 0 { random.next() } else { random.below(4) };
    match call {
        Call::Memory => match random.below(7) {
            0 | 1 => [MemoryOperation::Map.number(), of, random.below(3), address(random), pages, rights(random), 0, 0],
            2 => [MemoryOperation::Unmap.number(), [0, of][random.index(2)], address(random), pages, 0, 0, 0, 0],
            3 | 6 => [
                MemoryOperation::Protect.number(),
                [0, of][random.index(2)],
                address(random),
                pages,
                rights(random),
                0,
                0,
                0,
            ],
            4 => [MemoryOperation::Share.number(), of, random.below(3), pages, random.next(), to, 0, 0],
            _ => [MemoryOperation::Create.number(), q, pages, to, 0, 0, 0, 0],
        },
        Call::Component => match random.below(12) {
            0..=2 => {
                let (first, count) = [(of, 6), (MEMORY, 6), (0, 0), (slot(random), slot(random))][random.index(4)];
                [ComponentOperation::Spawn.number(), random.below(3), q, s, first, count, to, granted(random)]
            }
            3..=5 => [ComponentOperation::Fork.number(), q, s, to, granted(random), 0, 0, 0],
            6 => [ComponentOperation::Exec.number(), random.below(3), 5, 0, 0, 0, 0, 0],
            7 => [ComponentOperation::Exit.number(), 3, 0, 0, 0, 0, 0, 0],
            8 | 9 => [ComponentOperation::Destroy.number(), to, 0, 0, 0, 0, 0, 0],
            10 => [ComponentOperation::Reset.number(), to, 0, 0, 0, 0, 0, 0],
            _ => [ComponentOperation::Read.number(), to, 0, 0, 0, 0, 0, 0],
        },
        Call::Thread => match random.below(3) {
            0 => [ThreadOperation::Create.number(), q, s, TEXT, STACK, to, 0, 0],
            1 => [ThreadOperation::Start.number(), to, 0, 0, 0, 0, 0, 0],
            _ => [1 + random.below(9), to, s, 0, 0, 0, 0, 0],
        },
        Call::Capability => {
            let operation = [0, 0, 1, 2, 2, 2, 3, 4][random.index(8)];
            match operation {
                2 => [2, 0, to, 0, 0, 0, 0, 0],
                _ => [operation, 0, slot(random), 0, to, random.next(), 0, 0],
            }
        }
        _ => [0; 8],
    }
}

/// Whether something is only continued: then what it began with does not say what is refused.
fn make_call(b: &mut Bench<'_>, random: &mut Random, seen: &mut Seen) {
    let Choice::Run(me) = b.objects.choose(&mut b.world, 0) else { return };
    let was = *b.thread(me);
    let is_host = was.home == APP;
    let calls = [
        Call::Memory,
        Call::Memory,
        Call::Component,
        Call::Component,
        Call::Component,
        Call::Thread,
        Call::Capability,
        Call::Yield,
    ];
    let mut call = calls[random.index(calls.len())];
    let mut x = arguments(random, is_host, call);
    // An interrupted call is made again, but for what cannot be and must not matter.
    if was.sliced != Sliced::NONE && random.below(8) != 0 {
        call = Call::from_number(u64::from(was.sliced.call & 0xff)).expect("a call");
        x.copy_from_slice(&was.registers.x[..8]);
    } else if was.sliced != Sliced::NONE {
        seen.abandoned += 1;
    }
    let registers = b.objects.registers().expect("runs");
    registers.x[..8].copy_from_slice(&x);
    registers.pc += 4;
    b.world.looks.set(random.below(24) as u32);
    let before = Copy::of(b);
    let outcome = b.objects.call(&mut b.world, call.number());
    let operation = if call == Call::Yield { 0 } else { x[0] };
    let is = *b.thread(me);
    if outcome == Outcome::Again {
        *seen.again.entry((call, operation)).or_insert(0) += 1;
        return;
    }
    let stayed = b.objects.running() == Some(me) && is.component == was.component && is.life == was.life;
    let code = Code::from_number(is.registers.x[0]).filter(|_| stayed && !is.is_in_exec);
    if code.is_none_or(|code| code == Code::Ok) {
        *seen.done.entry((call, operation)).or_insert(0) += 1;
        return;
    }
    if let Some(code) = code {
        assert_in_table(call, operation, code);
    }
    seen.refused.extend(code.map(|code| (call, operation, code)));
    if was.sliced == Sliced::NONE {
        let mut after = Copy::of(b);
        after.threads[usize::from(me)].registers.x[0] = x[0];
        after.world.looks = before.world.looks.clone();
        assert!(before == after, "{} {x:?} was refused with {code:?} and changed something", call.name());
    }
}

fn step(b: &mut Bench<'_>, random: &mut Random, seen: &mut Seen) {
    match random.below(24) {
        0 => b.used(random.below(15)),
        1 => b.objects.fault(&mut b.world, FaultRecord { kind: 1, ..Default::default() }),
        2..=5 => {
            b.objects.work(&mut b.world);
        }
        _ => make_call(b, random, seen),
    }
}

#[test]
fn random_processes_keep_every_invariant() {
    let rows = Rows::with_pool();
    let seen = random::check_on_cores("random processes", Seen::default, |random, seen| {
        bench_of(&rows, |b| {
            let mut model = Model::of_processes(b);
            b.start(&[0]);
            assert_eq!(b.pick(0), Some(0));
            for _ in 0..2 {
                let made = [0, QUOTA, SERVER, MEMORY, 6, EMPTY + random.below(4), share(24, 1, 1, 1)];
                let x: Vec<u64> = [0].into_iter().chain(made).collect();
                let _ = b.call(Call::Component, &x);
            }
            let mut changes = 0;
            for _ in 0..STEPS {
                b.world.log.clear();
                step(b, random, seen);
                model.check(b);
                // Looking at all tables is most of the work.
                if b.world.changes != changes || !b.world.log.is_empty() {
                    check_pool(b);
                }
                changes = b.world.changes;
            }
            // Everything that was made can be taken apart again.
            for _ in 0..2_000 {
                b.objects.work(&mut b.world);
            }
            check_pool(b);
        });
    });
    let seen = seen.into_iter().fold(Seen::default(), Seen::and);
    println!(
        "done: {:?}\nagain: {:?}\nrefused: {:?}\nabandoned: {}",
        seen.done, seen.again, seen.refused, seen.abandoned
    );
    if !random::is_short() {
        assert_seen(&seen);
    }
}

/// Every operation was done, and each sliced one was interrupted.
fn assert_seen(seen: &Seen) {
    let count =
        |of: &BTreeMap<(Call, u64), u64>, call: Call, operation: u64| of.get(&(call, operation)).copied().unwrap_or(0);
    for operation in MemoryOperation::ALL {
        assert!(count(&seen.done, Call::Memory, operation.number()) >= 100, "{operation:?}");
    }
    for operation in ComponentOperation::ALL.iter().filter(|operation| **operation != ComponentOperation::Fault) {
        assert!(count(&seen.done, Call::Component, operation.number()) >= 100, "{operation:?}");
    }
    assert!(count(&seen.done, Call::Thread, ThreadOperation::Create.number()) >= 100);
    let sliced = [MemoryOperation::Map, MemoryOperation::Unmap, MemoryOperation::Protect];
    for operation in sliced {
        // About a hundred times each: calls of ends have many more slices, and take most of the looks.
        assert!(count(&seen.again, Call::Memory, operation.number()) >= 40, "{operation:?}");
    }
    let sliced =
        [ComponentOperation::Spawn, ComponentOperation::Fork, ComponentOperation::Destroy, ComponentOperation::Reset];
    for operation in sliced {
        assert!(count(&seen.again, Call::Component, operation.number()) >= 100, "{operation:?}");
    }
    assert!(seen.abandoned >= 100);
    let refused = |call: Call, code: Code| seen.refused.iter().any(|(one, _, was)| (*one, *was) == (call, code));
    for code in [Code::BadArgument, Code::BadCapability, Code::Denied, Code::Full] {
        assert!(refused(Call::Memory, code) && refused(Call::Component, code), "{code:?}");
    }
    assert!(refused(Call::Memory, Code::Busy) && refused(Call::Component, Code::Busy));
}
