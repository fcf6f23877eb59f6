//! Claims on the time of servers, numbers of schedulers and servers of a band, on a fake core: the kernel's own glue between calls and `core/sched`.

use bulkhead_kernel_abi::boot::{BandRow, BindingRow, SchedulerRow, ServerRow, TcapRow};
use bulkhead_kernel_abi::call::{Call, Flag, InterruptOperation, ServerOperation, TcapOperation, ThreadOperation};
use bulkhead_kernel_abi::{ALL_TICKS, Code, NONE};
use bulkhead_words::Rule;
use shares::{
    BAND, EMPTY, INTERRUPT, NOTIFY, RECEIVE, Rows, SCHEDULER, SEND, TCAP, THREAD, Test, claim, sporadic, unlimited,
};

#[path = "support/shares.rs"]
mod shares;
mod support;

/// A client of a server of its own, and thread 0, which waits on a less important server for its end point; claim 2 is the end point's.
fn client_and_server() -> Test {
    let rows = Rows {
        servers: vec![sporadic(0, 200, 1000), sporadic(1, 500, 1000)],
        tcaps: vec![claim(0, 0, 1), claim(1, 0, 1), claim(NONE, 0, 1)],
        threads: vec![(1, NONE), (0, NONE)],
        ..Rows::default()
    };
    let mut test = Test::new(&rows);
    assert_eq!(test.running, Some(1));
    test.call(Call::Receive, &[0, 0, 10]);
    assert_eq!(test.running, Some(0));
    test.call(Call::Receive, &[RECEIVE, Flag::All.number(), 0]);
    assert_eq!((test.running, test.now()), (Some(1), 10));
    test
}

/// The same, and thread 2 behind both; claim 3 is the end point's.
fn client_server_and_another() -> Test {
    let rows = Rows {
        servers: vec![sporadic(0, 200, 1000), sporadic(1, 500, 1000), unlimited(2)],
        tcaps: vec![claim(0, 0, 1), claim(1, 0, 1), claim(2, 0, 1), claim(NONE, 0, 1)],
        threads: vec![(1, NONE), (0, NONE), (2, NONE)],
        ..Rows::default()
    };
    let mut test = Test::new(&rows);
    test.call(Call::Receive, &[0, 0, 10]);
    test.call(Call::Receive, &[RECEIVE, Flag::All.number(), 0]);
    assert_eq!(test.running, Some(2));
    test.spin(10);
    test
}

/// CH-22, CH-52, TCAP-02: what a client gives is used at its level, on its budget, up to the amount and no further; then the receiver has its own.
#[test]
fn work_for_a_client_is_done_at_its_level_and_on_its_budget() {
    let mut test = client_and_server();
    assert_eq!(test.call(Call::Delegate, &[SEND, TCAP, 50, 0, NOTIFY]), Code::Ok);
    // The client has the rest, which is not reserved, and continues first.
    test.spin(30);
    test.call(Call::Receive, &[0, 0, 5000]);
    assert_eq!(test.running, Some(0));
    assert_eq!(test.kernel.objects().room().threads[0].server, 0);
    test.spin(200);
    assert_eq!(test.kernel.objects().room().threads[0].server, 1);
    assert_eq!(test.call(Call::Version, &[]), Code::Ok);
    assert_eq!((test.charged(0), test.charged(1)), ((70, 0), (120, 0)));
    assert_eq!(test.ran, [(1, 20), (0, 170)]);
    // Hoarded time does not add to the envelope: 150 of 200 are left to the client in its period.
    assert_eq!(test.call(Call::Delegate, &[SEND, TCAP, 0, 0, 0]), Code::Ok, "of somebody else's, by its capability");
    let claims = [TCAP, TCAP + 2].map(|slot| {
        assert_eq!(test.call(Call::Tcap, &[4, slot]), Code::Ok);
        test.x(0, 1)
    });
    assert_eq!(claims, [ALL_TICKS, 130]);
}

