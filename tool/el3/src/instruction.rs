//! What a word does (Arm ARM C4 and C6.2), for the instructions that the secure monitor is made of. All others are refused.

/// Number of the register that is the stack pointer in an address or a sum, and zero elsewhere.
pub const STACK_POINTER: u32 = 31;

/// An instruction, with what of it matters to a reader of ways. Registers are plain numbers; 31 as a value is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instruction {
    /// A conditional branch.
    Conditional {
        /// As it is written: `cbz`, `tbnz`, `b.ne`.
        name: &'static str,
        /// Where it goes when it is taken.
        target: u64,
        /// The register that is zero then, all of it.
        zero: Option<u32>,
    },
    /// B.
    Branch(u64),
    /// BL.
    Call(u64),
    /// RET, by x30.
    Return,
    /// ERET.
    ExceptionReturn,
    /// WFI.
    Wait,
    /// ISB, DSB, IC IALLU: changes no register and no memory.
    Barrier,
    /// MOVZ, MOVN, or MOVK (`keeps` the other bits).
    Constant {
        /// Its target.
        to: u32,
        /// The bits, at their place.
        value: u64,
        /// Bits of the target that stay.
        keeps: u64,
    },
    /// ADR.
    Address {
        /// Its target.
        to: u32,
        /// The address.
        address: u64,
    },
    /// MRS. The register as bits 20:5 of the word have it: op0, op1, CRn, CRm, op2.
    ReadSystem {
        /// Its target.
        to: u32,
        /// Which one.
        system: u16,
    },
    /// MSR (register).
    WriteSystem {
        /// Which one.
        system: u16,
        /// What is written.
        from: u32,
    },
    /// A load or store of one register or of two.
    Memory {
        /// It loads.
        loads: bool,
        /// The registers; the second is not there when it is one.
        registers: (u32, Option<u32>),
        /// Register with the address.
        base: u32,
        /// Added to it, in bytes.
        offset: i64,
        /// Bytes of each.
        bytes: i64,
        /// The base is changed.
        changes_base: bool,
    },
    /// ADD or SUB of a constant, without flags; [`STACK_POINTER`] is the stack pointer.
    Add {
        /// Its target.
        to: u32,
        /// The register.
        from: u32,
        /// What is added.
        value: i64,
    },
    /// MOV of a register.
    Copy {
        /// Its target.
        to: u32,
        /// The register.
        from: u32,
    },
    /// AND of a register and these bits.
    Mask {
        /// Its target.
        to: u32,
        /// The register.
        from: u32,
        /// The bits that stay.
        bits: u64,
    },
    /// ADD of a register and another one, shifted left.
    AddShifted {
        /// Its target.
        to: u32,
        /// The register.
        from: u32,
        /// The other one.
        other: u32,
        /// By so many bits.
        shift: u32,
    },
    /// CSEL: one of two registers.
    Select {
        /// Its target.
        to: u32,
        /// The registers.
        either: (u32, u32),
    },
    /// Another computation from registers and constants, with its result here; 31: it sets the flags alone.
    Computes(u32),
}

const CONDITIONS: [&str; 16] = [
    "b.eq", "b.ne", "b.hs", "b.lo", "b.mi", "b.pl", "b.vs", "b.vc", "b.hi", "b.ls", "b.ge", "b.lt", "b.gt", "b.le",
    "b.al", "b.nv",
];
const CONSISTENT: [&str; 16] = [
    "bc.eq", "bc.ne", "bc.hs", "bc.lo", "bc.mi", "bc.pl", "bc.vs", "bc.vc", "bc.hi", "bc.ls", "bc.ge", "bc.lt",
    "bc.gt", "bc.le", "bc.al", "bc.nv",
];

/// Reads the word at an address; nothing when it is none of the instructions that the program may be made of.
#[must_use]
pub fn read(word: u32, address: u64) -> Option<Instruction> {
    fixed(word)
        .or_else(|| branch(word, address))
        .or_else(|| memory(word))
        .or_else(|| system(word))
        .or_else(|| computation(word, address))
}

