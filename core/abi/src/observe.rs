//! Counters, trace records and the crash record: words in RAM with one writer each, read live by the host.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// First eight bytes of a counter page.
pub const COUNTERS_MAGIC: u64 = u64::from_le_bytes(*b"BHCOUNT1");
/// First eight bytes of a trace ring.
pub const TRACE_MAGIC: u64 = u64::from_le_bytes(*b"BHTRACE1");

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident = $index:literal, $text:literal;)*) => {
        /// What a counter counts. The number is its index in [`CounterPage::values`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Counter { $($(#[$doc])* $name = $index,)* }

        /// Every counter with the name shown to people.
        #[cfg(not(target_os = "none"))]
        pub const COUNTER_NAMES: &[(Counter, &str)] = &[$((Counter::$name, $text),)*];
    };
}

counters! {
    /// Exits that are no call (HVC, SMC) of the guest's own, summed over reasons: the "stolen" ones.
    Exits = 0, "exits";
    /// Physical interrupts taken at EL2.
    Interrupt = 1, "interrupts";
    /// Physical interrupts at EL2 that had no owner or were the monitor's own.
    MonitorInterrupt = 2, "monitor interrupts";
    /// HVC instructions that are Bulkhead hypercalls.
    Hypercall = 3, "hypercalls";
    /// PSCI and SMCCC calls, by HVC or SMC.
    Psci = 4, "PSCI calls";
    /// Calls answered "not supported" or "denied".
    DeniedCall = 5, "denied calls";
    /// Trapped system register accesses that were answered.
    SystemRegister = 6, "system registers";
    /// ICC_SGI1R_EL1 writes.
    SendSgi = 7, "SGI sends";
    /// Targets of SGI sends outside the partition, not delivered.
    SgiOutside = 8, "SGI targets refused";
    /// Distributor accesses.
    Distributor = 9, "GICD accesses";
    /// Redistributor accesses.
    Redistributor = 10, "GICR accesses";
    /// Guest writes to interrupts it does not own or to frozen registers, compared and ignored.
    GicIgnored = 11, "GIC writes ignored";
    /// Virtual PL011 accesses.
    Console = 12, "PL011 accesses";
    /// PCI configuration accesses.
    PciConfig = 13, "PCI config accesses";
    /// Accesses to registers of PCI functions (BAR 0), and to trapped ones of fronts of virtio.
    PciRegisters = 14, "PCI register accesses";
    /// UNDEFINED exceptions injected into the guest.
    UndefinedInjected = 15, "UNDEF injected";
    /// Set/way cache maintenance turned into nothing.
    SetWay = 16, "set/way ignored";
    /// Faults that went to the health policy.
    Fault = 17, "faults";
    /// Doorbells rung and let through.
    DoorbellSent = 18, "doorbells sent";
    /// Doorbells refused by the limiter.
    DoorbellLimited = 19, "doorbells limited";
    /// Interrupts that waited because all list registers were in use.
    ListRegisterFull = 20, "list registers full";
    /// Maintenance interrupts.
    Maintenance = 21, "maintenance interrupts";
    /// Watchdog expirations examined.
    Watchdog = 23, "watchdog checks";
    /// Heartbeats received.
    Heartbeat = 24, "heartbeats";
    /// Restarts done by this core.
    Restart = 25, "restarts";
    /// Trace records written.
    TraceRecord = 26, "trace records";
    /// Doorbells received (seen by the monitor in `mapped` mode).
    DoorbellReceived = 27, "doorbells received";
    /// WFI instructions that gave a shared core away.
    WaitForInterrupt = 28, "WFI exits";
    /// Floating-point registers fetched at their first use on a shared core.
    FloatingPoint = 29, "FP switches";
    /// Bytes of console input that came for the partition.
    ConsoleReceived = 30, "input bytes";
    /// Bytes of them that its guest has read from its virtual UART.
    ConsoleRead = 31, "input bytes read";
    /// Bytes of them that were dropped: they found the virtual UART's FIFO full, or the partition was restarted before it read them.
    ConsoleLost = 32, "input bytes lost";
    /// Interrupts that arrived before their guest had ended them: a `direct` guest has taken their active state (part `hybrid`).
    ArrivedAgain = 33, "repeated arrivals";
}

/// Slots in a counter page.
pub const COUNTER_SLOTS: usize = 64;

/// Counters of one core, followed by its crash record. Written by that core's monitor alone.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct CounterPage {
    /// [`COUNTERS_MAGIC`].
    pub magic: u64,
    /// 1 once the core's monitor has checked its plan, 2 once its guest was entered, 3 while it waits for CPU_ON.
    pub phase: u64,
    /// CNTPCT_EL0 when the core's guest was first entered.
    pub entered_ticks: u64,
    /// Zero.
    pub reserved: u64,
    /// Values by [`Counter`].
    pub values: [u64; COUNTER_SLOTS],
    /// What is left when the monitor itself fails.
    pub crash: CrashRecord,
}

