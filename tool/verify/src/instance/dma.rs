//! What functions of an instance's partition reach: pages for DMA of the component that drives each, and nothing else of the instance (QV-10; record 0055).
//!
//! The walk of streams has found that it is RAM of the partition. For a partition's own guest that is all there is to say; the text of a kernel, its tables and the memory of other
//! components are RAM of the partition as well.
//!
//! A function is driven by the component that has its page of configuration space. Registers behind its base addresses say where it reads and writes, so a component that had them
//! beside the driver would have the driver's pages: all that a guest sees of a function is one component's (record 0083).

use super::DEVICE_BYTES;
use crate::area::overlap;
use crate::code::Code;
use crate::dma::Master;
use crate::finding::Findings;
use crate::image::Partition;
use bulkhead_guest_abi::guest::GUEST_ECAM;
use bulkhead_verify_instance::{Component, Summary};
use std::ops::Range;

/// Compares what each function of a partition reaches with the pages of its driver, and who has its registers with the driver. One that reaches all RAM, by tables of its own or by those of its guest, has a
/// driver that the instance says is trusted with it: such a driver is a part of the kernel, and nobody becomes that by tables of the partition alone.
pub(super) fn check(
    partition: &Partition,
    functions: &[Master],
    summary: &Summary,
    place: &str,
    findings: &mut Findings,
) {
    for one in functions.iter().filter(|one| one.function.partition == partition.index) {
        let page = GUEST_ECAM.0.saturating_add((one.function.index as u64 + 1).saturating_mul(DEVICE_BYTES));
        let driver = summary.components.iter().find(|component| has(component, &(page..page.saturating_add(1))));
        let name = driver.map_or("no component".to_owned(), |driver| format!("`{}`", driver.name));
        let place = format!("{place}{}", one.function.name());
        registers(one, driver, summary, &format!("{place} is told by component"), findings);
        let mut devices = driver.iter().flat_map(|driver| &driver.devices);
        let is_trusted = devices.any(|device| device.reaches_all && device.physical == page);
        findings.require(one.is_all == is_trusted, Code::InstanceStreams, || {
            let reach = if one.is_all { "reaches all RAM" } else { "does not reach all RAM" };
            format!("{place} {reach}, and the instance says otherwise of its driver ({name})")
        });
        if one.is_all {
            continue;
        }
        let (start, bytes) = driver.map_or((0, 0), |driver| driver.dma);
        let own = start..start.saturating_add(bytes);
        for range in one.ranges.iter().filter(|range| !(own.start <= range.start && range.end <= own.end)) {
            findings.add(
                Code::InstanceStreams,
                format!(
                    "{place} reaches {:#x}..{:#x}, which are not pages for DMA of its driver ({name})",
                    range.start, range.end
                ),
            );
        }
    }
}

/// Registers of a function that a guest sees are its driver's alone.
fn registers(one: &Master, driver: Option<&Component>, summary: &Summary, place: &str, findings: &mut Findings) {
    let others = || summary.components.iter().filter(|component| driver.is_none_or(|it| !std::ptr::eq(it, *component)));
    for (_, bar) in one.function.bars().filter(|(_, bar)| bar.guest.0 != 0) {
        let seen = bar.guest.0..bar.guest.0.saturating_add(bar.bytes);
        for component in others().filter(|component| has(component, &seen)) {
            let driver = driver.map_or("no component".to_owned(), |driver| format!("`{}`", driver.name));
            findings.add(
                Code::InstanceStreams,
                format!("{place} `{}`, which has its registers and is not its driver ({driver})", component.name),
            );
        }
    }
}

/// States whether a component has registers somewhere in a range of the guest's addresses.
fn has(component: &Component, range: &Range<u64>) -> bool {
    component.devices.iter().any(|it| overlap(&(it.physical..it.physical.saturating_add(it.bytes)), range))
}
