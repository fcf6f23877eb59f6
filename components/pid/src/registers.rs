//! Registers of floating point, planted and looked for by hand.

#![allow(dead_code, reason = "each of three programs uses a part of it")]

use core::arch::asm;
use core::mem::MaybeUninit;

/// v0 to v31 by halves, FPCR, FPSR.
pub(crate) const WORDS: usize = 66;
/// Bits of FPCR that a pattern sets: RMode, FZ, DN, AHP. Those of FPSR: QC and the cumulative exceptions.
const CONTROL: u64 = 0x07c0_0000;
const STATUS: u64 = 0x0800_009f;

/// The words in the order of the registers.
#[repr(C, align(16))]
pub(crate) struct Registers(pub(crate) [u64; WORDS]);

impl Registers {
    pub(crate) const NONE: Self = Self([0; WORDS]);

    /// What a pattern leaves there.
    pub(crate) fn of(pattern: u64) -> Self {
        let mut words = [pattern; WORDS];
        (words[WORDS - 2], words[WORDS - 1]) = (CONTROL, STATUS);
        Self(words)
    }

    /// Words that are neither zero nor these.
    pub(crate) fn count_foreign(&self, own: &Self) -> u64 {
        self.0.iter().zip(own.0).filter(|(word, own)| **word != 0 && **word != *own).count() as u64
    }

    pub(crate) fn count_other_than(&self, own: &Self) -> u64 {
        self.0.iter().zip(own.0).filter(|(word, own)| **word != *own).count() as u64
    }
}

/// Reads all.
#[inline(always)] // Before anything else uses them.
pub(crate) fn read() -> Registers {
    // Not cleared before: that would be done with one of them.
    let mut words = MaybeUninit::<Registers>::uninit();
    // SAFETY: stores registers into memory of this type, of which each word is written.
    unsafe {
        asm!(
            "stp q0, q1, [x21, #0]",
            "stp q2, q3, [x21, #32]",
            "stp q4, q5, [x21, #64]",
            "stp q6, q7, [x21, #96]",
            "stp q8, q9, [x21, #128]",
            "stp q10, q11, [x21, #160]",
            "stp q12, q13, [x21, #192]",
            "stp q14, q15, [x21, #224]",
            "stp q16, q17, [x21, #256]",
            "stp q18, q19, [x21, #288]",
            "stp q20, q21, [x21, #320]",
            "stp q22, q23, [x21, #352]",
            "stp q24, q25, [x21, #384]",
            "stp q26, q27, [x21, #416]",
            "stp q28, q29, [x21, #448]",
            "stp q30, q31, [x21, #480]",
            "mrs x9, FPCR",
            "mrs x10, FPSR",
            "str x9, [x21, #512]",
            "str x10, [x21, #520]",
            in("x21") words.as_mut_ptr(), out("x9") _, out("x10") _,
            options(nostack, preserves_flags),
        );
        words.assume_init()
    }
}

/// Plants a pattern.
#[inline(always)] // Nothing else uses them behind it.
pub(crate) fn plant(pattern: u64) {
    // SAFETY: writes registers that are said to be lost.
    unsafe {
        asm!(
            "dup v0.2d, x9",
            "dup v1.2d, x9",
            "dup v2.2d, x9",
            "dup v3.2d, x9",
            "dup v4.2d, x9",
            "dup v5.2d, x9",
            "dup v6.2d, x9",
            "dup v7.2d, x9",
            "dup v8.2d, x9",
            "dup v9.2d, x9",
            "dup v10.2d, x9",
            "dup v11.2d, x9",
            "dup v12.2d, x9",
            "dup v13.2d, x9",
            "dup v14.2d, x9",
            "dup v15.2d, x9",
            "dup v16.2d, x9",
            "dup v17.2d, x9",
            "dup v18.2d, x9",
            "dup v19.2d, x9",
            "dup v20.2d, x9",
            "dup v21.2d, x9",
            "dup v22.2d, x9",
            "dup v23.2d, x9",
            "dup v24.2d, x9",
            "dup v25.2d, x9",
            "dup v26.2d, x9",
            "dup v27.2d, x9",
            "dup v28.2d, x9",
            "dup v29.2d, x9",
            "dup v30.2d, x9",
            "dup v31.2d, x9",
            "msr FPCR, x10",
            "msr FPSR, x11",
            in("x9") pattern, in("x10") CONTROL, in("x11") STATUS,
            out("v0") _, out("v1") _, out("v2") _, out("v3") _, out("v4") _, out("v5") _, out("v6") _, out("v7") _,
            out("v8") _, out("v9") _, out("v10") _, out("v11") _, out("v12") _, out("v13") _, out("v14") _, out("v15") _,
            out("v16") _, out("v17") _, out("v18") _, out("v19") _, out("v20") _, out("v21") _, out("v22") _, out("v23") _,
            out("v24") _, out("v25") _, out("v26") _, out("v27") _, out("v28") _, out("v29") _, out("v30") _, out("v31") _,
            options(nostack, nomem, preserves_flags),
        );
    }
}

