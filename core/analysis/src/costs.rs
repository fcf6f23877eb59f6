//! What the monitor itself takes, in instructions of this build.
//!
//! [`PROVENANCE`] says which of the numbers are measured and which are estimates, and `bulkhead check` prints it. `./x bench`
//! fails when its measurement of `switch` is above the record; [`compare`] is for all of them, once each has a measurement.
//! `bulkhead check` turns instructions into time with an instruction rate that it prints.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Costs in instructions at EL2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// From one vCPU to another: entry, decision, both register sets with FP, timers, list registers, return.
    pub switch: u64,
    /// An interrupt for a vCPU that does not run, which changes nobody's turn: entry, note, return.
    pub interrupt_entry: u64,
    /// Longest passage of the monitor that cannot be pre-empted.
    pub longest_passage: u64,
    /// From the moment that a budget is used up to the moment that its server no longer runs, without `longest_passage`.
    pub timer_latency: u64,
    /// From a doorbell call on one core to the interrupt at the receiver's core.
    pub doorbell: u64,
    /// One slice of a restart (scrub and reload), charged to the partition's server.
    pub restart_slice: u64,
}

/// Names of the fields, in order, for messages and for the file.
pub const NAMES: [&str; 6] =
    ["switch", "interrupt_entry", "longest_passage", "timer_latency", "doorbell", "restart_slice"];

impl Costs {
    /// The numbers in the order of [`NAMES`].
    #[must_use]
    pub const fn values(&self) -> [u64; 6] {
        [self.switch, self.interrupt_entry, self.longest_passage, self.timer_latency, self.doorbell, self.restart_slice]
    }
}

/// The costs that the analysis uses. [`render`] writes these lines.
pub const RECORDED: Costs = Costs {
    switch: 840,
    interrupt_entry: 200,
    longest_passage: 2600,
    timer_latency: 150,
    doorbell: 400,
    restart_slice: 1500,
};

/// Where [`RECORDED`] comes from. The check prints it, so that nobody takes an estimate for a measurement.
pub const PROVENANCE: &str = "switch and longest_passage measured, the other costs estimated";

/// The lines of this file that hold a record, for the program that measures: it puts them in place of the old ones.
#[must_use]
pub fn render(costs: &Costs, provenance: &str) -> String {
    let mut text = String::from("pub const RECORDED: Costs = Costs {\n");
    for (name, value) in NAMES.into_iter().zip(costs.values()) {
        text.push_str(&format!("    {name}: {value},\n"));
    }
    text.push_str("};\n\n/// Where [`RECORDED`] comes from. The check prints it, so that nobody takes an estimate for a measurement.\n");
    text.push_str(&format!("pub const PROVENANCE: &str = {provenance:?};\n"));
    text
}

/// How far a record may lie above its measurement: a quarter, or 40 instructions if that is more.
const SLACK_DIVISOR: u64 = 4;
const SLACK_INSTRUCTIONS: u64 = 40;

/// A record that does not fit its measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Name of the cost.
    pub name: &'static str,
    /// What was measured.
    pub measured: u64,
    /// What is recorded.
    pub recorded: u64,
}

impl Difference {
    /// The record is too small: computed bounds may be broken. Otherwise it is too careful: bounds are worse than needed.
    #[must_use]
    pub const fn is_unsafe(&self) -> bool {
        self.measured > self.recorded
    }
}

/// Compares a measurement with a record. Every measured cost must be at most the recorded one, and the recorded one at most
/// a quarter (or 40 instructions) above it.
#[must_use]
pub fn compare(measured: &Costs, recorded: &Costs) -> Vec<Difference> {
    let pairs = NAMES.into_iter().zip(measured.values().into_iter().zip(recorded.values()));
    let differences = pairs.map(|(name, (measured, recorded))| Difference { name, measured, recorded });
    differences
        .filter(|one| one.is_unsafe() || one.recorded > one.measured.saturating_add(slack(one.measured)))
        .collect()
}

fn slack(measured: u64) -> u64 {
    (measured / SLACK_DIVISOR).max(SLACK_INSTRUCTIONS)
}

#[cfg(test)]
mod tests {
    use super::{Costs, NAMES, PROVENANCE, RECORDED, compare, render};

    #[test]
    fn the_record_is_what_would_be_written() {
        assert!(include_str!("costs.rs").contains(&render(&RECORDED, PROVENANCE)));
        let other = render(&Costs { switch: 1, ..RECORDED }, "a test");
        assert!(other.contains("switch: 1,") && other.contains("= \"a test\";"));
    }

    #[test]
    fn a_record_below_the_measurement_is_unsafe_and_one_far_above_is_careless() {
        assert!(compare(&RECORDED, &RECORDED).is_empty());
        let slower = Costs { switch: RECORDED.switch + 1, ..RECORDED };
        let found = compare(&slower, &RECORDED);
        assert_eq!((found.len(), found[0].name, found[0].is_unsafe()), (1, "switch", true));
        let faster = Costs { switch: RECORDED.switch / 2, ..RECORDED };
        let found = compare(&faster, &RECORDED);
        assert_eq!((found.len(), found[0].name, found[0].is_unsafe()), (1, "switch", false));
        let close = Costs { switch: RECORDED.switch - RECORDED.switch / 6, ..RECORDED };
        assert!(compare(&close, &RECORDED).is_empty());
        assert_eq!(RECORDED.values().len(), NAMES.len());
    }
}
