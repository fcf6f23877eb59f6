//! What the real-time kernel asks of a core at EL1, and what the core tells it: where the registers of a thread at EL0 are kept, and [`KernelMachine`].
//!
//! [`crate::el1::kernel`] implements the trait by registers; [`crate::fake::kernel`] by ordinary memory, so that the kernel's logic runs as host tests.
//! The rejected alternative, the monitor's [`crate::Machine`], names EL2's registers in each of its traits: a kernel has other controls, and no guest.

use bulkhead_arm::Intid;

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

/// Everything that the kernel's logic asks of the machine. One core, interrupts masked.
///
/// Duties of an implementer: each function does its one thing before the next one begins.
pub trait KernelMachine {
    /// Loads the address space of a component: a TTBR0_EL1 value, root and ASID.
    fn load_space(&mut self, root: u64);
    /// Reads the virtual counter.
    fn counter_ticks(&self) -> u64;
    /// Arms the virtual timer (one shot) for an absolute counter value; `u64::MAX` switches it off.
    fn set_timer(&mut self, deadline_ticks: u64);
    /// Arms the second timer, which is the one binding's that is `periodic`; `u64::MAX` switches it off.
    fn set_periodic(&mut self, deadline_ticks: u64);
    /// Enables an interrupt for this core.
    fn enable_interrupt(&mut self, intid: Intid);
    /// Disables an interrupt: it stays pending.
    fn disable_interrupt(&mut self, intid: Intid);
    /// An interrupt waits to be acknowledged (ISR_EL1).
    fn is_interrupted(&self) -> bool;
    /// Acknowledges the most urgent pending interrupt; a special number when there is none.
    fn acknowledge(&mut self) -> Intid;
    /// Drops the running priority of an acknowledged interrupt, which stays active: the controller masks it.
    fn drop_priority(&mut self, intid: Intid);
    /// Deactivates it.
    fn deactivate(&mut self, intid: Intid);
    /// Appends a byte to the partition's console, or the board's.
    fn write_console(&mut self, byte: u8);
    /// Waits until an interrupt is pending.
    fn wait_for_interrupt(&mut self);
}
