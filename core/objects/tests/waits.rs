//! What a wait knows since it began holds until it ends: everything that can happen to a thread that waits, against every kind of wait.
//!
//! A wait remembers on which server it is woken, and the short way of a signal believes it. So each row of the table does something to a thread that waits, and is done twice: in
//! one instance a signal takes the short way behind it, as the vectors take it, and in the other one the long way. All state is the same then, and once more when everybody has
//! run, waited again and was woken again.

mod support;

use bulkhead_kernel_abi::accounts::FaultRecord;
use bulkhead_kernel_abi::call::{
    Call, CapabilityOperation, ComponentOperation, Flag, ServerOperation, TcapOperation, ThreadOperation,
};
use bulkhead_kernel_abi::{Code, Kind, NONE};
use bulkhead_objects::{Choice, Notified, Outcome, Time};
use support::pool::{DATA, OWN_QUOTA, OWN_SERVER, QUOTA, TEXT, USUAL, first_of, process, share};
use support::state::Copy;
use support::time::{BAND, TCAP_GUEST, TCAP_ROOT};
use support::*;

const ALL: u64 = 2;
/// Who acts: a thread of the application's on server 0, which never waits while it acts.
const ACTOR: u16 = 1;
const SERVERS: u16 = 5;
const END_POINTS: u16 = 5;
/// Server 1, the supervisor's component, and empty slots of the application.
const SERVER_1: u64 = SEND_CHILD_TASK;
const COMPONENT_SUPERVISOR: u64 = REMOTE;
const MADE: u64 = EMPTY;

/// A wait: who, for which end point, how, and from inside a service.
#[derive(Clone, Copy, Debug)]
struct Wait {
    thread: u16,
    end_point: u16,
    flags: u64,
    deadline: u64,
    is_inside: bool,
}

/// On server 0 in all ways, by another component, below a scheduler on a server that its threads hold, below a child scheduler on one that it does not hold alone, where the end point has time of
/// its own, and a scheduler's own thread.
const WAITS: [Wait; 9] = [
    wait(0, 0, ALL, 0, false),
    wait(0, 0, ALL, 0, true),
    wait(0, 0, ALL, 5 * SOON, false),
    wait(0, 0, 0, 0, false),
    wait(4, 1, ALL, 0, false),
    wait(3, 2, ALL, 0, false),
    wait(6, 3, ALL, 0, false),
    wait(7, 4, ALL, 0, false),
    wait(2, 2, ALL, 0, false),
];

const fn wait(thread: u16, end_point: u16, flags: u64, deadline: u64, is_inside: bool) -> Wait {
    Wait { thread, end_point, flags, deadline, is_inside }
}

