//! State of the library that the kernel in C cannot hold.

use core::cell::UnsafeCell;

/// A value that one core uses with its interrupts masked.
pub(crate) struct Cell<T>(UnsafeCell<T>);

// SAFETY: the payload has one core, and `get` asks for masked interrupts.
unsafe impl<T> Sync for Cell<T> {}

impl<T> Cell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// The value.
    ///
    /// # Safety
    /// Interrupts are masked as long as the reference lives, and no other reference to it does.
    #[expect(clippy::mut_from_ref, reason = "the caller sees to it that there is one")]
    pub(crate) unsafe fn get(&self) -> &mut T {
        // SAFETY: the caller's.
        unsafe { &mut *self.0.get() }
    }
}
