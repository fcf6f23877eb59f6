//! Values of the registers that isolate a guest, which the monitor takes from the plan. CPTR_EL2, which it changes by itself
//! on shared cores, is [`bulkhead_abi::plan::CPTR`].

/// HCR_EL2 for `mapped`.
///
/// Bits (Arm ARM D17.2.48): VM 0, SWIO 1, FMO 3, IMO 4, AMO 5, TSC 19, TIDCP 20, TACR 21, TSW 22, RW 31.
pub const HCR_MAPPED: u64 =
    (1 << 31) | (1 << 22) | (1 << 21) | (1 << 20) | (1 << 19) | (1 << 5) | (1 << 4) | (1 << 3) | (1 << 1) | 1;
/// HCR_EL2 for `direct`: as [`HCR_MAPPED`] without FMO and IMO.
pub const HCR_DIRECT: u64 = HCR_MAPPED & !((1 << 4) | (1 << 3));
/// HCR_EL2 on a shared core: as [`HCR_MAPPED`], and WFI traps (TWI, bit 13), so that an idle guest gives the core away.
pub const HCR_SHARED: u64 = HCR_MAPPED | (1 << 13);
/// VTCR_EL2: 39-bit guest addresses, start at level 1, 4 KiB, write-back inner-shareable walks, 40-bit output
/// (`platform-facts.md` part 1).
pub const VTCR: u64 = 0x8002_3559;
/// MDCR_EL2: TDRA, TDOSA, TDA, TPM, TPMCR; HPMN = 6.
pub const MDCR: u64 = (1 << 11) | (1 << 10) | (1 << 9) | (1 << 6) | (1 << 5) | 6;
