//! The other world's own timer without the payload, below one that is idle, and below one that is busy: it grows by the time that the payload has
//! the core, and by nothing else.

use bulkhead_system_tests::servers::{Arrivals, MS, TASKS};
use bulkhead_system_tests::timers::{Instant, TICK_NS, WAYS_NS, alone, beside, interrupts_alone, interrupts_beside};

fn sorted(of: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut values: Vec<u64> = of.collect();
    values.sort_unstable();
    values
}

/// Least, middle and most of what is not the payload's time.
fn rest(name: &str, instants: &[Instant]) -> [u64; 3] {
    let [rest, payload] = [Instant::rest_ns, |one: &Instant| one.payload_ns].map(|of| sorted(instants.iter().map(of)));
    let of = |values: &[u64]| [values[0], values[values.len() / 2], values[values.len() - 1]];
    println!("{name}: {:?} ns beside the payload's {:?}", of(&rest), of(&payload));
    of(&rest)
}

/// SG-34, SG-E4: a world of a few instructions takes its timer's interrupt two instructions after its date, whenever it has the core, and
/// otherwise after the payload's time and the ways between the worlds.
#[test]
fn an_own_timer_waits_for_the_payload_alone() {
    let arrivals = Arrivals { samples: 400, spacing: 13 * MS, dither: 6 * MS, closed: true, ..Arrivals::default() };
    let own = 2 * TICK_NS;
    assert_eq!(rest("alone", &interrupts_alone(arrivals)), [own; 3]);
    for (tasks, waiting) in [("", 0..20), (TASKS, 50..400)] {
        let instants = interrupts_beside(tasks, arrivals);
        let [least, middle, _] = rest(tasks, &instants);
        assert_eq!([least, middle], [own; 2], "it has the core most of the time");
        let over = |one: &&Instant| one.rest_ns() > own + (one.absences + one.ticks) * WAYS_NS;
        assert_eq!(instants.iter().find(over), None);
        let waited = instants.iter().filter(|one| one.payload_ns > 0).count();
        assert!(waiting.contains(&waited), "{waited}");
    }
}

/// SG-34, SG-E4: a program of stock Linux that sleeps to instants far apart. What it waits beside the payload's time is what it waits without a
/// payload: in the middle the same, and at most twice as long, where Linux itself has something to do first that was due in an absence. That
/// nothing else is in it says the test above.
#[test]
fn the_timer_of_linux_grows_by_the_payloads_time() {
    const INSTANTS: u64 = 60;
    let [_, middle, most] = rest("alone", &alone(INSTANTS));
    for tasks in ["", TASKS] {
        let instants = beside(tasks, INSTANTS);
        let undisturbed: Vec<Instant> = instants.iter().copied().filter(|one| one.absences + one.ticks == 0).collect();
        let [_, found, _] = rest("as if alone", &undisturbed);
        assert!(found.abs_diff(middle) * 100 <= middle, "{found}, alone {middle}");
        let _ = rest(tasks, &instants);
        for one in &instants {
            let bound = 2 * most + (one.absences + one.ticks) * WAYS_NS;
            assert!(one.rest_ns() <= bound, "{one:?}: {bound}");
        }
        let longest = instants.iter().map(|one| one.payload_ns).max();
        let busy_ns = if tasks.is_empty() { 0..100_000 } else { 100_000_000..130_000_000 };
        assert!(longest.is_some_and(|longest| busy_ns.contains(&longest)), "{longest:?}");
    }
}
