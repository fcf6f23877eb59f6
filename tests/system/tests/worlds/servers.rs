//! The other world in servers of the payload: how long its interrupts and threads wait, and what its share costs the payload's tasks.
//!
//! The published sets; times in milliseconds of a clock on which an instruction takes 16 ns. `./x bench secure` compares longer runs with a
//! model.

use bulkhead_system_tests::servers::{
    ABOVE, Arrivals, BACKGROUND, BETWEEN, MS, Noting, TASKS, URGENT, itask, run, run_wishing, server,
};
use bulkhead_world::flash::{PriorityPlan, ServerKind};

/// SG-40, SG-43, SG-E4, SG-E5: the idle approach. An interrupt waits for the longest busy stretch of the tasks, 130 ms, at most.
#[test]
fn without_servers_interrupts_wait_for_the_busy_stretch() {
    // One in twenty begins with the busy stretch.
    let arrivals = Arrivals { samples: 120, spacing: 97 * MS, dither: 40 * MS, ..Arrivals::default() };
    let seen = run(&[BACKGROUND], &[], TASKS, &Noting::Arrivals(arrivals));
    assert!((113.0..=130.0).contains(&seen.most_ms()), "{seen:?}");
    // The tasks have the core alone: 10 ms, and 100 ms with three of the other's jobs; both with the ticks of the kernel meanwhile.
    let [(first, 0), (second, 0)] = seen.responses()[..] else { panic!("{seen:?}") };
    assert!((9.95..=10.0).contains(&first) && (129.9..=130.0).contains(&second), "{seen:?}");
}

/// SG-41, SG-42, SG-46, SG-47, SG-E6: an RTask of 6 ms in 30 ms above both tasks: no interrupt waits longer than its blackout of 24 ms, and
/// the tasks respond within their bounds.
#[test]
fn a_reserved_task_bounds_waits_by_its_blackout() {
    let reserved = server(ServerKind::Reserved, ABOVE, 6, 30);
    let arrivals = Arrivals { samples: 200, spacing: 17 * MS, dither: 8 * MS, ..Arrivals::default() };
    let seen = run(&[reserved, BACKGROUND], &[], TASKS, &Noting::Arrivals(arrivals));
    assert!((20.0..24.0).contains(&seen.most_ms()) && seen.mean_ms() < 10.0, "{seen:?}");
    // With the double hit of a deferrable server: 10 + 6, and 100 + 4 * 10 + 7 * 6 at most.
    let [(first, 0), (second, 0)] = seen.responses()[..] else { panic!("{seen:?}") };
    assert!(first < 16.15 && (150.0..182.5).contains(&second), "{seen:?}");
}

/// SG-41, SG-44, SG-45, SG-46, SG-E5: an ITask of 2 ms in 30 ms, above both tasks and between them, with an activation that lasts as long as its
/// budget: no interrupt waits longer than the blackout, and the tasks respond within their bounds.
#[test]
fn an_interrupt_task_bounds_waits_by_its_blackout() {
    for (priority, blackout, bounds) in [(ABOVE, 28.0, [14.1, 142.5]), (BETWEEN, 38.0, [10.15, 142.5])] {
        let arrivals = Arrivals { samples: 300, spacing: 11 * MS, dither: 5 * MS, ..Arrivals::default() };
        let seen = run(&[itask(priority, false), BACKGROUND], &URGENT, TASKS, &Noting::Arrivals(arrivals));
        assert!(seen.most_ms() <= blackout && seen.most_ms() > 27.0 && seen.mean_ms() < 7.0, "{seen:?}");
        let [(first, 0), (second, 0)] = seen.responses()[..] else { panic!("{seen:?}") };
        assert!(first <= bounds[0] && second <= bounds[1], "{seen:?}");
    }
}

/// SG-45: with voluntary return an interrupt waits for nobody: the budget serves many of them. From its date to its vector are at most 800
/// instructions while a task of the payload runs; a tick of the kernel and the release of a task may come between.
#[test]
fn with_voluntary_return_interrupts_wait_for_nobody() {
    let arrivals = Arrivals { samples: 300, spacing: 11 * MS, dither: 5 * MS, yields: true, ..Arrivals::default() };
    let seen = run(&[itask(ABOVE, true), BACKGROUND], &URGENT, TASKS, &Noting::Arrivals(arrivals));
    let waits: Vec<u64> = seen.records.iter().map(|record| record.wait()).collect();
    let typical = waits.iter().filter(|wait| (700..=800).contains(*wait)).count();
    let longer = waits.iter().filter(|wait| **wait > 800).count();
    assert!(typical > 100 && longer < 10 && waits.iter().all(|wait| *wait < 2_300), "{waits:?}");
    let [(first, 0), (second, 0)] = seen.responses()[..] else { panic!("{seen:?}") };
    assert!(first < 10.3 && second < 131.0, "{seen:?}");
}

