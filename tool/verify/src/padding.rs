//! Every byte of the file is somebody's, or zero: nothing can hide between what the other checks read.

use crate::area::Maps;
use crate::code::Code;
use crate::dma::{Devices, Streams};
use crate::finding::Findings;
use crate::image::{Contents, PAGE, View};
use bulkhead_abi::devices::{BootDevices, DevicePlan};
use bulkhead_abi::image::ImageHeader;
use bulkhead_abi::plan::{PartitionPlan, VcpuPlan};
use bulkhead_abi::schedule::SchedulePlan;
use bulkhead_guest_abi::guest::GuestInformation;

/// What nobody filled looks like.
const ZEROS: [u8; PAGE as usize] = [0; PAGE as usize];

/// Checks everything from the header on; in front of it is the monitor, which is compared as a whole.
pub(crate) fn check(
    view: &View<'_>,
    contents: &Contents,
    maps: &Maps,
    devices: &Devices,
    streams: &Streams,
    findings: &mut Findings,
) {
    let header = view.header.image_start.0.saturating_add(view.header_offset);
    let mut used = vec![(header, size_of::<ImageHeader>() as u64)];
    for core in &contents.cores {
        used.extend(core.vcpus.iter().map(|vcpu| (vcpu.address.0, size_of::<VcpuPlan>() as u64)));
        used.extend(core.schedule.map(|_| (core.boot.schedule.0, size_of::<SchedulePlan>() as u64)));
    }
    for partition in &contents.partitions {
        used.push((partition.entry.plan.0, size_of::<PartitionPlan>() as u64));
        let segments = partition.plan.segments().iter();
        used.extend(segments.map(|segment| (segment.source.0, segment.bytes)));
    }
    used.extend(maps.information.iter().flatten().map(|page| (*page, size_of::<GuestInformation>() as u64)));
    used.extend(maps.cores.iter().chain(&maps.guests).flat_map(|map| &map.tables).map(|table| (*table, PAGE)));
    used.extend(devices.plans.values().map(|(place, _)| (place.0, size_of::<DevicePlan>() as u64)));
    used.extend(devices.boot.as_ref().map(|(place, _)| (place.0, size_of::<BootDevices>() as u64)));
    used.extend(streams.tables.iter().map(|(_, table)| (*table, PAGE)));
    used.extend(&streams.used);
    used.sort_unstable();
    let mut reached = header;
    for (start, bytes) in used {
        require_zero(view, reached, start, findings);
        reached = reached.max(start.saturating_add(bytes));
    }
    // What the monitor writes while it runs begins as zeros.
    require_zero(view, reached, view.monitor_range().end, findings);
}

fn require_zero(view: &View<'_>, start: u64, end: u64, findings: &mut Findings) {
    let gap = end.checked_sub(start).and_then(|bytes| view.slice(start, bytes)).unwrap_or_default();
    // Whole pages at once: most of a file can be zeros.
    let full = gap.chunks(ZEROS.len()).position(|piece| !ZEROS.starts_with(piece));
    let from = full.map_or(gap.len(), |page| page * ZEROS.len());
    if let Some(offset) = gap.iter().skip(from).position(|byte| *byte != 0).map(|offset| from + offset) {
        findings.add(
            Code::Padding,
            format!("the byte at {:#x} belongs to nothing but is not zero", start.saturating_add(offset as u64)),
        );
    }
}
