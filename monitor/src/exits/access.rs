//! Data aborts: accesses to the windows that the monitor answers, and everything else as a fault.

use crate::life::health::Fault;
use crate::observe::at;
use crate::state::Vcpu;
use bulkhead_abi::observe::Counter;
#[cfg(feature = "devices")]
use bulkhead_abi::plan::WINDOW_VIRTIO;
use bulkhead_abi::plan::{
    INTERRUPT_CONSOLE, WINDOW_ECAM, WINDOW_GICD, WINDOW_GICR, WINDOW_PCI_REGISTERS, WINDOW_UART, Window,
};
use bulkhead_abi::{PhysicalAddress, status};
use bulkhead_arch::Machine;
use bulkhead_arm::gic;
use bulkhead_emulation::gic::{Filter, GicPort};
use bulkhead_emulation::pci::{Bus, PciEffect};
use bulkhead_emulation::pl011::{LineEffect, UARTDR};
use bulkhead_emulation::trap::{DataAbort, Syndrome};

/// A GIC frame of the machine, as the filter sees it.
struct Frame<'a, M: Machine> {
    vcpu: &'a Vcpu<M>,
    base: PhysicalAddress,
}

impl<M: Machine> GicPort for Frame<'_, M> {
    fn read32(&self, offset: u64) -> u32 {
        if let Some(value) = self.vcpu.kept_private(self.base, offset) {
            return value;
        }
        self.vcpu.machine.load32(at(self.base, offset))
    }
    fn write32(&self, offset: u64, value: u32) {
        let clears = matches!(offset & 0xffff, gic::ICPENDR..gic::ISACTIVER | gic::ICACTIVER..gic::IPRIORITYR);
        let value = if clears { self.vcpu.forget_cleared(offset & 0xffff, value) } else { value };
        let forwarded = self.vcpu.keep_private(self.base, offset, value);
        self.vcpu.machine.store32(at(self.base, offset), forwarded);
    }
    fn priority(&self, intid: u32) -> u8 {
        if self.vcpu.is_mapped() {
            self.vcpu.priority_of(intid)
        } else {
            self.vcpu.machine.load8(self.vcpu.priority_place(intid))
        }
    }
    fn write_priority(&self, intid: u32, priority: u8) {
        self.vcpu.set_priority(intid, priority);
    }
    fn read64(&self, offset: u64) -> u64 {
        self.vcpu.machine.load64(at(self.base, offset))
    }
    fn write_route(&self, intid: u32, affinity: u64) {
        self.vcpu.route_for_guest(intid, affinity);
    }
}

impl<M: Machine> Vcpu<M> {
    /// Answers a data abort: an emulated access, or a fault.
    // From here to the register is one path, of one caller, and its length has a ceiling (`call.gicd_read`).
    #[inline(always)]
    pub(crate) fn access(&mut self, syndrome: Syndrome) {
        let registers = self.machine.exit_registers();
        let guest = (registers.fault_page & 0xfff_ffff_fff0) << 8 | registers.fault_address & 0xfff;
        let abort = syndrome.data_abort();
        let window = if abort.unmapped { self.window_at(guest) } else { None };
        let Some(window) = window else {
            self.fault(Fault::with_guest_address(status::REASON_DATA_ABORT, syndrome.0));
            return;
        };
        if !abort.valid {
            self.fault(Fault::with_guest_address(status::REASON_BAD_ACCESS, syndrome.0));
            return;
        }
        let offset = guest.wrapping_sub(window.guest.0);
        if abort.write {
            let value = abort.stored(self.head.frame.register(abort.register));
            self.window_write(window, offset, &abort, value);
        } else {
            let value = self.window_read(window, offset, &abort);
            self.head.frame.set_register(abort.register, abort.loaded(value));
        }
        self.skip_instruction(syndrome);
    }

