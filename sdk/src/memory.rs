//! Identity translation of a guest: constants of the image, in use from the first instructions on.
//!
//! | guest address | memory type |
//! | --- | --- |
//! | 0 .. 0x1000_0000 | Device-nGnRnE, never executable |
//! | 0x1000_0000 .. 0x1800_0000 | Normal non-cacheable: information page, console ring, channels |
//! | 0x1800_0000 .. 0x4000_0000 | Device-nGnRnE, never executable |
//! | 0x4000_0000 .. 0x1_0000_0000 | Normal write-back, executable |
//!
//! Channel pages are non-cacheable because every end of a channel maps them so; mismatched attributes work under
//! emulation and fail on silicon. What a partition does not own is stopped by stage 2, so this map is not a barrier; a
//! guest with an inner boundary of its own replaces it.

use core::arch::global_asm;

/// MAIR_EL1: index 0 Device-nGnRnE, 1 Normal write-back, 2 Normal non-cacheable.
const MAIR: u64 = 0x0044_ff00;
/// TCR_EL1: 39-bit addresses by TTBR0 (T0SZ 25), write-back inner-shareable walks, TTBR1 off (EPD1), 40-bit output.
const TCR: u64 = 25 | (1 << 8) | (1 << 10) | (3 << 12) | (1 << 23) | (2 << 32);
/// SCTLR_EL1: RES1 bits, translation (M), data cache (C), stack alignment check (SA), instruction cache (I).
pub(crate) const SCTLR: u64 = 0x30d0_0800 | 1 | (1 << 2) | (1 << 3) | (1 << 12);

/// Valid block descriptor with the access flag set.
const BLOCK: u64 = 1 | (1 << 10);
const INNER_SHAREABLE: u64 = 3 << 8;
const NEVER_EXECUTE: u64 = (1 << 53) | (1 << 54);
const DEVICE: u64 = BLOCK | NEVER_EXECUTE;
const NORMAL: u64 = BLOCK | (1 << 2) | INNER_SHAREABLE;
const NORMAL_NON_CACHEABLE: u64 = BLOCK | (2 << 2) | INNER_SHAREABLE | NEVER_EXECUTE;

const BLOCK_BYTES: u64 = 2 << 20;
const NON_CACHEABLE_START: u64 = 0x1000_0000;
const NON_CACHEABLE_END: u64 = 0x1800_0000;

/// One translation table.
#[repr(C, align(4096))]
struct Table([u64; 512]);

/// The first GiB in blocks of 2 MiB.
static LEVEL2: Table = Table(level2());

const fn level2() -> [u64; 512] {
    let mut entries = [0; 512];
    let mut index = 0;
    let mut address = 0;
    while index < entries.len() {
        let is_shared = address >= NON_CACHEABLE_START && address < NON_CACHEABLE_END;
        entries[index] = address | if is_shared { NORMAL_NON_CACHEABLE } else { DEVICE };
        index += 1;
        address += BLOCK_BYTES;
    }
    entries
}

global_asm!(
    include_str!("start.s"),
    mair = const MAIR,
    tcr = const TCR,
    sctlr = const SCTLR,
    ram = const NORMAL,
    level2 = sym LEVEL2,
);
