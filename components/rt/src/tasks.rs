//! Who may run, and who is best: fixed priorities, round robin among equals (CH-3, CH-63).
//!
//! A task may run when the kernel says that it is awake, and it waits for nothing here. Those of one priority are a word, a bit each, and a place in it:
//! the first one from that place on, in the order of numbers and round again, has the turn. A turn that ends moves the place behind
//! its task. So nobody waits for more than one turn of each equal, no matter who blocks and wakes meanwhile, and every step is a few instructions.
//!
//! **Turns are own time.** The kernel tells what a task used with its next event, exactly; what was used meanwhile by one that was let in is not in it. A time-out
//! only brings the scheduler's thread to look: a task that has not used its turn up keeps it. A task that yields is
//! charged with its next event for what it used before, so it may lose a part of a later turn and never gains one. One that waits here begins a new turn
//! when it comes back, at its place.
//!
//! **Numbers.** A task of priority `p` has the permanent number 2p + 4, and 2p + 3 while it was chosen here: so an equal that is notified does not take the core
//! from it, and a better one does. The scheduler's thread has 1.
//!
//! Rejected: a queue by order of arrival. It needs two links per task, and who is activated often is then no better off than here.

use crate::Event;
use bulkhead_kernel_abi::{Code, MAX_THREADS};

/// Most tasks: a set of them is one word.
pub const MOST_TASKS: usize = MAX_THREADS;
/// Priorities; 0 is the most important one.
pub const PRIORITIES: usize = 64;

/// A task, by the label of its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Task(u8);

impl Task {
    /// The task of a label; `None` when no task can have it.
    #[must_use]
    pub const fn new(label: u64) -> Option<Self> {
        if label < MOST_TASKS as u64 { Some(Self(label as u8)) } else { None }
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Its bit in a set.
    const fn bit(self) -> u64 {
        1u64.wrapping_shl(self.0 as u32)
    }
}

/// The first member of a set from a place on, and round again.
const fn first_from(set: u64, place: u8) -> Option<Task> {
    if set == 0 {
        return None;
    }
    let ahead = set.rotate_right(place as u32).trailing_zeros();
    Some(Task((ahead.wrapping_add(place as u32) & 63) as u8))
}

/// What a task waits for, here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Waits {
    #[default]
    Nothing,
    /// To be woken, or for a date.
    Wake,
    /// For a date alone.
    Date,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct One {
    priority: u8,
    is_created: bool,
    /// It has ended itself, and its thread is on its way home.
    is_leaving: bool,
    /// The kernel says so.
    is_awake: bool,
    /// The kernel refused to run it: nothing pays.
    is_unpaid: bool,
    waits: Waits,
    /// When it waits no longer; `u64::MAX` for never.
    until_ticks: u64,
    /// It was woken when it did not wait.
    is_woken: bool,
    /// Its date came before somebody woke it.
    is_late: bool,
    /// What is left of its turn.
    turn_ticks: u64,
    /// When the scheduler looks whether the turn is used up; 0 when it has not begun.
    look_ticks: u64,
}

impl One {
    fn is_ready(&self) -> bool {
        (self.is_created || self.is_leaving) && self.is_awake && !self.is_unpaid && self.waits == Waits::Nothing
    }
}

/// Those of one priority that may run, and from where on the first one is looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Level {
    ready: u64,
    place: u8,
}

/// Who is to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The task.
    pub task: Task,
    /// Its number while it runs.
    pub number: u64,
    /// When the scheduler has to look again.
    pub timeout_ticks: u64,
}

/// The tasks of a subsystem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tasks {
    ones: [One; MOST_TASKS],
    levels: [Level; PRIORITIES],
    /// Priorities that somebody of may run.
    ready: u64,
    /// Tasks with a date.
    dated: u64,
    /// Tasks that nothing paid for, and perhaps others.
    unpaid: u64,
    quantum_ticks: u64,
}

