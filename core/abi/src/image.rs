//! Head of an image: one page that follows the monitor's read-only data.
//!
//! The boot code of every core finds its own [`CoreBoot`] here by MPIDR before the MMU is on, so the fields it reads sit at
//! offsets that the assembly takes as constants from these types. The host reads the same page in the RAM file to find
//! rings, counters and status pages.

use crate::readers::tables;
use crate::{MAX_CORES, MAX_PARTITIONS, Name, PhysicalAddress};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// First eight bytes of an image header: `BULKHEAD`.
pub const IMAGE_MAGIC: u64 = u64::from_le_bytes(*b"BULKHEAD");

/// Most banks of RAM.
pub const MAX_BANKS: usize = 4;

/// Most regions inside the banks that are in nobody's map.
pub const MAX_RESERVED: usize = 16;

/// A bank of RAM, or a part of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RamBank {
    /// First byte.
    pub start: PhysicalAddress,
    /// Bytes, whole pages.
    pub bytes: u64,
}

/// Where one core's boot code finds its stack, tables and plan. All addresses are physical (the EL2 map is identity).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct CoreBoot {
    /// MPIDR_EL1 affinity fields of the core.
    pub mpidr: u64,
    /// Type of the core: implementer and part number of MIDR_EL1, the other fields zero.
    pub midr: u64,
    /// Root of the core's EL2 stage-1 table: of level 1 or 0, by TCR_EL2.T0SZ in [`ImageHeader::tcr`].
    pub el2_root: PhysicalAddress,
    /// One past the highest byte of the core's stack; the page below the stack is not mapped.
    pub stack_top: PhysicalAddress,
    /// The [`crate::plan::VcpuPlan`] of the core's only vCPU, or of slot 0 of a shared core.
    pub plan: PhysicalAddress,
    /// The core's private data, zeroed by boot code: a page per vCPU, then the scheduler of a shared core.
    pub data: PhysicalAddress,
    /// Bytes of private data.
    pub data_bytes: u64,
    /// The [`crate::observe::CounterPage`] of the vCPU named by `plan`.
    pub counters: PhysicalAddress,
    /// The core's [`crate::schedule::SchedulePlan`]; zero when one vCPU owns the core.
    pub schedule: PhysicalAddress,
    /// The core's [`crate::observe::TraceHeader`], followed by its records.
    pub trace: PhysicalAddress,
    /// Bytes of the trace ring, header page included.
    pub trace_bytes: u64,
}

/// What the host needs to know of a partition to observe it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct PartitionEntry {
    /// The partition's name.
    pub name: Name,
    /// Its [`crate::plan::PartitionPlan`].
    pub plan: PhysicalAddress,
    /// Its [`crate::status::StatusPage`].
    pub status: PhysicalAddress,
    /// Root of its stage-2 table (level 1, 39-bit guest addresses).
    pub stage2_root: PhysicalAddress,
    /// Counters of each vCPU.
    pub vcpu_counters: [PhysicalAddress; MAX_CORES],
    /// Console rings that the monitor writes, one per vCPU (virtual PL011); zero where absent.
    pub vcpu_console: [PhysicalAddress; MAX_CORES],
    /// Console ring that the guest writes itself (native guests); zero where absent.
    pub guest_console: PhysicalAddress,
    /// Bytes of each of these rings, header included.
    pub console_bytes: u64,
}

