//! Who gets how much, and when: turns among equals, priorities, dates.

mod support;

use bulkhead_rt::Kernel as _;
use support::*;

const QUANTUM: u64 = 100;

fn spinner() -> Program {
    Box::new(|_, _, _| {
        loop {
            work(7);
        }
    })
}

/// Runs for so long; returns what each task ran.
fn run(s: &mut Subsystem<'_>, ticks: u64) -> Vec<u64> {
    let end = s.world.now + ticks;
    let before = s.ran.clone();
    while s.world.now < end {
        assert!(s.step(), "somebody spins");
    }
    s.ran.iter().zip(before).skip(1).map(|(now, before)| now - before).collect()
}

/// CH-3: round robin among equals.
#[test]
fn equals_take_turns() {
    subsystem(QUANTUM, vec![(4, spinner()), (4, spinner()), (4, spinner()), (5, spinner())], |s| {
        let ran = run(s, 30 * QUANTUM);
        assert!(ran[..3].iter().all(|ran| ran.abs_diff(10 * QUANTUM) <= QUANTUM), "{ran:?}");
        assert_eq!(ran[3], 0, "fixed priorities");
    });
}

/// One of three equals is notified, again and again, wherever the others are in their turns, and spins: each has its third within a turn.
#[test]
fn an_equal_that_is_notified_gains_nothing() {
    for every in [1, 3, 13, 50, 99, 100, 101, 250] {
        let waiter: Program = Box::new(|_, _, me| {
            loop {
                receive(me, 0);
                for _ in 0..3 * QUANTUM {
                    work(1);
                }
            }
        });
        subsystem(QUANTUM, vec![(4, spinner()), (4, spinner()), (4, waiter)], |s| {
            let end = s.world.now + 60 * QUANTUM;
            let mut next = 0;
            while s.world.now < end {
                if s.world.now >= next {
                    s.notify(2);
                    next = s.world.now + every;
                }
                assert!(s.step());
            }
            let third = 20 * QUANTUM;
            let ran = &s.ran[1..];
            assert!(ran.iter().all(|ran| ran.abs_diff(third) <= 2 * QUANTUM), "every {every}: {ran:?}");
            assert!(ran[0].abs_diff(ran[1]) <= QUANTUM, "every {every}: {ran:?}");
        });
    }
}

/// An equal that is notified waits for its turn; one that is better does not. Equal numbers would let it in, as published.
#[test]
fn an_equal_that_is_notified_cuts_into_no_turn() {
    for (priority, least, most) in [(4, QUANTUM - 40, QUANTUM), (3, 0, 7)] {
        let waiter: Program = Box::new(|_, kernel, me| {
            receive(me, 0);
            own(kernel.now_ticks());
            work(10 * QUANTUM);
        });
        subsystem(QUANTUM, vec![(4, spinner()), (priority, waiter)], |s| {
            // It waits in the kernel, and the other one is in its turn.
            run(s, QUANTUM + 30);
            let notified = s.world.now;
            s.notify(1);
            run(s, 2 * QUANTUM);
            let [(1, began)] = s.points[..] else { panic!("{:?}", s.points) };
            assert!((least..=most).contains(&(began - notified)), "priority {priority}: after {}", began - notified);
        });
    }
}

/// A task that gives the core away itself gains nothing: it wakes one that is better, again and again.
#[test]
fn waking_others_makes_no_turn_longer() {
    let waker: Program = Box::new(|rt, kernel, me| {
        let better = bulkhead_rt::Task::new(2).expect("a task");
        loop {
            work(9);
            rt.wake(kernel, me, better).expect("it is there");
        }
    });
    let better: Program = Box::new(|rt, kernel, me| {
        loop {
            rt.block(kernel, me, u64::MAX).expect("nothing else ends it");
            work(1);
        }
    });
    subsystem(QUANTUM, vec![(4, waker), (4, spinner()), (1, better)], |s| {
        let ran = run(s, 60 * QUANTUM);
        assert!(ran[0] <= ran[1] + QUANTUM, "{ran:?}");
        assert!(ran[0] > 10 * QUANTUM, "{ran:?}");
    });
}

/// A better one is let in at once, by date and by notification.
#[test]
fn a_better_task_runs_at_its_date() {
    let sleeper: Program = Box::new(|rt, kernel, me| {
        for period in 1..=20 {
            rt.sleep(kernel, me, period * 37);
            own(kernel.now_ticks() - period * 37);
            work(2);
        }
    });
    subsystem(QUANTUM, vec![(4, spinner()), (2, sleeper)], |s| {
        run(s, 30 * QUANTUM);
        let late: Vec<u64> = s.points.iter().map(|(_, late)| *late).collect();
        assert_eq!(late.len(), 20);
        assert!(late.iter().all(|late| *late == 0), "{late:?}");
    });
}

/// What the kernel refuses to run for want of time is left out, and tried again.
#[test]
fn a_task_that_nothing_pays_for_is_left_out() {
    subsystem(QUANTUM, vec![(2, spinner()), (4, spinner())], |s| {
        s.world.empty = 1 << 1;
        let ran = run(s, 10 * QUANTUM);
        assert_eq!((ran[0], ran[1] >= 9 * QUANTUM), (0, true), "{ran:?}");
        // Its time is back: it is tried once in a turn.
        s.world.empty = 0;
        let ran = run(s, 10 * QUANTUM);
        assert!(ran[0] >= 8 * QUANTUM && ran[0] + ran[1] >= 10 * QUANTUM, "{ran:?}");
    });
}
