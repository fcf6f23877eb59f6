//! The plan: what the host decided for each core and each partition, as bytes that the monitor only reads.
//!
//! Register values (HCR_EL2 and friends) are in the plan rather than in monitor code, so that `bulkhead verify` can check
//! the very bits that isolate a partition.

use crate::readers::{tables, words};
use crate::{GuestAddress, MAX_CORES, MAX_PARTITIONS, Name, PhysicalAddress};
pub use bulkhead_words::RouteRule;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// First eight bytes of a vCPU plan.
#[cfg(not(target_os = "none"))]
pub const VCPU_PLAN_MAGIC: u64 = u64::from_le_bytes(*b"BHVCPU01");
/// First eight bytes of a partition plan.
#[cfg(not(target_os = "none"))]
pub const PARTITION_PLAN_MAGIC: u64 = u64::from_le_bytes(*b"BHPART01");

/// Most RAM regions of a partition.
pub const MAX_RAM_REGIONS: usize = 2;
/// Most image segments of a partition.
pub const MAX_SEGMENTS: usize = 12;
/// Most shared peripheral interrupts that a partition owns.
pub const MAX_INTERRUPTS: usize = 32;
/// Most interrupts with a rate limit on one shared core: what comes beyond them would wait as if each were beyond its limit.
pub const MAX_LIMITED_INTERRUPTS: usize = 16;
/// Most emulated windows of a partition.
pub const MAX_WINDOWS: usize = 16;
/// Most PCI functions on a partition's virtual bus (functions sit at device 1.. function 0).
pub const MAX_PCI_FUNCTIONS: usize = 8;
/// Most doorbells that a partition can ring.
pub const MAX_DOORBELLS: usize = 8;
/// One past the highest INTID that a plan can name; the monitor's per-partition tables have this many entries.
pub const MAX_INTID: u32 = 256;

/// Interrupt mode of a partition: physical interrupts go to EL2 and come back through list registers.
pub const MODE_MAPPED: u32 = 1;
/// Interrupt mode of a partition: the guest owns the physical CPU interface (HCR_EL2.IMO = FMO = 0).
pub const MODE_DIRECT: u32 = 2;

/// A vCPU, the core that runs it, and where that core's monitor finds everything of it. One page, mapped read-only on
/// that core alone. A core that one vCPU owns has one of these; a shared core has one per vCPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct VcpuPlan {
    /// [`VCPU_PLAN_MAGIC`].
    pub magic: u64,
    /// Index of this core in [`crate::image::ImageHeader::cores`].
    pub core: u32,
    /// Index of the partition.
    pub partition: u32,
    /// vCPU of the partition that runs here.
    pub vcpu: u32,
    /// [`MODE_MAPPED`] or [`MODE_DIRECT`].
    pub mode: u32,
    /// MPIDR_EL1 affinity fields of the core.
    pub mpidr: u64,
    /// VMPIDR_EL2: affinity 0 is the vCPU number, bit 31 set.
    pub vmpidr: u64,
    /// HCR_EL2 while the guest runs (`core/arm` has the values of this and the next ones).
    pub hcr: u64,
    /// VTCR_EL2.
    pub vtcr: u64,
    /// VTTBR_EL2: stage-2 root and VMID (= partition index + 1) in bits 63:48.
    pub vttbr: u64,
    /// MDCR_EL2.
    pub mdcr: u64,
    /// CPTR_EL2.
    pub cptr: u64,
    /// The owner's [`PartitionPlan`].
    pub partition_plan: PhysicalAddress,
    /// Monitor state shared by the cores of this partition alone; zeroed by the core of vCPU 0.
    pub shared: PhysicalAddress,
    /// Bytes of that state.
    pub shared_bytes: u64,
    /// The partition's [`crate::status::StatusPage`].
    pub status: PhysicalAddress,
    /// The vCPU's [`crate::observe::CounterPage`].
    pub counters: PhysicalAddress,
    /// The core's trace ring.
    pub trace: PhysicalAddress,
    /// Bytes of the trace ring, header page included.
    pub trace_bytes: u64,
    /// 1 if trace recording is on from boot.
    pub trace_enabled: u64,
    /// Console ring of this vCPU's virtual PL011; zero without one.
    pub console: PhysicalAddress,
    /// Bytes of the console ring, header included.
    pub console_bytes: u64,
    /// Distributor frame.
    pub gicd: PhysicalAddress,
    /// This core's redistributor frame (RD frame; the SGI frame is 64 KiB above).
    pub gicr: PhysicalAddress,
    /// The board's UART (PL011), where this core receives console input while its partition has the focus; zero when the
    /// partition has no virtual UART, is `direct` and nobody hands its input over, or another of its cores does it.
    pub uart: PhysicalAddress,
    /// Core that has the focus next, by MPIDR; meaningful with `uart`.
    pub uart_next_mpidr: u64,
    /// INTID of the UART.
    pub uart_interrupt: u32,
    /// 1 on the core that has the focus at boot and sets the UART up.
    pub uart_first: u32,
    /// The core's [`crate::schedule::SchedulePlan`]; zero when the vCPU owns the core.
    pub schedule: PhysicalAddress,
    /// The vCPU's place in that plan.
    pub slot: u32,
    /// The core of the `direct` partition of `handed_status`, where this core hands over: MPIDR, whose affinity 3 is zero; otherwise zero.
    pub handed_mpidr: u32,
    /// The partition's [`crate::devices::DevicePlan`]; zero without devices.
    pub devices: PhysicalAddress,
    /// The [`crate::devices::BootDevices`]: in the first plan of the boot core, and zero everywhere else.
    pub boot_devices: PhysicalAddress,
    /// Status page of the partition with which this one hands the UART's interrupt over: from a `mapped` one, whose core has it, to the
    /// `direct` one that has the focus next. The own page when there is none, and zero when the part is not `hybrid`.
    pub handed_status: PhysicalAddress,
}

