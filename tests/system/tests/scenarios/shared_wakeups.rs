//! Shared cores: a sleeping vCPU wakes for every interrupt of its own, in time, and no wake-up is ever lost.

use bulkhead_abi::observe::Counter;
use bulkhead_system_tests::Running;
use bulkhead_system_tests::sharing::{BY_PRIORITY, Description, TICKS_PER_MILLISECOND, field, finish, ticks_of_us};
use bulkhead_system_tests::wakes::{Relay, Wakes, ports};

const PORTS: &str = "ports = [\n    \
    { name = \"out\", direction = \"source\", kind = \"sampling\", message_bytes = 64 },\n    \
    { name = \"in\", direction = \"destination\", kind = \"sampling\", message_bytes = 64 },\n]";
/// From a timer's date to the handler in a vCPU that is more important than who runs. The longest case is a date that comes when the
/// monitor begins to load another one and to publish what the core has used; then comes its own loading.
const EXCHANGE: u64 = 3200;
/// When all guests of a test have started, so that nobody is delayed by the preparation of another one.
const STARTED_US: u64 = 20_000;
const COUNT: u64 = 3000;

fn priority(priority: u32) -> String {
    format!("servers = [ {{ priority = {priority} }} ]")
}

fn waiting(role: &str, count: u64, seed: u32) -> String {
    format!("role={role} count={count} seed={seed} start_us={STARTED_US}")
}

fn hog(until_us: u64) -> String {
    format!("role=hog start_us={STARTED_US} end_us={until_us} log=0")
}

fn channel(from: &str, to: &str) -> String {
    format!("[[channel]]\nname = \"{from}-{to}\"\nsource = \"{from}.out\"\ndestination = \"{to}.in\"\ndoorbell = true")
}

/// What was sent has come, no wait was ended by its guard; returns the longest lateness of its timer.
fn complete(running: &Running, partition: &str, count: u64) -> u64 {
    let lines = running.texts(partition);
    assert!(lines.iter().all(|line| !line.contains("FAILED")), "{partition}: {lines:?}");
    let done = running.printed(partition, "wakeups done");
    println!("{partition}: {done}");
    assert_eq!((field(&done, "sent"), field(&done, "received"), field(&done, "lost")), (count, count, 0), "{done}");
    field(&done, "late")
}

/// SP-14, SP-16: the most important vCPU wakes from every kind of wait at the date of its timer, within one exchange, although
/// another one computes.
#[test]
fn the_most_important_one_wakes_at_its_date() {
    let description = Description::unjudged("shared-wakeups").schedule(0, BY_PRIORITY);
    let description = description.guest("own", 0, "wakeups", &waiting("own", COUNT, 1), &priority(1));
    let running = finish(&description.guest("hog", 0, "experiment", &hog(600_000), &priority(9)).build());
    let late = complete(&running, "own", COUNT);
    assert!((100..=EXCHANGE).contains(&late), "late by {late} ticks");
    let slept = field(&running.printed("own", "wakeups done"), "slept");
    assert!(slept < 50, "a WFI with an interrupt pending returns at once, not after {slept} ticks");
    assert!(running.counter("own", Counter::WaitForInterrupt) > COUNT / 4, "it did sleep");
}

/// SP-16, SP-17: alone on a shared core, so that the core idles at EL2 in between.
#[test]
fn a_core_on_which_everybody_sleeps_wakes() {
    let description = Description::unjudged("shared-wakeups").schedule(0, BY_PRIORITY);
    let description = description.guest("first", 0, "wakeups", &waiting("own", COUNT, 1), &priority(1));
    let description = description.guest("second", 0, "wakeups", &waiting("own", COUNT, 2), &priority(2));
    let running = finish(&description.guest("third", 0, "wakeups", &waiting("own", COUNT, 3), &priority(3)).build());
    let late = ["first", "second", "third"].map(|partition| complete(&running, partition, COUNT));
    assert!(late[0] <= EXCHANGE, "the most important one is late by {} ticks", late[0]);
    let usage = running.final_usage(0);
    let busy: u64 = usage.servers.iter().map(|server| server.budgeted_ticks + server.background_ticks).sum();
    assert!(usage.idle_ticks > 0 && busy > 0, "the core idled for {} ticks", usage.idle_ticks);
}

/// SP-14: how late the timer of a less important vCPU is, is what the more important one may take at once: its budget.
#[test]
fn lateness_is_bounded_by_the_load_above() {
    let description = Description::unjudged("shared-wakeups").schedule(0, BY_PRIORITY);
    let above = "servers = [ { priority = 1, rule = \"sporadic\", budget = \"1 ms\", period = \"5 ms\" } ]";
    let description = description.guest("hog", 0, "experiment", &hog(900_000), above);
    let description = description.guest("own", 0, "wakeups", &waiting("own", COUNT, 1), &priority(5));
    let running = finish(&description.guest("below", 0, "experiment", &hog(900_000), &priority(9)).build());
    let late = complete(&running, "own", COUNT);
    let most = TICKS_PER_MILLISECOND + 2 * EXCHANGE;
    // In 3000 waits of a fifth of a millisecond each some begin just before the hog.
    assert!((TICKS_PER_MILLISECOND * 9 / 10..=most).contains(&late), "late by {late} ticks of {most}");
}

