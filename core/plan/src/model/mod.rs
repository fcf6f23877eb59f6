//! The resolved system: what `bulkhead check` hands to `bulkhead build`.
//!
//! Every reference between parts is an index, every unit is fixed, every default is filled in, and every spatial rule of
//! the checker already holds. Nothing here remembers the TOML text.

mod board;
mod pci;
mod secure;
mod virtio;

pub use crate::rule::BudgetRule;
use alloc::{string::String, vec::Vec};
pub use board::{
    Bank, Board, BoardDevice, BoardInterrupt, BoardUart, QemuFacts, QemuUart, Reserved, SecureDevice, SecureFacts,
    SecureGpio,
};
use bulkhead_abi::{GuestAddress, PhysicalAddress};
pub use bulkhead_arm::core_type::CoreType;
pub use bulkhead_words::{OnInterrupt, Reading, RouteRule, Rule};
pub use pci::{DeviceEvents, ModelBar, PciBacking, PciFunction, PciHost, PciModel, PciReset, Reach, Smmu, SmmuStage};
pub use secure::{
    Below, Heartbeat, Hybrid, KERNEL_TICK_NS, LatencyTask, Payload, PayloadHandler, PayloadKind, PayloadTask, Secure,
    World, WorldBudget, WorldChannel, WorldDirection, WorldHealth, WorldLevel, WorldServer, WorldWindow, WorldWindows,
};
pub use virtio::{LEAST_FRONT_BYTES, VirtioDevice, VirtioKind, pool_bytes};

/// How interrupts reach a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterruptMode {
    /// Through EL2 and hardware-mapped list registers.
    Mapped,
    /// The guest owns the physical CPU interface.
    Direct,
}

/// Criticality, highest first. Read by health and degradation policies only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Criticality {
    /// High.
    High,
    /// Medium.
    Medium,
    /// Low.
    Low,
    /// Best effort.
    BestEffort,
}

/// What is loaded into a partition. File contents are read by the tool, so the planner is pure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuestImage {
    /// arm64 Linux `Image`, optional initial RAM file system, command line.
    Linux {
        /// Bytes of the Image.
        kernel: Vec<u8>,
        /// Bytes of the initramfs (may be empty).
        initrd: Vec<u8>,
        /// Kernel command line.
        command_line: String,
    },
    /// Segments of an ELF file, already extracted: (guest address, bytes, bytes in memory).
    Elf {
        /// Loadable segments.
        segments: Vec<ElfSegment>,
        /// Entry point.
        entry: GuestAddress,
    },
    /// Raw bytes at the start of RAM (or `load`), entered at their first byte.
    Raw {
        /// The bytes.
        bytes: Vec<u8>,
        /// Where they go.
        load: GuestAddress,
    },
    /// An instance of the real-time kernel: a flat Image that is entered at its first byte.
    Kernel {
        /// The bytes.
        bytes: Vec<u8>,
        /// Where they go.
        load: GuestAddress,
        /// What is in it, for reports.
        components: Vec<Component>,
        /// Its servers, the most important one first.
        servers: Vec<InstanceServer>,
    },
}

/// A component of an instance of the real-time kernel, as it was described.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component {
    /// Its name.
    pub name: String,
    /// Its program.
    pub program: String,
    /// Its author promises that it behaves.
    pub is_trusted: bool,
    /// Names of its threads.
    pub threads: Vec<String>,
    /// How many threads of others can be inside at once.
    pub stacks: u64,
    /// What a fault of one of these comes to.
    pub on_fault: String,
    /// What the functions that its program calls lead to, in the words of the description.
    pub bindings: Vec<(String, String)>,
    /// Names of the devices whose registers it has.
    pub devices: Vec<String>,
    /// Its pages for DMA, by guest address, if it has some.
    pub dma: Option<Bank>,
    /// Numbers that it keeps for the host: their names, and where they are in its address space.
    pub counts: Vec<(String, u64)>,
}

/// A server of such an instance, or a band of them, with what was computed of its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceServer {
    /// Its name.
    pub name: String,
    /// Its number for the kernel; of a band the first one.
    pub number: u16,
    /// Servers that can be made in it, if it is a band.
    pub band: Option<u16>,
    /// How its time is spent and comes back.
    pub rule: Rule,
    /// Budget and period; of one that works for others its grant, and the shortest period of its clients.
    pub time_ns: Option<(u64, u64)>,
    /// Its share of the core, numerator and denominator, if it works for others.
    pub share: Option<(u64, u64)>,
    /// Level with budget, 0 is the most important; of one that works for others the best of its levels.
    pub level: u8,
    /// It runs on without budget.
    pub has_background: bool,
    /// The scheduler that says which of its threads runs.
    pub holder: Option<String>,
    /// Longest time until it has had its budget, all others having theirs as well.
    pub bound_ns: Option<u64>,
    /// For whom it works, and the longest time until a grant in hand is done for each.
    pub clients: Vec<(String, Option<u64>)>,
}

