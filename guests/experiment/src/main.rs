//! One guest for the experiments on shared cores; its arguments say which part it plays.
//!
//! `role=hog` computes and notes when it did not run. `role=wire` gets requests at given times and notes how late it served each.
//! `role=tasks` is a set of periodic tasks by priority. `role=storm` rings doorbells as fast as it can. `role=load` masks
//! interrupts again and again. `role=relay` is woken, works and wakes others. Each role's module says which arguments it has; those of all: `start_us=` and `end_us=`,
//! in microseconds of the machine's counter, which all partitions share (default 1000000 and never).
//!
//! The request of a wire is the guest's own virtual timer: the one interrupt source that can be programmed to the tick, is delivered
//! while its owner does not run, and needs no second core, so that a run under `-icount` is exact.
#![no_std]
#![no_main]

mod hog;
mod load;
mod log;
mod relay;
mod storm;
mod tasks;
mod wire;
mod work;

use bulkhead_sdk::{arguments, cpu, information, interrupt, println, timer};

bulkhead_sdk::entry!(main);

const DEFAULT_START_MICROSECONDS: u64 = 1_000_000;
const NANOSECONDS_PER_SECOND: u64 = 1_000_000_000;

/// Arguments with units, in ticks.
#[derive(Clone, Copy)]
pub(crate) struct Settings {
    text: &'static str,
    frequency_hz: u64,
}

impl Settings {
    /// A number without unit.
    pub(crate) fn number(&self, key: &str, default: u64) -> u64 {
        arguments::number(self.text, key).unwrap_or(default)
    }

    /// A word.
    pub(crate) fn word(&self, key: &str) -> &'static str {
        arguments::value(self.text, key).unwrap_or("")
    }

    /// Ticks in this many nanoseconds.
    pub(crate) fn ticks_of_ns(&self, ns: u64) -> u64 {
        (u128::from(ns) * u128::from(self.frequency_hz) / u128::from(NANOSECONDS_PER_SECOND)) as u64
    }

    /// A duration given in nanoseconds.
    pub(crate) fn ns(&self, key: &str, default: u64) -> u64 {
        self.ticks_of_ns(self.number(key, default))
    }

    /// A duration given in microseconds.
    pub(crate) fn us(&self, key: &str, default: u64) -> u64 {
        self.ticks_of_ns(self.number(key, default).saturating_mul(1000))
    }

    /// When the experiment starts.
    pub(crate) fn start_ticks(&self) -> u64 {
        self.us("start_us", DEFAULT_START_MICROSECONDS)
    }

    /// When it ends.
    pub(crate) fn end_ticks(&self) -> u64 {
        arguments::number(self.text, "end_us").map_or(u64::MAX, |us| self.ticks_of_ns(us.saturating_mul(1000)))
    }
}

fn main() {
    let settings = Settings { text: information::arguments(), frequency_hz: cpu::frequency_hz() };
    let role = settings.word("role");
    println!("experiment {} role={role}", information::name());
    interrupt::start();
    timer::enable_interrupt();
    cpu::mask_interrupts();
    work::install_vectors();
    match role {
        "hog" => hog::run(&settings),
        "wire" => wire::run(&settings),
        "tasks" => tasks::run(&settings),
        "storm" => storm::run(&settings),
        "load" => load::run(&settings),
        "relay" => relay::run(&settings),
        other => println!("experiment FAILED: no role is called `{other}`"),
    }
    println!("experiment done");
}
