//! Writes an instance of the real-time kernel as one flat arm64 Image (`bulkhead_kernel_abi::image` has the order), which boots on the bare board and
//! as a partition: from the kernel's ELF file, the components' and a description in memory.
//!
//! Everything is decided here: where each page lies, who maps it and how. `bulkhead verify` reads the bytes again and shares the layouts of
//! `bulkhead_kernel_abi` with this crate, and nothing else.
#![forbid(unsafe_code)]

mod data;
mod error;
mod interface;
mod names;
mod ports;
mod processes;
mod program;
mod tables;
mod translation;
mod wires;
mod write;

use bulkhead_kernel_abi::Capability;
use bulkhead_kernel_abi::boot::{BandRow, BindingRow, EndPointRow, ExportRow, SchedulerRow, ServerRow, TcapRow};
use bulkhead_kernel_abi::image::COMPONENT_DEVICES;

pub use error::{Error, ProgramError};
pub use interface::{Function, Interface};
pub use ports::Port;
pub use processes::{ProcessProgram, Processes};
pub use write::{Written, examine, write, write_whole};

/// An instance to be written.
#[derive(Clone, Debug)]
pub struct Instance<'a> {
    /// The kernel: an ELF file.
    pub kernel: &'a [u8],
    /// By number.
    pub components: Vec<Component<'a>>,
    /// By number, the most important first. None: one that nothing limits, and every thread is on it.
    pub servers: Vec<ServerRow>,
    /// What they are called, as `thread_names` of a component.
    pub server_names: Vec<String>,
    /// By number.
    pub end_points: Vec<EndPointRow>,
    /// By number.
    pub bindings: Vec<BindingRow>,
    /// What schedulers in user space, and who makes servers, have of the servers' time.
    pub shares: Shares,
    /// Wires to and from other instances, by number.
    pub wires: Vec<Wire>,
    /// What components may make at run time.
    pub processes: Processes<'a>,
}

/// This instance's end of a wire, over the memory of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wire {
    /// Address of the channel's window; 0 of one that only rings.
    pub window: u64,
    /// Which end it is.
    pub end: WireEnd,
    /// What may be sent to: of the end that writes, without end points.
    pub exports: Vec<ExportRow>,
}

/// Which end of a wire is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireEnd {
    /// It is written here.
    Source {
        /// What the partition's doorbell is called by.
        doorbell: u32,
    },
    /// Its entries are taken here.
    Destination {
        /// INTID of the channel's doorbell.
        intid: u32,
        /// Server that pays for taking them.
        server: u16,
    },
}

/// Schedulers in user space, claims on time, and reserves for servers that are made at run time.
#[derive(Clone, Debug, Default)]
pub struct Shares {
    /// By number.
    pub schedulers: Vec<SchedulerRow>,
    /// By number of the scheduler: what its parent knows its thread by, which is in every claim of its threads. Without one it is 1.
    pub numbers: Vec<u64>,
    /// Claims on time beside those of the servers: their numbers are behind the numbers of the servers. Words of schedulers above their own are added.
    pub tcaps: Vec<TcapRow>,
    /// By number; their servers have rows among the servers.
    pub bands: Vec<BandRow>,
    /// Threads that have a scheduler, or another claim than their server's.
    pub members: Vec<Member>,
}

/// What a thread runs on, and who says when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Number of the thread.
    pub thread: u16,
    /// Scheduler whose it is, or [`bulkhead_kernel_abi::NONE`].
    pub scheduler: u16,
    /// Its claim.
    pub tcap: u16,
    /// What its scheduler knows it by.
    pub label: u64,
}

/// A component.
#[derive(Clone, Debug, Default)]
pub struct Component<'a> {
    /// Its name, at most 15 bytes of UTF-8.
    pub name: String,
    /// Its program: an ELF file.
    pub program: &'a [u8],
    /// Its threads, which have numbers in the order of components.
    pub threads: Vec<Thread>,
    /// What they are called, of which the first 15 bytes are kept; shorter than `threads` where the last ones have no name.
    pub thread_names: Vec<String>,
    /// Its capability table; slot 0 is empty.
    pub capabilities: Vec<Capability>,
    /// In which slots its program finds what it imports; each import of the program is named once. Entries are what it exports, in the program's order.
    pub imports: Vec<Import>,
    /// Stacks for threads of others that are inside.
    pub callers: Callers,
    /// What becomes of callers.
    pub policy: Policy,
    /// Devices whose registers it has, at [`device_addresses`].
    pub devices: Vec<Device>,
    /// Bytes of its pages for DMA, whole pages, at [`bulkhead_kernel_abi::image::COMPONENT_DMA`]; 0 for none.
    pub dma_bytes: u64,
    /// Threads inside may use floating-point registers.
    pub floating_point: bool,
    /// Ends of channels of the partition that it has. An import that one of them names is not among `imports`.
    pub ports: Vec<Port>,
    /// It reads the pages of the accounts, at [`bulkhead_kernel_abi::image::COMPONENT_ACCOUNTS`].
    pub has_accounts: bool,
}

/// What an import is bound to whose word says where devices find the component's pages for DMA: the writer puts the address in its place.
pub const DMA_PLACE: u64 = u64::MAX;

/// A device of a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its name, of which the first 15 bytes are kept.
    pub name: String,
    /// Physical address of its registers.
    pub physical: u64,
    /// Bytes of its registers, whole pages.
    pub bytes: u64,
    /// It reads and writes all memory of the partition by itself, or of the machine, and the component is trusted with that.
    pub reaches_all: bool,
}

/// Where a component finds the registers of its devices, in their order.
pub fn device_addresses(devices: &[Device]) -> impl Iterator<Item = u64> {
    devices.iter().scan(COMPONENT_DEVICES, |next, device| {
        let address = *next;
        *next = address.saturating_add(device.bytes).saturating_add(translation::PAGE);
        Some(address)
    })
}

/// An import of a program, bound to a slot of its component or to the registers of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// Name of the function.
    pub name: String,
    /// Slot with the capability that is used, or the address of the registers.
    pub slot: u64,
}

/// Stacks for callers, each with an empty page below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Callers {
    /// How many threads can be inside at once, at most [`bulkhead_kernel_abi::MAX_STACKS`].
    pub stacks: u32,
    /// Bytes of each, whole pages.
    pub stack_bytes: u64,
}

/// How a component treats its callers (`kernel.md` 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Ticks that a caller must have in hand; 0 for none.
    pub needs_ticks: u64,
    /// Order of trust.
    pub trust: u8,
    /// Calls into it can be aborted.
    pub is_abortable: bool,
    /// What a fault of a caller inside comes to: 0 `return`, 1 `reset`, 2 `stop`.
    pub on_fault: u8,
    /// End point of its supervisor, or [`bulkhead_kernel_abi::NONE`].
    pub supervisor: u16,
    /// What that one is sent.
    pub supervisor_bits: u64,
}

impl Default for Policy {
    fn default() -> Self {
        let supervisor = bulkhead_kernel_abi::NONE;
        Self { needs_ticks: 0, trust: 0, is_abortable: false, on_fault: 0, supervisor, supervisor_bits: 0 }
    }
}

/// A thread that runs at boot, from the program's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    /// What it finds in x0.
    pub argument: u64,
    /// Bytes of its stack, whole pages.
    pub stack_bytes: u64,
    /// Server that pays for it.
    pub server: u16,
}
