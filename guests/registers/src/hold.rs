//! General and floating-point registers and the flags.

use crate::{Pattern, expect};
use core::arch::{asm, global_asm};

global_asm!(include_str!("hold.s"));

unsafe extern "C" {
    fn bulkhead_registers_hold(block: *mut Block) -> u64;
    fn bulkhead_registers_vectors(words: *mut [u64; VECTOR_WORDS]);
}

/// Words of v0 to v31, FPCR and FPSR.
const VECTOR_WORDS: usize = 66;
const FLAGS: usize = 31;
const VECTORS: usize = 32;
const FPCR: usize = 96;
const FPSR: usize = 97;
const TURNS: usize = 98;
const FOUND: usize = 100;
/// NZCV.
const FLAG_BITS: u64 = 0xf000_0000;
/// AHP, DN, FZ and the rounding mode.
const FPCR_BITS: u64 = 0x07c0_0000;
/// QC and the cumulative exception bits.
const FPSR_BITS: u64 = 0x0800_009f;

/// What `hold.s` uses.
#[repr(C, align(16))]
struct Block {
    words: [u64; 104],
}

/// Lets this guest use floating point (CPACR_EL1.FPEN).
fn enable() {
    // SAFETY: the guest is compiled without floating point, so nobody else uses these registers.
    unsafe { asm!("msr CPACR_EL1, {}", "isb", in(reg) 3u64 << 20, options(nostack, preserves_flags)) };
}

/// A start finds zeros.
pub(crate) fn expect_start() {
    enable();
    let mut words = [u64::MAX; VECTOR_WORDS];
    // SAFETY: writes the words and nothing else.
    unsafe { bulkhead_registers_vectors(&raw mut words) };
    for (place, word) in (0..).zip(words) {
        expect("floating-point word at start", place, word, 0);
    }
}

/// Fills the registers and looks `turns` times whether they stay.
pub(crate) fn hold(pattern: &mut Pattern, turns: u64, floats: bool) {
    let mut block = Block { words: [0; 104] };
    for (place, word) in block.words.iter_mut().enumerate().take(TURNS) {
        let value = pattern.next();
        *word = match place {
            FLAGS => value & FLAG_BITS,
            FPCR => value & FPCR_BITS,
            FPSR => value & FPSR_BITS,
            VECTORS..FPCR if !floats => 0,
            _ => value,
        };
    }
    block.words[TURNS] = turns;
    if !floats {
        return;
    }
    // SAFETY: interrupts are masked, so nothing else uses the stack pointer; the block has the size and alignment that the
    // assembly expects; the registers that a caller counts on are put back.
    let differing = unsafe { bulkhead_registers_hold(&raw mut block) };
    if let Some(place) = differing.checked_sub(1) {
        let expected = block.words.get(place as usize).copied().unwrap_or(0);
        expect("general or floating-point word", place, block.words[FOUND], expected);
    }
}
