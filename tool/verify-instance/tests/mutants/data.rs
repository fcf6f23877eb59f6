//! Corruptions of what a reset gives a component back. The first one has two pages of data, of which the first one is kept, and a page that outlives a reset.

use crate::sample::Mutant;
use crate::{Corruption, EL0, EL1_NEVER, OUTPUT, READ_ONLY, STACK, kernel, page, point};
use bulkhead_kernel_abi::boot::DataRow;
use bulkhead_kernel_abi::image::{COMPONENT_TEXT, LOAD};
use bulkhead_verify_instance::Kind;

pub(crate) const CORRUPTIONS: &[Corruption] = &[
    ("a copy that is another one", Kind::Data, |mutant| byte(mutant, |row| row.kept + 0x123)),
    ("data that begins otherwise than its copy", Kind::Data, |mutant| byte(mutant, |row| row.physical + 0x123)),
    ("data that begins as zeros and is none", Kind::Data, |mutant| byte(mutant, |row| row.physical + 0x1123)),
    ("data that outlives a reset and is not zero", Kind::Data, |mutant| {
        let place = row(mutant, 1, |_| ()).physical - LOAD;
        mutant.flip(place as usize, 1);
    }),
    ("a page that no reset restores", Kind::Data, |mutant| data(mutant, |row| row.pages = 1)),
    ("a page behind the data", Kind::Data, |mutant| data(mutant, |row| row.pages = 3)),
    ("no page", Kind::Data, |mutant| data(mutant, |row| row.pages = 0)),
    ("more pages kept than there are", Kind::Data, |mutant| data(mutant, |row| row.kept_pages = 3)),
    ("a copy of nothing", Kind::Data, |mutant| data(mutant, |row| row.kept_pages = 0)),
    ("a copy outside the image", Kind::Data, |mutant| data(mutant, |row| row.kept = 0x0900_0000)),
    ("a copy in the kernel", Kind::Data, |mutant| data(mutant, |row| row.kept = LOAD)),
    ("a copy that the component writes", Kind::Shared, |mutant| data(mutant, |row| row.kept = row.physical)),
    ("data of another component", Kind::Data, |mutant| data(mutant, |row| row.component = 1)),
    ("data of nobody", Kind::Data, |mutant| data(mutant, |row| row.component = 9)),
    ("data of two rows", Kind::Data, |mutant| {
        let first = row(mutant, 0, |_| ());
        row(mutant, 1, |row| *row = first);
    }),
    ("restored and not", Kind::Data, |mutant| data(mutant, |row| row.outlives = 1)),
    ("neither restored nor not", Kind::Data, |mutant| data(mutant, |row| row.outlives = 2)),
    ("bits of a row", Kind::Data, |mutant| data(mutant, |row| row.reserved = 1)),
    ("a stack that a reset clears", Kind::Data, |mutant| {
        let stack = mutant.word(mutant.entry(mutant.root(0), STACK, 3)) & OUTPUT;
        row(mutant, 1, |row| row.physical = stack);
    }),
    ("constants that can be written", Kind::Data, |mutant| page(mutant, 2, COMPONENT_TEXT + 0x1000, READ_ONLY)),
    ("what outlives a reset in the kernel's half", Kind::KernelHalf, |mutant| {
        row(mutant, 1, |row| row.outlives = 0);
    }),
    ("data that the kernel cannot restore", Kind::KernelHalf, |mutant| {
        of_kernel(mutant, |row| row.physical, READ_ONLY)
    }),
    ("data that the kernel executes", Kind::WritableExecutable, |mutant| {
        of_kernel(mutant, |row| row.physical, EL1_NEVER)
    }),
    ("data in the kernel's half for all", Kind::KernelHalf, |mutant| of_kernel(mutant, |row| row.physical, EL0)),
    ("a copy that the kernel writes", Kind::KernelHalf, |mutant| of_kernel(mutant, |row| row.kept, READ_ONLY)),
    ("a copy in a component", Kind::Shared, |mutant| {
        let kept = row(mutant, 0, |_| ()).kept;
        point(mutant, 1, STACK, kept);
    }),
];

/// Changes a row, and returns what it is then.
fn row(mutant: &mut Mutant, number: usize, change: impl FnOnce(&mut DataRow)) -> DataRow {
    let (place, mut row) = mutant.row(mutant.tables().data.offset, number);
    change(&mut row);
    mutant.put(place, &row);
    row
}

/// The row of what is restored.
fn data(mutant: &mut Mutant, change: impl FnOnce(&mut DataRow)) {
    row(mutant, 0, change);
}

/// Changes a byte of the image.
fn byte(mutant: &mut Mutant, address: fn(&DataRow) -> u64) {
    let place = address(&row(mutant, 0, |_| ())) - LOAD;
    mutant.flip(place as usize, 1);
}

/// Changes how the kernel's half maps a page.
fn of_kernel(mutant: &mut Mutant, address: fn(&DataRow) -> u64, bits: u64) {
    let address = address(&row(mutant, 0, |_| ()));
    kernel(mutant, address, bits);
}
