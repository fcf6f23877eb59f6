//! Attacks on who runs, by somebody who did not write the rules: turns that do not end, wake-ups that are lost, threads in two places.

mod support;

use bulkhead_kernel_abi::Code;
use bulkhead_kernel_abi::boot::EndPointRow;
use bulkhead_kernel_abi::call::Call;
use bulkhead_objects::{NEVER, Outcome, event};
use support::*;

/// The server of the schedulers, their threads, and the task of the root one.
const RT_SERVER: u16 = 2;
const ROOT: u16 = 2;
const TASK: u16 = 3;
const CHILD_THREAD: u16 = 5;

/// `switch` of the thread that runs, with the newest token.
fn switch(b: &mut Bench<'_>, thread: u16, timeout: u64) -> Code {
    let token = b.objects.room().schedulers[0].token;
    b.call(Call::Switch, &[SCHEDULER, THREAD + u64::from(thread), 0, 0, timeout, token])
}

/// Starts the task beside the root scheduler, which runs and has been told of it.
fn started(b: &mut Bench<'_>) {
    b.world.ranks = vec![5, 5, 1, 7, 6, 7, 8];
    b.start(&[ROOT, TASK]);
    assert_eq!(b.pick(RT_SERVER), Some(ROOT));
    assert_eq!(b.call(Call::Events, &[SCHEDULER, 1]), Code::Ok);
}

/// QV-20: who calls a service again and again is inside it whenever somebody looks; its turn ends before the next call all the same.
#[test]
fn a_turn_that_is_over_ends_before_the_next_call_of_a_service() {
    bench(|b| {
        b.start(&[0, 1]);
        b.pick(0);
        b.invoke(CALL_SERVICE);
        b.used(50);
        assert_eq!((b.pick(0), b.svc(Call::Return, &[])), (Some(0), Outcome::Done));
        // No interrupt comes here; it goes in again.
        let pc = b.thread(0).registers.pc;
        b.objects.registers().expect("runs").x[3] = 33;
        b.invoke(CALL_SERVICE);
        assert_eq!((b.pick(0), b.thread(0).depth, b.thread(0).registers.pc), (Some(1), 0, pc));
        b.used(10);
        // The call is made when its turn comes, with the same arguments.
        assert_eq!((b.pick(0), b.invoke(CALL_SERVICE)), (Some(0), 0x1234));
        assert_eq!((b.thread(0).depth, b.thread(0).registers.x[3]), (1, 33));
        // Alone, nobody waits for the end of its turn.
        assert_eq!(b.svc(Call::Return, &[]), Outcome::Done);
        b.pick(0);
        b.call(Call::Yield, &[]);
        b.pick(0);
        b.sleep();
        b.pick(0);
        b.invoke(CALL_SERVICE);
        b.used(50);
        assert_eq!((b.pick(0), b.svc(Call::Return, &[])), (Some(0), Outcome::Done));
        assert_eq!((b.pick(0), b.invoke(CALL_SERVICE)), (Some(0), 0x1234));
    });
}

/// CH-57, SG-8 (N5): what came for a scheduler that was suspended is there when it is resumed, if nobody else is in its position.
#[test]
fn a_scheduler_that_is_resumed_finds_its_events() {
    bench(|b| {
        started(b);
        assert_eq!(switch(b, TASK, 0), Code::Ok);
        assert_eq!(b.pick(RT_SERVER), Some(TASK));
        b.start(&[0]);
        b.pick(0);
        let thread = |b: &mut Bench<'_>, operation: u64, number: u16| {
            b.pick(0);
            b.call(Call::Thread, &[operation, THREAD + u64::from(number)])
        };
        b.pick(RT_SERVER);
        assert_eq!(switch(b, ROOT, 0), Code::Ok);
        b.pick(RT_SERVER);
        assert_eq!(b.svc(Call::Events, &[SCHEDULER, 0, NEVER - 1]), Outcome::Done);
        assert_eq!((b.pick(RT_SERVER), thread(b, 2, ROOT)), (None, Code::Ok));
        // Its task was awake all the time, and it is told of its end.
        assert_eq!((thread(b, 4, TASK), b.pick(RT_SERVER)), (Code::Ok, None));
        assert_eq!((thread(b, 3, ROOT), b.pick(RT_SERVER)), (Code::Ok, Some(ROOT)));
        assert_eq!(b.answers(ROOT), [103, u64::from(event::ENDED)]);
    });
}

/// N3, N4: a scheduler whose thread is awake on the time of another server is in one position.
#[test]
fn nobody_is_in_two_positions() {
    let mut rows = Rows::new();
    rows.end_points[3] = EndPointRow { thread: ROOT, tcap: 0, ..rows.end_points[3] };
    bench_of(&rows, |b| {
        started(b);
        b.start(&[0]);
        assert_eq!(switch(b, TASK, 50), Code::Ok);
        assert_eq!(b.pick(RT_SERVER), Some(TASK));
        assert_eq!(switch(b, ROOT, 50), Code::Ok);
        assert_eq!(b.pick(RT_SERVER), Some(ROOT));
        assert_eq!(b.svc(Call::Receive, &[RECEIVE + 3, 0, NEVER]), Outcome::Done);
        b.pick(0);
        b.objects.send(&mut b.world, 3, 1);
        // Nobody runs on the schedulers' time: its thread works for somebody else. Its task may be let in there, and no time-out brings it to both.
        assert_eq!((b.pick(RT_SERVER), b.thread(ROOT).server), (None, 0));
        b.start(&[CHILD_THREAD]);
        assert_eq!(b.pick(RT_SERVER), Some(CHILD_THREAD));
        b.world.now = 60;
        b.objects.pass_date(&mut b.world);
        assert_eq!((b.pick(RT_SERVER), b.thread(ROOT).server), (Some(CHILD_THREAD), 0));
        assert_eq!(b.svc(Call::Events, &[CHILD_SCHEDULER, 0, NEVER - 1]), Outcome::Done);
        assert_eq!(b.pick(RT_SERVER), None, "N6 finds nobody");
        // When it waits again it is let in by what came meanwhile.
        assert_eq!((b.pick(0), b.call(Call::Yield, &[]), b.pick(0)), (Some(0), Code::Ok, Some(ROOT)));
        assert_eq!(b.svc(Call::Receive, &[RECEIVE + 3, 0, NEVER - 1]), Outcome::Done);
        assert_eq!((b.pick(0), b.pick(RT_SERVER)), (Some(0), None));
    });
}
