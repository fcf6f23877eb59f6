//! Writes an instance of the real-time kernel as one flat arm64 Image (`bulkhead_kernel_abi::image` has the order), which boots on the bare board and
//! as a partition: from the kernel's ELF file, the components' and a description in memory.
//!
//! Everything is decided here: where each page lies, who maps it and how. `bulkhead verify` reads the bytes again and shares the layouts of
//! `bulkhead_kernel_abi` with this crate, and nothing else.
#![forbid(unsafe_code)]

mod program;
mod tables;
mod translation;
mod write;

use bulkhead_kernel_abi::Capability;
use bulkhead_kernel_abi::boot::{BindingRow, EndPointRow};
use core::fmt;

pub use write::write;

/// An instance to be written.
#[derive(Clone, Debug)]
pub struct Instance<'a> {
    /// The kernel: an ELF file.
    pub kernel: &'a [u8],
    /// By number.
    pub components: Vec<Component<'a>>,
    /// By number.
    pub end_points: Vec<EndPointRow>,
    /// By number.
    pub bindings: Vec<BindingRow>,
}

/// A component.
#[derive(Clone, Debug)]
pub struct Component<'a> {
    /// Its name, at most 15 bytes of UTF-8.
    pub name: String,
    /// Its program: an ELF file.
    pub program: &'a [u8],
    /// Its threads, which have numbers in the order of components.
    pub threads: Vec<Thread>,
    /// Its capability table; slot 0 is empty.
    pub capabilities: Vec<Capability>,
}

/// A thread that runs at boot, from the program's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    /// What it finds in x0.
    pub argument: u64,
    /// Bytes of its stack, whole pages.
    pub stack_bytes: u64,
}

/// Why an instance cannot be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The kernel's file is none.
    Kernel(String),
    /// A component's file is none.
    Program {
        /// The component.
        component: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The description asks for what an instance cannot have.
    Description(String),
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel(reason) => {
                write!(formatter, "the kernel's file is no kernel: {reason}; build it with `./x build`")
            }
            Self::Program { component, reason } => {
                write!(formatter, "the program of component `{component}` cannot be one: {reason}")
            }
            Self::Description(reason) => formatter.write_str(reason),
        }
    }
}

impl core::error::Error for Error {}
