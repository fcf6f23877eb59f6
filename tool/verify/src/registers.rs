//! The control registers that confine a guest, bit by bit from the manual (Arm ARM, DDI 0487I.a).
//!
//! Written down apart from `core/arm`, of which the planner takes the values that this crate checks: a bit that is wrong there must
//! not be wrong here by the same line.

/// Makes a value of the numbers of its bits.
const fn bits(numbers: &[u32]) -> u64 {
    let (mut value, mut index) = (0, 0);
    while index < numbers.len() {
        value |= 1 << numbers[index];
        index += 1;
    }
    value
}

/// HCR_EL2 of a `direct` partition (D17.2.48 "HCR_EL2, Hypervisor Configuration Register"): VM 0, SWIO 1, AMO 5, TSC 19, TIDCP 20,
/// TACR 21, TSW 22, RW 31. The guest owns the CPU interface: FMO and IMO are clear.
pub(crate) const HCR_DIRECT: u64 = bits(&[0, 1, 5, 19, 20, 21, 22, 31]);
/// HCR_EL2 of a `mapped` partition: FMO 3 and IMO 4 besides.
pub(crate) const HCR_MAPPED: u64 = bits(&[0, 1, 3, 4, 5, 19, 20, 21, 22, 31]);
/// HCR_EL2 of a vCPU on a shared core: TWI 13 besides.
pub(crate) const HCR_SHARED: u64 = bits(&[0, 1, 3, 4, 5, 13, 19, 20, 21, 22, 31]);
/// Bits of a physical address by the value of PS in VTCR_EL2 and TCR_EL2 (D17.2, each under its name).
pub(crate) const PHYSICAL_ADDRESS_BITS: [u32; 6] = [32, 36, 40, 42, 44, 48];
/// T0SZ 5:0 of TCR_EL2: how many bits of 64 an input address does not have.
pub(crate) const T0SZ: u64 = 0x3f;

/// What VTCR_EL2 and TCR_EL2 have at the same places: IRGN0 9:8 = 1 and ORGN0 11:10 = 1 (write-back), SH0 13:12 = 3 (inner shareable),
/// TG0 15:14 = 0 (4 KiB), PS 18:16, bit 31 always set. Bits that no PS stands for give one that no register may have.
fn walks(physical_address_bits: u32) -> u64 {
    let size = PHYSICAL_ADDRESS_BITS.iter().zip(0..).find(|(bits, _)| **bits == physical_address_bits);
    (1 << 8) + (1 << 10) + (3 << 12) + (size.map_or(7, |(_, size)| size) << 16) + (1 << 31)
}

/// VTCR_EL2 (D17.2, "VTCR_EL2, Virtualization Translation Control Register"): T0SZ 5:0 = 25 (39-bit guest addresses), SL0 7:6 = 1
/// (from level 1 on).
pub(crate) fn vtcr(physical_address_bits: u32) -> u64 {
    walks(physical_address_bits) + 25 + (1 << 6)
}

/// TCR_EL2 (D17.2, "TCR_EL2, Translation Control Register (EL2)", HCR_EL2.E2H = 0): T0SZ 5:0, TBI 20 clear, bit 23 always set.
pub(crate) fn tcr(el2_address_bits: u32, physical_address_bits: u32) -> u64 {
    walks(physical_address_bits) + u64::from(64 - el2_address_bits) + (1 << 23)
}

/// MAIR_EL2 (D17.2, "MAIR_EL2, Memory Attribute Indirection Register (EL2)"): Attr0 = 0x04 (Device-nGnRE), Attr1 = 0xff (write-back,
/// read- and write-allocate, inner and outer), Attr2 = 0x44 (non-cacheable, inner and outer); the others are not used.
pub(crate) const MAIR: u64 = 0x44_ff04;
/// MDCR_EL2 (D17.3, "MDCR_EL2, Monitor Debug Configuration Register (EL2)"): HPMN 4:0 = 6 (all counters), TPMCR 5, TPM 6, TDA 9,
/// TDOSA 10, TDRA 11.
pub(crate) const MDCR: u64 = 6 + bits(&[5, 6, 9, 10, 11]);
/// CPTR_EL2 (D17.2, "CPTR_EL2, Architectural Feature Trap Register (EL2)", HCR_EL2.E2H = 0): TTA 20; TFP 10 is clear, since guests
/// have floating point; bits 7:0, 9, 12 and 13 are always set, and TZ 8 is where there is no SVE.
pub(crate) const CPTR: u64 = bits(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 20]);
