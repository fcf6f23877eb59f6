//! What this world has, over switches: its own and nothing of the payload's (SG-9); and what it does to itself (SG-48).

use super::interrupts::{IGRPEN1, PMR, read, write};
use super::{Outcome, all, expect};
use crate::World;
use crate::machine::{
    Encoding, Exception, Wait, endless_vectors, filled, floating_is_kept, mrs, msr, read64, run, wait_for_switches,
    write64,
};

/// Rounds of two instructions: more than two ticks of the payload.
const ROUNDS: u64 = 70_000;

/// TPIDR_EL0, TPIDRRO_EL0, TPIDR_EL1, CONTEXTIDR, CSSELR, PAR, FAR, ESR, ELR, SPSR, CNTKCTL, MDSCR, TTBR0, TTBR1, MAIR, AFSR0, AFSR1, SP_EL0.
const PLANTED: [(Encoding, u64); 18] = [
    ((3, 3, 13, 0, 2), !0),
    ((3, 3, 13, 0, 3), !0),
    ((3, 0, 13, 0, 4), !0),
    ((3, 0, 13, 0, 1), 0xffff_ffff),
    ((3, 2, 0, 0, 0), 0xf),
    ((3, 0, 7, 4, 0), 0xffff_ffff_ff81),
    ((3, 0, 6, 0, 0), !0),
    ((3, 0, 5, 2, 0), 0xffff_ffff),
    ((3, 0, 4, 0, 1), !0),
    ((3, 0, 4, 0, 0), 0xf000_03c5),
    ((3, 0, 14, 1, 0), 0x3ff),
    ((2, 0, 0, 2, 2), 0x1000),
    ((3, 0, 2, 0, 0), 0xffff_ffff_fffe),
    ((3, 0, 2, 0, 1), 0xffff_ffff_fffe),
    ((3, 0, 10, 2, 0), 0xffff_ffff_ffff_ffff),
    ((3, 0, 5, 1, 0), 0xffff_ffff),
    ((3, 0, 5, 1, 1), 0xffff_ffff),
    ((3, 0, 4, 1, 0), !0),
];

pub(super) fn planted(_: &World) -> Outcome {
    let mut kept = [0; PLANTED.len()];
    for ((index, (register, mask)), kept) in (1..).zip(PLANTED).zip(&mut kept) {
        write(register, 0x0a11_ce00_0000_0000_u64.wrapping_mul(index) & mask);
        *kept = read(register);
    }
    wait_for_switches(4);
    all(PLANTED.into_iter().zip(kept).map(|((register, _), value)| match read(register) {
        now if now == value => Outcome::Contained,
        now => Outcome::Escaped("a register is another", now),
    }))
}

fn pattern() -> [u64; 32] {
    let mut words: [u64; 32] = core::array::from_fn(|index| 0x0a11_ce00_0000_0000 + index as u64);
    words[31] = 0xa000_0000;
    words
}

/// All but the place in which a loop counted or an answer came.
fn kept(before: &[u64; 32], after: &[u64; 32], except: usize) -> Outcome {
    let differs = (0..32).find(|index| *index != except && before[*index] != after[*index]);
    differs.map_or(Outcome::Contained, |index| Outcome::Escaped("a general register is another", after[index]))
}

pub(super) fn general_over_interrupts(_: &World) -> Outcome {
    let before = pattern();
    all([
        kept(&before, &filled(&before, Wait::CountInX0(ROUNDS)), 0),
        kept(&before, &filled(&before, Wait::CountInX30(ROUNDS)), 30),
    ])
}

pub(super) fn general_over_calls(_: &World) -> Outcome {
    let before = pattern();
    let after = filled(&before, Wait::Call);
    all([kept(&before, &after, 0), expect(after[0] == !0, "an answer", after[0])])
}

fn floating(is_kept: bool) -> Outcome {
    if is_kept { Outcome::Contained } else { Outcome::Escaped("a floating-point register is another", 0) }
}

pub(super) fn floating_over_interrupts(_: &World) -> Outcome {
    floating(floating_is_kept(ROUNDS))
}

pub(super) fn floating_over_calls(_: &World) -> Outcome {
    floating(floating_is_kept(0))
}

