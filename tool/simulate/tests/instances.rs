//! Simulated instances of the real-time kernel: schedules with known answers, every bound of `check` against histories of all kinds, and what is refused.

use bulkhead_description::kernel::load_native_text;
use bulkhead_description::scenario::{
    CheckedArrival, InstanceArrival, InstanceScenario, Loaded, MadeServer, Pattern, SimulatedInstance, Target,
    load_instance, load_scenario,
};
use bulkhead_plan::model::InstanceServer;
use bulkhead_simulate::event::{Event, EventKind};
use bulkhead_simulate::instance::critical_instant;
use bulkhead_simulate::json::JsonWriter;
use bulkhead_simulate::text::TextSink;
use bulkhead_simulate::timeline::TimelineSink;
use bulkhead_simulate::{InstanceSimulation, Limits};
use bulkhead_timing::Assumptions;
use bulkhead_words::Rule;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

#[path = "../../description/tests/support/mod.rs"]
mod support;

const MILLISECOND_NS: u64 = 1_000_000;

/// An instance of this text, if it is accepted.
fn accepted(name: &str, text: &str) -> Option<SimulatedInstance> {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.kernel.toml"));
    load_native_text(&path, text, &support::options()).ok()?;
    std::fs::write(&path, text).expect("the test directory can be written");
    Some(load_instance(&path, &support::options()).unwrap_or_else(|report| panic!("{}", report.to_text(false))))
}

fn simulation(
    instance: SimulatedInstance,
    arrivals: Vec<InstanceArrival>,
    made: Vec<MadeServer>,
    until_ns: u64,
) -> InstanceSimulation {
    let warnings = bulkhead_description::Report::default();
    let scenario = InstanceScenario { instance, arrivals, made, until_ns: None, warnings };
    InstanceSimulation::new(scenario, Limits { until_ns, events: u64::MAX }, 0).expect("rows that agree")
}

fn events(simulation: &mut InstanceSimulation) -> Vec<Event> {
    let mut events = Vec::new();
    simulation.run(&mut events).expect("a list takes everything");
    events
}

fn every(target: Target, work_ns: u64, pattern: Pattern, offset_ns: u64, client: Option<usize>) -> InstanceArrival {
    let (partition, vcpu, is_interrupt, burst, spacing_ns) = (0, 0, false, 1, 0);
    let arrival =
        CheckedArrival { partition, vcpu, is_interrupt, work_ns, offset_ns, pattern, burst, spacing_ns, client };
    InstanceArrival { target, arrival }
}

/// Runs of one who works as (start, end), in whole milliseconds; with budget or in the background.
fn runs(events: &[Event], slot: usize, in_background: bool) -> Vec<(u64, u64)> {
    let (mut since, mut runs) = (None, Vec::new());
    for event in events.iter().filter(|event| event.slot == slot) {
        match event.kind {
            EventKind::Start { background } => since = Some((event.time_ns, background)),
            EventKind::Stop => {
                let (from_ns, background) = since.take().expect("it ran");
                if background == in_background {
                    runs.push((from_ns / MILLISECOND_NS, event.time_ns / MILLISECOND_NS));
                }
            }
            _ => {}
        }
    }
    runs
}

/// A component with a thread on each of these servers, and the servers in front.
fn with_threads(servers: &str, names: &[&str], more: &str) -> String {
    let threads: Vec<String> =
        names.iter().map(|name| format!("{{ name = \"{name}\", server = \"{name}\", stack = \"4 KiB\" }}")).collect();
    let threads = threads.join(", ");
    format!(
        "version = 1\nserver = [{servers}]\n{more}\n[[component]]\nname = \"all\"\nprogram = \"component:plain.elf\"\ntrust = \"trusted\"\nthreads = [{threads}]\n"
    )
}

const FIGURE: &str = r#"
  { name = "v0", budget = "10 ms", period = "40 ms" },
  { name = "v1", budget = "20 ms", period = "50 ms" },
  { name = "io", kind = "io", share = "4 %", clients = ["v1"] },
"#;

