//! Numbers that a component keeps for the host: what it did, what it lost, what took it longest.
//!
//! They are words in the component's own data, each with a name in the program's file. The host finds them there and reads them in the machine's RAM, while
//! the instance runs and afterwards, so to keep one costs a store and no call. What `verify` shows of the component's pages holds for them as well: nobody else
//! can write them. They outlive a reset of the component ([`crate::noinit`]): the host reads what was done in all of its lives. A line that is printed says the same to people, and proves nothing: any component can print it.
//!
//! ```text
//! bulkhead_component::counts! {
//!     /// Periods whose work was not done in time.
//!     lost_periods;
//! }
//! lost_periods::count().add(1);
//! ```

use core::sync::atomic::{AtomicU64, Ordering};

/// A number for the host.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

// All threads of a component run on one core, and the host reads one word at a time: no access needs an order.
impl Count {
    /// For [`crate::counts`]: it begins with 0.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Counts so many more.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// Keeps the largest value.
    pub fn raise(&self, value: u64) {
        self.0.fetch_max(value, Ordering::Relaxed);
    }

    /// The number as it is.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Makes statics that outlive a reset of the component: they are zero when the instance starts, and are whatever the life before has left when the component
/// begins again. All others are then what the program says. They need a type whose zeros are a value and that can be written through a shared
/// reference. What a life that failed has written is not to be believed: look at it as at what a stranger sends.
///
/// A process has none: its memory is made from its program whenever it begins.
///
/// ```text
/// bulkhead_component::noinit! {
///     /// How far the work is.
///     static PROGRESS: AtomicU64 = AtomicU64::new(0);
/// }
/// ```
#[macro_export]
macro_rules! noinit {
    ($($(#[$about:meta])* $visibility:vis static $name:ident: $kind:ty = $zeros:expr;)+) => {$(
        $(#[$about])*
        #[unsafe(link_section = ".bss.noinit")]
        $visibility static $name: $kind = $zeros;
    )+};
}

/// Names numbers that the component keeps for the host: `NAME::count()`.
#[macro_export]
macro_rules! counts {
    ($($(#[$about:meta])* $visibility:vis $name:ident;)+) => {$(
        $(#[$about])*
        $visibility mod $name {
            #[unsafe(link_section = ".bss.noinit")]
            static COUNT: $crate::counts::Count = $crate::counts::Count::new();
            #[used]
            #[unsafe(link_section = ".bulkhead.counts")]
            static RECORD: $crate::interface::Record =
                $crate::interface::Record::count(stringify!($name), ::core::ptr::from_ref(&COUNT).cast());

            /// Where it is kept.
            #[inline]
            pub fn count() -> &'static $crate::counts::Count {
                &COUNT
            }
        }
    )+};
}

#[cfg(test)]
mod tests {
    use super::Count;

    #[test]
    fn a_count_adds_up_and_keeps_the_largest() {
        let count = Count::new();
        count.add(3);
        count.add(4);
        assert_eq!(count.get(), 7);
        count.raise(5);
        assert_eq!(count.get(), 7);
        count.raise(9);
        assert_eq!(count.get(), 9);
    }
}
