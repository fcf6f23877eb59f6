//! Encodings of the registers of `core/world`'s lists, as bits 20:5 of MRS and MSR have them (Arm ARM D17).
//!
//! From the manual and not from the assembler, so that a name of the list that means another register shows.

use bulkhead_world::context::REGISTERS;
use bulkhead_world::control::NON_SECURE_RESET;

/// op0, op1, CRn, CRm, op2.
const KNOWN: &[(&str, [u16; 5])] = &[
    ("elr_el3", [3, 6, 4, 0, 1]),
    ("spsr_el3", [3, 6, 4, 0, 0]),
    ("esr_el3", [3, 6, 5, 2, 0]),
    ("scr_el3", [3, 6, 1, 1, 0]),
    ("tpidr_el3", [3, 6, 13, 0, 2]),
    ("spsr_el2", [3, 4, 4, 0, 0]),
    ("elr_el2", [3, 4, 4, 0, 1]),
    ("vbar_el2", [3, 4, 12, 0, 0]),
    ("cntpct_el0", [3, 3, 14, 0, 1]),
    ("cntp_ctl_el0", [3, 3, 14, 2, 1]),
    ("cntv_ctl_el0", [3, 3, 14, 3, 1]),
    ("cntps_ctl_el1", [3, 7, 14, 2, 1]),
    ("cntps_cval_el1", [3, 7, 14, 2, 2]),
    ("icc_iar0_el1", [3, 0, 12, 8, 0]),
    ("icc_eoir0_el1", [3, 0, 12, 8, 1]),
    ("icc_sgi1r_el1", [3, 0, 12, 11, 5]),
    ("icc_sgi0r_el1", [3, 0, 12, 11, 7]),
    ("icc_igrpen1_el3", [3, 6, 12, 12, 7]),
    ("elr_el1", [3, 0, 4, 0, 1]),
    ("spsr_el1", [3, 0, 4, 0, 0]),
    ("sp_el0", [3, 0, 4, 1, 0]),
    ("sp_el1", [3, 4, 4, 1, 0]),
    ("vbar_el1", [3, 0, 12, 0, 0]),
    ("sctlr_el1", [3, 0, 1, 0, 0]),
    ("cpacr_el1", [3, 0, 1, 0, 2]),
    ("ttbr0_el1", [3, 0, 2, 0, 0]),
    ("ttbr1_el1", [3, 0, 2, 0, 1]),
    ("tcr_el1", [3, 0, 2, 0, 2]),
    ("mair_el1", [3, 0, 10, 2, 0]),
    ("contextidr_el1", [3, 0, 13, 0, 1]),
    ("tpidr_el1", [3, 0, 13, 0, 4]),
    ("tpidr_el0", [3, 3, 13, 0, 2]),
    ("tpidrro_el0", [3, 3, 13, 0, 3]),
    ("esr_el1", [3, 0, 5, 2, 0]),
    ("far_el1", [3, 0, 6, 0, 0]),
    ("par_el1", [3, 0, 7, 4, 0]),
    ("cntkctl_el1", [3, 0, 14, 1, 0]),
    ("mdscr_el1", [2, 0, 0, 2, 2]),
    ("csselr_el1", [3, 2, 0, 0, 0]),
    ("midr_el1", [3, 0, 0, 0, 0]),
    ("mpidr_el1", [3, 0, 0, 0, 5]),
    ("hcr_el2", [3, 4, 1, 1, 0]),
    ("sctlr_el2", [3, 4, 1, 0, 0]),
    ("cptr_el2", [3, 4, 1, 1, 2]),
    ("cnthctl_el2", [3, 4, 14, 1, 0]),
    ("cntvoff_el2", [3, 4, 14, 0, 3]),
    ("cnthp_ctl_el2", [3, 4, 14, 2, 1]),
    ("vttbr_el2", [3, 4, 2, 1, 0]),
    ("hstr_el2", [3, 4, 1, 1, 3]),
    ("mdcr_el2", [3, 4, 1, 1, 1]),
    ("vpidr_el2", [3, 4, 0, 0, 0]),
    ("vmpidr_el2", [3, 4, 0, 0, 5]),
];

/// The encoding of an operand: a name, or `S3_0_C4_C6_0`.
#[must_use]
pub fn encoding(operand: &str) -> Option<u16> {
    let known = KNOWN.iter().find(|(name, _)| *name == operand).map(|(_, fields)| *fields);
    let fields = known.or_else(|| numbered(operand))?;
    let [op0, op1, crn, crm, op2] = fields;
    Some(op0 << 14 | op1 << 11 | crn << 7 | crm << 3 | op2)
}

/// The name of an encoding, for messages.
#[must_use]
pub fn name(encoding: u16) -> String {
    let is = |operand: &&str| self::encoding(operand) == Some(encoding);
    let listed = REGISTERS.iter().chain(NON_SECURE_RESET.iter().map(|(register, _)| register));
    let listed = listed.filter(|register| is(&register.operand)).map(|register| register.name.to_owned()).next();
    listed.or_else(|| KNOWN.iter().map(|(name, _)| *name).find(is).map(str::to_uppercase)).unwrap_or_else(|| {
        let field = |first: u32, bits: u32| encoding >> first & ((1 << bits) - 1);
        format!("S{}_{}_C{}_C{}_{}", field(14, 2), field(11, 3), field(7, 4), field(3, 4), field(0, 3))
    })
}

fn numbered(operand: &str) -> Option<[u16; 5]> {
    let mut fields = [0; 5];
    let mut parts = operand.strip_prefix('S')?.split('_');
    for field in &mut fields {
        *field = parts.next()?.trim_start_matches('C').parse().ok()?;
    }
    parts.next().is_none().then_some(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_register_of_the_lists_is_known() {
        let all = REGISTERS.iter().chain(NON_SECURE_RESET.iter().map(|(register, _)| register));
        for register in all {
            assert!(encoding(register.operand).is_some(), "{}", register.operand);
        }
        assert_eq!(encoding("S3_6_C12_C12_7"), Some(0xd51e_cce1_u32.wrapping_shr(5) as u16));
        assert_eq!(encoding("mdscr_el1"), Some(0xd510_0242_u32.wrapping_shr(5) as u16));
        assert_eq!(name(0xf667), "ICC_IGRPEN1_EL3");
        assert_eq!((name(0xf088), name(0xffff)), ("SCR_EL3".to_owned(), "S3_7_C15_C15_7".to_owned()));
        assert_eq!((encoding("S3_0_C4"), encoding("nothing")), (None, None));
    }
}
