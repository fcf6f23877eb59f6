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
//! Two vCPUs may use the device at once, and the core that receives input may be a third one. Whoever changes the mask
//! and whoever adds input each look at the other's word afterwards, hence sequentially consistent accesses there: with
//! weaker ones both could miss the other and the interrupt would be lost.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use zerocopy::FromBytes;

/// Offsets of the registers (DDI 0183, table 3-1).
mod register {
    /// Data.
    pub(super) const DR: u64 = 0x000;
    /// Receive status (read), error clear (write).
    pub(super) const RSR: u64 = 0x004;
    /// Flags.
    pub(super) const FR: u64 = 0x018;
    /// IrDA low-power counter.
    pub(super) const ILPR: u64 = 0x020;
    /// Integer baud rate divisor.
    pub(super) const IBRD: u64 = 0x024;
    /// Fractional baud rate divisor.
    pub(super) const FBRD: u64 = 0x028;
    /// Line control.
    pub(super) const LCR_H: u64 = 0x02c;
    /// Control.
    pub(super) const CR: u64 = 0x030;
    /// Interrupt FIFO levels.
    pub(super) const IFLS: u64 = 0x034;
    /// Interrupt mask.
    pub(super) const IMSC: u64 = 0x038;
    /// Raw interrupt status.
    pub(super) const RIS: u64 = 0x03c;
    /// Masked interrupt status.
    pub(super) const MIS: u64 = 0x040;
    /// Interrupt clear.
    pub(super) const ICR: u64 = 0x044;
    /// DMA control.
    pub(super) const DMACR: u64 = 0x048;
    /// First identification register.
    pub(super) const IDENTIFICATION: u64 = 0xfe0;
    /// Last identification register.
    pub(super) const IDENTIFICATION_LAST: u64 = 0xffc;
}

/// UARTPeriphID0-3 (part 0x011, designer Arm 0x41, revision r1p5 = 3) and UARTPCellID0-3.
const IDENTIFICATION: [u8; 8] = [0x11, 0x10, 0x34, 0x00, 0x0d, 0xf0, 0x05, 0xb1];

/// UARTFR: receive FIFO empty.
const FLAG_RECEIVE_EMPTY: u32 = 1 << 4;
/// UARTFR: receive FIFO full.
const FLAG_RECEIVE_FULL: u32 = 1 << 6;
/// UARTFR: transmit FIFO empty.
const FLAG_TRANSMIT_EMPTY: u32 = 1 << 7;

/// Interrupts: receive and receive timeout. Both are simply "input waits", so clearing them does nothing before it is read.
const INTERRUPT_INPUT: u32 = (1 << 4) | (1 << 6);
/// Interrupt: transmit. Set by each byte, cleared by UARTICR.
const INTERRUPT_TRANSMIT: u32 = 1 << 5;
/// Interrupt: overrun of the receive FIFO.
const INTERRUPT_OVERRUN: u32 = 1 << 10;
/// UARTRSR: overrun.
const STATUS_OVERRUN: u32 = 1 << 3;
/// The eleven interrupts.
const INTERRUPTS: u32 = 0x7ff;

/// UARTCR at reset: transmit and receive enabled.
const CONTROL_RESET: u32 = 0x300;
/// UARTIFLS at reset: both FIFOs at a half.
const LEVELS_RESET: u32 = 0x12;

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
    /// UARTCR, exclusive-or its reset value.
    control: AtomicU32,
    /// UARTIFLS, exclusive-or its reset value.
    levels: AtomicU32,
    /// UARTLCR_H.
    line_control: AtomicU32,
    /// UARTIBRD.
    integer_divisor: AtomicU32,
    /// UARTFBRD.
    fractional_divisor: AtomicU32,
    /// Bytes ever taken (31:16) and ever added (15:0), modulo 65,536.
    counts: AtomicU32,
    /// The FIFO; byte n at n modulo 32.
    bytes: [AtomicU64; (FIFO_BYTES / 8) as usize],
}

impl Default for Pl011State {
    fn default() -> Self {
        Self::new()
    }
}

