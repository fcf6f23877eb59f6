//! The word that guards the state: {owner, contended}.
//!
//! A task can be ended anywhere, by its own component or by its supervisor, and one that is ended inside keeps the word. The kernel tells the scheduler's thread of each end, so that
//! thread takes the word over ([`Lock::mark`], [`Lock::take_over`]). A task that is begun again, or that was brought out because a component between was ended, finds
//! itself to be the owner when it comes: nobody is inside twice, so it left the word behind, and takes it again.
//!
//! The thread that takes over knows of an end by an event, which may be old: the task may have been begun again and be inside since. So it marks the word first, then looks for newer
//! events, and takes over what still has the mark; a task that takes its own word again removes it.

use crate::{MOST_TASKS, Task, Who};
use core::sync::atomic::{AtomicU64, Ordering};

/// The word's accesses. A trait, so that tests run the same code with a stop before each of them.
pub trait Word {
    /// Puts `new` there if it is `current`, else says what it is.
    ///
    /// # Errors
    /// What it is.
    fn compare_exchange(&self, current: u64, new: u64) -> Result<(), u64>;

    /// Puts `new` there and says what was there.
    fn swap(&self, new: u64) -> u64;
}

impl Word for AtomicU64 {
    #[inline]
    fn compare_exchange(&self, current: u64, new: u64) -> Result<(), u64> {
        // One core: the order is that of the program, and the compiler must keep what is guarded inside.
        Self::compare_exchange(self, current, new, Ordering::Acquire, Ordering::Relaxed).map(|_| ())
    }

    #[inline]
    fn swap(&self, new: u64) -> u64 {
        Self::swap(self, new, Ordering::AcqRel)
    }
}

/// Nobody has it.
const FREE: u64 = 0;
/// Somebody wants it beside its owner.
const CONTENDED: u64 = 1 << 63;
/// The scheduler's thread looks whether the owner has ended.
const MARKED: u64 = 1 << 62;
/// The scheduler's thread, among owners; a task is its number and 1.
const SCHEDULER: u64 = MOST_TASKS as u64 + 1;

fn of_word(word: u64) -> Option<Who> {
    match word & !(CONTENDED | MARKED) {
        SCHEDULER => Some(Who::Scheduler),
        number => Some(Who::Task(Task::new(number.wrapping_sub(1))?)),
    }
}

/// What somebody finds who wants the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Nobody had it.
    Free,
    /// Who takes it left it behind: nobody knows what it was doing.
    Left,
    /// It is somebody else's.
    By(Who),
}

fn owner(who: Who) -> u64 {
    match who {
        Who::Scheduler => SCHEDULER,
        Who::Task(task) => u64::from(task.number()).wrapping_add(1),
    }
}

/// The word.
#[derive(Debug, Default)]
pub struct Lock<W>(W);

impl Lock<AtomicU64> {
    /// One that nobody has.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU64::new(FREE))
    }
}

impl<W: Word> Lock<W> {
    /// A lock on a word that is zero.
    pub const fn on(word: W) -> Self {
        Self(word)
    }

    /// Takes it, or notes that somebody wants it and says whose it is. `None` when it was given back meanwhile: look again.
    pub(crate) fn take(&self, me: Who) -> Option<Taken> {
        let Err(seen) = self.0.compare_exchange(FREE, owner(me)) else { return Some(Taken::Free) };
        let who = of_word(seen)?;
        let new = if who == me { owner(me) | CONTENDED } else { seen | CONTENDED };
        self.0.compare_exchange(seen, new).ok()?;
        Some(if who == me { Taken::Left } else { Taken::By(who) })
    }

    /// Marks a word that somebody wants, and says which task has it; `None` when no task has.
    pub(crate) fn mark(&self) -> Option<Task> {
        let Err(seen) = self.0.compare_exchange(FREE, FREE) else { return None };
        let Some(Who::Task(task)) = of_word(seen) else { return None };
        self.0.compare_exchange(seen, owner(Who::Task(task)) | CONTENDED | MARKED).ok()?;
        Some(task)
    }

    /// The scheduler's thread takes a word over that it has marked; false when the task has given it back or taken it again.
    pub(crate) fn take_over(&self, from: Task) -> bool {
        let marked = owner(Who::Task(from)) | CONTENDED | MARKED;
        self.0.compare_exchange(marked, owner(Who::Scheduler)).is_ok()
    }

    /// Gives it back; returns whether somebody wanted it meanwhile.
    pub(crate) fn give(&self) -> bool {
        self.0.swap(FREE) & CONTENDED != 0
    }
}
