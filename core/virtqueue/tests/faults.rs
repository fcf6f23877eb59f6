//! What a hostile front writes into rings (H18, H19, QV-53): one precise error each, upon which that queue stops, is reported once and
//! leaves everything else as it is.

mod support;

use bulkhead_abi::virtio::{DEVICE_BLOCK, DEVICE_NET, DEVICE_PAGE_BYTES};
use bulkhead_virtqueue::{Area, Block, Fault, Net, Step, Window};
use support::front::{Buffer, Driver, Monitor, header};
use support::parts::{Frames, MemoryDisk};
use support::{POOL, POOL_BYTES, Watched};

const HEADER: u64 = POOL + 0x8000;
const DATA: u64 = POOL + 0x1_0000;
const STATUS: u64 = POOL + 0x9001;
const END: u64 = POOL + POOL_BYTES as u64;
const NEXT: u16 = 1;
const WRITE: u16 = 2;

/// Runs a block device against a queue of 16 that a function has spoiled; the fault, after which nothing may have changed.
fn stopped_by(spoil: impl FnOnce(&Monitor<'_>, &mut Driver<'_>)) -> Fault {
    let memory = Watched::new();
    let monitor = Monitor::new(&memory, DEVICE_BLOCK);
    let mut driver = Driver::new(&monitor, 0, 16);
    driver.put(HEADER, &header(0, 0));
    spoil(&monitor, &mut driver);
    let used = (driver.places[2].wrapping_sub(POOL) as usize).saturating_add(DEVICE_PAGE_BYTES as usize);
    let content = |bytes: &mut [u8]| {
        // But for the flags by which the back end mutes notifications.
        let mut bytes = bytes.to_vec();
        if let Some(flags) = bytes.get_mut(used..used.saturating_add(2)) {
            flags.fill(0);
        }
        bytes
    };
    let before = memory.with(content);
    let window = Window::new(&memory, POOL).expect("a pool");
    let (mut block, mut disk) = (Block::new(false, [0; 20]), MemoryDisk::new(64));
    let Step::Stopped { queue: 0, fault } = block.step(&window, &mut disk) else { panic!("it was not noticed") };
    assert!(memory.with(content) == before && disk.asked.is_empty(), "{fault}: something was done");
    for _ in 0..3 {
        assert_eq!(block.step(&window, &mut disk), Step::Idle, "{fault}: said once");
    }
    assert_eq!(block.fault(), Some(fault));
    // The front switches the queue off and on again, as a driver does that is bound again.
    let mut driver = Driver::new(&monitor, 0, 16);
    driver.put(HEADER, &header(0, 0));
    let _ = driver.offer(&[(HEADER, 16, false), (DATA, 512, true), (STATUS, 1, true)]);
    while block.step(&window, &mut disk) != Step::Idle {}
    assert_eq!((driver.collect(), block.fault()), (Some((0, 513)), None), "{fault}: it does not heal");
    fault
}

/// A chain in place of a request.
fn chain(buffers: &[Buffer]) -> Fault {
    stopped_by(|_, driver| _ = driver.offer(buffers))
}

/// H18: foreign addresses and lengths, in each place of a chain.
#[test]
fn buffers_outside_the_pool_are_refused() {
    for (address, bytes) in [
        (0, 1),
        (POOL - 1, 1),
        (POOL - 16, 16),
        (END, 1),
        (END - 15, 16),
        (END - 1, 2),
        (POOL, POOL_BYTES + 1),
        (POOL, u32::MAX),
        (HEADER, u32::MAX),
        (END - 1, u32::MAX),
        (0x4000_0000, 16),
        (u64::from(u32::MAX) + 1 + HEADER, 16),
        (u64::MAX, 1),
        (u64::MAX - 15, 16),
        (u64::MAX - 0xfff, u32::MAX),
        (1 << 63, 0),
        (END + 1, 0),
    ] {
        let buffer = |is_written| (address, bytes, is_written);
        let expected = Fault::Buffer { address, bytes };
        let good = (HEADER, 16, false);
        assert_eq!(chain(&[buffer(false)]), expected);
        assert_eq!(chain(&[good, buffer(true), (STATUS, 1, true)]), expected);
        assert_eq!(chain(&[good, (DATA, 512, true), buffer(true)]), expected);
    }
}

