//! Block requests of an honest front: contents, statuses, order, restarts, interrupts (QV-50, QV-51).

mod support;

use bulkhead_abi::virtio::DEVICE_BLOCK;
use bulkhead_virtqueue::{Block, Step, Window};
use support::front::{Buffer, Driver, Monitor, header};
use support::parts::{Asked, MemoryDisk};
use support::{POOL, Watched};

const IDENTITY: [u8; 20] = *b"bulkhead disk 000001";
const HEADER: u64 = POOL + 0x8000;
const DATA: u64 = POOL + 0x1_0000;
const STATUS: u64 = POOL + 0x9001;

/// A front with one queue, and the back end at work.
struct Pair<'a> {
    window: Window<&'a Watched>,
    block: Block,
    disk: MemoryDisk,
    driver: Driver<'a>,
}

impl<'a> Pair<'a> {
    fn new(memory: &'a Watched, monitor: &Monitor<'a>) -> Self {
        let driver = Driver::new(monitor, 0, 64);
        let window = Window::new(memory, POOL).expect("a pool");
        Self { window, block: Block::new(false, IDENTITY), disk: MemoryDisk::new(256), driver }
    }

    fn step(&mut self) -> Step {
        self.block.step(&self.window, &mut self.disk)
    }

    /// Works until nothing is to do.
    fn work(&mut self) {
        for _ in 0..1000 {
            match self.step() {
                Step::Idle => return,
                Step::Worked => {}
                Step::Stopped { fault, .. } => panic!("{fault}"),
            }
        }
        panic!("there is no end");
    }

    /// One request; returns its status and the bytes written as the used ring says.
    fn request(&mut self, kind: u32, sector: u64, data: &[Buffer]) -> (u8, u32) {
        self.driver.put(HEADER, &header(kind, sector));
        self.driver.put(STATUS, &[0xee]);
        let chain = [&[(HEADER, 16, false)], data, &[(STATUS, 1, true)]].concat();
        let head = self.driver.offer(&chain);
        self.work();
        let (used, written) = self.driver.collect().expect("an answer");
        assert_eq!((used, self.driver.collect()), (u32::from(head), None));
        (self.driver.get(STATUS, 1)[0], written)
    }
}

#[test]
fn sectors_are_read_and_written() {
    let memory = Watched::new();
    let monitor = Monitor::new(&memory, DEVICE_BLOCK);
    let mut pair = Pair::new(&memory, &monitor);
    // More than 64 KiB in pieces that begin and end anywhere, whole sectors together.
    let pieces = [1, 511, 512, 5000, 4096, 57_000];
    let bytes: u32 = pieces.iter().sum::<u32>();
    let mut at = DATA;
    let mut data: Vec<Buffer> = Vec::new();
    for piece in pieces.into_iter().chain([1024 - bytes % 512]) {
        data.push((at, piece, true));
        at += u64::from(piece) + 3;
    }
    let total: u32 = data.iter().map(|(_, bytes, _)| bytes).sum();
    assert!(total.is_multiple_of(512) && total > 65_536);
    assert_eq!(pair.request(0, 5, &data), (0, total + 1));
    let read: Vec<u8> = data.iter().flat_map(|(at, bytes, _)| pair.driver.get(*at, *bytes as usize)).collect();
    assert_eq!(read, pair.disk.bytes[5 * 512..][..total as usize]);
    let gaps = data.iter().flat_map(|(at, bytes, _)| pair.driver.get(at + u64::from(*bytes), 3));
    assert!(gaps.eq(std::iter::repeat_n(0, 3 * data.len())), "nothing between the pieces was written");
    let expected: Vec<Asked> = (0..total.div_ceil(4096))
        .map(|piece| Asked::Read(5 * 512 + u64::from(piece) * 4096, (total - piece * 4096).min(4096) as usize))
        .collect();
    assert_eq!(pair.disk.asked, expected, "at most 4 KiB at a time");

    // And back to other sectors.
    let back: Vec<Buffer> = data.iter().map(|(at, bytes, _)| (*at, *bytes, false)).collect();
    assert_eq!(pair.request(1, 100, &back), (0, 1));
    assert_eq!(pair.disk.bytes[100 * 512..][..total as usize], read);
    assert!(pair.disk.bytes[..100 * 512].iter().enumerate().all(|(at, byte)| *byte == (at % 251) as u8));
    assert_eq!(pair.request(4, 0, &[]), (0, 1));
    assert_eq!(pair.disk.asked.last(), Some(&Asked::Flush));
}

