//! Who has an interrupt come again, and when: everything that can have happened to one, against everybody who can say `done`.
//!
//! The rule is in the table and not read from the objects: `done` is obeyed on the time of the server that pays, once for each time that the interrupt has come or that its
//! driver has ended, by a capability that is not void. What is refused changes nothing.

mod support;

use bulkhead_kernel_abi::call::{
    Call, CapabilityOperation, ComponentOperation, InterruptOperation, ServerOperation, ThreadOperation,
};
use bulkhead_kernel_abi::{Code, Kind, NONE};
use bulkhead_objects::{Hold, Outcome};
use support::pool::{OWN_QUOTA, OWN_SERVER, OWN_TCAP, USUAL, first_of, process, share};
use support::state::Copy;
use support::time::BAND;
use support::*;

/// The driver, which takes from the end point of all bindings; the payer of binding 0 is its server 0, that of binding 1 is server 1.
const DRIVER: u16 = 4;
/// Who else acts, on server 0.
const ACTOR: u16 = 1;
const DONE: u64 = InterruptOperation::Done.number();
/// The supervisor's component, and server 1, in slots of all tables.
const COMPONENT_SUPERVISOR: u64 = REMOTE;
const SERVER_1: u64 = SEND_CHILD_TASK;
/// The capability to binding 1.
const OTHER: u64 = WEAK_CALL;

/// Somebody who says `done`: a thread, and what it calls into before.
const SPEAKERS: [(&str, u16, Option<u64>); 7] = [
    ("the driver", DRIVER, None),
    ("the driver inside a service", DRIVER, Some(CALL_SERVICE)),
    ("a thread of another component on the same server", 0, None),
    ("that one inside a service", 0, Some(CALL_SERVICE)),
    ("a thread of the driver's component on another server", 7, None),
    ("that one inside another component", 7, Some(CALL_APP)),
    ("a scheduler's thread", 2, None),
];

