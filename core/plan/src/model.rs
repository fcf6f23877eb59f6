//! The resolved system: what `bulkhead check` hands to `bulkhead build`.
//!
//! Every reference between parts is an index, every unit is fixed, every default is filled in, and every spatial rule of
//! the checker already holds. Nothing here remembers the TOML text.

use crate::maps::{GICD_BYTES, GICR_BYTES};
pub use crate::rule::BudgetRule;
use crate::tables::{MOST_ADDRESS_BITS, address_end};
use alloc::{string::String, vec::Vec};
use bulkhead_abi::{GuestAddress, PAGE_BYTES, PhysicalAddress};
pub use bulkhead_arm::core_type::CoreType;
use bulkhead_arm::el2::GUEST_ADDRESS_BITS;
pub use bulkhead_words::{OnInterrupt, Reading, RouteRule};

/// Facts of a machine, from `boards/*.toml`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Board {
    /// Name, as in `board = "qemu-virt"`.
    pub name: String,
    /// Banks of RAM of the largest configuration the description may use, by address.
    pub banks: Vec<Bank>,
    /// Memory inside the banks that is in nobody's map.
    pub reserved: Vec<Reserved>,
    /// Where the image is loaded.
    pub load_address: PhysicalAddress,
    /// Bits of a physical address.
    pub physical_address_bits: u32,
    /// MPIDR affinity of each core, by core index.
    pub core_mpidr: Vec<u64>,
    /// Type of each core, by core index; `None` for one that the register list does not know.
    pub core_types: Vec<Option<CoreType>>,
    /// CNTFRQ_EL0 in Hz.
    pub counter_hz: u64,
    /// GICv3 distributor (64 KiB).
    pub gicd: PhysicalAddress,
    /// Redistributor of each core, by core index.
    pub gicr: Vec<PhysicalAddress>,
    /// Security states of the interrupt controller: with 2, EL2 has the non-secure view.
    pub security_states: u32,
    /// SPIs that the distributor has.
    pub shared_interrupts: u32,
    /// SPIs that no device uses, for doorbells and consoles, in order of use.
    pub spare_interrupts: Vec<u32>,
    /// The UART (PL011) that the monitor takes console input from.
    pub uart: Option<BoardUart>,
    /// Devices that may be passed through.
    pub devices: Vec<BoardDevice>,
    /// QEMU machine facts; `None` for a board that QEMU does not emulate.
    pub qemu: Option<QemuFacts>,
}

/// A bank of RAM, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bank {
    /// First byte.
    pub start: PhysicalAddress,
    /// Bytes.
    pub bytes: u64,
}

impl Bank {
    /// One past the last byte.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.start.0.saturating_add(self.bytes)
    }
}

/// Memory that the plan leaves alone: firmware's, or that of other processors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// What it is.
    pub name: String,
    /// Where it is.
    pub range: Bank,
}

/// A UART of the board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoardUart {
    /// Registers, a page.
    pub address: PhysicalAddress,
    /// INTID.
    pub intid: u32,
}

impl Board {
    /// Bytes of RAM in all banks.
    #[must_use]
    pub fn ram_bytes(&self) -> u64 {
        self.banks.iter().map(|bank| bank.bytes).sum()
    }

    /// The banks of a machine of this board with `memory_bytes` of RAM: filled in the order of their addresses.
    #[must_use]
    pub fn banks_of(&self, memory_bytes: u64) -> Vec<Bank> {
        let mut left = memory_bytes;
        let mut banks = Vec::new();
        for bank in &self.banks {
            let bytes = bank.bytes.min(left);
            left -= bytes;
            banks.extend((bytes != 0).then_some(Bank { bytes, ..*bank }));
        }
        banks
    }

    /// What of the reserved memory is in these banks, by address: a machine may have less RAM than the board can have. In whole pages, and
    /// what overlaps or lies side by side in a bank is one region, because an image lists few.
    #[must_use]
    pub fn reserved_in(&self, banks: &[Bank]) -> Vec<Bank> {
        let cut = |bank: &Bank, range: Bank| {
            let start = (range.start.0 - range.start.0 % PAGE_BYTES).max(bank.start.0);
            let end = range.end().next_multiple_of(PAGE_BYTES).min(bank.end());
            (start < end).then(|| Bank { start: PhysicalAddress(start), bytes: end - start })
        };
        let mut joined: Vec<Bank> = Vec::new();
        for bank in banks {
            let mut parts: Vec<Bank> = self.reserved.iter().filter_map(|one| cut(bank, one.range)).collect();
            parts.sort_unstable_by_key(|part| part.start);
            let before = joined.len();
            for part in parts {
                match joined.get_mut(before..).and_then(<[Bank]>::last_mut) {
                    Some(last) if part.start.0 <= last.end() => last.bytes = last.end().max(part.end()) - last.start.0,
                    _ => joined.push(part),
                }
            }
        }
        joined
    }

