//! Instances of a partition with functions or fronts: what a partition can be in, and what happens to it there.

use super::calls::{SYSTEM_OFF, call};
use super::shared::Core;
use super::*;
use bulkhead_abi::devices::DevicePlan;
use bulkhead_abi::status;

const SYSTEM_RESET: u64 = 0x8400_0009;

/// Lets a manager ask the partition, and its policy restart it.
pub(super) fn give_manager(partition: &mut PartitionPlan) {
    partition.manage[3] = PhysicalAddress(PEER_MANAGE);
    partition.health.policy = POLICY_RESTART;
    (partition.health.max_restarts, partition.health.backoff_ticks) = (8, 100);
}

/// Gives the vCPU its devices and starts its partition.
pub(super) fn begin(core: &mut Vcpu<FakeMachine>, plan: DevicePlan, refused: u64) {
    core.attach_functions(Some(Box::leak(Box::new(plan))), refused);
    core.begin_core();
    core.begin_partition();
}

fn post(machine: &FakeMachine, request: u32) {
    let place = PhysicalAddress(PEER_MANAGE);
    machine.store64(place, status::next_request(machine.load64(place), request));
}

/// A manager asks.
pub(super) fn manage(core: &mut Vcpu<FakeMachine>, request: u32) {
    post(&core.machine, request);
    core.interrupt(15);
}

/// A manager asks one of a shared core.
pub(super) fn manage_shared(core: &mut Core, request: u32) {
    post(&core.machine, request);
    core.interrupt(15);
}

/// An access of the guest, by x0; returns what x0 has then.
pub(super) fn access(core: &mut Vcpu<FakeMachine>, guest: u64, bytes: u64, write: Option<u64>) -> u64 {
    core.machine.exit.set((guest & 0xfff, guest >> 8 & !0xf));
    core.head.frame.set_register(0, write.unwrap_or(0x5555_5555_5555_5555));
    let size = u64::from(bytes.trailing_zeros());
    core.synchronous(0x24 << 26 | 1 << 25 | 1 << 24 | size << 22 | u64::from(write.is_some()) << 6 | 7);
    core.head.frame.register(0)
}

/// What the partition is in when something happens to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    Running,
    Suspended,
    SwitchedOff,
    BackOff,
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    Off,
    Reset,
    Fault,
    Suspend,
    Restart,
}

impl Before {
    const ALL: [Self; 4] = [Self::Running, Self::Suspended, Self::SwitchedOff, Self::BackOff];

    /// Brings a partition that runs there.
    pub(super) fn bring(self, core: &mut Vcpu<FakeMachine>) {
        match self {
            Self::Running => {}
            Self::Suspended => Cause::Suspend.happen(core),
            Self::SwitchedOff => Cause::Off.happen(core),
            Self::BackOff => Cause::Fault.happen(core),
        }
    }
}

impl Cause {
    const ALL: [Self; 5] = [Self::Off, Self::Reset, Self::Fault, Self::Suspend, Self::Restart];

    pub(super) fn happen(self, core: &mut Vcpu<FakeMachine>) {
        match self {
            Self::Off => _ = call(core, SYSTEM_OFF, [0; 3]),
            Self::Reset => _ = call(core, SYSTEM_RESET, [0; 3]),
            Self::Fault => core.fault(crate::life::health::Fault::new(status::REASON_DATA_ABORT, 0)),
            Self::Suspend => manage(core, status::MANAGE_SUSPEND),
            Self::Restart => manage(core, status::MANAGE_RESTART),
        }
    }
}

/// All that can happen in all that a partition can be in. A guest that does not run causes nothing.
pub(super) fn histories() -> impl Iterator<Item = (Before, Cause)> {
    let all = Before::ALL.into_iter().flat_map(|before| Cause::ALL.map(|cause| (before, cause)));
    all.filter(|(before, cause)| *before == Before::Running || matches!(cause, Cause::Suspend | Cause::Restart))
}
