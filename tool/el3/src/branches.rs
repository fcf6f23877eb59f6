//! The table of conditional branches: what each decides, and what takes either direction (SG-11, SG-E3).
//!
//! A branch is known by the label before it and its number behind that label, so that a change elsewhere does not touch the table. The
//! ledger test compares the table with the binary, both ways; a test on QEMU counts, by address, that each scenario takes its
//! direction.

use crate::configuration::Configuration;
use crate::instruction::{Instruction, read};
use crate::program::Program;
use crate::ways::ways;
use std::collections::BTreeSet;

/// The test that runs the scenarios and sees every direction taken.
pub const TEST: &str = "tests/system/tests/worlds/branches.rs: each_direction_of_each_branch_is_executed";

/// What is run to see a direction taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scenario {
    /// The worlds call each other, and the non-secure one touches group 0.
    Calls,
    /// A machine with a second core.
    SecondCore,
    /// A flash file whose plan is not what its CRC says.
    DamagedPlan,
    /// The same of the payload.
    DamagedPayload,
    /// Four cores, of which the others are started, kicked, watched and ended (`guests/kicked`).
    Cores,
    /// A machine with a core more than the program serves.
    FifthCore,
}

impl Scenario {
    /// Those of the configuration `dual`.
    pub const DUAL: &[Self] = &[Self::Calls, Self::SecondCore, Self::DamagedPlan, Self::DamagedPayload];
    /// Those of the configuration `multi`.
    pub const MULTI: &[Self] = &[Self::Calls, Self::DamagedPlan, Self::DamagedPayload, Self::Cores, Self::FifthCore];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Calls => "calls",
            Self::SecondCore => "second core",
            Self::DamagedPlan => "damaged plan",
            Self::DamagedPayload => "damaged payload",
            Self::Cores => "cores",
            Self::FifthCore => "fifth core",
        }
    }
}

/// A direction: when the branch goes there, and a scenario in which it does.
#[derive(Clone, Copy, Debug)]
pub struct Direction {
    /// When.
    pub when: &'static str,
    /// Where it is seen.
    pub scenario: Scenario,
}

/// A conditional branch.
#[derive(Clone, Copy, Debug)]
pub struct Branch {
    /// The label before it.
    pub label: &'static str,
    /// Its number behind that label, from 0.
    pub number: usize,
    /// What is written there.
    pub form: &'static str,
    /// Where it goes, as [`Program::place`] names it.
    pub target: &'static str,
    /// It is executed before a world starts, and never again.
    pub is_boot: bool,
    /// What it decides.
    pub decides: &'static str,
    /// It branches.
    pub taken: Direction,
    /// It goes on with the next instruction.
    pub not_taken: Direction,
}

pub(crate) const fn direction(when: &'static str, scenario: Scenario) -> Direction {
    Direction { when, scenario }
}

/// Every conditional branch of the configuration `dual`.
pub static BRANCHES: &[Branch] = &ROWS;

/// The same, as constants: `multi` has most of them too.
pub(crate) const ROWS: [Branch; 7] = [
    Branch {
        label: "reset",
        number: 0,
        form: "cbnz",
        target: "park",
        is_boot: true,
        decides: "which core boots",
        taken: direction("on every other core", Scenario::SecondCore),
        not_taken: direction("on the boot core", Scenario::Calls),
    },
    Branch {
        label: "copy",
        number: 0,
        form: "b.ne",
        target: "copy+0x4",
        is_boot: true,
        decides: "whether all bytes are copied",
        taken: direction("with bytes left", Scenario::Calls),
        not_taken: direction("behind the last one", Scenario::Calls),
    },
    Branch {
        label: "copy",
        number: 1,
        form: "b.ne",
        target: "damaged",
        is_boot: true,
        decides: "whether the bytes are what their CRC says",
        taken: direction("when one bit differs", Scenario::DamagedPlan),
        not_taken: direction("when all are", Scenario::Calls),
    },
    Branch {
        label: "damaged",
        number: 0,
        form: "cbz",
        target: "park",
        is_boot: true,
        decides: "whether the message has ended",
        taken: direction("at its end", Scenario::DamagedPayload),
        not_taken: direction("at each character", Scenario::DamagedPayload),
    },
    Branch {
        label: "slot 0x400",
        number: 0,
        form: "tbnz",
        target: "from_non_secure",
        is_boot: false,
        decides: "which world it is from (SCR_EL3.NS)",
        taken: direction("from the non-secure world", Scenario::Calls),
        not_taken: direction("from the secure world", Scenario::Calls),
    },
    Branch {
        label: "slot 0x400",
        number: 1,
        form: "cbnz",
        target: "reset_asked",
        is_boot: false,
        decides: "what the secure world asks for (x0)",
        taken: direction("for a reset of the other world's registers", Scenario::Calls),
        not_taken: direction("for the other world to run: path 4", Scenario::Calls),
    },
    Branch {
        label: "from_non_secure",
        number: 0,
        form: "b.eq",
        target: "skip",
        is_boot: false,
        decides: "whether it is a trapped register of group 0 (ESR_EL3.EC)",
        taken: direction("at a register of group 0", Scenario::Calls),
        not_taken: direction("at a call: path 5", Scenario::Calls),
    },
];

/// A conditional branch of the binary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its address.
    pub address: u64,
    /// The label before it.
    pub label: String,
    /// Its number behind that label.
    pub number: usize,
    /// What is written there.
    pub form: &'static str,
    /// Where it goes.
    pub target: u64,
    /// It is on no way from a vector.
    pub is_boot: bool,
}

/// Every conditional branch of a program, by address.
///
/// # Errors
/// As [`ways`].
pub fn found(program: &Program) -> Result<Vec<Found>, String> {
    let at_run_time: BTreeSet<u64> = ways(program)?.iter().flat_map(|way| way.steps.clone()).collect();
    let mut all: Vec<Found> = Vec::new();
    for (address, word) in program.instructions() {
        if let Some(Instruction::Conditional { name, target, .. }) = read(word, address) {
            let label = program.label(address).to_owned();
            let number = all.iter().filter(|other| other.label == label).count();
            let is_boot = !at_run_time.contains(&address);
            all.push(Found { address, label, number, form: name, target, is_boot });
        }
    }
    Ok(all)
}

/// The branches of a program with their rows of the table.
///
/// # Errors
/// With every branch that the table does not have, every row that the binary does not have, and every row that says something else.
pub fn listed(program: &Program) -> Result<Vec<(Found, &'static Branch)>, Vec<String>> {
    let found = found(program).map_err(|why| vec![why])?;
    let rows = Configuration::of(program).branches;
    let mut wrong = Vec::new();
    let mut listed = Vec::new();
    for one in found {
        let name = format!("{} at {:#x}, number {} behind `{}`", one.form, one.address, one.number, one.label);
        match rows.iter().find(|row| row.label == one.label && row.number == one.number) {
            None => wrong.push(format!("the table has no {name}")),
            Some(row) => {
                let target = program.place(one.target);
                if (row.form, row.target, row.is_boot) != (one.form, target.as_str(), one.is_boot) {
                    let when = if one.is_boot { "at boot" } else { "at run time" };
                    wrong.push(format!("{name} goes to {target}, {when}; the table says otherwise"));
                }
                listed.push((one, row));
            }
        }
    }
    for row in rows.iter().filter(|row| !listed.iter().any(|(_, known)| std::ptr::eq(*known, *row))) {
        wrong.push(format!("the binary has no {}, number {} behind `{}`", row.form, row.number, row.label));
    }
    if wrong.is_empty() { Ok(listed) } else { Err(wrong) }
}
