//! The commands against real QEMU and the hand-made system: output, exit codes, and visitors of a running machine.

mod common;

use bulkhead_abi::observe::{
    COUNTERS_MAGIC, CRASH_BAD_PLAN, CRASH_DEVICES, CRASH_MAGIC, Counter, CounterPage, CrashRecord,
};
use bulkhead_abi::status::{REASON_DATA_ABORT, REASON_DEVICE_MISSING, STATE_OFF, STATE_RUNNING, STATE_STOPPED};
use bulkhead_run::command::{RunArguments, run, stats_json, stats_text};
use bulkhead_run::control::{ControlServer, Visit, find_runs};
use bulkhead_run::{Machine, MachineOptions, exit_code};
use bulkhead_timing::Assumptions;
use clap::Parser;
use common::*;
use serde_json::Value;
use std::mem::offset_of;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Output, Stdio};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(600);
const ARGUMENTS: &str = "BULKHEAD_TEST_RUN_ARGUMENTS";
const EXPECTED: &str = "BULKHEAD_TEST_RUN_EXIT_CODE";

#[derive(Debug, Parser)]
struct CommandLine {
    #[command(flatten)]
    run: RunArguments,
}

/// Not a test by itself: with the variables set, is the command (see `command`).
#[test]
fn be_the_command() {
    let Ok(words) = std::env::var(ARGUMENTS) else { return };
    let expected = std::env::var(EXPECTED).expect("set with the arguments").parse::<u8>().expect("a number");
    let line = CommandLine::try_parse_from(std::iter::once("run").chain(words.split('\n'))).expect("valid arguments");
    assert_eq!(run(&line.run, &Assumptions::default()), ExitCode::from(expected));
}

/// Runs the command in a process of its own and checks its exit code.
fn command(arguments: &[&str], expected: u8) -> Output {
    let output = Command::new(std::env::current_exe().expect("a test knows its program"))
        .args(["--exact", "be_the_command", "--nocapture", "--quiet"])
        .env(ARGUMENTS, arguments.join("\n"))
        .env(EXPECTED, expected.to_string())
        .output()
        .expect("the test program runs");
    assert!(output.status.success(), "{}\n{}", stdout(&output), stderr(&output));
    output
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// An image file that is removed at the end of the test.
struct ImageFile(PathBuf);

impl ImageFile {
    fn create(name: &str, words: &[(u64, u64)], end: &[u32]) -> Self {
        let mut program = stores(words);
        program.extend(end);
        Self::write(name, &image(&two_partitions(), &program))
    }

    fn write(name: &str, image: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("bulkhead-test-{name}-{}.img", std::process::id()));
        std::fs::write(&path, image).expect("a temporary file can be written");
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("UTF-8")
    }
}

impl Drop for ImageFile {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).expect("the file is still there");
    }
}

fn state(partition: usize, state: u32, reason: u32) -> (u64, u64) {
    (status(partition).0, u64::from(state) | (u64::from(reason) << 32))
}

#[test]
fn a_run_that_ends_shows_every_line_with_its_prefix() {
    let mut words = console_stores(vcpu_console(0, 1), 10, "Debian GNU/Linux\n");
    words.extend(console_stores(guest_console(1), 20, "period 1\nperiod 2\n"));
    words.extend([state(0, STATE_OFF, 0), state(1, STATE_OFF, 0)]);
    let image = ImageFile::create("ends", &words, &WAIT_FOR_EVER);
    let output = command(&[image.path()], exit_code::SUCCESS);
    let (text, said) = (stdout(&output), stderr(&output));
    assert_eq!(said.matches("warning: any guest can end QEMU ").count(), 1, "known of every QEMU so far: {said}");
    for line in ["linux   | Debian GNU/Linux", "control | period 1", "control | period 2", "linux   | ** off"] {
        assert!(text.contains(line), "{line:?} is not in\n{text}");
    }
    let place = |line: &str| text.find(line).expect("just found");
    assert!(place("control | period 2") < place("control | ** off"), "output before the end comes first:\n{text}");
    let only = stdout(&command(&[image.path(), "--only", "control"], exit_code::SUCCESS));
    assert!(only.contains("period 1") && !only.contains("Debian"), "{only}");
}

#[test]
fn a_partition_stopped_by_its_policy_gives_its_own_exit_code() {
    let words = [state(0, STATE_OFF, 0), state(1, STATE_STOPPED, REASON_DATA_ABORT)];
    let image = ImageFile::create("stopped", &words, &WAIT_FOR_EVER);
    let output = command(&[image.path(), "--format", "json"], exit_code::STOPPED);
    let text = stdout(&output);
    let last = text.lines().rfind(|line| line.starts_with("{\"elapsed_s\"")).expect("a summary");
    let summary: Value = serde_json::from_str(last).expect("JSON");
    assert_eq!((&summary["event"], &summary["exit_code"]), (&"end".into(), &7.into()));
    assert_eq!(summary["partitions"]["control"]["state"], "stopped");
    assert_eq!(summary["partitions"]["control"]["reason"], "data access outside its memory");
}

