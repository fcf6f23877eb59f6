//! DMA that the SMMU refused to functions of partitions (QV-10), for `bulkhead stats`.
//!
//! An owner that looks into the event queue keeps its own count, in its status page, from boot on. Where nobody looks the SMMU stops
//! writing when the queue is full: the first events stay in RAM, and are read from there. Where others look and an owner does not, its
//! events are those that the queue holds now: older ones were overwritten.

use crate::observer::Observer;
use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::devices::{BootDevices, DevicePlan, EVENT_BYTES, EVENT_ENTRIES, STEP_WRITE};
use bulkhead_device::events::Event;

/// Offset of SMMU_EVENTQ_BASE in the first page of an SMMU's registers (IHI 0070, 6.3): the only register of eight bytes there whose script
/// is that of a queue of events.
const EVENTQ_BASE: u64 = 0xa0;
/// Bits of it that are an address: 51:5.
const EVENTQ_ADDRESS: u64 = 0x000f_ffff_ffff_ffe0;

/// What is known of one partition's refused DMA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The partition.
    pub partition: usize,
    /// Events of its functions.
    pub events: u64,
    /// Looks before which events were lost, perhaps its own; `None` where the owner does not look.
    pub lost: Option<u64>,
    /// The latest one.
    pub latest: Option<Event>,
}

/// Returns what each partition with functions was refused, in order.
#[must_use]
pub fn refused(observer: &Observer) -> Vec<Refused> {
    let devices = observer.plan().devices.iter().enumerate();
    devices.filter_map(|(partition, plan)| Some(of_partition(observer, partition, plan.as_deref()?))).collect()
}

fn of_partition(observer: &Observer, partition: usize, plan: &DevicePlan) -> Refused {
    if plan.poll_ticks != 0 {
        let seen = observer.status(partition).dma;
        let latest = (seen.events != 0).then_some(Event([seen.latest, seen.address]));
        return Refused { partition, events: seen.events, lost: Some(seen.lost), latest };
    }
    let queue = observer.plan().event_queue.map_or_else(Vec::new, |queue| entries(observer, queue));
    let is_own = |event: &&Event| {
        let own = plan.functions.iter().filter(|function| function.configuration.0 != 0);
        own.into_iter().any(|function| function.stream == event.stream())
    };
    let own: Vec<&Event> = queue.iter().filter(is_own).collect();
    Refused { partition, events: own.len() as u64, lost: None, latest: own.last().map(|event| **event) }
}

/// The entries of the queue that were written, in the order of their places. An event has a type, so one without was never written.
fn entries(observer: &Observer, queue: PhysicalAddress) -> Vec<Event> {
    let word = |offset: u64| queue.0.checked_add(offset).and_then(|at| observer.ram().load_u64(PhysicalAddress(at)));
    let places = (0..u64::from(EVENT_ENTRIES)).map(|entry| entry * EVENT_BYTES);
    let all = places.filter_map(|place| Some(Event([word(place)?, word(place + 16)?])));
    all.filter(|event| event.kind() != 0).collect()
}

/// Where the boot core tells the SMMU to put its events.
pub(crate) fn event_queue(boot: &BootDevices) -> Option<PhysicalAddress> {
    let is_base = |address: u64| address & 0xfff == EVENTQ_BASE;
    let mut bases = boot.steps().iter().filter(|step| step.operation == STEP_WRITE && step.width == 8);
    bases.find(|step| is_base(step.address.0)).map(|step| PhysicalAddress(step.value & EVENTQ_ADDRESS))
}

/// What an event says was wrong (IHI 0070, 7.3), in words.
#[must_use]
pub const fn kind_name(kind: u8) -> &'static str {
    match kind {
        0x02 => "unknown stream",
        0x06 => "stream switched off",
        0x10 => "no translation",
        0x11 => "address too large",
        0x12 => "access flag",
        0x13 => "no permission",
        _ => "other",
    }
}
