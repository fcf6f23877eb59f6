//! Registers that a non-secure world finds, as it names them: by encoding. The core says which there are, so that the lists of
//! `core/world` are held against a model that others made.

/// Reads that leave their register as it was. Group 0 of the interrupt controller, which EL3 skips (SG-15): IAR0, HPPIR0, BPR0, AP0R0,
/// IGRPEN0. And two that QEMU has as doing nothing at all: MDCCINT_EL1, DBGVCR32_EL2.
pub(crate) const SKIPPED: &[&str] = &[
    "S3_0_C12_C8_0",
    "S3_0_C12_C8_2",
    "S3_0_C12_C8_3",
    "S3_0_C12_C8_4",
    "S3_0_C12_C12_6",
    "S2_0_C0_C2_0",
    "S2_4_C0_C7_0",
];

/// A register of EL2, which `core/world` has in one line.
pub(crate) fn is_of_el2(encoding: &str) -> bool {
    encoding.starts_with("S3_4_")
}

/// Names of those that keep what is written, without EL2's.
#[rustfmt::skip]
pub(crate) const NAMES: &[(&str, &str)] = &[
    ("S2_0_C0_C0_4", "DBGBVR<n>_EL1"), ("S2_0_C0_C0_5", "DBGBCR<n>_EL1"), ("S2_0_C0_C1_4", "DBGBVR<n>_EL1"),
    ("S2_0_C0_C1_5", "DBGBCR<n>_EL1"), ("S2_0_C0_C2_4", "DBGBVR<n>_EL1"), ("S2_0_C0_C2_5", "DBGBCR<n>_EL1"),
    ("S2_0_C0_C3_4", "DBGBVR<n>_EL1"), ("S2_0_C0_C3_5", "DBGBCR<n>_EL1"), ("S2_0_C0_C4_4", "DBGBVR<n>_EL1"),
    ("S2_0_C0_C4_5", "DBGBCR<n>_EL1"), ("S2_0_C0_C5_4", "DBGBVR<n>_EL1"), ("S2_0_C0_C5_5", "DBGBCR<n>_EL1"),
    ("S2_0_C0_C0_6", "DBGWVR<n>_EL1"), ("S2_0_C0_C0_7", "DBGWCR<n>_EL1"), ("S2_0_C0_C1_6", "DBGWVR<n>_EL1"),
    ("S2_0_C0_C1_7", "DBGWCR<n>_EL1"), ("S2_0_C0_C2_6", "DBGWVR<n>_EL1"), ("S2_0_C0_C2_7", "DBGWCR<n>_EL1"),
    ("S2_0_C0_C3_6", "DBGWVR<n>_EL1"), ("S2_0_C0_C3_7", "DBGWCR<n>_EL1"), ("S3_3_C14_C8_0", "PMEVCNTR<n>_EL0"),
    ("S3_3_C14_C12_0", "PMEVTYPER<n>_EL0"), ("S3_3_C14_C8_1", "PMEVCNTR<n>_EL0"), ("S3_3_C14_C12_1", "PMEVTYPER<n>_EL0"),
    ("S3_3_C14_C8_2", "PMEVCNTR<n>_EL0"), ("S3_3_C14_C12_2", "PMEVTYPER<n>_EL0"), ("S3_3_C14_C8_3", "PMEVCNTR<n>_EL0"),
    ("S3_3_C14_C12_3", "PMEVTYPER<n>_EL0"), ("S3_3_C14_C8_4", "PMEVCNTR<n>_EL0"), ("S3_3_C14_C12_4", "PMEVTYPER<n>_EL0"),
    ("S3_3_C14_C8_5", "PMEVCNTR<n>_EL0"), ("S3_3_C14_C12_5", "PMEVTYPER<n>_EL0"), ("S2_0_C0_C2_2", "MDSCR_EL1"),
    ("S2_0_C1_C3_4", "OSDLR_EL1"), ("S3_0_C2_C0_0", "TTBR0_EL1"), ("S3_0_C2_C0_1", "TTBR1_EL1"), ("S3_0_C2_C0_2", "TCR_EL1"),
    ("S3_0_C4_C0_0", "SPSR_EL1"), ("S3_0_C4_C0_1", "ELR_EL1"), ("S3_0_C4_C1_0", "SP_EL0"), ("S3_0_C4_C6_0", "ICC_PMR_EL1"),
    ("S3_0_C5_C2_0", "ESR_EL1"), ("S3_0_C6_C0_0", "FAR_EL1"), ("S3_0_C7_C4_0", "PAR_EL1"),
    ("S3_0_C9_C14_1", "PMINTENSET_EL1"), ("S3_0_C10_C2_0", "MAIR_EL1"), ("S3_0_C12_C0_0", "VBAR_EL1"),
    ("S3_0_C12_C12_3", "ICC_BPR1_EL1"), ("S3_0_C12_C12_4", "ICC_CTLR_EL1"), ("S3_0_C12_C12_7", "ICC_IGRPEN1_EL1"),
    ("S3_0_C13_C0_1", "CONTEXTIDR_EL1"), ("S3_0_C13_C0_4", "TPIDR_EL1"), ("S3_0_C14_C1_0", "CNTKCTL_EL1"),
    ("S3_2_C0_C0_0", "CSSELR_EL1"), ("S3_3_C4_C4_0", "FPCR"), ("S3_3_C4_C4_1", "FPSR"), ("S3_3_C9_C12_0", "PMCR_EL0"),
    ("S3_3_C9_C12_1", "PMCNTENSET_EL0"), ("S3_3_C9_C12_5", "PMSELR_EL0"), ("S3_3_C9_C13_1", "PMXEVTYPER_EL0"),
    ("S3_3_C9_C13_2", "PMXEVCNTR_EL0"), ("S3_3_C9_C14_0", "PMUSERENR_EL0"), ("S3_3_C9_C14_3", "PMOVSSET_EL0"),
    ("S3_3_C13_C0_2", "TPIDR_EL0"), ("S3_3_C13_C0_3", "TPIDRRO_EL0"), ("S3_3_C14_C2_2", "CNTP_CVAL_EL0"),
    ("S3_3_C14_C3_2", "CNTV_CVAL_EL0"), ("S3_3_C14_C15_7", "PMCCFILTR_EL0"),
];
