//! Interleavings of back end, front and monitor under the C11 memory model, by loom.
//!
//! Three protocols meet here: a restart of the front against stores and loads of the back end (`generation`, `copying`), the record of a
//! queue (`sequence`), and the flags by which each side mutes the other. The monitor's half is the code of `bulkhead_emulation`. The barriers
//! are part of the claim: without them the checker finds each mistake, which one test per protocol asserts.

use bulkhead_abi::virtio::*;
use bulkhead_emulation::virtio::{DevicePage, Front, FrontState};
use bulkhead_virtqueue::{Area, Block, Disk, DiskError, Fault, Memory, Step, Window};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU16, AtomicU32, Ordering, fence};
use loom::thread;
use std::collections::BTreeMap;
use std::mem::offset_of;
use zerocopy::FromZeros;

const POOL: u64 = 0x3000_0000;
const POOL_BYTES: u32 = 0x4000;
/// Rings, request and data in the window.
const DESCRIPTORS: u32 = DEVICE_PAGE_BYTES;
const AVAILABLE: u32 = DEVICE_PAGE_BYTES + 0x100;
const USED: u32 = DEVICE_PAGE_BYTES + 0x200;
const HEADER: u32 = DEVICE_PAGE_BYTES + 0x300;
const STATUS: u32 = DEVICE_PAGE_BYTES + 0x400;
const DATA: u32 = DEVICE_PAGE_BYTES + 0x1000;
const NUMBER: u32 = record_offset(0) + offset_of!(QueueRecord, number) as u32;
const FRONT: FrontPlan = FrontPlan { device: DEVICE_BLOCK, features: 0, doorbell: 0, padding: 0 };

/// A window in which the places that two parties use at once are the checker's atomics; each of them costs time.
struct Model {
    words: BTreeMap<u32, AtomicU32>,
    halves: BTreeMap<u32, AtomicU16>,
    /// What nobody writes while the parties run.
    rest: Vec<u8>,
    barriers: bool,
}

/// A front of generation 1 whose queue was switched on once.
fn initial(at: u32) -> u32 {
    match at {
        GENERATION => 1,
        NUMBER => 4,
        _ => 0,
    }
}

impl Model {
    fn new(barriers: bool, words: &[u32], halves: &[u32]) -> Self {
        let mut rest: Vec<u8> = vec![0; (DEVICE_PAGE_BYTES + POOL_BYTES) as usize];
        rest[GENERATION as usize] = 1;
        Self {
            words: words.iter().map(|at| (*at, AtomicU32::new(initial(*at)))).collect(),
            halves: halves.iter().map(|at| (*at, AtomicU16::new(0))).collect(),
            rest,
            barriers,
        }
    }

    /// A queue of two, and a chain at each place of the available ring: header, data, status.
    fn request(mut self, kind: u32, data: u32) -> Self {
        let record = QueueRecord {
            sequence: 2,
            number: 4,
            descriptors: POOL,
            available: POOL + u64::from(AVAILABLE - DESCRIPTORS),
            used: POOL + u64::from(USED - DESCRIPTORS),
            padding: [0; 4],
        };
        let mut put = |at: u32, bytes: &[u8]| self.rest[at as usize..][..bytes.len()].copy_from_slice(bytes);
        put(record_offset(0), zerocopy::IntoBytes::as_bytes(&record));
        let address = |at: u32| POOL + u64::from(at - DESCRIPTORS);
        let chain = [(HEADER, 16u32, 1u16, 1u16), (DATA, data, 1, 2), (STATUS, 1, 2, 0)];
        for (index, (at, bytes, flags, next)) in chain.into_iter().enumerate() {
            let [low, high] = [address(at), u64::from(bytes) | u64::from(flags) << 32 | u64::from(next) << 48];
            put(DESCRIPTORS + 16 * index as u32, &low.to_le_bytes());
            put(DESCRIPTORS + 16 * index as u32 + 8, &high.to_le_bytes());
        }
        put(HEADER, &kind.to_le_bytes());
        self
    }
}

/// Shared between the checker's threads.
#[derive(Clone)]
struct Shared(Arc<Model>);

impl Memory for Shared {
    fn bytes(&self) -> u32 {
        self.0.rest.len() as u32
    }

    fn load_half(&self, at: u32) -> u16 {
        let fixed = || u16::from_le_bytes(self.0.rest[at as usize..][..2].try_into().unwrap());
        self.0.halves.get(&at).map_or_else(fixed, |cell| cell.load(Ordering::Acquire))
    }

    fn load_word(&self, at: u32) -> u32 {
        let fixed = || u32::from_le_bytes(self.0.rest[at as usize..][..4].try_into().unwrap());
        self.0.words.get(&at).map_or_else(fixed, |cell| cell.load(Ordering::Acquire))
    }

    fn store_half(&self, at: u32, value: u16) {
        if let Some(cell) = self.0.halves.get(&at) {
            cell.store(value, Ordering::Release);
        }
    }

