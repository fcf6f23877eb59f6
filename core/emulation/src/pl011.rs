//! A virtual PL011 UART (Arm DDI 0183, PrimeCell UART r1p5), as drivers that poll or take interrupts see it.
//!
//! Transmission is infinitely fast: a byte written to UARTDR leaves at once, so the transmit FIFO is always empty. Input
//! comes from the monitor through [`Pl011State::push_input`] into a FIFO of 32 bytes. Line settings are remembered and
//! have no effect; a disabled UART still transmits, because firmware and early consoles write before they set it up.
//!
//! **Interrupt.** The hardware's line is a level; here a spare edge-triggered SPI carries it (design record 0002). After
//! each access that can change the masked status the state says [`LineEffect::Pend`] when the status is not zero and
//! [`LineEffect::Clear`] when it has just become zero. So a handler that serves one byte per interrupt is called again, and one
//! that loops until the status is zero is not called in vain. The rejected alternative, one pend per change from zero,
//! loses input with the first kind of handler.
//!
//! Two vCPUs may use the device at once, and the core that receives input may be a third one. A vCPU that
//! changes the mask and a core that adds input each look at the other's word afterwards, hence sequentially consistent
//! accesses there: with weaker ones both could miss the other and the interrupt would be lost.

use bulkhead_arm::pl011::{
    CONTROL_RECEIVE, CONTROL_TRANSMIT, FLAG_RECEIVE_EMPTY, FLAG_RECEIVE_FULL, FLAG_TRANSMIT_EMPTY, INTERRUPT_OVERRUN,
    INTERRUPT_RECEIVE, INTERRUPT_RECEIVE_TIMEOUT, INTERRUPT_TRANSMIT, INTERRUPTS, STATUS_OVERRUN, UARTCR, UARTFBRD,
    UARTFR, UARTIBRD, UARTICR, UARTIFLS, UARTIMSC, UARTLCR_H, UARTMIS, UARTPCELLID3, UARTPERIPHID0, UARTRIS, UARTRSR,
};
use core::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed, Ordering::SeqCst};
use zerocopy::FromBytes;

pub use bulkhead_arm::pl011::UARTDR;

/// UARTPeriphID0-3 (part 0x011, designer Arm 0x41, revision r1p5 = 3) and UARTPCellID0-3.
const IDENTIFICATION: [u8; 8] = [0x11, 0x10, 0x34, 0x00, 0x0d, 0xf0, 0x05, 0xb1];

/// Registers that are remembered and have no effect: offset, writable bits and value at reset.
const SETTINGS: [(u64, u32, u32); 5] = [
    (UARTIBRD, 0xffff, 0),
    (UARTFBRD, 0x3f, 0),
    (UARTLCR_H, 0xff, 0),
    (UARTCR, 0xff87, CONTROL_TRANSMIT | CONTROL_RECEIVE),
    (UARTIFLS, 0x3f, 0x12), // both FIFOs at a half
];

/// Interrupts: receive and receive timeout. Both are simply "input waits", so clearing them does nothing before it is read.
const INTERRUPT_INPUT: u32 = INTERRUPT_RECEIVE | INTERRUPT_RECEIVE_TIMEOUT;

/// Bytes of the receive FIFO, as in r1p5.
const FIFO_BYTES: u32 = 32;
/// Attempts to take a byte while the other vCPUs of the partition take theirs; more contenders than cores do not exist.
const ATTEMPTS: u32 = 8;

/// What the monitor does with the SPI of the console.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineEffect {
    /// Nothing.
    None,
    /// Make it pending (GICD_ISPENDR).
    Pend,
    /// Take it back (GICD_ICPENDR).
    Clear,
}

/// What a read gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pl011Read {
    /// The register.
    pub value: u32,
    /// The interrupt line.
    pub interrupt: LineEffect,
    /// A byte of input was taken.
    pub taken: bool,
}

/// What a write does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pl011Effect {
    /// Byte for the console ring.
    pub output: Option<u8>,
    /// The interrupt line.
    pub interrupt: LineEffect,
}

/// The device. All-zero memory is the reset state.
#[derive(Debug, FromBytes)]
#[repr(C)]
pub struct Pl011State {
    /// UARTIMSC.
    mask: AtomicU32,
    /// Latched interrupts: transmit and overrun.
    latched: AtomicU32,
    /// The registers of [`SETTINGS`], exclusive-or their reset values.
    settings: [AtomicU32; SETTINGS.len()],
    /// Bytes of input ever added, modulo 2^32.
    added: AtomicU32,
    /// Bytes of input ever taken, modulo 2^32.
    taken: AtomicU32,
    /// The FIFO; byte n at n modulo 32.
    bytes: [AtomicU8; FIFO_BYTES as usize],
}

impl Pl011State {
    /// Puts the device back into its reset state, for a restart of the partition. Returns how many bytes of input are lost.
    pub fn reset(&self) -> u32 {
        let lost = self.waiting().min(FIFO_BYTES);
        for word in [&self.mask, &self.latched].into_iter().chain(&self.settings) {
            word.store(0, SeqCst);
        }
        self.taken.store(self.added.load(SeqCst), SeqCst);
        lost
    }

