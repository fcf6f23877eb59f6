//! Random rings and requests against models that are written another way (H18, H19).

mod support;

use bulkhead_abi::virtio::DEVICE_BLOCK;
use bulkhead_virtqueue::{Block, Fault, Step, Window};
use proptest::prelude::*;
use support::front::{Buffer, Driver, Monitor, header};
use support::parts::MemoryDisk;
use support::{POOL, POOL_BYTES, Watched};

const SECTORS: u64 = 64;
const HEADERS: u64 = POOL + 0x8000;
const DATA: u64 = POOL + 0x1_0000;
const NUMBER: u16 = 8;

/// A descriptor: address, length, flags, next.
type Descriptor = (u64, u32, u16, u16);

/// Mostly what is in order, sometimes at an edge, sometimes anything.
fn descriptors() -> impl Strategy<Value = Descriptor> {
    let end = POOL + u64::from(POOL_BYTES);
    let address = prop_oneof![
        8 => (0..POOL_BYTES).prop_map(|at| POOL + u64::from(at)),
        1 => (0..40u64).prop_map(move |before| end - before),
        1 => (0..40u64).prop_map(|before| POOL - before),
        1 => any::<u64>(),
    ];
    let bytes = prop_oneof![8 => 0..600u32, 1 => Just(u32::MAX), 1 => any::<u32>()];
    let flags = prop_oneof![8 => 0..4u16, 4 => Just(1u16), 1 => any::<u16>()];
    let next = prop_oneof![12 => 0..NUMBER, 1 => any::<u16>()];
    (address, bytes, flags, next)
}

/// What the specification says of a chain: bytes to read and to write, or the first thing that is wrong.
fn judge(table: &[Descriptor], head: u16) -> Result<(u64, u64), Fault> {
    let (mut given, mut taken, mut is_behind) = (0, 0, false);
    let mut index = usize::from(head);
    if index >= table.len() {
        return Err(Fault::Head(head));
    }
    for _ in 0..table.len() {
        let (address, bytes, flags, next) = table[index];
        if flags > 3 {
            return Err(Fault::Flags(flags));
        }
        let end = u128::from(address) + u128::from(bytes);
        if address < POOL || end > u128::from(POOL) + u128::from(POOL_BYTES) {
            return Err(Fault::Buffer { address, bytes });
        }
        match (flags & 2 != 0, is_behind) {
            (true, _) => (taken, is_behind) = (taken + u64::from(bytes), true),
            (false, false) => given += u64::from(bytes),
            (false, true) => return Err(Fault::Order),
        }
        if flags & 1 == 0 {
            return Ok((given, taken));
        }
        if usize::from(next) >= table.len() {
            return Err(Fault::Next(next));
        }
        index = usize::from(next);
    }
    Err(Fault::Loop)
}

/// A request of a front: type, sector, data in pieces.
#[derive(Clone, Debug)]
struct Wish {
    kind: u32,
    sector: u64,
    pieces: Vec<u32>,
    filling: u8,
}

fn wishes() -> impl Strategy<Value = Wish> {
    let kind = prop_oneof![4 => Just(0u32), 4 => Just(1), 1 => Just(4), 1 => Just(8), 1 => any::<u32>()];
    let sector = prop_oneof![8 => 0..SECTORS + 2, 1 => any::<u64>()];
    // Pieces that mostly come to whole sectors together.
    let pieces = (prop::collection::vec(0..3000u32, 0..5), any::<bool>()).prop_map(|(mut pieces, is_whole)| {
        let rest = pieces.iter().sum::<u32>() % 512;
        if is_whole && rest != 0 {
            pieces.push(512 - rest);
        }
        pieces
    });
    (kind, sector, pieces, any::<u8>()).prop_map(|(kind, sector, pieces, filling)| Wish {
        kind,
        sector,
        pieces,
        filling,
    })
}

