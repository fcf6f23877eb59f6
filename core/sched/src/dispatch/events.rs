//! What is reported to a core: time passes, vCPUs wake and block, interrupts become pending.

use super::{Core, Usage};
use crate::budget::{Budget, BudgetRule};
use crate::server::{Gate, OnEmpty};

impl<const SERVERS: usize, const VCPUS: usize> Core<SERVERS, VCPUS> {
    /// Time has passed until `now`: charges whoever ran, opens and closes windows, brings back what is due.
    ///
    /// Every other report does this first, so a caller needs it only to bring the accounts up to date.
    pub fn advance(&mut self, now: u64) {
        let used_ticks = now.saturating_sub(self.now_ticks);
        self.now_ticks = now;
        if used_ticks > 0 {
            self.charge_running(now, used_ticks);
        }
        if self.table.is_some() && now >= self.window.until_ticks {
            self.enter_window(now);
        }
        while let Some(slot) = self.dates.due(now) {
            self.refresh(slot, now);
        }
    }

    fn charge_running(&mut self, now: u64, used_ticks: u64) {
        let Some(running) = self.running else {
            self.idle_ticks = self.idle_ticks.saturating_add(used_ticks);
            return;
        };
        if let Some(entry) = self.entry_mut(running.slot) {
            let Usage { budgeted_ticks, background_ticks } = &mut entry.usage;
            let account = if running.background { background_ticks } else { budgeted_ticks };
            *account = account.saturating_add(used_ticks);
        }
        self.end_turn(running.level, running.slot, used_ticks);
        if running.background {
            return;
        }
        let payer = self.payer(running.slot);
        let mut empty = false;
        if let Some(budget) = self.budget_mut(payer) {
            budget.charge(now, used_ticks);
            empty = budget.capacity_ticks(now) == 0;
        }
        if empty && self.entry(running.slot).is_some_and(|entry| entry.server.on_empty == OnEmpty::Notify) {
            self.overruns |= 1u64.wrapping_shl(u32::from(running.slot));
        }
        self.refresh(running.slot, now);
        if payer != running.slot {
            self.refresh(payer, now);
        }
    }

    /// Uses up the turn of a priority with a quantum. At its end the server goes to the back of its queue.
    fn end_turn(&mut self, level: u8, slot: u8, used_ticks: u64) {
        let Some(turn) = self.turns.get_mut(usize::from(level)).filter(|turn| turn.quantum_ticks > 0) else {
            return;
        };
        turn.left_ticks = turn.left_ticks.saturating_sub(used_ticks);
        if turn.left_ticks == 0 {
            turn.left_ticks = turn.quantum_ticks;
            if self.ready.level(slot) == Some(level) {
                self.ready.remove(slot);
                self.ready.push(slot, level);
            }
        }
    }

    pub(super) fn enter_window(&mut self, now: u64) {
        if let Some(table) = &self.table {
            self.window = table.slot(now);
        }
        for slot in self.slots() {
            if self.entry(slot).is_some_and(|entry| matches!(entry.server.gate, Gate::Window(_))) {
                self.refresh(slot, now);
            }
        }
    }

    fn slots(&self) -> core::ops::Range<u8> {
        0..u8::try_from(self.count).unwrap_or(0)
    }

    fn refresh_vcpu(&mut self, vcpu: u8, now: u64) {
        for slot in self.slots() {
            if self.entry(slot).is_some_and(|entry| entry.vcpu == vcpu) {
                self.refresh(slot, now);
            }
        }
    }

    fn set_ready(&mut self, now: u64, vcpu: u8, ready: bool) {
        self.advance(now);
        let changed = self.vcpus.get_mut(usize::from(vcpu)).filter(|state| state.ready != ready);
        if let Some(state) = changed {
            state.ready = ready;
            self.refresh_vcpu(vcpu, now);
        }
    }

    /// The vCPU has something to do.
    pub fn wake(&mut self, now: u64, vcpu: u8) {
        self.set_ready(now, vcpu, true);
    }

    /// The vCPU has nothing to do.
    pub fn block(&mut self, now: u64, vcpu: u8) {
        self.set_ready(now, vcpu, false);
    }

    /// The interrupt sources that are pending or active at the vCPU are now these. Opens and closes
    /// [`Gate::InterruptPending`]. It does not wake the vCPU.
    pub fn set_pending(&mut self, now: u64, vcpu: u8, sources: u64) {
        self.advance(now);
        let changed = self.vcpus.get_mut(usize::from(vcpu)).filter(|state| state.pending != sources);
        if let Some(state) = changed {
            state.pending = sources;
            self.refresh_vcpu(vcpu, now);
        }
    }

    /// A request of a client reached the PIBS server with this number; wakes its vCPU. Returns false when the server has
    /// no such client.
    pub fn request(&mut self, now: u64, slot: u8, client: usize) -> bool {
        self.advance(now);
        let Some(Budget::Pibs(rule)) = self.budget_mut(slot) else {
            return false;
        };
        let accepted = rule.request(now, client);
        if accepted {
            self.refresh(slot, now);
            let vcpu = self.entry(slot).map_or(u8::MAX, |entry| entry.vcpu);
            self.wake(now, vcpu);
        }
        accepted
    }

    /// A request of a client is done; blocks the vCPU when it was the last one. Returns false when none waited.
    pub fn complete(&mut self, now: u64, slot: u8, client: usize) -> bool {
        self.advance(now);
        let Some(Budget::Pibs(rule)) = self.budget_mut(slot) else {
            return false;
        };
        let known = rule.complete(client);
        if known {
            let idle = rule.next_client().is_none();
            self.refresh(slot, now);
            let vcpu = self.entry(slot).map_or(u8::MAX, |entry| entry.vcpu);
            if idle {
                self.block(now, vcpu);
            }
        }
        known
    }
}
