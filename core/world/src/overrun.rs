//! Overrun handlers and deferrable accounts of tasks (SG-42, SG-43).
//!
//! A task has at most one *allowance*: an amount that was started once ([`Overruns::start`], the published overrun handler), or an
//! account that is filled up on an absolute grid ([`Overruns::open`], a deferrable server). Either is spent only while the task runs:
//! the kernel's switch hook says who does ([`Overruns::switch`]). At zero there is one event and nothing else happens; the handler
//! decides, and the one of a server suspends it. A task that is let run on owes what it takes, and its next filling pays.
//!
//! All instants are ticks of one counter that never runs backwards. Nothing here waits, so the same functions serve tasks and
//! handlers of interrupts (SG-43's `i` variants): the caller masks interrupts around each. Time in handlers of interrupts is the
//! interrupted task's, because no hook of the kernel tells of them.
//!
//! There is one compare register: the caller sets it to the earlier of its next tick and [`Overruns::next_event_ticks`], and asks for
//! [`Overruns::take_event`] whenever it fired.
//!
//! The account is the deferrable rule of `core/sched`, so payload, monitor, simulator and analysis cannot differ in it. Rejected: a
//! cyclic handler that starts a full amount each period, as SafeG 0.3 does. It needs an interrupt per period and server even
//! when nothing was spent, and forgives what an overrun took.

use bulkhead_sched::budget::{BudgetError, BudgetRule, Filled};

/// Something that the caller's handler is told, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The task has used up its allowance. If it was started once, there is none any more.
    UsedUp(usize),
    /// The account of this task, which was reported as used up, has something again.
    Filled(usize),
}

/// Why an allowance was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is no task of this number.
    NoTask,
    /// An amount of 0: the event would be now, and at what was running before.
    Nothing,
    /// Budget and period contradict each other.
    Budget(BudgetError),
}

#[derive(Clone, Debug)]
enum Allowance {
    None,
    Once {
        left_ticks: u64,
    },
    Account {
        /// Keeps what is not used until the period ends.
        account: Filled<true>,
        budget_ticks: u64,
        /// [`Event::UsedUp`] was handed out, and [`Event::Filled`] was not yet.
        is_reported: bool,
    },
}

/// The allowances of `TASKS` tasks, at most 32, which the caller numbers from 0.
#[derive(Clone, Debug)]
pub struct Overruns<const TASKS: usize> {
    allowances: [Allowance; TASKS],
    /// The task that runs, or [`NOBODY`].
    running: usize,
    /// Accounts that are reported as used up, and tasks that were switched away when they had nothing left, a bit for each. Of all tasks
    /// that do not run only these can have an event.
    watched: u32,
    /// Until when the task that runs has been charged.
    charged_until_ticks: u64,
}

impl<const TASKS: usize> Default for Overruns<TASKS> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const TASKS: usize> Overruns<TASKS> {
    /// No task has an allowance, and none runs.
    #[must_use]
    pub const fn new() -> Self {
        const { assert!(TASKS < 32) };
        Self { allowances: [const { Allowance::None }; TASKS], running: NOBODY, watched: 0, charged_until_ticks: 0 }
    }

    /// From now on this task runs: `None` when it is none of those that are numbered. To be called by the hook of every switch.
    ///
    /// Returns what [`Overruns::next_event_ticks`] would, and `u64::MAX` for never. Behind [`Overruns::serve_beside`] it is the earlier one of that
    /// and what `beside` says of the task's number, which is `usize::MAX` for none. Before, `beside` is not asked, and costs nothing.
    // Inline: as `charge`.
    #[inline(always)]
    pub fn switch(&mut self, task: Option<usize>, now: u64, beside: impl FnOnce(usize) -> u64) -> u64 {
        if self.charge(now) == Some(0) {
            self.watched |= bit(self.running);
        }
        self.running = task.unwrap_or(NOBODY);
        let own = self.own_date(now);
        if self.watched == 0 {
            return own.unwrap_or(u64::MAX);
        }
        let next = self.or_of_others(own, now).unwrap_or(u64::MAX);
        if self.watched & BESIDE != 0 { next.min(beside(self.running)) } else { next }
    }

    /// From now on the caller's timer serves something else besides.
    pub fn serve_beside(&mut self) {
        self.watched |= BESIDE;
    }

    /// Gives a task an amount, in place of what it had (`sta_ovr`). After [`Event::UsedUp`] it is gone.
    ///
    /// # Errors
    ///
    /// When there is no such task, or the amount is 0.
    pub fn start(&mut self, task: usize, ticks: u64, now: u64) -> Result<(), Refused> {
        self.charge(now);
        if ticks == 0 {
            return Err(Refused::Nothing);
        }
        self.replace(task, Allowance::Once { left_ticks: ticks })
    }

    /// Gives a task an account, in place of what it had: full now, and again at every multiple of the period
    /// from `start_ticks`, which is not later than now.
    ///
    /// # Errors
    ///
    /// When there is no such task, or the budget is 0 or longer than the period.
    pub fn open(
        &mut self,
        task: usize,
        budget_ticks: u64,
        period_ticks: u64,
        start_ticks: u64,
        now: u64,
    ) -> Result<(), Refused> {
        self.charge(now);
        let account = Filled::new(budget_ticks, period_ticks, start_ticks).map_err(Refused::Budget)?;
        self.replace(task, Allowance::Account { account, budget_ticks, is_reported: false })
    }

    /// Takes a task's allowance (`stp_ovr`); returns what was left of it.
    pub fn stop(&mut self, task: usize, now: u64) -> Option<u64> {
        let left = self.remaining_ticks(task, now);
        // Without such a task there is nothing to take.
        let _ = self.replace(task, Allowance::None);
        left
    }

