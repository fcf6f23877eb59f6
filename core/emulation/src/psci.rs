//! Calls of guests by SMC or HVC: PSCI 1.1 (Arm DEN 0022), SMCCC 1.1 (Arm DEN 0028) and Bulkhead's own.
//!
//! One table names every call: its ids, its name, who may make it and what it comes to; [`decode`] is made from it and is an
//! allow-list: what has no row is [`Call::NotSupported`]. Nothing a guest calls ever reaches the firmware. Calls whose answer is a
//! constant are answered here, so that the monitor handles only those that do something. The table becomes comparisons in the
//! text and holds no address, so the monitor stays position independent.

use bulkhead_abi::hypercall::{self, NOT_SUPPORTED};
use bulkhead_abi::status;
use bulkhead_arm::psci::{Error, Function, NO_TRUSTED_OS, SUCCESS, VERSION_1_1};
use bulkhead_arm::smccc;

/// Who may make a call.
#[cfg(not(target_os = "none"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// Every guest. What it may ask for by it, the call's own arguments decide.
    Anyone,
    /// A guest whose partition manages others.
    Manager,
}

/// A decoded call; `Power` is what a manager must have to make those of managers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call<Power> {
    /// One that the monitor looks for before it decodes, since its cost is asserted.
    First,
    /// x0 = this value, nothing else to do.
    Answer(u64),
    /// PSCI_FEATURES of this function: [`features`].
    Features(u64),
    /// x0 = NOT_SUPPORTED, counted as a denied call.
    NotSupported,
    /// x0 = DENIED, counted as a denied call: a manager's call, and the caller is none.
    Denied,
    /// CPU_OFF of the calling vCPU.
    CpuOff,
    /// CPU_ON.
    CpuOn {
        /// Affinity of the vCPU to start; [`vcpu_of`] turns it into a number.
        target: u64,
        /// Guest address of its first instruction.
        entry: u64,
        /// Its x0.
        context: u64,
    },
    /// AFFINITY_INFO at level 0 of the vCPU with this affinity; other levels are answered INVALID_PARAMETERS here.
    AffinityInfo(u64),
    /// SYSTEM_OFF.
    SystemOff,
    /// SYSTEM_RESET, or SYSTEM_RESET2 with an architectural warm reset.
    SystemReset,
    /// [`hypercall::CALL_PARTITION_STATUS`] with the partition.
    PartitionStatus(u64),
    /// One of the `MANAGE_` requests for the partition.
    Manage(Power, u32, u64),
}

/// Makes the decoder from the table: no call can be answered that has no row, and a row of managers is the only way to their power.
macro_rules! calls {
    (@Anyone $power:ident $call:expr) => { $call };
    (@Manager $power:ident $call:expr) => { match $power { Some($power) => $call, None => Call::Denied } };
    (($power:ident, $x1:ident, $x2:ident, $x3:ident) $($name:literal $caller:ident $($id:path)|+ => $call:expr;)*) => {
        /// The calls that exist: name, who may make it, and its ids. For tools and tests; the monitor has the decoder.
        #[cfg(not(target_os = "none"))]
        pub const CALLS: &[(&str, Caller, &[u32])] = &[$(($name, Caller::$caller, &[$($id as u32),+])),*];

        /// Decodes x0-x3 of an SMC #0 or HVC #0. `power` is the caller's, if it is a manager.
        ///
        /// The function id is W0 (DEN 0028, 3.1). A call of the 32-bit convention takes W1-W3, whatever the upper halves hold.
        #[must_use]
        #[inline]
        pub fn decode<Power>($power: Option<Power>, function_id: u64, x1: u64, x2: u64, x3: u64) -> Call<Power> {
            let mask = if function_id as u32 & smccc::SIXTY_FOUR != 0 { u64::MAX } else { 0xffff_ffff };
            let ($x1, $x2, $x3) = (x1 & mask, x2 & mask, x3 & mask);
            match function_id as u32 {
                $(id if $(id == $id as u32)||+ => calls!(@$caller $power $call),)*
                _ => Call::NotSupported,
            }
        }
    };
}