/// A piece of RAM of a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RamRegion {
    /// Where the guest sees it.
    pub guest: GuestAddress,
    /// Where it is.
    pub physical: PhysicalAddress,
    /// Bytes, whole pages.
    pub bytes: u64,
}

/// One piece of a guest's image: copied from the pristine copy at start and at each restart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Segment {
    /// Destination in the partition's RAM (physical), 16-byte aligned.
    pub destination: PhysicalAddress,
    /// Pristine copy in monitor memory, 64-byte aligned.
    pub source: PhysicalAddress,
    /// Bytes; the copy in monitor memory is padded with zeros to a multiple of 64.
    pub bytes: u64,
    /// CRC-32C of the `bytes` bytes.
    pub crc: u32,
    /// Zero.
    pub reserved: u32,
}

/// The interrupt belongs to a passed-through device.
pub const INTERRUPT_DEVICE: u32 = 1;
/// The interrupt is a spare one, made pending by a peer's monitor as a doorbell.
pub const INTERRUPT_DOORBELL: u32 = 2;
/// The interrupt is a spare one, made pending by this partition's virtual PL011.
pub const INTERRUPT_CONSOLE: u32 = 3;

/// A shared peripheral interrupt of a partition. The guest sees the physical INTID.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct InterruptPlan {
    /// INTID, 32..[`MAX_INTID`].
    pub intid: u32,
    /// [`INTERRUPT_DEVICE`], [`INTERRUPT_DOORBELL`] or [`INTERRUPT_CONSOLE`].
    pub kind: u32,
    /// 1 for edge-triggered, 0 for level-sensitive (GICD_ICFGR, written once at boot).
    pub edge: u32,
    /// For a doorbell of an ivshmem function: function index + 1; otherwise 0.
    pub pci_function: u32,
    /// What it does when another vCPU runs: number of a [`RouteRule`]. Only read on shared cores.
    pub route: u32,
    /// Most times per window that it may act by its route; beyond that it waits as if deferred (MZ-26).
    pub limit_events: u32,
    /// Window of `limit_events` in counter ticks; 0 = no limit.
    pub limit_period_ticks: u64,
    /// A doorbell that a client of the partition's PIBS server rings: the client's place + 1; otherwise 0.
    pub client: u32,
    /// Zero.
    pub reserved: u32,
}

/// Distributor, 64 KiB.
pub const WINDOW_GICD: u32 = 1;
/// Redistributors, 128 KiB per vCPU.
pub const WINDOW_GICR: u32 = 2;
/// Virtual PL011, 4 KiB.
pub const WINDOW_UART: u32 = 3;
/// PCI configuration space of bus 0, 1 MiB.
pub const WINDOW_ECAM: u32 = 4;
/// BAR 0 (registers) of PCI function `index`.
pub const WINDOW_PCI_REGISTERS: u32 = 5;
/// Trapped registers of the front of a virtio device, by its index: the [`crate::virtio::PAGE_REGISTER`] bytes in front of a page boundary.
#[cfg(feature = "devices")]
pub const WINDOW_VIRTIO: u32 = 6;

/// A range of guest addresses that is not mapped and answered by the monitor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Window {
    /// First guest address.
    pub guest: GuestAddress,
    /// Bytes.
    pub bytes: u64,
    /// One of the `WINDOW_` constants.
    pub kind: u32,
    /// Index of the PCI function or of the front, where the kind needs one.
    pub index: u32,
}

