//! As on a board: U-Boot at EL2 finds the image on a disk by `extlinux.conf` and enters it by `booti`. And what is said of an image that
//! no monitor comes of.

use crate::hello;
use crate::loader_state::{Register, encoding};
use bulkhead_abi::image::{ARM64_IMAGE_PLACE_OFFSET, ImageHeader};
use bulkhead_abi::observe::Counter;
use bulkhead_abi::status::{REASON_NONE, STATE_OFF};
use bulkhead_abi::{PAGE_BYTES, PhysicalAddress};
use bulkhead_plan::AreaKind;
use bulkhead_run::{Boot, End, MachineOptions, RunError, exit_code};
use bulkhead_system_tests::assemble::Program;
use bulkhead_system_tests::{LIMIT, Running, System};
use std::mem::offset_of;

/// Lets the board's boot loader start the machine, as `bulkhead run --boot-loader` does.
fn by_u_boot(options: &mut MachineOptions) {
    options.boot = Boot::Loader(options.facts.boot_loader.as_ref().expect("the board names a boot loader").into());
}

/// What the serial line says of the last step: U-Boot moved the image to where it runs.
fn assert_moved(running: &Running, system: &System) {
    let serial = String::from_utf8_lossy(running.serial_text()).into_owned();
    let start = system.plan().header.image_start.0;
    assert!(serial.contains("Found /extlinux/extlinux.conf"), "{serial}");
    assert!(serial.contains(&format!("Moving Image from 0x40400000 to {start:#x}")), "{serial}");
    assert!(serial.contains("Starting kernel"), "{serial}");
}

/// QV-1: the first system of the tutorial, with the same output, states and calls as without a boot loader.
#[test]
fn u_boot_starts_hello() {
    let system = System::example("hello", &[]);
    let facts = |mut running: Running| {
        assert_eq!(running.end(), End::AllEnded);
        running.assert_no_crash();
        running.assert_image_intact(&system);
        let status = running.status("hello");
        assert_eq!((status.state, status.reason, status.generation), (STATE_OFF, REASON_NONE, 1));
        let counters = [Counter::Exits, Counter::Hypercall, Counter::Psci, Counter::DeniedCall];
        let facts = (running.texts("hello"), counters.map(|counter| running.counter("hello", counter)));
        (facts, running)
    };
    let (usual, running) = facts(system.start());
    drop(running);
    let (loaded, running) = facts(system.start_with(by_u_boot));
    assert_moved(&running, &system);
    assert_eq!(usual.0.last().map(String::as_str), Some("goodbye"));
    assert_eq!(loaded, usual);
}

/// QV-2: the other cores were not U-Boot's to start: the monitor starts them by PSCI.
#[test]
fn u_boot_starts_four_cores() {
    hello::judge(hello::system(4).start_with(by_u_boot), 4);
}

/// Stock Linux and a control loop on one core, 30 MiB to move: the loop prints what it always prints and loses no period.
#[test]
fn u_boot_starts_shared() {
    let system = System::example("shared", &[]);
    let facts = |mut running: Running| {
        assert_eq!(running.end(), End::AllEnded);
        running.assert_no_crash();
        running.assert_image_intact(&system);
        for partition in ["linux", "control"] {
            let status = running.status(partition);
            assert_eq!((status.state, status.reason, status.faults), (STATE_OFF, REASON_NONE, 0), "{partition}");
        }
        let says_hello = running.texts("linux").iter().any(|line| line.contains("with 1 CPUs says hello"));
        (running.texts("control"), says_hello)
    };
    let exact = |options: &mut MachineOptions| options.icount_shift = Some(4);
    let usual = facts(system.start_with(exact));
    assert!(usual.1, "Linux says hello");
    assert_eq!(usual.0.last().map(String::as_str), Some("done iterations=1600 releases_due=1600"));
    let loaded = facts(system.start_with(|options| {
        exact(options);
        by_u_boot(options);
    }));
    assert_eq!(loaded, usual);
}

