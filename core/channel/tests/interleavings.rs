//! Interleavings of the two ends under the C11 memory model, by loom: nothing torn, nothing lost, nothing out of order.
//!
//! The barriers are part of the claim: without the two full barriers of the sampling port the checker finds a torn value,
//! which one test asserts (a test that cannot fail proves nothing). What loom cannot show, because in it a load never sees a
//! later store: that a source does not overwrite a slot too early. There the acquire of `read` rests on the argument beside
//! it.

use bulkhead_channel::{
    Entry, Geometry, Look, QueuingReader, QueuingWriter, ReceiveError, SampleError, SamplingReader, SamplingWriter,
    SendError, SharedMemory, WIRE_ENTRIES, WireReceiver, WireSender,
};
use bulkhead_guest_abi::channel::slot_stride;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::thread;

const READER: usize = 4096 / 8;
const WRITER: usize = 8192 / 8;

/// A window on the model checker's atomics. Words that the protocol does not use are not there: each cell costs time.
struct Model {
    words: usize,
    reader: Vec<AtomicU64>,
    writer: Vec<AtomicU64>,
    slots: Vec<Vec<AtomicU64>>,
    stride: usize,
    barriers: bool,
}

impl Model {
    fn new(geometry: Geometry, barriers: bool) -> Self {
        let cells = |count: usize| (0..count).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
        let used = 3 + geometry.message_bytes().div_ceil(8) as usize;
        Self {
            words: geometry.window_bytes() as usize / 8,
            reader: cells(3),
            writer: cells(6),
            slots: (0..geometry.slots()).map(|_| cells(used)).collect(),
            stride: slot_stride(geometry.message_bytes()) as usize / 8,
            barriers,
        }
    }

    fn cell(&self, word: usize) -> Option<&AtomicU64> {
        if word >= WRITER + 8 {
            let index = word - WRITER - 8;
            self.slots.get(index / self.stride)?.get(index % self.stride)
        } else if word >= WRITER {
            self.writer.get(word - WRITER)
        } else {
            self.reader.get(word.checked_sub(READER)?)
        }
    }
}

impl SharedMemory for Model {
    fn words(&self) -> usize {
        self.words
    }

    fn load(&self, word: usize) -> u64 {
        self.cell(word).map_or(0, |cell| cell.load(Ordering::Relaxed))
    }

    fn load_acquire(&self, word: usize) -> u64 {
        self.cell(word).map_or(0, |cell| cell.load(Ordering::Acquire))
    }

    fn store(&self, word: usize, value: u64) {
        if let Some(cell) = self.cell(word) {
            cell.store(value, Ordering::Relaxed);
        }
    }

    fn store_release(&self, word: usize, value: u64) {
        if let Some(cell) = self.cell(word) {
            cell.store(value, Ordering::Release);
        }
    }

    fn full_barrier(&self) {
        if self.barriers {
            fence(Ordering::SeqCst);
        }
    }
}

/// Memory that is shared between the model's threads.
#[derive(Clone)]
struct Shared(Arc<Model>);

impl SharedMemory for Shared {
    fn words(&self) -> usize {
        self.0.words()
    }

    fn load(&self, word: usize) -> u64 {
        self.0.load(word)
    }

    fn load_acquire(&self, word: usize) -> u64 {
        self.0.load_acquire(word)
    }

    fn store(&self, word: usize, value: u64) {
        self.0.store(word, value);
    }

    fn store_release(&self, word: usize, value: u64) {
        self.0.store_release(word, value);
    }

    fn full_barrier(&self) {
        self.0.full_barrier();
    }
}

fn explore(preemptions: usize, run: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.max_branches = 10_000;
    model.check(run);
}

/// A source writes `writes` values while a destination reads `reads` times. Every value that is read is whole (its
/// checksum holds, or `read` would report corruption) and no older than the one before.
fn sampling(barriers: bool, writes: u64, reads: usize, preemptions: usize) {
    explore(preemptions, move || {
        let geometry = Geometry::sampling(8).unwrap();
        let memory = Shared(Arc::new(Model::new(geometry, barriers)));
        let mut writer = SamplingWriter::open(memory.clone(), geometry, 1).unwrap();
        let mut reader = SamplingReader::open(memory, geometry).unwrap();
        let _ = writer.write(&1u64.to_le_bytes(), 0).unwrap();
        let source = thread::spawn(move || {
            for value in 2..=writes {
                let _ = writer.write(&value.to_le_bytes(), 0).unwrap();
            }
        });
        let mut buffer = [0; 8];
        let mut last = 0;
        for _ in 0..reads {
            let sample = reader.read(&mut buffer).expect("a whole value");
            let value = u64::from_le_bytes(sample.message.payload.try_into().unwrap());
            assert_eq!(value, sample.message.sequence);
            assert!(value >= last, "{value} after {last}");
            last = value;
        }
        source.join().unwrap();
        let sample = reader.read(&mut buffer).unwrap();
        assert_eq!(sample.message.sequence, writes, "the newest value is there after the source has finished");
    });
}

