//! What a hostile guest leaves behind: nothing outside its own memory and the words that its own monitor keeps about it.

use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::observe::COUNTER_NAMES;
use bulkhead_abi::status::{STATE_OFF, STATE_RUNNING};
use bulkhead_plan::{Area, AreaKind};
use bulkhead_system_tests::assemble::Program;
use bulkhead_system_tests::remote::GUEST_RAM;
use bulkhead_system_tests::{LIMIT, Running, System};

/// Offset in the quiet guest's RAM of the word that says that it runs.
const SIGN: u64 = 0x20_0000;
const QUIET: usize = 0;

fn quiet() -> Program {
    let mut program = Program::new();
    program.constant(0, GUEST_RAM + SIGN).constant(1, 1).store(1, 0, 0).stay();
    program
}

/// Everything that belongs to the quiet partition and its core, with the monitor's data about it.
fn quiet_areas(system: &System) -> Vec<Area> {
    let own = |kind: AreaKind| match kind {
        AreaKind::Stack(core) | AreaKind::Data(core) | AreaKind::Trace(core) => core == QUIET,
        AreaKind::Counters(partition, _) => partition == QUIET,
        AreaKind::Shared(partition) | AreaKind::Status(partition) | AreaKind::Manage(partition) => partition == QUIET,
        AreaKind::Ram(partition) | AreaKind::GuestConsole(partition) => partition == QUIET,
        AreaKind::Guard => true,
        _ => false,
    };
    system.areas.iter().copied().filter(|area| own(area.kind)).collect()
}

fn copies(running: &Running, areas: &[Area]) -> Vec<Vec<u8>> {
    areas.iter().map(|area| running.copy(area.address, area.page_bytes())).collect()
}

/// The RAM that the quiet guest must have: zeros, its image from the file, and the word that it wrote.
fn expected_ram(system: &System) -> Vec<u8> {
    let plan = system.plan();
    let facts = &plan.partitions[QUIET];
    let mut ram = vec![0; facts.ram[0].bytes as usize];
    for segment in facts.segments() {
        let to = (segment.destination.0 - facts.ram[0].physical.0) as usize;
        let from = (segment.source.0 - plan.header.image_start.0) as usize;
        let bytes = segment.bytes as usize;
        ram[to..to + bytes].copy_from_slice(&system.image[from..from + bytes]);
    }
    ram[SIGN as usize] = 1;
    ram
}

/// QV-7, QV-8, QV-9, QV-50: after all attacks of the hostile guest, restarts included, no byte of the image, of the
/// quiet partition, of its monitor's data or of unused RAM has changed, and no exit was taken on its core.
#[test]
fn a_hostile_guest_changes_nothing_outside() {
    let system = System::with_programs("hostile", &[], &[("quiet", &quiet())]);
    let mut running = system.start_with(|options| options.paused = true);
    let ram_start = running.ram().start();
    let ram_bytes = running.ram().bytes();
    let before = running.copy(ram_start, ram_bytes);
    running.resume().expect("QEMU resumes");
    let sign = PhysicalAddress(system.area(AreaKind::Ram(QUIET)).address.0 + SIGN);
    let waited = running.wait_for("the quiet guest", LIMIT, |view| (view.ram.load_u64(sign)? == 1).then_some(()));
    waited.unwrap_or_else(|error| panic!("{error}"));
    let areas = quiet_areas(&system);
    let at_start = copies(&running, &areas);

    let done = running.line("hostile", "attacks done");
    println!("{done}");
    assert!(done.contains(" escaped=0 "), "{done}");
    running.wait_for_state("hostile", STATE_OFF);
    running.pause().expect("QEMU pauses");
    assert!(running.status("hostile").restarts > 10, "most attacks end in a restart");

    running.assert_no_crash();
    running.assert_image_intact(&system);
    for (area, (start, end)) in areas.iter().zip(at_start.iter().zip(copies(&running, &areas))) {
        assert!(*start == end, "{:?} at {} changed", area.kind, area.address);
    }
    assert!(copies(&running, &[system.area(AreaKind::Ram(QUIET))])[0] == expected_ram(&system));
    for (counter, name) in COUNTER_NAMES {
        assert_eq!(running.counter("quiet", *counter), 0, "{name} on the quiet guest's core");
    }
    assert_eq!(running.status("quiet").state, STATE_RUNNING);
    assert_unused_ram_is_untouched(&system, &before, &running.copy(ram_start, ram_bytes));
}

/// Compares all RAM that the plan gives to nobody with what it was before the first instruction.
fn assert_unused_ram_is_untouched(system: &System, before: &[u8], after: &[u8]) {
    let mut used: Vec<_> = system.areas.iter().map(|area| (area.address.0, area.end())).collect();
    used.sort_unstable();
    let ram_start = system.model.board.ram_start().0;
    let ram_end = ram_start + before.len() as u64;
    let (mut position, mut unused_bytes) = (ram_start, 0);
    for (start, end) in used.into_iter().chain([(ram_end, ram_end)]) {
        let gap = (position - ram_start) as usize..(start.max(position) - ram_start) as usize;
        unused_bytes += gap.len();
        let differs = before[gap.clone()].iter().zip(&after[gap]).position(|(before, after)| before != after);
        assert_eq!(differs, None, "unused RAM behind {position:#x} changed");
        position = position.max(end);
    }
    assert!(unused_bytes > 40 << 20, "only {unused_bytes} bytes of RAM are unused");
}
