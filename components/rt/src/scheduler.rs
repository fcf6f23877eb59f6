//! The scheduler's own thread: it takes events, and lets the best task run (CH-57, CH-63).
//!
//! It takes at most as many events as there are tasks before it decides: more cannot be there at once, and "until there is none" has no bound when
//! interrupts bring new ones meanwhile. What it took is kept beside the state until it has the lock.

use crate::{Event, Guarded, Kernel, MOST_TASKS, Rt, Task, Who, Word};
use bulkhead_kernel_abi::Code;

/// The scheduler's thread.
#[derive(Clone, Debug)]
pub struct Scheduler {
    /// What was taken and is not in the state yet: what and used ticks of each task.
    taken: [(u8, u64); MOST_TASKS],
    /// Tasks of which something was taken.
    of: u64,
    token: u64,
    /// Events taken.
    events: u64,
    /// Times that `switch` was refused for newer events.
    stale: u64,
}

impl Default for Scheduler {
    fn default() -> Self {
        Self::new()
    }
}

impl Scheduler {
    /// Nothing taken yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { taken: [(0, 0); MOST_TASKS], of: 0, token: 0, events: 0, stale: 0 }
    }

    /// Events taken, and decisions that were too old when they were made.
    #[must_use]
    pub const fn counters(&self) -> (u64, u64) {
        (self.events, self.stale)
    }

    /// What its thread does for ever: takes events, decides, and waits if nobody can run; that was so when it returns false.
    pub fn round<K: Kernel, W: Word, G: Guarded>(&mut self, kernel: &mut K, rt: &Rt<W, G>) -> bool {
        self.take(kernel);
        self.enter(kernel, rt);
        let (taken, mut of, token) = (&mut self.taken, core::mem::take(&mut self.of), self.token);
        let ((chosen, earliest, quantum), _) = rt.do_and_leave(kernel, |tasks, now| {
            // Time may be back since: once in a turn it is tried.
            let mut has_timeout = false;
            while let Some(task) = Task::new(of.trailing_zeros().into()) {
                of &= of.wrapping_sub(1);
                let place = taken.get_mut(usize::from(task.number()));
                let (what, used) = place.map(core::mem::take).unwrap_or_default();
                has_timeout |= what & Event::TIMEOUT != 0;
                tasks.told(task, what, used);
            }
            if has_timeout {
                tasks.try_unpaid_again();
            }
            rt.acted_on(token);
            tasks.pass_dates(now);
            (tasks.choose(now), tasks.earliest_ticks(u8::MAX), tasks.quantum_ticks())
        });
        let Some(chosen) = chosen else {
            let watch_ticks = kernel.now_ticks().saturating_add(quantum);
            self.wait(kernel, rt, earliest.min(watch_ticks));
            return false;
        };
        match kernel.switch(Who::Task(chosen.task), chosen.number, chosen.timeout_ticks, token) {
            Ok(()) => {}
            Err(Code::NoTime) => self.correct(kernel, rt, |tasks| tasks.is_unpaid(chosen.task)),
            Err(Code::Stale) => self.stale = self.stale.saturating_add(1),
            // It is not awake, or is not there: an event will say when it is.
            Err(_) => self.correct(kernel, rt, |tasks| tasks.is_not_awake(chosen.task)),
        }
        true
    }

    /// Takes the lock. Its owner runs first, which is refused if there is something new; one that has ended does not run, and the lock is taken from it.
    fn enter<K: Kernel, W: Word, G: Guarded>(&mut self, kernel: &mut K, rt: &Rt<W, G>) {
        while !rt.entered(kernel, Who::Scheduler, self.token) {
            self.stale = self.stale.saturating_add(1);
            let owner = rt.marked();
            let news = self.take(kernel);
            if owner.is_some_and(|owner| self.has_ended(owner) && rt.takes_over(owner)) {
                return;
            }
            if news == 0 {
                kernel.rest();
            }
        }
    }

    /// The last that was heard of a task is that it has ended, and not that it was begun again behind that.
    fn has_ended(&self, task: Task) -> bool {
        let what = self.taken.get(usize::from(task.number())).map_or(0, |(what, _)| *what);
        what & (Event::ENDED | Event::ACTIVATED) == Event::ENDED
    }

    /// Waits for an event, at most until a date: somebody that the kernel lets in meanwhile must not have the core for ever.
    fn wait<K: Kernel, W: Word, G: Guarded>(&mut self, kernel: &mut K, rt: &Rt<W, G>, until_ticks: u64) {
        match kernel.events(Some(until_ticks)) {
            Ok(event) => self.keep(event),
            Err(_) => self.correct(kernel, rt, super::Tasks::try_unpaid_again),
        }
    }

    /// Takes what there is; returns how many.
    fn take(&mut self, kernel: &mut impl Kernel) -> usize {
        for number in 0..MOST_TASKS {
            let Ok(event) = kernel.events(None) else { return number };
            self.keep(event);
        }
        MOST_TASKS
    }

    fn keep(&mut self, event: Event) {
        self.token = event.token;
        self.events = self.events.saturating_add(1);
        let Some(task) = Task::new(event.label) else { return };
        let Some((what, used)) = self.taken.get_mut(usize::from(task.number())) else { return };
        // Of the two that contradict each other the newer one is true.
        let ends = event.what & (Event::BLOCKED | Event::ENDED) != 0;
        let over = if event.what & Event::ACTIVATED != 0 { Event::BLOCKED | Event::ENDED } else { 0 };
        let over = over | if ends { Event::ACTIVATED } else { 0 };
        *what = *what & !over | event.what;
        *used = used.saturating_add(event.used_ticks);
        self.of |= 1u64.wrapping_shl(u32::from(task.number()));
    }

    /// Puts right what the kernel knows better.
    fn correct<K: Kernel, W: Word, G: Guarded>(
        &mut self,
        kernel: &mut K,
        rt: &Rt<W, G>,
        what: impl FnOnce(&mut crate::Tasks),
    ) {
        self.enter(kernel, rt);
        rt.do_and_leave(kernel, |tasks, _| what(tasks));
    }
}
