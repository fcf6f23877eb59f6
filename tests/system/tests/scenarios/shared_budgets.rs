//! Shared cores: what a server may use it gets, what it may not use it does not get, and the accounts add up.

use bulkhead_abi::schedule::UsagePage;
use bulkhead_system_tests::Running;
use bulkhead_system_tests::sharing::{
    BY_PRIORITY, Description, EXCHANGE, Supply, TICKS_PER_MILLISECOND, WAY_IN, finish, ticks_of_us,
};

const START_MS: u64 = 30;
/// Longest time from the end of a budget to the moment at which it is noticed.
const OVERRUN: u64 = 400;
/// What a log in blocks of 2,000 ticks may hide of an absence in the mean.
const LOG: u64 = 600;

fn hog(until_ms: u64) -> String {
    format!("role=hog start_us={} end_us={}", START_MS * 1000, until_ms * 1000)
}

fn servers(text: &str) -> String {
    format!("servers = [ {{ {text} }} ]")
}

/// Two hogs: one with a server, the other below it with all the rest.
fn beside_a_hog(server: &str, until_ms: u64) -> Running {
    let description = Description::new("shared-budgets").schedule(0, BY_PRIORITY);
    let description = description.guest("served", 0, "experiment", &hog(until_ms), &servers(server));
    finish(&description.guest("rest", 0, "experiment", &hog(until_ms), &servers("priority = 30")).build())
}

const MS: u64 = TICKS_PER_MILLISECOND;

/// QV-23, QV-24, SS-06: a server that always wants more gets its budget in each window of its period, never more than an
/// overrun above, and never less than once it has it.
#[test]
fn a_budget_is_what_a_hog_gets() {
    for rule in ["sporadic", "deferrable", "polling"] {
        let running =
            beside_a_hog(&format!("priority = 1, rule = \"{rule}\", budget = \"2 ms\", period = \"10 ms\""), 600);
        let supply = Supply::of(&running, "served");
        let (most, least) = (supply.most_in(10 * MS), supply.least_in(10 * MS));
        println!("{rule}: {least}..{most} ticks in 10 ms, longest gap {}", supply.longest_gap());
        assert!(most <= 2 * MS + OVERRUN + Supply::BLUR, "{rule}: {most} ticks in 10 ms");
        // It pays for its own loading and for that of its successor.
        assert!(least >= 2 * MS - 2 * EXCHANGE - OVERRUN - Supply::BLUR, "{rule}: {least} ticks in 10 ms");
        assert!(
            supply.longest_gap() <= 8 * MS + 2 * EXCHANGE + OVERRUN + Supply::BLUR,
            "{rule}: away for {}",
            supply.longest_gap()
        );
        let rest = Supply::of(&running, "rest");
        let least = rest.least_in(10 * MS);
        assert!(least >= 8 * MS - EXCHANGE - OVERRUN - Supply::BLUR, "{rule}: {least} ticks are left in 10 ms");
        // What the exchanges took beyond the budget was taken from the next one, so of all periods together the rest has its part.
        let (from, periods) = (START_MS * MS + 10 * MS, 55);
        let all = rest.within(from, from + periods * 10 * MS);
        let least = periods * (8 * MS - WAY_IN - LOG) - EXCHANGE - OVERRUN;
        println!("{rule}: {all} ticks are left in {periods} periods, at least {least}");
        assert!(all >= least, "{rule}: {all} ticks are left in {periods} periods, at least {least}");
        let usage = running.final_usage(0).servers[running.server(0, "served", 0)];
        assert!(usage.exhaustions >= 55, "{rule}: exhausted {} times in 57 periods", usage.exhaustions);
        assert_eq!(usage.background_ticks, 0);
    }
}

/// SS-06, QV-25, QV-41: what is used beyond a budget is a debt: of a budget of 12,500 ticks, each noticed some hundred ticks late, the
/// sum over 1,300 periods is exact to one overrun, not to one per period.
#[test]
fn an_overrun_is_paid_back() {
    for rule in ["sporadic", "deferrable", "polling"] {
        let budget = format!("priority = 1, rule = \"{rule}\", budget = \"200 us\", period = \"1 ms\"");
        let running = beside_a_hog(&budget, 1530);
        let (budget, period) = (ticks_of_us(200), ticks_of_us(1000));
        let usage = running.final_usage(0);
        let served = usage.servers[running.server(0, "served", 0)];
        let used = served.budgeted_ticks;
        println!("{rule}: {served:?}, {}", running.printed("served", "hog "));
        let overrun = served.longest_overrun_ticks;
        // When a piece of a budget is smaller than the path that loads its guest, it is that path.
        assert!((1..=EXCHANGE).contains(&overrun), "{rule}: an end was noticed {overrun} ticks late");
        let supply = Supply::of(&running, "served");
        let (from, to) = (supply.first(), supply.last());
        let periods = (to - from) / period;
        println!("{rule}: {used} ticks of {} in {periods} periods", periods * budget);
        assert!(periods > 1300);
        // Before the hog begins its partition is prepared and it sleeps: from the core's start at the most, every period counts.
        let most = (usage.time_ticks.div_ceil(period) + 1) * budget + OVERRUN;
        assert!(used <= most, "{rule}: {used} ticks, at most {most}");
        // A leak of an overrun per period would be dozens of budgets.
        let seen = supply.within(from, to);
        assert!(seen <= (periods + 2) * budget + OVERRUN, "{rule}: {seen} ticks in {periods} periods");
        assert!(used >= periods * budget * 97 / 100, "{rule}: {used} ticks, {periods} periods");
    }
}

