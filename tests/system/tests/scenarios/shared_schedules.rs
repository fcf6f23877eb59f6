//! Shared cores: time tables, turns and the published interrupt policies; and cores that are not shared beside one that is.

use bulkhead_abi::observe::{COUNTER_NAMES, Counter};
use bulkhead_run::End;
use bulkhead_system_tests::System;
use bulkhead_system_tests::sharing::{Description, EXCHANGE, Supply, TICKS_PER_MILLISECOND as MS, field, finish};

const BLUR: u64 = Supply::BLUR;
/// Quantum of the rings here.
const QUANTUM: u64 = 3 * MS;

fn hog(until_ms: u64) -> String {
    format!("role=hog start_us=30000 end_us={}", until_ms * 1000)
}

/// SG-50, ARINC-02: windows open and close on the grid of the major frame: after 80 frames nothing has drifted, nobody runs
/// outside its windows, and what is nobody's window stays idle.
#[test]
fn windows_stay_on_the_grid() {
    const MAJOR: u64 = 10 * MS;
    /// Partition, offset and length of its windows in a frame.
    const WINDOWS: [(&str, u64, u64); 4] = [("one", 0, 3), ("two", 3, 2), ("one", 6, 1), ("three", 8, 2)];
    let windows = WINDOWS.map(|(name, offset, length)| {
        format!("{{ partition = \"{name}\", offset = \"{offset} ms\", length = \"{length} ms\" }}")
    });
    let schedule = format!("kind = \"cyclic\"\nmajor_frame = \"10 ms\"\nwindows = [ {} ]", windows.join(", "));
    let mut description = Description::new("shared-schedules").schedule(0, &schedule);
    for (partition, priority) in [("one", 1), ("two", 1), ("three", 2)] {
        let server = format!("servers = [ {{ priority = {priority} }} ]");
        description = description.guest(partition, 0, "experiment", &hog(1000), &server);
    }
    let running = finish(&description.build());
    let supplies = ["one", "two", "three"].map(|partition| (partition, Supply::of(&running, partition)));
    // The frame's start, as a log says it that is blurred itself.
    let second_window = supplies[1].1.runs[2].0;
    let origin = (second_window - 3 * MS) % MAJOR;
    for (partition, supply) in &supplies {
        let own: Vec<_> = WINDOWS.iter().filter(|window| window.0 == *partition).collect();
        let runs = &supply.runs[2..supply.runs.len() - 2];
        assert!(runs.len() > 80, "{partition} ran {} times", runs.len());
        let mut least = u64::MAX;
        for (start, end) in runs {
            // Half a frame of slack, so that a start just before the grid is not one at the end of the frame before.
            let place = (start + MAJOR + MAJOR / 20 - origin) % MAJOR;
            let fits = own.iter().find(|(_, offset, length)| {
                let offset = offset * MS + MAJOR / 20;
                place + 2 * BLUR >= offset && place + (end - start) <= offset + length * MS + EXCHANGE + 2 * BLUR
            });
            let window = fits.unwrap_or_else(|| panic!("{partition} ran from {place} for {} of {MAJOR}", end - start));
            least = least.min((end - start) * 1000 / (window.2 * MS));
        }
        assert!(least >= 950, "{partition} got {least} thousandths of a window");
    }
    let used: u64 = supplies.iter().map(|(_, supply)| supply.within(200 * MS, 900 * MS)).sum();
    assert!(used <= 70 * 8 * MS + 4 * BLUR, "{used} ticks used of the 560 ms that are somebody's");
    assert!(used >= 70 * 8 * MS * 97 / 100, "{used} ticks used of 560 ms");
}

/// Turns of computing guests have the quantum's length, and nothing is lost in between.
#[test]
fn turns_have_the_length_of_a_quantum() {
    let mut description =
        Description::new("shared-schedules").schedule(0, "kind = \"round-robin\"\nquantum = \"3 ms\"");
    for partition in ["one", "two", "three"] {
        description = description.guest(partition, 0, "experiment", &hog(600), "");
    }
    let running = finish(&description.build());
    for partition in ["one", "two", "three"] {
        let supply = Supply::of(&running, partition);
        let runs = &supply.runs[4..supply.runs.len() - 4];
        for run in runs {
            let length = run.1 - run.0;
            assert!((QUANTUM - EXCHANGE - BLUR..=QUANTUM + BLUR).contains(&length), "{partition} ran for {length}");
        }
        for pair in runs.windows(2) {
            let away = pair[1].0 - pair[0].1;
            assert!(
                (2 * QUANTUM - BLUR..=2 * QUANTUM + 2 * EXCHANGE + BLUR).contains(&away),
                "{partition} away for {away}"
            );
        }
    }
}