type Act = fn(&mut Bench<'_>, u16);

/// The one who acts runs, and calls until it is not told to call again.
fn act(b: &mut Bench<'_>, call: Call, x: &[u64]) -> Code {
    for _ in 0..200 {
        run(b, ACTOR);
        let outcome = b.svc(call, x);
        if outcome == Outcome::Done {
            return Code::from_number(b.thread(ACTOR).registers.x[0]).expect("a code");
        }
    }
    panic!("it ends");
}

/// The same of a call that must be obeyed.
#[track_caller]
fn does(b: &mut Bench<'_>, call: Call, x: &[u64]) {
    assert_eq!(act(b, call, x), Code::Ok, "{} {x:?}", call.name());
}

/// Others on server 0 yield until this one runs.
fn run(b: &mut Bench<'_>, wanted: u16) {
    for _ in 0..9 {
        if b.pick(0) == Some(wanted) {
            return;
        }
        assert_eq!(b.call(Call::Yield, &[]), Code::Ok);
    }
    panic!("thread {wanted} does not run");
}

const START: u64 = ThreadOperation::Start.number();
const STOP: u64 = ThreadOperation::Stop.number();
const SUSPEND: u64 = ThreadOperation::Suspend.number();
const RESUME: u64 = ThreadOperation::Resume.number();
const ABORT: u64 = ThreadOperation::Abort.number();
const BIND: u64 = ThreadOperation::Bind.number();
const LIMIT: u64 = ThreadOperation::Limit.number();
const DESTROY: u64 = ComponentOperation::Destroy.number();
const RESET: u64 = ComponentOperation::Reset.number();
const CREATE: u64 = ServerOperation::Create.number();
const SET: u64 = ServerOperation::Set.number();
const END: u64 = ServerOperation::Destroy.number();
const MAKE: u64 = TcapOperation::Create.number();
const TRANSFER: u64 = TcapOperation::Transfer.number();
const MERGE: u64 = TcapOperation::Merge.number();
const REVOKE: u64 = CapabilityOperation::Revoke.number();

fn thread(b: &mut Bench<'_>, operation: u64, thread: u16, x: u64) {
    let _ = act(b, Call::Thread, &[operation, THREAD + u64::from(thread), x, SEND_APP]);
}

/// Ends a component in as many pieces as there are.
fn end(b: &mut Bench<'_>, operation: u64, component: u64, pages: u32) {
    b.world.pages = pages;
    for _ in 0..200 {
        b.world.looks.set(1);
        run(b, ACTOR);
        if b.svc(Call::Component, &[operation, component]) == Outcome::Done {
            return;
        }
    }
    panic!("it ends");
}

/// What was given to a claim is over, for those that are awake on it.
fn is_spent(b: &mut Bench<'_>, tcap: u16) {
    b.world.usable[usize::from(tcap)] = 0;
    let mut first = Some(0);
    while let Some(from) = first {
        first = b.objects.spent(&mut b.world, tcap, from);
    }
}

fn passes(b: &mut Bench<'_>, ticks: u64) {
    b.world.now += ticks;
    while b.objects.pass_date(&mut b.world).is_some() {}
}

/// Everything that can happen to somebody who waits, beside a signal; and what a signal finds behind it, for each of [`WAITS`]: that it is *k*nown where it is woken, that it is *u*nknown
/// or not simple, or that *n*obody waits.
const HAPPENS: &[(&str, &str, Act)] = &[
    ("nothing", "kkuukuuuu", |_, _| {}),
    ("bound to another server", "uuuuuuuuu", |b, who| thread(b, BIND, who, SERVER_1)),
    ("bound to the same server", "uuuuuuuuu", |b, who| thread(b, BIND, who, SERVER)),
    ("bound to a server that a scheduler holds", "uuuuuuuuu", |b, who| thread(b, BIND, who, SERVER_RT)),
    ("bound to a scheduler", "uuuuuuuuu", |b, who| thread(b, BIND, who, SCHEDULER)),
    ("bound to a child scheduler", "uuuuuuuuu", |b, who| thread(b, BIND, who, CHILD_SCHEDULER)),
    ("bound away and back", "uuuuuuuuu", |b, who| {
        thread(b, BIND, who, SCHEDULER);
        thread(b, BIND, who, SERVER);
    }),
    ("suspended", "nnnnnnnnn", |b, who| thread(b, SUSPEND, who, 0)),
    ("suspended and resumed", "kkuukuuuu", |b, who| {
        thread(b, SUSPEND, who, 0);
        thread(b, RESUME, who, 0);
    }),
    ("bound while it is suspended", "uuuuuuuuu", |b, who| {
        thread(b, SUSPEND, who, 0);
        thread(b, BIND, who, SERVER_1);
        thread(b, RESUME, who, 0);
    }),
    ("notified while it is suspended", "nnnnnnnnn", |b, who| {
        thread(b, SUSPEND, who, 0);
        (0..END_POINTS).for_each(|one| b.objects.send(&mut b.world, one, 1));
        thread(b, RESUME, who, 0);
    }),
    ("stopped", "nnnnnnnnn", |b, who| thread(b, STOP, who, 0)),
    ("stopped and started", "nnnnnnnnn", |b, who| {
        thread(b, STOP, who, 0);
        thread(b, START, who, 0);
    }),
    ("its call aborted", "knuukuuuu", |b, who| thread(b, ABORT, who, 0)),
    ("a limit of its own end point", "kkuukuuuu", |b, who| thread(b, LIMIT, who, 5)),
    ("the service destroyed", "knuukuuuu", |b, _| end(b, DESTROY, COMPONENT_SERVICE, 3)),
    ("the service reset", "knuukuuuu", |b, _| end(b, RESET, COMPONENT_SERVICE, 3)),
    ("the first slice of the reset of the service", "knuukuuuu", |b, _| {
        b.world.looks.set(1);
        run(b, ACTOR);
        let _ = b.svc(Call::Component, &[RESET, COMPONENT_SERVICE]);
    }),
    ("the supervisor reset", "kkuunuunu", |b, _| end(b, RESET, COMPONENT_SUPERVISOR, 3)),
    ("the supervisor destroyed", "kkuunuunu", |b, _| end(b, DESTROY, COMPONENT_SUPERVISOR, 3)),
    ("a fault of the service with the actor inside", "knuunuuuu", |b, _| {
        run(b, ACTOR);
        let _ = b.invoke(CALL_SERVICE);
        b.objects.fault(&mut b.world, FaultRecord { kind: 1, ..Default::default() });
        while b.pick(0) != Some(ACTOR) {}
    }),
    ("a fault of its home, which begins again", "nnnnkuuuu", |b, who| {
        run(b, ACTOR);
        b.objects.fault(&mut b.world, FaultRecord { kind: 1, ..Default::default() });
        while b.objects.work(&mut b.world) {}
        let _ = (b.pick(0), who);
        b.start(&[ACTOR]);
    }),
    ("time given to where it waits", "kkuukuuuu", |b, _| does(b, Call::Delegate, &[SEND_GUEST, TCAP_ROOT, 50, 0, 0])),
    ("time given that is used up again", "kkuukuuuu", |b, _| {
        does(b, Call::Delegate, &[SEND_GUEST, TCAP_ROOT, 50, 0, 0]);
        b.world.roots[6] = NONE;
        is_spent(b, 6);
    }),
    ("time given with a notification", "kkuukuunu", |b, _| {
        does(b, Call::Delegate, &[SEND_GUEST, TCAP_ROOT, 50, 0, Flag::Notify.number()])
    }),
    ("time moved to a claim of another number", "kkuukuuuu", |b, _| {
        does(b, Call::Delegate, &[SEND_GUEST, TCAP_ROOT, 50, 0, 0]);
        does(b, Call::Tcap, &[TRANSFER, TCAP_GUEST, TCAP_ROOT, 10]);
    }),
    ("a claim made and merged", "kkuukuuuu", |b, _| {
        does(b, Call::Tcap, &[MAKE, SCHEDULER, MADE]);
        does(b, Call::Delegate, &[MADE, TCAP_ROOT, 5, 0, 0]);
        does(b, Call::Tcap, &[MERGE, TCAP_ROOT, MADE]);
    }),
    ("its claim used up", "kkuukuuuu", |b, _| (0..6).for_each(|tcap| is_spent(b, tcap))),
    ("bound to a server of a band", "uuuuuuuuu", |b, who| {
        does(b, Call::Server, &[CREATE, BAND, 5, 200, MADE]);
        thread(b, BIND, who, MADE);
    }),
    ("a server of a band set, and its end refused", "uuuuuuuuu", |b, who| {
        does(b, Call::Server, &[CREATE, BAND, 5, 200, MADE]);
        thread(b, BIND, who, MADE);
        does(b, Call::Server, &[SET, MADE, 6, 300]);
        let is_bound = b.thread(who).tcap >= 8;
        let code = act(b, Call::Server, &[END, MADE]);
        assert_eq!(code, if is_bound { Code::Busy } else { Code::Ok });
    }),
    ("bound to a server of a band that ended", "uuuuuuuuu", |b, who| {
        does(b, Call::Server, &[CREATE, BAND, 5, 200, MADE]);
        thread(b, BIND, who, MADE);
        thread(b, BIND, who, SERVER);
        does(b, Call::Server, &[END, MADE]);
        assert_ne!(act(b, Call::Thread, &[BIND, THREAD + u64::from(who), MADE]), Code::Ok, "it is no more");
    }),
    ("an end of its time-out", "kknukuuuu", |b, _| passes(b, 6 * SOON)),
    ("budgets at an end", "kkuukuuuu", |b, _| {
        b.world.has_budget = false;
        (0..SERVERS).for_each(|server| b.objects.out_of_budget(&mut b.world, server));
    }),
    ("the turn of another one over", "kkuukuuuu", |b, _| {
        run(b, ACTOR);
        b.used(1_000);
    }),
    ("the end of the scheduler's thread", "kkuukuuun", |b, _| thread(b, STOP, 2, 0)),
    ("an interrupt", "kkuunuuuu", |b, _| b.objects.top_half(&mut b.world, 0)),
    ("its capability revoked", "kkuukuuuu", |b, _| {
        let _ = act(b, Call::Capability, &[REVOKE, RECEIVE]);
        let _ = act(b, Call::Capability, &[REVOKE, SEND_APP]);
    }),
];

/// The usual instance with a band, and a table of the application that has servers and components besides.
fn rows(wait: &Wait) -> Rows {
    let mut rows = Rows::with_band();
    (rows.threads[3].tcap, rows.threads[3].server) = (1, 1);
    rows.end_points[usize::from(wait.end_point)].thread = wait.thread;
    let mut table = rows.tables().capabilities[..SLOTS as usize].to_vec();
    table[SERVER_1 as usize] = capability(Kind::Server, 1, 0);
    table[COMPONENT_SUPERVISOR as usize] = capability(Kind::Component, SUPERVISOR, 0);
    table[COMPONENT_APP as usize] = capability(Kind::Component, APP, 0);
    rows.set_capabilities(table.iter().copied().cycle().take(SLOTS as usize * 5).collect());
    for (component, policy) in rows.components.iter_mut().zip([1, 1, 0, 0, 0]) {
        component.on_fault = policy;
    }
    rows
}

/// Somebody waits, with the one who acts awake.
fn waits(b: &mut Bench<'_>, wait: &Wait) {
    b.start(&[ACTOR, wait.thread, 2]);
    // The scheduler's thread is not in the way of those that it schedules.
    if b.thread(wait.thread).scheduler != NONE {
        thread(b, SUSPEND, 2, 0);
    }
    let server = b.thread(wait.thread).server;
    for _ in 0..9 {
        if b.pick(server) == Some(wait.thread) {
            break;
        }
        assert_eq!(b.call(Call::Yield, &[]), Code::Ok);
    }
    again(b, wait);
    assert_eq!(b.objects.running(), None, "{wait:?}");
}

/// It waits, from where it is.
fn again(b: &mut Bench<'_>, wait: &Wait) {
    if wait.is_inside && b.thread(wait.thread).depth == 0 {
        let _ = b.invoke(CALL_SERVICE);
    }
    let _ = b.svc(Call::Receive, &[RECEIVE + u64::from(wait.end_point), wait.flags, wait.deadline]);
}

/// A signal as the vectors make it: what the wait does not know is not looked up.
fn signal(b: &mut Bench<'_>, end_point: u16, bits: u64) -> Notified {
    let before = Copy::of(b);
    // By a capability that is void there is none.
    let grant = before.end_points[usize::from(end_point)].counters.grant;
    for void in [grant.wrapping_sub(1), grant.wrapping_add(1)] {
        assert_eq!(b.objects.notify_by(end_point, void, bits, |_| None), Notified::Otherwise);
    }
    assert!(before == Copy::of(b), "nothing has changed");
    let notified = b.objects.notify(end_point, bits, |_| None);
    match notified {
        Notified::Otherwise => {
            assert!(before == Copy::of(b), "nothing has changed");
            b.objects.send_in_full(&mut b.world, end_point, bits);
        }
        Notified::First(server) => {
            let tcap = b.objects.room().servers[usize::from(server)].next.expect("it").tcap;
            let now = b.world.now;
            b.world.filled(server, tcap, now);
        }
        Notified::Nobody | Notified::Behind(..) => {}
    }
    notified
}

/// Something happens to somebody who waits, in two instances, and each end point is told by one of the ways. `is_alone`: nobody else is awake by then.
fn compare(
    rows: &Rows,
    what: &str,
    prepare: &dyn Fn(&mut Bench<'_>),
    wait: &Wait,
    happens: Act,
    is_alone: bool,
) -> Notified {
    let mut first = None;
    bench_of(rows, |short| {
        bench_of(rows, |long| {
            let begin = |b: &mut Bench<'_>| {
                prepare(b);
                waits(b, wait);
                happens(b, wait.thread);
                // A date that ends behind everything else.
                if is_alone && b.pick(0) == Some(ACTOR) {
                    assert_eq!(b.svc(Call::Receive, &[0, 0, 9 * SOON]), Outcome::Done);
                }
            };
            begin(short);
            begin(long);
            assert!(Copy::of(short) == Copy::of(long), "{what}: one history");
            for round in 0..3 {
                for end_point in 0..END_POINTS {
                    let bits = 1 << (round + u64::from(end_point));
                    let notified = signal(short, end_point, bits);
                    long.objects.send_in_full(&mut long.world, end_point, bits);
                    if round == 0 && end_point == wait.end_point {
                        first = Some(notified);
                    }
                    let (short, long) = (Copy::of(short), Copy::of(long));
                    assert!(short == long, "{what}: {wait:?}, round {round}, end point {end_point}: {notified:?}");
                }
                settle(short, wait);
                settle(long, wait);
                assert!(Copy::of(short) == Copy::of(long), "{what}: {wait:?}, behind round {round}");
            }
        });
    });
    first.expect("its end point was told")
}

/// Everybody runs once, and who waited waits again.
fn settle(b: &mut Bench<'_>, wait: &Wait) {
    for server in 0..SERVERS {
        for _ in 0..3 {
            match b.objects.choose(&mut b.world, server) {
                Choice::Run(thread) if thread == wait.thread => again(b, wait),
                Choice::Run(_) => {
                    let _ = b.svc(Call::Yield, &[]);
                }
                Choice::Again => {}
                Choice::Nobody => break,
            }
        }
    }
}

/// The same of the processes of who waits; none of its own threads can wait for an end point, since those are of the host's.
const PROCESSES: &[(&str, &str, Act)] = &[
    ("a process beside it", "kkuu", |_, _| {}),
    ("a process that exits", "nnnn", |b, _| {
        run(b, first_of(b, MADE_COMPONENT));
        assert_eq!(b.svc(Call::Component, &[ComponentOperation::Exit.number(), 7]), Outcome::Done);
    }),
    ("a process that forks", "kkuu", |b, _| {
        run(b, first_of(b, MADE_COMPONENT));
        let x = [ComponentOperation::Fork.number(), OWN_QUOTA, OWN_SERVER, 20, share(10, 0, 0, 0)];
        assert_eq!(b.call(Call::Component, &x), Code::Ok);
        assert!(b.component(MADE_COMPONENT + 1).first_thread != NONE);
    }),
    ("a process that begins again as another one", "kkuu", |b, _| {
        let first = first_of(b, MADE_COMPONENT);
        run(b, first);
        assert_eq!(b.svc(Call::Component, &[ComponentOperation::Exec.number(), 1, 42]), Outcome::Done);
        assert_eq!(b.pick(0), Some(first));
    }),
    ("a process that is destroyed", "kkuu", |b, _| end(b, DESTROY, MADE, 0)),
    ("a process that is reset", "kkuu", |b, _| end(b, RESET, MADE, 0)),
    ("a process that faults", "nnnn", |b, _| {
        run(b, first_of(b, MADE_COMPONENT));
        b.objects.fault(&mut b.world, FaultRecord { kind: 1, ..Default::default() });
    }),
    ("a thread made at home, and stopped", "kkuu", |b, _| {
        does(b, Call::Thread, &[ThreadOperation::Create.number(), QUOTA, SERVER, TEXT, DATA, MADE + 1]);
        does(b, Call::Thread, &[START, MADE + 1, 0]);
        does(b, Call::Thread, &[STOP, MADE + 1]);
    }),
];
/// The first component that is made.
const MADE_COMPONENT: u16 = 5;

fn found(
    rows: fn(&Wait) -> Rows,
    what: &str,
    prepare: &dyn Fn(&mut Bench<'_>),
    wait: &Wait,
    act: Act,
    is_alone: bool,
) -> char {
    match compare(&rows(wait), what, prepare, wait, act, is_alone) {
        Notified::Behind(..) | Notified::First(_) => 'k',
        Notified::Otherwise => 'u',
        Notified::Nobody => 'n',
    }
}

/// All rows against all waits, with somebody else awake on the server and without.
#[test]
fn what_happens_to_who_waits_is_known_to_a_signal() {
    let prepare = |b: &mut Bench<'_>| {
        b.with_band();
    };
    for (what, finds, happens) in HAPPENS {
        for is_alone in [false, true] {
            let found: String =
                WAITS.iter().map(|wait| found(rows, what, &prepare, wait, *happens, is_alone)).collect();
            assert_eq!(found, *finds, "{what}, alone: {is_alone}");
        }
    }
}

#[test]
fn what_processes_of_who_waits_do_is_known_to_a_signal() {
    let prepare = |b: &mut Bench<'_>| {
        let [_, rest @ ..] = USUAL;
        assert_eq!(process(b, &rest), MADE_COMPONENT);
    };
    for (what, finds, happens) in PROCESSES {
        for is_alone in [false, true] {
            let waits = WAITS.iter().take(4);
            let found: String =
                waits.map(|wait| found(|_| Rows::with_pool(), what, &prepare, wait, *happens, is_alone)).collect();
            assert_eq!(found, *finds, "{what}, alone: {is_alone}");
        }
    }
}