/// QV-22, QV-29: an empty server with `on_empty = "background"` runs below everybody else and pays nothing for it.
#[test]
fn background_takes_what_nobody_wants() {
    let server = "priority = 1, rule = \"sporadic\", budget = \"2 ms\", period = \"10 ms\", on_empty = \"background\", \
                  background_priority = 40";
    // The other hog ends halfway.
    let description = Description::new("shared-budgets").schedule(0, BY_PRIORITY);
    let description = description.guest("served", 0, "experiment", &hog(400), &servers(server));
    let running = finish(&description.guest("rest", 0, "experiment", &hog(200), &servers("priority = 30")).build());
    let supply = Supply::of(&running, "served");
    let half = 210 * MS;
    assert!(supply.within(40 * MS, 190 * MS) <= 150 * MS / 5 + 2 * MS, "beside another: its budget");
    assert!(supply.within(half, 390 * MS) >= (390 * MS - half) * 98 / 100, "alone: everything");
    let usage = running.final_usage(0).servers[running.server(0, "served", 0)];
    assert!((72 * MS..=84 * MS).contains(&usage.budgeted_ticks), "charged {} ticks", usage.budgeted_ticks);
    assert!(usage.background_ticks >= 140 * MS, "{} ticks in the background", usage.background_ticks);
}

/// QV-22, QV-39, QV-40: a guaranteed guest in the middle gets its supply, whatever those above and below do. None
/// of them says anything of tasks or deadlines.
#[test]
fn a_guarantee_holds_between_hogs() {
    let description = Description::new("shared-budgets").schedule(0, BY_PRIORITY);
    let sporadic = |priority: u32, budget: u32, period: u32| {
        servers(&format!(
            "priority = {priority}, rule = \"sporadic\", budget = \"{budget} ms\", period = \"{period} ms\""
        ))
    };
    let description = description.guest("above", 0, "experiment", &hog(700), &sporadic(1, 3, 10));
    let description = description.guest("beside", 0, "experiment", &hog(700), &sporadic(2, 3, 15));
    let description = description.guest("served", 0, "experiment", &hog(700), &sporadic(5, 4, 20));
    let running = finish(&description.guest("rest", 0, "experiment", &hog(700), &servers("priority = 30")).build());
    let supply = Supply::of(&running, "served");
    // Late by what those above take while its chunk is due (3 + 3 ms, and another 3 that come meanwhile), then a whole period.
    let worst_gap = 16 * MS + 9 * MS;
    assert!(supply.longest_gap() <= worst_gap + OVERRUN + Supply::BLUR, "away for {} ticks", supply.longest_gap());
    for periods in [2, 5, 20] {
        let least = supply.least_in(periods * 20 * MS);
        let bound = (periods - 1) * 4 * MS - OVERRUN - Supply::BLUR;
        assert!(least >= bound, "{least} ticks in {periods} periods, at least {bound}");
    }
    for (partition, budget, period) in [("above", 3, 10), ("beside", 3, 15), ("served", 4, 20)] {
        let most = Supply::of(&running, partition).most_in(period * MS);
        assert!(most <= budget * MS + OVERRUN + Supply::BLUR, "{partition}: {most} ticks in {period} ms");
    }
}

fn accounted(usage: &UsagePage) -> u64 {
    let used: u64 = usage.servers.iter().map(|server| server.budgeted_ticks + server.background_ticks).sum();
    usage.idle_ticks + used
}

