//! Shared cores: budgets around wake-ups. A budget ends at its instant however its vCPU was woken and interrupted, and one that is
//! empty is not used.

use bulkhead_system_tests::Running;
use bulkhead_system_tests::sharing::{BY_PRIORITY, Description, EXCHANGE, TICKS_PER_MILLISECOND as MS, finish};
use bulkhead_system_tests::wakes::{Relay, Wake, Wakes, ports};

/// When a partition with a fiftieth of the core has been prepared.
const START: u64 = 1200 * MS;
const PERIOD: u64 = 10 * MS;
const BUDGET: u64 = MS / 5;
/// What instants that are exact may differ by: the guest's loop.
const EXACT: u64 = 64;

fn server(priority: u32, rule: &str, budget_us: u32) -> String {
    format!(
        "servers = [ {{ priority = {priority}, rule = \"{rule}\", budget = \"{budget_us} us\", period = \"10 ms\" }} ]"
    )
}

/// A guest that always computes, below everybody else.
fn above_a_hog(description: Description, until: u64) -> Running {
    let arguments = format!("role=hog start_us=100000 end_us={} log=0", until * 1000 / MS);
    finish(&description.guest("hog", 0, "experiment", &arguments, "servers = [ { priority = 9 } ]").build())
}

/// Smallest and largest.
fn range(values: impl Iterator<Item = u64>) -> (u64, u64) {
    values.fold((u64::MAX, 0), |(least, most), value| (least.min(value), most.max(value)))
}

/// The values are the same, to what is exact; returns the smallest.
fn same(what: &str, values: impl Iterator<Item = u64>) -> u64 {
    let (least, most) = range(values);
    println!("{what}: {least} to {most}");
    assert!(least <= most && most - least <= EXACT, "{what}: {least} to {most} ticks");
    least
}

/// A guest with a budget, woken by its timer or by somebody's ring, 3 ms after a period of the core began or whenever it is. The first
/// of `count + 1` times is left out: before it the guest had work of its own at EL2, so it takes the general way.
fn woken(rule: &str, count: u64, work: u64, by_bell: bool) -> Vec<(u64, Wake)> {
    const EVERY: u64 = 5 * PERIOD;
    let count = count + 1;
    let until = START + count * EVERY;
    let timer = Relay::by_timer(START, EVERY, count);
    let description = Description::unjudged("shared-instants").schedule(0, BY_PRIORITY);
    if !by_bell {
        let rest = server(1, rule, 200);
        let running = above_a_hog(description.relay("woken", &timer.with("work", work), &rest), until);
        let wakes = Wakes::of(&running, "woken");
        wakes.assert_dates("woken", START, EVERY, count);
        return wakes.all.into_iter().map(|wake| (wake.date, wake)).skip(1).collect();
    }
    let woken = Relay::by_bells(count, until).with("work", work);
    let rest = format!("{}\n{}", server(1, rule, 200), ports(0..0, 0..1));
    let description = description.relay("woken", &woken, &rest);
    let rest = format!("servers = [ {{ priority = 8 }} ]\n{}", ports(0..1, 0..0));
    let description = description.relay("ringer", &timer.with("rings", 1), &rest).bell(0, "ringer", "woken");
    let running = above_a_hog(description, until);
    let (woken, ringer) = (Wakes::of(&running, "woken"), Wakes::of(&running, "ringer"));
    assert_eq!((woken.bells, ringer.sent), (count, count), "{rule}");
    ringer.all.iter().map(|ringer| ringer.rang).zip(woken.all).skip(1).collect()
}

