//! Shared cores: slots, private data, time table. Servers are in `server`.
//!
//! A shared core runs several partitions on one EL2 map, so what keeps them apart there is the schedule's own words: each
//! slot leads to the plan of its partition and to data that no other slot has, and each claim on time has a bound.

use crate::code::Code;
use crate::finding::Findings;
use crate::image::{Contents, Core, PAGE, Vcpu, View};
use crate::server;
use bulkhead_abi::plan::MODE_MAPPED;
use bulkhead_abi::schedule::{RouteRule, ScheduleKind, SchedulePlan, SlotPlan};
use bulkhead_guest_abi::guest::GUEST_STOLEN_TIME;
use std::collections::HashSet;
use zerocopy::{Immutable, IntoBytes};

/// Longest period that the scheduler accepts (`core/sched`).
pub(crate) const MOST_TICKS: u64 = 1 << 56;
/// Priorities of a core (`core/sched`).
pub(crate) const PRIORITIES: u32 = 64;

/// Checks the schedule of every shared core.
pub(crate) fn check(view: &View<'_>, contents: &Contents, findings: &mut Findings) {
    // Nanoseconds of a tick, times 2^32; a second has fewer than 2^30.
    let tick_length = (1_000_000_000_u64 << 32).checked_div(view.header.counter_hz);
    for core in &contents.cores {
        if let Some(plan) = &core.schedule {
            findings.require(Some(plan.tick_length) == tick_length, Code::StolenTime, || {
                format!("core {}: a tick of {} 2^-32 ns is not that of the counter", core.index, plan.tick_length)
            });
            check_slots(core, plan, findings);
            check_words(core, plan, findings);
            check_table(core, plan, findings);
            server::check(core, plan, findings);
        }
    }
}

fn check_slots(core: &Core, plan: &SchedulePlan, findings: &mut Findings) {
    let index = core.index;
    let mut plans = HashSet::new();
    let mut next_data = core.boot.data.0;
    for (vcpu, slot) in core.vcpus.iter().zip(&plan.slots) {
        findings.require(plans.insert(slot.plan), Code::Slot, || {
            format!("core {index}: two slots name the plan at {}", slot.plan)
        });
        // The pages follow each other in the core's data, so they are distinct and nobody else's.
        findings.require(slot.data.0 == next_data, Code::Slot, || {
            format!("core {index}: the data of slot {} is at {}, must be at {next_data:#x}", vcpu.slot, slot.data)
        });
        next_data = next_data.saturating_add(PAGE);
        check_slot(core, plan, vcpu, slot, findings);
    }
    findings.require(plan.scheduler.0 == next_data, Code::Schedule, || {
        format!("core {index}: its scheduler is at {}, must be at {next_data:#x}, behind the slots", plan.scheduler)
    });
}

fn check_slot(core: &Core, plan: &SchedulePlan, vcpu: &Vcpu, slot: &SlotPlan, findings: &mut Findings) {
    let takes_turns = plan.kind() == Some(ScheduleKind::RoundRobin);
    findings.require(slot.partition == vcpu.plan.partition, Code::Slot, || {
        format!(
            "core {}: slot {} is said to be partition {}, its plan is partition {}'s",
            core.index, vcpu.slot, slot.partition, vcpu.plan.partition
        )
    });
    findings.require(vcpu.plan.mode == MODE_MAPPED, Code::Slot, || {
        format!("core {}: slot {} owns the physical CPU interface of a core that others use", core.index, vcpu.slot)
    });
    let place = GUEST_STOLEN_TIME.0.saturating_add(PAGE.saturating_mul(u64::from(vcpu.plan.vcpu)));
    let is_told = slot.stolen_time.0 != 0 && slot.stolen_time_guest.0 == place;
    findings.require(is_told, Code::StolenTime, || {
        format!(
            "core {}: slot {} has stolen time at {}, and its guest looks for it at {}, must be at {place:#x}",
            core.index, vcpu.slot, slot.stolen_time, slot.stolen_time_guest
        )
    });
    let keeps_turn = slot.preemptible == 0;
    let route = match slot.timer_route() {
        Some(RouteRule::Priority | RouteRule::Defer) => true,
        Some(RouteRule::Preempt) => takes_turns,
        None => false,
    };
    let good = slot.preemptible <= 1 && (!keeps_turn || takes_turns) && route && slot.reserved == 0;
    findings.require(good, Code::Slot, || {
        format!(
            "core {}: slot {} says preemptible {} and timer route {}, which its schedule does not know",
            core.index, vcpu.slot, slot.preemptible, slot.timer_route
        )
    });
}

