//! Drives a PL011: components call [`write`] for a line, are sent a signal when something was typed, and call [`typed`] for it.
//!
//! Callers leave their lines and take what was typed with their own threads, and wait for nobody (`bulkhead_lines`). The registers are the driver's thread's
//! alone. It writes as much as the FIFO takes, then asks for the interrupt that says that there is room; so it waits, and never spins, for a line that
//! takes 87 us for a byte. A driver that is begun again finds the interrupt masked, sets the UART up, and says `done` for what its former life left.
//!
//! The argument is the number of lines after which the driver ends; 0 for never.
#![no_std]
#![no_main]

use bulkhead_arm::pl011::{
    CONTROL_ENABLE, CONTROL_RECEIVE, CONTROL_TRANSMIT, FLAG_RECEIVE_EMPTY, FLAG_TRANSMIT_FULL, INTERRUPT_OVERRUN,
    INTERRUPT_RECEIVE, INTERRUPT_RECEIVE_TIMEOUT, INTERRUPT_TRANSMIT, INTERRUPTS, LINE_EIGHT_BITS, LINE_FIFO, UARTCR,
    UARTDR, UARTFR, UARTICR, UARTIMSC, UARTLCR_H, UARTMIS,
};
use bulkhead_component::driver::{Registers, interrupt_done};
use bulkhead_component::{Code, call, println};
use bulkhead_lines::{Lines, Refusal, Text, Typed, Watch};

bulkhead_component::entry!(main);

bulkhead_component::devices! {
    /// The UART.
    uart;
}

bulkhead_component::import! {
    /// Tells the reader that something was typed.
    fn input();
    /// Tells the driver's thread that there is a line.
    fn wake();
}

bulkhead_component::slots! {
    /// Where lines and the interrupt are signalled.
    events;
    /// The interrupt.
    line;
}

/// Signal of the interrupt; it is the first of the end point.
const DEVICE: u64 = 1;
/// What is always told.
const INPUT: u32 = INTERRUPT_RECEIVE | INTERRUPT_RECEIVE_TIMEOUT | INTERRUPT_OVERRUN;
/// Bytes of the FIFO. Its interrupt comes when the FIFO falls to half of it, so it must have been full.
const FIFO_BYTES: u32 = 32;

static LINES: Lines = Lines::new();
static TYPED: Typed = Typed::new();

bulkhead_component::export! {
    /// Has a text of `length` bytes written, at most 48; the first byte is the lowest of the first word. Answers the number of a code: `Ok`, and it is written in its turn;
    /// `BadArgument` for another length; `Full` while too many wait; `TimedOut` for a caller that did not run for a second while it was in here.
    fn write(_token, length, first, second, third, fourth, fifth, sixth) {
        let code = match LINES.put(length, [first, second, third, fourth, fifth, sixth]) {
            Ok(()) => Code::Ok,
            Err(Refusal::Length) => Code::BadArgument,
            Err(Refusal::Full) => Code::Full,
            Err(Refusal::Late) => Code::TimedOut,
        };
        if code == Code::Ok {
            let _ = wake();
        }
        code.number()
    }

    /// Up to seven bytes that were typed: how many in the lowest byte, then the bytes, the first one lowest. 0 when there are none.
    fn typed(_token) {
        TYPED.piece()
    }
}

/// The driver's thread and what it has begun.
struct Driver {
    uart: Registers,
    /// The line that is being written, and how much of it is.
    current: Option<(Text, usize)>,
    /// Bytes that the FIFO takes for certain without an interrupt.
    room: u32,
    /// Lines written; bytes that nobody read in time; interrupts.
    lines: u64,
    lost: u64,
    interrupts: u64,
}

fn main(last: u64) {
    let uart = uart::registers();
    uart.write32(UARTIMSC, 0);
    uart.write32(UARTLCR_H, LINE_EIGHT_BITS | LINE_FIFO);
    uart.write32(UARTCR, CONTROL_ENABLE | CONTROL_TRANSMIT | CONTROL_RECEIVE);
    uart.write32(UARTICR, INTERRUPTS);
    uart.write32(UARTIMSC, INPUT);
    // `Busy` in the first life: nothing came yet.
    let _ = interrupt_done(line());
    let second = call::version().map_or(0, |version| version.counter_hz);
    let mut watch = Watch::default();
    let mut driver = Driver { uart, current: None, room: FIFO_BYTES, lines: 0, lost: 0, interrupts: 0 };
    // Somebody may have called before the driver's first instruction.
    driver.write();
    while last == 0 || driver.lines < last {
        match call::receive(events(), call::counter_ticks() + second) {
            Ok((bits, _)) => {
                if bits & DEVICE != 0 {
                    driver.interrupt();
                }
                driver.take_typed();
                driver.write();
                if bits & DEVICE != 0 {
                    let _ = interrupt_done(line());
                }
            }
            Err(Code::TimedOut) => driver.write(),
            Err(code) => return println!("uart: {code:?}"),
        }
        let _ = LINES.take_back(&mut watch, call::counter_ticks(), second);
    }
    uart.write32(UARTIMSC, 0);
    println!("uart: {} lines, {} interrupts, {} bytes of input lost", driver.lines, driver.interrupts, driver.lost);
}

impl Driver {
    /// What the UART has to say.
    fn interrupt(&mut self) {
        self.interrupts += 1;
        let status = self.uart.read32(UARTMIS);
        self.uart.write32(UARTICR, status);
        if status & INTERRUPT_TRANSMIT != 0 {
            self.room = FIFO_BYTES;
        }
    }

    /// Takes what was typed.
    fn take_typed(&mut self) {
        let (mut is_typed, mut is_empty) = (false, false);
        // No more than a FIFO at once: lines are written in between.
        for _ in 0..FIFO_BYTES {
            is_empty = self.uart.read32(UARTFR) & FLAG_RECEIVE_EMPTY != 0;
            if is_empty {
                break;
            }
            let byte = self.uart.read32(UARTDR).to_le_bytes()[0];
            self.lost += u64::from(!TYPED.push(byte));
            is_typed = true;
        }
        if !is_empty {
            // What came meanwhile has no interrupt of its own on QEMU, whose UART knows no time-out: it interrupts for the first byte in an empty FIFO alone.
            let _ = wake();
        }
        if is_typed {
            // A reader that is gone is told nothing.
            let _ = input();
        }
    }

    /// Writes as much as there is and the FIFO takes; if more is left, an interrupt tells when there is room.
    fn write(&mut self) {
        while let Some((text, done)) = self.current.take().or_else(|| LINES.take().map(|text| (text, 0))) {
            let mut done = done;
            for byte in text.bytes().skip(done) {
                if self.room == 0 || self.uart.read32(UARTFR) & FLAG_TRANSMIT_FULL != 0 {
                    self.current = Some((text, done));
                    self.room = 0;
                    return self.uart.write32(UARTIMSC, INPUT | INTERRUPT_TRANSMIT);
                }
                self.uart.write32(UARTDR, byte.into());
                (self.room, done) = (self.room - 1, done + 1);
            }
            self.lines += 1;
        }
        self.uart.write32(UARTIMSC, INPUT);
    }
}
