//! System registers by encoding: every MRS and MSR there is, made at run time.

use crate::{
    attack::{Attack, Expectation, Outcome},
    trial,
};
use bulkhead_sdk::cpu;
use core::arch::asm;

const MRS: u32 = 0xd520_0000;
const MSR: u32 = 0xd500_0000;
const RETURN: u32 = 0xd65f_03c0;

/// SYS, an instruction of the system with x0 as its operand.
pub(crate) const SYSTEM: u32 = 0xd508_0000;
/// vCPUs that make code at once.
const VCPUS: usize = 8;
/// Instructions of one piece of code, the return included: 64 bytes, so that hardly a cache line holds two pieces.
const CODE_WORDS: usize = 16;

/// Code made here, a piece for each vCPU: a few instructions and a return. RAM is mapped executable.
static mut CODE: [[u32; CODE_WORDS]; VCPUS] = [[0; CODE_WORDS]; VCPUS];

/// A register's encoding: op0, op1, CRn, CRm, op2.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Encoding(pub(crate) u32, pub(crate) u32, pub(crate) u32, pub(crate) u32, pub(crate) u32);

/// ICC_BPR1_EL1.
pub(crate) const BINARY_POINT_1: Encoding = Encoding(3, 0, 12, 12, 3);

impl Encoding {
    pub(crate) const fn bits(self) -> u32 {
        (self.0 << 19) | (self.1 << 16) | (self.2 << 12) | (self.3 << 8) | (self.4 << 5)
    }
}

/// Registers whose change would end this program rather than attack anybody: SCTLR, TTBR0, TCR, MAIR, VBAR, SPSel, DAIF.
const NEEDED: [Encoding; 7] = [
    Encoding(3, 0, 1, 0, 0),
    Encoding(3, 0, 2, 0, 0),
    Encoding(3, 0, 2, 0, 2),
    Encoding(3, 0, 10, 2, 0),
    Encoding(3, 0, 12, 0, 0),
    Encoding(3, 0, 4, 2, 0),
    Encoding(3, 3, 4, 2, 1),
];

/// Those without which no exception of this guest finds its vector: SCTLR, TTBR0, TTBR1, TCR, MAIR, VBAR.
pub(crate) const NEEDED_BY_VECTORS: [Encoding; 6] = [
    Encoding(3, 0, 1, 0, 0),
    Encoding(3, 0, 2, 0, 0),
    Encoding(3, 0, 2, 0, 1),
    Encoding(3, 0, 2, 0, 2),
    Encoding(3, 0, 10, 2, 0),
    Encoding(3, 0, 12, 0, 0),
];

/// Runs instructions with `x0`; x0 to x2 may change.
pub(crate) fn execute(instructions: &[u32], x0: u64) {
    let piece = cpu::vcpu() as usize % VCPUS * CODE_WORDS;
    // SAFETY: the place is in the array.
    let code = unsafe { (&raw mut CODE).cast::<u32>().add(piece) };
    let all = instructions.iter().chain(&[RETURN]);
    for (index, instruction) in all.enumerate().take(8) {
        // SAFETY: no other vCPU uses this piece; the index is below its length.
        unsafe { code.add(index).write_volatile(*instruction) };
    }
    // SAFETY: the instructions are register accesses and a return; exceptions among them are stepped over. The piece is one
    // cache line or two of 64 bytes, made visible to instruction fetch first.
    unsafe {
        asm!(
            "dc cvau, {code}", "dc cvau, {end}", "dsb ish", "ic ivau, {code}", "ic ivau, {end}", "dsb ish", "isb",
            "blr {code}",
            code = in(reg) code,
            end = in(reg) code.add(7),
            inout("x0") x0 => _,
            clobber_abi("C"),
        );
    }
}

fn encodings(op0: u32, op1: core::ops::Range<u32>, crn: core::ops::Range<u32>) -> impl Iterator<Item = Encoding> {
    op1.flat_map(move |op1| {
        crn.clone()
            .flat_map(move |crn| (0..16).flat_map(move |crm| (0..8).map(move |op2| Encoding(op0, op1, crn, crm, op2))))
    })
}

/// What a sweep found.
#[derive(Default)]
struct Tally {
    done: u64,
    undefined: u64,
    other: u64,
}

fn sweep(encodings: impl Iterator<Item = Encoding>, try_one: impl Fn(Encoding)) -> Tally {
    let mut tally = Tally::default();
    for encoding in encodings {
        match trial::attempt(|| try_one(encoding)) {
            None => tally.done += 1,
            // Undefined; or a floating-point register, which this guest has switched off for itself.
            Some(syndrome) if matches!(syndrome.class(), 0x00 | 0x07 | 0x18) => tally.undefined += 1,
            Some(_) => tally.other += 1,
        }
    }
    tally
}

