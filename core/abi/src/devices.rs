//! PCI functions of partitions: what the boot core and the owners do with them, decided on the host.
//!
//! No driver runs at EL2. What is to be done to the SMMU and to the functions, at boot and when a partition starts again, are
//! [`Step`]s: the host writes them, `bulkhead verify` executes them on a model of the registers, the monitor only obeys
//! (`devices.md` section 4). Read by the part `devices` of the monitor alone.
//!
//! A script has at most [`MAX_STEPS`] steps, so each is bounded by what its waits say. The rejected alternative, one function of
//! code for each kind of device, puts a driver at EL2 for each and shows nothing before boot.

use crate::plan::MAX_PCI_FUNCTIONS;
use crate::readers::tables;
use crate::virtio::FrontPlan;
use crate::{GuestAddress, PhysicalAddress};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// First eight bytes of a device plan.
#[cfg(not(target_os = "none"))]
pub const DEVICE_PLAN_MAGIC: u64 = u64::from_le_bytes(*b"BHDEVS01");
/// First eight bytes of the scripts of the boot core.
#[cfg(not(target_os = "none"))]
pub const BOOT_DEVICES_MAGIC: u64 = u64::from_le_bytes(*b"BHDBOOT1");

/// Most steps of a script.
pub const MAX_STEPS: usize = 64;
/// Most scripts of the boot core.
pub const MAX_BOOT_SCRIPTS: usize = 24;
/// Most steps of all scripts of the boot core together.
pub const MAX_BOOT_STEPS: usize = 240;
/// Most fronts of virtio devices that a partition has.
pub const MAX_FRONTS: usize = 4;
/// Words of the configuration space of such a device: [`crate::virtio::NetConfiguration`] or [`crate::virtio::BlockConfiguration`].
pub const CONFIGURATION_WORDS: usize = 4;
/// Most base address registers of a function.
pub const MAX_BARS: usize = 6;
/// Words of a function's header: the first 256 bytes of its configuration space.
pub const HEADER_WORDS: usize = 64;
/// Entries of the SMMU's event queue, a power of two.
pub const EVENT_ENTRIES: u32 = 256;
/// Bytes of one of them.
pub const EVENT_BYTES: u64 = 32;
/// Most entries that one look takes.
pub const EVENTS_PER_LOOK: u32 = 16;

/// Write the value.
pub const STEP_WRITE: u16 = 1;
/// Write what was read, with the bits of the mask from the value.
pub const STEP_UPDATE: u16 = 2;
/// Read until the bits of the mask are those of the value, at most `limit` times.
pub const STEP_WAIT: u16 = 3;
/// Read once: the bits of the mask are those of the value.
pub const STEP_EXPECT: u16 = 4;
/// Let `value` ticks of the counter pass.
pub const STEP_DELAY: u16 = 5;

/// A step of a script: one thing done to one register.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Step {
    /// One of the `STEP_` constants.
    pub operation: u16,
    /// Bytes of the access: 1, 2, 4 or 8; of a delay 0.
    pub width: u16,
    /// Most reads of a wait; otherwise 0.
    pub limit: u32,
    /// The register, aligned to its width; of a delay 0.
    pub address: PhysicalAddress,
    /// Bits that count, of an update, a wait or an expectation; otherwise 0.
    pub mask: u64,
    /// What is written or looked for, or ticks.
    pub value: u64,
}

/// The memory or the registers behind one base address register of a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Bar {
    /// Where the guest sees it, which its header says.
    pub guest: GuestAddress,
    /// Where it is, which the function's own register says.
    pub physical: PhysicalAddress,
    /// Bytes, a power of two; 0 for none. What is behind it has whole pages of its own.
    pub bytes: u64,
}

/// What is behind a function of [`crate::plan::PCI_DEVICE`], at the function's own index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DeviceFunction {
    /// Its page of configuration space; zero for a function that is no device.
    pub configuration: PhysicalAddress,
    /// StreamID of its DMA: bus, device and function.
    pub stream: u32,
    /// Where Device Control is in its configuration space, by which scripts reset it; 0 for a function with another reset, or none. For `verify` alone.
    pub device_control: u32,
    /// What its guest reads where no register is live: identity, class, base addresses, capabilities. Little-endian words.
    pub header: [u32; HEADER_WORDS],
    /// What is behind its base address registers, by register; the upper half of a wide one has none of its own.
    pub bars: [Bar; MAX_BARS],
}

