//! What the verifier found.

use core::fmt;

/// What kind of mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// It is no arm64 Image of its length.
    Image,
    /// The head is not as this version writes it.
    Head,
    /// A byte is not what was written.
    Checksum,
    /// The kernel is another one.
    Kernel,
    /// Boot tables cannot be read.
    Tables,
    /// A bit of a translation table that nobody expects, or a table that is shared.
    Descriptor,
    /// What the kernel's half maps is not what it must.
    KernelHalf,
    /// What the boot root maps is not what it must.
    BootHalf,
    /// A page is writable and executable.
    WritableExecutable,
    /// A component reaches what is not a component's.
    Reach,
    /// A page is in two components.
    Shared,
    /// A page of the image is nobody's.
    Unused,
    /// A component's text does not begin as one.
    Component,
    /// A thread's entry is not in an executable page of its component.
    Entry,
    /// A stack is not writable, or has no empty page below it.
    Stack,
    /// A row names what is not there, or has bits that mean nothing.
    Row,
    /// A capability names no object, or has rights that its kind has not.
    Capability,
    /// An interrupt has two owners, or is the kernel's.
    Interrupt,
    /// A server is out of its order or its rule, or its time is somebody else's as well.
    Server,
    /// A scheduler is above itself, has no thread of its own, or a thread is not its.
    Scheduler,
    /// A band has not servers of its own, or numbers that cannot be.
    Band,
    /// A temporal capability says more than its server or its scheduler could, or is that of two.
    Claim,
    /// Pages for DMA are not one component's own memory, as the boot tables say.
    Dma,
    /// Registers of a device are mapped otherwise than the boot tables say, or where no device of a component can be.
    Device,
    /// A wire is no end of a channel, or exports what is not there.
    Wire,
    /// A port of a component is no end of a channel, or the component does not have it as its row says.
    Port,
    /// The pool is not pages of zeros of its own.
    Pool,
    /// Places of floating-point registers are not zeros of their own, one for each thread that there can be.
    FloatingPoint,
    /// A program of processes is not whole, or not as a program must be.
    Program,
    /// Quotas are more than there is, or nobody's.
    Quota,
    /// What a reset gives a component back is not what its data begins with, or not all of it.
    Data,
    /// The pages of the accounts are in a component that has them not, can be written there, or are others.
    Accounts,
}

/// One thing that is wrong with an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What kind of mistake.
    pub kind: Kind,
    /// Where and what, in one sentence.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

/// Most findings that are told.
const MOST: usize = 1000;

/// Findings in the order in which they were made.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings(pub(crate) Vec<Finding>);

impl Findings {
    /// Adds a finding, unless there are enough: what has a thousand mistakes is refused, and a page of rubbish has hundreds.
    pub(crate) fn add(&mut self, kind: Kind, message: impl Into<String>) {
        if self.0.len() < MOST {
            self.0.push(Finding { kind, message: message.into() });
        }
    }

    /// Adds a finding unless a fact holds; returns the fact.
    pub(crate) fn require(&mut self, fact: bool, kind: Kind, message: impl FnOnce() -> String) -> bool {
        if !fact {
            self.add(kind, message());
        }
        fact
    }
}
