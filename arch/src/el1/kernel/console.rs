//! Where the kernel's text goes: the partition's own ring, without an exit, or a PL011: the partition's virtual one, or the board's.

use super::HALF;
use crate::el1::{cpu, mmio};
use bulkhead_abi::console::{CONSOLE_HEADER_BYTES, CONSOLE_MAGIC, ConsoleHeader};
use bulkhead_arm::pl011;
use bulkhead_guest_abi::guest::{GUEST_UART, GuestInformation};
use core::mem::offset_of;

/// Most looks whether a UART has room; then the byte is lost. At 115,200 baud a byte takes 87 us.
const MOST_LOOKS: u32 = 100_000;

/// The one writer of the partition's console.
pub enum Console {
    /// The partition has none.
    None,
    /// A ring of the partition (`bulkhead_abi::console`).
    Ring {
        /// Its address in the kernel's half.
        base: u64,
        /// Entries.
        capacity: u64,
        /// Bytes written: the reader's word repeats it.
        written: u64,
    },
    /// A PL011 at this address of the kernel's half.
    Uart(u64),
}

impl Console {
    /// Chooses it.
    #[must_use]
    pub fn start(information: Option<&GuestInformation>) -> Self {
        match information {
            None => Self::Uart(HALF | GUEST_UART.0),
            Some(page) if page.console.0 != 0 => Self::open(HALF | page.console.0, page.console_bytes),
            Some(page) if page.uart.0 != 0 => Self::Uart(HALF | page.uart.0),
            Some(_) => Self::None,
        }
    }

    /// A ring that counts entries already is continued, so that a restart hides nothing.
    fn open(base: u64, bytes: u64) -> Self {
        let capacity = bytes.saturating_sub(CONSOLE_HEADER_BYTES) >> 3;
        if capacity == 0 {
            return Self::None;
        }
        let known = (read(base, offset_of!(ConsoleHeader, magic)), read(base, offset_of!(ConsoleHeader, capacity)));
        let written =
            if known == (CONSOLE_MAGIC, capacity) { read(base, offset_of!(ConsoleHeader, written)) } else { 0 };
        store(base, offset_of!(ConsoleHeader, written), written);
        store(base, offset_of!(ConsoleHeader, capacity), capacity);
        store(base, offset_of!(ConsoleHeader, magic), CONSOLE_MAGIC);
        Self::Ring { base, capacity, written }
    }

    /// Appends text, all of one instant; a full ring loses its oldest bytes.
    pub fn write(&mut self, text: &[u8]) {
        if let Self::Uart(address) = self {
            return text.iter().for_each(|byte| write_uart(*address, *byte));
        }
        let stamp = cpu::counter_ticks() << 8;
        text.iter().for_each(|byte| self.append(stamp | u64::from(*byte)));
    }

    /// Appends an entry to a ring; nothing elsewhere.
    pub fn append(&mut self, word: u64) {
        let Self::Ring { base, capacity, written } = self else { return };
        // The capacity is not zero; the entry is behind the header and within the ring.
        let entry = written.checked_rem(*capacity).unwrap_or(0).wrapping_mul(8).wrapping_add(CONSOLE_HEADER_BYTES);
        store(*base, entry as usize, word);
        *written = written.wrapping_add(1);
        store(*base, offset_of!(ConsoleHeader, written), *written);
    }

    /// Entries of a ring; 0 elsewhere.
    #[must_use]
    pub fn entries(&self) -> u64 {
        if let Self::Ring { capacity, .. } = self { *capacity } else { 0 }
    }
}

/// Reads a word of the ring.
fn read(base: u64, offset: usize) -> u64 {
    // SAFETY: callers name a word of the header; the information page vouches for the ring, and the kernel's tables map it.
    unsafe { core::ptr::with_exposed_provenance::<u64>(base as usize).byte_add(offset).read_volatile() }
}

/// Writes a word of the ring, after all earlier ones.
fn store(base: u64, offset: usize, value: u64) {
    let word = core::ptr::with_exposed_provenance_mut::<u64>((base as usize).wrapping_add(offset));
    // SAFETY: callers name a word of the header or an entry below the capacity; the information page vouches for the ring, the kernel's tables map it
    // writable, and this is its one writer. Readers load aligned words.
    let word = unsafe { core::sync::atomic::AtomicU64::from_ptr(word) };
    // A reader that sees the position sees the bytes before it as well.
    word.store(value, core::sync::atomic::Ordering::Release);
}

fn write_uart(address: u64, byte: u8) {
    // SAFETY: a PL011 of this partition or of the board, which the kernel's tables map; writing its data register sends a byte.
    unsafe {
        for _ in 0..MOST_LOOKS {
            if mmio::read32(address.wrapping_add(pl011::UARTFR)) & pl011::FLAG_TRANSMIT_FULL == 0 {
                break;
            }
            cpu::yield_now();
        }
        mmio::write32(address.wrapping_add(pl011::UARTDR), u32::from(byte));
    }
}
