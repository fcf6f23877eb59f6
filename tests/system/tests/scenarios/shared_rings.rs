//! Shared cores: the rest of the published interrupt policies of turns, on the machine: what extends a quantum, what waits for its
//! end and in which order, where the ring continues, and whose time was taken.

use bulkhead_abi::schedule::UsagePage;
use bulkhead_run::End;
use bulkhead_system_tests::sharing::{Description, EXCHANGE, Supply, TICKS_PER_MILLISECOND as MS, finish};
use bulkhead_system_tests::wakes::{Relay, Wake, Wakes, unaccounted};
use bulkhead_system_tests::{LIMIT, Running};

const BLUR: u64 = Supply::BLUR;
const QUANTUM: u64 = 3 * MS;
/// When all guests have been prepared in turns.
const START: u64 = 150 * MS;
const PREEMPTS: &str = "route = \"preempt\"";

fn turns(options: &str) -> Description {
    Description::new("shared-rings").schedule(0, &format!("kind = \"round-robin\"\nquantum = \"3 ms\"\n{options}"))
}

fn hog(until: u64) -> String {
    format!("role=hog start_us=100000 end_us={}", until * 1000 / MS)
}

/// A guest that always computes and gets bursts of four interrupts, 2 ms apart, beside one that always computes.
fn bursts(policy: &str) -> (Vec<Vec<u64>>, Supply) {
    let wire = "role=wire background=compute start_us=150000 requests=100 burst=4 burst_gap_us=2000 spacing_us=31000 \
                dither_us=3000";
    let description = turns(&format!("on_interrupt = \"{policy}\"")).guest("owner", 0, "experiment", wire, PREEMPTS);
    let running = finish(&description.guest("peer", 0, "experiment", &hog(1100 * MS), "").build());
    let records = running.records("owner");
    assert_eq!(records.len(), 100, "{policy}: interrupts");
    let delays = records.iter().map(|record| record[1] - record[0]);
    assert!(delays.max() <= Some(2 * EXCHANGE), "{policy}: each is delivered at once");
    (records, Supply::of(&running, "peer"))
}

/// The policy beside those that were published: with `reset-extend` each interrupt gives its guest a new quantum, also
/// in its own turn, so the guest runs for a whole quantum after the last one of a burst and no longer.
#[test]
fn reset_extend_goes_on_for_a_quantum_after_the_last_interrupt() {
    let (records, peer) = bursts("reset-extend");
    // Behind its last interrupt the owner ends.
    for burst in records.chunks(4).take(24) {
        for record in burst {
            let taken = peer.within(record[1], record[1] + QUANTUM - EXCHANGE);
            assert!(taken <= BLUR, "the other one had {taken} ticks in the quantum after an interrupt");
        }
        let last = burst[3][1];
        let next = peer.runs.iter().find(|run| run.0 > last).expect("the other one runs again").0 - last;
        // Behind a turn of the other one that it took comes its own.
        let (one, two) = (next.abs_diff(QUANTUM), next.abs_diff(2 * QUANTUM));
        assert!(one.min(two) <= EXCHANGE + BLUR, "the other one ran again after {next} ticks");
    }
    assert!(peer.longest_gap() >= 6 * MS + QUANTUM - BLUR, "a burst of 6 ms lasts a quantum longer");
}

/// MZ-22, MZ-24: with `reset` an interrupt of the guest that runs, be it in its own turn or in one that it took, starts no quantum:
/// its burst is over when its quantum is.
#[test]
fn reset_starts_no_quantum_for_who_runs() {
    let (records, peer) = bursts("reset");
    let in_its_quantum = |record: &&Vec<u64>| peer.within(record[1], record[1] + QUANTUM - EXCHANGE) > 2 * BLUR;
    let ended = records.iter().filter(in_its_quantum).count();
    assert!(ended >= 30, "after {ended} of 100 interrupts the other one's turn came within a quantum");
    // A turn that it took, its own behind it, and one that the last interrupt took.
    let longest = peer.longest_gap();
    assert!(longest <= 3 * (QUANTUM + EXCHANGE) + BLUR, "the other one was away for {longest} ticks");
}

