//! What the monitor itself takes, for `bulkhead check`: the rows that `core/analysis` records.
//!
//! An emulator plugin counts every passage of the monitor in some systems that provoke long ones; a cost is the largest of all.
//! The systems are small and hostile on purpose: as many servers as fit and all their dates at once, interrupts in storms,
//! restarts, consoles, emulated registers, with trace recording and without.

use crate::Failure;
use crate::lab::{Lab, RUN_LIMIT, Variant};
use crate::outcome::Found;
use crate::paths::{ONE_TICK_SHIFT, SHARE_CORE, doorbell};
use crate::rows::{Row, Unit};
use crate::symbols;
use bulkhead_abi::{Part, PhysicalAddress};
use bulkhead_analysis::costs::{COUNT, Costs, Difference, NAMES, RECORDED, compare, render};
use bulkhead_run::{CountingOptions, ImagePlan, Passages, qemu};
use std::ops::Range;
use std::path::PathBuf;
use std::rc::Rc;

/// The function that writes what the host reads of a shared core, at most once in 10 ms while it is busy. Its work belongs to no switch.
const PUBLICATION: &str = "publish_usage";

/// A system in which passages are counted.
struct Scenario {
    /// What provokes long passages.
    name: &'static str,
    system: &'static str,
    changes: &'static [(&'static str, &'static str)],
    /// What it says something about.
    shows: Shows,
    /// Traces are recorded.
    traced: bool,
}

/// What a scenario says something about, besides the longest passage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shows {
    /// Switches.
    Switches,
    /// Interrupts that change nobody's turn: most others of its passages are guests that change their own server.
    Entries,
    /// Many things happen at one instant, each of which the analysis counts for itself.
    Nothing,
}

const TRACE: (&str, &str) = ("enabled = false", "enabled = true");

/// Other dates of the guests that wait.
const NEARER: (&str, &str) = ("spacing_us=7000 dither_us=3000", "spacing_us=6000 dither_us=2500");
const FARTHER: (&str, &str) = ("spacing_us=7000 dither_us=3000", "spacing_us=8000 dither_us=3500");

const RESTARTS: &[(&str, &str)] =
    &[("by=off", "by=reset"), ("on_fault = \"stop\"", "on_fault = \"restart\", max = 2, within = \"600 s\"")];

const fn scenario(
    name: &'static str,
    system: &'static str,
    changes: &'static [(&'static str, &'static str)],
    shows: Shows,
) -> Scenario {
    Scenario { name, system, changes, shows, traced: false }
}

const fn traced(name: &'static str, system: &'static str, shows: Shows) -> Scenario {
    Scenario { name, system, changes: &[TRACE], shows, traced: true }
}

