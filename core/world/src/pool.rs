//! Messages between the worlds in blocks of a fixed size: pools, rings, filters and events (SG-70 to SG-72).
//!
//! A pool goes one way. Its sender owns the blocks: it allocates one, fills it and enqueues it; the receiver dequeues it, copies and frees it, and the sender
//! finds it among its free ones again. Nothing blocks: without a free block or a message the caller is told so. Memory is shared and the other end
//! writes where it likes, so what counts is private: which blocks are whose, and how far each ring was read. What comes from the
//! other end is copied once, bounded, then used; whatever it writes, no access leaves the pool, no block is somebody's twice, and a
//! call looks at each ring once round at most.
//!
//! | words | content | writer |
//! | --- | --- | --- |
//! | 0 | how many messages were enqueued, ever | sender |
//! | 8 | how many blocks were freed, ever | receiver |
//! | 16 | a ring of messages: tag, bytes, block in one word, so that it is never seen half written | sender |
//! | behind it | a ring of freed blocks | receiver |
//! | behind it | the blocks | sender |
//!
//! Rings have room for every block, so that neither is ever full. A restart of the other world clears the memory and makes both ends new: the
//! payload's library does both.
//!
//! An end of the non-secure world may be a program that runs again and again, as `bulkheadctl` does: [`Sender::resume`] and
//! [`Receiver::resume`] take from the memory where the run before has come to. Who else writes there fools that end alone, and the
//! payload's ends, which believe nobody, have no such way.
//!
//! Rejected: a free list in shared memory, from which both ends allocate (SafeG 0.3). One end can then break it for the other.

use bulkhead_channel::SharedMemory;

/// Most blocks of a pool: sets of them are one word.
pub const MAX_BLOCKS: u32 = 32;
/// Most bytes of a block.
pub const MAX_BLOCK_BYTES: u32 = 4096;

const SENT: usize = 0;
const FREED: usize = 8;
const RING: usize = 16;
const WORD_BYTES: usize = size_of::<u64>();
/// Bits of a message that are its block; its bytes are as many above them.
const BLOCK: u64 = 0xffff;

/// The shape of a pool, which the plan gives: never what the other end says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    blocks: u32,
    block_bytes: u32,
}

impl Geometry {
    /// A pool of so many blocks; `None` when there are none or too many, or they are empty or too large.
    #[must_use]
    pub const fn new(blocks: u32, block_bytes: u32) -> Option<Self> {
        let fits = blocks != 0 && blocks <= MAX_BLOCKS && block_bytes != 0 && block_bytes <= MAX_BLOCK_BYTES;
        if fits { Some(Self { blocks, block_bytes }) } else { None }
    }

    /// Bytes of a block.
    #[must_use]
    pub const fn block_bytes(&self) -> u32 {
        self.block_bytes
    }

    /// 64-bit words of the memory that a pool needs.
    #[must_use]
    pub const fn words(&self) -> usize {
        self.block(self.blocks)
    }

    /// A power of two that is not smaller than the number of blocks.
    const fn slots(&self) -> u32 {
        self.blocks.next_power_of_two()
    }

    const fn slot(&self, ring: usize, number: u64) -> usize {
        let mask = (self.slots() as u64).wrapping_sub(1);
        RING.saturating_add(ring).saturating_add((number & mask) as usize)
    }

    const fn message_slot(&self, number: u64) -> usize {
        self.slot(0, number)
    }

    const fn freed_slot(&self, number: u64) -> usize {
        self.slot(self.slots() as usize, number)
    }

    const fn block(&self, block: u32) -> usize {
        let words = (self.block_bytes as usize).div_ceil(WORD_BYTES);
        let rings = (self.slots() as usize).saturating_mul(2);
        RING.saturating_add(rings).saturating_add((block as usize).saturating_mul(words))
    }

    /// All blocks, as a set.
    const fn all(&self) -> u32 {
        u32::MAX >> MAX_BLOCKS.saturating_sub(self.blocks)
    }