/// CH-50, CH-54: what is reserved nobody else uses, and it ends with its date though nobody used it.
#[test]
fn what_is_given_is_kept_until_it_expires() {
    let mut test = client_and_server();
    assert_eq!(test.call(Call::Delegate, &[SEND, TCAP, 120, 0, 0]), Code::Ok);
    assert_eq!(test.call(Call::Tcap, &[4, TCAP + 2]), Code::Ok);
    // A period after it woke.
    assert_eq!((test.x(1, 1), test.x(1, 2), test.x(1, 3)), (120, 1010, 1));
    // 80 are its own. Then the core is idle until the reservation ends.
    test.spin(95);
    assert_eq!((test.ran.clone(), test.now()), (vec![(1, 80)], 1010));
    assert_eq!((test.charged(0).0, test.kernel.accounts().idle_ticks), (80, 10 + 920));
    test.spin(1300);
    assert_eq!((test.ran.clone(), test.charged(0).0), (vec![(1, 280)], 280));
}

/// CH-50: who waits for the end of a reservation comes then, though somebody less important runs and nothing else has happened.
#[test]
fn the_end_of_a_reservation_takes_the_core_from_who_runs() {
    let mut test = client_server_and_another();
    assert_eq!(test.call(Call::Delegate, &[SEND, TCAP, 120, 0, 0]), Code::Ok);
    test.spin(1100);
    assert_eq!(test.ran, [(2, 10), (1, 80), (2, 920), (1, 90)]);
}

/// CH-50, CH-52: what a call gives back is there at once for who waits for it, and so is what a call of somebody less important gives back.
#[test]
fn what_is_given_back_is_used_at_once() {
    let rows = Rows {
        servers: vec![sporadic(0, 500, 1000), sporadic(1, 200, 1000), unlimited(2)],
        tcaps: vec![claim(0, 0, 1), claim(1, 0, 1), claim(2, 0, 1), claim(NONE, 0, 1)],
        threads: vec![(0, NONE), (1, NONE), (2, NONE)],
        ..Rows::default()
    };
    // All of it, by which the reservation ends, and a part.
    for (gives_back, ticks) in [(0, 0), (2, 0), (0, 100), (2, 100)] {
        let mut test = Test::new(&rows);
        assert_eq!(test.call(Call::Delegate, &[TCAP + 3, TCAP + 1, 0, 0, 0]), Code::Ok);
        test.call(Call::Receive, &[0, 0, 100]);
        assert_eq!(test.running, Some(2), "all of the other's time is reserved");
        test.spin(if gives_back == 0 { 100 } else { 50 });
        assert_eq!(test.running, Some(gives_back));
        test.call(Call::Tcap, &[TcapOperation::Transfer.number(), TCAP + 1, TCAP + 3, ticks]);
        assert_eq!(test.code(gives_back), Code::Ok);
        if gives_back == 0 {
            test.call(Call::Receive, &[0, 0, 5000]);
        }
        assert_eq!(test.running, Some(1));
    }
}

/// CH-52: a claim that has the time of two servers one after the other, and loses both before anybody was told, is told of once. Then everybody continues.
#[test]
fn a_claim_that_ends_twice_is_told_of_once() {
    let rows = Rows {
        servers: vec![sporadic(0, 500, 1000), sporadic(1, 200, 1000), sporadic(2, 200, 1000)],
        tcaps: vec![claim(0, 0, 1), claim(1, 0, 1), claim(2, 0, 1), claim(NONE, 0, 1)],
        threads: vec![(0, NONE), (1, NONE), (2, NONE)],
        ..Rows::default()
    };
    for order in [[1, 2], [2, 1]] {
        let mut test = Test::new(&rows);
        for server in order {
            assert_eq!(test.call(Call::Delegate, &[TCAP + 3, TCAP + server, 0, 0, 0]), Code::Ok);
            let back = [TcapOperation::Transfer.number(), TCAP + server, TCAP + 3, 0];
            assert_eq!(test.call(Call::Tcap, &back), Code::Ok);
        }
        test.call(Call::Receive, &[0, 0, 600]);
        assert_eq!(test.running, Some(1));
        test.spin(400);
        assert_eq!(test.ran, [(1, 200), (2, 200)]);
    }
}

