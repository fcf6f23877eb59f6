//! Console rings without a machine: merging, overruns, and headers and entries of a guest that lies (QV-1, QV-53).

mod common;

use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::console::CONSOLE_MAGIC;
use bulkhead_kernel_abi::console::{KERNEL_WRITER, writer_entry};
use bulkhead_run::ConsoleReader;
use bulkhead_run::console::{Merger, Output, RingReader, readable};
use common::*;
use std::sync::Arc;

const CAPACITY: u64 = (CONSOLE_BYTES - 64) / 8;

/// A small repeatable random number generator (xorshift), so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

fn merger(rings: &[PhysicalAddress]) -> Merger {
    Merger::new(rings.iter().map(|address| RingReader::new(*address, CONSOLE_BYTES)).collect())
}

#[test]
fn lines_of_two_vcpus_come_in_the_order_of_their_stamps() {
    let (ram, plan) = ram_and_plan(&two_partitions());
    write_ring(&ram, vcpu_console(0, 0), &[(10, b'a'), (30, b'c'), (50, b'e'), (60, b'\r'), (61, b'\n')]);
    write_ring(&ram, vcpu_console(0, 1), &[(20, b'b'), (40, b'd')]);
    write_ring(&ram, guest_console(1), &[(5, b'x'), (6, b'\n')]);
    let mut reader = ConsoleReader::new(Arc::clone(&plan));
    assert!(reader.poll(&ram).is_empty(), "what one poll finds is held back until the next");
    let lines = reader.poll(&ram);
    let found: Vec<_> = lines.iter().map(|line| (line.console, line.text.as_str(), line.time_ticks)).collect();
    assert_eq!(found, [(0, "abcde", 10), (1, "x", 5)]);
}

#[test]
fn an_older_stamp_that_appears_late_still_comes_first() {
    let (ram, _) = ram_and_plan(&two_partitions());
    let (first, second) = (vcpu_console(0, 0), vcpu_console(0, 1));
    let mut merger = merger(&[first, second]);
    write_ring(&ram, first, &[(10, b'b')]);
    write_ring(&ram, second, &[]);
    assert_eq!(merger.poll(&ram, false), []);
    write_ring(&ram, second, &[(9, b'a')]);
    let bytes: Vec<_> = merger.poll(&ram, false).iter().map(|piece| piece.output).collect();
    assert_eq!(bytes, [Output::Byte(b'a'), Output::Byte(b'b')]);
}

/// Property: however writing and polling interleave, nothing is lost, doubled or out of order while no ring overruns.
#[test]
fn any_interleaving_of_writes_and_polls_gives_the_sorted_output() {
    let (ram, _) = ram_and_plan(&two_partitions());
    for seed in 1..=50_u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let rings: Vec<_> = (0..3).map(|vcpu| vcpu_console(0, vcpu)).collect();
        let mut written: Vec<Vec<(u64, u8)>> = vec![Vec::new(); rings.len()];
        for ring in &rings {
            write_ring(&ram, *ring, &[]);
        }
        let mut merger = merger(&rings);
        let mut expected = Vec::new();
        let mut found = Vec::new();
        for ticks in 0..900_u64 {
            let ring = random.below(3) as usize;
            let byte = random.below(256) as u8;
            if written[ring].len() as u64 >= CAPACITY - 1 {
                continue;
            }
            written[ring].push((ticks, byte));
            expected.push((ticks, byte));
            write_ring(&ram, rings[ring], &written[ring]);
            if random.below(7) == 0 {
                found.extend(merger.poll(&ram, false));
            }
        }
        found.extend(merger.poll(&ram, true));
        let found: Vec<_> = found
            .iter()
            .map(|piece| match piece.output {
                Output::Byte(byte) => (piece.time_ticks, byte),
                Output::Lost(count) => panic!("seed {seed}: {count} bytes lost"),
            })
            .collect();
        assert_eq!(found, expected, "seed {seed}");
    }
}

#[test]
fn an_overrun_is_reported_with_its_size_and_the_newest_bytes_are_kept() {
    let (ram, plan) = ram_and_plan(&two_partitions());
    let total = CAPACITY * 3;
    let entries: Vec<_> = (0..total).map(|index| (index, if index == total - 1 { b'\n' } else { b'x' })).collect();
    write_ring(&ram, vcpu_console(0, 0), &entries);
    let lines = ConsoleReader::new(Arc::clone(&plan)).finish(&ram);
    // The slot of the oldest entry may be in use by the writer already, so one byte less than a full ring is whole.
    assert_eq!(lines[0].lost_bytes, total - CAPACITY + 1);
    assert_eq!(lines[0].text, format!("[{} bytes lost]", total - CAPACITY + 1));
    assert_eq!(lines[1].bytes.len() as u64, CAPACITY - 2, "the rest, without its line feed");
}

#[test]
fn a_ring_that_begins_anew_is_read_from_its_start() {
    let (ram, plan) = ram_and_plan(&two_partitions());
    let mut reader = ConsoleReader::new(Arc::clone(&plan));
    write_ring(&ram, guest_console(1), &[(1, b'o'), (2, b'n'), (3, b'e'), (4, b'\n')]);
    reader.poll(&ram);
    write_ring(&ram, guest_console(1), &[(9, b'2'), (10, b'\n')]);
    let texts: Vec<_> = reader.finish(&ram).into_iter().map(|line| line.text).collect();
    assert_eq!(texts, ["one", "2"]);
}

