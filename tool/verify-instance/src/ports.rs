//! Ports of components: each is one end of a channel, in one component, with the parts that are the other end's to be read only.

use crate::finding::{Findings, Kind};
use crate::walk::Map;
use crate::{PAGE, View};
use bulkhead_guest_abi::channel::{
    CHANNEL_READER_OFFSET, CHANNEL_WRITER_OFFSET, PORT_QUEUING, PORT_SAMPLING, SAMPLING_SLOTS, writer_bytes,
};
use bulkhead_guest_abi::guest::{GUEST_CHANNELS, GUEST_PCI_REGISTERS};
use bulkhead_kernel_abi::boot::{ComponentRow, PortRow, Tables};
use bulkhead_kernel_abi::image::{COMPONENT_PORTS, COMPONENT_PORTS_END, COMPONENT_STACKS, COMPONENT_TEXT, Port};
use bulkhead_kernel_abi::{Kind as Object, NONE};
use std::collections::BTreeSet;
use std::ops::Range;
use zerocopy::FromBytes;

/// Payload bytes of a message, and messages of a queue.
const MESSAGE_BYTES: Range<u32> = 1..4033;
const DEPTH: Range<u32> = 1..65_537;
/// Interrupts of devices, among which doorbells are.
const DOORBELLS: Range<u32> = 32..1020;

/// Whether a component's address is one for windows of ports.
pub(crate) fn is_for_ports(address: u64) -> bool {
    (COMPONENT_PORTS..COMPONENT_PORTS_END).contains(&address)
}

/// Compares rows, address spaces, doorbells and what programs find.
pub(crate) fn check(view: &View<'_>, spaces: &[Map], findings: &mut Findings) {
    let tables = &view.tables;
    let (mut windows, mut wires) = (Vec::new(), BTreeSet::new());
    for (number, row) in tables.ports.iter().enumerate() {
        if !findings.require(is_sound(row, tables), Kind::Port, || {
            format!("port {number} has a shape, a place or a direction that none has")
        }) {
            continue;
        }
        let bytes = u64::from(row.pages) * PAGE;
        let window = row.physical..row.physical + bytes;
        let overlaps = |other: &Range<u64>| other.start < window.end && window.start < other.end;
        let of_wires = crate::wires::pages(tables).map(|(page, _)| page);
        let is_alone = !windows.iter().any(overlaps) && !of_wires.into_iter().any(|page| overlaps(&page));
        findings.require(is_alone, Kind::Port, || {
            format!("the window of port {number}, at {:#x}, is that of another port or of a wire", row.physical)
        });
        windows.push(window);
        let space = spaces.get(usize::from(row.component));
        let is_mapped = |offset: u64| {
            let mapping = space.and_then(|space| space.at(row.address + offset));
            mapping.is_some_and(|it| it.output == row.physical + offset && it.write == writes(row, offset))
        };
        findings.require((0..bytes).step_by(PAGE as usize).all(is_mapped), Kind::Port, || {
            format!("component {} does not have the window of port {number} as its direction is", row.component)
        });
        findings.require(row.wire == NONE || wires.insert(row.wire), Kind::Port, || {
            format!("port {number} rings by wire {}, as another one does", row.wire)
        });
        findings.require(row.record == 0 || has_record(view, row, space), Kind::Port, || {
            format!(
                "the program of component {} finds something else at {:#x} than port {number}",
                row.component, row.record
            )
        });
        let mut heard = tables.bindings.iter().filter(|binding| row.intid != 0 && binding.intid == row.intid);
        let is_told = heard.all(|binding| {
            tables.end_points.get(usize::from(binding.end_point)).is_some_and(|it| it.component == row.component)
        });
        findings.require(is_told, Kind::Port, || {
            format!("the doorbell of port {number} tells another component than {}, which has it", row.component)
        });
    }
    spaces_have_rows(tables, spaces, findings);
    doorbells(tables, findings);
}