calls! {
    (power, x1, x2, x3)
    "version" Anyone hypercall::CALL_VERSION => Call::First;
    "heartbeat" Anyone hypercall::CALL_HEARTBEAT => Call::First;
    "doorbell" Anyone hypercall::CALL_DOORBELL => Call::First;
    "partition status" Anyone hypercall::CALL_PARTITION_STATUS => Call::PartitionStatus(x1);
    "partition suspend" Manager hypercall::CALL_PARTITION_SUSPEND => Call::Manage(power, status::MANAGE_SUSPEND, x1);
    "partition resume" Manager hypercall::CALL_PARTITION_RESUME => Call::Manage(power, status::MANAGE_RESUME, x1);
    "partition restart" Manager hypercall::CALL_PARTITION_RESTART => Call::Manage(power, status::MANAGE_RESTART, x1);
    "SMCCC_VERSION" Anyone smccc::VERSION => Call::Answer(smccc::VERSION_1_1);
    "SMCCC_ARCH_FEATURES" Anyone smccc::ARCH_FEATURES => Call::Answer(architecture_features(x1));
    "PSCI_VERSION" Anyone Function::Version => Call::Answer(VERSION_1_1);
    // A standby that ended at once (DEN 0022, 5.4: a caller must expect early wake-up). WFI is native, so an idle guest loses
    // nothing by it.
    "CPU_SUSPEND" Anyone Function::CpuSuspend | Function::CpuSuspend64 => Call::Answer(SUCCESS);
    "CPU_OFF" Anyone Function::CpuOff => Call::CpuOff;
    "CPU_ON" Anyone Function::CpuOn | Function::CpuOn64 => Call::CpuOn { target: x1, entry: x2, context: x3 };
    "AFFINITY_INFO" Anyone Function::AffinityInfo | Function::AffinityInfo64 => valid(x2 == 0, Call::AffinityInfo(x1));
    "MIGRATE_INFO_TYPE" Anyone Function::MigrateInfoType => Call::Answer(NO_TRUSTED_OS);
    "SYSTEM_OFF" Anyone Function::SystemOff => Call::SystemOff;
    "SYSTEM_RESET" Anyone Function::SystemReset => Call::SystemReset;
    "PSCI_FEATURES" Anyone Function::Features => Call::Features(x1);
    // Type 0 is the architectural warm reset; bit 31 would be a vendor's.
    "SYSTEM_RESET2" Anyone Function::SystemReset2 | Function::SystemReset264 => valid(x1 as u32 == 0, Call::SystemReset);
}

/// The call, if its arguments are in range.
#[inline(always)]
fn valid<Power>(in_range: bool, call: Call<Power>) -> Call<Power> {
    if in_range { call } else { Call::Answer(Error::InvalidParameters.answer()) }
}

/// SMCCC_ARCH_FEATURES: itself and the version; no workaround calls, the guest reads the real MIDR.
const fn architecture_features(function_id: u64) -> u64 {
    if matches!(function_id as u32, smccc::VERSION | smccc::ARCH_FEATURES) { SUCCESS } else { NOT_SUPPORTED }
}

/// Answers PSCI_FEATURES (DEN 0022, 5.16): 0 for a call of PSCI that exists, with no optional flags, and for SMCCC_VERSION;
/// else NOT_SUPPORTED.
#[must_use]
pub fn features(function_id: u64) -> u64 {
    let id = function_id as u32;
    let has_flags = smccc::owner(id) == smccc::OWNER_STANDARD || id == smccc::VERSION;
    let exists = decode::<()>(None, function_id, 0, 0, 0) != Call::NotSupported;
    if has_flags && exists { SUCCESS } else { NOT_SUPPORTED }
}