/// QV-23, QV-24, QV-25, SP-14: a guest that is woken by its timer or by a ring runs for its budget and stops at the same instant
/// each time, to the tick, and continues when the rule says so: a period after it began, or on the period's grid.
#[test]
fn a_budget_ends_at_its_instant_after_a_wake_up() {
    for (rule, by_bell) in [("sporadic", false), ("sporadic", true), ("deferrable", false), ("deferrable", true)] {
        // What is left after the work is far more than the smallest chunk: with less nothing could be prepared for the next wake-up.
        let seen = woken(rule, 10, BUDGET * 5 / 4, by_bell);
        let what = |part: &str| format!("{rule}, by bell: {by_bell}, {part}");
        let late = same(&what("from its interrupt"), seen.iter().map(|(from, wake)| wake.entered - from));
        assert!(late <= EXCHANGE, "{}", what("late"));
        let ran = same(&what("ran"), seen.iter().map(|(_, wake)| wake.left - wake.entered));
        assert!((BUDGET - EXCHANGE..=BUDGET).contains(&ran), "{}", what("ran for its budget"));
        let back = match rule {
            "sporadic" => same(&what("back"), seen.iter().map(|(from, wake)| wake.back - from)) - PERIOD,
            // The grid's phase is not known; it is the same for all.
            _ => same(&what("on the grid"), seen.iter().map(|(from, wake)| (wake.back - from) % PERIOD)) % PERIOD,
        };
        assert!(rule != "sporadic" || back <= late + EXCHANGE, "{}: {back}", what("back after a period"));
        let away = range(seen.iter().map(|(_, wake)| wake.back - wake.left)).1;
        assert!(away <= PERIOD, "{}: {away}", what("away"));
    }
}

/// QV-23, SP-14: a polling server gives up its budget when its guest sleeps. So a guest that is woken between two periods does not
/// run, however important it is, until the next one begins: then at once, for its budget.
#[test]
fn a_guest_without_budget_is_not_run_when_it_is_woken() {
    for by_bell in [false, true] {
        let seen = woken("polling", 10, BUDGET * 3 / 2, by_bell);
        let waited = same("waited", seen.iter().map(|(from, wake)| wake.entered - from));
        assert!((PERIOD / 20..=PERIOD).contains(&waited), "woken between two periods, by bell: {by_bell}");
        let ran = same("ran", seen.iter().map(|(_, wake)| wake.left - wake.entered));
        assert!((BUDGET - EXCHANGE..=BUDGET).contains(&ran), "by bell: {by_bell}");
        let apart = same("from period to period", seen.iter().map(|(_, wake)| wake.back - wake.entered));
        assert!(apart.abs_diff(PERIOD) <= EXCHANGE, "by bell: {by_bell}, {apart} ticks");
    }
}

/// A guest with a budget and work that grows from date to date, and somebody who rings it 2 ms later, when most of the budget is
/// used. Returns both wake-ups of each date, with when it was rung.
fn with_a_rest(rule: &str, count: u64) -> Vec<(Wake, u64, Wake)> {
    const EVERY: u64 = 2 * PERIOD;
    let end = START + (count + 1) * EVERY;
    let woken = Relay::by_timer(START, EVERY, count).with("work", 5000).with("grow", 97);
    let woken = woken.with("bells", count).with("bell_work", 6500).with("end", end);
    let ringer = Relay::by_timer(START + 2 * MS, EVERY, count).with("rings", 1);
    let description = Description::unjudged("shared-instants").schedule(0, BY_PRIORITY);
    let rest = format!("{}\n{}", server(1, rule, 200), ports(0..0, 0..1));
    let description = description.relay("woken", &woken, &rest);
    let rest = format!("servers = [ {{ priority = 8 }} ]\n{}", ports(0..1, 0..0));
    let description = description.relay("ringer", &ringer, &rest).bell(0, "ringer", "woken");
    let running = above_a_hog(description, end - EVERY);
    let (woken, ringer) = (Wakes::of(&running, "woken"), Wakes::of(&running, "ringer"));
    woken.assert_dates("woken", START, EVERY, count);
    assert_eq!((woken.bells, ringer.sent), (count, count), "{rule}");
    let pairs = woken.all.chunks(2).map(|pair| (pair[0], pair[1]));
    // As in `woken`, the first time takes the general way.
    pairs.zip(&ringer.all).map(|((first, second), ringer)| (first, ringer.rang, second)).skip(1).collect()
}

