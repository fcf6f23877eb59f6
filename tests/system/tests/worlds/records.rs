//! Records of who runs: both worlds on one time line, beside what the world itself noted and what the payload's tasks counted.

use bulkhead_system_tests::servers::{ABOVE, Arrivals, BACKGROUND, MS, Noting, Seen, TASKS, URGENT, itask, recorded};
use bulkhead_trace::{EventKind, Run, Timeline};

/// Nanoseconds in a tick of the counter, and in a millisecond.
const TICK_NS: u64 = 16;
const MS_NS: u64 = 1_000_000;

fn traced(arguments: &str, records: u64) -> (Seen, Timeline) {
    let arrivals = Arrivals { samples: 120, spacing: 11 * MS, dither: 5 * MS, ..Arrivals::default() };
    let servers = [itask(ABOVE, false), BACKGROUND];
    let (seen, timeline) = recorded(&servers, &URGENT, arguments, &Noting::Arrivals(arrivals), records);
    (seen, timeline.expect("a payload that keeps records"))
}

/// How long the runs of a server, or of all of a slot, are within an interval.
fn within(runs: &[Run], is_meant: impl Fn(&Run) -> bool, from_ns: u64, to_ns: u64) -> u64 {
    let part = |run: &Run| run.to_ns.min(to_ns).saturating_sub(run.from_ns.max(from_ns));
    runs.iter().filter(|run| is_meant(run)).map(part).sum()
}

/// SG-33, SG-41, SG-42, SG-43, SG-87: what the records say is what both worlds saw: the world runs whenever it noted something, the ITask has its budget in
/// each of its periods at most, and T1 its 10 ms in each of its own.
#[test]
fn both_worlds_are_on_one_time_line() {
    let (seen, timeline) = traced(TASKS, 2048);
    assert!(timeline.is_complete(), "{:?} {:?}", timeline.lost, timeline.warnings);
    let server = |name: &str| {
        let place = timeline.layout.cores[0].servers.iter().position(|server| server.name == name);
        place.unwrap_or_else(|| panic!("{name}: {:?}", timeline.layout))
    };
    let runs = timeline.runs(0);
    let (urgent, rest) = (server("linux.itask"), server("linux.btask"));
    for record in &seen.records {
        let at = record.entered * TICK_NS;
        let who = runs.iter().find(|run| (run.from_ns..run.to_ns).contains(&at));
        assert!(who.is_some_and(|run| run.slot == 1 && run.server.is_some()), "at {at}: {who:?}");
    }
    let origin_ns = seen.origin * TICK_NS;
    let periods = |length_ms: u64| {
        let end = timeline.to_ns;
        (0..)
            .map(move |number| origin_ns + number * length_ms * MS_NS)
            .take_while(move |from| from + length_ms * MS_NS < end)
    };
    let given: Vec<u64> =
        periods(30).map(|from| within(&runs, |run| run.server == Some(urgent), from, from + 30 * MS_NS)).collect();
    // A budget ends with the interrupt of the timer and a switch, which no account pays.
    assert!(
        given.iter().all(|ns| *ns <= 2 * MS_NS + 50_000) && given.iter().any(|ns| *ns >= 2 * MS_NS - 50_000),
        "{given:?}"
    );
    let (first, _) = (timeline.layout.cores[0].servers.iter().enumerate())
        .filter(|(_, one)| one.name.starts_with("payload."))
        .map(|(place, _)| (place, within(&runs, |run| run.server == Some(place), 0, timeline.to_ns)))
        .find(|(_, all_ns)| (17..=23).contains(&(all_ns * 100 / timeline.to_ns)))
        .expect("a task with a fifth of the core");
    // The tick interrupts it, and what it costs is the task's in the records.
    for from in periods(50) {
        let ns = within(&runs, |run| run.server == Some(first), from, from + 50 * MS_NS);
        assert!((9_900_000..=10_200_000).contains(&ns), "{ns} from {from}");
    }
    assert!(runs.iter().filter(|run| run.server == Some(rest)).all(|run| run.background));
    let count = |is_meant: fn(&EventKind) -> bool| timeline.events.iter().filter(|event| is_meant(&event.kind)).count();
    assert!(count(|kind| matches!(kind, EventKind::Exhausted { server: 0 })) > 10);
    assert!(count(|kind| matches!(kind, EventKind::Replenished { server: 0, .. })) > 10);
}

/// A ring that is too small loses records and says how many; what was seen of the world does not depend on it.
#[test]
fn a_small_ring_says_what_it_lost() {
    // The second task keeps the one that writes records from the core for 160 ms, while the first one begins each 2 ms.
    let (seen, timeline) = traced("tasks=2/1/8,300/80/4", 128);
    assert!(timeline.lost[0] > 0 && !timeline.is_complete(), "{:?}", timeline.lost);
    assert!(seen.records.iter().all(|record| record.entered > record.due), "{seen:?}");
}
