//! What shared cores gave to whom (QV-41, MZ-26), for `bulkhead stats`.
//!
//! A shared core's monitor adds up at each switch, so a server that runs right now is counted up to its last start. The
//! numbers are the monitor's own, from its clock; the guests have no part in them.

use crate::image_file::CorePlan;
use crate::observer::Observer;
use bulkhead_abi::schedule::{NO_SERVER, SchedulePlan, ServerUsage, SlotUsage, UsagePage};
use bulkhead_files::table::table;
use bulkhead_plan::ticks;
use bulkhead_words::{Gate, Rule, ScheduleKind, name_of};
use serde_json::{Value, json};

/// A shared core whose monitor has written its page.
struct SharedCore<'o> {
    core: usize,
    plan: &'o CorePlan,
    schedule: &'o SchedulePlan,
    usage: UsagePage,
}

fn shared_cores(observer: &Observer) -> Vec<SharedCore<'_>> {
    let cores = observer.plan().cores.iter().enumerate();
    cores
        .filter_map(|(core, plan)| {
            let schedule = plan.schedule.as_ref()?;
            Some(SharedCore { core, plan, schedule, usage: observer.usage(core)? })
        })
        .collect()
}

/// A server with its number and what it used.
fn servers<'o>(shared: &'o SharedCore<'_>) -> impl Iterator<Item = (usize, &'o ServerUsage)> {
    shared.usage.servers.iter().take(shared.schedule.servers().len()).enumerate()
}

/// Partition and vCPU of a slot.
fn vcpu(shared: &SharedCore<'_>, slot: usize) -> (usize, u32) {
    shared.plan.vcpus.get(slot).map_or((usize::MAX, 0), |plan| (plan.partition as usize, plan.vcpu))
}

fn slots<'o>(shared: &'o SharedCore<'_>) -> impl Iterator<Item = (usize, u32, &'o SlotUsage)> {
    let count = shared.plan.vcpus.len();
    shared.usage.slots.iter().take(count).enumerate().map(|(slot, usage)| {
        let (partition, number) = vcpu(shared, slot);
        (partition, number, usage)
    })
}

/// Returns the tables for people; nothing without shared cores.
pub(super) fn text(observer: &Observer) -> String {
    let hz = observer.plan().header.counter_hz;
    let time = |ticks| time_text(ticks::to_ns(ticks, hz));
    let mut text = String::new();
    for shared in shared_cores(observer) {
        let usage = &shared.usage;
        text.push_str(&format!(
            "\ncore {}, {}: idle {}, {} switches, as of {}\n",
            shared.core,
            name_of::<ScheduleKind>(shared.schedule.kind),
            time(usage.idle_ticks),
            usage.switches,
            time(usage.time_ticks)
        ));
        let mut rows = Vec::new();
        for (number, used) in servers(&shared) {
            let plan = &shared.schedule.servers[number];
            let (partition, _) = vcpu(&shared, plan.slot as usize);
            let payer = if plan.payer == NO_SERVER { String::from("itself") } else { plan.payer.to_string() };
            rows.push(vec![
                number.to_string(),
                observer.plan().partition_name(partition).to_owned(),
                plan.priority.to_string(),
                name_of::<Rule>(plan.rule).to_owned(),
                name_of::<Gate>(plan.gate).to_owned(),
                payer,
                time(used.budgeted_ticks),
                time(used.background_ticks),
                used.starts.to_string(),
                used.exhaustions.to_string(),
                time(used.longest_overrun_ticks),
            ]);
        }
        if !rows.is_empty() {
            let head = "server partition priority rule gate payer used background starts exhaustions overrun";
            rows.insert(0, head.split(' ').map(str::to_owned).collect());
            text.push_str(&table(&rows, 2, 0));
        }
        text.push('\n');
        text.push_str(&table(&slot_rows(observer, &shared, &time), 1, 0));
    }
    text
}

fn slot_rows(observer: &Observer, shared: &SharedCore<'_>, time: &dyn Fn(u64) -> String) -> Vec<Vec<String>> {
    let head = ["vCPU", "wakes", "longest wait", "longest blackout", "held", "limited", "stolen"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for (partition, number, usage) in slots(shared) {
        rows.push(vec![
            format!("{}, vCPU {number}", observer.plan().partition_name(partition)),
            usage.wakes.to_string(),
            time(usage.longest_wait_ticks),
            time(usage.longest_blackout_ticks),
            usage.interrupts_held.to_string(),
            usage.interrupts_limited.to_string(),
            time(usage.stolen_ticks),
        ]);
    }
    rows
}

/// Writes a time with three decimals of the largest unit that it reaches, so that a column can be read.
pub(crate) fn time_text(time_ns: u64) -> String {
    let (unit_ns, unit) = match time_ns {
        0..1_000 => return format!("{time_ns} ns"),
        1_000..1_000_000 => (1_000, "us"),
        1_000_000..1_000_000_000 => (1_000_000, "ms"),
        _ => (1_000_000_000, "s"),
    };
    format!("{}.{:03} {unit}", time_ns / unit_ns, time_ns % unit_ns * 1_000 / unit_ns)
}

/// Returns the same for programs; times in nanoseconds.
pub(super) fn json(observer: &Observer) -> Value {
    let hz = observer.plan().header.counter_hz;
    let name = |partition| observer.plan().partition_name(partition);
    let one = |shared: SharedCore<'_>| {
        let servers = servers(&shared).map(|(number, used)| {
            let plan = &shared.schedule.servers[number];
            let (partition, vcpu) = vcpu(&shared, plan.slot as usize);
            json!({
                "server": number,
                "partition": name(partition),
                "vcpu": vcpu,
                "priority": plan.priority,
                "rule": name_of::<Rule>(plan.rule),
                "gate": name_of::<Gate>(plan.gate),
                "payer": Some(plan.payer).filter(|payer| *payer != NO_SERVER),
                "used_ns": ticks::to_ns(used.budgeted_ticks, hz),
                "background_ns": ticks::to_ns(used.background_ticks, hz),
                "starts": used.starts,
                "exhaustions": used.exhaustions,
                "longest_overrun_ns": ticks::to_ns(used.longest_overrun_ticks, hz),
            })
        });
        let vcpus = slots(&shared).map(|(partition, vcpu, usage)| {
            json!({
                "partition": name(partition),
                "vcpu": vcpu,
                "wakes": usage.wakes,
                "longest_wait_ns": ticks::to_ns(usage.longest_wait_ticks, hz),
                "longest_blackout_ns": ticks::to_ns(usage.longest_blackout_ticks, hz),
                "interrupts_held": usage.interrupts_held,
                "interrupts_limited": usage.interrupts_limited,
                "stolen_ns": ticks::to_ns(usage.stolen_ticks, hz),
            })
        });
        json!({
            "core": shared.core,
            "schedule": name_of::<ScheduleKind>(shared.schedule.kind),
            "idle_ns": ticks::to_ns(shared.usage.idle_ticks, hz),
            "switches": shared.usage.switches,
            "time_ns": ticks::to_ns(shared.usage.time_ticks, hz),
            "servers": servers.collect::<Vec<_>>(),
            "vcpus": vcpus.collect::<Vec<_>>(),
        })
    };
    shared_cores(observer).into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::time_text;

    #[test]
    fn times_have_the_unit_that_they_reach() {
        let texts = [0, 999, 1_000, 1_234_567, 999_999_999, 61_000_000_000].map(time_text);
        assert_eq!(texts, ["0 ns", "999 ns", "1.000 us", "1.234 ms", "999.999 ms", "61.000 s"]);
    }
}
