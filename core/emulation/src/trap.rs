//! Decoding of ESR_EL2: why the guest stopped (Arm ARM DDI 0487, D17.2.38).
//!
//! Only the classes that the monitor answers get a decoder. A data abort is usable for emulation only when the processor
//! describes the access (ISV); the rejected alternative, fetching and decoding the guest's instruction, would put a
//! parser of hostile bytes into EL2.

use bulkhead_arm::exception::{LONG_INSTRUCTION, data_abort as iss};

pub use bulkhead_arm::exception::{ExceptionClass, STATE_AARCH32};

/// ESR_EL2 as read after an exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Syndrome(pub u64);

/// A data abort from the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataAbort {
    /// The other fields describe one load or store of one general register. False for load/store pairs, write-back
    /// forms, SIMD, cache maintenance and faults of the guest's own table walk.
    pub valid: bool,
    /// Store rather than load.
    pub write: bool,
    /// 1, 2, 4 or 8.
    pub bytes: u8,
    /// Number of the general register; 31 is the zero register.
    pub register: u8,
    /// The load sign-extends.
    pub sign_extend: bool,
    /// The register is an X register rather than a W register.
    pub sixty_four: bool,
    /// Stage 2 has no mapping for the address that the guest's instruction names: an emulated window, or a fault. False when
    /// the mapping forbids the access (permission), for every other kind of fault, and when the guest's own table walk was
    /// refused because its tables lie outside its memory.
    pub unmapped: bool,
}

impl DataAbort {
    /// Returns what a load leaves in its X register when the device answered `value`.
    #[must_use]
    pub const fn loaded(&self, value: u64) -> u64 {
        let extended = match (self.sign_extend, self.bytes) {
            (true, 1) => value as i8 as u64,
            (true, 2) => value as i16 as u64,
            (true, 4) => value as i32 as u64,
            _ => self.stored(value),
        };
        if self.sixty_four { extended } else { extended as u32 as u64 }
    }

    /// Returns what a store sends to the device when its X register holds `value`.
    #[must_use]
    pub const fn stored(&self, value: u64) -> u64 {
        match self.bytes {
            1 => value as u8 as u64,
            2 => value as u16 as u64,
            4 => value as u32 as u64,
            _ => value,
        }
    }
}

/// A trapped MSR, MRS or system instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemAccess {
    /// Which register or instruction, as [`encoding`] packs it.
    pub encoding: u32,
    /// Number of the general register; 31 is the zero register.
    pub register: u8,
    /// MRS rather than MSR.
    pub read: bool,
}

/// Packs the fields that name a system register as the syndrome has them: op0 21:20, op2 19:17, op1 16:14, CRn 13:10,
/// CRm 4:1.
#[must_use]
pub const fn encoding(op0: u32, op1: u32, crn: u32, crm: u32, op2: u32) -> u32 {
    op0 << 20 | op2 << 17 | op1 << 14 | crn << 10 | crm << 1
}

/// PSTATE.IT of a saved AArch32 state: ITSTATE 7:2 at 15:10, ITSTATE 1:0 at 26:25 (C5.2.20).
const STATE_IT: u64 = 0x3f << 10 | 3 << 25;

/// ITSTATE: the condition of the next Thumb instruction and how many more its IT block has; 0 outside a block.
const fn it_state(state: u64) -> u64 {
    (state >> 8) & 0xfc | (state >> 25) & 3
}

/// Returns a saved state after one more instruction (AArch32.ITAdvance): its IT block, if it is in one, is one shorter.
#[must_use]
pub const fn state_after_instruction(state: u64) -> u64 {
    if state & STATE_AARCH32 == 0 {
        return state;
    }
    let it = it_state(state);
    let next = if it & 7 == 0 { 0 } else { it & 0xe0 | (it << 1) & 0x1f };
    state & !STATE_IT | (next & 0xfc) << 8 | (next & 3) << 25
}

/// States whether a condition holds for the flags of a saved state (ConditionHolds, C1.2.4).
const fn holds(condition: u64, state: u64) -> bool {
    let (negative, zero) = (state >> 31 & 1 != 0, state >> 30 & 1 != 0);
    let (carry, overflow) = (state >> 29 & 1 != 0, state >> 28 & 1 != 0);
    let plain = match condition >> 1 {
        0 => zero,
        1 => carry,
        2 => negative,
        3 => overflow,
        4 => carry && !zero,
        5 => negative == overflow,
        6 => negative == overflow && !zero,
        _ => return true,
    };
    plain != (condition & 1 != 0)
}

impl Syndrome {
    /// Returns the length of the instruction that trapped (IL): Thumb has some of two bytes.
    #[must_use]
    pub const fn instruction_bytes(self) -> u64 {
        if self.0 & LONG_INSTRUCTION != 0 { 4 } else { 2 }
    }

