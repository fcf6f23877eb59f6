//! Channels to the payload of the secure world (`[[secure.channel]]`), by name: `bulkhead-world`'s pools on the windows of the information page.
//!
//! A channel is a port of its partition whose window is a pool of blocks, which both ends write to. The payload believes nothing that lies there; this
//! end continues where the run before has stopped, because a restart of the partition is none of the payload. Nothing waits: the payload makes a
//! channel's interrupt pending after a message, and looks for messages of its partitions by itself.

use crate::interrupt::InterruptId;
use crate::port::{PortError, doorbell_interrupt, window};
use bulkhead_abi::plan::PortInformation;
use bulkhead_channel::MappedWindow;
use bulkhead_guest_abi::channel::PORT_POOL;
use bulkhead_guest_abi::guest::{DIRECTION_DESTINATION, DIRECTION_SOURCE};
pub use bulkhead_world::pool::{Filter, Geometry, PoolError, Receiver, Sender};

/// Memory and shape of a channel's pool.
///
/// # Errors
/// See [`PortError`].
pub fn find(
    name: &str,
    direction: u32,
) -> Result<(&'static PortInformation, MappedWindow<'static>, Geometry), PortError> {
    let port = crate::information::port(name).filter(|port| port.kind == PORT_POOL).ok_or(PortError::NoSuchPort)?;
    if port.direction != direction {
        return Err(PortError::WrongDirection);
    }
    let geometry = Geometry::new(port.slots, port.message_bytes).ok_or(PortError::BadWindow)?;
    Ok((port, window(port)?, geometry))
}

/// The end that sends to the payload.
#[derive(Debug)]
pub struct PoolSource {
    sender: Sender<MappedWindow<'static>>,
}

impl PoolSource {
    /// Opens the end where the run before has left it.
    ///
    /// # Errors
    /// See [`PortError`]; [`PoolError::Corrupt`] in it when the pool says what cannot be, which only an end of it has written.
    pub fn open(name: &str) -> Result<Self, PortError> {
        let (_, memory, geometry) = find(name, DIRECTION_SOURCE)?;
        Ok(Self { sender: Sender::resume(memory, geometry)? })
    }

    /// Sends a message under a tag.
    ///
    /// # Errors
    /// [`PoolError::Nothing`] while the payload has all blocks, [`PoolError::Length`] for more bytes than a block has.
    pub fn send(&mut self, bytes: &[u8], tag: u32) -> Result<(), PoolError> {
        let block = self.sender.allocate()?;
        let sent = self.sender.write(block, bytes).and_then(|()| {
            let length = u32::try_from(bytes.len()).map_err(|_| PoolError::Length)?;
            self.sender.enqueue(block, length, tag)
        });
        if sent.is_err() {
            self.sender.free(block)?;
        }
        sent
    }
}

/// The end that receives from the payload.
#[derive(Debug)]
pub struct PoolDestination {
    receiver: Receiver<MappedWindow<'static>>,
    interrupt: Option<InterruptId>,
}

impl PoolDestination {
    /// Opens the end where the run before has left it.
    ///
    /// # Errors
    /// See [`PortError`].
    pub fn open(name: &str) -> Result<Self, PortError> {
        let (port, memory, geometry) = find(name, DIRECTION_DESTINATION)?;
        let receiver = Receiver::resume(memory, geometry, Filter::default())?;
        Ok(Self { receiver, interrupt: doorbell_interrupt(port) })
    }

    /// Returns the interrupt that tells of a message, for [`crate::interrupt::enable`].
    #[must_use]
    pub fn interrupt(&self) -> Option<InterruptId> {
        self.interrupt
    }

    /// Takes the next message: its bytes and its tag.
    ///
    /// # Errors
    /// [`PoolError::Nothing`] when there is none, [`PoolError::Length`] for a buffer that is smaller than the message, which is then lost.
    pub fn receive<'b>(&mut self, buffer: &'b mut [u8]) -> Result<(&'b [u8], u32), PoolError> {
        let message = self.receiver.dequeue()?;
        let bytes = self.receiver.read(&message, buffer);
        self.receiver.free(&message)?;
        bytes.map(|bytes| (bytes, message.tag()))
    }
}
