//! Processes: spawn, fork, exec, exit, destroy and reset, one test per row and code; interrupted after each slice, and abandoned (QV-E6, CH-60, CH-62).

mod support;

use bulkhead_kernel_abi::accounts::FaultKind;
use bulkhead_kernel_abi::call::{Call, CapabilityOperation, ComponentOperation, MemoryOperation, ThreadOperation};
use bulkhead_kernel_abi::image::COMPONENT_STACKS;
use bulkhead_kernel_abi::{Capability, Code, Kind, NONE};
use bulkhead_objects::{ComponentState, Outcome, ThreadState};
use support::pool::*;
use support::state::Copy;
use support::*;

const SPAWN: u64 = ComponentOperation::Spawn.number();
const FORK: u64 = ComponentOperation::Fork.number();
const EXEC: u64 = ComponentOperation::Exec.number();
const EXIT: u64 = ComponentOperation::Exit.number();
const DESTROY: u64 = ComponentOperation::Destroy.number();
const RESET: u64 = ComponentOperation::Reset.number();
const FAULT: u64 = ComponentOperation::Fault.number();
const READ: u64 = ComponentOperation::Read.number();
fn refused(b: &mut Bench<'_>, x: &[u64], code: Code) {
    let me = usize::from(b.objects.running().expect("runs"));
    let before = Copy::of(b);
    assert_eq!(b.call(Call::Component, x), code, "{x:?}");
    let mut after = Copy::of(b);
    after.threads[me].registers = before.threads[me].registers;
    assert!(before == after, "{x:?} was refused with {code:?} and changed something");
}

fn slots_of(b: &Bench<'_>, component: u16) -> Vec<Capability> {
    let one = b.component(component);
    b.objects.room().slots[one.first_slot as usize..][..one.slots as usize].to_vec()
}

#[test]
fn spawn_makes_a_process_of_a_program() {
    with_child(|b, child| {
        assert_eq!(child, 5, "the first number that the host left free");
        // Text and constants are those of the image; data and stack are its own.
        assert_eq!(mapped(b, child, TEXT), Some((IMAGE, R | X)));
        assert_eq!(mapped(b, child, CONSTANTS), Some((IMAGE + 0x1_0000, R)));
        for (address, first) in
            [(DATA, IMAGE + 0x2_0000), (DATA + 0x1000, IMAGE + 0x2_1000), (STACK, 0), (STACK + 0x1000, 0)]
        {
            assert_eq!(seen(b, child, address), Some(first));
            assert_eq!(mapped(b, child, address).map(|(_, rights)| rights), Some(R | W));
        }
        for empty in [TEXT - 0x1000, DATA + 0x2000, STACK - 0x1000] {
            assert_eq!(mapped(b, child, empty), None, "{empty:#x}");
        }
        let one = *b.component(child);
        assert_eq!((one.state, one.supervisor, one.supervisor_bits), (ComponentState::Living, 0, 1 << 5));
        let slots = slots_of(b, child);
        let kinds: Vec<_> = slots.iter().filter_map(Capability::kind).take(6).collect();
        assert_eq!(kinds, [Kind::Null, Kind::Quota, Kind::Server, Kind::TCap, Kind::RemoteSend, Kind::Send]);
        assert!(slots[6..].iter().all(|slot| *slot == Capability::NULL));
        // Its quota is a split of the caller's: what it gets, the caller has no more.
        let (own, above) = (b.objects.room().quotas[1], b.objects.room().quotas[0]);
        assert_eq!((own.pages, own.taken, own.parent, own.component), (40 - NEEDED as u32, NEEDED as u32, 0, child));
        assert_eq!((above.pages, above.components, above.threads, above.regions), (POOL_PAGES - 40, 1, 1, 3));
        let thread = first_of(b, child);
        until(b, thread);
        let registers = b.thread(thread).registers;
        assert_eq!((registers.pc, registers.sp, registers.x), (TEXT + 0x10, COMPONENT_STACKS, [0; 31]));
        assert_eq!((b.thread(thread).runs_on, b.thread(thread).label), (0, EMPTY));
        assert_eq!(b.objects.loaded().map(|(component, _)| component), Some(child));
    });
}