pub(super) fn exclusive(_: &World) -> Outcome {
    const PLACE: u64 = 0x4150_0000;
    write64(PLACE, 7);
    // LDXR x0, [x1]; SUB x2; CBNZ x2; ADD x0, #1; STXR w2, x0, [x1].
    let words = [0xc85f_7c20, 0xd100_0442, 0xb5ff_ffe2, 0x9100_0400, 0xc802_7c20];
    match run(&words, [0, PLACE, ROUNDS]) {
        Ok([_, _, failed @ (0 | 1)]) => expect(read64(PLACE) == 8 - failed, "memory", read64(PLACE)),
        Ok([_, _, other]) => Outcome::Unexpected("STXR said", other),
        Err(exception) => Outcome::Unexpected("ESR", exception.syndrome),
    }
}

pub(super) fn interface(_: &World) -> Outcome {
    all([(0x60, 1), (0, 0), (0xf0, 1)].map(|(mask, group)| {
        write(PMR, mask);
        write(IGRPEN1, group);
        let before = (read(PMR), read(IGRPEN1));
        wait_for_switches(3);
        expect(before == (read(PMR), read(IGRPEN1)), "ICC_PMR_EL1", read(PMR))
    }))
}

fn exception_of_class(tried: Result<[u64; 3], Exception>, class: u64) -> Outcome {
    match tried {
        Err(exception) => expect(exception.class() == class, "ESR", exception.syndrome),
        Ok(_) => Outcome::Unexpected("it came back", 0),
    }
}

pub(super) fn wild_jump(_: &World) -> Outcome {
    // Nothing there; more bits than addresses have; not aligned.
    all([(0x0020_0000_0000, 0x21), (0x000f_ffff_ffff_fff0, 0x21), (0x4020_0002, 0x22)]
        .map(|(address, class)| exception_of_class(run(&[0xd61f_0020], [0, address, 0]), class)))
}

pub(super) fn illegal_return(world: &World) -> Outcome {
    let op1 = if world.level == 1 { 0 } else { 4 };
    // MSR SPSR, x0; ADR x1, .+12; MSR ELR, x1; ERET; NOP.
    let words = [msr((3, op1, 4, 0, 0)), 0x1000_0061, msr((3, op1, 4, 0, 1)) | 1, 0xd69f_03e0, 0xd503_201f];
    // EL3 on its own stack pointer and on the other, a reserved level.
    all([0x3cd, 0x3cc, 0x3ce].map(|state| exception_of_class(run(&words, [state, 0, 0]), 0x0e)))
}

pub(super) fn single_steps(world: &World) -> Outcome {
    let op1 = if world.level == 1 { 0 } else { 4 };
    let state = if world.level == 1 { 0x1c5 } else { 0x1c9 };
    write((2, 0, 1, 0, 4), 0);
    write((2, 0, 1, 3, 4), 0);
    if world.level == 2 {
        // MDCR_EL2.TDE: debug exceptions are this level's.
        write((3, 4, 1, 1, 1), 1 << 8 | 6);
    }
    // MDSCR: SS, KDE, MDE.
    write((2, 0, 0, 2, 2), 1 | 1 << 13 | 1 << 15);
    // MSR SPSR, x0 (SS 21, debug exceptions unmasked); ADR x1, .+12; MSR ELR, x1; ERET; NOPs.
    let words =
        [msr((3, op1, 4, 0, 0)), 0x1000_0061, msr((3, op1, 4, 0, 1)) | 1, 0xd69f_03e0, 0xd503_201f, 0xd503_201f];
    let tried = run(&words, [state | 1 << 21, 0, 0]);
    write((2, 0, 0, 2, 2), 0);
    // The debug registers of a partition read as zero.
    if world.is_partition && tried.is_ok() {
        return Outcome::Contained;
    }
    exception_of_class(tried, 0x33)
}

pub(super) fn endless_fault(world: &World) -> Outcome {
    let op1 = if world.level == 1 { 0 } else { 4 };
    world.conclude(Outcome::Contained);
    write((3, op1, 12, 0, 0), endless_vectors());
    // UDF: from here on each exception's first instruction is another one.
    let _ = run(&[mrs((3, op1, 12, 0, 0)), 0], [0; 3]);
    Outcome::Unexpected("it ended", 0)
}
