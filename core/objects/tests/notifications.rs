//! End points, deadlines, interrupts: each operation and code.

mod support;

use bulkhead_kernel_abi::Code;
use bulkhead_kernel_abi::call::Call;
use bulkhead_objects::{Hold, NEVER, Notified, Outcome, ThreadState, Time};
use support::*;

const NO_WAIT: u64 = 1;
const ALL: u64 = 2;

#[test]
fn what_was_sent_is_taken_in_one_piece_or_by_the_bit() {
    // CH-11: bits and a count, no payload.
    bench(|b| {
        b.start(&[0]);
        b.pick(0);
        assert_eq!(b.call(Call::Receive, &[RECEIVE, NO_WAIT]), Code::WouldBlock);
        b.objects.send(&mut b.world, 0, 0b1010);
        b.objects.send(&mut b.world, 0, 0b0010);
        b.objects.send(&mut b.world, 0, 1 << 63);
        assert_eq!(b.call(Call::Receive, &[RECEIVE, NO_WAIT]), Code::Ok);
        assert_eq!(b.answers(0), [0b10, 0]);
        assert_eq!(b.call(Call::Receive, &[RECEIVE, ALL]), Code::Ok);
        assert_eq!(b.answers(0), [1 << 63 | 0b1000, 3]);
        assert_eq!(b.call(Call::Receive, &[RECEIVE, NO_WAIT | ALL]), Code::WouldBlock);
        // A send without bits is one, too.
        b.objects.send(&mut b.world, 0, 0);
        assert_eq!(b.call(Call::Receive, &[RECEIVE, 0]), Code::Ok);
        assert_eq!(b.answers(0), [0, 1]);
    });
}

#[test]
fn receive_refuses_what_is_not_its() {
    bench(|b| {
        b.start(&[0]);
        b.pick(0);
        assert_eq!(b.call(Call::Receive, &[RECEIVE + 1, ALL]), Code::Denied, "another thread's");
        assert_eq!(b.call(Call::Receive, &[SEND_APP]), Code::BadCapability);
        assert_eq!(b.call(Call::Receive, &[RECEIVE, 4]), Code::BadArgument);
        assert_eq!(b.call(Call::Receive, &[0, 0, 0]), Code::BadArgument, "a sleep without end");
        assert_eq!(b.call(Call::Receive, &[0, 0, 10]), Code::TimedOut, "it is over");
        assert_eq!(b.call(Call::Receive, &[RECEIVE, 0, 9]), Code::TimedOut);
        assert_eq!(b.thread(0).state, ThreadState::Ready);
    });
}

#[test]
fn a_send_wakes_who_waits() {
    bench(|b| {
        b.start(&[0, 1]);
        b.pick(0);
        assert_eq!(b.svc(Call::Receive, &[RECEIVE, ALL, SOON]), Outcome::Done);
        assert_eq!((b.thread(0).state, b.objects.running()), (ThreadState::Receiving, None));
        assert_eq!((b.pick(0), b.earliest_ticks()), (Some(1), SOON));
        assert_eq!(b.invoke(SEND_APP), Code::Ok.number());
        assert_eq!((b.thread(0).state, b.thread(0).deadline_ticks), (ThreadState::Ready, NEVER));
        assert_eq!((b.thread(0).registers.x[0], b.answers(0)), (Code::Ok.number(), [1, 1]));
        assert_eq!(b.earliest_ticks(), NEVER);
        assert_eq!(b.pick(0), Some(1), "holder threads: the back of the FIFO");
        assert_eq!(b.svc(Call::Return, &[]), Outcome::Done);
        assert_eq!(b.pick(0), Some(0));
    });
}

#[test]
fn a_deadline_ends_a_wait_and_a_sleep() {
    // CH-10, CH-38: nobody waits without bound who gives one.
    bench(|b| {
        b.start(&[0, 1]);
        b.pick(0);
        assert_eq!(b.svc(Call::Receive, &[RECEIVE, ALL, SOON]), Outcome::Done);
        b.pick(0);
        assert_eq!(b.svc(Call::Receive, &[0, 0, SOON + 5]), Outcome::Done);
        assert_eq!((b.thread(1).state, b.pick(0)), (ThreadState::Sleeping, None));
        b.world.now = SOON - 1;
        assert_eq!((b.objects.pass_date(&mut b.world), b.pick(0)), (None, None));
        b.world.now = SOON;
        assert_eq!((b.objects.pass_date(&mut b.world), b.objects.pass_date(&mut b.world)), (Some(0), None));
        assert_eq!((b.pick(0), b.thread(0).registers.x[0]), (Some(0), Code::TimedOut.number()));
        b.world.now = SOON + 5;
        b.objects.pass_date(&mut b.world);
        assert_eq!((b.thread(1).state, b.thread(1).registers.x[0]), (ThreadState::Ready, Code::TimedOut.number()));
    });
}