/// MZ-23: after a quantum that an interrupt's guest took, the turn is that of the successor of who was pre-empted; with
/// `ring = "moves"` that of its own successor.
#[test]
fn the_ring_goes_on_where_it_is_told() {
    for (ring, moves) in [("stays", false), ("moves", true)] {
        let wire = "role=wire background=compute start_us=150000 requests=80 spacing_us=17000 dither_us=5000";
        let description = turns(&format!("on_interrupt = \"reset\"\nring = \"{ring}\""));
        let description = description.guest("owner", 0, "experiment", wire, PREEMPTS);
        let description = description.guest("one", 0, "experiment", &hog(1600 * MS), "");
        let running = finish(&description.guest("two", 0, "experiment", &hog(1600 * MS), "").build());
        let hogs = ["one", "two"].map(|name| Supply::of(&running, name));
        let mut seen = [0, 0];
        // Behind its last interrupt the owner ends.
        for record in running.records("owner").into_iter().take(79) {
            let runs = |hog: &Supply| {
                let pre_empted = |run: &&(u64, u64)| run.0 + BLUR < record[0] && record[0] < run.1 + BLUR;
                hog.runs.iter().find(pre_empted).is_some_and(|run| record[0] + 2 * BLUR < run.0 + QUANTUM)
            };
            let Some(who) = hogs.iter().position(runs) else { continue };
            seen[who] += 1;
            let from = record[1] + QUANTUM + EXCHANGE;
            let after = hogs.each_ref().map(|hog| hog.within(from, from + QUANTUM - 2 * EXCHANGE));
            let whole = QUANTUM - 2 * EXCHANGE - 2 * BLUR;
            // The next turn: of the first hog when the ring moved, of the second one behind the first, of the owner behind that.
            let expected = [moves, !moves && who == 0];
            for (place, runs) in expected.into_iter().enumerate() {
                let right = if runs { after[place] >= whole } else { after[place] <= BLUR };
                assert!(right || interrupted(&running, from), "{ring}: hog {who} was pre-empted, then {after:?}");
            }
        }
        assert!(seen.iter().all(|count| *count >= 15), "{ring}: {seen:?} were pre-empted");
    }
}

/// Another interrupt of the owner comes in the quantum from there on.
fn interrupted(running: &Running, from: u64) -> bool {
    running.records("owner").iter().any(|record| (from - EXCHANGE..from + QUANTUM).contains(&record[0]))
}

/// Two guests that may not be pre-empted, and behind them in the ring one or two whose interrupts wait for the end of their turns.
/// Returns each wake-up with how long the turn in which its date lies lasted, whose that was, and the start of the
/// turn.
fn waiting(reading: &str, owners: &[(&str, u64)]) -> Vec<Vec<(Wake, u64, usize, u64)>> {
    const PERIOD: u64 = 31 * MS + 7777;
    const COUNT: u64 = 60;
    let until = START + (COUNT + 4) * PERIOD;
    let mut description = turns(&format!("on_interrupt = \"reset\"\nreading = \"{reading}\""));
    for name in ["left", "right"] {
        description = description.guest(name, 0, "experiment", &hog(until), "preemptible = false");
    }
    for (name, first) in owners {
        let relay = Relay::by_timer(START + first, PERIOD, COUNT).computing();
        description = description.relay(name, &relay, PREEMPTS);
    }
    let running = finish(&description.build());
    let hogs = ["left", "right"].map(|name| Supply::of(&running, name));
    let placed = |(name, first): &(&str, u64)| {
        let wakes = Wakes::of(&running, name);
        wakes.assert_dates(name, START + first, PERIOD, COUNT);
        let place = |wake: Wake| {
            let inside = |run: &&(u64, u64)| run.0 + BLUR < wake.date && wake.date + BLUR < run.1;
            let run = hogs.iter().enumerate().find_map(|(hog, supply)| Some((hog, supply.runs.iter().find(inside)?)));
            run.map(|(hog, run)| (wake, run.1 - wake.date, hog, run.0))
        };
        wakes.all.into_iter().filter_map(place).collect()
    };
    owners.iter().map(placed).collect()
}