    fn store_word(&self, at: u32, value: u32) {
        if let Some(cell) = self.0.words.get(&at) {
            cell.store(value, Ordering::Release);
        }
    }

    fn read(&self, at: u32, into: &mut [u8]) {
        into.copy_from_slice(&self.0.rest[at as usize..][..into.len()]);
        for (place, cell) in self.0.words.range(at..at + into.len() as u32) {
            into[(place - at) as usize..][..4].copy_from_slice(&cell.load(Ordering::Relaxed).to_le_bytes());
        }
    }

    fn write(&self, at: u32, from: &[u8]) {
        for (_, cell) in self.0.words.range(at..at + from.len() as u32) {
            cell.store(u32::from(from[0]), Ordering::Relaxed);
        }
    }

    fn full_barrier(&self) {
        if self.0.barriers {
            fence(Ordering::SeqCst);
        }
    }
}

impl DevicePage for Shared {
    fn load(&self, offset: u32) -> u32 {
        let fixed = || u32::from_le_bytes(self.0.rest[offset as usize..][..4].try_into().unwrap());
        self.0.words.get(&offset).map_or_else(fixed, |cell| cell.load(Ordering::Relaxed))
    }

    fn store(&self, offset: u32, value: u32) {
        if let Some(cell) = self.0.words.get(&offset) {
            cell.store(value, Ordering::Relaxed);
        }
    }

    fn full_barrier(&self) {
        Memory::full_barrier(self);
    }
}

/// A disk that keeps the last write's first bytes.
#[derive(Default)]
struct Last {
    written: Option<[u8; 4]>,
    flushed: u32,
}

impl Disk for Last {
    fn sectors(&self) -> u64 {
        8
    }
    fn read(&mut self, _: u64, _: &mut [u8]) -> Result<(), DiskError> {
        Err(DiskError)
    }
    fn write(&mut self, _: u64, from: &[u8]) -> Result<(), DiskError> {
        self.written = from.first_chunk().copied();
        Ok(())
    }
    fn flush(&mut self) -> Result<(), DiskError> {
        self.flushed += 1;
        Ok(())
    }
}

fn explore(preemptions: usize, run: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.max_branches = 10_000;
    model.check(run);
}

/// A back end that has taken over the queue and found nothing to do.
fn back_end(memory: &Shared, disk: &mut Last) -> (Window<Shared>, Box<Block>) {
    let window = Window::new(memory.clone(), POOL).expect("a pool");
    let mut block = Box::new(Block::new(false, [0; 20]));
    assert_eq!(block.step(&window, disk), Step::Idle);
    (window, block)
}

/// The restart of a front: pool, here one word, and records are cleared when the back end has left. Returns whether they were.
fn restart(memory: &Shared, word: u32, is_early: bool) -> bool {
    let state = FrontState::new_zeroed();
    let front = Front { plan: &FRONT, state: &state, page: memory };
    front.stop();
    if is_early {
        front.start(2);
    }
    let is_left = front.is_left();
    if is_left {
        for (at, value) in [(word, 0xcc), (NUMBER, 0)] {
            DevicePage::store(memory, at, value);
        }
        front.start(2);
    }
    is_left
}

/// A store that was announced is waited for, and none comes after a clear.
fn stores_against_a_restart(barriers: bool, is_early: bool) {
    explore(3, move || {
        let model = Model::new(barriers, &[GENERATION, COPYING, STATUS, NUMBER], &[AVAILABLE + 2]).request(4, 0);
        let memory = Shared(Arc::new(model));
        let mut disk = Last::default();
        let (window, mut block) = back_end(&memory, &mut disk);
        memory.store_half(AVAILABLE + 2, 1);
        let monitor = memory.clone();
        let monitor = thread::spawn(move || restart(&monitor, STATUS, is_early));
        let _ = block.step(&window, &mut disk);
        let is_cleared = monitor.join().unwrap();
        assert!(!is_cleared || memory.load_word(STATUS) == 0xcc, "a byte of an older request");
    });
}

#[test]
fn no_store_reaches_a_pool_that_was_cleared() {
    stores_against_a_restart(true, false);
}

/// The order of the design, which raised the generation before the clear: records of the old incarnation are served in the name of the new.
#[test]
#[should_panic(expected = "a byte of an older request")]
fn with_the_new_generation_before_the_clear_a_late_store_is_found() {
    stores_against_a_restart(true, true);
}

#[test]
#[should_panic(expected = "a byte of an older request")]
fn without_barriers_a_late_store_is_found() {
    stores_against_a_restart(false, false);
}

/// What reaches the disk is what the older incarnation had in its pool.
fn loads_against_a_restart(barriers: bool) {
    explore(3, move || {
        let model = Model::new(barriers, &[GENERATION, COPYING, DATA, NUMBER], &[AVAILABLE + 2]).request(1, 512);
        let memory = Shared(Arc::new(model));
        let mut disk = Last::default();
        let (window, mut block) = back_end(&memory, &mut disk);
        DevicePage::store(&memory, DATA, 0x7777_7777);
        memory.store_half(AVAILABLE + 2, 1);
        let monitor = memory.clone();
        let monitor = thread::spawn(move || restart(&monitor, DATA, false));
        let _ = block.step(&window, &mut disk);
        let _ = monitor.join().unwrap();
        assert!(disk.written.is_none_or(|data| data == [0x77; 4]), "bytes of a cleared pool on the disk");
    });
}

