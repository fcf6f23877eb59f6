//! Descriptions of instances of the real-time kernel, with one mistake each, and good ones.
//!
//! `tests/kernels/bad/NAME.kernel.toml` says in its first line which codes it must give, and `NAME.kernel.txt` is the whole text. After a wanted change of texts run
//! `BULKHEAD_UPDATE_SNAPSHOTS=1 cargo test -p bulkhead-description --test kernels` and read the difference.

mod support;

use bulkhead_description::kernel::{EXCHANGE, Laid, PASSAGE, TOP_HALF, load_native};
use bulkhead_description::{Report, Severity, load_unchecked};
use bulkhead_guest_abi::guest::{GUEST_CHANNELS, GUEST_MOVED_DEVICES};
use bulkhead_kernel_abi::boot::Tables;
use bulkhead_kernel_abi::capability::{entry_word, right};
use bulkhead_kernel_abi::image::{
    COMPONENT_DEVICES, COMPONENT_PORTS, COMPONENT_STACKS, COMPONENT_TEXT, Head, LOAD, MAGIC, Port,
};
use bulkhead_kernel_abi::{Capability, Kind};
use bulkhead_plan::model::GuestImage;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use zerocopy::FromBytes;

fn fixtures(directory: &str) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(directory)
        .expect("the directory of fixtures can be read")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    paths.sort();
    paths
}

fn check(path: &Path) -> (Option<Laid>, Report) {
    match load_native(path, &support::options()) {
        Ok(laid) => {
            let warnings = laid.warnings.clone();
            (Some(laid), warnings)
        }
        Err(report) => (None, report),
    }
}