/// The wait of an interrupt, when this many quanta come between the end of the turn and its guest.
fn assert_waits(what: &str, (wake, left, ..): &(Wake, u64, usize, u64), quanta: u64) {
    let waited = wake.late() + BLUR;
    let least = left + quanta * QUANTUM;
    let most = least + (quanta + 1) * 2 * EXCHANGE + 2 * BLUR;
    assert!((least..=most).contains(&waited), "{what}: waited {waited}, expected {least} to {most}: {wake:?}");
}

/// MZ-14, MZ-15, MZ-E1 (iv): an interrupt that comes while a guest runs that may not be pre-empted: with `latched` its guest runs at the end of
/// that quantum, with `masked` only behind all such guests that follow on each other.
#[test]
fn a_delayed_interrupt_waits_as_its_reading_says() {
    for (reading, quanta) in [("latched", [0, 0]), ("masked", [1, 0])] {
        let seen = waiting(reading, &[("owner", 0)]).remove(0);
        for hog in [0, 1] {
            let cases: Vec<_> = seen.iter().filter(|case| case.2 == hog).collect();
            assert!(cases.len() >= 10, "{reading}: {} interrupts while guest {hog} ran", cases.len());
            cases.into_iter().for_each(|case| assert_waits(&format!("{reading}, {hog}"), case, quanta[hog]));
        }
    }
}

/// MZ-16: two latched guests run in the order in which their interrupts came, whatever their places in the ring, one for each
/// quantum that ends.
#[test]
fn latched_guests_run_in_the_order_of_their_interrupts() {
    for (first, second) in [(0, MS / 2), (MS / 2, 0)] {
        let mut seen = waiting("latched", &[("one", first), ("two", second)]);
        let (two, one) = (seen.pop().expect("two"), seen.pop().expect("one"));
        let mut both = 0;
        for one in &one {
            let Some(two) = two.iter().find(|two| two.3 == one.3) else { continue };
            both += 1;
            let (early, late) = if first < second { (one, two) } else { (two, one) };
            assert_waits("the first to come", early, 0);
            assert_waits("the second to come", late, 1);
        }
        assert!(both >= 15, "{both} turns had both interrupts");
    }
}

/// MZ-15, MZ-E1 (iv): the same with `masked`: nobody waits for more than the turns of those that may not be pre-empted and the
/// quantum of the other one.
#[test]
fn masked_guests_do_not_starve_each_other() {
    for (first, second) in [(0, MS / 2), (MS / 2, 0)] {
        for (owner, seen) in waiting("masked", &[("one", first), ("two", second)]).iter().enumerate() {
            let longest = seen.iter().map(|(wake, ..)| wake.late()).max().expect("it was woken");
            let most = 3 * (QUANTUM + 2 * EXCHANGE);
            assert!(longest <= most, "owner {owner} waited for {longest} ticks, at most {most}");
        }
    }
}

fn stealing(options: &str, sleeps: bool, count: u64) -> UsagePage {
    const PERIOD: u64 = 70_001;
    let relay = Relay::by_timer(START, PERIOD, count).with("work", 5000);
    let relay = if sleeps { relay } else { relay.computing() };
    let description = turns(options).relay("owner", &relay, PREEMPTS);
    let until = START + count * PERIOD + 5 * MS;
    let description = description.guest("one", 0, "experiment", &hog(until), "");
    let running = finish(&description.guest("two", 0, "experiment", &hog(until), "").build());
    let wakes = Wakes::of(&running, "owner");
    wakes.assert_dates("owner", START, PERIOD, count);
    assert!(wakes.latest() <= 2 * EXCHANGE, "its interrupts are delivered at once, not after {}", wakes.latest());
    running.final_usage(0)
}

