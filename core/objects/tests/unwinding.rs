//! Faults, ends, resets and aborts: who gets which code, and what is left.

mod support;

use bulkhead_kernel_abi::accounts::{FaultKind, FaultRecord};
use bulkhead_kernel_abi::call::Call;
use bulkhead_kernel_abi::{Capability, Code, NONE};
use bulkhead_objects::{ComponentState, Outcome, ThreadState};
use support::*;

const FAULT: FaultRecord =
    FaultRecord { kind: 1, thread: 0, number: 0, syndrome: 0x9200_0045, address: 0xbad, program_counter: 0x40_0300 };
const DESTROY: u64 = 4;
const RESET: u64 = 5;

/// Thread 0 inside the service, with secrets in its registers.
fn inside(b: &mut Bench<'_>) {
    b.start(&[0, 4]);
    assert_eq!(b.pick(0), Some(0));
    assert_eq!(b.invoke(CALL_SERVICE), 0x1234);
    b.objects.registers().expect("runs").x = [0x5ec3e7; 31];
}

/// The thread that was brought out finds a code and nothing else.
fn assert_landed(b: &Bench<'_>, thread: u16, code: Code) {
    let one = b.thread(thread);
    let mut registers = [0; 31];
    registers[8] = code.number();
    assert_eq!((one.registers.x, one.registers.pstate), (registers, 0));
    assert_eq!((one.component, one.depth, one.stack), (APP, 0, NONE));
    assert_eq!((one.registers.pc, one.registers.sp), (0x1004, 0x10_0000));
}

#[test]
fn a_fault_in_a_callee_comes_back_as_a_code() {
    bench(|b| {
        inside(b);
        b.objects.fault(&mut b.world, FAULT);
        assert_landed(b, 0, Code::Faulted);
        assert_eq!((b.component(SERVICE).free_stacks, b.component(SERVICE).state), (0b11, ComponentState::Living));
        assert_eq!(b.objects.room().end_points[1].bits, 0x100, "the supervisor is told");
        assert_eq!(b.pick(0), Some(0), "it continues");
        assert_eq!(b.call(Call::Component, &[6, COMPONENT_SERVICE]), Code::Ok);
        assert_eq!(b.answers(0), [1, 0, 1, FAULT.syndrome, 0xbad, 0x40_0300]);
        assert_eq!(b.call(Call::Component, &[7, COMPONENT_SERVICE]), Code::Ok);
        assert_eq!(b.answers(0), [ComponentState::Living as u64, 1, 2]);
    });
}

#[test]
fn a_fault_in_the_home_component_ends_the_thread() {
    bench(|b| {
        b.start(&[0, 1]);
        b.pick(0);
        b.objects.fault(&mut b.world, FAULT);
        assert_eq!((b.thread(0).state, b.objects.running(), b.pick(0)), (ThreadState::Stopped, None, Some(1)));
        assert_eq!(b.component(APP).fault.number, 1);
    });
}

#[test]
fn a_component_may_stop_or_begin_again_by_its_fault() {
    for (policy, state) in [(1, ComponentState::Living), (2, ComponentState::Stopped)] {
        let mut rows = Rows::new();
        rows.components[usize::from(SERVICE)].on_fault = policy;
        bench_of(&rows, |b| {
            inside(b);
            // It sleeps inside, and another thread comes in and faults.
            b.sleep();
            b.start(&[1]);
            while b.pick(0) != Some(1) {
                assert_eq!(b.call(Call::Yield, &[]), Code::Ok);
            }
            assert_eq!(b.invoke(CALL_SERVICE), 0x1234);
            b.objects.fault(&mut b.world, FAULT);
            assert_eq!(b.component(SERVICE).state, ComponentState::Unwinding);
            assert_eq!(b.thread(1).registers.x[8], Code::Faulted.number());
            assert_eq!(b.thread(0).depth, 1, "nothing was done for it yet");
            let mut slices = 0;
            while b.objects.work(&mut b.world) {
                slices += 1;
            }
            assert!(slices >= 64, "one thread at a time");
            assert_landed(b, 0, Code::Gone);
            assert_eq!(b.thread(0).state, ThreadState::Ready, "it slept inside");
            let service = b.component(SERVICE);
            assert_eq!((service.state, service.counters.life, service.free_stacks), (state, 2, 0b11));
            assert_eq!(b.world.restored.len(), if policy == 1 { 4 } else { 0 });
            while b.pick(0) != Some(1) {
                assert_eq!(b.call(Call::Yield, &[]), Code::Ok);
            }
            // Calls to one that began again stay valid.
            let expected = if policy == 1 { 0x1234 } else { Code::Gone.number() };
            assert_eq!(b.invoke(CALL_SERVICE), expected);
        });
    }
}