/// SG-86: servers are switched off and on while the payload runs: between, an interrupt waits for the payload's tasks, as without them.
#[test]
fn servers_are_switched_off_and_on() {
    let arrivals = Arrivals { samples: 200, spacing: 9 * MS, dither: 4 * MS, yields: true, ..Arrivals::default() };
    let arguments = format!("{TASKS} off=700/1300");
    let seen = run(&[itask(ABOVE, true), BACKGROUND], &URGENT, &arguments, &Noting::Arrivals(arrivals));
    let instant = |ms: u64| seen.origin + ms * MS;
    let most = |from: u64, to: u64| {
        let within = seen.records.iter().filter(|record| (instant(from)..instant(to)).contains(&record.due));
        within.map(|record| record.wait_ms()).fold(0.0, f64::max)
    };
    // Tasks run from 900 to 1030 ms and from 1200 to 1330, of which the servers are off until 1300.
    assert!(most(0, 699) < 0.1 && most(1301, 3000) < 0.1, "{seen:?}");
    assert!((100.0..=130.0).contains(&most(701, 1200)) && most(1200, 1300) > 80.0, "{seen:?}");
    assert!(seen.records.last().is_some_and(|last| last.due > instant(1800)), "{seen:?}");
}

/// SG-80, SG-81, SG-82, SG-83, SG-84, SG-85, SG-E7: the published set of latency tasks. A thread of 99 waits for T1 alone, 10 ms; that of 90 in LTASK1
/// for T1 and T2, 40 ms; that of 30 for all three and the next job of T1, 130 ms. Just after the release of all three is the worst instant.
#[test]
fn latency_tasks_bound_the_waits_of_threads() {
    const TASKS: &str = "tasks=100/10/12,200/30/8,200/80/6";
    let latency = |priority, budget_ms, period_ms| server(ServerKind::Latency, priority, budget_ms, period_ms);
    let servers = [latency(9, 15, 150), latency(7, 25, 300), BACKGROUND];
    let idle = Noting::Arrivals(Arrivals { samples: 1, spacing: MS, ..Arrivals::default() });
    let origin = run(&[BACKGROUND], &[], TASKS, &idle).origin;
    let classes = [(99, 10.0), (90, 40.0), (30, 130.0)];
    let dates = (0..12).flat_map(|round| {
        // Every second time right behind the release, else somewhere.
        let offset = if round % 2 == 0 { MS / 20 } else { (13 * round) * MS };
        classes.map(|(priority, _)| (priority, offset))
    });
    let dates: Vec<(u64, u32)> =
        (5..).zip(dates).map(|(number, (priority, offset))| (origin + number * 200 * MS + offset, priority)).collect();
    let seen = run(&servers, &URGENT, TASKS, &Noting::Threads(dates.clone()));
    assert_eq!(seen.origin, origin, "the payload begins as before");
    for (priority, bound) in classes {
        let waits: Vec<f64> = dates
            .iter()
            .zip(&seen.records)
            .filter(|((_, of), _)| *of == priority)
            .map(|(_, one)| one.wait_ms())
            .collect();
        let most = waits.iter().copied().fold(0.0, f64::max);
        assert!(most <= bound + 0.1 && most >= 0.97 * bound, "{priority}: {waits:?}");
    }
    assert!(seen.tasks.iter().all(|task| task.missed == 0), "{seen:?}");
}

/// SG-81, SG-82: a world that writes into the page of its wish without end, priorities and anything else, chooses among its latency tasks and no more:
/// the payload's tasks respond within what both can take by their budgets, each hit twice. The word is another one whenever a task takes the
/// core, so each absence of the world costs one handler more.
#[test]
fn a_storm_of_wishes_has_the_budgets_of_latency_tasks() {
    const TASKS: &str = "tasks=100/10/12,200/30/8,200/40/6";
    let latency = |priority, budget_ms, period_ms| server(ServerKind::Latency, priority, budget_ms, period_ms);
    let servers = [latency(9, 15, 150), latency(7, 25, 300), BACKGROUND];
    let priorities = [PriorityPlan { from: 95, to: 99 }, PriorityPlan { from: 88, to: 94 }];
    let responses = |noting| {
        let seen = run_wishing(&servers, &priorities, TASKS, &noting);
        assert!(seen.tasks.iter().all(|task| task.jobs > 10 && task.missed == 0), "{seen:?}");
        println!("{:?}", seen.responses());
        seen.responses().iter().map(|(most, _)| *most).collect::<Vec<f64>>()
    };
    let (quiet, storm) = (responses(Noting::Absences(100)), responses(Noting::Wishes(100)));
    // Ticks of the kernel, switches and handlers behind each: they are in the computing time of the tasks.
    let bounds = [10.0, 30.0 + 10.0 + 2.0 * 15.0, 40.0 + 30.0 + 2.0 * 10.0 + 3.0 * 15.0 + 2.0 * 25.0];
    assert!(storm.iter().zip(bounds).all(|(most, bound)| *most <= bound + 0.2), "{storm:?}");
    assert!(storm[0] < quiet[0] + 0.05, "{quiet:?} {storm:?}");
    assert!(storm[1] > quiet[1] + 1.0, "the world has what it wants: {quiet:?} {storm:?}");
}
