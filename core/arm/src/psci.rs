//! The Power State Coordination Interface (DEN 0022): function ids and answers.

use crate::smccc::{FAST, OWNER_SHIFT, OWNER_STANDARD, SIXTY_FOUR};

const BASE: u32 = FAST | OWNER_STANDARD << OWNER_SHIFT;

/// A call of PSCI, by its function id (5 "PSCI functions"). `64` names the form of the 64-bit convention where there are two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Function {
    /// PSCI_VERSION (5.1): major version from bit 16 on, minor in bits 15:0.
    Version = BASE,
    /// CPU_SUSPEND (5.4).
    CpuSuspend = BASE | 1,
    /// CPU_SUSPEND.
    CpuSuspend64 = BASE | SIXTY_FOUR | 1,
    /// CPU_OFF (5.5).
    CpuOff = BASE | 2,
    /// CPU_ON (5.6).
    CpuOn = BASE | 3,
    /// CPU_ON.
    CpuOn64 = BASE | SIXTY_FOUR | 3,
    /// AFFINITY_INFO (5.7).
    AffinityInfo = BASE | 4,
    /// AFFINITY_INFO.
    AffinityInfo64 = BASE | SIXTY_FOUR | 4,
    /// MIGRATE_INFO_TYPE (5.9).
    MigrateInfoType = BASE | 6,
    /// SYSTEM_OFF (5.11).
    SystemOff = BASE | 8,
    /// SYSTEM_RESET (5.12).
    SystemReset = BASE | 9,
    /// PSCI_FEATURES (5.16).
    Features = BASE | 0xa,
    /// SYSTEM_RESET2 (5.13).
    SystemReset2 = BASE | 0x12,
    /// SYSTEM_RESET2.
    SystemReset264 = BASE | SIXTY_FOUR | 0x12,
}

impl Function {
    /// The function id, as it stands in x0.
    #[inline]
    #[must_use]
    pub const fn id(self) -> u64 {
        self as u64
    }
}

/// Answer of [`Function::Version`] that says 1.1.
pub const VERSION_1_1: u64 = 0x1_0001;
/// Answer of [`Function::MigrateInfoType`]: no trusted operating system that would need migration.
pub const NO_TRUSTED_OS: u64 = 2;
/// Answer that the call was done.
pub const SUCCESS: u64 = 0;

/// Why a call was not done (5.2.2 "Return codes").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Error {
    /// There is no such call.
    NotSupported = -1,
    /// An argument is out of range.
    InvalidParameters = -2,
    /// The caller may not do this.
    Denied = -3,
    /// The core is on.
    AlreadyOn = -4,
    /// The core is being switched on.
    OnPending = -5,
    /// The firmware failed.
    InternalFailure = -6,
    /// There is no such core.
    NotPresent = -7,
    /// The core is disabled.
    Disabled = -8,
    /// The entry point is no memory of the caller.
    InvalidAddress = -9,
}

impl Error {
    /// The answer in x0: 32 bits, sign-extended.
    #[inline]
    #[must_use]
    pub const fn answer(self) -> u64 {
        self as i32 as i64 as u64
    }
}

/// Answer of [`Function::AffinityInfo`] (5.7.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum AffinityState {
    /// The core is on.
    On = 0,
    /// The core is off.
    Off = 1,
    /// The core is being switched on.
    OnPending = 2,
}

impl AffinityState {
    /// The answer in x0.
    #[inline]
    #[must_use]
    pub const fn answer(self) -> u64 {
        self as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_of_the_manual() {
        let ids = [
            (Function::Version, 0x8400_0000),
            (Function::CpuSuspend, 0x8400_0001),
            (Function::CpuSuspend64, 0xc400_0001),
            (Function::CpuOff, 0x8400_0002),
            (Function::CpuOn, 0x8400_0003),
            (Function::CpuOn64, 0xc400_0003),
            (Function::AffinityInfo, 0x8400_0004),
            (Function::AffinityInfo64, 0xc400_0004),
            (Function::MigrateInfoType, 0x8400_0006),
            (Function::SystemOff, 0x8400_0008),
            (Function::SystemReset, 0x8400_0009),
            (Function::Features, 0x8400_000a),
            (Function::SystemReset2, 0x8400_0012),
            (Function::SystemReset264, 0xc400_0012),
        ];
        for (function, id) in ids {
            assert_eq!(function.id(), id, "{function:?}");
        }
    }

    #[test]
    fn answers_are_sign_extended() {
        assert_eq!(Error::NotSupported.answer(), u64::MAX);
        assert_eq!(Error::InvalidAddress.answer(), 0xffff_ffff_ffff_fff7);
    }
}
