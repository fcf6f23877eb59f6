//! What can be wrong with the parts of a flash file.

use bulkhead_plan::error::PlanError;
use bulkhead_plan::tables::MapError;
use bulkhead_world::flash::{MOST_BYTES, MOST_SEGMENTS, secure_ram};
use bulkhead_world::pool::{MAX_BLOCK_BYTES, MAX_BLOCKS};
use std::fmt;

/// Why no flash file is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// An ELF file is none, or is damaged.
    Elf {
        /// Which one.
        what: &'static str,
        /// What the reader says.
        why: String,
    },
    /// The secure monitor is not what reset can enter.
    Monitor,
    /// The payload has a segment outside the place for payloads.
    PayloadPlace {
        /// Its first address.
        address: u64,
    },
    /// A segment of the payload may be written and executed.
    PayloadRights {
        /// Its first address.
        address: u64,
    },
    /// The payload and its devices cannot be mapped.
    Map(MapError),
    /// The tables take more room than is left for them.
    Tables {
        /// Their pages.
        pages: usize,
    },
    /// There is no such interrupt.
    Interrupt(u32),
    /// Cores that the secure monitor cannot serve.
    Cores,
    /// The memory of the non-secure world goes round the end of the addresses.
    Window,
    /// More segments than a plan holds.
    Segments(usize),
    /// A segment outside the non-secure world's memory, or not on a page.
    Segment {
        /// Where it belongs.
        to: u64,
        /// Its bytes.
        bytes: u64,
    },
    /// The image of the non-secure world has no place in its memory.
    World(PlanError),
    /// The system has no secure world, or its board has none.
    NoSecureWorld,
    /// Partitions below a payload need the image of their monitor.
    NoImageBelow,
    /// The board has no UART for the non-secure world.
    NoConsole,
    /// A channel has no blocks, too many of them, or too large ones.
    Channel,
    /// More of something than a plan holds.
    Full {
        /// Of what.
        what: &'static str,
        /// What it holds.
        most: usize,
        /// How many there are.
        count: usize,
    },
    /// More than a machine shows of its flash.
    TooLarge {
        /// Bytes of the file.
        bytes: u64,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Elf { what, why } => write!(f, "the ELF file of {what} cannot be used: {why}"),
            Self::Monitor => {
                write!(f, "the secure monitor is no program of one page at address 0; build it again with ./x")
            }
            Self::PayloadPlace { address } => write!(
                f,
                "the payload has a segment at {address:#x}; payloads are linked at {:#x} or above, in secure RAM",
                secure_ram::PAYLOAD
            ),
            Self::PayloadRights { address } => {
                write!(
                    f,
                    "the payload's segment at {address:#x} may be written and executed; keep text and data on different pages"
                )
            }
            Self::Map(error) => write!(f, "the payload cannot be mapped: {error}"),
            Self::Tables { pages } => write!(
                f,
                "the payload's translation tables take {pages} pages; there is room for {}",
                (secure_ram::PAYLOAD - secure_ram::TABLES) >> 12
            ),
            Self::Interrupt(intid) => write!(f, "INTID {intid} is no interrupt of a payload; there are 0 to 1019"),
            Self::Cores => write!(
                f,
                "the cores cannot be served: calls are those of level 1 or 2, each behind the boot core has a redistributor, kicks name these alone, and the shortest watch is \
                 neither 0 nor above the longest"
            ),
            Self::Window => write!(f, "the non-secure world's memory ends beyond the last address"),
            Self::Segments(count) => {
                write!(f, "the non-secure world has {count} segments; a plan holds {MOST_SEGMENTS}")
            }
            Self::Segment { to, bytes } => write!(
                f,
                "the segment of {bytes} bytes at {to:#x} is not on a page of the non-secure world's memory, or reaches beyond it"
            ),
            Self::World(error) => write!(f, "the non-secure world cannot be laid out: {error}"),
            Self::NoSecureWorld => write!(f, "the system has no secure world, or its board has none"),
            Self::NoImageBelow => {
                write!(f, "the system has partitions below its payload, and the image of their monitor is missing")
            }
            Self::NoConsole => write!(f, "the board has no UART that the non-secure world could print to"),
            Self::Channel => {
                write!(f, "a channel has no pool: it has 1 to {MAX_BLOCKS} blocks of 1 to {MAX_BLOCK_BYTES} bytes")
            }
            Self::Full { what, most, count } => write!(f, "there are {count} {what}; a world plan holds {most}"),
            Self::TooLarge { bytes } => {
                write!(f, "the flash file would have {bytes} bytes; the machine shows {MOST_BYTES} of its flash")
            }
        }
    }
}

impl std::error::Error for Error {}