/// The front of a virtio device whose back end is another partition. Its trapped registers are the [`crate::plan::Window`] of kind
/// [`crate::plan::WINDOW_VIRTIO`] with this front's index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DeviceFront {
    /// The device page ([`crate::virtio`]), Normal non-cacheable at every end: the guest sees it in the page behind its trapped registers,
    /// the back end in front of the pool.
    pub page: PhysicalAddress,
    /// What the trapped registers answer.
    pub plan: FrontPlan,
    /// What a restart writes to the cleared page at [`crate::virtio::CONFIGURATION`], little-endian. Beside it
    /// [`crate::virtio::INTERRUPT_STATUS`] becomes [`crate::virtio::INTERRUPT_USED`], and nothing else.
    pub configuration: [u32; CONFIGURATION_WORDS],
}

/// The devices of a partition. Two pages, mapped read-only on the partition's own cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DevicePlan {
    /// [`DEVICE_PLAN_MAGIC`].
    pub magic: u64,
    /// Page 1 of the SMMU's registers, where the owner moves the consumer's index of the event queue; zero if it does not look.
    pub event_registers: PhysicalAddress,
    /// The event queue: [`EVENT_ENTRIES`] of [`EVENT_BYTES`], mapped read-only on cores that look.
    pub events: PhysicalAddress,
    /// The owner looks this often, in counter ticks; 0 = never.
    pub poll_ticks: u64,
    /// 1: the first event of an own stream is a fault of the partition; 0: events are counted.
    pub events_are_faults: u32,
    /// Steps at the front of `quiesce` that silence the functions: they run as soon as the partition stops.
    pub silence_count: u32,
    /// Steps used in `quiesce`.
    pub step_count: u32,
    /// Entries used in `fronts`.
    pub front_count: u32,
    /// Memory that all fronts of the partition share with their one back end, Normal non-cacheable at every end; zero without fronts. A
    /// restart clears it when every front was stopped and left.
    pub pool: PhysicalAddress,
    /// Bytes of it, whole pages.
    pub pool_bytes: u64,
    /// Longest wait of a restart for the back end to leave the pool, before it is cleared all the same, in counter ticks.
    pub leave_ticks: u64,
    /// Fronts of virtio devices.
    pub fronts: [DeviceFront; MAX_FRONTS],
    /// What is done to the functions before the memory of the partition is: silenced, reset, and given back their places.
    pub quiesce: [Step; MAX_STEPS],
    /// The functions, by their index in [`crate::plan::PartitionPlan::pci`].
    pub functions: [DeviceFunction; MAX_PCI_FUNCTIONS],
}

/// The script is about all functions: if it fails, none may master the bus, and partitions with functions stay stopped.
pub const ALL_PARTITIONS: u32 = u32::MAX;

/// A script of the boot core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct BootScript {
    /// Its first step in [`BootDevices::steps`].
    pub first: u32,
    /// Its steps, at most [`MAX_STEPS`].
    pub count: u32,
    /// The partition that is stopped if it fails, or [`ALL_PARTITIONS`].
    pub partition: u32,
    /// Zero.
    pub reserved: u32,
}

/// What the boot core does before it starts another one, script after script. Two pages, mapped read-only on that core alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct BootDevices {
    /// [`BOOT_DEVICES_MAGIC`].
    pub magic: u64,
    /// Scripts used in `scripts`.
    pub script_count: u32,
    /// Steps used in `steps`.
    pub step_count: u32,
    /// The scripts in their order.
    pub scripts: [BootScript; MAX_BOOT_SCRIPTS],
    /// Their steps.
    pub steps: [Step; MAX_BOOT_STEPS],
}

tables! { DevicePlan {
    /// Its fronts of virtio devices, by the index of their windows.
    fronts, front_count: DeviceFront;
    /// What is done to the functions before the memory of the partition is.
    quiesce, step_count: Step;
} }

tables! { BootDevices {
    /// The scripts in their order.
    scripts, script_count: BootScript;
    /// The steps of all scripts.
    steps, step_count: Step;
} }

impl BootDevices {
    /// The steps of a script; none if the script is not within the plan.
    #[must_use]
    pub fn steps_of(&self, script: &BootScript) -> &[Step] {
        let rest = self.steps().get(script.first as usize..).unwrap_or(&[]);
        rest.get(..script.count as usize).unwrap_or(&[])
    }
}

const _: () = assert!(size_of::<Step>() == 32, "a step is half of a cache line");
const _: () = assert!(
    size_of::<crate::virtio::BlockConfiguration>() == CONFIGURATION_WORDS * 4
        && size_of::<crate::virtio::NetConfiguration>() <= CONFIGURATION_WORDS * 4
);
const _: () = assert!(size_of::<DevicePlan>() <= 2 * 4096, "a device plan is two pages");
const _: () = assert!(size_of::<BootDevices>() <= 2 * 4096, "the scripts of the boot core are two pages");