/// CH-52, CH-55: who was notified on time of its own server continues with its own claim when that is used up.
#[test]
fn what_is_given_of_ones_own_server_is_used_before_ones_own() {
    let mut test = client_server_and_another();
    assert_eq!(test.call(Call::Delegate, &[SEND, TCAP + 1, 50, 0, NOTIFY]), Code::Ok);
    test.call(Call::Receive, &[0, 0, 5_000]);
    let runs_on = |test: &Test| test.kernel.objects().room().threads[0].runs_on;
    assert_eq!((test.running, runs_on(&test)), (Some(0), 3));
    test.spin(61);
    assert_eq!((test.running, runs_on(&test)), (Some(0), 1));
    test.spin(700);
    assert_eq!((test.ran.clone(), test.charged(1)), (vec![(2, 10), (0, 500), (2, 190)], (500, 0)));
}

/// CH-52: a claim in the position of a server has lost its time, and is given some of another server's by somebody less important: who waits on it is asked again.
#[test]
fn who_is_given_time_of_another_server_is_asked_again() {
    let rows = Rows {
        servers: vec![sporadic(0, 200, 1000), sporadic(1, 500, 1000), unlimited(2)],
        tcaps: vec![claim(0, 0, 1), claim(1, 0, 1), claim(2, 0, 1), claim(NONE, 0, 1)],
        // Thread 0 has nothing of its own but what it is given.
        threads: vec![(3, NONE), (0, NONE), (2, NONE)],
        ..Rows::default()
    };
    let mut test = Test::new(&rows);
    assert_eq!(test.call(Call::Delegate, &[TCAP + 3, TCAP + 1, 50, 0, 0]), Code::Ok);
    for operation in [ThreadOperation::Suspend, ThreadOperation::Resume] {
        assert_eq!(test.call(Call::Thread, &[operation.number(), THREAD]), Code::Ok);
    }
    test.call(Call::Receive, &[0, 0, 5_000]);
    assert_eq!((test.running, test.kernel.objects().room().threads[0].server), (Some(0), 1));
    // It is used up, and all of the budget is back before 1500.
    test.spin(1_500);
    assert_eq!(test.running, Some(2));
    test.call(Call::Delegate, &[TCAP + 3, TCAP, 50, 0, 0]);
    assert_eq!((test.code(2), test.running), (Code::Ok, Some(0)));
}

/// CH-50, CH-54: what is given ends with its date for who runs on it too, though it is not used up: it leaves the core at that instant to who is more important than its own server.
#[test]
fn who_runs_on_what_expires_leaves_at_that_instant() {
    let rows = Rows {
        servers: vec![sporadic(0, 980, 5_000), sporadic(1, 200, 1_000), sporadic(2, 500, 5_000), unlimited(3)],
        tcaps: vec![claim(0, 0, 1), claim(1, 0, 1), claim(2, 0, 1), claim(3, 0, 1), claim(NONE, 0, 1)],
        threads: vec![(3, NONE), (1, NONE), (0, NONE), (2, NONE)],
        ..Rows::default()
    };
    let mut test = Test::new(&rows);
    for _ in 0..3 {
        test.call(Call::Receive, &[0, 0, 10]);
    }
    test.call(Call::Receive, &[RECEIVE, Flag::All.number(), 0]);
    assert_eq!((test.running, test.now()), (Some(2), 10));
    test.call(Call::Receive, &[0, 0, 20]);
    assert_eq!(test.running, Some(1));
    assert_eq!(test.call(Call::Delegate, &[SEND, TCAP + 1, 120, 0, NOTIFY]), Code::Ok);
    test.call(Call::Receive, &[0, 0, 9_000]);
    // What was given may be used until 1010, and who is most important has the core from 20 to 1000.
    test.spin(1_300);
    assert_eq!(test.ran, [(0, 10), (2, 980), (0, 10), (3, 290)]);
    assert_eq!(test.charged(1).0, 20);
}

