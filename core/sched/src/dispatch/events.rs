//! What is reported to a core: time passes, vCPUs wake and block, interrupts become pending.

use super::{Core, Stint, bit};
use crate::Members;
use crate::budget::{BudgetRule, WithClients};

impl<const SERVERS: usize, const VCPUS: usize> Core<SERVERS, VCPUS> {
    /// Time has passed until `now`: charges the server that ran, opens and closes windows, brings back what is due.
    ///
    /// Every other report does this first, so a caller needs it only to bring the accounts up to date.
    #[inline]
    pub fn advance(&mut self, now: u64) {
        if !self.advance_within_budget(now) {
            self.advance_otherwise(now);
        }
    }

    /// As [`Self::advance`], when [`Self::advance_within_budget`] has just refused: because something falls due, or because of
    /// the charge.
    #[inline(always)]
    pub(super) fn advance_otherwise(&mut self, now: u64) {
        if now >= self.quiet_until_ticks {
            self.advance_to_dates(now);
        } else {
            self.advance_charging(now);
        }
    }

    #[inline(never)]
    fn advance_charging(&mut self, now: u64) {
        let used_ticks = now.wrapping_sub(self.now_ticks);
        self.now_ticks = now;
        self.charge_running(now, used_ticks);
    }

    /// Budgets come back to servers of the usual kind, and the budget of the one that ran lasts. Anything else is left
    /// for [`Self::advance_in_full`]; so this has no calls either.
    #[inline(never)]
    fn advance_to_dates(&mut self, now: u64) {
        if now < self.window.until_ticks && self.charge_simple(now.wrapping_sub(self.now_ticks)) {
            self.now_ticks = now;
            loop {
                let Some(slot) = self.dates.due(now) else {
                    self.note_dates();
                    return;
                };
                if self.simple & bit(slot) == 0 {
                    break;
                }
                self.replenish(slot);
            }
        }
        self.advance_in_full(now);
    }

    /// As [`Self::advance`], in the usual case: nothing falls due and the budget lasts. Returns false, and does nothing,
    /// in any other. It has no calls, so that the path of an interrupt saves no registers for one.
    #[inline(always)]
    pub(super) fn advance_within_budget(&mut self, now: u64) -> bool {
        // Within an instant nothing more can fall due: dates and boundaries are later than the instant they were set at.
        if now <= self.now_ticks {
            return true;
        }
        let used_ticks = now.wrapping_sub(self.now_ticks);
        if now >= self.quiet_until_ticks {
            return false;
        }
        let charged = self.charge_simple(used_ticks);
        if charged {
            self.now_ticks = now;
        }
        charged
    }

    /// Charges the server that runs, if that is the usual case. Returns false, and does nothing, in any other.
    #[inline(always)]
    fn charge_simple(&mut self, used_ticks: u64) -> bool {
        let running = self.running;
        if running == Stint::IDLE {
            self.idle_ticks = self.idle_ticks.wrapping_add(used_ticks);
            return true;
        }
        if self.simple & bit(running.server()) == 0 {
            return false;
        }
        let Some(entry) = self.entries.get_mut(crate::within::<SERVERS>(usize::from(running.server()))) else {
            return false;
        };
        if running.is_background() {
            entry.usage.background_ticks = entry.usage.background_ticks.wrapping_add(used_ticks);
            return true;
        }
        let charged = entry.server.budget.charge_plain(used_ticks);
        if charged {
            entry.usage.budgeted_ticks = entry.usage.budgeted_ticks.wrapping_add(used_ticks);
        }
        charged
    }

    #[inline(never)]
    fn advance_in_full(&mut self, now: u64) {
        let used_ticks = now.saturating_sub(self.now_ticks);
        self.now_ticks = now;
        if used_ticks > 0 && !self.charge_simple(used_ticks) {
            self.charge_running(now, used_ticks);
        }
        self.fall_due(now);
    }

    /// Opens and closes windows, and brings back what is due.
    fn fall_due(&mut self, now: u64) {
        if now >= self.window.until_ticks {
            self.enter_window(now);
        }
        while let Some(slot) = self.dates.due(now) {
            self.place(slot, now);
        }
    }

