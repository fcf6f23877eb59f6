//! Time of shared cores: what was measured beside what was computed before the boot.
//!
//! In the run with all partitions no time can be judged, because several emulated cores share the cores of the host. So the
//! partitions of a shared core run once more, alone on one core whose clock counts instructions. There a measurement is
//! exact and the same on every host, and one beyond its bound refutes the bound.
//!
//! The measurements are the monitor's own ([`bulkhead_abi::schedule::UsagePage`]), from the start of the core on: the first
//! start of a guest, which loads its memory in slices, is part of them. The page is written at most once in 10 ms or
//! when the core is idle, so the last moments of a run may be missing from it.

use crate::{Failure, build};
use bulkhead_abi::schedule::{SchedulePlan, UsagePage};
use bulkhead_plan::model::{BudgetRule, ServerReference, System};
use bulkhead_plan::ticks;
use bulkhead_run::{Machine, MachineOptions, Observer, exit_code};
use bulkhead_timing::Assumptions;
use bulkhead_timing::bounds::{CoreTiming, VcpuBound, bounds};
use std::time::Duration;

/// Time of an instruction with `-icount shift=0`.
const INSTRUCTION_PS: u64 = 1_000;
/// Wall time in which the run must end; it takes about four seconds.
const RUN_LIMIT: Duration = Duration::from_secs(600);

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
}

/// Runs the partitions that share their core with `member` alone on one core, until `member` is off, and compares.
pub(crate) fn measure(system: &System, member: &str) -> Result<SharedTime, Failure> {
    let alone = one_core(system, member)?;
    let mut options = MachineOptions::for_system(&alone, build(&alone)?)?;
    options.icount_shift = Some(0);
    let mut machine = Machine::start(options)?;
    machine.wait_for(&format!("`{member}` to end in the exact run"), RUN_LIMIT, |view| {
        view.observer.filter(|observer| crate::has_ended(observer, member)).map(|_| ())
    })?;
    let observer = machine.observer().ok_or_else(|| failure("the machine has no monitor"))?;
    // Read while the monitor lives: one that is ended in the middle of an update leaves no page that adds up.
    compare(&alone, observer).ok_or_else(|| failure("the shared core's monitor has written no usage page"))
}

fn failure(message: &str) -> Failure {
    Failure { message: message.to_owned(), code: exit_code::FAILURE }
}

/// The partitions that share a core with `member`, on core 0 of a system of their own.
fn one_core(system: &System, member: &str) -> Result<System, Failure> {
    let cores = system.partitions.iter().find(|partition| partition.name == member).map(|found| found.cores.as_slice());
    let Some(&[core]) = cores else { return Err(failure(&format!("`{member}` is not on one core"))) };
    let mut schedules = system.schedules.clone();
    schedules.retain(|schedule| schedule.board_core == core);
    if schedules.is_empty() {
        return Err(failure(&format!("`{member}` does not share its core; give core {core} a [[schedule]]")));
    }
    let kept: Vec<usize> =
        (0..system.partitions.len()).filter(|number| system.partitions[*number].cores == [core]).collect();
    let moved = |old: ServerReference| {
        let partition = kept.iter().position(|number| *number == old.partition).unwrap_or(old.partition);
        ServerReference { partition, ..old }
    };
    let mut alone = System { channels: Vec::new(), schedules, ..system.clone() };
    alone.partitions = kept.iter().map(|number| system.partitions[*number].clone()).collect();
    alone.schedules.iter_mut().for_each(|schedule| schedule.board_core = 0);
    for partition in &mut alone.partitions {
        partition.cores = vec![0];
        for server in &mut partition.servers {
            server.payer = server.payer.map(moved);
            if let BudgetRule::Pibs { clients, .. } = &mut server.rule {
                clients.iter_mut().for_each(|client| *client = moved(*client));
            }
        }
    }
    Ok(alone)
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

    fn vcpu(&self, bound: &VcpuBound) -> VcpuTime {
        let partition = self.system.partitions.get(bound.vcpu.partition).map(|partition| partition.name.clone());
        let measured = self.usage.slots.get(bound.slot).copied().unwrap_or_default();
        let mut time =
            VcpuTime { partition: partition.unwrap_or_default(), wakes: measured.wakes, ..VcpuTime::default() };
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
    use bulkhead_plan::model::{Schedule, ScheduleKind};
    use bulkhead_plan::samples;

    fn partition(name: &str, core: usize, payer: Option<usize>) -> bulkhead_plan::model::Partition {
        let payer = payer.map(|partition| ServerReference { partition, server: 0 });
        let server = bulkhead_plan::model::Server { payer, ..samples::sporadic(1, 1_000_000, 10_000_000) };
        bulkhead_plan::model::Partition { servers: vec![server], ..samples::native(name, &[core]) }
    }

    #[test]
    fn the_partitions_of_the_shared_core_alone_move_to_core_0_and_still_know_each_other() {
        let mut system = samples::system(
            vec![partition("far", 3, None), partition("rtos", 2, Some(2)), partition("office", 2, None)],
            Vec::new(),
        );
        let kind = ScheduleKind::FixedPriority { quanta: Vec::new() };
        system.schedules =
            [2, 3].map(|board_core| Schedule { board_core, kind: kind.clone(), eager_floating_point: false }).to_vec();
        let alone = one_core(&system, "office").unwrap_or_else(|failure| panic!("{}", failure.message));
        let names: Vec<_> = alone.partitions.iter().map(|partition| partition.name.as_str()).collect();
        assert_eq!(names, ["rtos", "office"]);
        assert!(alone.partitions.iter().all(|partition| partition.cores == [0]));
        assert_eq!(alone.schedules.iter().map(|schedule| schedule.board_core).collect::<Vec<_>>(), [0]);
        assert_eq!(alone.partitions[0].servers[0].payer, Some(ServerReference { partition: 1, server: 0 }));
        system.schedules.clear();
        assert!(one_core(&system, "office").is_err(), "its core has no schedule");
    }

    #[test]
    fn a_measurement_without_a_bound_or_beyond_it_does_not_hold() {
        let compared = |measured_ns, bound_ns| Compared { measured_ns, bound_ns };
        assert!(compared(5, Some(5)).holds());
        assert!(!compared(6, Some(5)).holds());
        assert!(!compared(0, None).holds());
    }
}