/// MZ-26, MZ-16: a guest that sleeps until its interrupt runs in turns of others alone: what it used is what it took, to the tick,
/// its work and the path of the monitor; the others took nothing.
#[test]
fn time_that_an_interrupt_takes_is_counted_as_stolen() {
    const COUNT: u64 = 200;
    for policy in ["recycle", "reset"] {
        let options = format!("on_interrupt = \"{policy}\"");
        let [short, long] = [COUNT, 2 * COUNT].map(|count| stealing(&options, true, count));
        assert_eq!(unaccounted(&short), unaccounted(&long), "{policy}: ticks that are nobody's");
        let used = long.servers[0].budgeted_ticks - short.servers[0].budgeted_ticks;
        let stolen = long.slots[0].stolen_ticks - short.slots[0].stolen_ticks;
        println!("{policy}: {stolen} of {used} ticks were stolen");
        assert_eq!(stolen, used, "{policy}");
        assert!((COUNT * 5000..=COUNT * (5000 + EXCHANGE)).contains(&stolen), "{policy}: {stolen} ticks");
        assert_eq!(
            [long.slots[1].stolen_ticks, long.slots[2].stolen_ticks],
            [0, 0],
            "{policy}: the others took nothing"
        );
    }
}

/// MZ-22, MZ-23, MZ-26: one that computes takes a whole quantum with `reset`; when the ring moves with it the turn is its own.
#[test]
fn a_quantum_of_reset_is_stolen_unless_the_ring_moves() {
    const COUNT: u64 = 200;
    let stays = stealing("on_interrupt = \"reset\"", false, COUNT);
    let quanta = stays.slots[0].stolen_ticks / QUANTUM;
    // An interrupt every third of a quantum: the ring stands still, and each quantum of the owner but its own is stolen.
    println!("{} ticks stolen, {quanta} quanta", stays.slots[0].stolen_ticks);
    assert!(quanta >= COUNT / 10, "{quanta} quanta");
    assert!(stays.slots[0].stolen_ticks <= stays.servers[0].budgeted_ticks);
    let moves = stealing("on_interrupt = \"reset\"\nring = \"moves\"", false, COUNT);
    assert_eq!(moves.slots.map(|slot| slot.stolen_ticks), [0; 8], "with a ring that moves every turn is one's own");
}

/// MZ-12, MZ-17, MZ-24: the interrupts of two sleeping guests act at every place of each other's path. Both are handled.
///
/// A guest that is pre-empted before it could stop its timer must not pre-empt the other one before that can do so: the
/// two would exchange for ever, without an instruction of any guest.
#[test]
fn two_interrupts_that_act_at_once_are_both_handled() {
    const COUNT: u64 = 300;
    for policy in ["recycle", "reset", "reset-extend"] {
        let description = turns(&format!("on_interrupt = \"{policy}\""));
        let one = Relay::by_timer(START, 50_000, COUNT).with("work", 300);
        let two = Relay::by_timer(START - 1300, 50_009, COUNT).with("work", 300);
        let description = description.relay("one", &one, PREEMPTS).relay("two", &two, PREEMPTS);
        let until = START + 50_000 * COUNT;
        let mut running = description.guest("hog", 0, "experiment", &hog(until), "").build().start_exact(4);
        // An exchange that never ends is seen when the harness has waited long enough.
        let end = running.wait_for_end(LIMIT);
        assert_eq!(end.ok(), Some(End::AllEnded), "{policy}: the guests never ended");
        let [one, two] = ["one", "two"].map(|name| Wakes::of(&running, name));
        one.assert_dates("one", START, 50_000, COUNT);
        two.assert_dates("two", START - 1300, 50_009, COUNT);
    }
}
