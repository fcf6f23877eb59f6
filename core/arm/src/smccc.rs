//! The SMC Calling Convention (DEN 0028): how a function id is built, and the calls that describe the convention itself.

/// Set in the id of a fast call; no other is made here (2.5 "Function Identifiers").
pub const FAST: u32 = 1 << 31;
/// Set in the id of the 64-bit convention: arguments are X registers, not W registers.
pub const SIXTY_FOUR: u32 = 1 << 30;
/// Owner of a call, bits 29:24 of its id (6 "Function Identifier ranges").
pub const OWNER_SHIFT: u32 = 24;
/// Owner: standard secure services, PSCI among them.
pub const OWNER_STANDARD: u32 = 4;
/// Owner: vendor-specific hypervisor services, where Bulkhead's own calls are.
pub const OWNER_HYPERVISOR: u32 = 6;

/// SMCCC_VERSION (7.2): major version from bit 16 on, minor in bits 15:0.
pub const VERSION: u32 = FAST;
/// SMCCC_ARCH_FEATURES (7.3).
pub const ARCH_FEATURES: u32 = FAST | 1;
/// Answer of [`VERSION`] that says 1.1.
pub const VERSION_1_1: u64 = 0x1_0001;

/// Returns the owner of a call.
#[inline]
#[must_use]
pub const fn owner(function_id: u32) -> u32 {
    function_id >> OWNER_SHIFT & 0x3f
}

/// States whether a call is a fast one of the vendor-specific hypervisor range, of either convention.
#[inline]
#[must_use]
pub const fn is_hypervisor_service(function_id: u32) -> bool {
    function_id & FAST != 0 && owner(function_id) == OWNER_HYPERVISOR
}
