//! Faults and health policies, and the watchdog.
//!
//! A fault of any vCPU ends the run of that vCPU at once; the core of vCPU 0 records it and applies the partition's policy
//! (SG-60, SG-61, QV-70). The watchdog needs heartbeats; beside them it samples exits, interrupts and the program counter,
//! so that a manager can see progress of a guest that does not cooperate.

use crate::life::powers::PowerOff;
use crate::observe::at;
use crate::state::{RESTART_HISTORY, RunState, Vcpu};
use bulkhead_abi::observe::{Counter, TRACE_FAULT};
use bulkhead_abi::plan::{POLICY_HALT, POLICY_RESTART};
use bulkhead_abi::status::{self, FaultRecord, StatusPage};
use bulkhead_arch::Machine;
use core::mem::offset_of;
use core::sync::atomic::Ordering::{Relaxed, Release};

/// A fault, before it is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// One of the `REASON_` constants.
    pub reason: u32,
    /// ESR_EL2, or 0.
    pub syndrome: u64,
    /// HPFAR_EL2 and FAR_EL2 are meaningful.
    pub has_address: bool,
}

impl Fault {
    /// A fault without an address.
    #[must_use]
    pub const fn new(reason: u32, syndrome: u64) -> Self {
        Self { reason, syndrome, has_address: false }
    }

    /// A stage-2 fault: its address is in HPFAR_EL2 and FAR_EL2.
    #[must_use]
    pub const fn with_guest_address(reason: u32, syndrome: u64) -> Self {
        Self { reason, syndrome, has_address: true }
    }
}

impl<M: Machine> Vcpu<M> {
    /// Takes the guest's vCPU out of service and hands the fault to the policy.
    // A fault ends the run, so the ways that go on are laid out first. Without it the read of a UART's register becomes
    // a call in the handler of data aborts.
    #[cold]
    pub fn fault(&mut self, fault: Fault) {
        self.count(Counter::Fault);
        let registers = if fault.has_address { self.machine.exit_registers() } else { Default::default() };
        let guest = (registers.fault_page & 0xfff_ffff_fff0) << 8 | registers.fault_address & 0xfff;
        self.trace(TRACE_FAULT, fault.reason, fault.syndrome, guest);
        let own = self.own_vcpu();
        let facts = [fault.syndrome, registers.fault_address, guest, self.machine.guest_program_counter()];
        for (word, value) in own.fault.iter().zip(facts) {
            // Relaxed: the Release of the report in `leave` makes them visible. The core of vCPU 0 reads its own
            // itself.
            word.store(value, Relaxed);
        }
        self.leave(fault.reason);
    }

    /// Records a fault of a vCPU and does what the plan says. Runs on vCPU 0's core.
    pub(crate) fn apply_policy(&mut self, vcpu: u32, reason: u32) {
        self.fault_ticks = self.machine.counter_ticks();
        self.record(vcpu, reason);
        let policy = self.partition.health.policy;
        let may_restart = policy == POLICY_RESTART && self.may_restart();
        match policy {
            POLICY_RESTART if may_restart => {
                self.publish_state(status::STATE_RESTARTING, reason);
                // Without a back-off too, the restart is not done in the handler of the fault, but when it is over: only then do
                // the vectors load registers that a call or a data abort leaves where they are.
                self.stop(status::STATE_RESTARTING, reason);
                if self.state() != status::STATE_RESTARTING {
                    return; // A core did not stop: it must not find a new instance when it comes.
                }
                self.run = RunState::BackOff;
                self.backoff_until = self.fault_ticks.wrapping_add(self.partition.health.backoff_ticks);
                if self.is_shared() {
                    self.set_own_date(self.backoff_until);
                }
            }
            POLICY_HALT => {
                self.stop(status::STATE_STOPPED, reason);
                self.machine.power_off(PowerOff(()));
            }
            _ => self.stop(status::STATE_STOPPED, reason),
        }
    }

