//! Events as lines of text.

use crate::layout::Layout;
use crate::timeline::{Event, EventKind, Timeline};
use crate::words::{CLASS_SHIFT, call_name, duration, exception_class_name, reason_name, state_name};

/// Returns one line per event: time in nanoseconds, core, whom it is about, what happened.
#[must_use]
pub fn lines(timeline: &Timeline) -> String {
    let mut text = String::new();
    for warning in &timeline.warnings {
        text.push_str(&format!("# {warning}\n"));
    }
    for (core, lost) in timeline.lost.iter().enumerate().filter(|(_, lost)| **lost > 0) {
        text.push_str(&format!("# core {core}: {lost} older records were overwritten\n"));
    }
    for event in &timeline.events {
        let subject = subject(event, &timeline.layout);
        let what = describe(event, &timeline.layout);
        text.push_str(&format!("{:>14} core {} {subject:<12} {what}\n", event.time_ns, event.core));
    }
    text
}

/// Returns the name of whom an event is about, or a dash.
#[must_use]
pub fn subject(event: &Event, layout: &Layout) -> String {
    match &event.kind {
        EventKind::Run { slot, .. } | EventKind::Wake { slot, .. } | EventKind::Block { slot } => {
            layout.slot_name(event.core, *slot).to_string()
        }
        EventKind::Mark { slot: Some(slot), .. } => layout.slot_name(event.core, *slot).to_string(),
        EventKind::Exhausted { server } | EventKind::Replenished { server, .. } => {
            layout.server_name(event.core, *server).unwrap_or("?").to_owned()
        }
        EventKind::Interrupt { owner: Some(partition), .. }
        | EventKind::Doorbell { partition, .. }
        | EventKind::GuestStart { partition, .. }
        | EventKind::State { partition, .. }
        | EventKind::Exit { partition, .. }
        | EventKind::Call { partition, .. }
        | EventKind::Fault { partition, .. } => layout.partition_name(*partition).to_owned(),
        EventKind::Idle
        | EventKind::Charged { .. }
        | EventKind::Interrupt { owner: None, .. }
        | EventKind::Mark { slot: None, .. } => "-".to_owned(),
    }
}

/// Returns what happened without addresses and contents of registers: the same words for the same kind of event.
#[must_use]
pub fn title(event: &Event, layout: &Layout) -> String {
    match &event.kind {
        EventKind::GuestStart { .. } => "guest start".to_owned(),
        EventKind::Exit { syndrome, .. } => format!("exit: {}", exception_class_name(*syndrome)),
        EventKind::Call { function, .. } => format!("call {}", call_name(*function)),
        EventKind::Fault { reason, .. } => format!("fault: {}", reason_name(*reason)),
        _ => describe(event, layout),
    }
}

/// Returns what [`title`] leaves out: addresses and contents of registers, with their names.
#[must_use]
pub fn registers(kind: &EventKind) -> Vec<(&'static str, u64)> {
    match *kind {
        EventKind::GuestStart { entry, .. } => vec![("entry", entry)],
        EventKind::Exit { syndrome, address, .. } => vec![("program counter", address), ("ESR_EL2", syndrome)],
        EventKind::Call { argument, .. } => vec![("argument", argument)],
        EventKind::Fault { syndrome, address, .. } => vec![("guest address", address), ("ESR_EL2", syndrome)],
        _ => Vec::new(),
    }
}

/// Returns what happened, in words.
#[must_use]
pub fn describe(event: &Event, layout: &Layout) -> String {
    match &event.kind {
        EventKind::Run { server, background, budget_ns, .. } => {
            let server = server.and_then(|server| layout.server_name(event.core, server));
            let server = server.map(|name| format!(" on server {name}")).unwrap_or_default();
            let budget = budget_ns.map(|budget| format!(", {} in hand", duration(budget))).unwrap_or_default();
            if *background { format!("runs{server} in the background") } else { format!("runs{server}{budget}") }
        }
        EventKind::Idle => "idle".to_owned(),
        EventKind::Charged { until_ns, .. } => format!("charged until {}", duration(*until_ns)),
        EventKind::Wake { interrupt: Some(intid), .. } => format!("ready: interrupt {intid}"),
        EventKind::Wake { interrupt: None, .. } => "ready".to_owned(),
        EventKind::Block { .. } => "nothing to do".to_owned(),
        EventKind::Exhausted { .. } => "budget used up".to_owned(),
        EventKind::Replenished { budget_ns: Some(budget), .. } => format!("budget back: {}", duration(*budget)),
        EventKind::Replenished { budget_ns: None, .. } => "budget back".to_owned(),
        EventKind::Interrupt { intid, held: true, .. } => format!("interrupt {intid}, waits for its owner"),
        EventKind::Interrupt { intid, .. } => format!("interrupt {intid}"),
        EventKind::Doorbell { channel, sent, .. } => {
            let name = layout.channels.get(*channel).map_or_else(|| channel.to_string(), |found| found.name.clone());
            format!("doorbell of channel {name}{}", if *sent { "" } else { ", limited" })
        }
        EventKind::GuestStart { entry, .. } => format!("guest start at {entry:#x}"),
        EventKind::State { state, reason, .. } => {
            format!("state: {} (reason: {})", state_name(*state), reason_name(*reason))
        }
        EventKind::Exit { syndrome, address, .. } => {
            let class = exception_class_name(*syndrome);
            format!("exit: {class} (class {:#x}, ESR {syndrome:#x}) at {address:#x}", syndrome >> CLASS_SHIFT)
        }
        EventKind::Call { function, argument, .. } => format!("call {}({argument:#x})", call_name(*function)),
        EventKind::Fault { reason, syndrome, address, .. } => {
            format!("fault: {}, ESR {syndrome:#x}, guest address {address:#x}", reason_name(*reason))
        }
        EventKind::Mark { text, .. } => text.clone(),
    }
}
