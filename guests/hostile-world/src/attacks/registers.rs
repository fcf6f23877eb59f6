//! Registers of other levels and of the secure world, debug and counting (SG-1, SG-7, SG-9).

use super::interrupts::{read, write};
use super::{Outcome, all, expect};
use crate::World;
use crate::machine::{Encoding, mrs, msr, run, wait_for_switches};

/// The encoding is undefined, read and written.
fn undefined(register: Encoding) -> Outcome {
    all([mrs(register), msr(register)].map(|word| match run(&[word], [0; 3]) {
        Err(exception) => expect(exception.class() == 0, "ESR", exception.syndrome),
        Ok([value, _, _]) => Outcome::Escaped("a register of EL3 or the secure world", value),
    }))
}

pub(super) fn secure_timer(_: &World) -> Outcome {
    // CNTPS_TVAL, CTL, CVAL.
    all([0, 1, 2].map(|op2| undefined((3, 7, 14, 2, op2))))
}

pub(super) fn of_el3(_: &World) -> Outcome {
    // SCTLR, ACTLR, SCR, SDER32, CPTR, MDCR, TTBR0, TCR, SPSR, ELR, SP_EL2, AFSR0, ESR, FAR, MAIR, AMAIR, VBAR, RMR, TPIDR,
    // ICC_CTLR, ICC_SRE, ICC_IGRPEN1.
    let registers = [
        (1, 0, 0),
        (1, 0, 1),
        (1, 1, 0),
        (1, 1, 1),
        (1, 1, 2),
        (1, 3, 1),
        (2, 0, 0),
        (2, 0, 2),
        (4, 0, 0),
        (4, 0, 1),
        (4, 1, 0),
        (5, 1, 0),
        (5, 2, 0),
        (6, 0, 0),
        (10, 2, 0),
        (10, 3, 0),
        (12, 0, 0),
        (12, 0, 2),
        (13, 0, 2),
        (12, 12, 4),
        (12, 12, 5),
        (12, 12, 7),
    ];
    let of_el3 = all(registers.map(|(n, m, op2)| undefined((3, 6, n, m, op2))));
    // CNTFRQ_EL0 is written by the highest level alone.
    match run(&[msr((3, 3, 14, 0, 0))], [1, 0, 0]) {
        Ok(_) => Outcome::Escaped("CNTFRQ_EL0", read((3, 3, 14, 0, 0))),
        Err(_) => of_el3,
    }
}

const MDSCR: Encoding = (2, 0, 0, 2, 2);
const OSLAR: Encoding = (2, 0, 1, 0, 4);

pub(super) fn breakpoints(world: &World) -> Outcome {
    write(OSLAR, 0);
    // Secure state alone, then both; all levels (HMC, PMC); enabled.
    for state in [2, 0, 3] {
        for index in 0..6 {
            write((2, 0, 0, index, 4), world.code);
            write((2, 0, 0, index, 5), 1 | 3 << 1 | 0xf << 5 | 1 << 13 | state << 14);
        }
        for index in 0..4 {
            write((2, 0, 0, index, 6), world.canary);
            write((2, 0, 0, index, 7), 1 | 3 << 1 | 3 << 3 | 0xff << 5 | 1 << 13 | state << 14);
        }
        // MDE, KDE.
        write(MDSCR, 1 << 15 | 1 << 13);
        wait_for_switches(4);
    }
    write(MDSCR, 0);
    Outcome::Contained
}

pub(super) fn locks(_: &World) -> Outcome {
    // OSLAR, OSDLR, DBGPRCR, DBGCLAIMSET, MDCCINT, OSECCR, OSDTRRX, OSDTRTX.
    let registers =
        [OSLAR, (2, 0, 1, 3, 4), (2, 0, 1, 4, 4), (2, 0, 7, 8, 6), (2, 0, 0, 2, 0), (2, 0, 0, 6, 2), (2, 0, 0, 0, 2)];
    for value in [1, !0, 0] {
        for register in registers.into_iter().chain([(2, 0, 0, 3, 2)]) {
            write(register, value);
        }
        wait_for_switches(2);
    }
    Outcome::Contained
}

