//! Real QEMU with a program of a few words: live RAM, ends, failures, and what is left behind.

mod common;

use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::observe::{COUNTERS_MAGIC, CRASH_MAGIC, CRASH_PANIC, Counter, CounterPage};
use bulkhead_abi::status::{STATE_OFF, STATE_RUNNING, STATE_STOPPED};
use bulkhead_run::{End, Machine, MachineOptions, Phase, RunError, exit_code};
use common::*;
use std::io::{BufRead, BufReader};
use std::mem::offset_of;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Generous: the host may be busy, and a passing test never waits for it.
const LIMIT: Duration = Duration::from_secs(600);
const HOLD: &str = "BULKHEAD_TEST_HOLD_MACHINE";

fn options(words: &[(u64, u64)], end: &[u32]) -> MachineOptions {
    let mut program = stores(words);
    program.extend(end);
    MachineOptions::for_image(image(&two_partitions(), &program)).expect("the hand-made image is valid")
}

fn states(first: u32, second: u32) -> [(u64, u64); 2] {
    [(status(0).0, u64::from(first)), (status(1).0, u64::from(second))]
}

#[test]
fn ram_is_read_live_while_the_machine_runs() {
    let pattern = 0x0123_4567_89ab_cdef;
    let place = PhysicalAddress(RAM_START.0 + (48 << 20));
    let mut words = vec![(counters(0).0, COUNTERS_MAGIC), (counters(0).0 + 8, 2)];
    words.push((counters(0).0 + offset_of!(CounterPage, values) as u64 + 8 * Counter::Hypercall as u64, 77));
    words.extend(console_stores(vcpu_console(0, 0), 100, "hello from RAM\nlogin: "));
    words.extend(states(STATE_RUNNING, STATE_RUNNING));
    words.push((place.0, pattern));
    let mut machine = Machine::start(options(&words, &WAIT_FOR_EVER)).expect("QEMU starts");
    machine
        .wait_for("the pattern", LIMIT, |view| (view.ram.load_u64(place)? == pattern).then_some(()))
        .expect("appears");
    let line = machine.wait_for_line("linux", "from RAM", LIMIT).expect("the line appears");
    assert_eq!((line.text.as_str(), line.time_ticks, line.complete), ("hello from RAM", 100, true));
    assert!(!machine.wait_for_prompt("linux", "login:", LIMIT).expect("a prompt counts").complete);
    let error = machine.wait_for_line("linux", "login:", Duration::from_millis(20)).expect_err("it is no line");
    assert!(error.to_string().contains("waited"), "{error}");
    let observer = machine.observer().expect("the image has a plan");
    assert_eq!(observer.counter(0, Counter::Hypercall), 77);
    assert_eq!(observer.partition_counter(0, Counter::Hypercall), 77);
    assert_eq!((observer.phase(0), observer.phase(1)), (Phase::GuestEntered, Phase::NotStarted));
    assert_eq!(observer.status(1).state, STATE_RUNNING);
    machine.quit();
}

#[test]
fn a_silent_guest_ends_in_a_message_that_names_phase_and_state() {
    let words = [(counters(0).0, COUNTERS_MAGIC), (counters(0).0 + 8, 1), (status(0).0, 1)];
    let mut machine = Machine::start(options(&words, &WAIT_FOR_EVER)).expect("QEMU starts");
    machine.wait_for("the state", LIMIT, |view| (view.observer?.status(0).state == 1).then_some(())).expect("appears");
    let error = machine.wait_for_line("linux", "never", Duration::from_millis(20)).expect_err("nothing is printed");
    assert_eq!(error.exit_code(), exit_code::TIMEOUT);
    let text = error.to_string();
    assert!(text.contains("for linux to print \"never\""), "{text}");
    assert!(text.contains("partition linux: running"), "{text}");
    assert!(text.contains("core 0: its monitor checked the plan but has not entered the guest"), "{text}");
    assert!(text.contains("core 2: its monitor has not started"), "{text}");
}

#[test]
fn the_run_ends_when_every_partition_is_off_or_stopped() {
    let mut words = console_stores(guest_console(1), 1, "last words");
    words.extend(states(STATE_OFF, STATE_STOPPED));
    let mut machine = Machine::start(options(&words, &WAIT_FOR_EVER)).expect("QEMU starts");
    assert_eq!(machine.wait_for_end(LIMIT).expect("ends"), End::AllEnded);
    let texts: Vec<_> = machine.lines("control").map(|line| line.text.clone()).collect();
    assert_eq!(texts, ["last words"], "held-back output is given out at the end");
}