/// QV-41, SP-19: idle time and the servers' times add up to all time since the core began, to the tick, whatever happens.
#[test]
fn accounts_add_up() {
    let unaccounted = |until_ms: u64, seed: u64| {
        let description = Description::unjudged("shared-budgets").schedule(0, BY_PRIORITY);
        let sporadic = servers(
            "priority = 3, rule = \"sporadic\", budget = \"1 ms\", period = \"7 ms\", on_empty = \"background\", \
                                background_priority = 8",
        );
        let description = description.guest("hog", 0, "experiment", &hog(until_ms), &sporadic);
        let wakeups = format!("role=own count={} seed={seed}", 200 * seed);
        let deferrable = servers("priority = 2, rule = \"deferrable\", budget = \"2 ms\", period = \"9 ms\"");
        let description = description.guest("own", 0, "wakeups", &wakeups, &deferrable);
        let running =
            finish(&description.guest("rest", 0, "experiment", &hog(until_ms), &servers("priority = 9")).build());
        let usage = running.final_usage(0);
        let (own, all) = (accounted(&usage), usage.time_ticks);
        println!("{own} of {all} ticks accounted for, {} idle", usage.idle_ticks);
        assert!(usage.idle_ticks > 0 && usage.switches > 100);
        all - own
    };
    let first = unaccounted(100, 1);
    // Most of it are the checksums of plans and of the monitor's text.
    assert!(first < ticks_of_us(6500), "{first} ticks passed before the core began");
    for (until_ms, seed) in [(150, 2), (333, 3)] {
        assert_eq!(unaccounted(until_ms, seed), first, "what was before the core began is the same in every run");
    }
}

/// SP-19, MZ-26: the same for turns.
#[test]
fn accounts_of_turns_add_up() {
    let unaccounted = |until_ms: u64| {
        let description = Description::new("shared-budgets").schedule(0, "kind = \"round-robin\"\nquantum = \"3 ms\"");
        let description = description.guest("one", 0, "experiment", &hog(until_ms), "");
        let description = description.guest("two", 0, "experiment", &hog(until_ms), "");
        let running = finish(&description.guest("own", 0, "wakeups", "role=own count=300", "").build());
        let usage = running.final_usage(0);
        // What an interrupt policy takes from others is a part of what its slot used.
        let used: u64 = usage.servers.iter().map(|slot| slot.budgeted_ticks).sum();
        println!("{used} used, {} idle of {}", usage.idle_ticks, usage.time_ticks);
        usage.time_ticks - used - usage.idle_ticks
    };
    let first = unaccounted(90);
    // Most of it are the checksums of plans and of the monitor's text.
    assert!(first < ticks_of_us(6500), "{first} ticks passed before the core began");
    assert_eq!(unaccounted(200), first);
}

/// QV-41: what a trace says of each server is what the monitor's own account says, to the tick, with servers that sleep, run out,
/// continue in the background and give the core away.
#[test]
fn a_trace_and_the_accounts_agree_to_the_tick() {
    const TICK_NS: u64 = 16;
    let description = Description::new("shared-budgets").schedule(0, BY_PRIORITY);
    let description = description.table("[trace]\nenabled = true\nrecords = 32768");
    let hog = hog(120);
    let server = "priority = 2, rule = \"sporadic\", budget = \"2 ms\", period = \"10 ms\"";
    let wakes = servers("priority = 1, rule = \"deferrable\", budget = \"1 ms\", period = \"5 ms\"");
    let again = format!("{server}, on_empty = \"background\", background_priority = 40");
    let description = description.guest("wakes", 0, "wakeups", "role=own count=200 start_us=20000", &wakes);
    let description = description.guest("served", 0, "experiment", &hog, &servers(&again));
    let polled = "priority = 3, rule = \"polling\", budget = \"1 ms\", period = \"7 ms\"";
    let description = description.guest("polled", 0, "experiment", &hog, &servers(polled));
    let running = finish(&description.guest("rest", 0, "experiment", &hog, &servers("priority = 30")).build());
    let usage = running.final_usage(0);
    let timeline = bulkhead_run::trace::Trace::read(running.watch()).timeline(running.watch(), "");
    assert!(timeline.is_complete(), "{:?}, lost {:?}", timeline.warnings, timeline.lost);
    let end_ns = usage.time_ticks * TICK_NS;
    for (number, account) in usage.servers.iter().enumerate().take(4) {
        let mut seen = [0, 0];
        for charge in timeline.charges(0).iter().filter(|charge| charge.server == Some(number)) {
            let length_ns = charge.to_ns.min(end_ns).saturating_sub(charge.from_ns);
            seen[usize::from(charge.background)] += length_ns / TICK_NS;
        }
        println!("server {number}: {account:?}, the trace says {seen:?}");
        assert_eq!(seen, [account.budgeted_ticks, account.background_ticks], "server {number}");
        assert!(account.starts > 10 && account.budgeted_ticks > 100_000);
    }
}