fn fixed(word: u32) -> Option<Instruction> {
    Some(match word {
        0xd65f_03c0 => Instruction::Return,
        0xd69f_03e0 => Instruction::ExceptionReturn,
        0xd503_207f => Instruction::Wait,
        0xd503_3fdf | 0xd503_3f9f | 0xd508_751f => Instruction::Barrier,
        _ => return None,
    })
}

fn branch(word: u32, address: u64) -> Option<Instruction> {
    let to = |first: u32, bits: u32| address.wrapping_add_signed(signed(word, first, bits) * 4);
    let conditional = |name, target| {
        let zero = (word >> 24 == 0xb4).then_some(field(word, 0, 5));
        Some(Instruction::Conditional { name, target, zero })
    };
    let condition = (word & 0xf) as usize;
    match word {
        _ if word & 0xfc00_0000 == 0x1400_0000 => Some(Instruction::Branch(to(0, 26))),
        _ if word & 0xfc00_0000 == 0x9400_0000 => Some(Instruction::Call(to(0, 26))),
        _ if word & 0xff00_0010 == 0x5400_0000 => conditional(CONDITIONS[condition], to(5, 19)),
        _ if word & 0xff00_0010 == 0x5400_0010 => conditional(CONSISTENT[condition], to(5, 19)),
        _ if word & 0x7f00_0000 == 0x3400_0000 => conditional("cbz", to(5, 19)),
        _ if word & 0x7f00_0000 == 0x3500_0000 => conditional("cbnz", to(5, 19)),
        _ if word & 0x7f00_0000 == 0x3600_0000 => conditional("tbz", to(5, 14)),
        _ if word & 0x7f00_0000 == 0x3700_0000 => conditional("tbnz", to(5, 14)),
        _ => None,
    }
}

fn memory(word: u32) -> Option<Instruction> {
    let base = field(word, 5, 5);
    let first = field(word, 0, 5);
    // LDP and STP of 64 bits: post-indexed 1, offset 2, pre-indexed 3.
    if word & 0xfe00_0000 == 0xa800_0000 {
        let mode = field(word, 23, 2);
        let offset = if mode == 1 { 0 } else { signed(word, 15, 7) * 8 };
        let registers = (first, Some(field(word, 10, 5)));
        let loads = field(word, 22, 1) == 1;
        return (mode != 0).then_some(Instruction::Memory {
            loads,
            registers,
            base,
            offset,
            bytes: 8,
            changes_base: mode != 2,
        });
    }
    let one = |loads, offset, bytes, changes_base| {
        Some(Instruction::Memory { loads, registers: (first, None), base, offset, bytes, changes_base })
    };
    let scaled = |bytes: i64| i64::from(field(word, 10, 12)) * bytes;
    match word {
        _ if word & 0xffc0_0000 == 0xf940_0000 => one(true, scaled(8), 8, false),
        _ if word & 0xffc0_0000 == 0xf900_0000 => one(false, scaled(8), 8, false),
        _ if word & 0xffc0_0000 == 0xb940_0000 => one(true, scaled(4), 4, false),
        _ if word & 0xffc0_0000 == 0xb900_0000 => one(false, scaled(4), 4, false),
        // LDRB, post-indexed.
        _ if word & 0xffe0_0c00 == 0x3840_0400 => one(true, 0, 1, true),
        _ => None,
    }
}

fn system(word: u32) -> Option<Instruction> {
    let register = field(word, 0, 5);
    let system = field(word, 5, 16) as u16;
    match word & 0xfff0_0000 {
        0xd530_0000 => Some(Instruction::ReadSystem { to: register, system }),
        0xd510_0000 => Some(Instruction::WriteSystem { system, from: register }),
        _ => None,
    }
}

