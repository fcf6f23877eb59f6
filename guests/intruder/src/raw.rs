//! Memory and registers by their addresses, one plain access each, of every width.

use bulkhead_sdk::mmio;
use core::arch::asm;

/// Reads 1, 2, 4 or 8 bytes.
pub(crate) fn read(address: u64, bytes: u64) -> u64 {
    let value: u64;
    // SAFETY: configuration space or registers of this guest's own functions, or RAM of its own beyond its image, which no Rust object
    // is in; a read changes nothing that Rust knows of. Elsewhere it is an attack, and this guest's fault.
    unsafe {
        match bytes {
            1 => asm!("ldrb {:w}, [{}]", out(reg) value, in(reg) address, options(nostack, preserves_flags)),
            2 => asm!("ldrh {:w}, [{}]", out(reg) value, in(reg) address, options(nostack, preserves_flags)),
            4 => value = mmio::read32(address).into(),
            _ => asm!("ldr {}, [{}]", out(reg) value, in(reg) address, options(nostack, preserves_flags)),
        }
    }
    value
}

/// Writes 1, 2, 4 or 8 bytes.
pub(crate) fn write(address: u64, bytes: u64, value: u64) {
    // SAFETY: as in `read`; what a function is told to write is its own buffer, RAM of this guest beyond its image, or memory that this
    // guest must not reach: that is the attack.
    unsafe {
        match bytes {
            1 => mmio::write8(address, value as u8),
            2 => asm!("strh {:w}, [{}]", in(reg) value, in(reg) address, options(nostack, preserves_flags)),
            4 => mmio::write32(address, value as u32),
            _ => mmio::write64(address, value),
        }
    }
}

/// The first place in a range of own memory that is not zero.
pub(crate) fn first_that_is_set(start: u64, bytes: u64) -> Option<u64> {
    (start..start + bytes).step_by(8).find(|place| read(*place, 8) != 0)
}
