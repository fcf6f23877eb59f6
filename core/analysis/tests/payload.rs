//! Bounds of a payload beside the published ones, and beside a simulation of single ticks.

use bulkhead_analysis::payload::{Disturbance, Payload, Server, Task, Windows};
use bulkhead_analysis::steps::Steps;
use bulkhead_analysis::table::Window;

const LIMIT: u64 = 1_000;

fn task(priority: u32, cost: u64, period: u64) -> Task {
    Task { priority, cost, period }
}

/// T1 10/50 and T2 100/300 of the published experiment, with an ITask 2/30 at this priority, and a BTask.
fn published(itask: Option<u32>) -> Payload {
    let itask = itask.map(|priority| Server { priority, budget: Some((2, 30)) });
    let servers = itask.into_iter().chain([Server { priority: 1, budget: None }]).collect();
    Payload { tasks: vec![task(12, 10, 50), task(8, 100, 300)], servers, ..Payload::default() }
}

/// SG-47: 130 ms in idle time, 28 ms with the ITask above all, 38 ms with it between the tasks.
#[test]
fn blackouts_of_the_published_set() {
    let steps = Steps::default();
    assert_eq!(published(None).blackout(0, LIMIT, &steps), Some(130));
    assert_eq!(published(Some(14)).blackout(0, LIMIT, &steps), Some(28));
    assert_eq!(published(Some(10)).blackout(0, LIMIT, &steps), Some(38));
    assert_eq!(published(Some(14)).blackout(1, LIMIT, &steps), Some(130), "the BTask waits as before");
    assert_eq!(
        (published(Some(14)).wait(0, LIMIT, &steps), published(Some(10)).wait(0, LIMIT, &steps)),
        (Some(0), Some(10))
    );
}

/// SG-47: what the tasks pay for the ITask above them, by the double hit.
#[test]
fn responses_of_the_published_set() {
    let steps = Steps::default();
    let responses = |payload: &Payload| [0, 1].map(|task| payload.response(task, &steps));
    assert_eq!(responses(&published(None)), [Some(10), Some(130)]);
    assert_eq!(responses(&published(Some(14))), [Some(14), Some(142)]);
    assert_eq!(responses(&published(Some(10))), [Some(10), Some(142)]);
    assert_eq!(responses(&published(Some(8))), [Some(10), Some(142)], "an equal priority counts as above");
}

#[test]
fn paths_are_paid_by_each_job_and_once_for_the_release() {
    let steps = Steps::default();
    let with = |switch| Payload { switch, ..published(Some(14)) };
    // T1: 10 + 1 for a path that has begun + 2 budgets of 2 + 1.
    assert_eq!(with(1).response(0, &steps), Some(10 + 1 + 2 * 3));
    // The window of T2 is 174 with the ITask's 7 budgets in it, so a fourth job of T1 comes behind the third; each budget may leave a switch.
    assert_eq!(with(1).wait(1, LIMIT, &steps), Some(1 + 4 * 11 + 101 + 7));
    assert_eq!(Payload { switch: 1, ..published(None) }.wait(0, LIMIT, &steps), Some(1 + 3 * 11 + 101));
    let task = Payload {
        tasks: vec![task(3, 5, 100)],
        servers: vec![Server { priority: 9, budget: None }],
        ..Payload::default()
    };
    assert_eq!(task.response(0, &steps), None, "nothing is certain below a server without a limit");
}

#[test]
fn what_does_not_fit_has_no_bound_and_a_share() {
    let steps = Steps::default();
    let mut payload = published(Some(14));
    payload.tasks[1].cost = 250;
    assert_eq!(payload.response(1, &steps), None);
    assert_eq!(payload.share_ppm(1), 200_000 + 833_334 + 66_667);
    assert_eq!(payload.share_ppm(0), 200_000 + 66_667);
    // 30 of 100 in windows, four boundaries, and handlers.
    let mut windowed = windowed();
    windowed.handlers = vec![(1, 20)];
    windowed.windows.as_mut().expect("a table").boundary = 1;
    assert_eq!(windowed.share_ppm(1), 100_000 + 60_000 + 300_000 + 40_000 + 50_000);
    assert_eq!(windowed.share_ppm(0), 60_000 + 40_000 + 50_000, "windows are below");
}