const SCENARIOS: &[Scenario] = &[
    scenario(
        "a device's interrupt",
        "shared",
        &[("floating_point = \"lazy\"", "floating_point = \"eager\"")],
        Shows::Switches,
    ),
    scenario("sixteen servers, all dates at once", "costs-crowd", &[], Shows::Nothing),
    traced("sixteen servers, all dates at once, traced", "costs-crowd", Shows::Nothing),
    // What comes together on the longest path depends on where the guests are, so it is provoked in two phases.
    Scenario {
        changes: &[TRACE, ("handler_ns=10000", "handler_ns=14000")],
        ..traced("sixteen servers in other phases, traced", "costs-crowd", Shows::Nothing)
    },
    scenario("attacks and restarts", "costs-attack", &[], Shows::Switches),
    traced("attacks and restarts, traced", "costs-attack", Shows::Switches),
    scenario("a guest that leaves with sixteen doorbells", "costs-leave", &[], Shows::Nothing),
    scenario("a guest that restarts with sixteen doorbells", "costs-leave", RESTARTS, Shows::Nothing),
    // Which of the waiting guests come together depends on their dates, so each kind of run has three sets of them.
    scenario("interrupts of guests that wait", "costs-entries", &[], Shows::Entries),
    scenario("interrupts of guests that wait, nearer", "costs-entries", &[NEARER], Shows::Entries),
    scenario("interrupts of guests that wait, farther", "costs-entries", &[FARTHER], Shows::Entries),
    traced("interrupts of guests that wait, traced", "costs-entries", Shows::Entries),
    Scenario {
        changes: &[TRACE, NEARER],
        ..traced("interrupts of guests that wait, nearer, traced", "costs-entries", Shows::Entries)
    },
    Scenario {
        changes: &[TRACE, FARTHER],
        ..traced("interrupts of guests that wait, farther, traced", "costs-entries", Shows::Entries)
    },
    scenario("emulated registers and console", "paths", SHARE_CORE, Shows::Nothing),
    scenario(
        "turns of four",
        "experiments/mips-4",
        &[
            ("on_interrupt = \"none\"", "on_interrupt = \"reset-extend\""),
            (
                "requests=10000 spacing_us=50000 dither_us=500 handler_ns=350000",
                "requests=400 spacing_us=1000 dither_us=500 handler_ns=3500",
            ),
            ("end_us=1000000000", "end_us=2500000"),
            ("quantum = \"30 ms\"", "quantum = \"1 ms\""),
        ],
        Shows::Switches,
    ),
    scenario(
        "storms of interrupts and doorbells",
        "experiments/isolation-of-time",
        &[
            ("end_us=5000000", "end_us=2500000"),
            // Attackers with more of the core than the experiment lets them have.
            ("budget = \"400 us\", period = \"20 ms\"", "budget = \"1 ms\", period = \"20 ms\""),
            ("budget = \"2 ms\", period = \"60 ms\"", "budget = \"20 ms\", period = \"60 ms\""),
            ("budget = \"2 ms\", period = \"50 ms\"", "budget = \"10 ms\", period = \"50 ms\""),
            ("budget = \"2 ms\", period = \"100 ms\"", "budget = \"10 ms\", period = \"100 ms\""),
            ("budget = \"70 ms\", period = \"100 ms\"", "budget = \"20 ms\", period = \"100 ms\""),
        ],
        Shows::Switches,
    ),
];

/// What passages a scenario had.
struct Counted {
    scenario: &'static Scenario,
    passages: Passages,
}

/// Where the function that writes down what the host reads is in the monitor: counted apart, it is in no passage.
pub(crate) struct Publication(Range<u64>);

/// Finds it.
pub(crate) fn publication_text(lab: &Lab) -> Result<Publication, Failure> {
    symbols::function(&lab.monitor(Part::Shared)?, PUBLICATION).map(Publication)
}

impl Publication {
    /// Its place in an image.
    pub(crate) fn place(&self, plan: &ImagePlan) -> Range<PhysicalAddress> {
        let at = |offset| PhysicalAddress(plan.header.text.0.saturating_add(offset));
        at(self.0.start)..at(self.0.end)
    }
}

fn count(lab: &Lab, scenario: &'static Scenario) -> Result<Counted, Failure> {
    let publication = publication_text(lab)?;
    let variant = Variant { name: scenario.system, changes: scenario.changes };
    let machine = lab.run(variant, |options| {
        options.icount_shift = Some(ONE_TICK_SHIFT);
        options.counting = options
            .plan
            .as_ref()
            .map(|plan| CountingOptions { apart: vec![publication.place(plan)], ..CountingOptions::for_monitor(plan) });
    })?;
    let counts = machine.final_counts(RUN_LIMIT)?;
    let core = counts.cores.first().filter(|core| core.entered && counts.ram_found);
    let core = core.ok_or_else(|| Failure::wrong("no core was counted".to_owned()))?;
    Ok(Counted { scenario, passages: core.passages })
}

fn counted(lab: &Lab) -> Result<Rc<Vec<Counted>>, Failure> {
    lab.once("passages", || SCENARIOS.iter().map(|scenario| count(lab, scenario)).collect())
}

/// The largest of something in some scenarios, with that which has it first.
fn largest(
    lab: &Lab,
    wanted: impl Fn(&Scenario) -> bool,
    of: impl Fn(&Passages) -> u64,
) -> Result<(u64, Vec<String>), Failure> {
    let counted = counted(lab)?;
    let wanted = counted.iter().filter(|one| wanted(one.scenario));
    let mut all: Vec<(u64, &str)> = wanted.map(|one| (of(&one.passages), one.scenario.name)).collect();
    all.sort_by_key(|(value, _)| std::cmp::Reverse(*value));
    let most = all.first().map_or(0, |(value, _)| *value);
    Ok((most, all.into_iter().map(|(value, name)| format!("{name}: {value}")).collect()))
}

