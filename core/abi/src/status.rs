//! Partition state as others see it, and the mailbox of a managing partition.
//!
//! Each page has one writer: a [`StatusPage`] the monitor of the partition's vCPU 0, a [`ManagePage`] the monitor of the
//! managing partition's vCPU 0. Everybody else maps it read-only. So no lock is needed and a restart costs other cores nothing.

use crate::MAX_PARTITIONS;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Nothing has run yet.
pub const STATE_INITIAL: u32 = 0;
/// The guest runs.
pub const STATE_RUNNING: u32 = 1;
/// A manager suspended it.
pub const STATE_SUSPENDED: u32 = 2;
/// The guest switched itself off (PSCI SYSTEM_OFF, or its last vCPU's CPU_OFF).
pub const STATE_OFF: u32 = 3;
/// A restart is under way (or its back-off).
pub const STATE_RESTARTING: u32 = 4;
/// Stopped by its health policy after a fault.
pub const STATE_STOPPED: u32 = 5;

/// No reason.
pub const REASON_NONE: u32 = 0;
/// Stage-2 data abort outside every window.
pub const REASON_DATA_ABORT: u32 = 1;
/// Stage-2 instruction abort.
pub const REASON_INSTRUCTION_ABORT: u32 = 2;
/// An exception class that the monitor does not answer. None has this today.
#[cfg(not(target_os = "none"))]
pub const REASON_UNKNOWN_EXCEPTION: u32 = 3;
/// A call that this partition may not make and that its policy treats as a fault. None is one today.
#[cfg(not(target_os = "none"))]
pub const REASON_FORBIDDEN_CALL: u32 = 4;
/// No heartbeat within the watchdog period.
pub const REASON_WATCHDOG: u32 = 5;
/// The guest asked for it (PSCI SYSTEM_RESET).
pub const REASON_REQUESTED: u32 = 6;
/// A managing partition asked for it.
pub const REASON_MANAGED: u32 = 7;
/// A physical SError arrived while the guest ran.
pub const REASON_SERROR: u32 = 8;
/// The pristine image failed its CRC; the partition cannot be restarted.
pub const REASON_IMAGE_DAMAGED: u32 = 9;
/// An access to an emulated window that the monitor cannot decode (no syndrome) or that is outside its rules.
pub const REASON_BAD_ACCESS: u32 = 10;

/// A core of the partition did not stop when asked, so the partition is not started again.
pub const REASON_CORE_STUCK: u32 = 11;
/// A PCI function of the partition is not there, or the SMMU is not: the partition is not started.
#[cfg(feature = "devices")]
pub const REASON_DEVICE_MISSING: u32 = 12;
/// A PCI function of the partition did not become silent or end its reset, so the partition is not started again.
#[cfg(feature = "devices")]
pub const REASON_DEVICE_STUCK: u32 = 13;
/// A PCI function of the partition tried to reach memory that is not the partition's.
#[cfg(feature = "devices")]
pub const REASON_DMA: u32 = 14;
/// The partition was started although the back end of its fronts of virtio had not left the pool.
#[cfg(feature = "devices")]
pub const REASON_BACK_END_BUSY: u32 = 15;

/// What a fault was, for the health policy's record and for the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct FaultRecord {
    /// One of the `REASON_` constants.
    pub reason: u32,
    /// vCPU it happened on.
    pub vcpu: u32,
    /// ESR_EL2.
    pub syndrome: u64,
    /// FAR_EL2.
    pub virtual_address: u64,
    /// Guest-physical address from HPFAR_EL2 (page) and FAR_EL2 (offset).
    pub guest_address: u64,
    /// ELR_EL2.
    pub program_counter: u64,
    /// CNTPCT_EL0.
    pub time_ticks: u64,
}