impl Tasks {
    /// No task yet; turns of this length, at least a tick.
    #[must_use]
    pub const fn new(quantum_ticks: u64) -> Self {
        const ONE: One = One {
            priority: 0,
            is_created: false,
            is_leaving: false,
            is_awake: false,
            is_unpaid: false,
            waits: Waits::Nothing,
            until_ticks: u64::MAX,
            is_woken: false,
            is_late: false,
            turn_ticks: 0,
            look_ticks: 0,
        };
        let quantum_ticks = if quantum_ticks == 0 { 1 } else { quantum_ticks };
        let levels = [Level { ready: 0, place: 0 }; PRIORITIES];
        Self { ones: [ONE; MOST_TASKS], levels, ready: 0, dated: 0, unpaid: 0, quantum_ticks }
    }

    /// Length of a turn.
    #[must_use]
    pub const fn quantum_ticks(&self) -> u64 {
        self.quantum_ticks
    }

    fn one(&self, task: Task) -> One {
        self.ones.get(usize::from(task.0)).copied().unwrap_or_default()
    }

    /// Changes a task, and the sets that it is in.
    fn change<R>(&mut self, task: Task, what: impl FnOnce(&mut One) -> R) -> Option<R> {
        let one = self.ones.get_mut(usize::from(task.0))?;
        let answer = what(one);
        if one.turn_ticks == 0 {
            (one.turn_ticks, one.look_ticks) = (self.quantum_ticks, 0);
        }
        let now = *one;
        let is_dated = now.waits != Waits::Nothing && now.until_ticks != u64::MAX;
        self.dated = if is_dated { self.dated | task.bit() } else { self.dated & !task.bit() };
        let level = self.levels.get_mut(usize::from(now.priority))?;
        level.ready = if now.is_ready() { level.ready | task.bit() } else { level.ready & !task.bit() };
        let bit = 1u64.wrapping_shl(u32::from(now.priority));
        self.ready = if level.ready != 0 { self.ready | bit } else { self.ready & !bit };
        Some(answer)
    }

    /// Puts right what somebody left half done who was ended here: the sets say of each task what the task itself says. What that one was about to do to a task is done
    /// or not.
    pub fn put_right(&mut self) {
        (self.dated, self.ready, self.unpaid) = (0, 0, u64::MAX);
        self.levels.iter_mut().for_each(|level| level.ready = 0);
        for number in 0..MOST_TASKS as u8 {
            self.change(Task(number), |_| ());
        }
    }

    /// Makes a task. It may run when its thread does.
    ///
    /// # Errors
    /// `BadArgument` for a priority that there is not, `Busy` for a task that is there.
    pub fn create(&mut self, task: Task, priority: u8) -> Result<(), Code> {
        if usize::from(priority) >= PRIORITIES {
            return Err(Code::BadArgument);
        }
        let one = self.one(task);
        if one.is_created || one.is_leaving {
            return Err(Code::Busy);
        }
        self.change(task, |to| *to = One { priority, is_created: true, is_awake: one.is_awake, ..One::default() });
        Ok(())
    }

    /// Forgets a task.
    ///
    /// # Errors
    /// `Gone` when there is none.
    pub fn end(&mut self, task: Task) -> Result<(), Code> {
        self.existing(task)?;
        self.change(task, |one| (one.is_created, one.waits) = (false, Waits::Nothing));
        Ok(())
    }

    /// Ends the task that runs. It may be chosen until its thread has ended: one that lost the core on its way home would stay there for ever, and its scheduler wait for it.
    ///
    /// # Errors
    /// `Gone`.
    pub fn leave(&mut self, me: Task) -> Result<(), Code> {
        self.end(me)?;
        self.runs(me);
        self.change(me, |one| one.is_leaving = true);
        Ok(())
    }

