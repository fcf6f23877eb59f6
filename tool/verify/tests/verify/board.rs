//! Facts of the board: a system with two banks of RAM that end where physical addresses do, and what must not be changed in its image.

use crate::mutants::{Mutant, complaint};
use crate::support::*;
use bulkhead_abi::image::RamBank;
use bulkhead_image::assemble;
use bulkhead_plan::model::{Bank, CoreType, InterruptMode, System};
use bulkhead_plan::samples::FAR_END;
use bulkhead_plan::{AreaKind, samples};
use bulkhead_verify::Code;

const PAGE: u64 = 4096;
const GUEST_RAM: u64 = 0x4000_0000;
/// VTCR_EL2.PS and TCR_EL2.PS of 44 bits, changed into that of 48.
const PS_44_TO_48: u64 = 1 << 16;

/// Changes the address size of 44 bits everywhere into another one, which the registers say as `value`.
fn resize(image: &mut Editor, bits: u32, value: u64) {
    let change = |register: &mut u64| *register = *register & !(7 << 16) | value << 16;
    image.header.physical_address_bits = bits;
    change(&mut image.header.tcr);
    (0..2).for_each(|core| image.core(core, |plan| change(&mut plan.vtcr)));
}

#[rustfmt::skip]
pub(crate) const BOARD_MUTANTS: &[Mutant] = &[
    ("three security states", Code::Board, |image| image.header.security_states = 3),
    ("no security state", Code::Board, |image| image.header.security_states = 0),
    ("physical addresses of 41 bits", Code::Board, |image| image.header.physical_address_bits = 41),
    ("RAM beyond physical addresses", Code::Board, |image| resize(image, 42, 3)),
    ("partition beyond physical addresses", Code::Table, |image| resize(image, 42, 3)),
    ("more bits than a Cortex-A72 has", Code::CoreType, |image| resize(image, 48, 5)),
    ("unknown type of core", Code::CoreType, |image| image.header.cores[1].midr = 0x4100_d0b0),
    ("no type of core", Code::CoreType, |image| image.header.cores[1].midr = 0),
    ("type of core with its revision", Code::CoreType, |image| image.header.cores[0].midr |= 3),
    ("type of core with fewer bits", Code::CoreType, |image| image.header.cores[0].midr = 0x4100_d030),
    ("TCR_EL2 with another physical size", Code::Tcr, |image| image.header.tcr ^= PS_44_TO_48),
    ("TCR_EL2 with ignored top bytes", Code::Tcr, |image| image.header.tcr |= 1 << 20),
    ("TCR_EL2 with uncached walks", Code::Tcr, |image| image.header.tcr &= !(3 << 8)),
    ("TCR_EL2 with addresses of 38 bits", Code::Tcr, |image| image.header.tcr = image.header.tcr & !0x3f | 26),
    ("TCR_EL2 with addresses of 52 bits", Code::Tcr, |image| image.header.tcr = image.header.tcr & !0x3f | 12),
    ("TCR_EL2 that begins a level too low", Code::Table, |image| image.header.tcr = image.header.tcr & !0x3f | 25),
    ("TCR_EL2 with a root shorter than its entries", Code::Table, |image| image.header.tcr += 1),
    ("device memory made cacheable", Code::Tcr, |image| image.header.mair |= 0xff),
    ("VTCR_EL2 with another physical size", Code::Vtcr, |image| image.core(0, |plan| plan.vtcr ^= PS_44_TO_48)),
    ("VTCR_EL2 with guest addresses of 40 bits", Code::Vtcr, |image| image.core(0, |plan| plan.vtcr -= 1)),
    ("entry behind a root of level 0", Code::Table, |image| {
        let (root, first) = (image.el2_root(0), image.entry(image.el2_root(0), 0, 0));
        image.set(root, FAR_END, 0, first + PAGE);
    }),
    ("block of 512 GiB", Code::Table, |image| {
        let root = image.el2_root(0);
        image.set(root, 1 << 39, 0, 1 << 39 | EL2_DATA_BLOCK);
    }),
    ("guest RAM beyond 44 bits", Code::Table, |image| {
        let root = image.guest_root(0);
        let block = image.entry(root, GUEST_RAM, 2);
        image.set(root, GUEST_RAM, 2, block | FAR_END);
    }),
    ("EL2 page beyond 44 bits", Code::Table, |image| {
        let (root, data) = (image.el2_root(0), image.at(AreaKind::Data(0)));
        image.change(root, data, |entry| entry | FAR_END);
    }),
    ("banks in another order", Code::HeaderLayout, |image| image.header.banks.swap(0, 1)),
    ("banks that overlap", Code::HeaderLayout, |image| image.header.banks[1].start = image.header.banks[0].start),
    ("bank that is no whole page", Code::HeaderLayout, |image| image.header.banks[1].bytes -= 8),
    ("five banks", Code::HeaderLayout, |image| image.header.bank_count = 5),
    ("bank behind the count", Code::Leftover, |image| image.header.banks[2] = image.header.banks[1]),
    ("bank of a partition left out", Code::RamPlace, |image| {
        image.header.bank_count = 1;
        image.header.banks[1] = RamBank::default();
        image.header.reserved_count = 1;
        image.header.reserved[1] = RamBank::default();
    }),
    ("reserved memory outside RAM", Code::HeaderLayout, |image| image.header.reserved[0].start.0 -= 256 << 20),
    ("reserved memory behind the count", Code::Leftover, |image| image.header.reserved_count = 1),
    ("monitor over reserved memory", Code::MonitorOutsideRam, |image| image.header.reserved[0].start = image.header.plan),
    ("RAM of a partition over reserved memory", Code::RamPlace, |image| {
        image.header.reserved[1].start.0 += 4 << 20;
    }),
    ("reserved memory in a guest's map", Code::RamMapping, |image| {
        let reserved = image.header.reserved[1].start.0;
        image.add_guest_page(0, reserved, GUEST_READ_PAGE);
    }),
    ("reserved memory in a monitor's map", Code::UnknownMapped, |image| {
        let (root, reserved) = (image.el2_root(0), image.header.reserved[0].start.0);
        image.set(root, reserved, 2, reserved | EL2_DATA_BLOCK | READ_ONLY);
    }),
];