#[test]
fn no_byte_of_a_cleared_pool_reaches_the_disk() {
    loads_against_a_restart(true);
}

#[test]
#[should_panic(expected = "bytes of a cleared pool")]
fn without_barriers_a_cleared_byte_is_found() {
    loads_against_a_restart(false);
}

/// A record that changes is the old one, the new one, or none: never a mixture.
fn records(barriers: bool) {
    explore(3, move || {
        let at = |field: usize| record_offset(0) + field as u32;
        let (sequence, descriptors) = (at(offset_of!(QueueRecord, sequence)), at(offset_of!(QueueRecord, descriptors)));
        let mut model = Model::new(barriers, &[sequence, NUMBER, descriptors, QUEUE_DESCRIPTORS], &[]);
        model.rest[at(offset_of!(QueueRecord, available)) as usize] = 0x20;
        let memory = Shared(Arc::new(model));
        let state = FrontState::new_zeroed();
        let switch_on = |page: &Shared, state: &FrontState, number| {
            let front = Front { plan: &FRONT, state, page };
            let _ = front.write(0x38, 4, number);
            let _ = front.write(0x44, 4, 1);
        };
        // A number that is none, and descriptors in the pool; then a number, and no place for descriptors.
        DevicePage::store(&memory, QUEUE_DESCRIPTORS, POOL as u32);
        switch_on(&memory, &state, 3);
        DevicePage::store(&memory, QUEUE_DESCRIPTORS, 0x10);
        let page = memory.clone();
        let monitor = thread::spawn(move || switch_on(&page, &state, 4));
        let mut disk = Last::default();
        let window = Window::new(memory, POOL).expect("a pool");
        match Block::new(false, [0; 20]).step(&window, &mut disk) {
            Step::Idle | Step::Stopped { fault: Fault::Number(3), .. } => {}
            Step::Stopped { fault: Fault::Area { area: Area::Descriptors, address: 0x10 }, .. } => {}
            other => panic!("a mixture of two records: {other:?}"),
        }
        monitor.join().unwrap();
    });
}

#[test]
fn a_record_is_never_a_mixture() {
    records(true);
}

#[test]
#[should_panic(expected = "a mixture of two records")]
fn without_barriers_a_mixture_is_found() {
    records(false);
}

/// A front publishes a request while the back end goes to rest: the request is served, or the front notifies.
fn notifications(barriers: bool) {
    explore(3, move || {
        let model = Model::new(barriers, &[COPYING], &[AVAILABLE + 2, USED, USED + 2]).request(4, 0);
        let memory = Shared(Arc::new(model));
        let mut disk = Last::default();
        let (window, mut block) = back_end(&memory, &mut disk);
        memory.store_half(AVAILABLE + 2, 1);
        assert_eq!(block.step(&window, &mut disk), Step::Worked);
        assert_eq!(memory.load_half(USED), 1, "muted while there is work");
        let front = memory.clone();
        let front = thread::spawn(move || {
            front.store_half(AVAILABLE + 2, 2);
            Memory::full_barrier(&front);
            front.load_half(USED) == 0
        });
        while block.step(&window, &mut disk) != Step::Idle {}
        let notifies = front.join().unwrap();
        assert!(disk.flushed == 2 || notifies, "a request that nobody hears of");
    });
}

#[test]
fn no_notification_is_lost() {
    notifications(true);
}

#[test]
#[should_panic(expected = "a request that nobody hears of")]
fn without_barriers_a_lost_notification_is_found() {
    notifications(false);
}

/// A front that takes its muting of interrupts back looks once more: it finds the chain, or the back end rings.
fn interrupts(barriers: bool) {
    explore(3, move || {
        let model = Model::new(barriers, &[COPYING], &[AVAILABLE, AVAILABLE + 2, USED + 2]).request(4, 0);
        let memory = Shared(Arc::new(model));
        let mut disk = Last::default();
        let (window, mut block) = back_end(&memory, &mut disk);
        memory.store_half(AVAILABLE, 1);
        memory.store_half(AVAILABLE + 2, 1);
        let front = memory.clone();
        let front = thread::spawn(move || {
            front.store_half(AVAILABLE, 0);
            Memory::full_barrier(&front);
            front.load_half(USED + 2) == 1
        });
        assert_eq!(block.step(&window, &mut disk), Step::Worked);
        let finds = front.join().unwrap();
        assert!(finds || block.interrupt_is_due(), "an answer that nobody hears of");
    });
}

#[test]
fn no_interrupt_is_lost() {
    interrupts(true);
}

#[test]
#[should_panic(expected = "an answer that nobody hears of")]
fn without_barriers_a_lost_interrupt_is_found() {
    interrupts(false);
}
