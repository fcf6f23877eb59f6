//! Scenarios with known answers, the forms of the output, and what is refused.
//!
//! `BULKHEAD_BLESS=1` writes the expected texts of the refused ones again.

use bulkhead_description::Options;
use bulkhead_description::scenario::{LoadedScenario, load_scenario, load_scenario_text};
use bulkhead_simulate::event::{Event, EventKind, Nowhere};
use bulkhead_simulate::json::JsonWriter;
use bulkhead_simulate::text::TextSink;
use bulkhead_simulate::timeline::TimelineSink;
use bulkhead_simulate::{Limits, Simulation};
use bulkhead_timing::Assumptions;
use std::path::{Path, PathBuf};

const MILLISECOND_NS: u64 = 1_000_000;

fn example(name: &str, until_ns: u64, events: u64) -> Simulation {
    let path = PathBuf::from(format!("../../docs/scenarios/{name}.toml"));
    let scenario = load_scenario(&path, &Options::default(), &Assumptions::default())
        .unwrap_or_else(|report| panic!("{}", report.to_text(false)));
    let scenario = scenario.into_cores().expect("shared cores");
    Simulation::new(scenario, Limits { until_ns, events }).expect("it can be planned")
}

fn events(name: &str, until_ns: u64) -> (Simulation, Vec<Event>) {
    let mut simulation = example(name, until_ns, u64::MAX);
    let mut events = Vec::new();
    simulation.run(&mut events).expect("a list takes everything");
    (simulation, events)
}

/// Runs of a vCPU as (start, end, background), in whole milliseconds.
fn runs(events: &[Event], slot: usize, end_ns: u64) -> Vec<(u64, u64, bool)> {
    let mut since = None;
    let mut runs = Vec::new();
    for event in events.iter().filter(|event| event.slot == slot) {
        match event.kind {
            EventKind::Start { background } => since = Some((event.time_ns, background)),
            EventKind::Stop => {
                let (from, background) = since.take().expect("it ran");
                runs.push((from / MILLISECOND_NS, event.time_ns / MILLISECOND_NS, background));
            }
            _ => {}
        }
    }
    assert!(since.is_none(), "nobody runs after {end_ns}");
    runs
}

#[test]
fn servers_of_three_kinds_share_a_core_as_the_rules_say() {
    let (_, events) = events("quest-figure-4", 150 * MILLISECOND_NS);
    assert_eq!(runs(&events, 1, 150), [(30, 32, false), (75, 76, false)], "4 % of the core, in grants of 2 ms");
    let first: Vec<_> = runs(&events, 0, 150).into_iter().filter(|run| !run.2).collect();
    assert_eq!(first, [(1, 11, false), (41, 51, false), (81, 91, false), (121, 131, false)]);
    let second: Vec<_> = runs(&events, 2, 150).into_iter().filter(|run| !run.2).collect();
    assert_eq!(second[..3], [(0, 1, false), (11, 30, false), (51, 71, false)]);
}

/// MZ-26, UNI-02: in every period the peer of a storming guest gets what it has reserved.
#[test]
fn uni_02_a_storm_takes_its_own_budget_and_no_more() {
    let (simulation, events) = events("storm", 300 * MILLISECOND_NS);
    let peer = runs(&events, 1, 300);
    for frame in 0..10u64 {
        let inside = |run: &(u64, u64, bool)| run.1.min(frame * 30 + 30).saturating_sub(run.0.max(frame * 30));
        assert_eq!(peer.iter().map(inside).sum::<u64>(), 20, "frame {frame}");
    }
    let hz = simulation.system.board.counter_hz;
    assert_eq!(simulation.runs()[0].usage(0).budgeted_ticks * 1000 / hz, 20, "2 ms in every 30 ms");
    assert_eq!(simulation.runs()[0].idle_ticks(), 0);
}

