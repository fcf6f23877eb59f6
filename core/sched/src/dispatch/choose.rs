//! The choice: who runs from now on, and until when.

use super::{Core, Next, Prospect, Stint, Turn, bit};
use crate::budget::BudgetRule;
use crate::dates::NEVER;

impl<const SERVERS: usize, const VCPUS: usize> Core<SERVERS, VCPUS> {
    /// Chooses who runs from `now` on.
    #[inline]
    pub fn next(&mut self, now: u64) -> Next {
        if self.advance_within_budget(now) { self.choose(now) } else { self.pick_later(now) }
    }

    #[inline(never)]
    fn pick_later(&mut self, now: u64) -> Next {
        self.advance_otherwise(now);
        self.choose(now)
    }

    /// What `vcpu`, which is blocked, will run with when it wakes: at once, if its priority is better than that of the
    /// vCPU that runs. It holds until the vCPU is reported to be awake, however late, since a budget at rest only
    /// grows. Unknown when its best server has no budget now, or is not of the usual kind.
    #[must_use]
    pub fn prospect(&mut self, vcpu: u8) -> Prospect {
        let servers = self.servers_of.get(usize::from(vcpu)).copied().unwrap_or(0);
        // Servers are numbered in the order of their best priorities.
        let slot = servers.trailing_zeros() as u8;
        let known = servers & self.foreseeable & self.ungated & bit(slot) != 0 && self.awake & bit(vcpu) == 0;
        let now = self.now_ticks;
        let Some(entry) = self.entry_mut(slot).filter(|_| known) else { return Prospect::UNKNOWN };
        let capacity_ticks = entry.server.budget.capacity_ticks(now);
        let level = if capacity_ticks > 0 { entry.level } else { Prospect::UNKNOWN.level };
        Prospect { level, capacity_ticks }
    }

    /// What is left of a prospect when the vCPU, blocked as it is, will be charged for the time until `at`.
    #[must_use]
    pub fn prospect_after(&self, prospect: Prospect, vcpu: u8, at: u64) -> Prospect {
        let slot = self.servers_of.get(usize::from(vcpu)).copied().unwrap_or(0).trailing_zeros() as u8;
        let smallest_ticks = self.entry(slot).map_or(1, |entry| entry.server.budget.smallest_ticks());
        let capacity_ticks = prospect.capacity_ticks.saturating_sub(at.saturating_sub(self.now_ticks));
        // Less than a chunk is given to the next one, and not usable now.
        if capacity_ticks < smallest_ticks { Prospect::UNKNOWN } else { Prospect { capacity_ticks, ..prospect } }
    }

    /// Whether a vCPU with this prospect runs at once when it wakes.
    #[inline(always)]
    #[must_use]
    pub const fn is_outranked_by(&self, prospect: Prospect) -> bool {
        prospect.level < self.running.level()
    }

    /// The latest instant at which [`Self::next`] must be asked when a vCPU with this prospect runs from `now` on.
    #[inline(always)]
    #[must_use]
    pub fn deadline_of(&self, prospect: Prospect, now: u64) -> u64 {
        self.bounded(now.saturating_add(prospect.capacity_ticks), prospect.level)
    }

    /// The deadline of the server that was chosen for `deadline_ticks`, when its loading until `at` is charged to
    /// `leaver`: its budget and its turn last longer by that, windows and the dates of others stay as they are.
    #[must_use]
    pub fn deadline_after_loading(&self, deadline_ticks: u64, leaver: Stint, at: u64) -> u64 {
        let loading_ticks = at.saturating_sub(self.now_ticks);
        // A date that has passed meanwhile is looked at now.
        if loading_ticks == 0 || deadline_ticks <= at || leaver.server() == self.running.server() {
            return deadline_ticks;
        }
        let level = self.running.level();
        let rivals = level.wrapping_add(u8::from(self.takes_turns(level)));
        self.bounded(deadline_ticks.saturating_add(loading_ticks), rivals)
    }

