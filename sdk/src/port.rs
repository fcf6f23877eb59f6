//! Ports of this partition, by name: `bulkhead-channel` on the windows of the information page, with their doorbells.
//!
//! Data first, doorbell second: writing and ringing are one call here, so that no guest forgets the order or the doorbell.
//! Open a port once: two writers of one window would be two sources that number their messages alike.

use crate::{cpu, hypercall, information, interrupt::InterruptId};
use bulkhead_abi::plan::PortInformation;
use bulkhead_channel::{
    Geometry, MappedWindow, Message, OpenError, PeerStatus, QueuingReader, QueuingWriter, ReceiveError, Sample,
    SampleError, SamplingReader, SamplingWriter, SendError, WriteError,
};
use bulkhead_guest_abi::guest::{DIRECTION_DESTINATION, DIRECTION_SOURCE};
use bulkhead_world::pool::PoolError;
use core::fmt;

/// Why a port was not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortError {
    /// The partition has no port of that name (or the guest runs on the bare board).
    NoSuchPort,
    /// The port is the other end of its channel.
    WrongDirection,
    /// The port's facts do not fit together; see the inner error.
    Open(OpenError),
    /// The window's address is not usable.
    BadWindow,
    /// The pool of a channel to the payload says what cannot be; see the inner error.
    Pool(PoolError),
}

impl From<PoolError> for PortError {
    fn from(error: PoolError) -> Self {
        Self::Pool(error)
    }
}

impl From<OpenError> for PortError {
    fn from(error: OpenError) -> Self {
        Self::Open(error)
    }
}

impl fmt::Display for PortError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchPort => f.write_str("the partition has no port of that name"),
            Self::WrongDirection => f.write_str("the port has the other direction"),
            Self::Open(error) => write!(f, "{error}"),
            Self::BadWindow => f.write_str("the port's window has no usable address"),
            Self::Pool(error) => write!(f, "the pool of the channel cannot be used: {error:?}"),
        }
    }
}

/// What became of the notification of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notified {
    /// The channel has no doorbell; the receiver polls.
    NoDoorbell,
    /// The receiver is being interrupted.
    Sent,
    /// The limiter held it back; the receiver's next look finds the message.
    Limited,
}

/// Window and parameters of a port found by name.
fn find(name: &str, direction: u32) -> Result<(&'static PortInformation, MappedWindow<'static>, Geometry), PortError> {
    let port = information::port(name).ok_or(PortError::NoSuchPort)?;
    if port.direction != direction {
        return Err(PortError::WrongDirection);
    }
    let geometry = Geometry::from_port(port)?;
    Ok((port, window(port)?, geometry))
}

/// Window of a port.
pub(crate) fn window(port: &PortInformation) -> Result<MappedWindow<'static>, PortError> {
    let bytes = usize::try_from(port.window_bytes).map_err(|_| PortError::BadWindow)?;
    // SAFETY: (1, 2) the information page names windows that stage 2 maps for as long as the guest runs, with the own area
    // writable, and the SDK's translation maps them as Normal memory; (3) the SDK reaches windows through ports alone.
    unsafe { MappedWindow::new(port.window.0 as *mut u8, bytes) }.ok_or(PortError::BadWindow)
}

/// Rings the doorbell of a source port, if it has one.
fn notify(doorbell: u32) -> Notified {
    if doorbell == u32::MAX {
        return Notified::NoDoorbell;
    }
    match hypercall::doorbell(doorbell) {
        Ok(hypercall::Doorbell::Sent) => Notified::Sent,
        // The number is the plan's own, so no other answer comes; the data is in the channel in any case.
        Ok(hypercall::Doorbell::Limited) | Err(_) => Notified::Limited,
    }
}

/// INTID of a destination port's doorbell.
pub(crate) fn doorbell_interrupt(port: &PortInformation) -> Option<InterruptId> {
    (port.interrupt != 0).then_some(InterruptId(port.interrupt))
}

/// Source of a sampling port: publishes newest values.
#[derive(Debug)]
pub struct SamplingSource {
    writer: SamplingWriter<MappedWindow<'static>>,
    doorbell: u32,
    message_bytes: u32,
}

impl SamplingSource {
    /// Opens the port.
    ///
    /// # Errors
    /// See [`PortError`].
    pub fn open(name: &str) -> Result<Self, PortError> {
        let (port, window, geometry) = find(name, DIRECTION_SOURCE)?;
        let writer = SamplingWriter::open(window, geometry, cpu::counter_ticks())?;
        Ok(Self { writer, doorbell: port.doorbell, message_bytes: geometry.message_bytes() })
    }

