//! What guests can reach: their RAM, declared shared pages, their devices, and nothing else.

use crate::area::{Areas, Maps, Use, overlap};
use crate::channel::Ends;
use crate::code::Code;
use crate::cover::{Difference, Expected, differences};
use crate::dma::Devices;
use crate::el2::{GICD_BYTES, GICR_BYTES};
use crate::finding::Findings;
use crate::fronts::{self, Pair};
use crate::image::{Contents, Core, PAGE, Partition, View, page_end};
use crate::walk::{Memory, Rights, Run};
use bulkhead_abi::plan::{MODE_DIRECT, WINDOW_GICR};
use bulkhead_abi::{MAX_CORES, PhysicalAddress};
use bulkhead_guest_abi::channel::{CHANNEL_READER_OFFSET, CHANNEL_STATUS_OFFSET, CHANNEL_WRITER_OFFSET};
use bulkhead_guest_abi::guest::{GUEST_CONSOLE, GUEST_DEVICES, GUEST_INFORMATION};
use std::ops::Range;

/// Offset of the SGI frame in a redistributor.
const SGI_FRAME_OFFSET: u64 = 64 << 10;
/// Bytes of the SGI frame.
const SGI_FRAME_BYTES: u64 = 64 << 10;

/// What an expected guest range is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tag {
    Ram,
    Information,
    StolenTime,
    Console,
    PeerStatus,
    ChannelReader,
    ChannelWriter,
    Pool,
    SgiFrame,
    /// Device page or pool of a virtio device.
    Front,
}

impl Tag {
    /// What is wrong when such a page is not mapped as it must be; `other` where the page has no code of its own.
    fn code(self, other: Code) -> Code {
        match self {
            Self::Front => Code::FrontMemory,
            _ => other,
        }
    }
}

/// A device range of a guest.
struct DeviceRange {
    partition: usize,
    range: Range<u64>,
    /// It is behind a base address of an own function.
    is_behind: bool,
}

/// Checks the stage 2 of every partition, then all of them together.
pub(crate) fn check(
    view: &View<'_>,
    contents: &Contents,
    maps: &Maps,
    areas: &Areas,
    (ends, pairs): (&Ends, &[Pair]),
    (functions, places): (&Devices, &[(Range<u64>, String)]),
    findings: &mut Findings,
) {
    let mut devices = Vec::new();
    for (partition, map) in contents.partitions.iter().zip(&maps.guests) {
        let expected = expected(contents, partition, maps, ends, pairs);
        for difference in differences(map, &expected) {
            let run = match &difference {
                Difference::Extra(run) => Some(run),
                _ => None,
            };
            if let Some(range) = run.and_then(|run| behind_bar(partition, run, functions)) {
                devices.push(range);
                continue;
            }
            report(view, contents, partition, areas, &difference, &mut devices, findings);
        }
        for run in &map.runs {
            check_run(partition, run, findings);
        }
    }
    check_devices(contents, &devices, findings);
    for device in devices.iter().filter(|device| !device.is_behind) {
        for (_, name) in places.iter().filter(|(place, _)| overlap(place, &device.range)) {
            findings.add(Code::DeviceMapping, format!("partition {} has {name} as a device", device.partition));
        }
    }
    check_writers(contents, maps, pairs, findings);
}