/// Guests that always compute, the most important first, with a budget and a period in milliseconds each.
fn busy(guests: &[(&str, u64, u64)]) -> LoadedScenario {
    let mut text = String::from("[[schedule]]\ncore = 0\nkind = \"fixed-priority\"\n");
    for (priority, (name, budget, period)) in guests.iter().enumerate() {
        text += &format!(
            "[[partition]]\nname = \"{name}\"\ntrust = \"trusted\"\ncores = [0]\nservers = [{{ priority = {priority}, budget = \"{budget} ms\", period = \"{period} ms\" }}]\n\
             [[arrival]]\nvcpu = \"{name}\"\nbusy = true\n"
        );
    }
    let loaded = load_scenario_text(Path::new("overload.toml"), &text, &Options::default(), &Assumptions::default());
    let loaded = loaded.unwrap_or_else(|report| panic!("{}", report.to_text(false)));
    loaded.into_cores().expect("shared cores")
}

/// QV-39: of five guests with 135 % of the core the first three fit; their schedule is the same to the tick as without the others, with
/// the whole budget in every period, and the others do not have theirs. (A scenario with a schedule of its own is not judged.)
#[test]
fn the_most_important_that_fit_notice_no_overload() {
    const GUESTS: [(&str, u64, u64); 5] =
        [("first", 3, 10), ("second", 3, 15), ("third", 6, 30), ("fourth", 10, 40), ("fifth", 20, 50)];
    const FIT: usize = 3;
    const UNTIL_MS: u64 = 600;
    let until_ns = UNTIL_MS * MILLISECOND_NS;
    let simulated = |guests: &[(&str, u64, u64)]| {
        let limits = Limits { until_ns, events: u64::MAX };
        let mut events = Vec::new();
        Simulation::new(busy(guests), limits)
            .expect("it can be planned")
            .run(&mut events)
            .expect("a list takes everything");
        (0..guests.len()).map(|slot| runs(&events, slot, UNTIL_MS)).collect::<Vec<_>>()
    };
    let (alone, overloaded) = (simulated(&GUESTS[..FIT]), simulated(&GUESTS));
    assert_eq!(overloaded[..FIT], alone[..]);
    let had = |guest: usize, from: u64, to: u64| -> u64 {
        overloaded[guest].iter().map(|run| run.1.min(to).saturating_sub(run.0.max(from))).sum()
    };
    let kept = |guest: usize| {
        let (_, budget, period) = GUESTS[guest];
        (0..UNTIL_MS / period).all(|number| had(guest, number * period, (number + 1) * period) == budget)
    };
    assert_eq!([0, 1, 2, 3, 4].map(kept), [true, true, true, false, false]);
}

/// MZ-22, MZ-23, RR-03: with the ring moving and an interrupt every 31 ms the third guest never runs.
#[test]
fn rr_03_the_published_reset_starves_a_guest() {
    let (simulation, _) = events("round-robin", 3_000 * MILLISECOND_NS);
    let hz = simulation.system.board.counter_hz;
    let used = |slot| {
        let usage = simulation.runs()[0].usage(slot);
        (usage.budgeted_ticks + usage.background_ticks) * 1000 / hz
    };
    assert_eq!([used(0), used(1), used(2)], [2_904, 96, 0]);
}

/// SG-50: a scenario of a system description; its servers run in their windows alone.
#[test]
fn a_system_description_gives_the_cores() {
    let scenario = load_scenario(Path::new("tests/good/scenario.toml"), &Options::default(), &Assumptions::default());
    let scenario = scenario.unwrap_or_else(|report| panic!("{}", report.to_text(false)));
    let scenario = scenario.into_cores().expect("shared cores");
    assert_eq!((scenario.system.name.as_str(), scenario.until_ns), ("pair", Some(40 * MILLISECOND_NS)));
    let limits = Limits { until_ns: 40 * MILLISECOND_NS, events: u64::MAX };
    let mut simulation = Simulation::new(scenario, limits).expect("it can be planned");
    let mut events = Vec::new();
    simulation.run(&mut events).expect("a list takes everything");
    assert_eq!(runs(&events, 0, 40), [(0, 4, false), (20, 24, false)]);
    assert_eq!(runs(&events, 1, 40), [(10, 18, false), (30, 38, false)]);
}

