//! What functions of an instance's partition reach: pages for DMA of the component that drives each, and nothing else of the instance (QV-10; record 0055).
//!
//! The walk of streams has found that it is RAM of the partition. For a partition's own guest that is all there is to say; the text of a kernel, its tables and the memory of other
//! components are RAM of the partition as well.

use super::DEVICE_BYTES;
use crate::code::Code;
use crate::dma::OwnTables;
use crate::finding::Findings;
use crate::image::Partition;
use bulkhead_guest_abi::guest::GUEST_ECAM;
use bulkhead_verify_instance::Summary;

/// Compares what each function of a partition reaches with the pages of its driver. One that reaches all RAM is in the report as such: its driver is trusted.
pub(super) fn check(
    partition: &Partition,
    functions: &[OwnTables],
    summary: &Summary,
    place: &str,
    findings: &mut Findings,
) {
    for one in functions.iter().filter(|one| one.function.partition == partition.index && !one.is_all) {
        let page = GUEST_ECAM.0.saturating_add((one.function.index as u64 + 1).saturating_mul(DEVICE_BYTES));
        let drives = |component: &&bulkhead_verify_instance::Component| {
            component.devices.iter().any(|device| (device.physical..device.physical + device.bytes).contains(&page))
        };
        let driver = summary.components.iter().find(drives);
        let (start, bytes) = driver.map_or((0, 0), |driver| driver.dma);
        let own = start..start.saturating_add(bytes);
        for range in one.ranges.iter().filter(|range| !(own.start <= range.start && range.end <= own.end)) {
            findings.add(Code::InstanceStreams, {
                let driver = driver.map_or("no component".to_owned(), |driver| format!("`{}`", driver.name));
                format!(
                    "{place}{} reaches {:#x}..{:#x}, which are not pages for DMA of its driver ({driver})",
                    one.function.name(),
                    range.start,
                    range.end
                )
            });
        }
    }
}
