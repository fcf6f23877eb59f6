//! A capability: 16 bytes in a table of its component (`kernel.md` 1; CH-61).
//!
//! Nothing but a capability gives access, and nothing in one is believed but what the kernel wrote: tables are in memory that
//! no component maps. The layout serves a fast path in assembly: one load of 16 bytes, a comparison of the kind, a comparison of
//! the grant with the object's.
//!
//! Rejected: a derivation tree, by which a capability's descendants could be revoked one by one. It makes revocation as long as
//! the tree, needs links in each capability, and a counter per object does the usual case in constant time.

use crate::numbers::numbers;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

numbers! {
    /// What a capability is for.
    pub enum Kind: u8 {
        /// Nothing: an empty slot.
        Null = 0, "null";
        /// Calls a component at an entry.
        Call = 1, "call";
        /// Notifies an end point of this instance.
        Send = 2, "send";
        /// Notifies an end point of another instance, by a wire.
        RemoteSend = 3, "remote send";
        /// Takes what was sent to an end point.
        Receive = 4, "receive";
        /// Controls a thread.
        Thread = 5, "thread";
        /// Takes a scheduler's events, and says who runs next.
        Scheduler = 6, "scheduler";
        /// A claim on a server's time.
        TCap = 7, "tcap";
        /// A server: binds threads to it, changes it.
        Server = 8, "server";
        /// Makes servers in a band.
        Band = 9, "band";
        /// Handles an interrupt.
        Interrupt = 10, "interrupt";
        /// A region of memory.
        Memory = 11, "memory";
        /// The capability table of another component.
        Table = 12, "table";
        /// A component, as its supervisor has it.
        Component = 13, "component";
        /// Pages and numbers of objects.
        Quota = 14, "quota";
    }
}

impl Kind {
    /// States whether `fork` copies capabilities of this kind into the child.
    #[must_use]
    pub const fn is_copied_by_fork(self) -> bool {
        matches!(self, Self::Call | Self::Send | Self::RemoteSend | Self::Memory)
    }

    /// Every right that a capability of this kind can have.
    #[must_use]
    pub const fn rights(self) -> u8 {
        let own = match self {
            Self::Null => return 0,
            Self::Call | Self::Send | Self::RemoteSend | Self::Scheduler | Self::Band => right::USE,
            Self::Receive => right::USE | right::BIND,
            Self::Thread => right::USE | right::STOP | right::BIND | right::LIMIT | right::READ,
            Self::TCap => right::USE | right::PRIORITY | right::DELEGATE | right::BIND | right::READ,
            Self::Server => right::USE | right::STOP | right::BIND | right::READ,
            Self::Interrupt => right::USE | right::EXPECT,
            Self::Memory => right::READ | right::WRITE | right::EXECUTE | right::USE,
            Self::Table => right::READ | right::WRITE,
            Self::Component => right::USE | right::STOP | right::READ,
            Self::Quota => right::USE | right::READ,
        };
        own | right::REVOKE
    }
}

/// Rights, a bit each. What a bit is good for depends on the kind; a copy can drop rights and never gains one.
pub mod right {
    /// Call it, send to it, receive from it, start, suspend and resume it, run on it, share it, reset it, spend it: what the kind is for.
    pub const USE: u8 = 1;
    /// A thread: stop and abort. A server or a component: destroy.
    pub const STOP: u8 = 1 << 1;
    /// A temporal capability: better the number that its own scheduler goes by.
    pub const PRIORITY: u8 = 1 << 1;
    /// A table: put capabilities into it. Memory: map it writable.
    pub const WRITE: u8 = 1 << 1;
    /// A thread: what pays for it. An end point: whom it wakes. A server: run threads on it. A temporal capability: delegate to it.
    pub const BIND: u8 = 1 << 2;
    /// Memory: map it executable.
    pub const EXECUTE: u8 = 1 << 2;
    /// A thread: limits of its time.
    pub const LIMIT: u8 = 1 << 3;
    /// A temporal capability: give its time away.
    pub const DELEGATE: u8 = 1 << 3;
    /// An interrupt: expect it, as a client of its driver.
    pub const EXPECT: u8 = 1 << 3;
    /// Read it: accounts, a fault, a slot; memory: map it at all.
    pub const READ: u8 = 1 << 4;
    /// Make all other capabilities to the object void.
    pub const REVOKE: u8 = 1 << 7;
}

/// A capability.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(16))]
pub struct Capability {
    /// Number of a [`Kind`].
    pub kind: u8,
    /// Bits of [`right`].
    pub rights: u8,
    /// Number of the object among those of its kind; of a table and a call the component's.
    pub object: u16,
    /// What the object's grant was when this was made: it is void when the object's is another one.
    pub grant: u32,
    /// Of a send the bits that it sets; of a call, a remote send and memory see [`entry_word`], [`remote_word`] and [`memory_word`]; otherwise zero.
    pub word: u64,
}

impl Capability {
    /// An empty slot.
    pub const NULL: Self = Self { kind: 0, rights: 0, object: 0, grant: 0, word: 0 };

    /// Returns the kind; `None` when the byte is no kind's.
    #[inline]
    #[must_use]
    pub const fn kind(&self) -> Option<Kind> {
        Kind::from_number(self.kind as u64)
    }

    /// States whether it has all of these rights.
    #[inline]
    #[must_use]
    pub const fn has(&self, rights: u8) -> bool {
        self.rights & rights == rights
    }

    /// Of a call: the number of the entry.
    #[inline]
    #[must_use]
    pub const fn entry(&self) -> u16 {
        (self.word >> 48) as u16
    }

    /// Of a call: what the callee finds in x8. Of a remote send: the bits that it sets.
    #[inline]
    #[must_use]
    pub const fn token(&self) -> u64 {
        self.word & TOKEN_MASK
    }

    /// Of memory: the first page of its region that it is for, and how many are.
    #[inline]
    #[must_use]
    pub const fn pages(&self) -> (u32, u32) {
        ((self.word >> 32) as u32, self.word as u32)
    }
}

/// The word of memory: first page in its region, and pages.
#[must_use]
pub const fn memory_word(first: u32, pages: u32) -> u64 {
    (first as u64) << 32 | pages as u64
}

/// What a token can be: 48 bits, so that any address of a component fits (CH-33: a limiter's record is reached by it).
pub const TOKEN_MASK: u64 = (1 << 48) - 1;

/// The word of a call: the entry's number, and the token that the callee gets. Bits of the token that do not fit are left out.
#[must_use]
pub const fn entry_word(entry: u16, token: u64) -> u64 {
    (entry as u64) << 48 | token & TOKEN_MASK
}

/// The word of a remote send: the index in the other instance's exports, and the bits.
#[must_use]
pub const fn remote_word(index: u16, bits: u64) -> u64 {
    entry_word(index, bits)
}

const _: () = assert!(size_of::<Capability>() == 16);
// A fast path loads two words: kind, rights, object and grant; and the word.
const _: () = assert!(core::mem::offset_of!(Capability, word) == 8);
