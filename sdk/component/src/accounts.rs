//! What the kernel counts of the instance, for a component whose description gives it the accounts (`kernel.md` 10; QV-41, CH-42).
//!
//! ```text
//! bulkhead_component::accounts!(used);
//! let server = used::pages().server(2);
//! ```
//!
//! Two pages of the kernel's, which the component reads and nobody but the kernel writes: no call, and nobody is asked. The kernel writes whole words, when
//! it is entered, so who reads finds what was so when it ran last, and its own time is not among it yet.
//!
//! A record of several words is read twice, until both are equal. All of its words grow and never shrink, so equal ones were there at the same time, between the
//! two: nothing else is needed to keep apart what was before an interrupt and what is behind it. Rejected: a number that the kernel makes odd and
//! even around its writing. It would cost two stores at each entry, for readers that are seldom there, and one core can see no half of what another one writes.

use bulkhead_kernel_abi::accounts::{AccountPages, Accounts, ServerAccount, ThreadAccount, WireAccount};
use bulkhead_kernel_abi::call::Call;
use bulkhead_kernel_abi::{MAX_SERVERS, MAX_THREADS, MAX_WIRES};
use core::mem::offset_of;

/// How often a record is read at most: between two readings an interrupt must have come each time.
const MOST_READINGS: usize = 8;

/// The pages of the accounts.
#[derive(Clone, Copy, Debug)]
pub struct Pages(u64);

impl Pages {
    /// For [`crate::accounts`] alone.
    ///
    /// # Safety
    /// The address is what the writer of the instance wrote: that of the pages, which the component reads.
    #[doc(hidden)]
    #[must_use]
    pub const unsafe fn new(address: u64) -> Self {
        Self(address)
    }

    /// A word; `offset` is from the first page on.
    fn word(self, offset: usize) -> u64 {
        assert!(offset.is_multiple_of(8) && offset < size_of::<AccountPages>(), "no word of the accounts");
        // SAFETY: a word of the pages, which are mapped (`new`); volatile, since the kernel writes it whenever it is entered.
        unsafe { core::ptr::with_exposed_provenance::<u64>(self.0 as usize + offset).read_volatile() }
    }

    /// Words that were there at the same time; `None` when the kernel wrote some between each two readings.
    fn words<const N: usize>(self, offset: usize) -> Option<[u64; N]> {
        let read = || core::array::from_fn(|number| self.word(offset + number * 8));
        let mut before: [u64; N] = read();
        for _ in 1..MOST_READINGS {
            let now = read();
            if now == before {
                return Some(now);
            }
            before = now;
        }
        None
    }

    /// What a server has consumed, up to the kernel's latest entry. `None` when there is no server of that number, or its record was written each time it was looked at.
    #[must_use]
    pub fn server(self, number: usize) -> Option<ServerAccount> {
        let offset = offset_of!(Accounts, servers) + number * size_of::<ServerAccount>();
        let words = (number < MAX_SERVERS).then(|| self.words(offset))??;
        let [charged_ticks, background_ticks, dispatches, exhaustions, vetoes, top_half_ticks] = words;
        Some(ServerAccount { charged_ticks, background_ticks, dispatches, exhaustions, vetoes, top_half_ticks })
    }

    /// What a thread has consumed. `None` as for [`Self::server`].
    #[must_use]
    pub fn thread(self, number: usize) -> Option<ThreadAccount> {
        let offset = offset_of!(Accounts, threads) + number * size_of::<ThreadAccount>();
        let [ran_ticks, switches] = (number < MAX_THREADS).then(|| self.words(offset))??;
        Some(ThreadAccount { ran_ticks, switches })
    }

    /// What went over a wire. `None` as for [`Self::server`].
    #[must_use]
    pub fn wire(self, number: usize) -> Option<WireAccount> {
        let offset = offset_of!(Accounts, wires) + number * size_of::<WireAccount>();
        let [sent, received, busy, refused, limited] = (number < MAX_WIRES).then(|| self.words(offset))??;
        Some(WireAccount { sent, received, busy, refused, limited })
    }

    /// How often a call was made, by all threads of the instance.
    #[must_use]
    pub fn times(self, call: Call) -> u64 {
        self.word(offset_of!(AccountPages, calls) + usize::from(call.number()) * 8)
    }

    /// Ticks in which nothing ran.
    #[must_use]
    pub fn idle_ticks(self) -> u64 {
        self.word(offset_of!(Accounts, idle_ticks))
    }

    /// Where the pages begin in this component.
    #[must_use]
    pub const fn address(self) -> u64 {
        self.0
    }

    /// Faults of components.
    #[must_use]
    pub fn faults(self) -> u64 {
        self.word(offset_of!(Accounts, faults))
    }
}

/// Names what the kernel counts: `NAME::pages()`.
#[macro_export]
macro_rules! accounts {
    ($name:ident) => {
        /// What the kernel counts of the instance.
        mod $name {
            static PLACE: u64 = 0;
            #[used]
            #[unsafe(link_section = ".bulkhead.imports")]
            static RECORD: $crate::interface::Record =
                $crate::interface::Record::accounts(stringify!($name), ::core::ptr::from_ref(&PLACE).cast());

            /// Where they are.
            pub fn pages() -> $crate::accounts::Pages {
                // SAFETY: the writer of the instance has put the address of pages that this component reads into the word that the record names.
                unsafe { $crate::accounts::Pages::new($crate::interface::slot(&PLACE)) }
            }
        }
    };
}