/// CH-23, QV-32: a server that works for a less important client than its best one does not keep out who is between them and has its time back.
#[test]
fn who_works_for_others_is_as_important_as_they_are() {
    let io = ServerRow { rule: Rule::Pibs.number(), budget_ticks: 1, clients: 0b1010, ..sporadic(0, 1, 2) };
    let rows = Rows {
        servers: vec![io, sporadic(0, 10, 4000), sporadic(1, 200, 1000), sporadic(5, 10, 5000)],
        tcaps: vec![claim(0, 0, 1), claim(1, 0, 1), claim(2, 0, 1), claim(3, 0, 1), claim(NONE, 0, 1)],
        threads: vec![(0, NONE), (2, NONE)],
        bindings: vec![BindingRow { intid: 40, clients: 0b1010, default_client: NONE, ..BindingRow::default() }],
        ..Rows::default()
    };
    let mut test = Test::new(&rows);
    assert_eq!(test.call(Call::Interrupt, &[InterruptOperation::Serve.number(), INTERRUPT, 3]), Code::Ok);
    assert_eq!(test.running, Some(1), "who is between them");
    // All that it has, until its date, which nobody uses.
    assert_eq!(test.call(Call::Delegate, &[TCAP + 4, TCAP + 2, 0, 0, 0]), Code::Ok);
    test.spin(1_100);
    assert_eq!(test.ran, [(0, 1000), (1, 100)]);
}

/// CH-50: a server loses what it has reserved when it may use nothing else, if it polls: then it has no budget, and continues in the background at once and not with the
/// next thing that happens.
#[test]
fn a_polling_server_that_loses_a_reservation_continues_in_the_background() {
    let server = ServerRow { rule: Rule::Polling.number(), background: 64, ..sporadic(0, 200, 1000) };
    let rows = Rows {
        servers: vec![server],
        tcaps: vec![claim(0, 0, 1), claim(NONE, 0, 1)],
        threads: vec![(0, NONE)],
        ..Rows::default()
    };
    let mut test = Test::new(&rows);
    assert_eq!(test.call(Call::Delegate, &[TCAP + 1, TCAP, 120, 0, 0]), Code::Ok);
    test.spin(500);
    assert_eq!(test.call(Call::Version, &[]), Code::Ok);
    assert_eq!((test.charged(0), test.kernel.accounts().idle_ticks), ((80, 420), 0));
}

/// CH-60: claims that end at one instant are told of as work of the server whose time it was, in slices. Who is more important and is woken at that instant runs
/// first.
#[test]
fn what_ends_of_others_does_not_delay_who_is_more_important() {
    const MEMBERS: u16 = 2;
    let held = ServerRow { holder: 0, ..sporadic(1, 600, 1000) };
    let made = (0..MEMBERS).map(|_| claim(NONE, 1, 2));
    let rows = Rows {
        servers: vec![sporadic(0, 200, 1000), held],
        tcaps: [claim(0, 0, 1), claim(1, 1, 1)].into_iter().chain(made).chain([claim(NONE, 1, 4)]).collect(),
        threads: [(0, NONE), (1, NONE)].into_iter().chain((0..MEMBERS).map(|number| (2 + number, 0))).collect(),
        schedulers: vec![SchedulerRow { thread: 1, parent: NONE, id: 1, reserved: 0 }],
        ..Rows::default()
    };
    let mut test = Test::new(&rows);
    test.call(Call::Receive, &[0, 0, 1_000]);
    assert_eq!(test.running, Some(1));
    for member in 2..u64::from(2 + MEMBERS) {
        assert_eq!(test.call(Call::Delegate, &[TCAP + member, TCAP + 1, 20, 0, 0]), Code::Ok);
        // They began without time: what they run on is looked for again.
        assert_eq!(test.call(Call::Thread, &[2, THREAD + member]), Code::Ok);
        assert_eq!(test.call(Call::Thread, &[3, THREAD + member]), Code::Ok);
    }
    let exhausted = |test: &Test| {
        let threads = &test.kernel.objects().room().threads;
        (2..usize::from(2 + MEMBERS)).filter(|member| threads[*member].event.what & 4 != 0).count()
    };
    let awake = |test: &Test| test.kernel.objects().room().threads.iter().filter(|one| one.server == 1).count();
    assert_eq!((awake(&test), exhausted(&test)), (1 + usize::from(MEMBERS), 0));
    test.spin(1_000);
    assert_eq!((test.running, exhausted(&test)), (Some(0), 0), "nobody was told yet");
    // More of them expire with each entry; then the less important server's turn is.
    assert_eq!(test.call(Call::Version, &[]), Code::Ok);
    assert_eq!((test.running, exhausted(&test)), (Some(0), 0));
    test.call(Call::Receive, &[0, 0, 5_000]);
    assert_eq!((test.running, exhausted(&test)), (Some(1), usize::from(MEMBERS)));
}

