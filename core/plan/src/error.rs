//! Why a system cannot be planned: what, where, why and what to do, in one sentence each.

use crate::tables::MapError;
use alloc::string::String;
use core::fmt;

/// A system that cannot be turned into an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// A fixed-size table of the image format is too small.
    TooMany {
        /// Things counted.
        what: &'static str,
        /// Where, e.g. `partition "linux"`.
        place: String,
        /// How many there are.
        found: usize,
        /// How many fit.
        limit: usize,
    },
    /// A reference in the resolved system points nowhere; the checker should have refused it.
    BadReference {
        /// What refers.
        place: String,
        /// To what.
        target: String,
    },
    /// No partition uses board core 0, which starts the machine.
    BootCoreUnused,
    /// A core without a schedule is used twice.
    CoreUsedTwice {
        /// Board core index.
        core: usize,
    },
    /// A schedule, or what partitions say about their time on a shared core, contradicts itself.
    Schedule {
        /// Where, e.g. `server 1 of partition "control"`.
        place: String,
        /// What is wrong and what to do.
        reason: String,
    },
    /// The machine's RAM does not hold what is asked for.
    OutOfMemory {
        /// What does not fit.
        what: String,
        /// Bytes asked for.
        bytes: u64,
        /// Bytes of RAM of the machine.
        memory_bytes: u64,
    },
    /// Something does not fit into something else.
    TooBig {
        /// What.
        what: String,
        /// Its bytes.
        bytes: u64,
        /// Bytes that there are.
        limit: u64,
    },
    /// An address or size is not a multiple of what it must be.
    Misaligned {
        /// What.
        what: String,
        /// The value.
        value: u64,
        /// Must be a multiple of this.
        alignment: u64,
    },
    /// Two things lie over each other.
    Overlap {
        /// The one.
        first: String,
        /// The other.
        second: String,
        /// An address in both.
        address: u64,
    },
    /// More spare interrupts are needed than the board lists.
    SpareInterrupts {
        /// Needed.
        needed: usize,
        /// Listed.
        available: usize,
    },
    /// A Linux kernel is not an arm64 Image.
    NotAnImage {
        /// Partition.
        partition: String,
        /// Why.
        reason: &'static str,
    },
    /// The device tree cannot lie where the description puts it.
    DeviceTree {
        /// Partition.
        partition: String,
        /// What is wrong with the place.
        reason: String,
    },
    /// A device-tree overlay cannot be applied.
    Overlay {
        /// Partition.
        partition: String,
        /// Why, from the device-tree library.
        reason: String,
    },
    /// The monitor is not laid out as an image needs it.
    Monitor {
        /// What is wrong.
        reason: &'static str,
    },
    /// A PCI function, its model or its board are not as a plan needs them.
    Pci {
        /// What.
        place: String,
        /// What is wrong with it, and what to do.
        reason: String,
    },
    /// A virtio device, or its ends, are not as a plan needs them.
    Virtio {
        /// What.
        place: String,
        /// What is wrong with it, and what to do.
        reason: String,
    },
    /// A translation table cannot hold a mapping.
    Map {
        /// Whose table.
        place: String,
        /// What is wrong.
        error: MapError,
    },
    /// Layout and tables did not settle: a fault of the planner.
    Unsettled,
}

const UNSETTLED: &str =
    "memory layout and tables do not settle; this is a fault of the planner, please report the description";

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany { what, place, found, limit } => {
                write!(f, "{place} has {found} {what}, but an image holds at most {limit}; use fewer")
            }
            Self::BadReference { place, target } => {
                write!(f, "{place} refers to {target}, which does not exist; run `bulkhead check` on the description")
            }
            Self::BootCoreUnused => {
                write!(f, "no partition uses core 0, which starts the machine; give core 0 to one of the partitions")
            }
            Self::CoreUsedTwice { core } => write!(
                f,
                "core {core} is given to several vCPUs and has no schedule; give it one, or each vCPU its own core"
            ),
            Self::Schedule { place, reason } | Self::Pci { place, reason } | Self::Virtio { place, reason } => {
                write!(f, "{place}: {reason}")
            }
            Self::OutOfMemory { what, bytes, memory_bytes } => write!(
                f,
                "{what} needs {bytes:#x} bytes that are not free in the machine's {memory_bytes:#x} bytes of RAM; \
                 raise `memory` of the system or make partitions smaller"
            ),
            Self::TooBig { what, bytes, limit } => {
                write!(
                    f,
                    "{what} is {bytes:#x} bytes, but only {limit:#x} bytes are there; make it smaller or the room \
                     larger"
                )
            }
            Self::Misaligned { what, value, alignment } => {
                write!(f, "{what} is {value:#x}, which is no multiple of {alignment:#x}; round it")
            }
            Self::Overlap { first, second, address } => {
                write!(f, "{first} and {second} both use address {address:#x}; move one of them")
            }
            Self::SpareInterrupts { needed, available } => write!(
                f,
                "consoles and doorbells need {needed} spare interrupts, but the board lists {available}; use fewer \
                 doorbells or virtual UARTs"
            ),
            Self::NotAnImage { partition, reason } => {
                write!(
                    f,
                    "the kernel of partition \"{partition}\" is no arm64 Image: {reason}; give the uncompressed \
                     `Image` file"
                )
            }
            Self::DeviceTree { partition, reason } => write!(
                f,
                "the device tree of partition \"{partition}\" cannot lie there: {reason}; leave `device_tree_address` \
                 out, or give a place that is free"
            ),
            Self::Overlay { partition, reason } => {
                write!(
                    f,
                    "the device-tree overlay of partition \"{partition}\" cannot be applied: {reason}; check it with \
                     dtc"
                )
            }
            Self::Monitor { reason } => write!(f, "the monitor cannot be used: {reason}; rebuild it with ./x"),
            Self::Map { place, error } => write!(f, "translation table of {place}: {error}; move what overlaps"),
            Self::Unsettled => f.write_str(UNSETTLED),
        }
    }
}

impl core::error::Error for PlanError {}
