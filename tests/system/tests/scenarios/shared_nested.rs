//! Shared cores: wake-ups within wake-ups. Interrupts of more important guests come while less important ones that were woken
//! themselves are in their handlers, and at every place of the monitor's path.

use bulkhead_abi::observe::Counter;
use bulkhead_abi::schedule::{ServerUsage, SlotUsage, UsagePage};
use bulkhead_system_tests::sharing::{
    BY_PRIORITY, Description, EXCHANGE, TICKS_PER_MILLISECOND as MS, WAY_IN, field, finish,
};
use bulkhead_system_tests::wakes::{Relay, Wake, Wakes, ports, unaccounted};

/// When all partitions have been prepared.
const START: u64 = 120 * MS;
/// A date that comes on the longest path waits for its end, and takes its own.
const LATEST: u64 = 2 * EXCHANGE;
/// What the monitor takes from a guest for a date of a less important one.
const NOTICE: u64 = 1300;
/// What a relay does besides its work: its loop, its record.
const RECORD: u64 = 200;
/// The same with a look at all floating-point registers.
const FLOATS: u64 = 3000;

fn priority(priority: u32) -> String {
    format!("servers = [ {{ priority = {priority} }} ]")
}

fn with_ports(own: u32, out: std::ops::Range<u32>, into: std::ops::Range<u32>) -> String {
    format!("{}\n{}", priority(own), ports(out, into))
}

fn hog(until: u64) -> String {
    format!("role=hog start_us=100000 end_us={} log=0", until * 1000 / MS)
}

/// Name, period and work of three guests, the most important first.
const LEVELS: [(&str, u64, u64); 3] = [("top", 9973, 600), ("middle", 23_011, 5000), ("low", 51_001, 9000)];

/// Wake-ups of a level in this many periods of the lowest.
fn wakes_of(level: usize, rounds: u64) -> u64 {
    rounds * LEVELS[2].1 / LEVELS[level].1
}

/// Runs the three over one that computes; returns what each saw and what the core gave to each. The machine is not kept: a test
/// that keeps one and starts another can wait for itself.
fn three(rounds: u64) -> ([Wakes; 3], UsagePage, [(ServerUsage, SlotUsage); 3]) {
    let mut description = Description::unjudged("shared-nested").schedule(0, BY_PRIORITY);
    for (level, (name, period, work)) in LEVELS.into_iter().enumerate() {
        let relay = Relay::by_timer(START, period, wakes_of(level, rounds)).with("work", work);
        description = description.relay(name, &relay, &priority(level as u32 + 1));
    }
    let until = START + (rounds + 1) * LEVELS[2].1;
    let running = finish(&description.guest("hog", 0, "experiment", &hog(until), &priority(9)).build());
    let wakes = LEVELS.map(|(name, ..)| Wakes::of(&running, name));
    let usage = running.final_usage(0);
    let of = |name: &str| (usage.servers[running.server(0, name, 0)], usage.slots[running.slot(0, name)]);
    (wakes, usage, LEVELS.map(|(name, ..)| of(name)))
}

/// Those whose time from date to end meets another's.
fn meeting<'w>(wake: &Wake, others: &'w Wakes) -> impl Iterator<Item = &'w Wake> {
    let (from, to) = (wake.date, wake.done);
    others.all.iter().filter(move |other| other.date < to && from < other.done)
}

/// A wake-up is over as soon as its own work and that of the more important ones allow.
fn ends_in_time(level: usize, wake: &Wake, wakes: &[Wakes; 3]) {
    let above = (0..level).map(|other| meeting(wake, &wakes[other]).count() as u64 * (LEVELS[other].2 + EXCHANGE));
    let dates = (level + 1..3).flat_map(|other| &wakes[other].all).map(|other| other.date);
    let below = dates.filter(|date| (wake.date..wake.done).contains(date)).count() as u64 * NOTICE;
    let most = LEVELS[level].2 + RECORD + EXCHANGE + above.sum::<u64>() + below;
    let took = wake.done - wake.date;
    assert!(took <= most, "{} took {took} ticks of {most}: {wake:?}", LEVELS[level].0);
}