    /// States whether the instruction that trapped was to be executed. A processor may trap a conditional AArch32 instruction
    /// whose condition fails; it does nothing then. The classes below 0x10 have the condition in CV and COND; for Thumb
    /// the processor may leave that to ITSTATE (ISS encodings, CV). The others trap only what is executed.
    #[must_use]
    pub const fn condition_holds(self, state: u64) -> bool {
        if state & STATE_AARCH32 == 0 || self.exception_class().0 >= ExceptionClass::FIRST_UNCONDITIONAL.0 {
            return true;
        }
        let condition = match (self.0 & 1 << 24 != 0, it_state(state)) {
            (true, _) => (self.0 >> 20) & 15,
            (false, 0) => return true,
            (false, it) => it >> 4,
        };
        holds(condition, state)
    }

    /// Returns the exception class.
    #[must_use]
    pub const fn exception_class(self) -> ExceptionClass {
        ExceptionClass::of_syndrome(self.0)
    }

    /// Decodes the syndrome of a data abort (ISS encoding for exceptions from a data abort).
    #[must_use]
    pub const fn data_abort(self) -> DataAbort {
        let described = self.0 & iss::VALID != 0;
        let cache_maintenance = self.0 & iss::CACHE_MAINTENANCE != 0;
        let table_walk = self.0 & iss::TABLE_WALK != 0;
        DataAbort {
            valid: described && !cache_maintenance && !table_walk,
            write: self.0 & iss::WRITE != 0,
            bytes: 1 << ((self.0 >> iss::SIZE_SHIFT) & 3),
            register: ((self.0 >> iss::REGISTER_SHIFT) & 31) as u8,
            sign_extend: self.0 & iss::SIGN_EXTEND != 0,
            sixty_four: self.0 & iss::SIXTY_FOUR != 0,
            unmapped: (self.0 >> iss::STATUS_SHIFT) & 0xf == iss::STATUS_TRANSLATION && !table_walk,
        }
    }