    fn record(&self, vcpu: u32, reason: u32) {
        let base = self.status_place(offset_of!(StatusPage, fault));
        self.machine.store32(at(base, offset_of!(FaultRecord, reason) as u64), reason);
        self.machine.store32(at(base, offset_of!(FaultRecord, vcpu) as u64), vcpu);
        if let Some(words) = self.shared.vcpus.get(vcpu as usize) {
            let offsets = [
                offset_of!(FaultRecord, syndrome),
                offset_of!(FaultRecord, virtual_address),
                offset_of!(FaultRecord, guest_address),
                offset_of!(FaultRecord, program_counter),
            ];
            for (word, offset) in words.fault.iter().zip(offsets) {
                // Relaxed: `serve_reports` took the report, and with it these, with Acquire.
                self.machine.store64(at(base, offset as u64), word.swap(0, Relaxed));
            }
        }
        self.machine.store64(at(base, offset_of!(FaultRecord, time_ticks) as u64), self.fault_ticks);
        let faults = self.status_place(offset_of!(StatusPage, faults));
        self.machine.store64(faults, self.machine.load64(faults).wrapping_add(1));
    }

    /// States whether the policy's limit allows one more restart now, and remembers it.
    fn may_restart(&mut self) -> bool {
        let health = &self.partition.health;
        let allowed = (health.max_restarts as usize).min(RESTART_HISTORY);
        let Some(oldest_that_counts) = self.restart_count.checked_sub(allowed) else {
            return self.remember_restart();
        };
        let slot = oldest_that_counts % RESTART_HISTORY;
        let then = self.restart_times.get(slot).copied().unwrap_or(0);
        if allowed != 0 && self.fault_ticks.wrapping_sub(then) > health.within_ticks {
            return self.remember_restart();
        }
        false
    }

    fn remember_restart(&mut self) -> bool {
        let slot = self.restart_count % RESTART_HISTORY;
        if let Some(time) = self.restart_times.get_mut(slot) {
            *time = self.fault_ticks;
        }
        self.restart_count = self.restart_count.wrapping_add(1);
        true
    }

    /// Notes a heartbeat of the partition.
    pub fn heartbeat(&self) {
        self.count(Counter::Heartbeat);
        // Each word is read for itself and nothing by it: a heartbeat that is seen late is one that came late. No need
        // for the Release, here and in `start_watchdog`, is known.
        self.shared.heartbeat_ticks.store(self.machine.counter_ticks(), Release);
        self.shared.heartbeats.fetch_add(1, Relaxed);
    }

    /// Arms the watchdog, if the plan has one, as if a heartbeat had just come.
    pub(crate) fn start_watchdog(&mut self) {
        let period = self.partition.health.watchdog_ticks;
        if period != 0 {
            let now = self.machine.counter_ticks();
            // As in `heartbeat`: no need for more than Relaxed is known.
            self.shared.heartbeat_ticks.store(now, Release);
            self.set_own_date(now.wrapping_add(period));
        }
        #[cfg(feature = "devices")]
        self.start_looking();
    }

    /// The EL2 timer of vCPU 0's core expired: is the latest heartbeat too old?
    pub(crate) fn timer_expired(&mut self) {
        #[cfg(feature = "devices")]
        if self.look_when_due() {
            return;
        }
        let period = self.partition.health.watchdog_ticks;
        if period == 0 || self.state() != status::STATE_RUNNING || !self.is_lead() {
            return;
        }
        self.count(Counter::Watchdog);
        self.sample_progress();
        // As in `heartbeat`: the date is all that is read, so no need for the Acquire is known.
        let latest = self.shared.heartbeat_ticks.load(core::sync::atomic::Ordering::Acquire);
        let due = latest.wrapping_add(period);
        if self.machine.counter_ticks() >= due {
            self.fault(Fault::new(status::REASON_WATCHDOG, 0));
        } else {
            self.set_own_date(due);
        }
    }

    fn sample_progress(&self) {
        let samples = [
            (offset_of!(StatusPage, sampled_exits), self.counter(Counter::Exits)),
            (offset_of!(StatusPage, sampled_interrupts), self.counter(Counter::Interrupt)),
            (offset_of!(StatusPage, sampled_program_counter), self.machine.guest_program_counter()),
            // Relaxed: a number that is shown, and nothing is read by it.
            (offset_of!(StatusPage, heartbeats), self.shared.heartbeats.load(Relaxed)),
        ];
        for (offset, value) in samples {
            self.machine.store64(self.status_place(offset), value);
        }
    }
}
