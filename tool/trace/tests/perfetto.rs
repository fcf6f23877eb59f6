//! Trace files, read back by us and by Google's own decoder (`protoc --decode_raw`, Debian package protobuf-compiler).

mod support;

use bulkhead_trace::perfetto::{ReadError, read, write};
use bulkhead_trace::{Event, EventKind, Timeline};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::{Command, Stdio};
use support::{Random, layout, timeline};

/// A message as `protoc --decode_raw` prints it: field numbers and values, without any knowledge of Perfetto or of us.
#[derive(Debug, Default)]
struct Message {
    fields: Vec<(u32, Value)>,
}

#[derive(Debug)]
enum Value {
    Message(Message),
    Text(String),
}

impl Message {
    fn messages(&self, number: u32) -> impl Iterator<Item = &Message> {
        self.fields.iter().filter_map(move |(field, value)| match value {
            Value::Message(message) if *field == number => Some(message),
            _ => None,
        })
    }

    fn texts(&self, number: u32) -> impl Iterator<Item = &str> {
        self.fields.iter().filter_map(move |(field, value)| match value {
            Value::Text(text) if *field == number => Some(text.as_str()),
            _ => None,
        })
    }

    fn number(&self, number: u32) -> Option<u64> {
        self.texts(number).next().map(parse_number)
    }
}

fn parse_number(text: &str) -> u64 {
    let parsed = text.strip_prefix("0x").map_or_else(|| text.parse(), |digits| u64::from_str_radix(digits, 16));
    parsed.unwrap_or_else(|_| panic!("{text} is no number"))
}

/// Decodes with protoc. One line is a field, the beginning or the end of a message.
fn decode_raw(bytes: &[u8]) -> Message {
    let mut child = Command::new("protoc")
        .arg("--decode_raw")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("protoc runs; ./x test installs it (Debian package protobuf-compiler)");
    let mut input = child.stdin.take().expect("a pipe");
    let bytes = bytes.to_vec();
    let writer = std::thread::spawn(move || input.write_all(&bytes));
    let output = child.wait_with_output().expect("protoc ends");
    writer.join().expect("the writer ends").expect("protoc reads everything");
    assert!(output.status.success(), "protoc refuses the trace");
    let text = String::from_utf8(output.stdout).expect("protoc escapes what is no text");
    let mut open = vec![(0, Message::default())];
    for line in text.lines().map(str::trim) {
        if line == "}" {
            let (number, message) = open.pop().expect("a message is open");
            open.last_mut().expect("one around it").1.fields.push((number, Value::Message(message)));
        } else if let Some(number) = line.strip_suffix(" {") {
            open.push((number.parse().expect("a field number"), Message::default()));
        } else {
            let (number, value) = line.split_once(": ").expect("a field");
            let value = Value::Text(value.trim_matches('"').to_owned());
            open.last_mut().expect("a message is open").1.fields.push((number.parse().expect("a number"), value));
        }
    }
    assert_eq!(open.len(), 1, "every message ends");
    open.remove(0).1
}

/// Field numbers of Perfetto's public definition.
const TIMESTAMP: u32 = 8;
const TRACK_EVENT: u32 = 11;
const TRACK_DESCRIPTOR: u32 = 60;
const TYPE: u32 = 9;
const TRACK_UUID: u32 = 11;
const NAME: u32 = 23;
const COUNTER_VALUE: u32 = 30;
const FLOWS: u32 = 47;
const TERMINATING_FLOWS: u32 = 48;

/// What a trace shows, by track name.
#[derive(Debug, Default)]
struct Shown {
    /// Slices: name, from, to.
    slices: BTreeMap<String, Vec<(String, u64, u64)>>,
    instants: BTreeMap<String, Vec<(String, u64)>>,
    counters: BTreeMap<String, Vec<(u64, u64)>>,
    /// Flows: where and when they begin, and where and when they end.
    flows: Vec<((String, u64), (String, u64))>,
}

