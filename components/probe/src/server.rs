//! What a thread sees of the servers of its instance: how much it runs, how often it is away, and how long it takes from one thread to another.

use bulkhead_component::driver::interrupt_done;
use bulkhead_component::{call, println};
use core::sync::atomic::{AtomicU64, Ordering};

/// First argument that is about it: waits until all is quiet, and then spins for ten periods.
pub(crate) const FIRST: u64 = 110;
/// Spins from before that until after it.
const SPINS_LONGER: u64 = 111;
/// Serves the interrupt of slot 2, which signals the end point of slot 1.
const DRIVES: u64 = 112;
/// Writes down when it runs, and how long it took when somebody else of its component has run: the less important one.
const GIVES_WAY: u64 = 113;
/// The same, the more important one.
const COMES_BACK: u64 = 114;

/// 10 ms at 62.5 MHz, the period of every server here.
const PERIOD: u64 = 625_000;
/// A longer time between two looks at the counter is an absence.
const ABSENCE: u64 = 300;
const END_POINT: u64 = 1;
const INTERRUPT: u64 = 2;

/// When the less important thread of this component ran last, and the more important one.
static LESS: AtomicU64 = AtomicU64::new(0);
static MORE: AtomicU64 = AtomicU64::new(0);

pub(crate) fn run(argument: u64) {
    match argument {
        FIRST => {
            sleep(2 * PERIOD);
            spin("spun", 10 * PERIOD);
        }
        SPINS_LONGER => spin("spun longer", 16 * PERIOD),
        DRIVES => drive(),
        GIVES_WAY => stamp(&LESS, &MORE, "used up", 16 * PERIOD),
        COMES_BACK => {
            sleep(2 * PERIOD);
            stamp(&MORE, &LESS, "came back", 10 * PERIOD);
        }
        _ => {}
    }
}

fn sleep(ticks: u64) {
    let _ = call::receive(0, call::counter_ticks() + ticks);
}

/// Spins, and says how much of the time it ran.
fn spin(name: &str, ticks: u64) {
    let end = call::counter_ticks() + ticks;
    let (mut before, mut ran, mut absences, mut longest) = (call::counter_ticks(), 0, 0, 0);
    while before < end {
        let now = call::counter_ticks();
        if now - before > ABSENCE {
            absences += 1;
            longest = core::cmp::max(longest, now - before);
        } else {
            ran += now - before;
        }
        before = now;
    }
    println!("{name}: {ran} ticks, {absences} absences, longest {longest}");
}

/// Serves each interrupt for 3,000 ticks.
fn drive() {
    sleep(2 * PERIOD);
    let end = call::counter_ticks() + 10 * PERIOD;
    let mut served = 0;
    // Looked at here as well: where a round takes longer than the interrupt's period, there is one at each `receive`, which then never waits.
    while call::counter_ticks() < end && call::receive(END_POINT, end).is_ok() {
        let until = call::counter_ticks() + 3000;
        while call::counter_ticks() < until {}
        served += 1;
        let _ = interrupt_done(INTERRUPT);
    }
    println!("served {served}");
}

/// The shortest and the longest of some ways.
struct Ways {
    count: u64,
    shortest: u64,
    longest: u64,
}

impl Ways {
    const NONE: Self = Self { count: 0, shortest: u64::MAX, longest: 0 };

    fn add(&mut self, ticks: u64) {
        self.count += 1;
        self.shortest = core::cmp::min(self.shortest, ticks);
        self.longest = core::cmp::max(self.longest, ticks);
    }

    fn say(&self, name: &str) {
        println!("{name}: {} ways, {} to {} ticks", self.count, self.shortest, self.longest);
    }
}

/// Writes down when it runs; whenever it was away, how long ago the other one ran last.
fn stamp(own: &AtomicU64, other: &AtomicU64, name: &str, ticks: u64) {
    let end = call::counter_ticks() + ticks;
    let (mut before, mut ways) = (call::counter_ticks(), Ways::NONE);
    // The first way is behind what was printed.
    let mut is_warm = false;
    while before < end {
        let now = call::counter_ticks();
        if now - before > ABSENCE {
            if is_warm {
                ways.add(now - other.load(Ordering::Relaxed));
            }
            is_warm = true;
        }
        own.store(now, Ordering::Relaxed);
        before = now;
    }
    ways.say(name);
}
