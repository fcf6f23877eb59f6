//! Ports of the partition that the component has: sampling and queuing ports of `bulkhead-channel`, as in guests of their own (`kernel.md` 9; QV-50).
//!
//! A program says what it uses and how; the description of the instance says which port of the partition that is (`ports = ["telemetry"]`,
//! `bind = { out = "port:telemetry" }`), and refuses one of another direction or kind.
//!
//! ```text
//! bulkhead_component::ports! {
//!     /// What is sent to others.
//!     out: QueuingSource;
//!     /// What others say.
//!     commands: QueuingDestination;
//! }
//! let mut out = out::open().expect("its shape is the host's");
//! out.send(b"hello").expect("there is room");
//! ```
//!
//! Data first, doorbell second: a source rings behind each message if the channel has a doorbell. A destination's doorbell is an interrupt, which the description
//! signals to an end point (`interrupts = [{ name = "commands", signal = "arrived" }]`); it comes again when the component says
//! [`crate::driver::interrupt_done`]. Open a port once in a life: two writers of one window would be two sources that number their messages alike.

use crate::Code;
use crate::call::counter_ticks;
use crate::interface::invoke;
use bulkhead_channel::{Geometry, MappedWindow, QueuingReader, QueuingWriter, SamplingReader, SamplingWriter};
pub use bulkhead_channel::{Message, OpenError, PeerStatus, ReceiveError, Sample, SampleError, SendError, WriteError};
use bulkhead_kernel_abi::image::Port;

/// What became of the notification of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notified {
    /// The channel has no doorbell; the receiver looks by itself.
    NoDoorbell,
    /// It was rung. The monitor's limiter may have held it back, which the kernel counts: the receiver's next look finds the message.
    Rung,
    /// The kernel refused the capability that rings; the message is in the channel.
    Refused(Code),
}

/// Reads what the writer of the instance has put into the program.
fn record(port: &'static Port) -> Port {
    // SAFETY: a record of this program's constants; volatile, since its words are not those that the compiler knows.
    unsafe { core::ptr::from_ref(port).read_volatile() }
}

/// The window of a port.
fn window(port: &Port) -> Result<MappedWindow<'static>, OpenError> {
    let address = core::ptr::with_exposed_provenance_mut(port.window as usize);
    // SAFETY: (1, 2) the writer of the instance mapped these bytes of a channel as memory of this component for as long as it lives, what its end
    // writes writable (`verify` compares both with this record); (3) nothing else of this program reaches these addresses.
    let window = unsafe { MappedWindow::new(address, port.bytes as usize) };
    window.ok_or(OpenError::WindowTooSmall { needed: port.bytes, bytes: 0 })
}

/// Rings, if there is a doorbell.
fn ring(bell: u64) -> Notified {
    if bell == 0 {
        return Notified::NoDoorbell;
    }
    match invoke(bell, [0; 8]) {
        Ok(_) => Notified::Rung,
        Err(code) => Notified::Refused(code),
    }
}

/// Source of a sampling port: publishes newest values.
#[derive(Debug)]
pub struct SamplingSource {
    writer: SamplingWriter<MappedWindow<'static>>,
    bell: u64,
}

impl SamplingSource {
    /// For [`crate::ports`] alone.
    #[doc(hidden)]
    pub fn open(port: &'static Port) -> Result<Self, OpenError> {
        let port = record(port);
        let writer = SamplingWriter::open(window(&port)?, Geometry::sampling(port.message_bytes)?, counter_ticks())?;
        Ok(Self { writer, bell: port.bell })
    }

    /// Publishes a value and rings the doorbell.
    ///
    /// # Errors
    /// When the value is empty or too long.
    pub fn write(&mut self, payload: &[u8]) -> Result<Notified, WriteError> {
        let _published = self.writer.write(payload, counter_ticks())?;
        Ok(ring(self.bell))
    }

    /// Returns the state of the destination's partition.
    #[must_use]
    pub fn peer_status(&self) -> PeerStatus {
        self.writer.peer_status()
    }
}

