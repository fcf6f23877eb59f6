//! virtio devices between partitions, as `bulkhead check` prints them: who serves what to whom, and what either can ask of the other.

use crate::unit::{format_duration, format_size};
use bulkhead_plan::model::{Limiter, System, VirtioDevice, VirtioKind};
use serde_json::{Value, json};

/// What a front is promised.
const PROMISE: &str = "  No answer has a bound: it takes what the back end's own software takes. While a back end is\n  \
                       dead its fronts wait, and nobody else does; they continue when it serves again.\n";

fn name(system: &System, partition: usize) -> &str {
    system.partitions.get(partition).map_or("", |partition| &partition.name)
}

fn kind(device: &VirtioDevice) -> String {
    match device.kind {
        VirtioKind::Net { .. } => "network card".to_owned(),
        VirtioKind::Block { bytes, is_read_only } => {
            format!("disk of {}{}", format_size(bytes), if is_read_only { ", read-only" } else { "" })
        }
    }
}

/// The limiters of notifications and of interrupts.
fn limiters(system: &System, device: &VirtioDevice) -> [Limiter; 2] {
    [device.back, device.front].map(|receiver| system.limiter_of_virtio(device, receiver))
}

/// A table of the devices and what holds of all of them; nothing without devices.
pub(crate) fn text(system: &System) -> String {
    if system.virtio.is_empty() {
        return String::new();
    }
    let mut rows =
        vec![["virtio device", "front", "back end", "kind", "notified", "interrupted"].map(String::from).to_vec()];
    for device in &system.virtio {
        let [notified, interrupted] = limiters(system, device)
            .map(|limiter| format!("{} in {}", limiter.events, format_duration(limiter.period_ns)));
        let ends = [device.front, device.back].map(|end| name(system, end).to_owned());
        rows.push([vec![device.name.clone()], ends.to_vec(), vec![kind(device), notified, interrupted]].concat());
    }
    format!("\n{}{PROMISE}", bulkhead_files::table::table(&rows, 4, 2))
}

/// The devices for programs.
#[must_use]
pub fn json(system: &System) -> Value {
    let one = |device: &VirtioDevice| {
        let [notified, interrupted] =
            limiters(system, device).map(|limiter| json!({ "events": limiter.events, "per_ns": limiter.period_ns }));
        json!({
            "name": device.name,
            "kind": device.kind.name(),
            "front": name(system, device.front),
            "back": name(system, device.back),
            "notified": notified,
            "interrupted": interrupted,
            // Nobody promises an answer.
            "answer_ns": null,
        })
    };
    system.virtio.iter().map(one).collect()
}