/// A spinner on another server must not delay a reset: nobody has to be idle for it.
#[test]
fn an_end_that_no_call_waits_for_is_paid_by_the_server_of_who_caused_it() {
    let mut rows = Rows::new();
    for component in [SERVICE, APP] {
        rows.components[usize::from(component)].on_fault = 2;
    }
    bench_of(&rows, |b| {
        inside(b);
        b.objects.fault(&mut b.world, FAULT);
        assert_eq!(b.objects.room().servers[0].work, 1 << SERVICE);
        assert_eq!(b.objects.room().servers[1].work, 0, "nobody else pays");
        assert_eq!(b.pick(0), Some(0), "behind the slices");
        assert_eq!((b.component(SERVICE).state, b.objects.room().servers[0].work), (ComponentState::Stopped, 0));
        // Its own home: with the other thread asleep the server has nobody, but it stays awake until the end is over.
        assert_eq!(b.call(Call::Yield, &[]), Code::Ok);
        assert_eq!(b.pick(0), Some(4));
        b.sleep();
        assert_eq!(b.pick(0), Some(0));
        b.objects.fault(&mut b.world, FAULT);
        assert_eq!((b.objects.room().servers[0].next, b.world.filled[0]), (None, Some(0)));
        assert_eq!(b.pick(0), None);
        assert_eq!((b.component(APP).state, b.thread(0).state), (ComponentState::Stopped, ThreadState::Stopped));
        assert_eq!(b.world.filled[0], None);
    });
}

/// The thread that destroys is ended itself in the middle: its server pays for what is left.
#[test]
fn an_end_whose_caller_is_ended_is_paid_by_its_server() {
    bench(|b| {
        b.start(&[0, 4]);
        while b.pick(0) != Some(4) {
            assert_eq!(b.call(Call::Yield, &[]), Code::Ok);
        }
        b.world.looks.set(2);
        assert_eq!(b.svc(Call::Component, &[DESTROY, COMPONENT_SERVICE]), Outcome::Again);
        assert_eq!((b.component(SERVICE).state, b.objects.room().servers[0].work), (ComponentState::Unwinding, 0));
        b.objects.fault(&mut b.world, FAULT);
        assert_eq!(b.objects.room().servers[0].work, 1 << SERVICE);
        assert_eq!(b.pick(0), Some(0));
        assert_eq!(b.component(SERVICE).state, ComponentState::Free);
    });
}

#[test]
fn reset_unwinds_restores_and_starts_again() {
    bench(|b| {
        b.start(&[2]);
        // Thread 4 is a client inside the application, which its supervisor (thread 2) resets; threads 0 and 1 live there.
        b.start(&[0, 1, 4]);
        while b.pick(0) != Some(4) {
            assert_eq!(b.call(Call::Yield, &[]), Code::Ok);
        }
        b.invoke(CALL_APP);
        b.pick(2);
        assert_eq!(b.call(Call::Component, &[RESET, COMPONENT_APP]), Code::Ok);
        assert_eq!(b.world.restored, [(APP, 0), (APP, 1), (APP, 2), (APP, 3)]);
        assert_eq!((b.component(APP).state, b.component(APP).counters.life), (ComponentState::Living, 2));
        let first = b.thread(0);
        assert_eq!(
            (first.state, first.life, first.registers.pc, first.registers.x[0]),
            (ThreadState::Ready, 2, 0x1000, 7)
        );
        assert_eq!(b.thread(1).state, ThreadState::Stopped, "only the first is started");
        assert_eq!((b.thread(4).component, b.thread(4).registers.x[8]), (SUPERVISOR, Code::Gone.number()));
        assert_eq!(b.component(APP).counters.grant, 1, "capabilities stay valid");
    });
}