fn computation(word: u32, address: u64) -> Option<Instruction> {
    let to = field(word, 0, 5);
    let from = field(word, 5, 5);
    if word & 0x1f80_0000 == 0x1100_0000 {
        let amount = i64::from(field(word, 10, 12)) << (field(word, 22, 1) * 12);
        let (is_wide, subtracts, flags) = (word >> 31 == 1, field(word, 30, 1) == 1, field(word, 29, 1) == 1);
        let value = if subtracts { -amount } else { amount };
        return Some(if is_wide && !flags { Instruction::Add { to, from, value } } else { Instruction::Computes(to) });
    }
    let shift = field(word, 21, 2) * 16;
    let bits = u64::from(field(word, 5, 16)) << shift;
    let all = if word >> 31 == 1 { u64::MAX } else { u64::from(u32::MAX) };
    match word {
        _ if word & 0x7f80_0000 == 0x5280_0000 => Some(Instruction::Constant { to, value: bits, keeps: 0 }),
        _ if word & 0x7f80_0000 == 0x1280_0000 => Some(Instruction::Constant { to, value: !bits & all, keeps: 0 }),
        _ if word & 0x7f80_0000 == 0x7280_0000 => {
            Some(Instruction::Constant { to, value: bits, keeps: all & !(0xffff << shift) })
        }
        _ if word & 0x9f00_0000 == 0x1000_0000 => {
            let distance = signed(word, 5, 19) << 2 | i64::from(field(word, 29, 2));
            Some(Instruction::Address { to, address: address.wrapping_add_signed(distance) })
        }
        _ if word & 0xffe0_ffe0 == 0xaa00_03e0 => Some(Instruction::Copy { to, from: field(word, 16, 5) }),
        _ if word & 0x7f80_0000 == 0x1200_0000 => {
            let bits = bits_of_constant(word) & all;
            Some(Instruction::Mask { to, from, bits })
        }
        _ if word & 0xffe0_0000 == 0x8b00_0000 => {
            let (other, shift) = (field(word, 16, 5), field(word, 10, 6));
            Some(Instruction::AddShifted { to, from, other, shift })
        }
        _ if word & 0x7fe0_0c00 == 0x1a80_0000 => Some(Instruction::Select { to, either: (from, field(word, 16, 5)) }),
        // SUB and SUBS of registers, ANDS and ORR of a constant, AND and ORR of registers, LSR and its like, LSL and LSR by a register, CSINC
        // and CSINV, CRC32CX.
        _ if word & 0x5f20_0000 == 0x4b00_0000
            || word & 0x7f80_0000 == 0x7200_0000
            || word & 0x7f80_0000 == 0x3200_0000
            || word & 0x5f20_0000 == 0x0a00_0000
            || word & 0x7f80_0000 == 0x5300_0000
            || word & 0x7fe0_f800 == 0x1ac0_2000
            || word & 0x7fe0_0c00 == 0x1a80_0400
            || word & 0x7fe0_0c00 == 0x5a80_0000
            || word & 0xffe0_fc00 == 0x9ac0_5c00 =>
        {
            Some(Instruction::Computes(to))
        }
        // CCMP of registers, or of one and a constant: flags alone.
        _ if word & 0x7fe0_0410 == 0x7a40_0000 => Some(Instruction::Computes(STACK_POINTER)),
        _ => None,
    }
}

/// The constant of a logical instruction (Arm ARM, DecodeBitMasks): a run of ones, rotated, and repeated through the register.
fn bits_of_constant(word: u32) -> u64 {
    let (n, rotation, ones) = (field(word, 22, 1), field(word, 16, 6), field(word, 10, 6));
    // The size of an element is told by the highest bit of N:NOT(ones).
    let width = 1 << (31 - (n << 6 | !ones & 0x3f).max(1).leading_zeros());
    let run = 1_u64.checked_shl((ones & (width - 1)) + 1).unwrap_or(0).wrapping_sub(1);
    let rotation = rotation & (width - 1);
    let element = if width == 64 {
        run.rotate_right(rotation)
    } else {
        (run >> rotation | run << (width - rotation)) & ((1 << width) - 1)
    };
    (0..64 / width).fold(0, |all, place| all | element << (place * width))
}

fn field(word: u32, first: u32, bits: u32) -> u32 {
    word >> first & ((1 << bits) - 1)
}