/// SP-11, SP-12: quanta of equal priorities under fixed priorities: equals take turns, a less important one gets nothing.
#[test]
fn equals_take_turns_and_the_less_important_wait() {
    let schedule = "kind = \"fixed-priority\"\nquanta = [ { priority = 5, quantum = \"2 ms\" } ]";
    let mut description = Description::unjudged("shared-schedules").schedule(0, schedule);
    for (partition, priority) in [("one", 5), ("two", 5), ("below", 6)] {
        let server = format!("servers = [ {{ priority = {priority} }} ]");
        description = description.guest(partition, 0, "experiment", &hog(400), &server);
    }
    let running = finish(&description.build());
    let [one, two] = ["one", "two"].map(|partition| Supply::of(&running, partition));
    let (from, to) = (100 * MS, 390 * MS);
    let [share, other] = [one, two].map(|supply| supply.within(from, to));
    assert!(share.abs_diff(other) <= 2 * MS + 2 * BLUR, "{share} and {other} ticks");
    assert!(share + other >= (to - from) * 97 / 100);
    // It has not begun when the others end.
    assert_eq!(field(&running.printed("below", "hog "), "ran"), 0);
}

/// Who computes when an interrupt comes for the guest that is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Runner {
    Owner,
    Preemptible,
    NonPreemptible,
}

/// Runs three guests in turns of 3 ms (owner, pre-emptible one, other one) and returns for each of the owner's timers who
/// ran at its date, how long it took to the handler, and how long that runner's run lasted.
fn rule_table(on_interrupt: &str, route: &str) -> Vec<(Runner, u64, u64)> {
    let schedule = format!("kind = \"round-robin\"\nquantum = \"3 ms\"\non_interrupt = \"{on_interrupt}\"");
    let wire = "role=wire requests=150 spacing_us=7900 dither_us=3000 background=compute start_us=150000";
    let description = Description::new("shared-schedules").schedule(0, &schedule);
    let description = description.guest("owner", 0, "experiment", wire, &format!("route = \"{route}\""));
    let description = description.guest("yes", 0, "experiment", &hog(1400), "");
    let running = finish(&description.guest("no", 0, "experiment", &hog(1400), "preemptible = false").build());
    let [yes, no] = ["yes", "no"].map(|partition| Supply::of(&running, partition));
    // A turn that an interrupt ended is over at that date, so a place in the turn is counted from its start.
    let left = |supply: &Supply, date: u64| {
        let inside =
            |run: &&(u64, u64)| run.0 + BLUR < date && date < run.1 + BLUR && date + 2 * BLUR < run.0 + QUANTUM;
        supply.runs.iter().find(inside).map(|run| run.1.saturating_sub(date))
    };
    let near =
        |supply: &Supply, date: u64| supply.runs.iter().any(|run| run.0 < date + 2 * BLUR && date < run.1 + 2 * BLUR);
    let seen = running.records("owner").into_iter().filter(|record| record[0] < 1380 * MS).filter_map(|record| {
        let (date, delay) = (record[0], record[1] - record[0]);
        match (left(&yes, date), left(&no, date)) {
            (Some(left), _) => Some((Runner::Preemptible, delay, left)),
            (_, Some(left)) => Some((Runner::NonPreemptible, delay, left)),
            _ if near(&yes, date) || near(&no, date) => None,
            _ => Some((Runner::Owner, delay, 0)),
        }
    });
    seen.collect()
}

/// MZ-E5, MZ-10, MZ-12, MZ-14, MZ-15, MZ-20: the rule table: what an interrupt does in each state of its owner, by policy
/// and route.
#[test]
fn an_interrupt_acts_as_the_rule_table_says() {
    for (on_interrupt, route) in
        [("none", "priority"), ("recycle", "preempt"), ("reset", "preempt"), ("recycle", "defer"), ("reset", "defer")]
    {
        let seen = rule_table(on_interrupt, route);
        for runner in [Runner::Owner, Runner::Preemptible, Runner::NonPreemptible] {
            let cases: Vec<_> = seen.iter().filter(|case| case.0 == runner).collect();
            assert!(cases.len() >= 10, "{on_interrupt}, {route}: {} cases while {runner:?} ran", cases.len());
            for (_, delay, left) in cases {
                let (least, most) = match (runner, on_interrupt, route) {
                    // Its own: at once.
                    (Runner::Owner, ..) => (0, EXCHANGE),
                    // A root interrupt and a runner that may be pre-empted: at once.
                    (Runner::Preemptible, "recycle" | "reset", "preempt") => (0, EXCHANGE),
                    // It waits for its turn: the rest of this one, and the whole of the other's.
                    (Runner::Preemptible, ..) => {
                        (left + QUANTUM - EXCHANGE - 2 * BLUR, left + QUANTUM + 2 * EXCHANGE + BLUR)
                    }
                    // The runner may not be pre-empted: the rest of its turn, then the owner's own turn comes.
                    (Runner::NonPreemptible, ..) => (left.saturating_sub(BLUR), left + 2 * EXCHANGE + BLUR),
                };
                let text = format!("{on_interrupt}, {route}, {runner:?} ran, {left} left of its run");
                assert!((least..=most).contains(delay), "{text}: {delay} ticks, expected {least} to {most}");
            }
        }
    }
}

