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

/// The allowances of `TASKS` tasks, which the caller numbers from 0.
#[derive(Clone, Debug)]
pub struct Overruns<const TASKS: usize> {
    allowances: [Allowance; TASKS],
    running: Option<usize>,
    /// Accounts that are reported as used up.
    reported: usize,
    /// A task that does not run may be used up without a report. While neither is so, only the task that runs can have an event.
    is_late: bool,
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
        Self {
            allowances: [const { Allowance::None }; TASKS],
            running: None,
            reported: 0,
            is_late: false,
            charged_until_ticks: 0,
        }
    }

    /// From now on this task runs: `None` when it is none of those that are numbered. To be called by the hook of every switch.
    pub fn switch(&mut self, task: Option<usize>, now: u64) {
        self.charge(now);
        let left = self.running.and_then(|task| self.allowances.get_mut(task)).map(|allowance| match allowance {
            Allowance::None => u64::MAX,
            Allowance::Once { left_ticks } => *left_ticks,
            Allowance::Account { account, .. } => account.capacity_ticks(now),
        });
        self.is_late |= left == Some(0);
        self.running = task;
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
        let running = self.running;
        if self.reported == 0 && !self.is_late {
            let own = running.and_then(|task| self.allowances.get_mut(task));
            return own.and_then(|allowance| date(allowance, true, now));
        }
        let all = self.allowances.iter_mut().enumerate();
        all.filter_map(|(task, allowance)| date(allowance, running == Some(task), now)).min()
    }

    /// The next event that is due. To be called until there is none; at most one for each task.
    pub fn take_event(&mut self, now: u64) -> Option<Event> {
        self.charge(now);
        let reported = &mut self.reported;
        let event = self.allowances.iter_mut().enumerate().find_map(|(task, allowance)| match allowance {
            Allowance::Once { left_ticks: 0 } => {
                *allowance = Allowance::None;
                Some(Event::UsedUp(task))
            }
            Allowance::Account { account, is_reported, .. } => {
                let is_empty = account.capacity_ticks(now) == 0;
                let has_changed = core::mem::replace(is_reported, is_empty) != is_empty;
                match (has_changed, is_empty) {
                    (true, true) => *reported = reported.saturating_add(1),
                    (true, false) => *reported = reported.saturating_sub(1),
                    (false, _) => (),
                }
                has_changed.then_some(if is_empty { Event::UsedUp(task) } else { Event::Filled(task) })
            }
            _ => None,
        });
        self.is_late &= event.is_some();
        event
    }

    /// Gives a task an allowance in place of what it had.
    fn replace(&mut self, task: usize, allowance: Allowance) -> Result<(), Refused> {
        let place = self.allowances.get_mut(task).ok_or(Refused::NoTask)?;
        if let Allowance::Account { is_reported: true, .. } = core::mem::replace(place, allowance) {
            self.reported = self.reported.saturating_sub(1);
        }
        Ok(())
    }

    /// Charges the task that runs until now.
    fn charge(&mut self, now: u64) {
        let used_ticks = now.saturating_sub(self.charged_until_ticks);
        if used_ticks == 0 {
            return;
        }
        self.charged_until_ticks = now;
        match self.running.and_then(|task| self.allowances.get_mut(task)) {
            Some(Allowance::Once { left_ticks }) => *left_ticks = left_ticks.saturating_sub(used_ticks),
            Some(Allowance::Account { account, .. }) => account.charge(now, used_ticks),
            Some(Allowance::None) | None => (),
        }
    }
}

/// When a task's allowance has an event if nothing else happens before.
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
