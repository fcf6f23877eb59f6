//! Which instructions that mask interrupts a function of a payload can come to, read from its ELF file: from the functions that are named, through all
//! that they call. A branch by register would lead to where nothing is known, so there must be none.

use crate::Failure;
use crate::symbols::{Code, functions};
use std::collections::BTreeSet;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reached {
    /// Functions.
    pub functions: usize,
    /// Instructions of all of them.
    pub instructions: usize,
    /// Where interrupts are masked: function and address.
    pub masks: Vec<String>,
    /// Calls of EL3, which masks everything while it answers.
    pub calls_of_el3: usize,
}

/// The instruction masks interrupts, or may: DAIFSet with I; a write to DAIF, ICC_PMR_EL1 or ICC_IGRPEN1_EL1.
const fn masks(word: u32) -> bool {
    let daif_set = word & 0xffff_f0ff == 0xd503_40df && word >> 9 & 1 == 1;
    daif_set || matches!(word & 0xffff_ffe0, 0xd51b_4220 | 0xd518_4600 | 0xd518_cce0)
}

/// SMC.
const fn calls_el3(word: u32) -> bool {
    word & 0xffe0_001f == 0xd400_0003
}

/// BR or BLR: where it leads is not known.
const fn is_by_register(word: u32) -> bool {
    word & 0xffdf_fc1f == 0xd61f_0000
}

/// Where B, B.cond, CBZ, TBZ and BL at this address lead.
fn target(word: u32, address: u64) -> Option<u64> {
    let (bits, at) = if word & 0x7c00_0000 == 0x1400_0000 {
        (26, 0)
    } else if word & 0xff00_0010 == 0x5400_0000 || word & 0x7e00_0000 == 0x3400_0000 {
        (19, 5)
    } else if word & 0x7e00_0000 == 0x3600_0000 {
        (14, 5)
    } else {
        return None;
    };
    let offset = i64::from(word >> at) << (64 - bits) >> (64 - bits);
    Some(address.wrapping_add_signed(offset * 4))
}

/// Follows these functions of an ELF file.
pub(crate) fn reached(elf: &[u8], roots: &[&str]) -> Result<Reached, Failure> {
    let all = functions(elf).ok_or_else(|| Failure::wrong("the payload has no symbols".to_owned()))?;
    let root = |name: &&str| {
        let found = all.iter().find(|code| code.name == *name);
        found.ok_or_else(|| Failure::wrong(format!("the payload has no function `{name}`")))
    };
    let mut next: Vec<&Code> = roots.iter().map(root).collect::<Result<_, _>>()?;
    let (mut seen, mut reached) = (BTreeSet::new(), Reached::default());
    while let Some(code) = next.pop() {
        if !seen.insert(code.start) {
            continue;
        }
        reached.functions += 1;
        for (number, word) in code.words(elf).enumerate() {
            let address = code.start + 4 * number as u64;
            reached.instructions += 1;
            reached.calls_of_el3 += usize::from(calls_el3(word));
            if masks(word) {
                reached.masks.push(format!("{} {address:#x}", code.name));
            }
            if is_by_register(word) {
                return Err(Failure::wrong(format!("{} branches by register at {address:#x}", code.name)));
            }
            let Some(to) = target(word, address).filter(|to| !code.holds(*to)) else { continue };
            let called = all.iter().find(|other| other.holds(to));
            next.push(
                called.ok_or_else(|| {
                    Failure::wrong(format!("{} leads to {to:#x}, which is in no function", code.name))
                })?,
            );
        }
    }
    Ok(reached)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_known_by_their_words() {
        // msr daifset, #2; #15; msr daif, x8; msr ICC_PMR_EL1, x0; msr ICC_IGRPEN1_EL1, x3
        assert!([0xd503_42df, 0xd503_4fdf, 0xd51b_4228, 0xd518_4600, 0xd518_cce3].into_iter().all(masks));
        // msr daifset, #1; msr daifclr, #2; mrs x8, daif; nop; isb
        assert!(![0xd503_41df, 0xd503_42ff, 0xd53b_4228, 0xd503_201f, 0xd503_3fdf].into_iter().any(masks));
        // blr x8; br x16; ret
        assert!(is_by_register(0xd63f_0100) && is_by_register(0xd61f_0200) && !is_by_register(0xd65f_03c0));
        assert!(calls_el3(0xd400_0003) && !calls_el3(0xd400_0001));
    }

    #[test]
    fn branches_lead_where_the_manual_says() {
        for (word, to) in [
            (0x9400_0001, 0x1004), // bl +4
            (0x17ff_ffff, 0x0ffc), // b -4
            (0x5400_0041, 0x1008), // b.ne +8
            (0xb5ff_ffe0, 0x0ffc), // cbnz x0, -4
            (0x3700_0040, 0x1008), // tbnz w0, #0, +8
        ] {
            assert_eq!(target(word, 0x1000), Some(to), "{word:#x}");
        }
        assert_eq!(target(0xd503_201f, 0x1000), None);
    }
}
