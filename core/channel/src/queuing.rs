//! Queuing ports: messages in order, by a ring with one producer and one consumer.
//!
//! Both counters run up for ever (64 bits do not wrap), so full and empty differ and no slot is lost. Each side keeps its
//! own counter privately; the shared copy is only ever stored. The peer's counter counts when `read <= written <= read +
//! slots`, with the own counter standing in that relation; anything else is ignored or reported, never computed with.
//!
//! Rejected: an index modulo the ring (cannot tell full from empty without losing a slot) and overwriting the oldest
//! message when full (the destination could not trust a slot while reading it; a sampling port is for that).

use crate::error::{Corruption, ReceiveError, SendError};
use crate::window::{
    READER_HEAD, READER_PAIR_EPOCH, READER_READ, WRITER_ACKNOWLEDGED, WRITER_WRITTEN, Window, high, pack,
};
use crate::{Geometry, Message, OpenError, PeerStatus, SharedMemory, Written};
use bulkhead_guest_abi::channel::{PORT_QUEUING, READER_MAGIC};

/// States whether a source that has written `written` and a destination that has read `read` can both be right.
const fn counters_agree(read: u64, written: u64, slots: u32) -> bool {
    read <= written && written.wrapping_sub(read) <= slots as u64
}

/// The source of a queuing port.
#[derive(Debug)]
pub struct QueuingWriter<M> {
    window: Window<M>,
    epoch: u32,
    written: u64,
    /// Highest believable count of the destination.
    acknowledged: u64,
}

impl<M: SharedMemory> QueuingWriter<M> {
    /// Opens the port: resumes what an earlier program of this partition left, or starts a new incarnation.
    ///
    /// # Errors
    ///
    /// When the port is not a queuing port or the window is too small.
    pub fn open(memory: M, geometry: Geometry, now_ticks: u64) -> Result<Self, OpenError> {
        let window = Window::new(memory, geometry, PORT_QUEUING)?;
        if let Ok(Some(epoch)) = window.source_epoch() {
            let written = window.memory.load(WRITER_WRITTEN);
            let acknowledged = window.memory.load(WRITER_ACKNOWLEDGED);
            if counters_agree(acknowledged, written, geometry.slots()) {
                return Ok(Self { window, epoch, written, acknowledged });
            }
        }
        let epoch = window.start_source(now_ticks);
        Ok(Self { window, epoch, written: 0, acknowledged: 0 })
    }

    /// Puts a message into the queue. Wait-free.
    ///
    /// # Errors
    ///
    /// When the payload is empty or too long, or no slot is free.
    pub fn send(&mut self, payload: &[u8], now_ticks: u64) -> Result<Written, SendError> {
        let most = self.window.geometry.message_bytes();
        if !self.window.length_fits(payload) {
            return Err(SendError::Length { most });
        }
        let looked = self.look_at_destination();
        if self.written.wrapping_sub(self.acknowledged) >= u64::from(self.window.geometry.slots()) {
            return Err(looked.map_or_else(SendError::Corrupt, |()| SendError::Full));
        }
        let sequence = self.written.wrapping_add(1);
        let slot = self.window.geometry.slot_of(sequence);
        self.window.write_slot(slot, payload, sequence, now_ticks);
        self.window.memory.store_release(WRITER_WRITTEN, sequence);
        self.written = sequence;
        Ok(Written { sequence })
    }

    /// Returns how many messages could be sent now.
    pub fn free(&mut self) -> u32 {
        // A destination that is rubbish frees nothing; `send` reports it.
        let _ = self.look_at_destination();
        let unread = self.written.wrapping_sub(self.acknowledged);
        u64::from(self.window.geometry.slots()).saturating_sub(unread) as u32
    }

    /// Returns how many messages this incarnation has sent.
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

    /// Takes over the destination's count, if it is of this epoch and believable, and publishes it as acknowledged.
    fn look_at_destination(&mut self) -> Result<(), Corruption> {
        let memory = &self.window.memory;
        if !self.window.destination_is_open() || high(memory.load_acquire(READER_PAIR_EPOCH)) != self.epoch {
            return Ok(());
        }
        // Acquire: the slots that this count frees are not overwritten before the destination has left them.
        let read = memory.load_acquire(READER_READ);
        if read < self.acknowledged || read > self.written {
            return Err(Corruption::Counter);
        }
        if read != self.acknowledged {
            self.acknowledged = read;
            // Before a freed slot is written, so that a destination that starts from this count looks at slots in use.
            memory.store_release(WRITER_ACKNOWLEDGED, read);
        }
        Ok(())
    }
}

/// The destination of a queuing port.
#[derive(Debug)]
pub struct QueuingReader<M> {
    window: Window<M>,
    /// Incarnation of the source that `read` belongs to; 0 before the first.
    epoch: u32,
    read: u64,
}