/// Returns the vCPU that an affinity value names: affinity 0 is its number, all other bits are zero (QV-16: no value
/// names a core outside the partition).
#[must_use]
pub fn vcpu_of(target: u64, vcpu_count: u32) -> Option<u32> {
    (target < u64::from(vcpu_count)).then_some(target as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;
    use bulkhead_abi::hypercall::{INVALID_PARAMETERS, NOT_SUPPORTED, SUCCESS};

    /// As a manager calls.
    fn managed(id: u64, x1: u64, x2: u64, x3: u64) -> Call<()> {
        decode(Some(()), id, x1, x2, x3)
    }

    #[test]
    fn mandatory_psci_calls_exist() {
        // DEN 0022, table 5-1: mandatory in PSCI 1.1.
        let mandatory = [
            0x8400_0000u64,
            0x8400_0001,
            0xc400_0001,
            0x8400_0002,
            0x8400_0003,
            0xc400_0003,
            0x8400_0004,
            0xc400_0004,
            0x8400_0008,
            0x8400_0009,
            0x8400_000a,
        ];
        for id in mandatory {
            assert_eq!(features(id), SUCCESS, "{id:#x}");
            assert_ne!(managed(id, 0, 0, 0), Call::NotSupported, "{id:#x}");
        }
        assert_eq!(managed(0x8400_0000, 0, 0, 0), Call::Answer(0x1_0001));
        assert_eq!(managed(0x8400_0006, 0, 0, 0), Call::Answer(2));
        assert_eq!(managed(0x8000_0000, 0, 0, 0), Call::Answer(0x1_0001));
        assert_eq!(managed(0x8000_0001, 0x8000_8000, 0, 0), Call::Answer(NOT_SUPPORTED));
        assert_eq!(managed(0x8400_000a, 0x8000_0000, 0, 0), Call::Features(0x8000_0000));
        assert_eq!([0x8000_0000, 0x8000_0001, 0xc600_0010].map(features), [SUCCESS, NOT_SUPPORTED, NOT_SUPPORTED]);
    }

    #[test]
    fn features_agrees_with_decode() {
        // Every id of the PSCI range: announced exactly when it is answered.
        for base in [0x8400_0000u64, 0xc400_0000] {
            for id in base..base + 0x100 {
                let answered = managed(id, 0, 0, 0) != Call::NotSupported;
                assert_eq!(features(id) == SUCCESS, answered, "{id:#x}");
            }
        }
    }

    #[test]
    fn calls_of_the_32_bit_convention_ignore_upper_halves() {
        let call = managed(0xffff_ffff_8400_0003, 0xdead_0000_0001, 0xbeef_4020_0000, 0xffff_ffff_0000_0005);
        assert_eq!(call, Call::CpuOn { target: 1, entry: 0x4020_0000, context: 5 });
        let call = managed(0xc400_0003, 1, 0x40_4020_0000, u64::MAX);
        assert_eq!(call, Call::CpuOn { target: 1, entry: 0x40_4020_0000, context: u64::MAX });
    }

    #[test]
    fn arguments_are_checked() {
        assert_eq!(managed(0xc400_0004, 0, 1, 0), Call::Answer(INVALID_PARAMETERS));
        assert_eq!(managed(0x8400_0012, 0x8000_0000, 0, 0), Call::Answer(INVALID_PARAMETERS));
        assert_eq!(managed(0x8400_0012, 0, 7, 0), Call::SystemReset);
        assert_eq!(vcpu_of(1, 2), Some(1));
        for outside in [2, 0x100, 0x1_0000_0000, 0x8000_0001, u64::MAX, 1 << 24, 1 << 40] {
            assert_eq!(vcpu_of(outside, 2), None, "{outside:#x}");
        }
    }

    #[test]
    fn everything_else_is_not_supported() {
        // QV-13: random ids over all owners, yielding and fast, both conventions; only the allow-list gets through.
        let mut random = Random::new(3);
        for _ in 0..200_000 {
            let id = (random.next() as u32 & 0xff00_00ff) | (random.below(4) as u32) << 8;
            let allowed = matches!(id, 0x8400_0000..=0x8400_0004 | 0x8400_0006 | 0x8400_0008..=0x8400_000a | 0x8400_0012
                | 0xc400_0001 | 0xc400_0003 | 0xc400_0004 | 0xc400_0012 | 0x8000_0000 | 0x8000_0001
                | 0xc600_0000..=0xc600_0002 | 0xc600_0010..=0xc600_0013);
            let call = managed(u64::from(id), random.hostile(), random.hostile(), random.hostile());
            assert_eq!(call == Call::NotSupported, !allowed, "{id:#x}");
        }
        assert_eq!(managed(0xc600_0010, 3, 0, 0), Call::PartitionStatus(3));
        let manage = [0xc600_0011, 0xc600_0012, 0xc600_0013].map(|id| managed(id, 5, 0, 0));
        assert_eq!(manage, [1, 2, 3].map(|request| Call::Manage((), request, 5)), "suspend, resume, restart");
    }

    #[test]
    fn a_row_of_managers_is_denied_to_everybody_else() {
        let mut of_managers = 0;
        for (name, caller, ids) in CALLS {
            for id in ids.iter().copied().map(u64::from) {
                let (with, without) = (managed(id, 0, 0, 0), decode::<()>(None, id, 0, 0, 0));
                let managers_only = *caller == Caller::Manager;
                assert_ne!(with, Call::NotSupported, "{name}");
                assert_eq!(
                    (without == Call::Denied, matches!(with, Call::Manage(..))),
                    (managers_only, managers_only),
                    "{name}"
                );
                of_managers += u32::from(managers_only);
            }
        }
        assert_eq!(of_managers, 3, "suspend, resume, restart");
    }

    #[test]
    fn no_id_has_two_rows() {
        // The second of two would never be looked at.
        let ids = || CALLS.iter().flat_map(|(.., ids)| *ids);
        for id in ids() {
            assert_eq!(ids().filter(|other| *other == id).count(), 1, "{id:#x}");
        }
        assert_eq!(ids().count(), 23);
    }
}