/// How the front divides a request means nothing: header, data and status in one buffer each, in bytes, or in empty ones beside.
#[test]
fn any_division_is_understood() {
    let memory = Watched::new();
    let monitor = Monitor::new(&memory, DEVICE_BLOCK);
    let mut pair = Pair::new(&memory, &monitor);
    pair.driver.put(HEADER, &header(1, 9));
    pair.driver.put(HEADER + 16, &[0x5a; 512]);
    let bytes = (0..16).map(|at| (HEADER + at, 1, false));
    let chain: Vec<Buffer> = bytes
        .chain([(HEADER + 16, 0, false), (HEADER + 16, 512, false), (STATUS, 0, true), (STATUS, 1, true)])
        .collect();
    let _ = pair.driver.offer(&chain);
    pair.work();
    assert_eq!(pair.driver.collect(), Some((0, 1)));
    assert_eq!(pair.disk.bytes[9 * 512..10 * 512], [0x5a; 512]);
    pair.driver.put(HEADER, &header(0, 9));
    let _ = pair.driver.offer(&[(HEADER, 16, false), (DATA, 513, true)]);
    pair.work();
    assert_eq!(pair.driver.get(DATA, 513), [[0x5a; 512].as_slice(), &[0]].concat(), "the status is the last byte");
}

#[test]
fn refused_requests_have_a_status_and_change_nothing() {
    let memory = Watched::new();
    let monitor = Monitor::new(&memory, DEVICE_BLOCK);
    let mut pair = Pair::new(&memory, &monitor);
    let (sector, page): (&[Buffer], &[Buffer]) = (&[(DATA, 512, true)], &[(DATA, 4096, true)]);
    for (kind, first, data, status) in [
        (0, 255, sector, 0),
        (0, 256, sector, 1),
        (0, 249, page, 1),
        (0, u64::MAX, sector, 1),
        (0, u64::MAX / 512 + 1, sector, 1),
        (0, 1 << 55, sector, 1),
        (0, 0, &[(DATA, 511, true)], 1),
        (1, 256, &[(DATA, 512, false)], 1),
        (1, 0, &[(DATA, 513, false)], 1),
        (2, 0, sector, 2),
        (11, 0, &[(DATA, 16, false)], 2),
        (u32::MAX, 0, sector, 2),
    ] {
        assert_eq!(pair.request(kind, first, data).0, status, "type {kind} at {first}");
    }
    assert_eq!(pair.disk.asked, [Asked::Read(255 * 512, 512)], "the others never reached the disk");
    pair.disk.is_broken = true;
    for (kind, data) in [(0, sector), (1, &[(DATA, 512, false)]), (4, &[])] {
        assert_eq!(pair.request(kind, 0, data), (1, 1), "type {kind}");
    }
}

#[test]
fn a_disk_that_is_read_only_is_not_written() {
    let memory = Watched::new();
    let monitor = Monitor::new(&memory, DEVICE_BLOCK);
    let mut pair = Pair::new(&memory, &monitor);
    pair.block = Block::new(true, IDENTITY);
    assert_eq!(pair.request(1, 0, &[(DATA, 512, false)]), (1, 1));
    assert_eq!(pair.request(0, 0, &[(DATA, 512, true)]), (0, 513));
    assert_eq!(pair.disk.asked, [Asked::Read(0, 512)]);
}

#[test]
fn a_disk_says_what_it_is_called() {
    let memory = Watched::new();
    let monitor = Monitor::new(&memory, DEVICE_BLOCK);
    let mut pair = Pair::new(&memory, &monitor);
    assert_eq!(pair.request(8, 0, &[(DATA, 20, true)]).0, 0);
    assert_eq!(pair.driver.get(DATA, 20), IDENTITY);
    assert_eq!(pair.request(8, 0, &[(DATA + 64, 5, true)]).0, 0);
    assert_eq!(pair.driver.get(DATA + 64, 6), *b"bulkh\0", "no more than there is room for");
}

