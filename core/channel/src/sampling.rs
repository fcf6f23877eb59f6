//! Sampling ports: the newest value, by Simpson's four slots.
//!
//! Two pairs of two slots. The source writes into the pair that the destination does not read, and there into the slot
//! that does not hold the pair's newest value; then it publishes the slot, then the pair. The destination announces the
//! pair that it takes, then reads the pair's newest slot. Neither waits, neither tears, neither retries.
//!
//! The proof needs sequential consistency in two places where each side stores one variable and then loads the other's
//! (store buffering): the destination between announcing its pair and loading the pair's slot, the source between
//! publishing and its next look at the announcement. These are the full barriers below; `tests/interleavings.rs` shows
//! that the model checker finds a torn value when either is missing.
//!
//! Rejected: a sequence lock (the destination may retry without bound under a fast or hostile source) and a triple buffer
//! (needs an exchange on a word that both sides write, against the rule of one writer per page).

use crate::error::{Corruption, SampleError, WriteError};
use crate::window::{
    READER_HEAD, READER_PAIR_EPOCH, WRITER_PAIRS_EPOCH, WRITER_SLOTS_LATEST, WRITER_WRITTEN, Window, high, low, pack,
};
use crate::{Geometry, Message, OpenError, PeerStatus, SharedMemory, Written};
use bulkhead_guest_abi::channel::{PORT_SAMPLING, READER_MAGIC};

/// The source of a sampling port.
#[derive(Debug)]
pub struct SamplingWriter<M> {
    window: Window<M>,
    epoch: u32,
    /// Newest slot within each pair, bit p for pair p.
    pair_slots: u32,
    written: u64,
}

impl<M: SharedMemory> SamplingWriter<M> {
    /// Opens the port: resumes what an earlier program of this partition left, or starts a new incarnation.
    ///
    /// # Errors
    ///
    /// When the port is not a sampling port or the window is too small.
    pub fn open(memory: M, geometry: Geometry, now_ticks: u64) -> Result<Self, OpenError> {
        let window = Window::new(memory, geometry, PORT_SAMPLING)?;
        if let Ok(Some(epoch)) = window.source_epoch() {
            let pair_slots = low(window.memory.load(WRITER_PAIRS_EPOCH)) & 3;
            // A program that ended between publishing a value and its count has used the value's number all the same.
            let pair = high(window.memory.load(WRITER_SLOTS_LATEST)) & 1;
            let newest = geometry.slot_word((pair << 1) | ((pair_slots >> pair) & 1));
            let written = window.memory.load(WRITER_WRITTEN).max(window.memory.load(newest));
            return Ok(Self { window, epoch, pair_slots, written });
        }
        let epoch = window.start_source(now_ticks);
        Ok(Self { window, epoch, pair_slots: 0, written: 0 })
    }

    /// Publishes a value. Wait-free; the destination's page decides at most which pair is used.
    ///
    /// # Errors
    ///
    /// When the payload is empty or too long.
    pub fn write(&mut self, payload: &[u8], now_ticks: u64) -> Result<Written, WriteError> {
        let most = self.window.geometry.message_bytes();
        if !self.window.length_fits(payload) {
            return Err(WriteError::Length { most });
        }
        let memory = &self.window.memory;
        // Publishing the value before (stores) is ordered before looking at the announcement (load).
        memory.full_barrier();
        let pair = (low(memory.load_acquire(READER_PAIR_EPOCH)) & 1) ^ 1;
        let slot = ((self.pair_slots >> pair) & 1) ^ 1;
        let sequence = self.written.wrapping_add(1);
        self.window.write_slot((pair << 1) | slot, payload, sequence, now_ticks);
        self.pair_slots = (self.pair_slots & !(1 << pair)) | (slot << pair);
        self.written = sequence;
        memory.store_release(WRITER_PAIRS_EPOCH, pack(self.pair_slots, self.epoch));
        memory.store_release(WRITER_SLOTS_LATEST, pack(self.window.geometry.slots(), pair));
        memory.store_release(WRITER_WRITTEN, sequence);
        Ok(Written { sequence })
    }

    /// Returns how many values this incarnation has written.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// States whether the destination has opened its end.
    pub fn destination_is_open(&self) -> bool {
        self.window.destination_is_open()
    }

    /// Returns the state of the destination's partition.
    pub fn peer_status(&self) -> PeerStatus {
        self.window.peer_status()
    }
}

/// A value from a sampling port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample<'b> {
    /// The value.
    pub message: Message<'b>,
    /// It was not returned by this port object before.
    pub is_new: bool,
}

/// The destination of a sampling port.
#[derive(Debug)]
pub struct SamplingReader<M> {
    window: Window<M>,
    /// Incarnation of the source that `last` belongs to; 0 before the first.
    epoch: u32,
    /// Sequence number returned last.
    last: u64,
}