    const fn bit(&self, block: u64) -> Option<u32> {
        if block < self.blocks as u64 { 1u32.checked_shl(block as u32) } else { None }
    }
}

/// How many entries of a ring are new, by the other end's count: `None` when it says what cannot be.
const fn news(before: u64, count: u64, slots: u32) -> Option<u64> {
    match count.checked_sub(before) {
        Some(news) if news <= slots as u64 => Some(news),
        _ => None,
    }
}

/// Why something was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolError {
    /// The memory is smaller than the pool.
    Memory,
    /// There is no message, or no free block.
    Nothing,
    /// The block is not the caller's.
    Block,
    /// More bytes than a block has, or than the caller's buffer takes.
    Length,
    /// The other end's count or message is nonsense; a bad message was dropped.
    Corrupt,
}

/// The end that allocates and enqueues.
#[derive(Debug)]
pub struct Sender<M> {
    memory: M,
    geometry: Geometry,
    free: u32,
    /// Allocated, and not enqueued.
    own: u32,
    sent: u64,
    freed: u64,
}

impl<M: SharedMemory> Sender<M> {
    /// The sender of a pool whose memory is zeros.
    ///
    /// # Errors
    ///
    /// When the memory is too small.
    pub fn new(memory: M, geometry: Geometry) -> Result<Self, PoolError> {
        if memory.words() < geometry.words() {
            return Err(PoolError::Memory);
        }
        Ok(Self { memory, geometry, free: geometry.all(), own: 0, sent: 0, freed: 0 })
    }

    /// The sender that goes on where another one of the same pool stopped, between two messages. The receiver frees messages in the order in which it
    /// took them, so what is not free are the latest messages.
    ///
    /// # Errors
    ///
    /// When the memory is too small, or says what cannot be.
    pub fn resume(memory: M, geometry: Geometry) -> Result<Self, PoolError> {
        let mut sender = Self::new(memory, geometry)?;
        // Acquire: the receiver has left the blocks that it freed.
        sender.freed = sender.memory.load_acquire(FREED);
        sender.sent = sender.memory.load(SENT);
        let lent = news(sender.freed, sender.sent, geometry.blocks).ok_or(PoolError::Corrupt)?;
        for back in 1..=lent {
            let message = sender.memory.load(geometry.message_slot(sender.sent.saturating_sub(back)));
            sender.free &= !geometry.bit(message & BLOCK).unwrap_or(0);
        }
        Ok(sender)
    }

    /// Takes a free block, by its number.
    ///
    /// # Errors
    ///
    /// [`PoolError::Nothing`] when none is free.
    pub fn allocate(&mut self) -> Result<u32, PoolError> {
        self.collect();
        let block = self.free.trailing_zeros();
        let bit = self.geometry.bit(block.into()).ok_or(PoolError::Nothing)?;
        (self.free, self.own) = (self.free & !bit, self.own | bit);
        Ok(block)
    }

    /// Gives an allocated block back.
    ///
    /// # Errors
    ///
    /// When it is not allocated.
    pub fn free(&mut self, block: u32) -> Result<(), PoolError> {
        let bit = self.own_bit(block)?;
        (self.free, self.own) = (self.free | bit, self.own & !bit);
        Ok(())
    }

    /// Writes an allocated block, from its beginning.
    ///
    /// # Errors
    ///
    /// When it is not allocated, or these are more bytes than it has.
    pub fn write(&mut self, block: u32, bytes: &[u8]) -> Result<(), PoolError> {
        self.own_bit(block)?;
        if bytes.len() > self.geometry.block_bytes as usize {
            return Err(PoolError::Length);
        }
        let first = self.geometry.block(block);
        for (number, part) in bytes.chunks(WORD_BYTES).enumerate() {
            let mut word = [0; WORD_BYTES];
            word.iter_mut().zip(part).for_each(|(to, from)| *to = *from);
            self.memory.store(first.saturating_add(number), u64::from_le_bytes(word));
        }
        Ok(())
    }

