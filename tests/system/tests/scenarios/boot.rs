//! Damaged images: the monitor refuses them before any guest runs, and says so.

use bulkhead_abi::image::ImageHeader;
use bulkhead_abi::observe::{CRASH_BAD_PLAN, Counter};
use bulkhead_abi::status::{REASON_IMAGE_DAMAGED, STATE_INITIAL, STATE_RUNNING, STATE_STOPPED};
use bulkhead_abi::{PAGE_BYTES, PhysicalAddress};
use bulkhead_plan::AreaKind;
use bulkhead_run::{End, Phase};
use bulkhead_system_tests::remote;
use bulkhead_system_tests::{LIMIT, Remote, System};
use std::mem::offset_of;

fn system() -> System {
    System::with_programs("remote", &[], &[("remote", &remote::program())])
}

/// Starts the system with one bit of its image flipped and expects every guest to stay out.
fn refused(system: &System, address: u64, what: &str) {
    let header = system.plan().header;
    let offset = usize::try_from(address - header.image_start.0).expect("the address is in the image");
    let mut damaged = system.image.clone();
    damaged[offset] ^= 0x10;
    let mut running = system.start_with(|options| options.image = damaged);
    running.tolerates_crashes = true;
    let boot_core = header.boot_core as usize;
    let record = running.wait_for("the monitor to refuse the image", LIMIT, |view| view.observer?.crash(boot_core));
    let record = record.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(record.kind, CRASH_BAD_PLAN, "{what}");
    let plan = system.plan();
    for (partition, facts) in plan.partitions.iter().enumerate() {
        let status = running.watch().status(partition);
        assert_eq!(
            (status.state, status.generation),
            (STATE_INITIAL, 0),
            "{what}: partition {partition} never started"
        );
        let ram = running.copy(facts.ram[0].physical, facts.ram[0].bytes);
        assert!(ram.iter().all(|byte| *byte == 0), "{what}: nothing was loaded for partition {partition}");
    }
    for core in 0..plan.cores.len() {
        assert_eq!(running.watch().phase(core), Phase::NotStarted, "{what}: core {core}");
        assert_eq!(running.watch().counter_page(core).entered_ticks, 0, "{what}: core {core}");
    }
}

/// QV-3, QV-7: a single flipped bit anywhere in the plan keeps every guest from running.
#[test]
fn a_damaged_plan_is_refused() {
    let system = system();
    let start = |kind| system.area(kind).address.0;
    for (address, what) in [
        (start(AreaKind::VcpuPlan(1, 0)) + 64, "another core's plan"),
        (start(AreaKind::PartitionPlan(0)) + 8, "the first partition's plan"),
        (start(AreaKind::PartitionPlan(1)) + PAGE_BYTES - 1, "the last byte of the second partition's plan"),
        (start(AreaKind::Information(0)), "a guest's information page"),
        (start(AreaKind::Stage2Tables(0)) + 8, "an empty entry of a stage-2 table"),
        (start(AreaKind::Stage2Tables(1)), "an entry of the neighbour's stage-2 table"),
        (start(AreaKind::El2Tables(1)) + 8, "the other core's EL2 table"),
    ] {
        refused(&system, address, what);
    }
}

/// QV-3: so does one in the header, also where the boot code does not look.
#[test]
fn a_damaged_header_is_refused() {
    let system = system();
    let header = system.area(AreaKind::Header).address.0;
    refused(&system, header + offset_of!(ImageHeader, source_hash) as u64, "the hash of the description");
    refused(&system, header + offset_of!(ImageHeader, plan_crc) as u64, "the checksum of the plan");
    refused(&system, header + offset_of!(ImageHeader, text_crc) as u64, "the checksum of the monitor");
    refused(&system, header + offset_of!(ImageHeader, header_crc) as u64, "the header's own checksum");
}

