//! A kernel that faults itself leaves an epitaph and asks for a reset: the partition's health policy acts, and nobody else is touched.

use crate::places::{Place, Probes, start};
use crate::refused::{epitaph, head, sign};
use bulkhead_abi::status::{REASON_REQUESTED, STATE_STOPPED};
use bulkhead_kernel_abi::image::{Head, KERNEL_HALF, LOAD};
use bulkhead_run::MachineOptions;
use bulkhead_system_tests::Running;
use core::mem::offset_of;

const UART: u64 = 0x0900_0000;
const CONSOLE_RING: u64 = 0x1001_0000;
/// An epitaph's reason for a synchronous exception of EL1: 256 and the vector's number.
const FAULT_OF_EL1: u64 = 256 + 4;

fn word(image: &[u8], place: usize) -> u64 {
    u64::from_le_bytes(*image[place..].first_chunk().expect("eight bytes"))
}

/// An instance whose kernel maps neither console, with a checksum that is right.
fn without_consoles() -> Vec<u8> {
    let mut image = Probes::of([0]).bytes();
    let head = head(&image);
    let root = word(&image, head + offset_of!(Head, kernel_root));
    for address in [UART, CONSOLE_RING] {
        let step =
            |table: u64, level: u32| (table - LOAD) as usize + (address >> (12 + 9 * (3 - level)) & 511) as usize * 8;
        let next = |image: &[u8], place: usize| word(image, place) & 0x0000_ffff_ffff_f000;
        let second = next(&image, step(root, 1));
        let place = step(next(&image, step(second, 2)), 3);
        assert_ne!(word(&image, place), 0, "{address:#x} was mapped");
        image[place..place + 8].fill(0);
    }
    sign(&mut image);
    image
}

#[test]
fn a_broken_kernel_leaves_an_epitaph_and_asks_for_a_reset() {
    let image = without_consoles();
    let mut board = Running::start(MachineOptions { paused: true, ..MachineOptions::bare(image.clone()) });
    board.resume().unwrap_or_else(|error| panic!("{error}"));
    board.end();
    let found = epitaph(&board, LOAD, head(&image));
    assert_eq!((found.reason, found.syndrome >> 26), (FAULT_OF_EL1, 0x25), "a data abort of EL1");
    assert_eq!(found.address & !0xfff, KERNEL_HALF | UART);

    drop(board);
    let mut partition = start(&image, Place::Mapped);
    partition.end();
    let status = partition.status("kernel");
    // What a policy that names nothing does of it.
    assert_eq!((status.state, status.reason, status.faults), (STATE_STOPPED, REASON_REQUESTED, 1));
    partition.assert_no_crash();
}