/// Destination of a sampling port: reads newest values.
#[derive(Debug)]
pub struct SamplingDestination(SamplingReader<MappedWindow<'static>>);

impl SamplingDestination {
    /// For [`crate::ports`] alone.
    #[doc(hidden)]
    pub fn open(port: &'static Port) -> Result<Self, OpenError> {
        let port = record(port);
        Ok(Self(SamplingReader::open(window(&port)?, Geometry::sampling(port.message_bytes)?)?))
    }

    /// Copies the newest value into `buffer`, which has room for a whole message.
    ///
    /// # Errors
    /// When there is no value that can be trusted.
    pub fn read<'b>(&mut self, buffer: &'b mut [u8]) -> Result<Sample<'b>, SampleError> {
        self.0.read(buffer)
    }

    /// Returns the state of the source's partition.
    #[must_use]
    pub fn peer_status(&self) -> PeerStatus {
        self.0.peer_status()
    }
}

/// Source of a queuing port: sends messages in order.
#[derive(Debug)]
pub struct QueuingSource {
    writer: QueuingWriter<MappedWindow<'static>>,
    bell: u64,
}

impl QueuingSource {
    /// For [`crate::ports`] alone.
    #[doc(hidden)]
    pub fn open(port: &'static Port) -> Result<Self, OpenError> {
        let port = record(port);
        let geometry = Geometry::queuing(port.message_bytes, port.slots)?;
        Ok(Self { writer: QueuingWriter::open(window(&port)?, geometry, counter_ticks())?, bell: port.bell })
    }

    /// Sends a message and rings the doorbell.
    ///
    /// # Errors
    /// When the queue is full or the message is empty or too long.
    pub fn send(&mut self, payload: &[u8]) -> Result<Notified, SendError> {
        let _sent = self.writer.send(payload, counter_ticks())?;
        Ok(ring(self.bell))
    }

    /// Rings without a message: a doorbell that the limiter held back, once more.
    pub fn ring(&self) -> Notified {
        ring(self.bell)
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
pub struct QueuingDestination(QueuingReader<MappedWindow<'static>>);

impl QueuingDestination {
    /// For [`crate::ports`] alone.
    #[doc(hidden)]
    pub fn open(port: &'static Port) -> Result<Self, OpenError> {
        let port = record(port);
        Ok(Self(QueuingReader::open(window(&port)?, Geometry::queuing(port.message_bytes, port.slots)?)?))
    }

    /// Takes the next message into `buffer`, which has room for a whole message.
    ///
    /// # Errors
    /// When no message is waiting, or the source's memory is rubbish.
    pub fn receive<'b>(&mut self, buffer: &'b mut [u8]) -> Result<Message<'b>, ReceiveError> {
        self.0.receive(buffer)
    }

    /// Returns how many messages are waiting, as far as the source can be believed.
    #[must_use]
    pub fn pending(&self) -> u32 {
        self.0.pending()
    }

    /// Returns the state of the source's partition.
    #[must_use]
    pub fn peer_status(&self) -> PeerStatus {
        self.0.peer_status()
    }
}

/// Names ports of the partition, and how each is used: `NAME::open()`.
#[macro_export]
macro_rules! ports {
    ($($(#[$about:meta])* $visibility:vis $name:ident: $use:ident;)+) => {$(
        $(#[$about])*
        $visibility mod $name {
            static PORT: $crate::interface::Port =
                $crate::interface::Port { window: 0, bytes: 0, bell: 0, message_bytes: 0, slots: 0 };
            #[used]
            #[unsafe(link_section = ".bulkhead.imports")]
            static RECORD: $crate::interface::Record = $crate::interface::Record::port(
                stringify!($name),
                $crate::interface::PortUse::$use,
                ::core::ptr::from_ref(&PORT).cast(),
            );

            /// Opens it, once in a life.
            ///
            /// # Errors
            /// When its shape or its window is none, which the host has looked at.
            pub fn open() -> ::core::result::Result<$crate::port::$use, $crate::port::OpenError> {
                $crate::port::$use::open(&PORT)
            }
        }
    )+};
}