/// The record is valid.
pub const CRASH_MAGIC: u64 = u64::from_le_bytes(*b"BHCRASH1");
/// An exception was taken from EL2 itself.
pub const CRASH_EXCEPTION: u64 = 1;
/// A Rust panic in the monitor.
pub const CRASH_PANIC: u64 = 2;
/// The image header or plan failed its check at boot.
pub const CRASH_BAD_PLAN: u64 = 3;
/// The interrupt controller has not the security states that the board file says. The record's `detail` is how many it has, or 0
/// when what answers at its address is no GICv3.
pub const CRASH_SECURITY_STATES: u64 = 4;
/// An interrupt of the plan is not EL2's to set: firmware kept it for the secure world, or the interrupt controller has none of that
/// number. The record's `detail` is its INTID, 1023 when it is the priority mask that firmware keeps, or
/// 8192 when message-signalled interrupts, which redistributors keep in memory, cannot be switched off.
pub const CRASH_INTERRUPT: u64 = 5;
/// The core is of another type than the plan says. The record's `detail` is MIDR_EL1.
pub const CRASH_CORE_TYPE: u64 = 6;
/// The core has fewer bits of a physical address than the plan says. The record's `detail` is ID_AA64MMFR0_EL1.
pub const CRASH_ADDRESS_BITS: u64 = 7;
/// The core's cache lines or blocks of DC ZVA are none that the monitor can clear memory by. The record's `detail` is DCZID_EL0, with
/// CTR_EL0 in its upper half.
pub const CRASH_CACHE_LINES: u64 = 8;
/// A script of the boot core failed that is about all PCI functions: they are off, and partitions without functions run. The detail is
/// the script's number, and the step's in bits 63:32.
#[cfg(feature = "devices")]
pub const CRASH_DEVICES: u64 = 9;

/// What is left when a monitor fails: nothing else of the machine is touched by it.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct CrashRecord {
    /// [`CRASH_MAGIC`] when valid; written last.
    pub magic: u64,
    /// One of the `CRASH_` kinds.
    pub kind: u64,
    /// ESR_EL2.
    pub syndrome: u64,
    /// FAR_EL2.
    pub address: u64,
    /// ELR_EL2, or the caller of the panic.
    pub program_counter: u64,
    /// What the kind says: of an exception the number of its vector, of a bad plan the slot of a shared core or 0.
    pub detail: u64,
    /// Source line of a panic.
    pub line: u64,
    /// Source file of a panic, cut at the front.
    pub file: [u8; 64],
}

/// Head of a trace ring: one page; the records follow.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct TraceHeader {
    /// [`TRACE_MAGIC`].
    pub magic: u64,
    /// Records that fit, a power of two.
    pub capacity: u64,
    /// Records written since boot; record `n` sits at `n % capacity`. Stored after the record, with release order.
    pub written: u64,
    /// 1 while recording is on.
    pub enabled: u64,
}

/// Bytes from the header to the first record.
pub const TRACE_HEADER_BYTES: u64 = 4096;

/// One trace record, 32 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct TraceRecord {
    /// CNTPCT_EL0.
    pub time_ticks: u64,
    /// One of the `TRACE_` kinds.
    pub kind: u16,
    /// Core index.
    pub core: u8,
    /// Partition index.
    pub partition: u8,
    /// Kind-specific small argument (exit class, INTID, function id, state).
    pub small: u32,
    /// Kind-specific argument.
    pub first: u64,
    /// Kind-specific argument.
    pub second: u64,
}

/// A guest was entered for the first time since start or restart; `first` = entry point.
pub const TRACE_GUEST_START: u16 = 1;
/// Synchronous exit that is no call; `first` = ESR_EL2, `second` = ELR_EL2.
pub const TRACE_EXIT: u16 = 2;
/// Physical interrupt; `small` = INTID; `partition` = its owner; `first` = 1 if the owner does not run and it waits.
pub const TRACE_INTERRUPT: u16 = 3;
/// State change; `small` = new state, `first` = reason.
pub const TRACE_STATE: u16 = 4;
/// Doorbell; `small` = channel, `first` = 1 if let through.
pub const TRACE_DOORBELL: u16 = 5;
/// Call by HVC or SMC; `first` = function, `second` = x1.
pub const TRACE_CALL: u16 = 7;
/// Fault; `small` = reason, `first` = ESR_EL2, `second` = guest address.
pub const TRACE_FAULT: u16 = 6;

/// A shared core starts to run somebody else; `partition` = who starts, 0xff for nobody (idle); `small` = slot, server << 8,
/// background << 16; `first` = budget in hand in ticks (all ones: unlimited); `second` = when it is asked again.
pub const TRACE_SWITCH: u16 = 8;
/// A vCPU of a shared core becomes ready; `partition` = its partition; `small` = INTID, or 0; `first` = slot.
pub const TRACE_WAKE: u16 = 9;
/// A vCPU of a shared core has nothing to do; `small` = slot.
pub const TRACE_BLOCK: u16 = 10;
/// The budget of a server ran out (`first` = 1) or came back (`first` = 2); `small` = server, `second` = budget in hand.
pub const TRACE_BUDGET: u16 = 11;
/// Before each decision of a shared core: who ran was charged until `second`, since the last such instant; unless `first` is not 0: then
/// only from `first` on, and the server `small` paid for the loading until then, as it ran last. Ticks, as in the accounts.
pub const TRACE_CHARGE: u16 = 12;

const _: () = assert!(size_of::<TraceRecord>() == 32);
const _: () = assert!(size_of::<CounterPage>() <= 4096);