/// Checks what makes a trace well formed, whatever it is of, and returns what it shows.
fn check(bytes: &[u8]) -> Shown {
    let trace = decode_raw(bytes);
    let packets: Vec<_> = trace.messages(1).collect();
    let mut names = BTreeMap::new();
    let mut parents = Vec::new();
    for track in packets.iter().flat_map(|packet| packet.messages(TRACK_DESCRIPTOR)) {
        let uuid = track.number(1).expect("a track has a number");
        let name = track.texts(2).next().expect("a track has a name").to_owned();
        assert_ne!(uuid, 0);
        assert_eq!(names.insert(uuid, name), None, "track {uuid} is described once");
        parents.extend(track.number(5));
    }
    assert!(parents.iter().all(|parent| names.contains_key(parent)), "every parent is a track");
    let mut shown = Shown::default();
    let mut latest: BTreeMap<u64, u64> = BTreeMap::new();
    let mut open: BTreeMap<u64, Vec<(String, u64)>> = BTreeMap::new();
    let (mut begun, mut ended) = (BTreeMap::new(), BTreeMap::new());
    for packet in packets.iter().filter(|packet| packet.messages(TRACK_EVENT).next().is_some()) {
        assert!(packet.number(10).is_some_and(|sequence| sequence != 0), "a packet has a writer");
        let time = packet.number(TIMESTAMP).expect("an event has a time");
        let event = packet.messages(TRACK_EVENT).next().expect("it has an event");
        let uuid = event.number(TRACK_UUID).expect("an event is on a track");
        let track = names.get(&uuid).unwrap_or_else(|| panic!("track {uuid} is not described")).clone();
        let before = latest.insert(uuid, time).unwrap_or(0);
        assert!(before <= time, "{track} goes from {before} back to {time}");
        let name = event.texts(NAME).next().unwrap_or("").to_owned();
        match event.number(TYPE) {
            Some(1) => open.entry(uuid).or_default().push((name, time)),
            Some(2) => {
                let (name, from) = open.get_mut(&uuid).and_then(Vec::pop).expect("a slice that ends has begun");
                shown.slices.entry(track.clone()).or_default().push((name, from, time));
            }
            Some(3) => shown.instants.entry(track.clone()).or_default().push((name, time)),
            Some(4) => {
                let value = event.number(COUNTER_VALUE).expect("a counter has a value");
                shown.counters.entry(track.clone()).or_default().push((time, value));
            }
            other => panic!("an event of kind {other:?}"),
        }
        for (field, flows) in [(FLOWS, &mut begun), (TERMINATING_FLOWS, &mut ended)] {
            for flow in event.texts(field).map(parse_number) {
                assert_eq!(flows.insert(flow, (track.clone(), time)), None, "flow {flow} begins and ends once");
            }
        }
    }
    assert!(open.values().all(Vec::is_empty), "every slice that begins ends: {open:?}");
    assert_eq!(begun.keys().collect::<Vec<_>>(), ended.keys().collect::<Vec<_>>(), "flows are paired");
    shown.flows = begun.into_values().zip(ended.into_values()).collect();
    assert!(shown.flows.iter().all(|((_, from), (_, to))| from <= to), "no effect before its cause");
    shown
}

#[test]
fn the_hand_made_trace_shows_who_ran_with_which_budget() {
    let shown = check(&write(&timeline()));
    let core: Vec<_> =
        shown.slices["core 0, shared"].iter().map(|(name, from, to)| (name.as_str(), from / 16, to / 16)).collect();
    let expected = [
        ("linux", 10, 1005),
        ("control", 1005, 1055),
        ("linux", 1055, 2010),
        ("control", 2010, 2110),
        ("linux", 2110, 3010),
        ("control", 3010, 3020),
        ("linux", 3020, 3500),
    ];
    assert_eq!(core, expected);
    let control: Vec<_> =
        shown.slices["control on core 0"].iter().map(|(name, from, to)| (name.as_str(), from / 16, to / 16)).collect();
    let expected = [
        ("waits", 1000, 1005),
        ("runs on control", 1005, 1055),
        ("waits", 2000, 2010),
        ("runs on control", 2010, 2110),
        ("waits", 2110, 3010),
        ("runs on control", 3010, 3020),
    ];
    assert_eq!(control, expected);
    let budget: Vec<_> =
        shown.counters["budget of control"].iter().map(|(time, value)| (time / 16, value / 16)).collect();
    let expected = [(1005, 100), (1055, 50), (2010, 100), (2110, 0), (2110, 0), (3010, 100), (3010, 100), (3020, 90)];
    assert_eq!(budget, expected);
    assert!(!shown.counters.contains_key("budget of linux"), "it has no budget");
    assert_eq!(shown.slices["sensor on core 1"], [("owns the core".to_owned(), 80, 64_080)]);
    assert_eq!(shown.slices["partition linux"].last(), Some(&("off".to_owned(), 64_000, 64_080)));
}

