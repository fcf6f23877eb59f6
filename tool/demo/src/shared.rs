//! Time of shared cores: what was measured beside what was computed before the boot.
//!
//! In the run with all partitions no time can be judged, because several emulated cores share the cores of the host. So the
//! partitions of a shared core run once more, alone on one core whose clock counts instructions. There a measurement is
//! exact and the same on every host, and one beyond its bound refutes the bound.
//!
//! The measurements are the monitor's own ([`bulkhead_abi::schedule::UsagePage`]), from the start of the core on: the first
//! start of a guest, which loads its memory in slices, is part of them. The page is written at most once in 10 ms or
//! when the core is idle, so the last moments of a run may be missing from it.

use crate::alone::{on_core_0, only_core};
use crate::facts::{ends_of_control, texts, value_of};
use crate::story::{failure, has_ended};
use crate::{CONTROL, INTRUDER, OFFICE, RTOS};
use bulkhead_abi::schedule::{SchedulePlan, UsagePage};
use bulkhead_plan::model::System;
use bulkhead_plan::ticks;
use bulkhead_run::source::{SourceError, machine_of};
use bulkhead_run::{Machine, Observer};
use bulkhead_timing::Assumptions;
use bulkhead_timing::bounds::{CoreTiming, VcpuBound, bounds};
use std::path::Path;
use std::time::Duration;

/// Time of an instruction with `-icount shift=0`.
const INSTRUCTION_PS: u64 = 1_000;
/// Wall time in which the run must end; it takes some seconds.
const RUN_LIMIT: Duration = Duration::from_secs(600);
/// Argument with which the control loop says its longest response; where time is not exact, its output is free of it.
const SAY_RESPONSE: &str = " response=1";

/// A measurement and its bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// What was measured.
    pub measured_ns: u64,
    /// What was computed; `None` when there is no bound.
    pub bound_ns: Option<u64>,
}

impl Compared {
    /// States whether there is a bound and the measurement is within it.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.bound_ns.is_some_and(|bound_ns| self.measured_ns <= bound_ns)
    }
}

/// A vCPU of a shared core in the exact run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VcpuTime {
    /// Its partition.
    pub partition: String,
    /// Times that it became ready.
    pub wakes: u64,
    /// Times that a budget of it ran out.
    pub exhaustions: u64,
    /// Longest time from a wake-up to its first instruction. As long as no budget of it ran out, the bound is the one for a
    /// budget in hand.
    pub wait: Compared,
    /// Longest time that it was ready and did not run.
    pub blackout: Compared,
    /// Time that its servers paid for, and the most that they may in a run of that length.
    pub used: Compared,
    /// Time in the background, which nobody else wanted.
    pub background_ns: u64,
}

/// The exact run of one shared core.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedTime {
    /// Length of the run on the machine's clock.
    pub run_ns: u64,
    /// Switches from one vCPU to another.
    pub switches: u64,
    /// Its vCPUs, by slot.
    pub vcpus: Vec<VcpuTime>,
    /// The control loop, if the core is its core.
    pub control: Option<LoopTime>,
}

/// The control loop in the exact run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoopTime {
    /// Releases that were due at its end.
    pub releases_due: u64,
    /// Iterations done.
    pub iterations: u64,
    /// Longest time from a release until its iteration was done, as the guest saw it.
    pub response: Compared,
    /// The deadline that the description gives to the loop's task.
    pub deadline_ns: u64,
}

impl LoopTime {
    /// Reads what the guest said.
    fn read(&mut self, lines: &[&str]) {
        (self.releases_due, self.iterations) = ends_of_control(lines.iter().copied());
        let response_ns =
            lines.iter().filter_map(|line| value_of(line.strip_prefix("response ")?, "most_ns")).next_back();
        // A guest that did not say it has no response within a bound.
        self.response.measured_ns = response_ns.unwrap_or(u64::MAX);
    }

    /// States whether every release was served within the bound and the deadline.
    #[must_use]
    pub fn holds(&self) -> bool {
        let is_served = self.iterations > 0 && self.releases_due == self.iterations;
        is_served && self.response.holds() && self.response.measured_ns <= self.deadline_ns
    }
}

/// Runs the partitions of the core of [`RTOS`] alone, until those that end by themselves are off, and compares.
pub(crate) fn measure(system: &System, monitor: Option<&Path>) -> Result<SharedTime, SourceError> {
    let sharing = system.partitions.iter().find(|partition| partition.name == RTOS);
    let core = sharing.and_then(only_core).ok_or_else(|| failure(format!("`{RTOS}` is not on one core")))?;
    let mut alone = on_core_0(system, core, |_| true);
    let control = alone.partitions.iter_mut().find(|partition| partition.name == CONTROL);
    control.into_iter().for_each(|control| control.arguments.push_str(SAY_RESPONSE));
    let mut options = machine_of(&alone, monitor)?;
    options.icount_shift = Some(0);
    let mut machine = Machine::start(options)?;
    let here = |name: &&str| alone.partitions.iter().any(|partition| partition.name == *name);
    let ending: Vec<&str> = [CONTROL, OFFICE, INTRUDER].into_iter().filter(here).collect();
    machine.wait_for(&format!("{} to end in the exact run", ending.join(" and ")), RUN_LIMIT, |view| {
        let observer = view.observer?;
        ending.iter().all(|name| has_ended(observer, name)).then_some(())
    })?;
    let observer = machine.observer().ok_or_else(|| failure("the machine has no monitor".to_owned()))?;
    // Read while the monitor lives: one that is ended in the middle of an update leaves no page that adds up.
    let mut time = compare(&alone, observer)
        .ok_or_else(|| failure("the shared core's monitor has written no usage page".to_owned()))?;
    if let Some(control) = &mut time.control {
        control.read(&texts(&machine, CONTROL).collect::<Vec<_>>());
    }
    Ok(time)
}

