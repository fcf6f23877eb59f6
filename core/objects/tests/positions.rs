//! What runs on a server: FIFO with turns, the rules N1 to N6, events, task API; each requirement is cited where its rule is tested.

mod support;

use bulkhead_kernel_abi::call::Call;
use bulkhead_kernel_abi::capability::right;
use bulkhead_kernel_abi::{Capability, Code, Kind, NONE};
use bulkhead_objects::{NEVER, Outcome, ThreadState, event};
use support::*;

/// The server of the schedulers, their threads, and the tasks.
const RT_SERVER: u16 = 2;
const ROOT: u16 = 2;
const TASK: u16 = 3;
const CHILD_THREAD: u16 = 5;
const CHILD_TASK: u16 = 6;
const GUEST: u16 = 7;
const NO_WAIT: u64 = 1;

/// `switch` of the thread that runs, with the newest token.
fn switch(b: &mut Bench<'_>, thread: u16, timeout: u64) -> Code {
    let token = b.objects.room().schedulers[0].token;
    b.call(Call::Switch, &[SCHEDULER, THREAD + u64::from(thread), 0, 0, timeout, token])
}

/// `events` of the root scheduler, which runs: code, label and what.
fn events(b: &mut Bench<'_>) -> (Code, u64, u8) {
    let code = b.call(Call::Events, &[SCHEDULER, NO_WAIT]);
    let [label, what] = b.answers(ROOT);
    (code, label, what as u8)
}

/// Starts what competes with worse ranks, so that the root scheduler runs first.
fn started<'a, 'b>(b: &'a mut Bench<'b>, threads: &[u16]) -> &'a mut Bench<'b> {
    b.world.ranks = vec![5, 5, 1, 7, 6, 7, 8];
    b.start(&[ROOT]);
    b.start(threads);
    assert_eq!(b.pick(RT_SERVER), Some(ROOT));
    b
}

#[test]
fn threads_that_hold_a_server_take_turns_of_their_own_time() {
    // QV-20: the only policy in the kernel.
    bench(|b| {
        b.start(&[0, 1, 4]);
        let mut order = Vec::new();
        for _ in 0..7 {
            order.extend(b.pick(0));
            b.used(5);
            order.extend(b.pick(0));
            b.used(5);
        }
        assert_eq!(order, [0, 0, 1, 1, 4, 4, 0, 0, 1, 1, 4, 4, 0, 0]);
        // A yield ends the turn; who waits loses it; who is woken goes to the back.
        assert_eq!(b.pick(0), Some(1));
        assert_eq!(b.call(Call::Yield, &[]), Code::Ok);
        assert_eq!(b.pick(0), Some(4));
        b.sleep();
        assert_eq!(b.pick(0), Some(0));
        b.world.now = SOON;
        b.objects.pass_date(&mut b.world);
        assert_eq!(b.call(Call::Yield, &[]), Code::Ok);
        assert_eq!(b.pick(0), Some(1));
        assert_eq!(b.call(Call::Yield, &[]), Code::Ok);
        assert_eq!(b.pick(0), Some(4));
    });
}

#[test]
fn a_turn_is_not_ended_inside_a_service() {
    bench(|b| {
        b.start(&[0, 1]);
        b.pick(0);
        b.invoke(CALL_SERVICE);
        b.used(50);
        assert_eq!(b.pick(0), Some(0));
        assert_eq!(b.svc(Call::Return, &[]), Outcome::Done);
        b.used(1);
        assert_eq!(b.pick(0), Some(1));
    });
}

#[test]
fn a_schedulers_server_has_no_queue_and_no_turns() {
    // CH-63: who runs is what `switch` says (N1).
    bench(|b| {
        let b = started(b, &[TASK]);
        assert_eq!(events(b), (Code::Ok, 103, event::ACTIVATED));
        assert_eq!(switch(b, TASK, 0), Code::Ok);
        assert_eq!((b.pick(RT_SERVER), b.world.filled[2]), (Some(TASK), Some(3)));
        b.used(1_000_000);
        assert_eq!(b.pick(RT_SERVER), Some(TASK));
        assert_eq!(b.call(Call::Yield, &[]), Code::Denied, "there is no turn to end");
        // Its threads switch, too, without the scheduler's thread: ChaosRT's yield.
        assert_eq!(switch(b, ROOT, 0), Code::Ok);
        assert_eq!(b.pick(RT_SERVER), Some(ROOT));
        assert_eq!(b.world.priorities, [(3, 1, 0), (2, 1, 0)]);
    });
}

