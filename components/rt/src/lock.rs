//! The word that guards the state: {owner, contended}.

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
/// The scheduler's thread, among owners; a task is its number and 1.
const SCHEDULER: u64 = MOST_TASKS as u64 + 1;

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

    /// Takes it, or marks it contended and says whose it is. `None` when it was given back meanwhile: look again.
    ///
    /// # Errors
    /// The owner.
    pub(crate) fn take(&self, me: Who) -> Option<Result<(), Who>> {
        let Err(seen) = self.0.compare_exchange(FREE, owner(me)) else { return Some(Ok(())) };
        if self.0.compare_exchange(seen, seen | CONTENDED).is_err() {
            return None;
        }
        Some(Err(match seen & !CONTENDED {
            SCHEDULER => Who::Scheduler,
            number => Who::Task(Task::new(number.wrapping_sub(1))?),
        }))
    }

    /// Gives it back; returns whether somebody wanted it meanwhile.
    pub(crate) fn give(&self) -> bool {
        self.0.swap(FREE) & CONTENDED != 0
    }
}
