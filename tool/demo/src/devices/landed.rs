//! What the intruder's DMA left in memory that is not its own.
//!
//! Three kinds of memory are judged. What was built never changes: the monitor, its plan, its tables. Memory of a guest that is off stays as it was.
//! Everything else changes all the time, so what is looked for there is what the functions write, which is nothing that anybody else
//! has: an `edu` a word of its own, the NVMe controller the superblock of the intruder's disk.

use crate::facts::changed_bytes;
use bulkhead_abi::PhysicalAddress;
use bulkhead_run::{Machine, RunError};
use std::io;
use std::path::Path;

/// What `guests/intruder` lets its `edu` write, as a word.
const WEAPON: [u8; 8] = [0xa5; 8];
/// Where the superblock of its disk is, which its controller stores at the front of a page.
const SUPERBLOCK: usize = 1024;
/// As much of it as no other disk has: numbers of inodes and blocks, and times.
const MARK_BYTES: usize = 64;
const PAGE: usize = 4096;

/// What is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Marks {
    superblock: [u8; MARK_BYTES],
}

impl Marks {
    /// Reads what the intruder's controller will store.
    pub(super) fn of(disk: &Path) -> io::Result<Self> {
        let bytes = std::fs::read(disk)?;
        let mark = bytes.get(SUPERBLOCK..SUPERBLOCK + MARK_BYTES).and_then(|mark| mark.try_into().ok());
        let superblock = mark.filter(|mark: &[u8; MARK_BYTES]| mark.iter().any(|byte| *byte != 0));
        superblock.map(|superblock| Self { superblock }).ok_or_else(|| io::Error::other("it has no file system"))
    }

    /// Bytes of memory, from a page boundary on, that the functions wrote.
    fn found(&self, memory: &[u8]) -> u64 {
        let words = memory.chunks_exact(WEAPON.len()).filter(|word| *word == WEAPON).count() * WEAPON.len();
        let pages = memory.chunks(PAGE).filter(|page| page.starts_with(&self.superblock)).count() * PAGE;
        (words + pages) as u64
    }
}

/// A copy of memory.
fn copy(machine: &Machine, start: PhysicalAddress, bytes: u64) -> Result<Vec<u8>, RunError> {
    let mut copy = vec![0; usize::try_from(bytes).unwrap_or(0)];
    let is_there = !copy.is_empty() && machine.ram().copy_at(start, &mut copy);
    is_there.then_some(copy).ok_or_else(|| RunError::Other(format!("{bytes} bytes at {start} are not in RAM")))
}

/// Memory of a partition.
pub(super) fn memory_of(machine: &Machine, partition: usize) -> Result<Vec<u8>, RunError> {
    let plan = machine.observer().and_then(|observer| observer.plan().partitions.get(partition).copied());
    let mut all = Vec::new();
    for region in plan.iter().flat_map(|plan| plan.ram()) {
        all.extend(copy(machine, region.physical, region.bytes)?);
    }
    Ok(all)
}

/// States whether the intruder said that it aimed at memory of a partition.
pub(super) fn is_aimed_at<'a>(machine: &Machine, partition: usize, mut said: impl Iterator<Item = &'a str>) -> bool {
    let plan = machine.observer().and_then(|observer| observer.plan().partitions.get(partition).copied());
    said.any(|line| {
        let target = line.strip_prefix("intruder: 0x").and_then(|rest| rest.strip_suffix(" write done, read nothing"));
        let target = target.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        let offset = |start: u64| target.and_then(|target| target.checked_sub(start));
        plan.iter()
            .flat_map(|plan| plan.ram())
            .any(|region| offset(region.physical.0).is_some_and(|offset| offset < region.bytes))
    })
}

/// Bytes outside the intruder's own memory that its functions changed. `asleep` is a partition that is off and its memory since then.
pub(super) fn outside(
    machine: &Machine,
    image: &[u8],
    intruder: usize,
    asleep: (usize, &[u8]),
    marks: &Marks,
) -> Result<u64, RunError> {
    let observer = machine.observer().ok_or_else(|| RunError::Other("the machine has no monitor".to_owned()))?;
    let header = &observer.plan().header;
    let monitor = copy(machine, header.image_start, header.memory_bytes)?;
    let built = image.get(..usize::try_from(header.image_bytes).unwrap_or(usize::MAX)).unwrap_or(image);
    let mut landed = changed_bytes(built, monitor.get(..built.len()).unwrap_or(&monitor));
    // Behind the image: stacks, consoles, status pages, channels, device pages and pools.
    landed += marks.found(&monitor);
    for partition in (0..observer.partition_count()).filter(|partition| *partition != intruder) {
        let memory = memory_of(machine, partition)?;
        landed += marks.found(&memory);
        if partition == asleep.0 {
            landed += changed_bytes(asleep.1, &memory);
        }
    }
    Ok(landed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_functions_write_is_found() {
        let marks = Marks { superblock: [7; MARK_BYTES] };
        let mut memory = vec![0x11; 4 * PAGE];
        assert_eq!(marks.found(&memory), 0);
        // 64 bytes anywhere have seven whole words.
        memory[PAGE + 100..PAGE + 164].fill(0xa5);
        assert_eq!(marks.found(&memory), 7 * 8);
        memory[3 * PAGE..3 * PAGE + MARK_BYTES].fill(7);
        assert_eq!(marks.found(&memory), 7 * 8 + PAGE as u64);
        // In the middle of a page is no page of the controller's.
        memory[2 * PAGE + 8..2 * PAGE + 8 + MARK_BYTES].fill(7);
        assert_eq!(marks.found(&memory), 7 * 8 + PAGE as u64);
    }

    #[test]
    fn a_disk_without_a_file_system_is_no_mark() {
        let path = std::env::temp_dir().join(format!("bulkhead-marks-{}", std::process::id()));
        std::fs::write(&path, vec![0; 4096]).expect("a temporary file can be written");
        assert!(Marks::of(&path).is_err());
        let mut bytes = vec![0; 4096];
        bytes[SUPERBLOCK] = 3;
        std::fs::write(&path, bytes).expect("a temporary file can be written");
        let marks = Marks::of(&path).expect("it has one");
        assert_eq!((marks.superblock[0], marks.superblock[1]), (3, 0));
        std::fs::remove_file(&path).expect("it is there");
        assert!(Marks::of(&path).is_err());
    }
}
