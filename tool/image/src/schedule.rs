//! Schedules of shared cores for people and programs: what the monitor will read, in the words of a description.

use crate::build::Planned;
use bulkhead_abi::plan::InterruptPlan;
use bulkhead_abi::schedule::{NO_SERVER, SchedulePlan, ServerPlan};
use bulkhead_description::unit::format_duration;
use bulkhead_plan::Plan;
use bulkhead_plan::maps::CoreUse;
use bulkhead_plan::model::System;
use bulkhead_plan::ticks;
use bulkhead_words::{
    Anchor, FloatingPoint, Gate, OnEmpty, OnInterrupt, Parameter, Reading, Ring, RouteRule, Rule, ScheduleKind,
    ServerFlag, name_of,
};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Says what an interrupt does while another vCPU runs.
pub(crate) fn route_text(interrupt: &InterruptPlan) -> String {
    let limit = match interrupt.limit_period_ticks {
        0 => String::new(),
        period => format!(", at most {} in {period} ticks", interrupt.limit_events),
    };
    let client = match interrupt.client.checked_sub(1) {
        None => String::new(),
        Some(place) => format!(", for client {place} of its PIBS server"),
    };
    format!("route {}{limit}{client}", name_of::<RouteRule>(interrupt.route))
}

/// Partition and vCPU of a slot.
fn slot_name(system: &System, core_use: &CoreUse, slot: u32) -> (String, usize) {
    let vcpu = core_use.vcpus.get(slot as usize);
    let name = vcpu.and_then(|vcpu| system.partitions.get(vcpu.partition)).map_or("?", |partition| &partition.name);
    (name.to_owned(), vcpu.map_or(0, |vcpu| vcpu.vcpu))
}

/// Writing to a string cannot fail.
macro_rules! line {
    ($out:expr, $($argument:tt)*) => {
        let _ = writeln!($out, $($argument)*);
    };
}

/// Describes the schedule of one core.
pub(crate) fn text(system: &System, core_use: &CoreUse, plan: &SchedulePlan) -> String {
    let hz = system.board.counter_hz;
    let time = |ticks| format_duration(ticks::to_ns(ticks, hz));
    let mut out = String::new();
    let floating_point = name_of::<FloatingPoint>(plan.floating_point);
    let kind = name_of::<ScheduleKind>(plan.kind);
    line!(out, "\nschedule of core {}: {kind}, floating point {floating_point}", core_use.board_core);
    if plan.kind() == Some(ScheduleKind::RoundRobin) {
        let reading = name_of::<Reading>(plan.reading);
        let ring = name_of::<Ring>(plan.ring_moves);
        let policy = name_of::<OnInterrupt>(plan.on_interrupt);
        line!(out, "  quantum {}, on interrupt {policy}, reading {reading}, ring {ring}", time(plan.quantum_ticks));
    }
    for (slot, facts) in (0..plan.slot_count).zip(&plan.slots) {
        let (name, vcpu) = slot_name(system, core_use, slot);
        let keeps = if facts.preemptible == 0 { ", keeps its turn" } else { "" };
        line!(
            out,
            "  slot {slot}: {name}, vCPU {vcpu}, timer route {}{keeps}",
            name_of::<RouteRule>(facts.timer_route)
        );
    }
    for quantum in plan.quanta() {
        line!(out, "  priority {} takes turns of {}", quantum.priority, time(quantum.quantum_ticks));
    }
    for window in plan.windows() {
        let (name, _) = slot_name(system, core_use, window.name);
        let (start, end) = (time(window.offset_ticks), time(window.offset_ticks + window.length_ticks));
        line!(out, "  window {start} to {end} of {}: {name}", time(plan.major_ticks));
    }
    for (number, server) in plan.servers().iter().enumerate() {
        let (name, vcpu) = slot_name(system, core_use, server.slot);
        line!(
            out,
            "  server {number:>2}, priority {:>2}: {name}, vCPU {vcpu}, {}",
            server.priority,
            facts(server, &time)
        );
    }
    out
}

