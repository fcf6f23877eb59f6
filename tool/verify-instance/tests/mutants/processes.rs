//! Corruptions of what can be made at run time: the pool, quotas, and programs of processes.

use crate::sample::{Mutant, PAGE, TABLES};
use crate::{Corruption, EL0, EL1_NEVER, OUTPUT, READ_ONLY, STACK, kernel, page, point};
use bulkhead_kernel_abi::Capability;
use bulkhead_kernel_abi::boot::{BootHeader, ComponentRow, ProgramRow, QuotaRow, SegmentRow};
use bulkhead_kernel_abi::image::LOAD;
use bulkhead_verify_instance::Kind;
use core::mem::offset_of;

pub(crate) const CORRUPTIONS: &[Corruption] = &[
    ("quota beyond the pool", Kind::Quota, |mutant| quota(mutant, |row| row.pages += 1)),
    ("pages of no quota", Kind::Quota, |mutant| quota(mutant, |row| row.pages -= 1)),
    ("quota of nobody", Kind::Quota, |mutant| quota(mutant, |row| row.component = 3)),
    ("quota of more components than there can be", Kind::Quota, |mutant| quota(mutant, |row| row.components = 62)),
    ("quota of more threads than there can be", Kind::Quota, |mutant| quota(mutant, |row| row.threads = 62)),
    ("quota of what is not split", Kind::Quota, |mutant| quota(mutant, |row| row.tcaps = 1)),
    ("quota of a program that is not there", Kind::Quota, |mutant| quota(mutant, |row| row.programs |= 1 << 1)),
    ("quota of the last program of all", Kind::Quota, |mutant| quota(mutant, |row| row.programs |= 1 << 31)),
    ("a pool that is not zero", Kind::Pool, |mutant| {
        let place = (pool(mutant) - LOAD) as usize;
        mutant.flip(place + 5 * PAGE, 1);
    }),
    ("a pool outside the image", Kind::Pool, |mutant| {
        let place = TABLES + offset_of!(BootHeader, pool_address);
        mutant.set(place, mutant.word(place) + (1 << 30));
    }),
    ("a pool over the boot tables", Kind::Pool, |mutant| {
        mutant.set(TABLES + offset_of!(BootHeader, pool_address), LOAD + TABLES as u64);
    }),
    ("places of registers that are not zero", Kind::FloatingPoint, |mutant| {
        let place = (mutant.tables().floating_point_address - LOAD) as usize;
        mutant.flip(place + 528, 1);
    }),
    ("a thread without a place for its registers", Kind::FloatingPoint, |mutant| {
        let place = TABLES + offset_of!(BootHeader, floating_point_threads);
        mutant.flip(place, 0x40 ^ 0x3f);
    }),
    ("places of registers for nobody", Kind::FloatingPoint, |mutant| {
        let (place, mut row) = mutant.row::<ComponentRow>(mutant.tables().components.offset, 0);
        row.floating_point = 0;
        mutant.put(place, &row);
    }),
    ("places of registers over the pool", Kind::Program, |mutant| {
        let pool = pool(mutant);
        mutant.set(TABLES + offset_of!(BootHeader, floating_point_address), pool);
    }),
    ("places of registers in a component", Kind::Shared, |mutant| {
        let places = mutant.tables().floating_point_address;
        point(mutant, 0, STACK, places);
    }),
    ("places of registers that are not mapped", Kind::KernelHalf, |mutant| {
        let place = mutant.entry(mutant.head().kernel_root, mutant.tables().floating_point_address, 3);
        mutant.set(place, 0);
    }),
    ("program with bits that mean nothing", Kind::Program, |mutant| program(mutant, |row| row.floating_point = 2)),
    ("page of the pool in a component", Kind::Shared, |mutant| {
        let pool = pool(mutant);
        point(mutant, 0, STACK, pool);
    }),
    ("page of the pool executable", Kind::WritableExecutable, |mutant| in_pool(mutant, EL1_NEVER)),
    ("page of the pool for EL0", Kind::KernelHalf, |mutant| in_pool(mutant, EL0)),
    ("page of the pool read-only", Kind::KernelHalf, |mutant| in_pool(mutant, READ_ONLY)),
    ("page of the pool that is not mapped", Kind::KernelHalf, |mutant| {
        let place = mutant.entry(mutant.head().kernel_root, pool(mutant), 3);
        mutant.set(place, 0);
    }),
    ("writable and executable program", Kind::Program, |mutant| data(mutant, |row| row.rights |= 1 << 2)),
    ("program without a right to read", Kind::Program, |mutant| data(mutant, |row| row.rights = 2)),
    ("program's data written by the kernel", Kind::KernelHalf, |mutant| {
        let physical = segment(mutant, 1, |_| ()).physical;
        kernel(mutant, physical, READ_ONLY);
    }),
    ("program's text in a component", Kind::Shared, |mutant| {
        let text = segment(mutant, 0, |_| ()).physical;
        page(mutant, 0, STACK, READ_ONLY);
        point(mutant, 0, STACK, text);
    }),
    ("program's text in the kernel", Kind::KernelHalf, |mutant| {
        let text = segment(mutant, 0, |_| ()).physical;
        let place = mutant.entry(mutant.head().kernel_root, text, 3);
        mutant.set(place, mutant.word(place + 8) & !OUTPUT | text);
    }),
    ("program over another segment", Kind::Program, |mutant| data(mutant, |row| row.address -= 0x1000)),
    ("program in the boot tables", Kind::Program, |mutant| data(mutant, |row| row.physical = LOAD + TABLES as u64)),
    ("program over the pool", Kind::Program, |mutant| {
        let pool = pool(mutant);
        data(mutant, |row| row.physical = pool);
    }),
    ("program beyond its addresses", Kind::Program, |mutant| data(mutant, |row| row.pages = u32::MAX)),
    ("program that begins in its data", Kind::Program, |mutant| program(mutant, |row| row.entry += 0x1000)),
    ("program without a stack", Kind::Program, |mutant| program(mutant, |row| row.stack_pages = 0)),
    ("program that takes more than it says", Kind::Program, |mutant| program(mutant, |row| row.pages -= 1)),
    ("program without its data", Kind::Program, |mutant| program(mutant, |row| row.segments = 1)),
    ("program without segments", Kind::Program, |mutant| program(mutant, |row| row.segments = 9)),
    ("program of another version", Kind::Program, |mutant| {
        let text = segment(mutant, 0, |_| ()).physical;
        mutant.flip((text - LOAD) as usize + 8, 2);
    }),
    ("quota of another component", Kind::Capability, |mutant| {
        let offset = mutant.tables().capabilities.offset;
        let ((_, given), (place, _)) = (mutant.row::<Capability>(offset, 7), mutant.row::<Capability>(offset, 4));
        mutant.put(place, &given);
    }),
    ("quota that is not there", Kind::Capability, |mutant| {
        let (place, mut row) = mutant.row::<Capability>(mutant.tables().capabilities.offset, 7);
        row.object = 1;
        mutant.put(place, &row);
    }),
];

fn pool(mutant: &Mutant) -> u64 {
    mutant.tables().pool_address
}

/// Changes bits of how the kernel's half maps the pool.
fn in_pool(mutant: &mut Mutant, bits: u64) {
    let pool = pool(mutant);
    kernel(mutant, pool, bits);
}

fn quota(mutant: &mut Mutant, change: impl FnOnce(&mut QuotaRow)) {
    let (place, mut row) = mutant.row(mutant.tables().quotas.offset, 0);
    change(&mut row);
    mutant.put(place, &row);
}

fn program(mutant: &mut Mutant, change: impl FnOnce(&mut ProgramRow)) {
    let (place, mut row) = mutant.row(mutant.tables().programs.offset, 0);
    change(&mut row);
    mutant.put(place, &row);
}

/// Changes a segment, and returns what it is then.
fn segment(mutant: &mut Mutant, number: usize, change: impl FnOnce(&mut SegmentRow)) -> SegmentRow {
    let (place, mut row) = mutant.row(mutant.tables().segments.offset, number);
    change(&mut row);
    mutant.put(place, &row);
    row
}

/// The data.
fn data(mutant: &mut Mutant, change: impl FnOnce(&mut SegmentRow)) {
    segment(mutant, 1, change);
}
