//! The monitor's own maps: each core's holds what record 0001 lists for it and nothing else.

use crate::area::{Area, Areas, Maps, Use};
use crate::code::Code;
use crate::cover::{Difference, Expected, differences};
use crate::dma::{Devices, touched};
use crate::finding::Findings;
use crate::image::{Contents, Core, PAGE, Vcpu, View};
use crate::walk::{Map, Memory, Rights, Run};
use bulkhead_abi::image::stack_bytes;
use bulkhead_abi::plan::{FLAG_MANAGEABLE, FLAG_MANAGES};
use std::collections::BTreeSet;

/// Bytes of the distributor.
pub(crate) const GICD_BYTES: u64 = 64 << 10;
/// Bytes of a redistributor.
pub(crate) const GICR_BYTES: u64 = 128 << 10;

/// Checks the EL2 map of every core.
pub(crate) fn check(
    view: &View<'_>,
    contents: &Contents,
    maps: &Maps,
    areas: &Areas,
    devices: &Devices,
    findings: &mut Findings,
) {
    for (core, map) in contents.cores.iter().zip(&maps.cores) {
        check_execution(view, core, map, findings);
        check_guard(core, map, findings);
        let expected = expected(view, contents, core, areas, devices);
        for difference in differences(map, &expected) {
            report(core, areas, &difference, findings);
        }
    }
}

fn check_execution(view: &View<'_>, core: &Core, map: &Map, findings: &mut Findings) {
    let text = view.header.text.0..view.header.text.0.saturating_add(view.header.text_bytes);
    for run in map.runs.iter().filter(|run| run.rights.execute) {
        if run.rights.write {
            findings.add(
                Code::WriteExecute,
                format!(
                    "core {}: {:#x}..{:#x} is writable and executable at EL2",
                    core.index,
                    run.input,
                    run.input_end()
                ),
            );
        } else if run.output < text.start || run.output_end() > text.end {
            findings.add(
                Code::Executable,
                format!(
                    "core {}: {:#x}..{:#x} is executable at EL2 and is not monitor text",
                    core.index,
                    run.input,
                    run.input_end()
                ),
            );
        }
    }
}

fn check_guard(core: &Core, map: &Map, findings: &mut Findings) {
    let bottom = core.boot.stack_top.0.saturating_sub(stack_bytes(core.boot.schedule.0 != 0));
    let guard = bottom.saturating_sub(PAGE);
    findings.require(map.find(guard).is_none(), Code::Guard, || {
        format!(
            "core {}: the page {guard:#x} below its stack is mapped, so an overflow would not be caught",
            core.index
        )
    });
}

/// Returns what the core must map.
fn expected(view: &View<'_>, contents: &Contents, core: &Core, areas: &Areas, devices: &Devices) -> Vec<Expected<Use>> {
    let mut expected: Vec<Expected<Use>> = Vec::new();
    for area in &areas.0 {
        if let Some((rights, memory)) = rights(view, contents, core, area, devices) {
            expected.push(identity(area.range.start, area.range.end - area.range.start, rights, memory, area.owner));
        }
    }
    let own = Use::VcpuPlan(core.index, 0);
    expected.push(identity(view.header.gicd.0, GICD_BYTES, Rights::READ_WRITE, Memory::Device, own));
    expected.push(identity(core.gicr(), GICR_BYTES, Rights::READ_WRITE, Memory::Device, own));
    if let Some(receiver) = core.receiver() {
        expected.push(identity(receiver.plan.uart.0, PAGE, Rights::READ_WRITE, Memory::Device, own));
    }
    let pages = of_devices(view, core, devices);
    expected.extend(pages.iter().map(|page| identity(*page, PAGE, Rights::READ_WRITE, Memory::Device, own)));
    expected.sort_by_key(|one| one.input);
    expected
}

