//! Configuration space: type 0 headers (PCI Local Bus 3.0, 6.1 and 6.2).

use super::{Bus, COMMAND_INTERRUPT_DISABLE, COMMAND_LATCHED, FunctionState, PciEffect, merge, part};
use bulkhead_abi::plan::{PCI_IVSHMEM, PciFunction};
use core::sync::atomic::Ordering::{Relaxed, SeqCst};

/// ECAM: bits 19:15 device, 14:12 function, 11:0 register.
const DEVICE_SHIFT: u64 = 15;
const FUNCTION_MASK: u64 = 7 << 12;
pub(super) const REGISTER_MASK: u64 = 0xffc;
/// Bytes of ECAM of one bus.
const BUS_BYTES: u64 = 1 << 20;

const VENDOR_DEVICE: u64 = 0x00;
pub(super) const COMMAND_STATUS: u64 = 0x04;
const CLASS_REVISION: u64 = 0x08;
pub(super) const BASE_ADDRESS_0: u64 = 0x10;
const BASE_ADDRESS_2: u64 = 0x18;
const BASE_ADDRESS_3: u64 = 0x1c;
const SUBSYSTEM: u64 = 0x2c;
const INTERRUPT: u64 = 0x3c;

/// Vendor and device, class and revision: 1b36:0008, class 06 00.
const HOST_BRIDGE: (u32, u32) = (0x0008_1b36, 0x0600_0000);
/// ivshmem 1af4:1110, class 05 00 (RAM), revision 0: interrupt by INTx.
const IVSHMEM: (u32, u32) = (0x1110_1af4, 0x0500_0000);
/// Management 1af4:1111, class 08 80 (other system peripheral).
const MANAGEMENT: (u32, u32) = (0x1111_1af4, 0x0880_0000);
/// Subsystem 1af4:1100, the one of every device of this vendor that has no own.
const SUBSYSTEM_VALUE: u32 = 0x1100_1af4;

/// Status: interrupt pending, in the upper half of the register.
const STATUS_INTERRUPT_SHIFT: u32 = 16 + 3;
/// Interrupt pin, 1 is INTA.
const INTERRUPT_PIN_SHIFT: u32 = 8;
/// Base address: 64-bit, prefetchable memory.
const WIDE_PREFETCHABLE: u64 = 0xc;
/// Bytes of BAR 0.
const REGISTERS_BYTES: u64 = 4096;

impl Bus<'_> {
    /// Reads configuration space; `offset` is relative to ECAM. Absent functions and odd accesses read all ones (QV-13).
    #[must_use]
    pub fn config_read(&self, offset: u64, bytes: u8) -> u64 {
        let register = offset & REGISTER_MASK;
        let value = match device(offset) {
            Some(0) => identity(HOST_BRIDGE, register),
            Some(device) => {
                self.function_at(device).map_or(u32::MAX, |(function, state)| header(function, state, register))
            }
            None => u32::MAX,
        };
        let ones = u64::MAX >> (64u32.wrapping_sub(u32::from(bytes) << 3) & 63);
        part(value, offset, bytes).unwrap_or(ones)
    }

    /// Writes configuration space. What is not writable is ignored.
    #[must_use = "the monitor acts on the effect"]
    pub fn config_write(&self, offset: u64, bytes: u8, value: u64) -> PciEffect {
        let target = device(offset).and_then(|device| self.function_at(device));
        let Some((function, state)) = target else { return PciEffect::None };
        let register = offset & REGISTER_MASK;
        let Some(value) = merge(header(function, state, register), offset, bytes, value) else {
            return PciEffect::None;
        };
        match register {
            COMMAND_STATUS => {
                let before = state.command.swap(value & (COMMAND_LATCHED | COMMAND_INTERRUPT_DISABLE), SeqCst);
                if before & !value & COMMAND_INTERRUPT_DISABLE != 0 {
                    return state.rearmed(function);
                }
            }
            BASE_ADDRESS_0 | BASE_ADDRESS_2 | BASE_ADDRESS_3 if value == u32::MAX => {
                state.sizing.fetch_or(sizing_bit(register), Relaxed);
            }
            BASE_ADDRESS_0 | BASE_ADDRESS_2 | BASE_ADDRESS_3 => {
                state.sizing.fetch_and(!sizing_bit(register), Relaxed);
            }
            INTERRUPT => state.line.store(value & 0xff, Relaxed),
            _ => {}
        }
        PciEffect::None
    }

    /// The planned function of a device, which has the number after its own.
    fn function_at(&self, device: u32) -> Option<(&PciFunction, &FunctionState)> {
        self.state.function(self.plan, device.checked_sub(1)?)
    }
}

/// The device that an offset addresses; each has function 0 alone.
pub(super) fn device(offset: u64) -> Option<u32> {
    (offset < BUS_BYTES && offset & FUNCTION_MASK == 0).then_some((offset >> DEVICE_SHIFT) as u32)
}

/// The registers that say what a device is.
fn identity((identity, class): (u32, u32), register: u64) -> u32 {
    match register {
        VENDOR_DEVICE => identity,
        CLASS_REVISION => class,
        _ => 0,
    }
}

/// Type 0 header of a planned function. Zero everywhere else: no capabilities, no expansion ROM, no extended space.
fn header(function: &PciFunction, state: &FunctionState, register: u64) -> u32 {
    // The fixed address, or after a write of all ones the mask that tells the size.
    let base_address = |address: u64, bytes: u64| {
        if state.sizing.load(Relaxed) & sizing_bit(register) != 0 { bytes.wrapping_neg() } else { address }
    };
    let memory = base_address(function.memory.0, function.memory_bytes) | WIDE_PREFETCHABLE;
    match register {
        COMMAND_STATUS => state.command.load(Relaxed) | u32::from(state.is_interrupting()) << STATUS_INTERRUPT_SHIFT,
        BASE_ADDRESS_0 => base_address(function.registers.0, REGISTERS_BYTES) as u32,
        BASE_ADDRESS_2 if function.memory_bytes != 0 => memory as u32,
        BASE_ADDRESS_3 if function.memory_bytes != 0 => (memory >> 32) as u32,
        SUBSYSTEM => SUBSYSTEM_VALUE,
        INTERRUPT => state.line.load(Relaxed) | u32::from(function.interrupt != 0) << INTERRUPT_PIN_SHIFT,
        _ => identity(if function.kind == PCI_IVSHMEM { IVSHMEM } else { MANAGEMENT }, register),
    }
}

/// The bit of a base address register in `sizing`.
pub(super) const fn sizing_bit(register: u64) -> u32 {
    1 << ((register >> 2) & 7)
}
