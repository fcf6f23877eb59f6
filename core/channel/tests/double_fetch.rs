//! A peer that changes its memory between any two looks of this end: each word that is believed is one that was loaded once (QV-53).
//!
//! `hostile_peer.rs` changes memory between calls. Here the memory itself is hostile: at each load the word has what an honest peer left, or a lie, and nothing of
//! what it was a moment ago counts. So a length that is judged and then loaded again, or a pair that is looked at twice, is another one the second time.

mod support;

use bulkhead_channel::crc::Crc32c;
use bulkhead_channel::{
    Geometry, QueuingReader, QueuingWriter, ReceiveError, SampleError, SamplingReader, SamplingWriter, SharedMemory,
};
use bulkhead_guest_abi::channel::slot_stride;
use std::cell::RefCell;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use support::{HEAD, READER, Random, WRITER, peek, poke, window};

/// Words of the destination's page: what it has read, and the pair that it reads beside the epoch that it echoes.
const READ: usize = READER + 1;
const PAIR: usize = READER + 2;
/// Loads of a call besides those of a slot.
const MOST_LOADS: usize = 24;
const SEEDS: u64 = 100;
const CALLS: u64 = 60;

/// Memory whose other owner acts before each load.
struct Meddled<'a> {
    words: &'a [AtomicU64],
    own: Range<usize>,
    peer: Range<usize>,
    /// What an honest peer has left in its words.
    honest: RefCell<Vec<u64>>,
    random: RefCell<Random>,
    loads: RefCell<Vec<(usize, u64)>>,
    stores: RefCell<Vec<usize>>,
}

impl<'a> Meddled<'a> {
    fn new(words: &'a [AtomicU64], own: Range<usize>, peer: Range<usize>, seed: u64) -> Self {
        let random = RefCell::new(Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1));
        let this = Self {
            words,
            own,
            peer,
            honest: RefCell::default(),
            random,
            loads: RefCell::default(),
            stores: RefCell::default(),
        };
        this.remember();
        this
    }

    /// Takes what is there for what an honest peer has left.
    fn remember(&self) {
        self.honest.replace((0..self.words.len()).map(|word| peek(self.words, word)).collect());
    }

    /// Puts back what an honest peer had left, lets one act, and remembers what it left.
    fn behave(&self, act: impl FnOnce()) {
        for word in self.peer.clone() {
            poke(self.words, word, self.honest.borrow()[word]);
        }
        act();
        self.remember();
    }

    /// One call of the end that is attacked.
    fn call<T>(&self, act: impl FnOnce() -> T) -> T {
        self.loads.borrow_mut().clear();
        self.stores.borrow_mut().clear();
        act()
    }

    /// How often a word was loaded in this call.
    fn looks(&self, at: usize) -> usize {
        self.loads.borrow().iter().filter(|(word, _)| *word == at).count()
    }

    /// What was found in a word in this call, the last time.
    fn found(&self, at: usize) -> u64 {
        self.loads.borrow().iter().rev().find(|(word, _)| *word == at).expect("it was loaded").1
    }

    /// The most that the destination said in this call to have read, of what can be.
    fn claim(&self, written: u64) -> u64 {
        let loads = self.loads.borrow();
        let claims = loads.iter().filter(|(word, value)| *word == READ && *value <= written);
        claims.map(|(_, value)| *value).max().unwrap_or(0)
    }

    fn meddle(&self, word: usize) {
        let honest = self.honest.borrow()[word];
        let random = self.random.borrow_mut().next();
        let lie = match random >> 8 & 7 {
            0 => random.wrapping_mul(random),
            1 => u64::MAX,
            2 => 0,
            3 => honest ^ 1 << (random >> 16 & 63),
            4 => honest.wrapping_sub(random >> 16 & 7),
            5 => honest.wrapping_add((random >> 16 & 7) << 32),
            _ => honest.wrapping_add(random >> 16 & 7),
        };
        poke(self.words, word, if random & 15 == 0 { lie } else { honest });
    }
}

impl SharedMemory for Meddled<'_> {
    fn words(&self) -> usize {
        self.words.len()
    }

    fn load(&self, word: usize) -> u64 {
        assert!(word < self.words.len(), "a load of word {word} of {}", self.words.len());
        if self.peer.contains(&word) {
            self.meddle(word);
        }
        let value = peek(self.words, word);
        self.loads.borrow_mut().push((word, value));
        value
    }

    fn load_acquire(&self, word: usize) -> u64 {
        self.load(word)
    }

    fn store(&self, word: usize, value: u64) {
        assert!(self.own.contains(&word), "a store to word {word}, which belongs to the peer");
        self.stores.borrow_mut().push(word);
        poke(self.words, word, value);
    }

    fn store_release(&self, word: usize, value: u64) {
        self.store(word, value);
    }
}