/// H18: chains that end nowhere.
#[test]
fn loops_are_refused() {
    let link = |driver: &Driver<'_>, index, next| driver.describe(index, DATA, 16, NEXT, next);
    for length in 1..=16u16 {
        let fault = stopped_by(|_, driver| {
            (0..length).for_each(|index| link(driver, index, (index + 1) % length));
            driver.publish(0);
        });
        assert_eq!(fault, Fault::Loop, "a ring of {length}");
    }
    let tail = stopped_by(|_, driver| {
        (0..15).for_each(|index| link(driver, index, index + 1));
        link(driver, 15, 7);
        driver.publish(0);
    });
    assert_eq!(tail, Fault::Loop);
}

/// The longest chain that there can be is one of as many links as the queue has, and at most 256.
#[test]
fn a_chain_of_all_descriptors_is_served() {
    for number in [1, 2, 4, 256] {
        let memory = Watched::new();
        let monitor = Monitor::new(&memory, DEVICE_NET);
        let mut driver = Driver::new(&monitor, 1, number);
        let each = 64u32.div_ceil(u32::from(number));
        let buffers: Vec<Buffer> =
            (0..u64::from(number)).map(|at| (DATA + at * u64::from(each), each, false)).collect();
        driver.put(DATA + 12, &[5; 600]);
        let _ = driver.offer(&buffers);
        let window = Window::new(&memory, POOL).expect("a pool");
        let (mut net, mut frames) = (Net::new(), Frames::default());
        while net.step(&window, &mut frames) != Step::Idle {}
        assert_eq!(frames.sent, [vec![5; (each * u32::from(number)) as usize - 12]]);
    }
}

/// H19: indices that the queue does not have.
#[test]
fn indices_outside_the_queue_are_refused() {
    for index in [16, 17, 255, 256, 0x7fff, 0xffff] {
        assert_eq!(stopped_by(|_, driver| driver.publish(index)), Fault::Head(index));
        let fault = stopped_by(|_, driver| {
            driver.describe(3, HEADER, 16, NEXT, index);
            driver.publish(3);
        });
        assert_eq!(fault, Fault::Next(index));
    }
    for available in [17, 18, 0x7fff, 0x8000, 0xffff] {
        let fault = stopped_by(|_, driver| driver.set_available(available));
        assert_eq!(fault, Fault::Jump { available, done: 0 });
    }
}

/// H19: the index goes back, behind what was done.
#[test]
fn an_index_that_goes_back_is_a_jump() {
    let memory = Watched::new();
    let monitor = Monitor::new(&memory, DEVICE_BLOCK);
    let mut driver = Driver::new(&monitor, 0, 16);
    let window = Window::new(&memory, POOL).expect("a pool");
    let (mut block, mut disk) = (Block::new(false, [0; 20]), MemoryDisk::new(64));
    for _ in 0..3 {
        let _ = driver.offer(&[(HEADER, 16, false), (DATA, 512, true), (STATUS, 1, true)]);
    }
    while block.step(&window, &mut disk) != Step::Idle {}
    driver.set_available(2);
    let expected = Step::Stopped { queue: 0, fault: Fault::Jump { available: 2, done: 3 } };
    assert_eq!(block.step(&window, &mut disk), expected);
}

#[test]
fn flags_and_order_are_refused() {
    for flags in [4, 5, 8, 0x80, 0x8000, 0xfffc] {
        let fault = stopped_by(|_, driver| {
            driver.describe(0, HEADER, 16, flags, 1);
            driver.publish(0);
        });
        assert_eq!(fault, Fault::Flags(flags));
    }
    assert_eq!(chain(&[(HEADER, 16, false), (DATA, 512, true), (DATA, 16, false), (STATUS, 1, true)]), Fault::Order);
    assert_eq!(chain(&[(STATUS, 1, true), (HEADER, 16, false)]), Fault::Order);
    let fault = stopped_by(|_, driver| {
        driver.describe(0, STATUS, 1, NEXT | WRITE, 1);
        driver.describe(1, HEADER, 0, 0, 0);
        driver.publish(0);
    });
    assert_eq!(fault, Fault::Order, "also of no bytes");
}