#[test]
fn every_mutant_of_the_board_is_refused_with_its_code() {
    let base = Editor::far();
    let complaints = BOARD_MUTANTS.iter().filter_map(|(what, code, change)| {
        let mut image = base.clone();
        change(&mut image);
        complaint(what, *code, &image.finish())
    });
    assert_eq!(complaints.collect::<Vec<_>>(), Vec::<String>::new());
}

fn findings(system: &System) -> Vec<bulkhead_verify::Finding> {
    verify_bytes(&assemble(system, &samples::monitor()).unwrap().bytes).findings
}

/// RAM, and with it stage 2 and the identity map, up to the last page of 44 bits.
#[test]
fn memory_is_accepted_up_to_the_last_address() {
    let image = Editor::far();
    assert_eq!((image.header.tcr & 0x3f, image.header.tcr >> 16 & 7), (64 - 44, 4));
    let ram = image.layout.area(AreaKind::Ram(1)).unwrap();
    assert_eq!(ram.end(), FAR_END);
    assert_eq!(image.entry(image.el2_root(1), FAR_END - PAGE, 2) & 0xfff_ffff_f000, FAR_END - (2 << 20));
    assert_eq!(image.entry(image.guest_root(1), GUEST_RAM + (2 << 20), 2) & 0xfff_ffff_f000, FAR_END - (2 << 20));
    assert_eq!(findings(&samples::far()), []);
}

/// The interrupt controller and a device of a `direct` guest at the end of 44 bits, with all RAM below 512 GiB.
#[test]
fn registers_are_accepted_up_to_the_last_address() {
    let mut system = samples::far();
    system.board.banks.truncate(1);
    system.board.reserved.truncate(1);
    system.memory_bytes = 1 << 30;
    system.partitions[1].physical_ram = None;
    assert_eq!(system.board.el2_address_bits(), 39);
    system.board.devices[0].address.0 = FAR_END - PAGE;
    system.partitions[1].devices = vec![0];
    system.partitions[1].device_routes = vec![bulkhead_plan::model::Route::default()];
    system.partitions[1].mode = InterruptMode::Direct;
    assert_eq!(system.board.el2_address_bits(), 39, "the monitor maps no device of a guest");
    assert_eq!(findings(&system), []);
    for (core, frame) in system.board.gicr.iter_mut().enumerate() {
        frame.0 = FAR_END - 0x20_0000 + core as u64 * 0x2_0000;
    }
    assert_eq!(system.board.el2_address_bits(), 44);
    assert_eq!(findings(&system), []);
}

/// As many bits as are needed, and 39 where these suffice: the tables of a small board are those that they were.
#[test]
fn the_map_of_el2_has_as_many_bits_as_memory_needs() {
    for (end, bits) in
        [(1 << 39, 39), ((1 << 39) + (1 << 30), 40), (1 << 40, 40), (1 << 42, 42), (1 << 44, 44), (1 << 48, 48)]
    {
        let mut system = samples::far();
        system.board.physical_address_bits = if bits > 44 { 48 } else { 44 };
        system.board.banks[1] = Bank { start: physical(end - (1 << 30)), bytes: 1 << 30 };
        system.board.reserved.truncate(1);
        system.partitions[1].physical_ram = Some(physical(end - (4 << 20)));
        let image = Editor::of(&system);
        assert_eq!(image.header.tcr & 0x3f, 64 - bits, "RAM up to {end:#x}");
        // No core that is known has more than 44.
        let found: Vec<Code> = findings(&system).iter().map(|finding| finding.code).collect();
        assert_eq!(found, vec![Code::CoreType; if bits > 44 { 2 } else { 0 }], "RAM up to {end:#x}");
    }
}

/// A machine with less RAM than its board can have: what is reserved beyond it is not in the header.
#[test]
fn what_is_reserved_beyond_the_machines_ram_is_left_out() {
    let mut system = samples::far();
    system.partitions[1].physical_ram = None;
    for (bytes, expected) in
        [(2u64 << 30, vec![2u64 << 20, 4 << 20]), (1 << 30, vec![2 << 20]), (65 << 20, vec![1 << 20])]
    {
        system.memory_bytes = bytes;
        let image = Editor::of(&system);
        assert_eq!(image.header.reserved().iter().map(|one| one.bytes).collect::<Vec<_>>(), expected);
        assert_eq!(findings(&system), [], "{bytes:#x} bytes of RAM");
    }
}

/// Cores of both types: an address has as many bits as the smaller one takes.
#[test]
fn two_types_of_cores_are_accepted() {
    let mut system = samples::system(vec![samples::native("small", &[0]), samples::native("large", &[1])], vec![]);
    system.board.core_types[1] = CoreType::named("cortex-a72");
    assert_eq!(findings(&system), []);
}