/// The function is one end of a channel (1af4:1110, ivshmem revision 0).
pub const PCI_IVSHMEM: u32 = 1;
/// The function is the management and heartbeat device (1af4:1111): BAR 0 registers of [`crate::hypercall::management`].
pub const PCI_MANAGEMENT: u32 = 2;
/// The function is a device of the board: what is behind it says the [`crate::devices::DeviceFunction`] of the same index.
#[cfg(feature = "devices")]
pub const PCI_DEVICE: u32 = 3;

/// A PCI function on the partition's virtual bus 0, device `index + 1`, function 0. BARs are fixed by the plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct PciFunction {
    /// [`PCI_IVSHMEM`], [`PCI_MANAGEMENT`] or [`PCI_DEVICE`].
    pub kind: u32,
    /// INTID of INTx, 0 for none (no inbound doorbell).
    pub interrupt: u32,
    /// BAR 0, registers, 4 KiB, emulated.
    pub registers: GuestAddress,
    /// BAR 2, channel memory (64-bit prefetchable), mapped by stage 2; zero for none.
    pub memory: GuestAddress,
    /// Bytes of BAR 2, a power of two (pages past the channel's own are not mapped).
    pub memory_bytes: u64,
    /// Index in [`PartitionPlan::doorbells`] that a write to the Doorbell register rings, or `u32::MAX`.
    pub doorbell: u32,
    /// ivshmem IVPosition: 0 for the source end, 1 for the destination end.
    pub position: u32,
}

/// A doorbell that this partition may ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DoorbellPlan {
    /// INTID made pending at the receiver (a spare interrupt that the receiver owns).
    pub intid: u32,
    /// Receiving partition.
    pub peer: u32,
    /// The limiter's word: window in bits 63:24, used in bits 23:0 (`real-time.md` 3.4): the one word that several cores
    /// write. In a page of its own, mapped on the sender's cores. Doorbells that are limited together name one page, with one
    /// period and number of events; they are all those of one receiver (CH-36).
    pub words: PhysicalAddress,
    /// Limiter window in counter ticks; 0 = no limiter (`check` reports it).
    pub period_ticks: u64,
    /// Notifications let through per window.
    pub events: u32,
    /// Index of the channel, for the trace.
    pub channel: u32,
}

/// What a guest may know of one of its ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct PortInformation {
    /// Port name.
    pub name: Name,
    /// Guest address of the channel window (its layout is `bulkhead_guest_abi::channel`).
    pub window: GuestAddress,
    /// Bytes of the window.
    pub window_bytes: u64,
    /// `DIRECTION_SOURCE` or `DIRECTION_DESTINATION` of `bulkhead_guest_abi::guest`.
    pub direction: u32,
    /// `PORT_SAMPLING` or `PORT_QUEUING` of `bulkhead_guest_abi::channel`.
    pub kind: u32,
    /// Payload bytes of a message.
    pub message_bytes: u32,
    /// Slots.
    pub slots: u32,
    /// Source: argument of the doorbell hypercall, or `u32::MAX` without a doorbell.
    pub doorbell: u32,
    /// Destination: INTID of the doorbell, or 0.
    pub interrupt: u32,
}

/// Leave the partition stopped after a fault.
pub const POLICY_STOP: u32 = 1;
/// Restart it, at most `max` times within `within_ticks`, after `backoff_ticks`.
pub const POLICY_RESTART: u32 = 2;
/// Stop every partition and power the board off.
pub const POLICY_HALT: u32 = 3;

/// Most restarts that a policy's window can allow: the monitor remembers when each of them was.
pub const MAX_RESTARTS: u32 = 128;

/// Health policy of a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HealthPlan {
    /// One of the `POLICY_` constants.
    pub policy: u32,
    /// Restarts allowed within `within_ticks`.
    pub max_restarts: u32,
    /// Window of `max_restarts`, in counter ticks.
    pub within_ticks: u64,
    /// Wait before a restart, in counter ticks.
    pub backoff_ticks: u64,
    /// Watchdog period in counter ticks; 0 = none.
    pub watchdog_ticks: u64,
}

/// The partition may read status of, suspend, resume and restart others.
pub const FLAG_MANAGES: u64 = 1;
/// The partition may be managed: it is `mapped`, or below a payload on a core that EL3 brings to EL2.
#[cfg(not(target_os = "none"))]
pub const FLAG_MANAGEABLE: u64 = 2;
/// `PartitionPlan::flags`, of a `direct` partition below a payload: EL2 sends its SGIs, so that none leaves it (QV-16).
pub const FLAG_FILTERED: u64 = 4;

