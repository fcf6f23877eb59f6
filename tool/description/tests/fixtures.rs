//! Descriptions with one mistake each, and good ones.
//!
//! `tests/bad/NAME.toml` says in its first line which codes it must give, and `tests/bad/NAME.txt` is the whole text. After a
//! wanted change of texts run `BULKHEAD_UPDATE_SNAPSHOTS=1 cargo test -p bulkhead-description --test fixtures` and read the diff.

mod support;

use bulkhead_description::{Code, Report, load_unchecked};
use bulkhead_plan::model::{
    Doorbell, GuestImage, HealthPolicy, Heartbeat, InterruptMode, LatencyTask, Limiter, PayloadHandler, PortKind,
    System, WorldBudget, WorldDirection, WorldLevel,
};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The descriptions of a directory, in order. Paths are relative, so that texts hold no machine's paths.
fn fixtures(directory: &str) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(directory)
        .expect("the directory of fixtures can be read")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "no fixtures in {directory}");
    paths
}

fn check(path: &Path) -> (Option<System>, Report) {
    match load_unchecked(path, &support::options()) {
        Ok(loaded) => (Some(loaded.system), loaded.warnings),
        Err(report) => (None, report),
    }
}

fn codes(report: &Report) -> BTreeSet<&'static str> {
    report.diagnostics.iter().map(|diagnostic| diagnostic.code.name()).collect()
}

fn expected_codes(path: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(path).expect("a fixture can be read");
    let line = text.lines().next().and_then(|line| line.strip_prefix("# expect: "));
    line.unwrap_or_else(|| panic!("{}: the first line must be `# expect: CODES`", path.display()))
        .split(' ')
        .map(str::to_owned)
        .collect()
}