/// States whether a row is one of a port.
fn is_sound(row: &PortRow, tables: &Tables<'_>) -> bool {
    let has_shape = MESSAGE_BYTES.contains(&row.message_bytes)
        && match u32::from(row.kind) {
            PORT_SAMPLING => row.slots == SAMPLING_SLOTS,
            PORT_QUEUING => DEPTH.contains(&row.slots),
            _ => false,
        };
    // Behind the shape: with another one the product could be anything.
    let bytes = u64::from(row.pages) * PAGE;
    let has_place = |start: u64, range: Range<u64>| {
        start.is_multiple_of(PAGE)
            && start >= range.start
            && start.checked_add(bytes).is_some_and(|end| end <= range.end)
    };
    let is_heard = row.intid == 0 || row.source == 0 && DOORBELLS.contains(&row.intid);
    let rings = tables.wires.get(usize::from(row.wire)).is_some_and(|wire| wire.source == 1 && wire.window == 0);
    has_shape
        && bytes == CHANNEL_WRITER_OFFSET + writer_bytes(row.message_bytes, row.slots)
        && has_place(row.physical, GUEST_CHANNELS.0..GUEST_PCI_REGISTERS.0)
        && has_place(row.address, COMPONENT_PORTS..COMPONENT_PORTS_END)
        && row.source <= 1
        && usize::from(row.component) < tables.components.len()
        && is_heard
        && (row.wire == NONE || row.source == 1 && rings)
        && row.reserved == 0
}

/// States whether this end writes a part of its window.
const fn writes(row: &PortRow, offset: u64) -> bool {
    match row.source {
        1 => offset >= CHANNEL_WRITER_OFFSET,
        _ => offset >= CHANNEL_READER_OFFSET && offset < CHANNEL_WRITER_OFFSET,
    }
}

/// States whether the program finds what the row says, among its constants.
fn has_record(view: &View<'_>, row: &PortRow, space: Option<&Map>) -> bool {
    let bytes = size_of::<Port>() as u64;
    let page = row.record - row.record % PAGE;
    let is_place = (COMPONENT_TEXT..COMPONENT_STACKS).contains(&row.record) && row.record % PAGE <= PAGE - bytes;
    let mapping = space.and_then(|space| space.at(page)).filter(|mapping| is_place && !mapping.write);
    let memory = mapping.and_then(|mapping| view.page(mapping.output));
    let found = memory
        .and_then(|page| Port::read_from_bytes(page.get((row.record % PAGE) as usize..)?.get(..bytes as usize)?).ok());
    let bell = found.map_or(0, |found| found.bell);
    let component = view.tables.components.get(usize::from(row.component));
    let slot = component.and_then(|one| view.tables.slots(one).get(usize::try_from(bell).ok()?));
    let rings = slot.is_some_and(|slot| slot.kind() == Some(Object::RemoteSend) && slot.object == row.wire);
    found.is_some_and(|found| {
        (found.window, found.bytes) == (row.address, u64::from(row.pages) * PAGE)
            && (found.message_bytes, found.slots) == (row.message_bytes, row.slots)
            && (if row.wire == NONE { found.bell == 0 } else { rings })
    })
}

/// Windows of channels that a component maps are those of its ports, as memory beyond the caches.
fn spaces_have_rows(tables: &Tables<'_>, spaces: &[Map], findings: &mut Findings) {
    for (number, space) in spaces.iter().enumerate() {
        for (address, mapping) in space.mappings.range(COMPONENT_PORTS..COMPONENT_PORTS_END) {
            let has = |row: &&PortRow| {
                usize::from(row.component) == number
                    && address.checked_sub(row.address).is_some_and(|offset| offset < u64::from(row.pages) * PAGE)
            };
            findings.require(tables.ports.iter().filter(has).count() == 1, Kind::Port, || {
                format!("component {number} maps a channel at {address:#x} that the boot tables do not give it once")
            });
            findings.require(mapping.memory == 2 && !mapping.execute_el0, Kind::Port, || {
                format!("component {number} has a channel at {address:#x} as memory of the caches, or to be executed")
            });
        }
    }
}

/// A wire that only rings is one port's, and only the component that has the port can use it.
fn doorbells(tables: &Tables<'_>, findings: &mut Findings) {
    for (wire, _) in tables.wires.iter().enumerate().filter(|(_, wire)| wire.window == 0) {
        let owner = tables.ports.iter().find(|row| usize::from(row.wire) == wire);
        findings.require(owner.is_some(), Kind::Port, || format!("wire {wire} rings a doorbell of no port"));
        let uses = |(_, component): &(usize, &ComponentRow)| {
            let mut slots = tables.slots(component).iter();
            slots.any(|slot| slot.kind() == Some(Object::RemoteSend) && usize::from(slot.object) == wire)
        };
        for (component, _) in tables.components.iter().enumerate().filter(uses) {
            let has = owner.is_some_and(|row| usize::from(row.component) == component);
            findings.require(has, Kind::Port, || {
                format!("component {component} can ring by wire {wire}, and has no port for it")
            });
        }
    }
}
