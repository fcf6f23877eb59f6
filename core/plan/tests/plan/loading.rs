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

fn at(mut partition: Partition, device_tree: u64) -> Partition {
    partition.device_tree_address = Some(GuestAddress(device_tree));
    partition
}

fn refused(partition: &Partition) -> String {
    match loading::place(partition) {
        Err(PlanError::DeviceTree { partition: name, reason }) => {
            assert_eq!(name, partition.name);
            reason
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_device_tree_lies_where_the_description_puts_it() {
    // As U-Boot wants it: at the start of RAM, before the program.
    let partition = at(with_segments(vec![(RAM + 0x1_0000, 100)]), RAM);
    assert_eq!(loading::place(&partition).unwrap().device_tree.0, RAM);
    let found = pieces(&partition).unwrap();
    assert_eq!((found[0].guest.0, found[0].bytes.as_slice()), (RAM, &[0xd0; 40][..]));
    // 8 bytes into a unit of the copy: widened with zeros, like any other part.
    let found = pieces(&at(with_segments(vec![(RAM + 0x2_0000, 100)]), RAM + 8)).unwrap();
    assert_eq!((found[0].guest.0, found[0].bytes.len(), found[0].bytes[7..9].to_vec()), (RAM, 48, vec![0, 0xd0]));
    // What it leaves free at the end of RAM is the image's.
    let last = at(with_segments(vec![(RAM + (4 << 20) - 16, 16)]), RAM);
    assert_eq!(pieces(&last).unwrap().len(), 2);
    let mut linux = at(samples::linux("linux", &[0]), RAM + (60 << 20));
    let usual = loading::place(&samples::linux("linux", &[0])).unwrap();
    let placement = loading::place(&linux).unwrap();
    assert_eq!((placement.device_tree.0, placement.initrd), (RAM + (60 << 20), usual.initrd));
    linux.image = GuestImage::Raw { bytes: vec![1; 16], load: GuestAddress(RAM + (2 << 20)) };
    assert_eq!(loading::place(&linux).unwrap().entry.0, RAM + (2 << 20));
}

#[test]
fn a_device_tree_that_cannot_lie_there_is_refused() {
    let native = || with_segments(vec![(RAM + 0x2_0000, 0x1000)]);
    assert_eq!(refused(&at(native(), RAM + 4)), "0x40000004 is not a multiple of 8");
    for outside in [0, RAM - 8, RAM + (4 << 20) - (64 << 10) + 8, RAM + (4 << 20), u64::MAX - 7] {
        assert!(refused(&at(native(), outside)).contains("and the RAM is 0x40000000 to 0x403fffff"), "{outside:#x}");
    }
    for over in [RAM + 0x1_0008, RAM + 0x2_0000, RAM + 0x2_0ff8] {
        assert!(refused(&at(native(), over)).contains("over an ELF segment, 0x40020000 to 0x40020fff"), "{over:#x}");
    }
    for free in [RAM, RAM + 0x1_0000, RAM + 0x2_1000] {
        assert_eq!(loading::place(&at(native(), free)).unwrap().device_tree.0, free);
    }
    let linux = |address| at(samples::linux("linux", &[0]), address);
    assert!(refused(&linux(RAM)).contains("over the Linux kernel"), "its zeroed data is no place either");
    let (initrd, bytes) = loading::place(&samples::linux("linux", &[0])).unwrap().initrd.unwrap();
    assert!(
        refused(&linux((initrd.0 + bytes - 8).next_multiple_of(8) - 8)).contains("over the initial RAM file system")
    );
    let mut raw = native();
    raw.image = GuestImage::Raw { bytes: vec![1; 16], load: GuestAddress(RAM) };
    assert!(refused(&at(raw, RAM + 8)).contains("over the raw image"));
}