#[test]
fn switch_refuses_and_changes_nothing() {
    bench(|b| {
        let b = started(b, &[TASK, CHILD_TASK]);
        b.start(&[0]);
        while events(b).0 == Code::Ok {}
        let token = b.objects.room().schedulers[0].token;
        let call = |b: &mut Bench<'_>, x: [u64; 6]| b.call(Call::Switch, &x);
        let task = THREAD + u64::from(TASK);
        assert_eq!(call(b, [SCHEDULER, task, 0, 0, 0, token.wrapping_sub(1)]), Code::Stale);
        assert_eq!(call(b, [CALL_RT, task, 0, 0, 0, token]), Code::BadCapability);
        assert_eq!(call(b, [SCHEDULER, CALL_RT, 0, 0, 0, token]), Code::BadCapability);
        assert_eq!(call(b, [SCHEDULER, task, CALL_RT, 0, 0, token]), Code::BadCapability);
        assert_eq!(call(b, [SCHEDULER, task, 0, 1 << 48, 0, token]), Code::BadArgument);
        assert_eq!(call(b, [SCHEDULER, task, TCAP_APP, 0, 0, token]), Code::Denied, "another server's TCap");
        assert_eq!(call(b, [SCHEDULER, THREAD, 0, 0, 0, token]), Code::Denied, "another's thread");
        assert_eq!(call(b, [CHILD_SCHEDULER, task, 0, 0, 0, token]), Code::Denied, "another's scheduler");
        assert_eq!(call(b, [SCHEDULER, THREAD + 5, 0, 0, 0, token]), Code::Busy, "not started");
        b.world.usable[3] = 0;
        assert_eq!(call(b, [SCHEDULER, task, 0, 0, 0, token]), Code::NoTime);
        assert_eq!((b.pick(RT_SERVER), b.world.priorities.len()), (Some(ROOT), 0));
        b.world.usable[3] = 1;
        assert_eq!(call(b, [SCHEDULER, task, TCAP_TASK, 9, 0, token]), Code::Ok);
        assert_eq!((b.pick(RT_SERVER), &b.world.priorities[..]), (Some(TASK), &[(3, 1, 9)][..]));
    });
}

/// CH-63: a thread that knows less than the newest events can always give the core to the one who takes them, and to nobody else.
#[test]
fn the_schedulers_own_thread_needs_no_token() {
    bench(|b| {
        let b = started(b, &[TASK]);
        assert_eq!(events(b).0, Code::Ok);
        assert_eq!(switch(b, TASK, 0), Code::Ok);
        assert_eq!(b.pick(RT_SERVER), Some(TASK));
        let old = b.objects.room().schedulers[0].token;
        // Somebody that is less important is notified: an event, and nothing else.
        b.start(&[GUEST]);
        b.pick(1);
        assert_eq!(b.svc(Call::Receive, &[RECEIVE + 4, 0, SOON]), Outcome::Done);
        b.world.ranks[6] = 9;
        b.objects.send(&mut b.world, 4, 1);
        assert_eq!(b.pick(RT_SERVER), Some(TASK));
        let to = |b: &mut Bench<'_>, thread: u16| {
            b.call(Call::Switch, &[SCHEDULER, THREAD + u64::from(thread), 0, 0, 0, old])
        };
        assert_eq!(to(b, GUEST), Code::Stale);
        assert_eq!(to(b, TASK), Code::Stale);
        assert_eq!(to(b, ROOT), Code::Ok);
        assert_eq!(b.pick(RT_SERVER), Some(ROOT));
        assert_eq!(events(b), (Code::Ok, 107, event::ACTIVATED));
    });
}