fn check_words(core: &Core, plan: &SchedulePlan, findings: &mut Findings) {
    let turns = [plan.on_interrupt, plan.reading, plan.ring_moves];
    let in_range = |ticks: u64| (1..=MOST_TICKS).contains(&ticks);
    let good = match plan.kind() {
        Some(ScheduleKind::RoundRobin) => {
            let known = plan.on_interrupt().is_some() && plan.reading().is_some();
            known && plan.ring().is_some() && in_range(plan.quantum_ticks) && plan.quantum_count == 0
        }
        Some(ScheduleKind::FixedPriority | ScheduleKind::Cyclic) => turns == [0; 3] && plan.quantum_ticks == 0,
        None => false,
    };
    let known = plan.floating_point().is_some() && plan.reserved == 0;
    findings.require(good && known, Code::Schedule, || {
        format!("core {}: a schedule of kind {} with words that it does not have", core.index, plan.kind)
    });
    let mut priorities = HashSet::new();
    for quantum in plan.quanta().iter() {
        let alone = priorities.insert(quantum.priority) && quantum.reserved == 0;
        let good = alone && quantum.priority < PRIORITIES && in_range(quantum.quantum_ticks);
        findings.require(good, Code::Schedule, || {
            format!("core {}: priority {} has a bad quantum or two", core.index, quantum.priority)
        });
    }
    let empty = rest(&plan.slots, plan.slot_count)
        && rest(&plan.servers, plan.server_count)
        && rest(&plan.windows, plan.window_count)
        && rest(&plan.quanta, plan.quantum_count);
    findings.require(empty, Code::Leftover, || {
        format!("core {}: its schedule has entries past one of its counts", core.index)
    });
}

fn rest<T: IntoBytes + Immutable>(entries: &[T], count: u32) -> bool {
    entries.iter().skip(count as usize).all(|entry| entry.as_bytes().iter().all(|byte| *byte == 0))
}

/// Windows lie in order inside the major frame and do not overlap, and each opens the gates of one slot of this core.
fn check_table(core: &Core, plan: &SchedulePlan, findings: &mut Findings) {
    let is_cyclic = plan.kind() == Some(ScheduleKind::Cyclic);
    let frame = match is_cyclic {
        true => (1..=MOST_TICKS).contains(&plan.major_ticks) && plan.window_count > 0,
        false => plan.major_ticks == 0 && plan.window_count == 0,
    };
    findings.require(frame, Code::TimeTable, || {
        format!(
            "core {}: a major frame of {} ticks with {} windows does not fit its schedule",
            core.index, plan.major_ticks, plan.window_count
        )
    });
    let mut free_from = 0;
    for window in plan.windows().iter() {
        let end = window.offset_ticks.checked_add(window.length_ticks);
        let inside = end.is_some_and(|end| end <= plan.major_ticks);
        let good = inside && window.length_ticks > 0 && window.offset_ticks >= free_from && window.reserved == 0;
        findings.require(good, Code::TimeTable, || {
            format!(
                "core {}: the window at {} ticks is empty, overlaps the one before or leaves the major frame",
                core.index, window.offset_ticks
            )
        });
        findings.require(window.name < plan.slot_count, Code::TimeTable, || {
            format!("core {}: the window at {} ticks opens no slot", core.index, window.offset_ticks)
        });
        free_from = end.unwrap_or(u64::MAX);
    }
}