    /// Reads a register. The width does not matter: drivers use 8, 16 and 32 bits on the same register.
    #[must_use]
    #[inline]
    pub fn read(&self, offset: u64) -> Pl011Read {
        let value = match offset {
            UARTDR => {
                let before = self.masked();
                let byte = self.pop_input();
                let value = byte.map_or(0, u32::from);
                return Pl011Read { value, interrupt: self.line_after(before), taken: byte.is_some() };
            }
            UARTFR => self.flags(),
            UARTRSR if self.latched.load(Relaxed) & INTERRUPT_OVERRUN != 0 => STATUS_OVERRUN,
            UARTIMSC => self.mask.load(Relaxed),
            UARTRIS => self.raw(),
            UARTMIS => self.masked(),
            UARTPERIPHID0..=UARTPCELLID3 if offset & 3 == 0 => {
                IDENTIFICATION.get((offset >> 2 & 7) as usize).copied().map_or(0, u32::from)
            }
            _ => self.setting(offset).map_or(0, |(word, _, reset)| word.load(Relaxed) ^ reset),
        };
        Pl011Read { value, interrupt: LineEffect::None, taken: false }
    }

    /// Writes a register.
    #[inline]
    pub fn write(&self, offset: u64, value: u32) -> Pl011Effect {
        if offset == UARTDR {
            return self.write_data(value as u8);
        }
        let before = self.masked();
        match offset {
            UARTIMSC => self.mask.store(value & INTERRUPTS, SeqCst),
            UARTICR => _ = self.latched.fetch_and(!value, Relaxed),
            UARTRSR => _ = self.latched.fetch_and(!INTERRUPT_OVERRUN, Relaxed),
            // No IrDA, no DMA; the rest is read-only.
            _ => {
                if let Some((word, writable, reset)) = self.setting(offset) {
                    word.store((value & writable) ^ reset, Relaxed);
                }
                return Pl011Effect { output: None, interrupt: LineEffect::None };
            }
        }
        Pl011Effect { output: None, interrupt: self.line_after(before) }
    }

    /// Finds a remembered register: its word, its writable bits and its value at reset. Not inlined, so that the search takes
    /// no processor registers from the accesses that a driver makes for each byte.
    #[inline(never)]
    fn setting(&self, offset: u64) -> Option<(&AtomicU32, u32, u32)> {
        let mut registers = self.settings.iter().zip(SETTINGS);
        registers.find(|(_, (at, ..))| *at == offset).map(|(word, (_, writable, reset))| (word, writable, reset))
    }

    /// Adds a byte of console input and tells whether the interrupt must be made pending. A byte that finds the FIFO full is
    /// lost and noted as an overrun, as on the real device.
    ///
    /// One core at a time receives input, so there is one caller.
    pub fn push_input(&self, byte: u8) -> bool {
        let added = self.added.load(Relaxed);
        if self.is_full() {
            self.latched.fetch_or(INTERRUPT_OVERRUN, Relaxed);
        } else if let Some(slot) = self.slot(added) {
            slot.store(byte, Relaxed);
            // Publishes the byte.
            self.added.store(added.wrapping_add(1), SeqCst);
        }
        self.masked() != 0
    }

    /// Transmits a byte.
    #[inline]
    fn write_data(&self, byte: u8) -> Pl011Effect {
        if self.latched.load(Relaxed) & INTERRUPT_TRANSMIT == 0 {
            self.latched.fetch_or(INTERRUPT_TRANSMIT, Relaxed);
        }
        let interrupt = if self.masked() != 0 { LineEffect::Pend } else { LineEffect::None };
        Pl011Effect { output: Some(byte), interrupt }
    }

    /// Takes the oldest byte of input.
    fn pop_input(&self) -> Option<u8> {
        for _ in 0..ATTEMPTS {
            let taken = self.taken.load(SeqCst);
            if self.added.load(SeqCst) == taken {
                return None;
            }
            let byte = self.slot(taken)?.load(Relaxed);
            if self.taken.compare_exchange(taken, taken.wrapping_add(1), SeqCst, Relaxed).is_ok() {
                return Some(byte);
            }
        }
        None
    }

    /// States whether an interrupt is to be pending. Looked at again after [`LineEffect::Clear`] was done: what another core added
    /// meanwhile may have been pending already.
    #[must_use]
    pub fn is_asserted(&self) -> bool {
        self.masked() != 0
    }

    /// States whether a further byte of input would be lost.
    pub fn is_full(&self) -> bool {
        self.waiting() >= FIFO_BYTES
    }

    /// Bytes in the FIFO. Those taken are read first, so another vCPU that takes some meanwhile makes it too large at most.
    fn waiting(&self) -> u32 {
        let taken = self.taken.load(SeqCst);
        self.added.load(SeqCst).wrapping_sub(taken)
    }

    /// Place of the byte with this number.
    fn slot(&self, number: u32) -> Option<&AtomicU8> {
        self.bytes.get((number % FIFO_BYTES) as usize)
    }

    /// UARTFR. CTS, DSR, DCD and RI are inactive; BUSY and "transmit FIFO full" never happen.
    fn flags(&self) -> u32 {
        let receive = match self.waiting() {
            0 => FLAG_RECEIVE_EMPTY,
            FIFO_BYTES.. => FLAG_RECEIVE_FULL,
            _ => 0,
        };
        FLAG_TRANSMIT_EMPTY | receive
    }

    /// UARTRIS.
    fn raw(&self) -> u32 {
        let input = if self.waiting() != 0 { INTERRUPT_INPUT } else { 0 };
        self.latched.load(Relaxed) | input
    }

    /// UARTMIS.
    fn masked(&self) -> u32 {
        match self.mask.load(SeqCst) {
            0 => 0,
            mask => self.raw() & mask,
        }
    }

    /// The line after an access, given UARTMIS before it.
    fn line_after(&self, before: u32) -> LineEffect {
        match (before, self.masked()) {
            (0, 0) => LineEffect::None,
            (_, 0) => LineEffect::Clear,
            _ => LineEffect::Pend,
        }
    }
}