#[test]
fn requests_without_header_or_status_are_refused() {
    assert_eq!(chain(&[(HEADER, 15, false), (STATUS, 1, true)]), Fault::Header { bytes: 15 });
    assert_eq!(chain(&[(STATUS, 1, true)]), Fault::Header { bytes: 0 });
    assert_eq!(chain(&[(HEADER, 16, false)]), Fault::Status);
    assert_eq!(chain(&[(HEADER, 16, false), (STATUS, 0, true)]), Fault::Status);
}

/// Records that a hostile front hands to the monitor, which copies them as they are.
#[test]
fn queues_outside_the_pool_are_refused() {
    let rings = [POOL, POOL + 0x1000, POOL + 0x2000];
    let at = |number, places| stopped_by(|monitor, _| monitor.switch_on(0, number, places));
    for number in [3, 6, 255, 257, 512, 1 << 16, (1 << 16) + 16, 1 << 31, u32::MAX] {
        assert_eq!(at(number, rings), Fault::Number(number));
    }
    for (which, area, alignment, bytes) in
        [(0, Area::Descriptors, 16, 16 * 16), (1, Area::Available, 2, 4 + 2 * 16), (2, Area::Used, 4, 4 + 8 * 16)]
    {
        let mut addresses = vec![0, POOL - 16, END, END + 16, END - bytes + alignment, !15, 1 << 63];
        addresses.extend((1..alignment).map(|beside| POOL + 0x3000 + beside));
        for address in addresses {
            let mut places = rings;
            places[which] = address;
            assert_eq!(at(16, places), Fault::Area { area, address });
        }
    }
}

#[test]
fn buffers_for_frames_that_are_too_small_are_refused() {
    let memory = Watched::new();
    let monitor = Monitor::new(&memory, DEVICE_NET);
    let window = Window::new(&memory, POOL).expect("a pool");
    let (mut net, mut frames) = (Net::new(), Frames::default());
    for (room, queue, given) in [(1525, 0, 0), (0, 0, 1), (0, 1, 11), (0, 1, 0)] {
        let mut driver = Driver::new(&monitor, queue, 4);
        frames.arriving.push_back(vec![1; 60]);
        let _ = driver.offer(&[(DATA, given, false), (DATA, room, true)]);
        let bytes = u64::from(if queue == 0 { room } else { given });
        let fault = if queue == 0 { Fault::Room { bytes } } else { Fault::Header { bytes } };
        assert_eq!(net.step(&window, &mut frames), Step::Stopped { queue, fault });
        assert_eq!(net.faults()[queue as usize], Some(fault));
        assert_eq!(driver.collect(), None);
    }
    assert!(frames.sent.is_empty());
}

/// Each fault says what is wrong, in words of its own.
#[test]
fn faults_read_as_sentences() {
    let faults = [
        Fault::Number(3),
        Fault::Area { area: Area::Used, address: 0x10 },
        Fault::Jump { available: 9, done: 3 },
        Fault::Head(17),
        Fault::Next(18),
        Fault::Loop,
        Fault::Buffer { address: 0x4000_0000, bytes: u32::MAX },
        Fault::Flags(4),
        Fault::Order,
        Fault::Header { bytes: 3 },
        Fault::Status,
        Fault::Room { bytes: 100 },
    ];
    let texts: std::collections::BTreeSet<String> = faults.iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), faults.len());
    assert!(texts.contains("a buffer of 4294967295 bytes at 0x40000000 is not in the pool"), "{texts:?}");
    assert!(texts.contains("the used ring at 0x10 is not aligned or not in the pool"));
}
