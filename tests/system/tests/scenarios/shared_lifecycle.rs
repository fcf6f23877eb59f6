//! Shared cores: starts, restarts, suspensions and watchdogs of one partition while others use the core.

use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::hypercall::{
    CALL_HEARTBEAT, CALL_PARTITION_RESTART, CALL_PARTITION_RESUME, CALL_PARTITION_STATUS, CALL_PARTITION_SUSPEND,
    CALL_VERSION, SUCCESS,
};
use bulkhead_abi::observe::Counter;
use bulkhead_abi::status::{
    REASON_DATA_ABORT, REASON_MANAGED, REASON_REQUESTED, REASON_WATCHDOG, STATE_OFF, STATE_RUNNING, STATE_STOPPED,
    STATE_SUSPENDED,
};
use bulkhead_run::End;
use bulkhead_system_tests::assemble::Program;
use bulkhead_system_tests::remote::{self, GUEST_RAM};
use bulkhead_system_tests::sharing::{BY_PRIORITY, Description, TICKS_PER_MILLISECOND as MS, field, finish};
use bulkhead_system_tests::{LIMIT, Remote, Running};

/// The longest that a neighbour's interrupt waits while another partition is prepared: one slice, the decision, an exchange.
const SLICE: u64 = 5000;
const SYSTEM_OFF: u64 = 0x8400_0008;
const SYSTEM_RESET: u64 = 0x8400_0009;
const WAITS: u64 = 4000;

/// Works for a while, then does something that ends its run: a load from nowhere, or a call.
fn ending(after: u64, end: impl FnOnce(&mut Program)) -> Program {
    let mut program = Program::new();
    program.constant(19, after);
    let again = program.here();
    program.subtract(19, 19, 1).branch_not_zero(19, again);
    end(&mut program);
    program.stay();
    program
}

/// A victim that waits in every way, and above or below it a partition of 16 MiB whose runs end again and again.
fn beside_restarts(program: &Program, server: &str, more: &str, restarts: u32) -> Running {
    let description = Description::unjudged("shared-lifecycle").schedule(0, BY_PRIORITY);
    let arguments = format!("role=own count={WAITS} start_us=20000");
    let description = description.guest("victim", 0, "wakeups", &arguments, "servers = [ { priority = 3 } ]");
    let rest = format!("{server}\nhealth = {{ on_fault = \"restart\", max = {restarts}, within = \"600 s\" }}\n{more}");
    let text = format!(
        "[[partition]]\nname = \"ending\"\ncores = [0]\nmemory = \"16 MiB\"\n\
         image = {{ kind = \"raw\", file = \"ending.bin\", load = 0x4008_0000 }}\nconsole = \"none\"\n{rest}"
    );
    let system = description.table(&text).build_with(&[("ending", program)]);
    let mut running = system.start_exact(4);
    running.line("victim", "wakeups done");
    running.assert_no_crash();
    running.assert_image_intact(&system);
    running
}

fn late(running: &Running) -> u64 {
    let line = running.printed("victim", "wakeups done");
    println!("{line}");
    assert_eq!((field(&line, "sent"), field(&line, "received"), field(&line, "lost")), (WAITS, WAITS, 0), "{line}");
    field(&line, "late")
}

/// QV-74, MZ-26: a restart of 16 MiB takes a million instructions; a more important neighbour waits for a slice of it at most.
/// So it is for a fault, a reset that the guest asks for, and a watchdog.
#[test]
fn a_restart_delays_a_neighbour_by_one_slice() {
    let fault = ending(20_000, |program| {
        program.constant(0, 0).load(1, 0, 0);
    });
    let reset = ending(20_000, |program| {
        program.constant(0, SYSTEM_RESET).call();
    });
    let silent = ending(20_000, |program| {
        program.spin();
    });
    let below = "servers = [ { priority = 9 } ]";
    for (program, more, reason) in [
        (&fault, "", REASON_DATA_ABORT),
        (&reset, "", REASON_REQUESTED),
        (&silent, "watchdog = \"5 ms\"", REASON_WATCHDOG),
    ] {
        let running = beside_restarts(program, below, more, 100);
        let late = late(&running);
        let status = running.status("ending");
        assert!(status.restarts >= 5, "{} restarts", status.restarts);
        assert_eq!(status.fault.reason, reason);
        assert!(late <= SLICE, "the neighbour was late by {late} ticks");
    }
}