/// QV-3: so does one in the monitor's own text or constants. The damaged places are none that the check itself runs through.
#[test]
fn a_damaged_monitor_is_refused() {
    let system = system();
    let (text, constants) = (system.area(AreaKind::Text), system.area(AreaKind::Rodata));
    let vectors = text.address.0 + 0x800;
    refused(&system, text.address.0 + 32, "a reserved word of the arm64 header");
    refused(&system, vectors + 0x20, "a vector that no boot takes");
    refused(&system, constants.address.0 - 1, "the last byte of text");
    refused(&system, constants.address.0 + constants.page_bytes() - 1, "the last byte of the constants");
}

/// Firmware and boot loaders leave RAM as they like, except for the bytes of the file: counters, limiters, rings and states begin
/// at zero all the same. The device tree that the machine made is overwritten, too: nobody reads it.
#[test]
fn nothing_rests_on_what_ram_held_before() {
    let system = System::named("channels");
    let mut running = system.start_with(|options| {
        options.icount_shift = Some(0);
        options.paused = true;
    });
    let header = system.plan().header;
    // QEMU's own first instructions are in the first page.
    let bank = header.banks[0];
    let (first, end) = (bank.start.0 + PAGE_BYTES, bank.start.0 + bank.bytes);
    let loaded = header.image_start.0..header.image_start.0 + system.image.len() as u64;
    for (from, to) in [(first, loaded.start), (loaded.end, end)] {
        let garbage = vec![0xa5; usize::try_from(to - from).expect("it fits this host")];
        running.ram().write_at(PhysicalAddress(from), &garbage).expect("the range is in RAM");
    }
    running.resume().expect("QEMU answers");
    assert_eq!(running.end(), End::AllEnded);
    running.assert_no_crash();
    assert_eq!(running.texts("reader")[1], "listener saw values up to 1000 in order");
    let (sent, limited) =
        (running.counter("control", Counter::DoorbellSent), running.counter("control", Counter::DoorbellLimited));
    assert_eq!(sent + limited, 1000, "one doorbell per period");
    assert!((100..=110).contains(&sent), "{sent} doorbells let through");
    for partition in ["control", "reader"] {
        assert_eq!(running.texts(partition).iter().filter(|line| line.contains("bytes lost")).count(), 0);
        let status = running.status(partition);
        assert_eq!((status.generation, status.restarts, status.faults), (1, 0, 0), "{partition}");
    }
}

/// SG-62, QV-74: a guest image that was damaged before the start is not entered; the others run.
#[test]
fn a_damaged_guest_image_is_not_entered() {
    let system = system();
    let header = system.plan().header;
    let mut damaged = system.image.clone();
    let offset = usize::try_from(system.area(AreaKind::Pristine(0)).address.0 - header.image_start.0);
    damaged[offset.expect("it is in the image")] ^= 1;
    let mut running = system.start_with(|options| options.image = damaged);
    let status = running.wait_for_state("remote", STATE_STOPPED);
    assert_eq!((status.reason, status.generation), (REASON_IMAGE_DAMAGED, 0));
    let mut neighbour = Remote::new(&mut running, "neighbour");
    assert!(neighbour.answers(&mut running));
    assert_eq!(running.watch().counter_page(0).entered_ticks, 0);
    running.assert_no_crash();
}

/// SG-62, QV-74: a pristine image that is damaged while the system runs does not come back to life.
#[test]
fn a_pristine_image_damaged_later_is_not_entered_again() {
    let policy = "health = { on_fault = \"restart\", max = 3, within = \"600 s\" }";
    let replacements = [("health = { on_fault = \"stop\" }", policy)];
    let system = System::with_programs("remote", &replacements, &[("remote", &remote::program())]);
    let mut running = system.start();
    let mut guest = Remote::new(&mut running, "remote");
    assert!(guest.answers(&mut running));
    let place = PhysicalAddress(system.area(AreaKind::Pristine(0)).address.0);
    let byte = running.copy(place, 1)[0];
    running.ram().write_at(place, &[byte ^ 1]).expect("the pristine image is in RAM");
    guest.load_and_fault(&running, 0);
    let status = running.wait_for_state("remote", STATE_STOPPED);
    assert_eq!((status.reason, status.generation, status.faults), (REASON_IMAGE_DAMAGED, 1, 1));
    // On a busy host its core may begin later.
    running.wait_for_state("neighbour", STATE_RUNNING);
    running.assert_no_crash();
}
