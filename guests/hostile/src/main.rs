//! Hostile guest: tries to break out of its partition, attack by attack, and says what it expects before each.
//!
//! Arguments: `attacks=list` (print what there is and end), `attack=N` (that one alone), `first=N` and `last=N` (those and
//! what is between; default all), `repeat=N` (that often), `foreign=N` (number of the interrupt that A12 ends),
//! `watchdog=1` (the partition has a watchdog: the attacks "silence" are tried, and a heartbeat is sent before each attack),
//! `start_us=N` (when the attacks begin); `seed=N` with `steps=N`, `count=N` and `stride=N` does random steps instead ([`random`]).
//!
//! Output is one line before and one after each attack:
//!
//! ```text
//! attack 17 read the physical PCI window: expect fault
//! attack 17 result contained: restarted, reason 1
//! ```
//!
//! Verdicts: `contained` (as stated), `unexpected` (otherwise, nothing gained), `escaped` (something gained), `skipped`.
//! First come the attacks that this guest survives, then those that end its run: the health policy restarts it (give it
//! `on_fault = "restart"` with a limit above the number of attacks) and it continues with the next. PSCI SYSTEM_OFF is
//! last.
#![no_std]
#![no_main]

mod attack;
mod attacks;
mod progress;
mod random;
mod trial;

use attack::{Attack, Expectation, Outcome, Verdict};
use bulkhead_sdk::{arguments, cpu, exception, hypercall, information, interrupt, println};
use progress::Progress;

bulkhead_sdk::entry!(main);

const MICROSECONDS_PER_SECOND: u64 = 1_000_000;

fn main() {
    exception::on_fault(trial::handle);
    interrupt::on_interrupt(attacks::interrupts::take_interrupt);
    let text = information::arguments();
    if arguments::value(text, "attacks") == Some("list") {
        for (number, attack) in attacks::all() {
            announce(number, attack);
        }
        return;
    }
    let start = cpu::frequency_hz() / MICROSECONDS_PER_SECOND * arguments::number(text, "start_us").unwrap_or(0);
    while cpu::counter_ticks() < start {
        // Its watchdog does not know that it waits.
        let _ = hypercall::heartbeat();
        cpu::yield_now();
    }
    if let Some(seed) = arguments::number(text, "seed") {
        random::run(seed);
    }
    let selection = Selection::read(text);
    let mut progress = Progress::load().unwrap_or_default();
    conclude_interrupted(&mut progress);
    try_all(&selection, &mut progress);
    for _ in 1..arguments::number(text, "repeat").unwrap_or(1) {
        progress.attack = 0;
        try_all(&selection, &mut progress);
    }
    summarise(&progress);
}

/// Numbers of the attacks to try.
struct Selection {
    first: u64,
    last: u64,
}

impl Selection {
    fn read(text: &str) -> Self {
        let number = |name| arguments::number(text, name);
        let alone = number("attack");
        let first = alone.or_else(|| number("first")).unwrap_or(1);
        let last = alone.or_else(|| number("last")).unwrap_or_else(|| attacks::all().count() as u64);
        Self { first, last }
    }

    /// Attacks in the order in which they are tried: survivable ones, ending ones, off.
    fn order(&self) -> impl Iterator<Item = (u64, &'static Attack)> + use<> {
        let wanted = self.first..=self.last;
        let stage = |attack: &Attack| match attack.expectation {
            Expectation::Off => 2,
            expectation => u8::from(expectation.ends_run()),
        };
        (0..3)
            .flat_map(move |now| attacks::all().filter(move |(_, attack)| stage(attack) == now))
            .filter(move |(number, _)| wanted.contains(number))
    }
}

/// After a restart: says what became of the attack that was under way.
fn conclude_interrupted(progress: &mut Progress) {
    let Some((number, attack)) = attacks::all().find(|(number, _)| *number == progress.attack) else {
        return;
    };
    let reason = information::information()
        .and_then(|page| hypercall::partition_status(page.partition).ok())
        .map_or(0, |status| status.reason);
    let outcome = match (attack.expectation, attacks::power::words_left_over()) {
        (_, words @ 1..) => Outcome::escaped("words that outlived the restart", words),
        (Expectation::Fault | Expectation::Restart, _) => Outcome::contained("restarted, reason", reason),
        _ => Outcome::unexpected("restarted, reason", reason),
    };
    report(number, outcome, progress);
}

fn try_all(selection: &Selection, progress: &mut Progress) {
    let done = progress.attack;
    let next = selection.order().position(|(number, _)| number == done).map_or(0, |position| position + 1);
    for item in selection.order().skip(next) {
        let (number, attack) = item;
        let is_alone = attack.expectation == Expectation::Off && number != selection.last;
        if is_alone {
            announce(number, attack);
            report(number, Outcome::skipped("ends the run, select it alone"), progress);
        } else if attack.expectation.ends_run() && !Progress::is_kept() {
            announce(number, attack);
            report(number, Outcome::skipped("no memory outlives a restart here"), progress);
        } else {
            if attack.expectation == Expectation::Off {
                summarise(progress);
            }
            try_one(item, progress);
        }
    }
}

fn announce(number: u64, attack: &Attack) {
    println!("attack {number} {}: expect {}", attack.name, attack.expectation);
}

fn try_one((number, attack): (u64, &Attack), progress: &mut Progress) {
    if arguments::number(information::arguments(), "watchdog") == Some(1) {
        // Without Bulkhead below there is no watchdog to tell.
        let _ = hypercall::heartbeat();
    }
    announce(number, attack);
    progress.attack = number;
    progress.save();
    let outcome = match ((attack.run)(), trial::take_stray()) {
        (outcome, Some(stray)) if outcome.verdict == Verdict::Contained => {
            Outcome::unexpected("exception beside the attack, ESR", stray.0)
        }
        (outcome, _) => outcome,
    };
    report(number, outcome, progress);
}

fn report(number: u64, outcome: Outcome, progress: &mut Progress) {
    println!("attack {number} result {}: {} {:#x}", outcome.verdict, outcome.note, outcome.value);
    progress.attack = number;
    progress.count(outcome.verdict);
    progress.save();
}

/// Counts of everything so far; printed before the partition switches itself off.
fn summarise(progress: &Progress) {
    let [contained, unexpected, escaped, skipped] =
        [Verdict::Contained, Verdict::Unexpected, Verdict::Escaped, Verdict::Skipped]
            .map(|verdict| progress.counted(verdict));
    println!(
        "attacks done tried={} contained={contained} unexpected={unexpected} escaped={escaped} skipped={skipped}",
        contained + unexpected + escaped,
    );
}