#[test]
fn arrows_lead_from_interrupts_to_handlers_and_from_doorbells_to_interrupts() {
    let shown = check(&write(&timeline()));
    let at = |track: &str, ticks: u64| (track.to_owned(), ticks * 16);
    let expected = BTreeSet::from([
        (at("interrupts of core 0", 1000), at("control on core 0", 1005)),
        (at("interrupts of core 0", 2000), at("control on core 0", 2010)),
        (at("sensor on core 1", 1900), at("interrupts of core 0", 2000)),
    ]);
    assert_eq!(shown.flows.into_iter().collect::<BTreeSet<_>>(), expected, "neither the limited doorbell nor the last");
}

#[test]
fn a_file_is_read_back_exactly() {
    let timeline = timeline();
    assert_eq!(read(&write(&timeline)).expect("it is ours"), timeline);
    let mut with_remarks = Timeline { lost: vec![3, 0], warnings: vec!["cut".to_owned()], ..Timeline::new(layout()) };
    with_remarks.push(7, 0, EventKind::Mark { slot: Some(1), text: "job \u{2713}".to_owned() });
    with_remarks.push(9, 1, EventKind::Fault { partition: 2, reason: 1, syndrome: u64::MAX, address: 3 });
    with_remarks.finish(50);
    assert_eq!(read(&write(&with_remarks)).expect("it is ours"), with_remarks);
}

#[test]
fn a_cut_file_is_read_up_to_the_cut() {
    let timeline = timeline();
    let bytes = write(&timeline);
    let mut fewest = timeline.events.len();
    for length in (0..bytes.len()).rev() {
        match read(&bytes[..length]) {
            Ok(cut) => {
                assert!(cut.events.len() <= fewest, "cut at {length}");
                fewest = cut.events.len();
                assert_eq!(cut.events, timeline.events[..fewest], "cut at {length}");
                let is_said = cut.warnings.iter().any(|warning| warning.starts_with("the trace file is cut"));
                assert!(is_said || fewest == timeline.events.len(), "cut at {length}");
                // A decoder is started for few of the cuts.
                if length % 97 == 0 {
                    check(&write(&cut));
                }
            }
            Err(error) => {
                assert_eq!((error, fewest), (if length == 0 { ReadError::NoTrace } else { ReadError::NotOurs }, 0))
            }
        }
    }
    assert_eq!(read(b"{\"traceEvents\":[]}"), Err(ReadError::NoTrace));
}

fn random_kind(random: &mut Random) -> EventKind {
    // One more than there are: no index may be believed.
    let slot = random.below(3) as usize;
    let (server, partition) = (random.below(3) as usize, random.below(4) as usize);
    match random.below(11) {
        0..=2 => EventKind::Run {
            slot,
            server: Some(server).filter(|server| *server < 2),
            background: random.below(2) == 1,
            budget_ns: Some(random.below(2000)).filter(|budget| *budget > 500),
            until_ns: None,
        },
        3 => EventKind::Idle,
        4 => EventKind::Wake { slot, interrupt: None },
        5 => EventKind::Block { slot },
        6 if random.below(2) == 0 => EventKind::Exhausted { server },
        6 => EventKind::Replenished { server, budget_ns: Some(random.below(2000)) },
        7 => EventKind::Interrupt {
            intid: if random.below(2) == 0 { support::DOORBELL } else { support::DEVICE },
            owner: Some(partition),
            held: random.below(2) == 1,
        },
        8 => EventKind::Doorbell { partition, channel: random.below(2) as usize, sent: random.below(2) == 1 },
        9 => EventKind::Charged {
            from_ns: Some(random.below(2000)).filter(|from| *from > 500),
            payer: Some(server).filter(|server| *server < 2),
            until_ns: random.below(5000),
        },
        _ => EventKind::State { partition, state: random.below(7) as u32, reason: 0 },
    }
}

