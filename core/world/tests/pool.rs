//! Pools of blocks: the product's way, a hostile other end, and every interleaving of two honest ones (SG-70, SG-71, SG-72).

use bulkhead_channel::SharedMemory;
use bulkhead_world::pool::{Events, Filter, Geometry, Held, PoolError, Receiver, Sender};
use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, any, proptest};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// The channels of the published example: 10 blocks of 32 bytes, 5 of 8.
const EXAMPLES: [(u32, u32); 2] = [(10, 32), (5, 8)];

fn memory(geometry: Geometry) -> Vec<AtomicU64> {
    (0..geometry.words()).map(|_| AtomicU64::new(0)).collect()
}

/// SG-70: every block carries a message, then there is none; what is freed can be allocated again; order and contents are kept.
#[test]
fn messages_go_round_in_blocks() {
    for (blocks, bytes) in EXAMPLES {
        let geometry = Geometry::new(blocks, bytes).unwrap();
        let memory = memory(geometry);
        let mut sender = Sender::new(&memory[..], geometry).unwrap();
        let mut receiver = Receiver::new(&memory[..], geometry, Filter::default()).unwrap();
        let mut buffer = [0; 32];
        for round in 0..7u8 {
            assert_eq!(receiver.dequeue(), Err(PoolError::Nothing));
            for number in 0..blocks {
                let block = sender.allocate().unwrap();
                let content: Vec<u8> = (0..bytes as u8).map(|byte| byte ^ round ^ number as u8).collect();
                sender.write(block, &content[..(bytes - number % 3) as usize]).unwrap();
                sender.enqueue(block, bytes - number % 3, number).unwrap();
            }
            assert_eq!((sender.allocate(), sender.lent()), (Err(PoolError::Nothing), blocks));
            for number in 0..blocks {
                let message = receiver.dequeue().unwrap();
                let read = receiver.read(&message, &mut buffer).unwrap();
                assert_eq!(
                    (message.tag(), read.len() as u32, message.bytes()),
                    (number, bytes - number % 3, bytes - number % 3)
                );
                assert!(read.iter().zip(0..).all(|(byte, place)| *byte == place ^ round ^ number as u8));
                receiver.free(&message).unwrap();
            }
        }
    }
}

/// Mistakes of the own side are refused: another's block, too many bytes, a buffer that is too small, a block that is freed twice.
#[test]
fn own_mistakes_are_refused() {
    let geometry = Geometry::new(2, 8).unwrap();
    let memory = memory(geometry);
    assert!(Sender::new(&memory[..memory.len() - 1], geometry).is_err());
    assert!(Receiver::new(&memory[..memory.len() - 1], geometry, Filter::default()).is_err());
    assert!(
        [(0, 8), (33, 8), (1, 0), (1, 4097)].iter().all(|(blocks, bytes)| Geometry::new(*blocks, *bytes).is_none())
    );
    assert!(Geometry::new(32, 4096).is_some_and(|largest| largest.block_bytes() == 4096));
    let mut sender = Sender::new(&memory[..], geometry).unwrap();
    let mut receiver = Receiver::new(&memory[..], geometry, Filter::default()).unwrap();
    let block = sender.allocate().unwrap();
    for other in [1 - block, 2, 31, 32, 64, u32::MAX] {
        let refused = [sender.write(other, &[]), sender.enqueue(other, 0, 0), sender.free(other)];
        assert_eq!(refused, [Err(PoolError::Block); 3], "{other}");
    }
    assert_eq!(sender.write(block, &[0; 9]), Err(PoolError::Length));
    assert_eq!(sender.enqueue(block, 9, 0), Err(PoolError::Length));
    sender.free(block).unwrap();
    assert_eq!((sender.free(block), sender.lent()), (Err(PoolError::Block), 0));
    let block = sender.allocate().unwrap();
    sender.enqueue(block, 8, 0).unwrap();
    assert_eq!(sender.write(block, &[1]), Err(PoolError::Block), "it is the receiver's");
    let message = receiver.dequeue().unwrap();
    assert_eq!(receiver.read(&message, &mut [0; 7]), Err(PoolError::Length));
    receiver.free(&message).unwrap();
    assert_eq!(receiver.free(&message), Err(PoolError::Block));
    assert_eq!(receiver.read(&message, &mut [0; 8]), Err(PoolError::Block));
}

