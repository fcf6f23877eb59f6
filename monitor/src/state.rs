//! Data of one vCPU, and what the cores of one partition share.

use crate::core_state::Core;
#[cfg(feature = "devices")]
use crate::devices::functions::Functions;
use crate::sharing::PrivateInterrupts;
use bulkhead_abi::console::{CONSOLE_HEADER_BYTES, ConsoleHeader};
#[cfg(feature = "devices")]
use bulkhead_abi::devices::MAX_FRONTS;
use bulkhead_abi::plan::{MAX_INTID, MODE_MAPPED, PartitionPlan, VcpuPlan};
use bulkhead_abi::{MAX_CORES, MAX_PARTITIONS};
use bulkhead_arch::{CoreHead, GuestFrame, Machine};
use bulkhead_arm::Intid;
use bulkhead_emulation::gic::OwnedInterrupts;
use bulkhead_emulation::pci::PciState;
use bulkhead_emulation::pl011::Pl011State;
#[cfg(feature = "devices")]
use bulkhead_emulation::virtio::FrontState;
use core::cell::Cell;
use core::mem::offset_of;
#[cfg(not(test))]
use core::sync::atomic::AtomicU32;
use core::sync::atomic::{AtomicU8, AtomicU64};

// In tests each access to such a word is a point where another core of the partition may come first.
#[cfg(test)]
pub(crate) use crate::tests::interleave::AtomicU32;

/// INTIDs in a fast table.
pub const FAST_ENTRIES: usize = MAX_INTID as usize;
/// Restarts remembered for the policy's window.
pub const RESTART_HISTORY: usize = bulkhead_abi::plan::MAX_RESTARTS as usize;

/// A fast table that sends everything to the slow path: used while tracing, in `direct` mode and before start.
pub static EMPTY_FAST_TABLE: [u8; FAST_ENTRIES] = [0; FAST_ENTRIES];

/// What a vCPU is and what it is told to be: one word of bits, changed by single atomic operations only, so that no two of them
/// miss each other. After a change that the vCPU's core is to follow, its maker sends that core SGI 15.
///
/// | bits | meaning | who makes it |
/// | --- | --- | --- |
/// | none | off | the core at CPU_OFF or a fault; a start of the partition |
/// | `CLAIMED` | CPU_ON was accepted, its entry point is not written yet | the caller of CPU_ON, from off |
/// | `CLAIMED`, `POSTED` | CPU_ON is pending | that caller |
/// | `ON` | the guest runs | the core, from pending; a resume, from parked |
/// | `STAND` beside any | the partition is to stand: nothing is started any more | vCPU 0's core, which also takes it back |
/// | `ON`, `STAND`, `PARKED` | stopped at EL2, its guest's registers kept | the core |
///
/// A vCPU that has `STAND` and not `ON`, or that is `PARKED`, executes nothing until `STAND` goes.
pub mod vcpu_state {
    /// Off.
    pub const OFF: u32 = 0;
    /// CPU_ON was accepted.
    pub const CLAIMED: u32 = 1;
    /// The entry point of CPU_ON is written.
    pub const POSTED: u32 = 2;
    /// CPU_ON is pending.
    pub const ON_PENDING: u32 = CLAIMED | POSTED;
    /// The guest runs, or will when it need not stand.
    pub const ON: u32 = 4;
    /// The partition is to stand.
    pub const STAND: u32 = 8;
    /// The guest stands.
    pub const PARKED: u32 = 16;
}

/// Reports of a vCPU to the core of vCPU 0; values below [`report::SYSTEM_OFF`] are `REASON_` constants.
pub mod report {
    /// Nothing; of a vCPU that called PSCI CPU_OFF its state says so.
    pub const NONE: u32 = 0;
    /// The guest called PSCI SYSTEM_OFF.
    pub const SYSTEM_OFF: u32 = 0x100;
}