fn read_one(encoding: Encoding) {
    execute(&[MRS | encoding.bits()], 0);
}

/// Reads a register, whatever becomes of it.
pub(crate) fn read_register(encoding: Encoding) {
    read_one(encoding);
}

/// Writes a register, whatever becomes of it.
pub(crate) fn write_register(encoding: Encoding, value: u64) {
    execute(&[MSR | encoding.bits()], value);
}

/// Reads the old value, writes all ones, writes the old value back.
fn write_one(encoding: Encoding) {
    let bits = encoding.bits();
    execute(&[MRS | bits | 1, MSR | bits, MSR | bits | 1], u64::MAX);
}

/// Writes all ones and zeros and leaves it so.
fn overwrite_one(encoding: Encoding) {
    execute(&[MSR | encoding.bits()], u64::MAX);
    execute(&[MSR | encoding.bits()], 0);
}

/// Privileged registers: none may be readable or writable.
fn privileged(try_one: fn(Encoding)) -> Outcome {
    let tally = sweep(encodings(3, 4..8, 0..16), try_one);
    match tally {
        Tally { done: 0, other: 0, undefined } => Outcome::contained("encodings undefined", undefined),
        Tally { done: 0, other, .. } => Outcome::unexpected("other exceptions", other),
        Tally { done, .. } => Outcome::escaped("encodings accessible", done),
    }
}

/// Registers that exist for a guest: each answers with a value or is undefined.
fn answered(tally: &Tally) -> Outcome {
    if tally.other == 0 {
        Outcome::contained("encodings answered", tally.done)
    } else {
        Outcome::unexpected("other exceptions", tally.other)
    }
}

fn read_own() -> Outcome {
    answered(&sweep(encodings(3, 0..4, 0..16), read_one))
}

fn write_own() -> Outcome {
    let wanted = encodings(3, 0..4, 1..14).filter(|encoding| !NEEDED.contains(encoding));
    let outcome = answered(&sweep(wanted, write_one));
    super::interrupts::repair();
    outcome
}

/// Identification registers are read-only.
fn write_identification() -> Outcome {
    let tally = sweep(encodings(3, 0..4, 0..1), overwrite_one);
    Outcome::contained("writes done without effect", tally.done)
}

fn read_debug() -> Outcome {
    answered(&sweep(encodings(2, 0..8, 0..16), read_one))
}

fn write_debug() -> Outcome {
    answered(&sweep(encodings(2, 0..8, 0..16), overwrite_one))
}

fn write_performance_monitors() -> Outcome {
    let nine = encodings(3, 0..4, 9..10);
    let fourteen = encodings(3, 3..4, 14..15).filter(|encoding| encoding.3 >= 8);
    answered(&sweep(nine.chain(fourteen), overwrite_one))
}

/// Counts cycles: the counter stays at zero or is undefined, so no partition times another with it.
fn cycle_counter() -> Outcome {
    let mut cycles = 0;
    let exception = trial::attempt(|| {
        // SAFETY: enables and reads the cycle counter, which the monitor answers.
        unsafe {
            asm!(
                "msr PMCR_EL0, {one}", "msr PMCNTENSET_EL0, {all}", "isb", "nop", "nop", "mrs {cycles}, PMCCNTR_EL0",
                one = in(reg) 1_u64, all = in(reg) 0x8000_0000_u64, cycles = out(reg) cycles, options(nostack),
            );
        }
    });
    match exception {
        Some(syndrome) => Outcome::contained("exception at EL1, ESR", syndrome.0),
        None => Outcome::escaped_unless(cycles == 0, "cycles", cycles),
    }
}

fn implementation_defined() -> Outcome {
    let tally = sweep(encodings(3, 0..8, 11..12).chain(encodings(3, 0..8, 15..16)), overwrite_one);
    answered(&tally)
}

fn auxiliary_control() -> Outcome {
    let mut value = 0;
    let exception = trial::attempt(|| {
        // SAFETY: writes the auxiliary control register, which the monitor answers, and reads it back.
        unsafe {
            asm!("msr ACTLR_EL1, {1}", "isb", "mrs {0}, ACTLR_EL1", out(reg) value, in(reg) u64::MAX, options(nostack))
        };
    });
    match exception {
        Some(syndrome) => Outcome::contained("exception at EL1, ESR", syndrome.0),
        None => Outcome::escaped_unless(value == 0, "value", value),
    }
}

