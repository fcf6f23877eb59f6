//! Wires between instances: each is an end of a channel of its partition, and what is sent by one is what the other one exports.

use crate::channel::End;
use crate::code::Code;
use crate::finding::Findings;
use crate::image::Partition;
use bulkhead_verify_instance::{Summary, Wire};

/// Compares the wires of all instances with the channels of their partitions, and with each other.
pub(super) fn check(instances: &[(&Partition, Summary)], ends: &[End], findings: &mut Findings) {
    for (partition, summary) in instances {
        for (number, wire) in summary.wires.iter().enumerate() {
            let place = format!("partition \"{}\": wire {number}", partition.name());
            if wire.window == 0 {
                let has = partition.doorbells().nth(wire.doorbell as usize).is_some();
                findings.require(has, Code::InstanceWireEnds, || {
                    format!("{place} rings doorbell {}, which the partition has not", wire.doorbell)
                });
                continue;
            }
            let Some(end) = end_of(partition, wire, ends) else {
                findings.add(
                    Code::InstanceWireEnds,
                    format!(
                        "{place} is at {:#x}, where the partition has no such end of a channel with this doorbell",
                        wire.window
                    ),
                );
                continue;
            };
            if wire.is_source {
                let other = taker(instances, end, ends);
                findings.require(other == Some(&wire.exports), Code::InstanceWireEnds, || {
                    format!("{place} sends {:x?}, and the other end takes {other:x?}", wire.exports)
                });
            }
        }
    }
}

/// The end of a channel that a wire is.
fn end_of<'e>(partition: &Partition, wire: &Wire, ends: &'e [End]) -> Option<&'e End> {
    let rung = partition.doorbells().nth(wire.doorbell as usize).map(|doorbell| doorbell.intid);
    let intid = if wire.is_source { rung } else { Some(wire.intid) };
    ends.iter().find(|end| {
        (end.partition, end.window, end.is_source) == (partition.index, wire.window, wire.is_source)
            && Some(end.interrupt) == intid
    })
}

/// What an instance at the other end of a channel exports.
fn taker<'s>(instances: &'s [(&Partition, Summary)], end: &End, ends: &[End]) -> Option<&'s Vec<u64>> {
    let other = ends.iter().find(|other| !other.is_source && other.reader == end.reader)?;
    let (_, summary) = instances.iter().find(|(partition, _)| partition.index == other.partition)?;
    let wire = summary.wires.iter().find(|wire| !wire.is_source && wire.window == other.window)?;
    Some(&wire.exports)
}
