//! A disk in memory and a network of two lists.

use bulkhead_virtqueue::{Disk, DiskError, FRAME_BYTES, Network, SECTOR_BYTES};
use std::collections::VecDeque;

/// What a disk was asked to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Read(u64, usize),
    Write(u64, usize),
    Flush,
}

pub(crate) struct MemoryDisk {
    pub(crate) bytes: Vec<u8>,
    pub(crate) asked: Vec<Asked>,
    pub(crate) is_broken: bool,
}

impl MemoryDisk {
    /// A disk of some sectors; byte n is n modulo 251.
    pub(crate) fn new(sectors: usize) -> Self {
        let bytes = (0..sectors * SECTOR_BYTES as usize).map(|at| (at % 251) as u8).collect();
        Self { bytes, asked: Vec::new(), is_broken: false }
    }

    fn asked(&mut self, what: Asked) -> Result<(), DiskError> {
        self.asked.push(what);
        if self.is_broken { Err(DiskError) } else { Ok(()) }
    }
}

impl Disk for MemoryDisk {
    fn sectors(&self) -> u64 {
        self.bytes.len() as u64 / SECTOR_BYTES
    }

    fn read(&mut self, at: u64, into: &mut [u8]) -> Result<(), DiskError> {
        self.asked(Asked::Read(at, into.len()))?;
        into.copy_from_slice(&self.bytes[at as usize..][..into.len()]);
        Ok(())
    }

    fn write(&mut self, at: u64, from: &[u8]) -> Result<(), DiskError> {
        self.asked(Asked::Write(at, from.len()))?;
        self.bytes[at as usize..][..from.len()].copy_from_slice(from);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), DiskError> {
        self.asked(Asked::Flush)
    }
}

#[derive(Default)]
pub(crate) struct Frames {
    pub(crate) arriving: VecDeque<Vec<u8>>,
    pub(crate) sent: Vec<Vec<u8>>,
}

impl Network for Frames {
    fn receive(&mut self, into: &mut [u8; FRAME_BYTES]) -> Option<usize> {
        let frame = self.arriving.pop_front()?;
        into[..frame.len()].copy_from_slice(&frame);
        Some(frame.len())
    }

    fn send(&mut self, frame: &[u8]) {
        assert!((14..=FRAME_BYTES).contains(&frame.len()));
        self.sent.push(frame.to_vec());
    }
}