fn counter_frequency() -> Outcome {
    let exception = trial::attempt(|| {
        // SAFETY: UNDEFINED at EL1; a change would be put right by nobody, which is what is being tried.
        unsafe { asm!("msr CNTFRQ_EL0, {}", in(reg) 1_u64, options(nostack)) };
    });
    match exception {
        Some(syndrome) => Outcome::contained("exception at EL1, ESR", syndrome.0),
        None => Outcome::escaped("the register was written", 0),
    }
}

macro_rules! maintenance {
    ($name:ident, $instruction:literal) => {
        fn $name() -> Outcome {
            let mut operations = 0;
            let exception = trial::attempt(|| {
                for level in 0..2_u64 {
                    for set in 0..256_u64 {
                        for way in 0..16_u64 {
                            let operand = (way << 28) | (set << 6) | (level << 1);
                            // SAFETY: maintenance by set and way, which the monitor turns into nothing: a clean or an
                            // invalidation would lose nothing that this single-core program wrote and needs, or so an
                            // attacker hopes for others.
                            unsafe { asm!($instruction, in(reg) operand, options(nostack)) };
                            operations += 1;
                        }
                    }
                }
            });
            match exception {
                Some(syndrome) => Outcome::unexpected("exception at EL1, ESR", syndrome.0),
                None => Outcome::contained("operations ignored", operations),
            }
        }
    };
}

maintenance!(invalidate_by_set_and_way, "dc isw, {}");
maintenance!(clean_by_set_and_way, "dc csw, {}");
maintenance!(clean_and_invalidate_by_set_and_way, "dc cisw, {}");

/// Invalidations of EL2's and stage 2's translations: undefined.
fn foreign_invalidations() -> Outcome {
    // TLBI ALLE1, ALLE1IS, VMALLS12E1, IPAS2E1, ALLE2, ALLE3.
    let instructions = [0xd50c_879f, 0xd50c_839f, 0xd50c_87df, 0xd50c_8420, 0xd50c_871f, 0xd50e_871f];
    let mut done = 0;
    for instruction in instructions {
        if trial::attempt(|| execute(&[instruction], 0)).is_none() {
            done += 1;
        }
    }
    Outcome::escaped_unless(done == 0, "instructions done", done)
}

/// One's own invalidations, broadcast: allowed, and no harm beyond one's VMID.
fn own_invalidations() -> Outcome {
    let exception = trial::attempt(|| {
        for _ in 0..1000 {
            // SAFETY: invalidates this guest's own translations, which are then walked again.
            unsafe { asm!("tlbi vmalle1is", "ic ialluis", "dsb ish", "isb", options(nostack)) };
        }
    });
    match exception {
        None => Outcome::contained("rounds", 1000),
        Some(syndrome) => Outcome::unexpected("exception at EL1, ESR", syndrome.0),
    }
}

macro_rules! attack {
    ($name:literal, $expectation:ident, $run:expr) => {
        Attack { name: $name, expectation: Expectation::$expectation, run: $run }
    };
}

/// The attacks of this file.
pub(super) const ATTACKS: &[Attack] = &[
    attack!("read all registers of EL2 and EL3", Answer, || privileged(read_one)),
    attack!("write all registers of EL2 and EL3", Answer, || privileged(overwrite_one)),
    attack!("read all registers of EL1 and EL0", Answer, read_own),
    attack!("write all registers of EL1 and EL0", NoEffect, write_own),
    attack!("write identification registers", NoEffect, write_identification),
    attack!("read all debug and trace registers", Answer, read_debug),
    attack!("write all debug and trace registers", NoEffect, write_debug),
    attack!("write all performance monitor registers", NoEffect, write_performance_monitors),
    attack!("count cycles", Answer, cycle_counter),
    attack!("write implementation defined registers", NoEffect, implementation_defined),
    attack!("write the auxiliary control register", NoEffect, auxiliary_control),
    attack!("write the counter frequency", Answer, counter_frequency),
    attack!("invalidate caches by set and way", NoEffect, invalidate_by_set_and_way),
    attack!("clean caches by set and way", NoEffect, clean_by_set_and_way),
    attack!("clean and invalidate caches by set and way", NoEffect, clean_and_invalidate_by_set_and_way),
    attack!("invalidate translations of EL2 and stage 2", Answer, foreign_invalidations),
    attack!("invalidate own translations on all cores", NoEffect, own_invalidations),
];
