//! From below the level of this world: EL0, and AArch32 (SG-9, SG-15, SG-31).

use super::interrupts::{read, write};
use super::{Outcome, all, expect};
use crate::machine::{Encoding, mrs, run_below};
use crate::{SMC, World};

const HCR: Encoding = (3, 4, 1, 1, 0);
/// TGE: exceptions of EL0 are taken to EL2.
const TGE: u64 = 1 << 27;
/// FMO: FIQs are taken to EL2.
const FMO: u64 = 1 << 3;
/// RW: EL1 is AArch64.
const RW: u64 = 1 << 31;

/// Runs at EL0 below this level, whichever it is.
fn at_el0(world: &World, words: &[u32], registers: &mut [u64; 16], state: u64) -> u64 {
    if world.level == 1 {
        return run_below(words, registers, state).syndrome;
    }
    let before = read(HCR);
    write(HCR, before | TGE);
    let syndrome = run_below(words, registers, state).syndrome;
    write(HCR, before);
    syndrome
}

pub(super) fn call_from_el0(world: &World) -> Outcome {
    // SMC, SCR_EL3, CNTPS_CTL_EL1, ICC_IAR0_EL1.
    let words = [SMC, mrs((3, 6, 1, 1, 0)), mrs((3, 7, 14, 2, 1)), mrs((3, 0, 12, 8, 0))];
    all(words.map(|word| {
        let syndrome = at_el0(world, &[word], &mut [0; 16], 0x3c0);
        // Class 0, undefined; with TGE an SMC is that too.
        expect(syndrome >> 26 == 0, "ESR", syndrome)
    }))
}

/// SUBS r0, #1; BNE; and what comes then.
const COUNT: [u32; 2] = [0xe250_0001, 0x1aff_fffd];

pub(super) fn aarch32_at_el0(world: &World) -> Outcome {
    let mut registers: [u64; 16] = core::array::from_fn(|index| 0x0a11_ce00 + index as u64);
    let before = registers;
    registers[0] = 70_000;
    // SVC #0, from User mode.
    let syndrome = at_el0(world, &[COUNT[0], COUNT[1], 0xef00_0000], &mut registers, 0x1d0);
    let kept = (1..15).all(|index| registers[index] as u32 == before[index] as u32) && registers[0] as u32 == 0;
    all([
        expect(syndrome >> 26 == 0x11, "ESR", syndrome),
        if kept { Outcome::Contained } else { Outcome::Escaped("a register of AArch32 is another", registers[1]) },
    ])
}

pub(super) fn aarch32_at_el1(world: &World) -> Outcome {
    if world.level == 1 {
        return Outcome::Skipped;
    }
    let before = read(HCR);
    write(HCR, before & !RW);
    // SCTLR_EL1: translation off.
    write((3, 0, 1, 0, 0), 0x00c5_0838);
    let mut registers = [0; 16];
    registers[0] = 0xdead;
    // SMC #0; HVC #0, from Supervisor mode.
    let call = run_below(&[0xe160_0070, 0xe140_0070], &mut registers, 0x1d3);
    let answer = registers[0] as u32;
    write(HCR, before);
    all([expect(call.class() == 0x12, "ESR", call.syndrome), expect(answer == !0, "an answer", u64::from(answer))])
}

/// ICC_IAR0 of AArch32 traps to EL3 with another class than that of AArch64, and its program counter is not moved on: such a world asks for
/// ever, and harms itself.
pub(super) fn aarch32_group_0(world: &World) -> Outcome {
    if world.level == 1 {
        return Outcome::Skipped;
    }
    // Not FMO: with it, group 0 of EL1 is the virtual one.
    write(HCR, read(HCR) & !(RW | FMO));
    write((3, 0, 1, 0, 0), 0x00c5_0838);
    world.conclude(Outcome::Contained);
    // MRC p15, 0, r1, c12, c8, 0; HVC #0.
    let came_back = run_below(&[0xee1c_1f18, 0xe140_0070], &mut [0; 16], 0x1d3);
    Outcome::Unexpected("ESR", came_back.syndrome)
}