#[test]
fn a_notification_is_let_in_by_its_rank_and_told_in_any_case() {
    // N2: TASK's end point is 2; a better or an equal one preempts.
    for (rank, is_let_in) in [(0, true), (1, true), (2, false)] {
        bench(|b| {
            let b = started(b, &[TASK]);
            assert_eq!(events(b).0, Code::Ok);
            assert_eq!(switch(b, TASK, 0), Code::Ok);
            assert_eq!(b.pick(RT_SERVER), Some(TASK));
            assert_eq!(b.svc(Call::Receive, &[RECEIVE + 2, 0, SOON]), Outcome::Done);
            assert_eq!(b.pick(RT_SERVER), Some(ROOT), "N3");
            assert_eq!(events(b), (Code::Ok, 103, event::BLOCKED));
            assert_eq!(b.answers::<4>(ROOT)[3], SOON, "what it waits for");
            b.world.ranks[3] = rank;
            b.objects.send(&mut b.world, 2, 4);
            assert_eq!(b.pick(RT_SERVER), Some(if is_let_in { TASK } else { ROOT }), "rank {rank}");
            if is_let_in {
                b.sleep();
                assert_eq!(b.pick(RT_SERVER), Some(ROOT));
            }
            let what = if is_let_in { event::BLOCKED } else { event::ACTIVATED };
            assert_eq!(events(b), (Code::Ok, 103, what), "what is true now");
            assert_eq!(events(b).0, Code::WouldBlock);
        });
    }
}

#[test]
fn a_scheduler_without_work_is_woken_by_an_event_only_when_nobody_runs() {
    // N5, N6.
    bench(|b| {
        let b = started(b, &[TASK]);
        assert_eq!(events(b).0, Code::Ok);
        assert_eq!(switch(b, TASK, 0), Code::Ok);
        b.pick(RT_SERVER);
        assert_eq!(b.svc(Call::Receive, &[RECEIVE + 2, 0, SOON]), Outcome::Done);
        b.pick(RT_SERVER);
        assert_eq!(events(b).2, event::BLOCKED);
        assert_eq!(b.svc(Call::Events, &[SCHEDULER, 0, SOON + 1]), Outcome::Done);
        assert_eq!((b.pick(RT_SERVER), b.world.filled[2]), (None, None), "N6: the server blocks");
        // The task is notified and let in: the event waits with it.
        b.objects.send(&mut b.world, 2, 4);
        assert_eq!(b.pick(RT_SERVER), Some(TASK));
        assert_eq!(b.thread(ROOT).state, ThreadState::WaitingForEvents);
        b.sleep();
        assert_eq!(b.pick(RT_SERVER), Some(ROOT));
        assert_eq!((b.answers(ROOT), b.thread(ROOT).registers.x[0]), ([103, u64::from(event::BLOCKED)], 0));
        // Something is told of a thread of its while nobody runs.
        assert_eq!(b.svc(Call::Events, &[SCHEDULER, 0, SOON + 1]), Outcome::Done);
        assert_eq!(b.pick(RT_SERVER), None);
        b.start(&[0]);
        b.pick(0);
        assert_eq!(b.call(Call::Thread, &[2, THREAD + u64::from(TASK)]), Code::Ok, "suspend");
        assert_eq!(b.pick(RT_SERVER), Some(ROOT), "N5");
    });
}

#[test]
fn a_time_out_brings_the_scheduler_back() {
    // N4; and it stays armed whatever N2 does.
    bench(|b| {
        let b = started(b, &[TASK]);
        events(b);
        assert_eq!(switch(b, TASK, SOON), Code::Ok);
        assert_eq!((b.pick(RT_SERVER), b.earliest_ticks()), (Some(TASK), SOON));
        b.start(&[GUEST]);
        b.pick(1);
        assert_eq!(b.svc(Call::Receive, &[RECEIVE + 4, 0, NEVER - 1]), Outcome::Done);
        b.world.ranks[6] = 0;
        b.objects.send(&mut b.world, 4, 16);
        assert_eq!(b.pick(RT_SERVER), Some(GUEST), "on time that the scheduler's server pays");
        b.world.now = SOON;
        b.objects.pass_date(&mut b.world);
        assert_eq!((b.pick(RT_SERVER), b.earliest_ticks()), (Some(ROOT), NEVER));
        let mut told = [events(b), events(b)];
        told.sort_by_key(|(_, label, _)| *label);
        assert_eq!(told, [(Code::Ok, 103, event::TIMEOUT), (Code::Ok, 107, event::ACTIVATED)]);
        // It dispatches the guest like a thread of its own, as long as that uses its time.
        assert_eq!(switch(b, GUEST, 0), Code::Ok);
        assert_eq!((b.pick(RT_SERVER), b.world.filled[2]), (Some(GUEST), Some(6)));
        assert_eq!(b.svc(Call::Receive, &[0, 0, SOON + 1]), Outcome::Done);
        assert_eq!(b.pick(RT_SERVER), Some(ROOT), "N3: the holder");
        assert_eq!(switch(b, GUEST, 0), Code::Denied);
    });
}

