//! Trace rings as bytes: the newest records of a core, in order, as far as they can be had.
//!
//! A ring is read while its core writes it, or from a file that may have been cut anywhere. Neither may stop the reader:
//! what is whole is returned, what is not is counted, and the reason is put into words. The count of records written is
//! read before and after the records; those that may have been overwritten in between are given up.

use bulkhead_abi::observe::{TRACE_HEADER_BYTES, TRACE_MAGIC, TraceHeader, TraceRecord};
use zerocopy::FromBytes;

/// Bytes of a record.
pub const RECORD_BYTES: u64 = size_of::<TraceRecord>() as u64;

/// Something that holds a trace ring: live RAM, or the bytes of a file.
pub trait RingBytes {
    /// Reads the head of the ring.
    fn header(&self) -> Option<TraceHeader>;
    /// Reads [`TraceHeader::written`] with acquire order, so that the records it counts are visible.
    fn written(&self) -> Option<u64>;
    /// Reads the record at this many bytes from the start of the ring.
    fn record(&self, offset_bytes: u64) -> Option<TraceRecord>;
}

impl RingBytes for [u8] {
    fn header(&self) -> Option<TraceHeader> {
        TraceHeader::read_from_prefix(self).ok().map(|(header, _)| header)
    }

    fn written(&self) -> Option<u64> {
        self.header().map(|header| header.written)
    }

    fn record(&self, offset_bytes: u64) -> Option<TraceRecord> {
        let tail = self.get(usize::try_from(offset_bytes).ok()?..)?;
        TraceRecord::read_from_prefix(tail).ok().map(|(record, _)| record)
    }
}

/// Records of a core that were read at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Records, oldest first.
    pub records: Vec<TraceRecord>,
    /// Records that were overwritten before they could be read, or that are not in the bytes.
    pub lost: u64,
    /// What is wrong with the ring, in words.
    pub warnings: Vec<String>,
}

/// Reads one core's ring, again and again.
#[derive(Clone, Debug)]
pub struct RingReader {
    /// Records that fit into the place the ring was given.
    capacity: u64,
    read: u64,
}

impl RingReader {
    /// Makes a reader of a ring of this many bytes, head included, that begins with the oldest record still there.
    #[must_use]
    pub fn new(ring_bytes: u64) -> Self {
        Self { capacity: ring_bytes.saturating_sub(TRACE_HEADER_BYTES) / RECORD_BYTES, read: 0 }
    }

    /// Returns the new records in order. A ring that its core has not begun yet has none.
    pub fn poll(&mut self, ring: &(impl RingBytes + ?Sized)) -> Batch {
        let Some(header) = ring.header().filter(|header| header.magic == TRACE_MAGIC) else { return Batch::default() };
        // The monitor wraps at the capacity it was given; never believe in more than fits.
        let capacity = if header.capacity == 0 { self.capacity } else { self.capacity.min(header.capacity) };
        let (Some(written), true) = (ring.written(), capacity > 0) else { return Batch::default() };
        if written <= self.read {
            return Batch::default();
        }
        let first = self.read.max(written.saturating_sub(capacity));
        let mut found: Vec<_> = (first..written)
            .filter_map(|index| Some((index, ring.record(TRACE_HEADER_BYTES + (index % capacity) * RECORD_BYTES)?)))
            .collect();
        let after = ring.written().unwrap_or(written).max(written);
        // The slot after the newest record may be half written.
        let valid_from = first.max(after.saturating_add(1).saturating_sub(capacity)).min(written);
        found.retain(|(index, _)| *index >= valid_from);
        let lost = written - self.read - found.len() as u64;
        let mut warnings = Vec::new();
        let missing = (written - valid_from) - found.len() as u64;
        if missing > 0 {
            warnings.push(format!("the ring is cut: {missing} of its {} records are not in it", written - valid_from));
        }
        self.read = written;
        Batch { records: found.into_iter().map(|(_, record)| record).collect(), lost, warnings }
    }
}

/// Decodes the bytes of a ring, such as a piece of a memory dump, up to where they are cut.
#[must_use]
pub fn decode(bytes: &[u8]) -> Batch {
    let problem = |text: &str| Batch { warnings: vec![text.to_owned()], ..Batch::default() };
    let Some(header) = bytes.header() else { return problem("the ring is cut inside its head: no record can be had") };
    if header.magic != TRACE_MAGIC {
        return problem("this is no trace ring, or its core has not started: its first eight bytes are wrong");
    }
    if header.capacity == 0 || !header.capacity.is_power_of_two() {
        return problem("the head of the ring is damaged: its capacity is no power of two");
    }
    let ring_bytes = header.capacity.checked_mul(RECORD_BYTES).and_then(|bytes| bytes.checked_add(TRACE_HEADER_BYTES));
    let Some(ring_bytes) = ring_bytes else {
        return problem("the head of the ring is damaged: its capacity is too large");
    };
    // A claim beyond the bytes only makes records missing, but it must not make the loop over them endless.
    if header.capacity > (bytes.len() as u64).max(1 << 20) {
        return problem("the head of the ring is damaged: its capacity is larger than any ring");
    }
    RingReader::new(ring_bytes).poll(bytes)
}
