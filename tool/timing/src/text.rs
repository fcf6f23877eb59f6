//! The bounds of a system as text: one table per shared core.

use crate::assumption::Assumptions;
use crate::bounds::{Bounds, CoreTiming, InterruptBound, ServerBound};
use crate::check::interrupts::source_name;
use crate::clock::readable;
use crate::cores::SharedModel;
use crate::quick::quick_tests;
use crate::{payload, propose};
use bulkhead_analysis::core_bounds::Verdict;
use bulkhead_analysis::steps::Steps;
use bulkhead_description::spans::Spans;
use bulkhead_description::unit::format_duration;
use bulkhead_plan::maps::VcpuUse;
use bulkhead_plan::model::{ScheduleKind, ServerReference, System};
use std::fmt::Write;

/// Writes the bounds; empty when no core is shared.
#[must_use]
pub fn text(system: &System, spans: &Spans, bounds: &Bounds) -> String {
    let mut text = String::new();
    if let (Some(secure), Some(found)) = (&system.secure, payload::bounds(system, &bounds.assumptions)) {
        return payload::text(secure, &found, &bounds.assumptions);
    }
    if bounds.cores.is_empty() {
        return text;
    }
    text.push_str(&assumptions(&bounds.assumptions));
    let steps = propose::allowance();
    for core in &bounds.cores {
        text.push('\n');
        text.push_str(&core_text(system, spans, core, &steps));
    }
    text.push_str(&channels(system, bounds));
    text
}

fn assumptions(assumptions: &Assumptions) -> String {
    let per = assumptions.instruction_ps;
    let costs = &assumptions.costs;
    let time = |instructions: u64| readable(assumptions.instructions_ns(instructions));
    format!(
        "bounds at {}.{:03} ns per instruction; monitor: switch {}, interrupt {}, longest passage {} ({})\n",
        per / 1_000,
        per % 1_000,
        time(costs.switch),
        time(costs.interrupt_entry),
        time(costs.longest_passage),
        assumptions.provenance
    )
}

fn kind(system: &System, core: &CoreTiming) -> String {
    match system.schedules.get(core.core.schedule).map(|schedule| &schedule.kind) {
        Some(ScheduleKind::RoundRobin { quantum_ns, .. }) => format!("round robin, quantum {}", readable(*quantum_ns)),
        Some(ScheduleKind::Cyclic { major_ns, windows }) => {
            format!("cyclic, {} windows in {}", windows.len(), readable(*major_ns))
        }
        _ => String::from("fixed priority"),
    }
}

fn core_text(system: &System, spans: &Spans, core: &CoreTiming, steps: &Steps) -> String {
    let mut text = format!("core {}: {}\n", core.core.board_core, kind(system, core));
    if !core.servers.is_empty() {
        text.push_str(&servers(system, spans, &core.servers));
    }
    text.push_str(&vcpus(system, core));
    text.push_str(&proposal(system, spans, core, steps));
    text.push_str(&interrupts(system, &core.interrupts, matches!(core.core.model, SharedModel::Ring { .. })));
    if let SharedModel::Servers(model) = &core.core.model
        && let Some(quick) = quick_tests(model)
    {
        let word = |accepts: bool| if accepts { "accepts" } else { "refuses" };
        let share = |value: u64| format!("{}.{:04}", value / 10_000, value % 10_000);
        let _ = writeln!(
            text,
            "  for information: sum of shares {}; Liu-Layland {}, hyperbolic {}, equation (1) {} ({} <= {}), its hyperbolic form {}",
            share(quick.sum),
            word(quick.liu_layland),
            word(quick.hyperbolic),
            word(quick.accepts_equation_one),
            share(quick.equation_one),
            share(quick.limit),
            word(quick.accepts_hyperbolic_form)
        );
    }
    text
}

/// Name of a server in tables.
pub(crate) fn server_name(system: &System, spans: &Spans, reference: ServerReference) -> String {
    let partition = system.partitions.get(reference.partition);
    let name = partition.map_or("", |partition| &partition.name);
    let own = spans.partitions.get(reference.partition).and_then(|spans| spans.servers.get(reference.server));
    match own.and_then(|own| own.name.clone()) {
        Some(own) => format!("{name}.{own}"),
        None if partition.is_some_and(|partition| partition.servers.len() > 1) => {
            format!("{name} ({})", reference.server + 1)
        }
        None => name.to_owned(),
    }
}

/// Name of a vCPU in tables.
pub(crate) fn vcpu_name(system: &System, vcpu: VcpuUse) -> String {
    let Some(partition) = system.partitions.get(vcpu.partition) else {
        return String::new();
    };
    if partition.cores.len() == 1 { partition.name.clone() } else { format!("{}/{}", partition.name, vcpu.vcpu) }
}

fn time(ns: Option<u64>) -> String {
    ns.map_or_else(|| String::from("no bound"), readable)
}

fn share(ppm: u64) -> String {
    format!("{}.{:02} %", ppm / 10_000, ppm % 10_000 / 100)
}

