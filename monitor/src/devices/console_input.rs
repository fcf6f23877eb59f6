//! Console input: the board's UART, received by the core of the partition in focus.
//!
//! The UART's receive interrupt is routed to the core of vCPU 0 of one partition, which passes the bytes to that partition's
//! virtual UART. `Ctrl-]` gives the focus to the next partition: that core routes the interrupt there, with one write to
//! a register of this interrupt alone. So there is no lock and no shared state: the route is the focus. The number of times that a
//! partition gave the focus away is in its status page, from which the host knows where it is. Output never touches the UART.
//!
//! **Flow.** Whatever the UART received is taken at once, so that a `Ctrl-]` never waits behind bytes that a guest does not read.
//! A byte that finds the guest's FIFO full is dropped and counted. Nothing need be: counters say what came, what the guest has
//! read and what was lost, and the host (`bulkhead run`) sends no more than has room. A board's serial line has nobody who could
//! be told to wait. The rejected alternative, to leave bytes in the UART while the guest's FIFO is full, puts the `Ctrl-]` behind
//! them, and needs a timer to look for it.

use crate::life::powers::Route;
use crate::observe::at;
use crate::state::Vcpu;
use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::observe::Counter;
use bulkhead_arch::Machine;
use bulkhead_arm::{Intid, gic, pl011};
use bulkhead_emulation::pl011::LineEffect;

/// The byte that moves the focus, Ctrl-].
const NEXT: u8 = 0x1d;
/// Bytes taken per interrupt, twice the UART's FIFO: more wait for the next interrupt, so a flood cannot hold the core.
const MOST_BYTES: u32 = 64;

const EIGHT_BITS_FIFO: u32 = pl011::LINE_EIGHT_BITS | pl011::LINE_FIFO;
const ENABLE_RECEIVE: u32 = pl011::CONTROL_RECEIVE | pl011::CONTROL_ENABLE;
const RECEIVE_AND_TIMEOUT: u32 = pl011::INTERRUPT_RECEIVE_TIMEOUT | pl011::INTERRUPT_RECEIVE;

impl<M: Machine> Vcpu<M> {
    /// Sets the UART up and takes the focus, on the core that the plan says has it at boot.
    pub(crate) fn start_console_input(&self, route: Route) {
        if self.plan.uart.0 == 0 || self.plan.uart_first == 0 {
            return;
        }
        let uart = |offset| at(self.plan.uart, offset);
        self.machine.store32(uart(pl011::UARTCR), 0);
        self.machine.store32(uart(pl011::UARTLCR_H), EIGHT_BITS_FIFO);
        self.machine.store32(uart(pl011::UARTICR), pl011::INTERRUPTS);
        self.machine.store32(uart(pl011::UARTIMSC), RECEIVE_AND_TIMEOUT);
        self.machine.store32(uart(pl011::UARTCR), ENABLE_RECEIVE);
        let intid = Intid(self.plan.uart_interrupt);
        let priority = self.distributor(gic::priority_byte(intid));
        self.machine.store8(priority, crate::interrupts::MONITOR_PRIORITY);
        self.route(intid.0, self.plan.mpidr, route);
        // Accesses to two devices are in order by a barrier alone: the UART is set up and routed before its interrupt
        // is enabled.
        self.machine.barrier();
        self.machine.store32(self.distributor(gic::bit_word(gic::ISENABLER, intid)), intid.bit());
    }

    fn distributor(&self, offset: u64) -> PhysicalAddress {
        at(self.plan.gicd, offset)
    }

    /// Takes what the UART received, until it is empty or the focus moved.
    pub(crate) fn console_input(&mut self) {
        for _ in 0..MOST_BYTES {
            if self.machine.load32(at(self.plan.uart, pl011::UARTFR)) & pl011::FLAG_RECEIVE_EMPTY != 0 {
                break;
            }
            match self.machine.load32(at(self.plan.uart, pl011::UARTDR)) as u8 {
                NEXT => {
                    self.give_focus();
                    break;
                }
                byte => {
                    self.count(Counter::ConsoleReceived);
                    if self.shared.uart.is_full() {
                        self.count(Counter::ConsoleLost);
                    }
                    if self.shared.uart.push_input(byte) {
                        self.uart_line(LineEffect::Pend);
                    }
                }
            }
        }
    }
}
