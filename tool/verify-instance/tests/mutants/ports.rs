//! Corruptions of ports of components.

use crate::sample::{Mutant, RECORD, REGISTERS};
use crate::{Corruption, EL0_NEVER, OUTPUT, READ_ONLY, page, slot};
use bulkhead_kernel_abi::boot::PortRow;
use bulkhead_kernel_abi::image::{COMPONENT_PORTS, LOAD, Port};
use bulkhead_kernel_abi::{Capability, Kind as Object, NONE};
use bulkhead_verify_instance::Kind;
use core::mem::offset_of;

/// The component that has them, and where its second window is: behind four pages and an empty one.
const OWNER: usize = 2;
const ORDERS: u64 = COMPONENT_PORTS + 0x4000;
/// Attributes of memory of the caches in the place of those beyond them.
const CACHED: u64 = 3 << 2;

pub(crate) const CORRUPTIONS: &[Corruption] = &[
    ("window of a port elsewhere", Kind::Port, |mutant| port(mutant, 0, |row| row.physical += 0x1000)),
    ("window of a port inside a page", Kind::Port, |mutant| port(mutant, 0, |row| row.physical += 8)),
    ("port over registers", Kind::Port, |mutant| port(mutant, 0, |row| row.physical = REGISTERS)),
    ("port over the kernel", Kind::Port, |mutant| port(mutant, 0, |row| row.physical = LOAD)),
    ("port over the window of another one", Kind::Port, |mutant| port(mutant, 1, |row| row.physical -= 0x1_0000)),
    ("port over a wire", Kind::Port, |mutant| port(mutant, 1, |row| row.physical += 0x1_0000)),
    ("port in a component's text", Kind::Port, |mutant| port(mutant, 0, |row| row.address = 0x40_0000)),
    ("port of another component", Kind::Port, |mutant| port(mutant, 1, |row| row.component = 0)),
    ("port of no component", Kind::Port, |mutant| port(mutant, 1, |row| row.component = 3)),
    ("port of no kind", Kind::Port, |mutant| port(mutant, 0, |row| row.kind = 3)),
    ("five values", Kind::Port, |mutant| port(mutant, 0, |row| row.slots = 5)),
    ("messages of no bytes", Kind::Port, |mutant| port(mutant, 1, |row| row.message_bytes = 0)),
    ("more messages than the window has", Kind::Port, |mutant| port(mutant, 1, |row| row.slots = 64)),
    ("port in the other direction", Kind::Port, |mutant| port(mutant, 1, |row| row.source = 1)),
    ("port in no direction", Kind::Port, |mutant| port(mutant, 1, |row| row.source = 2)),
    ("bits of a port that mean nothing", Kind::Port, |mutant| port(mutant, 1, |row| row.reserved = 1)),
    ("the other end's page to be written", Kind::Port, |mutant| {
        page(mutant, OWNER, COMPONENT_PORTS + 0x1000, READ_ONLY)
    }),
    ("the peer's status to be written", Kind::Port, |mutant| page(mutant, OWNER, ORDERS, READ_ONLY)),
    ("the other end's messages to be written", Kind::Port, |mutant| page(mutant, OWNER, ORDERS + 0x3000, READ_ONLY)),
    ("own page to be read only", Kind::Port, |mutant| page(mutant, OWNER, ORDERS + 0x1000, READ_ONLY)),
    ("port as memory of the caches", Kind::Port, |mutant| page(mutant, OWNER, COMPONENT_PORTS, CACHED)),
    ("port to be executed", Kind::Port, |mutant| page(mutant, OWNER, COMPONENT_PORTS, EL0_NEVER)),
    ("page of a port that is not mapped", Kind::Port, |mutant| {
        let place = mutant.entry(mutant.root(OWNER), ORDERS + 0x2000, 3);
        mutant.set(place, 0);
    }),
    ("channel that no row gives", Kind::Port, |mutant| {
        let place = mutant.entry(mutant.root(OWNER), COMPONENT_PORTS, 3);
        let beyond = mutant.entry(mutant.root(OWNER), COMPONENT_PORTS + 0x10_0000, 3);
        mutant.set(beyond, mutant.word(place) + 0x8_0000);
    }),
    ("page of a port in two components", Kind::Shared, |mutant| {
        let place = mutant.entry(mutant.root(OWNER), COMPONENT_PORTS + 0x2000, 3);
        let window = mutant.word(place) & OUTPUT;
        crate::point(mutant, 0, crate::STACK, window);
        page(mutant, 0, crate::STACK, 0);
    }),
    ("doorbell of no port", Kind::Port, |mutant| port(mutant, 0, |row| row.wire = NONE)),
    ("doorbell by a wire that is taken from", Kind::Port, |mutant| port(mutant, 0, |row| row.wire = 0)),
    ("doorbell of a port that is read", Kind::Port, |mutant| port(mutant, 1, |row| row.wire = 1)),
    ("doorbell in the hands of another component", Kind::Port, |mutant| {
        slot(mutant, |slot| {
            *slot = Capability { kind: Object::RemoteSend.number(), rights: 1, object: 1, grant: 1, word: 0 }
        });
    }),
    ("doorbell that tells another component", Kind::Port, |mutant| port(mutant, 1, |row| row.intid = 39)),
    ("doorbell that is heard by who writes", Kind::Port, |mutant| port(mutant, 0, |row| row.intid = 80)),
    ("record of a port that the program can change", Kind::Port, |mutant| {
        page(mutant, OWNER, RECORD & !0xfff, READ_ONLY)
    }),
    ("record of a port outside the program", Kind::Port, |mutant| port(mutant, 0, |row| row.record = COMPONENT_PORTS)),
    ("program with another window", Kind::Port, |mutant| record(mutant, offset_of!(Port, window))),
    ("program with more bytes", Kind::Port, |mutant| record(mutant, offset_of!(Port, bytes))),
    ("program with another doorbell", Kind::Port, |mutant| record(mutant, offset_of!(Port, bell))),
    ("program with longer messages", Kind::Port, |mutant| record(mutant, offset_of!(Port, message_bytes))),
    ("program with other slots", Kind::Port, |mutant| record(mutant, offset_of!(Port, slots))),
];

pub(crate) fn port(mutant: &mut Mutant, number: usize, change: impl FnOnce(&mut PortRow)) {
    let (place, mut row) = mutant.row(mutant.tables().ports.offset, number);
    change(&mut row);
    mutant.put(place, &row);
}

/// Changes what the program finds of its port.
fn record(mutant: &mut Mutant, offset: usize) {
    let page = mutant.word(mutant.entry(mutant.root(OWNER), RECORD & !0xfff, 3)) & OUTPUT;
    mutant.flip((page - LOAD) as usize + (RECORD & 0xfff) as usize + offset, 1);
}
