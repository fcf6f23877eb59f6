//! What the loop tells others, each period.

use bulkhead_sdk::{
    port::{PortError, SamplingSource},
    println,
};

/// One message: six little-endian 64-bit words in this order.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Record {
    /// Period, from 1.
    pub(crate) period: u64,
    /// Position of the cart.
    pub(crate) position_micrometres: i64,
    /// Releases served.
    pub(crate) iterations: u64,
    /// Releases due when this was written.
    pub(crate) releases_due: u64,
    /// How late this release was served. Depends on the machine.
    pub(crate) ticks_late: u64,
    /// Largest lateness so far.
    pub(crate) most_ticks_late: u64,
}

impl Record {
    /// Bytes of a message.
    pub(crate) const BYTES: usize = 48;

    fn to_bytes(self) -> [u8; Self::BYTES] {
        let words = [
            self.period,
            self.position_micrometres.cast_unsigned(),
            self.iterations,
            self.releases_due,
            self.ticks_late,
            self.most_ticks_late,
        ];
        let mut bytes = [0; Self::BYTES];
        for (field, word) in bytes.chunks_exact_mut(8).zip(words) {
            field.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }
}

/// The telemetry port, if the partition has one.
pub(crate) struct Telemetry {
    port: Option<SamplingSource>,
}

impl Telemetry {
    /// Opens the port of that name; without one, nothing is published.
    pub(crate) fn open(name: &str) -> Self {
        match SamplingSource::open(name) {
            Ok(port) => Self { port: Some(port) },
            Err(PortError::NoSuchPort) => Self { port: None },
            Err(error) => {
                println!("telemetry is off: port {name}: {error}");
                Self { port: None }
            }
        }
    }

    /// Publishes a record and rings the doorbell, if there is one. A port with smaller messages gets the first words.
    pub(crate) fn publish(&mut self, record: &Record) {
        let Some(port) = &mut self.port else {
            return;
        };
        let bytes = record.to_bytes();
        let room = usize::try_from(port.message_bytes()).unwrap_or(0).min(bytes.len());
        // The length fits, and a limited doorbell loses nothing.
        let _ = port.write(bytes.split_at(room).0);
    }
}