/// QV-20, QV-22, QV-32: Quest's figure 4 on the servers of an instance, to the tick what SS-03 of the theory gives, with the server for others one level in front of its client.
#[test]
fn ss_03_the_figure_of_quest_is_what_the_theory_gives() {
    let instance = accepted("figure", &with_threads(FIGURE, &["v0", "v1", "io"], "")).expect("an instance");
    let number = |name: &str| instance.threads.iter().position(|one| one == name).expect("a thread");
    let at = |name: &str| Target::Thread(number(name));
    let arrivals = vec![
        every(at("all.v0"), 0, Pattern::Busy, MILLISECOND_NS, None),
        every(at("all.v1"), 0, Pattern::Busy, 0, None),
        every(at("all.io"), 3 * MILLISECOND_NS, Pattern::At(vec![25 * MILLISECOND_NS]), 0, Some(0)),
    ];
    let mut simulation = simulation(instance, arrivals, Vec::new(), 130 * MILLISECOND_NS);
    let events = events(&mut simulation);
    assert_eq!(runs(&events, 1, false), [(0, 1), (11, 25), (27, 32), (51, 71), (100, 120)]);
    assert_eq!(runs(&events, 0, false), [(1, 11), (41, 51), (81, 91), (121, 130)]);
    assert_eq!(runs(&events, 2, false), [(25, 27), (75, 76)]);
    // Background: the more important one has all of it.
    assert_eq!(runs(&events, 0, true), [(32, 41), (71, 75), (76, 81), (91, 100), (120, 121)]);
    assert_eq!(runs(&events, 1, true), []);
}

/// Turns of 1 ms among the threads of one server; a thread of a shorter period preempts, and the turn continues.
#[test]
fn threads_of_a_server_take_turns() {
    let servers = r#"{ name = "fast", budget = "1 ms", period = "5 ms" }, { name = "shared" }"#;
    let text = with_threads(servers, &["fast"], "")
        + "[[component]]\nname = \"two\"\nprogram = \"component:plain.elf\"\nthreads = [{ name = \"a\", server = \"shared\" }, { name = \"b\", server = \"shared\" }]\n";
    let instance = accepted("turns", &text).expect("an instance");
    let busy = |thread| every(Target::Thread(thread), 0, Pattern::Busy, 0, None);
    let half = MILLISECOND_NS / 2;
    let preempts = every(Target::Thread(0), MILLISECOND_NS, Pattern::At(vec![2 * MILLISECOND_NS + half]), 0, None);
    let mut simulation = simulation(instance, vec![preempts, busy(1), busy(2)], Vec::new(), 7 * MILLISECOND_NS);
    let events = events(&mut simulation);
    let starts = events.iter().filter(|event| matches!(event.kind, EventKind::Start { .. }));
    let found: Vec<(u64, usize)> = starts.map(|event| (event.time_ns / half, event.slot)).collect();
    assert_eq!(found, [(0, 1), (2, 2), (4, 1), (5, 0), (7, 1), (8, 2), (10, 1), (12, 2)]);
}

/// A seeded generator (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// Servers, one for others and bands, of which `check` may think what it likes.
fn random_text(random: &mut Random) -> String {
    const PERIODS_MS: [u64; 7] = [4, 5, 8, 10, 20, 40, 60];
    let (mut servers, mut names) = (String::new(), Vec::new());
    let mut periods = Vec::new();
    for number in 0..2 + random.below(4) {
        let period_ms = random.of(&PERIODS_MS);
        let budget_us = period_ms * (40 + random.below(260));
        let on_empty = random.of(&["stop", "background"]);
        let rule = random.of(&["sporadic", "sporadic", "sporadic", "deferrable", "polling"]);
        let anchor = match rule {
            "sporadic" => random.of(&[", anchor = \"dispatch\"", ", anchor = \"eligible\"", ""]),
            _ => "",
        };
        let name = format!("s{number}");
        let _ = write!(
            servers,
            "{{ name = \"{name}\", rule = \"{rule}\", budget = \"{budget_us} us\", period = \"{period_ms} ms\", on_empty = \"{on_empty}\"{anchor} }}, "
        );
        if !periods.contains(&period_ms) {
            periods.push(period_ms);
            names.push((period_ms, name));
        }
    }
    names.sort();
    if random.below(2) == 0 {
        let clients: Vec<String> = names.iter().take(2).map(|(_, name)| format!("\"{name}\"")).collect();
        let share = 2 + random.below(12);
        let _ = write!(
            servers,
            "{{ name = \"io\", kind = \"io\", share = \"{share} %\", clients = [{}] }}, ",
            clients.join(", ")
        );
    }
    if random.below(2) == 0 {
        servers += "{ name = \"rest\" }, ";
    }
    let band = match random.below(3) {
        0 => String::new(),
        _ => {
            let shortest_ms = random.of(&PERIODS_MS);
            let budget_us = shortest_ms * (40 + random.below(200));
            let (longest_ms, slots) = (shortest_ms * (1 + random.below(4)), 1 + random.below(4));
            format!(
                "band = [{{ name = \"jobs\", periods = [\"{shortest_ms} ms\", \"{longest_ms} ms\"], budget = \"{budget_us} us\", servers = {slots} }}]"
            )
        }
    };
    with_threads(&servers, &["s0"], &band)
}