    /// Finds the window of a guest address. The planner puts the most frequent first, fronts of virtio or else the distributor;
    /// an unused entry has no bytes and matches nothing.
    // On that path: the first comparison ends it for nearly all accesses.
    #[inline(always)]
    fn window_at(&self, guest: u64) -> Option<&'static Window> {
        let (first, rest) = self.partition.windows.split_first()?;
        if guest.wrapping_sub(first.guest.0) < first.bytes {
            return Some(first);
        }
        rest.iter().find(|window| guest.wrapping_sub(window.guest.0) < window.bytes)
    }

    /// The registers that a running guest uses all the time; the others stay out of this path and its registers.
    // On that path, with one caller.
    #[inline(always)]
    fn window_read(&mut self, window: &Window, offset: u64, abort: &DataAbort) -> u64 {
        match window.kind {
            WINDOW_GICD => {
                self.count(Counter::Distributor);
                self.gic(self.plan.gicd).distributor_read(offset, abort.bytes).unwrap_or_else(|| self.ignored_read())
            }
            WINDOW_UART => {
                self.count(Counter::Console);
                if offset == UARTDR { self.read_input() } else { u64::from(self.shared.uart.read(offset).value) }
            }
            WINDOW_GICR
                if let Some(value) =
                    self.gic(self.plan.gicr).own_set_clear_read(self.plan.vcpu, offset, abort.bytes) =>
            {
                self.count(Counter::Redistributor);
                value
            }
            _ => self.rare_read(window, offset, abort.bytes),
        }
    }

    /// Only this register's read takes something and can move the line; the flags, which a driver reads for each byte, cannot.
    // What a driver reads for each byte are the flags (`console.byte`): some 65 instructions more in their handler
    // would be for input alone.
    #[inline(never)]
    fn read_input(&self) -> u64 {
        let read = self.shared.uart.read(UARTDR);
        if read.interrupt != LineEffect::None {
            self.uart_line(read.interrupt);
        }
        if read.taken {
            self.count(Counter::ConsoleRead);
        }
        u64::from(read.value)
    }

    // Inlined, the filter is no value in memory: its fields are the registers that they come from.
    #[inline(always)]
    fn gic(&self, base: PhysicalAddress) -> Filter<'_, Frame<'_, M>> {
        Filter { owned: &self.owned, plan: self.partition, port: Frame { vcpu: self, base } }
    }

    pub(crate) fn pci(&self) -> Bus<'_> {
        Bus { plan: self.partition, state: &self.shared.pci }
    }

    // Drivers do not go on reading what is ignored, so this is laid out apart from what they do read.
    #[cold]
    fn ignored_read(&self) -> u64 {
        self.count(Counter::GicIgnored);
        0
    }

    // Some 300 instructions, and the registers that they need, for what a running guest does not read.
    #[inline(never)]
    fn rare_read(&mut self, window: &Window, offset: u64, bytes: u8) -> u64 {
        match window.kind {
            WINDOW_GICR => {
                self.count(Counter::Redistributor);
                let value = self.gic(self.plan.gicr).redistributor_read(self.plan.vcpu, offset, bytes);
                value.unwrap_or_else(|| self.ignored_read())
            }
            WINDOW_ECAM => {
                self.count(Counter::PciConfig);
                #[cfg(feature = "devices")]
                if let Some(value) = self.function_read(offset, bytes) {
                    return value;
                }
                self.pci().config_read(offset, bytes)
            }
            WINDOW_PCI_REGISTERS => {
                self.count(Counter::PciRegisters);
                self.pci().register_read(window.index, offset, bytes, self)
            }
            #[cfg(feature = "devices")]
            WINDOW_VIRTIO => self.front_read(window.index, offset, bytes),
            _ => self.ignored_read(),
        }
    }

    /// As [`Self::window_read`].
    // On that path, with one caller.
    #[inline(always)]
    fn window_write(&mut self, window: &Window, offset: u64, abort: &DataAbort, value: u64) {
        match window.kind {
            WINDOW_GICD => {
                self.count(Counter::Distributor);
                self.count_ignored(self.gic(self.plan.gicd).distributor_write(offset, abort.bytes, value));
            }
            WINDOW_UART => self.uart_write(offset, value as u32),
            _ => self.rare_write(window, offset, abort.bytes, value),
        }
    }

    // Kept apart for the same reason as `rare_read`.
    #[inline(never)]
    fn rare_write(&mut self, window: &Window, offset: u64, bytes: u8, value: u64) {
        match window.kind {
            WINDOW_GICR => {
                self.count(Counter::Redistributor);
                let frame = self.gic(self.plan.gicr);
                self.count_ignored(frame.redistributor_write(self.plan.vcpu, offset, bytes, value));
                self.private_interrupts_changed();
            }
            WINDOW_ECAM => {
                self.count(Counter::PciConfig);
                #[cfg(feature = "devices")]
                if self.function_write(offset, bytes, value) {
                    return;
                }
                let effect = self.pci().config_write(offset, bytes, value);
                self.pci_effect(effect);
            }
            WINDOW_PCI_REGISTERS => {
                self.count(Counter::PciRegisters);
                let effect = self.pci().register_write(window.index, offset, bytes, value, self);
                self.pci_effect(effect);
            }
            #[cfg(feature = "devices")]
            WINDOW_VIRTIO => self.front_write(window.index, offset, bytes, value),
            _ => self.count(Counter::GicIgnored),
        }
    }

    fn count_ignored(&self, done: bool) {
        if !done {
            self.count(Counter::GicIgnored);
        }
    }

    // One of two accesses for each byte of output, and `console.byte` has a ceiling.
    #[inline(always)]
    fn uart_write(&mut self, offset: u64, value: u32) {
        self.count(Counter::Console);
        let effect = self.shared.uart.write(offset, value);
        if let Some(byte) = effect.output {
            self.console_byte(byte);
        }
        if effect.interrupt != LineEffect::None {
            self.uart_line(effect.interrupt);
        }
    }

    /// Moves the virtual UART's interrupt line, a spare interrupt of the board.
    // Only a change of the line comes here. There are two callers, so the compiler keeps it apart by itself today.
    #[inline(never)]
    pub(crate) fn uart_line(&self, effect: LineEffect) {
        let mut interrupts = self.partition.interrupts().iter();
        if let Some(line) = interrupts.find(|interrupt| interrupt.kind == INTERRUPT_CONSOLE) {
            self.pend_spare(line.intid, effect == LineEffect::Pend);
            if effect == LineEffect::Clear {
                // Another core may have added input since, and its interrupt is what was just taken back.
                self.machine.barrier();
                if self.shared.uart.is_asserted() {
                    self.pend_spare(line.intid, true);
                }
            }
        }
    }

    fn pci_effect(&mut self, effect: PciEffect) {
        match effect {
            PciEffect::None => {}
            PciEffect::Pend(intid) => self.pend_spare(intid, true),
            PciEffect::Doorbell(index) => {
                self.ring_doorbell(u64::from(index));
            }
            PciEffect::Heartbeat => self.heartbeat(),
        }
    }
}