/// QV-74: what a restart takes is charged to who restarts: with 1 ms in 10 ms above its neighbour it takes that and no more, and
/// needs as many periods as the work has milliseconds.
#[test]
fn a_restart_is_paid_by_its_partition() {
    let fault = ending(20_000, |program| {
        program.constant(0, 0).load(1, 0, 0);
    });
    let above = "servers = [ { priority = 1, rule = \"sporadic\", budget = \"1 ms\", period = \"10 ms\" } ]";
    let running = beside_restarts(&fault, above, "", 100);
    let late = late(&running);
    assert!((MS * 8 / 10..=MS + SLICE).contains(&late), "the neighbour was late by {late} ticks, the budget is {MS}");
    let status = running.status("ending");
    assert!(status.restarts >= 2, "{} restarts", status.restarts);
    // Five milliseconds of work at a tenth of the core.
    assert!((30 * MS..=200 * MS).contains(&status.restart_ticks), "a restart took {} ticks", status.restart_ticks);
}

/// SG-62: a back-off is waited for while others run, and ends at its date.
#[test]
fn a_back_off_leaves_the_core_to_others() {
    const RESTARTS: u32 = 12;
    let fault = ending(1000, |program| {
        program.constant(0, 0).load(1, 0, 0);
    });
    let description = Description::unjudged("shared-lifecycle").schedule(0, BY_PRIORITY);
    let hog = "role=hog start_us=30000 end_us=400000 log=0";
    let description = description.guest("hog", 0, "experiment", hog, "servers = [ { priority = 9 } ]");
    let rest = format!(
        "servers = [ {{ priority = 3 }} ]\n\
         health = {{ on_fault = \"restart\", max = {RESTARTS}, within = \"600 s\", backoff = \"20 ms\" }}"
    );
    let system = description.program("ending", 0, "ending", &rest).build_with(&[("ending", &fault)]);
    let mut running = system.start_exact(4);
    assert_eq!(running.end(), End::AllEnded);
    let line = running.printed("hog", "hog first=");
    let status = running.status("ending");
    assert_eq!((status.state, status.restarts), (STATE_STOPPED, RESTARTS));
    // Fault, 20 ms, and what preparing 4 MiB takes.
    let period = status.restart_ticks;
    assert!((21 * MS..=28 * MS).contains(&period), "from fault to start {period} ticks");
    // Each start is about as long after the one before it.
    let whole = status.fault.time_ticks / (u64::from(RESTARTS) * period / 100);
    assert!((95..=115).contains(&whole), "{RESTARTS} restarts in {} ticks, {period} each", status.fault.time_ticks);
    let share = field(&line, "ran") * 100 / (field(&line, "last") - field(&line, "first"));
    assert!(share >= 75, "the other one had {share} % of the time");
    running.assert_no_crash();
}

/// SG-61: in turns, the silent one of two is stopped at its date, and the other one is watched for as long as it runs.
#[test]
fn a_watchdog_bites_beside_another_one() {
    let mut beating = Program::new();
    beating.constant(20, MS).counter(21);
    let beat = beating.here();
    beating.word(0x8b14_02b5); // ADD x21, x21, x20
    let wait = beating.here();
    beating.counter(22).compare(22, 21).branch_below(wait);
    beating.constant(0, CALL_HEARTBEAT).call().branch(beat);
    let mut silent = Program::new();
    silent.spin();
    let schedule = "kind = \"round-robin\"\nquantum = \"500 us\"";
    let description = Description::new("shared-lifecycle").schedule(0, schedule);
    let description = description.program("beating", 0, "beating", "watchdog = \"20 ms\"");
    let description = description.program("silent", 0, "silent", "watchdog = \"20 ms\"");
    let system = description.build_with(&[("beating", &beating), ("silent", &silent)]);
    let mut running = system.start_exact(4);
    let status = running.wait_for_state("silent", STATE_STOPPED);
    assert_eq!((status.reason, status.fault.reason), (REASON_WATCHDOG, REASON_WATCHDOG));
    let took = status.fault.time_ticks - status.started_ticks;
    assert!((20 * MS - 2000..=21 * MS).contains(&took), "bitten after {took} ticks");
    running.wait_for_status("beating", "heartbeats", |status| status.heartbeats > 100);
    assert_eq!(running.status("beating").state, STATE_RUNNING);
    assert!(running.counter("beating", Counter::Watchdog) > 3);
    running.assert_no_crash();
}