/// Whatever the others do: without end, in bursts, now and then; for any client.
fn hostile(random: &mut Random, target: Target, clients: usize, period_ns: u64) -> InstanceArrival {
    let work_ns = 1 + random.below(2 * period_ns);
    let client = (clients > 0).then(|| random.below(clients as u64) as usize);
    let offset_ns = random.below(2 * period_ns);
    let minimum_ns = 1 + random.below(period_ns);
    let pattern = match random.below(4) {
        0 => return every(target, 0, Pattern::Busy, random.of(&[0, offset_ns]), client),
        1 => Pattern::Periodic { period_ns: period_ns / 2 + random.below(period_ns) },
        _ => Pattern::Spaced { minimum_ns, maximum_ns: minimum_ns + random.below(4 * period_ns), seed: random.next() },
    };
    every(target, work_ns, pattern, offset_ns, client)
}

/// Servers that are made, and ended, while others run; some are refused.
fn makings(random: &mut Random, band: &InstanceServer, until_ns: u64) -> Vec<MadeServer> {
    let (budget_ns, period_ns) = band.time_ns.expect("a band has a budget");
    let made = |number: u64| {
        let budget_ns = 1 + random.below(budget_ns);
        let period_ns = period_ns + random.below(2 * period_ns);
        let at_ns = 1_000 + random.below(until_ns / 2);
        let end_ns = (random.below(2) == 0).then(|| at_ns + 1 + random.below(until_ns / 2));
        MadeServer { name: format!("made{number}"), band: 0, budget_ns, period_ns, at_ns, end_ns }
    };
    (0..6).map(made).collect()
}

/// One history of one instance, with one server (or one client, or one server of the band) that keeps to its promise: work of a whole budget that finds it
/// whole. Returns its name, how long it took at most, and the bound.
fn history(random: &mut Random, instance: &SimulatedInstance) -> Option<(String, u64, u64)> {
    let until_ns = 600 * MILLISECOND_NS;
    let bounded = |fact: &&InstanceServer| match fact.clients.is_empty() {
        true => fact.bound_ns.is_some() && fact.time_ns.is_some(),
        false => fact.clients.iter().any(|(_, bound_ns)| bound_ns.is_some()),
    };
    let judged: Vec<&InstanceServer> = instance.facts.iter().filter(bounded).collect();
    let fact = judged.get(random.below(judged.len().max(1) as u64) as usize)?;
    let period_of = |name: &str| instance.facts.iter().find(|one| one.name == name).and_then(|one| one.time_ns);
    let longest_ns = fact.clients.iter().filter_map(|(name, _)| period_of(name)).map(|(_, period)| period).max();
    let (mut arrivals, mut made, mut client) = (Vec::new(), Vec::new(), None);
    let (mut work_ns, mut period_ns) = fact.time_ns?;
    let mut bound_ns = fact.bound_ns;
    // The last piece may be too small to be worth a switch.
    let smallest_ns = instance.smallest_ns(fact);
    let mut target = Target::Server(fact.number);
    if let Some(band) = instance.facts.iter().find(|one| one.band.is_some()) {
        made = makings(random, band, until_ns);
        for (place, one) in made.iter().enumerate() {
            arrivals.push(hostile(random, Target::Made(place), 0, one.period_ns));
        }
    }
    if fact.band.is_some() {
        // It is made before any other one, so it is admitted.
        let budget_ns = work_ns / 2 + random.below(work_ns / 2);
        period_ns += random.below(period_ns);
        target = Target::Made(made.len());
        let (name, end_ns) = (String::from("own"), None);
        made.push(MadeServer { name, band: 0, budget_ns, period_ns, at_ns: 0, end_ns });
        work_ns = budget_ns;
    }
    work_ns = work_ns.saturating_sub(smallest_ns).max(1);
    if !fact.clients.is_empty() {
        let place = random.below(fact.clients.len() as u64) as usize;
        // One grant, for each client alike.
        period_ns = 2 * longest_ns?;
        bound_ns = fact.clients[place].1;
        client = Some(place);
    }
    let mut bound_ns = bound_ns?;
    if fact.rule == Rule::Polling {
        // What comes between two dates of a polling server finds its budget whole at the next one.
        bound_ns += period_ns;
    }
    let spacing_ns = period_ns + bound_ns + MILLISECOND_NS;
    let pattern = Pattern::Spaced {
        minimum_ns: spacing_ns,
        maximum_ns: spacing_ns + random.below(period_ns),
        seed: random.next(),
    };
    let later_ns = period_ns + random.below(3 * period_ns);
    arrivals.push(every(target, work_ns, pattern, random.of(&[1, later_ns]), client));
    for other in instance.facts.iter().filter(|one| one.name != fact.name && one.band.is_none()) {
        let period_ns = other.time_ns.map_or(10 * MILLISECOND_NS, |(_, period_ns)| period_ns);
        for _ in 0..1 + random.below(2) {
            arrivals.push(hostile(random, Target::Server(other.number), other.clients.len(), period_ns));
        }
    }
    let mut simulation = simulation(instance.clone(), arrivals, made, until_ns);
    let events = events(&mut simulation);
    // Each choice has a reason: something has happened.
    assert!(simulation.state().choices() < 50_000, "{}", simulation.state().choices());
    let lane = bulkhead_simulate::Stage::lanes(&simulation)[0].names.iter().rposition(|name| match target {
        Target::Made(_) => name == "own",
        _ => *name == fact.name,
    })?;
    let responses = events.iter().filter(|event| event.slot == lane).filter_map(|event| match event.kind {
        EventKind::Complete { response_ns } => Some(response_ns),
        _ => None,
    });
    responses.max().map(|worst_ns| (fact.name.clone(), worst_ns, bound_ns))
}