#[test]
fn one_date_passes_at_a_time() {
    bench(|b| {
        let all = [0, 1];
        b.start(&all);
        for thread in all {
            let server = b.thread(thread).server;
            while b.pick(server) != Some(thread) {
                assert_eq!(b.call(Call::Yield, &[]), Code::Ok);
            }
            assert_eq!(b.svc(Call::Receive, &[0, 0, SOON]), Outcome::Done);
        }
        b.world.now = SOON;
        let awake = |b: &Bench<'_>| all.iter().filter(|thread| b.thread(**thread).is_awake()).count();
        assert_eq!((b.objects.pass_date(&mut b.world), awake(b)), (Some(0), 1), "the second stays due");
        assert_eq!((b.objects.pass_date(&mut b.world), awake(b)), (Some(0), 2));
        assert_eq!(b.objects.pass_date(&mut b.world), None);
        assert!(all.iter().all(|thread| b.thread(*thread).is_awake()));
    });
}

#[test]
fn an_interrupt_is_held_until_its_driver_has_done() {
    // CH-64: an interrupt is an end point. QV-35.
    bench(|b| {
        b.start(&[4]);
        b.pick(0);
        let binding = b.objects.binding_of(40).expect("bound");
        assert_eq!(b.objects.binding_of(99), None);
        assert_eq!(b.call(Call::Interrupt, &[0, INTERRUPT]), Code::Busy, "none came");
        b.objects.top_half(&mut b.world, binding);
        assert_eq!((b.objects.room().end_points[1].bits, b.objects.room().bindings[0].hold), (0x8000, Hold::Held));
        assert!(b.world.deactivated.is_empty() && b.world.masked.is_empty(), "it stays active");
        assert_eq!(b.call(Call::Interrupt, &[0, INTERRUPT]), Code::Ok);
        assert_eq!((&b.world.deactivated[..], b.objects.room().bindings[0].hold), (&[40][..], Hold::Idle));
        assert_eq!(b.call(Call::Interrupt, &[0, CALL_RT]), Code::BadCapability);
    });
}

#[test]
fn an_interrupt_whose_driver_cannot_run_is_masked() {
    bench(|b| {
        b.start(&[4]);
        b.pick(0);
        b.world.has_budget = false;
        b.objects.top_half(&mut b.world, 0);
        assert_eq!((b.objects.room().bindings[0].hold, b.world.masked.contains(&40)), (Hold::Masked, true));
        assert_eq!(b.world.deactivated, [40], "not held in a list register");
        b.world.has_budget = true;
        assert_eq!(b.call(Call::Interrupt, &[0, INTERRUPT]), Code::Ok, "its driver is through, so it has budget");
        assert_eq!((b.objects.room().bindings[0].hold, b.world.masked.len()), (Hold::Idle, 0));
        // Held, and then the budget ends; the driver is done with it later.
        b.objects.top_half(&mut b.world, 0);
        b.objects.out_of_budget(&mut b.world, 1);
        assert_eq!(b.objects.room().bindings[0].hold, Hold::Held, "another server's");
        b.objects.out_of_budget(&mut b.world, 0);
        assert_eq!((b.objects.room().bindings[0].hold, b.world.masked.contains(&40)), (Hold::Masked, true));
        assert_eq!(b.call(Call::Interrupt, &[0, INTERRUPT]), Code::Ok);
        assert_eq!((b.objects.room().bindings[0].hold, b.world.masked.len()), (Hold::Idle, 0));
    });
}

/// QV-35, QV-22: top halves are its server's to pay, so nobody has them come again on the time of another one, who may be in front of those that they interrupt.
#[test]
fn only_who_pays_for_an_interrupt_has_it_come_again() {
    let mut rows = Rows::new();
    rows.bindings[0].server += 1;
    bench_of(&rows, |b| {
        b.start(&[4]);
        b.pick(0);
        assert_eq!(b.call(Call::Interrupt, &[0, INTERRUPT]), Code::Denied, "none came");
        for has_budget in [true, false] {
            b.world.has_budget = has_budget;
            b.objects.top_half(&mut b.world, 0);
            let before = b.objects.room().bindings[0];
            assert_eq!(b.call(Call::Interrupt, &[0, INTERRUPT]), Code::Denied, "another one pays");
            assert_eq!(b.objects.room().bindings[0], before, "nothing has changed");
        }
    });
}

/// A driver that ends leaves nothing: held or not, its interrupt is masked and inactive until its next life says `done`. The end of
/// somebody else changes nothing.
#[test]
fn an_interrupt_whose_driver_ends_is_masked_until_the_next_life() {
    for is_held in [true, false] {
        bench(|b| {
            b.start(&[0]);
            b.pick(0);
            assert_eq!(b.svc(Call::Return, &[]), Outcome::Done);
            assert!(b.world.masked.is_empty(), "it drives nothing");
            b.start(&[4]);
            b.pick(0);
            if is_held {
                b.objects.top_half(&mut b.world, 0);
            }
            assert_eq!(b.svc(Call::Return, &[]), Outcome::Done);
            assert_eq!(b.objects.room().bindings[0].hold, Hold::Masked);
            let deactivated = if is_held { &[40][..] } else { &[] };
            assert_eq!((&b.world.deactivated[..], b.world.masked.contains(&40)), (deactivated, true));
            b.start(&[4]);
            b.pick(0);
            assert_eq!(b.call(Call::Interrupt, &[0, INTERRUPT]), Code::Ok);
            assert_eq!((b.objects.room().bindings[0].hold, b.world.masked.contains(&40)), (Hold::Idle, false));
            assert_eq!(b.world.deactivated, deactivated, "once");
        });
    }
}