/// State of one partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct StatusPage {
    /// One of the `STATE_` constants. Written last, with release order.
    pub state: u32,
    /// Why it is in this state.
    pub reason: u32,
    /// Times started, first start included; a peer sees a restart as a change of this word.
    pub generation: u32,
    /// Restarts done.
    pub restarts: u32,
    /// Heartbeats received.
    pub heartbeats: u64,
    /// Faults recorded.
    pub faults: u64,
    /// The latest fault.
    pub fault: FaultRecord,
    /// Progress without cooperation, sampled by the watchdog: exits, interrupts, program counter at the last sample.
    pub sampled_exits: u64,
    /// Interrupts delivered at the last sample.
    pub sampled_interrupts: u64,
    /// Program counter at the last sample.
    pub sampled_program_counter: u64,
    /// CNTPCT_EL0 at the last start.
    pub started_ticks: u64,
    /// CNTPCT_EL0 when the guest of the latest restart was entered minus when its fault was taken.
    pub restart_ticks: u64,
    /// Calls answered "not supported" or "denied".
    pub denied_calls: u64,
    /// Times that this partition gave the console focus to the next one. The focus is at the partition whose place in the
    /// ring of consoles is the sum of all these words modulo the length of the ring.
    pub focus_given: u32,
    /// Times that the UART's interrupt was handed over between this partition and another one ([`crate::plan::VcpuPlan::handed_status`]):
    /// by the core that hands it over, and, of those, how many the other one has done with.
    pub input_handed: u32,
    /// The partition's name.
    pub name: crate::Name,
    /// What the SMMU refused to its PCI functions.
    #[cfg(feature = "devices")]
    pub dma: DmaRecord,
    /// Starts for which the back end of its fronts of virtio had not left the pool in time.
    #[cfg(feature = "devices")]
    pub back_end_busy: u32,
    /// Zero.
    #[cfg(feature = "devices")]
    pub reserved: u32,
}

/// Refused DMA of a partition's PCI functions, as far as it was seen; it counts from boot on.
#[cfg(feature = "devices")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DmaRecord {
    /// Events of own functions.
    pub events: u64,
    /// Looks before which events were lost, own ones perhaps among them.
    pub lost: u64,
    /// First word of the latest own event: type in bits 7:0, StreamID in bits 63:32.
    pub latest: u64,
    /// The address that it was about.
    pub address: u64,
}

/// Suspend the partition.
pub const MANAGE_SUSPEND: u32 = 1;
/// Let a suspended partition continue.
pub const MANAGE_RESUME: u32 = 2;
/// Restart it from its pristine image, whatever its state; does not count against its policy.
pub const MANAGE_RESTART: u32 = 3;

/// Returns the word that follows `before` in a [`ManagePage`] when `request` is posted: restarts asked for so far in bits
/// 63:40, all requests in bits 39:8, the latest request in bits 7:0.
#[must_use]
pub const fn next_request(before: u64, request: u32) -> u64 {
    let restarts = (before >> 40).wrapping_add((request == MANAGE_RESTART) as u64);
    let requests = (before >> 8).wrapping_add(1) & 0xffff_ffff;
    restarts << 40 | requests << 8 | (request & 0xff) as u64
}

/// States whether a restart was among what was posted from `before` to `now`.
#[must_use]
pub const fn asks_for_restart(before: u64, now: u64) -> bool {
    before >> 40 != now >> 40
}

/// Requests of one managing partition: `requests[target]` holds a word of [`next_request`], `limits[target]` the words of
/// their limiters ([`crate::plan::PartitionPlan::manage_period_ticks`]).
///
/// The target's monitor compares with the word that it saw last, so a request is served once. Several that it sees together
/// come to what they come to one after the other: a restart, if there was one, and then the last request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ManagePage {
    /// One word per target partition.
    pub requests: [u64; MAX_PARTITIONS],
    /// One word per target partition: window in bits 63:24, used in bits 23:0, as of a doorbell's limiter.
    pub limits: [u64; MAX_PARTITIONS],
}
