//! Configuration space of a device of the board (QV-13): what the host wrote down of it, and two live registers.
//!
//! Identity, class, base addresses and capabilities are data of the plan, so nothing here reads a capability, and what the plan left
//! out (messages as interrupts, windows into other registers) cannot be reached by any access. Command and Status are the
//! function's own, as far as a driver needs them: memory, bus master, interrupt disable; interrupt pending, and errors.

use super::config::{BASE_ADDRESS_0, COMMAND_STATUS, REGISTER_MASK, device, sizing_bit};
use super::{Bus, COMMAND_INTERRUPT_DISABLE, COMMAND_LATCHED, FunctionState, merge, part};
use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::devices::{Bar, DeviceFunction, DevicePlan, MAX_BARS};
use bulkhead_abi::plan::PCI_DEVICE;
use core::sync::atomic::Ordering::Relaxed;

/// Bits of Command and Status that are read from the function: the three that can be written, and of Status interrupt pending, the
/// data parity error and the five that tell aborts and errors.
const LIVE: u32 = 0xf908_0406;
/// Bits of Command that can be written.
const WRITABLE: u32 = COMMAND_LATCHED | COMMAND_INTERRUPT_DISABLE;
/// Bits of a base address register that say what is behind it.
const BAR_KIND: u32 = 0xf;
/// The kind of a base address that takes two registers, in the bits under the mask.
const BAR_WIDTH: u32 = 6;
const BAR_WIDE: u32 = 4;

/// The registers of a function that are live.
///
/// Duties of an implementer: they are those of the function whose page of configuration space this is.
pub trait ConfigurationPort {
    /// Reads Status and Command, one 32-bit register.
    fn command_status(&self, configuration: PhysicalAddress) -> u32;
    /// Writes Command by a store of 16 bits: one of 32 would clear bits of Status.
    fn set_command(&self, configuration: PhysicalAddress, command: u16);
}

impl Bus<'_> {
    /// As [`Bus::config_read`], of a device of the board; `None` when there is none at this offset.
    #[must_use]
    pub fn device_read(
        &self,
        devices: &DevicePlan,
        port: &impl ConfigurationPort,
        offset: u64,
        bytes: u8,
    ) -> Option<u64> {
        let (function, state) = self.device_at(devices, offset)?;
        let register = offset & REGISTER_MASK;
        let mut value = word(function, state, register);
        if register == COMMAND_STATUS {
            value = port.command_status(function.configuration) & LIVE | value & !LIVE;
        }
        let ones = u64::MAX >> (64u32.wrapping_sub(u32::from(bytes) << 3) & 63);
        Some(part(value, offset, bytes).unwrap_or(ones))
    }

    /// As [`Bus::config_write`], to a device of the board; false when there is none at this offset.
    pub fn device_write(
        &self,
        devices: &DevicePlan,
        port: &impl ConfigurationPort,
        offset: u64,
        bytes: u8,
        value: u64,
    ) -> bool {
        let Some((function, state)) = self.device_at(devices, offset) else { return false };
        let register = offset & REGISTER_MASK;
        if register == COMMAND_STATUS {
            let before = port.command_status(function.configuration);
            let written = merge(before, offset, bytes, value).unwrap_or(before);
            if (written ^ before) & WRITABLE != 0 {
                port.set_command(function.configuration, (written & WRITABLE | before & !WRITABLE) as u16);
            }
        } else if base_address(register).is_some() {
            match merge(word(function, state, register), offset, bytes, value) {
                Some(u32::MAX) => _ = state.sizing.fetch_or(sizing_bit(register), Relaxed),
                Some(_) => _ = state.sizing.fetch_and(!sizing_bit(register), Relaxed),
                None => {}
            }
        }
        true
    }

    fn device_at<'a>(&self, devices: &'a DevicePlan, offset: u64) -> Option<(&'a DeviceFunction, &FunctionState)> {
        let index = device(offset)?.checked_sub(1)?;
        let (_, state) = self.state.function(self.plan, index).filter(|(planned, _)| planned.kind == PCI_DEVICE)?;
        devices.functions.get(index as usize).zip(Some(state))
    }
}

/// Which base address register this is.
fn base_address(register: u64) -> Option<usize> {
    let index = register.checked_sub(BASE_ADDRESS_0)? as usize >> 2;
    (index < MAX_BARS).then_some(index)
}

/// A word of the header: as the plan has it, but for base addresses whose latest write was all ones. Extended space is zero.
fn word(function: &DeviceFunction, state: &FunctionState, register: u64) -> u32 {
    let index = register as usize >> 2;
    let planned = function.header.get(index).copied().unwrap_or(0);
    let sized = state.sizing.load(Relaxed) & sizing_bit(register) != 0;
    let Some(bar) = base_address(register).filter(|_| sized) else { return planned };
    let bytes = |bar: &Bar| bar.bytes.wrapping_neg();
    match function.bars.get(bar) {
        Some(own) if own.bytes != 0 => bytes(own) as u32 & !BAR_KIND | planned & BAR_KIND,
        // The upper half of a wide one.
        _ => {
            let lower = bar.checked_sub(1).and_then(|lower| function.bars.get(lower)).filter(|bar| bar.bytes != 0);
            let kind = function.header.get(index.saturating_sub(1)).copied().unwrap_or(0) & BAR_WIDTH;
            lower.filter(|_| kind == BAR_WIDE).map_or(planned, |bar| (bytes(bar) >> 32) as u32)
        }
    }
}