#[test]
fn at_most_four_interrupts_are_held() {
    bench(|b| {
        for binding in 0..6 {
            b.objects.top_half(&mut b.world, binding);
        }
        let held = b.objects.room().bindings.iter().filter(|binding| binding.hold == Hold::Held).count();
        assert_eq!((held, b.world.masked.iter().copied().collect::<Vec<_>>()), (4, vec![44, 45]));
    });
}

#[test]
fn a_request_is_charged_to_the_client_that_expects_it() {
    let mut rows = Rows::new();
    rows.threads[7].tcap = 2;
    bench_of(&rows, |b| {
        let interrupt =
            |b: &mut Bench<'_>, operation: u64, client: u64| b.call(Call::Interrupt, &[operation, INTERRUPT, client]);
        b.start(&[0]);
        b.pick(0);
        b.objects.top_half(&mut b.world, 0);
        assert_eq!(b.world.requests, [(0, 2, true)], "the default client");
        assert_eq!(interrupt(b, 4, 2), Code::Ok, "finish");
        assert_eq!(interrupt(b, 4, 2), Code::Busy);
        assert_eq!(interrupt(b, 2, 0), Code::Busy, "nothing to cancel");
        assert_eq!(interrupt(b, 1, 0), Code::Ok, "expect, as server 0");
        assert_eq!(interrupt(b, 1, 0), Code::Full);
        b.objects.top_half(&mut b.world, 0);
        assert_eq!(b.world.requests, [(0, 0, true)]);
        assert_eq!(b.objects.room().bindings[0].expecting, 0, "it came");
        assert_eq!(interrupt(b, 1, 0), Code::Ok);
        assert_eq!(interrupt(b, 2, 0), Code::Ok, "cancelled");
        assert_eq!(interrupt(b, 3, 2), Code::Ok, "serve");
        for client in [1, 64, 65_536, u64::MAX] {
            assert_eq!(interrupt(b, 3, client), Code::BadArgument, "no client of this driver");
        }
    });
}

/// The short way of a signal does what the long one does, or nothing: two instances with the same history, one by each.
#[test]
fn a_usual_signal_is_a_signal() {
    let mut usual = [0; 4];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut below = |limit: u64| {
        for (left, shift) in [(true, 13), (false, 7), (true, 17)] {
            state ^= if left { state << shift } else { state >> shift };
        }
        state % limit
    };
    for _ in 0..2_000 {
        bench(|long| {
            bench(|short| {
                let both = |long: &mut Bench<'_>, short: &mut Bench<'_>, act: &dyn Fn(&mut Bench<'_>)| {
                    act(long);
                    act(short);
                };
                let all: &[u16] = if below(2) == 0 { &[0] } else { &[0, 1, 4, 6, 7] };
                both(long, short, &|b| b.start(all));
                for _ in 0..30 {
                    let (end_point, bits) = (below(6) as u16, below(4));
                    if below(3) == 0 {
                        long.objects.send_in_full(&mut long.world, end_point, bits);
                        let notified = short.objects.notify(end_point, bits, |tcap| short.world.root(tcap));
                        usual[notified_index(notified)] += 1;
                        match notified {
                            Notified::Otherwise => short.objects.send_in_full(&mut short.world, end_point, bits),
                            Notified::First(server) => {
                                let tcap =
                                    short.objects.room().servers[usize::from(server)].next.map_or(0, |pair| pair.tcap);
                                short.world.filled(server, tcap, 0);
                            }
                            _ => {}
                        }
                    } else {
                        let (server, all, no_wait) = (below(3) as u16, below(4) != 0, below(8) == 0);
                        let deadline = if below(4) == 0 { SOON } else { 0 };
                        let flags = u64::from(all) * ALL + u64::from(no_wait) * NO_WAIT;
                        both(long, short, &|b| {
                            if b.pick(server).is_some() {
                                let _ = b.svc(Call::Receive, &[RECEIVE + u64::from(end_point), flags, deadline]);
                            }
                        });
                    }
                    assert_eq!(state::Copy::of(long), state::Copy::of(short));
                }
            });
        });
    }
    println!("otherwise, nobody, behind, first: {usual:?}");
    assert!(usual.iter().all(|count| *count > 100), "{usual:?}");
}

fn notified_index(notified: Notified) -> usize {
    match notified {
        Notified::Otherwise => 0,
        Notified::Nobody => 1,
        Notified::Behind(..) => 2,
        Notified::First(_) => 3,
    }
}