    /// The earliest of an end, the window's, and the dates of those who can be more important than a level.
    #[inline(always)]
    fn bounded(&self, end_ticks: u64, rivals: u8) -> u64 {
        if self.quiet_until_ticks >= end_ticks {
            return end_ticks;
        }
        end_ticks.min(self.window.until_ticks).min(self.rival_date_ticks(rivals))
    }

    /// The choice in the usual case, without calls; the accounts are up to date.
    #[inline(always)]
    fn choose(&mut self, now: u64) -> Next {
        if let Some((level, slot)) = self.ready.first()
            && self.simple & bit(slot) != 0
            && let Some(entry) = self.entries.get_mut(crate::within::<SERVERS>(usize::from(slot)))
        {
            let vcpu = entry.vcpu;
            let background = entry.background == level;
            let running = Stint::new(vcpu, slot, level, background);
            let fresh = self.running != running;
            let usable = if background { Some(NEVER) } else { entry.server.budget.dispatch_plain(fresh, now) };
            if let Some(mut deadline) = usable {
                self.running = running;
                if self.quiet_until_ticks < deadline {
                    deadline = deadline.min(self.window.until_ticks).min(self.rival_date_ticks(level));
                }
                return Next { stint: running, deadline_ticks: deadline };
            }
        }
        self.choose_in_full(now)
    }

    /// When somebody gets budget who can ever be more important than a level.
    #[inline(never)]
    fn rival_date_ticks(&self, level: u8) -> u64 {
        let above = self.above.get(usize::from(level)).copied().unwrap_or(0);
        self.dates.earliest_of_first(usize::from(above))
    }

    #[inline(never)]
    fn choose_in_full(&mut self, now: u64) -> Next {
        // The first server has budget. Should a rule ever contradict itself, each server is met once and no deadline in
        // the past comes out.
        for _ in 0..=self.count {
            let Some((level, slot)) = self.ready.first() else {
                break;
            };
            if let Some(decision) = self.start(slot, level, now) {
                return decision;
            }
            self.place(slot, now);
        }
        self.running = Stint::IDLE;
        Next { stint: Stint::IDLE, deadline_ticks: self.quiet_until_ticks }
    }

    /// Lets a server run and says until when; `None` when it has no budget.
    fn start(&mut self, slot: u8, level: u8, now: u64) -> Option<Next> {
        let entry = self.entry(slot)?;
        let vcpu = entry.vcpu;
        let background = entry.background == level;
        let running = Stint::new(vcpu, slot, level, background);
        let mut deadline = self.window.until_ticks;
        if !background {
            let fresh = self.running != running;
            let budget = self.budget_of(slot)?;
            if fresh {
                budget.dispatch(now);
            }
            let capacity_ticks = budget.capacity_ticks(now);
            if capacity_ticks == 0 {
                return None;
            }
            deadline = deadline.min(now.saturating_add(capacity_ticks));
            self.begin_activation(slot);
        }
        self.running = running;
        let mut rivals = level;
        if self.takes_turns(level) {
            deadline = deadline.min(self.turn_end_ticks(slot, level, now));
            // An equal that becomes usable starts to wait for this turn's end.
            rivals = rivals.wrapping_add(1);
        }
        deadline = deadline.min(self.rival_date_ticks(rivals));
        Some(Next { stint: running, deadline_ticks: deadline })
    }

    pub(super) fn turn_mut(&mut self, level: u8) -> Option<&mut Turn> {
        let place = self.turn_of.get(usize::from(level)).copied()?;
        self.turns.get_mut(usize::from(place))
    }

    /// When the turn of a server that runs from `now` on ends; a turn that others interrupt continues later.
    fn turn_end_ticks(&mut self, slot: u8, level: u8, now: u64) -> u64 {
        let peers = self.ready.has_peers(level);
        let Some(turn) = self.turn_mut(level) else {
            return NEVER;
        };
        if turn.owner != slot {
            turn.owner = slot;
            turn.left_ticks = turn.quantum_ticks;
        }
        if peers { now.saturating_add(turn.left_ticks) } else { NEVER }
    }
}
