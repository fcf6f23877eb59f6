//! What an instance records for those that watch it (`kernel.md` 10; QV-41, CH-42, CH-60). All are words with one writer, the
//! kernel; components with the right map the page, and the host reads it in the RAM file.

use crate::numbers::numbers;
use crate::{MAX_COMPONENTS, MAX_SERVERS, MAX_THREADS, MAX_WIRES};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// First eight bytes of the accounts.
pub const ACCOUNTS_MAGIC: u64 = u64::from_le_bytes(*b"BHKACC01");
/// Room for calls in the accounts; those after [`crate::call::Call::ALL`] are zero.
pub const CALL_SLOTS: usize = 16;

/// What a server has consumed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ServerAccount {
    /// Ticks charged to its budget.
    pub charged_ticks: u64,
    /// Ticks in the background.
    pub background_ticks: u64,
    /// Times that the core was given to it.
    pub dispatches: u64,
    /// Times that its budget was used up.
    pub exhaustions: u64,
    /// Times that it was vetoed.
    pub vetoes: u64,
    /// Ticks of top halves charged to it.
    pub top_half_ticks: u64,
}

/// What a thread has consumed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ThreadAccount {
    /// Ticks that it ran.
    pub ran_ticks: u64,
    /// Times that it was loaded.
    pub switches: u64,
}

/// What went over a wire (CH-42).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct WireAccount {
    /// Entries written.
    pub sent: u64,
    /// Entries taken.
    pub received: u64,
    /// Sends that found the ring full.
    pub busy: u64,
    /// Entries that named no export or bits that are not its, and write indices that cannot be.
    pub refused: u64,
    /// Entries written whose doorbell the monitor's limiter held back: they are found with the next one.
    pub limited: u64,
}

/// Words of the accounts that nobody has yet.
const SPARE_WORDS: usize = 386;

/// What the kernel's own code records of an instance.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Accounts {
    /// [`ACCOUNTS_MAGIC`].
    pub magic: u64,
    /// [`crate::KERNEL_ABI_VERSION`].
    pub abi_version: u32,
    /// Zero.
    pub reserved: u32,
    /// Ticks in which nothing ran.
    pub idle_ticks: u64,
    /// Ticks in calls that took neither the fast path nor the short way of a `switch`, from the kernel's first look at the counter to its last one before another thread or the same one runs.
    pub call_ticks: u64,
    /// `print` calls that found no room, and lines of the kernel that found none.
    pub print_busy: u64,
    /// Faults of components.
    pub faults: u64,
    /// By number of the call, what of [`Self::call_ticks`] the longest one took (CH-60).
    pub longest_ticks: [u64; CALL_SLOTS],
    /// By wire.
    pub wires: [WireAccount; MAX_WIRES],
    /// By server.
    pub servers: [ServerAccount; MAX_SERVERS],
    /// By thread.
    pub threads: [ThreadAccount; MAX_THREADS],
    /// Of [`Self::print_busy`], by component; those of the kernel's own lines are in none.
    pub print_busy_of: [u32; MAX_COMPONENTS],
    /// Zero.
    pub spare: [u64; SPARE_WORDS],
}

/// The pages of the accounts, which are as far in front of the head as [`crate::image::ACCOUNTS_BYTES_BEFORE_HEAD`] says. How often each call was made is
/// counted by the fast path, in words of its own behind the rest.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct AccountPages {
    /// All else.
    pub accounts: Accounts,
    /// Calls, by their number.
    pub calls: [u64; CALL_SLOTS],
    /// What else the fast path has there.
    pub fast: [u64; 16],
}

/// Bytes of the pages of the accounts.
pub const ACCOUNTS_BYTES: usize = 2 * 4096;

const _: () = assert!(size_of::<AccountPages>() == ACCOUNTS_BYTES);
const _: () = assert!(core::mem::offset_of!(AccountPages, calls) == size_of::<Accounts>());

numbers! {
    /// Why a thread was stopped where it was.
    pub enum FaultKind: u32 {
        /// None was recorded.
        None = 0, "none";
        /// Memory that is not the component's, or not in this way.
        Memory = 1, "memory";
        /// An instruction that is not there or not allowed.
        Instruction = 2, "instruction";
        /// Floating point in a component that does not declare it.
        FloatingPoint = 3, "floating point";
        /// A stack pointer or program counter that is not aligned.
        Alignment = 4, "alignment";
        /// A breakpoint, a watchpoint or a step.
        Debug = 5, "debug";
        /// A longer stay inside than the component declares in `needs`.
        Overstay = 6, "overstay";
        /// Its innermost call was aborted.
        Aborted = 7, "aborted";
        /// It ended itself; the syndrome is its code.
        Exited = 8, "exited";
    }
}

/// What a component's fault was, for its supervisor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct FaultRecord {
    /// Number of a [`FaultKind`].
    pub kind: u32,
    /// The thread that was inside.
    pub thread: u16,
    /// Faults of this component so far, modulo 2^16: whether a record is a new one.
    pub number: u16,
    /// ESR_EL1.
    pub syndrome: u64,
    /// FAR_EL1.
    pub address: u64,
    /// ELR_EL1.
    pub program_counter: u64,
}

const _: () = assert!(size_of::<FaultRecord>() == 32);
