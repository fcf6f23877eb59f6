//! Systems with a payload, watched by the host's tools: partitions below it as any others, and both worlds on one time line.

use super::hybrid::{built, described};
use bulkhead_run::MachineOptions;
use bulkhead_run::command::{stats_json, stats_text};
use bulkhead_run::control::{ControlServer, Visit};
use bulkhead_run::source::machine_of;
use bulkhead_run::trace::TraceCollector;
use bulkhead_run::worlds::{PAYLOAD, WorldsTrace};

use bulkhead_system_tests::LIMIT;
use bulkhead_system_tests::secure::{SECURE, Worlds};
use bulkhead_trace::{EventKind, Run, Timeline};

/// Records of each ring of the partitions' monitor: none is lost, though nobody reads them before the end.
const RECORDS: u64 = 1 << 16;
/// 1 instruction is 16 ns.
const ICOUNT_SHIFT: u8 = 4;

/// Runs the example to its end with records on, and returns what the payload printed last and who ran when.
fn traced() -> (Vec<String>, Timeline) {
    let mut system = described().system;
    (system.trace_enabled, system.trace_records) = (true, RECORDS);
    let options =
        machine_of(&system, Some(&built("secure-monitor"))).unwrap_or_else(|error| panic!("{}", error.message));
    let options = MachineOptions { icount_shift: Some(ICOUNT_SHIFT), ..options };
    let above = WorldsTrace::of(&options).expect("a payload that keeps records");
    let mut worlds = Worlds::of(options);
    let secure = worlds.end();
    worlds.quit();
    let records = worlds.take_records().expect("its console was read");
    let observer = worlds.observer().expect("a monitor below");
    let below = TraceCollector::new(observer).finish(observer).timeline(observer, "");
    (secure, above.join(below, observer.plan(), Some(ICOUNT_SHIFT), &records))
}

fn names(timeline: &Timeline, run: &Run) -> (String, String) {
    let server = run.server.and_then(|server| timeline.layout.server_name(0, server)).unwrap_or_default();
    (timeline.layout.slot_name(0, run.slot).to_string(), server.to_owned())
}

/// SG-33, SG-87: the payload's records and the rings of the monitor below it are on one time line. Whatever that monitor saw on the payload's core it saw
/// in the time of a server, and never while a task of the payload ran; the other cores are their partitions'.
#[test]
fn payload_and_partitions_are_on_one_time_line() {
    let (secure, timeline) = traced();
    assert!(timeline.warnings.is_empty(), "{:?}", timeline.warnings);
    // Cores take turns in the emulator: the payload's ticks come in bursts, which its ring need not hold. The others lose nothing.
    assert_eq!(timeline.lost.iter().skip(1).sum::<u64>(), 0, "{:?}", timeline.lost);
    assert_eq!(timeline.layout.partitions, ["control", "linux", "intruder", PAYLOAD, "world"]);
    let runs = timeline.runs(0);
    let at = |time_ns: u64| runs.iter().find(|run| (run.from_ns..run.to_ns).contains(&time_ns));
    let mut seen = 0;
    for event in timeline.of_core(0) {
        let is_below = matches!(
            event.kind,
            EventKind::Interrupt { .. }
                | EventKind::Exit { .. }
                | EventKind::Call { .. }
                | EventKind::GuestStart { .. }
        );
        if is_below {
            // Who ran while records were lost is not known.
            let Some(run) = at(event.time_ns) else { continue };
            let (who, server) = names(&timeline, run);
            assert!(who != PAYLOAD && server.starts_with("world."), "{event:?} while {who} ran on {server}");
            seen += 1;
        }
    }
    assert!(seen >= 200, "a hundred rounds a second of the control loop: {seen}");
    let of = |name: &str| runs.iter().filter(|run| names(&timeline, run).0 == name).count();
    assert!(of("control") > 200 && of("world") > 0, "{} {}", of("control"), of("world"));
    // A round of the payload's fast task for each of its ticks, as it says itself.
    let fast = runs.iter().filter(|run| names(&timeline, run).1 == "payload.fast").count() as u64;
    let rounds = secure.iter().rfind(|line| line.starts_with("rtos: rounds")).expect("it reports");
    let rounds: u64 = rounds.split_whitespace().nth(2).and_then(|word| word.parse().ok()).expect("a number");
    let lost = timeline.lost.first().copied().unwrap_or_default();
    assert!(fast + lost >= rounds && fast > 5000, "{fast} and {lost} lost of {rounds}");
    // The guest that nobody trusts has its core three times, each until its watchdog takes it away.
    let of_intruder: Vec<_> = timeline.runs(3);
    assert_eq!(of_intruder.len(), 3, "{of_intruder:?}");
    let read = bulkhead_trace::perfetto::read(&bulkhead_trace::perfetto::write(&timeline)).expect("a trace");
    assert_eq!((read.events, read.layout), (timeline.events, timeline.layout), "the file holds all of it");
}

/// Who visits a run finds the monitor of the partitions in its flash file, and reads what there is of any partition; and what the payload's records
/// come to as the run tells it.
#[test]
fn a_visitor_reads_partitions_below_a_payload_as_any_others() {
    let options = machine_of(&described().system, Some(&built("secure-monitor")));
    let options = options.unwrap_or_else(|error| panic!("{}", error.message));
    let mut worlds = Worlds::of(MachineOptions { icount_shift: Some(ICOUNT_SHIFT), ..options });
    let name = format!("below-{}", std::process::id());
    let control = ControlServer::start(&name, "hybrid", &worlds.shared_paths()).expect("the name is free");
    worlds.line("control", "done");
    worlds
        .wait_for("its end", LIMIT, |view| {
            let status = view.observer?.status(0);
            (status.state == bulkhead_abi::status::STATE_OFF).then_some(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
    let visit = Visit::connect(Some(&name)).expect("the run greets");
    assert!(visit.payload().is_none(), "nobody told it anything");
    let observer = visit.observer().expect("the image in the flash file");
    let text = stats_text(observer);
    for part in ["control", "linux", "intruder", "core", "exits"] {
        assert!(text.contains(part), "{part} is missing in:\n{text}");
    }
    let json = stats_json(observer);
    assert_eq!(
        (&json["partitions"]["control"]["state"], &json["cores"][3]["partition"]),
        (&"off".into(), &"intruder".into())
    );
    control.tell_of_payload(serde_json::json!({ "restarts": 3 }));
    let visit = Visit::connect(Some(&name)).expect("the run greets");
    assert_eq!(visit.payload(), Some(&serde_json::json!({ "restarts": 3 })));
}

/// Of a world alone below a payload nothing can be read: the error says so, and what can be done.
#[test]
fn a_visitor_of_a_world_alone_is_told_what_there_is_instead() {
    let worlds = Worlds::start(bulkhead_system_tests::secure::alone("dual-world.elf", ""));
    let name = format!("alone-{}", std::process::id());
    let _control = ControlServer::start(&name, "dual", &worlds.shared_paths()).expect("the name is free");
    let visit = Visit::connect(Some(&name)).expect("the run greets");
    let error = visit.observer().err().expect("no monitor").to_string();
    for part in ["dual has no monitor at EL2", "\n  help: ", "`bulkhead attach`", "`bulkhead stats`"] {
        assert!(error.contains(part), "{part} is missing in: {error}");
    }
    assert!(!worlds.texts(SECURE).iter().any(|line| line.contains("FAILED")));
}
