//! Sliced calls: interrupted after each slice they come to the same, and what is abandoned is destroyed (QV-E6, CH-60).

mod support;

use bulkhead_kernel_abi::Code;
use bulkhead_kernel_abi::call::{Call, CapabilityOperation, ComponentOperation, MemoryOperation, ThreadOperation};
use bulkhead_objects::Outcome;
use support::pool::*;
use support::state::Copy;
use support::*;

const SPAWN: u64 = ComponentOperation::Spawn.number();
const FORK: u64 = ComponentOperation::Fork.number();
const EXEC: u64 = ComponentOperation::Exec.number();
const DESTROY: u64 = ComponentOperation::Destroy.number();
const RESET: u64 = ComponentOperation::Reset.number();

/// What interrupts may change: how often the core was looked at, and what the caller has in its registers.
fn settled(b: &mut Bench<'_>) -> Copy {
    while b.objects.work(&mut b.world) {}
    let state = Copy::of(b);
    state.world.looks.set(0);
    state
}

/// Makes a call that is interrupted at the n-th look of each of its passages; returns how many passages there were.
fn interrupted(b: &mut Bench<'_>, call: Call, x: &[u64], at: u32) -> u32 {
    let me = b.objects.running().expect("runs");
    for passages in 1..500 {
        b.world.looks.set(at);
        if b.objects.running().is_none() {
            // An `exec` continues when its thread is chosen; somebody else may be first.
            let _ = b.objects.choose(&mut b.world, 0);
            continue;
        }
        let pc = b.thread(me).registers.pc;
        match b.svc(call, x) {
            Outcome::Again => assert_eq!(b.thread(me).registers.pc, pc, "the pc is left at the call"),
            Outcome::Done => return passages,
        }
        check_pool(b);
    }
    panic!("it never ends");
}

#[test]
fn interrupted_after_each_slice_it_comes_to_the_same() {
    let map = MemoryOperation::Map.number();
    let small = share(10, 0, 0, 0);
    let steps: &[(u16, Call, &[u64])] = &[
        (0, Call::Component, &USUAL),
        (1, Call::Memory, &[MemoryOperation::Create.number(), OWN_QUOTA, 9, 10]),
        (1, Call::Memory, &[map, 10, 0, 0x1000_0000, 4, R | W]),
        (1, Call::Memory, &[MemoryOperation::Protect.number(), 10, 0x1000_0000, 2, R]),
        (1, Call::Memory, &[MemoryOperation::Unmap.number(), 10, 0x1000_1000, 3]),
        (1, Call::Component, &[FORK, OWN_QUOTA, OWN_SERVER, 20, share(12, 0, 0, 0)]),
        (1, Call::Component, &[DESTROY, 20]),
        (1, Call::Capability, &[CapabilityOperation::Delete.number(), 0, 20]),
        (1, Call::Component, &[FORK, OWN_QUOTA, OWN_SERVER, 20, share(12, 0, 0, 0)]),
        (0, Call::Component, &[RESET, EMPTY]),
        (0, Call::Component, &[SPAWN, 1, QUOTA, SERVER, CALL_SERVICE, 9, EMPTY + 1, small]),
        (0, Call::Component, &[DESTROY, EMPTY]),
        (0, Call::Component, &[DESTROY, EMPTY + 1]),
    ];
    let run = |at: u32| {
        let mut states = Vec::new();
        let mut most = 0;
        bench_of(&Rows::with_pool(), |b| {
            b.start(&[0]);
            for (who, call, x) in steps {
                let who = if *who == 0 { 0 } else { b.component(5).first_thread };
                until(b, who);
                let passages = interrupted(b, *call, x, at);
                assert_eq!(b.thread(who).registers.x[0], 0, "{call:?} {x:?}");
                assert!(at != 0 || passages == 1);
                most = most.max(passages);
                states.push(settled(b));
            }
            all_is_back(b);
        });
        (states, most)
    };
    let (whole, _) = run(0);
    for at in 1..60 {
        let (pieces, passages) = run(at);
        assert!(at > 8 || passages > 3, "at {at} nothing was interrupted");
        for (step, (one, other)) in whole.iter().zip(&pieces).enumerate() {
            assert!(one == other, "{:?} interrupted at look {at}", steps[step]);
        }
    }
}

/// CH-60: between two slices its thread is chosen again, so a date that comes meanwhile is somebody else's turn; the pool is whole after each of them.
#[test]
fn an_exec_is_one_slice_for_each_choice() {
    with_child(|b, child| {
        let me = first_of(b, child);
        until(b, me);
        assert_eq!(b.svc(Call::Component, &[EXEC, 1, 42]), Outcome::Done);
        let mut slices = 0;
        while b.thread(me).is_in_exec {
            // Nothing asks for the core meanwhile.
            b.world.looks.set(0);
            slices += 1;
            let _ = b.objects.choose(&mut b.world, 0);
            check_pool(b);
        }
        assert_eq!(b.pick(0), Some(me));
        assert_eq!(slices, 11, "what is taken apart, and what is put there");
    });
}

#[test]
fn what_was_begun_and_abandoned_is_destroyed() {
    // Pages and slots of a process that is usual: a look behind each.
    for at in 1..=7 {
        for how in 0..4 {
            bench_of(&Rows::with_pool(), |b| {
                b.start(&[0, 4]);
                b.pick(0);
                b.world.looks.set(at);
                assert_eq!(b.svc(Call::Component, &USUAL), Outcome::Again);
                assert!(b.objects.room().processes[5].is_made);
                match how {
                    // The maker makes another call, which it can only when its text was changed meanwhile.
                    0 => assert_eq!(b.call(Call::Version, &[]), Code::Ok),
                    // It is stopped by another one.
                    1 => {
                        until(b, 4);
                        assert_eq!(b.call(Call::Thread, &[ThreadOperation::Stop.number(), THREAD]), Code::Ok);
                    }
                    // Its component is reset.
                    2 => {
                        until(b, 4);
                        assert_eq!(b.call(Call::Component, &[RESET, COMPONENT_APP]), Code::Ok);
                    }
                    // The slot is not empty any more, when it comes to its end.
                    _ => {
                        until(b, 4);
                        let copy = CapabilityOperation::Copy.number();
                        assert_eq!(b.call(Call::Capability, &[copy, 0, SEND_APP, 26, 1, 0]), Code::BadCapability);
                        assert_eq!(b.call(Call::Component, &[DESTROY, COMPONENT_APP]), Code::Ok);
                    }
                }
                while b.objects.work(&mut b.world) {}
                all_is_back(b);
            });
        }
    }
}

/// Who pays for an end that nobody waits for may come to its end between two slices of a call: the call that is made again finds nothing left to do, and not
/// a void capability.
#[test]
fn a_destroy_or_reset_that_somebody_else_finished_is_done() {
    for operation in [DESTROY, RESET] {
        for at in 1..30 {
            bench_of(&Rows::with_pool(), |b| {
                b.start(&[0]);
                until(b, 0);
                assert_eq!(b.call(Call::Component, &USUAL), Code::Ok);
                until(b, 0);
                b.world.looks.set(at);
                let mut outcome = b.svc(Call::Component, &[operation, EMPTY]);
                if outcome == Outcome::Again {
                    while b.objects.work(&mut b.world) {}
                    until(b, 0);
                    outcome = b.svc(Call::Component, &[operation, EMPTY]);
                }
                assert_eq!((outcome, b.thread(0).registers.x[0]), (Outcome::Done, 0), "{operation} at {at}");
            });
        }
    }
}