/// MZ-19: `direct` on a shared core is one of them.
#[test]
fn each_bad_fixture_gives_its_codes_and_text() {
    let update = std::env::var_os("BULKHEAD_UPDATE_SNAPSHOTS").is_some();
    let mut failures = Vec::new();
    for path in fixtures("tests/bad") {
        let (_, report) = check(&path);
        let (expected, found) = (expected_codes(&path), codes(&report));
        if expected.iter().map(String::as_str).ne(found.iter().copied()) {
            failures.push(format!(
                "{}: expected {expected:?}, got {found:?}:\n{}",
                path.display(),
                report.to_text(false)
            ));
        }
        let text = report.to_text(false);
        let snapshot = path.with_extension("txt");
        if update {
            std::fs::write(&snapshot, &text).expect("a snapshot can be written");
        } else if std::fs::read_to_string(&snapshot).unwrap_or_default() != text {
            failures.push(format!("{}: differs from {}:\n{text}", path.display(), snapshot.display()));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_code_has_a_fixture() {
    let all = fixtures("tests/bad").into_iter().chain(fixtures("tests/kernels/bad"));
    let covered: BTreeSet<String> = all.flat_map(|path| expected_codes(&path)).collect();
    // Group 08 is given by the analysis, whose crate has the fixtures.
    let own = Code::ALL.iter().map(|code| code.name()).filter(|code| !code.starts_with("BH08"));
    let missing: Vec<_> = own.filter(|code| !covered.contains(*code)).collect();
    assert!(missing.is_empty(), "codes without a fixture: {missing:?}");
}

#[test]
fn a_system_comes_out_exactly_when_there_is_no_error() {
    for path in fixtures("tests/bad").into_iter().chain(fixtures("tests/good")) {
        let (system, report) = check(&path);
        assert_eq!(system.is_none(), report.has_errors(), "{}", path.display());
    }
}

#[test]
fn texts_hold_no_colours_and_no_paths_of_this_machine() {
    let here = env!("CARGO_MANIFEST_DIR");
    let guests = support::options().guests.expect("a directory of guests");
    for path in fixtures("tests/bad") {
        let text = check(&path).1.to_text(false);
        assert!(!text.contains('\u{1b}'), "{}: an escape sequence", path.display());
        assert!(
            !text.contains(here) && !text.contains(&guests.display().to_string()),
            "{}: a machine's path",
            path.display()
        );
    }
}

#[test]
fn a_report_in_json_says_the_same() {
    for path in fixtures("tests/bad") {
        let report = check(&path).1;
        let json = report.to_json();
        assert_eq!(json["version"], 1);
        assert_eq!(json["accepted"], !report.has_errors());
        let listed = json["diagnostics"].as_array().expect("an array");
        assert_eq!(listed.len(), report.diagnostics.len());
        for (value, diagnostic) in listed.iter().zip(&report.diagnostics) {
            assert_eq!(value["code"], diagnostic.code.name());
            assert_eq!(value["message"], diagnostic.message);
            for (label, expected) in value["labels"].as_array().expect("an array").iter().zip(&diagnostic.labels) {
                let position = report.sources.position(expected.span.file, expected.span.start);
                assert_eq!(
                    (label["line"].as_u64(), label["column"].as_u64()),
                    (Some(position.line as u64), Some(position.column as u64))
                );
            }
        }
    }
}

#[test]
fn suggestions_repair_what_they_are_about() {
    // Where every mistake of a fixture has a suggestion, taking them all must leave nothing of it.
    let repairable = [
        "unknown-board",
        "unsupported-version",
        "direct-untrusted",
        "dma-not-trusted",
        "memory-exhausted",
        "message-size-mismatch",
        "trace-records-odd",
        "unlimited-doorbell",
        "doorbell-limited-twice",
        "budget-without-unit",
        "share-without-unit",
        "windows-overlap",
        "window-not-whole-ticks",
    ];
    for name in repairable {
        let path = PathBuf::from(format!("tests/bad/{name}.toml"));
        let report = check(&path).1;
        let mut text = std::fs::read_to_string(&path).expect("a fixture can be read");
        let mut suggestions: Vec<_> =
            report.diagnostics.iter().flat_map(|diagnostic| &diagnostic.suggestions).collect();
        suggestions.sort_by_key(|suggestion| std::cmp::Reverse(suggestion.span.start));
        assert!(!suggestions.is_empty(), "{name}: no suggestion");
        for suggestion in suggestions {
            text.replace_range(suggestion.span.range(), &suggestion.replacement);
        }
        let repaired = bulkhead_description::load_text_unchecked(&path, &text, &support::options())
            .unwrap_or_else(|report| panic!("{name}:\n{}", report.to_text(false)));
        let first = expected_codes(&path).into_iter().next().expect("a code");
        assert!(!codes(&repaired.warnings).contains(first.as_str()), "{name}: {}", repaired.warnings.to_text(false));
    }
}

#[test]
fn every_key_is_resolved() {
    let (system, report) = check(Path::new("tests/good/everything.toml"));
    assert_eq!(codes(&report), BTreeSet::from(["BH0209", "BH0212", "BH0309"]), "{}", report.to_text(false));
    let system = system.expect("accepted");
    assert_eq!((system.memory_bytes, system.trace_enabled, system.trace_records), (1 << 30, false, 1024));
    assert_ne!(system.source_hash, [0; 32]);
    let [control, linux, logger] = system.partitions.as_slice() else { panic!("three partitions") };
    assert_eq!(
        (control.cores.as_slice(), control.mode, control.trusted),
        ([3].as_slice(), InterruptMode::Direct, true)
    );
    assert_eq!((control.guest_ram.0, control.physical_ram.map(|address| address.0)), (0x8000_0000, Some(0x7000_0000)));
    assert_eq!(
        (control.virtual_uart, control.own_console, control.pci_channels, control.arguments.as_str()),
        (true, false, false, "periods=500")
    );
    assert_eq!(
        control.devices.iter().map(|index| system.board.devices[*index].name.as_str()).collect::<Vec<_>>(),
        ["rtc", "fw-cfg"]
    );
    assert_eq!(control.health, HealthPolicy::Halt);
    assert!(matches!(&control.image, GuestImage::Raw { load, bytes } if load.0 == 0x8000_1000 && bytes.len() == 16));
    assert_eq!(control.device_tree_address.map(|address| address.0), Some(0x8020_0000));
    assert_eq!((linux.device_tree_address, logger.device_tree_address), (None, None));
    assert_eq!(
        (linux.cores.as_slice(), linux.mode, linux.manages, linux.pci_channels),
        ([0, 1].as_slice(), InterruptMode::Mapped, true, true)
    );
    assert_eq!(linux.manage_limit, Limiter { events: 7, period_ns: 20_000_000 });
    assert_eq!(control.manage_limit, Limiter::OF_MANAGERS);
    assert_eq!(linux.health, HealthPolicy::Restart { max: 3, within_ns: 10_000_000_000, backoff_ns: 10_000_000 });
    assert_eq!((linux.watchdog_ns, linux.virtual_uart, linux.overlay.is_some()), (Some(100_000_000), true, true));
    assert!(system.board.devices[linux.devices[0]].interrupts.is_empty(), "`interrupts = []` takes the interrupt away");
    assert!(
        matches!(&linux.image, GuestImage::Linux { command_line, initrd, .. } if command_line == "console=ttyAMA0 quiet" && initrd.len() == 16)
    );
    assert!(
        matches!(&logger.image, GuestImage::Elf { entry, segments } if entry.0 == 0x4000_0000 && segments.len() == 2 && segments[1].memory_bytes == 0x100)
    );
    assert_eq!((logger.virtual_uart, logger.own_console), (false, false));
    let [telemetry, log] = system.channels.as_slice() else { panic!("two channels") };
    assert_eq!(telemetry.doorbell, Some(Doorbell { limiter: Some(Limiter { events: 10, period_ns: 100_000_000 }) }));
    assert_eq!(
        (telemetry.source.partition, telemetry.destination.partition, telemetry.kind),
        (0, 1, PortKind::Sampling)
    );
    assert_eq!((log.kind, log.doorbell), (PortKind::Queuing { depth: 16 }, Some(Doorbell { limiter: None })));
    // CH-36: the receiver's limit is that of the channel, and so nobody is warned of it.
    let together = Some(Limiter { events: 20, period_ns: 50_000_000 });
    assert_eq!((logger.doorbell_limit, linux.doorbell_limit, system.limiter(log)), (together, None, together));
}

#[test]
fn good_fixtures_are_accepted() {
    for path in fixtures("tests/good") {
        let (system, report) = check(&path);
        assert!(system.is_some(), "{}:\n{}", path.display(), report.to_text(false));
    }
}

#[test]
fn examples_of_the_repository_lack_nothing_but_their_guests_and_disks() {
    let nowhere = bulkhead_description::Options { guests: Some(PathBuf::from("no-such-directory")), board: None };
    let mut count = 0;
    for entry in std::fs::read_dir("../../systems").expect("the examples can be read") {
        // A directory holds one system, or several of one kind under their own names, and instances of the kernel that they have.
        let files = fixtures(&entry.expect("an entry").path().display().to_string());
        for path in files.into_iter().filter(|path| !bulkhead_description::kernel::is_kernel_file(path)) {
            let report = match load_unchecked(&path, &nowhere) {
                Ok(loaded) => loaded.warnings,
                Err(report) => report,
            };
            let is_error =
                |one: &&bulkhead_description::Diagnostic| one.severity() == bulkhead_description::Severity::Error;
            let errors = report.diagnostics.iter().filter(is_error);
            // Disks are written to, so they are made for each run.
            let is_disk = |one: &bulkhead_description::Diagnostic| {
                one.code == Code::BadDisk && one.message.ends_with("there is no such file")
            };
            let unexpected: Vec<_> = errors.filter(|one| one.code != Code::GuestFileMissing && !is_disk(one)).collect();
            assert!(unexpected.is_empty(), "{}: {unexpected:?}", path.display());
            count += 1;
        }
    }
    assert!(count >= 5, "only {count} examples");
}

#[test]
fn defaults_are_those_of_the_reference() {
    let system = check(Path::new("tests/good/smallest.toml")).0.expect("accepted");
    let partition = &system.partitions[0];
    assert_eq!(
        (partition.trusted, partition.mode, partition.health),
        (false, InterruptMode::Mapped, HealthPolicy::Stop)
    );
    assert_eq!((partition.guest_ram.0, partition.physical_ram, partition.watchdog_ns), (0x4000_0000, None, None));
    assert_eq!((partition.virtual_uart, partition.own_console, partition.manages), (false, true, false));
    assert_eq!((system.trace_enabled, system.trace_records), (false, 4096));
}

#[test]
fn the_hash_covers_guest_files() {
    let options = support::options();
    let text = std::fs::read_to_string("tests/good/smallest.toml").expect("a fixture can be read");
    let hash = |text: &str| {
        bulkhead_description::load_text_unchecked(Path::new("tests/good/smallest.toml"), text, &options)
            .expect("accepted")
            .system
            .source_hash
    };
    assert_eq!(hash(&text), hash(&text), "the same input gives the same hash");
    assert_ne!(hash(&text), hash(&text.replace("1 MiB", "2 MiB")), "the description counts");
    let elf = text.replace("kind = \"raw\", file = \"guest:tiny.bin\"", "kind = \"elf\", file = \"guest:tiny.elf\"");
    assert_ne!(hash(&text), hash(&elf));
}

/// QV-16: partitions below a payload are those of any other system, and what is the payload's is nobody's below.
#[test]
fn partitions_below_a_payload_are_resolved() {
    let (system, report) = check(Path::new("tests/good/hybrid.toml"));
    assert!(!report.has_errors(), "{}", report.to_text(false));
    let system = system.expect("no mistake");
    let names: Vec<_> = system.partitions.iter().map(|one| (one.name.as_str(), one.cores.as_slice())).collect();
    assert_eq!(names, [("control", [0].as_slice()), ("office", &[1, 2]), ("drive", &[3])]);
    let direct = system.partitions.iter().map(|one| (one.trusted, one.sgi_filtered, one.watchdog_ns));
    assert_eq!(direct.collect::<Vec<_>>()[1..], [(false, false, None), (false, true, Some(100_000_000))]);
    let manageable = (0..3).map(|index| bulkhead_plan::maps::is_manageable(&system, index));
    assert_eq!(manageable.collect::<Vec<_>>(), [true; 3]);
    let secure = system.secure.expect("a secure section");
    let below = secure.hybrid().expect("partitions below");
    assert_eq!((below.name.as_str(), below.memory.start.0, below.memory.bytes), ("world", 0x4000_0000, 256 << 20));
    assert_eq!((secure.world(), secure.is_alone(), secure.below_name()), (None, false, Some("world")));
    assert_eq!((secure.interrupts.as_slice(), secure.health), ([29, 40, 42].as_slice(), None));
    assert!(!system.board.spare_interrupts.contains(&42) && system.board.spare_interrupts.contains(&43));
    assert_eq!(secure.servers.iter().map(|one| one.interrupts.as_slice()).collect::<Vec<_>>(), [&[27, 39][..], &[]]);
}

/// SG-80, SG-81: latency tasks are servers behind those that are written, with one more that has the rest; the word of Linux's threads is a page behind
/// the channels.
#[test]
fn latency_tasks_are_resolved() {
    let (system, report) = check(Path::new("tests/good/two-worlds-latency.toml"));
    let secure = system.and_then(|system| system.secure).unwrap_or_else(|| panic!("{}", report.to_text(false)));
    let servers: Vec<_> = secure.servers.iter().map(|one| (one.name.as_str(), one.priority, one.latency)).collect();
    let latency = |from, to| Some(LatencyTask { threads: Some((from, to)) });
    assert_eq!(servers, [("ltask1", 7, latency(88, 94)), ("ltask0", 9, latency(95, 99)), ("btask", 1, None)]);
    assert_eq!(secure.servers[1].interrupts, [27]);
    let world = secure.world().expect("a world");
    assert_eq!(world.memory.bytes, 254 << 20, "the last block is both worlds'");
    assert_eq!(secure.channels[0].address.0, world.memory.end());
    assert_eq!(secure.wish.map(|address| address.0), Some(world.memory.end() + 0x1000));
}

/// SG-50, SG-51: windows by their starts, with the interrupt that tells of them, and a handler of the payload with its time.
#[test]
fn windows_of_a_world_are_resolved() {
    let (system, report) = check(Path::new("tests/good/two-worlds-windows.toml"));
    let secure = system.and_then(|system| system.secure).unwrap_or_else(|| panic!("{}", report.to_text(false)));
    let table = secure.windows.as_ref().expect("a table");
    let windows: Vec<_> = table.windows.iter().map(|one| (one.server, one.offset_ns, one.length_ns)).collect();
    assert_eq!(windows, [(1, 0, 30_000_000), (1, 50_000_000, 10_000_000)]);
    assert_eq!((table.major_ns, table.interrupt), (100_000_000, Some(43)));
    assert_eq!([0, 1].map(|server| secure.has_windows(server)), [false, true]);
    let handler = PayloadHandler { intid: 100, cost_ns: 20_000, period_ns: 1_000_000 };
    assert_eq!((secure.handlers, secure.wish), (vec![handler], None));
}

/// The secure section with its names, numbers and defaults.
#[test]
fn a_secure_section_is_resolved() {
    let (system, report) = check(Path::new("tests/good/two-worlds.toml"));
    let system = system.unwrap_or_else(|| panic!("{}", report.to_text(false)));
    assert!(report.diagnostics.is_empty() && system.partitions.is_empty());
    let secure = system.secure.expect("a secure section");
    assert_eq!((secure.core, secure.payload.memory_bytes, secure.payload.arguments.as_str()), (0, 64 << 10, "end"));
    assert_eq!(
        (secure.devices.as_slice(), secure.interrupts.as_slice()),
        ([0, 1].as_slice(), [29, 40, 100].as_slice())
    );
    let tasks: Vec<_> = secure.tasks.iter().map(|one| (one.priority, one.task.cost_ns, one.task.deadline_ns)).collect();
    assert_eq!(tasks, [(12, 10_000_000, 50_000_000), (8, 100_000_000, 200_000_000)]);
    let world = secure.world().expect("a world");
    assert_eq!((world.name.as_str(), world.level, world.memory.bytes), ("linux", WorldLevel::El1, 128 << 20));
    assert_eq!((world.memory.start.0, world.console_clock_hz), (0x4000_0000, 24_000_000));
    let [itask, btask] = secure.servers.as_slice() else { panic!("two servers") };
    assert_eq!((itask.interrupts.as_slice(), itask.voluntary_return), ([27, 33, 42].as_slice(), true));
    assert_eq!(itask.budget, Some(WorldBudget { budget_ns: 2_000_000, period_ns: 30_000_000 }));
    assert_eq!((btask.budget, btask.priority, btask.interrupts.len()), (None, 0, 0));
    let [telemetry, answers] = secure.channels.as_slice() else { panic!("two channels") };
    assert_eq!((telemetry.blocks, telemetry.block_bytes, telemetry.interrupt), (10, 32, Some(42)));
    assert_eq!((answers.direction, answers.poll_ns), (WorldDirection::ToPayload, Some(2_000_000)));
    // Behind the world's memory, on pages of their own.
    assert_eq!([telemetry, answers].map(|one| one.address.0), [0x4800_0000, 0x4800_1000]);
    let health = secure.health.expect("watched");
    assert_eq!(health.heartbeat, Some(Heartbeat { period_ns: 100_000_000, missed: 4 }));
    assert_eq!(health.stuck_samples, 250);
    let policy = HealthPolicy::Restart { max: 3, within_ns: 60_000_000_000, backoff_ns: 50_000_000 };
    assert_eq!(health.policy, policy);
    // What is not written.
    let smallest = check(Path::new("tests/good/two-worlds-smallest.toml")).0.and_then(|system| system.secure);
    let smallest = smallest.expect("accepted");
    let world = smallest.world().expect("a world");
    assert_eq!((world.name.as_str(), world.level, world.memory.bytes), ("world", WorldLevel::El2, 64 << 20));
    assert_eq!((smallest.interrupts.as_slice(), smallest.tasks.len()), ([29].as_slice(), 0));
    let [server] = smallest.servers.as_slice() else { panic!("a server") };
    assert_eq!((server.priority, server.budget, server.interrupts.len()), (1, None, 0));
    assert_eq!(smallest.health, None);
}