/// SG-71: what the filter does not accept is freed at once and counted; events wake once for a group until they are taken.
#[test]
fn filters_and_events() {
    let geometry = Geometry::new(3, 8).unwrap();
    let memory = memory(geometry);
    let mut sender = Sender::new(&memory[..], geometry).unwrap();
    let mut receiver = Receiver::new(&memory[..], geometry, Filter { mask: 0xf0, value: 0x10 }).unwrap();
    for tag in [0x20, 0x11, 0x31] {
        let block = sender.allocate().unwrap();
        sender.enqueue(block, 1, tag).unwrap();
    }
    assert_eq!(receiver.dequeue().map(|message| message.tag()), Ok(0x11));
    assert_eq!((receiver.dequeue(), receiver.dropped()), (Err(PoolError::Nothing), 2));
    assert_eq!([(); 3].map(|()| sender.allocate().is_ok()), [true, true, false], "one is held");
    let mut events = Events::default();
    let (one, other) = (0b0011, 0b1100);
    assert!(events.ring(0, one) && !events.ring(1, one) && events.ring(3, other));
    assert_eq!([events.ring(4, other), events.ring(32, u32::MAX), events.ring(0, other)], [false; 3]);
    assert_eq!([events.take(one), events.take(one), events.take(u32::MAX)], [0b11, 0, 0b1000]);
    assert!(events.ring(1, one));
}

/// Ends of one side that follow each other: nothing is lost, nothing comes twice but what was held, and no block is written that is not free.
#[test]
fn ends_go_on_where_others_stopped() {
    let geometry = Geometry::new(3, 8).unwrap();
    let memory = memory(geometry);
    let mut receiver = Receiver::new(&memory[..], geometry, Filter::default()).unwrap();
    for number in 0..20u64 {
        let mut sender = Sender::resume(&memory[..], geometry).unwrap();
        let free = [(); 4].map(|()| sender.allocate().is_ok()).iter().filter(|is_free| **is_free).count();
        assert_eq!(free as u64, 3 - number.min(1), "all but the one that was not received yet");
        let mut sender = Sender::resume(&memory[..], geometry).unwrap();
        let block = sender.allocate().unwrap();
        sender.write(block, &number.to_le_bytes()).unwrap();
        sender.enqueue(block, 8, 0).unwrap();
        if let Some(before) = number.checked_sub(1) {
            assert!(receiver.has_news());
            let message = receiver.dequeue().unwrap();
            assert_eq!(receiver.read(&message, &mut [0; 8]).unwrap(), before.to_le_bytes());
            receiver = Receiver::resume(&memory[..], geometry, Filter::default()).unwrap();
            let again = receiver.dequeue().unwrap();
            assert_eq!(receiver.read(&again, &mut [0; 8]).unwrap(), before.to_le_bytes(), "it was held");
            receiver.free(&again).unwrap();
        }
    }
    assert!(receiver.dequeue().is_ok() && !receiver.has_news());
    memory[8].store(u64::MAX, Ordering::Relaxed);
    assert_eq!(Sender::resume(&memory[..], geometry).err(), Some(PoolError::Corrupt));
}

/// Memory with a hostile other end: before each load it may have changed the word.
struct Hostile<'a> {
    words: &'a [AtomicU64],
    /// What the other end writes next, and how often it lets a word be.
    script: &'a [u64],
    at: Cell<usize>,
    /// The own end may store here, and nowhere else.
    may_store: Box<dyn Fn(usize) -> bool + 'a>,
    loads: Cell<u32>,
}