/// QV-37, QV-38: whatever was admitted, and whatever all others do, nobody waits longer than `check` says: 10 histories of each of 25 random instances, with servers of every rule,
/// some for others, and servers that are made in bands and ended. Not vacuous: some come near their bounds, and most bands make something.
#[test]
fn every_bound_of_check_holds_after_any_admitted_history() {
    let mut random = Random(0x0b0d);
    let (mut instances, mut histories, mut close, mut bands) = (0, 0, 0, 0);
    let mut seed = 0;
    while instances < 25 {
        seed += 1;
        assert!(seed < 2_000, "only {instances} of {seed} were accepted");
        let text = random_text(&mut random);
        let Some(instance) = accepted("bounds", &text) else { continue };
        instances += 1;
        bands += usize::from(!instance.bands.is_empty());
        for number in 0..10 {
            let Some((name, worst_ns, bound_ns)) = history(&mut random, &instance) else { continue };
            histories += 1;
            close += usize::from(worst_ns * 2 > bound_ns);
            assert!(worst_ns <= bound_ns, "{name}: {worst_ns} of {bound_ns} ns in history {number} of\n{text}");
        }
    }
    println!(
        "{instances} of {seed} instances, {histories} histories, {close} above half of their bounds, {bands} with a band"
    );
    assert!(histories > 200 && close > 40 && bands > 8, "{histories} {close} {bands}");
}

/// Everything at once: nobody is later than its bound, and the forms of the output say so.
#[test]
fn an_instance_by_itself_begins_with_everything_at_once() {
    let band = r#"band = [{ name = "jobs", periods = ["60 ms", "500 ms"], budget = "5 ms", servers = 4 }]"#;
    let text = with_threads(FIGURE, &["v0", "v1", "io"], band);
    let instance = accepted("instant", &text).expect("an instance");
    let (arrivals, made) = critical_instant(&instance);
    let until_ns = 200 * MILLISECOND_NS;
    let mut simulated = simulation(instance, arrivals, made, until_ns);
    let mut sink = TextSink::new(&simulated, until_ns);
    let counts = simulated.run(&mut sink).expect("text takes everything");
    let text = sink.text(&simulated, counts);
    let row = |name: &str| -> Vec<u64> {
        let line = text.lines().rfind(|line| line.trim_start().starts_with(name)).unwrap_or_default();
        line.trim_start()[name.len()..].split_whitespace().filter_map(|word| word.parse().ok()).collect()
    };
    for name in ["v0 ", "v1 ", "io for v1", "jobs"] {
        let row = row(name);
        assert!(row.len() >= 4 && row[0] > 0 && row[0] <= row[1], "{name}: {row:?}\n{text}");
    }
}