fn expected(
    contents: &Contents,
    partition: &Partition,
    maps: &Maps,
    ends: &Ends,
    pairs: &[Pair],
) -> Vec<Expected<Tag>> {
    let mut expected = Vec::new();
    let mut add = |input: u64, output: u64, bytes: u64, rights, memory, tag| {
        expected.push(Expected { input, output, bytes: page_end(bytes), rights, memory, tag })
    };
    for ram in partition.plan.ram().iter() {
        add(ram.guest.0, ram.physical.0, ram.bytes, Rights::ALL, Memory::Normal, Tag::Ram);
    }
    if let Some(page) = maps.information.get(partition.index).copied().flatten() {
        add(GUEST_INFORMATION.0, page, PAGE, Rights::READ, Memory::NonCacheable, Tag::Information);
    }
    for vcpu in contents.vcpus_of(partition.index) {
        if let Some(slot) = contents.cores.get(vcpu.core).and_then(|core| core.slot(vcpu)) {
            let (input, page) = (slot.stolen_time_guest.0, slot.stolen_time.0);
            add(input, page, PAGE, Rights::READ, Memory::Normal, Tag::StolenTime);
        }
    }
    let console = partition.entry.guest_console.0;
    if console != 0 {
        add(
            GUEST_CONSOLE.0,
            console,
            partition.entry.console_bytes,
            Rights::READ_WRITE,
            Memory::NonCacheable,
            Tag::Console,
        );
    }
    if let Some((input, frame)) = own_sgi_frame(contents, partition) {
        add(input, frame, SGI_FRAME_BYTES, Rights::READ_WRITE, Memory::Device, Tag::SgiFrame);
    }
    for end in ends.channels.iter().filter(|end| end.partition == partition.index) {
        let (reader, writer) =
            if end.is_source { (Rights::READ, Rights::READ_WRITE) } else { (Rights::READ_WRITE, Rights::READ) };
        add(end.window + CHANNEL_STATUS_OFFSET, end.status, PAGE, Rights::READ, Memory::NonCacheable, Tag::PeerStatus);
        add(end.window + CHANNEL_READER_OFFSET, end.reader, PAGE, reader, Memory::NonCacheable, Tag::ChannelReader);
        let bytes = end.writer.end - end.writer.start;
        add(
            end.window + CHANNEL_WRITER_OFFSET,
            end.writer.start,
            bytes,
            writer,
            Memory::NonCacheable,
            Tag::ChannelWriter,
        );
    }
    for pool in ends.pools.iter().filter(|pool| pool.partition == partition.index) {
        let (start, end) = (pool.pages.start, pool.pages.end);
        add(pool.window, start, end - start, Rights::READ_WRITE, Memory::NonCacheable, Tag::Pool);
    }
    // Devices of one front share their pool.
    let mut shared: Vec<_> = pairs.iter().flat_map(|pair| fronts::expected(pair, partition.index)).collect();
    shared.sort_unstable();
    shared.dedup();
    for (input, output, bytes) in shared {
        add(input, output, bytes, Rights::READ_WRITE, Memory::NonCacheable, Tag::Front);
    }
    expected.sort_by_key(|one| one.input);
    expected
}

/// Rules that hold for every mapping of a guest, whatever it is.
fn check_run(partition: &Partition, run: &Run, findings: &mut Findings) {
    for window in partition.plan.windows().iter() {
        let range = window.guest.0..window.guest.0.saturating_add(window.bytes);
        findings.require(!overlap(&range, &(run.input..run.input_end())), Code::WindowMapped, || {
            format!(
                "partition \"{}\" maps {:#x}..{:#x}, but {:#x}..{:#x} must be answered by the monitor",
                partition.name(),
                run.input,
                run.input_end(),
                range.start,
                range.end
            )
        });
    }
}

