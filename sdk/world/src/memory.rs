//! The other world's memory: filled with zeros, copied out of flash, and checked, a slice at a time.
//!
//! Loops of assembly, because a restart moves hundreds of mebibytes and its time is promised: a slice of 4 KiB costs 0.02 instructions for
//! each byte that is filled, 0.32 for each that is copied and checked, 0.19 for each that is checked again. Numbers are instructions.

use core::arch::asm;

/// Bytes that one round of a loop moves.
const ROUND_BYTES: u64 = 64;

/// A range of memory, and a CRC-32C register.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    /// First address.
    pub(crate) address: u64,
    /// Bytes.
    pub(crate) bytes: u64,
}

impl Range {
    const fn split(self) -> (u64, u64) {
        let whole = self.bytes & !(ROUND_BYTES - 1);
        (whole, self.bytes & (ROUND_BYTES - 1))
    }
}

/// Copies from `from` to `to` and returns the CRC-32C register after what was read.
///
/// # Safety
/// `from` is flash and `to.address` begins as many bytes of the other world's window; both are mapped and 8-byte aligned, and that world
/// does not run.
pub(crate) unsafe fn copy(from: u64, to: Range, mut crc: u32) -> u32 {
    let (whole, rest) = to.split();
    let (mut source, mut target) = (from, to.address);
    if whole != 0 {
        // SAFETY: the caller's; the loop ends after `whole` bytes, which are at most `to.bytes`.
        unsafe {
            asm!(
                ".arch_extension crc",
                "2:",
                "ldp {a}, {b}, [{source}], #16", "ldp {c}, {d}, [{source}], #16",
                "ldp {e}, {f}, [{source}], #16", "ldp {g}, {h}, [{source}], #16",
                "stp {a}, {b}, [{target}], #16", "stp {c}, {d}, [{target}], #16",
                "stp {e}, {f}, [{target}], #16", "stp {g}, {h}, [{target}], #16",
                "crc32cx {crc:w}, {crc:w}, {a}", "crc32cx {crc:w}, {crc:w}, {b}",
                "crc32cx {crc:w}, {crc:w}, {c}", "crc32cx {crc:w}, {crc:w}, {d}",
                "crc32cx {crc:w}, {crc:w}, {e}", "crc32cx {crc:w}, {crc:w}, {f}",
                "crc32cx {crc:w}, {crc:w}, {g}", "crc32cx {crc:w}, {crc:w}, {h}",
                "subs {left}, {left}, #64",
                "b.ne 2b",
                source = inout(reg) source, target = inout(reg) target, left = inout(reg) whole => _, crc = inout(reg) crc,
                a = out(reg) _, b = out(reg) _, c = out(reg) _, d = out(reg) _,
                e = out(reg) _, f = out(reg) _, g = out(reg) _, h = out(reg) _, options(nostack),
            );
        }
    }
    for _ in 0..rest {
        // SAFETY: the caller's; one of the last bytes. The instruction changes its register alone.
        unsafe {
            let byte = core::ptr::with_exposed_provenance::<u8>(source as usize).read_volatile();
            core::ptr::with_exposed_provenance_mut::<u8>(target as usize).write_volatile(byte);
            crc = with_byte(crc, byte);
        }
        (source, target) = (source.wrapping_add(1), target.wrapping_add(1));
    }
    crc
}

/// Returns the CRC-32C register after these bytes.
///
/// # Safety
/// The range is mapped and 8-byte aligned.
pub(crate) unsafe fn check(of: Range, mut crc: u32) -> u32 {
    let (whole, rest) = of.split();
    let mut source = of.address;
    if whole != 0 {
        // SAFETY: the caller's; only read.
        unsafe {
            asm!(
                ".arch_extension crc",
                "2:",
                "ldp {a}, {b}, [{source}], #16", "ldp {c}, {d}, [{source}], #16",
                "crc32cx {crc:w}, {crc:w}, {a}", "crc32cx {crc:w}, {crc:w}, {b}",
                "ldp {a}, {b}, [{source}], #16", "crc32cx {crc:w}, {crc:w}, {c}",
                "crc32cx {crc:w}, {crc:w}, {d}", "ldp {c}, {d}, [{source}], #16",
                "crc32cx {crc:w}, {crc:w}, {a}", "crc32cx {crc:w}, {crc:w}, {b}",
                "crc32cx {crc:w}, {crc:w}, {c}", "crc32cx {crc:w}, {crc:w}, {d}",
                "subs {left}, {left}, #64",
                "b.ne 2b",
                source = inout(reg) source, left = inout(reg) whole => _, crc = inout(reg) crc,
                a = out(reg) _, b = out(reg) _, c = out(reg) _, d = out(reg) _, options(nostack, readonly),
            );
        }
    }
    for _ in 0..rest {
        // SAFETY: the caller's; one of the last bytes.
        unsafe { crc = with_byte(crc, core::ptr::with_exposed_provenance::<u8>(source as usize).read_volatile()) };
        source = source.wrapping_add(1);
    }
    crc
}

fn with_byte(mut crc: u32, byte: u8) -> u32 {
    // SAFETY: changes its register alone.
    unsafe {
        asm!(".arch_extension crc", "crc32cb {crc:w}, {crc:w}, {byte:w}", crc = inout(reg) crc, byte = in(reg) u32::from(byte),
             options(nomem, nostack, pure));
    }
    crc
}

/// Fills a range with zeros.
///
/// # Safety
/// The range is whole pages of the other world's window, mapped as Normal memory, and that world does not run.
pub(crate) unsafe fn scrub(range: Range) {
    if range.bytes == 0 {
        return;
    }
    let dczid: u64;
    // SAFETY: reads a register that tells how many words DC ZVA fills (Arm ARM D17.2.34).
    unsafe { asm!("mrs {}, DCZID_EL0", out(reg) dczid, options(nomem, nostack, pure)) };
    // A larger block is filled several times: eight steps then still end with the page.
    let block = (4_u64 << (dczid & 0xf)).min(512);
    // SAFETY: the caller's; eight steps are a divisor of a page, so the loop ends with the range, and a block is within its page.
    unsafe {
        asm!(
            "2:",
            ".rept 8",
            "dc zva, {address}",
            "add {address}, {address}, {block}",
            ".endr",
            "cmp {address}, {end}",
            "b.lo 2b",
            address = inout(reg) range.address => _, block = in(reg) block,
            end = in(reg) range.address.wrapping_add(range.bytes), options(nostack),
        );
    }
}

/// What was copied is to be fetched by the other world.
pub(crate) fn synchronise_instructions() {
    // SAFETY: maintenance of caches changes no value.
    unsafe { asm!("dsb sy", "ic ialluis", "dsb sy", "isb", options(nostack)) }
}
