//! The monitor's own maps: each core's holds what record 0001 lists for it and nothing else.

use crate::area::{Areas, Maps, Use};
use crate::code::Code;
use crate::cover::{Difference, Expected, differences};
use crate::finding::Findings;
use crate::image::{Contents, Core, PAGE, Partition, View};
use crate::walk::{Map, Memory, Rights, Run};
use bulkhead_abi::image::STACK_BYTES;
use bulkhead_abi::plan::{FLAG_MANAGEABLE, FLAG_MANAGES};

/// Bytes of the distributor.
pub(crate) const GICD_BYTES: u64 = 64 << 10;
/// Bytes of a redistributor.
pub(crate) const GICR_BYTES: u64 = 128 << 10;

/// Checks the EL2 map of every core.
pub(crate) fn check(view: &View<'_>, contents: &Contents, maps: &Maps, areas: &Areas, findings: &mut Findings) {
    for (core, map) in contents.cores.iter().zip(&maps.cores) {
        let Some(partition) = contents.partitions.get(core.plan.partition as usize) else { continue };
        check_execution(view, core, map, findings);
        check_guard(core, map, findings);
        let expected = expected(view, contents, core, partition, areas);
        for difference in differences(map, &expected) {
            report(core, partition, areas, &difference, findings);
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
    let bottom = core.boot.stack_top.0.saturating_sub(STACK_BYTES);
    let guard = bottom.saturating_sub(PAGE);
    findings.require(map.find(guard).is_none(), Code::Guard, || {
        format!(
            "core {}: the page {guard:#x} below its stack is mapped, so an overflow would not be caught",
            core.index
        )
    });
}

/// Returns what the core must map.
fn expected(
    view: &View<'_>,
    contents: &Contents,
    core: &Core,
    partition: &Partition,
    areas: &Areas,
) -> Vec<Expected<Use>> {
    let mut expected: Vec<Expected<Use>> = Vec::new();
    for area in &areas.0 {
        if let Some((rights, memory)) = rights(contents, core, partition, area.owner) {
            expected.push(identity(area.range.start, area.range.end - area.range.start, rights, memory, area.owner));
        }
    }
    let own = Use::CorePlan(core.index);
    expected.push(identity(view.header.gicd.0, GICD_BYTES, Rights::READ_WRITE, Memory::Device, own));
    expected.push(identity(core.plan.gicr.0, GICR_BYTES, Rights::READ_WRITE, Memory::Device, own));
    if core.plan.uart.0 != 0 {
        expected.push(identity(core.plan.uart.0, PAGE, Rights::READ_WRITE, Memory::Device, own));
    }
    expected.sort_by_key(|one| one.input);
    expected
}

fn identity(address: u64, bytes: u64, rights: Rights, memory: Memory, tag: Use) -> Expected<Use> {
    Expected { input: address, output: address, bytes, rights, memory, tag }
}

/// Record 0001 as a function: how a core maps an area; `None` = not at all.
fn rights(contents: &Contents, core: &Core, partition: &Partition, owner: Use) -> Option<(Rights, Memory)> {
    let (own_core, own) = (core.index, partition.index);
    let manages = partition.plan.flags & FLAG_MANAGES != 0;
    let is_manageable = partition.plan.flags & FLAG_MANAGEABLE != 0;
    let other_manages =
        |other: usize| contents.partitions.get(other).is_some_and(|other| other.plan.flags & FLAG_MANAGES != 0);
    match owner {
        Use::Text => Some((Rights::READ_EXECUTE, Memory::Normal)),
        Use::Rodata | Use::Header => Some((Rights::READ, Memory::Normal)),
        Use::CorePlan(index) if index == own_core => Some((Rights::READ, Memory::Normal)),
        Use::PartitionPlan(index) | Use::Pristine(index) if index == own => Some((Rights::READ, Memory::Normal)),
        Use::Stack(index) | Use::Data(index) | Use::Counters(index) | Use::Trace(index) if index == own_core => {
            Some((Rights::READ_WRITE, Memory::Normal))
        }
        Use::VcpuConsole(index, vcpu) if index == own && vcpu == core.plan.vcpu as usize => {
            Some((Rights::READ_WRITE, Memory::Normal))
        }
        Use::Shared(index) | Use::Doorbell(index) | Use::Ram(index) if index == own => {
            Some((Rights::READ_WRITE, Memory::Normal))
        }
        Use::Manage(index) if index == own && manages => Some((Rights::READ_WRITE, Memory::Normal)),
        Use::Manage(index) if index != own && is_manageable && other_manages(index) => {
            Some((Rights::READ, Memory::Normal))
        }
        Use::Status(index) if index == own => Some((Rights::READ_WRITE, Memory::NonCacheable)),
        Use::Status(_) if manages => Some((Rights::READ, Memory::NonCacheable)),
        Use::ChannelReader(index) | Use::ChannelWriter(index) if index == own => {
            Some((Rights::READ_WRITE, Memory::NonCacheable))
        }
        _ => None,
    }
}

fn report(
    core: &Core,
    partition: &Partition,
    areas: &Areas,
    difference: &Difference<'_, Use>,
    findings: &mut Findings,
) {
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
            report_foreign(core, partition, areas, run, findings);
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
                report_foreign(core, partition, areas, run, findings);
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
fn report_foreign(core: &Core, partition: &Partition, areas: &Areas, run: &Run, findings: &mut Findings) {
    let mut known = false;
    for area in areas.touching(run.output..run.output_end()) {
        known = true;
        let owner = area.owner;
        let code = match (owner.core(), owner.partition()) {
            _ if owner.is_table() => Code::TableMapped,
            (Some(other), _) if other != core.index => Code::ForeignCore,
            (_, Some(other)) if other != partition.index => Code::ForeignPartition,
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