    /// Enqueues an allocated block with so many bytes, under a tag that the receiver's filter sees. Then the other end may be woken.
    ///
    /// # Errors
    ///
    /// When it is not allocated, or has fewer bytes.
    pub fn enqueue(&mut self, block: u32, bytes: u32, tag: u32) -> Result<(), PoolError> {
        let bit = self.own_bit(block)?;
        if bytes > self.geometry.block_bytes {
            return Err(PoolError::Length);
        }
        let message = u64::from(tag) << 32 | u64::from(bytes) << 16 | u64::from(block);
        self.memory.store(self.geometry.message_slot(self.sent), message);
        self.sent = self.sent.saturating_add(1);
        self.own &= !bit;
        // Release: the block and the message come before the count that shows them.
        self.memory.store_release(SENT, self.sent);
        Ok(())
    }

    /// Blocks that are neither free nor allocated: the receiver has them.
    #[must_use]
    pub const fn lent(&self) -> u32 {
        (self.geometry.all() & !self.free & !self.own).count_ones()
    }

    fn own_bit(&self, block: u32) -> Result<u32, PoolError> {
        self.geometry.bit(block.into()).filter(|bit| self.own & bit != 0).ok_or(PoolError::Block)
    }

    /// Takes back what the receiver has freed. What it cannot have freed is ignored: it frees nothing.
    fn collect(&mut self) {
        // Acquire: the receiver has left a block before it is written again.
        let count = self.memory.load_acquire(FREED);
        for _ in 0..news(self.freed, count, self.geometry.slots()).unwrap_or(0) {
            let block = self.memory.load(self.geometry.freed_slot(self.freed));
            self.freed = self.freed.saturating_add(1);
            self.free |= self.geometry.bit(block).unwrap_or(0) & !self.own;
        }
    }
}

/// Which messages a receiver accepts: those whose tag has these bits (SG-71).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Bits that are looked at; 0 accepts everything.
    pub mask: u32,
    /// What they are.
    pub value: u32,
}

impl Filter {
    const fn accepts(&self, tag: u32) -> bool {
        tag & self.mask == self.value & self.mask
    }
}

/// A message that the receiver holds, as it was copied and bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    block: u32,
    bytes: u32,
    tag: u32,
}

impl Held {
    /// Its bytes, at most those of a block.
    #[must_use]
    pub const fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Its tag, which the sender chose.
    #[must_use]
    pub const fn tag(&self) -> u32 {
        self.tag
    }
}

/// The end that dequeues and frees.
#[derive(Debug)]
pub struct Receiver<M> {
    memory: M,
    geometry: Geometry,
    filter: Filter,
    held: u32,
    received: u64,
    freed: u64,
    dropped: u32,
}

impl<M: SharedMemory> Receiver<M> {
    /// The receiver of a pool whose memory is zeros.
    ///
    /// # Errors
    ///
    /// When the memory is too small.
    pub fn new(memory: M, geometry: Geometry, filter: Filter) -> Result<Self, PoolError> {
        if memory.words() < geometry.words() {
            return Err(PoolError::Memory);
        }
        Ok(Self { memory, geometry, filter, held: 0, received: 0, freed: 0, dropped: 0 })
    }

    /// The receiver that goes on where another one of the same pool stopped. A message that it held is delivered again.
    ///
    /// # Errors
    ///
    /// When the memory is too small.
    pub fn resume(memory: M, geometry: Geometry, filter: Filter) -> Result<Self, PoolError> {
        let mut receiver = Self::new(memory, geometry, filter)?;
        receiver.freed = receiver.memory.load(FREED);
        receiver.received = receiver.freed;
        Ok(receiver)
    }

    /// From now on this decides which messages are accepted.
    pub const fn set_filter(&mut self, filter: Filter) {
        self.filter = filter;
    }

    /// The sender's count has moved: it is worth while to dequeue.
    #[must_use]
    pub fn has_news(&self) -> bool {
        self.memory.load(SENT) != self.received
    }

