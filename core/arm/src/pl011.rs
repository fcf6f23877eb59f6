//! The PL011 UART (DDI 0183, 3.2 "Summary of registers" and 3.3): offsets and bits.

/// UARTDR: data.
pub const UARTDR: u64 = 0x000;
/// UARTRSR when read, UARTECR when written: receive status, error clear.
pub const UARTRSR: u64 = 0x004;
/// UARTFR: flags.
pub const UARTFR: u64 = 0x018;
/// UARTIBRD: integer baud rate divisor.
pub const UARTIBRD: u64 = 0x024;
/// UARTFBRD: fractional baud rate divisor.
pub const UARTFBRD: u64 = 0x028;
/// UARTLCR_H: line control.
pub const UARTLCR_H: u64 = 0x02c;
/// UARTCR: control.
pub const UARTCR: u64 = 0x030;
/// UARTIFLS: FIFO levels that interrupt.
pub const UARTIFLS: u64 = 0x034;
/// UARTIMSC: which interrupts are signalled.
pub const UARTIMSC: u64 = 0x038;
/// UARTRIS: interrupts, signalled or not.
pub const UARTRIS: u64 = 0x03c;
/// UARTMIS: interrupts that are signalled.
pub const UARTMIS: u64 = 0x040;
/// UARTICR: interrupt clear.
pub const UARTICR: u64 = 0x044;
/// UARTPeriphID0, the first of eight identification registers.
pub const UARTPERIPHID0: u64 = 0xfe0;
/// UARTPCellID3, the last of them.
pub const UARTPCELLID3: u64 = 0xffc;

/// UARTRSR.OE: overrun.
pub const STATUS_OVERRUN: u32 = 1 << 3;
/// UARTFR.RXFE: the receive FIFO is empty.
pub const FLAG_RECEIVE_EMPTY: u32 = 1 << 4;
/// UARTFR.TXFF: the transmit FIFO is full.
pub const FLAG_TRANSMIT_FULL: u32 = 1 << 5;
/// UARTFR.RXFF: the receive FIFO is full.
pub const FLAG_RECEIVE_FULL: u32 = 1 << 6;
/// UARTFR.TXFE: the transmit FIFO is empty.
pub const FLAG_TRANSMIT_EMPTY: u32 = 1 << 7;
/// UARTLCR_H.FEN: the FIFOs are on.
pub const LINE_FIFO: u32 = 1 << 4;
/// UARTLCR_H.WLEN: words of eight bits.
pub const LINE_EIGHT_BITS: u32 = 3 << 5;
/// UARTCR.UARTEN: the UART is on.
pub const CONTROL_ENABLE: u32 = 1;
/// UARTCR.TXE: transmission is on.
pub const CONTROL_TRANSMIT: u32 = 1 << 8;
/// UARTCR.RXE: reception is on.
pub const CONTROL_RECEIVE: u32 = 1 << 9;
/// Interrupt RX: the receive FIFO has reached its level.
pub const INTERRUPT_RECEIVE: u32 = 1 << 4;
/// Interrupt TX: the transmit FIFO has reached its level.
pub const INTERRUPT_TRANSMIT: u32 = 1 << 5;
/// Interrupt RT: input waits and none came for a while.
pub const INTERRUPT_RECEIVE_TIMEOUT: u32 = 1 << 6;
/// Interrupt OE: overrun.
pub const INTERRUPT_OVERRUN: u32 = 1 << 10;
/// All eleven interrupts.
pub const INTERRUPTS: u32 = 0x7ff;