/// CH-23: who was passed over for a claim comes when its server continues with another one, of which the common scheduler says nothing.
#[test]
fn who_was_passed_over_comes_when_the_position_has_another_claim() {
    let mut vector = [0; 16];
    vector[0] = 7 << 48 | 3;
    let with_opinion = TcapRow { vector, words: 1, ..claim(1, 1, 6) };
    let held = ServerRow { holder: 0, ..sporadic(1, 600, 1000) };
    let rows = Rows {
        servers: vec![sporadic(0, 200, 1000), held],
        tcaps: vec![claim(0, 7, 5), claim(1, 1, 1), with_opinion, claim(1, 1, 8), claim(NONE, 1, 4)],
        threads: vec![(0, NONE), (1, NONE), (2, 0), (3, 0)],
        schedulers: vec![SchedulerRow { thread: 1, parent: NONE, id: 1, reserved: 0 }],
        ..Rows::default()
    };
    let mut test = Test::new(&rows);
    test.call(Call::Receive, &[0, 0, 100]);
    assert_eq!(test.running, Some(1));
    for _ in 0..2 {
        assert_eq!(test.call(Call::Events, &[SCHEDULER, 1]), Code::Ok);
    }
    let switch = |test: &mut Test, thread: u64| {
        let token = test.kernel.objects().room().schedulers[0].token;
        test.call(Call::Switch, &[SCHEDULER, THREAD + thread, 0, 0, 0, token])
    };
    assert_eq!((switch(&mut test, 2), test.running), (Code::Ok, Some(2)));
    test.spin(150);
    assert_eq!(test.ran, [(2, 150)], "passed over since 100");
    assert_eq!((switch(&mut test, 3), test.running), (Code::Ok, Some(0)));
}

/// CH-52: refusals are those of the rule.
#[test]
fn refusals_of_time_have_their_codes() {
    let mut test = client_and_server();
    assert_eq!(test.call(Call::Delegate, &[TCAP + 1, TCAP, 5, 0, 0]), Code::Busy, "one claim, one payer");
    assert_eq!(test.call(Call::Delegate, &[TCAP, TCAP + 2, 5, 0, 0]), Code::NoTime);
    assert_eq!(test.call(Call::Delegate, &[TCAP + 2, TCAP, 5, 0, 0]), Code::Ok);
    assert_eq!(
        test.call(Call::Delegate, &[TCAP + 2, TCAP + 2, ALL_TICKS, 9, 0]),
        Code::Ok,
        "to itself the priority alone"
    );
    assert_eq!(test.call(Call::Tcap, &[3, TCAP + 2, 0]), Code::BadArgument);
    assert_eq!(test.call(Call::Tcap, &[2, TCAP, TCAP + 2]), Code::Busy, "the host's");
    assert_eq!(test.call(Call::Server, &[2, 20]), Code::BadCapability);
}