/// Says what a server may use and when.
fn facts(server: &ServerPlan, time: &dyn Fn(u64) -> String) -> String {
    let mut text = name_of::<Rule>(server.rule).to_owned();
    if server.budget_ticks > 0 {
        let _ = write!(text, " {} per {}", time(server.budget_ticks), time(server.period_ticks));
    }
    let has = |parameter| server.rule().is_some_and(|rule| rule.has(parameter));
    if has(Parameter::Clients) {
        let _ = write!(text, " {}/{} for", server.share_numerator, server.share_denominator);
        for client in server.clients() {
            let _ = write!(text, " {} at {}", time(client.period_ticks), client.priority);
        }
    }
    if server.minimum_ticks > 0 {
        let _ = write!(text, ", at least {}", time(server.minimum_ticks));
    }
    if server.least_charge_ticks > 0 {
        let _ = write!(text, ", charged at least {}", time(server.least_charge_ticks));
    }
    if server.chunks > 0 {
        let _ = write!(text, ", {} chunks", server.chunks);
        let anchor = if server.has(ServerFlag::DispatchAnchor) { Anchor::Dispatch } else { Anchor::Eligible }.name();
        let clamp = if server.has(ServerFlag::LagClamp) { "clamped" } else { "not clamped" };
        let _ = write!(text, ", anchor {anchor}, {clamp}");
    }
    if server.has(ServerFlag::PublishedPibs) {
        text.push_str(", published rule");
    }
    let _ = write!(text, ", gate {}", name_of::<Gate>(server.gate));
    if server.has(ServerFlag::VoluntaryReturn) {
        text.push_str(" with voluntary return");
    }
    if server.payer != NO_SERVER {
        let _ = write!(text, ", server {} pays", server.payer);
    }
    match server.on_empty() {
        Some(OnEmpty::Background) => {
            let _ = write!(text, ", then priority {}", server.background_priority);
        }
        Some(OnEmpty::Notify) => text.push_str(", then notifies"),
        _ => {}
    }
    text
}

/// An interrupt that waits for its guest's turn.
pub(crate) struct Wait {
    partition: usize,
    /// `None` for the guest's timer.
    intid: Option<u32>,
    /// Longest wait when all others use their whole turn.
    longest_ticks: u64,
}

/// Returns the interrupts of a round robin that do not act at once, with the longest wait (N - 1) x Q (MZ-13, MZ-20). A
/// device whose buffer is shorter than that loses data.
pub(crate) fn waits(planned: &Plan, core_use: &CoreUse, plan: &SchedulePlan) -> Vec<Wait> {
    if plan.kind() != Some(ScheduleKind::RoundRobin) {
        return Vec::new();
    }
    let longest_ticks = plan.quantum_ticks.saturating_mul(u64::from(plan.slot_count.saturating_sub(1)));
    let acts = |route| route == Some(RouteRule::Preempt) && plan.on_interrupt() != Some(OnInterrupt::None);
    let mut waits = Vec::new();
    for (vcpu, slot) in core_use.vcpus.iter().zip(&plan.slots) {
        let partition = vcpu.partition;
        if !acts(slot.timer_route()) {
            waits.push(Wait { partition, intid: None, longest_ticks });
        }
        let Some(own) = planned.partitions.get(partition) else { continue };
        let interrupts = own.plan.interrupts().iter();
        let waiting = interrupts.filter(|interrupt| !acts(interrupt.route()));
        waits.extend(waiting.map(|interrupt| Wait { partition, intid: Some(interrupt.intid), longest_ticks }));
    }
    waits
}

/// Says which interrupts wait for their guest's turn and how long.
pub(crate) fn waits_text(waits: &[Wait], system: &System) -> String {
    let mut out = String::new();
    for wait in waits {
        let name = system.partitions.get(wait.partition).map_or("?", |partition| partition.name.as_str());
        let what = wait.intid.map_or_else(|| String::from("its timer"), |intid| format!("interrupt {intid}"));
        let longest = format_duration(ticks::to_ns(wait.longest_ticks, system.board.counter_hz));
        line!(out, "  {name}: {what} waits for its turn, at most {longest}");
    }
    out
}

