//! Device registers, by loads and stores that a monitor can decode.
//!
//! An ordinary volatile access may be compiled to a pair or to a load with write-back, for which the CPU gives a trapping
//! monitor no syndrome. These functions are one plain instruction each.

use core::arch::asm;

/// Reads a 32-bit register.
///
/// # Safety
/// `address` is a device register that this guest may read and is aligned to 4 bytes.
#[must_use]
// One instruction: a call would be longer.
#[inline]
pub unsafe fn read32(address: u64) -> u32 {
    let value: u32;
    // A plain load or store, for which the CPU gives a monitor a syndrome.
    // SAFETY: the caller vouches for the address.
    unsafe { asm!("ldr {:w}, [{}]", out(reg) value, in(reg) address, options(nostack, preserves_flags)) };
    value
}

/// Writes a 32-bit register.
///
/// # Safety
/// `address` is a device register that this guest may write, is aligned to 4 bytes, and the write breaks no promise of
/// other code (a device may write memory).
// One instruction: a call would be longer.
#[inline]
pub unsafe fn write32(address: u64, value: u32) {
    // A plain load or store, for which the CPU gives a monitor a syndrome.
    // SAFETY: the caller vouches for the address and the effect.
    unsafe { asm!("str {:w}, [{}]", in(reg) value, in(reg) address, options(nostack, preserves_flags)) };
}

/// Writes an 8-bit register.
///
/// # Safety
/// As for [`write32`], without the alignment.
// One instruction: a call would be longer.
#[inline]
pub unsafe fn write8(address: u64, value: u8) {
    // A plain load or store, for which the CPU gives a monitor a syndrome.
    // SAFETY: the caller vouches for the address and the effect.
    unsafe { asm!("strb {:w}, [{}]", in(reg) u32::from(value), in(reg) address, options(nostack, preserves_flags)) };
}

/// Writes a 64-bit register.
///
/// # Safety
/// As for [`write32`], aligned to 8 bytes.
// One instruction: a call would be longer.
#[inline]
pub unsafe fn write64(address: u64, value: u64) {
    // A plain load or store, for which the CPU gives a monitor a syndrome.
    // SAFETY: the caller vouches for the address and the effect.
    unsafe { asm!("str {}, [{}]", in(reg) value, in(reg) address, options(nostack, preserves_flags)) };
}
