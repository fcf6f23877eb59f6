//! Single corruptions of an instance's bytes, with checksums that are right: each is refused, by its own message.

mod accounts;
mod data;
mod dma;
mod ports;
mod processes;
mod sample;
mod scheduled;
mod start;
mod tool;
mod words;

use bulkhead_kernel_abi::boot::{
    BindingRow, BootHeader, ComponentRow, DeviceRow, EndPointRow, EntryRow, ExportRow, NameRow, ServerRow, StackRow,
    TcapRow, ThreadRow, WireRow,
};
use bulkhead_kernel_abi::capability::{entry_word, remote_word};
use bulkhead_kernel_abi::image::{COMPONENT_DEVICES, COMPONENT_DMA, COMPONENT_STACKS, COMPONENT_TEXT, Head, LOAD};
use bulkhead_kernel_abi::{Capability, Kind as Object};
use bulkhead_verify_instance::{Finding, Kind, verify};
use core::mem::offset_of;
use sample::{HEAD, Mutant, PAGE, REGISTERS, TABLES, expected, sample, sender};
use std::collections::BTreeSet;

const READ_ONLY: u64 = 1 << 7;
const EL0: u64 = 1 << 6;
const EL1_NEVER: u64 = 1 << 53;
const EL0_NEVER: u64 = 1 << 54;
const OUTPUT: u64 = 0x0000_ffff_ffff_f000;
/// The last page of the first component's first stack, and the empty page below it.
const STACK: u64 = COMPONENT_STACKS - 0x1000;
const GUARD: u64 = COMPONENT_STACKS - 0x3000;

