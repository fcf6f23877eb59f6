//! What the objects need of the outside: the machine, pages of the pool, and time.
//!
//! All are narrow, so that the kernel, a fake and a model implement them alike. Registers of the core are not
//! among them: a thread's registers are in its [`crate::Thread`], and [`crate::Objects::loaded`] says whose are to be loaded.

use bulkhead_kernel_abi::Code;

/// The machine.
pub trait Machine {
    /// The counter.
    fn now_ticks(&self) -> u64;
    /// An interrupt waits (ISR_EL1): long work stops before its next slice.
    fn is_interrupted(&self) -> bool;
    /// Writes to the partition's console what a component prints; false when there is no room for more of it.
    fn print(&mut self, component: u16, bytes: &[u8]) -> bool;
    /// Which build of the kernel it is, and the counter's ticks per second.
    fn build_and_frequency(&self) -> (u64, u64);
    /// Writes {index, bits} into a wire's ring and rings its doorbell.
    ///
    /// # Errors
    /// `Busy` when the ring is full, `BadCapability` when there is no such wire.
    fn remote_send(&mut self, wire: u16, index: u16, bits: u64) -> Result<(), Code>;
    /// Masks an interrupt in the controller, or no longer.
    fn set_masked(&mut self, intid: u32, is_masked: bool);
    /// Ends an interrupt's active state: the controller may raise it again.
    fn deactivate(&mut self, intid: u32);
    /// Restores one page of a component's writable data from the image; false when there is no page of this number.
    fn restore(&mut self, component: u16, page: u32) -> bool;
}

/// Time: temporal capabilities and their root servers (`core/sched`). Numbers of what does not exist have no root and no time.
pub trait Time {
    /// The server that pays for a temporal capability.
    fn root(&self, tcap: u16) -> Option<u16>;
    /// The same if it can never be another one; `None` where that is not known.
    fn fixed_root(&self, tcap: u16) -> Option<u16>;
    /// What can be used through it now.
    fn usable_ticks(&mut self, tcap: u16, now: u64) -> u64;
    /// States whether somebody on it asks for the core: something can be used; or it is a claim on everything whose root has nothing in hand, so that it waits
    /// for its budget or continues in the background.
    fn asks(&mut self, tcap: u16, now: u64) -> bool;
    /// States whether it may take the core from the other one (CH-51).
    fn outranks(&mut self, tcap: u16, other: u16, now: u64) -> bool;
    /// The position of the server is filled, through this one.
    fn filled(&mut self, server: u16, tcap: u16, now: u64);
    /// The position is empty: the server blocks.
    fn emptied(&mut self, server: u16, now: u64);
    /// The number of a temporal capability for a scheduler, by its id, while it runs; 0 is the permanent one.
    ///
    /// # Errors
    /// `Denied` when it has not passed through this scheduler, `BadCapability` when there is none.
    fn set_priority(&mut self, tcap: u16, scheduler: u16, priority: u64) -> Result<(), Code>;
    /// What the server that runs works on becomes the second claim instead of the first, by a `switch` at `now` with this number of the scheduler with this id: if both are on
    /// everything of that server, as the kernel knows of the first one before it asks [`crate::Objects::exchange`]. Otherwise false, and nothing has changed.
    fn exchange(&mut self, server: u16, claims: [u16; 2], number: (u16, u64), now: u64) -> bool;
    /// The same by a notification at `now`, if the second one may take the core from the first one (CH-51): whether it may, and `None` where that is not the usual case.
    fn hand_over(&mut self, server: u16, claims: [u16; 2], now: u64) -> Option<bool>;
    /// The earliest date of a server at which somebody who would run on it is to be woken, or the time-out of a `switch` passes;
    /// all ones for none.
    fn set_date(&mut self, server: u16, date_ticks: u64);
    /// A server with such a date that is not after `now`.
    fn due(&self, now: u64) -> Option<u16>;
    /// States whether the server has budget: whether its driver can run soon.
    fn has_budget(&mut self, server: u16, now: u64) -> bool;
    /// A client's request reached an io server. False when it has no such client.
    fn request(&mut self, server: u16, client: u16, now: u64) -> bool;
    /// A client's request is done. False when none was under way.
    fn complete(&mut self, server: u16, client: u16, now: u64) -> bool;
}

