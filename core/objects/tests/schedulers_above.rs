//! Schedulers below schedulers: one is told at once of who wakes, each above in a passage of its own (CH-57, CH-60).

mod support;

use bulkhead_kernel_abi::boot::SchedulerRow;
use bulkhead_kernel_abi::call::Call;
use bulkhead_kernel_abi::{Code, Kind, NONE};
use bulkhead_objects::{NEVER, Outcome, ThreadState, event};
use support::*;

/// Threads of the four, from the top; the task below them.
const THREADS: [u16; 4] = [2, 5, 4, 7];
const TASK: u16 = 1;
/// The servers that they are on: the two at the top have one.
const SERVERS: [u16; 4] = [2, 2, 0, 1];
const SLOTS_OF: [u64; 4] = [SCHEDULER, CHILD_SCHEDULER, EMPTY, EMPTY + 1];

fn rows() -> Rows {
    let mut rows = Rows::new();
    for (number, thread) in (2..).zip(&THREADS[2..]) {
        rows.schedulers.push(SchedulerRow { thread: *thread, parent: number - 1, id: number + 1, reserved: 0 });
        rows.servers[usize::from(SERVERS[usize::from(number)])].holder = number;
        rows.threads[usize::from(*thread)].tcap = SERVERS[usize::from(number)];
    }
    for (below, parent) in [(5, 0), (4, 1), (7, 2), (TASK, 3)] {
        rows.threads[usize::from(below)].scheduler = parent;
    }
    (rows.threads[usize::from(TASK)].tcap, rows.threads[usize::from(TASK)].server) = (1, 1);
    let mut slots = rows.tables().capabilities.to_vec();
    for table in slots.chunks_exact_mut(SLOTS as usize) {
        table[EMPTY as usize] = capability(Kind::Scheduler, 2, 0);
        table[EMPTY as usize + 1] = capability(Kind::Scheduler, 3, 0);
    }
    rows.set_capabilities(slots);
    rows
}

/// Takes all events of a scheduler, which runs, and waits for others.
fn takes_all(b: &mut Bench<'_>, scheduler: usize) -> Vec<(u64, u8)> {
    let mut taken = Vec::new();
    assert_eq!(b.pick(SERVERS[scheduler]), Some(THREADS[scheduler]));
    loop {
        let [label, what] = b.answers(THREADS[scheduler]);
        match b.call(Call::Events, &[SLOTS_OF[scheduler], 1]) {
            Code::Ok => taken.push({
                let [label, what] = b.answers(THREADS[scheduler]);
                (label, what as u8)
            }),
            code => {
                assert_eq!(code, Code::WouldBlock, "after {label} {what}");
                break;
            }
        }
    }
    assert_eq!(b.svc(Call::Events, &[SLOTS_OF[scheduler], 0, NEVER - 1]), Outcome::Done);
    taken
}

/// All of them wait.
fn waiting(b: &mut Bench<'_>) {
    b.world.ranks = vec![5; 10];
    for (scheduler, thread) in THREADS.into_iter().enumerate() {
        b.start(&[thread]);
        takes_all(b, scheduler);
    }
    // Each has told its parent that it waits.
    while let Some(scheduler) = (0..4).rev().find(|one| b.objects.ready_next(SERVERS[*one]) == Some(THREADS[*one])) {
        takes_all(b, scheduler);
    }
    for thread in THREADS {
        assert_eq!(b.thread(thread).state, ThreadState::WaitingForEvents);
    }
    b.world.told_later.clear();
}

fn is_awake(b: &Bench<'_>) -> [bool; 4] {
    THREADS.map(|thread| b.thread(thread).is_awake())
}

#[test]
fn one_is_told_at_once_and_each_above_later() {
    bench_of(&rows(), |b| {
        waiting(b);
        b.start(&[TASK]);
        assert_eq!(is_awake(b), [false; 4], "the task runs on the server of its scheduler, which has an event");
        assert_eq!(b.world.told_later, [(3, Some(0))]);
        b.objects.tell_parent(&mut b.world, 3);
        assert_eq!(is_awake(b), [false, false, true, false]);
        assert_eq!(b.answers(THREADS[2]), [107, u64::from(event::ACTIVATED)]);
        assert_eq!(b.world.told_later, [(3, Some(0)), (2, Some(2))]);
        b.objects.tell_parent(&mut b.world, 2);
        assert_eq!(is_awake(b), [false, true, true, false]);
        assert_eq!(b.answers(THREADS[1]), [104, u64::from(event::ACTIVATED)]);
        b.objects.tell_parent(&mut b.world, 1);
        assert_eq!(b.world.told_later[2..], [(1, Some(2))], "nobody is above the last one");
        let root = &b.objects.room().schedulers[0];
        assert_eq!(root.events.first(), Some(THREADS[1]));
    });
}

#[test]
fn who_waits_again_is_not_told_of() {
    bench_of(&rows(), |b| {
        waiting(b);
        b.start(&[TASK]);
        b.objects.tell_parent(&mut b.world, 3);
        // It runs, and waits: that is what its parent knows.
        takes_all(b, 2);
        assert_eq!(b.answers(THREADS[1]), [104, u64::from(event::BLOCKED)]);
        takes_all(b, 1);
        let before = b.world.told_later.len();
        b.objects.tell_parent(&mut b.world, 2);
        assert_eq!((is_awake(b)[1], b.world.told_later.len()), (false, before));
        assert_eq!(b.objects.room().schedulers[1].events.first(), None);
        // A number that is none, and one that is nobody's child.
        for scheduler in [0, 4, NONE] {
            b.objects.tell_parent(&mut b.world, scheduler);
        }
        assert_eq!(b.world.told_later.len(), before);
    });
}

#[test]
fn who_has_no_time_is_told_of_on_the_time_of_who_is_above() {
    // The parent's own time, that of the one above, and nobody's.
    for (without, server) in [(vec![], Some(0)), (vec![0], Some(2)), (vec![0, 2, 4], None)] {
        bench_of(&rows(), |b| {
            waiting(b);
            for tcap in &without {
                b.world.roots[*tcap] = NONE;
            }
            b.start(&[TASK]);
            assert_eq!(b.world.told_later, [(3, server)], "without {without:?}");
        });
    }
}