fn compare(system: &System, observer: &Observer) -> Option<SharedTime> {
    let usage = observer.usage(0)?;
    let schedule = observer.plan().cores.first()?.schedule.as_ref()?;
    let bounds = bounds(system, &Assumptions { instruction_ps: INSTRUCTION_PS, ..Assumptions::default() });
    let core = bounds.cores.first()?;
    let run = Run { system, schedule, usage: &usage, core };
    Some(SharedTime {
        run_ns: run.ns(usage.time_ticks),
        switches: usage.switches,
        vcpus: core.vcpus.iter().map(|bound| run.vcpu(bound)).collect(),
        control: core.vcpus.iter().find_map(|bound| run.control(bound)),
    })
}

/// Everything known of the run.
struct Run<'a> {
    system: &'a System,
    schedule: &'a SchedulePlan,
    usage: &'a UsagePage,
    core: &'a CoreTiming,
}

impl Run<'_> {
    fn ns(&self, counted: u64) -> u64 {
        ticks::to_ns(counted, self.system.board.counter_hz)
    }

    fn name(&self, bound: &VcpuBound) -> &str {
        self.system.partitions.get(bound.vcpu.partition).map_or("", |partition| &partition.name)
    }

    /// The bound of the control loop, whose task is the first of its partition; what was measured comes from its output.
    fn control(&self, bound: &VcpuBound) -> Option<LoopTime> {
        let task = (self.name(bound) == CONTROL).then(|| bound.tasks.first());
        task.map(|task| LoopTime {
            response: Compared { bound_ns: task.and_then(|task| task.response_ns), ..Compared::default() },
            deadline_ns: task.map_or(0, |task| task.deadline_ns),
            ..LoopTime::default()
        })
    }

    fn vcpu(&self, bound: &VcpuBound) -> VcpuTime {
        let measured = self.usage.slots.get(bound.slot).copied().unwrap_or_default();
        let mut time =
            VcpuTime { partition: self.name(bound).to_owned(), wakes: measured.wakes, ..VcpuTime::default() };
        let (mut used_ticks, mut most_ticks) = (0, Some(0_u64));
        for (number, plan) in self.schedule.servers.iter().enumerate().take(self.schedule.server_count as usize) {
            if plan.slot as usize != bound.slot {
                continue;
            }
            let used = self.usage.servers.get(number).copied().unwrap_or_default();
            time.exhaustions += used.exhaustions;
            time.background_ns += self.ns(used.background_ticks);
            used_ticks += used.budgeted_ticks;
            let servers = self.core.ticks.as_ref().and_then(|ticks| ticks.servers.get(number));
            let envelope = servers.map(|server| server.envelope.in_window(self.usage.time_ticks));
            most_ticks = most_ticks.zip(envelope).map(|(sum, most)| sum + most);
        }
        time.used = Compared { measured_ns: self.ns(used_ticks), bound_ns: most_ticks.map(|most| self.ns(most)) };
        let longest = if time.exhaustions == 0 { bound.conforming_wait_ns } else { bound.blackout_ns };
        time.wait = Compared { measured_ns: self.ns(measured.longest_wait_ticks), bound_ns: longest };
        time.blackout = Compared { measured_ns: self.ns(measured.longest_blackout_ticks), bound_ns: bound.blackout_ns };
        time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measurement_without_a_bound_or_beyond_it_does_not_hold() {
        let compared = |measured_ns, bound_ns| Compared { measured_ns, bound_ns };
        assert!(compared(5, Some(5)).holds());
        assert!(!compared(6, Some(5)).holds());
        assert!(!compared(0, None).holds());
    }

    #[test]
    fn the_loop_is_judged_by_what_the_guest_says() {
        let bound = LoopTime {
            response: Compared { measured_ns: 0, bound_ns: Some(90) },
            deadline_ns: 80,
            ..LoopTime::default()
        };
        let said = |lines: &[&str]| {
            let mut time = bound.clone();
            time.read(lines);
            time.holds()
        };
        let (done, lost) = ("done iterations=4 releases_due=4", "done iterations=3 releases_due=4");
        assert!(said(&["response most_ns=80", done]));
        for lines in [
            vec!["response most_ns=81", done],
            vec!["response most_ns=80", lost],
            vec!["response most_ns=80"],
            vec![done],
        ] {
            assert!(!said(&lines), "{lines:?}");
        }
    }
}