type Act = fn(&mut Bench<'_>);

fn comes(b: &mut Bench<'_>) {
    assert_eq!(b.objects.room().bindings[0].hold, Hold::Idle, "it can come");
    b.objects.top_half(&mut b.world, 0);
}

fn act(b: &mut Bench<'_>, call: Call, x: &[u64]) -> Code {
    for _ in 0..200 {
        assert!(run(b, ACTOR), "it is never stopped");
        if b.svc(call, x) == Outcome::Done {
            return Code::from_number(b.thread(ACTOR).registers.x[0]).expect("a code");
        }
    }
    panic!("it ends");
}

#[track_caller]
fn thread(b: &mut Bench<'_>, operation: ThreadOperation, x: u64) {
    assert_eq!(act(b, Call::Thread, &[operation.number(), THREAD + u64::from(DRIVER), x]), Code::Ok);
}

/// Others yield until this one runs; false when it does not.
fn run(b: &mut Bench<'_>, wanted: u16) -> bool {
    // Who is brought out of calls first has a server by then.
    for server in 0..3 {
        for _ in 0..9 {
            match b.pick(server) {
                Some(thread) if thread == wanted => return true,
                Some(_) if b.objects.room().servers[usize::from(server)].holder == NONE => {
                    assert_eq!(b.call(Call::Yield, &[]), Code::Ok);
                }
                _ => break,
            }
        }
    }
    false
}

/// What happens, and what each of [`SPEAKERS`] is answered behind it: *o*k, *b*usy, *d*enied, *v*oid; or it cannot run.
const HAPPENS: &[(&str, &str, Act)] = &[
    ("none came", "bbbbddd", |_| {}),
    ("it came", "ooooddd", comes),
    ("it came without budget", "ooooddd", |b| {
        b.world.has_budget = false;
        comes(b);
    }),
    ("it came, and the budget ended", "ooooddd", |b| {
        comes(b);
        b.objects.out_of_budget(&mut b.world, 0);
    }),
    ("it came, and the budget of another server ended", "ooooddd", |b| {
        comes(b);
        b.objects.out_of_budget(&mut b.world, 1);
    }),
    ("budgets ended, and none came", "bbbbddd", |b| (0..3).for_each(|one| b.objects.out_of_budget(&mut b.world, one))),
    ("another one came", "bbbbddd", |b| b.objects.top_half(&mut b.world, 1)),
    ("it came behind four others", "ooooddd", |b| {
        (1..5).for_each(|one| b.objects.top_half(&mut b.world, one));
        comes(b);
        assert_eq!(b.objects.room().bindings[0].hold, Hold::Masked, "four are held");
    }),
    ("it came, and the driver has done", "bbbbddd", |b| {
        comes(b);
        assert!(run(b, DRIVER));
        assert_eq!(b.call(Call::Interrupt, &[DONE, INTERRUPT]), Code::Ok);
    }),
    ("it came again", "ooooddd", |b| {
        comes(b);
        assert!(run(b, DRIVER));
        assert_eq!(b.call(Call::Interrupt, &[DONE, INTERRUPT]), Code::Ok);
        comes(b);
    }),
    ("the driver was stopped before", "--ooddd", |b| thread(b, ThreadOperation::Stop, 0)),
    ("the driver was stopped behind it", "--ooddd", |b| {
        comes(b);
        thread(b, ThreadOperation::Stop, 0);
    }),
    ("the driver began again", "ooooddd", |b| {
        comes(b);
        thread(b, ThreadOperation::Stop, 0);
        thread(b, ThreadOperation::Start, 0);
    }),
    ("the driver began again and was stopped before it had done", "--ooddd", |b| {
        thread(b, ThreadOperation::Stop, 0);
        thread(b, ThreadOperation::Start, 0);
        thread(b, ThreadOperation::Stop, 0);
    }),
    ("the driver's component was reset", "oooo--d", |b| {
        comes(b);
        b.world.pages = 2;
        assert_eq!(act(b, Call::Component, &[ComponentOperation::Reset.number(), COMPONENT_SUPERVISOR]), Code::Ok);
    }),
    ("the driver's component was destroyed", "--oo--d", |b| {
        comes(b);
        assert_eq!(act(b, Call::Component, &[ComponentOperation::Destroy.number(), COMPONENT_SUPERVISOR]), Code::Ok);
    }),
    ("the driver was suspended", "--ooddd", |b| {
        comes(b);
        thread(b, ThreadOperation::Suspend, 0);
    }),
    ("the driver was bound to another server", "ddooddd", |b| {
        comes(b);
        thread(b, ThreadOperation::Bind, SERVER_1);
    }),
    ("the capability was revoked by the other component", "vvovvdv", |b| {
        comes(b);
        assert_eq!(act(b, Call::Capability, &[CapabilityOperation::Revoke.number(), INTERRUPT]), Code::Ok);
    }),
    ("a server of a band was made and ended", "ooooddd", |b| {
        comes(b);
        assert_eq!(act(b, Call::Server, &[ServerOperation::Create.number(), BAND, 5, 200, EMPTY]), Code::Ok);
        assert_eq!(act(b, Call::Server, &[ServerOperation::Destroy.number(), EMPTY]), Code::Ok);
    }),
    ("another thread has it served", "ooooddd", |b| {
        comes(b);
        assert_eq!(act(b, Call::Interrupt, &[InterruptOperation::Serve.number(), INTERRUPT, 2]), Code::Ok);
    }),
];

fn rows() -> Rows {
    let mut rows = Rows::with_band();
    rows.bindings[1].server = 1;
    let mut table = rows.tables().capabilities[..SLOTS as usize].to_vec();
    table[SERVER_1 as usize] = capability(Kind::Server, 1, 0);
    table[COMPONENT_SUPERVISOR as usize] = capability(Kind::Component, SUPERVISOR, 0);
    table[OTHER as usize] = capability(Kind::Interrupt, 1, 0);
    rows.set_capabilities(table.iter().copied().cycle().take(SLOTS as usize * 5).collect());
    rows
}

/// A speaker says `done`; what came of it, of which the state of the interrupt is compared with what the answer says.
fn says_done(b: &mut Bench<'_>, slot: u64, binding: usize) -> char {
    let me = b.objects.running().expect("runs");
    let before = Copy::of(b);
    let code = b.call(Call::Interrupt, &[DONE, slot]);
    let mut after = Copy::of(b);
    let (was, is) = (before.bindings[binding], after.bindings[binding]);
    if code == Code::Ok {
        assert_eq!((is.hold, after.world.masked.contains(&is.intid)), (Hold::Idle, false), "it may come");
        let deactivated = after.world.deactivated.len() - before.world.deactivated.len();
        assert_eq!(deactivated, usize::from(was.hold == Hold::Held), "what is not active is not deactivated");
        return 'o';
    }
    after.threads[usize::from(me)].registers = before.threads[usize::from(me)].registers;
    assert!(before == after, "a refused one changes nothing");
    match code {
        Code::Busy => 'b',
        Code::Denied => 'd',
        Code::BadCapability => 'v',
        code => panic!("{code:?}"),
    }
}

#[test]
fn an_interrupt_comes_again_by_who_pays_for_it_once() {
    let rows = rows();
    for (what, answers, happens) in HAPPENS {
        let mut found = String::new();
        for (who, speaker, calls) in SPEAKERS {
            bench_of(&rows, |b| {
                b.with_band();
                b.start(&[0, ACTOR, 2, DRIVER, 7]);
                happens(b);
                b.world.has_budget = true;
                if !run(b, speaker) {
                    return found.push('-');
                }
                if let Some(slot) = calls {
                    let depth = b.thread(speaker).depth;
                    let _ = b.invoke(slot);
                    assert_eq!(b.thread(speaker).depth, depth + 1, "{what}: {who}");
                }
                let answer = says_done(b, INTERRUPT, 0);
                found.push(answer);
                // Not twice, and the other one is none of its.
                let again = says_done(b, INTERRUPT, 0);
                assert_eq!(again, if answer == 'o' { 'b' } else { answer }, "{what}: {who}, again");
                let other = says_done(b, OTHER, 1);
                assert_eq!(other == 'd', b.thread(speaker).server != 1, "{what}: {who}, of another server");
            });
        }
        assert_eq!(found, *answers, "{what}");
    }
}

/// A process that was given the capability has it come again where the server that pays is its own. The child of its fork has none: interrupts are not copied.
#[test]
fn a_process_has_an_interrupt_come_again_on_the_time_of_who_pays() {
    for (payer, answer) in [(SERVER, 'o'), (REMOTE, 'd')] {
        let mut rows = Rows::with_pool();
        let mut table = rows.tables().capabilities[..SLOTS as usize].to_vec();
        table[TCAP_TASK as usize] = capability(Kind::Interrupt, 0, 0);
        table[REMOTE as usize] = capability(Kind::Server, 1, 0);
        let others = rows.tables().capabilities[SLOTS as usize..].to_vec();
        rows.set_capabilities(table.into_iter().chain(others).collect());
        bench_of(&rows, |b| {
            let [_, program, quota, _, rest @ ..] = USUAL;
            let [first, count, to, share_of] = rest;
            let parent = process(b, &[program, quota, payer, first, count, to, share_of]);
            assert!(run(b, first_of(b, parent)));
            assert_eq!(says_done(b, OWN_TCAP, 0), if answer == 'o' { 'b' } else { 'd' }, "none came");
            let fork = [ComponentOperation::Fork.number(), OWN_QUOTA, OWN_SERVER, 20, share(10, 0, 0, 0)];
            assert_eq!(b.call(Call::Component, &fork), Code::Ok);
            comes(b);
            assert!(run(b, first_of(b, parent + 1)));
            assert_eq!(says_done(b, OWN_TCAP, 0), 'v', "the child of a fork");
            assert!(run(b, first_of(b, parent)));
            assert_eq!(says_done(b, OWN_TCAP, 0), answer, "{payer}");
        });
    }
}