pub(super) fn counters(_: &World) -> Outcome {
    for index in 0..6 {
        // Instructions and cycles, at all levels and in both states (M 26).
        write((3, 3, 14, 12, index), 0x11 | 1 << 26);
        write((3, 3, 14, 8, index), 0xffff_ff00);
    }
    write((3, 3, 14, 15, 7), 1 << 26);
    // PMUSERENR, PMCNTENSET, PMINTENSET; PMCR with E, P, C, X, LC.
    write((3, 3, 9, 14, 0), 0xf);
    write((3, 3, 9, 12, 1), 0x8000_003f);
    write((3, 0, 9, 14, 1), 0x8000_003f);
    write((3, 3, 9, 12, 0), 0x57);
    wait_for_switches(3);
    Outcome::Contained
}

const HCR: Encoding = (3, 4, 1, 1, 0);

pub(super) fn traps_of_el2(world: &World) -> Outcome {
    if world.level == 1 {
        return Outcome::Skipped;
    }
    let before = read(HCR);
    // MDCR, CPTR, HSTR, CNTHCTL, VTTBR, VTCR, ICH_HCR; HCR with all but E2H last.
    let registers = [
        ((3, 4, 1, 1, 1), !0),
        ((3, 4, 1, 1, 2), !0),
        ((3, 4, 1, 1, 3), !0),
        ((3, 4, 14, 1, 0), 0),
        ((3, 4, 2, 1, 0), !0),
        ((3, 4, 2, 1, 2), 0x8000_0000),
        ((3, 4, 12, 11, 0), !0),
    ];
    for (register, value) in registers {
        write(register, value);
    }
    for value in [!(1 << 34), 1 << 27 | 1 << 31, 1, 1 << 8 | 0x3f] {
        write(HCR, value);
        wait_for_switches(3);
    }
    write(HCR, before);
    write((3, 4, 12, 11, 0), 0);
    Outcome::Contained
}

pub(super) fn identity(world: &World) -> Outcome {
    if world.level == 1 {
        return Outcome::Skipped;
    }
    // VPIDR, VMPIDR, CNTVOFF, CNTHP_CVAL, CNTHP_CTL.
    for (register, value) in
        [((3, 4, 0, 0, 0), 7), ((3, 4, 0, 0, 5), 0x8000_0003), ((3, 4, 14, 0, 3), !0 >> 1), ((3, 4, 14, 2, 2), 0)]
    {
        write(register, value);
    }
    write((3, 4, 14, 2, 1), 1);
    wait_for_switches(3);
    Outcome::Contained
}

pub(super) fn rubbish_in_el1(world: &World) -> Outcome {
    // TTBR0, TTBR1, TCR, AFSR0, AFSR1, MAIR, AMAIR, CONTEXTIDR; with EL2 besides, which does not live by them: SCTLR, ACTLR, CPACR, VBAR.
    let registers = [
        (3, 0, 2, 0, 0),
        (3, 0, 2, 0, 1),
        (3, 0, 2, 0, 2),
        (3, 0, 5, 1, 0),
        (3, 0, 5, 1, 1),
        (3, 0, 10, 2, 0),
        (3, 0, 10, 3, 0),
        (3, 0, 13, 0, 1),
        (3, 0, 1, 0, 0),
        (3, 0, 1, 0, 1),
        (3, 0, 1, 0, 2),
        (3, 0, 12, 0, 0),
    ];
    let registers = if world.level == 1 { &registers[..8] } else { &registers[..] };
    all([!0, 0x5555_5555_5555_5555, 0].map(|value| {
        registers.iter().for_each(|register| write(*register, value));
        let mut kept = [0; 12];
        kept.iter_mut().zip(registers).for_each(|(value, register)| *value = read(*register));
        wait_for_switches(2);
        let changed = registers.iter().zip(kept).find(|(register, value)| read(**register) != *value);
        changed.map_or(Outcome::Contained, |(register, _)| Outcome::Escaped("a register changed", read(*register)))
    }))
}

pub(super) fn big_endian(world: &World) -> Outcome {
    let control = (3, if world.level == 1 { 0 } else { 4 }, 1, 0, 0);
    let before = read(control);
    // MSR SCTLR, x1 (EE 25); ISB; SUB x0; CBNZ x0; MSR SCTLR, x2; ISB: no access to data in between.
    let words = [msr(control) | 1, 0xd503_3fdf, 0xd100_0400, 0xb5ff_ffe0, msr(control) | 2, 0xd503_3fdf];
    match run(&words, [70_000, before | 1 << 25 | 1 << 24, before]) {
        Ok([rounds, _, _]) => expect(rounds == 0, "rounds", rounds),
        Err(exception) => Outcome::Unexpected("ESR", exception.syndrome),
    }
}
