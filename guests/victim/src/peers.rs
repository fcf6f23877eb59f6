//! The victim's side of channels with a hostile peer: it reads and sends each round, whatever the peer's pages hold.
//!
//! What arrives depends on the peer and on time, so none of it is printed; that the victim continues is the point.

use bulkhead_sdk::{
    abi::plan::PortInformation,
    guest_abi::{channel::PORT_SAMPLING, guest::DIRECTION_SOURCE, name_text},
    information,
    interrupt::{self, InterruptId},
    port::{QueuingDestination, QueuingSource, SamplingDestination, SamplingSource},
};

/// Most bytes of a message (`bulkhead_sdk::channel::MAX_MESSAGE_BYTES`).
const MESSAGE_BYTES: usize = 4032;
/// Ports that are used.
const PORTS: usize = 4;

/// One open port.
enum Port {
    SamplingSource(SamplingSource),
    SamplingDestination(SamplingDestination),
    QueuingSource(QueuingSource),
    QueuingDestination(QueuingDestination),
}

impl Port {
    fn open(port: &PortInformation) -> Option<Self> {
        let name = name_text(&port.name);
        match (port.direction == DIRECTION_SOURCE, port.kind == PORT_SAMPLING) {
            (true, true) => SamplingSource::open(name).ok().map(Self::SamplingSource),
            (false, true) => SamplingDestination::open(name).ok().map(Self::SamplingDestination),
            (true, false) => QueuingSource::open(name).ok().map(Self::QueuingSource),
            (false, false) => QueuingDestination::open(name).ok().map(Self::QueuingDestination),
        }
    }
}

/// The first few ports of the partition.
pub(crate) struct Peers {
    ports: [Option<Port>; PORTS],
    buffer: [u8; MESSAGE_BYTES],
}

impl Peers {
    /// Opens them and enables their doorbells.
    pub(crate) fn open() -> Self {
        let mut ports = [const { None }; PORTS];
        for (slot, port) in ports.iter_mut().zip(information::ports()) {
            *slot = Port::open(port);
            if port.interrupt != 0 {
                interrupt::enable(InterruptId(port.interrupt));
            }
        }
        Self { ports, buffer: [0; MESSAGE_BYTES] }
    }

    /// States whether an interrupt is the doorbell of a port.
    pub(crate) fn is_doorbell(id: InterruptId) -> bool {
        information::ports().iter().any(|port| port.interrupt == id.0 && id.0 != 0)
    }

    /// Sends and receives once on each port.
    pub(crate) fn exchange(&mut self, round: u64) {
        let message = round.to_le_bytes();
        for port in self.ports.iter_mut().flatten() {
            // A full queue, no message, rubbish: all are the peer's affair.
            match port {
                Port::SamplingSource(port) => drop(port.write(&message)),
                Port::QueuingSource(port) => drop(port.send(&message)),
                Port::SamplingDestination(port) => drop(port.read(&mut self.buffer)),
                Port::QueuingDestination(port) => drop(port.receive(&mut self.buffer)),
            }
        }
    }
}
