//! The verifier's own reader of the monitor's ELF file against the builder's, and against damaged files.

use bulkhead_abi::{PART_OFFSET, Part};
use bulkhead_verify::Monitor;

const LOAD: u64 = 0x4020_0000;

/// An ELF file with text of 0x1234 bytes and, three pages on, 0x321 bytes of constants.
fn elf() -> Vec<u8> {
    let (mut text, constants): (Vec<u8>, Vec<u8>) = ((0..0x1234).map(|n| n as u8).collect(), vec![7; 0x321]);
    text[56..60].copy_from_slice(b"ARM\x64");
    text[PART_OFFSET..PART_OFFSET + 8].copy_from_slice(&Part::Own.mark());
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    let mut push = |value: u64, bytes: usize| file.extend_from_slice(&value.to_le_bytes()[..bytes]);
    // Type, machine, version, entry, program headers, section headers, flags, sizes and counts.
    for (value, bytes) in [
        (2, 2),
        (183, 2),
        (1, 4),
        (LOAD, 8),
        (64, 8),
        (0, 8),
        (0, 4),
        (64, 2),
        (56, 2),
        (2, 2),
        (64, 2),
        (0, 2),
        (0, 2),
    ] {
        push(value, bytes);
    }
    for (flags, offset, address, bytes) in [(5, 0x1000, LOAD, 0x1234), (4, 0x3000, LOAD + 0x3000, 0x321)] {
        push(1, 4);
        push(flags, 4);
        [offset, address, address, bytes, bytes, 4096].into_iter().for_each(|value| push(value, 8));
    }
    file.resize(0x1000, 0);
    file.extend_from_slice(&text);
    file.resize(0x3000, 0);
    file.extend_from_slice(&constants);
    file
}

#[test]
fn both_readers_see_one_monitor() {
    let read = bulkhead_image::monitor::read(&elf()).expect("the builder takes it");
    let own = Monitor::read(&elf()).expect("the verifier takes it");
    assert_eq!(own, Monitor::new(&read.text, &read.rodata));
    assert_ne!(own, Monitor::new(&read.text, &[8; 0x321]));
}

#[test]
fn a_damaged_file_is_no_monitor_or_another_one() {
    let whole = elf();
    let own = Monitor::read(&whole);
    for length in 0..whole.len() {
        assert_eq!(Monitor::read(&whole[..length]), None, "cut off after {length} bytes");
    }
    // Every byte of both tables; whatever it makes of them, it must answer.
    for offset in 0..64 + 2 * 56 {
        for value in [0, 0x7f, 0xff] {
            let mut damaged = whole.clone();
            damaged[offset] = value;
            let _ = Monitor::read(&damaged);
        }
    }
    let mut changed = whole;
    changed[0x1100] ^= 1;
    assert_ne!(Monitor::read(&changed), own);
}