/// SG-61: a guest that computes alone on a shared core, with nothing else for the core to decide, is stopped at its date.
#[test]
fn a_watchdog_bites_who_computes_alone() {
    let (mut silent, mut off) = (Program::new(), Program::new());
    silent.spin();
    off.constant(0, SYSTEM_OFF).call().stay();
    let description = Description::unjudged("shared-lifecycle").schedule(0, BY_PRIORITY);
    let description = description.program("off", 0, "off", "servers = [ { priority = 1 } ]");
    let description =
        description.program("silent", 0, "silent", "servers = [ { priority = 2 } ]\nwatchdog = \"20 ms\"");
    let mut running = description.build_with(&[("off", &off), ("silent", &silent)]).start_exact(4);
    let status = running.wait_for_state("silent", STATE_STOPPED);
    assert_eq!((status.reason, status.fault.reason), (REASON_WATCHDOG, REASON_WATCHDOG));
    let took = status.fault.time_ticks - status.started_ticks;
    assert!((20 * MS - 2000..=20 * MS + 2000).contains(&took), "bitten after {took} ticks");
    running.assert_no_crash();
}

const COUNT: u64 = 0x20_0000;

/// Counts in a word of its RAM.
fn counting() -> Program {
    let mut program = Program::new();
    program.constant(19, GUEST_RAM + COUNT).constant(20, 0);
    let again = program.here();
    program.add(20, 20, 1).store(20, 19, 0).branch(again);
    program
}

fn place(running: &Running, partition: &str) -> PhysicalAddress {
    let ram = running.watch().plan().partitions[running.index(partition)].ram[0].physical;
    PhysicalAddress(ram.0 + COUNT)
}

fn count(running: &Running, partition: &str) -> u64 {
    running.ram().load_u64(place(running, partition)).expect("the count is in RAM")
}

fn wait_for_progress(running: &mut Running, partition: &str, than: u64) {
    let place = place(running, partition);
    let waited = running.wait_for("progress", LIMIT, |view| (view.ram.load_u64(place)? > than).then_some(()));
    waited.unwrap_or_else(|error| panic!("{error}"));
}

fn let_time_pass(manager: &mut Remote, running: &mut Running) {
    for _ in 0..50 {
        manager.call(running, CALL_VERSION, 0);
    }
}

/// A manager (on its target's core, or on another one) suspends, resumes and restarts a partition that computes.
fn managed(manager_core: u32, schedule: &str, server: &str) {
    let target = 1;
    let description = Description::new("shared-lifecycle").schedule(0, schedule);
    let own = if manager_core == 0 { server } else { "" };
    // How fast the host asks is up to the host.
    let limit = "manage_limit = { limit = 1000, per = \"100 ms\" }";
    let description =
        description.program("manager", manager_core, "remote", &format!("manages = true\n{limit}\n{own}"));
    let description = description.program("target", 0, "counting", server);
    let description = description.program("neighbour", 0, "counting", server);
    let system = description.build_with(&[("remote", &remote::program()), ("counting", &counting())]);
    // No instruction counting: the host acts while the machine runs.
    let mut running = system.start();
    let mut manager = Remote::new(&mut running, "manager");
    running.wait_for_state("target", STATE_RUNNING);
    for round in 0..5 {
        wait_for_progress(&mut running, "target", 0);
        assert_eq!(manager.call(&mut running, CALL_PARTITION_SUSPEND, target)[0], SUCCESS);
        running.wait_for_state("target", STATE_SUSPENDED);
        let status = manager.call(&mut running, CALL_PARTITION_STATUS, target);
        assert_eq!(status[1..3], [u64::from(STATE_SUSPENDED), u64::from(REASON_MANAGED)]);
        let stands = count(&running, "target");
        let neighbour = count(&running, "neighbour");
        let_time_pass(&mut manager, &mut running);
        wait_for_progress(&mut running, "neighbour", neighbour);
        assert_eq!(count(&running, "target"), stands, "a suspended partition executes nothing");

        assert_eq!(manager.call(&mut running, CALL_PARTITION_RESUME, target)[0], SUCCESS);
        running.wait_for_state("target", STATE_RUNNING);
        wait_for_progress(&mut running, "target", stands);

        assert_eq!(manager.call(&mut running, CALL_PARTITION_RESTART, target)[0], SUCCESS);
        let status = running.wait_for_status("target", "a restart", |status| {
            status.state == STATE_RUNNING && status.generation == round + 2
        });
        assert_eq!((status.reason, status.restarts, status.faults), (REASON_MANAGED, round + 1, 0));
    }
    wait_for_progress(&mut running, "target", 0);
    assert_eq!(running.status("neighbour").generation, 1);
    assert_eq!(running.counter("manager", Counter::DeniedCall), 0);
    running.assert_no_crash();
}

