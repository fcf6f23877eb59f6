//! Shared cores: storms of interrupts take what their server may take, and nothing else from anybody.

use bulkhead_abi::observe::Counter;
use bulkhead_system_tests::Running;
use bulkhead_system_tests::sharing::{
    BY_PRIORITY, Description, EXCHANGE, Supply, TICKS_PER_MILLISECOND as MS, WAY_IN, field, finish,
};

const BLUR: u64 = Supply::BLUR;
/// What the first interrupt for a guest that may not run takes from who runs.
const ENTRY: u64 = 900;
/// Pieces in which a sporadic budget comes back at the most.
const CHUNKS: u64 = 8;
/// When everybody has been prepared, and when the victims end.
const START_MS: u64 = 150;
const END_MS: u64 = 500;
/// Windows of the bounds.
const WINDOW: u64 = 10 * MS;

fn hog() -> String {
    format!("role=hog start_us={} end_us={}", START_MS * 1000, END_MS * 1000)
}

fn sporadic(priority: u32, budget_us: u32, more: &str) -> String {
    format!(
        "servers = [ {{ priority = {priority}, rule = \"sporadic\", budget = \"{budget_us} us\", period = \"10 ms\"{more} }} ]"
    )
}

fn port(name: &str, direction: &str) -> String {
    format!("ports = [ {{ name = \"{name}\", direction = \"{direction}\", kind = \"sampling\", message_bytes = 64 }} ]")
}

const BELL: &str =
    "[[channel]]\nname = \"bell\"\nsource = \"stormer.out\"\ndestination = \"receiver.in\"\ndoorbell = true";

/// A guest that takes doorbells as fast as they come: it answers none, so it waits for ever and is not waited for.
fn receiver(description: Description, rest: &str) -> Description {
    // What it waits for never comes in full; the guard of each wait ends it.
    let rest = format!("{rest}\n{}", port("in", "destination"));
    description.guest("receiver", 0, "wakeups", "role=own count=1500 start_us=20000", &rest)
}

/// Bound of what is left for the victim below `servers` servers that have `taken_us` microseconds in 10 ms together.
fn least_left(running: &Running, taken_us: u64, servers: u64) {
    let supply = Supply::of(running, "victim");
    let least = supply.least_in(WINDOW);
    let bound = WINDOW - taken_us * MS / 1000 - servers * ((CHUNKS + 1) * (WAY_IN + ENTRY) + EXCHANGE) - BLUR;
    println!("the victim has {least} ticks or more in {WINDOW}, at least {bound}");
    assert!(least >= bound, "{least} ticks in {WINDOW}, at least {bound}");
}

/// MZ-26, QV-35: a storm of doorbells on one core takes the budgets of sender and receiver.
#[test]
fn a_storm_of_doorbells_takes_its_budgets() {
    let description = Description::new("shared-storms").schedule(0, BY_PRIORITY);
    let description = receiver(description, &sporadic(1, 1000, ""));
    let storm = format!("role=storm start_us={} end_us={}", START_MS * 1000, END_MS * 1000);
    let rest = format!("{}\n{}", sporadic(2, 2000, ""), port("out", "source"));
    let description = description.guest("stormer", 0, "experiment", &storm, &rest);
    let description = description.guest("victim", 0, "experiment", &hog(), "servers = [ { priority = 9 } ]");
    let running = finish(&description.table(BELL).build());
    let sent = running.counter("stormer", Counter::DoorbellSent);
    assert!(sent > 10_000, "{sent} rings make a storm");
    least_left(&running, 3000, 2);
    for (partition, budget_us) in [("receiver", 1000), ("stormer", 2000)] {
        let usage = running.final_usage(0);
        let used = usage.servers[running.server(0, partition, 0)].budgeted_ticks;
        let most = (usage.time_ticks.div_ceil(WINDOW) + 1) * budget_us * MS / 1000 + EXCHANGE;
        assert!(used <= most, "{partition} used {used} of {most}");
    }
}

