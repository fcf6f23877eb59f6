//! Attacks on processes, by somebody who did not write their rules: what a callee makes on its caller's thread, who pays for what ends its own caller, and what a
//! life leaves to the next one (QV-E6, CH-60, CH-61).

mod support;

use bulkhead_kernel_abi::call::{Call, CapabilityOperation, ComponentOperation, MemoryOperation};
use bulkhead_kernel_abi::{Code, NONE};
use bulkhead_objects::{ComponentState, Outcome};
use support::pool::*;
use support::state::Copy;
use support::*;

const DESTROY: u64 = ComponentOperation::Destroy.number();
const EXIT: u64 = ComponentOperation::Exit.number();
const FORK: u64 = ComponentOperation::Fork.number();
const EXEC: u64 = ComponentOperation::Exec.number();
const RESET: u64 = ComponentOperation::Reset.number();
const MAP: u64 = MemoryOperation::Map.number();
const UNMAP: u64 = MemoryOperation::Unmap.number();
const PROTECT: u64 = MemoryOperation::Protect.number();
const CREATE: u64 = MemoryOperation::Create.number();

/// CH-61: a service that makes a process on its client's thread has no capability to the client's end point, and the process signals nothing there.
#[test]
fn a_process_made_on_a_callers_thread_does_not_signal_the_caller() {
    bench_of(&Rows::with_pool(), |b| {
        b.start(&[0]);
        b.pick(0);
        let copy = CapabilityOperation::Copy.number();
        assert_eq!(b.call(Call::Capability, &[copy, 0, QUOTA, TABLE_SERVICE, EMPTY, u64::MAX]), Code::Ok);
        assert_eq!(b.thread(0).end_point, 0, "the client has one");
        assert_eq!(b.invoke(CALL_SERVICE), 0x1234);
        let child = spawn(b, &[0, EMPTY, SERVER, 0, 0, EMPTY + 1, share(40, 2, 2, 1)]);
        assert_eq!((b.component(child).supervisor, b.component(child).state), (NONE, ComponentState::Living));
        until(b, first_of(b, child));
        assert_eq!(b.svc(Call::Component, &[EXIT, 3]), Outcome::Done);
        until(b, 0);
        let told = b.objects.room().end_points[0];
        assert_eq!((told.bits, told.count), (0, 0));
        // Who makes one at home is told.
        assert_eq!(b.svc(Call::Return, &[]), Outcome::Done);
        b.pick(0);
        let child = spawn(b, &[0, QUOTA, SERVER, 0, 0, EMPTY, share(20, 0, 0, 0)]);
        assert_eq!((b.component(child).supervisor, b.component(child).supervisor_bits), (0, 1 << child));
    });
}

/// CH-60: who destroys what it is in itself does not come back to its call. Its server pays for the rest, however many others are always ready.
#[test]
fn what_ends_its_own_caller_is_ended_at_its_cost() {
    // The slice behind which an interrupt comes: before the caller is ended, and behind it.
    for at in 1..40 {
        bench_of(&Rows::with_pool(), |b| {
            b.start(&[0, 4]);
            b.pick(0);
            b.world.looks.set(at);
            let _ = b.svc(Call::Component, &[DESTROY, COMPONENT_APP]);
            for _ in 0..200 {
                let _ = b.objects.choose(&mut b.world, 0);
            }
            assert_eq!(b.component(APP).state, ComponentState::Free, "interrupted at look {at}");
            assert_eq!(b.pick(0), Some(4), "who is always ready");
        });
    }
}

/// The same of a callee that destroys itself: its caller continues.
#[test]
fn a_callee_that_destroys_itself_is_ended_at_its_callers_cost() {
    for at in 1..40 {
        bench_of(&Rows::with_pool(), |b| {
            b.start(&[0, 4]);
            b.pick(0);
            b.invoke(CALL_SERVICE);
            b.world.looks.set(at);
            let _ = b.svc(Call::Component, &[DESTROY, COMPONENT_SERVICE]);
            for _ in 0..200 {
                let _ = b.objects.choose(&mut b.world, 0);
            }
            assert_eq!(b.component(SERVICE).state, ComponentState::Free, "interrupted at look {at}");
            assert_eq!((b.pick(0), b.thread(0).depth), (Some(0), 0));
        });
    }
}