fn source(words: &[AtomicU64], seed: u64) -> Meddled<'_> {
    Meddled::new(words, WRITER..words.len(), READER..WRITER, seed)
}

fn destination(words: &[AtomicU64], seed: u64) -> Meddled<'_> {
    Meddled::new(words, READER..WRITER, WRITER..words.len(), seed)
}

/// Words from one slot to the next one.
fn stride(geometry: Geometry) -> usize {
    slot_stride(geometry.message_bytes()) as usize / 8
}

/// No word of a slot was loaded twice, and there were not more loads than a call may take.
fn assert_single_looks(memory: &Meddled<'_>, geometry: Geometry) {
    let loads = memory.loads.borrow();
    let mut of_slots: Vec<_> = loads.iter().map(|(word, _)| *word).filter(|word| *word >= WRITER + HEAD).collect();
    let most = MOST_LOADS + 3 + geometry.message_bytes().div_ceil(8) as usize;
    assert!(loads.len() <= most, "{} loads", loads.len());
    let all = of_slots.len();
    of_slots.sort_unstable();
    of_slots.dedup();
    assert_eq!(of_slots.len(), all, "a word of a slot was loaded twice: {loads:?}");
}

/// What was received is what was loaded: the words whose checksum was right, and no others.
fn assert_loaded(memory: &Meddled<'_>, geometry: Geometry, message: &bulkhead_channel::Message<'_>) {
    let first = memory.loads.borrow().iter().map(|(word, _)| *word).find(|word| *word >= WRITER + HEAD);
    let first = first.expect("a slot was read");
    assert_eq!((first - WRITER - HEAD) % stride(geometry), 0, "the head of a slot");
    let (sequence, time, size) = (memory.found(first), memory.found(first + 1), memory.found(first + 2));
    let bytes = size as u32;
    assert!(bytes > 0 && bytes <= geometry.message_bytes(), "{bytes} bytes");
    assert_eq!((message.sequence, message.time_ticks, message.payload.len()), (sequence, time, bytes as usize));
    let words = (0..(bytes as usize).div_ceil(8)).flat_map(|word| memory.found(first + 3 + word).to_le_bytes());
    let payload: Vec<u8> = words.take(bytes as usize).collect();
    assert_eq!(message.payload, payload);
    let crc = Crc32c::new().update(&sequence.to_le_bytes()).update(&time.to_le_bytes()).update(&bytes.to_le_bytes());
    assert_eq!(crc.update(&payload).finish(), (size >> 32) as u32, "the checksum is of what was loaded");
}

/// QV-53: a destination takes whole messages, in order, each of which was there at the looks that it took.
#[test]
fn a_source_that_changes_between_looks_does_not_confuse_a_queue() {
    let geometry = Geometry::queuing(41, 4).unwrap();
    let (mut taken, mut refused) = (0, 0);
    for seed in 1..=SEEDS {
        let words = window(geometry);
        let mut writer = QueuingWriter::open(&words[..], geometry, seed).unwrap();
        let memory = destination(&words, seed);
        let mut reader = QueuingReader::open(&memory, geometry).unwrap();
        for call in 0..CALLS {
            memory.behave(|| {
                let payload = vec![call as u8; 1 + (call as usize * 7) % 41];
                let _ = writer.send(&payload, call).map(|_| ());
            });
            let before = reader.read();
            let mut buffer = [0; 48];
            let received = memory.call(|| reader.receive(&mut buffer).map(|message| (message.payload.len(), message)));
            match received {
                Ok((_, message)) => {
                    taken += 1;
                    assert_eq!(message.sequence, reader.read());
                    assert_loaded(&memory, geometry, &message);
                }
                Err(ReceiveError::Empty | ReceiveError::PeerClosed) => {}
                Err(ReceiveError::PeerReset { .. } | ReceiveError::Corrupt(_)) => refused += 1,
                Err(error @ ReceiveError::BufferTooSmall { .. }) => panic!("{error:?}"),
            }
            let is_next = [before, before.wrapping_add(1)].contains(&reader.read());
            // Only what the source says to be read, or another incarnation, moves this end further.
            let said = memory.loads.borrow().iter().any(|(word, value)| *word == WRITER + 5 && *value == reader.read());
            assert!(is_next || said, "from {before} to {}", reader.read());
            assert_single_looks(&memory, geometry);
            assert!(reader.pending() <= geometry.slots());
        }
    }
    assert!(taken > 1_000 && refused > 400, "{taken} taken, {refused} refused: both sides were tried");
}