/// Returns the schedule of one core for programs; times in nanoseconds.
pub(crate) fn form(planned: &Planned, core_use: &CoreUse, plan: &SchedulePlan) -> Value {
    let system = &planned.system;
    let waits = waits(&planned.image.plan, core_use, plan);
    let hz = system.board.counter_hz;
    let ns = |ticks| ticks::to_ns(ticks, hz);
    let slot = |slot: u32| {
        let (partition, vcpu) = slot_name(system, core_use, slot);
        json!({ "partition": partition, "vcpu": vcpu })
    };
    let servers = plan.servers().iter().map(|server| {
        json!({
            "slot": server.slot,
            "priority": server.priority,
            "rule": name_of::<Rule>(server.rule),
            "gate": name_of::<Gate>(server.gate),
            "budget_ns": ns(server.budget_ticks),
            "period_ns": ns(server.period_ticks),
            "payer": Some(server.payer).filter(|payer| *payer != NO_SERVER),
            "background_priority": Some(server.background_priority).filter(|_| server.on_empty() == Some(OnEmpty::Background)),
        })
    });
    let windows = plan.windows().iter().map(|window| {
        json!({ "slot": window.name, "offset_ns": ns(window.offset_ticks), "length_ns": ns(window.length_ticks) })
    });
    let waits = waits.iter().map(|wait| {
        let name = system.partitions.get(wait.partition).map(|partition| &partition.name);
        json!({ "partition": name, "interrupt": wait.intid, "longest_ns": ns(wait.longest_ticks) })
    });
    json!({
        "core": core_use.board_core,
        "kind": name_of::<ScheduleKind>(plan.kind),
        "quantum_ns": ns(plan.quantum_ticks),
        "major_frame_ns": ns(plan.major_ticks),
        "slots": (0..plan.slot_count).map(slot).collect::<Vec<Value>>(),
        "servers": servers.collect::<Vec<Value>>(),
        "windows": windows.collect::<Vec<Value>>(),
        "waits": waits.collect::<Vec<Value>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::{form, text, waits, waits_text};
    use crate::assemble;
    use crate::build::Planned;
    use bulkhead_plan::samples;

    fn all<T>(show: impl Fn(usize, &Planned) -> T) -> Vec<T> {
        let system = samples::shared_cores();
        let image = assemble(&system, &samples::monitor()).expect("the sample fits");
        let planned = Planned { system, image, monitor_elf: Vec::new() };
        (0..3).map(|core| show(core, &planned)).collect()
    }

    #[test]
    fn every_kind_of_schedule_is_shown() {
        let texts = all(|core, planned| {
            let plan = &planned.image.plan;
            text(&planned.system, &plan.core_uses[core], plan.schedules[core].as_ref().expect("it is shared"))
        });
        let expected = "
schedule of core 0: fixed-priority, floating point lazy
  slot 0: control, vCPU 0, timer route priority
  slot 1: driver, vCPU 0, timer route priority
  slot 2: other, vCPU 0, timer route priority
  priority 9 takes turns of 10 ms
  server  0, priority  0: control, vCPU 0, sporadic 1 ms per 20 ms, at least 20 us, 4 chunks, anchor dispatch, clamped, \
gate interrupt with voluntary return
  server  1, priority  1: control, vCPU 0, sporadic 2 ms per 10 ms, at least 20 us, 8 chunks, anchor eligible, clamped, \
gate always
  server  2, priority  1: driver, vCPU 0, pibs 1/20 for 10 ms at 1 30 ms at 9, at least 20 us, gate always
  server  3, priority  9: other, vCPU 0, deferrable 6 ms per 30 ms, charged at least 100 us, gate always, then priority 40
  server  4, priority 20: other, vCPU 0, unlimited, gate interrupt, server 1 pays
";
        assert_eq!(texts[0], expected);
        assert!(texts[1].contains("  window 20 ms to 50 ms of 100 ms: plain\n"), "{}", texts[1]);
        assert!(texts[1].contains("gate window, then notifies\n"), "{}", texts[1]);
        let turns = "  quantum 30 ms, on interrupt recycle, reading latched, ring moves\n";
        assert!(texts[2].contains(turns) && texts[2].contains("first, vCPU 0, timer route priority, keeps its turn"));
    }

    #[test]
    fn programs_get_numbers() {
        let forms = all(|core, planned| {
            let plan = &planned.image.plan;
            form(planned, &plan.core_uses[core], plan.schedules[core].as_ref().expect("it is shared"))
        });
        assert_eq!(forms[0]["servers"][1]["budget_ns"], 2_000_000);
        assert_eq!(
            (&forms[0]["servers"][4]["payer"], &forms[0]["servers"][3]["background_priority"]),
            (&1.into(), &40.into())
        );
        assert_eq!(
            (&forms[1]["windows"][1]["offset_ns"], &forms[1]["slots"][1]["partition"]),
            (&20_000_000.into(), &"plain".into())
        );
        assert_eq!(forms[2]["quantum_ns"], 30_000_000);
    }

    /// MZ-13, MZ-20: each interrupt that waits for its guest's turn is listed with the worst wait.
    #[test]
    fn interrupts_that_wait_for_a_turn_are_listed() {
        let texts = all(|core, planned| {
            let plan = &planned.image.plan;
            let schedule = plan.schedules[core].as_ref().expect("it is shared");
            waits_text(&waits(plan, &plan.core_uses[core], schedule), &planned.system)
        });
        let expected = "  first: its timer waits for its turn, at most 30 ms
  first: interrupt 82 waits for its turn, at most 30 ms
  first: interrupt 86 waits for its turn, at most 30 ms
";
        assert_eq!(texts, ["", "", expected], "console and doorbell; all of `second` pre-empt");
    }
}
