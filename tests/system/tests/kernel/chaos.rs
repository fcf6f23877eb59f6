//! A subsystem with a scheduler of its own: ChaosRT as a component, tasks of another one, and a more important server beside them. On the board and in
//! `direct`; what is counted is equal there.

use crate::servers::{MILLISECOND, numbers};
use bulkhead_system_tests::kernel::chaos::{
    NOTIFIES, POLLS, SLEEPS, SPINS, TAKES, WAITS, WAKES, count_limited, count_yields, subsystem,
};
use bulkhead_system_tests::kernel::{Place, described, run};

/// The probe spins for ten periods of 10 ms and says how much it ran.
const PROBE_SPINS: u64 = 110;
/// What was said on the board, and in `direct`. Windows and dates are those of the counter, which has another value when the instance begins there, so not
/// every number is the same.
fn said(image: &[u8]) -> [Vec<String>; 2] {
    [Place::Board, Place::Direct].map(|place| {
        let lines = run(image, place);
        println!("{place:?}: {lines:#?}");
        lines
    })
}

/// CH-63: the more important server gets its 2 ms of every 10 whatever the scheduler of the subsystem does and however its tasks spin.
/// It waits for the call of the kernel that is under way, and for nothing else.
#[test]
fn a_subsystem_that_spins_delays_nobody_more_important() {
    for said in said(&subsystem(PROBE_SPINS, &[(SPINS, 150, 3), (SPINS, 150, 3)])) {
        let [ran, absences, longest] = numbers(&said, "spun: ")[..] else { panic!("{said:?}") };
        assert_eq!((absences, ran.div_ceil(MILLISECOND)), (10, 20));
        assert!(longest.abs_diff(8 * MILLISECOND) < 4000, "{longest}");
    }
}

/// CH-3: equals have turns of a millisecond of their own time, so none has had more than a turn more than another; who is less important has what they leave.
/// A turn's end takes 17,000 instructions: an interrupt and three calls of the kernel, and the scheduler's decision.
#[test]
fn equal_tasks_take_turns_and_a_less_important_one_waits() {
    for said in said(&subsystem(0, &[(SPINS, 90, 3), (SPINS, 90, 3), (SPINS, 90, 3), (SPINS, 100, 4)])) {
        let mut all = Vec::new();
        for task in 0..3 {
            let [ran, absences, longest] = numbers(&said, &format!("task {task} ran "))[..] else { panic!("{said:?}") };
            assert!((2 * MILLISECOND..2 * MILLISECOND + 40_000).contains(&longest), "{task}: {longest}");
            assert!(absences.abs_diff(ran / MILLISECOND) <= 2, "{task}: {absences} {ran}");
            all.push(ran);
        }
        let (least, most) = (all.iter().min().expect("three"), all.iter().max().expect("three"));
        assert!(most - least <= MILLISECOND + 5_000, "{all:?}");
        assert!(all.iter().sum::<u64>() > 72 * MILLISECOND, "of 90: {all:?}");
        let [ran, ..] = numbers(&said, "task 3 ran ")[..] else { panic!("{said:?}") };
        assert!(ran > 78 * MILLISECOND, "after them it is alone: {ran}");
    }
}

/// CH-3: who is woken and more important runs at once; sleepers wake at their dates; memory is the task's that took it, and a task speaks for itself.
#[test]
fn tasks_wake_each_other_sleep_and_take_memory() {
    for said in said(&subsystem(0, &[(WAITS, 50, 1), (WAKES, 50, 2), (SLEEPS, 20, 0), (TAKES, 0, 5)])) {
        assert_eq!(numbers(&said, "task 0 was woken "), [50, 0]);
        assert_eq!(numbers(&said, "task 1 woke "), [50]);
        let [slept, latest] = numbers(&said, "task 2 slept ")[..] else { panic!("{said:?}") };
        assert!(slept == 20 && latest < 16_000, "{latest}");
        // Blocks 0, 1, 2; the seventeenth is `Denied`, block 63 was nobody's, and task 4 is not one of them.
        assert!(said.contains(&"task 3 took [0, 1, 2], then 0x100000005; not its: Ok(5)".to_owned()), "{said:?}");
        assert!(said.contains(&"task 3 gave back: Ok(0); as another: Ok(5)".to_owned()), "{said:?}");
    }
}

/// CH-31, CH-33 to CH-38: of a sender that never stops ten notifications pass in each window of 10 ms; the receiver looks each millisecond besides.
#[test]
fn a_limited_sender_is_heard_as_often_as_it_may() {
    for said in said(&subsystem(0, &[(NOTIFIES, 100, 3), (POLLS, 125, 1)])) {
        let [sent, held_back, refused] = numbers(&said, "task 0 notified: ")[..] else { panic!("{said:?}") };
        let [told, looked] = numbers(&said, "task 1 was told ")[..] else { panic!("{said:?}") };
        assert!((100..=110).contains(&sent), "{sent}");
        assert_eq!((told, held_back, refused), (sent, 1, 0));
        assert!((100..=126).contains(&looked), "{looked}");
    }
}

