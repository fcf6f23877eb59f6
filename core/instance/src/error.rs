//! Why an instance cannot be written.

use bulkhead_kernel_abi::KERNEL_ABI_VERSION;
use core::fmt;
use core::ops::Range;

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
        reason: ProgramError,
    },
    /// The description asks for what an instance cannot have.
    Description(String),
}

/// What is wrong with a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramError {
    /// It is no ELF file for this processor, or a damaged one.
    Elf(String),
    /// It has a segment that is writable and executable, at this address.
    WritableText(u64),
    /// It has a segment at this address, which is outside these or does not begin with a page.
    Outside(u64, Range<u64>),
    /// A segment, at this address, shares a page with the one before it.
    Overlap(u64),
    /// Its entry is not in its text.
    Entry(u64),
    /// It does not begin as a component does.
    NoComponent,
    /// It was built for this version of the kernel's ABI.
    Version(u32),
    /// What it says of its functions is not as it must be.
    Interface(String),
    /// It has two functions of this name in this section.
    Twice(String, &'static str),
    /// What it imports is not what is bound.
    Binding(String),
    /// The stacks leave no room for it.
    Stacks,
}

impl fmt::Display for ProgramError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Elf(reason) | Self::Interface(reason) | Self::Binding(reason) => formatter.write_str(reason),
            Self::WritableText(address) => write!(formatter, "its segment at {address:#x} is writable and executable"),
            Self::Outside(address, Range { start, end }) => {
                write!(formatter, "its segment at {address:#x} does not begin with a page from {start:#x} to {end:#x}")
            }
            Self::Overlap(address) => {
                write!(formatter, "its segment at {address:#x} shares a page with the one before it")
            }
            Self::Entry(address) => write!(formatter, "its entry {address:#x} is not in its text"),
            Self::NoComponent => formatter.write_str("it does not begin as a component does"),
            Self::Version(version) => write!(
                formatter,
                "it was built for version {version} of the kernel's ABI, and this is version {KERNEL_ABI_VERSION}"
            ),
            Self::Twice(name, section) => write!(formatter, "it has two functions `{name}` in `{section}`"),
            Self::Stacks => formatter.write_str("its stacks leave no room"),
        }
    }
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

impl core::error::Error for ProgramError {}
impl core::error::Error for Error {}
