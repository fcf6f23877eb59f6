//! The analysis' numbers, put where the page looks for them.

use crate::timing::{
    ChannelTiming, CoreTiming, InterruptTiming, ServerBound, ServerNames, SlotBound, TaskTiming, Timing,
};
use crate::words::rough;
use bulkhead_analysis::core_bounds::Verdict;
use bulkhead_plan::model::System;
use bulkhead_timing::Assumptions;
use bulkhead_timing::bounds::{self, Bounds, InterruptSource};

/// Window for the supply of vCPUs on a core without periods.
const DEFAULT_WINDOW_NS: u64 = 100_000_000;
/// The second window is this many times the first.
const LONG_WINDOW: u64 = 5;

impl Timing {
    /// Describes the schedules of a system and adds all bounds.
    #[must_use]
    pub fn of_system(system: &System, names: &ServerNames, assumptions: &Assumptions) -> Self {
        let mut cores = CoreTiming::of_system(system, names);
        if system.schedules.is_empty() {
            return Self { cores, ..Self::default() };
        }
        let bounds = bulkhead_timing::bounds(system, assumptions);
        for core in &mut cores {
            if let Some(found) = bounds.cores.iter().find(|found| found.core.board_core == core.board_core) {
                add_core(core, found);
            }
        }
        let channels = bounds.channels.iter().map(|channel| ChannelTiming {
            channel: channel.channel,
            within_limit_ns: channel.within_limit_ns,
            held_back_ns: channel.held_back_ns,
        });
        Self { cores, channels: channels.collect(), assumption: assumption(&bounds) }
    }
}

fn assumption(bounds: &Bounds) -> String {
    let instruction = bounds.assumptions.instruction_ps;
    let time = if instruction.is_multiple_of(1000) {
        format!("{} ns", instruction / 1000)
    } else {
        format!("{instruction} ps")
    };
    format!(
        "Bounds rest on the monitor\u{2019}s costs in instructions ({}), each taken as {time}.",
        bounds.assumptions.provenance
    )
}

fn add_core(core: &mut CoreTiming, found: &bounds::CoreTiming) {
    for bound in &found.servers {
        let verdict = verdict(bound.verdict, &core.servers, bound.response_ns);
        let Some(server) = core.servers.get_mut(bound.number) else { continue };
        server.bound =
            ServerBound { verdict, response_ns: bound.response_ns, most_in_period_ns: bound.most_in_period_ns };
        if let Some((budget, period)) = bound.budget_and_period_ns {
            (server.budget_ns, server.period_ns) = (Some(budget), Some(period));
        }
    }
    let longest = core.servers.iter().filter_map(|server| server.period_ns).max();
    let first = longest.map_or(DEFAULT_WINDOW_NS, |period| period.saturating_mul(2));
    for bound in &found.vcpus {
        let Some(slot) = core.slots.get_mut(bound.slot) else { continue };
        let windows = [first, first.saturating_mul(LONG_WINDOW)];
        slot.bound = SlotBound {
            conforming_wait_ns: bound.conforming_wait_ns,
            drained_wait_ns: bound.drained_wait_ns,
            blackout_ns: bound.blackout_ns,
            supply: windows.into_iter().map(|window| (window, bound.supplied_ns(window))).collect(),
        };
        core.tasks.extend(bound.tasks.iter().map(|task| TaskTiming {
            partition: bound.vcpu.partition,
            task: task.task,
            response_ns: task.response_ns,
            deadline_ns: task.deadline_ns,
        }));
    }
    core.interrupts.extend(found.interrupts.iter().map(|interrupt| InterruptTiming {
        partition: interrupt.vcpu.partition,
        device: match interrupt.source {
            InterruptSource::Device(place) => Some(place),
            InterruptSource::Others => None,
        },
        conforming_ns: interrupt.conforming_ns,
        drained_ns: interrupt.drained_ns,
        deadline_ns: interrupt.deadline_ns,
        with_handler: interrupt.handler_ns.is_some(),
    }));
}

/// Returns a verdict in words; none where there is nothing to judge.
fn verdict(
    verdict: Verdict,
    servers: &[crate::timing::ServerTiming],
    response_ns: Option<u64>,
) -> Option<(bool, String)> {
    let name = |number: usize| servers.get(number).map_or("?", |server| server.name.as_str());
    match verdict {
        Verdict::Fits { .. } => Some((true, "certain".to_owned())),
        Verdict::Late { .. } => {
            Some((false, response_ns.map_or_else(|| "never done".to_owned(), |ns| format!("takes {}", rough(ns)))))
        }
        Verdict::NotFound => Some((false, "no bound found".to_owned())),
        Verdict::NoBound { culprit, .. } => Some((false, format!("no bound: {}", name(culprit)))),
        Verdict::Shadowed { by } => Some((true, format!("covered by {}", name(by)))),
        // Nothing was promised to them.
        Verdict::Unlimited | Verdict::Starved { .. } | Verdict::Off => None,
    }
}