/// The image header. `header_crc` covers this struct with `header_crc` itself as zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ImageHeader {
    /// [`IMAGE_MAGIC`].
    pub magic: u64,
    /// [`crate::ABI_VERSION`].
    pub abi_version: u32,
    /// CRC-32C of this struct with this field zero.
    pub header_crc: u32,
    /// Where the image must be loaded (its first byte, the arm64 Image header).
    pub image_start: PhysicalAddress,
    /// Bytes of the file that the plan filled. Behind them it has zeros, up to `memory_bytes`.
    pub image_bytes: u64,
    /// Bytes from `image_start` that belong to the monitor in all, and bytes of the file: stacks, states, rings and channels
    /// begin as zeros, which no boot loader would write by itself.
    pub memory_bytes: u64,
    /// First byte of monitor text (read, execute on every core); equals `image_start`.
    pub text: PhysicalAddress,
    /// Bytes of text, whole pages.
    pub text_bytes: u64,
    /// First byte of monitor read-only data.
    pub rodata: PhysicalAddress,
    /// Bytes of read-only data, whole pages.
    pub rodata_bytes: u64,
    /// First byte of the plan area: core plans, partition plans, guest information pages, translation tables.
    pub plan: PhysicalAddress,
    /// Bytes of the plan area, whole pages, covered by `plan_crc`.
    pub plan_bytes: u64,
    /// CRC-32C of the plan area.
    pub plan_crc: u32,
    /// Cores in use, at most [`MAX_CORES`].
    pub core_count: u32,
    /// Partitions, at most [`MAX_PARTITIONS`].
    pub partition_count: u32,
    /// Index in `cores` of the core that starts the others.
    pub boot_core: u32,
    /// CRC-32C of everything in front of this page: text and read-only data.
    pub text_crc: u32,
    /// The monitor's [`crate::Part`], by its number.
    pub part: u32,
    /// CNTFRQ_EL0 of the board in Hz.
    pub counter_hz: u64,
    /// Banks of RAM that the plan may use, by address; unused entries are zero.
    pub banks: [RamBank; MAX_BANKS],
    /// Memory inside the banks that is in nobody's map; unused entries are zero.
    pub reserved: [RamBank; MAX_RESERVED],
    /// Entries used in `banks`.
    pub bank_count: u32,
    /// Entries used in `reserved`.
    pub reserved_count: u32,
    /// Bits of a physical address, as the board file says it.
    pub physical_address_bits: u32,
    /// Security states of the interrupt controller, 1 or 2.
    pub security_states: u32,
    /// TCR_EL2 of every core: how many bits the addresses have that its map takes and gives.
    pub tcr: u64,
    /// MAIR_EL2 of every core: what the indices mean that the descriptors of its map have.
    pub mair: u64,
    /// Name of the board.
    pub board: Name,
    /// Distributor, for the boot core, which sets it up once before it starts the others.
    pub gicd: PhysicalAddress,
    /// GICD_ICFGR words to write at boot, by register index (INTID / 16); words 0 and 1 are unused.
    pub gicd_icfgr: [u32; 16],
    /// SHA-256 of the system description and board file the image was built from.
    pub source_hash: [u8; 32],
    /// Boot facts per core; unused entries are zero.
    pub cores: [CoreBoot; MAX_CORES],
    /// Observation facts per partition; unused entries are zero.
    pub partitions: [PartitionEntry; MAX_PARTITIONS],
}

tables! { ImageHeader {
    /// Boot facts of the cores in use.
    cores, core_count: CoreBoot;
    /// Observation facts of the partitions.
    partitions, partition_count: PartitionEntry;
    /// Banks of RAM that the plan may use, by address.
    banks, bank_count: RamBank;
    /// Memory inside the banks that is in nobody's map.
    reserved, reserved_count: RamBank;
} }

const _: () = assert!(size_of::<ImageHeader>() <= 4096, "the image header is one page");

/// Bytes that the arm64 boot protocol puts at the front of an Image (Linux `Documentation/arm64/booting.rst`).
#[cfg(not(target_os = "none"))]
pub const ARM64_IMAGE_HEADER_BYTES: usize = 64;
/// Byte offset of `text_offset` in that header: how far from the start of RAM the image is loaded. The planner writes it into the
/// monitor's text, which is the same at every address; boot loaders (QEMU, U-Boot's `booti`) act on it.
#[cfg(not(target_os = "none"))]
pub const ARM64_IMAGE_PLACE_OFFSET: usize = 8;
/// Byte offset of the size in memory in that header, which is that of the file. The planner writes it, too: U-Boot moves that many
/// bytes to where the image runs, and puts nothing of its own there.
#[cfg(not(target_os = "none"))]
pub const ARM64_IMAGE_SIZE_OFFSET: usize = 16;
/// Magic number at byte 56 of an arm64 Image: `ARM\x64`.
#[cfg(not(target_os = "none"))]
pub const ARM64_IMAGE_MAGIC: u32 = 0x644d_5241;

/// Bytes of a core's stack; the page below it is not mapped on that core. The scheduler of a shared core is made on the
/// stack at boot and then moved to its place, which takes a larger one.
#[cfg(not(target_os = "none"))]
#[must_use]
pub const fn stack_bytes(is_shared: bool) -> u64 {
    if is_shared { 96 << 10 } else { 4 << 10 }
}
