//! Configuration space: type 0 headers (PCI Local Bus 3.0, 6.1 and 6.2).

use super::{COMMAND_INTERRUPT_DISABLE, COMMAND_LATCHED, FunctionState, PciEffect, PciState, merge, part};
use bulkhead_abi::plan::{PCI_IVSHMEM, PCI_MANAGEMENT, PartitionPlan, PciFunction};
use core::sync::atomic::Ordering::{Relaxed, SeqCst};

/// ECAM: bits 19:15 device, 14:12 function, 11:0 register.
const DEVICE_SHIFT: u64 = 15;
const FUNCTION_MASK: u64 = 7 << 12;
const REGISTER_MASK: u64 = 0xffc;
/// Bytes of ECAM of one bus.
const BUS_BYTES: u64 = 1 << 20;

const VENDOR_DEVICE: u64 = 0x00;
const COMMAND_STATUS: u64 = 0x04;
const CLASS_REVISION: u64 = 0x08;
const BASE_ADDRESS_0: u64 = 0x10;
const BASE_ADDRESS_2: u64 = 0x18;
const BASE_ADDRESS_3: u64 = 0x1c;
const SUBSYSTEM: u64 = 0x2c;
const INTERRUPT: u64 = 0x3c;

/// Host bridge 1b36:0008, class 06 00.
const HOST_BRIDGE: u32 = 0x0008_1b36;
const HOST_BRIDGE_CLASS: u32 = 0x0600_0000;
/// ivshmem 1af4:1110, class 05 00 (RAM), revision 0: interrupt by INTx.
const IVSHMEM: u32 = 0x1110_1af4;
const IVSHMEM_CLASS: u32 = 0x0500_0000;
/// Management 1af4:1111, class 08 80 (other system peripheral).
const MANAGEMENT: u32 = 0x1111_1af4;
const MANAGEMENT_CLASS: u32 = 0x0880_0000;
/// Subsystem 1af4:1100, the one of every device of this vendor that has no own.
const SUBSYSTEM_VALUE: u32 = 0x1100_1af4;

/// Status: interrupt pending, in the upper half of the register.
const STATUS_INTERRUPT: u32 = 1 << (16 + 3);
/// Base address: 64-bit, prefetchable memory.
const WIDE_PREFETCHABLE: u32 = 0xc;
/// Bytes of BAR 0.
const REGISTERS_BYTES: u64 = 4096;

/// What answers at a device number.
enum Target<'a> {
    HostBridge,
    Function(&'a PciFunction, &'a FunctionState),
}

/// Reads configuration space; `offset` is relative to ECAM. Absent functions and odd accesses read all ones (QV-13).
#[must_use]
pub fn config_read(plan: &PartitionPlan, state: &PciState, offset: u64, bytes: u8) -> u64 {
    let register = offset & REGISTER_MASK;
    let value = match locate(plan, state, offset) {
        Some(Target::HostBridge) => host_bridge(register),
        Some(Target::Function(function, state)) => header(function, state, register),
        None => u32::MAX,
    };
    part(value, offset, bytes).unwrap_or(match bytes {
        1 => 0xff,
        2 => 0xffff,
        4 => 0xffff_ffff,
        _ => u64::MAX,
    })
}

/// Writes configuration space. What is not writable is ignored.
#[must_use = "the monitor acts on the effect"]
pub fn config_write(plan: &PartitionPlan, state: &PciState, offset: u64, bytes: u8, value: u64) -> PciEffect {
    let Some(Target::Function(function, state)) = locate(plan, state, offset) else { return PciEffect::None };
    let register = offset & REGISTER_MASK;
    let Some(value) = merge(header(function, state, register), offset, bytes, value) else { return PciEffect::None };
    match register {
        COMMAND_STATUS => {
            let before = state.command.swap(value & (COMMAND_LATCHED | COMMAND_INTERRUPT_DISABLE), SeqCst);
            if before & !value & COMMAND_INTERRUPT_DISABLE != 0 { state.rearmed(function) } else { PciEffect::None }
        }
        BASE_ADDRESS_0 | BASE_ADDRESS_2 | BASE_ADDRESS_3 => {
            let bit = sizing_bit(register);
            if value == u32::MAX {
                state.sizing.fetch_or(bit, Relaxed);
            } else {
                state.sizing.fetch_and(!bit, Relaxed);
            }
            PciEffect::None
        }
        INTERRUPT => {
            state.line.store(value & 0xff, Relaxed);
            PciEffect::None
        }
        _ => PciEffect::None,
    }
}

/// Finds what an offset addresses: function 0 of a planned device, or nothing.
fn locate<'a>(plan: &'a PartitionPlan, state: &'a PciState, offset: u64) -> Option<Target<'a>> {
    if offset >= BUS_BYTES || offset & FUNCTION_MASK != 0 {
        return None;
    }
    match (offset >> DEVICE_SHIFT).checked_sub(1) {
        None => Some(Target::HostBridge),
        Some(index) => {
            let (function, state) = state.function(plan, index as u32)?;
            Some(Target::Function(function, state))
        }
    }
}

fn host_bridge(register: u64) -> u32 {
    match register {
        VENDOR_DEVICE => HOST_BRIDGE,
        CLASS_REVISION => HOST_BRIDGE_CLASS,
        _ => 0,
    }
}

/// Type 0 header of a planned function. Zero everywhere else: no capabilities, no expansion ROM, no extended space.
fn header(function: &PciFunction, state: &FunctionState, register: u64) -> u32 {
    let (identity, class) = match function.kind {
        PCI_IVSHMEM => (IVSHMEM, IVSHMEM_CLASS),
        PCI_MANAGEMENT => (MANAGEMENT, MANAGEMENT_CLASS),
        _ => (u32::MAX, 0),
    };
    match register {
        VENDOR_DEVICE => identity,
        COMMAND_STATUS => {
            let interrupt = if state.is_interrupting() { STATUS_INTERRUPT } else { 0 };
            state.command.load(Relaxed) | interrupt
        }
        CLASS_REVISION => class,
        BASE_ADDRESS_0 => base_address(function.registers.0, REGISTERS_BYTES, 0, state, register) as u32,
        BASE_ADDRESS_2 | BASE_ADDRESS_3 if function.memory_bytes != 0 => {
            let value = base_address(function.memory.0, function.memory_bytes, WIDE_PREFETCHABLE, state, register);
            if register == BASE_ADDRESS_2 { value as u32 } else { (value >> 32) as u32 }
        }
        SUBSYSTEM => SUBSYSTEM_VALUE,
        INTERRUPT => {
            let pin = if function.interrupt != 0 { 1 << 8 } else { 0 };
            state.line.load(Relaxed) | pin
        }
        _ => 0,
    }
}

/// A base address register as 64 bits: the fixed address, or after a write of all ones the mask that tells the size.
fn base_address(address: u64, bytes: u64, flags: u32, state: &FunctionState, register: u64) -> u64 {
    let is_sizing = state.sizing.load(Relaxed) & sizing_bit(register) != 0;
    let value = if is_sizing { bytes.wrapping_neg() } else { address };
    value | u64::from(flags)
}

/// The bit of a base address register in `sizing`.
const fn sizing_bit(register: u64) -> u32 {
    1 << ((register >> 2) & 7)
}
