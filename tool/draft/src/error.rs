//! Why a file is no device tree that a draft can be made from.

use crate::tree::{MOST_BYTES, VERSION};
use std::fmt;

/// Why a file is no device tree that can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TreeError {
    /// It does not begin with the magic number.
    NotATree(Looks),
    /// It has fewer bytes than it says.
    Truncated {
        /// Bytes that the header states.
        stated: usize,
        /// Bytes that there are.
        found: usize,
    },
    /// It is larger than any tree that can be booted.
    TooLarge {
        /// Bytes that the header states.
        stated: usize,
    },
    /// It has another version.
    Version {
        /// Its version.
        version: u32,
        /// The oldest version whose readers can read it.
        compatible: u32,
    },
    /// A block lies outside the file.
    Block {
        /// Which block.
        name: &'static str,
        /// Where the header says that it is.
        offset: usize,
    },
    /// The structure contradicts itself.
    Structure {
        /// Byte of the file.
        offset: usize,
        /// What is wrong there.
        what: &'static str,
    },
    /// It is a tree, but not that of a machine.
    NoMachine(&'static str),
    /// Its addresses and interrupts lead through more translations than any board has.
    TooMuchWork,
}

/// What a file looks like that is no device tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looks {
    /// Nothing is in it.
    Empty,
    /// Source text of a device tree.
    Source,
    /// A compressed file.
    Compressed,
    /// A device tree whose bytes are swapped.
    Swapped,
    /// Anything else.
    Other,
}

impl fmt::Display for TreeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotATree(Looks::Empty) => write!(formatter, "it is empty"),
            Self::NotATree(Looks::Source) => write!(
                formatter,
                "it is the source of a device tree, not the tree itself; compile it: dtc -I dts -O dtb -o board.dtb FILE"
            ),
            Self::NotATree(Looks::Compressed) => write!(formatter, "it is compressed; unpack it first"),
            Self::NotATree(Looks::Swapped) => write!(
                formatter,
                "its magic number has the bytes in the wrong order: the file was copied in words of another byte order"
            ),
            Self::NotATree(Looks::Other) => {
                write!(formatter, "it is no flattened device tree (.dtb): it does not begin with d0 0d fe ed")
            }
            Self::Truncated { stated, found } => {
                write!(formatter, "it is cut off: its header says {stated} bytes, and {found} are there; copy it again")
            }
            Self::TooLarge { stated } => write!(
                formatter,
                "its header says {stated} bytes, and a device tree has at most {MOST_BYTES} (Linux's limit on arm64)"
            ),
            Self::Version { version, compatible } => write!(
                formatter,
                "it has version {version}, readable from version {compatible} on, and version {VERSION} is what is known; \
                 write it again with a current dtc"
            ),
            Self::Block { name, offset } => {
                write!(formatter, "it is damaged: its {name} would be at byte {offset:#x}, outside the file")
            }
            Self::Structure { offset, what } => {
                write!(
                    formatter,
                    "it is damaged: at byte {offset:#x} {what}; copy it again, or look at it with fdtdump"
                )
            }
            Self::NoMachine(what) => write!(formatter, "{what}"),
            Self::TooMuchWork => write!(
                formatter,
                "its addresses and interrupts lead through more translations than any board has; it is damaged, or made to be hostile"
            ),
        }
    }
}

impl std::error::Error for TreeError {}
