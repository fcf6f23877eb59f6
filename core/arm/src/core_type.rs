//! The types of cores that the list of registers knows (`bulkhead_emulation::registers`).

/// A type of core. The monitor has what it compares with from its plan.
#[cfg(not(target_os = "none"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreType {
    /// Name, as in a board file.
    pub name: &'static str,
    /// MIDR_EL1 under [`MIDR_TYPE`] (Arm ARM D17.2, "Main ID Register").
    pub midr: u64,
    /// Bits of a physical address (ID_AA64MMFR0_EL1.PARange; technical reference manual of the core).
    pub physical_address_bits: u32,
}

/// Fields of MIDR_EL1 that name the type: implementer 31:24 and part number 15:4. Variant and revision are of one type.
pub const MIDR_TYPE: u64 = 0xff00_fff0;

#[cfg(not(target_os = "none"))]
impl CoreType {
    /// Every type that is known.
    pub const KNOWN: [Self; 2] = [
        Self { name: "cortex-a53", midr: 0x4100_d030, physical_address_bits: 40 },
        Self { name: "cortex-a72", midr: 0x4100_d080, physical_address_bits: 44 },
    ];

    /// Returns the type of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::KNOWN.into_iter().find(|kind| kind.name == name)
    }

    /// Returns the type of a core by its MIDR_EL1, whatever the revision.
    #[must_use]
    pub fn of(midr: u64) -> Option<Self> {
        Self::KNOWN.into_iter().find(|kind| kind.midr == midr & MIDR_TYPE)
    }
}