/// SG-60, SG-61: a manager on the core of its target, in turns and with budgets.
#[test]
fn a_manager_on_the_same_core_manages() {
    managed(0, "kind = \"round-robin\"\nquantum = \"1 ms\"", "");
    managed(0, BY_PRIORITY, "servers = [ { priority = 3, budget = \"2 ms\", period = \"7 ms\" } ]");
}

/// SG-60, SG-61: a manager on a core of its own.
#[test]
fn a_manager_on_another_core_manages() {
    managed(1, "kind = \"round-robin\"\nquantum = \"1 ms\"", "");
    managed(1, BY_PRIORITY, "servers = [ { priority = 3, budget = \"2 ms\", period = \"7 ms\" } ]");
}

/// Asks until partition 1 is in a state.
fn wait_for(program: &mut Program, state: u32) {
    program.constant(20, u64::from(state));
    let ask = program.here();
    program.constant(0, CALL_PARTITION_STATUS).constant(1, 1).call();
    program.word(0xeb14_0021).branch_not_zero(1, ask); // SUBS x1, x1, x20
}

/// Suspends and resumes partition 1 this many times, each time when it is so, with a pause after each; then switches
/// itself off.
fn suspending(times: u64, pause: u64) -> Program {
    let mut program = Program::new();
    program.constant(19, times);
    // What has not started cannot be suspended.
    wait_for(&mut program, STATE_RUNNING);
    let again = program.here();
    for (call, state) in [(CALL_PARTITION_SUSPEND, STATE_SUSPENDED), (CALL_PARTITION_RESUME, STATE_RUNNING)] {
        program.constant(0, call).constant(1, 1).call();
        wait_for(&mut program, state);
        program.constant(21, pause);
        let turn = program.here();
        program.subtract(21, 21, 1).branch_not_zero(21, turn);
    }
    program.subtract(19, 19, 1).branch_not_zero(19, again);
    program.constant(0, SYSTEM_OFF).call().stay();
    program
}

/// SG-60, SP-14: a partition that is suspended in its sleep loses nothing: the timer that passed meanwhile wakes it when it is
/// resumed. The manager counts by instructions, so each time is the same in every run.
#[test]
fn a_sleeper_that_is_suspended_wakes_after_its_resume() {
    const SUSPENSIONS: u64 = 40;
    let description = Description::new("shared-lifecycle").schedule(0, "kind = \"round-robin\"\nquantum = \"1 ms\"");
    // Two requests in three milliseconds are more than the limit that holds when none is given.
    let manages = "manages = true\nmanage_limit = { limit = 100, per = \"100 ms\" }";
    let description = description.program("manager", 0, "suspending", manages);
    let description = description.guest("sleeper", 0, "wakeups", "role=own count=1500", "");
    // A turn is two instructions: a millisecond and a half, several dates of the sleeper.
    let running = finish(&description.build_with(&[("suspending", &suspending(SUSPENSIONS, 45_000))]));
    let done = running.printed("sleeper", "wakeups done");
    println!("{done}");
    assert_eq!((field(&done, "sent"), field(&done, "received"), field(&done, "lost")), (1500, 1500, 0), "{done}");
    let end = |partition: &str| running.status(partition).state;
    assert_eq!((end("manager"), end("sleeper")), (STATE_OFF, STATE_OFF));
    // Two requests and at least two questions each time, all of which were answered.
    let calls = running.counter("manager", Counter::Hypercall);
    assert!(calls >= 4 * SUSPENSIONS, "{calls} calls");
    assert_eq!(running.counter("manager", Counter::DeniedCall), 0);
}