/// A process that is reset has what its program begins with: what the life before it did to its own memory does not reach the next one.
#[test]
fn a_reset_leaves_nothing_of_what_a_process_made_of_its_memory() {
    with_child(|b, child| {
        let me = first_of(b, child);
        until(b, me);
        assert_eq!(b.call(Call::Memory, &[CREATE, OWN_QUOTA, 1, 10]), Code::Ok);
        // Its own page in the place of the program's data, and somewhere else; a stack that cannot be written; no text.
        assert_eq!(b.call(Call::Memory, &[UNMAP, 0, DATA, 1]), Code::Ok);
        assert_eq!(b.call(Call::Memory, &[MAP, 10, 0, DATA, 1, R | W]), Code::Ok);
        assert_eq!(b.call(Call::Memory, &[MAP, 10, 0, 0x1000_0000, 1, R | W]), Code::Ok);
        store(b, child, DATA, 0xbad);
        assert_eq!(b.call(Call::Memory, &[PROTECT, 0, STACK, 1, R]), Code::Ok);
        assert_eq!(b.call(Call::Memory, &[UNMAP, 0, TEXT, 1]), Code::Ok);
        until(b, 0);
        assert_eq!(b.call(Call::Component, &[RESET, EMPTY]), Code::Ok);
        assert_eq!(b.component(child).state, ComponentState::Living);
        assert_eq!(mapped(b, child, TEXT), Some((IMAGE, R | X)));
        assert_eq!((seen(b, child, DATA), seen(b, child, STACK)), (Some(IMAGE + 0x2_0000), Some(0)));
        assert_eq!(mapped(b, child, STACK).map(|(_, rights)| rights), Some(R | W));
        assert_eq!(mapped(b, child, 0x1000_0000), None);
        check_pool(b);
        until(b, me);
        assert_eq!(b.thread(me).registers.pc, TEXT + 0x10);
    });
}

/// One that has used for something else what its program needs does not begin again, and its maker gets everything back.
#[test]
fn a_process_that_cannot_be_restored_stays_stopped() {
    bench_of(&Rows::with_pool(), |b| {
        let child = process(b, &[0, QUOTA, SERVER, SERVER, 4, EMPTY, share(NEEDED + 1, 0, 0, 1)]);
        let me = first_of(b, child);
        until(b, me);
        // The last page is the region's list, and the one of its data is its.
        assert_eq!(b.call(Call::Memory, &[CREATE, OWN_QUOTA, 1, 10]), Code::Ok);
        assert_eq!(b.call(Call::Memory, &[UNMAP, 0, DATA, 1]), Code::Ok);
        assert_eq!(b.call(Call::Memory, &[MAP, 10, 0, DATA, 1, R | W]), Code::Ok);
        until(b, 0);
        assert_eq!(b.call(Call::Component, &[RESET, EMPTY]), Code::Ok);
        assert_eq!(b.component(child).state, ComponentState::Stopped);
        check_pool(b);
        assert_eq!(b.call(Call::Component, &[DESTROY, EMPTY]), Code::Ok);
        all_is_back(b);
    });
}

/// CH-61: the number of a program gives nothing. Which programs can be made is the quota's to say, and a process has what its quota was split from.
#[test]
fn only_programs_of_the_quota_can_be_made() {
    let mut rows = Rows::with_pool();
    rows.set_programs(0b01);
    bench_of(&rows, |b| {
        b.start(&[0]);
        b.pick(0);
        let make = |program: u64| [0, program, QUOTA, SERVER, SERVER, 4, EMPTY, share(40, 2, 2, 1)];
        let before = Copy::of(b);
        assert_eq!(b.call(Call::Component, &make(1)), Code::Denied);
        let mut after = Copy::of(b);
        after.threads[0].registers = before.threads[0].registers;
        assert!(before == after, "a refusal changes nothing");
        // Its number of bits in a word is no way around.
        assert_eq!(b.call(Call::Component, &make(32)), Code::BadArgument);
        assert_eq!(b.call(Call::Component, &make(0)), Code::Ok);
        let me = first_of(b, 5);
        until(b, me);
        assert_eq!(b.call(Call::Component, &[EXEC, 1, 0]), Code::Denied, "nor does it become one");
        assert_eq!(b.call(Call::Component, &[0, 1, OWN_QUOTA, OWN_SERVER, 0, 0, 20, share(10, 0, 0, 0)]), Code::Denied);
        assert_eq!(b.call(Call::Component, &[FORK, OWN_QUOTA, OWN_SERVER, 20, share(10, 0, 0, 0)]), Code::Ok);
        let fork = first_of(b, 6);
        until(b, fork);
        assert_eq!(b.call(Call::Component, &[EXEC, 1, 0]), Code::Denied);
        assert_eq!(b.svc(Call::Component, &[EXEC, 0, 0]), Outcome::Done);
        assert!(b.thread(fork).is_in_exec);
    });
}