#[test]
fn until_off_ends_the_run_while_others_go_on() {
    let words = [state(0, STATE_RUNNING, 0), state(1, STATE_OFF, 0)];
    let image = ImageFile::create("until-off", &words, &WAIT_FOR_EVER);
    command(&[image.path(), "--until-off", "control"], exit_code::SUCCESS);
    let error = stderr(&command(&[image.path(), "--until-off", "nobody"], exit_code::FAILURE));
    assert!(error.contains("no partition `nobody`; it has linux, control"), "{error}");
}

#[test]
fn failures_have_their_exit_codes_and_messages() {
    // It runs from the beginning: how far a program comes within the time is up to the host.
    let mut running = image(&two_partitions(), &WAIT_FOR_EVER);
    preset(&mut running, &[state(0, STATE_RUNNING, 0)]);
    let quiet = ImageFile::write("quiet", &running);
    let error = stderr(&command(&[quiet.path(), "--timeout", "300ms"], exit_code::TIMEOUT));
    assert!(
        error.contains("waited 0.3 s for the system to end") && error.contains("partition linux: running"),
        "{error}"
    );
    let record = counters(0).0 + offset_of!(CounterPage, crash) as u64;
    let crash = ImageFile::create("crash", &[(record + 8, CRASH_BAD_PLAN), (record, CRASH_MAGIC)], &WAIT_FOR_EVER);
    let error = stderr(&command(&[crash.path()], exit_code::MONITOR));
    assert!(error.contains("the monitor of core 0 (partition linux) failed: the image header or plan"), "{error}");
    let error = stderr(&command(&["/no/such/file.img"], exit_code::HOST));
    assert!(error.contains("cannot read the image /no/such/file.img"), "{error}");
    let empty = ImageFile::write("empty", &[]);
    let error = stderr(&command(&[empty.path()], exit_code::FAILURE));
    assert!(error.contains("is neither an image"), "{error}");
    let error = stderr(&command(&["/dev/null"], exit_code::HOST));
    assert!(error.contains("/dev/null"), "{error}");
    let error = stderr(&command(&[quiet.path(), "--", "-nonsense"], exit_code::QEMU));
    assert!(error.contains("nonsense"), "{error}");
}

/// The boot core says that it could not set up the functions, and continues: so does the run, which says it once.
#[test]
fn functions_that_failed_are_told_and_end_nothing() {
    let crash = counters(0).0 + offset_of!(CounterPage, crash) as u64;
    let at = |field: usize| crash + field as u64;
    let words = [
        (at(offset_of!(CrashRecord, kind)), CRASH_DEVICES),
        (at(offset_of!(CrashRecord, detail)), 3 << 32 | 1),
        (at(offset_of!(CrashRecord, magic)), CRASH_MAGIC),
        state(0, STATE_STOPPED, REASON_DEVICE_MISSING),
        state(1, STATE_OFF, 0),
    ];
    let image = ImageFile::create("devices-failed", &words, &WAIT_FOR_EVER);
    let run = |more: &[&str]| stdout(&command(&[&[image.path()], more].concat(), exit_code::STOPPED));
    let told = "the boot core could not set up the SMMU and the PCI functions: step 3 of its script 1 failed.";
    let text = run(&[]);
    assert_eq!(text.matches(&format!("machine | ** {told}")).count(), 1, "{text}");
    let text = run(&["--format", "json"]);
    let values = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let events: Vec<Value> = values.filter(|value| value["event"] == "devices failed").collect();
    assert!(events.len() == 1 && events[0]["text"].as_str().is_some_and(|text| text.starts_with(told)), "{text}");
}

