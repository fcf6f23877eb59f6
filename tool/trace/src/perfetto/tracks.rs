//! The tracks of a trace: which there are, their numbers, their names and their order.

use super::message::{CounterDescriptor, ORDER_EXPLICIT, TrackDescriptor, UNIT_TIME_NS};
use crate::layout::Layout;

/// A track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Track {
    /// Who runs on a core.
    Core(usize),
    /// Interrupts of a core.
    Interrupts(usize),
    /// Budget of a server of a core.
    Budget(usize, usize),
    /// States of a partition.
    Partition(usize),
    /// A vCPU, by core and slot.
    Slot(usize, usize),
}

impl Track {
    /// Returns the number of the track: its kind, the core and the place there. Never zero.
    pub(super) fn uuid(self) -> u64 {
        let (kind, core, place) = match self {
            Self::Core(core) => (1_u64, core, 0),
            Self::Interrupts(core) => (2, core, 0),
            Self::Budget(core, server) => (3, core, server),
            Self::Partition(partition) => (4, partition, 0),
            Self::Slot(core, slot) => (5, core, slot),
        };
        (kind << 48) | ((core as u64 & 0xff_ffff) << 24) | (place as u64 & 0xff_ffff)
    }

    /// Describes the track. `rank` orders it among its siblings.
    fn descriptor(self, name: String, parent: Option<Self>, rank: usize) -> TrackDescriptor {
        TrackDescriptor {
            uuid: Some(self.uuid()),
            name: Some(name),
            parent_uuid: parent.map(Self::uuid),
            counter: matches!(self, Self::Budget(..)).then_some(CounterDescriptor { unit: Some(UNIT_TIME_NS) }),
            child_ordering: matches!(self, Self::Core(_) | Self::Partition(_)).then_some(ORDER_EXPLICIT),
            sibling_order_rank: i32::try_from(rank).ok(),
        }
    }
}

/// Describes all tracks of a system, parents first.
pub(super) fn descriptors(layout: &Layout) -> Vec<TrackDescriptor> {
    let mut tracks = Vec::new();
    for (core, plan) in layout.cores.iter().enumerate() {
        let parent = Track::Core(core);
        let name = match plan.slots.as_slice() {
            [_] if !plan.is_shared => format!("core {core}: {}", layout.slot_name(core, 0)),
            _ => format!("core {core}, shared"),
        };
        tracks.push(parent.descriptor(name, None, core));
        tracks.push(Track::Interrupts(core).descriptor(format!("interrupts of core {core}"), Some(parent), 0));
        for (index, server) in plan.servers.iter().enumerate().filter(|(_, server)| server.budget_ns.is_some()) {
            let name = format!("budget of {}", server.name);
            tracks.push(Track::Budget(core, index).descriptor(name, Some(parent), index + 1));
        }
    }
    for (partition, name) in layout.partitions.iter().enumerate() {
        let parent = Track::Partition(partition);
        tracks.push(parent.descriptor(format!("partition {name}"), None, layout.cores.len() + partition));
        for (rank, (core, slot)) in layout.slots_of(partition).into_iter().enumerate() {
            let name = format!("{} on core {core}", layout.slot_name(core, slot));
            tracks.push(Track::Slot(core, slot).descriptor(name, Some(parent), rank));
        }
    }
    tracks
}