#[test]
fn spawn_refuses_and_changes_nothing() {
    bench_of(&Rows::with_pool(), |b| {
        b.start(&[0]);
        b.pick(0);
        let with = |at: usize, word: u64| {
            let mut x = USUAL;
            x[at] = word;
            x
        };
        for (at, word) in [(1, 2), (1, u64::MAX), (4, 38), (4, u64::MAX), (5, 63), (6, 0), (6, 41), (7, 1 << 56)] {
            refused(b, &with(at, word), Code::BadArgument);
        }
        for (at, word) in [(2, 0), (2, SERVER), (2, EMPTY), (3, 0), (3, QUOTA), (3, EMPTY)] {
            refused(b, &with(at, word), Code::BadCapability);
        }
        let full = [
            (6, QUOTA),
            (7, share(NEEDED - 1, 0, 0, 0)),
            (7, share(u64::from(POOL_PAGES) + 1, 0, 0, 0)),
            (7, share(40, 4, 0, 0)),
            (7, share(40, 0, 4, 0)),
            (7, share(40, 0, 0, 5)),
        ];
        for (at, word) in full {
            refused(b, &with(at, word), Code::Full);
        }
        // What may be used is not what may be bound to.
        let copy = CapabilityOperation::Copy.number();
        assert_eq!(b.call(Call::Capability, &[copy, 0, SERVER, 0, EMPTY, 1]), Code::Ok);
        assert_eq!(b.call(Call::Capability, &[copy, 0, QUOTA, 0, EMPTY + 1, R]), Code::Ok);
        let mut x = with(6, EMPTY + 2);
        x[3] = EMPTY;
        refused(b, &x, Code::Denied);
        x = with(6, EMPTY + 2);
        x[2] = EMPTY + 1;
        refused(b, &x, Code::Denied);
        check_pool(b);
        // All numbers of components are used up.
        for slot in [2, 3] {
            let small = [SPAWN, 1, QUOTA, SERVER, 0, 0, EMPTY + slot, share(6, 0, 0, 0)];
            assert_eq!(b.call(Call::Component, &small), Code::Ok);
        }
        let delete = CapabilityOperation::Delete.number();
        for slot in 0..4 {
            assert_eq!(b.call(Call::Capability, &[delete, 0, EMPTY + slot]), Code::Ok);
        }
        for slot in [0, 1] {
            let small = [SPAWN, 1, QUOTA, SERVER, 0, 0, EMPTY + slot, share(6, 0, 0, 0)];
            assert_eq!(b.call(Call::Component, &small), Code::Ok);
        }
        refused(b, &[SPAWN, 1, QUOTA, SERVER, 0, 0, EMPTY + 2, share(6, 0, 0, 0)], Code::Full);
        check_pool(b);
    });
}

/// The usual process runs and forks; returns its thread and the child.
fn fork(b: &mut Bench<'_>, parent: u16) -> (u16, u16) {
    let me = first_of(b, parent);
    until(b, me);
    assert_eq!(b.call(Call::Component, &[FORK, OWN_QUOTA, OWN_SERVER, 20, share(10, 0, 0, 0)]), Code::Ok);
    let [is_parent, bits] = b.answers(me);
    assert_eq!(is_parent, 1);
    (me, bits.trailing_zeros() as u16)
}

