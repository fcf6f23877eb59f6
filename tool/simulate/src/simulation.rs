//! All shared cores of a scenario, merged in order of time.

use crate::core_run::CoreRun;
use crate::event::{Event, Sink};
use crate::stage::{Lanes, Stage};
use bulkhead_description::scenario::LoadedScenario;
use bulkhead_plan::maps::{CoreUse, core_uses};
use bulkhead_plan::model::System;
use bulkhead_plan::schedule::{numbered_servers, schedule_plan, server};
use bulkhead_plan::ticks;
use bulkhead_trace::{CoreLayout, Layout, ServerLayout, SlotLayout};
use std::io;

/// Where a simulation ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// At this time.
    pub until_ns: u64,
    /// After this many events.
    pub events: u64,
}

/// How many of what there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events.
    pub events: u64,
    /// Choices of the policies.
    pub choices: u64,
    /// When the last instant was, if the limit of events ended the simulation.
    pub cut_ns: Option<u64>,
}

/// A scenario that can be run.
#[derive(Debug)]
pub struct Simulation {
    /// The system.
    pub system: System,
    /// The shared cores, in the order of the board.
    pub cores: Vec<CoreUse>,
    runs: Vec<CoreRun>,
    limits: Limits,
}

impl Simulation {
    /// Prepares a scenario.
    ///
    /// # Errors
    /// A sentence, when a core cannot be planned, which the checks of the description do not let happen.
    pub fn new(scenario: LoadedScenario, limits: Limits) -> Result<Self, String> {
        let system = scenario.system;
        let cores: Vec<CoreUse> = core_uses(&system).into_iter().filter(CoreUse::is_shared).collect();
        let hz = system.board.counter_hz;
        let end_ticks = ticks::round_up(limits.until_ns, hz);
        let run = |(index, core_use): (usize, &CoreUse)| {
            let plan = schedule_plan(&system, core_use);
            let run = plan.map(|plan| CoreRun::new(index, &plan, core_use, &scenario.arrivals, hz, end_ticks));
            match run {
                Some(Ok(run)) => Ok(run),
                _ => Err(format!("the schedule of core {} contradicts itself", core_use.board_core)),
            }
        };
        let runs = cores.iter().enumerate().map(run).collect::<Result<_, _>>()?;
        Ok(Self { system, cores, runs, limits })
    }

    /// The state of each core.
    #[must_use]
    pub fn runs(&self) -> &[CoreRun] {
        &self.runs
    }

    /// Runs to a limit.
    ///
    /// # Errors
    /// When the sink cannot take an event.
    pub fn run(&mut self, sink: &mut dyn Sink) -> io::Result<Counts> {
        let mut counts = Counts::default();
        let mut events: Vec<Event> = Vec::new();
        loop {
            let next = self.runs.iter_mut().filter_map(|run| run.next_ticks().map(|next| (next, run)));
            let Some((now, run)) = next.min_by_key(|(next, _)| *next) else { break };
            run.step(&mut events);
            for event in events.drain(..) {
                sink.event(&event)?;
                counts.events += 1;
                if counts.events == self.limits.events {
                    counts.cut_ns = Some(ticks::to_ns(now, self.system.board.counter_hz));
                    counts.choices = self.runs.iter().map(CoreRun::choices).sum();
                    return Ok(counts);
                }
            }
        }
        counts.choices = self.runs.iter().map(CoreRun::choices).sum();
        Ok(counts)
    }

    /// Name of a vCPU: its partition and its number in it.
    #[must_use]
    pub fn vcpu_name(&self, core: usize, slot: usize) -> String {
        let vcpu = self.cores.get(core).and_then(|core| core.vcpus.get(slot));
        let partition = vcpu.and_then(|vcpu| self.system.partitions.get(vcpu.partition));
        match (vcpu, partition) {
            (Some(vcpu), Some(partition)) => format!("{}.{}", partition.name, vcpu.vcpu),
            _ => String::from("?"),
        }
    }
}

impl Stage for Simulation {
    fn noun(&self) -> &'static str {
        "vCPU"
    }

    fn lanes(&self) -> Vec<Lanes> {
        let lanes = |(index, core): (usize, &CoreUse)| Lanes {
            title: format!("core {}", core.board_core),
            number: core.board_core,
            names: (0..core.vcpus.len()).map(|slot| self.vcpu_name(index, slot)).collect(),
            idle_ns: self.runs.get(index).map_or(0, |run| ticks::to_ns(run.idle_ticks(), self.system.board.counter_hz)),
        };
        self.cores.iter().enumerate().map(lanes).collect()
    }

    fn layout(&self) -> (Layout, Vec<usize>) {
        let all = core_uses(&self.system);
        let place = |core: &CoreUse| all.iter().position(|one| one.board_core == core.board_core);
        (layout(self, &all), self.cores.iter().map(|core| place(core).unwrap_or(usize::MAX)).collect())
    }
}

fn layout(simulation: &Simulation, all: &[CoreUse]) -> Layout {
    let system = &simulation.system;
    let cores = all.iter().map(|core| CoreLayout {
        is_shared: core.is_shared(),
        slots: core.vcpus.iter().map(|one| SlotLayout { partition: one.partition, vcpu: one.vcpu }).collect(),
        servers: numbered_servers(system, core)
            .into_iter()
            .enumerate()
            .filter_map(|(number, reference)| {
                let server = server(system, reference)?;
                let own = |one: &bulkhead_plan::maps::VcpuUse| {
                    one.partition == reference.partition && one.vcpu == server.vcpu
                };
                let times = server.rule.budget_and_period_ns();
                let partition = system.partitions.get(reference.partition).map_or("?", |one| one.name.as_str());
                Some(ServerLayout {
                    name: format!("{partition} server {number}"),
                    slot: core.vcpus.iter().position(own)?,
                    priority: u32::from(bulkhead_plan::schedule::best_priority(system, server)),
                    budget_ns: times.map(|(budget_ns, _)| budget_ns),
                    period_ns: times.map(|(_, period_ns)| period_ns),
                })
            })
            .collect(),
    });
    Layout {
        system: system.name.clone(),
        clock: String::from("simulated time; switches cost nothing"),
        partitions: system.partitions.iter().map(|partition| partition.name.clone()).collect(),
        cores: cores.collect(),
        channels: Vec::new(),
    }
}