/// A window server of priority 10 between both tasks, 20 of every 100 and 10 more.
fn windowed() -> Payload {
    let list = vec![window(0, 20, 0), window(50, 10, 0)];
    let windows = Windows { major: 100, list, boundary: 0, tick: (0, 1) };
    let servers = vec![Server { priority: 10, budget: None }, Server { priority: 1, budget: None }];
    Payload { tasks: vec![task(12, 3, 50), task(8, 20, 200)], servers, windows: Some(windows), ..Payload::default() }
}

fn window(offset_ticks: u64, length_ticks: u64, owner: usize) -> Window {
    Window { offset_ticks, length_ticks, owner }
}

/// Gives the boundaries this cost, and the window at place 1 this end.
fn table_with(payload: &mut Payload, boundary: u64, end: u64) {
    let table = payload.windows.as_mut().expect("a table");
    table.boundary = boundary;
    table.list[1].length_ticks = end - table.list[1].offset_ticks;
}

/// SG-50: what is below windows waits for their boundaries and for the ways into and out of them, as it does for tasks.
#[test]
fn boundaries_and_ways_of_windows_are_waited_for() {
    let (steps, mut payload) = (Steps::default(), windowed());
    payload.tasks.truncate(1);
    // The first window has 20 ticks, in which the other world runs.
    assert_eq!((payload.wait(1, LIMIT, &steps), payload.start(7, LIMIT, &steps)), (Some(3), Some(10)));
    payload.windows.as_mut().expect("a table").boundary = 1;
    assert_eq!((payload.wait(1, LIMIT, &steps), payload.start(7, LIMIT, &steps)), (Some(3 + 4), Some(10 + 4)));
    payload.switch = 2;
    // Two windows with a way of 2 each, one more with the task, and one that has begun.
    assert_eq!(payload.wait(1, LIMIT, &steps), Some(3 + 4 + 2 * 2 + 2 + 2));
}

/// SG-50, SG-52: what a table of windows takes from tasks below it, and what those above it take from a window.
#[test]
fn windows_take_their_lengths_and_lose_to_what_is_above() {
    let (steps, payload) = (Steps::default(), windowed());
    assert_eq!(payload.response(0, &steps), Some(3), "above the windows");
    // 20 + 20 of the first window + 3 once: 43, before the second one begins at the earliest.
    assert_eq!(payload.response(1, &steps), Some(43));
    let lost = Disturbance { latest_start: Some(3), most_lost: 3 };
    assert_eq!([0, 1].map(|place| payload.disturbance(place, &steps)), [Some(lost); 2]);
    assert_eq!(payload.disturbance(2, &steps), None);
    // The longest gap is 40 ticks, and then the task above comes.
    assert_eq!(payload.blackout(0, LIMIT, &steps), Some(43));
    // From 57 on the task has the end of a window, and from 100 on the start of the next one.
    let mut both = payload.clone();
    both.tasks = vec![task(12, 3, 43)];
    assert_eq!(both.blackout(0, LIMIT, &steps), Some(46));
    // A second server of windows, even a more urgent one, is in none of the first one's; it has a boundary close before one.
    for priority in [9, 10, 14] {
        let mut two = payload.clone();
        two.servers.push(Server { priority, budget: None });
        let table = two.windows.as_mut().expect("a table");
        table.list.insert(1, window(30, 20, 2));
        assert_eq!([0, 2].map(|place| two.disturbance(place, &steps)), [Some(lost); 2], "{priority}");
        table_with(&mut two, 2, 49);
        // Its own boundary and the one a tick before it; that this tick is not of the window is not counted.
        let found = two.disturbance(2, &steps).expect("a window");
        assert_eq!(found, Disturbance { latest_start: Some(2 * 2 + 3 - 1), most_lost: 2 * 2 + 3 }, "{priority}");
        table_with(&mut two, 2, 50);
        let found = two.disturbance(2, &steps).expect("a window");
        assert_eq!(found, Disturbance { latest_start: Some(2 + 3), most_lost: 2 + 3 }, "one instant is one boundary");
    }
    let mut held = payload.clone();
    // Another task above that may hold the first one up until a window begins: two jobs of it in 48 ticks, 3 apart.
    held.tasks.push(task(14, 45, 1000));
    held.windows.as_mut().expect("a table").list[0].length_ticks = 48;
    held.windows.as_mut().expect("a table").list.pop();
    let found = held.disturbance(0, &steps).expect("a window");
    assert_eq!(found, Disturbance { latest_start: None, most_lost: 48 }, "48 of 48: 45 and 3, which is all of it");
    let mut costly = payload;
    costly.handlers = vec![(2, 40)];
    let table = costly.windows.as_mut().expect("a table");
    (table.boundary, table.tick) = (1, (1, 10));
    // A boundary, a handler, ticks and the task: two ticks come in its 20, and one that the handler and the boundary held up.
    let found = costly.disturbance(0, &steps).expect("a window");
    assert_eq!(found, Disturbance { latest_start: Some(1 + 2 + 1 + 3), most_lost: 1 + 2 + 3 + 3 });
    costly.servers.push(Server { priority: 11, budget: None });
    let found = costly.disturbance(0, &steps).expect("a window");
    assert_eq!(
        found,
        Disturbance { latest_start: None, most_lost: 20 },
        "nothing is certain below a server without a limit"
    );
}

