//! The JSON form of `bulkhead inspect`. Addresses and sizes are numbers; texts are those of the text form.

use crate::build::Planned;
use crate::inspect::{RightsText, interrupt_text, target_text, window_text};
use crate::map::{area_text, el2_rights_text, stage2_rights_text};
use crate::report::{CoreMemory, core_memory};
use crate::schedule;
use bulkhead_plan::model::{GuestImage, Partition, System, VirtioDevice, VirtioKind};
use bulkhead_plan::tables::Mapping;
use bulkhead_plan::{PlannedPartition, fronts};
use serde_json::{Value, json};

/// Version of the JSON form; it changes only when a field is removed or changes its meaning.
const JSON_VERSION: u32 = 2;

/// Returns the whole object: `version`, `system`, `board`, `image`, `memory[]`, `cores[]`, `schedules[]`, `partitions[]`, `virtio[]`.
pub(crate) fn form(planned: &Planned) -> Value {
    let (system, plan) = (&planned.system, &planned.image.plan);
    let areas = plan.areas();
    let memory = areas.iter().map(
        |area| json!({"address": area.address.0, "bytes": area.page_bytes(), "use": area_text(system, area.kind)}),
    );
    let memories = core_memory(&planned.image);
    let cores = memories.iter().zip(&plan.el2).map(|(memory, map)| core(planned, memory, map));
    let shared = plan.core_uses.iter().zip(&plan.schedules);
    let schedules = shared.filter_map(|(core_use, plan)| Some(schedule::form(planned, core_use, plan.as_ref()?)));
    let partitions = system.partitions.iter().zip(&plan.partitions);
    let partitions = partitions.map(|(described, result)| partition(planned, described, result));
    json!({
        "version": JSON_VERSION,
        "system": system.name,
        "board": system.board.name,
        "image": {
            "start": plan.header.image_start.0,
            "bytes": plan.header.memory_bytes,
            "memory_bytes": plan.header.memory_bytes,
        },
        "memory": memory.collect::<Vec<Value>>(),
        "cores": cores.collect::<Vec<Value>>(),
        "schedules": schedules.collect::<Vec<Value>>(),
        "partitions": partitions.collect::<Vec<Value>>(),
        "virtio": system.virtio.iter().map(|device| virtio(system, device)).collect::<Vec<Value>>(),
    })
}

/// A virtio device: who has it, who serves it, and what they share.
fn virtio(system: &System, device: &VirtioDevice) -> Value {
    let name = |index: usize| system.partitions.get(index).map(|partition| &partition.name);
    let size = match device.kind {
        VirtioKind::Block { bytes, .. } => Some(bytes),
        VirtioKind::Net { .. } => None,
    };
    json!({
        "name": device.name,
        "kind": device.kind.name(),
        "front": name(device.front),
        "back": name(device.back),
        "size": size,
        "pool_bytes": fronts::pool_of(system, device.front),
    })
}

fn core(planned: &Planned, memory: &CoreMemory, map: &[Mapping]) -> Value {
    json!({
        "core": memory.board_core,
        "partitions": memory.partitions,
        "monitor_bytes": memory.total_bytes(),
        "private_bytes": memory.private_bytes,
        "el2_table_bytes": memory.el2_table_bytes,
        "partition_share_bytes": memory.partition_share_bytes,
        "map": mappings(planned, map, el2_rights_text),
    })
}

fn partition(planned: &Planned, described: &Partition, result: &PlannedPartition) -> Value {
    let plan = &result.plan;
    let windows = plan
        .windows()
        .iter()
        .map(|window| json!({"guest": window.guest.0, "bytes": window.bytes, "kind": window_text(window.kind)}));
    let interrupts = plan.interrupts().iter().map(|interrupt| {
        json!({
            "intid": interrupt.intid,
            "edge": interrupt.edge != 0,
            "use": interrupt_text(interrupt),
            "route": bulkhead_words::name_of::<bulkhead_words::RouteRule>(interrupt.route),
        })
    });
    json!({
        "name": described.name,
        "entry": plan.entry.0,
        "device_tree": plan.device_tree.0,
        "cores": described.cores,
        "map": mappings(planned, &result.stage2, stage2_rights_text),
        "windows": windows.collect::<Vec<Value>>(),
        "interrupts": interrupts.collect::<Vec<Value>>(),
        "instance": match &described.image {
            GuestImage::Kernel { bytes, .. } => crate::instance::form(bytes),
            _ => Value::Null,
        },
    })
}

fn mappings(planned: &Planned, mappings: &[Mapping], rights_text: RightsText) -> Vec<Value> {
    let one = |mapping: &Mapping| {
        json!({
            "input": mapping.input,
            "output": mapping.output.0,
            "bytes": mapping.bytes,
            "rights": rights_text(mapping.attributes),
            "target": target_text(planned, mapping),
        })
    };
    mappings.iter().map(one).collect()
}