/// The largest without trace recording.
fn untraced(lab: &Lab, shows: Option<Shows>, of: impl Fn(&Passages) -> u64) -> Result<Found, Failure> {
    let wanted = |scenario: &Scenario| !scenario.traced && shows.is_none_or(|shows| shows == scenario.shows);
    let (most, details) = largest(lab, wanted, of)?;
    Ok(Found::new(most as f64, details))
}

fn switch(lab: &Lab) -> Result<Found, Failure> {
    let mut leave = untraced(lab, Some(Shows::Switches), |passages| passages.leave.1)?;
    let enter = untraced(lab, Some(Shows::Switches), |passages| passages.enter.1)?;
    let worst = |found: &Found| found.details.first().cloned().unwrap_or_default();
    leave.details = vec![format!(
        "from its decision to its guest in {}; from its guest to the next decision in {}",
        worst(&leave),
        worst(&enter)
    )];
    leave.value += enter.value;
    leave.details.extend(counted(lab)?.iter().map(|one| {
        let Passages { switches, longest_switch, enter, leave, .. } = one.passages;
        format!(
            "{}: {switches} switches, longest passage of one {longest_switch}, {}..{} up to the decision, {}..{} from there",
            one.scenario.name, enter.0, enter.1, leave.0, leave.1
        )
    }));
    Ok(leave)
}

fn interrupt_entry(lab: &Lab) -> Result<Found, Failure> {
    untraced(lab, Some(Shows::Entries), |passages| passages.longest_interrupt)
}

/// With trace recording and without.
fn longest_passage(lab: &Lab) -> Result<Found, Failure> {
    let (most, details) = largest(lab, |_| true, |passages| passages.longest)?;
    Ok(Found::new(most as f64, details))
}

fn timer_latency(lab: &Lab) -> Result<Found, Failure> {
    untraced(lab, Some(Shows::Switches), |passages| passages.enter.1)
}

fn after_loading(lab: &Lab) -> Result<Found, Failure> {
    untraced(lab, Some(Shows::Switches), |passages| passages.longest_after)
}

fn publication(lab: &Lab) -> Result<Found, Failure> {
    untraced(lab, None, |passages| passages.longest_apart)
}

/// What recording adds to a switch or to an interrupt: the largest with it less the largest without it, over runs in which the guests
/// do the same with and without. An attacker that is slower under recording does something else, so that the two largest are not of the same switch.
/// Seen in QEMU's log of what EL2 executed in `costs-attack`: with recording, the attacker's watchdog ended an idle time, and one
/// passage held the exchange to it, its restart, and the exchange to a victim that woke. That is a long passage, which the
/// analysis counts as one.
fn trace(lab: &Lab) -> Result<Found, Failure> {
    type Longest = fn(&Passages) -> u64;
    let of = |traced: bool, of: Longest| {
        let wanted = move |scenario: &Scenario| scenario.shows == Shows::Entries && scenario.traced == traced;
        largest(lab, wanted, of).map(|(most, _)| most)
    };
    let mut all = Vec::new();
    let switch: Longest = |passages| passages.longest_switch;
    for (what, passage) in [("switch", switch), ("interrupt", |passages| passages.longest_interrupt)] {
        let (with, without) = (of(true, passage)?, of(false, passage)?);
        all.push((with.saturating_sub(without), format!("longest {what}: {with} instead of {without}")));
    }
    all.sort_by_key(|(more, _)| std::cmp::Reverse(*more));
    let most = all.first().map_or(0, |(more, _)| *more);
    Ok(Found::new(most as f64, all.into_iter().map(|(_, text)| text)))
}

fn least_stint(lab: &Lab) -> Result<Found, Failure> {
    let counted = counted(lab)?;
    let least = |of: fn(&Passages) -> u64| {
        // Records read the clock before the decision does, so only runs without them say where a stint begins.
        let wanted = counted.iter().filter(|one| one.passages.switches > 0 && !one.scenario.traced);
        wanted.map(|one| of(&one.passages)).min().unwrap_or(0)
    };
    let (enter, leave) = (least(|passages| passages.enter.0), least(|passages| passages.leave.0));
    Ok(Found::new((enter + leave) as f64, [format!("{leave} to start and {enter} to end")]))
}