    /// Takes the next message that the filter accepts; the others before it are freed.
    ///
    /// # Errors
    ///
    /// [`PoolError::Nothing`] when there is none, [`PoolError::Corrupt`] when the sender wrote nonsense.
    pub fn dequeue(&mut self) -> Result<Held, PoolError> {
        // Acquire: messages and blocks are as they were before the count.
        let count = self.memory.load_acquire(SENT);
        for _ in 0..news(self.received, count, self.geometry.slots()).ok_or(PoolError::Corrupt)? {
            let message = self.memory.load(self.geometry.message_slot(self.received));
            self.received = self.received.saturating_add(1);
            let [block, bytes] = [message & BLOCK, message >> 16 & BLOCK];
            let Some(bit) = self.geometry.bit(block).filter(|bit| self.held & bit == 0) else {
                return Err(PoolError::Corrupt);
            };
            let held = Held { block: block as u32, bytes: bytes as u32, tag: (message >> 32) as u32 };
            if held.bytes > self.geometry.block_bytes {
                self.give_back(held.block);
                return Err(PoolError::Corrupt);
            }
            if self.filter.accepts(held.tag) {
                self.held |= bit;
                return Ok(held);
            }
            self.dropped = self.dropped.saturating_add(1);
            self.give_back(held.block);
        }
        Err(PoolError::Nothing)
    }

    /// Copies a message that is held. The sender may change it meanwhile: what was copied is what counts.
    ///
    /// # Errors
    ///
    /// When it is not held any more, or the buffer is smaller.
    pub fn read<'b>(&self, message: &Held, buffer: &'b mut [u8]) -> Result<&'b [u8], PoolError> {
        self.held_bit(message)?;
        let into = buffer.get_mut(..message.bytes as usize).ok_or(PoolError::Length)?;
        let first = self.geometry.block(message.block);
        for (number, part) in into.chunks_mut(WORD_BYTES).enumerate() {
            let word = self.memory.load(first.saturating_add(number)).to_le_bytes();
            part.iter_mut().zip(word).for_each(|(to, from)| *to = from);
        }
        Ok(into)
    }

    /// Frees a message that is held.
    ///
    /// # Errors
    ///
    /// When it is not held any more.
    pub fn free(&mut self, message: &Held) -> Result<(), PoolError> {
        self.held &= !self.held_bit(message)?;
        self.give_back(message.block);
        Ok(())
    }

    /// Messages that the filter did not accept.
    #[must_use]
    pub const fn dropped(&self) -> u32 {
        self.dropped
    }

    fn held_bit(&self, message: &Held) -> Result<u32, PoolError> {
        self.geometry.bit(message.block.into()).filter(|bit| self.held & bit != 0).ok_or(PoolError::Block)
    }

    fn give_back(&mut self, block: u32) {
        self.memory.store(self.geometry.freed_slot(self.freed), block.into());
        self.freed = self.freed.saturating_add(1);
        // Release: everything that was read of the block comes before.
        self.memory.store_release(FREED, self.freed);
    }
}

/// Events of up to 32 channels, by groups: what was rung, and whom to wake (SG-71). Private to the end that is woken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events {
    rung: u32,
}

impl Events {
    /// None so far.
    #[must_use]
    pub const fn new() -> Self {
        Self { rung: 0 }
    }

    /// A channel was rung. Returns true when that is the first event of its group since they were taken, so that somebody has to be woken; a number
    /// that is no channel of the group wakes nobody.
    pub fn ring(&mut self, channel: u32, group: u32) -> bool {
        let bit = 1u32.checked_shl(channel).unwrap_or(0) & group;
        let is_first = bit != 0 && self.rung & group == 0;
        self.rung |= bit;
        is_first
    }

    /// Takes the events of a group of channels.
    pub fn take(&mut self, group: u32) -> u32 {
        let taken = self.rung & group;
        self.rung &= !group;
        taken
    }
}
