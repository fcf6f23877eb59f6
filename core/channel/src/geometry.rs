//! A port's parameters, from the plan, and the places in the window that follow from them.

use crate::OpenError;
use bulkhead_abi::plan::PortInformation;
use bulkhead_guest_abi::channel::{
    CHANNEL_WRITER_OFFSET, PORT_QUEUING, PORT_SAMPLING, SAMPLING_SLOTS, SLOTS_OFFSET, SlotHeader, slot_stride,
    writer_bytes,
};

/// Most payload bytes of a message: with its head it fills a page less the source's header.
pub const MAX_MESSAGE_BYTES: u32 = 4032;
/// Most slots of a queuing port.
pub const MAX_DEPTH: u32 = 65_536;

/// Bytes of a word.
pub(crate) const WORD: u64 = size_of::<u64>() as u64;

/// Parameters of a port: kind, message size, slots. Always within their ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    kind: u32,
    message_bytes: u32,
    slots: u32,
}

impl Geometry {
    /// Describes a sampling port.
    ///
    /// # Errors
    ///
    /// When `message_bytes` is 0 or more than [`MAX_MESSAGE_BYTES`].
    pub const fn sampling(message_bytes: u32) -> Result<Self, OpenError> {
        Self::new(PORT_SAMPLING, message_bytes, SAMPLING_SLOTS)
    }

    /// Describes a queuing port of `depth` messages.
    ///
    /// # Errors
    ///
    /// When `message_bytes` or `depth` is 0 or too large.
    pub const fn queuing(message_bytes: u32, depth: u32) -> Result<Self, OpenError> {
        Self::new(PORT_QUEUING, message_bytes, depth)
    }

    /// Takes the parameters from the information page or from an ivshmem function's registers.
    ///
    /// # Errors
    ///
    /// When they are out of range.
    pub const fn from_port(port: &PortInformation) -> Result<Self, OpenError> {
        Self::new(port.kind, port.message_bytes, port.slots)
    }

    const fn new(kind: u32, message_bytes: u32, slots: u32) -> Result<Self, OpenError> {
        if message_bytes == 0 || message_bytes > MAX_MESSAGE_BYTES {
            return Err(OpenError::MessageBytes(message_bytes));
        }
        let slots_fit = match kind {
            PORT_SAMPLING => slots == SAMPLING_SLOTS,
            PORT_QUEUING => slots >= 1 && slots <= MAX_DEPTH,
            _ => return Err(OpenError::Kind(kind)),
        };
        if !slots_fit {
            return Err(OpenError::Slots(slots));
        }
        Ok(Self { kind, message_bytes, slots })
    }

    /// States whether the port is a sampling port.
    #[must_use]
    pub const fn is_sampling(&self) -> bool {
        self.kind == PORT_SAMPLING
    }

    /// Returns the port's kind, [`PORT_SAMPLING`] or [`PORT_QUEUING`].
    #[must_use]
    pub const fn kind(&self) -> u32 {
        self.kind
    }

    /// Returns the most payload bytes of a message.
    #[must_use]
    pub const fn message_bytes(&self) -> u32 {
        self.message_bytes
    }

    /// Returns the slots.
    #[must_use]
    pub const fn slots(&self) -> u32 {
        self.slots
    }

    /// Returns the bytes of the window that the port uses, from the status page to the end of the source's area.
    #[must_use]
    pub const fn window_bytes(&self) -> u64 {
        CHANNEL_WRITER_OFFSET + writer_bytes(self.message_bytes, self.slots)
    }

    /// Returns the first word of a slot. `slot` is below the number of slots, or the result lies past the area.
    pub(crate) const fn slot_word(&self, slot: u32) -> usize {
        // At most (65,536 * 4,096 + 12 KiB) / 8 words: no overflow in 64 bits.
        let offset = slot_stride(self.message_bytes).wrapping_mul(slot as u64);
        (CHANNEL_WRITER_OFFSET + SLOTS_OFFSET).wrapping_add(offset).wrapping_div(WORD) as usize
    }

    /// Returns the slot of a queuing port that holds message number `sequence` (from 1).
    pub(crate) const fn slot_of(&self, sequence: u64) -> u32 {
        match sequence.wrapping_sub(1).checked_rem(self.slots as u64) {
            Some(slot) => slot as u32,
            None => 0,
        }
    }
}

const _: () = assert!(size_of::<SlotHeader>() == 24, "the payload starts at the fourth word of a slot");
const _: () = assert!(slot_stride(MAX_MESSAGE_BYTES) == 4096, "a slot of the largest message is one page");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_out_of_range_are_refused() {
        assert_eq!(Geometry::sampling(0), Err(OpenError::MessageBytes(0)));
        assert_eq!(Geometry::sampling(4033), Err(OpenError::MessageBytes(4033)));
        assert_eq!(Geometry::queuing(8, 0), Err(OpenError::Slots(0)));
        assert_eq!(Geometry::queuing(8, MAX_DEPTH + 1), Err(OpenError::Slots(MAX_DEPTH + 1)));
        let port = PortInformation { kind: 3, message_bytes: 8, slots: 4, ..PortInformation::default() };
        assert_eq!(Geometry::from_port(&port), Err(OpenError::Kind(3)));
        let port = PortInformation { kind: PORT_SAMPLING, message_bytes: 8, slots: 5, ..PortInformation::default() };
        assert_eq!(Geometry::from_port(&port), Err(OpenError::Slots(5)));
    }

    #[test]
    fn the_last_slot_ends_inside_the_window() {
        for (message_bytes, depth) in [(1, 1), (40, 3), (41, 3), (4032, 7), (4032, MAX_DEPTH)] {
            let geometry = Geometry::queuing(message_bytes, depth).unwrap();
            let end = geometry.slot_word(depth) as u64 * WORD;
            assert!(end <= geometry.window_bytes());
            assert!(geometry.window_bytes() - end < 4096);
        }
    }

    #[test]
    fn messages_go_round_the_ring_for_ever() {
        let geometry = Geometry::queuing(8, 3).unwrap();
        assert_eq!([1, 2, 3, 4, 5].map(|sequence| geometry.slot_of(sequence)), [0, 1, 2, 0, 1]);
        assert!(geometry.slot_of(0) < 3, "a sequence of 0 never occurs and still stays inside");
        assert!(geometry.slot_of(u64::MAX) < 3);
    }
}
