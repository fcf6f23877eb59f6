//! The structures of `core/abi` and the SMMU's memory, filled in once everything has its place.

use super::bars::Places;
use super::scripts::{self, SmmuMemory};
use super::{Context, contexts, header, smmu};
use crate::fronts;
use crate::layout::{AreaKind, Layout};
use crate::maps;
use crate::model::{PciHost, Reach, SmmuStage, System};
use crate::planner::{Draft, PlannedPartition, Settled};
use crate::schedule::fill;
use crate::{narrow, ticks};
use alloc::vec::Vec;
use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::devices::{
    BOOT_DEVICES_MAGIC, BootDevices, BootScript, DEVICE_PLAN_MAGIC, DeviceFunction, DevicePlan,
};
use bulkhead_abi::plan::{PCI_DEVICE, PciFunction};
use zerocopy::{FromZeros, IntoBytes};

/// Returns the device plan of a partition that has functions or fronts.
pub(crate) fn device_plan(system: &System, settled: &Settled, partition: usize, draft: &Draft) -> Option<DevicePlan> {
    if !fronts::has_device_plan(system, partition) {
        return None;
    }
    let mut plan = DevicePlan::new_zeroed();
    plan.magic = DEVICE_PLAN_MAGIC;
    fronts::fill_plan(&mut plan, system, &settled.layout, partition, &draft.virtio.fronts);
    if let Some(host) = system.board.pci.as_ref().filter(|_| super::has_functions(system, partition)) {
        fill_functions(&mut plan, system, settled, host, (partition, &draft.functions));
    }
    Some(plan)
}

/// Fills in everything about the functions of a partition.
fn fill_functions(
    plan: &mut DevicePlan,
    system: &System,
    settled: &Settled,
    host: &PciHost,
    (partition, functions): (usize, &[PciFunction]),
) {
    let (layout, places) = (&settled.layout, &settled.places);
    if let (Some(period_ns), Some(smmu)) = (super::looks(system, partition), host.smmu) {
        plan.event_registers = PhysicalAddress(smmu.address.0 + smmu::register::PAGE_1);
        plan.events = layout.address(AreaKind::Events);
        plan.poll_ticks = ticks::round_up(period_ns, system.board.counter_hz);
        let are_faults = system.partitions.get(partition).is_some_and(|partition| partition.device_events.are_faults);
        plan.events_are_faults = u32::from(are_faults);
    }
    let (steps, silence) = scripts::quiesce(system, places, partition);
    plan.silence_count = narrow(silence);
    plan.step_count = fill(&mut plan.quiesce, steps);
    let slots = plan.functions.iter_mut().zip(functions).filter(|(_, function)| function.kind == PCI_DEVICE);
    for ((slot, _), (index, function)) in slots.zip(super::of_partition(system, partition)) {
        let Some(model) = super::model(system, function) else { continue };
        let bars = places.of(index);
        // What the guest does not see has a place in the scripts alone.
        let shown = bars.map(|bar| if bar.guest.0 == 0 { Default::default() } else { bar });
        *slot = DeviceFunction {
            configuration: super::configuration_of(host, function),
            stream: function.stream(),
            device_control: scripts::device_control(model),
            header: header::build(model, &bars),
            bars: shown,
        };
    }
}

/// Returns the scripts of the boot core.
pub(crate) fn boot_devices(system: &System, layout: &Layout, places: &Places) -> Option<BootDevices> {
    let memory = SmmuMemory {
        streams: layout.address(AreaKind::StreamTable),
        commands: layout.address(AreaKind::Commands),
        events: layout.address(AreaKind::Events),
    };
    let scripts = scripts::boot(system, places, memory);
    if scripts.is_empty() {
        return None;
    }
    let mut plan = BootDevices::new_zeroed();
    plan.magic = BOOT_DEVICES_MAGIC;
    let mut first = 0;
    let entries = scripts.iter().map(|script| {
        let count = narrow(script.steps.len());
        let entry = BootScript { first, count, partition: script.partition, reserved: 0 };
        first += count;
        entry
    });
    plan.script_count = fill(&mut plan.scripts, entries);
    plan.step_count = fill(&mut plan.steps, scripts.into_iter().flat_map(|script| script.steps));
    Some(plan)
}

/// Returns what is in the areas of PCI functions.
pub(crate) fn contents(
    system: &System,
    settled: &Settled,
    partitions: &[PlannedPartition],
    boot_devices: Option<&BootDevices>,
) -> Vec<(AreaKind, Vec<u8>)> {
    let mut contents = Vec::new();
    for (index, planned) in partitions.iter().enumerate() {
        contents.extend(planned.devices.iter().map(|plan| (AreaKind::DevicePlan(index), plan.as_bytes().to_vec())));
    }
    contents.extend(boot_devices.map(|plan| (AreaKind::BootDevices, plan.as_bytes().to_vec())));
    for (context, (_, tables)) in settled.devices.iter().enumerate() {
        contents.push((AreaKind::DeviceTables(context), tables.bytes()));
    }
    if super::has_smmu(system) {
        let roots: Vec<PhysicalAddress> = settled.devices.iter().map(|(_, tables)| tables.root()).collect();
        contents.push((AreaKind::Commands, commands(system, &roots)));
        contents.push((AreaKind::StreamTable, stream_table(system, settled)));
    }
    contents
}

/// Returns the stream table: an entry for each function that something confines, and for all other streams an abort.
fn stream_table(system: &System, settled: &Settled) -> Vec<u8> {
    let layout = &settled.layout;
    let contexts = contexts(system);
    let descriptor = |context: &Context| {
        let index = contexts.iter().position(|one| one == context)?;
        let address = layout.address(AreaKind::Commands).0 + smmu::context_offset(index);
        Some(smmu::stream_stage_1(PhysicalAddress(address)))
    };
    let stage = system.board.pci.as_ref().and_then(|host| host.smmu).map(|smmu| smmu.stage);
    let entries = system.functions.iter().enumerate().filter_map(|(index, function)| {
        let partition = function.partition;
        let entry = match (&function.reach, stage?) {
            (Reach::Partition, SmmuStage::One) => descriptor(&Context { partition, function: None }),
            (Reach::Regions(_), SmmuStage::One) => descriptor(&Context { partition, function: Some(index) }),
            (Reach::Partition, SmmuStage::Two) => {
                let bits = system.board.physical_address_bits;
                Some(smmu::stream_stage_2(settled.stage2_root(partition), maps::vmid(partition), bits))
            }
            // The SMMU never sees what passes it by; whatever comes all the same aborts.
            (Reach::Everything, _) | (Reach::Regions(_), SmmuStage::Two) => None,
        };
        Some((function.stream(), entry?))
    });
    smmu::stream_table(entries)
}

/// Returns the page of commands and context descriptors.
fn commands(system: &System, roots: &[PhysicalAddress]) -> Vec<u8> {
    let bits = system.board.physical_address_bits;
    let contexts = contexts(system);
    let descriptors = contexts.iter().zip(roots).map(|(context, root)| smmu::context(*root, context.asid(), bits));
    smmu::commands_and_contexts(&descriptors.collect::<Vec<_>>())
}
