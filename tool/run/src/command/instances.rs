//! What instances of the real-time kernel used (QV-41, CH-42, CH-60), for `bulkhead stats`.

use super::usage::time_text;
use crate::instance::{Instance, name_of};
use crate::observer::Observer;
use bulkhead_files::table::table;
use bulkhead_kernel_abi::call::Call;
use bulkhead_plan::ticks;
use serde_json::{Value, json};
use std::fmt::Write as _;

fn instances(observer: &Observer) -> impl Iterator<Item = (&str, Instance)> {
    let of = |partition| Some((observer.plan().partition_name(partition), observer.instance(partition)?));
    (0..observer.partition_count()).filter_map(of)
}

/// The tables for people; nothing without an instance.
pub(super) fn text(observer: &Observer) -> String {
    let hz = observer.plan().header.counter_hz;
    instances(observer).map(|(partition, instance)| of_instance(partition, &instance, hz)).collect()
}

fn of_instance(partition: &str, instance: &Instance, hz: u64) -> String {
    let time = |ticks| time_text(ticks::to_ns(ticks, hz));
    let accounts = &instance.accounts.accounts;
    let mut text = format!(
        "\npartition {partition}, instance of the kernel: idle {}, in calls {}, {} fault(s)\n",
        time(accounts.idle_ticks),
        time(accounts.call_ticks),
        accounts.faults
    );
    if accounts.print_busy > 0 {
        let of: Vec<_> = busy_printers(instance).map(|(name, times)| format!("{name} {times}")).collect();
        let _ = writeln!(text, "prints without room: {} ({})", accounts.print_busy, of.join(", "));
    }
    let head = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let mut rows = vec![head(&[
        "server",
        "name",
        "budget/period",
        "used",
        "background",
        "dispatches",
        "exhaustions",
        "vetoes",
        "top halves",
    ])];
    for (number, (row, used)) in instance.servers.iter().zip(&accounts.servers).enumerate() {
        // Of a share the two are a ratio, of all others ticks: no rule needs a name here.
        let promised =
            if row.period_ticks == 0 { "-".to_owned() } else { format!("{}/{}", row.budget_ticks, row.period_ticks) };
        rows.push(vec![
            number.to_string(),
            name_in(&instance.server_names, number),
            promised,
            time(used.charged_ticks),
            time(used.background_ticks),
            used.dispatches.to_string(),
            used.exhaustions.to_string(),
            used.vetoes.to_string(),
            time(used.top_half_ticks),
        ]);
    }
    text.push_str(&table(&rows, 2, 0));
    let mut rows = vec![head(&["thread", "component", "name", "ran", "loaded"])];
    for (number, (component, used)) in instance.threads.iter().zip(&accounts.threads).enumerate() {
        let name = instance.components.get(usize::from(*component)).map_or("?", String::as_str);
        let own = name_in(&instance.thread_names, number);
        rows.push(vec![number.to_string(), name.to_owned(), own, time(used.ran_ticks), used.switches.to_string()]);
    }
    text.push('\n');
    text.push_str(&table(&rows, 3, 0));
    let mut rows = vec![head(&["call", "times", "longest"])];
    for (call, count, longest) in calls(instance).filter(|(_, count, _)| *count > 0) {
        // What has only taken the fast path was not timed.
        let longest = if longest == 0 { "-".to_owned() } else { time(longest) };
        rows.push(vec![call.name().to_owned(), count.to_string(), longest]);
    }
    text.push('\n');
    text.push_str(&table(&rows, 1, 0));
    if instance.wires > 0 {
        let mut rows = vec![head(&["wire", "sent", "received", "busy", "refused", "limited"])];
        for (number, used) in accounts.wires.iter().take(instance.wires).enumerate() {
            let counts = [used.sent, used.received, used.busy, used.refused, used.limited];
            rows.push(core::iter::once(number as u64).chain(counts).map(|count| count.to_string()).collect());
        }
        text.push('\n');
        text.push_str(&table(&rows, 1, 0));
    }
    text
}

/// The name of a thread or a server, or a dash: who made the instance gave it none.
fn name_in(names: &[String], number: usize) -> String {
    names.get(number).filter(|name| !name.is_empty()).map_or_else(|| "-".to_owned(), Clone::clone)
}

/// Who found no room for what it prints, and how often.
fn busy_printers(instance: &Instance) -> impl Iterator<Item = (String, u32)> {
    let of = instance.accounts.accounts.print_busy_of.iter().enumerate().filter(|(_, times)| **times > 0);
    of.map(|(number, times)| (name_of(&instance.components, number), *times))
}

fn calls(instance: &Instance) -> impl Iterator<Item = (Call, u64, u64)> {
    let longest = instance.accounts.accounts.longest_ticks.iter();
    let of = |(number, (count, longest)): (u64, (&u64, &u64))| Some((Call::from_number(number)?, *count, *longest));
    (0..).zip(instance.accounts.calls.iter().zip(longest)).filter_map(of)
}

/// The same for programs; times in nanoseconds.
pub(super) fn json(observer: &Observer) -> Value {
    let hz = observer.plan().header.counter_hz;
    let ns = |ticks| ticks::to_ns(ticks, hz);
    let one = |(partition, instance): (&str, Instance)| {
        let accounts = &instance.accounts.accounts;
        let servers = instance.servers.iter().zip(&accounts.servers).enumerate().map(|(number, (_, used))| {
            json!({
                "server": number,
                "name": instance.server_names.get(number),
                "used_ns": ns(used.charged_ticks),
                "background_ns": ns(used.background_ticks),
                "dispatches": used.dispatches,
                "exhaustions": used.exhaustions,
                "vetoes": used.vetoes,
                "top_half_ns": ns(used.top_half_ticks),
            })
        });
        let threads = instance.threads.iter().zip(&accounts.threads).enumerate().map(|(number, (component, used))| {
            json!({
                "thread": number,
                "component": instance.components.get(usize::from(*component)),
                "name": instance.thread_names.get(number),
                "ran_ns": ns(used.ran_ticks),
                "loaded": used.switches,
            })
        });
        let calls = calls(&instance)
            .map(|(call, count, longest)| json!({ "call": call.name(), "times": count, "longest_ns": ns(longest) }));
        let wires = accounts.wires.iter().take(instance.wires).enumerate().map(|(number, used)| {
            json!({
                "wire": number,
                "sent": used.sent,
                "received": used.received,
                "busy": used.busy,
                "refused": used.refused,
                "limited": used.limited,
            })
        });
        json!({
            "partition": partition,
            "wires": wires.collect::<Vec<_>>(),
            "idle_ns": ns(accounts.idle_ticks),
            "calls_ns": ns(accounts.call_ticks),
            "faults": accounts.faults,
            "print_busy": accounts.print_busy,
            "print_busy_of": busy_printers(&instance).map(|(component, times)| json!({ "component": component, "times": times })).collect::<Vec<_>>(),
            "servers": servers.collect::<Vec<_>>(),
            "threads": threads.collect::<Vec<_>>(),
            "calls": calls.collect::<Vec<_>>(),
        })
    };
    json!(instances(observer).map(one).collect::<Vec<_>>())
}