/// Claims on time, and servers in bands, made and changed by calls (`core/sched`).
pub trait Claims {
    /// A scheduler is awake that waited, and [`crate::Objects::tell_parent`] is to be called for it: as work of this server, or of nobody, behind what is done now. Until then it is
    /// remembered once for each scheduler.
    fn tell_parent_later(&mut self, scheduler: u16, server: Option<u16>);
    /// Gives time of `from` to `to`: ticks of it, 0 for all that is usable, all ones for everything for ever; with this number of the giver's own scheduler,
    /// 0 for the permanent one (CH-52).
    ///
    /// # Errors
    /// `NoTime`, `Full`, `Busy`, `BadArgument`; nothing has changed.
    fn delegate(&mut self, to: u16, from: u16, ticks: u64, priority: u64, now: u64) -> Result<(), Code>;
    /// Moves time between two of one scheduler.
    ///
    /// # Errors
    /// As [`Self::delegate`], and `Denied` for two of different schedulers.
    fn transfer(&mut self, to: u16, from: u16, ticks: u64, now: u64) -> Result<(), Code>;
    /// Gives everything of `from` to `to`, and ends `from`, which may have nothing (CH-53).
    ///
    /// # Errors
    /// As [`Self::delegate`].
    fn merge(&mut self, to: u16, from: u16, now: u64) -> Result<(), Code>;
    /// Makes a claim without time under a number that is free, a scheduler's own by its id.
    ///
    /// # Errors
    /// `Full` when that one has as many as it may.
    fn create_claim(&mut self, tcap: u16, scheduler: u16) -> Result<(), Code>;
    /// Numbers without a claim, a bit each.
    fn free_claims(&self) -> u64;
    /// Changes the permanent number.
    ///
    /// # Errors
    /// `BadArgument`.
    fn set_permanent(&mut self, tcap: u16, priority: u64) -> Result<(), Code>;
    /// What is left of a claim, when it expires, its permanent number; `None` when there is none.
    fn claim(&self, tcap: u16) -> Option<[u64; 3]>;
    /// Makes a server in a band, with budget and period. Returns its number.
    ///
    /// # Errors
    /// `NotAdmitted`, `Full`; nothing has changed.
    fn create_server(&mut self, band: u16, budget_and_period: [u64; 2], now: u64) -> Result<u16, Code>;
    /// Gives one of a band other ones.
    ///
    /// # Errors
    /// `NotAdmitted`; `Denied` for a server of the host.
    fn set_server(&mut self, server: u16, budget_and_period: [u64; 2], now: u64) -> Result<(), Code>;
    /// What one server of a band that ended, or has less now, had is the band's again, if that is due; false when nothing is. One at a time, since as many can be due
    /// at once as there are servers.
    fn give_back(&mut self, now: u64) -> bool;
    /// Temporal capabilities with time of a server, a bit each.
    fn claims_on(&self, server: u16) -> u64;
    /// Takes away what one claim has of a server of a band, which is to end; false when there is none.
    fn drop_claim(&mut self, server: u16) -> bool;
    /// Ends one of a band, and every claim on its time.
    ///
    /// # Errors
    /// `Denied` for a server of the host.
    fn destroy_server(&mut self, server: u16, now: u64) -> Result<(), Code>;
    /// Budget, period, and what it has used with budget; `None` when there is none.
    fn server(&self, server: u16) -> Option<[u64; 3]>;
}

/// Pages of the pool, which the kernel alone reaches until a process maps them, and what the core remembers of translation tables in them. Pages have numbers
/// from the pool's beginning on; of one that is not there a word is 0, and nothing is written.
pub trait Pages {
    /// A word of a page.
    fn word(&self, page: u32, index: u16) -> u64;
    /// Writes one, at once and as a whole: the core may look at it as an entry of a translation table.
    fn set_word(&mut self, page: u32, index: u16, word: u64);
    /// Fills a page with zeros.
    fn clear(&mut self, page: u32);
    /// Copies a page.
    fn copy(&mut self, to: u32, from: u32);
    /// Copies a page of the image, by its physical address.
    fn copy_image(&mut self, to: u32, physical: u64);
    /// Lets the core forget the translation of an address of a component.
    fn forget(&mut self, component: u16, address: u64);
    /// Lets it forget a whole component, which it does not use before it is loaded again.
    fn forget_all(&mut self, component: u16);
}

/// All of it.
pub trait World: Machine + Pages + Time + Claims {}
impl<T: Machine + Pages + Time + Claims> World for T {}