    /// Returns the most bytes of a value.
    #[must_use]
    pub fn message_bytes(&self) -> u32 {
        self.message_bytes
    }

    /// Publishes a value and rings the doorbell.
    ///
    /// # Errors
    /// When the value is empty or too long.
    pub fn write(&mut self, payload: &[u8]) -> Result<Notified, WriteError> {
        let _published = self.writer.write(payload, cpu::counter_ticks())?;
        Ok(notify(self.doorbell))
    }

    /// Returns the state of the destination's partition.
    #[must_use]
    pub fn peer_status(&self) -> PeerStatus {
        self.writer.peer_status()
    }
}

/// Destination of a sampling port: reads newest values.
#[derive(Debug)]
pub struct SamplingDestination {
    reader: SamplingReader<MappedWindow<'static>>,
    interrupt: Option<InterruptId>,
}

impl SamplingDestination {
    /// Opens the port.
    ///
    /// # Errors
    /// See [`PortError`].
    pub fn open(name: &str) -> Result<Self, PortError> {
        let (port, window, geometry) = find(name, DIRECTION_DESTINATION)?;
        Ok(Self { reader: SamplingReader::open(window, geometry)?, interrupt: doorbell_interrupt(port) })
    }

    /// Returns the interrupt of the doorbell, for [`crate::interrupt::enable`].
    #[must_use]
    pub fn interrupt(&self) -> Option<InterruptId> {
        self.interrupt
    }

    /// Copies the newest value into `buffer`, which has room for a whole message.
    ///
    /// # Errors
    /// When there is no value that can be trusted.
    pub fn read<'b>(&mut self, buffer: &'b mut [u8]) -> Result<Sample<'b>, SampleError> {
        self.reader.read(buffer)
    }

    /// Returns the state of the source's partition.
    #[must_use]
    pub fn peer_status(&self) -> PeerStatus {
        self.reader.peer_status()
    }
}

/// Source of a queuing port: sends messages in order.
#[derive(Debug)]
pub struct QueuingSource {
    writer: QueuingWriter<MappedWindow<'static>>,
    doorbell: u32,
}

impl QueuingSource {
    /// Opens the port.
    ///
    /// # Errors
    /// See [`PortError`].
    pub fn open(name: &str) -> Result<Self, PortError> {
        let (port, window, geometry) = find(name, DIRECTION_SOURCE)?;
        let writer = QueuingWriter::open(window, geometry, cpu::counter_ticks())?;
        Ok(Self { writer, doorbell: port.doorbell })
    }

    /// Sends a message and rings the doorbell.
    ///
    /// # Errors
    /// When the queue is full or the message is empty or too long.
    pub fn send(&mut self, payload: &[u8]) -> Result<Notified, SendError> {
        let _sent = self.writer.send(payload, cpu::counter_ticks())?;
        Ok(notify(self.doorbell))
    }

    /// Returns how many messages could be sent now.
    pub fn free(&mut self) -> u32 {
        self.writer.free()
    }

    /// Returns the state of the destination's partition.
    #[must_use]
    pub fn peer_status(&self) -> PeerStatus {
        self.writer.peer_status()
    }
}

/// Destination of a queuing port: receives messages in order.
#[derive(Debug)]
pub struct QueuingDestination {
    reader: QueuingReader<MappedWindow<'static>>,
    interrupt: Option<InterruptId>,
}

impl QueuingDestination {
    /// Opens the port.
    ///
    /// # Errors
    /// See [`PortError`].
    pub fn open(name: &str) -> Result<Self, PortError> {
        let (port, window, geometry) = find(name, DIRECTION_DESTINATION)?;
        Ok(Self { reader: QueuingReader::open(window, geometry)?, interrupt: doorbell_interrupt(port) })
    }

    /// Returns the interrupt of the doorbell, for [`crate::interrupt::enable`].
    #[must_use]
    pub fn interrupt(&self) -> Option<InterruptId> {
        self.interrupt
    }

    /// Takes the next message into `buffer`, which has room for a whole message.
    ///
    /// # Errors
    /// When no message is waiting, or the source's memory is rubbish.
    pub fn receive<'b>(&mut self, buffer: &'b mut [u8]) -> Result<Message<'b>, ReceiveError> {
        self.reader.receive(buffer)
    }

    /// Returns how many messages are waiting, as far as the source can be believed.
    #[must_use]
    pub fn pending(&self) -> u32 {
        self.reader.pending()
    }

    /// Returns the state of the source's partition.
    #[must_use]
    pub fn peer_status(&self) -> PeerStatus {
        self.reader.peer_status()
    }
}
