//! The information page of a native guest.

use crate::channels::{End, NO_DOORBELL, PoolEnd};
use crate::error::PlanError;
use crate::fronts;
use crate::layout::CONSOLE_BYTES;
use crate::model::{Partition, PortKind, System};
use crate::narrow;
use crate::planner::Draft;
use alloc::format;
use bulkhead_abi::plan::PortInformation;
use bulkhead_abi::{ABI_VERSION, GuestAddress};
use bulkhead_guest_abi::channel::{PORT_POOL, PORT_QUEUING, PORT_SAMPLING};
use bulkhead_guest_abi::guest::{
    DIRECTION_DESTINATION, DIRECTION_SOURCE, GUEST_CONSOLE, GUEST_GICD, GUEST_GICR, GUEST_MAGIC, GUEST_UART,
    GuestInformation, MAX_PORTS,
};
use bulkhead_guest_abi::name_from;

/// Writes the information page of partition `index`.
///
/// # Errors
/// When the arguments are too long.
pub(crate) fn page(
    system: &System,
    index: usize,
    partition: &Partition,
    draft: &Draft,
) -> Result<GuestInformation, PlanError> {
    let mut arguments = [0; 256];
    if partition.arguments.len() >= arguments.len() {
        return Err(PlanError::TooBig {
            what: format!("`arguments` of partition \"{}\"", partition.name),
            bytes: partition.arguments.len() as u64,
            limit: arguments.len() as u64 - 1,
        });
    }
    for (slot, byte) in arguments.iter_mut().zip(partition.arguments.bytes()) {
        *slot = byte;
    }
    let mut ports = [PortInformation::default(); MAX_PORTS];
    let ends = draft.ends.iter().map(|end| port(system, end));
    let ends = ends.chain(draft.pools.iter().map(|end| pool_port(system, end)));
    let ends = ends.chain(draft.virtio.backs.iter().map(|end| fronts::port(system, end)));
    let port_count = ports.iter_mut().zip(ends).map(|(slot, end)| *slot = end).count();
    let guest_console = if partition.own_console { (GUEST_CONSOLE, CONSOLE_BYTES) } else { (GuestAddress(0), 0) };
    Ok(GuestInformation {
        magic: GUEST_MAGIC,
        abi_version: ABI_VERSION,
        partition: narrow(index),
        name: name_from(&partition.name),
        counter_hz: system.board.counter_hz,
        gicd: GUEST_GICD,
        gicr: GUEST_GICR,
        uart: if partition.virtual_uart { GUEST_UART } else { GuestAddress(0) },
        console: guest_console.0,
        console_bytes: guest_console.1,
        ram: partition.guest_ram,
        ram_bytes: partition.memory_bytes,
        vcpu_count: narrow(partition.cores.len()),
        port_count: narrow(port_count),
        arguments,
        ports,
    })
}

/// Describes one channel end to its guest.
pub(crate) fn port(system: &System, end: &End) -> PortInformation {
    let Some(channel) = system.channels.get(end.channel) else { return PortInformation::default() };
    let port = if end.is_source { &channel.source } else { &channel.destination };
    PortInformation {
        name: name_from(&port.name),
        window: end.window,
        window_bytes: end.window_bytes,
        direction: if end.is_source { DIRECTION_SOURCE } else { DIRECTION_DESTINATION },
        kind: match channel.kind {
            PortKind::Sampling => PORT_SAMPLING,
            PortKind::Queuing { .. } => PORT_QUEUING,
        },
        message_bytes: channel.message_bytes,
        slots: channel.kind.slots(),
        doorbell: end.doorbell,
        interrupt: if end.is_source { 0 } else { end.interrupt },
    }
}

/// Describes the end of a channel to the payload of the secure world to its guest.
pub(crate) fn pool_port(system: &System, end: &PoolEnd) -> PortInformation {
    let Some((_, channel)) = system.pools().find(|(index, _)| *index == end.channel) else {
        return PortInformation::default();
    };
    PortInformation {
        name: name_from(&channel.name),
        window: end.window,
        window_bytes: end.window_bytes,
        direction: if end.is_source { DIRECTION_SOURCE } else { DIRECTION_DESTINATION },
        kind: PORT_POOL,
        message_bytes: channel.block_bytes,
        slots: channel.blocks,
        doorbell: NO_DOORBELL,
        interrupt: end.interrupt,
    }
}