/// MZ-21, MZ-22, MZ-25: `recycle` leaves all turns where they are; `reset` gives the owner a whole quantum more.
#[test]
fn recycle_moves_no_turn_and_reset_does() {
    let cycles = |on_interrupt: &str| {
        let schedule = format!("kind = \"round-robin\"\nquantum = \"3 ms\"\non_interrupt = \"{on_interrupt}\"");
        let wire = "role=wire requests=60 spacing_us=17000 dither_us=4000 background=compute start_us=150000";
        let description = Description::new("shared-schedules").schedule(0, &schedule);
        let description = description.guest("owner", 0, "experiment", wire, "route = \"preempt\"");
        let description = description.guest("one", 0, "experiment", &hog(1000), "");
        let running = finish(&description.guest("two", 0, "experiment", &hog(1000), "").build());
        let supply = Supply::of(&running, "one");
        let starts = supply.runs.iter().map(|run| run.0).filter(|start| (200 * MS..900 * MS).contains(start));
        let starts: Vec<u64> = starts.collect();
        assert!(starts.len() > 60, "{} turns", starts.len());
        starts.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<u64>>()
    };
    // Ending a turn takes time, which moves the turns behind it.
    let usual = |rounds: u64| rounds * 3 * QUANTUM - BLUR..=rounds * 3 * (QUANTUM + EXCHANGE) + BLUR;
    for cycle in cycles("recycle") {
        // An interrupt at the very end of the owner's turn takes all of the next one, of which no run is seen then.
        let stays = usual(1).contains(&cycle) || usual(2).contains(&cycle);
        assert!(stays, "{cycle} ticks from turn to turn with recycle");
    }
    let moved = cycles("reset").into_iter().filter(|cycle| !usual(1).contains(cycle)).count();
    assert!(moved >= 20, "{moved} cycles were longer with reset");
}

fn counters(system: &System, partition: &str) -> Vec<u64> {
    let mut running = system.start_exact(0);
    running.line("beside", "experiment done");
    assert_eq!(running.end(), End::AllEnded);
    running.assert_no_crash();
    let page = running.watch().vcpu_counter_page(running.index(partition), 0);
    page.values.to_vec()
}

/// QV-5, MZ-4, MZ-19: a core that one vCPU owns has no exit more beside a shared core: none in `direct` mode, one per interrupt in
/// `mapped` mode.
#[test]
fn a_dedicated_core_beside_a_shared_one_keeps_its_exits() {
    let system = |periods: u64, mode: &str| {
        let quantum = "kind = \"round-robin\"\nquantum = \"500 us\"";
        let description = Description::new("shared-schedules").schedule(1, quantum);
        let rest = format!("trust = \"trusted\"\ninterrupts = \"{mode}\"");
        let arguments = format!("period_us=10000 periods={periods} report=1000000");
        let description = description.guest("control", 0, "control", &arguments, &rest);
        let description =
            description.guest("beside", 1, "experiment", "role=hog start_us=1000 end_us=300000 log=0", "");
        description.guest("waits", 1, "wakeups", "role=own count=100", "").build()
    };
    for mode in ["direct", "mapped"] {
        let (short, long) = (counters(&system(10, mode), "control"), counters(&system(40, mode), "control"));
        let difference = |counter: Counter| long[counter as usize] - short[counter as usize];
        for (counter, name) in COUNTER_NAMES {
            if !matches!(counter, Counter::Exits | Counter::Interrupt) {
                assert_eq!(difference(*counter), 0, "{name} of 30 periods more, {mode}");
            }
        }
        // A period that has passed before the guest waits for it needs no interrupt.
        let interrupts = difference(Counter::Interrupt);
        assert_eq!(difference(Counter::Exits), interrupts, "exits of 30 periods more, {mode}");
        assert_eq!(interrupts != 0, mode == "mapped", "{interrupts} interrupts came to EL2, {mode}");
        assert!(interrupts <= 30, "{interrupts} interrupts");
    }
}