#[test]
fn any_order_of_events_makes_a_well_formed_trace() {
    let mut random = Random(0x5eed_0003);
    for case in 0..40 {
        let mut timeline = Timeline::new(layout());
        let mut time = 0;
        for _ in 0..200 {
            time += random.below(50);
            let core = random.below(2) as usize;
            timeline.events.push(Event { time_ns: time, core, kind: random_kind(&mut random) });
        }
        timeline.finish(0);
        let bytes = write(&timeline);
        check(&bytes);
        assert_eq!(read(&bytes).as_ref(), Ok(&timeline), "case {case}");
    }
}

/// A wake-up by a guest's timer, which its monitor keeps, has an arrow as an interrupt has; one by a recorded interrupt has one.
#[test]
fn a_timer_that_wakes_has_an_arrow_to_the_run() {
    let mut timeline = Timeline::new(layout());
    let run = |slot| EventKind::Run { slot, server: None, background: false, budget_ns: None, until_ns: None };
    let shared = timeline.layout.cores.iter().position(|core| core.is_shared).expect("a shared core");
    let owner = timeline.layout.slot(shared, 1).expect("two vCPUs").partition;
    timeline.push(1_000, shared, EventKind::Wake { slot: 1, interrupt: Some(27) });
    timeline.push(1_500, shared, run(1));
    timeline.push(2_000, shared, EventKind::Block { slot: 1 });
    timeline.push(3_000, shared, EventKind::Interrupt { intid: 40, owner: Some(owner), held: true });
    timeline.push(3_000, shared, EventKind::Wake { slot: 1, interrupt: Some(40) });
    timeline.push(3_200, shared, run(1));
    timeline.push(4_000, shared, EventKind::Block { slot: 1 });
    // Its run is not in the trace any more.
    timeline.push(5_000, shared, EventKind::Wake { slot: 1, interrupt: Some(27) });
    timeline.finish(0);
    let bytes = write(&timeline);
    let shown = check(&bytes);
    let arrows: Vec<_> = shown.flows.iter().map(|((_, from), (_, to))| (*from, *to)).collect();
    assert_eq!(arrows, [(1_000, 1_500), (3_000, 3_200)], "{:?}", shown.flows);
    assert!(shown.flows.iter().all(|((track, _), _)| track.contains("interrupt")), "{:?}", shown.flows);
    assert_eq!(read(&bytes).expect("a trace").events, timeline.events, "shown in two places, kept once");
}

/// The UI groups by name and can search arguments.
#[test]
fn addresses_are_arguments_and_no_names() {
    let mut timeline = Timeline::new(layout());
    let (syndrome, address) = (0x9300_0045, 0x900_0018);
    timeline.push(1, 0, EventKind::GuestStart { partition: 0, entry: 0x4000_0000 });
    timeline.push(2, 0, EventKind::Exit { partition: 0, syndrome, address: 0x4000_1230 });
    timeline.push(3, 0, EventKind::Call { partition: 0, function: 0x8400_0000, argument: 0x77 });
    timeline.push(4, 0, EventKind::Fault { partition: 0, reason: 1, syndrome, address });
    timeline.finish(0);
    let bytes = write(&timeline);
    let instants = check(&bytes).instants;
    let names: Vec<&str> = instants.values().flatten().map(|(name, _)| name.as_str()).collect();
    let expected = [
        "guest start",
        "exit: data abort from a lower level",
        "call PSCI_VERSION",
        "fault: data access outside its memory",
    ];
    assert_eq!(names, expected);
    // Field 4 is an annotation, its field 7 a pointer.
    let packets = decode_raw(&bytes);
    let events = packets.messages(1).flat_map(|packet| packet.messages(TRACK_EVENT)).collect::<Vec<_>>();
    let values: BTreeSet<u64> =
        events.iter().flat_map(|event| event.messages(4)).filter_map(|note| note.number(7)).collect();
    assert_eq!(values, BTreeSet::from([0x4000_0000, syndrome, 0x4000_1230, 0x77, address]));
}
