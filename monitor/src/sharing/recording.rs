//! What a shared core records of its decisions.

use super::scheduler::{Held, Stint};
use crate::state::Vcpu;
use bulkhead_abi::observe::{TRACE_BUDGET, TRACE_CHARGE, TRACE_SWITCH, TRACE_WAKE};
use bulkhead_arch::Machine;
use bulkhead_sched::Members;

/// Partition number of nobody in a trace record.
const NOBODY: u64 = 0xff;

impl<M: Machine> Vcpu<M> {
    /// Records a decision of a shared core at an instant: what was charged until then, who woke and by which interrupt, whose budget ran
    /// out or came back, and who runs.
    // Only recording comes here: without it some 190 instructions are in the middle of each decision.
    #[cold]
    pub(crate) fn trace_decision(&mut self, at: u64, same: bool) {
        let now = self.machine.counter_ticks();
        let Some(scheduler) = self.core.scheduler.as_deref_mut() else { return };
        let plan = scheduler.plan;
        let partition = |slot: usize| plan.slots.get(slot).map_or(NOBODY, |slot| u64::from(slot.partition));
        let (from, payer) = core::mem::replace(&mut scheduler.charged_from, (0, Stint::IDLE));
        let woken = core::mem::take(&mut scheduler.woken);
        let (exhausted, returned) = scheduler.take_budget_changes(now);
        let (stint, asked_again) = (scheduler.stint, scheduler.deadline_ticks.min(scheduler.next_date_ticks));
        self.trace_for(NOBODY, TRACE_CHARGE, u32::from(payer.server()), from, at);
        // Few wake at once: only their bits are visited.
        for slot in Members(u64::from(woken)).map(usize::from) {
            let intid = self.held_alone(slot);
            self.trace_for(partition(slot), TRACE_WAKE, intid, slot as u64, 0);
        }
        for (changed, change) in [(exhausted, 1), (returned, 2)] {
            let number = changed.trailing_zeros();
            if let Some(server) = plan.servers.get(number as usize) {
                let budget = self.budget_in_hand(number as u8, now);
                self.trace_for(partition(server.slot as usize), TRACE_BUDGET, number, change, budget);
            }
        }
        if !same {
            let (slot, server) = (stint.vcpu(), stint.server());
            let background = u32::from(stint.is_background()) << 16;
            let small = if stint == Stint::IDLE { 0xff } else { u32::from(slot) | u32::from(server) << 8 | background };
            let budget = if background == 0 { self.budget_in_hand(server, now) } else { u64::MAX };
            self.trace_for(partition(usize::from(slot)), TRACE_SWITCH, small, budget, asked_again);
        }
    }

    /// The interrupt that waits for a slot, if it is the only one.
    fn held_alone(&self, slot: usize) -> u32 {
        let held = self.core.scheduler.as_deref().and_then(|scheduler| scheduler.slots.get(slot)).map(|slot| slot.held);
        if let Some(Held::One(intid)) = held { intid } else { 0 }
    }

    fn budget_in_hand(&mut self, server: u8, now: u64) -> u64 {
        self.core.scheduler.as_deref_mut().map_or(0, |scheduler| scheduler.capacity_ticks(server, now))
    }
}