/// CH-23: two servers whose claims have passed through scheduler 7, which has another opinion than the levels; the better level wakes at 100.
fn two_opinions(of_the_better: u16, limited: bool) -> Vec<(u16, u64)> {
    let rows = Rows {
        servers: vec![sporadic(0, 200, 1000), if limited { sporadic(1, 300, 1000) } else { unlimited(1) }],
        tcaps: vec![claim(0, of_the_better, 5), claim(1, 7, 3), claim(NONE, 0, 1)],
        threads: vec![(0, NONE), (1, NONE)],
        ..Rows::default()
    };
    let mut test = Test::new(&rows);
    test.call(Call::Receive, &[0, 0, 100]);
    assert_eq!(test.running, Some(1));
    test.spin(700);
    test.ran
}

/// CH-23: nobody is preempted against the word of a scheduler that both have in common; who was passed over comes as soon as the other one gives way.
#[test]
fn a_common_scheduler_has_a_word_in_who_preempts() {
    assert_eq!(two_opinions(7, true), [(1, 300), (0, 200)]);
    assert_eq!(two_opinions(8, true), [(1, 100), (0, 200), (1, 200)], "no scheduler in common");
    assert_eq!(two_opinions(7, false), [(1, 100), (0, 200), (1, 400)], "without a limit it keeps nobody out");
}

/// QV-20, QV-37: servers are made within what the host reserved, run threads with their budgets, and come back a period after their end.
#[test]
fn a_band_admits_what_it_was_counted_for() {
    let in_band = ServerRow { band: 0, level: 0, ..sporadic(0, 0, 0) };
    let band = BandRow {
        shortest_period_ticks: 500,
        longest_period_ticks: 2000,
        budget_ticks: 100,
        smallest_budget_ticks: 10,
        servers: 2,
        ..BandRow::default()
    };
    let rows = Rows {
        servers: vec![in_band, in_band, unlimited(5)],
        tcaps: vec![claim(0, 0, 1), claim(1, 0, 1), claim(2, 0, 1)],
        threads: vec![(2, NONE), (2, NONE)],
        bands: vec![band],
        ..Rows::default()
    };
    for more in [0, 1] {
        // With one claim more the kernel looks at claims, and comes to the same.
        let rows = Rows {
            tcaps: [&rows.tcaps[..], &vec![claim(NONE, 0, 1); more]].concat(),
            bands: rows.bands.clone(),
            servers: rows.servers.clone(),
            threads: rows.threads.clone(),
            ..Rows::default()
        };
        let mut test = Test::new(&rows);
        let me = test.running.expect("runs");
        let other = THREAD + u64::from(1 - me);
        assert_eq!(test.call(Call::Server, &[0, BAND, 101, 1000, EMPTY]), Code::NotAdmitted);
        assert_eq!(test.call(Call::Server, &[0, BAND, 9, 1000, EMPTY]), Code::NotAdmitted, "too small");
        assert_eq!(test.call(Call::Server, &[0, BAND, 60, 499, EMPTY]), Code::NotAdmitted, "too often");
        assert_eq!(test.call(Call::Server, &[0, BAND, 60, 1000, EMPTY]), Code::Ok);
        assert_eq!(test.call(Call::Server, &[0, BAND, 41, 1000, EMPTY + 1]), Code::NotAdmitted, "the sum");
        assert_eq!(test.call(Call::Server, &[0, BAND, 40, 500, EMPTY + 1]), Code::Ok);
        assert_eq!(test.call(Call::Server, &[0, BAND, 10, 500, EMPTY + 2]), Code::Full);
        assert_eq!((test.call(Call::Server, &[3, EMPTY]), test.x(me, 1), test.x(me, 2)), (Code::Ok, 60, 1000));
        for code in [Code::Ok, Code::BadCapability] {
            assert_eq!(
                test.call(Call::Server, &[ServerOperation::Destroy.number(), EMPTY + 1]),
                code,
                "nobody needs it"
            );
        }
        // The other thread runs there, above this one.
        assert_eq!(test.call(Call::Thread, &[6, other, EMPTY]), Code::Ok);
        assert_eq!(test.running, Some(1 - me));
        test.spin(2000);
        assert_eq!(
            (test.charged(0).0, test.ran.clone()),
            (120, vec![(1 - me, 60), (me, 940), (1 - me, 60), (me, 940)])
        );
        assert_eq!((test.running, test.call(Call::Server, &[2, EMPTY])), (Some(1 - me), Code::Busy));
    }
}