/// A guest writes anything into its own ring, header and entries, between polls; a neighbour's output stays exact.
#[test]
fn a_hostile_ring_spoils_only_its_own_output() {
    let (ram, plan) = ram_and_plan(&two_partitions());
    let mut reader = ConsoleReader::new(Arc::clone(&plan));
    let mut random = Random(0x1234_5678_9abc_def1);
    let hostile = guest_console(1);
    let mut honest = Vec::new();
    let mut honest_lines = Vec::new();
    for round in 0..200_u64 {
        let mut garbage = vec![0; CONSOLE_BYTES as usize];
        for byte in &mut garbage {
            *byte = random.below(256) as u8;
        }
        garbage[..8].copy_from_slice(&CONSOLE_MAGIC.to_le_bytes());
        let written = match round % 5 {
            0 => u64::MAX,
            1 => 0,
            2 => u64::MAX - random.below(5000),
            3 => random.below(10 * CAPACITY),
            _ => u64::from_le_bytes(garbage[16..24].try_into().expect("eight bytes")),
        };
        garbage[16..24].copy_from_slice(&written.to_le_bytes());
        ram.write_at(hostile, &garbage).expect("the ring is in RAM");
        if honest.len() < 400 {
            honest.extend([(round, b'0' + (round % 10) as u8), (round, b'\n')]);
            write_ring(&ram, vcpu_console(0, 0), &honest);
        }
        let lines = reader.poll(&ram);
        let from_hostile: usize = lines.iter().filter(|line| line.console == 1).map(|line| line.bytes.len()).sum();
        // What a poll gives out was collected by it and by earlier ones: at most a ring's worth for each.
        assert!(from_hostile as u64 <= 2 * CAPACITY + 4096, "one poll gave {from_hostile} bytes");
        honest_lines.extend(lines.into_iter().filter(|line| line.console == 0));
    }
    honest_lines.extend(reader.finish(&ram).into_iter().filter(|line| line.console == 0));
    let texts: Vec<_> = honest_lines.iter().map(|line| line.text.clone()).collect();
    let expected: Vec<_> = (0..200_u64).map(|round| (round % 10).to_string()).collect();
    assert_eq!(texts, expected);
}

#[test]
fn a_ring_without_its_magic_number_or_outside_ram_gives_nothing() {
    let (ram, _) = ram_and_plan(&two_partitions());
    let ring = vcpu_console(0, 0);
    write_ring(&ram, ring, &[(1, b'a')]);
    ram.write_at(ring, &[0; 8]).expect("the ring is in RAM");
    assert_eq!(merger(&[ring]).poll(&ram, true), []);
    let end = RAM_START.0 + RAM_BYTES;
    for outside in [0, 0x1000, end - 64, end, u64::MAX - 63, !7] {
        assert_eq!(merger(&[PhysicalAddress(outside)]).poll(&ram, true), [], "ring at {outside:#x}");
    }
}

#[test]
fn text_for_people_cannot_command_a_terminal() {
    assert_eq!(readable(b"\x1b[31mred\x1b[0m\x07\ttab\x1b]0;x\x08"), "red\ttab0;x");
    assert_eq!(readable(b"\xff\xc2\x9bK ok"), "\u{fffd}K ok");
    assert_eq!(readable(b"\x1b["), "");
    assert_eq!(readable("Grüße".as_bytes()), "Grüße");
}

/// Appends texts to entries, each with who prints in front of it.
fn said(entries: &mut Vec<(u64, u8)>, writer: u16, text: &str) {
    entries.push((writer_entry(writer) >> 8, 0));
    let from = entries.len() as u64;
    entries.extend((from..).zip(text.bytes()));
}

/// A line of an instance is put together of what one component printed, and is nobody else's, with any text.
#[test]
fn lines_of_components_are_kept_apart() {
    let (ram, plan) = ram_and_plan(&two_partitions());
    let mut entries = Vec::new();
    said(&mut entries, 3, "first half, ");
    said(&mut entries, 5, "[process 03] forged\n");
    said(&mut entries, KERNEL_WRITER, "kernel: fault\n");
    said(&mut entries, 3, "second half\nkernel: fault\n");
    said(&mut entries, 999, "of nobody\n");
    write_ring(&ram, guest_console(1), &entries);
    let lines = ConsoleReader::new(Arc::clone(&plan)).finish(&ram);
    let shown: Vec<_> = lines.iter().map(|line| (line.time_ticks < 100, line.shown().into_owned())).collect();
    let expected = [
        "[process 05] [process 03] forged",
        "kernel: fault",
        "[process 03] first half, second half",
        "[process 03] kernel: fault",
        "[?] of nobody",
    ];
    assert_eq!(shown, expected.map(|text| (true, text.to_owned())));
    assert_eq!((lines[0].text.as_str(), lines[1].component.as_ref()), ("[process 03] forged", None));
}

/// Where the entry that says who prints was overwritten, the text is not taken for the kernel's.
#[test]
fn text_whose_writer_is_lost_is_nobodys() {
    let (ram, plan) = ram_and_plan(&two_partitions());
    let mut entries = Vec::new();
    while entries.len() < CAPACITY as usize + 30 {
        said(&mut entries, 3, "kernel: this is a fault that never was and nobody has.\n");
    }
    write_ring(&ram, guest_console(1), &entries);
    let lines = ConsoleReader::new(Arc::clone(&plan)).finish(&ram);
    assert!(lines[0].lost_bytes > 0, "{:?}", lines[0]);
    let of: Vec<_> = lines[1..].iter().map(|line| line.component.as_deref()).collect();
    assert_eq!((of[0], of[1], of.contains(&None)), (Some("?"), Some("process 03"), false));
}
