//! A shared core's scheduler, made from its plan at boot.

use super::{INTIDS, NEVER, Policy, Scheduler, Servers, Slot};
use crate::plan::{self, BadPlan};
use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::plan::{PartitionPlan, VcpuPlan};
use bulkhead_abi::schedule::{ScheduleKind, SchedulePlan};
use bulkhead_sched::dispatch::Stint;

impl<Registers: Default> Scheduler<Registers> {
    /// Makes the scheduler of a core, without servers until [`Self::configure`]. Two steps, because a scheduler is larger than
    /// what a stack should hold of it twice. No vCPU is loaded but slot 0, whose registers the machine has from boot.
    ///
    /// # Errors
    /// When the plan contradicts itself.
    #[inline(never)]
    pub fn new(plan: &'static SchedulePlan, now: u64) -> Result<Self, BadPlan> {
        let policy = if plan.kind() == Some(ScheduleKind::RoundRobin) {
            Policy::Ring(plan::ring(plan, now)?)
        } else {
            Policy::Servers(Servers::empty())
        };
        Ok(Self {
            plan,
            policy,
            slots: core::array::from_fn(|_| Slot::new()),
            owners: [0; INTIDS],
            routes: [0; INTIDS],
            limits: Default::default(),
            console_intid: 0,
            console: 0,
            console_waits: false,
            loaded: 0,
            stint: Stint::IDLE,
            decide: true,
            owed_ticks: 0,
            loaded_ticks: 0,
            charged_from: (0, Stint::IDLE),
            leaver: Stint::IDLE,
            deadline_ticks: NEVER,
            armed_ticks: NEVER,
            floating_point_owner: 0,
            list_used: false,
            private_enabled: 0,
            switches: 0,
            exhausted: 0,
            waiting: 0,
            counts: Default::default(),
            next_date_ticks: NEVER,
            date_is_stale: false,
            instant: 0,
            published_ticks: 0,
            woken: 0,
        })
    }

    /// Makes the core's servers, unless it is a ring.
    ///
    /// # Errors
    /// When the plan contradicts itself.
    #[inline(never)]
    pub fn configure(&mut self, now: u64) -> Result<(), BadPlan> {
        match &mut self.policy {
            Policy::Servers(servers) => plan::configure(servers, self.plan, now),
            Policy::Ring(_) => Ok(()),
        }
    }

    /// Lets every vCPU compete from now on. Not the instant of [`Self::configure`], which takes longer than the waits that the
    /// analysis allows.
    pub fn begin(&mut self, now: u64) {
        for slot in 0..self.plan.slot_count as u8 {
            self.wake(slot, now);
        }
    }

    /// Takes a vCPU in.
    pub fn add(&mut self, vcpu: &VcpuPlan, partition: &'static PartitionPlan) {
        let slot = vcpu.slot as u8;
        self.adopt(slot, partition);
        let planned = self.plan.slots.get(usize::from(slot));
        let place = planned.map_or(PhysicalAddress(0), |planned| planned.stolen_time);
        if let Some(state) = self.slot_mut(slot) {
            state.stolen_time = place;
        }
        if vcpu.uart.0 != 0 {
            self.console = slot;
            self.console_intid = vcpu.uart_interrupt;
        }
    }
}