/// Pages of registers that the core's scripts touch: at the boot core those of all, elsewhere those of its own partitions' functions. No
/// other core reaches the SMMU but where it takes events from.
fn of_devices(view: &View<'_>, core: &Core, devices: &Devices) -> BTreeSet<u64> {
    let mut pages = BTreeSet::new();
    if let Some((_, boot)) = devices.boot.as_ref().filter(|_| core.index == view.header.boot_core as usize) {
        pages.extend(touched(boot.steps()));
    }
    for (_, (_, plan)) in devices.plans.iter().filter(|(partition, _)| core.runs(**partition)) {
        pages.extend(touched(plan.quiesce()));
        pages.extend((plan.event_registers.0 != 0).then_some(plan.event_registers.0));
    }
    let own = devices.functions.iter().filter(|function| core.runs(function.partition));
    pages.extend(own.map(|function| function.plan.configuration.0));
    pages
}

fn identity(address: u64, bytes: u64, rights: Rights, memory: Memory, tag: Use) -> Expected<Use> {
    Expected { input: address, output: address, bytes, rights, memory, tag }
}

/// Record 0001 as a function: how a core maps an area; `None` = not at all. A shared core maps what any of its vCPUs
/// needs, and writes what any of them writes.
fn rights(
    view: &View<'_>,
    contents: &Contents,
    core: &Core,
    area: &Area,
    devices: &Devices,
) -> Option<(Rights, Memory)> {
    let is_own = |partition: usize| core.runs(partition);
    let has_flag = |partition: usize, flag: u64| {
        contents.partitions.get(partition).is_some_and(|partition| partition.plan.flags & flag != 0)
    };
    let others = |one: usize| {
        core.vcpus.iter().map(|vcpu| vcpu.plan.partition as usize).filter(move |partition| *partition != one)
    };
    match area.owner {
        Use::Text => Some((Rights::READ_EXECUTE, Memory::Normal)),
        Use::Rodata | Use::Header => Some((Rights::READ, Memory::Normal)),
        Use::VcpuPlan(index, _) | Use::Schedule(index) if index == core.index => Some((Rights::READ, Memory::Normal)),
        Use::BootDevices if core.index == view.header.boot_core as usize => Some((Rights::READ, Memory::Normal)),
        // Its own cores look whether a device of theirs was stopped.
        Use::Events => {
            let looks = devices.plans.iter().any(|(partition, (_, plan))| is_own(*partition) && plan.events.0 != 0);
            looks.then_some((Rights::READ, Memory::Normal))
        }
        Use::PartitionPlan(index) | Use::Pristine(index) | Use::DevicePlan(index) if is_own(index) => {
            Some((Rights::READ, Memory::Normal))
        }
        Use::Stack(index)
        | Use::Data(index)
        | Use::Counters(index, _)
        | Use::Usage(index)
        | Use::StolenTime(index, _)
        | Use::Trace(index)
            if index == core.index =>
        {
            Some((Rights::READ_WRITE, Memory::Normal))
        }
        Use::VcpuConsole(index, number) => {
            let runs = |vcpu: &Vcpu| vcpu.plan.partition as usize == index && vcpu.plan.vcpu as usize == number;
            core.vcpus.iter().any(runs).then_some((Rights::READ_WRITE, Memory::Normal))
        }
        Use::Shared(index) | Use::Ram(index) if is_own(index) => Some((Rights::READ_WRITE, Memory::Normal)),
        // The monitor counts where it runs the sender; the receiver's core has nothing to do with it.
        Use::Doorbell(_) => {
            let mut senders = contents.partitions.iter().filter(|partition| is_own(partition.index));
            let counts = senders.any(|sender| sender.doorbells().any(|doorbell| doorbell.words.0 == area.range.start));
            counts.then_some((Rights::READ_WRITE, Memory::Normal))
        }
        Use::Manage(index) if is_own(index) && has_flag(index, FLAG_MANAGES) => {
            Some((Rights::READ_WRITE, Memory::Normal))
        }
        Use::Manage(index) if has_flag(index, FLAG_MANAGES) => {
            let is_managed = others(index).any(|own| has_flag(own, FLAG_MANAGEABLE));
            is_managed.then_some((Rights::READ, Memory::Normal))
        }
        Use::Status(index) if is_own(index) => Some((Rights::READ_WRITE, Memory::NonCacheable)),
        Use::Status(index) if others(index).any(|own| has_flag(own, FLAG_MANAGES)) => {
            Some((Rights::READ, Memory::NonCacheable))
        }
        // Who hands the UART's interrupt over, and to whom, look at each other's counts.
        Use::Status(_) if core.vcpus.iter().any(|vcpu| vcpu.plan.handed_status.0 == area.range.start) => {
            Some((Rights::READ, Memory::NonCacheable))
        }
        Use::ChannelReader(index) | Use::ChannelWriter(index) | Use::DevicePage(index) | Use::FrontPool(index)
            if is_own(index) =>
        {
            Some((Rights::READ_WRITE, Memory::NonCacheable))
        }
        _ => None,
    }
}