    /// What is left of a task's allowance (`ref_ovr`); `None` if it has none.
    pub fn remaining_ticks(&mut self, task: usize, now: u64) -> Option<u64> {
        self.charge(now);
        match self.allowances.get_mut(task)? {
            Allowance::None => None,
            Allowance::Once { left_ticks } => Some(*left_ticks),
            Allowance::Account { account, .. } => Some(account.capacity_ticks(now)),
        }
    }

    /// When there is an event if nothing else happens before; not later than the event itself, and possibly now. `None` if never.
    pub fn next_event_ticks(&mut self, now: u64) -> Option<u64> {
        self.charge(now);
        self.next_ticks(now)
    }

    /// The next event that is due. To be called until there is none; at most one for each task.
    pub fn take_event(&mut self, now: u64) -> Option<Event> {
        self.charge(now);
        for task in tasks(self.watched | bit(self.running)) {
            let Some(allowance) = self.allowances.get_mut(task) else { break };
            let (event, is_watched) = match allowance {
                Allowance::Once { left_ticks: 0 } => {
                    *allowance = Allowance::None;
                    (Some(Event::UsedUp(task)), false)
                }
                Allowance::Account { account, is_reported, .. } => {
                    let is_empty = account.capacity_ticks(now) == 0;
                    let has_changed = core::mem::replace(is_reported, is_empty) != is_empty;
                    let event = if is_empty { Event::UsedUp(task) } else { Event::Filled(task) };
                    (has_changed.then_some(event), is_empty)
                }
                _ => (None, false),
            };
            self.watch(task, is_watched);
            if event.is_some() {
                return event;
            }
        }
        None
    }

    /// Gives a task an allowance in place of what it had.
    fn replace(&mut self, task: usize, allowance: Allowance) -> Result<(), Refused> {
        *self.allowances.get_mut(task).ok_or(Refused::NoTask)? = allowance;
        self.watch(task, false);
        Ok(())
    }

    fn watch(&mut self, task: usize, is_watched: bool) {
        self.watched = self.watched & !bit(task) | if is_watched { bit(task) } else { 0 };
    }

    /// Charges the task that runs until now. Returns what is left of its allowance, if it has one.
    // Inline: each switch of tasks makes these steps, also that to the server of an urgent interrupt; three calls are a third of them.
    #[inline(always)]
    fn charge(&mut self, now: u64) -> Option<u64> {
        let used_ticks = now.saturating_sub(self.charged_until_ticks);
        self.charged_until_ticks = self.charged_until_ticks.max(now);
        match self.allowances.get_mut(self.running)? {
            Allowance::None => None,
            Allowance::Once { left_ticks } => {
                *left_ticks = left_ticks.saturating_sub(used_ticks);
                Some(*left_ticks)
            }
            Allowance::Account { account, .. } => {
                if used_ticks != 0 {
                    account.charge(now, used_ticks);
                }
                Some(account.capacity_ticks(now))
            }
        }
    }

    /// The next event when all is charged until now.
    // Inline: as `charge`.
    #[inline(always)]
    fn next_ticks(&mut self, now: u64) -> Option<u64> {
        let own = self.own_date(now);
        if self.watched == 0 { own } else { self.or_of_others(own, now) }
    }

    // Inline: as `charge`.
    #[inline(always)]
    fn own_date(&mut self, now: u64) -> Option<u64> {
        self.allowances.get_mut(self.running).and_then(|allowance| date(allowance, true, now))
    }

    // Not inline: seldom asked, and the registers that it needs would be saved by each switch.
    #[inline(never)]
    fn or_of_others(&mut self, own: Option<u64>, now: u64) -> Option<u64> {
        let others = tasks(self.watched & !bit(self.running));
        let dates = others.filter_map(|task| self.allowances.get_mut(task).and_then(|one| date(one, false, now)));
        dates.chain(own).min()
    }
}

/// The bit of no task: the caller's timer serves something else besides.
const BESIDE: u32 = 1 << 31;

/// The number of a task that has none.
const NOBODY: usize = usize::MAX;

fn bit(task: usize) -> u32 {
    u32::try_from(task).ok().and_then(|task| 1u32.checked_shl(task)).unwrap_or(0)
}

/// The tasks of these bits, in order.
fn tasks(bits: u32) -> impl Iterator<Item = usize> {
    core::iter::successors(Some(bits), |rest| Some(rest & rest.wrapping_sub(1)))
        .take_while(|rest| *rest != 0)
        .map(|rest| rest.trailing_zeros() as usize)
}

/// When a task's allowance has an event if nothing else happens before.
// Inline: as `Overruns::charge`.
#[inline(always)]
fn date(allowance: &mut Allowance, runs: bool, now: u64) -> Option<u64> {
    match allowance {
        Allowance::None => None,
        // Used up and not taken yet: due, also when another task runs by now.
        Allowance::Once { left_ticks } => (runs || *left_ticks == 0).then(|| now.saturating_add(*left_ticks)),
        Allowance::Account { account, budget_ticks, is_reported } => {
            let left_ticks = account.capacity_ticks(now);
            let filled_ticks = account.next_event_ticks(now).unwrap_or(u64::MAX);
            if (left_ticks == 0) != *is_reported {
                Some(now)
            } else if *is_reported {
                // A debt may outlast that filling: then the next one is looked at.
                Some(filled_ticks)
            } else {
                let end_ticks = now.saturating_add(left_ticks);
                // What is left when the period ends is lost, and the budget begins again.
                let next_ticks = filled_ticks.saturating_add(*budget_ticks);
                runs.then_some(if end_ticks < filled_ticks { end_ticks } else { next_ticks })
            }
        }
    }
}