const HOW: &str =
    "an emulator plugin counts every passage of the monitor over systems that provoke long ones; the largest of all";

/// A row whose ceiling is the record: a build that takes longer has bounds that do not hold.
const fn row(
    name: &'static str,
    what: &'static str,
    recorded: u64,
    measure: fn(&Lab) -> Result<Found, Failure>,
) -> Row {
    Row {
        name,
        what,
        how: HOW,
        peers: "",
        ceiling: Some(recorded as f64),
        unit: Unit::Instructions,
        requirements: &["QV-38", "SG-48"],
        slow: false,
        measure,
    }
}

/// The rows, in the order of [`NAMES`].
pub(crate) const ROWS: &[Row] = &[
    row(
        "costs.switch",
        "what a vCPU of a shared core is charged beside its guest's instructions each time that it runs: the loading, and the way to the next decision",
        RECORDED.switch,
        switch,
    ),
    row(
        "costs.interrupt_entry",
        "an interrupt on a shared core that changes nobody's turn",
        RECORDED.interrupt_entry,
        interrupt_entry,
    ),
    row(
        "costs.longest_passage",
        "longest passage of the monitor on a shared core without a look for interrupts",
        RECORDED.longest_passage,
        longest_passage,
    ),
    row(
        "costs.timer_latency",
        "from the interrupt that ends a budget to the decision",
        RECORDED.timer_latency,
        timer_latency,
    ),
    row(
        "costs.after_loading",
        "from the dating of a vCPU's loading, up to which somebody else pays, to its guest",
        RECORDED.after_loading,
        after_loading,
    ),
    row(
        "costs.publication",
        "writing down what the host reads of a shared core, at most once in 10 ms, at a switch",
        RECORDED.publication,
        publication,
    ),
    Row {
        how: "as doorbell.sleeping, rounded up",
        ..row("costs.doorbell", "a doorbell, on both sides", RECORDED.doorbell, doorbell)
    },
    Row {
        how: "as the others, the largest with recording less the largest without",
        ..row("costs.trace", "what trace recording adds to a switch or to an interrupt", RECORDED.trace, trace)
    },
    Row {
        how: "as costs.switch, the least of its parts; the record may not be larger, which `bench/tests/costs.rs` asserts",
        ceiling: None,
        ..row(
            "costs.least_stint",
            "the least that a vCPU of a shared core is charged each time that it runs, whatever its guest does",
            RECORDED.least_stint,
            least_stint,
        )
    },
];

/// Measures all costs; with each where it was found.
fn measured(lab: &Lab) -> Result<(Costs, [String; COUNT]), Failure> {
    let mut values = [0; COUNT];
    let mut found = NAMES.map(str::to_owned);
    for ((row, value), text) in ROWS.iter().zip(&mut values).zip(&mut found) {
        let measured = (row.measure)(lab)?;
        *value = measured.value.ceil() as u64;
        *text = format!("{value}; {}", measured.details.first().map_or("", String::as_str));
    }
    Ok((Costs::from_values(values), found))
}

/// Measures the costs and compares them with the record of `core/analysis`: what the record is wrong about.
///
/// # Errors
/// When a run did not do what it should.
pub fn differences() -> Result<Vec<Difference>, Failure> {
    let (costs, _) = measured(&Lab::open()?)?;
    Ok(compare(&costs, &RECORDED))
}

/// Measures the costs and writes the record; returns where.
pub(crate) fn record() -> Result<PathBuf, Failure> {
    let version = qemu::check_version(&qemu::program())?;
    let emulator =
        format!("QEMU {}.{}.{}, `-icount shift={ONE_TICK_SHIFT}`", version.major, version.minor, version.micro);
    let (costs, found) = measured(&Lab::open()?)?;
    let path = bulkhead_ledger::repository().join("core/analysis/src/costs/recorded.rs");
    crate::record::replace(&path, &render(&costs.with_margin(), &found, &emulator))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::ROWS;
    use bulkhead_analysis::costs::NAMES;

    #[test]
    fn each_cost_has_its_row() {
        let names: Vec<_> = ROWS.iter().map(|row| row.name.trim_start_matches("costs.")).collect();
        assert_eq!(names, NAMES);
    }
}
