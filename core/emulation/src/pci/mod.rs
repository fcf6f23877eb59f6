//! A virtual PCI bus of one segment, one bus, one function per device (PCI Local Bus 3.0, chapter 6; ECAM as in PCI Express).
//!
//! Device 0 is a host bridge without registers; device n + 1 is function n of the plan: one end of a channel (ivshmem
//! revision 0) or the management device. Base addresses are fixed by the plan and mapped by stage 2, so a write to one is
//! remembered for sizing only. There are no capabilities, no bridges, no message-signalled interrupts. A function may also be a device of
//! the board (part `devices`), whose header is data of the plan.
//!
//! **Interrupt.** The stock Linux driver `uio_pci_generic` needs exactly two bits: Status.Interrupt, by which its handler
//! knows its device, and Command.InterruptDisable, by which it silences the device until user space re-arms it. A doorbell
//! that arrives while the function is silent stays in the status; re-arming makes the interrupt pending again.
//! `uio_pci_generic` never writes IntrMask, so here its reset value is "all enabled"; a driver that writes it is obeyed.
//!
//! The core that receives a doorbell and a vCPU that re-arms may be different cores. The one writes the status and then
//! looks at the enable, the other writes the enable and then looks at the status; both with sequential consistency, so at
//! least one of them sees the other and no doorbell is lost. (With relaxed accesses both could miss.)
//!
//! Rejected: MSI-X. It needs a translation of message addresses (an ITS or a frame per partition) for one bit of benefit.

mod config;
#[cfg(feature = "devices")]
mod device;
mod registers;

#[cfg(feature = "devices")]
pub use device::ConfigurationPort;
pub use registers::PORT_INFORMATION;

use bulkhead_abi::plan::{MAX_PCI_FUNCTIONS, PartitionPlan, PciFunction};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed, Ordering::SeqCst};
use zerocopy::FromBytes;

/// What the monitor does after a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PciEffect {
    /// Nothing.
    None,
    /// Make this interrupt of the partition pending.
    Pend(u32),
    /// Ring this doorbell of the plan.
    Doorbell(u32),
    /// A heartbeat of the partition.
    Heartbeat,
}

/// What the monitor knows and the bus does not.
pub trait ManagementPort {
    /// Partitions in the system; 1 when this one may not manage others.
    fn partition_count(&self) -> u32;
    /// Index of the own partition.
    fn own_index(&self) -> u32;
    /// The word at this offset of the [`bulkhead_abi::status::StatusPage`] of a partition.
    fn status_word(&self, partition: u32, offset: usize) -> u32;
    /// Executes a `MANAGE_` command and returns its SMCCC answer.
    fn command(&self, partition: u32, command: u32) -> u64;
    /// Four bytes of the [`bulkhead_abi::plan::PortInformation`] of a channel function; zero past its end.
    fn port_word(&self, function: u32, word: u32) -> u32;
}

/// Command: memory space enabled, bus master enabled, both without effect.
const COMMAND_LATCHED: u32 = (1 << 1) | (1 << 2);
/// Command: interrupt disable.
const COMMAND_INTERRUPT_DISABLE: u32 = 1 << 10;

/// Registers of one function that a guest can change.
#[derive(Debug, FromBytes)]
#[repr(C)]
struct FunctionState {
    /// Command.
    command: AtomicU32,
    /// Base addresses (by index) whose latest write was all ones.
    sizing: AtomicU32,
    /// Interrupt line; software's scratch byte.
    line: AtomicU32,
    /// ivshmem IntrStatus.
    status: AtomicU32,
    /// ivshmem IntrMask, inverted.
    silent: AtomicU32,
    /// Management: SELECT.
    selected: AtomicU32,
    /// Management: RESULT.
    result: AtomicU32,
}

impl FunctionState {
    /// The device's interrupt, before Command.InterruptDisable: what Status.Interrupt shows.
    fn is_interrupting(&self) -> bool {
        self.status.load(SeqCst) & !self.silent.load(SeqCst) != 0
    }

    /// States whether the interrupt reaches the interrupt controller.
    fn is_asserted(&self) -> bool {
        self.is_interrupting() && self.command.load(SeqCst) & COMMAND_INTERRUPT_DISABLE == 0
    }

    /// After a write that may have let a waiting interrupt through.
    fn rearmed(&self, function: &PciFunction) -> PciEffect {
        if function.interrupt != 0 && self.is_asserted() {
            PciEffect::Pend(function.interrupt)
        } else {
            PciEffect::None
        }
    }
}

/// State of the bus. All-zero memory is the reset state.
#[derive(Debug, FromBytes)]
#[repr(C)]
pub struct PciState {
    functions: [FunctionState; MAX_PCI_FUNCTIONS],
}

impl PciState {
    /// Puts every function back into its reset state, for a restart of the partition.
    pub fn reset(&self) {
        for FunctionState { command, sizing, line, status, silent, selected, result } in &self.functions {
            for word in [command, sizing, line, status, silent, selected, result] {
                word.store(0, Relaxed);
            }
        }
    }

    /// Notes that the doorbell of a function arrived and returns whether to inject its interrupt now. When not, the
    /// monitor only ends the physical interrupt; [`PciEffect::Pend`] makes it pending again when the guest re-arms.
    pub fn doorbell_arrived(&self, plan: &PartitionPlan, function: u32) -> bool {
        let Some((_, state)) = self.function(plan, function) else { return false };
        state.status.store(1, SeqCst);
        state.is_asserted()
    }

    /// Looks a function up in the plan and in the state.
    fn function<'a>(&self, plan: &'a PartitionPlan, index: u32) -> Option<(&'a PciFunction, &FunctionState)> {
        if index >= plan.pci_count {
            return None;
        }
        plan.pci.get(index as usize).zip(self.functions.get(index as usize))
    }
}

/// The bus of a partition: what the plan put on it, and what its guest changed.
#[derive(Clone, Copy)]
pub struct Bus<'a> {
    /// The partition's plan.
    pub plan: &'a PartitionPlan,
    /// The state of its functions.
    pub state: &'a PciState,
}

/// Takes `bytes` bytes from a 32-bit register at the byte offset within it; `None` when they reach past its end.
fn part(register: u32, offset: u64, bytes: u8) -> Option<u64> {
    let (shift, mask) = lane(offset, bytes)?;
    Some(u64::from((register >> shift) & mask))
}

/// Replaces those bytes.
fn merge(register: u32, offset: u64, bytes: u8, value: u64) -> Option<u32> {
    let (shift, mask) = lane(offset, bytes)?;
    Some((register & !(mask << shift)) | ((value as u32 & mask) << shift))
}

/// Bit position and mask of an access within its 32-bit register. Only naturally aligned accesses have one.
const fn lane(offset: u64, bytes: u8) -> Option<(u32, u32)> {
    let shift = ((offset & 3) as u32) << 3;
    match bytes {
        1 => Some((shift, 0xff)),
        2 if offset & 1 == 0 => Some((shift, 0xffff)),
        4 if offset & 3 == 0 => Some((0, 0xffff_ffff)),
        _ => None,
    }
}