impl SharedMemory for Hostile<'_> {
    fn words(&self) -> usize {
        self.words.len()
    }
    fn load(&self, word: usize) -> u64 {
        self.loads.set(self.loads.get() + 1);
        assert!(word < self.words.len(), "a load outside the pool: {word}");
        let next = self.script.get(self.at.get()).copied().unwrap_or(0);
        self.at.set(self.at.get() + 1);
        match next % 8 {
            0..3 => self.words[word].load(Ordering::Relaxed),
            // Small numbers: blocks that exist, counts that are near.
            3..7 => (next / 8 % 64) | ((next / 8 % 5) << 16),
            _ => next,
        }
    }
    fn load_acquire(&self, word: usize) -> u64 {
        let own = self.words[word].load(Ordering::Relaxed);
        // A count that is believed sometimes: near what the own end knows.
        let near = self.load(word);
        if near < 64 { own + near % 3 } else { near }
    }
    fn store(&self, word: usize, value: u64) {
        assert!((self.may_store)(word), "a store to {word}");
        self.words[word].store(value, Ordering::Relaxed);
        // The other end's count runs with it, so that rings move.
        self.words[8 - word.min(8)].fetch_add(u64::from(word == 0 || word == 8), Ordering::Relaxed);
    }
    fn store_release(&self, word: usize, value: u64) {
        self.store(word, value);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    /// SG-72: whatever the sender writes: no access outside, a length that fits, no block held twice, bounded work.
    #[test]
    fn a_receiver_believes_nothing(script in vec(any::<u64>(), 0..600), blocks in 1..12u32, block_bytes in 1..40u32, keep in vec(any::<bool>(), 60)) {
        let geometry = Geometry::new(blocks, block_bytes).unwrap();
        let words = memory(geometry);
        let slots = blocks.next_power_of_two() as usize;
        let may_store = Box::new(move |word: usize| word == 8 || (16 + slots..16 + 2 * slots).contains(&word));
        let hostile = Hostile { words: &words, script: &script, at: Cell::new(0), may_store, loads: Cell::new(0) };
        let mut receiver = Receiver::new(&hostile, geometry, Filter { mask: 1, value: 0 }).unwrap();
        let mut held: Vec<Held> = Vec::new();
        for keep in keep {
            hostile.loads.set(0);
            let got = receiver.dequeue();
            assert!(hostile.loads.get() as usize <= 1 + slots);
            if let Ok(message) = got {
                assert!(message.bytes() <= block_bytes && message.tag() & 1 == 0);
                let mut buffer = [0; 40];
                assert_eq!(receiver.read(&message, &mut buffer).unwrap().len(), message.bytes() as usize);
                held.push(message);
                assert!(held.len() <= blocks as usize, "a block is held twice");
            }
            if !keep && !held.is_empty() {
                receiver.free(&held.remove(0)).unwrap();
            }
        }
        held.iter().for_each(|message| receiver.free(message).unwrap());
    }

    /// SG-72: whatever the receiver writes: no block is allocated while it is, none is written that is not, bounded work.
    #[test]
    fn a_sender_believes_nothing(script in vec(any::<u64>(), 0..600), blocks in 1..12u32, block_bytes in 1..40u32, steps in vec(any::<u8>(), 60)) {
        let geometry = Geometry::new(blocks, block_bytes).unwrap();
        let words = memory(geometry);
        let (slots, per_block) = (blocks.next_power_of_two() as usize, block_bytes.div_ceil(8) as usize);
        let own = Cell::new(0u64);
        let own_blocks = &own;
        let may_store = Box::new(move |word: usize| {
            let block = word.checked_sub(16 + 2 * slots).map(|place| place / per_block);
            word == 0 || (16..16 + slots).contains(&word) || block.is_some_and(|block| own_blocks.get() >> block & 1 == 1)
        });
        let hostile = Hostile { words: &words, script: &script, at: Cell::new(0), may_store, loads: Cell::new(0) };
        let mut sender = Sender::new(&hostile, geometry).unwrap();
        for step in steps {
            hostile.loads.set(0);
            if let Ok(block) = sender.allocate() {
                assert!(block < blocks && own.get() >> block & 1 == 0, "allocated twice");
                own.set(own.get() | 1 << block);
                sender.write(block, &vec![step; block_bytes as usize]).unwrap();
            }
            assert!(hostile.loads.get() as usize <= 1 + slots);
            assert_eq!(sender.lent() + own.get().count_ones() + (sender_free(&sender, blocks, own.get())), blocks);
            let block = u64::from(step) % u64::from(blocks);
            if own.get() >> block & 1 == 1 {
                own.set(own.get() & !(1 << block));
                match step / 128 {
                    0 => sender.enqueue(block as u32, block_bytes, step.into()).unwrap(),
                    _ => sender.free(block as u32).unwrap(),
                }
            }
        }
    }
}

