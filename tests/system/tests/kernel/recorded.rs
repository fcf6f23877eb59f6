//! What a kernel that records tells of itself, read in the machine's RAM: the same on each run, on the board and in `direct`.

use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::observe::{TRACE_BLOCK, TRACE_BUDGET, TRACE_SWITCH, TRACE_WAKE, TraceRecord};
use bulkhead_kernel_abi::image::{LOAD, RAM};
use bulkhead_kernel_abi::trace::{TRACE_COMPONENT_CALL, TRACE_COMPONENT_RETURN, TRACE_SEND, TRACE_TOP_HALF};
use bulkhead_run::End;
use bulkhead_run::instance::Instance;
use bulkhead_run::recorded::Recorded;
use bulkhead_run::trace::Trace;
use bulkhead_system_tests::Running;
use bulkhead_system_tests::kernel::{Place, described, run_bare, start};
use bulkhead_trace::{EventKind, Measurements, text};
use std::collections::BTreeMap;

/// A control loop that tells its logger each 10 ms, which asks it how far it is; and beats of the second timer.
const TEXT: &str = r#"
version = 1
trace = true
server = [
  { name = "control", budget = "500 us", period = "10 ms", on_empty = "stop" },
  { name = "logger", budget = "2 ms", period = "50 ms" },
  { name = "beats", budget = "1 ms", period = "60 ms" },
]

[[component]]
name = "loop"
program = "component:control.elf"
trust = "trusted"
threads = [{ name = "main", server = "control", argument = 20 }]
callers = { stacks = 1, bytes = "4 KiB" }
bind = { report = "send:logger.period" }

[[component]]
name = "logger"
program = "component:logger.elf"
threads = [{ name = "main", server = "logger", argument = 1000 }]
end_points = [{ thread = "main", signals = ["period"] }]
bind = { told = "receive:main", state = "loop.state", over = "send:logger.period" }

[[component]]
name = "beats"
program = "component:beats.elf"
threads = [{ name = "main", server = "beats", argument = 16 }]
end_points = [{ thread = "main", signals = ["beat"] }]
interrupts = [{ name = "periodic", signal = "beat", period = "15 ms" }]
bind = { rings = "receive:main", line = "interrupt:periodic" }
"#;

/// What a machine's instance has recorded, on the board.
fn on_board(machine: &Running) -> Recorded {
    let instance = Instance::find(machine.ram(), PhysicalAddress(LOAD), (8 << 20) - (LOAD - RAM)).expect("an instance");
    Recorded::read(machine.ram(), "board", instance).expect("a kernel that records")
}

/// When the first of them prints: consoles differ, and interrupts wait for the print of a byte.
const PRINTED_TICKS: u64 = 190 * 62_500;

/// Records without their place in time: kinds and numbers, and the time since the first one, until somebody prints.
fn shape(records: &[TraceRecord]) -> Vec<(u64, u16, u32, u64)> {
    let start = records.first().map_or(0, |record| record.time_ticks);
    let shapes = records.iter().map(|one| (one.time_ticks - start, one.kind, one.small, one.first));
    shapes.take_while(|(date, ..)| *date < PRINTED_TICKS).collect()
}

/// QV-41; [P] of `kernel.md` 10: two runs on one core, and board and `direct`, give identical traces, to the instruction.
#[test]
fn a_trace_is_the_same_on_each_run_on_the_board_and_in_direct() {
    let image = described(TEXT).bytes;
    let board: Vec<Recorded> = (0..2).map(|_| on_board(&run_bare(&image, false))).collect();
    let mut running = start(&image, Place::Direct);
    assert_eq!(running.end(), End::AllEnded);
    let observer = running.watch();
    let trace = Trace::read(observer);
    let direct = &trace.instances[0];
    let records = &board[0].batch.records;
    assert_eq!((board[0].batch.lost, records.len() > 200), (0, true), "{}", records.len());
    assert_eq!(board[1].batch.records, *records, "two runs on the board");
    let (here, there) = (shape(&direct.batch.records), shape(records));
    if let Some(place) = here.iter().zip(&there).position(|(one, other)| one != other) {
        panic!("record {place}: direct {:?}, board {:?}", &here[place..place + 2], &there[place..place + 2]);
    }
    assert_eq!((here.len(), here.len() > 200), (there.len(), true));
    let kinds = records.iter().fold(BTreeMap::new(), |mut kinds, record| {
        *kinds.entry(record.kind).or_insert(0) += 1;
        kinds
    });
    println!("{} records by kind: {kinds:?}", records.len());
    let count = |kind: u16| kinds.get(&kind).copied().unwrap_or(0);
    // The loop tells 20 times, the logger asks it as often as it is told, the timer rings twelve times at least.
    assert!(count(TRACE_SEND) >= 20 && count(TRACE_TOP_HALF) >= 12, "{kinds:?}");
    assert!(count(TRACE_COMPONENT_CALL) >= 10, "{kinds:?}");
    assert_eq!(count(TRACE_COMPONENT_CALL), count(TRACE_COMPONENT_RETURN), "{kinds:?}");
    assert!(count(TRACE_SWITCH) > 60 && count(TRACE_WAKE) >= 40 && count(TRACE_BLOCK) >= 40, "{kinds:?}");
    // Of a server that waits: it may block without budget, and is not told of then.
    let budgets = || records.iter().filter(|one| one.kind == TRACE_BUDGET).map(|one| (one.small, one.first));
    assert!(budgets().any(|(_, what)| what == 1), "{kinds:?}");
    for (place, (server, _)) in budgets().enumerate().filter(|(_, (_, what))| *what == 2) {
        let before = budgets().take(place).filter(|(other, _)| *other == server).last();
        assert_eq!(before, Some((server, 1)), "what comes back was used up");
    }
    // One track for each thread and server, and numbers as of any shared core.
    let timeline = trace.timeline(observer, "");
    let core = timeline.layout.cores.len() - 1;
    let names: Vec<&str> = timeline.layout.partitions.iter().map(String::as_str).collect();
    assert_eq!(names, ["kernel", "kernel: loop main", "kernel: logger main", "kernel: beats main"]);
    let servers: Vec<&str> = timeline.layout.cores[core].servers.iter().map(|server| server.name.as_str()).collect();
    assert_eq!(servers, ["kernel control", "kernel logger", "kernel beats"]);
    // The same names in each form: a line for people, and the events of the picture.
    let lines = text::lines(&timeline);
    for part in ["kernel: loop main runs on server kernel control", "sends 0x1 to logger main", "for beats"] {
        assert!(lines.contains(part), "{part}: {lines}");
    }
    let measured = &Measurements::of(&timeline).cores[core];
    assert!(measured.slots.iter().all(|slot| slot.responses >= 5), "{measured:?}");
    // The budget, and the lateness of its end behind a passage of the kernel that records.
    assert!(measured.servers[0].most_in_period_ns.is_some_and(|most| most <= 560_000), "{measured:?}");
    let calls = |event: &&bulkhead_trace::Event| matches!(&event.kind, EventKind::Mark { slot: Some(1), text } if text == "calls loop from logger");
    assert!(timeline.events.iter().filter(calls).count() >= 10, "{}", text::lines(&timeline));
}

/// An instance whose description says nothing has a kernel without a ring, and its trace says so.
#[test]
fn a_kernel_that_does_not_record_has_no_trace() {
    let image = described(&TEXT.replace("trace = true\n", "")).bytes;
    let machine = run_bare(&image, false);
    let instance = Instance::find(machine.ram(), PhysicalAddress(LOAD), 7 << 20).expect("an instance");
    assert_eq!(instance.trace, None);
}