/// Everything the monitor knows of a partition. Mapped read-only on the partition's own cores alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct PartitionPlan {
    /// [`PARTITION_PLAN_MAGIC`].
    pub magic: u64,
    /// Index of the partition; VMID = index + 1.
    pub index: u32,
    /// [`MODE_MAPPED`] or [`MODE_DIRECT`].
    pub mode: u32,
    /// Its name.
    pub name: Name,
    /// `FLAG_` bits.
    pub flags: u64,
    /// vCPUs; vCPU 0 starts, the others wait for PSCI CPU_ON.
    pub vcpu_count: u32,
    /// Entries used in `ram`.
    pub ram_count: u32,
    /// Entries used in `segments`.
    pub segment_count: u32,
    /// Entries used in `interrupts`.
    pub interrupt_count: u32,
    /// Entries used in `windows`.
    pub window_count: u32,
    /// Entries used in `pci`.
    pub pci_count: u32,
    /// Entries used in `doorbells`.
    pub doorbell_count: u32,
    /// Highest INTID that the guest's GICD_TYPER.ITLinesNumber must cover.
    pub highest_intid: u32,
    /// MPIDR of the core that runs each vCPU.
    pub vcpu_mpidr: [u64; MAX_CORES],
    /// Core index that runs each vCPU.
    pub vcpu_core: [u32; MAX_CORES],
    /// Entry point of vCPU 0.
    pub entry: GuestAddress,
    /// x0 at entry: the device tree.
    pub device_tree: GuestAddress,
    /// Health policy.
    pub health: HealthPlan,
    /// RAM.
    pub ram: [RamRegion; MAX_RAM_REGIONS],
    /// Image segments.
    pub segments: [Segment; MAX_SEGMENTS],
    /// Shared peripheral interrupts owned, sorted by INTID.
    pub interrupts: [InterruptPlan; MAX_INTERRUPTS],
    /// Emulated windows.
    pub windows: [Window; MAX_WINDOWS],
    /// PCI functions.
    pub pci: [PciFunction; MAX_PCI_FUNCTIONS],
    /// Doorbells the partition can ring.
    pub doorbells: [DoorbellPlan; MAX_DOORBELLS],
    /// [`crate::status::ManagePage`] of each partition that may manage others, in which this partition's requests appear;
    /// zero where there is none. The own page is the one at the own index.
    pub manage: [PhysicalAddress; MAX_PARTITIONS],
    /// Status pages of the partitions this one may read (all if it manages, otherwise zero).
    pub status: [PhysicalAddress; MAX_PARTITIONS],
    /// MPIDR of vCPU 0's core of each partition, where management requests are signalled; `u64::MAX` if not manageable.
    pub lead_mpidr: [u64; MAX_PARTITIONS],
    /// Limiter of the requests to each of them, window in counter ticks; not zero if the partition manages.
    pub manage_period_ticks: u64,
    /// Requests to each of them that are let through per window.
    pub manage_events: u32,
    /// Zero.
    pub reserved: u32,
    /// Channel memory written by this partition that a restart clears: physical address and bytes.
    pub channel_clear: [RamRegion; MAX_DOORBELLS],
    /// What the guest may know of the port behind each PCI function, by function index (BAR 0 from offset 0x100).
    pub ports: [PortInformation; MAX_PCI_FUNCTIONS],
    /// Entries used in `channel_clear`.
    pub channel_clear_count: u32,
    /// Bit set of the vCPUs that run on shared cores. Their software-generated interrupts go through
    /// the monitors, because a physical one cannot say which vCPU of the core it is for.
    pub shared_vcpus: u32,
}

words! { InterruptPlan {
    /// What it does when another vCPU runs.
    route, route: RouteRule;
} }

tables! { PartitionPlan {
    /// Its RAM.
    ram, ram_count: RamRegion;
    /// The segments of its image.
    segments, segment_count: Segment;
    /// Its shared peripheral interrupts, sorted by INTID.
    interrupts, interrupt_count: InterruptPlan;
    /// Its emulated windows.
    windows, window_count: Window;
    /// Its PCI functions.
    pci, pci_count: PciFunction;
    /// The doorbells that it can ring.
    doorbells, doorbell_count: DoorbellPlan;
    /// The channel memory that a restart of it clears.
    channel_clear, channel_clear_count: RamRegion;
    /// MPIDR of the core that runs each of its vCPUs.
    vcpu_mpidr, vcpu_count: u64;
} }

const _: () = assert!(size_of::<VcpuPlan>() <= 4096, "a vCPU plan is one page");
const _: () = assert!(size_of::<PartitionPlan>() <= 4096, "a partition plan is one page");