/// Its name, the kind that it is refused for, and the change.
type Corruption = (&'static str, Kind, fn(&mut Mutant));

const CORRUPTIONS: &[Corruption] = &[
    ("truncated", Kind::Image, |mutant| mutant.0.truncate(mutant.0.len() - PAGE)),
    ("other version", Kind::Head, |mutant| mutant.flip(HEAD + offset_of!(Head, abi_version), 2)),
    ("bits in the head", Kind::Head, |mutant| mutant.set(HEAD + offset_of!(Head, more), 1)),
    ("changed kernel text", Kind::Kernel, |mutant| mutant.flip(0x800, 1)),
    ("tables for another kernel", Kind::Kernel, |mutant| mutant.flip(TABLES + offset_of!(BootHeader, kernel_build), 1)),
    ("rows that nobody judges", Kind::Row, |mutant| {
        let place = TABLES + offset_of!(BootHeader, regions);
        mutant.set(place, 1 << 32 | u64::from(mutant.tables().threads.offset));
    }),
    ("names of others", Kind::Row, |mutant| {
        let place = TABLES + offset_of!(BootHeader, names) + 4;
        mutant.set(place - 4, mutant.word(place - 4) - (1 << 32));
    }),
    ("a name without an end", Kind::Row, |mutant| {
        let (place, _) = mutant.row::<NameRow>(mutant.tables().names.offset, 1);
        mutant.put(place, &NameRow { name: [b'n'; 16] });
    }),
    ("kernel's data that is not zero", Kind::Kernel, |mutant| mutant.flip(3 * PAGE, 1)),
    ("other boot tables", Kind::Tables, |mutant| mutant.flip(TABLES, 1)),
    ("a span outside the tables", Kind::Tables, |mutant| {
        mutant.flip(TABLES + offset_of!(BootHeader, threads), 1 << 30)
    }),
    ("component's data executable", Kind::WritableExecutable, |mutant| page(mutant, 0, STACK, EL0_NEVER)),
    ("component's text writable", Kind::WritableExecutable, |mutant| page(mutant, 0, COMPONENT_TEXT, READ_ONLY)),
    ("component's page executable for the kernel", Kind::Reach, |mutant| page(mutant, 0, COMPONENT_TEXT, EL1_NEVER)),
    ("component's page for the kernel alone", Kind::Reach, |mutant| page(mutant, 0, STACK, EL0)),
    ("kernel text writable", Kind::WritableExecutable, |mutant| kernel(mutant, LOAD, READ_ONLY)),
    ("kernel page for EL0", Kind::KernelHalf, |mutant| kernel(mutant, LOAD + 0x3000, EL0)),
    ("constants of the kernel executable", Kind::KernelHalf, |mutant| kernel(mutant, LOAD + 0x1000, EL1_NEVER)),
    ("no empty page below the kernel's stack", Kind::KernelHalf, |mutant| {
        let place = mutant.entry(mutant.head().kernel_root, LOAD + 0x2000, 3);
        mutant.set(place, mutant.word(place + 8) - 0x1000);
    }),
    ("kernel maps a component's page", Kind::KernelHalf, |mutant| {
        let (from, to) = (LOAD + 0x7000, mutant.head().kernel_root);
        let place = mutant.entry(to, from, 3);
        mutant.set(place, mutant.word(place - 8) + 0x1000);
    }),
    ("registers as memory", Kind::KernelHalf, |mutant| kernel(mutant, 0x0800_0000, 1 << 2 | 3 << 8)),
    ("switch-on writable", Kind::BootHalf, |mutant| {
        let place = mutant.entry(mutant.head().boot_root, 0x4000_0000, 2);
        mutant.flip(place, READ_ONLY);
    }),
    ("kernel page in a component", Kind::Reach, |mutant| point(mutant, 0, STACK, LOAD + 0x3000)),
    ("boot tables in a component", Kind::Reach, |mutant| point(mutant, 0, STACK, LOAD + TABLES as u64)),
    ("translation table in a component", Kind::Shared, |mutant| {
        let root = mutant.root(0);
        point(mutant, 0, STACK, root);
    }),
    ("outside the image", Kind::Reach, |mutant| point(mutant, 0, STACK, 0x0900_0000)),
    ("writable page in two components", Kind::Shared, |mutant| {
        let other = mutant.word(mutant.entry(mutant.root(1), STACK, 3)) & OUTPUT;
        point(mutant, 0, STACK, other);
    }),
    ("page 0 of a component", Kind::Reach, |mutant| {
        let place = mutant.entry(mutant.root(0), COMPONENT_TEXT, 2);
        let table = mutant.word(place);
        mutant.set(place, 0);
        mutant.set(place - 16, table);
    }),
    ("missing guard page", Kind::Stack, |mutant| {
        let page = mutant.grow();
        let place = mutant.entry(mutant.root(0), GUARD, 3);
        mutant.set(place, mutant.word(place + 8) & !OUTPUT | page);
    }),
    ("page of constants below a stack", Kind::Stack, |mutant| {
        let page = mutant.grow();
        let place = mutant.entry(mutant.root(1), GUARD, 3);
        mutant.set(place, (mutant.word(place + 8) & !OUTPUT) | page | READ_ONLY);
    }),
    ("stack without memory", Kind::Stack, |mutant| threads(mutant, |row| row.stack = 0x50_0000)),
    ("page of nobody", Kind::Unused, |mutant| {
        mutant.grow();
    }),
    ("unknown bit", Kind::Descriptor, |mutant| page(mutant, 0, STACK, 1 << 52)),
    ("bit of a table", Kind::Descriptor, |mutant| {
        let place = mutant.entry(mutant.root(0), STACK, 2);
        mutant.flip(place, 1 << 61);
    }),
    ("table in two places", Kind::Descriptor, |mutant| {
        let place = mutant.entry(mutant.root(0), COMPONENT_TEXT, 2);
        mutant.set(place + 8, mutant.word(place));
    }),
    ("not accessed yet", Kind::Descriptor, |mutant| page(mutant, 1, STACK, 1 << 10)),
    ("component of another version", Kind::Component, |mutant| {
        let text = mutant.word(mutant.entry(mutant.root(1), COMPONENT_TEXT, 3)) & OUTPUT;
        mutant.flip((text - LOAD) as usize + 8, 2);
    }),
    ("entry outside text", Kind::Entry, |mutant| threads(mutant, |row| row.entry = STACK)),
    ("thread of no component", Kind::Row, |mutant| threads(mutant, |row| row.component = 3)),
    ("slots of another component", Kind::Row, |mutant| {
        let (place, mut row) = mutant.row::<ComponentRow>(mutant.tables().components.offset, 1);
        row.first_slot = 0;
        mutant.put(place, &row);
    }),
    ("end point of no thread", Kind::Row, |mutant| {
        let (place, mut row) = mutant.row::<EndPointRow>(mutant.tables().end_points.offset, 0);
        row.thread = 3;
        mutant.put(place, &row);
    }),
    ("capability to no object", Kind::Capability, |mutant| slot(mutant, |slot| slot.object = 2)),
    ("more rights", Kind::Capability, |mutant| slot(mutant, |slot| slot.rights |= 1 << 6)),
    ("right to make others' void", Kind::Capability, |mutant| slot(mutant, |slot| slot.rights |= 1 << 7)),
    ("another component's end point to take from", Kind::Capability, |mutant| {
        let offset = mutant.tables().capabilities.offset;
        let ((_, receive), (place, _)) = (mutant.row::<Capability>(offset, 1), mutant.row::<Capability>(offset, 4));
        mutant.put(place, &receive);
    }),
    ("call to who is less trusted", Kind::Capability, |mutant| {
        let (place, mut row) = mutant.row::<ComponentRow>(mutant.tables().components.offset, 0);
        row.trust = 1;
        mutant.put(place, &row);
        let offset = mutant.tables().capabilities.offset;
        let ((_, call), (place, _)) = (mutant.row::<Capability>(offset, 6), mutant.row::<Capability>(offset, 2));
        mutant.put(place, &call);
    }),
    ("end point of another component", Kind::Row, |mutant| {
        let (place, mut row) = mutant.row::<EndPointRow>(mutant.tables().end_points.offset, 0);
        row.component = 1;
        mutant.put(place, &row);
    }),
    ("thread that takes from another one's end point", Kind::Row, |mutant| threads(mutant, |row| row.end_point = 0)),
    ("a name that a terminal obeys", Kind::Row, |mutant| {
        let (place, row) = mutant.row::<ComponentRow>(mutant.tables().components.offset, 0);
        let mut name = row.name;
        name[0] = 0x1b;
        mutant.put(place, &ComponentRow { name, ..row });
    }),
    ("capability to a foreign thread", Kind::Capability, |mutant| {
        slot(mutant, |slot| {
            *slot = Capability { kind: Object::Thread.number(), rights: 1, object: 2, grant: 1, word: 0 }
        });
    }),
    ("capability of no kind", Kind::Capability, |mutant| slot(mutant, |slot| slot.kind = 15)),
    ("capability of another grant", Kind::Capability, |mutant| slot(mutant, |slot| slot.grant = 2)),
    ("slot 0", Kind::Capability, |mutant| {
        let offset = mutant.tables().capabilities.offset;
        let ((_, given), (place, _)) = (mutant.row::<Capability>(offset, 1), mutant.row::<Capability>(offset, 0));
        mutant.put(place, &given);
    }),
    ("interrupt of two components", Kind::Interrupt, |mutant| {
        let offset = mutant.tables().capabilities.offset;
        let ((_, given), (place, _)) = (mutant.row::<Capability>(offset, 2), mutant.row::<Capability>(offset, 4));
        mutant.put(place, &given);
    }),
    ("interrupt twice", Kind::Interrupt, |mutant| binding(mutant, 0, |row| (row.intid, row.period_ticks) = (30, 1000))),
    ("the kernel's own timer", Kind::Interrupt, |mutant| binding(mutant, 0, |row| row.intid = 27)),
    ("period of a device", Kind::Interrupt, |mutant| binding(mutant, 0, |row| row.period_ticks = 5)),
    ("binding of another server", Kind::Row, |mutant| binding(mutant, 1, |row| row.server = 4)),
    ("binding for somebody else", Kind::Row, |mutant| binding(mutant, 1, |row| row.clients = 0b10)),
    ("binding of nobody's client", Kind::Row, |mutant| binding(mutant, 1, |row| row.default_client = 1)),
    ("entry for callers outside text", Kind::Entry, |mutant| {
        let (place, mut row) = mutant.row::<EntryRow>(mutant.tables().entries.offset, 1);
        row.address = STACK;
        mutant.put(place, &row);
    }),
    ("no empty page below a caller's stack", Kind::Stack, |mutant| {
        let page = mutant.grow();
        let place = mutant.entry(mutant.root(2), GUARD, 3);
        mutant.set(place, mutant.word(place + 8) & !OUTPUT | page);
    }),
    ("one stack for two callers", Kind::Stack, |mutant| {
        let (place, mut row) = mutant.row::<StackRow>(mutant.tables().stacks.offset, 1);
        row.top = COMPONENT_STACKS;
        mutant.put(place, &row);
    }),
    ("one stack too few", Kind::Row, |mutant| callee(mutant, |row| row.stacks = 1)),
    ("stacks of another component", Kind::Row, |mutant| callee(mutant, |row| row.first_stack = 1)),
    ("entries of another component", Kind::Row, |mutant| callee(mutant, |row| row.first_entry = 1)),
    ("unknown policy", Kind::Row, |mutant| callee(mutant, |row| row.on_fault = 3)),
    ("unknown supervisor", Kind::Row, |mutant| callee(mutant, |row| row.supervisor = 1)),
    ("call to an entry that is not there", Kind::Capability, |mutant| {
        call(mutant, |slot| slot.word = entry_word(2, 0))
    }),
    ("call to a component without stacks", Kind::Capability, |mutant| call(mutant, |slot| slot.object = 0)),
    ("call to no component", Kind::Capability, |mutant| call(mutant, |slot| slot.object = 3)),
    ("supervisor of a component that has none", Kind::Capability, |mutant| {
        slot(mutant, |slot| (slot.kind, slot.object) = (bulkhead_kernel_abi::Kind::Component.number(), 1));
    }),
    ("word of a capability that has none", Kind::Capability, |mutant| slot(mutant, |slot| slot.word = 1)),
    ("servers out of order", Kind::Server, |mutant| server(mutant, |row| row.level = 0)),
    ("budget beyond its period", Kind::Server, |mutant| server(mutant, |row| row.budget_ticks = 101)),
    ("unknown rule", Kind::Server, |mutant| server(mutant, |row| row.rule = 5)),
    ("works for nobody", Kind::Server, |mutant| for_others(mutant, |row| row.clients = 0)),
    ("works for a server before it", Kind::Server, |mutant| for_others(mutant, |row| row.clients = 0b1010)),
    ("works for itself", Kind::Server, |mutant| for_others(mutant, |row| row.clients = 0b1100)),
    ("works for who is not there", Kind::Server, |mutant| for_others(mutant, |row| row.clients = 0b1_1000)),
    ("works without a limit", Kind::Server, |mutant| for_others(mutant, |row| row.budget_ticks = 25)),
    ("grant of nothing", Kind::Server, |mutant| for_others(mutant, |row| row.smallest_chunk_ticks = 9)),
    ("the published rule", Kind::Server, |mutant| for_others(mutant, |row| row.flags = 8)),
    ("works behind its client", Kind::Server, |mutant| {
        for_others(mutant, |row| (row.level, row.background) = (3, 255))
    }),
    ("clients of one that has none", Kind::Server, |mutant| server(mutant, |row| row.clients = 0b1000)),
    ("time of another server", Kind::Server, |mutant| server(mutant, |row| row.tcap = 0)),
    ("background before a budget", Kind::Server, |mutant| server(mutant, |row| row.background = 1)),
    ("held by a scheduler", Kind::Scheduler, |mutant| server(mutant, |row| row.holder = 0)),
    ("a part of the time", Kind::Claim, |mutant| {
        let (place, mut row) = mutant.row::<TcapRow>(mutant.tables().tcaps.offset, 1);
        row.left_ticks = 5;
        mutant.put(place, &row);
    }),
    ("thread that nobody pays for", Kind::Claim, |mutant| threads(mutant, |row| (row.server, row.tcap) = (4, 4))),
    ("thread on another one's time", Kind::Claim, |mutant| threads(mutant, |row| row.tcap = 1)),
    ("woken on another one's time", Kind::Claim, |mutant| {
        let (place, mut row) = mutant.row::<EndPointRow>(mutant.tables().end_points.offset, 0);
        row.tcap = 1;
        mutant.put(place, &row);
    }),
    ("pages for DMA elsewhere", Kind::Dma, |mutant| for_dma(mutant, |row| row.physical += 0x1000)),
    ("more pages for DMA than are mapped", Kind::Dma, |mutant| for_dma(mutant, |row| row.pages = 3)),
    ("pages for DMA of another component", Kind::Dma, |mutant| for_dma(mutant, |row| row.component = 0)),
    ("pages for DMA in the kernel", Kind::Dma, |mutant| for_dma(mutant, |row| row.physical = LOAD)),
    ("no pages for DMA", Kind::Dma, |mutant| for_dma(mutant, |row| row.pages = 0)),
    ("fewer pages for DMA than are mapped", Kind::Dma, |mutant| for_dma(mutant, |row| row.pages = 1)),
    ("pages for DMA at another address", Kind::Dma, |mutant| for_dma(mutant, |row| row.address += 0x1000)),
    ("pages for DMA of nobody", Kind::Dma, |mutant| for_dma(mutant, |row| row.component = 99)),
    ("bits in the row of pages for DMA", Kind::Dma, |mutant| for_dma(mutant, |row| row.reaches_all = 1)),
    ("pages for DMA twice", Kind::Dma, |mutant| {
        let (_, row) = mutant.row::<DeviceRow>(mutant.tables().devices.offset, 1);
        device(mutant, |first| *first = DeviceRow { pages: 1, ..row });
    }),
    ("pages for DMA to be read only", Kind::Dma, |mutant| page(mutant, 1, COMPONENT_DMA, READ_ONLY)),
    ("a page for DMA of the kernel", Kind::Reach, |mutant| point(mutant, 1, COMPONENT_DMA, LOAD)),
    ("registers as memory of a component", Kind::Device, |mutant| page(mutant, 0, COMPONENT_DEVICES, 1 << 2 | 3 << 8)),
    ("registers to be read only", Kind::Device, |mutant| page(mutant, 0, COMPONENT_DEVICES, READ_ONLY)),
    ("registers to be executed", Kind::Device, |mutant| page(mutant, 0, COMPONENT_DEVICES, EL0_NEVER)),
    ("registers for all components", Kind::Reach, |mutant| page(mutant, 0, COMPONENT_DEVICES, 1 << 11)),
    ("other registers than the row's", Kind::Device, |mutant| point(mutant, 0, COMPONENT_DEVICES, REGISTERS + 0x1000)),
    ("registers that no row gives", Kind::Device, |mutant| {
        let place = mutant.entry(mutant.root(0), COMPONENT_DEVICES, 3);
        mutant.set(place + 16, mutant.word(place) + 0x1000);
    }),
    ("registers that are not mapped", Kind::Device, |mutant| {
        let place = mutant.entry(mutant.root(0), COMPONENT_DEVICES, 3);
        mutant.set(place, 0);
    }),
    ("registers of another component", Kind::Device, |mutant| device(mutant, |row| row.component = 1)),
    ("registers of the controller", Kind::Device, |mutant| registers(mutant, 0x0800_0000)),
    ("registers of the redistributor", Kind::Device, |mutant| registers(mutant, 0x080a_0000)),
    ("registers of the kernel's console", Kind::Device, |mutant| registers(mutant, 0x0900_0000)),
    ("the information page as registers", Kind::Device, |mutant| registers(mutant, 0x1000_0000)),
    ("the kernel as registers", Kind::Device, |mutant| registers(mutant, LOAD)),
    ("a device without registers", Kind::Device, |mutant| device(mutant, |row| row.pages = 0)),
    ("registers beyond their addresses", Kind::Device, |mutant| device(mutant, |row| row.pages = u32::MAX)),
    ("registers with bits that mean nothing", Kind::Device, |mutant| device(mutant, |row| row.reaches_all = 2)),
    ("edge of another kind", Kind::Row, |mutant| binding(mutant, 0, |row| row.edge = 2)),
    ("binding to no end point", Kind::Row, |mutant| binding(mutant, 1, |row| row.end_point = 1)),
    ("wire that nobody pays for", Kind::Wire, |mutant| wire(mutant, |row| row.server = 4)),
    ("wire that is heard by a binding", Kind::Wire, |mutant| wire(mutant, |row| row.intid = 39)),
    ("wire in both directions", Kind::Wire, |mutant| wire(mutant, |row| row.doorbell = 0)),
    ("wire of no direction", Kind::Wire, |mutant| wire(mutant, |row| row.source = 2)),
    ("wire over registers", Kind::Wire, |mutant| wire(mutant, |row| row.window = REGISTERS)),
    ("wire over the page of another one", Kind::KernelHalf, |mutant| wire(mutant, |row| row.window += 0x1_0000)),
    ("exports of another wire", Kind::Wire, |mutant| wire(mutant, |row| row.first_export = 1)),
    ("export of nobody", Kind::Wire, |mutant| wire(mutant, |row| row.exports = 0)),
    ("export of no end point", Kind::Wire, |mutant| export(mutant, |row| row.end_point = 1)),
    ("export of no bit", Kind::Wire, |mutant| export(mutant, |row| row.bits = 0)),
    ("export of bits that no entry can have", Kind::Wire, |mutant| export(mutant, |row| row.bits = 1 << 48)),
    ("the other end's page of a wire to be written", Kind::KernelHalf, |mutant| kernel(mutant, 0x1012_2000, READ_ONLY)),
    ("a wire's page as memory of the caches", Kind::KernelHalf, |mutant| kernel(mutant, 0x1012_1000, 3 << 2)),
    ("a wire that is taken from to send by", Kind::Capability, |mutant| {
        slot(mutant, |slot| (slot.kind, slot.word) = (bulkhead_kernel_abi::Kind::RemoteSend.number(), 1));
    }),
];

fn page(mutant: &mut Mutant, component: usize, address: u64, bits: u64) {
    let place = mutant.entry(mutant.root(component), address, 3);
    mutant.flip(place, bits);
}

fn kernel(mutant: &mut Mutant, address: u64, bits: u64) {
    let place = mutant.entry(mutant.head().kernel_root, address, 3);
    mutant.flip(place, bits);
}

/// Lets an entry name another page.
fn point(mutant: &mut Mutant, component: usize, address: u64, output: u64) {
    let place = mutant.entry(mutant.root(component), address, 3);
    mutant.set(place, mutant.word(place) & !OUTPUT | output);
}

fn threads(mutant: &mut Mutant, change: impl FnOnce(&mut ThreadRow)) {
    let (place, mut row) = mutant.row(mutant.tables().threads.offset, 1);
    change(&mut row);
    mutant.put(place, &row);
}

fn slot(mutant: &mut Mutant, change: impl FnOnce(&mut Capability)) {
    let (place, mut row) = mutant.row(mutant.tables().capabilities.offset, 2);
    change(&mut row);
    mutant.put(place, &row);
}

fn callee(mutant: &mut Mutant, change: impl FnOnce(&mut ComponentRow)) {
    let (place, mut row) = mutant.row(mutant.tables().components.offset, 2);
    change(&mut row);
    mutant.put(place, &row);
}

fn call(mutant: &mut Mutant, change: impl FnOnce(&mut Capability)) {
    let (place, mut row) = mutant.row(mutant.tables().capabilities.offset, 6);
    change(&mut row);
    mutant.put(place, &row);
}

fn server(mutant: &mut Mutant, change: impl FnOnce(&mut ServerRow)) {
    let (place, mut row) = mutant.row(mutant.tables().servers.offset, 1);
    change(&mut row);
    mutant.put(place, &row);
}

fn for_others(mutant: &mut Mutant, change: impl FnOnce(&mut ServerRow)) {
    let (place, mut row) = mutant.row(mutant.tables().servers.offset, 2);
    change(&mut row);
    mutant.put(place, &row);
}

fn binding(mutant: &mut Mutant, number: usize, change: impl FnOnce(&mut BindingRow)) {
    let (place, mut row) = mutant.row(mutant.tables().bindings.offset, number);
    change(&mut row);
    mutant.put(place, &row);
}

fn wire(mutant: &mut Mutant, change: impl FnOnce(&mut WireRow)) {
    let (place, mut row) = mutant.row(mutant.tables().wires.offset, 0);
    change(&mut row);
    mutant.put(place, &row);
}

fn export(mutant: &mut Mutant, change: impl FnOnce(&mut ExportRow)) {
    let (place, mut row) = mutant.row(mutant.tables().exports.offset, 0);
    change(&mut row);
    mutant.put(place, &row);
}

fn device(mutant: &mut Mutant, change: impl FnOnce(&mut DeviceRow)) {
    let (place, mut row) = mutant.row(mutant.tables().devices.offset, 0);
    change(&mut row);
    mutant.put(place, &row);
}

fn for_dma(mutant: &mut Mutant, change: impl FnOnce(&mut DeviceRow)) {
    let (place, mut row) = mutant.row(mutant.tables().devices.offset, 1);
    change(&mut row);
    mutant.put(place, &row);
}

/// Gives the first component other registers, by its row and by its map.
fn registers(mutant: &mut Mutant, physical: u64) {
    device(mutant, |row| row.physical = physical);
    point(mutant, 0, COMPONENT_DEVICES, physical);
}

fn judge(bytes: &[u8]) -> Vec<Finding> {
    verify(bytes, &expected())
}

/// Of two kernels that may be there, the one that records and the other, the one counts behind which the head is; a third one is refused.
#[test]
fn either_of_two_kernels_is_accepted() {
    let (ours, other) = (expected(), bulkhead_verify_instance::Expected::of(&[1; 4096], 3 * 4096));
    let bytes = sample();
    for both in [ours.or(other), other.or(ours)] {
        assert_eq!(bulkhead_verify_instance::verify(&bytes, &both), []);
        assert!(both.begins(&bytes[..4096]));
    }
    let strange = bulkhead_verify_instance::Expected { text: [0; 32], ..ours };
    for both in [strange.or(other), other.or(strange)] {
        let kinds: Vec<Kind> = bulkhead_verify_instance::verify(&bytes, &both).iter().map(|one| one.kind).collect();
        // By its text, and where its memory ends differently by that too.
        assert!(!kinds.is_empty() && kinds.iter().all(|kind| *kind == Kind::Kernel), "{kinds:?}");
    }
}

#[test]
fn what_the_writer_writes_is_accepted() {
    assert_eq!(judge(&sample()), []);
}

/// CH-61: a component sends by a wire what the other instance exports, and nothing else: an index beyond, bits that are not the export's, and none are refused.
#[test]
fn a_sender_names_an_export() {
    assert_eq!(judge(&sender()), []);
    for word in [remote_word(1, 0b10), remote_word(0, 0b100), remote_word(0, 0b110), remote_word(0, 0), u64::MAX] {
        let mut mutant = Mutant(sender());
        let (place, row) = mutant.row::<Capability>(mutant.tables().capabilities.offset, 4);
        mutant.put(place, &Capability { word, ..row });
        let findings = judge(&mutant.sealed().0);
        assert_eq!(findings.iter().map(|one| one.kind).collect::<Vec<_>>(), [Kind::Capability], "{word:#x}");
    }
}

/// CH-61: what isolates components is in these bytes, and none of it can be missing unseen.
#[test]
fn each_corruption_is_refused_by_its_own_message() {
    let mut messages = BTreeSet::new();
    let parts = [CORRUPTIONS, processes::CORRUPTIONS, ports::CORRUPTIONS, data::CORRUPTIONS, accounts::CORRUPTIONS];
    for (name, kind, change) in parts.into_iter().flatten() {
        let mut mutant = Mutant(sample());
        change(&mut mutant);
        let whole = mutant.0.len() == sample().len() || *kind != Kind::Image;
        let findings = judge(&if whole { mutant.sealed() } else { mutant }.0);
        let found = findings.iter().find(|finding| finding.kind == *kind);
        let message = found.unwrap_or_else(|| panic!("{name}: {findings:?}")).message.clone();
        println!("{name}: {message}");
        assert!(findings.iter().all(|finding| finding.kind != Kind::Checksum), "{name}");
        messages.insert(message);
    }
    assert!(messages.len() >= 30, "{} messages for {} corruptions", messages.len(), CORRUPTIONS.len());
}

/// What was changed on the way, wherever: each page of the image once.
#[test]
fn a_changed_byte_of_any_page_is_refused() {
    let good = sample();
    for page in 0..good.len() / PAGE {
        let mut bytes = good.clone();
        bytes[page * PAGE + 77 * page % PAGE] ^= 1 << (page % 8);
        assert!(!judge(&bytes).is_empty(), "page {page}");
    }
}

/// Every bit of every entry of a translation table that is in use means something to the reader.
#[test]
fn no_bit_of_a_table_can_be_flipped() {
    let good = sample();
    let first = (Mutant(good.clone()).root(0) - LOAD) as usize;
    let places: Vec<usize> =
        (first..good.len()).step_by(8).filter(|place| Mutant(good.clone()).word(*place) != 0).collect();
    // A few hundred of them, by a sequence that repeats.
    let mut seed = 12_345_u64;
    for _ in 0..400 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (place, bit) = (places[(seed >> 33) as usize % places.len()], seed >> 20 & 63);
        let mut mutant = Mutant(good.clone());
        mutant.flip(place, 1 << bit);
        assert!(!judge(&mutant.sealed().0).is_empty(), "bit {bit} of the entry at {place:#x}");
    }
}