fn servers(system: &System, spans: &Spans, servers: &[ServerBound]) -> String {
    let mut rows = vec![
        ["server", "rule", "priority", "budget", "period", "response", "most in period", "blackout", "supply"]
            .map(String::from)
            .to_vec(),
    ];
    for server in servers {
        let (budget, period) = server.budget_and_period_ns.unzip();
        let response = match server.verdict {
            Verdict::Fits { .. } | Verdict::Late { .. } => time(server.response_ns),
            Verdict::NotFound => String::from("not found"),
            Verdict::NoBound { .. } | Verdict::Starved { .. } => String::from("no bound"),
            Verdict::Unlimited | Verdict::Off | Verdict::Shadowed { .. } => String::from("-"),
        };
        let amount = |ns: Option<u64>| ns.map_or_else(|| String::from("-"), readable);
        rows.push(vec![
            server_name(system, spans, server.reference),
            server.rule.to_owned(),
            server.priority.to_string(),
            amount(budget),
            amount(period),
            response,
            amount(server.most_in_period_ns),
            amount(server.blackout_ns),
            share(server.supply_ppm),
        ]);
    }
    table(&rows, 2)
}

fn vcpus(system: &System, core: &CoreTiming) -> String {
    let mut rows = vec![["vCPU", "wake to run", "budget used up", "blackout", "supply"].map(String::from).to_vec()];
    for vcpu in &core.vcpus {
        rows.push(vec![
            vcpu_name(system, vcpu.vcpu),
            time(vcpu.conforming_wait_ns),
            time(vcpu.drained_wait_ns),
            time(vcpu.blackout_ns),
            share(vcpu.supply_ppm),
        ]);
    }
    let mut text = table(&rows, 1);
    for (vcpu, answer) in core.vcpus.iter().filter_map(|vcpu| Some((vcpu, vcpu.answer_ns?))) {
        let _ = writeln!(text, "  {} answers its siblings within {}", vcpu_name(system, vcpu.vcpu), readable(answer));
    }
    let mut rows = vec![["task", "response", "deadline"].map(String::from).to_vec()];
    for vcpu in &core.vcpus {
        for task in &vcpu.tasks {
            let partition = system.partitions.get(vcpu.vcpu.partition);
            let name = partition.and_then(|partition| partition.tasks.get(task.task)).map_or("", |task| &task.name);
            let owner = vcpu_name(system, vcpu.vcpu);
            rows.push(vec![format!("{owner}.{name}"), time(task.response_ns), readable(task.deadline_ns)]);
        }
    }
    if rows.len() > 1 {
        text.push_str(&table(&rows, 1));
    }
    text
}

/// What guests are promised of what they are charged, where that is less than nine tenths, and what would help.
fn proposal(system: &System, spans: &Spans, core: &CoreTiming, steps: &Steps) -> String {
    let mut text = String::new();
    let name = |slot: usize| core.core.core_use.vcpus.get(slot).map_or(String::new(), |vcpu| vcpu_name(system, *vcpu));
    let shares = propose::shares(system, core, steps);
    for one in shares.iter().filter(|one| !one.is_near()) {
        let (executed, charged) = (share(one.executed_ppm), share(one.charged_ppm));
        let _ = writeln!(text, "  {} executes {executed} of {charged} charged", name(one.slot));
    }
    if text.is_empty() {
        return text;
    }
    for one in shares.iter().filter(|one| one.anchor_ppm > 0) {
        let _ = writeln!(text, "  the anchor `dispatch` takes {} of {}", share(one.anchor_ppm), name(one.slot));
    }
    let Some(proposal) = propose::proposal(system, core, steps) else { return text };
    let names: Vec<String> = proposal.servers.iter().map(|one| server_name(system, spans, *one)).collect();
    let chunks = proposal.chunks.map_or_else(String::new, |chunks| format!(", chunks = {chunks}"));
    let least = format_duration(proposal.least_charge_ns);
    let _ = writeln!(
        text,
        "  proposed for {}: least_charge = \"{least}\"{chunks}, and a `minimum` of at least that; then",
        names.join(", ")
    );
    for one in &proposal.shares {
        let (executed, charged) = (share(one.executed_ppm), share(one.charged_ppm));
        let _ = writeln!(text, "    {} executes {executed} of {charged} charged", name(one.slot));
    }
    text
}

fn interrupts(system: &System, interrupts: &[InterruptBound], is_ring: bool) -> String {
    let (first, second) = if is_ring { ("first", "last") } else { ("in hand", "used up") };
    let mut rows =
        vec![["interrupts", "route", "limit", "handler", first, second, "deadline"].map(String::from).to_vec()];
    for interrupt in interrupts {
        let limit = interrupt
            .limit
            .map_or_else(|| String::from("none"), |limit| format!("{} in {}", limit.events, readable(limit.period_ns)));
        rows.push(vec![
            format!("{}: {}", vcpu_name(system, interrupt.vcpu), source_name(system, interrupt)),
            interrupt.rule.name().to_owned(),
            limit,
            interrupt.handler_ns.map_or_else(|| String::from("first"), readable),
            time(interrupt.conforming_ns),
            time(interrupt.drained_ns),
            interrupt.deadline_ns.map_or_else(|| String::from("-"), readable),
        ]);
    }
    table(&rows, 3)
}

fn channels(system: &System, bounds: &Bounds) -> String {
    let mut rows = vec![["doorbell", "within its limit", "held back", "looks every"].map(String::from).to_vec()];
    for channel in &bounds.channels {
        let name = system.channels.get(channel.channel).map_or("", |channel| &channel.name);
        let polls = channel.polls_ns.map_or_else(|| String::from("-"), readable);
        rows.push(vec![name.to_owned(), time(channel.within_limit_ns), time(channel.held_back_ns), polls]);
    }
    if rows.len() == 1 { String::new() } else { format!("\nfrom message to handling\n{}", table(&rows, 1)) }
}

/// A table of the report.
fn table(rows: &[Vec<String>], left: usize) -> String {
    bulkhead_files::table::table(rows, left, 2)
}
