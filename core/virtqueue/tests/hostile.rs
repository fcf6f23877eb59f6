//! The hostile front on stable Rust: the committed corpus, seeded random scripts, and memory that changes after a check (H18 to H20).

mod support;

use bulkhead_abi::virtio::{DEVICE_BLOCK, DEVICE_PAGE_BYTES};
use bulkhead_virtqueue::{Block, Fault, Step, Window};
use std::{fs, path::Path};
use support::front::{Driver, Monitor, header};
use support::parts::MemoryDisk;
use support::{POOL, POOL_BYTES, Random, Watched, hostile};

/// The corpus that the fuzz target starts from is also a regression test.
#[test]
fn the_committed_corpus_passes() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/virtqueue");
    let mut scripts = 0;
    for entry in fs::read_dir(&corpus).expect("the corpus is part of the repository") {
        hostile::run(&fs::read(entry.unwrap().path()).unwrap());
        scripts += 1;
    }
    assert!(scripts >= 4, "{scripts} scripts in {}", corpus.display());
}

/// 5,000 scripts of up to 600 bytes, the same in every run.
#[test]
fn seeded_random_scripts_pass() {
    let mut random = Random(18);
    for _ in 0..5_000 {
        let length = random.next() as usize % 600;
        let script: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
        hostile::run(&script);
    }
}

const HEADER: u64 = POOL + 0x8000;
const DATA: u64 = POOL + 0x1_0000;
const OTHER: u64 = POOL + 0x2_0000;
const STATUS: u64 = POOL + 0x9001;
const END: u64 = POOL + POOL_BYTES as u64;

/// What a front changes after a check: where in the window, and to what.
fn changes() -> Vec<(u32, Vec<u8>)> {
    let place = |address: u64| (address - POOL) as u32 + DEVICE_PAGE_BYTES;
    let mut changes = Vec::new();
    for index in 0..4 {
        let descriptor = place(POOL) + 16 * index;
        for address in [0, POOL - 1, END, END - 3, u64::MAX, OTHER] {
            changes.push((descriptor, address.to_le_bytes().to_vec()));
        }
        for bytes in [0, 1, POOL_BYTES, u32::MAX] {
            changes.push((descriptor + 8, bytes.to_le_bytes().to_vec()));
        }
        for flags in [0u16, 1, 2, 3, 4, 0xffff] {
            changes.push((descriptor + 12, flags.to_le_bytes().to_vec()));
        }
        for next in [0u16, 1, 7, 8, 0xffff] {
            changes.push((descriptor + 14, next.to_le_bytes().to_vec()));
        }
    }
    for head in [1u16, 3, 7, 8, 0xffff] {
        changes.push((place(POOL + 0x1004), head.to_le_bytes().to_vec()));
        changes.push((place(POOL + 0x1002), head.to_le_bytes().to_vec()));
        changes.push((place(POOL + 0x2002), head.to_le_bytes().to_vec()));
    }
    for (kind, sector) in [(0, 63), (0, 64), (1, 0), (4, 0), (8, 0), (9, 0), (0, u64::MAX), (1, 1 << 55)] {
        changes.push((place(HEADER), header(kind, sector).to_vec()));
    }
    for word in 0..8 {
        for value in [0, 1, 3, u32::MAX] {
            changes.push((0x800 + 4 * word, value.to_le_bytes().to_vec()));
        }
    }
    changes
}

/// H20: each change before each access of a request. The watched memory refuses accesses outside; here each descriptor is read once, what
/// was read goes to one place as a whole, and the disk is asked for nothing that it does not have.
#[test]
fn nothing_that_changes_after_a_check_is_believed() {
    let mut runs = 0;
    for kind in [0, 1] {
        for change in changes() {
            for access in 0.. {
                runs += 1;
                if !is_changed_at(kind, access, &change) {
                    break;
                }
            }
        }
    }
    assert!(runs > 10_000, "{runs} runs");
}

/// Runs a request of two pieces of data; returns whether it had that many accesses.
fn is_changed_at(kind: u32, access: u32, (at, change): &(u32, Vec<u8>)) -> bool {
    let memory = Watched::new();
    let monitor = Monitor::new(&memory, DEVICE_BLOCK);
    let mut driver = Driver::new(&monitor, 0, 8);
    let mut disk = MemoryDisk::new(64);
    disk.bytes.fill(0xd1);
    driver.put(HEADER, &header(kind, 3));
    driver.put(DATA, &[0x77; 0x1400]);
    let is_written = kind == 0;
    let chain =
        [(HEADER, 16, false), (DATA, 0x1000, is_written), (DATA + 0x1000, 0x400, is_written), (STATUS, 1, true)];
    let _ = driver.offer(&chain);
    let window = Window::new(&memory, POOL).expect("a pool");
    let mut block = Block::new(false, [0; 20]);
    let (place, bytes) = (*at as usize, change.clone());
    memory.before_each(move |number, window| {
        if number == access {
            window[place..place + bytes.len()].copy_from_slice(&bytes);
        }
    });
    let descriptors = DEVICE_PAGE_BYTES..DEVICE_PAGE_BYTES + 8 * 16;
    for _ in 0..8 {
        memory.reads.borrow_mut().clear();
        let step = block.step(&window, &mut disk);
        let mut read: Vec<u32> =
            memory.reads.borrow().iter().map(|(at, _)| *at).filter(|at| descriptors.contains(at)).collect();
        let count = read.len();
        read.sort_unstable();
        read.dedup();
        // A chain that meets itself reads one again and is never served.
        let is_refused = matches!(step, Step::Stopped { fault: Fault::Loop | Fault::Order, .. });
        assert!(read.len() == count || is_refused, "{step:?}: a descriptor was read twice");
        if step == Step::Idle {
            break;
        }
    }
    memory.leave_alone();
    if is_written {
        // The first piece went where its descriptor said when it was read: all of it, or none.
        let counts = [DATA, OTHER].map(|at| driver.get(at, 0x1000).iter().filter(|byte| **byte == 0xd1).count());
        let is_whole = counts.iter().all(|count| matches!(count, 0 | 1 | 0x400 | 0xc00 | 0xc01 | 0x1000));
        assert!(is_whole && counts.iter().sum::<usize>() <= 0x1400, "{counts:?} bytes");
    }
    memory.accesses.get() > access
}

/// The driver notices what it claims to notice.
#[test]
#[should_panic(expected = "a store without an announcement")]
fn the_memory_catches_a_store_without_an_announcement() {
    use bulkhead_virtqueue::Memory;
    Watched::new().write(DEVICE_PAGE_BYTES, &[1]);
}

#[test]
#[should_panic(expected = "outside the window")]
fn the_memory_catches_an_access_outside() {
    use bulkhead_virtqueue::Memory;
    Watched::new().read(DEVICE_PAGE_BYTES + POOL_BYTES - 1, &mut [0; 2]);
}
