//! Storms of a hostile guest's functions: refused DMA by the hundred thousand (H15), and a line that never falls, or always, or is high when its partition ends (H16).

use super::DiskFile;
use super::others::{BESIDE, is_in_time, is_undisturbed, nothing_landed, victims};
use bulkhead_abi::observe::Counter;
use bulkhead_abi::status::{REASON_DMA, STATE_OFF, STATE_RUNNING, STATE_STOPPED, StatusPage};
use bulkhead_plan::AreaKind;
use bulkhead_system_tests::System;

/// A partition with some functions of the kind `edu`.
fn intruder(name: &str, core: u32, arguments: &str, rest: &str, functions: u32) -> String {
    let functions = (0..functions)
        .map(|number| format!("[[pci]]\nname = \"{name}-{number}\"\nmodel = \"edu\"\npartition = \"{name}\"\n"));
    let functions: String = functions.collect();
    format!(
        r#"
[[partition]]
name = "{name}"
cores = [{core}]
memory = "2 MiB"
image = {{ kind = "elf", file = "guest:intruder.elf" }}
arguments = "{arguments} ram=0x200000"
console = "pl011"
{rest}

{functions}
"#
    )
}

fn system(name: &str, rest: &str) -> System {
    let text = format!("version = 1\nname = \"{name}\"\nboard = \"qemu-virt\"\nmemory = \"256 MiB\"\n{rest}");
    System::from_text(name, &text)
}

/// H15: QEMU's SMMU tells each refused word of a transfer. The other owner's refused transfer is counted, or it knows that it may have lost it; nobody loses
/// time.
#[test]
fn a_flood_of_refused_dma_hides_events_and_nothing_else() {
    let health = "health = { on_fault = \"stop\", dma_poll = \"10 ms\" }";
    // Three functions, 256 words each.
    let flood = intruder("flood", 0, "attack=flood transfers=135 targets=0x9000000", health, 3);
    let victim = intruder("victim", 3, "targets=0x9000000 bytes=4", health, 1);
    let system = system("flood", &format!("{flood}{victim}{}", victims(1500)));
    let mut running = system.start_exact(8);
    running.line("flood", "135 floods over");
    running.wait_for_state("victim", STATE_OFF);
    is_undisturbed(&mut running, 1500);
    assert!(running.texts("victim").last().is_some_and(|text| text.ends_with("0 leaked")));
    let [flood, victim] = ["flood", "victim"].map(|name| running.status(name).dma);
    println!("flood {flood:?}, victim {victim:?}");
    assert!(victim.events > 0 || victim.lost > 0 || flood.lost > 0, "{flood:?} {victim:?}");
    assert!(flood.lost > 0, "a queue of 256 takes no 100,000: {flood:?}");
    // Of its own it has nine places, each written and read, and one that crosses a page in two pieces.
    assert!(victim.events <= 9 * 2 * 2, "{victim:?}");
    let streams = [0, 3].map(|function| u64::from(system.model.functions[function].stream()));
    assert_ne!(streams[0], streams[1]);
    assert!(victim.events == 0 || victim.latest >> 32 == streams[1], "{victim:?} {streams:?}");
    assert_eq!(running.status("asleep").dma.events, 0);
    nothing_landed(&running, &system, 0);
}

/// `dma_faults`: the same refused transfers are counted, or the first one is the partition's fault. They are nobody else's: one that has a function too, and
/// looks as often, counts none and has no fault.
#[test]
fn refused_dma_is_counted_or_a_fault() {
    for (word, state) in [("count", STATE_OFF), ("fault", STATE_STOPPED)] {
        let health = format!("health = {{ on_fault = \"stop\", dma_poll = \"10 ms\", dma_faults = \"{word}\" }}");
        let text = intruder("intruder", 0, "targets=0x9000000 bytes=4", &health, 1);
        let beside = intruder("bystander", 3, "attack=late ending=nobody", &health, 1);
        let system = system("faults", &format!("{text}{beside}{}", victims(100)));
        let mut running = system.start_exact(6);
        let has_ended = |status: &StatusPage| matches!(status.state, STATE_OFF | STATE_STOPPED);
        let status = running.wait_for_status("intruder", "its end", has_ended);
        assert_eq!(status.state, state, "{word}");
        is_undisturbed(&mut running, 100);
        let bystander = running.status("bystander");
        assert_eq!((bystander.state, bystander.faults), (STATE_RUNNING, 0));
        assert_eq!((bystander.dma.events, bystander.dma.lost), (0, 0), "it was refused nothing");
        let texts = running.texts("intruder");
        if state == STATE_STOPPED {
            assert_eq!((status.reason, status.faults, status.fault.reason), (REASON_DMA, 1, REASON_DMA));
            assert_eq!(
                texts.last().map(String::as_str),
                Some("intruder: own RAM written and read"),
                "it got no further"
            );
        } else {
            assert_eq!(status.faults, 0);
            assert!(status.dma.events >= 2, "{:?}", status.dma);
        }
        assert_eq!(
            (status.dma.latest & 0xff, status.dma.latest >> 32, status.dma.lost),
            (0x10, 8, 0),
            "{:?}",
            status.dma
        );
        running.assert_no_crash();
    }
}