/// Each event has the keys of the schema, and the servers follow.
#[test]
fn the_json_form_has_threads_and_bounds() {
    let instance = accepted("json", &with_threads(FIGURE, &["v0", "v1", "io"], "")).expect("an instance");
    let (arrivals, made) = critical_instant(&instance);
    let mut simulated = simulation(instance, arrivals, made, 100 * MILLISECOND_NS);
    let mut bytes = Vec::new();
    let mut writer = JsonWriter::new(&mut bytes, &simulated).expect("a list takes everything");
    simulated.run(&mut writer).expect("a list takes everything");
    writer.finish(&simulated).expect("a list takes everything");
    let value: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
    let schema: serde_json::Value =
        serde_json::from_str(include_str!("../../../docs/book/src/reference/simulate.schema.json")).expect("JSON");
    let words = schema["properties"]["events"]["items"]["anyOf"][1]["properties"]["event"]["enum"].clone();
    let events = value["events"].as_array().expect("a list");
    assert!(events.len() > 10);
    for event in events {
        let keys: Vec<&String> = event.as_object().expect("an object").keys().collect();
        assert_eq!(keys, ["core", "event", "server", "t_ns", "thread"], "{event}");
        assert!(words.as_array().expect("words").contains(&event["event"]), "{event}");
    }
    let servers = value["servers"].as_array().expect("a list");
    let names: Vec<&str> = servers.iter().filter_map(|server| server["name"].as_str()).collect();
    assert_eq!(names, ["v0", "io for v1", "v1"]);
    assert!(servers.iter().all(|server| server["worst_ns"].as_u64() <= server["bound_ns"].as_u64()), "{servers:?}");
}

/// The picture has a lane for each thread.
#[test]
fn the_trace_for_perfetto_reads_back() {
    let instance = accepted("picture", &with_threads(FIGURE, &["v0", "v1", "io"], "")).expect("an instance");
    let (arrivals, made) = critical_instant(&instance);
    let until_ns = 100 * MILLISECOND_NS;
    let mut simulated = simulation(instance, arrivals, made, until_ns);
    let mut sink = TimelineSink::new(&simulated);
    simulated.run(&mut sink).expect("few events");
    let timeline = sink.finish(until_ns);
    let back =
        bulkhead_trace::perfetto::read(&bulkhead_trace::perfetto::write(&timeline)).expect("it was just written");
    assert_eq!(back.events, timeline.events);
    assert_eq!(back.layout.partitions, ["v0", "io", "v1"]);
}

/// Bad input: file, line and caret, and what was meant.
#[test]
fn refused_scenarios_of_instances_are_explained() {
    let directory = Path::new("tests/bad-instances");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(directory)
        .expect("fixtures")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.to_string_lossy().ends_with(".toml") && !path.to_string_lossy().ends_with(".kernel.toml"))
        .collect();
    paths.sort();
    assert!(paths.len() >= 3);
    for path in paths {
        let report = load_scenario(&path, &support::options(), &Assumptions::default())
            .err()
            .unwrap_or_else(|| panic!("{} is accepted", path.display()));
        let text = report.to_text(false);
        let expected = path.with_extension("txt");
        if std::env::var_os("BULKHEAD_BLESS").is_some() {
            std::fs::write(&expected, &text).expect("the expected text can be written");
        }
        assert_eq!(text, std::fs::read_to_string(&expected).unwrap_or_default(), "{}", path.display());
    }
}

/// A scenario names an instance by its file, and what a band makes by its name.
#[test]
fn a_scenario_names_an_instance() {
    let path = Path::new("tests/good/instance.toml");
    let loaded = load_scenario(path, &support::options(), &Assumptions::default());
    let Ok(Loaded::Instance(scenario)) = loaded else { panic!("{loaded:?}") };
    assert_eq!((scenario.arrivals.len(), scenario.made.len()), (4, 2));
    let limits = Limits { until_ns: 100 * MILLISECOND_NS, events: u64::MAX };
    let mut simulated = InstanceSimulation::new(*scenario, limits, 0).expect("rows that agree");
    let events = events(&mut simulated);
    let kinds = |kind: EventKind| events.iter().filter(|event| event.kind == kind).count();
    assert_eq!([EventKind::Admit, EventKind::Refuse, EventKind::End].map(kinds), [1, 1, 1]);
    // 2 ms every 20 ms from 10 ms on, until its server ends at 50 ms.
    assert_eq!(runs(&events, 2, false), [(10, 12), (30, 32)]);
}
