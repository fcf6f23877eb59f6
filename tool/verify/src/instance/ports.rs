//! Ports of components: each is a port of the partition, with its window, its shape and its doorbell, and no wire's.

use crate::channel::End;
use crate::code::Code;
use crate::finding::Findings;
use crate::image::Partition;
use bulkhead_guest_abi::channel::CHANNEL_WRITER_OFFSET;
use bulkhead_verify_instance::{Port, Summary};

/// Compares the ports of all components with the channels of their partitions.
pub(super) fn check(instances: &[(&Partition, Summary)], ends: &[End], findings: &mut Findings) {
    for (partition, summary) in instances {
        for (component, port) in summary.components.iter().flat_map(|one| one.ports.iter().map(move |it| (one, it))) {
            findings.require(ends.iter().any(|end| is(partition, port, end)), Code::InstancePortEnds, || {
                format!(
                    "partition \"{}\": component `{}` has the port `{}` at {:#x}, where the partition has no such end of a channel with this doorbell",
                    partition.name(),
                    component.name,
                    port.name,
                    port.window
                )
            });
        }
    }
}

/// States whether a port is this end of a channel. A doorbell that nobody rings, or that nobody is told of, is the system's matter.
fn is(partition: &Partition, port: &Port, end: &End) -> bool {
    let pages = end.writer.end - end.writer.start;
    let rung = port.doorbell.map(|doorbell| partition.doorbells().nth(doorbell as usize).map(|one| one.intid));
    let rings = rung.is_none_or(|intid| intid == Some(end.interrupt));
    let is_told = port.intid == 0 || port.intid == end.interrupt;
    (end.partition, end.window, end.is_source) == (partition.index, port.window, port.is_source)
        && end.shape == port.shape
        && port.bytes == CHANNEL_WRITER_OFFSET + pages
        && rings
        && is_told
}
