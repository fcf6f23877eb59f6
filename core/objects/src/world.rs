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
    /// Writes to the partition's console; false when its ring has no room.
    fn print(&mut self, bytes: &[u8]) -> bool;
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
    /// What can be used through it now.
    fn usable_ticks(&mut self, tcap: u16, now: u64) -> u64;
    /// States whether it may take the core from the other one (CH-51).
    fn outranks(&mut self, tcap: u16, other: u16, now: u64) -> bool;
    /// The position of the server is filled, through this one.
    fn filled(&mut self, server: u16, tcap: u16, now: u64);
    /// The position is empty: the server blocks.
    fn emptied(&mut self, server: u16, now: u64);
    /// The number of a temporal capability for a scheduler while it runs; 0 is the permanent one.
    fn set_priority(&mut self, tcap: u16, scheduler: u16, priority: u64);
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
pub trait World: Machine + Pages + Time {}
impl<T: Machine + Pages + Time> World for T {}