/// What is left when the lent ones and the own ones are counted.
fn sender_free<M: SharedMemory>(sender: &Sender<M>, blocks: u32, own: u64) -> u32 {
    blocks - sender.lent() - own.count_ones()
}

/// The same protocol on the model checker's atomics.
struct Model(Vec<loom::sync::atomic::AtomicU64>);

impl SharedMemory for Model {
    fn words(&self) -> usize {
        self.0.len()
    }
    fn load(&self, word: usize) -> u64 {
        self.0[word].load(Ordering::Relaxed)
    }
    fn load_acquire(&self, word: usize) -> u64 {
        self.0[word].load(Ordering::Acquire)
    }
    fn store(&self, word: usize, value: u64) {
        self.0[word].store(value, Ordering::Relaxed);
    }
    fn store_release(&self, word: usize, value: u64) {
        self.0[word].store(value, Ordering::Release);
    }
}

/// SG-70: every interleaving of two honest ends, in a pool that is smaller than what goes through it: in order, whole, and nothing twice.
/// What the model cannot show, because in it a load never sees a later store: that a block is not written before it was read. That
/// rests on the release beside the count of freed blocks.
#[test]
fn every_interleaving_of_two_ends() {
    const MESSAGES: u64 = 3;
    loom::model(|| {
        let geometry = Geometry::new(2, 8).unwrap();
        let words = (0..geometry.words()).map(|_| loom::sync::atomic::AtomicU64::new(0)).collect();
        let memory = loom::sync::Arc::new(Model(words));
        let others = memory.clone();
        let writer = loom::thread::spawn(move || {
            let mut sender = Sender::new(&*others, geometry).unwrap();
            let mut sent = 0u64;
            for _ in 0..MESSAGES {
                if let Ok(block) = sender.allocate() {
                    sent += 1;
                    sender.write(block, &(0x0101_0101_0101_0101 * sent).to_le_bytes()).unwrap();
                    sender.enqueue(block, 8, sent as u32).unwrap();
                }
            }
            sent
        });
        let mut receiver = Receiver::new(&*memory, geometry, Filter::default()).unwrap();
        let mut next = 1;
        let mut receive = || match receiver.dequeue() {
            Ok(message) => {
                let mut buffer = [0; 8];
                receiver.read(&message, &mut buffer).unwrap();
                assert_eq!((message.tag(), u64::from_le_bytes(buffer)), (next as u32, 0x0101_0101_0101_0101 * next));
                receiver.free(&message).unwrap();
                next += 1;
                true
            }
            Err(error) => {
                assert_eq!(error, PoolError::Nothing);
                false
            }
        };
        for _ in 0..2 {
            receive();
        }
        let sent = writer.join().unwrap();
        while receive() {}
        assert_eq!(next - 1, sent, "nothing is lost");
        assert!(sent >= 2);
    });
}