fn signed(word: u32, first: u32, bits: u32) -> i64 {
    i64::from((word << (32 - first - bits)) as i32 >> (32 - bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_what_the_assembler_wrote() {
        let memory = |loads, registers, base, offset, bytes, changes_base| {
            Some(Instruction::Memory { loads, registers, base, offset, bytes, changes_base })
        };
        let conditional = |name, target| Some(Instruction::Conditional { name, target, zero: None });
        // What `aarch64-linux-gnu-objdump -d` says of each, at 0x1000.
        for (word, expected) in [
            (0xb500_0660, conditional("cbnz", 0x10cc)),
            (0x34ff_e8ca, conditional("cbz", 0xd18)),
            (0xb400_005e, Some(Instruction::Conditional { name: "cbz", target: 0x1008, zero: Some(30) })),
            (0x3700_0bfe, conditional("tbnz", 0x117c)),
            (0x54ff_ff61, conditional("b.ne", 0xfec)),
            (0x5400_0090, conditional("bc.eq", 0x1010)),
            (0x17ff_ffff, Some(Instruction::Branch(0xffc))),
            (0x9400_0089, Some(Instruction::Call(0x1224))),
            (0xa90e_fbfd, memory(false, (29, Some(30)), 31, 232, 8, false)),
            (0xa8c1_24a8, memory(true, (8, Some(9)), 5, 0, 8, true)),
            (0xa9bf_7bfd, memory(false, (29, Some(30)), 31, -16, 8, true)),
            (0xf900_e3e1, memory(false, (1, None), 31, 448, 8, false)),
            (0xb900_018a, memory(false, (10, None), 12, 0, 4, false)),
            (0x3840_156a, memory(true, (10, None), 11, 0, 1, true)),
            (0xd2a1_208c, Some(Instruction::Constant { to: 12, value: 0x0904_0000, keeps: 0 })),
            (0xf2a6_18a2, Some(Instruction::Constant { to: 2, value: 0x30c5_0000, keeps: !0xffff_0000 })),
            (0x1280_000a, Some(Instruction::Constant { to: 10, value: 0xffff_ffff, keeps: 0 })),
            (0x1000_01cb, Some(Instruction::Address { to: 11, address: 0x1038 })),
            (0xd10803ff, Some(Instruction::Add { to: 31, from: 31, value: -512 })),
            (0xf100_40e7, Some(Instruction::Computes(7))),
            (0xd53e_111e, Some(Instruction::ReadSystem { to: 30, system: 0xf088 })),
            (0xd51e_115f, Some(Instruction::WriteSystem { system: 0xf08a, from: 31 })),
            (0xaa13_03e0, Some(Instruction::Copy { to: 0, from: 19 })),
            (0x927d_07dd, Some(Instruction::Mask { to: 29, from: 30, bits: 0x18 })),
            (0x1200_641e, Some(Instruction::Mask { to: 30, from: 0, bits: 0x3ff_ffff })),
            (0x1201_7b59, Some(Instruction::Mask { to: 25, from: 26, bits: 0xbfff_ffff })),
            (0x8b1e_23bd, Some(Instruction::AddShifted { to: 29, from: 29, other: 30, shift: 8 })),
            (0x9a84_0064, Some(Instruction::Select { to: 4, either: (3, 4) })),
            (0x7a5d_8004, Some(Instruction::Computes(31))),
            (0xfa40_1ba0, Some(Instruction::Computes(31))),
            (0xda9f_0318, Some(Instruction::Computes(24))),
        ] {
            assert_eq!(read(word, 0x1000), expected, "{word:#010x}");
        }
    }

    #[test]
    fn what_could_leave_the_ways_is_refused() {
        // SMC, HVC, SVC, BRK, BR x1, BLR x1, RET x1, LDR (literal), LDR (register), STNP, LDXR, MSR DAIFSet, FMOV, zero.
        for word in [
            0xd400_0003_u32,
            0xd400_0002,
            0xd400_0001,
            0xd420_0000,
            0xd61f_0020,
            0xd63f_0020,
            0xd65f_0020,
            0x5800_0001,
            0xf860_6821,
            0xa800_0440,
            0xc85f_7c20,
            0xd503_42df,
            0x9e67_0000,
            0,
        ] {
            assert_eq!(read(word, 0), None, "{word:#010x}");
        }
    }
}