/// Requests are returned in the order in which they came, over the wrap of both indices.
#[test]
fn requests_are_returned_in_order() {
    let memory = Watched::new();
    let monitor = Monitor::new(&memory, DEVICE_BLOCK);
    let mut pair = Pair::new(&memory, &monitor);
    let mut expected = Vec::new();
    for round in 0..33_000u32 {
        let burst = 1 + round % 3;
        for _ in 0..burst {
            pair.driver.put(HEADER, &header(4, 0));
            expected.push(u32::from(pair.driver.offer(&[(HEADER, 16, false), (STATUS, 1, true)])));
        }
        pair.work();
        pair.disk.asked.clear();
        for head in expected.drain(..) {
            assert_eq!(pair.driver.collect(), Some((head, 1)));
        }
    }
}

/// A back end that was restarted at any step continues at `used.idx`: nothing is lost, and what was begun is done again.
#[test]
fn a_restarted_back_end_continues() {
    for killed_after in 0..30 {
        let memory = Watched::new();
        let monitor = Monitor::new(&memory, DEVICE_BLOCK);
        let mut pair = Pair::new(&memory, &monitor);
        for request in 0..3u8 {
            let at = u64::from(request);
            pair.driver.put(HEADER + 16 * at, &header(1, 20 * at));
            pair.driver.put(DATA + 0x3000 * at, &[request + 1; 0x2800]);
            let chain = [(HEADER + 16 * at, 16, false), (DATA + 0x3000 * at, 0x2800, false), (STATUS + at, 1, true)];
            let _ = pair.driver.offer(&chain);
        }
        for _ in 0..killed_after {
            let _ = pair.step();
        }
        // The process is gone, with all that it had announced; another one starts.
        memory.poke(bulkhead_abi::virtio::COPYING, &[1, 0, 0, 0]);
        pair.block = Block::new(false, IDENTITY);
        pair.window = Window::new(&memory, POOL).unwrap();
        assert!(monitor.front().is_left(), "the announcement is withdrawn");
        let returned = (0..3).filter(|_| pair.driver.collect().is_some()).count();
        pair.disk.asked.clear();
        pair.work();
        let is_again = |asked: &Asked| matches!(asked, Asked::Write(at, _) if *at < 20 * 512 * returned as u64);
        assert!(!pair.disk.asked.iter().any(is_again), "what was returned was done again");
        assert!(pair.block.interrupt_is_due(), "the front may not have been told of what was returned before");
        let returned = returned + (0..3).filter(|_| pair.driver.collect().is_some()).count();
        assert_eq!(returned, 3, "killed after {killed_after}");
        for request in 0..3usize {
            let written = &pair.disk.bytes[20 * 512 * request..][..0x2800];
            assert!(written.iter().all(|byte| *byte == request as u8 + 1), "killed after {killed_after}");
        }
        assert_eq!(pair.driver.get(STATUS, 3), [0; 3]);
    }
}

/// A front that restarts or switches its queue off at any access of the back end gets nothing of its older request into its pool, and
/// nothing of the cleared pool onto the disk.
#[test]
fn a_front_may_restart_at_any_access() {
    for is_restart in [true, false] {
        for kind in [0, 1] {
            for access in 0.. {
                if !restart_at(is_restart, kind, access) {
                    assert!(access > 40, "{access} accesses are too few to be true");
                    break;
                }
            }
        }
    }
}

/// Returns whether the request had that many accesses.
fn restart_at(is_restart: bool, kind: u32, access: u32) -> bool {
    use bulkhead_abi::virtio::{COPYING, DEVICE_PAGE_BYTES, GENERATION, record_offset};
    use std::{cell::Cell, rc::Rc};
    let memory = Watched::new();
    let monitor = Monitor::new(&memory, DEVICE_BLOCK);
    let mut pair = Pair::new(&memory, &monitor);
    pair.driver.put(HEADER, &header(kind, 3));
    pair.driver.put(DATA, &[0x77; 0x2000]);
    let _ = pair.driver.offer(&[(HEADER, 16, false), (DATA, 0x2000, kind == 0), (STATUS, 1, true)]);
    // The restart of the front as a machine of its own: withdraw the generation, wait until `copying` is 0, clear.
    let (is_over, mut is_stopped) = (Rc::new(Cell::new(false)), false);
    let over = is_over.clone();
    memory.before_each(move |number, bytes| {
        if number >= access && !is_stopped {
            is_stopped = true;
            // An unbind raises the sequence. It does not wait in truth: what one store under way does is a caveat.
            match is_restart {
                true => bytes[GENERATION as usize] = 0,
                false => bytes[record_offset(0) as usize] += 2,
            }
        }
        let is_copying = bytes[COPYING as usize..][..4] != [0; 4];
        if is_stopped && !is_copying && !over.get() {
            bytes[record_offset(0) as usize + 4..][..28].fill(0);
            bytes[DEVICE_PAGE_BYTES as usize..].fill(0);
            over.set(true);
        }
    });
    for _ in 0..20 {
        assert!(!matches!(pair.step(), Step::Stopped { .. }), "a cleared pool is no fault of the front");
    }
    memory.leave_alone();
    let written = &pair.disk.bytes[3 * 512..][..0x2000];
    assert!(kind == 0 || !written.chunks(4096).any(|piece| piece.iter().all(|byte| *byte == 0)), "zeros on the disk");
    if is_over.get() {
        memory.with(|bytes| {
            let pool = &bytes[DEVICE_PAGE_BYTES as usize..];
            assert!(pool.iter().all(|byte| *byte == 0), "type {kind}, access {access}: something came after the clear");
        });
    }
    is_over.get()
}