/// QV-24, QV-25, QV-26, SP-14: of a budget that a guest has used a part of before it slept the rest is there when it is woken
/// again, whatever it is, and not a tick more: the two pieces make the budget to the tick. When the rest is nothing that could
/// be used, the guest is not run, and starts at once when its budget comes back.
#[test]
fn what_is_left_of_a_budget_ends_right_after_a_wake_up() {
    for rule in ["sporadic", "deferrable"] {
        let pairs = with_a_rest(rule, 60);
        let (at_once, waiting): (Vec<_>, Vec<_>) =
            pairs.iter().partition(|(_, rang, second)| second.entered - rang <= EXCHANGE);
        assert!(at_once.len() >= 35 && waiting.len() >= 3, "{rule}: {} and {}", at_once.len(), waiting.len());
        assert!(at_once.iter().all(|(_, _, second)| second.left != 0), "{rule}: the rest of the budget never ended");
        let pieces =
            |(first, _, second): &(Wake, u64, Wake)| (first.done - first.entered, second.left - second.entered);
        let both = same(&format!("{rule}, both pieces"), at_once.iter().map(|pair| pieces(pair).0 + pieces(pair).1));
        assert!((BUDGET - 2 * EXCHANGE..=BUDGET).contains(&both), "{rule}: {both} ticks of {BUDGET}");
        let shortest = at_once.iter().map(|pair| pieces(pair).1).min().expect("there are some");
        assert!(shortest <= 700, "{rule}: the shortest piece was {shortest} ticks");
        let least =
            waiting.iter().map(|(first, _, second)| second.entered - first.entered).min().expect("there are some");
        for (first, _, second) in waiting {
            let ran = first.done - first.entered;
            assert!(ran + 700 >= both, "{rule}: {ran} ticks of {both} were used, and the rest was not");
            let waited = second.entered - first.entered;
            assert!(
                waited.abs_diff(least) <= EXCHANGE && waited > PERIOD / 20,
                "{rule}: {waited} ticks, as others {least}"
            );
            // A chunk that was too small to be used comes back earlier by what it was.
            let back = PERIOD - EXCHANGE..=PERIOD + EXCHANGE;
            assert!(rule != "sporadic" || back.contains(&waited), "{rule}: {waited} ticks after the first piece began");
        }
    }
}

/// QV-24, QV-25, SP-14: a guest that is interrupted four or five times while it runs for its budget by one that is woken uses the
/// budget all the same, and pays for nobody else: without the others' times it ran for its budget.
#[test]
fn a_budget_is_used_in_pieces_between_wake_ups() {
    const COUNT: u64 = 25;
    const EVERY: u64 = 5 * PERIOD;
    const ABOVE: u64 = 7001;
    const WORK: u64 = 500;
    /// What a wake-up takes after its work: the guest's loop and the way to the next decision.
    const TAIL: u64 = 700;
    for rule in ["sporadic", "deferrable"] {
        let count = COUNT * EVERY / ABOVE;
        let above = Relay::by_timer(START, ABOVE, count).with("work", WORK);
        let woken = Relay::by_timer(START, EVERY, COUNT).with("work", MS / 2);
        let description = Description::unjudged("shared-instants").schedule(0, BY_PRIORITY);
        let description = description.relay("above", &above, "servers = [ { priority = 0 } ]");
        let running = above_a_hog(description.relay("woken", &woken, &server(1, rule, 400)), START + COUNT * EVERY);
        let (above, woken) = (Wakes::of(&running, "above"), Wakes::of(&running, "woken"));
        above.assert_dates("above", START, ABOVE, count);
        woken.assert_dates("woken", START, EVERY, COUNT);
        assert!(above.latest() <= 2 * EXCHANGE, "{rule}: the more important one is late by {}", above.latest());
        for wake in &woken.all {
            let inside = above.all.iter().filter(|above| wake.entered < above.entered && above.entered < wake.left);
            let (pieces, others) =
                inside.fold((0, 0), |(pieces, others), above| (pieces + 1, others + above.done - above.date));
            let ran = wake.left - wake.entered - others;
            // Somebody who is pre-empted before it has begun pays for two ways in.
            // What lies between its pieces is paid by who was above, and not seen here.
            let allowed = 2 * BUDGET - 2 * EXCHANGE..=2 * BUDGET + pieces * (TAIL + EXCHANGE);
            assert!(pieces >= 3 && allowed.contains(&ran), "{rule}: {ran} ticks in {pieces} pieces: {wake:?}");
        }
    }
}