/// MZ-26, QV-35, CH-39: the same from another core, where nothing bounds the sender: the receiver's budget does.
#[test]
fn a_storm_from_another_core_takes_the_receivers_budget() {
    let description = Description::new("shared-storms").schedule(0, BY_PRIORITY);
    let description = receiver(description, &sporadic(1, 1000, ""));
    let description = description.guest("victim", 0, "experiment", &hog(), "servers = [ { priority = 9 } ]");
    let storm = format!("role=storm start_us={} end_us={} pause_ns=20000", START_MS * 1000, (END_MS - 50) * 1000);
    let description = description.guest("stormer", 1, "experiment", &storm, &port("out", "source"));
    let running = finish(&description.table(BELL).build());
    let sent = running.counter("stormer", Counter::DoorbellSent);
    assert!(sent > 1000, "{sent} rings make a storm");
    let usage = running.final_usage(0);
    let periods = usage.time_ticks.div_ceil(WINDOW) + 1;
    let used = usage.servers[running.server(0, "receiver", 0)].budgeted_ticks;
    assert!(used <= periods * MS + EXCHANGE, "the receiver used {used} ticks in {periods} periods");
    // Two cores on one clock blur what the victim sees of time, so its interrupts are counted: one for each piece of the
    // receiver's budget and one for each of its absences, whatever is sent.
    let interrupts = running.counter("victim", Counter::Interrupt);
    println!("{sent} rings, {interrupts} interrupts of the victim in {periods} periods");
    assert!(interrupts <= 2 * CHUNKS * periods, "{interrupts} interrupts in {periods} periods");
}

/// MZ-26: a storm of a guest's own timer, as fast as it can be answered.
#[test]
fn a_storm_of_timers_takes_its_budget() {
    for background in ["sleep", "compute"] {
        let description = Description::new("shared-storms").schedule(0, BY_PRIORITY);
        let wire =
            format!("role=wire requests=100000 spacing_us=5 background={background} start_us=150000 end_us=490000");
        let description = description.guest("stormer", 0, "experiment", &wire, &sporadic(1, 2000, ""));
        let description = description.guest("victim", 0, "experiment", &hog(), "servers = [ { priority = 9 } ]");
        let running = finish(&description.build());
        let served = field(&running.printed("stormer", "wire entry"), "n");
        assert!(served > 2000, "{served} interrupts make a storm");
        least_left(&running, 2000, 1);
    }
}

/// QV-35, SG-45, MZ-26: a storm behind an interrupt gate takes the gate's budget and then its own server's place.
#[test]
fn a_storm_behind_a_gate_takes_the_gates_budget() {
    let description = Description::unjudged("shared-storms").schedule(0, BY_PRIORITY);
    let wire = "role=wire requests=100000 spacing_us=20 background=compute start_us=150000 end_us=490000";
    let servers = "servers = [\n    \
        { name = \"gate\", priority = 0, rule = \"sporadic\", budget = \"500 us\", period = \"10 ms\", gate = \"interrupt\" },\n    \
        { name = \"own\", priority = 20 },\n]";
    let description = description.guest("stormer", 0, "experiment", wire, servers);
    let description = description.guest("victim", 0, "experiment", &hog(), "servers = [ { priority = 9 } ]");
    let running = finish(&description.build());
    least_left(&running, 500, 1);
    let usage = running.final_usage(0);
    let used = usage.servers[running.server(0, "stormer", 0)].budgeted_ticks;
    assert!(used >= 30 * MS / 2 * 9 / 10, "the gate opened for {used} ticks");
}

/// MZ-17, MZ-18, CH-39: of a source that rings again and again while its owner may not run, who runs sees one interrupt per absence,
/// by priority and with the route `defer`; the owner gets it afterwards.
#[test]
fn an_absent_owner_costs_one_exit_per_source() {
    for route in ["priority", "defer"] {
        let description = Description::unjudged("shared-storms").schedule(0, BY_PRIORITY);
        let rest = format!("route = \"{route}\"\nservers = [ {{ priority = 20 }} ]");
        let description = receiver(description, &rest);
        let storm = "role=storm start_us=150000 end_us=300000";
        let above = format!("servers = [ {{ priority = 1 }} ]\n{}", port("out", "source"));
        let description = description.guest("stormer", 0, "experiment", storm, &above);
        let running = finish(&description.table(BELL).build());
        let (sent, seen) =
            (running.counter("stormer", Counter::DoorbellSent), running.counter("stormer", Counter::Interrupt));
        println!("{route}: {sent} rings, {seen} interrupts");
        assert!(sent > 10_000, "{sent} rings make a storm");
        // Its own timer, which begins the storm, and the one ring that is held.
        assert!(seen <= 4, "{route}: {seen} interrupts while the owner was absent, of {sent} rings");
        let held = running.final_usage(0).slots[running.slot(0, "receiver")].interrupts_held;
        assert!((1..=2).contains(&held), "{route}: {held} interrupts held");
    }
}
