//! Where guest images go.

use bulkhead_abi::GuestAddress;
use bulkhead_plan::loading::{self, Piece};
use bulkhead_plan::model::{ElfSegment, GuestImage, Partition};
use bulkhead_plan::{PlanError, samples};

const RAM: u64 = 0x4000_0000;

fn pieces(partition: &Partition) -> Result<Vec<Piece>, PlanError> {
    let placement = loading::place(partition)?;
    loading::pieces(partition, &placement, vec![0xd0; 40])
}

fn with_segments(segments: Vec<(u64, usize)>) -> Partition {
    let segment = |(address, bytes): (u64, usize)| ElfSegment {
        address: GuestAddress(address),
        bytes: vec![1; bytes],
        memory_bytes: bytes as u64,
    };
    let segments: Vec<ElfSegment> = segments.into_iter().map(segment).collect();
    let mut partition = samples::native("guest", &[0]);
    partition.image = GuestImage::Elf { entry: segments[0].address, segments };
    partition
}

/// arm64 booting.rst: text offset from a 2 MiB base; device tree on 8 bytes within 2 MiB; initrd behind.
#[test]
fn linux_follows_the_boot_protocol() {
    let mut partition = samples::linux("linux", &[0]);
    let GuestImage::Linux { kernel, .. } = &mut partition.image else { unreachable!() };
    kernel[8..16].copy_from_slice(&0x8_0000_u64.to_le_bytes());
    let placement = loading::place(&partition).unwrap();
    assert_eq!(placement.entry.0, RAM + 0x8_0000);
    assert_eq!(placement.device_tree.0, RAM + (6 << 20), "5 MiB of kernel end in the third 2 MiB");
    let (initrd, bytes) = placement.initrd.unwrap();
    assert_eq!((initrd.0 % 4096, bytes), (0, 70_001));
    assert!(initrd.0 >= placement.device_tree.0 + placement.device_tree_limit);
}

#[test]
fn kernel_without_size_uses_the_old_offset() {
    let mut partition = samples::linux("linux", &[0]);
    let GuestImage::Linux { kernel, .. } = &mut partition.image else { unreachable!() };
    kernel[16..24].fill(0);
    assert_eq!(loading::place(&partition).unwrap().entry.0, RAM + 0x8_0000);
}

#[test]
fn compressed_kernel_is_refused() {
    let mut partition = samples::linux("linux", &[0]);
    let GuestImage::Linux { kernel, .. } = &mut partition.image else { unreachable!() };
    *kernel = vec![0x1f; 100_000];
    assert!(matches!(loading::place(&partition), Err(PlanError::NotAnImage { .. })));
}

#[test]
fn big_endian_kernel_is_refused() {
    let mut partition = samples::linux("linux", &[0]);
    let GuestImage::Linux { kernel, .. } = &mut partition.image else { unreachable!() };
    kernel[24] = 1;
    assert!(matches!(loading::place(&partition), Err(PlanError::NotAnImage { .. })));
}

#[test]
fn initrd_that_does_not_fit_is_refused() {
    let mut partition = samples::linux("linux", &[0]);
    partition.memory_bytes = 6 << 20;
    assert!(matches!(loading::place(&partition), Err(PlanError::TooBig { .. })));
}

#[test]
fn device_tree_of_an_elf_guest_takes_the_last_64_kib() {
    let partition = samples::native("guest", &[0]);
    let placement = loading::place(&partition).unwrap();
    assert_eq!(placement.device_tree.0, RAM + (4 << 20) - (64 << 10));
}

#[test]
fn segment_over_the_device_tree_is_refused() {
    let result = pieces(&with_segments(vec![(RAM + (4 << 20) - (64 << 10) - 8, 9)]));
    assert!(matches!(result, Err(PlanError::TooBig { .. })), "{result:?}");
}

#[test]
fn odd_segments_are_widened_to_16_bytes() {
    let found = pieces(&with_segments(vec![(RAM + 0x1008, 3)])).unwrap();
    assert_eq!(found[0].guest.0, RAM + 0x1000);
    assert_eq!(found[0].bytes, [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1]);
}

#[test]
fn segments_within_16_bytes_are_joined() {
    let found = pieces(&with_segments(vec![(RAM + 0x1000, 4), (RAM + 0x1008, 4), (RAM + 0x1010, 1)])).unwrap();
    assert_eq!(found.len(), 3, "joined pair, its aligned neighbour, device tree");
    assert_eq!(found[0].bytes, [1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1]);
}

#[test]
fn overlapping_segments_are_refused() {
    let result = pieces(&with_segments(vec![(RAM + 0x1000, 32), (RAM + 0x1010, 32)]));
    assert!(matches!(result, Err(PlanError::Overlap { .. })), "{result:?}");
}

#[test]
fn pristine_copies_start_at_multiples_of_64() {
    let found = pieces(&with_segments(vec![(RAM, 65), (RAM + 0x1000, 1)])).unwrap();
    let (bytes, offsets) = loading::pristine(&found);
    assert_eq!(offsets, [0, 128, 192]);
    assert_eq!(bytes.len(), 256);
}
