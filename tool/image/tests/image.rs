//! Images from a hand-made monitor ELF: bytes, header, refusals.

use bulkhead_image::{Error, build_image, core_memory};
use bulkhead_plan::model::System;
use bulkhead_plan::samples;

/// A program header: flags, address, bytes.
struct Part(u32, u64, Vec<u8>);

const READ_EXECUTE: u32 = 5;
const READ: u32 = 4;
const READ_WRITE: u32 = 6;

/// Writes a 64-bit little-endian AArch64 ELF file with these loadable segments and nothing else.
fn elf(entry: u64, parts: &[Part]) -> Vec<u8> {
    let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let half = |file: &mut Vec<u8>, value: u16| file.extend(value.to_le_bytes());
    let word = |file: &mut Vec<u8>, value: u32| file.extend(value.to_le_bytes());
    let long = |file: &mut Vec<u8>, value: u64| file.extend(value.to_le_bytes());
    half(&mut file, 2);
    half(&mut file, 183);
    word(&mut file, 1);
    long(&mut file, entry);
    long(&mut file, 64);
    long(&mut file, 0);
    word(&mut file, 0);
    for value in [64, 56, parts.len() as u16, 64, 0, 0] {
        half(&mut file, value);
    }
    let mut offset = 64 + 56 * parts.len() as u64;
    for Part(flags, address, bytes) in parts {
        word(&mut file, 1);
        word(&mut file, *flags);
        for value in [offset, *address, *address, bytes.len() as u64, bytes.len() as u64, 4096] {
            long(&mut file, value);
        }
        offset += bytes.len() as u64;
    }
    parts.iter().for_each(|Part(_, _, bytes)| file.extend(bytes));
    file
}

fn text() -> Vec<u8> {
    let mut text = samples::arm64_header(0);
    text.extend(bulkhead_abi::Part::Shared.mark());
    text.resize(4096, 0xd5);
    text
}

fn monitor_elf() -> Vec<u8> {
    elf(0x4020_0000, &[Part(READ_EXECUTE, 0x4020_0000, text()), Part(READ, 0x4020_1000, vec![9; 100])])
}

fn solo() -> System {
    samples::system(vec![samples::native("solo", &[0])], vec![])
}

#[test]
fn image_starts_with_the_monitor_and_tells_its_size() {
    let image = build_image(&solo(), &monitor_elf()).unwrap();
    let header = image.plan.header;
    assert_eq!(image.bytes.len() as u64, header.memory_bytes);
    assert_eq!(image.bytes[16..24], header.memory_bytes.to_le_bytes(), "image_size is the file's");
    assert_eq!(image.bytes[64..4096], text()[64..], "text is unchanged after the header");
    assert_eq!(image.bytes[4096..4196], [9; 100], "read-only data follows");
    assert_eq!(image.bytes[8192..8200], *b"BULKHEAD", "the header page follows read-only data");
}

#[test]
fn two_builds_are_equal_bit_for_bit() {
    let build = || build_image(&samples::demo(), &monitor_elf()).unwrap().bytes;
    assert!(build() == build());
}

#[test]
fn monitor_with_writable_data_is_refused() {
    let file = elf(0x4020_0000, &[Part(READ_EXECUTE, 0x4020_0000, text()), Part(READ_WRITE, 0x4020_1000, vec![1])]);
    let error = build_image(&solo(), &file).unwrap_err();
    assert!(matches!(&error, Error::Monitor(reason) if reason.contains("writable")), "{error}");
}

#[test]
fn one_monitor_serves_boards_with_other_load_addresses() {
    let mut other = solo();
    other.board.load_address.0 += 0x0180_0000;
    let [usual, moved] = [solo(), other].map(|system| build_image(&system, &monitor_elf()).unwrap());
    assert_eq!(usual.bytes[8..16], 0x20_0000_u64.to_le_bytes(), "from the start of RAM, where a boot loader puts it");
    assert_eq!(moved.bytes[8..16], 0x01a0_0000_u64.to_le_bytes());
    assert_eq!(moved.plan.header.image_start.0, 0x41a0_0000);
    assert!(usual.bytes[24..8192] == moved.bytes[24..8192], "text and constants are the same bytes");
}

#[test]
fn where_a_monitor_is_linked_does_not_matter() {
    let linked = |at| elf(at, &[Part(READ_EXECUTE, at, text()), Part(READ, at + 0x1000, vec![9; 100])]);
    let [first, second] = [0, 0x8020_0000].map(|at| bulkhead_image::monitor::read(&linked(at)).unwrap());
    assert_eq!(first, second);
}

#[test]
fn monitor_without_arm64_header_is_refused() {
    let file = elf(0x4020_0000, &[Part(READ_EXECUTE, 0x4020_0000, vec![0; 4096])]);
    assert!(matches!(build_image(&solo(), &file), Err(Error::NoArm64Header)));
}

#[test]
fn truncated_monitor_is_refused() {
    let whole = monitor_elf();
    for length in [0, 10, 63, 100, whole.len() - 1] {
        assert!(matches!(build_image(&solo(), &whole[..length]), Err(Error::Monitor(_))), "{length} bytes");
    }
}

#[test]
fn core_memory_is_counted_with_tables() {
    let image = build_image(&solo(), &monitor_elf()).unwrap();
    let [memory] = &core_memory(&image)[..] else { panic!("one core") };
    assert_eq!(memory.private_bytes, (4 + 4 + 4 + 4) << 10, "data, stack, counters, plan");
    assert_eq!(memory.el2_table_bytes % 4096, 0);
    assert!(memory.el2_table_bytes >= 5 * 4096, "root, two level 2, GIC, monitor");
}