/// CH-4, CH-8, CH-10, QV-37, QV-38: what an instance may not be is refused with its place and its reason.
#[test]
fn each_bad_instance_gives_its_codes_and_text() {
    let update = std::env::var_os("BULKHEAD_UPDATE_SNAPSHOTS").is_some();
    let (mut failures, paths) = (Vec::new(), fixtures("tests/kernels/bad"));
    assert!(paths.len() >= 40, "{} fixtures", paths.len());
    for path in paths {
        let (laid, report) = check(&path);
        let text = std::fs::read_to_string(&path).expect("a fixture can be read");
        let line = text.lines().next().and_then(|line| line.strip_prefix("# expect: ")).expect("`# expect: CODES`");
        let expected: BTreeSet<&str> = line.split(' ').collect();
        let found: BTreeSet<&str> = report.diagnostics.iter().map(|diagnostic| diagnostic.code.name()).collect();
        let text = report.to_text(false);
        if expected != found || laid.is_some() == report.has_errors() {
            failures.push(format!("{}: expected {expected:?}, got {found:?}:\n{text}", path.display()));
        }
        let snapshot = path.with_extension("txt");
        if update {
            std::fs::write(&snapshot, &text).expect("a snapshot can be written");
        } else if std::fs::read_to_string(&snapshot).unwrap_or_default() != text {
            failures.push(format!("{}: differs from {}:\n{text}", path.display(), snapshot.display()));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// The head and the boot tables of an image; the kernel of the tests has five pages.
fn tables(bytes: &[u8]) -> (Head, Tables<'_>) {
    const HEAD: usize = 5 * 4096;
    let head = Head::read_from_bytes(&bytes[HEAD..HEAD + size_of::<Head>()]).expect("a head");
    assert_eq!((head.magic, head.image_bytes), (MAGIC, bytes.len() as u64));
    let tables = &bytes[HEAD + 4096..][..head.tables_bytes as usize];
    // The checksum is the verifier's matter.
    let crc = u32::from_le_bytes(tables[12..16].try_into().expect("a word"));
    (head, Tables::read(tables, |_| crc).expect("boot tables"))
}

/// CH-4, CH-5, CH-6, CH-61: each function that a program calls is a slot with the capability that the description says, and the program finds its number in its own memory.
#[test]
fn functions_are_slots_by_name() {
    let (laid, report) = check(Path::new("tests/kernels/good/everything.kernel.toml"));
    let laid = laid.unwrap_or_else(|| panic!("{}", report.to_text(false)));
    assert_eq!(report.to_text(false), "");
    let (_, tables) = tables(&laid.bytes);
    let of = |kind: Kind, object: u16, word: u64| Capability {
        kind: kind.number(),
        rights: right::USE,
        object,
        grant: 1,
        word,
    };
    let handled = Capability { rights: right::USE | right::EXPECT, ..of(Kind::Interrupt, 0, 0) };
    let slots = |number: usize| tables.slots(&tables.components[number]);
    assert_eq!(slots(0), [Capability::NULL, of(Kind::Call, 1, entry_word(0, 0))]);
    assert_eq!(slots(1), [Capability::NULL]);
    assert_eq!(slots(2), [Capability::NULL, of(Kind::Receive, 0, 0), handled]);
    assert_eq!(slots(3), [Capability::NULL, of(Kind::Send, 0, 1 << 1)]);
    let threads: Vec<_> = tables.threads.iter().map(|one| (one.component, one.argument, one.end_point)).collect();
    assert_eq!(threads, [(0, 7, u16::MAX), (2, 0, 0), (3, 0, u16::MAX)]);
    let binding = tables.bindings[0];
    assert_eq!((binding.intid, binding.period_ticks, binding.end_point, binding.bits), (30, 625_000, 0, 1));
    let names: Vec<&str> = laid.components.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["loop", "logger", "driver", "sender"]);
    // The words of imports say the slots, behind eight bytes of the program's constants.
    let constants = |page: &&[u8]| page.starts_with(&[0x11; 8]);
    let slots = |page: &[u8]| [8, 16].map(|place| page[place]);
    let found: Vec<[u8; 2]> = laid.bytes.chunks_exact(4096).filter(constants).map(slots).collect();
    assert_eq!(found, [[1, 0], [0, 0], [1, 2], [1, 0]]);
    let stacks: Vec<u64> = tables.stacks(&tables.components[1]).iter().map(|one| one.top).collect();
    assert_eq!(stacks, [COMPONENT_STACKS]);
    let entries: Vec<u64> = tables.entries(&tables.components[1]).iter().map(|one| one.signature).collect();
    assert_eq!(entries, [1, 2]);
    let row = tables.components[1];
    assert_eq!((row.trust, row.abortable, row.on_fault, row.needs_ticks), (1, 1, 1, 1250));
    assert!(tables.threads.iter().all(|one| one.entry == COMPONENT_TEXT + 16));
}

/// CH-4, CH-7: functions with types are bound where both programs have the same version of their interface; `bad/other-version` has two versions.
#[test]
fn both_sides_of_an_interface_have_one_version() {
    let (laid, report) = check(Path::new("tests/kernels/good/typed.kernel.toml"));
    let laid = laid.unwrap_or_else(|| panic!("{}", report.to_text(false)));
    let (_, tables) = tables(&laid.bytes);
    let signatures: Vec<u64> = tables.entries(&tables.components[1]).iter().map(|one| one.signature).collect();
    assert_eq!(signatures, support::kernel::FIRST.map(|(_, signature)| signature));
    let slots = tables.slots(&tables.components[0]);
    assert_eq!(slots[1..].iter().map(|one| one.kind()).collect::<Vec<_>>(), [Some(Kind::Call); 2]);
    let [first, second] = [support::kernel::FIRST, support::kernel::SECOND];
    assert_ne!(first[0], second[0], "the type of a field is another one");
    assert_eq!(first[1], second[1], "it has none of the types that changed");
}

/// CH-61: who is told of a component's faults may begin it again, and look at them; nobody else.
#[test]
fn a_supervisor_is_told_and_may_begin_again() {
    let (laid, report) = check(Path::new("tests/kernels/good/supervised.kernel.toml"));
    let laid = laid.unwrap_or_else(|| panic!("{}", report.to_text(false)));
    let (_, tables) = tables(&laid.bytes);
    let child = &tables.components[1];
    assert_eq!((child.supervisor, child.supervisor_bits), (0, 1 << 1));
    assert_eq!(tables.components[0].supervisor, u16::MAX);
    let given = tables.slots(&tables.components[0])[2];
    assert_eq!((given.kind(), given.object), (Some(Kind::Component), 1));
    assert_eq!((given.rights, given.grant), (right::USE | right::READ, 1));
    let found = bulkhead_verify_instance::verify(&laid.bytes, &support::kernel::expected_kernel());
    assert_eq!(found, []);
}

/// SG-8, CH-61: a component controls its own threads and those of its children; what pays for those it does not decide.
#[test]
fn threads_are_controlled_by_their_component_and_its_supervisor() {
    let (laid, report) = check(Path::new("tests/kernels/good/threads.kernel.toml"));
    let laid = laid.unwrap_or_else(|| panic!("{}", report.to_text(false)));
    let (_, tables) = tables(&laid.bytes);
    let given = &tables.slots(&tables.components[1])[1..];
    let rights = right::USE | right::STOP | right::LIMIT | right::READ;
    let facts: Vec<_> = given.iter().map(|one| (one.kind(), one.object, one.rights)).collect();
    assert_eq!(facts, [(Some(Kind::Thread), 2, rights | right::BIND), (Some(Kind::Thread), 0, rights)]);
    assert_eq!(bulkhead_verify_instance::verify(&laid.bytes, &support::kernel::expected_kernel()), []);
}

/// QV-20, QV-21, QV-22: the shortest period first, equal ones by their place, those without a limit last; what has no budget left runs in the background unless it says no.
#[test]
fn servers_are_in_the_order_of_their_periods() {
    let (laid, report) = check(Path::new("tests/kernels/good/servers.kernel.toml"));
    let laid = laid.unwrap_or_else(|| panic!("{}", report.to_text(false)));
    let (_, tables) = tables(&laid.bytes);
    let rows: Vec<_> =
        tables.servers.iter().map(|row| (row.rule, row.budget_ticks, row.period_ticks, row.level)).collect();
    assert_eq!(rows, [(2, 125_000, 625_000, 0), (3, 62_500, 625_000, 1), (1, 1_250_000, 3_125_000, 2), (0, 0, 0, 3)]);
    let rest: Vec<_> =
        tables.servers.iter().map(|row| (row.background, row.quantum_ticks, row.chunks, row.flags)).collect();
    assert_eq!(rest, [(64, 62_500, 0, 0), (65, 62_500, 0, 0), (255, 125_000, 8, 3), (255, 62_500, 0, 0)]);
    assert_eq!(tables.servers.iter().map(|row| row.smallest_chunk_ticks).collect::<Vec<_>>(), [0, 0, 1250, 0]);
    assert_eq!(
        tables.threads.iter().map(|row| (row.server, row.tcap)).collect::<Vec<_>>(),
        [(3, 3), (2, 2), (0, 0), (1, 1)]
    );
    assert_eq!(tables.tcaps.iter().map(|row| row.server).collect::<Vec<_>>(), [0, 1, 2, 3]);
}

/// QV-32, QV-35, QV-36: a server for others comes in front of its best client and has a level in front of each; its interrupts are those of its clients, whose
/// requests are charged to the one with the longest period if nobody says more.
#[test]
fn servers_for_others_come_in_front_of_their_clients() {
    let (laid, report) = check(Path::new("tests/kernels/good/io.kernel.toml"));
    let laid = laid.unwrap_or_else(|| panic!("{}", report.to_text(false)));
    let (_, tables) = tables(&laid.bytes);
    let names: Vec<(&str, u16)> = laid.servers.iter().map(|one| (one.name.as_str(), one.number)).collect();
    assert_eq!(names, [("disk", 0), ("control", 1), ("vm", 2), ("rest", 3)]);
    let rows: Vec<_> = tables.servers.iter().map(|row| (row.rule, row.level, row.background, row.clients)).collect();
    assert_eq!(rows, [(4, 0, 255, 0b110), (1, 1, 255, 0), (1, 3, 67, 0), (0, 4, 255, 0)]);
    let share = tables.servers[0];
    assert_eq!((share.budget_ticks, share.period_ticks, share.smallest_chunk_ticks), (1, 25, 1250));
    // A guarantee for trusted threads.
    assert_eq!(tables.servers.iter().map(|row| row.flags).collect::<Vec<_>>(), [0, 2, 2, 0]);
    let binding = tables.bindings[0];
    assert_eq!((binding.server, binding.clients, binding.default_client), (0, 0b110, 2));
    assert_eq!(tables.end_points[0].tcap, u16::MAX, "what is sent is taken on the time of the thread that takes it");
    let expects = tables.slots(&tables.components[0])[1];
    assert_eq!((expects.kind(), expects.rights, expects.object), (Some(Kind::Interrupt), right::EXPECT, 0));
}

/// QV-38: what is printed of each server and client: by when it has had its budget, or a grant is done. All begin at once: 400 us for others in front of 2 ms, and the
/// passages of the kernel.
#[test]
fn bounds_are_printed() {
    let path = Path::new("tests/kernels/good/io.kernel.toml");
    let (laid, report) = check(path);
    let laid = laid.unwrap_or_else(|| panic!("{}", report.to_text(false)));
    let text = laid.summary(path);
    let snapshot = path.with_extension("txt");
    if std::env::var_os("BULKHEAD_UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&snapshot, &text).expect("a snapshot can be written");
    }
    assert_eq!(std::fs::read_to_string(&snapshot).unwrap_or_default(), text);
    // R = 2 ms + 121.6 us + 41.6 us + 400 us + 4 % of (R - 400 us). The disk's interrupt for a client behind comes once meanwhile, on nobody's time in front (QV-35).
    assert_eq!(((PASSAGE + PASSAGE + EXCHANGE) * 16, TOP_HALF * 16), (121_600, 41_600));
    assert_eq!(laid.servers[1].bound_ns, Some(2_653_344));
}

/// CH-50, CH-53, CH-63, QV-37: who schedules has its scheduler and its threads by label, each of these has a claim of its own with the number that the description says, a
/// band has rows for its servers; and the reader of finished bytes takes it.
#[test]
fn schedulers_and_bands_are_rows_and_slots() {
    let (laid, report) = check(Path::new("tests/kernels/good/schedulers.kernel.toml"));
    let laid = laid.unwrap_or_else(|| panic!("{}", report.to_text(false)));
    let (_, tables) = tables(&laid.bytes);
    let names: Vec<(&str, u16)> = laid.servers.iter().map(|one| (one.name.as_str(), one.number)).collect();
    assert_eq!(names, [("control", 0), ("vm", 1), ("jobs", 2), ("rest", 6)]);
    let rows: Vec<_> = tables.servers.iter().map(|row| (row.level, row.holder, row.band, row.budget_ticks)).collect();
    let band = [(2, u16::MAX, 0, 0); 4];
    let others = [(0, u16::MAX, u16::MAX, 125_000), (1, 0, u16::MAX, 1_250_000), (3, u16::MAX, u16::MAX, 0)];
    assert_eq!(rows, [&others[..2], &band, &others[2..]].concat());
    let band = tables.bands[0];
    assert_eq!((band.first_server, band.servers, band.budget_ticks), (2, 4, 312_500));
    assert_eq!((band.shortest_period_ticks, band.longest_period_ticks, band.admission), (6_250_000, 31_250_000, 0));
    let schedulers: Vec<_> = tables.schedulers.iter().map(|row| (row.thread, row.parent, row.id)).collect();
    assert_eq!(schedulers, [(0, u16::MAX, 1), (3, 0, 2)]);
    // The one that leads the holder has the server's own claim, 1; others have theirs behind those of the servers.
    let threads: Vec<_> = tables.threads.iter().map(|row| (row.scheduler, row.tcap, row.label, row.server)).collect();
    let none = u16::MAX;
    assert_eq!(
        threads,
        [(none, 1, 0, 1), (0, 7, 0, 1), (0, 8, 1, 1), (0, 9, 2, 1), (1, 10, 0, 1), (none, 0, 0, 0), (none, 6, 0, 6)]
    );
    let claims: Vec<_> =
        tables.tcaps[7..].iter().map(|row| (row.scheduler, row.priority, row.words, row.server)).collect();
    assert_eq!(claims, [(1, 10, 0, 1), (1, 12, 0, 1), (1, 20, 0, 1), (2, 7, 1, 1), (1, 2, 0, none)]);
    // What the outer scheduler says of the inner one is said of each of its threads.
    assert_eq!(tables.tcaps[10].vector[0], 1 << 48 | 20);
    assert_eq!((tables.end_points[0].tcap, tables.tcaps[11].left_ticks), (11, 0));
    let slots = |number: usize| -> Vec<_> {
        let slots = tables.slots(&tables.components[number]);
        slots.iter().map(|one| (one.kind().expect("a kind"), one.object, one.word)).collect()
    };
    let thread = |number: u16| (Kind::Thread, number, 0);
    let null = (Kind::Null, 0, 0);
    let sends = [1, 2].map(|bit| (Kind::Send, 0, bit));
    assert_eq!(
        slots(0),
        [&[null, (Kind::Scheduler, 0, 0), thread(0), thread(1), thread(2), thread(3)], &sends[..]].concat()
    );
    let call = |component: u16, entry: u16, token: u64| (Kind::Call, component, entry_word(entry, token));
    // It speaks for its own two; the way is named.
    assert_eq!(slots(1), [null, call(0, 0, 0b11), call(0, 1, 1), (Kind::TCap, 7, 0), (Kind::Receive, 0, 0)]);
    assert_eq!(slots(2), [null, (Kind::Scheduler, 1, 0), thread(3), thread(4), null]);
    assert_eq!(slots(3), [null, call(2, 0, 1)]);
    assert_eq!(slots(4), [null, (Kind::Band, 0, 0), thread(6), (Kind::Server, 6, 0), null, null]);
    assert_eq!(bulkhead_verify_instance::verify(&laid.bytes, &support::kernel::expected_kernel()), []);
}

/// QV-21: priorities decide where the file has them.
#[test]
fn priorities_decide_where_there_are_some() {
    let (laid, report) = check(Path::new("tests/kernels/good/priorities.kernel.toml"));
    let laid = laid.unwrap_or_else(|| panic!("{}", report.to_text(false)));
    let names: Vec<&str> = laid.servers.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["slow", "quick", "rest"]);
}

/// QV-35: a driver has the registers of its device, at an address that its program finds by name, and the interrupt that the board says; the reader of
/// finished bytes takes it.
#[test]
fn a_driver_has_registers_and_an_interrupt() {
    let (laid, report) = check(Path::new("tests/kernels/good/driver.kernel.toml"));
    let laid = laid.unwrap_or_else(|| panic!("{}", report.to_text(false)));
    let (_, tables) = tables(&laid.bytes);
    let [row] = tables.devices else { panic!("{:?}", tables.devices) };
    assert_eq!((&row.name[..4], row.component, row.pages), (&b"rtc\0"[..], 0, 1));
    assert_eq!((row.physical, row.address), (0x0901_0000, COMPONENT_DEVICES));
    // Its own server pays for its interrupt: the second one, which has no limit.
    let binding = tables.bindings[0];
    assert_eq!((binding.intid, binding.edge, binding.server), (34, 0, 1));
    // In front of the words are eight bytes of the program's constants; the last word has the address, the others slots.
    let constants = |page: &&[u8]| page.starts_with(&[0x11; 8]);
    let page = laid.bytes.chunks_exact(4096).find(constants).expect("its constants");
    let word = |place: usize| u64::from_le_bytes(page[place..place + 8].try_into().expect("a word"));
    assert_eq!([8, 16, 24].map(word), [1, 2, COMPONENT_DEVICES]);
    assert_eq!(laid.components[0].devices, ["rtc"]);
    assert_eq!(bulkhead_verify_instance::verify(&laid.bytes, &support::kernel::expected_kernel()), []);
}

/// A device that a guest cannot have at the board's addresses is where the partition's guest finds it, and so in the component.
#[test]
fn a_device_of_a_partition_is_where_its_guest_finds_it() {
    let path = Path::new("tests/bad/kernel-with-a-device-that-writes-memory.toml");
    let loaded = load_unchecked(path, &support::options()).unwrap_or_else(|report| panic!("{}", report.to_text(false)));
    let GuestImage::Kernel { bytes, .. } = &loaded.system.partitions[0].image else { panic!("an instance") };
    let (_, tables) = tables(bytes);
    let found: Vec<_> = tables.devices.iter().map(|row| (row.physical, row.pages)).collect();
    assert_eq!(found, [(GUEST_MOVED_DEVICES.0, 1)]);
}

/// The bytes of a partition are those of the bare board.
#[test]
fn a_partition_loads_what_the_board_does() {
    let (laid, _) = check(Path::new("tests/kernels/good/everything.kernel.toml"));
    let laid = laid.expect("a good instance");
    let loaded = load_unchecked(Path::new("tests/good/kernel.toml"), &support::options())
        .unwrap_or_else(|report| panic!("{}", report.to_text(false)));
    let GuestImage::Kernel { bytes, load, components, servers } = &loaded.system.partitions[0].image else {
        panic!("an instance of the kernel")
    };
    assert_eq!((bytes, components, servers), (&laid.bytes, &laid.components, &laid.servers));
    assert_eq!(load.0, LOAD);
}

#[test]
fn an_instance_is_no_system() {
    let path = Path::new("tests/kernels/good/smallest.kernel.toml");
    let report = load_unchecked(path, &support::options()).expect_err("no system");
    assert!(
        report.to_text(false).contains("describes an instance of the real-time kernel"),
        "{}",
        report.to_text(false)
    );
}

#[test]
fn a_file_that_is_not_there_is_a_matter_of_the_environment() {
    let (_, report) = check(Path::new("tests/kernels/good/missing.kernel.toml"));
    assert!(report.has_environment_errors());
    assert_eq!(report.count(Severity::Error), 1);
}

/// QV-50: a port is a window of the component that has it, in which it writes its own part; its program finds the shape, and who writes has a capability that rings and
/// nothing else. The reader of finished bytes takes it.
#[test]
fn a_port_is_a_window_a_shape_and_a_doorbell() {
    let loaded = load_unchecked(Path::new("tests/good/ports.toml"), &support::options())
        .unwrap_or_else(|report| panic!("{}", report.to_text(false)));
    let GuestImage::Kernel { bytes, .. } = &loaded.system.partitions[0].image else { panic!("an instance") };
    let (_, tables) = tables(bytes);
    let facts = tables.ports.iter().map(|row| (row.component, row.source, row.kind, row.intid, row.wire, row.pages));
    // A message of 64 bytes has a place of 128; sixteen of them and the head of the source's area are a page.
    let none = u16::MAX;
    let pages = 3;
    assert_eq!(
        facts.collect::<Vec<_>>(),
        [(0, 0, 2, 42, none, pages), (0, 1, 2, 0, 0, pages), (1, 1, 2, 0, none, pages)]
    );
    let places: Vec<_> = tables.ports.iter().map(|row| (row.physical, row.address)).collect();
    let window = GUEST_CHANNELS.0;
    let second = COMPONENT_PORTS + 4 * 4096;
    assert_eq!(places, [(window, COMPONENT_PORTS), (window + 0x2_0000, second), (window + 0x1_0000, COMPONENT_PORTS)]);
    let [wire] = tables.wires else { panic!("{:?}", tables.wires) };
    assert_eq!((wire.window, wire.doorbell, wire.exports, wire.source), (0, 0, 0, 1));
    let [binding] = tables.bindings else { panic!("{:?}", tables.bindings) };
    assert_eq!((binding.intid, binding.edge, binding.end_point, binding.bits), (42, 1, 0, 1));
    let slots = tables.slots(&tables.components[0]).iter().map(|one| (one.kind(), one.object, one.word));
    let bell = (Some(Kind::RemoteSend), 0, 0);
    let others = [(Some(Kind::Receive), 0, 0), (Some(Kind::Interrupt), 0, 0)];
    assert_eq!(slots.collect::<Vec<_>>(), [(Some(Kind::Null), 0, 0), bell, others[0], others[1]]);
    // The program's constants: eight bytes of its own, a record for each port, a word for each slot.
    let page = bytes.chunks_exact(4096).find(|page| page.starts_with(&[0x11; 8])).expect("its constants");
    let record = |place: usize| Port::read_from_bytes(&page[place..place + 32]).expect("a record");
    let shape = Port { window: COMPONENT_PORTS, bytes: pages as u64 * 4096, bell: 0, message_bytes: 64, slots: 16 };
    let constants = COMPONENT_TEXT + 0x1000;
    assert_eq!([8, 40].map(record), [Port { window: second, bell: 1, ..shape }, shape]);
    assert_eq!(tables.ports.iter().map(|row| row.record).collect::<Vec<_>>(), [constants + 0x28, constants + 0x8, 0]);
    assert_eq!(bulkhead_verify_instance::verify(bytes, &support::kernel::expected_kernel()), []);
}