/// Without EVENT_IDX: the front mutes interrupts by a flag, the back end notifications.
#[test]
fn notifications_and_interrupts_are_muted_by_flags() {
    let memory = Watched::new();
    let monitor = Monitor::new(&memory, DEVICE_BLOCK);
    let mut pair = Pair::new(&memory, &monitor);
    assert_eq!(pair.step(), Step::Idle);
    assert!(!pair.driver.is_quiet() && !pair.block.interrupt_is_due(), "a fresh queue is not interrupted");
    for is_muted in [false, true, false] {
        pair.driver.mute(is_muted);
        for _ in 0..2 {
            let _ = pair.driver.offer(&[(HEADER, 16, false), (STATUS, 1, true)]);
        }
        assert_eq!(pair.step(), Step::Worked);
        assert!(pair.driver.is_quiet(), "no notification while there is work");
        pair.work();
        assert!(!pair.driver.is_quiet());
        assert_eq!(pair.block.interrupt_is_due(), !is_muted);
        assert_eq!(pair.step(), Step::Idle);
        assert_eq!(pair.block.interrupt_is_due(), !is_muted, "due until it was sent");
        pair.block.interrupt_was_sent();
        assert!(!pair.block.interrupt_is_due());
    }
}

#[test]
fn a_front_that_was_not_started_or_is_off_is_left_alone() {
    let memory = Watched::new();
    let window = Window::new(&memory, POOL).unwrap();
    let (mut block, mut disk) = (Block::new(false, IDENTITY), MemoryDisk::new(8));
    assert_eq!(block.step(&window, &mut disk), Step::Idle);
    let monitor = Monitor::new(&memory, DEVICE_BLOCK);
    assert_eq!(block.step(&window, &mut disk), Step::Idle);
    let mut driver = Driver::new(&monitor, 0, 4);
    let _ = driver.offer(&[(HEADER, 16, false), (STATUS, 1, true)]);
    monitor.switch_off(0);
    for _ in 0..3 {
        assert_eq!(block.step(&window, &mut disk), Step::Idle);
    }
    assert_eq!(driver.collect(), None);
    monitor.restart(2);
    let mut driver = Driver::new(&monitor, 0, 4);
    let head = driver.offer(&[(HEADER, 16, false), (DATA, 512, true), (STATUS, 1, true)]);
    while block.step(&window, &mut disk) != Step::Idle {}
    assert_eq!(driver.collect(), Some((u32::from(head), 513)), "after a restart the queue begins at 0");
}

#[test]
fn a_window_without_a_pool_is_none() {
    struct Small;
    impl bulkhead_virtqueue::Memory for Small {
        fn bytes(&self) -> u32 {
            4096
        }
        fn load_half(&self, _: u32) -> u16 {
            0
        }
        fn load_word(&self, _: u32) -> u32 {
            0
        }
        fn store_half(&self, _: u32, _: u16) {}
        fn store_word(&self, _: u32, _: u32) {}
        fn read(&self, _: u32, _: &mut [u8]) {}
        fn write(&self, _: u32, _: &[u8]) {}
        fn full_barrier(&self) {}
    }
    assert!(Window::new(Small, POOL).is_none());
    let memory = Watched::new();
    assert!(Window::new(&memory, u64::MAX - 0x3_fffe).is_none(), "the pool would wrap");
    assert!(Window::new(&memory, u64::MAX - 0x4_0000).is_some());
}