/// What the cores of a partition tell each other about one vCPU.
#[derive(Debug, Default)]
#[repr(C)]
pub struct VcpuShared {
    /// Bits of [`vcpu_state`].
    pub state: AtomicU32,
    /// Software-generated interrupts posted for it, if it shares its core ([`bulkhead_schedule::posts`]).
    #[cfg(feature = "shared")]
    pub posted: AtomicU32,
    /// One of [`report`], taken by vCPU 0's core; written before the vCPU is off.
    pub report: AtomicU32,
    /// Entry point of the pending CPU_ON.
    pub entry: AtomicU64,
    /// Its x0.
    pub context: AtomicU64,
    /// Fault facts for the report: ESR_EL2, FAR_EL2, guest address, ELR_EL2.
    pub fault: [AtomicU64; 4],
}

/// State shared by the cores of one partition and by no other core. Valid when all bytes are zero.
#[repr(C)]
pub struct Shared {
    /// Per vCPU.
    pub vcpus: [VcpuShared; MAX_CORES],
    /// Latest heartbeat (or start), counter ticks.
    pub heartbeat_ticks: AtomicU64,
    /// Heartbeats since boot.
    pub heartbeats: AtomicU64,
    /// Virtual UART.
    pub uart: Pl011State,
    /// Virtual PCI bus.
    pub pci: PciState,
    /// Priorities by vCPU and INTID, from which the vectors make list-register values; 0 = slow path.
    pub fast: [[AtomicU8; FAST_ENTRIES]; MAX_CORES],
    /// Priorities by INTID as guests wrote them, of five bits; the interrupt controller may have fewer levels.
    pub priorities: [AtomicU8; FAST_ENTRIES],
    /// Registers of its fronts of virtio.
    #[cfg(feature = "devices")]
    pub fronts: [FrontState; MAX_FRONTS],
}

/// Whether the core's guest can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunState {
    /// Yes.
    Running,
    /// No: off, stopped or waiting for CPU_ON.
    Off,
    /// No: parked with its registers kept.
    Parked,
    /// No: a restart waits for its back-off to pass.
    BackOff,
    /// No: its memory is being scrubbed and loaded, in slices (shared cores).
    Restoring,
}

/// How far the loading of a partition's memory is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restore {
    /// Region or segment: RAM regions first, then channel memory, then segments.
    pub piece: usize,
    /// Bytes of it that are done.
    pub offset: u64,
    /// CRC-32C of the segment up to there.
    pub crc: u32,
    /// Why the partition is started.
    pub reason: u32,
}

/// Where the bytes of this vCPU's virtual UART go.
#[derive(Clone, Copy, Debug)]
pub struct ConsoleRing {
    /// Address of the next entry; 0 = no ring.
    pub entry: u64,
    /// One past the last entry.
    pub end: u64,
    /// Address of the first entry.
    pub first: u64,
    /// Entries written.
    pub written: u64,
    /// Address of [`ConsoleHeader::written`](bulkhead_abi::console::ConsoleHeader::written).
    pub written_word: u64,
}

impl ConsoleRing {
    fn new(plan: &VcpuPlan) -> Self {
        let bytes = plan.console_bytes.saturating_sub(CONSOLE_HEADER_BYTES) & !7;
        let first = plan.console.0.wrapping_add(CONSOLE_HEADER_BYTES);
        Self {
            entry: if plan.console.0 == 0 || bytes == 0 { 0 } else { first },
            end: first.wrapping_add(bytes),
            first,
            written: 0,
            written_word: plan.console.0.wrapping_add(offset_of!(ConsoleHeader, written) as u64),
        }
    }

    /// Entries that fit.
    pub fn capacity(&self) -> u64 {
        self.end.wrapping_sub(self.first) / 8
    }
}