/// SP-11, SP-14, MZ-8: three guests with timers of their own interrupt each other's handlers two deep. Each date wakes its guest
/// once, the most important one within one exchange, each other one is delayed by nothing but the more important ones.
#[test]
fn handlers_of_woken_guests_are_interrupted() {
    let (wakes, _, gave) = three(600);
    for (level, (name, period, _)) in LEVELS.into_iter().enumerate() {
        wakes[level].assert_dates(name, START, period, wakes_of(level, 600));
        // In the last period of the lowest the others end, which takes time as well.
        let last = START + 599 * LEVELS[2].1;
        wakes[level].all.iter().filter(|wake| wake.done < last).for_each(|wake| ends_in_time(level, wake, &wakes));
    }
    let [top, middle, low] = &wakes;
    assert!(top.latest() <= LATEST, "the most important one is late by {} ticks", top.latest());
    let wait = gave[0].1.longest_wait_ticks;
    assert!(wait <= EXCHANGE, "it waited for {wait} ticks by the usage page");
    let once: Vec<_> = middle.all.iter().filter(|wake| top.all.iter().any(|top| wake.holds(top))).collect();
    let twice = low.all.iter().filter(|low| once.iter().any(|middle| low.holds(middle))).count();
    println!("{} handlers were interrupted, {twice} of them by one that was", once.len());
    assert!(once.len() >= 300 && twice >= 100, "{} and {twice} say too little", once.len());
}

/// The most that a level's wake-ups may be charged: its own work, the path that wakes it and puts it to sleep, and for each
/// interruption the way in.
fn most_charged(level: usize, wakes: &[Wakes; 3]) -> u64 {
    /// From the decision that wakes a guest to its work, and from there to the decision that follows on its WFI.
    const PATH: u64 = 1600;
    let of_wake = |wake: &Wake| {
        let above: usize = (0..level).map(|other| meeting(wake, &wakes[other]).count()).sum();
        let below: usize = (level + 1..3).map(|other| meeting(wake, &wakes[other]).count()).sum();
        LEVELS[level].2 + PATH + above as u64 * WAY_IN + below as u64 * NOTICE
    };
    wakes[level].all.iter().map(of_wake).sum()
}

/// QV-41, SP-19: a guest that is woken, and nobody else, is charged for its work and the path of the monitor: of twice
/// the wake-ups each is counted and charged to its guest, and used and idle time add up to all time, to the tick.
#[test]
fn nested_wake_ups_are_charged_to_the_woken() {
    let ((short_wakes, short, before), (long_wakes, long, after)) = (three(300), three(600));
    assert_eq!(unaccounted(&short), unaccounted(&long), "ticks that are nobody's");
    for (level, (name, _, work)) in LEVELS.into_iter().enumerate() {
        let more = wakes_of(level, 600) - wakes_of(level, 300);
        assert_eq!(after[level].1.wakes - before[level].1.wakes, more, "wake-ups of {name}");
        let used = after[level].0.budgeted_ticks - before[level].0.budgeted_ticks;
        let most = most_charged(level, &long_wakes) - most_charged(level, &short_wakes);
        println!("{name}: {used} ticks for {more} wake-ups, {} each, at most {}", used / more, most / more);
        assert!((more * work..=most).contains(&used), "{name}: {used} ticks for {more} wake-ups, at most {most}");
    }
}