fn report(
    view: &View<'_>,
    contents: &Contents,
    partition: &Partition,
    areas: &Areas,
    difference: &Difference<'_, Tag>,
    devices: &mut Vec<DeviceRange>,
    findings: &mut Findings,
) {
    let name = partition.name();
    match difference {
        Difference::Extra(run) => report_extra(view, contents, partition, areas, run, devices, findings),
        Difference::Missing(input, one) => {
            let code = if one.tag == Tag::Ram { Code::RamMapping } else { one.tag.code(Code::GuestRights) };
            findings.add(code, format!("partition \"{name}\": {:?} is not mapped at {input:#x}", one.tag));
        }
        Difference::Other(run, one) => {
            let output = one.output + (run.input - one.input);
            if run.output != output {
                let code = if one.tag == Tag::Ram { Code::RamMapping } else { one.tag.code(Code::GuestRights) };
                findings.add(
                    code,
                    format!(
                        "partition \"{name}\": {:?} at {:#x} leads to {:#x}, must lead to {output:#x}",
                        one.tag, run.input, run.output
                    ),
                );
                report_extra(view, contents, partition, areas, run, devices, findings);
            }
            if run.rights.execute && !one.rights.execute {
                findings.add(
                    one.tag.code(Code::GuestExecute),
                    format!("partition \"{name}\": {:?} at {:#x} is executable", one.tag, run.input),
                );
            } else if run.rights != one.rights {
                findings.add(
                    one.tag.code(Code::GuestRights),
                    format!(
                        "partition \"{name}\": {:?} at {:#x} is mapped {}, must be {}",
                        one.tag, run.input, run.rights, one.rights
                    ),
                );
            }
            if run.memory != one.memory {
                findings.add(
                    one.tag.code(Code::MemoryType),
                    format!(
                        "partition \"{name}\": {:?} at {:#x} is {:?}, must be {:?}",
                        one.tag, run.input, run.memory, one.memory
                    ),
                );
            }
        }
    }
}

/// Judges a mapping that no plan names: a device, or an escape.
fn report_extra(
    view: &View<'_>,
    contents: &Contents,
    partition: &Partition,
    areas: &Areas,
    run: &Run,
    devices: &mut Vec<DeviceRange>,
    findings: &mut Findings,
) {
    let range = run.output..run.output_end();
    let place = format!(
        "partition \"{}\" maps {:#x}..{:#x} to {:#x} ({})",
        partition.name(),
        run.input,
        run.input_end(),
        run.output,
        run.rights
    );
    let mut escapes: Vec<(Code, String)> = Vec::new();
    for area in areas.touching(range.clone()) {
        escapes.push(match area.owner {
            owner if owner.is_table() => (Code::TableReachable, format!("a translation table ({owner:?})")),
            Use::Ram(other) if other != partition.index => (Code::ForeignRam, format!("RAM of partition {other}")),
            Use::Ram(_) => (Code::RamMapping, String::from("its own RAM at another address")),
            Use::DevicePage(front) | Use::FrontPool(front) => {
                (Code::FrontMemory, format!("shared by partition {front} and its back end alone, each at its place"))
            }
            owner => (Code::MonitorReachable, format!("{owner:?}")),
        });
    }
    if escapes.is_empty() && overlap(&range, &view.monitor_range()) {
        escapes.push((Code::MonitorReachable, String::from("memory of the monitor")));
    }
    if interrupt_controller(view, contents).iter().any(|frames| overlap(frames, &range)) {
        escapes.push((Code::GicMapped, String::from("the interrupt controller")));
    }
    if !escapes.is_empty() {
        escapes.into_iter().for_each(|(code, what)| findings.add(code, format!("{place}, which is {what}")));
        return;
    }
    let is_device = GUEST_DEVICES.start <= run.input
        && run.input_end() <= GUEST_DEVICES.end
        && run.memory == Memory::Device
        && run.rights == Rights::READ_WRITE
        && !view.touches_ram(&range);
    if is_device {
        devices.push(DeviceRange { partition: partition.index, range, is_behind: false });
    } else if view.touches_ram(&range) {
        findings.add(Code::RamMapping, format!("{place}, which is RAM that no plan gives it"));
    } else {
        findings.add(
            Code::DeviceMapping,
            format!(
                "{place} as {:?}: a device must be mapped among the guest's addresses for devices, as a device, without execution",
                run.memory
            ),
        );
    }
}

/// A page behind a base address of an own function: where the function's header says that it is, as a device.
fn behind_bar(partition: &Partition, run: &Run, functions: &Devices) -> Option<DeviceRange> {
    let own = || functions.functions.iter().filter(|function| function.partition == partition.index);
    let is_behind = |offset: u64| {
        own().flat_map(|function| function.bars()).any(|(_, bar)| {
            let inside = (run.input + offset).checked_sub(bar.guest.0).filter(|_| bar.guest.0 != 0);
            inside.is_some_and(|inside| {
                inside < bar.bytes && run.output + offset == bar.physical.0.saturating_add(inside)
            })
        })
    };
    // Neighbours are one run, so page by page.
    let is_behind = (0..run.bytes).step_by(PAGE as usize).all(is_behind);
    let as_device = run.memory == Memory::Device && run.rights == Rights::READ_WRITE;
    let range = run.output..run.output_end();
    (is_behind && as_device).then_some(DeviceRange { partition: partition.index, range, is_behind: true })
}

