//! What the real-time kernel asks of a core at EL1, and what the core tells it: where the registers of a thread at EL0 are kept, and [`KernelMachine`].
//!
//! [`crate::el1::kernel`] implements the trait by registers; [`crate::fake::kernel`] by ordinary memory, so that the kernel's logic runs as host tests.
//! The rejected alternative, the monitor's [`crate::Machine`], names EL2's registers in each of its traits: a kernel has other controls, and no guest.

use bulkhead_arm::Intid;
pub use bulkhead_kernel_abi::console::KERNEL_WRITER;

/// Offsets of a thread's registers where the vectors keep them, from x0 on (`el1/kernel/vectors.s`); x0 to x30 are the first. While the thread runs
/// SP_EL1 points there, so it is at a multiple of 16.
pub mod registers {
    /// SP_EL0.
    pub const STACK_POINTER: usize = 248;
    /// ELR_EL1, and behind it SPSR_EL1.
    pub const PROGRAM_COUNTER: usize = 256;
    /// SPSR_EL1.
    pub const PROCESSOR_STATE: usize = 264;
    /// TPIDR_EL0.
    pub const THREAD_POINTER: usize = 272;
}

/// Offsets in a thread, from its registers on, that the fast path uses (`el1/kernel/calls.s`). `core/objects` has the types; the kernel compares.
pub mod thread {
    /// Component, its stack, and that component's life: one word.
    pub const PLACE: usize = 280;
    /// Calls that it is inside, a byte.
    pub const DEPTH: usize = 288;
    /// Two words of zeros.
    pub const NOTHING: usize = 296;
    /// By depth, 16 bytes: where each level below continues.
    pub const FRAMES: usize = 312;
    /// By depth, 16 bytes: its TPIDR_EL0, and its [`PLACE`].
    pub const BELOW: usize = 440;
}

/// Offsets in a component.
pub mod component {
    /// Shift by which a number becomes an offset.
    pub const SHIFT: usize = 7;
    /// Free stacks, a bit each, and behind them TTBR0_EL1.
    pub const FREE_STACKS: usize = 0;
    /// TTBR0_EL1.
    pub const SPACE: usize = 8;
    /// Ticks that a caller needs.
    pub const NEEDS: usize = 16;
    /// What a capability must be, and behind it life and grant.
    pub const GATE: usize = 24;
    /// Life, a word of 32 bits.
    pub const LIFE: usize = 32;
    /// First slot and number of slots, 32 bits each.
    pub const SLOTS: usize = 40;
    /// First entry and first stack, 32 bits each.
    pub const FIRST_ENTRY: usize = 48;
    /// Number of entries, 16 bits.
    pub const ENTRIES: usize = 56;
}

/// Bits of a capability's first word that a component's gate decides.
pub const GATE_MASK: u64 = 0xffff_ffff_ffc0_01ff;
/// The bit of a gate that says that the caller's time is looked at.
pub const GATE_NEEDS: u64 = 1 << 22;

/// What the fast path has besides objects. TPIDR_EL1 is the address behind it, where components begin; slots follow them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Fast {
    /// How often each call was made.
    pub calls: [u64; 16],
    /// Address of all entries, 16 bytes each, of which the first word is the entry's address.
    pub entries: u64,
    /// Address of the tops of all stacks for callers, 8 bytes each.
    pub stacks: u64,
    /// What `version` answers: the kernel's build, and the counter's frequency.
    pub version: [u64; 2],
    /// When what the thread runs on is used up, as of when it was chosen: a later look can only find less.
    pub until_ticks: u64,
    /// Nothing.
    pub rest: [u64; 11],
}

const _: () = assert!(size_of::<Fast>() == 256);

impl Fast {
    /// Zeros.
    pub const NOTHING: Self =
        Self { calls: [0; 16], entries: 0, stacks: 0, version: [0; 2], until_ticks: 0, rest: [0; 11] };
}

/// What brought the core from EL0 to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// An instruction of EL0: a call or a fault. ESR_EL1 and FAR_EL1.
    Synchronous {
        /// ESR_EL1.
        syndrome: u64,
        /// FAR_EL1.
        address: u64,
    },
    /// An interrupt waits to be acknowledged.
    Interrupt,
}

/// What a kernel that records has told of last, as sets of bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Threads that are awake.
    pub awake: u64,
    /// Servers that wait for their budgets.
    pub waiting: u64,
    /// Servers that are passed over.
    pub vetoed: u64,
    /// Thread, server and whether it runs in the background, plus one; 0 for nobody.
    pub running: u64,
}