/// SP-11, SP-12, SP-14, SP-17, SP-E5: timers of three sleeping guests have the same date. All of them wake in one exit, while another one
/// computes and while the core idles, and run in the order of their priorities, each as soon as the one before sleeps.
#[test]
fn three_that_wake_in_one_exit_run_in_order() {
    const PERIOD: u64 = 40_009;
    const COUNT: u64 = 200;
    for until in [START, START + PERIOD * COUNT] {
        let mut description = Description::unjudged("shared-nested").schedule(0, BY_PRIORITY);
        // The order of the slots is not that of the priorities.
        for (name, own, work) in [("low", 3, 5000), ("top", 1, 600), ("middle", 2, 3000)] {
            let relay = Relay::by_timer(START, PERIOD, COUNT).with("work", work);
            description = description.relay(name, &relay, &priority(own));
        }
        let running = finish(&description.guest("hog", 0, "experiment", &hog(until), &priority(9)).build());
        let [top, middle, low] = ["top", "middle", "low"].map(|name| Wakes::of(&running, name));
        for (name, wakes) in [("top", &top), ("middle", &middle), ("low", &low)] {
            wakes.assert_dates(name, START, PERIOD, COUNT);
        }
        assert!(top.latest() <= LATEST, "the first is late by {} ticks", top.latest());
        // After its last one a guest ends, which takes time as well.
        for ((top, middle), low) in top.all.iter().zip(&middle.all).zip(&low.all).take(COUNT as usize - 1) {
            for (before, after) in [(top, middle), (middle, low)] {
                let between = after.entered.checked_sub(before.done).expect("nobody runs before a more important one");
                assert!(between <= EXCHANGE, "{between} ticks from one to the next, {until}");
                assert_eq!(after.left, 0, "nobody interrupts who runs last: {after:?}");
            }
        }
    }
}

/// SP-14, SP-16: a handler rings a more important sleeper, whose handler rings a still more important one, twice. Each ring
/// wakes once and at once, and each handler continues when those that it woke sleep. With the interrupts of those that
/// are pre-empted still active in their list registers, and with none.
#[test]
fn handlers_that_wake_others_are_nested() {
    const COUNT: u64 = 600;
    let end = START + 40 * COUNT * 1000;
    let ending = |relay: Relay, first: bool| if first { relay.ending_first() } else { relay };
    for first in [false, true] {
        let top = Relay::by_bells(2 * COUNT, end).with("work", 600).with("float", 1);
        let middle = Relay::by_bells(COUNT, end).with("work", 3000).with("rings", 1).with("after", 1000);
        let low = Relay::by_timer(START, 30_011, COUNT).with("work", 1000).with("rings", 1).with("after", 500);
        let description = Description::unjudged("shared-nested").schedule(0, BY_PRIORITY);
        let description = description.relay("top", &ending(top, first), &with_ports(1, 0..0, 0..2));
        let description = description.relay("middle", &ending(middle, first), &with_ports(2, 0..2, 2..3));
        let description = description.relay("low", &ending(low.computing(), first), &with_ports(3, 2..3, 0..0));
        let description = description.bell(0, "middle", "top").bell(1, "middle", "top").bell(2, "low", "middle");
        let running = finish(&description.build());
        let [top, middle, low] = ["top", "middle", "low"].map(|name| Wakes::of(&running, name));
        low.assert_dates("low", START, 30_011, COUNT);
        assert_eq!((low.sent, middle.bells, middle.sent, top.bells), (COUNT, COUNT, 2 * COUNT, 2 * COUNT));
        for ((low, middle), tops) in low.all.iter().zip(&middle.all).zip(top.all.chunks(2)) {
            let lates = [middle.entered - low.rang, tops[0].entered - middle.rang];
            assert!(lates.iter().all(|late| *late <= EXCHANGE), "{lates:?} ticks from a ring to its handler");
            // Back to who rings, and there again.
            let again = tops[1].entered - tops[0].done;
            assert!(again <= 2 * EXCHANGE, "{again} ticks from the first handler's end to the second");
            assert!(tops[1].done < middle.done, "the one that rang continues when both handlers are done");
            assert!(middle.done < low.done, "the first one continues last");
        }
    }
}