/// Returns where a `direct` partition must see the SGI frame of its own core, and the frame: the one part of the
/// interrupt controller that a guest may have.
fn own_sgi_frame(contents: &Contents, partition: &Partition) -> Option<(u64, u64)> {
    if partition.plan.mode != MODE_DIRECT {
        return None;
    }
    let window = partition.plan.windows.iter().find(|window| window.kind == WINDOW_GICR)?;
    let vcpu = contents.vcpus_of(partition.index).next()?;
    Some((window.guest.0.checked_add(SGI_FRAME_OFFSET)?, vcpu.plan.gicr.0.checked_add(SGI_FRAME_OFFSET)?))
}

/// Returns the frames of the interrupt controller, those of unused cores included.
fn interrupt_controller(view: &View<'_>, contents: &Contents) -> Vec<Range<u64>> {
    let first = contents.cores.iter().map(Core::gicr).min().unwrap_or(0);
    let gicd = view.header.gicd.0;
    let mut frames =
        vec![gicd..gicd.saturating_add(GICD_BYTES), first..first.saturating_add(GICR_BYTES * MAX_CORES as u64)];
    frames.extend(contents.cores.iter().map(|core| core.gicr()..core.gicr().saturating_add(GICR_BYTES)));
    frames
}

fn check_devices(contents: &Contents, devices: &[DeviceRange], findings: &mut Findings) {
    for (index, first) in devices.iter().enumerate() {
        for second in devices.iter().skip(index + 1).filter(|second| second.partition != first.partition) {
            findings.require(!overlap(&first.range, &second.range), Code::DeviceMapping, || {
                format!(
                    "the device page {:#x} belongs to partitions {} and {}",
                    first.range.start.max(second.range.start),
                    first.partition,
                    second.partition
                )
            });
        }
    }
    for vcpu in contents.vcpus().filter(|vcpu| vcpu.plan.uart.0 != 0) {
        let uart = vcpu.plan.uart.0..vcpu.plan.uart.0.saturating_add(PAGE);
        for device in devices.iter().filter(|device| overlap(&device.range, &uart)) {
            findings.add(
                Code::DeviceMapping,
                format!("partition {} has the UART that the monitor of core {} uses", device.partition, vcpu.core),
            );
        }
    }
}

/// The main claim, over raw tables alone: no physical page is writable by two partitions, but those of virtio devices by front and back end.
fn check_writers(contents: &Contents, maps: &Maps, pairs: &[Pair], findings: &mut Findings) {
    let mut writable: Vec<(Range<u64>, usize)> = Vec::new();
    for (partition, map) in contents.partitions.iter().zip(&maps.guests) {
        let ranges =
            map.runs.iter().filter(|run| run.rights.write).map(|run| (run.output..run.output_end(), partition.index));
        writable.extend(ranges);
    }
    writable.sort_by_key(|(range, _)| range.start);
    for (index, (range, partition)) in writable.iter().enumerate() {
        let after = writable.iter().skip(index + 1).take_while(|(other, _)| other.start < range.end);
        for (other, second) in after.filter(|(_, second)| second != partition) {
            // Runs of a pool end with it or are refused as what nobody expects there.
            let end = range.end.min(other.end);
            let mut pages = (other.start..end).step_by(PAGE as usize).map(PhysicalAddress);
            if pages.all(|page| fronts::may_both_write(pairs, page, *partition, *second)) {
                continue;
            }
            findings.add(
                Code::TwoWriters,
                format!("the page {:#x} is writable by partitions {partition} and {second}", other.start),
            );
        }
    }
}