/// The disk after a request, and its status.
fn expected(disk: &mut [u8], wish: &Wish) -> u8 {
    let bytes: u64 = wish.pieces.iter().map(|piece| u64::from(*piece)).sum();
    let end = u128::from(wish.sector) * 512 + u128::from(bytes);
    let is_on_disk = bytes.is_multiple_of(512) && end <= u128::from(SECTORS * 512);
    match wish.kind {
        0 | 1 if !is_on_disk => 1,
        1 => {
            disk[wish.sector as usize * 512..][..bytes as usize].fill(wish.filling);
            0
        }
        0 | 4 | 8 => 0,
        _ => 2,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2048, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any table, any head: the first thing that is wrong is named, and what is right is served.
    #[test]
    fn any_chain_is_judged_as_the_specification_says(
        table in prop::collection::vec(descriptors(), usize::from(NUMBER)),
        head in prop_oneof![12 => 0..NUMBER, 1 => any::<u16>()],
    ) {
        let memory = Watched::new();
        let monitor = Monitor::new(&memory, DEVICE_BLOCK);
        let mut driver = Driver::new(&monitor, 0, NUMBER);
        for (index, (address, bytes, flags, next)) in (0..).zip(&table) {
            driver.describe(index, *address, *bytes, *flags, *next);
        }
        driver.publish(head);
        let window = Window::new(&memory, POOL).expect("a pool");
        let (mut block, mut disk) = (Block::new(false, [0; 20]), MemoryDisk::new(SECTORS as usize));
        let step = block.step(&window, &mut disk);
        let judged = judge(&table, head).and_then(|(given, taken)| match (given, taken) {
            (0..16, _) => Err(Fault::Header { bytes: given }),
            (_, 0) => Err(Fault::Status),
            _ => Ok(()),
        });
        let wanted = judged.map_or_else(|fault| Step::Stopped { queue: 0, fault }, |()| Step::Worked);
        prop_assert_eq!(step, wanted);
    }

    /// Any requests, in bursts, with a back end that is killed now and then: statuses, contents and order are those of the model.
    #[test]
    fn any_requests_are_served_as_by_a_model(
        bursts in prop::collection::vec(prop::collection::vec(wishes(), 1..4), 1..6),
        kills in prop::collection::vec(0..40u32, 0..4),
    ) {
        let memory = Watched::new();
        let monitor = Monitor::new(&memory, DEVICE_BLOCK);
        let mut driver = Driver::new(&monitor, 0, 64);
        let mut window = Window::new(&memory, POOL).expect("a pool");
        let (mut block, mut disk) = (Block::new(false, [9; 20]), MemoryDisk::new(SECTORS as usize));
        let (mut model, mut steps) = (disk.bytes.clone(), 0);
        for burst in bursts {
            let mut heads = Vec::new();
            for (place, wish) in (0u64..).zip(&burst) {
                let (at, status) = (HEADERS + 64 * place, HEADERS + 64 * place + 32);
                driver.put(at, &header(wish.kind, wish.sector));
                let mut data = DATA + 0x8000 * place;
                let mut chain: Vec<Buffer> = vec![(at, 16, false)];
                for piece in &wish.pieces {
                    driver.put(data, &vec![wish.filling; *piece as usize]);
                    chain.push((data, *piece, wish.kind != 1));
                    data += u64::from(*piece);
                }
                chain.push((status, 1, true));
                heads.push(u32::from(driver.offer(&chain)));
            }
            loop {
                if kills.contains(&steps) {
                    (window, block) = (Window::new(&memory, POOL).expect("a pool"), Block::new(false, [9; 20]));
                }
                steps += 1;
                match block.step(&window, &mut disk) {
                    Step::Idle => break,
                    Step::Worked => {}
                    Step::Stopped { fault, .. } => prop_assert!(false, "{}", fault),
                }
            }
            for ((place, wish), head) in (0u64..).zip(&burst).zip(heads) {
                prop_assert_eq!(driver.collect().map(|(head, _)| head), Some(head));
                let status = expected(&mut model, wish);
                prop_assert_eq!(driver.get(HEADERS + 64 * place + 32, 1)[0], status, "{:?}", wish);
                if wish.kind == 0 && status == 0 {
                    let bytes = wish.pieces.iter().sum::<u32>() as usize;
                    let read = driver.get(DATA + 0x8000 * place, bytes);
                    prop_assert!(read == model[wish.sector as usize * 512..][..bytes], "{:?}", wish);
                }
            }
            prop_assert!(disk.bytes == model);
        }
    }
}