impl GuestImage {
    /// Bytes of all its parts, without a device tree.
    #[must_use]
    pub fn content_bytes(&self) -> u64 {
        let bytes = match self {
            Self::Linux { kernel, initrd, .. } => kernel.len().saturating_add(initrd.len()),
            Self::Elf { segments, .. } => segments.iter().map(|segment| segment.bytes.len()).sum(),
            Self::Raw { bytes, .. } | Self::Kernel { bytes, .. } => bytes.len(),
        };
        bytes as u64
    }

    /// How many parts it has.
    #[must_use]
    pub fn parts(&self) -> u64 {
        match self {
            Self::Linux { .. } => 2,
            Self::Elf { segments, .. } => segments.len() as u64,
            Self::Raw { .. } | Self::Kernel { .. } => 1,
        }
    }
}

/// A loadable ELF segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElfSegment {
    /// Guest address (physical address of the program header).
    pub address: GuestAddress,
    /// File bytes.
    pub bytes: Vec<u8>,
    /// Bytes in memory, at least as many.
    pub memory_bytes: u64,
}

/// Health policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthPolicy {
    /// Leave it stopped.
    Stop,
    /// Restart it.
    Restart {
        /// At most this many restarts ...
        max: u32,
        /// ... within this time.
        within_ns: u64,
        /// Wait before each.
        backoff_ns: u64,
    },
    /// Stop everything and power off.
    Halt,
}

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Name, at most 31 bytes, unique.
    pub name: String,
    /// Criticality.
    pub criticality: Criticality,
    /// Trusted: its author promises that the guest behaves.
    pub trusted: bool,
    /// Board core index of each vCPU.
    pub cores: Vec<usize>,
    /// Bytes of RAM, whole pages (2 MiB multiples use blocks).
    pub memory_bytes: u64,
    /// Where the guest sees its RAM; 0x4000_0000 unless the description says otherwise.
    pub guest_ram: GuestAddress,
    /// Physical place if the description fixes it.
    pub physical_ram: Option<PhysicalAddress>,
    /// What is loaded.
    pub image: GuestImage,
    /// Arguments for native guests ([`bulkhead_guest_abi::guest::GuestInformation::arguments`]); Linux has its command line.
    pub arguments: String,
    /// Interrupt mode.
    pub mode: InterruptMode,
    /// Indices in [`Board::devices`] of the devices passed through.
    pub devices: Vec<usize>,
    /// What the interrupts of each entry of `devices` do on a shared core; as long as `devices`.
    pub device_routes: Vec<Route>,
    /// What its other interrupts (timer, console, doorbells) do on a shared core.
    pub route: Route,
    /// Limiter of all doorbells to it together, from any sender; their channels then have no limiter of their own
    /// (CH-36).
    pub doorbell_limit: Option<Limiter>,
    /// Servers of its vCPUs that run on shared cores.
    pub servers: Vec<Server>,
    /// Round robin: interrupts of others may end its turn.
    pub preemptible: bool,
    /// What the guest runs, for the analysis only.
    pub tasks: Vec<Task>,
    /// Has a virtual PL011.
    pub virtual_uart: bool,
    /// Has a console ring that it writes itself (native guests: `elf` and `raw`).
    pub own_console: bool,
    /// Sees channels as PCI functions (Linux) rather than at fixed addresses.
    pub pci_channels: bool,
    /// Health policy.
    pub health: HealthPolicy,
    /// Watchdog period.
    pub watchdog_ns: Option<u64>,
    /// May manage the other partitions.
    pub manages: bool,
    /// The monitor sends the SGIs of this `direct` guest, so that none leaves the partition (QV-16).
    pub sgi_filtered: bool,
    /// Limiter of its requests to each of them, if it may.
    pub manage_limit: Limiter,
    /// Where the guest's device tree goes (a multiple of 8); `None`: where the planner finds room.
    pub device_tree_address: Option<GuestAddress>,
    /// Device-tree overlay source bytes (compiled `.dtbo`), applied last.
    pub overlay: Option<Vec<u8>>,
    /// What it does about DMA of its PCI functions that the SMMU stopped.
    pub device_events: DeviceEvents,
}

/// Port kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortKind {
    /// Newest value.
    Sampling,
    /// Messages in order, with this depth.
    Queuing {
        /// Slots, 2 or more.
        depth: u32,
    },
}

/// One end of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Index of the partition.
    pub partition: usize,
    /// Port name, unique within the partition.
    pub name: String,
}

/// Doorbell of a channel, rung by the source, received by the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doorbell {
    /// Limiter of this doorbell alone; `None` = the receiver's [`Partition::doorbell_limit`], and without that unlimited, a
    /// warning in the report (CH-37). [`System::limiter`] tells them apart.
    pub limiter: Option<Limiter>,
}

/// Grid limiter: at most `events` notifications in each window of `period_ns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limiter {
    /// Notifications per window, 1 or more.
    pub events: u32,
    /// Window.
    pub period_ns: u64,
}

impl Limiter {
    /// [`Partition::manage_limit`] of a description that does not say it.
    pub const OF_MANAGERS: Self = Self { events: 10, period_ns: 100_000_000 };
}