#[test]
fn the_deadline_of_events_passes_whatever_ran_meanwhile() {
    bench(|b| {
        let b = started(b, &[TASK]);
        events(b);
        assert_eq!(switch(b, TASK, 0), Code::Ok);
        b.pick(RT_SERVER);
        assert_eq!(b.svc(Call::Receive, &[RECEIVE + 2, 0, NEVER - 1]), Outcome::Done);
        b.pick(RT_SERVER);
        events(b);
        assert_eq!(b.svc(Call::Events, &[SCHEDULER, 0, SOON]), Outcome::Done);
        b.objects.send(&mut b.world, 2, 4);
        assert_eq!(b.pick(RT_SERVER), Some(TASK), "and it spins");
        b.world.now = SOON;
        b.objects.pass_date(&mut b.world);
        assert_eq!(b.pick(RT_SERVER), Some(ROOT));
        assert_eq!((b.thread(ROOT).registers.x[0], b.answers(ROOT)), (0, [103, u64::from(event::ACTIVATED)]));
        // Without an event it is the time that has passed.
        assert_eq!(b.svc(Call::Events, &[SCHEDULER, 0, SOON + 1]), Outcome::Done);
        b.world.now = SOON + 1;
        b.objects.pass_date(&mut b.world);
        assert_eq!((b.pick(RT_SERVER), b.thread(ROOT).registers.x[0]), (Some(ROOT), Code::TimedOut.number()));
    });
}

#[test]
fn events_refuses_and_says_what_there_is() {
    let mut rows = Rows::new();
    rows.threads[7].scheduler = 0;
    bench_of(&rows, |b| {
        let b = started(b, &[TASK]);
        b.used(77);
        assert_eq!(b.call(Call::Events, &[SCHEDULER, 2]), Code::BadArgument);
        assert_eq!(b.call(Call::Events, &[CHILD_SCHEDULER, 1]), Code::Denied, "another's");
        assert_eq!(b.call(Call::Events, &[RECEIVE, 1]), Code::BadCapability);
        assert_eq!(events(b), (Code::Ok, 103, event::ACTIVATED));
        assert_eq!(b.answers(ROOT), [103, 1, 0, NEVER, b.objects.room().schedulers[0].token, 0]);
        assert_eq!(events(b).0, Code::WouldBlock);
        assert_eq!(b.call(Call::Events, &[SCHEDULER, 0, 0]), Code::BadArgument, "it has several threads");
        assert_eq!(b.call(Call::Events, &[SCHEDULER, 0, 3]), Code::TimedOut);
    });
}