impl<M: SharedMemory> QueuingReader<M> {
    /// Opens the port: resumes what an earlier program of this partition left, or starts at what the source knows to be read.
    ///
    /// # Errors
    ///
    /// When the port is not a queuing port or the window is too small.
    pub fn open(memory: M, geometry: Geometry) -> Result<Self, OpenError> {
        let window = Window::new(memory, geometry, PORT_QUEUING)?;
        let (mut epoch, mut read) = (0, 0);
        if window.destination_is_open() {
            epoch = high(window.memory.load(READER_PAIR_EPOCH));
            read = window.memory.load(READER_READ);
        } else {
            window.memory.store(READER_PAIR_EPOCH, 0);
            window.memory.store(READER_READ, 0);
            window.memory.store_release(READER_HEAD, READER_MAGIC);
        }
        Ok(Self { window, epoch, read })
    }

    /// Takes the next message into `buffer`, which has room for a whole message. Wait-free.
    ///
    /// # Errors
    ///
    /// When no message is waiting, or the source's memory is rubbish. A bad message is dropped, so the caller can
    /// continue. After an error the buffer's content means nothing.
    pub fn receive<'b>(&mut self, buffer: &'b mut [u8]) -> Result<Message<'b>, ReceiveError> {
        let needed = self.window.geometry.message_bytes();
        if buffer.len() < needed as usize {
            return Err(ReceiveError::BufferTooSmall { needed });
        }
        self.follow_source()?;
        let written = self.window.memory.load_acquire(WRITER_WRITTEN);
        if written == self.read {
            return Err(ReceiveError::Empty);
        }
        if !counters_agree(self.read, written, self.window.geometry.slots()) {
            return Err(self.recover(Corruption::Counter, self.read));
        }
        let expected = self.read.wrapping_add(1);
        let slot = self.window.geometry.slot_of(expected);
        let judged = self
            .window
            .read_slot(slot, buffer)
            .and_then(|message| if message.sequence == expected { Ok(message) } else { Err(Corruption::Sequence) });
        match judged {
            Ok(message) => {
                self.publish(expected);
                Ok(message)
            }
            Err(corruption) => Err(self.drop_message(corruption)),
        }
    }

    /// Returns how many messages are waiting, as far as the source can be believed.
    pub fn pending(&self) -> u32 {
        let Ok(Some(epoch)) = self.window.source_epoch() else {
            return 0;
        };
        let memory = &self.window.memory;
        let read = if epoch == self.epoch { self.read } else { memory.load(WRITER_ACKNOWLEDGED) };
        let written = memory.load_acquire(WRITER_WRITTEN);
        let agree = counters_agree(read, written, self.window.geometry.slots());
        if agree { written.wrapping_sub(read) as u32 } else { 0 }
    }

    /// Returns how many messages of the source's present incarnation were read.
    pub fn read(&self) -> u64 {
        self.read
    }

    /// Returns the state of the source's partition.
    pub fn peer_status(&self) -> PeerStatus {
        self.window.peer_status()
    }

    /// Checks the source's head and adopts a new incarnation.
    fn follow_source(&mut self) -> Result<(), ReceiveError> {
        let epoch = match self.window.source_epoch() {
            Ok(Some(epoch)) => epoch,
            Ok(None) => return Err(ReceiveError::PeerClosed),
            Err(corruption) => return Err(self.judge_source(corruption)),
        };
        if epoch == self.epoch {
            return Ok(());
        }
        let first = self.epoch == 0;
        self.epoch = epoch;
        let memory = &self.window.memory;
        self.read = memory.load(WRITER_ACKNOWLEDGED);
        // The count before the epoch: a source heeds the count only beside its own epoch.
        memory.store(READER_READ, self.read);
        memory.store_release(READER_PAIR_EPOCH, pack(0, epoch));
        if first { Ok(()) } else { Err(ReceiveError::PeerReset { generation: self.peer_status().generation }) }
    }

    /// Makes the slot of message `read` free.
    fn publish(&mut self, read: u64) {
        self.read = read;
        self.window.memory.store_release(READER_READ, read);
    }

    /// Drops a bad message.
    fn drop_message(&mut self, corruption: Corruption) -> ReceiveError {
        self.recover(corruption, self.read.wrapping_add(1))
    }

    /// Continues after rubbish, at `next`, unless the whole source is being cleared by a restart at this moment.
    ///
    /// When the source's `acknowledged` is ahead of this end's count, it is the place to continue: this end has started
    /// from a count that was already old, because the source looked at the page just before a restart cleared it.
    fn recover(&mut self, corruption: Corruption, next: u64) -> ReceiveError {
        let verdict = self.judge_source(corruption);
        if let ReceiveError::Corrupt(_) = verdict {
            let written = self.window.memory.load_acquire(WRITER_WRITTEN);
            let acknowledged = self.window.memory.load(WRITER_ACKNOWLEDGED);
            let is_behind =
                acknowledged > self.read && counters_agree(acknowledged, written, self.window.geometry.slots());
            self.publish(if is_behind { acknowledged } else { next });
        }
        verdict
    }

    /// Tells rubbish from an area that is being cleared by a restart at this moment.
    fn judge_source(&self, corruption: Corruption) -> ReceiveError {
        match self.window.source_epoch() {
            Ok(Some(epoch)) if epoch == self.epoch => ReceiveError::Corrupt(corruption),
            Ok(_) => ReceiveError::PeerClosed,
            Err(still) => ReceiveError::Corrupt(still),
        }
    }
}
