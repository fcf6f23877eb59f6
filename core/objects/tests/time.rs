//! Calls about time: one test per row of `delegate`, `tcap` and `server`, with each of their codes; and what `switch` and time-outs say of time.

mod support;

use bulkhead_kernel_abi::call::{Call, CapabilityOperation, Flag};
use bulkhead_kernel_abi::capability::right;
use bulkhead_kernel_abi::{Code, Kind, NONE};
use bulkhead_objects::{Outcome, event};
use support::time::*;
use support::*;

const GUEST: u16 = 7;
const ROOT: u16 = 2;
const RT_SERVER: u16 = 2;
const NOTIFY: u64 = Flag::Notify.number();

/// The scheduler's thread runs on its server; the guest, on another one, waits for end point 4, which has no time.
fn test(what: impl FnOnce(&mut Bench<'_>)) {
    bench_of(&Rows::with_band(), |b| {
        b.with_band().start(&[GUEST]);
        b.pick(1);
        assert_eq!(b.svc(Call::Receive, &[RECEIVE + 4, 2, 0]), Outcome::Done);
        b.start(&[ROOT]);
        assert_eq!(b.pick(RT_SERVER), Some(ROOT));
        what(b);
    });
}

fn delegate(b: &mut Bench<'_>, to: u64, from: u64, x: [u64; 3]) -> Code {
    b.call(Call::Delegate, &[to, from, x[0], x[1], x[2]])
}

fn tcap(b: &mut Bench<'_>, x: [u64; 4]) -> Code {
    b.call(Call::Tcap, &x)
}

fn server(b: &mut Bench<'_>, x: [u64; 5]) -> Code {
    b.call(Call::Server, &x)
}

/// CH-22, CH-52: who notifies gives time along, and the receiver runs on that, where it comes from.
#[test]
fn delegate_gives_time_and_notifies() {
    test(|b| {
        assert_eq!(delegate(b, SEND_GUEST, TCAP_ROOT, [300, 7, 0]), Code::Ok);
        assert_eq!((b.world.usable[6], b.world.usable[2], b.world.ranks[6]), (300, 700, 7));
        assert_eq!(b.objects.room().end_points[4].count, 0, "not told");
        assert_eq!(delegate(b, SEND_GUEST, TCAP_ROOT, [0, 7, NOTIFY]), Code::Ok);
        assert_eq!((b.world.usable[6], b.world.usable[2]), (1_000, 0));
        // Its number is worse than the one of who runs: an event for who dispatches that server.
        assert_eq!((b.thread(GUEST).server, b.thread(GUEST).runs_on, b.pick(RT_SERVER)), (RT_SERVER, 6, Some(ROOT)));
        assert_eq!(b.call(Call::Events, &[SCHEDULER, 1]), Code::Ok);
        assert_eq!(b.answers(ROOT), [107, u64::from(event::ACTIVATED)]);
    });
}

#[test]
fn delegate_refuses_and_changes_nothing() {
    test(|b| {
        let before = support::state::Copy::of(b);
        assert_eq!(delegate(b, TCAP_GUEST, TCAP_ROOT, [0, 0, 2]), Code::BadArgument, "a flag");
        assert_eq!(delegate(b, TCAP_GUEST, TCAP_ROOT, [0, 1 << 48, 0]), Code::BadArgument, "a priority");
        assert_eq!(delegate(b, THREAD, TCAP_ROOT, [0; 3]), Code::BadCapability);
        assert_eq!(delegate(b, TCAP_GUEST, SEND_GUEST, [0; 3]), Code::BadCapability);
        assert_eq!(delegate(b, TCAP_READ, TCAP_ROOT, [0; 3]), Code::Denied, "it may not be given time");
        assert_eq!(delegate(b, TCAP_GUEST, TCAP_READ, [0; 3]), Code::Denied, "it may not be given away");
        assert_eq!(delegate(b, SEND_TASK, TCAP_ROOT, [0; 3]), Code::Denied, "an end point without a claim");
        assert_eq!(delegate(b, TCAP_APP, TCAP_ROOT, [0; 3]), Code::Busy, "another root");
        b.world.usable[2] = 0;
        assert_eq!(delegate(b, TCAP_GUEST, TCAP_ROOT, [0; 3]), Code::NoTime);
        b.world.usable[2] = 1_000;
        b.world.ranks[6] = 17;
        assert_eq!(delegate(b, TCAP_GUEST, TCAP_ROOT, [0; 3]), Code::Full);
        b.world.ranks[6] = 5;
        let mut after = support::state::Copy::of(b);
        after.threads[usize::from(ROOT)].registers = before.threads[usize::from(ROOT)].registers;
        assert!(before == after);
    });
}

/// CH-51, CH-52 (P2): who has a claim of its own may give of it and be less important, and says nothing better of itself than its scheduler does.
#[test]
fn no_number_gets_better_without_a_word_of_its_scheduler() {
    test(|b| {
        b.world.permanent[2] = 7;
        let copy = CapabilityOperation::Copy.number();
        let without = u64::from(Kind::TCap.rights() & !right::PRIORITY);
        assert_eq!(b.call(Call::Capability, &[copy, 0, TCAP_ROOT, 0, EMPTY, without]), Code::Ok);
        let before = support::state::Copy::of(b);
        assert_eq!(tcap(b, [3, EMPTY, 6, 0]), Code::Denied);
        assert_eq!(tcap(b, [3, EMPTY, 1, 0]), Code::Denied);
        assert_eq!(delegate(b, TCAP_GUEST, EMPTY, [100, 6, 0]), Code::Denied);
        assert_eq!(delegate(b, SEND_GUEST, EMPTY, [0, 1, NOTIFY]), Code::Denied, "nobody is told");
        assert_eq!(delegate(b, EMPTY, EMPTY, [0, 1, 0]), Code::Denied, "nor to itself");
        let mut after = support::state::Copy::of(b);
        after.threads[usize::from(ROOT)].registers = before.threads[usize::from(ROOT)].registers;
        assert!(before == after);
        // The same number, a worse one, and the permanent one are its to say.
        assert_eq!(delegate(b, TCAP_GUEST, EMPTY, [100, 7, 0]), Code::Ok);
        assert_eq!(delegate(b, TCAP_GUEST, EMPTY, [100, 0, 0]), Code::Ok);
        assert_eq!((tcap(b, [3, EMPTY, 20, 0]), b.world.permanent[2]), (Code::Ok, 20));
        assert_eq!(tcap(b, [3, EMPTY, 7, 0]), Code::Denied, "it does not come back by itself");
        assert_eq!((tcap(b, [3, TCAP_ROOT, 1, 0]), b.world.permanent[2]), (Code::Ok, 1), "its scheduler's");
    });
}

/// CH-53: a scheduler makes claims, moves time between them, and ends them.
#[test]
fn tcap_makes_moves_and_ends_claims() {
    test(|b| {
        assert_eq!(tcap(b, [0, SCHEDULER, EMPTY, 0]), Code::Ok);
        let made = b.objects.room().slots[usize::from(RT) * SLOTS as usize + EMPTY as usize];
        assert_eq!((made.kind, made.object, made.rights), (Kind::TCap.number(), 7, Kind::TCap.rights()));
        assert_eq!(tcap(b, [1, EMPTY, TCAP_ROOT, 400]), Code::Ok);
        assert_eq!((b.world.usable[7], b.world.usable[2]), (400, 600));
        assert_eq!(tcap(b, [3, EMPTY, 12, 0]), Code::Ok);
        assert_eq!((tcap(b, [4, EMPTY, 0, 0]), b.answers(ROOT)), (Code::Ok, [400, u64::MAX, 12]));
        assert_eq!(tcap(b, [2, TCAP_ROOT, EMPTY, 0]), Code::Ok);
        assert_eq!((b.world.usable[2], b.world.has_made), (1_000, false));
        // Its capability is void; the number is used again.
        assert_eq!(tcap(b, [4, EMPTY, 0, 0]), Code::BadCapability);
        assert_eq!(tcap(b, [0, SCHEDULER, EMPTY + 1, 0]), Code::Ok);
        assert_eq!(tcap(b, [4, EMPTY, 0, 0]), Code::BadCapability);
        assert_eq!((tcap(b, [4, EMPTY + 1, 0, 0]), b.answers(ROOT)), (Code::Ok, [0, u64::MAX, 1]));
        // One that has nothing ends as well.
        assert_eq!(tcap(b, [2, TCAP_ROOT, EMPTY + 1, 0]), Code::Ok);
    });
}

#[test]
fn tcap_refuses_and_changes_nothing() {
    test(|b| {
        assert_eq!(tcap(b, [0, SCHEDULER, EMPTY, 0]), Code::Ok);
        let before = support::state::Copy::of(b);
        assert_eq!(tcap(b, [5, 0, 0, 0]), Code::BadCall);
        assert_eq!(tcap(b, [0, TCAP_ROOT, EMPTY + 1, 0]), Code::BadCapability);
        assert_eq!(tcap(b, [0, SCHEDULER, 0, 0]), Code::BadArgument);
        assert_eq!(tcap(b, [0, SCHEDULER, EMPTY, 0]), Code::Full, "the slot");
        assert_eq!(tcap(b, [0, SCHEDULER, EMPTY + 1, 0]), Code::Full, "all numbers");
        assert_eq!(tcap(b, [1, TCAP_READ, TCAP_ROOT, 1]), Code::Denied);
        assert_eq!(tcap(b, [1, TCAP_GUEST, TCAP_READ, 1]), Code::Denied);
        assert_eq!(tcap(b, [1, TCAP_APP, TCAP_ROOT, 1]), Code::Busy, "another root");
        assert_eq!(tcap(b, [1, TCAP_ROOT, TCAP_GUEST, 1]), Code::NoTime);
        assert_eq!(tcap(b, [2, TCAP_ROOT, TCAP_GUEST, 0]), Code::Busy, "the host's");
        assert_eq!(tcap(b, [2, TCAP_READ, EMPTY, 0]), Code::Denied);
        assert_eq!(tcap(b, [3, TCAP_READ, 1, 0]), Code::Denied);
        assert_eq!(tcap(b, [3, TCAP_ROOT, 0, 0]), Code::BadArgument);
        assert_eq!(tcap(b, [4, SCHEDULER, 0, 0]), Code::BadCapability);
        b.world.foreign = 1 << 7;
        assert_eq!(tcap(b, [1, EMPTY, TCAP_ROOT, 1]), Code::Denied, "another scheduler's");
        b.world.foreign = 0;
        let mut after = support::state::Copy::of(b);
        after.threads[usize::from(ROOT)].registers = before.threads[usize::from(ROOT)].registers;
        assert!(before == after);
        // As long as a thread is awake on it, it does not end.
        assert_eq!(tcap(b, [1, EMPTY, TCAP_ROOT, 400]), Code::Ok);
        let token = b.objects.room().schedulers[0].token;
        let own = THREAD + u64::from(ROOT);
        assert_eq!(b.call(Call::Switch, &[SCHEDULER, own, EMPTY, 0, 0, token]), Code::Ok);
        assert_eq!((b.pick(RT_SERVER), b.thread(ROOT).runs_on), (Some(ROOT), 7));
        assert_eq!(tcap(b, [2, TCAP_ROOT, EMPTY, 0]), Code::Busy);
    });
}

/// QV-20, QV-37: servers of a band are made, changed, read and ended, and threads are bound to them.
#[test]
fn servers_of_a_band_come_and_go() {
    test(|b| {
        assert_eq!(server(b, [0, BAND, 30, 200, EMPTY]), Code::Ok);
        let slots = |b: &Bench<'_>| b.objects.room().slots[usize::from(RT) * SLOTS as usize + EMPTY as usize];
        assert_eq!((slots(b).kind, slots(b).object), (Kind::Server.number(), BAND_SERVER));
        assert_eq!((server(b, [3, EMPTY, 0, 0, 0]), b.answers(ROOT)), (Code::Ok, [30, 200, 0]));
        assert_eq!(server(b, [1, EMPTY, 20, 300, 0]), Code::Ok);
        assert_eq!((server(b, [3, EMPTY, 0, 0, 0]), b.answers(ROOT)), (Code::Ok, [20, 300, 0]));
        // A thread is bound to it and runs there, so it stays.
        assert_eq!(b.call(Call::Thread, &[6, THREAD, EMPTY]), Code::Ok);
        b.start(&[0]);
        assert_eq!((b.pick(BAND_SERVER), b.thread(0).tcap), (Some(0), 8));
        b.pick(RT_SERVER);
        assert_eq!(server(b, [2, EMPTY, 0, 0, 0]), Code::Busy);
        assert_eq!(b.call(Call::Thread, &[6, THREAD, SERVER]), Code::Ok);
        assert_eq!((b.pick(BAND_SERVER), b.pick(RT_SERVER)), (None, Some(ROOT)));
        assert_eq!(server(b, [2, EMPTY, 0, 0, 0]), Code::Ok);
        assert_eq!((b.world.made[0], server(b, [3, EMPTY, 0, 0, 0])), (None, Code::BadCapability));
        assert_eq!(server(b, [0, BAND, 30, 200, EMPTY + 1]), Code::Ok);
        assert_eq!(server(b, [3, EMPTY, 0, 0, 0]), Code::BadCapability, "the next one is another");
    });
}

/// CH-60: what many servers have to give back, and what many claims have of one that ends, is done one by one with a look for interrupts between; the call is made again, and
/// finds less to do.
#[test]
fn a_band_and_a_server_that_ends_are_put_right_one_by_one() {
    test(|b| {
        b.world.to_give_back = 5;
        b.world.looks.set(2);
        let pc = b.thread(ROOT).registers.pc;
        assert_eq!(b.svc(Call::Server, &[0, BAND, 30, 200, EMPTY]), Outcome::Again);
        assert_eq!((b.world.to_give_back, b.world.made[0], b.thread(ROOT).registers.pc), (3, None, pc));
        assert_eq!((server(b, [0, BAND, 30, 200, EMPTY]), b.world.to_give_back), (Code::Ok, 0));
        b.world.to_give_back = 2;
        b.world.looks.set(1);
        assert_eq!(b.svc(Call::Server, &[1, EMPTY, 20, 300]), Outcome::Again);
        assert_eq!((b.world.to_give_back, b.world.made[0]), (1, Some([30, 200])));
        assert_eq!(server(b, [1, EMPTY, 20, 300, 0]), Code::Ok);
        // Claims of no thread.
        (b.world.roots[6], b.world.roots[7]) = (BAND_SERVER, BAND_SERVER);
        b.world.looks.set(1);
        assert_eq!(b.svc(Call::Server, &[2, EMPTY]), Outcome::Again);
        assert_eq!((b.world.roots[6], b.world.roots[7]), (NONE, BAND_SERVER), "one of them");
        assert_eq!(b.world.made[0], Some([20, 300]), "it is still there");
        assert_eq!((server(b, [2, EMPTY, 0, 0, 0]), b.world.roots[7], b.world.made[0]), (Code::Ok, NONE, None));
    });
}

#[test]
fn server_refuses_and_changes_nothing() {
    test(|b| {
        assert_eq!(server(b, [0, BAND, 30, 200, EMPTY]), Code::Ok);
        let before = support::state::Copy::of(b);
        assert_eq!(server(b, [4, 0, 0, 0, 0]), Code::BadCall);
        assert_eq!(server(b, [0, SERVER, 1, 2, EMPTY + 1]), Code::BadCapability);
        assert_eq!(server(b, [0, BAND, 1, 2, 0]), Code::BadArgument);
        assert_eq!(server(b, [0, BAND, 1, 2, EMPTY]), Code::Full);
        assert_eq!(server(b, [0, BAND, BAND_BUDGET + 1, 200, EMPTY + 1]), Code::NotAdmitted);
        assert_eq!(server(b, [1, EMPTY, BAND_BUDGET + 1, 200, 0]), Code::NotAdmitted);
        assert_eq!(server(b, [1, SERVER, 1, 2, 0]), Code::Denied, "the host's");
        assert_eq!(server(b, [2, SERVER_RT, 0, 0, 0]), Code::Busy, "threads need it");
        assert_eq!(server(b, [3, BAND, 0, 0, 0]), Code::BadCapability);
        let mut after = support::state::Copy::of(b);
        after.threads[usize::from(ROOT)].registers = before.threads[usize::from(ROOT)].registers;
        assert!(before == after);
        for (slot, weak) in [(SERVER, EMPTY + 2), (BAND, EMPTY + 3)] {
            assert_eq!(b.call(Call::Capability, &[0, 0, slot, 0, weak, 0]), Code::Ok, "without rights");
        }
        assert_eq!(server(b, [0, EMPTY + 3, 1, 2, EMPTY + 1]), Code::Denied);
        for operation in 1..4 {
            assert_eq!(server(b, [operation, EMPTY + 2, 1, 2, 0]), Code::Denied);
        }
        assert_eq!(server(b, [0, BAND, 1, 200, EMPTY + 1]), Code::Ok);
        assert_eq!(b.call(Call::Capability, &[2, 0, EMPTY + 2]), Code::Ok);
        assert_eq!(server(b, [0, BAND, 1, 200, EMPTY + 2]), Code::Full, "the band");
    });
}

/// CH-54, CH-55: who used up what it was given continues with its own, where that comes from; its notifications do so as well then.
#[test]
fn without_what_it_was_given_a_thread_goes_on_with_its_own() {
    test(|b| {
        b.world.ranks = vec![5, 5, 5, 5, 5, 5, 0];
        assert_eq!(delegate(b, SEND_GUEST, TCAP_ROOT, [300, 1, NOTIFY]), Code::Ok);
        assert_eq!((b.pick(RT_SERVER), b.thread(GUEST).runs_on), (Some(GUEST), 6), "let in");
        b.world.roots[6] = NONE;
        assert_eq!(b.objects.spent(&mut b.world, 6, 0), None);
        assert_eq!((b.pick(RT_SERVER), b.pick(1), b.thread(GUEST).runs_on), (Some(ROOT), Some(GUEST), 1));
        assert_eq!(b.svc(Call::Receive, &[RECEIVE + 4, 2, 0]), Outcome::Done);
        b.objects.send(&mut b.world, 4, 1);
        assert_eq!((b.pick(1), b.thread(GUEST).server), (Some(GUEST), 1), "nothing was lost");
    });
}

/// The same in a server that its threads hold: it leaves the FIFO of who gave.
#[test]
fn a_fifo_does_not_keep_who_has_used_up_what_it_was_given() {
    test(|b| {
        (b.world.roots[6], b.world.usable[6]) = (0, 10);
        b.start(&[0]);
        b.objects.send(&mut b.world, 4, 1);
        b.pick(0);
        assert_eq!((b.call(Call::Yield, &[]), b.pick(0)), (Code::Ok, Some(GUEST)));
        b.world.roots[6] = NONE;
        assert_eq!(b.objects.spent(&mut b.world, 6, 0), None);
        assert_eq!((b.pick(0), b.pick(1)), (Some(0), Some(GUEST)));
    });
}

/// Without budget a server's own claim may wait for it or go on in the background, so `switch` is no mistake; a claim through which nothing comes is.
#[test]
fn switch_looks_whether_a_claim_asks() {
    test(|b| {
        let token = b.objects.room().schedulers[0].token;
        let to_itself = |b: &mut Bench<'_>, priority: u64| {
            b.call(Call::Switch, &[SCHEDULER, THREAD + u64::from(ROOT), 0, priority, 0, token])
        };
        b.world.usable[2] = 0;
        assert_eq!(to_itself(b, 0), Code::NoTime);
        b.world.goes_on = 1 << RT_SERVER;
        assert_eq!(to_itself(b, 0), Code::Ok);
        b.world.foreign = 1 << 2;
        assert_eq!(to_itself(b, 3), Code::Denied, "a number of a scheduler that it has not passed through");
    });
}