/// Everything that the kernel's logic asks of the machine. One core, interrupts masked.
///
/// Duties of an implementer: each function does its one thing before the next one begins.
pub trait KernelMachine {
    /// The address space that is loaded: the fast path changes it as well.
    fn space(&self) -> u64;
    /// Loads the address space of a component: a TTBR0_EL1 value, root and ASID.
    fn load_space(&mut self, space: u64);
    /// Reads the virtual counter.
    fn counter_ticks(&self) -> u64;
    /// Arms the virtual timer (one shot) for an absolute counter value; `u64::MAX` switches it off.
    fn set_timer(&mut self, deadline_ticks: u64);
    /// Arms the second timer, which is the one binding's that is `periodic`; `u64::MAX` switches it off.
    fn set_periodic(&mut self, deadline_ticks: u64);
    /// Enables an interrupt for this core.
    fn enable_interrupt(&mut self, intid: Intid);
    /// Says whether a device signals its interrupt by an edge or a level, before it is enabled.
    fn set_edge(&mut self, intid: Intid, edge: bool);
    /// Disables an interrupt: it stays pending.
    fn disable_interrupt(&mut self, intid: Intid);
    /// An interrupt waits to be acknowledged (ISR_EL1).
    fn is_interrupted(&self) -> bool;

    /// The same between two slices of work, which take time on a core of a test as well.
    fn is_interrupted_behind_slice(&mut self) -> bool {
        self.is_interrupted()
    }
    /// Acknowledges the most urgent pending interrupt; a special number when there is none.
    fn acknowledge(&mut self) -> Intid;
    /// Drops the running priority of an acknowledged interrupt, which stays active: the controller masks it.
    fn drop_priority(&mut self, intid: Intid);
    /// Deactivates it.
    fn deactivate(&mut self, intid: Intid);
    /// Appends text to the partition's console, or the board's.
    fn write_console(&mut self, text: &[u8]);
    /// Entries of the console, which overwrites its oldest ones; 0 when it is a UART, or there is none.
    fn console_entries(&self) -> u64;
    /// Says in such a console who prints what follows.
    fn write_writer(&mut self, writer: u16);
    /// Lets EL0 use floating-point registers from the end of this entry up to the next one, with which they are closed by themselves.
    fn open_floating_point(&mut self);
    /// The thread whose registers are in the core.
    fn floating_point_owner(&self) -> Option<u16>;
    /// Behind [`Self::open_floating_point`]: makes a thread the owner, with what was kept for it, or with zeros. What another owner has in the core is kept for that one.
    fn load_floating_point(&mut self, thread: u16, is_kept: bool);
    /// The word beside the place of a thread's registers, 0 at first; `None` of a thread that has no place.
    fn floating_point_stay(&self, thread: u16) -> Option<u64>;
    /// Writes it.
    fn set_floating_point_stay(&mut self, thread: u16, stay: u64);
    /// A word of a page of the pool; 0 of one that is not there.
    fn pool_word(&self, page: u32, index: u16) -> u64;
    /// Writes one, at once and as a whole, before a walk of translation tables looks at it; nothing of a page that is not there.
    fn set_pool_word(&mut self, page: u32, index: u16, word: u64);
    /// Fills a page with zeros.
    fn clear_page(&mut self, page: u32);
    /// Copies a page of the pool.
    fn copy_page(&mut self, to: u32, from: u32);
    /// Copies a page of the image by its physical address.
    fn copy_image(&mut self, to: u32, physical: u64);
    /// Copies a page of the image to another one, by their physical addresses, or fills that with zeros: data of a component that begins again.
    fn restore_page(&mut self, to: u64, from: Option<u64>);
    /// Forgets the translation of an address under an ASID, before it returns.
    fn forget(&mut self, asid: u16, address: u64);
    /// Forgets all under an ASID, and walks its tables no more before they are loaded again.
    fn forget_all(&mut self, asid: u16);
    /// Waits until an interrupt is pending.
    fn wait_for_interrupt(&mut self);
    /// Loads a word of a channel's memory, by its address for the guest, with acquire order.
    fn load_shared(&self, address: u64) -> u64;
    /// Stores one, with release order: to pages that this end writes.
    fn store_shared(&self, address: u64, word: u64);
    /// Rings a doorbell of the partition; false when the level below holds it back, or there is none.
    fn ring(&mut self, doorbell: u32) -> bool;
    /// What was told of last, of a kernel that records. One that does not has `None`, and the compiler takes out all that would be recorded.
    // As long as it is inlined: the text of the kernel that does not record is the same as without these functions.
    #[inline(always)]
    fn seen(&mut self) -> Option<&mut Seen> {
        None
    }
    /// Writes a record with the time of now: one of the `TRACE_` kinds, its small argument, and two more.
    // Inlined for the same reason: nothing is left of it.
    #[inline(always)]
    fn record(&mut self, _kind: u16, _small: u32, _first: u64, _second: u64) {}
}