    fn charge_running(&mut self, now: u64, used_ticks: u64) {
        let running = self.running;
        if self.takes_turns(running.level()) {
            self.end_turn(running.level(), running.server(), used_ticks);
        }
        let Some(entry) = self.entry_mut(running.server()) else {
            return;
        };
        if running.is_background() {
            entry.usage.background_ticks = entry.usage.background_ticks.wrapping_add(used_ticks);
        } else {
            entry.usage.budgeted_ticks = entry.usage.budgeted_ticks.wrapping_add(used_ticks);
            self.charge_budget(running.server(), now, used_ticks);
        }
    }

    /// The charge that may leave the budget empty, or that others feel.
    #[inline]
    fn charge_budget(&mut self, slot: u8, now: u64, used_ticks: u64) {
        let (mut empty, mut used_up, mut overrun_ticks) = (false, false, 0);
        if let Some(budget) = self.budget_of(slot) {
            // Asked for a later instant it would come back first.
            let capacity_ticks = budget.capacity_ticks(now.wrapping_sub(used_ticks));
            used_up = used_ticks >= capacity_ticks;
            overrun_ticks = used_ticks.saturating_sub(capacity_ticks);
            budget.charge(now, used_ticks);
            empty = budget.capacity_ticks(now) == 0;
        }
        if empty {
            self.exhausted |= bit(slot);
            if let Some(entry) = self.entry_mut(slot) {
                entry.usage.longest_overrun_ticks = entry.usage.longest_overrun_ticks.max(overrun_ticks);
            }
            // A remainder that waits because it is too small is not used up.
            if used_up {
                self.end_activations(bit(slot), now);
            }
        }
        if self.entry(slot).is_some_and(|entry| entry.shares) {
            self.place_spenders(slot, now);
        } else if self.asking & bit(slot) != 0 {
            self.place(slot, now);
        }
    }

    /// The server that runs was loaded at `at`: the time since it was chosen is charged to `leaver`, which gave the
    /// core away, and not to it.
    pub fn loaded(&mut self, at: u64, leaver: Stint) {
        let slot = leaver.server();
        let used_ticks = at.saturating_sub(self.now_ticks);
        if used_ticks == 0 || slot == self.running.server() || self.running == Stint::IDLE {
            return;
        }
        self.now_ticks = at;
        let Some(entry) = self.entry_mut(slot) else { return };
        let shares = entry.shares;
        if leaver.is_background() {
            entry.usage.background_ticks = entry.usage.background_ticks.wrapping_add(used_ticks);
        } else {
            entry.usage.budgeted_ticks = entry.usage.budgeted_ticks.wrapping_add(used_ticks);
            if let Some(budget) = self.budget_of(slot) {
                budget.charge(at, used_ticks);
            }
            if shares {
                self.place_spenders(slot, at);
            } else if self.asking & bit(slot) != 0 {
                self.place(slot, at);
            }
        }
        if at >= self.quiet_until_ticks {
            self.fall_due(at);
        }
    }

