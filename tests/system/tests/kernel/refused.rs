//! An instance that is not what its writer wrote does not start: no table of it is used, nothing is printed, and the machine goes off.

use crate::places::{Place, Probes, run};
use crate::watched::accounts;
use bulkhead_abi::PhysicalAddress;
use bulkhead_kernel_abi::image::{EPITAPH_MAGIC, Epitaph, Head, KERNEL_HALF, LOAD, MAGIC};
use bulkhead_run::MachineOptions;
use bulkhead_system_tests::Running;
use bulkhead_system_tests::kernel::chaos::{YIELDS, subsystem};
use bulkhead_system_tests::system::guest;
use core::mem::offset_of;
use core::ops::Range;
use zerocopy::FromBytes;

/// Where the head is in an image.
pub(crate) fn head(image: &[u8]) -> usize {
    let found = image.chunks(4096).position(|page| page.starts_with(&MAGIC.to_le_bytes()));
    found.expect("an instance has a head") * 4096
}

/// Writes the checksum that an image has to have.
pub(crate) fn sign(image: &mut [u8]) {
    let place = head(image) + offset_of!(Head, checksum);
    let crc = crc32c::crc32c_append(crc32c::crc32c(&image[..place]), &image[place + 8..]);
    image[place..place + 8].copy_from_slice(&u64::from(crc).to_le_bytes());
}

/// Why the kernel refused an image, from its epitaph.
fn reason(image: &[u8], kernel_end: usize) -> u64 {
    // It ends sooner than a host may have connected to the machine.
    let mut machine = Running::start(MachineOptions { paused: true, ..MachineOptions::bare(image.to_vec()) });
    machine.resume().unwrap_or_else(|error| panic!("{error}"));
    machine.end();
    assert_eq!(machine.serial_text(), b"");
    epitaph(&machine, LOAD, kernel_end).reason
}

/// The epitaph of a kernel that was loaded there.
pub(crate) fn epitaph(machine: &Running, load: u64, kernel_end: usize) -> Epitaph {
    let word = |offset: usize| machine.ram().load_u64(PhysicalAddress(load + offset as u64)).expect("it is RAM");
    // The last one: text has the magic, too.
    let found = (0..kernel_end).step_by(8).rev().find(|offset| word(*offset) == EPITAPH_MAGIC);
    let place = found.expect("an epitaph");
    let mut bytes = [0; size_of::<Epitaph>()];
    bytes
        .chunks_mut(8)
        .zip((place..).step_by(8))
        .for_each(|(to, place)| to.copy_from_slice(&word(place).to_le_bytes()));
    Epitaph::read_from_bytes(&bytes).expect("its size")
}

#[test]
fn a_changed_byte_is_refused_before_anything_is_used() {
    let image = Probes::of([0]).bytes();
    let head = head(&image);
    let last = image.len() - 4096;
    let changes = [
        (head, 1),
        (head + offset_of!(Head, abi_version), 2),
        (head + offset_of!(Head, image_bytes), 3),
        (head + offset_of!(Head, image_bytes) + 7, 3),
        (head + offset_of!(Head, checksum), 4),
        (head + offset_of!(Head, kernel_root), 4),
        // The kernel's own last constants, the boot tables, a component's text, the last table.
        (0x2000, 4),
        (head + 4096 + 40, 4),
        (head + 2 * 4096 + 100, 4),
        (last, 4),
    ];
    for (offset, expected) in changes {
        let mut changed = image.clone();
        changed[offset] ^= 0x10;
        assert_eq!(reason(&changed, head), expected, "byte {offset:#x}");
    }
    assert_eq!(run(&image, Place::Board).len(), 1);
}

/// Where the kernel's own memory is in an image: what its file has that is written and that no byte of the file is for.
fn own_memory(head: usize) -> Range<usize> {
    let kernel = guest("kernel/kernel.elf");
    let word = |place: usize| u64::from_le_bytes(*kernel[place..].first_chunk().expect("eight bytes"));
    let (headers, count) = (word(0x20) as usize, usize::from(kernel[0x38]));
    // Type and flags (bit 1 of them: written), and the address.
    let written = (0..count).map(|number| headers + number * 56).filter(|at| word(*at) >> 33 & 1 == 1);
    let start = written.map(|at| word(at + 16)).min().expect("it writes something");
    (start - (KERNEL_HALF | LOAD)) as usize..head
}

/// CH-50, QV-41: whatever is in RAM where the kernel's memory is to be, it begins as zeros (`boot.s`): an image with rubbish there, and a checksum that is right, does the same as one with zeros. One has tasks of ChaosRT,
/// so its claims on time are used; the other one says what the kernel has counted.
#[test]
fn rubbish_in_the_kernels_memory_is_gone_when_it_begins() {
    for image in [subsystem(0, &[(YIELDS, 20, 3), (YIELDS, 20, 3)]), accounts(0).laid().bytes] {
        let memory = own_memory(head(&image));
        let is_zero = image[memory.clone()].iter().all(|byte| *byte == 0);
        assert!(memory.len() > 0x2_0000 && is_zero, "{memory:#x?}");
        let expected = [Place::Board, Place::Direct].map(|place| run(&image, place));
        assert!(expected.iter().all(|said| said.len() >= 3), "{expected:?}");
        for rubbish in [u64::MAX, 0xa5a5_a5a5_a5a5_a5a5, 0x0101_0101_0101_0101] {
            let mut spoilt = image.clone();
            spoilt[memory.clone()].chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&rubbish.to_le_bytes()));
            sign(&mut spoilt);
            let said = [Place::Board, Place::Direct].map(|place| run(&spoilt, place));
            assert_eq!(said, expected, "{rubbish:#x}");
        }
    }
}

/// An image that was loaded elsewhere: all its addresses would be wrong.
#[test]
fn an_image_at_another_place_is_refused() {
    let image = Probes::of([0]).bytes();
    let mut moved = image.clone();
    // Where an arm64 Image says how far behind a multiple of 2 MiB it is to be loaded.
    moved[8..16].copy_from_slice(&0x10_0000_u64.to_le_bytes());
    let mut machine = Running::start(MachineOptions { paused: true, ..MachineOptions::bare(moved) });
    machine.resume().unwrap_or_else(|error| panic!("{error}"));
    machine.end();
    assert_eq!((machine.serial_text(), epitaph(&machine, LOAD + 0x8_0000, head(&image)).reason), (&b""[..], 6));
}