    /// There is no task, and nobody is awake who was one.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.ones.iter().all(|one| !one.is_created && !one.is_awake)
    }

    fn existing(&self, task: Task) -> Result<One, Code> {
        let one = self.one(task);
        if one.is_created { Ok(one) } else { Err(Code::Gone) }
    }

    /// This task runs, so it is awake, whether its event was taken or not.
    pub(crate) fn runs(&mut self, task: Task) {
        if !self.one(task).is_awake {
            self.change(task, |one| one.is_awake = true);
        }
    }

    /// Lets a task wait until it is woken, or until a date; not at all if it was woken before.
    pub fn block(&mut self, task: Task, until_ticks: u64) {
        self.change(task, |one| {
            one.is_late = false;
            if !core::mem::take(&mut one.is_woken) {
                (one.waits, one.until_ticks, one.turn_ticks) = (Waits::Wake, until_ticks, 0);
            }
        });
    }

    /// Lets a task wait until a date.
    pub fn sleep(&mut self, task: Task, until_ticks: u64) {
        self.change(task, |one| (one.waits, one.until_ticks, one.turn_ticks) = (Waits::Date, until_ticks, 0));
    }

    /// Wakes a task; one that does not wait for it finds it at its next `block`. Several are one.
    ///
    /// # Errors
    /// `Gone` when there is no such task.
    pub fn wake(&mut self, task: Task) -> Result<(), Code> {
        self.existing(task)?;
        self.change(task, |one| match one.waits {
            Waits::Wake => one.waits = Waits::Nothing,
            Waits::Nothing | Waits::Date => one.is_woken = true,
        });
        Ok(())
    }

    /// Ends a task's turn.
    pub fn yield_(&mut self, task: Task) {
        let priority = self.one(task).priority;
        self.change(task, |one| one.turn_ticks = 0);
        if let Some(level) = self.levels.get_mut(usize::from(priority)) {
            level.place = task.0.wrapping_add(1) & 63;
        }
    }

    /// States whether the date of the task's latest `block` came before somebody woke it.
    #[must_use]
    pub fn is_late(&self, task: Task) -> bool {
        self.one(task).is_late
    }

    /// Lets the dates pass that have come.
    pub fn pass_dates(&mut self, now_ticks: u64) {
        let mut dated = self.dated;
        while dated != 0 {
            let task = Task((dated.trailing_zeros() & 63) as u8);
            dated &= dated.wrapping_sub(1);
            if self.one(task).until_ticks <= now_ticks {
                self.change(task, |one| {
                    one.is_late = one.waits == Waits::Wake;
                    one.waits = Waits::Nothing;
                });
            }
        }
    }

    /// The earliest date of a task that is at least as important as this priority.
    #[must_use]
    pub fn earliest_ticks(&self, priority: u8) -> u64 {
        let (mut dated, mut earliest) = (self.dated, u64::MAX);
        while dated != 0 {
            let one = self.one(Task((dated.trailing_zeros() & 63) as u8));
            dated &= dated.wrapping_sub(1);
            if one.priority <= priority {
                earliest = earliest.min(one.until_ticks);
            }
        }
        earliest
    }

    /// What the kernel tells of a task.
    pub fn told(&mut self, task: Task, what: u8, used_ticks: u64) {
        let has = |bit: u8| what & bit != 0;
        let left = self.change(task, |one| {
            if has(Event::ACTIVATED) {
                (one.is_awake, one.is_unpaid) = (true, false);
            }
            if has(Event::BLOCKED) {
                one.is_awake = false;
            }
            if has(Event::ENDED) {
                // One that was begun again since is awake; it has to be made again as well.
                *one = One { priority: one.priority, is_awake: has(Event::ACTIVATED), ..One::default() };
            }
            // What it used is known with each event.
            one.look_ticks = 0;
            one.turn_ticks.saturating_sub(used_ticks)
        });
        match left {
            Some(0) => self.yield_(task),
            Some(left) => {
                self.change(task, |one| one.turn_ticks = left);
            }
            None => {}
        }
    }

    /// The kernel refused to run a task because nothing pays for it.
    pub fn is_unpaid(&mut self, task: Task) {
        self.unpaid |= task.bit();
        self.change(task, |one| one.is_unpaid = true);
    }

    /// The kernel refused to run a task because it is not awake.
    pub(crate) fn is_not_awake(&mut self, task: Task) {
        self.change(task, |one| one.is_awake = false);
    }

    /// Those that nothing paid for are tried again.
    pub fn try_unpaid_again(&mut self) {
        let mut unpaid = core::mem::take(&mut self.unpaid);
        while let Some(task) = Task::new(unpaid.trailing_zeros().into()) {
            unpaid &= unpaid.wrapping_sub(1);
            self.change(task, |one| one.is_unpaid = false);
        }
    }

    /// The number of a task while it runs because it was chosen.
    #[must_use]
    pub fn number(&self, task: Task) -> u64 {
        u64::from(self.one(task).priority).wrapping_mul(2).wrapping_add(3)
    }

    /// Who is to run now, and when to look again; `None` when nobody may.
    pub fn choose(&mut self, now_ticks: u64) -> Option<Chosen> {
        for _ in 0..=MOST_TASKS {
            let priority = self.ready.trailing_zeros() as u8;
            let level = self.levels.get_mut(usize::from(priority))?;
            let task = first_from(level.ready, level.place)?;
            level.place = task.0;
            let one = self.ones.get_mut(usize::from(task.0))?;
            // It gave the core away itself and its date has passed: what it used is not known yet, so its turn is over.
            if one.look_ticks != 0 && one.look_ticks <= now_ticks {
                self.yield_(task);
                continue;
            }
            if one.look_ticks == 0 {
                one.look_ticks = now_ticks.saturating_add(one.turn_ticks);
            }
            let timeout_ticks = one.look_ticks.min(self.earliest_ticks(priority));
            return Some(Chosen { task, number: self.number(task), timeout_ticks });
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::{Code, Event, Task, Tasks};

    /// CH-3: who ends itself and loses the core before its thread has ended is chosen again.
    #[test]
    fn who_ends_itself_comes_home() {
        let me = Task::new(3).expect("a task");
        let mut tasks = Tasks::new(100);
        tasks.create(me, 4).expect("it is new");
        tasks.told(me, Event::ACTIVATED, 0);
        assert_eq!(tasks.leave(me), Ok(()));
        assert_eq!(tasks.create(me, 4), Err(Code::Busy), "its thread is there");
        assert_eq!((tasks.choose(10).map(|chosen| chosen.task), tasks.is_over()), (Some(me), false));
        tasks.told(me, Event::ENDED, 20);
        assert_eq!((tasks.choose(40), tasks.is_over(), tasks.leave(me)), (None, true, Err(Code::Gone)));
        assert_eq!(tasks.create(me, 4), Ok(()));
    }

    /// CH-3: whatever the sets say when a task is ended inside, they say what each task says afterwards.
    #[test]
    fn what_was_left_half_done_is_put_right() {
        let task = |number: u64| Task::new(number).expect("a task");
        let mut tasks = Tasks::new(100);
        for (number, priority) in [(0, 4), (1, 4), (2, 9), (63, 63)] {
            tasks.create(task(number), priority).expect("it is new");
            tasks.told(task(number), Event::ACTIVATED, 0);
        }
        tasks.sleep(task(1), 50);
        tasks.told(task(2), Event::BLOCKED, 0);
        let before = tasks.clone();
        tasks.put_right();
        let right = tasks.clone();
        assert_eq!((right.levels, right.ready, right.dated), (before.levels, before.ready, before.dated));
        for (number, level) in tasks.levels.iter_mut().enumerate() {
            level.ready = 0x5a5a << number;
        }
        (tasks.ready, tasks.dated) = (u64::MAX, 0);
        tasks.put_right();
        assert_eq!(tasks, right);
    }
}