/// Plants a pattern, makes call `NUMBER` of the kernel with x8 and x0 to x7, and reads all at once behind it. Returns x0 to x7, and x8.
pub(crate) fn planted<const NUMBER: u16>(
    pattern: u64,
    slot: u64,
    arguments: [u64; 8],
    words: &mut Registers,
) -> ([u64; 8], u64) {
    let code: u64;
    let [mut x0, mut x1, mut x2, mut x3, mut x4, mut x5, mut x6, mut x7] = arguments;
    // SAFETY: as in `interface::invoke`; stores registers into memory of this type. FPCR and FPSR are zero again at the end.
    unsafe {
        asm!(
            "dup v0.2d, x9",
            "dup v1.2d, x9",
            "dup v2.2d, x9",
            "dup v3.2d, x9",
            "dup v4.2d, x9",
            "dup v5.2d, x9",
            "dup v6.2d, x9",
            "dup v7.2d, x9",
            "dup v8.2d, x9",
            "dup v9.2d, x9",
            "dup v10.2d, x9",
            "dup v11.2d, x9",
            "dup v12.2d, x9",
            "dup v13.2d, x9",
            "dup v14.2d, x9",
            "dup v15.2d, x9",
            "dup v16.2d, x9",
            "dup v17.2d, x9",
            "dup v18.2d, x9",
            "dup v19.2d, x9",
            "dup v20.2d, x9",
            "dup v21.2d, x9",
            "dup v22.2d, x9",
            "dup v23.2d, x9",
            "dup v24.2d, x9",
            "dup v25.2d, x9",
            "dup v26.2d, x9",
            "dup v27.2d, x9",
            "dup v28.2d, x9",
            "dup v29.2d, x9",
            "dup v30.2d, x9",
            "dup v31.2d, x9",
            "msr FPCR, x10",
            "msr FPSR, x11",
            "stp x29, x30, [sp, #-112]!",
            "stp x19, x20, [sp, #16]",
            "stp x21, x22, [sp, #32]",
            "stp x23, x24, [sp, #48]",
            "stp x25, x26, [sp, #64]",
            "stp x27, x28, [sp, #80]",
            "svc #{number}",
            "ldp x19, x20, [sp, #16]",
            "ldp x21, x22, [sp, #32]",
            "ldp x23, x24, [sp, #48]",
            "ldp x25, x26, [sp, #64]",
            "ldp x27, x28, [sp, #80]",
            "ldp x29, x30, [sp], #112",
            "stp q0, q1, [x21, #0]",
            "stp q2, q3, [x21, #32]",
            "stp q4, q5, [x21, #64]",
            "stp q6, q7, [x21, #96]",
            "stp q8, q9, [x21, #128]",
            "stp q10, q11, [x21, #160]",
            "stp q12, q13, [x21, #192]",
            "stp q14, q15, [x21, #224]",
            "stp q16, q17, [x21, #256]",
            "stp q18, q19, [x21, #288]",
            "stp q20, q21, [x21, #320]",
            "stp q22, q23, [x21, #352]",
            "stp q24, q25, [x21, #384]",
            "stp q26, q27, [x21, #416]",
            "stp q28, q29, [x21, #448]",
            "stp q30, q31, [x21, #480]",
            "mrs x9, FPCR",
            "mrs x10, FPSR",
            "str x9, [x21, #512]",
            "str x10, [x21, #520]",
            "msr FPCR, xzr",
            "msr FPSR, xzr",
            number = const NUMBER,
            in("x21") words.0.as_mut_ptr(),
            inout("x0") x0, inout("x1") x1, inout("x2") x2, inout("x3") x3, inout("x4") x4, inout("x5") x5,
            inout("x6") x6, inout("x7") x7, inout("x8") slot => code, inout("x9") pattern => _, inout("x10") CONTROL => _, inout("x11") STATUS => _,
            out("x12") _, out("x13") _,
            out("x14") _, out("x15") _, out("x16") _, out("x17") _, out("x18") _,
            out("v0") _, out("v1") _, out("v2") _, out("v3") _, out("v4") _, out("v5") _, out("v6") _, out("v7") _,
            out("v8") _, out("v9") _, out("v10") _, out("v11") _, out("v12") _, out("v13") _, out("v14") _, out("v15") _,
            out("v16") _, out("v17") _, out("v18") _, out("v19") _, out("v20") _, out("v21") _, out("v22") _, out("v23") _,
            out("v24") _, out("v25") _, out("v26") _, out("v27") _, out("v28") _, out("v29") _, out("v30") _, out("v31") _,
        );
    }
    ([x0, x1, x2, x3, x4, x5, x6, x7], code)
}