/// SP-14, MZ-8, MZ-17: a guest wakes with more interrupts than there are list registers, and while it handles them a still more
/// important one pre-empts it again and again, with interrupts of its own. None is lost or comes twice.
#[test]
fn more_interrupts_than_list_registers_survive_nesting() {
    const BELLS: u32 = 6;
    const COUNT: u64 = 150;
    const PERIOD: u64 = 60_000;
    const ABOVE: u64 = 4999;
    let all = u64::from(BELLS) * COUNT;
    let above = Relay::by_timer(START, ABOVE, COUNT * PERIOD / ABOVE).with("work", 400);
    let ringing = Relay::by_timer(START, PERIOD, COUNT).with("work", 400).with("rings", 1).with("after", 300);
    let woken = Relay::by_bells(all, START + (COUNT + 10) * PERIOD).with("work", 1500);
    let description = Description::unjudged("shared-nested").schedule(0, BY_PRIORITY);
    let description = description.relay("above", &above, &priority(0));
    let description = description.relay("ringing", &ringing, &with_ports(1, 0..BELLS, 0..0));
    let description = description.relay("woken", &woken, &with_ports(2, 0..0, 0..BELLS));
    let description = (0..BELLS).fold(description, |description, bell| description.bell(bell, "ringing", "woken"));
    let until = START + COUNT * PERIOD;
    let running = finish(&description.guest("hog", 0, "experiment", &hog(until), &priority(9)).build());
    let [above, ringing, woken] = ["above", "ringing", "woken"].map(|name| Wakes::of(&running, name));
    above.assert_dates("above", START, ABOVE, COUNT * PERIOD / ABOVE);
    assert!(above.latest() <= LATEST, "the most important one is late by {} ticks", above.latest());
    ringing.assert_dates("ringing", START, PERIOD, COUNT);
    assert_eq!((ringing.sent, woken.bells), (all, all));
    assert!(
        running.counter("woken", Counter::ListRegisterFull) >= COUNT,
        "six interrupts need more than four registers"
    );
    let nested = woken.all.iter().filter(|wake| above.all.iter().any(|above| wake.holds(above))).count() as u64;
    assert!(nested >= 2 * COUNT, "{nested} of its handlers were interrupted");
}

/// SP-10, SP-14, SP-18: the date of a second guest moves across that of the first, nine ticks at a time, so that each interrupt comes
/// at every place of the path on which the other one is delivered: before, during and after it wakes, and while it sleeps
/// again. No wake-up is lost, and no register changes in any of three guests, with lazy and with eager floating point.
#[test]
fn a_date_at_every_place_of_a_wake_up_is_kept() {
    const PERIOD: u64 = 14_000;
    const COUNT: u64 = 1000;
    const STEP: u64 = 9;
    const FIRST: u64 = START - 3500;
    for mode in ["lazy", "eager"] {
        let schedule = format!("{BY_PRIORITY}\nfloating_point = \"{mode}\"");
        let top = Relay::by_timer(START, PERIOD, COUNT).with("work", 400).with("float", 1);
        let middle = Relay::by_timer(FIRST, PERIOD + STEP, COUNT).with("work", 2500).with("float", 2);
        let description = Description::unjudged("shared-nested").schedule(0, &schedule);
        let description = description.relay("top", &top, &priority(1)).relay("middle", &middle, &priority(2));
        let below = "seed=3 rounds=800";
        let running = finish(&description.guest("below", 0, "registers", below, &priority(9)).build());
        let [top, middle] = ["top", "middle"].map(|name| Wakes::of(&running, name));
        top.assert_dates("top", START, PERIOD, COUNT);
        middle.assert_dates("middle", FIRST, PERIOD + STEP, COUNT);
        assert!(top.latest() <= LATEST, "{mode}: the more important one is late by {} ticks", top.latest());
        let most = 400 + FLOATS + 2 * EXCHANGE;
        assert!(middle.latest() <= most, "{mode}: the other one is late by {} of {most} ticks", middle.latest());
        assert!(middle.all.iter().any(|middle| top.all.iter().any(|top| middle.holds(top))));
        let done = running.printed("below", "registers done");
        assert_eq!(field(&done, "differences"), 0, "{done}");
        let ended = running.lines("below").last().map_or(0, |line| line.time_ticks);
        assert!(middle.all.iter().all(|wake| wake.done < ended), "who is pre-empted ran until {ended}");
        let exchanged = ["top", "middle", "below"].map(|name| running.counter(name, Counter::FloatingPoint));
        assert!(exchanged.iter().all(|count| (*count > COUNT / 2) == (mode == "lazy")), "{mode}: {exchanged:?}");
    }
}