#[test]
fn destroy_makes_capabilities_void_and_unwinds() {
    bench(|b| {
        inside(b);
        b.sleep();
        assert_eq!(b.pick(0), Some(4));
        assert_eq!(b.call(Call::Component, &[DESTROY, COMPONENT_SERVICE]), Code::Ok);
        assert_landed(b, 0, Code::Gone);
        assert_eq!(b.component(SERVICE).state, ComponentState::Free);
        assert_eq!(b.invoke(CALL_SERVICE), Code::BadCapability.number());
        assert_eq!(b.call(Call::Component, &[DESTROY, COMPONENT_SERVICE]), Code::BadCapability);
        assert!(b.world.restored.is_empty());
    });
}

#[test]
fn a_thread_leaves_everything_above_the_lowest_dead_level() {
    bench(|b| {
        b.start(&[0, 4]);
        b.pick(0);
        b.invoke(CALL_RT);
        b.invoke(CALL_SERVICE);
        b.invoke(CALL_RT);
        assert_eq!(b.thread(0).depth, 3);
        b.sleep();
        assert_eq!(b.pick(0), Some(4));
        assert_eq!(b.call(Call::Component, &[RESET, COMPONENT_SERVICE]), Code::Ok);
        let one = b.thread(0);
        assert_eq!((one.component, one.depth, one.registers.x[8]), (RT, 1, Code::Gone.number()));
        assert_eq!((b.component(RT).free_stacks, b.component(SERVICE).free_stacks), (0b10, 0b11));
    });
}

#[test]
fn a_thread_that_ends_its_own_caller_does_not_come_back_there() {
    bench(|b| {
        b.start(&[0, 4]);
        b.pick(0);
        b.invoke(CALL_SERVICE);
        b.invoke(CALL_RT);
        // Inside RT it resets the service, from which it came, and then its home.
        assert_eq!(b.svc(Call::Component, &[RESET, COMPONENT_SERVICE]), Outcome::Done);
        assert_landed(b, 0, Code::Gone);
        b.pick(0);
        b.invoke(CALL_SERVICE);
        assert_eq!(b.svc(Call::Component, &[DESTROY, COMPONENT_APP]), Outcome::Done);
        assert_eq!((b.thread(0).state, b.thread(0).component), (ThreadState::Stopped, NONE));
        assert_eq!((b.component(SERVICE).free_stacks, b.component(RT).free_stacks), (0b11, 0b11));
        assert_eq!(b.pick(0), Some(4));
    });
}

