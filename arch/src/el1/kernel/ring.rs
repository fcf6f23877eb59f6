//! The trace of a kernel that records: a ring in front of the accounts, written by this core alone and read by the host in the machine's RAM.

use crate::kernel::Seen;
use bulkhead_abi::observe::{TRACE_HEADER_BYTES, TRACE_MAGIC, TraceHeader, TraceRecord};
use bulkhead_kernel_abi::image::{TRACE_BYTES, TRACE_RECORDS};
use core::cell::UnsafeCell;
use core::sync::atomic::{Ordering, fence};

/// Bytes from the header to the first record.
const REST: usize = TRACE_HEADER_BYTES as usize - size_of::<TraceHeader>();

#[repr(C, align(4096))]
struct Memory {
    header: TraceHeader,
    rest: [u8; REST],
    records: [TraceRecord; TRACE_RECORDS as usize],
}

const _: () = assert!(size_of::<Memory>() as u64 == TRACE_BYTES);
const _: () = assert!(TRACE_RECORDS.is_power_of_two());

struct Cell(UnsafeCell<Memory>);

// SAFETY: one core, and the kernel runs with interrupts masked from an entry to its return: what runs here is alone.
unsafe impl Sync for Cell {}

const NO_RECORD: TraceRecord =
    TraceRecord { time_ticks: 0, kind: 0, core: 0, partition: 0, small: 0, first: 0, second: 0 };

/// In front of the accounts (`kernel.ld`), so that it is found from the head.
#[unsafe(link_section = ".trace")]
static MEMORY: Cell = Cell(UnsafeCell::new(Memory {
    header: TraceHeader { magic: 0, capacity: 0, written: 0, enabled: 0 },
    rest: [0; REST],
    records: [NO_RECORD; TRACE_RECORDS as usize],
}));

/// Where the ring stands, and what was told of last.
pub(super) struct Ring {
    pub(super) seen: Seen,
    written: u64,
}

impl Ring {
    /// Makes the ring an empty one.
    pub(super) fn start() -> Self {
        let header = TraceHeader { magic: TRACE_MAGIC, capacity: TRACE_RECORDS, written: 0, enabled: 1 };
        // SAFETY: the field of a static that this core alone writes (`Cell`); volatile, since the host reads it.
        unsafe { (&raw mut (*MEMORY.0.get()).header).write_volatile(header) };
        Self { seen: Seen::default(), written: 0 }
    }

    /// Adds a record in place of the oldest one.
    pub(super) fn write(&mut self, record: TraceRecord) {
        let place = (self.written & TRACE_RECORDS.wrapping_sub(1)) as usize;
        self.written = self.written.wrapping_add(1);
        // SAFETY: the mask keeps the place among the records of a static that this core alone writes (`Cell`).
        unsafe { (&raw mut (*MEMORY.0.get()).records).cast::<TraceRecord>().add(place).write_volatile(record) };
        // Who reads the count finds the record.
        fence(Ordering::Release);
        // SAFETY: as in `start`.
        unsafe { (&raw mut (*MEMORY.0.get()).header.written).write_volatile(self.written) };
    }
}