#[test]
fn the_json_form_is_what_the_reference_says() {
    let mut simulation = example("rate", 20 * MILLISECOND_NS, u64::MAX);
    let mut bytes = Vec::new();
    let mut writer = JsonWriter::new(&mut bytes, &simulation).expect("a list takes everything");
    let counts = simulation.run(&mut writer).expect("a list takes everything");
    writer.finish(&simulation).expect("a list takes everything");
    let value: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
    let schema: serde_json::Value =
        serde_json::from_str(include_str!("../../../docs/book/src/reference/simulate.schema.json")).expect("JSON");
    let item = &schema["properties"]["events"]["items"]["anyOf"][0];
    let words: Vec<&str> = item["properties"]["event"]["enum"]
        .as_array()
        .expect("words")
        .iter()
        .filter_map(|word| word.as_str())
        .collect();
    let required: Vec<&str> =
        item["required"].as_array().expect("keys").iter().filter_map(|key| key.as_str()).collect();
    let events = value["events"].as_array().expect("a list");
    assert_eq!(events.len() as u64, counts.events);
    let mut last_ns = 0;
    let mut seen = std::collections::BTreeSet::new();
    for event in events {
        let object = event.as_object().expect("an object");
        assert_eq!(object.len(), required.len(), "{event}");
        assert!(required.iter().all(|key| object.contains_key(*key)), "{event}");
        let time_ns = event["t_ns"].as_u64().expect("a time");
        assert!(time_ns >= last_ns, "in order of time: {event}");
        last_ns = time_ns;
        assert!(event["core"].as_u64().is_some_and(|core| core < 2), "{event}");
        assert!(event["vcpu"].as_str().is_some_and(|name| name.contains('.')), "{event}");
        assert!(event["server"].is_null() || event["server"].is_u64(), "{event}");
        let word = event["event"].as_str().expect("a word");
        assert!(words.contains(&word), "{event}");
        seen.insert(word.to_owned());
    }
    assert_eq!(seen.len(), words.len(), "every kind of event happens: {seen:?}");
}

#[test]
fn starts_and_stops_alternate_and_jobs_are_done_after_they_came() {
    let (simulation, events) = events("rate", 500 * MILLISECOND_NS);
    for (core, use_of_core) in simulation.cores.iter().enumerate() {
        let mut running = None;
        let mut open = vec![0i64; use_of_core.vcpus.len()];
        for event in events.iter().filter(|event| event.core == core) {
            match event.kind {
                EventKind::Start { .. } => assert_eq!(running.replace(event.slot), None, "{event:?}"),
                EventKind::Stop => assert_eq!(running.take(), Some(event.slot), "{event:?}"),
                EventKind::Arrive | EventKind::Interrupt => open[event.slot] += 1,
                EventKind::Complete { .. } => {
                    open[event.slot] -= 1;
                    assert!(open[event.slot] >= 0, "{event:?}");
                    assert_eq!(running, Some(event.slot), "who finishes runs: {event:?}");
                }
                EventKind::Exhaust | EventKind::Replenish => assert!(event.server.is_some(), "{event:?}"),
                EventKind::Admit | EventKind::Refuse | EventKind::End => panic!("no instance: {event:?}"),
            }
        }
    }
}

#[test]
fn the_trace_for_perfetto_reads_back() {
    let until_ns = 300 * MILLISECOND_NS;
    let mut simulation = example("storm", until_ns, u64::MAX);
    let mut sink = TimelineSink::new(&simulation);
    simulation.run(&mut sink).expect("few events");
    let timeline = sink.finish(until_ns);
    let bytes = bulkhead_trace::perfetto::write(&timeline);
    let back = bulkhead_trace::perfetto::read(&bytes).expect("it was just written");
    assert_eq!(back.events, timeline.events);
    let peer_ns: u64 = back.runs(0).iter().filter(|run| run.slot == 1).map(|run| run.to_ns - run.from_ns).sum();
    assert_eq!(peer_ns, 200 * MILLISECOND_NS);
}