fn report(core: &Core, areas: &Areas, difference: &Difference<'_, Use>, findings: &mut Findings) {
    match difference {
        Difference::Extra(run) => {
            if run.input != run.output {
                findings.add(
                    Code::NotIdentity,
                    format!(
                        "core {}: {:#x} leads to {:#x}; the EL2 map must be identity",
                        core.index, run.input, run.output
                    ),
                );
            }
            report_foreign(core, areas, run, findings);
        }
        Difference::Other(run, one) => {
            if run.output != run.input {
                findings.add(
                    Code::NotIdentity,
                    format!(
                        "core {}: {:#x} leads to {:#x}; the EL2 map must be identity",
                        core.index, run.input, run.output
                    ),
                );
                report_foreign(core, areas, run, findings);
            }
            // Executable pages were reported by their own rule.
            if run.rights != one.rights && (!run.rights.execute || one.rights.execute) {
                findings.add(
                    Code::El2Rights,
                    format!(
                        "core {}: {:?} at {:#x} is mapped {}, must be {}",
                        core.index, one.tag, run.input, run.rights, one.rights
                    ),
                );
            }
            if run.memory != one.memory {
                findings.add(
                    Code::MemoryType,
                    format!(
                        "core {}: {:?} at {:#x} is {:?}, must be {:?}",
                        core.index, one.tag, run.input, run.memory, one.memory
                    ),
                );
            }
        }
        Difference::Missing(input, one) => {
            findings.add(Code::El2Missing, format!("core {}: {:?} is not mapped at {input:#x}", core.index, one.tag));
        }
    }
}

/// Says whose memory a core reaches that is not its own.
fn report_foreign(core: &Core, areas: &Areas, run: &Run, findings: &mut Findings) {
    let mut known = false;
    for area in areas.touching(run.output..run.output_end()) {
        known = true;
        let owner = area.owner;
        let code = match (owner.core(), owner.partition()) {
            _ if owner.is_table() => Code::TableMapped,
            (Some(other), _) if other != core.index => Code::ForeignCore,
            (_, Some(other)) if !core.runs(other) => Code::ForeignPartition,
            // A sibling's console ring, or an own area that is not for EL2 at all.
            (_, Some(_)) if matches!(owner, Use::VcpuConsole(..)) => Code::ForeignCore,
            _ => Code::UnknownMapped,
        };
        findings.add(
            code,
            format!(
                "core {}: its monitor maps {:#x}..{:#x} ({}), which is {owner:?}",
                core.index,
                run.output,
                run.output_end(),
                run.rights
            ),
        );
    }
    if !known {
        findings.add(
            Code::UnknownMapped,
            format!(
                "core {}: its monitor maps {:#x}..{:#x} ({}), which no plan names",
                core.index,
                run.output,
                run.output_end(),
                run.rights
            ),
        );
    }
}
