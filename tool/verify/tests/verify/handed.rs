//! Console input that one core hands over to another: who does, and to whom, agree, and see each other's counts without writing them.

use crate::hybrid::{flash, monitor, verify};
use crate::support::Editor;
use bulkhead_abi::Part;
use bulkhead_plan::layout::AreaKind;
use bulkhead_plan::samples;
use bulkhead_verify::Code;

/// Cores of the partition that hands over, and of the one to which it does.
const GIVER: usize = 1;
const DRIVE: usize = 3;
const UART: u64 = 0x0900_0000;
/// A level-3 descriptor's AP[2]: no writes.
const READ_ONLY: u64 = 1 << 7;

type Change = fn(&mut Editor);

const MUTANTS: &[(&str, Code, Change)] = &[
    ("nobody hands over", Code::ConsoleInput, |image| {
        let own = status(image, 1);
        image.core(GIVER, |plan| (plan.handed_status, plan.handed_mpidr) = (own, 0));
    }),
    ("taken from somebody else", Code::ConsoleInput, |image| {
        let other = status(image, 0);
        image.core(DRIVE, |plan| plan.handed_status = other);
    }),
    ("handed over to a page of nobody", Code::ConsoleInput, |image| {
        image.core(GIVER, |plan| plan.handed_status.0 += 0x10_0000);
    }),
    ("the UART set up by the core of a `direct` guest", Code::ConsoleInput, |image| {
        image.core(DRIVE, |plan| plan.uart_first = 1);
    }),
    ("no page at all", Code::ConsoleInput, |image| image.core(0, |plan| plan.handed_status.0 = 0)),
    ("a kick of another core", Code::ConsoleInput, |image| image.core(GIVER, |plan| plan.handed_mpidr = 2)),
    ("the kicked one kicks", Code::ConsoleInput, |image| image.core(DRIVE, |plan| plan.handed_mpidr = 1)),
    ("the interrupt leaves the core that hands it over", Code::ConsoleInput, |image| {
        image.core(GIVER, |plan| plan.uart_next_mpidr = 0);
    }),
    ("the interrupt goes to the guest's core", Code::ConsoleInput, |image| {
        image.core(GIVER, |plan| plan.uart_next_mpidr = 3);
    }),
    ("handed over at boot", Code::ConsoleInput, |image| {
        image.core(0, |plan| plan.uart_first = 0);
        image.core(DRIVE, |plan| plan.uart_first = 1);
    }),
    ("handed over to a guest without its interrupts", Code::ConsoleInput, |image| {
        let other = status(image, 1);
        image.core(0, |plan| (plan.handed_status, plan.handed_mpidr, plan.uart_next_mpidr) = (other, 1, 0));
    }),
    ("no UART for the kicked one", Code::ConsoleInput, |image| image.core(DRIVE, |plan| plan.uart.0 = 0)),
    ("counts of the other one that can be written", Code::El2Rights, |image| {
        let (root, page) = (image.el2_root(GIVER), image.at(AreaKind::Status(2)));
        image.change(root, page, |entry| entry & !READ_ONLY);
    }),
    ("counts of the other one that are not mapped", Code::El2Missing, |image| {
        let (root, page) = (image.el2_root(DRIVE), image.at(AreaKind::Status(1)));
        image.change(root, page, |_| 0);
    }),
    ("a UART that is not mapped", Code::El2Missing, |image| {
        let root = image.el2_root(DRIVE);
        image.change(root, UART, |_| 0);
    }),
];

fn status(image: &Editor, partition: usize) -> bulkhead_abi::PhysicalAddress {
    image.header.partitions[partition].status
}

fn image() -> Editor {
    Editor::with(&samples::hybrid_with_consoles(), &monitor(Part::Hybrid))
}

fn file(image: Editor) -> Vec<u8> {
    flash(&samples::hybrid_with_consoles(), &image.finish(), &[])
}

#[test]
fn input_that_is_handed_over_is_accepted() {
    let verdict = verify(&file(image()));
    assert!(verdict.is_accepted(), "{:?}", verdict.findings);
}

#[test]
fn each_change_of_who_hands_over_gets_its_code() {
    for (name, code, change) in MUTANTS {
        let mut image = image();
        change(&mut image);
        let verdict = verify(&file(image));
        assert!(verdict.has(*code), "{name}: {:?}", verdict.findings);
    }
}