#[test]
fn parents_are_told_until_one_does_not_wait() {
    // CH-57.
    bench(|b| {
        let b = started(b, &[CHILD_THREAD]);
        assert_eq!(events(b), (Code::Ok, 105, event::ACTIVATED));
        assert_eq!(switch(b, CHILD_THREAD, 0), Code::Ok);
        assert_eq!(b.pick(RT_SERVER), Some(CHILD_THREAD));
        assert_eq!(b.svc(Call::Events, &[CHILD_SCHEDULER, 0, NEVER - 1]), Outcome::Done);
        assert_eq!(b.pick(RT_SERVER), Some(ROOT), "N6: its parent has the event that it is blocked");
        assert_eq!(events(b), (Code::Ok, 105, event::BLOCKED));
        assert_eq!(b.svc(Call::Events, &[SCHEDULER, 0, NEVER - 1]), Outcome::Done);
        assert_eq!(b.pick(RT_SERVER), None);
        // The child's task is started: the task runs, both are told.
        b.start(&[CHILD_TASK]);
        assert_eq!(b.pick(RT_SERVER), Some(CHILD_TASK));
        b.sleep();
        assert_eq!(b.pick(RT_SERVER), Some(CHILD_THREAD), "N3: its own scheduler");
        assert_eq!(b.answers(CHILD_THREAD), [106, u64::from(event::BLOCKED)]);
        assert_eq!(b.svc(Call::Events, &[CHILD_SCHEDULER, 0, NEVER - 1]), Outcome::Done);
        assert_eq!(b.pick(RT_SERVER), Some(ROOT));
        assert_eq!(b.answers(ROOT), [105, u64::from(event::BLOCKED)]);
    });
}

#[test]
fn what_is_used_up_continues_with_its_own_or_asks_its_scheduler() {
    // CH-55.
    bench(|b| {
        let b = started(b, &[TASK]);
        events(b);
        assert_eq!(switch(b, TASK, 0), Code::Ok);
        b.pick(RT_SERVER);
        b.objects.exhausted(&mut b.world, TASK);
        assert_eq!(b.pick(RT_SERVER), Some(ROOT));
        assert_eq!(events(b), (Code::Ok, 103, event::EXHAUSTED));
        // On another one than its own: the own one is next.
        let token = b.objects.room().schedulers[0].token;
        let task = THREAD + u64::from(TASK);
        assert_eq!(b.call(Call::Switch, &[SCHEDULER, task, 0, 0, 0, token]), Code::Ok);
        b.pick(RT_SERVER);
        assert_eq!(b.svc(Call::Receive, &[RECEIVE + 2, 0, SOON]), Outcome::Done);
        b.pick(RT_SERVER);
        events(b);
        // Notified on the guest's TCap by hand of the description: end point 4 wakes thread 7 on 6.
        b.start(&[GUEST]);
        b.pick(1);
        assert_eq!(b.svc(Call::Receive, &[RECEIVE + 4, 0, SOON]), Outcome::Done);
        b.world.ranks[6] = 0;
        b.objects.send(&mut b.world, 4, 1);
        assert_eq!(b.pick(RT_SERVER), Some(GUEST));
        b.objects.exhausted(&mut b.world, GUEST);
        assert_eq!(b.pick(RT_SERVER), Some(ROOT), "its own has another root");
    });
}

/// SG-8, as far as threads are suspended and resumed.
#[test]
fn suspend_and_resume_say_whether_a_thread_runs() {
    bench(|b| {
        b.start(&[0, 1, 4]);
        b.pick(0);
        let thread =
            |b: &mut Bench<'_>, operation: u64, number: u64| b.call(Call::Thread, &[operation, THREAD + number]);
        assert_eq!(thread(b, 2, 1), Code::Ok);
        assert_eq!(thread(b, 2, 1), Code::Busy);
        assert_eq!(b.call(Call::Yield, &[]), Code::Ok);
        assert_eq!(b.pick(0), Some(4), "1 is passed over");
        assert_eq!(thread(b, 3, 1), Code::Ok);
        assert_eq!(thread(b, 3, 1), Code::Busy);
        // What came for one that is suspended is there when it is resumed.
        while b.pick(0) != Some(0) {
            b.call(Call::Yield, &[]);
        }
        assert_eq!(b.svc(Call::Receive, &[RECEIVE, 2, 0]), Outcome::Done);
        b.pick(0);
        assert_eq!(thread(b, 2, 0), Code::Ok);
        b.objects.send(&mut b.world, 0, 0x30);
        assert_eq!((b.thread(0).state, b.objects.room().end_points[0].count), (ThreadState::Receiving, 1));
        assert_eq!(thread(b, 3, 0), Code::Ok);
        assert_eq!((b.thread(0).state, b.answers(0)), (ThreadState::Ready, [0x30, 1]));
        // A thread that suspends itself continues behind the call.
        let own = u64::from(b.objects.running().expect("runs"));
        let pc = b.thread(own as u16).registers.pc;
        assert_eq!(thread(b, 2, own), Code::Ok);
        assert_eq!((b.objects.running(), b.thread(own as u16).registers.pc), (None, pc + 4));
    });
}