/// QV-53: the same with values.
#[test]
fn a_source_that_changes_between_looks_does_not_confuse_a_sample() {
    let geometry = Geometry::sampling(41).unwrap();
    let (mut taken, mut refused) = (0, 0);
    for seed in 1..=SEEDS {
        let words = window(geometry);
        let mut writer = SamplingWriter::open(&words[..], geometry, seed).unwrap();
        let memory = destination(&words, seed);
        let mut reader = SamplingReader::open(&memory, geometry).unwrap();
        let mut newest = 0;
        for call in 0..CALLS {
            memory.behave(|| {
                let _ = writer.write(&vec![call as u8; 1 + (call as usize * 7) % 41], call).unwrap();
            });
            let mut buffer = [0; 48];
            let sampled = memory.call(|| reader.read(&mut buffer));
            match sampled {
                Ok(sample) => {
                    taken += 1;
                    let is_another = memory.stores.borrow().iter().filter(|word| **word == PAIR).count() > 1;
                    assert!(is_another || sample.message.sequence >= newest, "older than what was read before");
                    newest = sample.message.sequence;
                    assert_loaded(&memory, geometry, &sample.message);
                }
                Err(SampleError::PeerReset { .. }) => (newest, refused) = (0, refused + 1),
                Err(SampleError::Corrupt(_)) => refused += 1,
                Err(SampleError::NoValue | SampleError::PeerClosed) => {}
                Err(error) => panic!("{error:?}"),
            }
            assert_single_looks(&memory, geometry);
        }
    }
    assert!(taken > 1_000 && refused > 400, "{taken} taken, {refused} refused: both sides were tried");
}

/// QV-53: a source overwrites what the destination has said to be read, and nothing else, however it changes its mind.
#[test]
fn a_destination_that_changes_between_looks_frees_no_slot_in_use() {
    let geometry = Geometry::queuing(41, 4).unwrap();
    let (mut sent, mut refused) = (0, 0);
    for seed in 1..=SEEDS {
        let words = window(geometry);
        let memory = source(&words, seed);
        let mut writer = QueuingWriter::open(&memory, geometry, seed).unwrap();
        let mut reader = QueuingReader::open(&words[..], geometry).unwrap();
        memory.remember();
        // The most that the destination has claimed to have read, among claims that can be.
        let mut claimed = 0;
        for call in 0..CALLS {
            memory.behave(|| {
                let _ = reader.receive(&mut [0; 48]).map(|_| ());
            });
            for _ in 0..2 {
                let before = writer.written();
                let result = memory.call(|| writer.send(&[call as u8; 41], call));
                claimed = claimed.max(memory.claim(before));
                assert!(memory.looks(READ) <= 1, "its count was looked at twice");
                match result {
                    Ok(written) => {
                        sent += 1;
                        assert_eq!((written.sequence, writer.written()), (before + 1, before + 1));
                    }
                    Err(_) => {
                        refused += 1;
                        assert_eq!(writer.written(), before);
                        assert!(memory.stores.borrow().iter().all(|word| *word < WRITER + HEAD), "a slot was written");
                    }
                }
                assert!(writer.written() - claimed <= 4, "{} written, {claimed} said to be read", writer.written());
                assert!(memory.loads.borrow().len() <= MOST_LOADS);
                assert!(memory.call(|| writer.free()) <= 4);
                // It has looked as well.
                claimed = claimed.max(memory.claim(writer.written()));
            }
        }
    }
    assert!(sent > 2_000 && refused > 400, "{sent} sent, {refused} refused: both sides were tried");
}

/// QV-53: a source of values looks once at the pair that is read, and writes the other one.
#[test]
fn a_destination_that_changes_between_looks_gets_the_other_pair() {
    let geometry = Geometry::sampling(41).unwrap();
    for seed in 1..=SEEDS {
        let words = window(geometry);
        let memory = source(&words, seed);
        let mut writer = SamplingWriter::open(&memory, geometry, seed).unwrap();
        let mut reader = SamplingReader::open(&words[..], geometry).unwrap();
        memory.remember();
        for call in 0..CALLS {
            memory.behave(|| {
                let _ = reader.read(&mut [0; 48]).map(|_| ());
            });
            let _ = memory.call(|| writer.write(&[call as u8; 41], call)).unwrap();
            assert_eq!(memory.looks(PAIR), 1);
            let pair = (memory.found(PAIR) & 1) as usize;
            let slots =
                memory.stores.borrow().iter().filter_map(|word| word.checked_sub(WRITER + HEAD)).collect::<Vec<_>>();
            let stride = stride(geometry);
            assert!(slots.iter().all(|word| word / stride / 2 != pair), "it wrote what is read: {slots:?}");
            assert!(memory.loads.borrow().len() <= MOST_LOADS);
        }
    }
}