/// The guest's number of the line of a partition's first function.
fn line(system: &System) -> u32 {
    system.model.functions[0].interrupt
}

/// H16 on a core of its own: each interrupt costs its owner an exit, and nobody else anything. A line that has fallen again before anybody looked is an
/// interrupt for nothing, to the owner alone.
#[test]
fn a_line_that_never_falls_costs_its_owner_alone() {
    for arguments in ["count=20000 drop=1", "count=20000"] {
        let build = |line: u32| {
            let text = intruder("intruder", 0, &format!("attack=line line={line} {arguments}"), "", 1);
            system("line", &format!("{text}{}", victims(100)))
        };
        let system = build(line(&build(0)));
        let mut running = system.start_exact(6);
        let over = running.line("intruder", "storm over");
        is_undisturbed(&mut running, 100);
        let taken = running.counter("intruder", Counter::Interrupt);
        if arguments.ends_with("drop=1") {
            assert!(over.ends_with("raised 20000 times, some taken=true"), "{over}");
        } else {
            assert!(over.ends_with("taken 20000 times"), "{over}");
            assert!((20_000..20_100).contains(&taken), "{taken}");
        }
        assert!(system.areas.iter().any(|area| area.kind == AreaKind::Events));
        running.assert_image_intact(&system);
        running.assert_no_crash();
    }
}

/// H16 on a shared core: the storm is paid from its owner's budget, so the one beside it with a better priority loses none of its periods.
#[test]
fn a_line_that_never_falls_takes_no_time_of_others_on_its_core() {
    for arguments in ["count=20000", "count=20000 drop=1"] {
        let build = |line: u32| {
            let servers = "servers = [{ priority = 5, budget = \"6 ms\", period = \"10 ms\", minimum = \"140 us\", \
                           on_empty = \"background\", background_priority = 40 }]";
            let text = intruder("intruder", 0, &format!("attack=line line={line} {arguments}"), servers, 1);
            let text = format!("[[schedule]]\ncore = 0\nkind = \"fixed-priority\"\n{text}{BESIDE}");
            system("shared-line", &text)
        };
        let system = build(line(&build(36)));
        let mut running = system.start_exact(4);
        let over = running.line("intruder", "storm over");
        is_in_time(&mut running);
        assert!(running.counter("intruder", Counter::Interrupt) > 1000, "{over}");
        running.assert_image_intact(&system);
        running.assert_no_crash();
    }
}

/// H16, H25: a disk's line is high when its partition ends: while it is handled, after its end was said for the tenth time, switched off, and
/// masked. No interrupt of an instance comes to its successor, and the last one's comes once; the one beside it, or elsewhere, does not notice.
#[test]
fn a_line_that_is_high_at_a_restart_is_not_its_successors() {
    let disk = DiskFile::create("held");
    for is_shared in [false, true] {
        let build = |line: u32| {
            let servers = "servers = [{ priority = 5, budget = \"6 ms\", period = \"10 ms\", minimum = \"140 us\" }]";
            let rest = "health = { on_fault = \"restart\", max = 20, within = \"600 s\" }\n";
            let rest = if is_shared { format!("{rest}{servers}") } else { rest.to_owned() };
            let text =
                intruder("intruder", 0, &format!("attack=held own=0 line={line}"), &rest, 0).replace("2 MiB", "8 MiB");
            let function = format!(
                "[[pci]]\nname = \"disk\"\nmodel = \"virtio-blk\"\npartition = \"intruder\"\ndisk = {{ file = \"{}\", read_only = true }}\n",
                disk.path()
            );
            let (schedule, beside) = if is_shared {
                ("[[schedule]]\ncore = 0\nkind = \"fixed-priority\"\n", BESIDE.to_owned())
            } else {
                ("", victims(100))
            };
            system("held-line", &format!("{schedule}{text}{function}{beside}"))
        };
        let system = build(line(&build(36)));
        let mut running = system.start_exact(if is_shared { 4 } else { 6 });
        running.wait_for_state("intruder", STATE_OFF);
        let early = (1..=5).map(|start| format!("intruder: start {start}, early=0"));
        let expected: Vec<_> = early.chain(["intruder: start 5, taken=1, right=true".to_owned()]).collect();
        assert_eq!(running.texts("intruder"), expected, "shared: {is_shared}");
        if is_shared {
            is_in_time(&mut running);
        } else {
            is_undisturbed(&mut running, 100);
        }
        running.assert_image_intact(&system);
        running.assert_no_crash();
    }
}
