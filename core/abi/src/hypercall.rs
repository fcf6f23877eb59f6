//! Calls of guests: numbers and answers (SMC Calling Convention, Arm DEN 0028).
//!
//! Bulkhead's own calls are fast 64-bit calls in the vendor-specific hypervisor range; HVC and SMC are the same. PSCI is
//! answered as Arm DEN 0022 says. Everything else gets [`NOT_SUPPORTED`]. Two more are the monitor's to make, where EL3 has a payload.

/// SMCCC answer "not supported" (-1).
pub const NOT_SUPPORTED: u64 = u64::MAX;
/// The partition may not do this (-3, the value PSCI uses too).
pub const DENIED: u64 = (-3i64) as u64;
/// An argument is out of range (-2, as in PSCI).
pub const INVALID_PARAMETERS: u64 = (-2i64) as u64;
/// Done.
pub const SUCCESS: u64 = 0;
/// The doorbell's limiter held the notification back; the data stays in the channel. Or: the manager has made as many requests
/// to this partition as the window allows, and this one was not posted.
pub const LIMITED: u64 = 1;

/// `() -> ABI version`. Also the null call whose round trip is measured.
pub const CALL_VERSION: u64 = 0xc600_0000;
/// `() -> SUCCESS`: resets the watchdog.
pub const CALL_HEARTBEAT: u64 = 0xc600_0001;
/// `(doorbell) -> SUCCESS | LIMITED | INVALID_PARAMETERS`.
pub const CALL_DOORBELL: u64 = 0xc600_0002;
/// `(partition) -> x0 = SUCCESS, x1 = state, x2 = reason, x3 = generation`; needs `manages` or the own index.
pub const CALL_PARTITION_STATUS: u64 = 0xc600_0010;
/// `(partition) -> SUCCESS` once the request is posted; LIMITED when there were too many before it.
pub const CALL_PARTITION_SUSPEND: u64 = 0xc600_0011;
/// As [`CALL_PARTITION_SUSPEND`].
pub const CALL_PARTITION_RESUME: u64 = 0xc600_0012;
/// As [`CALL_PARTITION_SUSPEND`].
pub const CALL_PARTITION_RESTART: u64 = 0xc600_0013;

/// `(core) -> SUCCESS`: the core leaves what it does below EL2 and comes to its EL2 as if by an interrupt, whatever is masked there.
/// For EL2 alone, towards cores that the plan names. An id of the platform (DEN 0028, table 2-1), because EL3 answers it.
pub const CALL_KICK: u64 = 0xc300_0000;
/// `(ticks of the counter) -> SUCCESS`: the caller's core is kicked when they are over, unless it was before. Too few and too many are
/// brought into the plan's limits. For EL2 alone, on cores without a payload; each kick ends it.
pub const CALL_WATCH: u64 = 0xc300_0001;

/// Registers of the management PCI function (BAR 0), for programs that run at EL0 and cannot make hypercalls.
///
/// All are 32-bit. Write SELECT, then read the other registers of that partition or write COMMAND.
pub mod management {
    /// Magic `BHMG` (read).
    pub const MAGIC: u64 = 0x00;
    /// Partitions in the system (read; 1 when the guest may not manage others: itself).
    pub const COUNT: u64 = 0x04;
    /// Selected partition (read, write).
    pub const SELECT: u64 = 0x08;
    /// State of the selected partition (read).
    pub const STATE: u64 = 0x0c;
    /// Reason (read).
    pub const REASON: u64 = 0x10;
    /// Generation (read).
    pub const GENERATION: u64 = 0x14;
    /// `MANAGE_*` command (write); the answer is in RESULT.
    pub const COMMAND: u64 = 0x18;
    /// Answer of the latest command as a 32-bit SMCCC value (read).
    pub const RESULT: u64 = 0x1c;
    /// A write of any value is a heartbeat of this partition.
    pub const HEARTBEAT: u64 = 0x20;
    /// Index of the own partition (read).
    pub const OWN: u64 = 0x24;
    /// Restarts of the selected partition (read).
    pub const RESTARTS: u64 = 0x28;
    /// Name of the selected partition, 32 bytes from here (read).
    pub const NAME: u64 = 0x40;
    /// Value of MAGIC: `BHMG`.
    pub const MAGIC_VALUE: u32 = u32::from_le_bytes(*b"BHMG");
}