impl<M: SharedMemory> SamplingReader<M> {
    /// Opens the port.
    ///
    /// # Errors
    ///
    /// When the port is not a sampling port or the window is too small.
    pub fn open(memory: M, geometry: Geometry) -> Result<Self, OpenError> {
        let window = Window::new(memory, geometry, PORT_SAMPLING)?;
        let mut epoch = 0;
        if window.destination_is_open() {
            epoch = high(window.memory.load(READER_PAIR_EPOCH));
        } else {
            window.memory.store(READER_PAIR_EPOCH, 0);
            window.memory.store_release(READER_HEAD, READER_MAGIC);
        }
        Ok(Self { window, epoch, last: 0 })
    }

    /// Copies the newest value into `buffer`, which has room for a whole message. Wait-free.
    ///
    /// # Errors
    ///
    /// When there is no value, or none that can be trusted. After an error the buffer's content means nothing.
    pub fn read<'b>(&mut self, buffer: &'b mut [u8]) -> Result<Sample<'b>, SampleError> {
        let needed = self.window.geometry.message_bytes();
        if buffer.len() < needed as usize {
            return Err(SampleError::BufferTooSmall { needed });
        }
        self.follow_source()?;
        let memory = &self.window.memory;
        let least = memory.load_acquire(WRITER_WRITTEN);
        if least == 0 {
            return Err(SampleError::NoValue);
        }
        let pair = high(memory.load_acquire(WRITER_SLOTS_LATEST)) & 1;
        memory.store_release(READER_PAIR_EPOCH, pack(pair, self.epoch));
        // The announcement (store) is ordered before choosing the slot (load).
        memory.full_barrier();
        let slot = (low(memory.load_acquire(WRITER_PAIRS_EPOCH)) >> pair) & 1;
        let judged = self.window.read_slot((pair << 1) | slot, buffer).and_then(|message| {
            // A value is at least as new as the count said before the pair was chosen, and never older than the last one.
            if message.sequence < least || message.sequence < self.last {
                Err(Corruption::Sequence)
            } else {
                Ok(message)
            }
        });
        match judged {
            Ok(message) => {
                let is_new = message.sequence != self.last;
                self.last = message.sequence;
                Ok(Sample { message, is_new })
            }
            Err(corruption) => Err(self.judge_source(corruption)),
        }
    }

    /// As [`Self::read`], and refuses a value older than `maximum_age_ticks` (ARINC 653 refresh period).
    ///
    /// # Errors
    ///
    /// As [`Self::read`]; [`SampleError::Stale`] when the value is too old.
    pub fn read_fresh<'b>(
        &mut self,
        buffer: &'b mut [u8],
        now_ticks: u64,
        maximum_age_ticks: u64,
    ) -> Result<Sample<'b>, SampleError> {
        let sample = self.read(buffer)?;
        let age_ticks = sample.message.age_ticks(now_ticks);
        if age_ticks > maximum_age_ticks { Err(SampleError::Stale { age_ticks }) } else { Ok(sample) }
    }

    /// Returns how many values the source says it has written (a claim of the peer; 0 while it is closed).
    pub fn written(&self) -> u64 {
        match self.window.source_epoch() {
            Ok(Some(_)) => self.window.memory.load_acquire(WRITER_WRITTEN),
            _ => 0,
        }
    }

    /// Returns the state of the source's partition.
    pub fn peer_status(&self) -> PeerStatus {
        self.window.peer_status()
    }

    /// Checks the source's head and adopts a new incarnation.
    fn follow_source(&mut self) -> Result<(), SampleError> {
        let epoch = match self.window.source_epoch() {
            Ok(Some(epoch)) => epoch,
            Ok(None) => return Err(SampleError::PeerClosed),
            Err(corruption) => return Err(self.judge_source(corruption)),
        };
        if epoch == self.epoch {
            return Ok(());
        }
        let first = self.epoch == 0;
        self.epoch = epoch;
        self.last = 0;
        // Echoed at once, so that the next incarnation avoids this epoch even if no value of it was ever read.
        self.window.memory.store_release(READER_PAIR_EPOCH, pack(0, epoch));
        if first { Ok(()) } else { Err(SampleError::PeerReset { generation: self.peer_status().generation }) }
    }

    /// Tells rubbish from an area that is being cleared by a restart at this moment.
    fn judge_source(&self, corruption: Corruption) -> SampleError {
        match self.window.source_epoch() {
            Ok(Some(epoch)) if epoch == self.epoch => SampleError::Corrupt(corruption),
            Ok(_) => SampleError::PeerClosed,
            Err(still) => SampleError::Corrupt(still),
        }
    }
}
