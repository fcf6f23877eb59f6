//! Windows of the other world: when its server runs, what disturbs them, and that they are told.

use bulkhead_analysis::payload::{PROMISED_KERNEL, PROMISED_PATHS, Payload, Server, Task, Windows};
use bulkhead_analysis::steps::Steps;
use bulkhead_analysis::table::Window;
use bulkhead_system_tests::servers::{Arrivals, BACKGROUND, MS, Noting, Seen, run_in_windows, server, windows};
use bulkhead_world::flash::{ServerKind, ServerPlan};

/// Round of the table, its windows by start and length, and the task above: all in milliseconds. The first window meets a job of the task at its
/// start, the second one in its middle, the third one not at all.
const MAJOR: u64 = 100;
const TABLE: [(u64, u64); 3] = [(0, 20), (45, 10), (70, 10)];
const TASK: (u64, u64, u32) = (50, 2, 12);
const TASK_BELOW: (u64, u64, u32) = (200, 60, 4);
const WINDOWED: ServerPlan = server(ServerKind::Window, 9, 0, 0);

/// The bounds, in ticks of the counter of which each is an instruction.
fn payload() -> Payload {
    let task = |(period, cost, priority): (u64, u64, u32)| Task { priority, cost: cost * MS, period: period * MS };
    let list = TABLE.map(|(start, length)| Window { offset_ticks: start * MS, length_ticks: length * MS, owner: 0 });
    Payload {
        tasks: vec![task(TASK), task(TASK_BELOW)],
        servers: vec![Server { priority: WINDOWED.priority, budget: None }, Server { priority: 1, budget: None }],
        switch: PROMISED_PATHS.to_payload + PROMISED_PATHS.to_world,
        windows: Some(Windows {
            major: MAJOR * MS,
            list: list.to_vec(),
            boundary: PROMISED_KERNEL.boundary,
            tick: (PROMISED_KERNEL.tick, MS),
        }),
        ..Payload::default()
    }
}

/// A task's cost has the kernel's ticks in it that come while it runs: a millisecond of it is that much longer, and either end may meet one.
fn with_ticks(payload: &Payload) -> Payload {
    let with = |task: &Task| {
        let milliseconds = task.cost / MS;
        let ticks = milliseconds + milliseconds / 50 + 2;
        Task { cost: task.cost + ticks * PROMISED_KERNEL.tick, ..*task }
    };
    Payload { tasks: payload.tasks.iter().map(with).collect(), ..payload.clone() }
}

fn seen(interrupt: u32, noting: &Noting) -> Seen {
    let list = TABLE.map(|(start, length)| (start, length, 0));
    let task = |(period, cost, priority): (u64, u64, u32)| format!("{period}/{cost}/{priority}");
    let arguments = format!("tasks={},{}", task(TASK), task(TASK_BELOW));
    run_in_windows(&[WINDOWED, BACKGROUND], &windows(MAJOR, interrupt, &list), &arguments, noting)
}

/// SG-50, SG-51 (black box), SG-52: no window begins later or loses more than what was computed, the worst one comes near it, and the payload's
/// tasks respond within their bounds with the windows above them.
#[test]
fn windows_suffer_no_more_than_was_computed() {
    let seen = seen(0, &Noting::Absences(400));
    let (payload, steps) = (payload(), Steps::default());
    assert_eq!(seen.windows.len(), TABLE.len(), "{seen:?}");
    let mut tightness: f64 = 0.0;
    for (place, measured) in seen.windows.iter().enumerate() {
        let bound = payload.disturbance(place, &steps).expect("a window");
        let latest = bound.latest_start.expect("a bound");
        println!(
            "window {place}: {} rounds; begins {} of {latest} late; loses {} of {}",
            measured.rounds, measured.latest_start_ticks, measured.most_lost_ticks, bound.most_lost
        );
        assert!(measured.rounds >= 5 && measured.latest_start_ticks <= latest, "{place}: {measured:?} {bound:?}");
        assert!(measured.most_lost_ticks <= bound.most_lost, "{place}: {measured:?} {bound:?}");
        tightness = tightness.max(measured.most_lost_ticks as f64 / bound.most_lost as f64);
    }
    println!("tightness {tightness:.3}");
    assert!(tightness >= 0.9, "{seen:?}");
    // The task meets the start of the first window, the middle of the second one, and the third one not at all.
    let late = |place: usize| seen.windows[place].latest_start_ticks;
    assert!(late(0) > TASK.1 * MS && late(1) < MS / 10 && late(2) < MS / 10, "{seen:?}");
    assert!(seen.windows[1].most_lost_ticks > TASK.1 * MS && seen.windows[2].most_lost_ticks < MS / 4, "{seen:?}");
    for (place, task) in seen.tasks.iter().enumerate() {
        let bound = with_ticks(&payload).response(place, &steps).expect("a bound");
        println!("task {place}: {} of {bound}", task.most);
        assert!(task.missed == 0 && task.most <= bound, "{place}: {task:?} {bound}");
    }
    // 60 ms of work have the first window and both jobs of the task above in them, and the second window's part.
    assert!(seen.tasks[1].most > 84 * MS, "{seen:?}");
}

/// SG-51 (integrated): an interrupt tells the world of each start, and its jobs begin there: on the grid, at most as late as the window itself.
#[test]
fn starts_of_windows_release_jobs_of_the_world() {
    const JOBS: u64 = 36;
    let seen = seen(43, &Noting::Windows(JOBS));
    let payload = payload();
    assert_eq!(seen.records.len() as u64, JOBS);
    let round = |round: u64| TABLE.map(|(start, _)| (round * MAJOR + start) * MS);
    let starts: Vec<u64> = (0..20).flat_map(round).collect();
    // The world was loaded in one of the first rounds; what it noted from then on has no gap.
    let since =
        |entered: u64| starts.iter().rposition(|start| seen.origin + start <= entered).expect("after the origin");
    let first = since(seen.records[1].entered) - 1;
    for (job, record) in seen.records.iter().enumerate().skip(1) {
        assert_eq!(since(record.entered), first + job, "job {job}: {seen:?}");
        let late = record.entered - seen.origin - starts[first + job];
        let bound = payload.disturbance((first + job) % 3, &Steps::default()).and_then(|bound| bound.latest_start);

        // Behind the switch to the server EL3 gives the core away, and the world takes its interrupt.
        assert!(bound.is_some_and(|bound| late <= bound + 200), "job {job}: {late} of {bound:?}");
    }
}

/// SG-50: within its windows the world waits for the task above alone, and outside of them for the one below as well.
#[test]
fn outside_of_its_windows_the_world_waits() {
    let arrivals = Arrivals { samples: 200, spacing: 13 * MS, dither: 6 * MS, ..Arrivals::default() };
    let seen = seen(0, &Noting::Arrivals(arrivals));
    let (mut inside, mut outside) = (0, 0);
    for record in &seen.records {
        let Some(at) = record.due.checked_sub(seen.origin) else { continue };
        let at = at % (MAJOR * MS);
        let is_open = TABLE.iter().any(|(start, length)| (start * MS..(start + length - TASK.1) * MS).contains(&at));
        let slot = if is_open { &mut inside } else { &mut outside };
        *slot = record.wait().max(*slot);
    }
    println!("inside {inside}, outside {outside}");
    assert!(inside <= TASK.1 * MS + MS / 10, "{inside}: {seen:?}");
    // From the end of the first window to the second one, while the lower task computes.
    assert!((15 * MS..=26 * MS).contains(&outside), "{outside}: {seen:?}");
}