impl Pl011State {
    /// Makes a device in its reset state.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            mask: AtomicU32::new(0),
            latched: AtomicU32::new(0),
            control: AtomicU32::new(0),
            levels: AtomicU32::new(0),
            line_control: AtomicU32::new(0),
            integer_divisor: AtomicU32::new(0),
            fractional_divisor: AtomicU32::new(0),
            counts: AtomicU32::new(0),
            bytes: [const { AtomicU64::new(0) }; (FIFO_BYTES / 8) as usize],
        }
    }

    /// Puts the device back into its reset state, for a restart of the partition.
    pub fn reset(&self) {
        let Self { mask, latched, control, levels, line_control, integer_divisor, fractional_divisor, counts, bytes } =
            self;
        for word in [mask, latched, control, levels, line_control, integer_divisor, fractional_divisor, counts] {
            word.store(0, SeqCst);
        }
        for word in bytes {
            word.store(0, Relaxed);
        }
    }

    /// Reads a register. The width does not matter: drivers use 8, 16 and 32 bits on the same register.
    #[must_use]
    #[inline]
    pub fn read(&self, offset: u64) -> Pl011Read {
        if offset == register::DR {
            return self.read_data();
        }
        let value = match offset {
            register::FR => self.flags(),
            register::RSR if self.latched.load(Relaxed) & INTERRUPT_OVERRUN != 0 => STATUS_OVERRUN,
            register::IBRD => self.integer_divisor.load(Relaxed),
            register::FBRD => self.fractional_divisor.load(Relaxed),
            register::LCR_H => self.line_control.load(Relaxed),
            register::CR => self.control.load(Relaxed) ^ CONTROL_RESET,
            register::IFLS => self.levels.load(Relaxed) ^ LEVELS_RESET,
            register::IMSC => self.mask.load(Relaxed),
            register::RIS => self.raw(),
            register::MIS => self.masked(),
            register::IDENTIFICATION..=register::IDENTIFICATION_LAST if offset & 3 == 0 => {
                let index = ((offset & 0x1f) >> 2) as usize;
                IDENTIFICATION.get(index).copied().map_or(0, u32::from)
            }
            _ => 0,
        };
        Pl011Read { value, interrupt: LineEffect::None }
    }

    /// Writes a register.
    #[inline]
    pub fn write(&self, offset: u64, value: u32) -> Pl011Effect {
        if offset == register::DR {
            return self.write_data(value as u8);
        }
        let before = self.masked();
        match offset {
            register::IMSC => self.mask.store(value & INTERRUPTS, SeqCst),
            register::ICR => {
                self.latched.fetch_and(!value, Relaxed);
            }
            register::RSR => {
                self.latched.fetch_and(!INTERRUPT_OVERRUN, Relaxed);
            }
            register::IBRD => self.integer_divisor.store(value & 0xffff, Relaxed),
            register::FBRD => self.fractional_divisor.store(value & 0x3f, Relaxed),
            register::LCR_H => self.line_control.store(value & 0xff, Relaxed),
            register::CR => self.control.store((value & 0xff87) ^ CONTROL_RESET, Relaxed),
            register::IFLS => self.levels.store((value & 0x3f) ^ LEVELS_RESET, Relaxed),
            // No IrDA, no DMA; the rest is read-only.
            register::ILPR | register::DMACR => {}
            _ => return Pl011Effect { output: None, interrupt: LineEffect::None },
        }
        let interrupt = if matches!(offset, register::IMSC | register::ICR | register::RSR) {
            self.line_after(before)
        } else {
            LineEffect::None
        };
        Pl011Effect { output: None, interrupt }
    }

    /// Adds a byte of console input and tells whether the interrupt must be made pending. A byte that finds the FIFO full is
    /// lost and noted as an overrun, as on the real device.
    ///
    /// One core at a time receives input, so there is one caller.
    pub fn push_input(&self, byte: u8) -> bool {
        let counts = self.counts.load(Relaxed);
        if waiting(counts) >= FIFO_BYTES {
            self.latched.fetch_or(INTERRUPT_OVERRUN, Relaxed);
            return self.masked() != 0;
        }
        let (slot, shift) = place(counts);
        if let Some(word) = self.bytes.get(slot) {
            let others = word.load(Relaxed) & !(0xff << shift);
            word.store(others | (u64::from(byte) << shift), Relaxed);
        }
        // Publishes the byte. Readers change the upper half at the same time, so this is an addition; the carry out of bit 15
        // must not reach it.
        let mut current = counts;
        for _ in 0..ATTEMPTS {
            let next = (current & 0xffff_0000) | (current.wrapping_add(1) & 0xffff);
            match self.counts.compare_exchange(current, next, SeqCst, Relaxed) {
                Ok(_) => break,
                Err(found) => current = found,
            }
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

    /// Takes the oldest byte of input, or zero.
    fn read_data(&self) -> Pl011Read {
        let before = self.masked();
        let value = self.pop_input().unwrap_or(0);
        Pl011Read { value: u32::from(value), interrupt: self.line_after(before) }
    }

    fn pop_input(&self) -> Option<u8> {
        let mut counts = self.counts.load(SeqCst);
        for _ in 0..ATTEMPTS {
            if waiting(counts) == 0 {
                return None;
            }
            let (slot, shift) = place(counts >> 16);
            let byte = (self.bytes.get(slot)?.load(Relaxed) >> shift) as u8;
            match self.counts.compare_exchange(counts, counts.wrapping_add(1 << 16), SeqCst, SeqCst) {
                Ok(_) => return Some(byte),
                Err(found) => counts = found,
            }
        }
        None
    }

    /// UARTFR. CTS, DSR, DCD and RI are inactive; BUSY and "transmit FIFO full" never happen.
    fn flags(&self) -> u32 {
        let receive = match waiting(self.counts.load(Relaxed)) {
            0 => FLAG_RECEIVE_EMPTY,
            FIFO_BYTES.. => FLAG_RECEIVE_FULL,
            _ => 0,
        };
        FLAG_TRANSMIT_EMPTY | receive
    }

    /// UARTRIS.
    fn raw(&self) -> u32 {
        let input = if waiting(self.counts.load(SeqCst)) != 0 { INTERRUPT_INPUT } else { 0 };
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

/// Bytes in the FIFO.
const fn waiting(counts: u32) -> u32 {
    counts.wrapping_sub(counts >> 16) & 0xffff
}

/// Word and bit position of the byte with this number.
const fn place(count: u32) -> (usize, u32) {
    (((count % FIFO_BYTES) / 8) as usize, (count % 8).wrapping_mul(8))
}