/// A time-out of a thread that is no more is not told of the one that has its number now; its scheduler looks all the same.
#[test]
fn a_time_out_is_not_told_of_another_thread() {
    use support::pool::{QUOTA, first_of, process, share, spawn};
    for is_reused in [false, true] {
        bench_of(&Rows::with_pool(), |b| {
            b.start(&[ROOT]);
            b.pick(RT_SERVER);
            assert_eq!(b.svc(Call::Events, &[SCHEDULER, 0, u64::MAX - 1]), Outcome::Done);
            // A process of the scheduler's, which makes another thread and lets it run until a date.
            let child = process(b, &[0, QUOTA, SCHEDULER, SCHEDULER, 1, EMPTY, share(20, 0, 1, 0)]);
            let first = first_of(b, child);
            assert_eq!(b.pick(RT_SERVER), Some(first));
            assert_eq!(b.call(Call::Thread, &[0, 1, 2, 0x40_0000, 0x80_0000, 10]), Code::Ok);
            assert_eq!(b.call(Call::Thread, &[1, 10, 0]), Code::Ok);
            assert_eq!(b.pick(RT_SERVER), Some(first + 1));
            let token = b.objects.room().schedulers[0].token;
            assert_eq!(b.call(Call::Switch, &[2, 10, 0, 0, SOON, token]), Code::Ok);
            b.pick(0);
            if is_reused {
                assert_eq!(b.call(Call::Component, &[4, EMPTY]), Code::Ok);
                let usual = [0, QUOTA, SERVER, SERVER, 1, EMPTY + 1, share(10, 0, 0, 0)];
                spawn(b, &usual);
                let [a, z, payer, c, d, _, e] = usual;
                let last = spawn(b, &[a, z, payer, c, d, EMPTY + 2, e]);
                assert_eq!(first_of(b, last), first + 1, "its number");
            }
            b.world.now = SOON;
            b.objects.pass_date(&mut b.world);
            assert_eq!(b.pick(RT_SERVER), Some(ROOT));
            let mut told = b.answers::<2>(ROOT)[1];
            while b.call(Call::Events, &[SCHEDULER, 1]) == Code::Ok {
                told |= b.answers::<2>(ROOT)[1];
            }
            assert_eq!(told & u64::from(event::TIMEOUT) != 0, !is_reused, "{told:#x}");
        });
    }
}