/// Without budget a scheduler's server continues in the background, and the scheduler says there who runs; a number of `switch` is for as long as that runs.
#[test]
fn a_scheduler_says_in_the_background_who_runs() {
    let server = ServerRow { background: 64, holder: 0, ..sporadic(0, 100, 1000) };
    let rows = Rows {
        servers: vec![server],
        tcaps: vec![claim(0, 1, 1), claim(0, 1, 6), claim(0, 1, 8), claim(NONE, 1, 4)],
        threads: vec![(0, NONE), (1, 0), (2, 0)],
        schedulers: vec![SchedulerRow { thread: 0, parent: NONE, id: 1, reserved: 0 }],
        ..Rows::default()
    };
    let mut test = Test::new(&rows);
    // No matter who is first, the scheduler's thread has the best number.
    assert_eq!(test.running, Some(0));
    for _ in 0..2 {
        assert_eq!(test.call(Call::Events, &[SCHEDULER, 1]), Code::Ok);
    }
    let switch = |test: &mut Test, thread: u64, number: u64, timeout: u64| {
        let token = test.kernel.objects().room().schedulers[0].token;
        test.call(Call::Switch, &[SCHEDULER, THREAD + thread, 0, number, timeout, token])
    };
    assert_eq!((switch(&mut test, 1, 3, 50), test.running), (Code::Ok, Some(1)));
    assert_eq!(test.call(Call::Tcap, &[4, TCAP + 1]), Code::Ok);
    test.spin(60);
    // The number 3 was for as long as it ran: with its own it does not preempt a 5.
    assert_eq!((switch(&mut test, 2, 5, 0), test.running), (Code::Ok, Some(2)));
    assert_eq!(test.call(Call::Thread, &[2, THREAD + 1]), Code::Ok);
    assert_eq!((test.call(Call::Thread, &[3, THREAD + 1]), test.running), (Code::Ok, Some(2)));
    assert_eq!((switch(&mut test, 0, 0, 0), test.running), (Code::Ok, Some(0)));
    test.spin(150);
    assert_eq!((test.running, test.ran.clone()), (Some(0), vec![(1, 50), (0, 100)]), "the time-out");
    assert_eq!((switch(&mut test, 2, 0, 0), test.running), (Code::Ok, Some(2)), "in the background");
    // A claim that is finite never is.
    assert_eq!(test.call(Call::Delegate, &[TCAP + 3, TCAP + 2, 10, 0, 0]), Code::NoTime);
    // By that call: a `switch` leaves it to the next entry.
    assert_eq!(test.charged(0), (100, 50));
    test.spin(1010);
    assert_eq!(test.call(Call::Delegate, &[TCAP + 3, TCAP + 2, 30, 0, 0]), Code::Ok);
    let token = test.kernel.objects().room().schedulers[0].token;
    assert_eq!(test.call(Call::Switch, &[SCHEDULER, THREAD + 2, TCAP + 3, 0, 0, token]), Code::Ok);
    test.ran.clear();
    test.spin(1030);
    assert_eq!(test.ran, [(2, 20)]);
    // The end of the claim: the thread continues with its own, and its scheduler is told.
    test.spin(1060);
    assert_eq!(test.ran, [(2, 50)]);
    assert_eq!(test.kernel.objects().room().threads[2].runs_on, 2);
    assert_eq!(test.kernel.objects().room().threads[2].event.what & 4, 4, "exhausted");
}
