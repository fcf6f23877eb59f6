//! Corruptions of the accounts, which the sample's first component reads.

use crate::sample::{HEAD, Mutant};
use crate::{Corruption, EL0_NEVER, OUTPUT, READ_ONLY, page, point};
use bulkhead_kernel_abi::boot::ComponentRow;
use bulkhead_kernel_abi::image::{COMPONENT_ACCOUNTS, COMPONENT_TEXT, LOAD};
use bulkhead_verify_instance::Kind;

pub(crate) const CORRUPTIONS: &[Corruption] = &[
    ("accounts to be written", Kind::Accounts, |mutant| page(mutant, 0, COMPONENT_ACCOUNTS, READ_ONLY)),
    ("accounts to be executed", Kind::Accounts, |mutant| page(mutant, 0, COMPONENT_ACCOUNTS, EL0_NEVER)),
    ("other pages of the kernel as accounts", Kind::Accounts, |mutant| {
        point(mutant, 0, COMPONENT_ACCOUNTS, LOAD + HEAD as u64 - 0x1000);
    }),
    ("a component's page as accounts", Kind::Accounts, |mutant| {
        let text = mutant.word(mutant.entry(mutant.root(0), COMPONENT_TEXT, 3)) & OUTPUT;
        point(mutant, 0, COMPONENT_ACCOUNTS, text);
    }),
    ("half of the accounts", Kind::Accounts, |mutant| {
        let place = mutant.entry(mutant.root(0), COMPONENT_ACCOUNTS + 0x1000, 3);
        mutant.set(place, 0);
    }),
    ("accounts of who has them not", Kind::Accounts, |mutant| row(mutant, 0)),
    ("accounts of a second life", Kind::Row, |mutant| row(mutant, 2)),
    ("a page behind the accounts", Kind::Reach, |mutant| {
        let place = mutant.entry(mutant.root(0), COMPONENT_ACCOUNTS + 0x1000, 3);
        mutant.set(place + 8, mutant.word(place));
    }),
];

fn row(mutant: &mut Mutant, accounts: u16) {
    let (place, mut row) = mutant.row::<ComponentRow>(mutant.tables().components.offset, 0);
    row.accounts = accounts;
    mutant.put(place, &row);
}