#[test]
fn fork_copies_memory_now_and_shares_text() {
    with_child(|b, parent| {
        let me = first_of(b, parent);
        until(b, me);
        assert_eq!(b.call(Call::Memory, &[MemoryOperation::Create.number(), OWN_QUOTA, 1, 10]), Code::Ok);
        assert_eq!(b.call(Call::Memory, &[MemoryOperation::Map.number(), 10, 0, 0x1000_0000, 1, R | W]), Code::Ok);
        assert_eq!(b.call(Call::Memory, &[MemoryOperation::Protect.number(), 0, DATA + 0x1000, 1, R]), Code::Ok);
        store(b, parent, 0x1000_0000, 11);
        store(b, parent, DATA, 22);
        store(b, parent, STACK, 33);
        for (number, register) in (0..).zip(&mut b.objects.registers().expect("runs").x) {
            *register = 0xa00 + number;
        }
        b.objects.registers().expect("runs").tpidr = 0x77;
        let (_, child) = fork(b, parent);
        check_pool(b);
        for (address, word) in [(DATA, 22), (STACK, 33), (0x1000_0000, 11), (DATA + 0x1000, IMAGE + 0x2_1000)] {
            assert_eq!(seen(b, child, address), Some(word), "{address:#x}");
            let (parents, childs) =
                (mapped(b, parent, address).expect("mapped"), mapped(b, child, address).expect("mapped"));
            assert_eq!(parents.1, childs.1, "the same rights");
            assert_ne!(parents.0, childs.0, "another page");
        }
        assert_eq!(mapped(b, child, TEXT), mapped(b, parent, TEXT));
        // No store of one is seen by the other.
        store(b, parent, DATA, 44);
        store(b, child, STACK, 55);
        assert_eq!((seen(b, child, DATA), seen(b, parent, STACK)), (Some(22), Some(33)));
        // The child continues behind the call, with 0.
        let (parents, childs) = (b.thread(me).registers, b.thread(first_of(b, child)).registers);
        assert_eq!((childs.x[0], childs.x[1]), (Code::Ok.number(), 0));
        assert_eq!((childs.pc, childs.sp, childs.tpidr), (parents.pc, parents.sp, 0x77));
        assert_eq!(childs.x[8..], parents.x[8..]);
    });
}

#[test]
fn fork_copies_capabilities_of_copyable_kinds_alone() {
    with_child(|b, parent| {
        let me = first_of(b, parent);
        until(b, me);
        let share_memory = MemoryOperation::Share.number();
        assert_eq!(b.call(Call::Memory, &[MemoryOperation::Create.number(), OWN_QUOTA, 1, 10]), Code::Ok);
        assert_eq!(b.call(Call::Memory, &[share_memory, 10, 0, 1, R | 1, 11]), Code::Ok);
        let (_, child) = fork(b, parent);
        let (parents, childs) = (slots_of(b, parent), slots_of(b, child));
        assert_eq!(
            [OWN_REMOTE, OWN_SEND, 11].map(|slot| childs[slot as usize]),
            [OWN_REMOTE, OWN_SEND, 11].map(|slot| parents[slot as usize])
        );
        // Where the parent has its quota, the child has its own; nothing of the others.
        let own = childs[OWN_QUOTA as usize];
        assert_eq!(own.kind(), Some(Kind::Quota));
        assert_ne!(own.object, parents[OWN_QUOTA as usize].object);
        assert_eq!(own.object, b.objects.room().processes[usize::from(child)].quota);
        for slot in [OWN_SERVER, OWN_TCAP, 10, 20] {
            assert_eq!(childs[slot as usize], Capability::NULL, "slot {slot}");
        }
        let count = childs.iter().filter(|slot| **slot != Capability::NULL).count();
        assert_eq!(count, 4);
    });
}

#[test]
fn fork_leaves_out_what_others_own_and_may_write() {
    bench_of(&Rows::with_pool(), |b| {
        let parent = process(b, &[0, QUOTA, SERVER, MEMORY, 2, EMPTY, share(40, 2, 2, 1)]);
        // `SERVER` follows `MEMORY` in the table of the application.
        let me = first_of(b, parent);
        until(b, me);
        let map = MemoryOperation::Map.number();
        assert_eq!(b.call(Call::Memory, &[map, 2, 0, 0x1000_0000, 1, R | W]), Code::Ok);
        assert_eq!(b.call(Call::Memory, &[map, 2, 1, 0x1000_1000, 1, R]), Code::Ok);
        assert_eq!(b.call(Call::Component, &[FORK, OWN_QUOTA, 3, 20, share(16, 0, 0, 0)]), Code::Ok);
        let child = b.answers::<2>(me)[1].trailing_zeros() as u16;
        assert_eq!(mapped(b, child, 0x1000_0000), None);
        assert_eq!(mapped(b, child, 0x1000_1000), mapped(b, parent, 0x1000_1000));
        check_pool(b);
    });
}