/// What a condition finds in RAM is newer than the lines that were taken before it was asked: those printed until then are
/// there when the wait is over. Here the guest prints and stops in that very moment.
#[test]
fn output_before_what_was_waited_for_is_there() {
    let mut machine = Machine::start(options(&states(STATE_RUNNING, STATE_RUNNING), &WAIT_FOR_EVER)).expect("starts");
    machine
        .wait_for("the start", LIMIT, |view| (view.observer?.status(1).state == STATE_RUNNING).then_some(()))
        .expect("runs");
    let stopped = machine.wait_for("the stop", LIMIT, |view| {
        let text: Vec<_> = (1..).zip(b"last words\n".iter().copied()).collect();
        write_ring(view.ram, vcpu_console(0, 0), &text);
        view.ram.write_at(status(0), &STATE_STOPPED.to_le_bytes()).expect("the page is in RAM");
        (view.observer?.status(0).state == STATE_STOPPED).then_some(())
    });
    stopped.expect("it stopped");
    let texts: Vec<_> = machine.lines("linux").map(|line| line.text.clone()).collect();
    assert_eq!(texts, ["last words"]);
}

#[test]
fn waiting_for_what_can_no_longer_come_ends_at_once() {
    let options = options(&states(STATE_OFF, STATE_STOPPED), &WAIT_FOR_EVER);
    let mut machine = Machine::start(options).expect("QEMU starts");
    let error = machine.wait_for_line("linux", "never", Duration::from_secs(86_400)).expect_err("nobody can print");
    assert!(matches!(error, RunError::EndedEarly { .. }), "{error}");
    assert!(error.to_string().contains("partition control: stopped"), "{error}");
}

#[test]
fn a_machine_that_powers_itself_off_ends_well() {
    let options = options(&states(STATE_RUNNING, STATE_RUNNING), &power_off());
    let mut machine = Machine::start(options).expect("QEMU starts");
    assert_eq!(machine.wait_for_end(LIMIT).expect("ends"), End::PoweredOff);
}

/// A boot loader that resets, for one: QEMU ends well, and nothing ran.
#[test]
fn a_machine_that_is_off_before_its_monitor_started_does_not_end_well() {
    let mut options = options(&[(0x0900_0000, u64::from(b'?'))], &power_off());
    preset(&mut options.image, &[(counters(0).0, 0), (counters(1).0, 0), (counters(2).0, 0)]);
    let mut machine = Machine::start(options).expect("QEMU starts");
    let error = machine.wait_for_end(LIMIT).expect_err("no monitor started");
    assert_eq!(error.exit_code(), exit_code::MONITOR);
    let text = error.to_string();
    assert!(
        text.contains("switched off or reset before") && text.contains("The serial line said last:\n  ?"),
        "{text}"
    );
}

#[test]
fn a_monitor_crash_is_decoded() {
    let record = counters(2).0 + offset_of!(CounterPage, crash) as u64;
    let words = [
        (record + 8, CRASH_PANIC),
        (record + 32, IMAGE_START + 0x40),
        (record + 48, 123),
        (record + 56, u64::from_le_bytes(*b"exit.rs\0")),
        (record, CRASH_MAGIC),
    ];
    let mut machine = Machine::start(options(&words, &WAIT_FOR_EVER)).expect("QEMU starts");
    let error = machine.wait_for_line("linux", "never", LIMIT).expect_err("the crash ends the wait");
    assert_eq!(error.exit_code(), exit_code::MONITOR);
    let text = error.to_string();
    assert!(text.contains("core 2 (partition control)"), "{text}");
    assert!(text.contains("panic at exit.rs:123") && text.contains("monitor text + 0x40"), "{text}");
}

#[test]
fn qemu_that_refuses_its_arguments_is_quoted() {
    let mut options = options(&[], &WAIT_FOR_EVER);
    options.extra = vec!["-no-such-option".to_owned()];
    let Err(error) = Machine::start(options) else { panic!("QEMU accepted nonsense") };
    assert_eq!(error.exit_code(), exit_code::QEMU);
    assert!(error.to_string().contains("no-such-option"), "{error}");
}

