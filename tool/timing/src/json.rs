//! The bounds of a system as JSON: the field `timing` of `bulkhead check --format json`.
//!
//! Times are in nanoseconds; `null` means that there is no bound. Fields are only ever added within a version.
//!
//! - `instruction_ps`, `costs` (instructions, by name), `provenance`, `steps` (of the analysis: `bulkhead_analysis::steps`);
//! - `cores[]`: `core`, `kind`, `servers[]`, `vcpus[]`, `interrupts[]`, `information` (`null` without budgets);
//! - `servers[]`: `number` (as in the usage page), `name`, `partition`, `vcpu`, `rule`, `priority`, `budget_ns`, `period_ns`,
//!   `verdict` (`fits`, `late`, `no-bound`, `starved`, `unlimited`, `shadowed`, `off`), `response_ns`, `most_in_period_ns`,
//!   `most_below_ns` (`window_ns`, the shortest period of a server below, and `most_ns` in it, or `null`), `blackout_ns`,
//!   `supply_ppm`;
//! - `vcpus[]`: `slot`, `partition`, `vcpu`, `conforming_wait_ns`, `drained_wait_ns`, `blackout_ns`, `supply_ppm`, `tasks[]`
//!   (`name`, `response_ns`, `deadline_ns`);
//! - `interrupts[]`: `partition`, `vcpu`, `source`, `route`, `limit` (`events`, `per_ns` or `null`), `handler_ns`, `conforming_ns`,
//!   `drained_ns`, `deadline_ns`; under a round robin the first and the last instruction of the handler;
//! - `information`: `sum`, `limit`, `equation_one` (ten-thousandths), `liu_layland`, `hyperbolic`, `accepts_equation_one`,
//!   `accepts_hyperbolic_form`, `below_deferrable` (or `null`);
//! - `doorbells[]`: `channel`, `within_limit_ns`, `held_back_ns`, `polls_ns` (how often the receiver promises to look).
//! - `secure` (`null` for a system of partitions): `latency_ns` of a secure interrupt, `tasks[]` (`name`, `response_ns`, `deadline_ns`),
//!   `servers[]` (`name`, `delay_ns` with a budget in hand, `blackout_ns` behind one that was just used up).
//!
//! `verdict` is `not-found` where the search for a response took too many steps.

use crate::bounds::{Bounds, CoreTiming, InterruptBound, ServerBound, VcpuBound};
use crate::check::interrupts::source_name;
use crate::cores::SharedModel;
use crate::payload;
use crate::quick::quick_tests;
use crate::text::server_name;
use bulkhead_analysis::core_bounds::Verdict;
use bulkhead_analysis::costs::NAMES;
use bulkhead_description::spans::Spans;
use bulkhead_plan::model::{ScheduleKind, System};
use serde_json::{Map, Value, json};

/// Makes the field.
#[must_use]
pub fn json(system: &System, spans: &Spans, bounds: &Bounds) -> Value {
    let costs: Map<String, Value> = NAMES
        .into_iter()
        .zip(bounds.assumptions.costs.values())
        .map(|(name, instructions)| (name.to_owned(), Value::from(instructions)))
        .collect();
    let doorbells: Vec<Value> = bounds
        .channels
        .iter()
        .map(|bound| {
            json!({
                "channel": system.channels.get(bound.channel).map(|channel| &channel.name),
                "within_limit_ns": bound.within_limit_ns,
                "held_back_ns": bound.held_back_ns,
                "polls_ns": bound.polls_ns,
            })
        })
        .collect();
    json!({
        "instruction_ps": bounds.assumptions.instruction_ps,
        "costs": costs,
        "provenance": bounds.assumptions.provenance,
        "steps": bounds.steps,
        "cores": bounds.cores.iter().map(|core| core_json(system, spans, core)).collect::<Vec<_>>(),
        "doorbells": doorbells,
        "secure": system.secure.as_ref().zip(payload::bounds(system, &bounds.assumptions)).map(|(secure, found)| payload::form(secure, &found)),
    })
}

