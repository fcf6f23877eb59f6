//! Memory that the threads of a component share, one at a time.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering};

/// Something that one thread of a component uses at a time. Who keeps the others out is for the component to say, by a lock of its own: two that are
/// inside at once are a mistake, and the second one ends.
#[derive(Debug, Default)]
pub struct Alone<T> {
    is_taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by `with` alone, and `is_taken` lets one thread in.
unsafe impl<T: Send> Sync for Alone<T> {}

impl<T> Alone<T> {
    /// This value.
    pub const fn new(value: T) -> Self {
        Self { is_taken: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Does something to it.
    ///
    /// # Panics
    /// When somebody else is inside: another thread that was preempted there, or this one.
    pub fn with<R>(&self, what: impl FnOnce(&mut T) -> R) -> R {
        assert!(!self.is_taken.swap(true, Ordering::Acquire), "two threads use what one may");
        // SAFETY: nobody else is inside until it is given back; who panics inside never gives it back.
        let answer = what(unsafe { &mut *self.value.get() });
        self.is_taken.store(false, Ordering::Release);
        answer
    }

    /// Lets others in again, though somebody is inside: a thread that was ended there. What it was doing is done or not, in part perhaps, so the value is to be one of
    /// which each field by itself may have any value of its type.
    ///
    /// # Safety
    /// Who is inside does not continue there.
    pub unsafe fn take_back(&self) {
        self.is_taken.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::Alone;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn one_is_inside_at_a_time() {
        let alone = Alone::new(3);
        assert_eq!(alone.with(|value| core::mem::replace(value, 4)), 3);
        let inside_twice = AssertUnwindSafe(|| alone.with(|_| alone.with(|value| *value)));
        assert!(catch_unwind(inside_twice).is_err());
        // Nobody knows what the one that ended left there.
        assert!(catch_unwind(AssertUnwindSafe(|| alone.with(|value| *value))).is_err());
        // SAFETY: both have been unwound.
        unsafe { alone.take_back() };
        assert_eq!(alone.with(|value| *value), 4);
    }
}