#[test]
fn nobody_runs_in_a_dead_level_while_the_end_is_interrupted() {
    bench(|b| {
        inside(b);
        // Out of the way, awake and inside.
        b.used(10);
        assert_eq!(b.pick(0), Some(0), "`needs`: its turn is not ended inside");
        assert_eq!(b.svc(Call::Receive, &[0, 0, 11]), Outcome::Done);
        assert_eq!(b.pick(0), Some(4));
        b.world.now = 11;
        b.objects.pass_date(&mut b.world);
        let pc = b.thread(4).registers.pc;
        b.world.looks.set(1);
        assert_eq!(b.svc(Call::Component, &[RESET, COMPONENT_SERVICE]), Outcome::Again);
        assert_eq!((b.thread(4).registers.pc, b.component(SERVICE).state), (pc, ComponentState::Unwinding));
        // Somebody else runs meanwhile: not inside, and nobody enters.
        b.used(10);
        assert_eq!(b.pick(0), Some(0));
        assert_landed(b, 0, Code::Gone);
        assert_eq!(b.invoke(CALL_SERVICE), Code::Gone.number());
        assert_eq!(b.call(Call::Yield, &[]), Code::Ok);
        assert_eq!(b.pick(0), Some(4));
        assert_eq!(b.call(Call::Component, &[RESET, COMPONENT_SERVICE]), Code::Ok);
        assert_eq!((b.component(SERVICE).state, b.component(SERVICE).counters.life), (ComponentState::Living, 2));
        // A new reset is another one.
        assert_eq!(b.call(Call::Component, &[RESET, COMPONENT_SERVICE]), Code::Ok);
        assert_eq!(b.component(SERVICE).counters.life, 3);
    });
}

#[test]
fn an_interrupted_end_that_somebody_else_finished_does_not_begin_again() {
    let mut rows = Rows::new();
    rows.components[usize::from(SERVICE)].on_fault = 1;
    bench_of(&rows, |b| {
        inside(b);
        b.objects.fault(&mut b.world, FAULT);
        b.objects.registers().expect("runs").x = [0; 31];
        b.world.looks.set(1);
        assert_eq!(b.svc(Call::Component, &[RESET, COMPONENT_SERVICE]), Outcome::Again);
        while b.objects.work(&mut b.world) {}
        assert_eq!(b.pick(0), Some(0));
        assert_eq!(b.call(Call::Component, &[RESET, COMPONENT_SERVICE]), Code::Ok);
        assert_eq!(b.component(SERVICE).counters.life, 2);
    });
}

#[test]
fn a_thread_that_was_not_reached_yet_is_brought_out_before_it_runs() {
    bench(|b| {
        b.start(&[1, 4]);
        b.pick(0);
        b.invoke(CALL_SERVICE);
        b.sleep();
        assert_eq!(b.pick(0), Some(4));
        b.world.now = 2 * SOON;
        b.objects.pass_date(&mut b.world);
        // An interrupt waits behind the slice of thread 0, which is not inside; thread 1 is, awake.
        b.world.looks.set(1);
        assert_eq!(b.svc(Call::Component, &[RESET, COMPONENT_SERVICE]), Outcome::Again);
        assert_eq!(b.thread(1).component, SERVICE);
        b.used(10);
        assert_eq!(b.pick(0), Some(1));
        assert_eq!((b.thread(1).component, b.thread(1).registers.x[8]), (APP, Code::Gone.number()));
    });
}

#[test]
fn an_end_is_finished_without_the_thread_that_asked_for_it() {
    // A component that ends itself: its first thread goes first, and an interrupt waits behind that slice, so nobody makes the call again.
    for (operation, state) in [(RESET, ComponentState::Living), (DESTROY, ComponentState::Free)] {
        bench(|b| {
            b.start(&[0, 4]);
            b.pick(0);
            b.world.looks.set(1);
            assert_eq!(b.svc(Call::Component, &[operation, COMPONENT_APP]), Outcome::Done);
            assert_eq!(b.component(APP).state, ComponentState::Unwinding);
            while b.objects.work(&mut b.world) {}
            assert_eq!(b.component(APP).state, state);
        });
    }
}

