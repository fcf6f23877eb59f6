//! System registers of EL1 and EL0.

use crate::{Pattern, expect};
use core::arch::asm;

/// Registers with a pattern.
pub(crate) const COUNT: usize = 28;

/// Declares `read`, `write` and `NAMES`, in one order: register, bits that get the pattern, and whether hardware may keep
/// less than was written (then what it kept must stay).
macro_rules! registers {
    ($($name:literal, $bits:expr, $exact:expr;)*) => {
        const TABLE: [(&str, u64, bool); COUNT] = [$(($name, $bits, $exact)),*];

        fn read() -> [u64; COUNT] {
            [$({
                let value: u64;
                // SAFETY: reads a register of this guest.
                unsafe { asm!(concat!("mrs {}, ", $name), out(reg) value, options(nostack, preserves_flags)) };
                value
            }),*]
        }

        fn write(values: &[u64; COUNT]) {
            let mut all = values.iter();
            $(
                let value = all.next().copied().unwrap_or(0);
                // SAFETY: with interrupts masked and no fault on the way nothing of what is changed here is used: the
                // bits in `TABLE` leave translation, vectors of EL0 and the stack pointer of EL1 alone.
                unsafe { asm!(concat!("msr ", $name, ", {}"), in(reg) value, options(nostack, preserves_flags)) };
            )*
            // SAFETY: a barrier.
            unsafe { asm!("isb", options(nostack, preserves_flags)) };
        }
    };
}

const ALL: u64 = u64::MAX;
/// A virtual address of the lower half: the upper bits of address registers may be copies of bit 48.
const ADDRESS: u64 = 0x0000_7fff_ffff_fffc;

registers! {
    "TPIDR_EL0", ALL, true;
    "TPIDR_EL1", ALL, true;
    "TPIDRRO_EL0", ALL, true;
    "CONTEXTIDR_EL1", 0xffff_ffff, true;
    // Walks through it are off (TCR_EL1.EPD1).
    "TTBR1_EL1", 0xffff_0000_ffff_f000, true;
    // The address space identifier alone.
    "TTBR0_EL1", 0xffff_0000_0000_0000, true;
    // T1SZ and the attributes of walks that are off.
    "TCR_EL1", 0x0000_0000_3f1f_0000, true;
    // The attributes that no page of this guest uses.
    "MAIR_EL1", 0xffff_ffff_ff00_0000, true;
    "AMAIR_EL1", ALL, false;
    // What EL0 may do: DZE, UCT, nTWI, nTWE, UCI.
    "SCTLR_EL1", 0x0405_c000, true;
    // Whether EL0 may use floating point.
    "CPACR_EL1", 1 << 21, true;
    "VBAR_EL1", 0x0000_7fff_ffff_f800, true;
    "ESR_EL1", 0xffff_ffff, true;
    "FAR_EL1", ALL, true;
    "ELR_EL1", ADDRESS, true;
    "SPSR_EL1", 0xf000_03c0, true;
    "SP_EL0", ALL, true;
    "AFSR0_EL1", ALL, false;
    "AFSR1_EL1", ALL, false;
    "PAR_EL1", 0x0000_ffff_ffff_f000, false;
    "CSSELR_EL1", 0x3, true;
    "CNTKCTL_EL1", 0x3ff, true;
    "CNTV_CVAL_EL0", ALL, true;
    "CNTP_CVAL_EL0", ALL, true;
    // IMASK, without ENABLE: the third bit is read-only and changes with time.
    "CNTV_CTL_EL0", 0x2, false;
    "CNTP_CTL_EL0", 0x2, false;
    "ICC_PMR_EL1", 0xf8, true;
    "ICC_CTLR_EL1", 0x2, true;
}

/// Registers that are zero at a start; the SDK has written the others, and those of the CPU interface have values of their own.
const ZERO_AT_START: [&str; 19] = [
    "TPIDR_EL0",
    "TPIDR_EL1",
    "TPIDRRO_EL0",
    "CONTEXTIDR_EL1",
    "TTBR1_EL1",
    "AMAIR_EL1",
    "CPACR_EL1",
    "ESR_EL1",
    "FAR_EL1",
    "ELR_EL1",
    "SPSR_EL1",
    "SP_EL0",
    "AFSR0_EL1",
    "AFSR1_EL1",
    "CSSELR_EL1",
    "CNTKCTL_EL1",
    "CNTV_CVAL_EL0",
    "CNTP_CVAL_EL0",
    "ICC_PMR_EL1",
];

/// A start finds the values of reset.
pub(crate) fn expect_start() {
    for ((name, ..), value) in TABLE.iter().zip(read()) {
        if ZERO_AT_START.contains(name) {
            expect(name, 0, value, 0);
        } else if name.starts_with("CNT") {
            expect(name, 0, value & 3, 0);
        }
    }
}

/// Values before, and with the pattern.
pub(crate) struct Values {
    before: [u64; COUNT],
    filled: [u64; COUNT],
}

/// Writes the pattern.
pub(crate) fn fill(pattern: &mut Pattern) -> Values {
    let before = read();
    let mut filled = before;
    for (value, (_, bits, _)) in filled.iter_mut().zip(TABLE) {
        *value = *value & !bits | pattern.next() & bits;
    }
    write(&filled);
    for ((kept, value), (_, _, exact)) in read().into_iter().zip(&mut filled).zip(TABLE) {
        if !exact {
            *value = kept;
        }
    }
    Values { before, filled }
}

/// Looks whether the pattern is still there, and puts back what was before.
pub(crate) fn expect_and_restore(values: &Values) {
    let now = read();
    write(&values.before);
    for ((now, filled), (name, ..)) in now.into_iter().zip(values.filled).zip(TABLE) {
        let bits = if name.ends_with("CTL_EL0") { 3 } else { u64::MAX };
        expect(name, 0, now & bits, filled & bits);
    }
}