#[test]
fn fork_refuses_and_changes_nothing() {
    with_child(|b, parent| {
        // A component of the host is not in the pool.
        refused(b, &[FORK, QUOTA, SERVER, EMPTY + 1, share(20, 0, 0, 0)], Code::Denied);
        let me = first_of(b, parent);
        until(b, me);
        let ok = [FORK, OWN_QUOTA, OWN_SERVER, 20, share(10, 0, 0, 0)];
        let with = |at: usize, word: u64| {
            let mut x = ok;
            x[at] = word;
            x
        };
        for (at, word) in [(1, 0), (1, OWN_SERVER), (2, 0), (2, OWN_QUOTA)] {
            refused(b, &with(at, word), Code::BadCapability);
        }
        refused(b, &with(3, 0), Code::BadArgument);
        refused(b, &with(4, u64::MAX), Code::BadArgument);
        for (at, word) in
            [(3, OWN_QUOTA), (4, share(NEEDED - 1, 0, 0, 0)), (4, share(33, 0, 0, 0)), (4, share(10, 2, 0, 0))]
        {
            refused(b, &with(at, word), Code::Full);
        }
        // With two threads it would be the copy of a moment that no one of them chose.
        let create = ThreadOperation::Create.number();
        assert_eq!(b.call(Call::Thread, &[create, OWN_QUOTA, OWN_SERVER, TEXT, STACK, 21]), Code::Ok);
        refused(b, &ok, Code::Busy);
        refused(b, &[EXEC, 1, 0], Code::Busy);
    });
}

#[test]
fn exec_replaces_the_memory_in_place() {
    with_child(|b, child| {
        let me = first_of(b, child);
        until(b, me);
        let space = b.component(child).space;
        assert_eq!(space >> 48, u64::from(child) + 1, "its ASID");
        assert_eq!(b.svc(Call::Component, &[EXEC, 1, 42]), Outcome::Done);
        assert_eq!(b.pick(0), Some(me));
        let registers = b.thread(me).registers;
        assert_eq!((registers.pc, registers.sp, registers.x[0]), (TEXT + 0x20, COMPONENT_STACKS, 42));
        assert_eq!(registers.x[1..], [0; 30]);
        assert_eq!(mapped(b, child, TEXT), Some((IMAGE + 0x3_0000, R | X)));
        assert_eq!(seen(b, child, 0x40_4000), Some(IMAGE + 0x4_0000));
        for gone in [CONSTANTS, DATA, DATA + 0x1000, STACK] {
            assert_eq!(mapped(b, child, gone), None, "{gone:#x}");
        }
        assert_eq!(b.component(child).space, space);
        assert_eq!(b.objects.room().quotas[1].taken, 6);
        // Its table is as it was.
        assert_eq!(slots_of(b, child)[OWN_SEND as usize].kind(), Some(Kind::Send));
        refused(b, &[EXEC, 2, 0], Code::BadArgument);
        // The first thing is that the core forgets the old one.
        let forgotten = b.world.log.iter().position(|log| *log == Log::ForgottenAll(child));
        let broken = b.world.log.iter().position(|log| *log == Log::Broken);
        assert!(forgotten < broken && forgotten.is_some());
        until(b, 0);
        refused(b, &[EXEC, 1, 0], Code::Denied);
    });
}

#[test]
fn exec_without_room_changes_nothing() {
    bench_of(&Rows::with_pool(), |b| {
        let child = process(b, &[1, QUOTA, SERVER, 0, 0, EMPTY, share(7, 0, 0, 0)]);
        until(b, first_of(b, child));
        refused(b, &[EXEC, 0, 0], Code::Full);
    });
}

