//! Random programs and interrupts against a simple model.
//!
//! A case is a few tasks with priorities and programs of a dozen steps, and interrupts at random stops. What must hold: one at a time is inside the state, no
//! task's own code runs while a better one could, nobody wakes before its date, nobody is woken more often than somebody woke it, and every
//! program comes to its end.

#[path = "../../../core/sched/tests/support/random.rs"]
mod random;
mod support;

use bulkhead_kernel_abi::Code;
use bulkhead_rt::{Kernel as _, Task};
use random::Random;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use support::*;

const TASKS: u64 = 4;

/// What the model knows of each task: how often it was woken and how often it found that.
#[derive(Default)]
struct Model {
    woken: [AtomicU64; TASKS as usize],
    found: [AtomicU64; TASKS as usize],
}

/// What was done in all cases: a driver that does nothing would show nothing.
static DONE: [AtomicU64; 6] = [const { AtomicU64::new(0) }; 6];

fn step(rt: &TestRt, kernel: &mut Calls, me: Task, random: &mut Random, model: &Model) {
    let number = usize::from(me.number());
    let what = random.below(6);
    DONE[what as usize].fetch_add(1, Ordering::Relaxed);
    let now = kernel.now_ticks();
    let until = now + 1 + random.below(60);
    match what {
        0 => rt.yield_(kernel, me),
        1 => {
            rt.sleep(kernel, me, until);
            assert!(kernel.now_ticks() >= until, "it slept too short");
        }
        2 => match rt.block(kernel, me, until) {
            Ok(()) => {
                let found = model.found[number].fetch_add(1, Ordering::Relaxed) + 1;
                assert!(found <= model.woken[number].load(Ordering::Relaxed), "nobody woke it");
            }
            Err(code) => {
                assert_eq!(code, Code::TimedOut);
                assert!(kernel.now_ticks() >= until, "its date had not come");
            }
        },
        3 => {
            let other = random.below(TASKS + 1);
            // Before the call: it may come back long behind it.
            if let Some(woken) = model.woken.get(other as usize) {
                woken.fetch_add(1, Ordering::Relaxed);
            }
            let answer = rt.wake(kernel, me, Task::new(other).expect("a task"));
            // One that has ended is none any more.
            assert!(answer == Err(Code::Gone) || answer == Ok(()) && other < TASKS, "{answer:?}");
        }
        4 => {
            receive(me, until);
        }
        _ => work(random.below(30)),
    }
    own(what);
}

#[test]
fn random_programs_come_to_their_end() {
    let cases = random::check_some("random programs", 20, |random| {
        let model = Arc::new(Model::default());
        let tasks = (0..TASKS).map(|_| {
            let (mut own_random, model) = (Random(random.next()), model.clone());
            let steps = random.below(12);
            let program: Program = Box::new(move |rt, kernel, me| {
                for _ in 0..steps {
                    step(rt, kernel, me, &mut own_random, &model);
                }
            });
            (3 + random.below(3) as u8, program)
        });
        let tasks = tasks.collect();
        subsystem(1 + random.below(40), tasks, |s| {
            while !s.is_over() {
                match random.below(12) {
                    0 => s.notify(random.below(TASKS) as u16),
                    1 => s.pass(random.below(25)),
                    _ => {}
                }
                assert!(s.step(), "nobody can run and nothing will happen: {:?}", s.points);
                assert!(s.steps < 50_000, "it does not end: {:?}", s.points);
            }
        });
    });
    let done: Vec<u64> = DONE.iter().map(|count| count.load(Ordering::Relaxed)).collect();
    println!("{cases} cases: {done:?}");
    assert!(done.iter().all(|count| *count > cases), "{done:?}");
}