#[test]
fn a_sampled_value_is_never_torn() {
    sampling(true, 3, 1, 3);
    sampling(true, 4, 2, 2);
}

#[test]
#[should_panic(expected = "a whole value")]
fn without_full_barriers_a_torn_value_is_found() {
    sampling(false, 4, 2, 2);
}

/// The destination opens while the source opens and writes: it sees nothing or a whole value.
#[test]
fn opening_races_with_writing() {
    explore(2, || {
        let geometry = Geometry::sampling(8).unwrap();
        let memory = Shared(Arc::new(Model::new(geometry, true)));
        let other = memory.clone();
        let source = thread::spawn(move || {
            let mut writer = SamplingWriter::open(other, geometry, 1).unwrap();
            let _ = writer.write(b"first", 0).unwrap();
        });
        let mut reader = SamplingReader::open(memory, geometry).unwrap();
        match reader.read(&mut [0; 8]) {
            Ok(sample) => assert_eq!(sample.message.payload, b"first"),
            Err(error) => assert!(matches!(error, SampleError::PeerClosed | SampleError::NoValue), "{error:?}"),
        }
        source.join().unwrap();
    });
}

/// A queue of `depth` is sent `messages` while the destination receives: in order, whole, none lost, none twice.
fn queuing(depth: u32, messages: u64, preemptions: usize) {
    explore(preemptions, move || {
        let geometry = Geometry::queuing(8, depth).unwrap();
        let memory = Shared(Arc::new(Model::new(geometry, true)));
        let mut writer = QueuingWriter::open(memory.clone(), geometry, 1).unwrap();
        let mut reader = QueuingReader::open(memory, geometry).unwrap();
        let source = thread::spawn(move || {
            let mut sent = 0;
            // One attempt each, so that the model stays finite: a full queue skips the message.
            for _ in 0..messages {
                match writer.send(&(sent + 1u64).to_le_bytes(), 0) {
                    Ok(written) => {
                        sent += 1;
                        assert_eq!(written.sequence, sent);
                    }
                    Err(error) => assert_eq!(error, SendError::Full),
                }
            }
            sent
        });
        let mut received = 0;
        let mut buffer = [0; 8];
        for _ in 0..messages {
            received += receive(&mut reader, &mut buffer, received);
        }
        let sent = source.join().unwrap();
        while receive(&mut reader, &mut buffer, received) == 1 {
            received += 1;
        }
        assert_eq!(received, sent, "nothing lost");
    });
}

/// Receives at most one message and checks that it is number `received + 1`; returns how many it got.
fn receive(reader: &mut QueuingReader<Shared>, buffer: &mut [u8], received: u64) -> u64 {
    match reader.receive(buffer) {
        Ok(message) => {
            assert_eq!(message.sequence, received + 1);
            assert_eq!(message.payload, (received + 1).to_le_bytes());
            1
        }
        Err(error) => {
            assert_eq!(error, ReceiveError::Empty);
            0
        }
    }
}

#[test]
fn queued_messages_arrive_once_in_order_and_whole() {
    queuing(1, 3, 2);
    queuing(2, 3, 2);
}

