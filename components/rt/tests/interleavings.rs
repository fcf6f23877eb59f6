//! Every function of ChaosRT, with an interrupt after each of its accesses and calls: whom the kernel lets in there finds a state that holds, and nobody
//! is lost.
//!
//! A story is a few tasks with short programs, and interrupts in order. It is told once for every choice of the places at which they come: before each stop
//! of the one that runs, the scheduler's thread included.

mod support;

use bulkhead_kernel_abi::Code;
use bulkhead_rt::Task;
use support::*;

const FOREVER: u64 = u64::MAX;
const QUANTUM: u64 = 100;

/// What comes from outside.
#[derive(Clone, Copy, Debug)]
enum Interrupt {
    /// A task's end point is notified.
    Notify(u16),
    /// Time passes.
    Time(u64),
}

fn task(number: u64) -> Task {
    Task::new(number).expect("a task")
}

fn program(what: impl FnOnce(&TestRt, &mut Calls, Task) + Send + 'static) -> Program {
    Box::new(what)
}

/// Tells a story at every choice of places; returns how often.
fn tell(tasks: impl Fn() -> Vec<(u8, Program)>, interrupts: &[Interrupt], check: impl Fn(&Subsystem<'_>)) -> u64 {
    let mut places: Vec<u64> = vec![0; interrupts.len()];
    let mut told = 0;
    loop {
        told += 1;
        // Interrupts that come because nothing else will happen, or do not come: later is the same.
        let mut is_last = vec![true; places.len()];
        subsystem(QUANTUM, tasks(), |s| {
            let (mut next, mut is_idle) = (0, false);
            while !s.is_over() {
                while next < places.len() && (s.steps >= places[next] || is_idle) {
                    match interrupts[next] {
                        Interrupt::Notify(task) => s.notify(task),
                        Interrupt::Time(ticks) => s.pass(ticks),
                    }
                    is_last[next] = std::mem::take(&mut is_idle);
                    s.idles = 0;
                    next += 1;
                }
                // The scheduler looks once in a quantum, for nothing.
                is_idle = !s.step() || s.idles > 4;
                assert!(!is_idle || next < places.len(), "nobody can run, interrupts at {places:?}: {:?}", s.points);
                assert!(s.steps < 20_000, "it does not end, interrupts at {places:?}: {:?}", s.points);
            }
            check(s);
        });
        // The next choice: places never fall.
        let Some(raised) = (0..places.len()).rev().find(|place| !is_last[*place]) else { return told };
        let place = places[raised] + 1;
        places[raised..].fill(place);
        assert!(place < 2_000, "{places:?}");
    }
}

/// A task that waits to be notified, and then does this.
fn notified(what: impl FnOnce(&TestRt, &mut Calls, Task) + Send + 'static) -> Program {
    program(move |rt, kernel, me| {
        assert!(receive(me, 0));
        own(1);
        what(rt, kernel, me);
        own(2);
    })
}

/// Wakes task 0, which may be at its end.
fn wake_first(rt: &TestRt, kernel: &mut Calls, me: Task) {
    let _ = rt.wake(kernel, me, task(0));
}

/// A program and what it is about.
type Named = (&'static str, fn() -> Program);

/// What a task that is let in may do: it is the one that meets a lock that is taken.
fn intruders() -> Vec<Named> {
    vec![
        ("yields", || notified(|rt, kernel, me| rt.yield_(kernel, me))),
        ("wakes", || notified(wake_first)),
        ("sleeps", || {
            notified(|rt, kernel, me| {
                let until = bulkhead_rt::Kernel::now_ticks(kernel) + 30;
                rt.sleep(kernel, me, until);
            })
        }),
        ("blocks until a date", || {
            notified(|rt, kernel, me| {
                let until = bulkhead_rt::Kernel::now_ticks(kernel) + 30;
                assert_eq!(rt.block(kernel, me, until), Err(Code::TimedOut));
            })
        }),
        ("creates", || {
            notified(|rt, kernel, me| {
                assert_eq!(rt.create(kernel, me, task(7), 3), Ok(()));
                assert_eq!(rt.create(kernel, me, task(7), 3), Err(Code::Busy));
                assert_eq!(rt.end(kernel, me, task(7)), Ok(()));
            })
        }),
    ]
}

/// Each function, as task 0 calls it.
fn functions() -> Vec<Named> {
    vec![
        ("yield", || {
            program(|rt, kernel, me| {
                rt.yield_(kernel, me);
                own(1);
                rt.yield_(kernel, me);
                own(2);
            })
        }),
        ("sleep", || {
            program(|rt, kernel, me| {
                rt.sleep(kernel, me, 40);
                assert!(bulkhead_rt::Kernel::now_ticks(kernel) >= 40);
                own(1);
            })
        }),
        ("block", || {
            program(|rt, kernel, me| {
                let _ = rt.block(kernel, me, 60);
                own(1);
            })
        }),
        ("wake", || {
            program(|rt, kernel, me| {
                assert_eq!(rt.wake(kernel, me, task(1)), Ok(()));
                own(1);
                assert_eq!(rt.wake(kernel, me, task(6)), Err(Code::Gone));
                own(2);
            })
        }),
        ("create and end", || {
            program(|rt, kernel, me| {
                assert_eq!(rt.create(kernel, me, task(6), 64), Err(Code::BadArgument));
                assert_eq!(rt.create(kernel, me, task(6), 5), Ok(()));
                own(1);
                assert_eq!(rt.end(kernel, me, task(6)), Ok(()));
                own(2);
            })
        }),
    ]
}

/// CH-3, CH-63: each function of task 0 is interrupted everywhere by a task that is more important, equal, less important.
#[test]
fn every_function_is_interrupted_everywhere() {
    let mut told = 0;
    for (function, make) in &functions() {
        for (intruder, intrudes) in &intruders() {
            for priority in [1, 4, 6] {
                let here = tell(
                    || vec![(4, make()), (4, program(|rt, kernel, me| rt.yield_(kernel, me))), (priority, intrudes())],
                    &[Interrupt::Notify(2)],
                    |s| assert!(s.points.contains(&(2, 2)), "{function}, {intruder}: {:?}", s.points),
                );
                assert!(here > 20, "{function}, {intruder}: only {here} places");
                told += here;
            }
        }
    }
    println!("{told} orders");
}

/// A better task that finds the lock taken runs as soon as the owner leaves, and before the owner's own code has done anything.
#[test]
fn who_finds_the_lock_taken_is_next() {
    let told = tell(
        || {
            let owner = program(|rt, kernel, me| {
                rt.yield_(kernel, me);
                own(1);
                work(10 * QUANTUM);
                own(2);
            });
            vec![(4, owner), (1, notified(|rt, kernel, me| rt.yield_(kernel, me)))]
        },
        &[Interrupt::Notify(1)],
        |s| {
            let place = |point: (u8, u64)| s.points.iter().position(|one| *one == point).expect("it came there");
            let is_let_in = place((1, 1)) < place((0, 2));
            assert!(!is_let_in || place((1, 2)) < place((0, 2)), "{:?}", s.points);
        },
    );
    assert!(told > 20, "{told}");
}

/// A decision that is older than what others did meanwhile gives the core to nobody who went to sleep since.
#[test]
fn an_old_decision_wakes_nobody() {
    let told = tell(
        || {
            let first = program(|rt, kernel, me| {
                rt.yield_(kernel, me);
                rt.yield_(kernel, me);
                own(1);
            });
            let second = program(|rt, kernel, me| {
                for _ in 0..2 {
                    let until = bulkhead_rt::Kernel::now_ticks(kernel) + 40;
                    rt.sleep(kernel, me, until);
                    assert!(bulkhead_rt::Kernel::now_ticks(kernel) >= until, "woken too early");
                    own(1);
                }
            });
            vec![(4, first), (4, second), (1, notified(|_, _, _| {}))]
        },
        &[Interrupt::Notify(2)],
        |s| assert_eq!(s.points.len(), 5),
    );
    assert!(told > 20, "{told}");
}

/// Two interrupts: a task that is let in is itself interrupted, by one that is better still, and time passes between.
#[test]
fn who_is_let_in_is_interrupted_too() {
    let first = || {
        vec![
            (
                5,
                program(|rt, kernel, me| {
                    rt.yield_(kernel, me);
                    own(1);
                }),
            ),
            (3, notified(|rt, kernel, me| rt.yield_(kernel, me))),
            (1, notified(wake_first)),
        ]
    };
    for interrupts in [[Interrupt::Notify(1), Interrupt::Notify(2)], [Interrupt::Notify(2), Interrupt::Notify(1)]] {
        let told = tell(first, &interrupts, |s| assert_eq!(s.points.len(), 5, "{:?}", s.points));
        println!("{told} orders");
        assert!(told > 500, "{told}");
    }
    let timed = || {
        vec![
            (
                4,
                program(|rt, kernel, me| {
                    rt.sleep(kernel, me, 50);
                    own(1);
                }),
            ),
            (4, notified(|rt, kernel, me| rt.yield_(kernel, me))),
        ]
    };
    let told = tell(timed, &[Interrupt::Time(45), Interrupt::Notify(1)], |s| assert_eq!(s.points.len(), 3));
    println!("{told} orders");
}

/// A wake-up that comes at any place of `block` is not lost, and does not come twice.
#[test]
fn a_wake_up_is_never_lost() {
    let told = tell(
        || {
            vec![
                (
                    4,
                    program(|rt, kernel, me| {
                        assert_eq!(rt.block(kernel, me, FOREVER), Ok(()));
                        own(1);
                        let until = bulkhead_rt::Kernel::now_ticks(kernel) + 20;
                        assert_eq!(rt.block(kernel, me, until), Err(Code::TimedOut), "it was woken once");
                        own(2);
                    }),
                ),
                (2, notified(|rt, kernel, me| assert_eq!(rt.wake(kernel, me, task(0)), Ok(())))),
            ]
        },
        &[Interrupt::Notify(1)],
        |s| assert_eq!(s.points.iter().filter(|(who, _)| *who == 0).count(), 2),
    );
    assert!(told > 30, "{told}");
}

/// Who blocks and is woken in turns: both are less important than one that interrupts with all it has.
#[test]
fn two_that_wake_each_other_come_to_their_end() {
    let ping = |other: u64| {
        program(move |rt, kernel, me| {
            for round in 0..3 {
                assert_eq!(rt.wake(kernel, me, task(other)), Ok(()));
                assert_eq!(rt.block(kernel, me, FOREVER), Ok(()));
                own(round);
            }
            // The other one may be at its end.
            let _ = rt.wake(kernel, me, task(other));
        })
    };
    let told = tell(
        || vec![(4, ping(1)), (4, ping(0)), (1, notified(|rt, kernel, me| rt.yield_(kernel, me)))],
        &[Interrupt::Notify(2)],
        |s| assert_eq!(s.points.len(), 8),
    );
    println!("{told} orders");
}

/// Ends task 0 and does something that needs the lock.
fn ends_first(rt: &TestRt, kernel: &mut Calls, me: Task) {
    end(task(0));
    rt.yield_(kernel, me);
}

/// CH-3, CH-10: a task that is ended at any place of any function keeps nobody out: the others come to their ends.
#[test]
fn a_task_that_is_ended_anywhere_keeps_nobody_out() {
    let mut told = 0;
    for (function, make) in &functions() {
        for priority in [1, 4, 6] {
            let other = || {
                program(|rt, kernel, me| {
                    rt.yield_(kernel, me);
                    own(1);
                    rt.yield_(kernel, me);
                    own(2);
                })
            };
            told += tell(
                || vec![(4, make()), (4, other()), (priority, notified(ends_first))],
                &[Interrupt::Notify(2)],
                |s| {
                    let came = [(1, 2), (2, 2)].iter().all(|point| s.points.contains(point));
                    assert!(came, "{function}: {:?}", s.points);
                },
            );
        }
    }
    println!("{told} orders");
    assert!(told > 300, "{told}");
}

/// The same task is made and begun again, in either order: it takes what it left behind, and comes to its end.
#[test]
fn a_task_that_is_begun_again_takes_what_it_left_behind() {
    fn made_again(rt: &TestRt, kernel: &mut Calls, me: Task) {
        while rt.create(kernel, me, task(0), 4) == Err(Code::Busy) {
            let until = bulkhead_rt::Kernel::now_ticks(kernel) + 10;
            rt.sleep(kernel, me, until);
        }
    }
    let first_made = |rt: &TestRt, kernel: &mut Calls, me: Task| {
        end(task(0));
        made_again(rt, kernel, me);
        start(task(0));
    };
    let first_begun = |rt: &TestRt, kernel: &mut Calls, me: Task| {
        end(task(0));
        start(task(0));
        made_again(rt, kernel, me);
    };
    let mut told = 0;
    for again in [first_made, first_begun] {
        for (function, make) in &functions() {
            told += tell(
                || vec![(4, make()), (4, program(|rt, kernel, me| rt.yield_(kernel, me))), (1, notified(again))],
                &[Interrupt::Notify(2)],
                |s| {
                    let came = [(0, SECOND_LIFE), (2, 2)].iter().all(|point| s.points.contains(point));
                    assert!(came, "{function}: {:?}", s.points);
                },
            );
        }
    }
    println!("{told} orders");
    assert!(told > 200, "{told}");
}
