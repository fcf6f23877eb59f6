//! PCI functions: what a board can have behind its host bridge, and what a description gives to whom.

use super::Bank;
use alloc::{string::String, vec::Vec};
use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::devices::{HEADER_WORDS, MAX_BARS};

/// The host bridge of a board, what confines the functions behind it, and which functions there can be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PciHost {
    /// Configuration space (ECAM) of bus 0.
    pub configuration: PhysicalAddress,
    /// Buses that a plan uses: bus 0, and one for each root port.
    pub buses: u32,
    /// The window of 32-bit addresses where base address registers may point.
    pub window: Bank,
    /// INTID of INTA of slot 0; the line of a pin is this plus (slot + pin - 1) modulo 4, level-sensitive.
    pub first_interrupt: u32,
    /// Slots of bus 0 that functions may have, in order of use; what is not here belongs to the board.
    pub slots: Vec<u32>,
    /// The slot of bus 0 of the root port in front of bus 1, if the board can have one.
    pub root_port: Option<u32>,
    /// The SMMU in front of memory: every function's StreamID is its bus, device and function.
    pub smmu: Option<Smmu>,
    /// Counter ticks to wait after a function-level reset.
    pub reset_delay_ticks: u64,
    /// Most reads of a wait for a function or for the SMMU.
    pub wait_limit: u32,
    /// Kinds of functions.
    pub models: Vec<PciModel>,
}

/// Bytes of configuration space of a bus.
const BUS_BYTES: u64 = 1 << 20;

impl PciHost {
    /// One past the last byte of everything that a monitor may map of it.
    pub(super) fn ends(&self) -> impl Iterator<Item = u64> {
        let configuration = self.configuration.0.saturating_add(u64::from(self.buses) * BUS_BYTES);
        let smmu = self.smmu.map(|smmu| smmu.address.0.saturating_add(SMMU_BYTES));
        [configuration, self.window.end()].into_iter().chain(smmu)
    }
}

/// Bytes of the registers of an SMMUv3: two pages of 64 KiB.
const SMMU_BYTES: u64 = 0x2_0000;

/// An SMMUv3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Smmu {
    /// Its registers: two pages of 64 KiB.
    pub address: PhysicalAddress,
    /// The stage that it translates with.
    pub stage: SmmuStage,
}

/// A stage of translation of an SMMU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmmuStage {
    /// Stage 1 only: the plan has tables of its own for devices.
    One,
    /// Stage 2: a device goes through the tables of its partition.
    Two,
}

/// A kind of function, as it comes out of reset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PciModel {
    /// Name used in descriptions.
    pub name: String,
    /// `-device` argument of QEMU; the tool adds its place and what is behind it.
    pub qemu: String,
    /// What it needs behind it.
    pub backing: PciBacking,
    /// The first 256 bytes of its configuration space as little-endian words, base addresses zero.
    pub configuration: [u32; HEADER_WORDS],
    /// What is behind its base address registers, by register.
    pub bars: [ModelBar; MAX_BARS],
    /// How it is put back into its first state.
    pub reset: PciReset,
    /// The SMMU confines its DMA.
    pub is_confined: bool,
    /// It sits behind the root port, on bus 1.
    pub is_behind_root_port: bool,
}

/// What a function needs of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PciBacking {
    /// Nothing.
    Nothing,
    /// A disk.
    Disk,
    /// A network.
    Network,
}

/// What is behind a base address register.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelBar {
    /// Bytes, a power of two; 0 for none.
    pub bytes: u64,
    /// It is 64 bits wide and takes the next register too.
    pub is_wide: bool,
    /// Reads have no side effects.
    pub is_prefetchable: bool,
    /// It is ports, not memory: never enabled, and the guest does not see it.
    pub is_ports: bool,
    /// It holds tables of message-signalled interrupts and nothing else: neither shown nor mapped.
    pub is_messages: bool,
}

/// How a function is put back into its first state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PciReset {
    /// Function-level reset, by the PCI Express capability at this offset of configuration space.
    FunctionLevel {
        /// Offset of the capability.
        capability: u32,
    },
    /// A zero in the status register of virtio, at this offset behind a base address register.
    Virtio {
        /// The register.
        bar: usize,
        /// Offset of the status byte.
        offset: u64,
    },
    /// Not at all: its partition is started once.
    None,
}

/// A function of a system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PciFunction {
    /// Name, unique.
    pub name: String,
    /// Place in [`PciHost::models`].
    pub model: usize,
    /// Index of the partition that owns it.
    pub partition: usize,
    /// Bus.
    pub bus: u32,
    /// Device number on its bus; its function number is 0.
    pub device: u32,
    /// INTID of its INTA.
    pub interrupt: u32,
    /// What its DMA reaches.
    pub reach: Reach,
}

impl PciFunction {
    /// Its StreamID, which is also its place in configuration space.
    #[must_use]
    pub const fn stream(&self) -> u32 {
        self.bus << 8 | self.device << 3
    }
}

/// What a partition does about DMA of its functions that the SMMU stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceEvents {
    /// It looks this often; `None` = never.
    pub look_ns: Option<u64>,
    /// The first one is a fault of the partition; otherwise they are counted.
    pub are_faults: bool,
}

/// What the DMA of a function reaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// All RAM of its partition.
    Partition,
    /// These pages of it, by guest address.
    Regions(Vec<Bank>),
    /// All memory: nothing confines it, and the description trusts its partition.
    Everything,
}