/// SP-14, MZ-20: in turns without an interrupt policy, a vCPU's interrupt waits for its turn and not longer.
#[test]
fn in_turns_an_interrupt_waits_for_the_turn_at_most() {
    const QUANTUM_US: u64 = 300;
    let schedule = format!("kind = \"round-robin\"\nquantum = \"{QUANTUM_US} us\"");
    let description = Description::new("shared-wakeups").schedule(0, &schedule);
    let description = description.guest("own", 0, "wakeups", &waiting("own", 1000, 1), "");
    let description = description.guest("one", 0, "experiment", &hog(1_500_000), "");
    let running = finish(&description.guest("two", 0, "experiment", &hog(1_500_000), "").build());
    let late = complete(&running, "own", 1000);
    let most = 2 * ticks_of_us(QUANTUM_US) + 3 * EXCHANGE;
    assert!((ticks_of_us(QUANTUM_US)..=most).contains(&late), "late by {late} ticks of {most}");
}

/// Two partitions that ring each other's doorbells.
fn ring_each_other(description: Description, count: u64, priorities: [u32; 2], ping_core: u32) -> Running {
    let argument = |role: &str, start_us: u64| format!("role={role} count={count} start_us={start_us}");
    let servers = |on_core: u32, number| if on_core == 0 { priority(number) } else { String::new() };
    let [ping, pong] =
        [servers(ping_core, priorities[0]), servers(0, priorities[1])].map(|text| format!("{text}\n{PORTS}"));
    // Who answers must be there when the first bell rings: a start begins with no interrupt pending.
    let description = description.guest("pong", 0, "wakeups", &argument("pong", 0), &pong);
    let description = description.guest("ping", ping_core, "wakeups", &argument("ping", 5 * STARTED_US), &ping);
    let running = finish(&description.table(&channel("ping", "pong")).table(&channel("pong", "ping")).build());
    for partition in ["ping", "pong"] {
        complete(&running, partition, count);
        assert_eq!(running.counter(partition, Counter::DoorbellSent), count);
    }
    running
}

/// SP-14: doorbells between two partitions of one core, each ring answered by one; none is lost.
#[test]
fn doorbells_on_one_core_all_arrive() {
    let description = Description::unjudged("shared-wakeups").schedule(0, BY_PRIORITY);
    let description = description.guest("hog", 0, "experiment", &hog(150_000), &priority(9));
    let running = ring_each_other(description, 3000, [4, 3], 0);
    assert!(running.final_usage(0).switches >= 6000, "each bell changes who runs");
}

/// SP-14: of two equals nobody pre-empts the other; who spins is ended by its quantum.
#[test]
fn doorbells_between_equals_all_arrive() {
    let quanta = "kind = \"fixed-priority\"\nquanta = [ { priority = 3, quantum = \"50 us\" } ]";
    ring_each_other(Description::new("shared-wakeups").schedule(0, quanta), 3000, [3, 3], 0);
}

/// SP-14: the same with the other partition on a core of its own, and a more important one as a disturbance.
#[test]
fn doorbells_from_another_core_all_arrive() {
    let description = Description::unjudged("shared-wakeups").schedule(0, BY_PRIORITY);
    let above = "role=wire requests=200 spacing_us=150 dither_us=50 background=sleep start_us=100000";
    let description = description.guest("above", 0, "experiment", above, &priority(1));
    let description = description.guest("hog", 0, "experiment", &hog(160_000), &priority(9));
    ring_each_other(description, 300, [3, 3], 1);
}

/// SP-14, SP-17, MZ-17: the interrupt of a device that belongs to a sleeping vCPU wakes it while another one computes, and
/// while nobody does; with the route `defer` when nobody does.
#[test]
fn a_device_wakes_its_owner() {
    for (route, until_us) in [("priority", 1_500_000), ("priority", 30_000), ("defer", 30_000)] {
        let description = Description::unjudged("shared-wakeups").schedule(0, BY_PRIORITY);
        let rest = format!("{}\ndevices = [ {{ name = \"rtc\", route = \"{route}\" }} ]", priority(2));
        let description = description.guest("clock", 0, "rtc", "alarms=2", &rest);
        let running = finish(&description.guest("hog", 0, "experiment", &hog(until_us), &priority(9)).build());
        let texts = running.texts("clock");
        let said: Vec<_> = texts.into_iter().filter(|text| !text.starts_with("bench ")).collect();
        assert_eq!(said, ["rtc start", "rtc alarm", "rtc alarm", "rtc done"], "{route} {until_us}");
    }
}

/// CH-41: of the rings that come while their receiver may not run two arrive: one is active, one is pending, and the others join
/// that one.
#[test]
fn rings_of_an_absent_receiver_become_two() {
    const START: u64 = 120 * TICKS_PER_MILLISECOND;
    const PERIOD: u64 = 40_000;
    const COUNT: u64 = 200;
    for (rings, arrive) in [(1, 1), (2, 2), (7, 2)] {
        let ringer = Relay::by_timer(START, PERIOD, COUNT).with("rings", rings);
        // It waits for more than can come, and gives up.
        let receiver = Relay::by_bells(rings * COUNT + 1, START + (COUNT + 2) * PERIOD);
        let description = Description::unjudged("shared-wakeups").schedule(0, BY_PRIORITY);
        let description = description.relay("ringer", &ringer, &format!("{}\n{}", priority(1), ports(0..1, 0..0)));
        let description = description.relay("receiver", &receiver, &format!("{}\n{}", priority(2), ports(0..0, 0..1)));
        let running = finish(&description.bell(0, "ringer", "receiver").build());
        let [ringer, receiver] = ["ringer", "receiver"].map(|name| Wakes::of(&running, name));
        assert_eq!((ringer.sent, receiver.bells), (rings * COUNT, arrive * COUNT), "{rings} rings at once");
    }
}