#[test]
fn exit_tells_the_parent_who_reads_the_code_and_destroys() {
    with_child(|b, child| {
        let before = b.objects.room().quotas[0];
        let me = first_of(b, child);
        until(b, 0);
        // The parent waits for the bit.
        assert_eq!(b.svc(Call::Receive, &[RECEIVE, 0, 0]), Outcome::Done);
        assert_eq!(b.pick(0), Some(me));
        let _ = b.svc(Call::Component, &[EXIT, 7]);
        assert_eq!(b.pick(0), Some(0));
        assert_eq!(b.answers(0), [1 << child, 1]);
        assert_eq!(b.call(Call::Component, &[FAULT, EMPTY]), Code::Ok);
        let [kind, thread, number, code] = b.answers(0);
        assert_eq!((kind, thread, number, code), (u64::from(FaultKind::Exited.number()), u64::from(me), 1, 7));
        // Nobody runs in it any more; its memory is there until the parent says so.
        while b.objects.work(&mut b.world) {}
        assert_eq!(b.call(Call::Component, &[READ, EMPTY]), Code::Ok);
        assert_eq!(b.answers::<1>(0), [ComponentState::Stopped as u64]);
        assert_eq!((b.objects.room().quotas[0], b.thread(me).state), (before, ThreadState::Stopped));
        assert_eq!(b.call(Call::Component, &[DESTROY, EMPTY]), Code::Ok);
        all_is_back(b);
        refused(b, &[DESTROY, EMPTY], Code::BadCapability);
        refused(b, &[READ, EMPTY], Code::BadCapability);
    });
}

#[test]
fn destroy_begins_with_what_was_made_from_its_quota() {
    with_child(|b, child| {
        // A child that forks; the fork forks once more.
        let me = first_of(b, child);
        until(b, me);
        assert_eq!(b.call(Call::Component, &[FORK, OWN_QUOTA, OWN_SERVER, 20, share(20, 1, 1, 0)]), Code::Ok);
        let second = b.answers::<2>(me)[1].trailing_zeros() as u16;
        assert_eq!(b.call(Call::Memory, &[MemoryOperation::Create.number(), OWN_QUOTA, 4, 10]), Code::Ok);
        let third = b.component(second).first_thread;
        until(b, third);
        // It has no server of its own: a fork copies none.
        refused(b, &[FORK, OWN_QUOTA, OWN_SERVER, 20, share(10, 0, 0, 0)], Code::BadCapability);
        until(b, 0);
        assert_eq!(b.objects.room().processes[usize::from(child)].children, 1 << second);
        b.world.log.clear();
        assert_eq!(b.call(Call::Component, &[DESTROY, EMPTY]), Code::Ok);
        let order: Vec<_> = b.world.log.iter().filter(|log| matches!(log, Log::ForgottenAll(_))).copied().collect();
        assert_eq!(order, [Log::ForgottenAll(second), Log::ForgottenAll(child)]);
        all_is_back(b);
    });
}

#[test]
fn reset_restores_the_program_and_keeps_the_rest() {
    with_child(|b, child| {
        let me = first_of(b, child);
        until(b, me);
        store(b, child, DATA, 1);
        store(b, child, DATA + 0x1000, 2);
        store(b, child, STACK, 3);
        let life = b.component(child).counters.life;
        until(b, 0);
        assert_eq!(b.call(Call::Component, &[RESET, EMPTY]), Code::Ok);
        assert_eq!(seen(b, child, DATA), Some(IMAGE + 0x2_0000));
        assert_eq!(seen(b, child, DATA + 0x1000), Some(IMAGE + 0x2_1000));
        assert_eq!(seen(b, child, STACK), Some(0));
        let one = b.component(child);
        assert_eq!((one.state, one.counters.life), (ComponentState::Living, life + 1));
        until(b, me);
        assert_eq!(b.thread(me).registers.pc, TEXT + 0x10);
        assert_eq!(slots_of(b, child)[OWN_SERVER as usize].kind(), Some(Kind::Server));
    });
}

#[test]
fn a_process_that_is_destroyed_frees_its_threads() {
    with_child(|b, child| {
        let me = first_of(b, child);
        until(b, me);
        let create = ThreadOperation::Create.number();
        assert_eq!(b.call(Call::Thread, &[create, OWN_QUOTA, OWN_SERVER, TEXT, STACK, 21]), Code::Ok);
        assert_eq!(b.call(Call::Thread, &[ThreadOperation::Start.number(), 21, 0]), Code::Ok);
        let other = (8..12).find(|number| b.thread(*number).quota != NONE).expect("made");
        assert!(b.thread(other).is_awake());
        until(b, 0);
        let grants = [me, other].map(|number| b.thread(number).counters.grant);
        assert_eq!(b.call(Call::Component, &[DESTROY, EMPTY]), Code::Ok);
        all_is_back(b);
        assert_eq!([me, other].map(|number| b.thread(number).counters.grant), grants.map(|grant| grant + 1));
    });
}