#[test]
fn the_text_shows_who_ran() {
    let until_ns = 300 * MILLISECOND_NS;
    let mut simulation = example("storm", until_ns, u64::MAX);
    let mut sink = TextSink::new(&simulation, until_ns);
    let counts = simulation.run(&mut sink).expect("text takes everything");
    let text = sink.text(&simulation, counts);
    let row: Vec<&str> = text
        .lines()
        .find(|line| line.starts_with("  peer.0  ") && !line.contains('|'))
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    assert!(row.starts_with(&["peer.0", "1", "0", "-", "200000000"]), "{text}");
    // The pictures have a column for each step of time and are wider.
    let wide = text.lines().find(|line| !line.contains('|') && line.chars().count() > 80);
    assert_eq!(wide, None, "tables fit a terminal");
    assert!(text.lines().any(|line| line.trim_start().starts_with("peer.0     |+######+")), "{text}");
}

/// Time that this thread computed, whatever else runs on the host.
fn computed_s() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux counts a thread's time");
    let nanoseconds: u64 = text.split(' ').next().and_then(|word| word.parse().ok()).expect("a number of nanoseconds");
    nanoseconds as f64 / 1e9
}

/// 10 million events in 10 s, scaled down and with room for a slow machine that does not optimise. `--rate` prints the real rate.
#[test]
fn a_million_events_take_seconds_at_most() {
    let start_s = computed_s();
    let mut simulation = example("rate", u64::MAX / 4, 1_000_000);
    let counts = simulation.run(&mut Nowhere).expect("nowhere takes everything");
    let seconds = computed_s() - start_s;
    println!("{} events in {seconds:.2} s", counts.events);
    assert_eq!(counts.events, 1_000_000);
    assert!(counts.cut_ns.is_some_and(|cut_ns| cut_ns > 10 * 1_000 * MILLISECOND_NS), "{counts:?}");
    assert!(seconds < 20.0, "{seconds} s");
}

#[test]
fn a_seed_means_the_same_scenario_everywhere() {
    let (_, first) = events("rate", 50 * MILLISECOND_NS);
    let (_, second) = events("rate", 50 * MILLISECOND_NS);
    assert_eq!(first, second);
    let interrupts: Vec<u64> =
        first.iter().filter(|event| event.kind == EventKind::Interrupt).map(|event| event.time_ns).take(4).collect();
    assert_eq!(interrupts, [0, 875_200, 1_782_512, 2_758_208], "the generator is part of the format");
}

/// Bad input: file, line and caret; wrong units are refused with a suggestion.
#[test]
fn refused_scenarios_are_explained() {
    let mut paths: Vec<PathBuf> = std::fs::read_dir("tests/bad")
        .expect("fixtures")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "toml"))
        .collect();
    paths.sort();
    assert!(paths.len() >= 7);
    for path in paths {
        let report = load_scenario(&path, &Options::default(), &Assumptions::default())
            .err()
            .unwrap_or_else(|| panic!("{} is accepted", path.display()));
        let text = report.to_text(false);
        let expected = path.with_extension("txt");
        if std::env::var_os("BULKHEAD_BLESS").is_some() {
            std::fs::write(&expected, &text).expect("the expected text can be written");
        }
        let known = std::fs::read_to_string(&expected).unwrap_or_default();
        assert_eq!(text, known, "{}", path.display());
    }
}

#[test]
fn a_missing_scenario_is_a_matter_of_the_environment() {
    let report = load_scenario(Path::new("tests/no-such.toml"), &Options::default(), &Assumptions::default())
        .expect_err("it is not there");
    assert!(report.has_environment_errors());
    assert!(report.to_text(false).contains("scenario tests/no-such.toml cannot be read: there is no such file"));
    let text = "system = \"no-such.toml\"\n";
    let report = load_scenario_text(Path::new("x.toml"), text, &Options::default(), &Assumptions::default())
        .expect_err("no system");
    assert!(report.has_environment_errors(), "{}", report.to_text(false));
}