#[test]
fn a_limit_counts_own_time_and_tells_its_handler() {
    // SG-43: at zero the handler is told, and nothing else happens.
    bench(|b| {
        b.start(&[0, 1]);
        b.pick(0);
        let limit = |b: &mut Bench<'_>, ticks: u64, slot: u64| b.call(Call::Thread, &[7, THREAD + 1, ticks, slot]);
        assert_eq!(limit(b, 12, CALL_RT), Code::BadCapability);
        assert_eq!(limit(b, 0, SEND_SUPERVISOR), Code::BadArgument);
        assert_eq!(limit(b, 12, SEND_SUPERVISOR), Code::Ok);
        b.used(10);
        assert_eq!(b.pick(0), Some(1));
        b.used(5);
        assert_eq!(b.call(Call::Thread, &[9, THREAD + 1]), Code::Ok);
        assert_eq!(b.answers(1), [ThreadState::Ready as u64, 0, 7]);
        b.used(7);
        assert_eq!(b.objects.room().end_points[1].bits, 2);
        b.used(7);
        assert_eq!(b.objects.room().end_points[1].count, 1, "once");
        assert_eq!(limit(b, 1, SEND_SUPERVISOR), Code::Ok);
        assert_eq!(b.call(Call::Thread, &[8, THREAD + 1]), Code::Ok, "unlimit");
        b.used(7);
        assert_eq!(b.objects.room().end_points[1].count, 1);
    });
}

#[test]
fn a_limit_tells_nobody_by_a_capability_that_is_void() {
    // CH-61: what was revoked has no effect any more, in no matter whose keeping.
    let mut rows = Rows::new();
    let mut slots: Vec<Capability> = rows.tables().capabilities.to_vec();
    for slot in slots.iter_mut().filter(|slot| slot.kind() == Some(Kind::Send)) {
        slot.rights |= right::REVOKE;
    }
    rows.set_capabilities(slots);
    bench_of(&rows, |b| {
        b.start(&[0, 1]);
        b.pick(0);
        assert_eq!(b.call(Call::Thread, &[7, THREAD, 12, SEND_SUPERVISOR]), Code::Ok);
        assert_eq!(b.call(Call::Capability, &[3, SEND_SUPERVISOR]), Code::Ok, "revoke");
        b.used(20);
        assert_eq!((b.objects.room().end_points[1].count, b.thread(0).limit_end_point), (0, NONE));
        // By the one that is left it is told.
        assert_eq!(b.call(Call::Thread, &[7, THREAD, 12, SEND_SUPERVISOR]), Code::Ok);
        b.used(20);
        assert_eq!(b.objects.room().end_points[1].count, 1);
    });
}

#[test]
fn bind_moves_a_thread_to_another_server_or_scheduler() {
    bench(|b| {
        b.start(&[0, 1]);
        b.pick(0);
        let bind = |b: &mut Bench<'_>, thread: u64, slot: u64| b.call(Call::Thread, &[6, THREAD + thread, slot]);
        assert_eq!(bind(b, 1, CALL_RT), Code::BadCapability);
        assert_eq!(bind(b, 2, SERVER), Code::Busy, "a scheduler's own thread");
        assert_eq!(bind(b, 1, SCHEDULER), Code::Ok);
        assert_eq!((b.thread(1).scheduler, b.thread(1).tcap, b.pick(RT_SERVER)), (0, 2, Some(1)));
        b.pick(0);
        assert_eq!(bind(b, 1, SERVER), Code::Ok);
        assert_eq!((b.pick(RT_SERVER), b.thread(1).server), (None, 0));
        assert_eq!(bind(b, 0, SERVER_RT), Code::Ok, "itself");
        assert_eq!((b.pick(0), b.pick(RT_SERVER)), (Some(1), Some(0)));
    });
}