#[test]
fn a_dry_run_prints_the_command_and_starts_nothing() {
    let image = ImageFile::create("dry", &[], &WAIT_FOR_EVER);
    let text =
        stdout(&command(&[image.path(), "--dry-run", "--icount", "4", "--gdb", "--", "-d", "int"], exit_code::SUCCESS));
    for part in ["-icount shift=4,sleep=off", "-gdb tcp:127.0.0.1:1234", "-S", image.path(), "-d int", "share=on"] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[test]
fn a_dry_run_with_a_boot_loader_has_the_disk_in_place_of_the_image() {
    let image = ImageFile::create("loader", &[], &WAIT_FOR_EVER);
    let text = stdout(&command(&[image.path(), "--dry-run", "--boot-loader=/a/loader.bin"], exit_code::SUCCESS));
    let stem = image.0.file_stem().expect("a name").to_str().expect("UTF-8");
    let drive = format!("-drive if=none,id=boot,format=raw,readonly=on,file={stem}.disk");
    let advice = format!("`bulkhead build --disk {stem}.disk`");
    for part in ["-bios /a/loader.bin", "-device virtio-blk-pci,drive=boot", drive.as_str(), advice.as_str()] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert!(!text.contains("-kernel"), "{text}");
    // The file may be left out, but what follows is then not taken for it.
    let text = stdout(&command(&["--boot-loader", image.path(), "--dry-run"], exit_code::SUCCESS));
    assert!(text.contains("-bios /usr/lib/u-boot/"), "{text}");
}

#[test]
fn instructions_are_counted_on_demand() {
    let image = ImageFile::create("count", &[state(0, STATE_OFF, 0), state(1, STATE_OFF, 0)], &WAIT_FOR_EVER);
    let text = stdout(&command(&[image.path(), "--count", "--icount", "0"], exit_code::SUCCESS));
    // Two stores of nine instructions, the branch over the header, WFI; and what QEMU's boot loader needs before.
    assert!(
        text.contains("  core 0: 2") && text.contains(" in all, 0 in the monitor since its guest was entered"),
        "{text}"
    );
}

#[test]
fn visitors_read_a_running_machine_and_send_input() {
    let values = counters(0).0 + offset_of!(CounterPage, values) as u64;
    let words = [
        (counters(0).0, COUNTERS_MAGIC),
        (values + 8 * Counter::Exits as u64, 41),
        (values + 8 * Counter::SetWay as u64, 3),
        state(0, STATE_RUNNING, 0),
        state(1, STATE_RUNNING, 0),
    ];
    let mut program = stores(&words);
    program.extend(WAIT_FOR_EVER);
    let options = MachineOptions::for_image(image(&two_partitions(), &program)).expect("a valid image");
    let mut machine = Machine::start(options).expect("QEMU starts");
    let name = format!("test-{}", std::process::id());
    let control = ControlServer::start(&name, "pair", &machine.shared_paths()).expect("the name is free");
    machine
        .wait_for("the state", LIMIT, |view| (view.observer?.status(1).state == STATE_RUNNING).then_some(()))
        .expect("comes");

    let runs = find_runs().expect("no group is named");
    assert!(runs.contains(&name), "{runs:?}");
    let mut visit = Visit::connect(Some(&name)).expect("the run greets");
    assert_eq!(visit.system, "pair");
    let observer = visit.observer().expect("a monitor").clone();
    let text = stats_text(&observer);
    let expected = "partition    state  reason  starts  restarts  faults  heartbeats\n\
        linux      running    none       0         0       0           0\n\
        control    running    none       0         0       0           0\n\n\
        core                 0      1        2\n\
        partition        linux  linux  control\n\
        exits               41      0        0\n\
        set/way ignored      3      0        0\n";
    assert_eq!(text, expected);
    let json = stats_json(&observer);
    assert_eq!(json["cores"][0]["counters"]["exits"], 41);
    assert_eq!(json["cores"][2]["partition"], "control");
    assert_eq!(json["partitions"]["linux"]["state"], "running");

    visit.send(b"hello").expect("the run listens");
    let mut input = Vec::new();
    machine
        .wait_for("the input", LIMIT, |_| {
            input.extend(control.next_input().unwrap_or_default());
            (input == b"hello").then_some(())
        })
        .expect("arrives");
    assert!(!visit.has_ended());
    assert!(Visit::connect(Some("no-such-run")).is_err());
}

#[test]
fn visitors_see_the_end_of_a_run() {
    let image = ImageFile::create("visited", &[state(0, STATE_RUNNING, 0)], &WAIT_FOR_EVER);
    let mut run = Command::new(std::env::current_exe().expect("a test knows its program"))
        .args(["--exact", "be_the_command", "--nocapture", "--quiet"])
        .env(ARGUMENTS, image.path())
        .env(EXPECTED, "0")
        .stdout(Stdio::null())
        .spawn()
        .expect("the run starts");
    let name = run.id().to_string();
    let deadline = Instant::now() + LIMIT;
    let mut visit = loop {
        match Visit::connect(Some(&name)) {
            Ok(visit) => break visit,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        std::thread::yield_now();
    };
    assert!(!visit.has_ended());
    run.kill().expect("the run can be killed");
    run.wait().expect("the run ends");
    assert!(visit.has_ended());
}