/// Row 7, with two equals that yield to each other, each of which counts the other one's yields: when the first one has ended, the other one's last yield comes back to
/// itself and is nobody's. What it takes now; what is promised is in the rows of `./x bench`.
#[test]
fn a_yield_takes_what_it_took() {
    for place in [Place::Board, Place::Direct] {
        let rows = count_yields(200, place);
        println!("{place:?}: {rows:?}");
        let mut times: Vec<u64> = rows.iter().map(|row| row.times).collect();
        times.sort_unstable();
        assert_eq!(times, [199, 200], "{rows:?}");
        assert!(rows.iter().all(|row| row.most <= 1_390 && row.least >= 1_250), "{rows:?}");
    }
}

/// Row 6, CH-E5 in part: a signal through the limiter, what its parts take in the same state, and row 3 for the call: within the 5 % that are promised.
#[test]
fn a_limited_signal_takes_little_more_than_its_parts() {
    const CALL: u64 = 163;
    for place in [Place::Board, Place::Direct] {
        let rows = count_limited(100, place);
        println!("{place:?}: {rows:?}");
        let [limited, signal, limiter] = &rows[..] else { panic!("{rows:?}") };
        assert!(rows.iter().all(|row| row.times == 100 && row.least == row.most), "{rows:?}");
        let parts = signal.most + CALL + limiter.most;
        assert!(limited.most.abs_diff(parts) * 100 <= 5 * parts, "{limited:?} of {parts}");
    }
}

/// CH-51, CH-53, CH-57: a ChaosRT below another one is a task of that one, and its own tasks are no more important there than it is: they run behind a better task of the
/// outer one, and before a less important one.
#[test]
fn a_scheduler_below_another_one_has_what_that_one_leaves() {
    const TEXT: &str = r#"version = 1
server = [{ name = "vm", holder = "outer" }]
scheduler = [{ name = "outer", component = "outer" }, { name = "inner", component = "inner", parent = "outer" }]

[[component]]
name = "outer"
program = "component:chaosrt.elf"
# Tasks of priority 1 (better), 3 (the inner scheduler) and 5.
threads = [{ name = "main", server = "vm", argument = 0x060402 }]
callers = { stacks = 2, bytes = "4 KiB" }
bind = { scheduler = "scheduler:outer", threads = "threads:outer", ways = "empty:1" }

[[component]]
name = "first"
program = "component:tasks.elf"
threads = [{ name = "main", server = "vm", priority = 6, argument = 0x14_0000 }]
end_points = [{ thread = "main", signals = ["news"] }]
bind = { end = "outer.end", give_way = "outer.give_way", block = "outer.block", sleep = "outer.sleep", wake = "outer.wake", notify = "outer.notify#0", allocate = "outer.allocate", release = "outer.release", news = "receive:main" }

[[component]]
name = "inner"
program = "component:chaosrt.elf"
threads = [{ name = "main", server = "vm", priority = 10, argument = 0x0404 }]
callers = { stacks = 2, bytes = "4 KiB" }
bind = { scheduler = "scheduler:inner", threads = "threads:inner", ways = "empty:1" }

[[component]]
name = "last"
program = "component:tasks.elf"
threads = [{ name = "main", server = "vm", priority = 14, argument = 0x14_0200 }]
end_points = [{ thread = "main", signals = ["news"] }]
bind = { end = "outer.end", give_way = "outer.give_way", block = "outer.block", sleep = "outer.sleep", wake = "outer.wake", notify = "outer.notify#0", allocate = "outer.allocate", release = "outer.release", news = "receive:main" }

[[component]]
name = "tasks"
program = "component:tasks.elf"
threads = [
  { name = "one", server = "vm", scheduler = "inner", priority = 10, argument = 0x3c_0000 },
  { name = "two", server = "vm", scheduler = "inner", priority = 10, argument = 0x3c_0100 },
]
end_points = [{ thread = "two", signals = ["news"] }]
bind = { end = "inner.end", give_way = "inner.give_way", block = "inner.block", sleep = "inner.sleep", wake = "inner.wake", notify = "inner.notify#0", allocate = "inner.allocate", release = "inner.release", news = "receive:two" }
"#;
    let said = run(&described(TEXT).bytes, Place::Board);
    println!("{said:#?}");
    // The first one of the outer scheduler, the two of the inner one, and the last one, in the order in which they print.
    let ran = |place: usize| -> Vec<u64> {
        let words = said[place].split(|one: char| !one.is_ascii_digit());
        words.filter_map(|word| word.parse().ok()).collect()
    };
    let ([_, first, _, longest], [0, one, ..], [1, two, ..]) = (&ran(0)[..], &ran(1)[..], &ran(2)[..]) else {
        panic!("{said:?}")
    };
    // Of its 20 ms it loses what decisions take, and to nobody's turn.
    assert!(*first > 16 * MILLISECOND && *longest < MILLISECOND / 4, "{said:?}");
    // Theirs are 60 ms together: had the last one had turns in them, there would be less.
    assert!(one.abs_diff(*two) <= MILLISECOND + 5_000 && one + two > 49 * MILLISECOND, "{said:?}");
}