/// A channel: one direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    /// Name, unique.
    pub name: String,
    /// Sending end.
    pub source: Port,
    /// Receiving end.
    pub destination: Port,
    /// Kind.
    pub kind: PortKind,
    /// Payload bytes of a message, 1..=4032.
    pub message_bytes: u32,
    /// Doorbell.
    pub doorbell: Option<Doorbell>,
    /// The receiver promises that its own timer lets it look at the port at least this often; read by the analysis only.
    pub polls_ns: Option<u64>,
}

/// What an interrupt does on a shared core when another vCPU runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The rule.
    pub rule: RouteRule,
    /// Beyond this limit it waits as if deferred (MZ-26).
    pub limit: Option<Limiter>,
    /// Longest time its handler runs in the guest, for the analysis.
    pub handler_ns: Option<u64>,
    /// Latest time for its handler to have run, for the analysis.
    pub deadline_ns: Option<u64>,
}

impl Default for Route {
    /// By the priorities of servers, without a limit.
    fn default() -> Self {
        Self { rule: RouteRule::Priority, limit: None, handler_ns: None, deadline_ns: None }
    }
}

/// How a shared core chooses. A core without one of these belongs to one vCPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Core of the board.
    pub board_core: usize,
    /// The schedule.
    pub kind: ScheduleKind,
    /// Floating-point registers are switched with all others, rather than at their first use.
    pub eager_floating_point: bool,
}

/// Kinds of [`Schedule`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScheduleKind {
    /// Servers by priority; equals take turns where a quantum is given.
    FixedPriority {
        /// Priority and its quantum.
        quanta: Vec<(u8, u64)>,
    },
    /// The published round robin (MZ-10 to MZ-26); partitions take turns in the order of the description.
    RoundRobin {
        /// Quantum.
        quantum_ns: u64,
        /// What an interrupt of a route `preempt` does.
        on_interrupt: OnInterrupt,
        /// When an interrupt acts that came while a guest ran that may not be pre-empted.
        reading: Reading,
        /// A reset moves the ring to the interrupt's guest.
        ring_moves: bool,
    },
    /// Windows on an absolute grid; servers inside them by priority.
    Cyclic {
        /// Length of the major frame.
        major_ns: u64,
        /// Windows in order, disjoint.
        windows: Vec<TableWindow>,
    },
}

/// A window of a time table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableWindow {
    /// The partition whose window servers may run. It has one vCPU on the core.
    pub partition: usize,
    /// Start within the major frame.
    pub offset_ns: u64,
    /// Length.
    pub length_ns: u64,
}

/// A claim of a vCPU on the time of a shared core (`real-time.md` section 5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// vCPU of the partition.
    pub vcpu: usize,
    /// Priority, 0 is the most important, below 64. With PIBS: ignored, its clients decide.
    pub priority: u8,
    /// How its time is spent and comes back.
    pub rule: BudgetRule,
    /// When it may be used.
    pub gate: Gate,
    /// Who pays; `None` = itself.
    pub payer: Option<ServerReference>,
    /// What happens when the budget is used up.
    pub on_empty: OnEmpty,
    /// What each wake-up or replenishment after which it is chosen costs at least; 0 = what it runs.
    pub least_charge_ns: u64,
}

/// A server of a partition, by its place in [`Partition::servers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerReference {
    /// Partition.
    pub partition: usize,
    /// Place in its list of servers.
    pub server: usize,
}

/// When a server may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Whenever its vCPU is ready.
    Always,
    /// While an interrupt of its vCPU is pending or active.
    Interrupt {
        /// The gate closes when the guest has ended its interrupt.
        voluntary_return: bool,
    },
    /// While a window of its partition is open.
    Window,
    /// Never.
    Never,
}

/// What happens when a budget is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnEmpty {
    /// The server waits.
    Stop,
    /// It continues at this priority and pays nothing.
    Background(u8),
    /// It waits and the event is counted.
    Notify,
}

/// A periodic task inside a guest, for the analysis only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Name.
    pub name: String,
    /// Longest execution time.
    pub cost_ns: u64,
    /// Period or shortest distance of two releases.
    pub period_ns: u64,
    /// Deadline relative to the release.
    pub deadline_ns: u64,
}

/// A checked system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct System {
    /// Name from the description.
    pub name: String,
    /// The machine.
    pub board: Board,
    /// RAM bytes of the machine (and the plan may use): `memory` of the description, at most the board's, in its banks from the first on.
    pub memory_bytes: u64,
    /// Trace records per core, a power of two.
    pub trace_records: u64,
    /// Trace recording on at boot.
    pub trace_enabled: bool,
    /// Partitions; the index is the partition number.
    pub partitions: Vec<Partition>,
    /// Channels; the index is the channel number.
    pub channels: Vec<Channel>,
    /// Schedules of shared cores.
    pub schedules: Vec<Schedule>,
    /// PCI functions of partitions, in the order of the description.
    pub functions: Vec<PciFunction>,
    /// virtio devices between partitions, in the order of the description.
    pub virtio: Vec<VirtioDevice>,
    /// The secure world, and what is below it: partitions only where it says so. `None` on a board that is entered at EL2.
    pub secure: Option<Secure>,
    /// SHA-256 over the description, the board file and all guest files.
    pub source_hash: [u8; 32],
}