/// The state at the first instruction, as the arm64 boot protocol wants it and as the book shows it: a program in the monitor's place
/// writes it down and powers the machine off.
#[test]
fn u_boot_enters_as_the_boot_protocol_says() {
    const REGISTERS: [(&str, Register); 8] = [
        ("CurrentEL", (3, 0, 4, 2, 2)),
        ("SPSel", (3, 0, 4, 2, 0)),
        ("DAIF", (3, 3, 4, 2, 1)),
        ("SCTLR_EL2", (3, 4, 1, 0, 0)),
        ("HCR_EL2", (3, 4, 1, 1, 0)),
        ("CPTR_EL2", (3, 4, 1, 1, 2)),
        ("CNTFRQ_EL0", (3, 3, 14, 0, 0)),
        ("CNTVOFF_EL2", (3, 4, 14, 0, 3)),
    ];
    let system = System::example("hello", &[]);
    let header = system.plan().header;
    let place = system.area(AreaKind::Ram(0)).address;
    let mut program = Program::new();
    program.constant(20, place.0);
    (0..4).for_each(|register| {
        program.store(register, 20, 8 * register);
    });
    for (index, (_, register)) in (4..).zip(REGISTERS) {
        program.word(encoding(register) | 1 << 21).store(0, 20, 8 * index);
    }
    let controller = system.model.board.gicd.0;
    program.constant(1, controller).load32(0, 1, 0).store(0, 20, 8 * 12).barrier();
    program.constant(0, 0x8400_0008).word(0xd400_0003); // PSCI SYSTEM_OFF by SMC
    // Behind the arm64 header, which branches over the mark of the monitor's part.
    let first = u32::from_le_bytes(system.image[..4].try_into().expect("four bytes"));
    let entry = 4 * (first & 0x3ff_ffff) as usize;
    let mut changed = system.clone();
    changed.image[entry..entry + program.bytes().len()].copy_from_slice(&program.bytes());
    let mut running = changed.start_with(by_u_boot);
    let error = running.wait_for_end(LIMIT).expect_err("no monitor started");
    assert!(error.to_string().contains("switched off or reset before"), "{error}");

    let word = |index: u64| running.ram().load_u64(PhysicalAddress(place.0 + 8 * index)).expect("it is in RAM");
    let register = |name: &str| word(4 + REGISTERS.iter().position(|(known, _)| *known == name).expect(name) as u64);
    let values: Vec<String> = REGISTERS.iter().map(|(name, _)| format!("{name} = {:#x}", register(name))).collect();
    println!("x0 = {:#x}, {}, GICD_CTLR = {:#x}", word(0), values.join(", "), word(12) as u32);
    let tree = running.copy(PhysicalAddress(word(0)), 4);
    assert_eq!((word(0) % 8, tree), (0, vec![0xd0, 0x0d, 0xfe, 0xed]), "x0 is a device tree");
    assert_eq!([word(1), word(2), word(3)], [0; 3]);
    assert_eq!(register("CurrentEL"), 2 << 2);
    assert_eq!(register("SCTLR_EL2") & 0b101, 0, "MMU and data cache off");
    assert_eq!(register("CNTFRQ_EL0"), header.counter_hz);
    // The protocol wants SError (bit 8) masked as well. The monitor does so itself, before anything else.
    assert_eq!(register("DAIF"), 0b1011 << 6);
    // Not in the protocol, and nothing that the monitor relies on.
    assert_eq!(register("SPSel"), 1);
    assert_eq!(register("HCR_EL2"), 1 << 5, "AMO, of U-Boot's own");
    assert_eq!(register("CNTVOFF_EL2"), 0);
}

/// Runs an image that no monitor comes of; returns what is said.
fn refused(system: &System, change: impl FnOnce(&mut MachineOptions)) -> String {
    let mut running = system.start_with(change);
    let error = running.wait_for_end(LIMIT).expect_err("no monitor starts");
    assert!(matches!(error, RunError::NotStarted { .. }), "{error}");
    assert_eq!(error.exit_code(), exit_code::MONITOR);
    error.to_string()
}

#[test]
fn an_image_that_was_put_elsewhere_says_where_it_is() {
    let mut system = System::example("hello", &[]);
    system.image[ARM64_IMAGE_PLACE_OFFSET..ARM64_IMAGE_PLACE_OFFSET + 8].copy_from_slice(&0x80_0000_u64.to_le_bytes());
    let text = refused(&system, by_u_boot);
    assert!(text.contains("was entered at 0x40800000 and runs at 0x40200000 alone"), "{text}");
    assert!(text.contains("0x800000 bytes behind the start of RAM"), "{text}");
    assert!(text.contains("Moving Image from 0x40400000 to 0x40800000"), "what U-Boot said: {text}");
    // QEMU goes by the same number.
    let text = refused(&system, |_| ());
    assert!(text.contains("was entered at 0x40800000"), "{text}");
}

#[test]
fn a_boot_loader_that_gives_up_is_quoted() {
    let text = refused(&System::example("hello", &[]), |options| {
        by_u_boot(options);
        options.image[56] ^= 1;
    });
    assert!(text.contains("the boot loader did not start the image and waits for commands"), "{text}");
}

#[test]
fn an_image_that_cannot_start_says_why() {
    let system = System::example("hello", &[]);
    let text = refused(&system, |options| options.facts.machine = "virt,gic-version=3".to_owned());
    assert!(text.contains("was entered at EL1 and needs EL2"), "{text}");

    // A core that the image has no record for. The header's checksum is looked at later.
    let header = system.area(AreaKind::Header).address.0 - system.plan().header.image_start.0;
    let mpidr = usize::try_from(header).expect("it is in the file") + offset_of!(ImageHeader, cores);
    let text = refused(&system, |options| options.image[mpidr] ^= 1);
    assert!(text.contains("is none of those that the image is for"), "{text}");

    // What the boot loader wrote is not all that the file has.
    let mut running = system.start_with(|options| options.paused = true);
    let magic = PhysicalAddress(system.area(AreaKind::Header).address.0);
    running.ram().write_at(magic, &[0; PAGE_BYTES as usize]).expect("the page is in RAM");
    running.resume().expect("QEMU answers");
    let text = running.wait_for_end(LIMIT).expect_err("no monitor starts").to_string();
    assert!(text.contains(&format!("the byte at {:#x} is another than in the file", magic.0)), "{text}");
}

#[test]
fn a_missing_boot_loader_says_what_to_install() {
    let mut options = MachineOptions::for_image(System::example("hello", &[]).image).expect("a valid image");
    options.boot = Boot::Loader("/nowhere/u-boot.bin".into());
    let Err(error) = bulkhead_run::Machine::start(options) else { panic!("something started") };
    assert_eq!(error.exit_code(), exit_code::HOST);
    let text = error.to_string();
    assert!(text.contains("/nowhere/u-boot.bin") && text.contains("apt-get install u-boot-qemu"), "{text}");
}
