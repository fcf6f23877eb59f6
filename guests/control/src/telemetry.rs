//! What the loop tells others, each period.

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
pub(crate) struct Telemetry;

impl Telemetry {
    /// Opens the port of that name; without one, nothing is published.
    pub(crate) fn open(_name: &str) -> Self {
        Self
    }

    /// Publishes a record and rings the doorbell, if there is one.
    pub(crate) fn publish(&mut self, record: &Record) {
        core::hint::black_box(record.to_bytes());
    }
}
