//! Channel ends: what a partition sees of each channel, at fixed addresses or as PCI functions.

use crate::interrupts::Routes;
use crate::model::{System, WorldChannel, WorldDirection};
use alloc::vec::Vec;
use bulkhead_abi::GuestAddress;
use bulkhead_abi::plan::{PCI_IVSHMEM, PCI_MANAGEMENT, PciFunction};
use bulkhead_guest_abi::channel::{CHANNEL_WRITER_OFFSET, writer_bytes};
use bulkhead_guest_abi::guest::{GUEST_CHANNELS, GUEST_PCI_MEMORY, GUEST_PCI_REGISTERS};

/// Distance between BAR 0 of two PCI functions.
pub const PCI_REGISTERS_STEP: u64 = 64 << 10;
/// Distance between BAR 2 of two PCI functions: the largest window.
pub const PCI_MEMORY_STEP: u64 = 16 << 20;
/// Bytes of BAR 0.
pub const PCI_REGISTERS_BYTES: u64 = 4096;
/// Windows of native guests start at multiples of this.
pub(crate) const WINDOW_ALIGNMENT: u64 = 64 << 10;
/// Most bytes of a source's area.
pub const MAX_WINDOW_BYTES: u64 = PCI_MEMORY_STEP - CHANNEL_WRITER_OFFSET;
/// No doorbell.
pub const NO_DOORBELL: u32 = u32::MAX;

/// One end of a channel as one partition sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Index of the channel.
    pub channel: usize,
    /// The partition writes.
    pub is_source: bool,
    /// The partition at the other end.
    pub peer: usize,
    /// First guest address of the window.
    pub window: GuestAddress,
    /// Bytes of the window, whole pages.
    pub window_bytes: u64,
    /// Source: index of the doorbell among the partition's, or [`NO_DOORBELL`].
    pub doorbell: u32,
    /// INTID of the doorbell at the destination, or 0.
    pub interrupt: u32,
    /// PCI function, if the partition sees channels so.
    pub function: Option<u32>,
}

/// The end of a channel to the payload of the secure world, as its partition sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolEnd {
    /// Place of the channel among the payload's.
    pub channel: usize,
    /// The partition sends.
    pub is_source: bool,
    /// First guest address of the pool.
    pub window: GuestAddress,
    /// Bytes of the pool, whole pages.
    pub window_bytes: u64,
    /// INTID that the payload makes pending after a message, or 0.
    pub interrupt: u32,
    /// PCI function, if the partition sees channels so.
    pub function: Option<u32>,
}

/// Returns a partition's ends of channels to the payload, which come behind those of its other channels.
#[must_use]
pub fn pool_ends(system: &System, partition: usize, ends: &[End]) -> Vec<PoolEnd> {
    let as_pci = system.partitions.get(partition).is_some_and(|partition| partition.pci_channels);
    let last = ends.last().map_or(GUEST_CHANNELS.0, |end| end.window.0 + end.window_bytes);
    let mut next_window = last.next_multiple_of(WINDOW_ALIGNMENT);
    let own = system.pools().filter(|(_, channel)| channel.partition == Some(partition));
    let numbered = own.zip(1 + crate::narrow(ends.len())..);
    let end = |((index, channel), function): ((usize, &WorldChannel), u32)| {
        let window = if as_pci { GUEST_PCI_MEMORY.0 + u64::from(function) * PCI_MEMORY_STEP } else { next_window };
        next_window = (next_window + channel.pool_bytes).next_multiple_of(WINDOW_ALIGNMENT);
        PoolEnd {
            channel: index,
            is_source: channel.direction == WorldDirection::ToPayload,
            window: GuestAddress(window),
            window_bytes: channel.pool_bytes,
            interrupt: channel.interrupt.unwrap_or(0),
            function: as_pci.then_some(function),
        }
    };
    numbered.map(end).collect()
}

/// Returns the channel ends of a partition in the order of the channels.
#[must_use]
pub fn ends(system: &System, routes: &Routes, partition: usize) -> Vec<End> {
    let as_pci = system.partitions.get(partition).is_some_and(|partition| partition.pci_channels);
    let mut ends = Vec::new();
    let mut next_window = GUEST_CHANNELS.0;
    let mut next_doorbell = 0;
    let mut next_function = 1;
    for (index, channel) in system.channels.iter().enumerate() {
        let is_source = channel.source.partition == partition;
        if !is_source && channel.destination.partition != partition {
            continue;
        }
        let window_bytes = CHANNEL_WRITER_OFFSET + writer_bytes(channel.message_bytes, channel.kind.slots());
        let window = if as_pci { GUEST_PCI_MEMORY.0 + u64::from(next_function) * PCI_MEMORY_STEP } else { next_window };
        next_window = (next_window + window_bytes).next_multiple_of(WINDOW_ALIGNMENT);
        let rings = is_source && channel.doorbell.is_some();
        ends.push(End {
            channel: index,
            is_source,
            peer: if is_source { channel.destination.partition } else { channel.source.partition },
            window: GuestAddress(window),
            window_bytes,
            doorbell: if rings { next_doorbell } else { NO_DOORBELL },
            interrupt: routes.doorbell(index).unwrap_or(0),
            function: as_pci.then_some(next_function),
        });
        next_doorbell += u32::from(rings);
        next_function += 1;
    }
    ends
}

/// Returns the PCI functions of a partition: the management device first, then one per channel end.
#[must_use]
pub fn pci_functions(system: &System, partition: usize, ends: &[End], pools: &[PoolEnd]) -> Vec<PciFunction> {
    if !system.partitions.get(partition).is_some_and(|partition| partition.pci_channels) {
        return Vec::new();
    }
    let mut functions = Vec::new();
    functions.push(PciFunction {
        kind: PCI_MANAGEMENT,
        registers: GUEST_PCI_REGISTERS,
        doorbell: NO_DOORBELL,
        ..PciFunction::default()
    });
    let of_channel = |function: u32, interrupt, memory, bytes: u64, doorbell, is_source: bool| PciFunction {
        kind: PCI_IVSHMEM,
        interrupt,
        registers: GuestAddress(GUEST_PCI_REGISTERS.0 + u64::from(function) * PCI_REGISTERS_STEP),
        memory,
        memory_bytes: bytes.next_power_of_two(),
        doorbell,
        position: u32::from(!is_source),
    };
    functions.extend(ends.iter().filter_map(|end| {
        let interrupt = if end.is_source { 0 } else { end.interrupt };
        Some(of_channel(end.function?, interrupt, end.window, end.window_bytes, end.doorbell, end.is_source))
    }));
    functions.extend(pools.iter().filter_map(|end| {
        Some(of_channel(end.function?, end.interrupt, end.window, end.window_bytes, NO_DOORBELL, end.is_source))
    }));
    functions
}