    /// Bytes of RAM in front of an address, of all banks: its place in a machine's RAM file.
    #[must_use]
    pub fn ram_offset(&self, address: u64) -> u64 {
        let before = |bank: &Bank| address.saturating_sub(bank.start.0).min(bank.bytes);
        self.banks.iter().map(before).sum()
    }

    /// One past the highest physical address that the tables of the board can hold.
    #[must_use]
    pub fn physical_address_end(&self) -> u64 {
        address_end(self.physical_address_bits)
    }

    /// Bits that an address of EL2 needs, whose map is identity: enough for RAM, interrupt controller and UART of the board, and not fewer
    /// than 39, so that a board whose memory ends below 512 GiB has tables from level 1 on.
    #[must_use]
    pub fn el2_address_bits(&self) -> u32 {
        let frames = self.gicr.iter().map(|frame| frame.0.saturating_add(GICR_BYTES));
        let ends = self.banks.iter().map(Bank::end).chain(frames);
        let ends = ends.chain([self.gicd.0.saturating_add(GICD_BYTES)]);
        let ends = ends.chain(self.uart.map(|uart| uart.address.0.saturating_add(PAGE_BYTES)));
        let last = ends.max().unwrap_or(0).saturating_sub(1);
        (u64::BITS - last.leading_zeros()).clamp(GUEST_ADDRESS_BITS, MOST_ADDRESS_BITS)
    }

    /// First byte of RAM.
    #[must_use]
    pub fn ram_start(&self) -> PhysicalAddress {
        self.banks.first().map_or(PhysicalAddress(0), |bank| bank.start)
    }
}

/// A device of the board.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoardDevice {
    /// Name used in descriptions.
    pub name: String,
    /// Registers.
    pub address: PhysicalAddress,
    /// Bytes of registers (may be less than a page).
    pub bytes: u64,
    /// Interrupts.
    pub interrupts: Vec<BoardInterrupt>,
    /// The device can write memory by itself.
    pub dma: bool,
    /// `compatible` strings for the guest's device tree.
    pub compatible: Vec<String>,
    /// Needs a fixed clock of this many Hz named `apb_pclk` in the device tree (PrimeCell devices); 0 for none.
    pub clock_hz: u64,
}

/// An interrupt of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoardInterrupt {
    /// INTID (32 and up).
    pub intid: u32,
    /// Edge-triggered rather than level-sensitive.
    pub edge: bool,
}

/// How QEMU is told to be this board.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QemuFacts {
    /// `-M` argument, e.g. `virt,gic-version=3,virtualization=on`.
    pub machine: String,
    /// `-M` argument for a guest without a monitor, entered at EL1; `None` if the machine cannot.
    pub bare_machine: Option<String>,
    /// `-cpu` argument; `None` for the machine's own.
    pub cpu: Option<String>,
    /// Processors that the machine has always, those of other kinds included; `None` if `-smp` says it.
    pub cores: Option<usize>,
    /// Further arguments every run needs, e.g. `-rtc clock=vm`.
    pub arguments: Vec<String>,
    /// File of a boot loader for this machine; `None` if none is known.
    pub boot_loader: Option<String>,
    /// UARTs of the machine in the order of `-serial`.
    pub uarts: Vec<QemuUart>,
}

/// A UART as QEMU connects it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QemuUart {
    /// Name, as in the board file.
    pub name: String,
    /// The monitor takes console input from it; otherwise it is a device.
    pub is_monitors: bool,
}

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
    /// Limiter of its requests to each of them, if it may.
    pub manage_limit: Limiter,
    /// Where the guest's device tree goes (a multiple of 8); `None`: where the planner finds room.
    pub device_tree_address: Option<GuestAddress>,
    /// Device-tree overlay source bytes (compiled `.dtbo`), applied last.
    pub overlay: Option<Vec<u8>>,
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
    /// SHA-256 over the description, the board file and all guest files.
    pub source_hash: [u8; 32],
}
