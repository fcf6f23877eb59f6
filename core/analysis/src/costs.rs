//! What the monitor itself takes, in instructions of this build.
//!
//! [`RECORDED`] is a file that `./x bench --record-costs` writes from its own measurements (rows `costs` of `./x bench`),
//! and a test of the benchmark measures again: a build that takes longer than the record, or a record that is far above the
//! build, fails ([`compare`]). `bulkhead check` turns instructions into time with an instruction rate that it prints.

mod recorded;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
pub use recorded::RECORDED;

/// One list of the costs: the fields, their names and their order are the same everywhere.
macro_rules! costs {
    ($($(#[$documentation:meta])* $name:ident,)+) => {
        /// Costs in instructions at EL2.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Costs {
            $($(#[$documentation])* pub $name: u64,)+
        }

        /// Names of the fields, in order, for messages and for the file. `costs.NAME` is the row of `./x bench` that measures it.
        pub const NAMES: [&str; COUNT] = [$(stringify!($name)),+];

        /// How many they are.
        pub const COUNT: usize = [$(stringify!($name)),+].len();

        impl Costs {
            /// The numbers in the order of [`NAMES`].
            #[must_use]
            pub const fn values(&self) -> [u64; COUNT] {
                [$(self.$name),+]
            }

            /// Costs from numbers in the order of [`NAMES`].
            #[must_use]
            pub const fn from_values([$($name),+]: [u64; COUNT]) -> Self {
                Self { $($name),+ }
            }
        }
    };
}

costs! {
    /// One exchange: from the decision that chooses a vCPU to its guest's first instruction, with all registers, timers and list
    /// registers, and from a guest's last instruction to the next decision. Who pre-empts or gives the core away pays for it.
    switch,
    /// An interrupt for a vCPU that does not run, which changes nobody's turn: entry, note, return.
    interrupt_entry,
    /// Longest passage of the monitor that cannot be pre-empted, with trace recording or without.
    longest_passage,
    /// From the moment that a budget is used up to the decision that ends its use, without `longest_passage`.
    timer_latency,
    /// From the dating of a vCPU's loading, up to which somebody else pays, to its guest's first instruction.
    after_loading,
    /// Writing down what the host reads of a shared core, at most once in `bulkhead_abi::schedule::PUBLICATION_TICKS` while it is busy.
    publication,
    /// From a doorbell call on one core to the interrupt at the receiver's core.
    doorbell,
    /// What trace recording adds to a switch and to an interrupt.
    trace,
    /// The least that a vCPU is charged each time that it runs: a budget cannot be used more often than it holds this.
    least_stint,
}

/// Where [`RECORDED`] comes from. The check prints it.
pub const PROVENANCE: &str = "measured by `./x bench costs`";

impl Costs {
    /// The costs with trace recording.
    #[must_use]
    pub const fn traced(&self) -> Self {
        Self {
            switch: self.switch.saturating_add(self.trace),
            interrupt_entry: self.interrupt_entry.saturating_add(self.trace),
            // An interrupt is recorded before the clock is read for the decision.
            timer_latency: self.timer_latency.saturating_add(self.trace),
            ..*self
        }
    }

    /// What is recorded for a measurement: a little more, because guests that sleep do not repeat to the instruction; of what
    /// is a least amount a little less.
    #[must_use]
    pub fn with_margin(&self) -> Self {
        let mut values = self.values();
        for (name, value) in NAMES.into_iter().zip(&mut values) {
            let margin = value.div_ceil(MARGIN_DIVISOR);
            *value = if is_least(name) { value.saturating_sub(margin) } else { value.saturating_add(margin) };
        }
        Self::from_values(values)
    }
}

/// A record has this part of the measurement as its margin: four in a hundred. A measurement is the largest of many passages and no
/// proof that there is no longer one.
const MARGIN_DIVISOR: u64 = 25;

/// This amount is a lower bound, and a smaller one is the careful one.
#[must_use]
pub fn is_least(name: &str) -> bool {
    name == "least_stint"
}

/// The file that holds a record: for each number where it was found, in the order of [`NAMES`].
#[must_use]
pub fn render(costs: &Costs, found: &[String; COUNT], emulator: &str) -> String {
    let mut text = format!(
        "//! Written by `./x bench --record-costs` with {emulator}; do not edit.\n\nuse super::Costs;\n\n\
         /// The costs that the analysis uses, in instructions.\npub const RECORDED: Costs = Costs {{\n"
    );
    for ((name, value), found) in NAMES.into_iter().zip(costs.values()).zip(found) {
        text.push_str(&format!("    // `./x bench costs.{name}`: {found}\n    {name}: {value},\n"));
    }
    text.push_str("};\n");
    text
}

/// How far a record may lie from its measurement: a tenth.
const SLACK_DIVISOR: u64 = 10;

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
    /// The record is too good: computed bounds may be broken. Otherwise it is too careful: bounds are worse than needed.
    #[must_use]
    pub fn is_unsafe(&self) -> bool {
        if is_least(self.name) { self.measured < self.recorded } else { self.measured > self.recorded }
    }
}

/// Compares a measurement with a record. Every measured cost must be at most the recorded one (at least, for a least amount),
/// and the recorded one at most a tenth away from it.
#[must_use]
pub fn compare(measured: &Costs, recorded: &Costs) -> Vec<Difference> {
    let pairs = NAMES.into_iter().zip(measured.values().into_iter().zip(recorded.values()));
    let differences = pairs.map(|(name, (measured, recorded))| Difference { name, measured, recorded });
    let is_far = |one: &Difference| one.recorded.abs_diff(one.measured) > one.measured.div_ceil(SLACK_DIVISOR);
    differences.filter(|one| one.is_unsafe() || is_far(one)).collect()
}

#[cfg(test)]
mod tests {
    use super::{Costs, NAMES, RECORDED, compare, render};
    use alloc::string::ToString;

    #[test]
    fn the_record_is_what_would_be_written() {
        let found = NAMES.map(|name| name.to_string());
        let code =
            |text: &str| text.lines().filter(|line| !line.contains("//")).collect::<alloc::vec::Vec<_>>().join("\n");
        assert_eq!(code(include_str!("costs/recorded.rs")), code(&render(&RECORDED, &found, "")));
        assert_eq!(Costs::from_values(RECORDED.values()), RECORDED);
    }

    /// QV-38: bounds rest on costs that this build keeps.
    #[test]
    fn a_record_below_the_measurement_is_unsafe_and_one_far_above_is_careless() {
        assert!(compare(&RECORDED, &RECORDED).is_empty());
        assert!(compare(&RECORDED, &RECORDED.with_margin()).is_empty());
        let only = |found: alloc::vec::Vec<super::Difference>| {
            assert_eq!(found.len(), 1);
            (found[0].name, found[0].is_unsafe())
        };
        let slower = Costs { switch: RECORDED.switch + 1, ..RECORDED };
        assert_eq!(only(compare(&slower, &RECORDED)), ("switch", true));
        let faster = Costs { switch: RECORDED.switch / 2, ..RECORDED };
        assert_eq!(only(compare(&faster, &RECORDED)), ("switch", false));
        let shorter = Costs { least_stint: RECORDED.least_stint - 1, ..RECORDED };
        assert_eq!(only(compare(&shorter, &RECORDED)), ("least_stint", true));
        let longer = Costs { least_stint: RECORDED.least_stint * 2, ..RECORDED };
        assert_eq!(only(compare(&longer, &RECORDED)), ("least_stint", false));
    }
}