fn core_json(system: &System, spans: &Spans, core: &CoreTiming) -> Value {
    let kind = match system.schedules.get(core.core.schedule).map(|schedule| &schedule.kind) {
        Some(ScheduleKind::RoundRobin { .. }) => "round-robin",
        Some(ScheduleKind::Cyclic { .. }) => "cyclic",
        _ => "fixed-priority",
    };
    let information = match &core.core.model {
        SharedModel::Servers(model) => quick_tests(model),
        SharedModel::Ring { .. } => None,
    };
    let information = information.map(|quick| {
        json!({
            "sum": quick.sum, "limit": quick.limit, "equation_one": quick.equation_one,
            "liu_layland": quick.liu_layland, "hyperbolic": quick.hyperbolic,
            "accepts_equation_one": quick.accepts_equation_one,
            "accepts_hyperbolic_form": quick.accepts_hyperbolic_form,
            "below_deferrable": quick.below_deferrable,
        })
    });
    json!({
        "core": core.core.board_core,
        "kind": kind,
        "servers": core.servers.iter().map(|server| server_json(system, spans, server)).collect::<Vec<_>>(),
        "vcpus": core.vcpus.iter().map(|vcpu| vcpu_json(system, vcpu)).collect::<Vec<_>>(),
        "interrupts": core.interrupts.iter().map(|one| interrupt_json(system, one)).collect::<Vec<_>>(),
        "information": information,
    })
}

fn partition_name(system: &System, partition: usize) -> &str {
    system.partitions.get(partition).map_or("", |partition| &partition.name)
}

fn server_json(system: &System, spans: &Spans, server: &ServerBound) -> Value {
    let verdict = match server.verdict {
        Verdict::Fits { .. } => "fits",
        Verdict::Late { .. } => "late",
        Verdict::NotFound => "not-found",
        Verdict::NoBound { .. } => "no-bound",
        Verdict::Starved { .. } => "starved",
        Verdict::Unlimited => "unlimited",
        Verdict::Shadowed { .. } => "shadowed",
        Verdict::Off => "off",
    };
    let (budget_ns, period_ns) = server.budget_and_period_ns.unzip();
    json!({
        "number": server.number,
        "name": server_name(system, spans, server.reference),
        "partition": partition_name(system, server.reference.partition),
        "vcpu": server.vcpu,
        "rule": server.rule,
        "priority": server.priority,
        "budget_ns": budget_ns,
        "period_ns": period_ns,
        "verdict": verdict,
        "response_ns": server.response_ns,
        "most_in_period_ns": server.most_in_period_ns,
        "most_below_ns": server.most_below_ns.map(|(window, most)| json!({ "window_ns": window, "most_ns": most })),
        "blackout_ns": server.blackout_ns,
        "supply_ppm": server.supply_ppm,
    })
}

fn vcpu_json(system: &System, vcpu: &VcpuBound) -> Value {
    let partition = system.partitions.get(vcpu.vcpu.partition);
    let tasks = vcpu.tasks.iter().map(|task| {
        json!({
            "name": partition.and_then(|partition| partition.tasks.get(task.task)).map(|task| &task.name),
            "response_ns": task.response_ns,
            "deadline_ns": task.deadline_ns,
        })
    });
    json!({
        "slot": vcpu.slot,
        "partition": partition_name(system, vcpu.vcpu.partition),
        "vcpu": vcpu.vcpu.vcpu,
        "conforming_wait_ns": vcpu.conforming_wait_ns,
        "drained_wait_ns": vcpu.drained_wait_ns,
        "blackout_ns": vcpu.blackout_ns,
        "answer_ns": vcpu.answer_ns,
        "supply_ppm": vcpu.supply_ppm,
        "tasks": tasks.collect::<Vec<_>>(),
    })
}

fn interrupt_json(system: &System, interrupt: &InterruptBound) -> Value {
    let limit = interrupt.limit.map(|limit| json!({ "events": limit.events, "per_ns": limit.period_ns }));
    json!({
        "partition": partition_name(system, interrupt.vcpu.partition),
        "vcpu": interrupt.vcpu.vcpu,
        "source": source_name(system, interrupt),
        "route": interrupt.rule.name(),
        "limit": limit,
        "handler_ns": interrupt.handler_ns,
        "conforming_ns": interrupt.conforming_ns,
        "drained_ns": interrupt.drained_ns,
        "deadline_ns": interrupt.deadline_ns,
    })
}
