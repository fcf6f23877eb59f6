//! What managers ask of other partitions: their side, which posts a request, and that of the partition, which serves it.

use crate::interrupts::MONITOR_SGI;
use crate::life::powers::Stop;
use crate::observe::at;
use crate::state::Vcpu;
use bulkhead_abi::hypercall::{DENIED, LIMITED, SUCCESS};
use bulkhead_abi::status::{self, ManagePage, StatusPage, next_request};
use bulkhead_arch::Machine;
use bulkhead_sched::limiter::{self, Verdict};
use core::mem::offset_of;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

const NAME: u64 = offset_of!(StatusPage, name) as u64;

/// Where requests to a partition are in a manager's page.
pub(crate) fn request_offset(partition: u32) -> u64 {
    (offset_of!(ManagePage, requests) as u64).wrapping_add(u64::from(partition).wrapping_mul(8))
}

impl<M: Machine> Vcpu<M> {
    /// Posts a request for another partition in the own manage page and wakes its core (SG-60), as often as the plan allows for
    /// this target: each costs the target's core an interrupt, and one too many only its sender.
    ///
    /// Two vCPUs that post for one target at the same moment: one of them is told `DENIED` and may try again.
    pub(crate) fn manage(&self, _: Stop, target: u64, request: u32) -> u64 {
        let index = usize::try_from(target).unwrap_or(usize::MAX);
        let own_page = self.partition.manage.get(self.partition.index as usize).copied().unwrap_or_default();
        let lead = self.partition.lead_mpidr.get(index).copied().unwrap_or(u64::MAX);
        let is_own = target == u64::from(self.partition.index);
        // Its core names itself when it is set up; what is posted before would not be heard.
        let would_hear = |page| self.machine.load8(at(page, NAME)) != 0;
        if own_page.0 == 0 || lead == u64::MAX || is_own || !self.readable_status(target).is_some_and(would_hear) {
            return self.deny(DENIED);
        }
        let limit = (offset_of!(ManagePage, limits) as u64).wrapping_add(target.wrapping_mul(8));
        let (limit, now) = (self.machine.atomic(at(own_page, limit)), self.machine.counter_ticks());
        let (period, events) = (self.partition.manage_period_ticks, self.partition.manage_events);
        if limiter::try_pass(limit, now, period, events) != Verdict::Send {
            return self.deny(LIMITED);
        }
        let word = self.machine.atomic(at(own_page, request_offset(target as u32)));
        // Of two vCPUs that post at the same moment one must lose, and the exchange alone sees to that. The target
        // reads this word and nothing by it, and `send_sgi` puts it before the interrupt: no need for Acquire and
        // Release is known.
        let old = word.load(Acquire);
        if word.compare_exchange(old, next_request(old, request), Release, Relaxed).is_err() {
            return self.deny(DENIED);
        }
        self.send_physical_sgi(lead, MONITOR_SGI);
        SUCCESS
    }

    pub(super) fn serve_managers(&mut self) {
        let plan = self.partition;
        for (manager, page) in plan.manage.iter().enumerate() {
            if page.0 == 0 || manager == plan.index as usize {
                continue;
            }
            let request = self.machine.load64(at(*page, request_offset(plan.index)));
            let Some(seen) = self.manage_seen.get_mut(manager) else { continue };
            let before = core::mem::replace(seen, request);
            if before != request {
                self.serve_manager(request as u32 & 0xff, status::asks_for_restart(before, request));
            }
        }
    }

    /// Serves what a manager has posted since it was last looked at: a restart, if there was one, and then the last request.
    fn serve_manager(&mut self, request: u32, restart: bool) {
        if restart {
            self.suspended = false;
            self.fault_ticks = self.machine.counter_ticks();
            self.publish_state(status::STATE_RESTARTING, status::REASON_MANAGED);
            self.restart(status::REASON_MANAGED);
        }
        match request {
            status::MANAGE_SUSPEND => {
                self.suspended = true;
                if self.state() == status::STATE_RUNNING {
                    self.suspend();
                }
            }
            status::MANAGE_RESUME => {
                self.suspended = false;
                if self.state() == status::STATE_SUSPENDED {
                    #[cfg(feature = "devices")]
                    self.resume_functions();
                    self.let_go();
                    self.follow_own_state();
                    self.start_watchdog();
                    self.publish_state(status::STATE_RUNNING, status::REASON_NONE);
                }
            }
            _ => {}
        }
    }
}
