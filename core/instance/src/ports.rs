//! Ports of components: windows of channels, and the record in which a program finds the shape of one (`kernel.md` 9; QV-50).
//!
//! A channel has three parts with one writer each: the peer's status, the page of the end that reads, and the pages of the end that writes. The component maps
//! all of them and writes its own, as the partition does. The kernel maps none and has no way to them: what it adds is the doorbell, by a wire that only
//! rings, and an interrupt that is bound as that of a device.
//!
//! The shape comes from the host, in a record among the program's constants. Rejected: that the program reads it in the first words of the source's
//! area. These are the peer's to write, and a port believes its own plan alone. Rejected as well: a page for the component like the partition's information page. It would
//! be a parser and a search by names in each component, and names of ports would be in programs, which then fit one system.

use crate::translation::{Access, PAGE, Space};
use crate::{Component, Error};
use bulkhead_guest_abi::channel::{
    CHANNEL_READER_OFFSET, CHANNEL_WRITER_OFFSET, PORT_QUEUING, PORT_SAMPLING, writer_bytes,
};
use bulkhead_kernel_abi::NONE;
use bulkhead_kernel_abi::boot::PortRow;
use bulkhead_kernel_abi::image::{self, COMPONENT_PORTS, COMPONENT_PORTS_END, PortUse};

/// A port of a component: one end of a channel of its partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its name, of which the first 15 bytes are kept.
    pub name: String,
    /// Which end it is, and of which kind of channel.
    pub does: PortUse,
    /// Address of the channel's window.
    pub window: u64,
    /// Payload bytes of a message.
    pub message_bytes: u32,
    /// Slots.
    pub slots: u32,
    /// Of an end that is read: INTID of the doorbell, or 0.
    pub intid: u32,
    /// Of an end that is written: wire that rings the doorbell, or [`NONE`].
    pub wire: u16,
    /// Slot of the component with the capability for that wire, or 0.
    pub bell: u64,
    /// Import of the program that is bound to it.
    pub import: Option<String>,
}

impl Port {
    /// Bytes of its window, whole pages.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        CHANNEL_WRITER_OFFSET + writer_bytes(self.message_bytes, self.slots)
    }

    /// What the program finds.
    pub(crate) const fn record(&self, address: u64) -> image::Port {
        image::Port {
            window: address,
            bytes: self.bytes(),
            bell: self.bell,
            message_bytes: self.message_bytes,
            slots: self.slots,
        }
    }
}

/// Where a component finds the windows of its ports, in their order.
pub(crate) fn addresses(ports: &[Port]) -> impl Iterator<Item = u64> {
    ports.iter().scan(COMPONENT_PORTS, |next, port| {
        let address = *next;
        *next = address.saturating_add(port.bytes()).saturating_add(PAGE);
        Some(address)
    })
}

/// The rows of all ports; `record` says where the record of an import of a component is.
pub(crate) fn rows(components: &[Component<'_>], record: impl Fn(usize, &str) -> u64) -> Vec<PortRow> {
    let of = |(number, component): (usize, &Component<'_>)| {
        let row = |(address, port): (u64, &Port)| PortRow {
            name: crate::names::name(&port.name),
            physical: port.window,
            address,
            record: port.import.as_deref().map_or(0, |import| record(number, import)),
            pages: (port.bytes() / PAGE) as u32,
            message_bytes: port.message_bytes,
            slots: port.slots,
            intid: port.intid,
            kind: if port.does.is_sampling() { PORT_SAMPLING as u16 } else { PORT_QUEUING as u16 },
            source: port.does.is_source().into(),
            component: number as u16,
            wire: port.wire,
            ..PortRow::default()
        };
        addresses(&component.ports).zip(&component.ports).map(row).collect::<Vec<_>>()
    };
    components.iter().enumerate().flat_map(of).collect()
}

/// Maps the windows of a component's ports: everything to be read, and what this end writes to be written.
pub(crate) fn map(space: &mut Space, ports: &[Port]) {
    for (address, port) in addresses(ports).zip(ports) {
        let own = if port.does.is_source() {
            CHANNEL_WRITER_OFFSET..port.bytes()
        } else {
            CHANNEL_READER_OFFSET..CHANNEL_WRITER_OFFSET
        };
        for offset in (0..port.bytes()).step_by(PAGE as usize) {
            let access = if own.contains(&offset) { Access::ComponentShared } else { Access::ComponentObserved };
            space.map(address + offset, port.window + offset, PAGE, access);
        }
    }
}

/// What cannot be laid out.
pub(crate) fn check(components: &[Component<'_>]) -> Result<(), Error> {
    for component in components {
        if let Some(port) = component.ports.iter().find(|port| !port.window.is_multiple_of(PAGE)) {
            let message = format!("the window of port `{}` begins at {:#x}, inside a page", port.name, port.window);
            return Err(Error::Description(message));
        }
        let ends = addresses(&component.ports).zip(&component.ports).map(|(at, port)| at.saturating_add(port.bytes()));
        if ends.max().is_some_and(|end| end > COMPONENT_PORTS_END) {
            return Err(Error::Description(format!("the ports of `{}` have too large windows", component.name)));
        }
        let rings = |port: &&Port| (port.wire == NONE) == (port.bell == 0);
        if let Some(port) = component.ports.iter().find(|port| !rings(port)) {
            let message = format!("port `{}` has a doorbell without a slot, or a slot without a doorbell", port.name);
            return Err(Error::Description(message));
        }
    }
    Ok(())
}