    /// Uses up the turn of a priority with a quantum. At its end the server goes to the back of its queue.
    fn end_turn(&mut self, level: u8, slot: u8, used_ticks: u64) {
        let Some(turn) = self.turn_mut(level) else {
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

    #[inline(never)]
    pub(super) fn enter_window(&mut self, now: u64) {
        if let Some(table) = &self.table {
            self.window = table.slot(now);
        }
        self.note_dates();
        let ready = Members(self.window_gated).those(|slot| self.is_awake(slot));
        self.refresh(ready, now);
    }

    fn is_awake(&self, slot: u8) -> bool {
        self.entry(slot).is_some_and(|entry| self.awake & bit(entry.vcpu) != 0)
    }

    /// The vCPU has something to do.
    #[inline(never)]
    pub fn wake(&mut self, now: u64, vcpu: u8) {
        if self.advance_within_budget(now) {
            self.rouse(now, vcpu);
        } else {
            self.wake_in_full(now, vcpu);
        }
    }

    #[inline(never)]
    fn wake_in_full(&mut self, now: u64, vcpu: u8) {
        self.advance_otherwise(now);
        // The accounts are up to date now.
        self.wake(now, vcpu);
    }

    #[inline(always)]
    fn rouse(&mut self, now: u64, vcpu: u8) {
        let Some(servers) = self.servers_of.get(usize::from(vcpu)).copied() else {
            return;
        };
        if self.awake & bit(vcpu) == 0 {
            self.awake |= bit(vcpu);
            self.open_all(servers, now);
        }
    }

    /// The vCPU has nothing to do.
    #[inline]
    pub fn block(&mut self, now: u64, vcpu: u8) {
        self.advance(now);
        let Some(servers) = self.servers_of.get(usize::from(vcpu)).copied() else {
            return;
        };
        self.awake &= !bit(vcpu);
        self.close(servers & self.asking, now);
    }

    /// A vCPU that is blocked woke at `from`, ran at once as its [prospect](Self::prospect) said, and is blocked again at `to`, and
    /// nothing else happened: what [`Self::wake`], [`Self::next`] and [`Self::block`] do, without moving anybody. Returns what it ran
    /// with; `None` when that is not the usual case, and then at most the time until `from` has passed.
    pub fn visit(&mut self, vcpu: u8, from: u64, to: u64) -> Option<Stint> {
        let servers = self.servers_of.get(usize::from(vcpu)).copied()?;
        self.advance(from);
        let usual = servers & self.simple & self.ungated & !self.asking;
        if servers != usual || !servers.is_power_of_two() || to >= self.quiet_until_ticks {
            return None;
        }
        let used_ticks = to.wrapping_sub(from);
        let slot = servers.trailing_zeros() as u8;
        let entry = self.entries.get_mut(crate::within::<SERVERS>(usize::from(slot)))?;
        if !entry.server.budget.visit_plain(from, used_ticks) {
            return None;
        }
        entry.usage.budgeted_ticks = entry.usage.budgeted_ticks.wrapping_add(used_ticks);
        self.now_ticks = to;
        self.running = Stint::new(vcpu, slot, entry.level, false);
        Some(self.running)
    }

    /// The interrupt sources that are pending or active at the vCPU are now these. Opens and closes
    /// [`crate::server::Gate::InterruptPending`]. It does not wake the vCPU.
    #[inline]
    pub fn set_pending(&mut self, now: u64, vcpu: u8, sources: u64) {
        if self.advance_within_budget(now) {
            self.note_pending(now, vcpu, sources);
        } else {
            self.set_pending_in_full(now, vcpu, sources);
        }
    }

    #[inline(never)]
    fn set_pending_in_full(&mut self, now: u64, vcpu: u8, sources: u64) {
        self.advance_otherwise(now);
        // The accounts are up to date now.
        self.set_pending(now, vcpu, sources);
    }

    #[inline(always)]
    fn note_pending(&mut self, now: u64, vcpu: u8, sources: u64) {
        let (Some(pending), Some(servers)) =
            (self.pending.get_mut(usize::from(vcpu)), self.servers_of.get(usize::from(vcpu)))
        else {
            return;
        };
        let gated = servers & self.interrupt_gated;
        if *pending != sources {
            *pending = sources;
            if self.awake & bit(vcpu) != 0 {
                self.refresh(gated, now);
            }
        }
    }

    /// A request of a client reached the server with this number; wakes its vCPU. Returns false when the server has
    /// no such client.
    pub fn request(&mut self, now: u64, slot: u8, client: usize) -> bool {
        let told = self.tell_of_client(now, slot, |rule| rule.request(now, client));
        if let Some((vcpu, _)) = told {
            self.wake(now, vcpu);
        }
        told.is_some()
    }

    /// A request of a client is done; blocks the vCPU when it was the last one. Returns false when none waited.
    pub fn complete(&mut self, now: u64, slot: u8, client: usize) -> bool {
        let told = self.tell_of_client(now, slot, |rule| rule.complete(client));
        if let Some((vcpu, true)) = told {
            self.block(now, vcpu);
        }
        told.is_some()
    }

    /// Tells a server with clients something of one of them. Its priority, grant and date may change with that. Returns its vCPU and
    /// whether no client waits; `None` when there is no such client.
    fn tell_of_client(
        &mut self,
        now: u64,
        slot: u8,
        tell: impl FnOnce(&mut WithClients) -> bool,
    ) -> Option<(u8, bool)> {
        self.advance(now);
        let entry = self.entry_mut(slot)?;
        let rule = entry.server.budget.of_clients()?;
        if !tell(rule) {
            return None;
        }
        let idle = rule.next_client().is_none();
        entry.level = entry.server.current_priority();
        let vcpu = entry.vcpu;
        if self.asking & bit(slot) != 0 {
            self.place(slot, now);
        }
        Some((vcpu, idle))
    }
}