#[test]
fn abort_ends_the_innermost_call_of_one_that_declares_it() {
    // CH-10: TimedOut is what the caller of a callee that does not answer gets.
    bench(|b| {
        inside(b);
        b.sleep();
        assert_eq!(b.pick(0), Some(4));
        let abort = |b: &mut Bench<'_>, thread: u64| b.call(Call::Thread, &[5, thread]);
        assert_eq!(abort(b, THREAD + 4), Code::Busy, "it is inside no call");
        assert_eq!(abort(b, THREAD), Code::Ok);
        assert_landed(b, 0, Code::TimedOut);
        assert_eq!((b.thread(0).state, b.component(SERVICE).free_stacks), (ThreadState::Ready, 0b11));
        assert_eq!(b.component(SERVICE).fault.kind, FaultKind::Aborted.number());
        assert_eq!(b.objects.room().end_points[1].bits, 0x100);
        while b.pick(0) != Some(0) {
            b.call(Call::Yield, &[]);
        }
        b.invoke(CALL_RT);
        b.sleep();
        b.pick(0);
        assert_eq!(abort(b, THREAD), Code::Denied, "not declared");
        assert_eq!(abort(b, CALL_RT), Code::BadCapability);
    });
}

#[test]
fn stop_ends_a_thread_wherever_it_is_and_start_begins_again() {
    bench(|b| {
        inside(b);
        b.sleep();
        assert_eq!(b.pick(0), Some(4));
        let thread = |b: &mut Bench<'_>, operation: u64, x2: u64| b.call(Call::Thread, &[operation, THREAD, x2]);
        assert_eq!(thread(b, 9, 0), Code::Ok, "read");
        assert_eq!(b.answers(4), [ThreadState::Sleeping as u64, 1, 0]);
        assert_eq!(thread(b, 1, 0), Code::Busy, "it runs already");
        assert_eq!(thread(b, 4, 0), Code::Ok);
        assert_eq!((b.thread(0).state, b.component(SERVICE).free_stacks), (ThreadState::Stopped, 0b11));
        assert_eq!(b.earliest_ticks(), u64::MAX, "its deadline is forgotten");
        assert_eq!(thread(b, 4, 0), Code::Ok, "again");
        assert_eq!(thread(b, 3, 0), Code::Busy, "not suspended");
        assert_eq!(thread(b, 2, 0), Code::Busy, "nothing to suspend");
        assert_eq!(thread(b, 1, 33), Code::Ok);
        assert_eq!((b.thread(0).registers.x[0], b.thread(0).registers.pc), (33, 0x1000));
        assert_eq!(thread(b, 4, 0), Code::Ok);
        assert_eq!(b.call(Call::Component, &[DESTROY, COMPONENT_APP]), Code::Ok);
        assert_eq!(thread(b, 1, 0), Code::Gone, "its home");
        assert_eq!(thread(b, 0, 0), Code::BadCapability, "no quota, no thread");
    });
}

#[test]
fn rights_are_asked_for_by_every_operation() {
    let mut rows = Rows::new();
    let mut slots: Vec<Capability> = rows.tables().capabilities.to_vec();
    for slot in &mut slots {
        slot.rights = 0;
    }
    rows.set_capabilities(slots);
    bench_of(&rows, |b| {
        b.start(&[0]);
        b.pick(0);
        for operation in 1..10 {
            assert_eq!(b.call(Call::Thread, &[operation, THREAD, 1]), Code::Denied, "thread {operation}");
        }
        for operation in 4..8 {
            assert_eq!(b.call(Call::Component, &[operation, COMPONENT_SERVICE]), Code::Denied, "component {operation}");
        }
        for operation in 0..5 {
            assert_eq!(b.call(Call::Interrupt, &[operation, INTERRUPT, 0]), Code::Denied, "interrupt {operation}");
        }
        assert_eq!(b.call(Call::Capability, &[3, CALL_RT]), Code::Denied);
        assert_eq!(b.call(Call::Capability, &[4, TABLE_SERVICE, 1]), Code::Denied);
        assert_eq!(b.call(Call::Receive, &[RECEIVE, 1]), Code::Denied);
        assert_eq!(b.call(Call::Events, &[SCHEDULER, 1]), Code::Denied);
        assert_eq!(b.call(Call::Switch, &[SCHEDULER, THREAD]), Code::Denied);
        for slot in [CALL_RT, SEND_APP, REMOTE] {
            assert_eq!(b.invoke(slot), Code::Denied.number());
        }
    });
}