/// SG-52: no phase of the tasks takes more of a window, or lets it begin later, than its bound; and the bound is reached.
#[test]
fn no_phase_takes_more_of_a_window_than_its_bound() {
    let list = vec![window(0, 9, 0)];
    let windows = Windows { major: 30, list, boundary: 0, tick: (0, 1) };
    let servers = vec![Server { priority: 5, budget: None }];
    let payload =
        Payload { tasks: vec![task(12, 2, 7), task(8, 3, 13)], servers, windows: Some(windows), ..Payload::default() };
    let bound = payload.disturbance(0, &Steps::default()).expect("a window");
    let mut worst = (0, 0);
    for phases in (0..7).flat_map(|first| (0..13).map(move |second| [first, second])) {
        let (mut left, mut lost, mut start) = ([0, 0], 0, None);
        for now in 0..30 * 7 * 13 {
            for (place, task) in payload.tasks.iter().enumerate() {
                if now % task.period == phases[place] {
                    left[place] += task.cost;
                }
            }
            let runs = left.iter().position(|left| *left > 0);
            if now % 30 == 0 {
                (lost, start) = (0, None);
            }
            match runs {
                Some(task) => left[task] -= 1,
                None => start = start.or(Some(now % 30)),
            }
            if now % 30 < 9 && now > 200 {
                lost += u64::from(runs.is_some());
                worst = (worst.0.max(start.unwrap_or(now % 30 + 1)), worst.1.max(lost));
            }
        }
    }
    assert!(
        bound.latest_start.is_some_and(|latest| worst.0 <= latest) && worst.1 <= bound.most_lost,
        "{worst:?} {bound:?}"
    );
    assert_eq!((Some(worst.0), worst.1), (bound.latest_start, bound.most_lost), "it happens");
}

/// No phase of the releases, of the server's grid and of the demand makes a job slower than its bound, and the bound is reached.
#[test]
fn no_phase_is_worse_than_the_bound() {
    let payload = Payload {
        tasks: vec![task(12, 3, 11), task(8, 5, 23)],
        servers: vec![Server { priority: 10, budget: Some((2, 7)) }],
        ..Payload::default()
    };
    let bounds = [0, 1].map(|task| payload.response(task, &Steps::default()).expect("a bound"));
    let mut worst = [0, 0];
    for grid in 0..7 {
        for first in 0..11 {
            for wish in 0..23 {
                let found = simulate(&payload, grid, [first, 7], wish);
                worst = [worst[0].max(found[0]), worst[1].max(found[1])];
            }
        }
    }
    assert!(worst[0] <= bounds[0] && worst[1] <= bounds[1], "{worst:?} and {bounds:?}");
    assert_eq!(worst, bounds, "the double hit happens");
}

/// Longest responses of both tasks, tick by tick: the server wants to run from `wish` on and is replenished on a grid.
fn simulate(payload: &Payload, grid: u64, phases: [u64; 2], wish: u64) -> [u64; 2] {
    let (budget, period) = payload.servers[0].budget.expect("a budget");
    let mut left = [0, 0];
    let mut released = [0, 0];
    let mut worst = [0, 0];
    let mut account = budget;
    for now in 0..400 {
        for (place, task) in payload.tasks.iter().enumerate() {
            if now >= phases[place] && (now - phases[place]).is_multiple_of(task.period) {
                (left[place], released[place]) = (task.cost, now);
            }
        }
        if now % period == grid {
            account = budget;
        }
        if left[0] > 0 {
            left[0] -= 1;
            worst[0] = if left[0] == 0 { worst[0].max(now + 1 - released[0]) } else { worst[0] };
        } else if now >= wish && account > 0 {
            account -= 1;
        } else if left[1] > 0 {
            left[1] -= 1;
            worst[1] = if left[1] == 0 { worst[1].max(now + 1 - released[1]) } else { worst[1] };
        }
    }
    worst
}