    /// Decodes the syndrome of class [`ExceptionClass::SYSTEM_REGISTER`].
    #[must_use]
    pub const fn system_access(self) -> SystemAccess {
        SystemAccess {
            encoding: self.0 as u32 & encoding(3, 7, 15, 15, 7),
            register: ((self.0 >> 5) & 31) as u8,
            read: self.0 & 1 != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    /// Independent encoder: builds the ISS from a bit string written most significant field first, as the manual draws it.
    fn bits(fields: &[(u64, u32)]) -> u64 {
        fields.iter().fold(0, |word, (value, width)| {
            assert!(*value < 1 << width);
            (word << width) | value
        })
    }

    #[test]
    fn data_abort_fields_round_trip() {
        let mut random = Random::new(1);
        for _ in 0..20_000 {
            let size = random.below(4);
            let (sign, register, wide) = (random.below(2), random.below(32), random.below(2));
            let (isv, cm, walk, write) = (random.below(2), random.below(2), random.below(2), random.below(2));
            let status = random.below(64);
            let high = random.below(1 << 20);
            let word = bits(&[
                (high, 20),
                (0, 12), // ISS2 and reserved: must not matter
            ]) << 32
                | bits(&[
                    (0x24, 6),
                    (1, 1),
                    (isv, 1),
                    (size, 2),
                    (sign, 1),
                    (register, 5),
                    (wide, 1),
                    (random.below(2), 1),
                    (random.below(8), 3),
                    (random.below(2), 1),
                    (random.below(2), 1),
                    (cm, 1),
                    (walk, 1),
                    (write, 1),
                    (status, 6),
                ]);
            let syndrome = Syndrome(word);
            assert_eq!(syndrome.exception_class(), ExceptionClass::DATA_ABORT);
            let abort = syndrome.data_abort();
            assert_eq!(abort.valid, isv == 1 && cm == 0 && walk == 0);
            assert_eq!(abort.write, write == 1);
            assert_eq!(u64::from(abort.bytes), [1, 2, 4, 8][size as usize]);
            assert_eq!(u64::from(abort.register), register);
            assert_eq!(abort.sign_extend, sign == 1);
            assert_eq!(abort.sixty_four, wide == 1);
            assert_eq!(abort.unmapped, matches!(status, 4..=7) && walk == 0);
        }
    }

    #[test]
    fn system_access_fields_round_trip() {
        let mut random = Random::new(2);
        for _ in 0..20_000 {
            let (op0, op1, crn, crm) = (random.below(4), random.below(8), random.below(16), random.below(16));
            let (op2, register, read) = (random.below(8), random.below(32), random.below(2));
            let word = bits(&[
                (0x18, 6),
                (1, 1),
                (random.below(8), 3),
                (op0, 2),
                (op2, 3),
                (op1, 3),
                (crn, 4),
                (register, 5),
                (crm, 4),
                (read, 1),
            ]);
            let access = Syndrome(word).system_access();
            assert_eq!(Syndrome(word).exception_class(), ExceptionClass::SYSTEM_REGISTER);
            assert_eq!(u64::from(access.register), register);
            assert_eq!(access.read, read == 1);
            let [op0, op1, crn, crm, op2] = [op0, op1, crn, crm, op2].map(|field| field as u32);
            assert_eq!(access.encoding, encoding(op0, op1, crn, crm, op2));
        }
    }

    #[test]
    fn known_syndromes_decode() {
        // `ldr w0, [x1]` from an unmapped page (level 2), and `msr ICC_SGI1R_EL1, x2`.
        let load = Syndrome(0x9380_0006).data_abort();
        assert_eq!((load.valid, load.write, load.bytes, load.register), (true, false, 4, 0));
        assert!(load.unmapped);
        let sgi = Syndrome(0x623a_3016 | (2 << 5)).system_access();
        assert_eq!(sgi.encoding, encoding(3, 0, 12, 11, 5));
        assert!(!sgi.read);
    }

    /// All 256 values of ITSTATE at EL0 in Thumb, beside flags that must stay.
    fn states() -> impl Iterator<Item = (u64, u64)> {
        (0..256u64).map(|it| (it, 0xa1ff_03f0 & !STATE_IT | 0x30 | (it >> 2) << 10 | (it & 3) << 25))
    }

    /// The pseudocode of the manual on the bits of ITSTATE as it writes them, most significant first.
    fn it_advance(it: u64) -> u64 {
        let mut bits = [7, 6, 5, 4, 3, 2, 1, 0].map(|bit| it >> bit & 1);
        if bits[5..] == [0, 0, 0] {
            return 0;
        }
        bits.copy_within(4.., 3);
        bits[7] = 0;
        bits.iter().fold(0, |value, bit| value << 1 | bit)
    }

    #[test]
    fn every_it_block_gets_one_shorter_and_nothing_else_changes() {
        for (it, state) in states() {
            let after = state_after_instruction(state);
            assert_eq!(it_state(after), it_advance(it), "ITSTATE {it:#010b}");
            assert_eq!(after & !STATE_IT, state & !STATE_IT, "ITSTATE {it:#010b}");
            // The same bits are BTYPE and SSBS of an AArch64 state.
            let wide = state & !0x1f;
            assert_eq!(state_after_instruction(wide), wide);
        }
        // ITTET EQ: EQ, EQ, NE, EQ and out.
        let mut state = 0x30 | (0b0000_0101 >> 2) << 10 | 1 << 25;
        for condition in [0, 0, 1, 0] {
            assert_eq!(it_state(state) >> 4, condition);
            state = state_after_instruction(state);
        }
        assert_eq!(it_state(state), 0);
    }

    #[test]
    fn a_condition_is_checked_where_the_syndrome_or_the_block_names_one() {
        /// Whether a condition holds, by its name in the manual's table C1-1.
        fn table(condition: u64, [n, z, c, v]: [bool; 4]) -> bool {
            [z, !z, c, !c, n, !n, v, !v, c && !z, !c || z, n == v, n != v, n == v && !z, n != v || z, true, true]
                [condition as usize]
        }
        for (flags, condition) in (0..16u64).flat_map(|flags| (0..16).map(move |condition| (flags, condition))) {
            let nzcv = [3, 2, 1, 0].map(|bit| flags >> bit & 1 != 0);
            let state = flags << 28 | 0x30;
            let expected = table(condition, nzcv);
            let named = |class: u64| Syndrome(class << 26 | 1 << 24 | condition << 20);
            for class in [0x01, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x0c] {
                assert_eq!(named(class).condition_holds(state), expected, "{condition} with {flags:#06b}");
                assert!(
                    named(class).condition_holds(state & !0x10),
                    "AArch64 has no conditional instruction that traps"
                );
                // Without CV the block says it; the syndrome's field is not valid then.
                let block = state | (condition << 4 | 8) >> 2 << 10;
                let unnamed = Syndrome(class << 26 | (condition ^ 1) << 20);
                assert_eq!(unnamed.condition_holds(block), expected, "{condition} with {flags:#06b}");
                assert!(unnamed.condition_holds(state), "outside a block");
            }
            assert!(named(0x24).condition_holds(state), "a data abort has other fields there");
        }
    }

    #[test]
    fn the_length_of_an_instruction_is_in_the_syndrome() {
        assert_eq!(
            (Syndrome(0x24 << 26).instruction_bytes(), Syndrome(0x24 << 26 | 1 << 25).instruction_bytes()),
            (2, 4)
        );
    }

    #[test]
    fn loads_extend_as_the_instruction_says() {
        let load = |bytes, sign_extend, sixty_four| DataAbort {
            valid: true,
            write: false,
            bytes,
            register: 0,
            sign_extend,
            sixty_four,
            unmapped: true,
        };
        let value = 0x8182_8384_8586_8788;
        assert_eq!(load(1, false, false).loaded(value), 0x88); // LDRB W
        assert_eq!(load(1, true, false).loaded(value), 0xffff_ff88); // LDRSB W
        assert_eq!(load(1, true, true).loaded(value), 0xffff_ffff_ffff_ff88); // LDRSB X
        assert_eq!(load(2, true, true).loaded(value), 0xffff_ffff_ffff_8788); // LDRSH X
        assert_eq!(load(4, false, false).loaded(value), 0x8586_8788); // LDR W
        assert_eq!(load(4, true, true).loaded(value), 0xffff_ffff_8586_8788); // LDRSW
        assert_eq!(load(8, false, true).loaded(value), value); // LDR X
        assert_eq!(load(2, false, false).stored(value), 0x8788);
    }
}