#[test]
fn a_killed_qemu_is_reported_with_its_signal() {
    let mut machine = Machine::start(options(&[], &WAIT_FOR_EVER)).expect("QEMU starts");
    // The shell's own `kill`: a minimal Debian has no program of that name.
    let pid = machine.qemu_pid().to_string();
    let killed = Command::new("sh").args(["-c", "kill -SEGV \"$0\"", &pid]).status().expect("the shell runs");
    assert!(killed.success());
    let error = machine.wait_for_end(LIMIT).expect_err("QEMU failed");
    assert!(matches!(error, RunError::QemuEnded { .. }));
    assert!(error.to_string().contains("killed by signal 11"), "{error}");
}

#[test]
fn a_missing_qemu_says_what_to_install() {
    let mut options = options(&[], &WAIT_FOR_EVER);
    options.qemu = "no-such-qemu-anywhere".into();
    let Err(error) = Machine::start(options) else { panic!("something started") };
    assert_eq!(error.exit_code(), exit_code::HOST);
    assert!(error.to_string().contains("apt-get install qemu-system-arm"), "{error}");
}

#[test]
fn instruction_counting_runs_repeat_exactly() {
    // Reads the counter after a fixed number of instructions: with -icount the value is the same in every run.
    let place = RAM_START.0 + (48 << 20);
    let mut program = stores(&[(place, 1)]);
    program.push(0xd53b_e040); // mrs x0, cntvct_el0
    program.extend(stores(&[]));
    program.extend([0xaa00_03e2, 0x5280_0003]); // mov x2, x0; mov w3, #0
    let tail = stores(&[(place + 8, 0)]);
    program.extend(&tail[..8]);
    program.extend([0xf900_0002, WAIT_FOR_EVER[0], WAIT_FOR_EVER[1]]); // str x2, [x0]
    let run = || {
        let mut options = MachineOptions::for_image(image(&two_partitions(), &program)).expect("a valid image");
        options.cores = 1;
        options.icount_shift = Some(4);
        let mut machine = Machine::start(options).expect("QEMU starts");
        let read = |address: u64| {
            move |view: &bulkhead_run::View<'_>| view.ram.load_u64(PhysicalAddress(address)).filter(|value| *value != 0)
        };
        machine.wait_for("the counter", LIMIT, read(place + 8)).expect("the program runs")
    };
    let (first, second) = (run(), run());
    assert_eq!(first, second);
}

/// Not a test by itself: with the variable set, holds a machine until killed (see the next test).
#[test]
fn hold_a_machine() {
    if std::env::var_os(HOLD).is_none() {
        return;
    }
    let machine = Machine::start(options(&[], &WAIT_FOR_EVER)).expect("QEMU starts");
    println!("\nqemu {}", machine.qemu_pid());
    loop {
        std::thread::park();
    }
}

/// "gone afterwards, whatever ends the run": SIGKILL leaves neither QEMU nor a file.
#[test]
fn a_killed_run_leaves_nothing_behind() {
    let mut holder = Command::new(std::env::current_exe().expect("a test knows its program"))
        .args(["--exact", "hold_a_machine", "--nocapture"])
        .env(HOLD, "1")
        .stdout(Stdio::piped())
        .spawn()
        .expect("the holder starts");
    let output = BufReader::new(holder.stdout.take().expect("stdout is a pipe"));
    let line = output.lines().map_while(Result::ok).find(|line| line.starts_with("qemu ")).expect("QEMU started");
    let qemu = line["qemu ".len()..].to_owned();
    let maps = std::fs::read_to_string(format!("/proc/{qemu}/maps")).expect("QEMU runs");
    let ram = maps.lines().find(|line| line.contains("/bulkhead-")).expect("the RAM file is mapped");
    assert!(ram.ends_with("/ram (deleted)"), "the RAM file has no name while the machine runs: {ram}");
    let path = ram.split_whitespace().find(|word| word.starts_with('/')).expect("a path");
    assert!(!Path::new(path).parent().expect("a directory").exists(), "its private directory is gone too");
    holder.kill().expect("the holder can be killed");
    holder.wait().expect("the holder ends");
    wait_until_gone(&qemu);
}
