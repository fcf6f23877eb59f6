//! Guest images: what the monitor copies at start and restart stays inside the partition and is undamaged.

use crate::area::overlap;
use crate::code::Code;
use crate::finding::Findings;
use crate::image::{Contents, PAGE, Partition, View};
use bulkhead_abi::plan::{RamRegion, Segment};
use std::ops::Range;

const DESTINATION_ALIGNMENT: u64 = 16;
const SOURCE_ALIGNMENT: u64 = 64;
/// First word of a flattened device tree, big-endian.
const DEVICE_TREE_MAGIC: [u8; 4] = [0xd0, 0x0d, 0xfe, 0xed];

/// Checks RAM and segments of every partition.
pub(crate) fn check(view: &View<'_>, contents: &Contents, findings: &mut Findings) {
    for partition in &contents.partitions {
        check_ram(partition, findings);
        check_segments(view, partition, findings);
        check_entry(view, partition, findings);
    }
}

fn ram(partition: &Partition) -> impl Iterator<Item = &RamRegion> {
    partition.plan.ram().iter()
}

fn segments(partition: &Partition) -> impl Iterator<Item = &Segment> {
    partition.plan.segments().iter()
}

fn destination(segment: &Segment) -> Range<u64> {
    let end = segment.destination.0.saturating_add(segment.bytes);
    segment.destination.0..end.checked_next_multiple_of(DESTINATION_ALIGNMENT).unwrap_or(u64::MAX)
}

fn check_ram(partition: &Partition, findings: &mut Findings) {
    for (index, region) in ram(partition).enumerate() {
        let whole = (region.guest.0 | region.physical.0 | region.bytes) % PAGE == 0 && region.bytes > 0;
        let fits = region.physical.0.checked_add(region.bytes).is_some()
            && region.guest.0.checked_add(region.bytes).is_some_and(|end| end <= 1 << 39);
        findings.require(whole && fits, Code::RamPlace, || {
            format!(
                "RAM of partition \"{}\" at {} is not made of whole pages or leaves the address space",
                partition.name(),
                region.physical
            )
        });
        let guest = |region: &RamRegion| region.guest.0..region.guest.0.saturating_add(region.bytes);
        let alone = ram(partition).skip(index + 1).all(|other| !overlap(&guest(region), &guest(other)));
        findings.require(alone, Code::RamPlace, || {
            format!("RAM regions of partition \"{}\" overlap at guest address {}", partition.name(), region.guest)
        });
    }
}

fn check_segments(view: &View<'_>, partition: &Partition, findings: &mut Findings) {
    let name = partition.name();
    for (index, segment) in segments(partition).enumerate() {
        let target = destination(segment);
        let inside = ram(partition).any(|region| {
            target.start >= region.physical.0 && target.end <= region.physical.0.saturating_add(region.bytes)
        });
        findings.require(
            inside && target.start.is_multiple_of(DESTINATION_ALIGNMENT) && segment.bytes > 0,
            Code::SegmentDestination,
            || {
                format!(
                    "segment {index} of partition \"{name}\" would be copied to {:#x}..{:#x}, which is not in its RAM \
             or not aligned",
                    target.start, target.end
                )
            },
        );
        for other in segments(partition).skip(index + 1) {
            findings.require(!overlap(&target, &destination(other)), Code::SegmentOverlap, || {
                format!(
                    "two segments of partition \"{name}\" are copied to {}",
                    segment.destination.max(other.destination)
                )
            });
        }
        check_source(view, partition, index, segment, findings);
    }
}

fn check_source(view: &View<'_>, partition: &Partition, index: usize, segment: &Segment, findings: &mut Findings) {
    let name = partition.name();
    let padded = segment.bytes.checked_next_multiple_of(SOURCE_ALIGNMENT).unwrap_or(u64::MAX);
    let behind_plan = segment.source.0 >= view.plan_range().end && segment.source.0.is_multiple_of(SOURCE_ALIGNMENT);
    let copy = view.slice(segment.source.0, padded).filter(|_| behind_plan);
    let Some((content, padding)) = copy.and_then(|copy| copy.split_at_checked(usize::try_from(segment.bytes).ok()?))
    else {
        findings.add(
            Code::SegmentSource,
            format!(
                "the copy of segment {index} of partition \"{name}\" at {} is not \
         in the file behind the plan, or not aligned",
                segment.source
            ),
        );
        return;
    };
    let crc = crc32c::crc32c(content);
    findings.require(crc == segment.crc && segment.reserved == 0, Code::SegmentCrc, || {
        format!(
            "the copy of segment {index} of partition \"{name}\" gives {crc:#010x}, its plan says {:#010x}",
            segment.crc
        )
    });
    findings.require(padding.iter().all(|byte| *byte == 0), Code::SegmentSource, || {
        format!("the padding of segment {index} of partition \"{name}\" is not zero")
    });
}

fn check_entry(view: &View<'_>, partition: &Partition, findings: &mut Findings) {
    let name = partition.name();
    let physical = |guest: u64| {
        let region = ram(partition).find(|region| guest >= region.guest.0 && guest - region.guest.0 < region.bytes)?;
        Some(region.physical.0 + (guest - region.guest.0))
    };
    // A destination inside a segment leads back to the copy's bytes.
    let loaded = |guest: u64| {
        let target = physical(guest)?;
        let segment = segments(partition).find(|segment| destination(segment).contains(&target))?;
        view.slice(segment.source.0.checked_add(target - segment.destination.0)?, 4)
    };
    let entry = partition.plan.entry.0;
    findings.require(entry.is_multiple_of(4) && loaded(entry).is_some(), Code::Entry, || {
        format!("partition \"{name}\" is entered at {entry:#x}, where nothing is loaded")
    });
    let tree = partition.plan.device_tree.0;
    findings.require(tree.is_multiple_of(8) && loaded(tree) == Some(DEVICE_TREE_MAGIC.as_slice()), Code::Entry, || {
        format!("partition \"{name}\" is given {tree:#x} as its device tree, where none is loaded")
    });
}