/// SP-14, SP-16: the same with a ring: a guest that computes rings a sleeper at every place before, during and after the
/// wake-up of a more important one.
#[test]
fn a_ring_at_every_place_of_a_wake_up_is_kept() {
    const PERIOD: u64 = 20_000;
    const COUNT: u64 = 1000;
    const STEP: u64 = 9;
    const FIRST: u64 = START - 8000;
    let top = Relay::by_timer(START, PERIOD, COUNT).with("work", 400).with("float", 1);
    let middle = Relay::by_bells(COUNT, START + (COUNT + 50) * PERIOD).with("work", 700).with("float", 2);
    let low = Relay::by_timer(FIRST, PERIOD + STEP, COUNT).with("rings", 1).with("after", 200).with("float", 3);
    let description = Description::unjudged("shared-nested").schedule(0, BY_PRIORITY);
    let description = description.relay("top", &top, &priority(1));
    let description = description.relay("middle", &middle, &with_ports(2, 0..0, 0..1));
    let description = description.relay("low", &low.computing(), &with_ports(3, 0..1, 0..0)).bell(0, "low", "middle");
    let running = finish(&description.build());
    let [top, middle, low] = ["top", "middle", "low"].map(|name| Wakes::of(&running, name));
    top.assert_dates("top", START, PERIOD, COUNT);
    low.assert_dates("low", FIRST, PERIOD + STEP, COUNT);
    assert_eq!((low.sent, middle.bells), (COUNT, COUNT));
    assert!(top.latest() <= LATEST, "the most important one is late by {} ticks", top.latest());
    for (low, middle) in low.all.iter().zip(&middle.all) {
        let (late, most) = (middle.entered - low.rang, 400 + FLOATS + 3 * EXCHANGE);
        assert!(late <= most, "{late} of {most} ticks from the ring to its handler");
    }
    assert!(middle.all.iter().any(|middle| top.all.iter().any(|top| middle.holds(top))));
}

/// SP-14, SP-15, SP-18, SP-E5: the board's clock, whose alarm is exact to the tick, wakes its sleeping owner while a less important
/// guest that was woken itself is in its handler: always in the same time.
#[test]
fn a_device_interrupts_the_handler_of_a_woken_guest() {
    const PERIOD: u64 = 1_000_000;
    /// From the alarm to the handler, a quarter more than in the build of record 0021, where it is 1005 and 1045.
    const ALARM: u64 = 1300;
    for mode in ["lazy", "eager"] {
        let schedule = format!("{BY_PRIORITY}\nfloating_point = \"{mode}\"");
        let rest = format!("{}\ndevices = [ {{ name = \"rtc\", route = \"priority\" }} ]", priority(1));
        let relay = Relay::by_timer(START, PERIOD, 140).with("work", PERIOD * 97 / 100).with("float", 2);
        let description = Description::unjudged("shared-nested").schedule(0, &schedule);
        let description = description.guest("clock", 0, "rtc", "alarms=2", &rest);
        let description = description.relay("handler", &relay, &priority(2));
        let until = START + 140 * PERIOD;
        let running = finish(&description.guest("hog", 0, "experiment", &hog(until), &priority(9)).build());
        let line = running.printed("clock", "bench rtc");
        println!("{mode}: {line}");
        let (least, most) = (field(&line, "min"), field(&line, "max"));
        assert_eq!((least, field(&line, "n")), (most, 2), "the same time at each alarm: {line}");
        assert!((100..=ALARM).contains(&most), "{most} ticks from the alarm to its handler");
        let handler = Wakes::of(&running, "handler");
        handler.assert_dates("handler", START, PERIOD, 140);
        let interrupted = handler.all.iter().filter(|wake| wake.left != 0).count();
        assert_eq!(interrupted, 2, "both alarms came during a handler");
    }
}
