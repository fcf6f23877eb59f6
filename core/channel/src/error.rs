//! Errors by operation. Each says who is at fault: the plan ([`OpenError`]), the caller (a message or buffer of the wrong
//! size), the peer ([`Corruption`]), or nobody (full, empty, closed, reset).

use core::fmt;

/// The port cannot be opened: the parameters or the window are wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// A message has 1 to [`crate::MAX_MESSAGE_BYTES`] bytes.
    MessageBytes(u32),
    /// A sampling port has four slots, a queuing port 1 to [`crate::MAX_DEPTH`].
    Slots(u32),
    /// The kind is neither sampling nor queuing.
    Kind(u32),
    /// The port was opened as the other kind.
    WrongKind,
    /// The window is smaller than the port's parameters need.
    WindowTooSmall {
        /// Bytes needed.
        needed: u64,
        /// Bytes there are.
        bytes: u64,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MessageBytes(bytes) => {
                write!(f, "a message of {bytes} bytes is not within 1..={}", crate::MAX_MESSAGE_BYTES)
            }
            Self::Slots(slots) => {
                write!(f, "{slots} slots: a sampling port has 4, a queuing port 1..={}", crate::MAX_DEPTH)
            }
            Self::Kind(kind) => write!(f, "port kind {kind} is neither sampling (1) nor queuing (2)"),
            Self::WrongKind => write!(f, "the port is of the other kind"),
            Self::WindowTooSmall { needed, bytes } => {
                write!(f, "the window has {bytes} bytes, the port needs {needed}")
            }
        }
    }
}

impl core::error::Error for OpenError {}

/// What was wrong with the peer's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Corruption {
    /// The first word is neither zero nor the port's magic.
    Magic,
    /// Kind, message size or slots differ from the plan.
    Parameters,
    /// A counter is outside the range that the own counter allows.
    Counter,
    /// A message has another sequence number than its place in the order.
    Sequence,
    /// A message claims more bytes than the port has.
    Length,
    /// The checksum does not match.
    Checksum,
}

impl fmt::Display for Corruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Magic => "the peer's area starts with a foreign value",
            Self::Parameters => "the peer's parameters differ from the plan",
            Self::Counter => "the peer's counter is out of range",
            Self::Sequence => "a message is out of sequence",
            Self::Length => "a message claims more bytes than the port has",
            Self::Checksum => "a message fails its checksum",
        })
    }
}

/// A value was not written to a sampling port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteError {
    /// The caller's message is empty or longer than the port's messages.
    Length {
        /// Most bytes of a message.
        most: u32,
    },
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Length { most } = self;
        write!(f, "a message of this port has 1 to {most} bytes")
    }
}

impl core::error::Error for WriteError {}

/// A message was not put into a queuing port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// The caller's message is empty or longer than the port's messages.
    Length {
        /// Most bytes of a message.
        most: u32,
    },
    /// No slot is free; the destination has to read first.
    Full,
    /// No slot is free as far as this end knows, and the destination's counter is rubbish.
    Corrupt(Corruption),
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { most } => write!(f, "a message of this port has 1 to {most} bytes"),
            Self::Full => f.write_str("the queue is full"),
            Self::Corrupt(corruption) => write!(f, "{corruption}"),
        }
    }
}

impl core::error::Error for SendError {}

/// No value came out of a sampling port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleError {
    /// The caller's buffer is smaller than the port's messages.
    BufferTooSmall {
        /// Bytes needed.
        needed: u32,
    },
    /// The source has not opened its port (or is being restarted).
    PeerClosed,
    /// The source was restarted since the last call; the next call reads from its new incarnation.
    PeerReset {
        /// Times that the source's partition was started.
        generation: u32,
    },
    /// The source has not written a value yet.
    NoValue,
    /// The newest value is older than the caller allows.
    Stale {
        /// Its age.
        age_ticks: u64,
    },
    /// The source's memory is rubbish.
    Corrupt(Corruption),
}

impl fmt::Display for SampleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BufferTooSmall { needed } => write!(f, "the buffer needs {needed} bytes"),
            Self::PeerClosed => f.write_str("the source has not opened its port"),
            Self::PeerReset { generation } => write!(f, "the source was restarted (generation {generation})"),
            Self::NoValue => f.write_str("no value has been written yet"),
            Self::Stale { age_ticks } => write!(f, "the newest value is {age_ticks} ticks old"),
            Self::Corrupt(corruption) => write!(f, "{corruption}"),
        }
    }
}

impl core::error::Error for SampleError {}

/// No message came out of a queuing port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveError {
    /// The caller's buffer is smaller than the port's messages.
    BufferTooSmall {
        /// Bytes needed.
        needed: u32,
    },
    /// The source has not opened its port (or is being restarted).
    PeerClosed,
    /// The source was restarted since the last call; the next call reads from its new incarnation.
    PeerReset {
        /// Times that the source's partition was started.
        generation: u32,
    },
    /// No message is waiting.
    Empty,
    /// The message or the source's area is rubbish. A bad message is dropped, so the next call continues after it.
    Corrupt(Corruption),
}

impl fmt::Display for ReceiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BufferTooSmall { needed } => write!(f, "the buffer needs {needed} bytes"),
            Self::PeerClosed => f.write_str("the source has not opened its port"),
            Self::PeerReset { generation } => write!(f, "the source was restarted (generation {generation})"),
            Self::Empty => f.write_str("no message is waiting"),
            Self::Corrupt(corruption) => write!(f, "{corruption}"),
        }
    }
}

impl core::error::Error for ReceiveError {}