/// Private data of one vCPU. The vectors know its head.
#[repr(C)]
pub struct Vcpu<M: Machine> {
    /// What the vectors use.
    pub head: CoreHead,
    /// The machine.
    pub machine: M,
    /// What is the core's and not this vCPU's.
    pub core: Core,
    /// This core's plan.
    pub plan: &'static VcpuPlan,
    /// Its partition's plan.
    pub partition: &'static PartitionPlan,
    /// Its partition's shared state.
    pub shared: &'static Shared,
    /// Interrupts that the partition owns, as masks.
    pub owned: OwnedInterrupts,
    /// Interrupts acknowledged that wait for a list register.
    pub waiting: [Cell<u64>; FAST_ENTRIES / 64],
    /// As [`Shared::priorities`], of the private interrupts.
    pub priorities: [AtomicU8; Intid::FIRST_SHARED as usize],
    /// Some of them wait because no list register was free; the underflow maintenance interrupt asks for more.
    pub overflow: bool,
    /// What is kept of the private interrupts of a guest on a shared core.
    pub private: PrivateInterrupts,
    /// Generation of the partition in which this vCPU was started last, on a shared core.
    #[cfg(feature = "shared")]
    pub generation: u32,
    /// The partition's PCI functions.
    #[cfg(feature = "devices")]
    pub functions: Functions,
    /// How far a start in slices is.
    pub restore: Restore,
    /// Whether the guest can go on.
    pub run: RunState,
    /// The last SUSPEND of a manager was not followed by RESUME or RESTART: whatever starts the partition, it stands.
    pub suspended: bool,
    /// This vCPU's console ring.
    pub console: ConsoleRing,
    /// Manage requests already served, by manager.
    pub manage_seen: [u64; MAX_PARTITIONS],
    /// Times of the latest restarts, newest at `restart_count - 1` modulo the length.
    pub restart_times: [u64; RESTART_HISTORY],
    /// Restarts done by policy.
    pub restart_count: usize,
    /// When the back-off of a restart ends.
    pub backoff_until: u64,
    /// When the fault that is being handled was taken.
    pub fault_ticks: u64,
}

impl<M: Machine> Vcpu<M> {
    /// Makes a vCPU's data; the guest does not run yet.
    pub fn new(
        machine: M,
        stack_top: u64,
        plan: &'static VcpuPlan,
        partition: &'static PartitionPlan,
        shared: &'static Shared,
    ) -> Self {
        Self {
            head: CoreHead {
                frame: GuestFrame::zero(),
                stack_top,
                fast_table: EMPTY_FAST_TABLE.as_ptr() as usize as u64,
                counters: plan.counters.0.wrapping_add(crate::observe::COUNTER_VALUES_OFFSET),
            },
            machine,
            core: Core::new(plan),
            plan,
            partition,
            shared,
            owned: OwnedInterrupts::from_plan(partition),
            waiting: Default::default(),
            priorities: Default::default(),
            overflow: false,
            private: PrivateInterrupts::new(),
            #[cfg(feature = "shared")]
            generation: 0,
            #[cfg(feature = "devices")]
            functions: Functions::new(),
            restore: Restore::default(),
            run: RunState::Off,
            suspended: false,
            console: ConsoleRing::new(plan),
            manage_seen: [0; MAX_PARTITIONS],
            restart_times: [0; RESTART_HISTORY],
            restart_count: 0,
            backoff_until: 0,
            fault_ticks: 0,
        }
    }

    /// States whether physical interrupts come to EL2.
    pub fn is_mapped(&self) -> bool {
        self.plan.mode == MODE_MAPPED
    }

    /// States whether this core runs vCPU 0 and so speaks for the partition.
    pub fn is_lead(&self) -> bool {
        self.plan.vcpu == 0
    }

    /// Returns what the siblings see of this core's vCPU.
    pub fn own_vcpu(&self) -> &'static VcpuShared {
        let vcpus = &self.shared.vcpus;
        vcpus.get(self.plan.vcpu as usize).unwrap_or(&vcpus[0])
    }

    /// Returns this vCPU's fast table.
    pub fn fast_entries(&self) -> &'static [AtomicU8; FAST_ENTRIES] {
        let tables = &self.shared.fast;
        tables.get(self.plan.vcpu as usize).unwrap_or(&tables[0])
    }
}