/// A destination that lost its page opens while the source sends on: nothing unread is lost, nothing is torn, and what was
/// read before the source looked comes again.
#[test]
fn a_new_destination_takes_over_while_the_source_sends() {
    explore(2, || {
        let geometry = Geometry::queuing(8, 2).unwrap();
        let memory = Shared(Arc::new(Model::new(geometry, true)));
        let mut writer = QueuingWriter::open(memory.clone(), geometry, 1).unwrap();
        let mut reader = QueuingReader::open(memory.clone(), geometry).unwrap();
        let _ = writer.send(&1u64.to_le_bytes(), 0).unwrap();
        let _ = writer.send(&2u64.to_le_bytes(), 0).unwrap();
        assert_eq!(receive(&mut reader, &mut [0; 8], 0), 1);
        // The restart: the monitor clears the destination's page.
        (0..3).for_each(|word| memory.store(READER + word, 0));
        let source = thread::spawn(move || writer.send(&3u64.to_le_bytes(), 0).is_ok());
        let mut reader = QueuingReader::open(memory, geometry).unwrap();
        let mut buffer = [0; 8];
        let mut arrived = Vec::new();
        for _ in 0..3 {
            if let Ok(message) = reader.receive(&mut buffer) {
                arrived.push(message.sequence);
            }
        }
        let sent = source.join().unwrap();
        while let Ok(message) = reader.receive(&mut buffer) {
            arrived.push(message.sequence);
        }
        assert_eq!(arrived, if sent { vec![1, 2, 3] } else { vec![1, 2] });
    });
}

/// Words of a wire on the model checker's atomics: the destination's, and of the source the two of its head and four entries.
struct Wire {
    read: AtomicU64,
    source: Vec<AtomicU64>,
}

impl Wire {
    fn new() -> Self {
        Self { read: AtomicU64::new(0), source: (0..10).map(|_| AtomicU64::new(0)).collect() }
    }

    fn cell(&self, word: usize) -> &AtomicU64 {
        match word {
            READER => &self.read,
            _ if word >= WRITER + 8 => &self.source[2 + word - WRITER - 8],
            _ => &self.source[word - WRITER],
        }
    }
}

impl SharedMemory for Wire {
    fn words(&self) -> usize {
        WRITER + 512
    }

    fn load(&self, word: usize) -> u64 {
        self.cell(word).load(Ordering::Relaxed)
    }

    fn load_acquire(&self, word: usize) -> u64 {
        self.cell(word).load(Ordering::Acquire)
    }

    fn store(&self, word: usize, value: u64) {
        self.cell(word).store(value, Ordering::Relaxed);
    }

    fn store_release(&self, word: usize, value: u64) {
        self.cell(word).store(value, Ordering::Release);
    }
}

/// Takes what a look has brought, and adds it to what has arrived.
fn drain(receiver: &mut WireReceiver, wire: &Wire, arrived: &mut Vec<u64>) {
    let Look::Entries(count) = receiver.look(wire) else { panic!("an honest source") };
    assert!(count <= WIRE_ENTRIES);
    while let Some(entry) = receiver.take(wire) {
        assert_eq!(entry.index + 40, entry.bits, "an entry is whole");
        arrived.push(entry.index);
    }
}

/// CH-39, CH-40: a source opens and sends while the destination opens and looks: each entry arrives whole, once and in order, none before it was sent, and all after
/// the last doorbell.
#[test]
fn entries_of_a_wire_are_whole_once_and_in_order() {
    explore(3, || {
        let wire = Arc::new(Wire::new());
        let other = wire.clone();
        let source = thread::spawn(move || {
            let mut sender = WireSender::open(&*other, 1);
            for index in 1..=3 {
                assert!(sender.send(&*other, Entry { index, bits: index + 40 }));
            }
        });
        let (mut receiver, mut arrived) = (WireReceiver::new(), Vec::new());
        drain(&mut receiver, &wire, &mut arrived);
        drain(&mut receiver, &wire, &mut arrived);
        source.join().unwrap();
        drain(&mut receiver, &wire, &mut arrived);
        assert_eq!(arrived, [1, 2, 3]);
    });
}

/// The source starts again, its page cleared, while the destination looks: no entry is made up, and those of the new one arrive.
#[test]
fn a_source_starts_again_while_the_destination_takes() {
    explore(2, || {
        let wire = Arc::new(Wire::new());
        let mut sender = WireSender::open(&*wire, 1);
        assert!(sender.send(&*wire, Entry { index: 1, bits: 41 }));
        let (mut receiver, mut arrived) = (WireReceiver::new(), Vec::new());
        let other = wire.clone();
        let source = thread::spawn(move || {
            other.source.iter().for_each(|cell| cell.store(0, Ordering::Release));
            // The counter has gone on: with the same value a destination that has not looked yet would take it for the old one.
            let mut sender = WireSender::open(&*other, 2);
            assert!(sender.send(&*other, Entry { index: 2, bits: 42 }));
        });
        drain(&mut receiver, &wire, &mut arrived);
        source.join().unwrap();
        drain(&mut receiver, &wire, &mut arrived);
        assert!(arrived == [2] || arrived == [1, 2], "{arrived:?}");
    });
}
