//! Fronts of virtio that are hostile, and one that is not (H18 to H20).
//!
//! `attack=front`: attacks one after the other on the queue of a disk (front 0) and those of a card (front 1), each when the host tells it to in
//! a word of this guest's memory, since only the back end can tell when it saw the last one. What each is to come to is the host's to know.
//! Then the disk is wrong hundreds of times more, as fast as that is seen; all of what both ends share changes at random while the back end
//! works (`rounds=N`); and at the end the disk is used as it is meant.
//!
//! `attack=aim`: a sector (front 0) is asked for and stored at places outside the pool (`targets=`), which without a bound would be memory of the back
//! end's own.
//!
//! `attack=honest`: requests of a disk (front 0), each of which is checked, until the host tells it to end.

use crate::raw::{read, write};
use crate::virtio::{
    DATA, NEXT, Queue, READ_SECTORS, SECTOR_BYTES, Setup, WRITE, WRITE_SECTORS, pause, prepare_pauses,
};
use crate::{number, targets};
use bulkhead_sdk::guest_abi::guest::{GUEST_POOL, GUEST_RAM};
use bulkhead_sdk::{cpu, println};
use core::sync::atomic::{Ordering::SeqCst, fence};

/// Words for the host, far behind the image: how many attacks it allows, and whether the last one was served instead.
const ALLOWED: u64 = GUEST_RAM.0 + (16 << 20);
const SERVED: u64 = ALLOWED + 8;
/// Memory of this guest that is not in the pool, and what it is full of: attacks name it.
const OWN: u64 = GUEST_RAM.0 + (32 << 20);
const OWN_BYTES: u64 = 64 << 10;
const PATTERN: u64 = 0x5afe_5afe_5afe_5afe;
/// The pool has at least these bytes; its end is told by the host (`pool=BYTES`).
const POOL_BYTES: u64 = 8 << 20;
const MOST: u64 = 0xffff_ffff;
/// Queues that are wrong, as fast as the back end looks at them.
const FLOOD: u64 = 300;

/// What it writes to the disk of a back end that it aims at.
const WEAPON: u64 = 0xa5a5_a5a5_a5a5_a5a5;
/// The sector with that, and one that must not get anything.
const SECTOR: u64 = 0;
const EMPTY: u64 = 1;

/// An attack: its name, and what it changes in memory or in what the device is told.
type Attack = (&'static str, fn(Queue, &mut Setup, u64));

/// What is wrong with a queue as a whole.
const QUEUES: &[Attack] = &[
    ("a number that is no power of two", |_, setup, _| setup.number = 3),
    ("too large a number", |_, setup, _| setup.number = 512),
    ("the largest number", |_, setup, _| setup.number = MOST),
    ("descriptors that are not aligned", |queue, setup, _| setup.places[0] = queue.area + 8),
    ("descriptors in own memory", |_, setup, _| setup.places[0] = OWN),
    ("an available ring across the end of the pool", |_, setup, end| setup.places[1] = end - 4),
    ("a used ring at the last address", |_, setup, _| setup.places[2] = u64::MAX - 3),
    ("an index that jumps", |queue, _, _| queue.set_available(10)),
];

/// What is wrong with a chain.
const CHAINS: &[Attack] = &[
    ("a head behind the table", |queue, _, _| queue.offer(0, 8)),
    ("the largest head", |queue, _, _| queue.offer(0, 0xffff)),
    ("a link behind the table", |queue, _, _| queue.describe(0, queue.header(), 16, NEXT, 8)),
    ("a link to itself", |queue, _, _| queue.describe(0, queue.header(), 16, NEXT, 0)),
    ("a loop of two", |queue, _, _| {
        queue.describe(0, queue.header(), 16, NEXT, 1);
        queue.describe(1, queue.header(), 16, NEXT, 0);
    }),
    ("a buffer in own memory", |queue, _, _| queue.describe(0, OWN, 16, NEXT, 1)),
    ("a buffer before the pool", |queue, _, _| queue.describe(0, GUEST_POOL.0 - 1, 16, NEXT, 1)),
    ("a buffer across the end of the pool", |queue, _, end| queue.describe(0, end - 15, 16, NEXT, 1)),
    ("the largest length", |queue, _, _| queue.describe(0, GUEST_POOL.0, MOST, NEXT, 1)),
    ("the largest length at the last byte", |queue, _, end| queue.describe(0, end - 1, MOST, NEXT, 1)),
    ("the last address", |queue, _, _| queue.describe(0, u64::MAX, 1, NEXT, 1)),
    ("an indirect table", |queue, _, _| queue.describe(0, queue.header(), 16, 4, 0)),
    ("all flags", |queue, _, _| queue.describe(0, queue.header(), 16, 0xffff, 0)),
    ("a buffer to read behind one to write", |queue, _, _| {
        queue.describe(0, queue.header(), 16, NEXT | WRITE, 1);
        queue.describe(1, queue.header(), 16, 0, 0);
    }),
    ("less than a header", |queue, _, _| queue.describe(0, queue.header(), 4, 0, 0)),
];

/// What is wrong with a request of a disk, and with a buffer for frames.
const REQUESTS: &[Attack] = &[("no room for a status", |queue, _, _| queue.describe(0, queue.header(), 16, 0, 0))];
const BUFFERS: &[Attack] = &[
    ("an index for frames that jumps", |queue, _, _| queue.set_available(10)),
    ("a small buffer", |queue, _, _| queue.describe(0, queue.area + DATA, 1525, WRITE, 0)),
    ("a buffer for frames in own memory", |queue, _, _| queue.describe(0, OWN, 2048, WRITE, 0)),
];

/// Attacks, and then shows that the disk can still be used.
pub(crate) fn run(text: &str) {
    prepare_pauses();
    let end = GUEST_POOL.0 + number(text, "pool", POOL_BYTES);
    (OWN..OWN + OWN_BYTES).step_by(8).for_each(|place| write(place, 8, PATTERN));
    let (disk, frames, transmit) = (Queue::new(0, 0), Queue::new(1, 0), Queue::new(1, 1));
    let suites: [(Queue, &[&[Attack]]); 3] =
        [(disk, &[QUEUES, CHAINS, REQUESTS]), (transmit, &[QUEUES, CHAINS]), (frames, &[BUFFERS])];
    let mut done = 0;
    for (queue, attacks) in suites {
        for (name, change) in attacks.iter().copied().flatten() {
            while read(ALLOWED, 8) <= done {
                pause();
            }
            println!("intruder: {name}");
            attack(queue, *change, end);
            done += 1;
        }
        queue.off();
    }
    while read(ALLOWED, 8) <= done {
        pause();
    }
    let rounds = number(text, "rounds", 0);
    flood(disk);
    change_everything([disk, frames, transmit], rounds, end);
    let own = (OWN..OWN + OWN_BYTES).step_by(8).filter(|place| read(*place, 8) != PATTERN).count();
    println!("intruder: {done} attacks and {rounds} rounds, own memory changed={own}");
    disk.off();
    disk.clear();
    disk.on(disk.honest());
    let is_done = disk.serve(0, READ_SECTORS, 1, SECTOR_BYTES);
    println!("intruder: served={is_done} {:#x}", read(disk.area + DATA, 8));
}

/// One attack. One that is served is told in a word for the host, which otherwise would wait for a message in vain.
fn attack(queue: Queue, change: fn(Queue, &mut Setup, u64), end: u64) {
    // Before anything that the host may answer: what it allows after this core was away for a while is the next attack.
    let number = read(ALLOWED, 8);
    queue.off();
    queue.clear();
    let mut setup = queue.honest();
    queue.describe_honest();
    queue.offer(0, 0);
    change(queue, &mut setup, end);
    queue.on(setup);
    queue.notify();
    while read(ALLOWED, 8) == number && queue.used() == 0 {
        pause();
    }
    write(SERVED, 8, u64::from(queue.used() != 0));
}

/// Switches a queue with a wrong number on by itself, in place of its monitor, each time that the back end has seen the last one: it withdraws what
/// it finds announced.
fn flood(queue: Queue) {
    queue.off();
    for number in 0..FLOOD {
        write(queue.page() + COPYING, 4, 1);
        write(queue.page() + RECORDS + 4, 4, 3);
        fence(SeqCst);
        write(queue.page() + RECORDS, 4, 0x1000 + 2 * number);
        queue.notify();
        while read(queue.page() + COPYING, 4) != 0 {
            pause();
        }
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    fn one_of(&mut self, words: &[u64]) -> u64 {
        words.get(self.next() as usize % words.len()).copied().unwrap_or(0)
    }
}

/// Addresses, lengths, indices, links, records and the words of a restart change while the back end serves: between its look at them and its use.
fn change_everything(queues: [Queue; 3], rounds: u64, end: u64) {
    let mut random = Random(1);
    for _ in 0..rounds {
        for queue in queues {
            queue.off();
            queue.clear();
            queue.describe_honest();
            (0..8).for_each(|number| queue.offer(number, 0));
            queue.on(queue.honest());
            queue.notify();
            let until = cpu::counter_ticks() + cpu::frequency_hz() / 500;
            while cpu::counter_ticks() < until {
                change_something(queue, &mut random, end);
            }
        }
    }
    // A generation, for a front that has destroyed its own.
    queues.iter().for_each(|queue| write(queue.page() + GENERATION, 4, 77));
}

/// Where the front's incarnation and the back end's announcement are, and the records of queues (`bulkhead_abi::virtio`).
const GENERATION: u64 = 0xfc0;
const COPYING: u64 = 0xfc4;
const RECORDS: u64 = 0x800;

fn change_something(queue: Queue, random: &mut Random, end: u64) {
    let good = queue.area + DATA;
    let address = random.one_of(&[good, good, good, OWN, end - 1, GUEST_POOL.0 - 8, u64::MAX, 1 << 63]);
    let length = random.one_of(&[1, 16, SECTOR_BYTES, 4096, POOL_BYTES, MOST]);
    let descriptor = queue.area + 16 * (random.next() % 3);
    match random.next() % 16 {
        0..4 => write(descriptor, 8, address),
        4..8 => write(descriptor + 8, 4, length),
        8 => write(descriptor + 12, 2, random.next() & 7),
        9 => write(descriptor + 14, 2, random.next() & 3),
        10 => queue.set_available(random.one_of(&[0, 1, 8, 9, 0xffff])),
        11 => queue.describe_honest(),
        12 => write(
            queue.page() + RECORDS + 4 * (random.next() % 32),
            4,
            random.one_of(&[0, 1, 2, 8, 256, MOST, end, OWN]),
        ),
        13 => write(queue.page() + GENERATION, 4, random.one_of(&[0, 1, 77, MOST])),
        14 => write(queue.page() + COPYING, 4, random.one_of(&[0, 1, 77, MOST])),
        _ => queue.notify(),
    }
}

/// Lets its disk store a sector at each target, and fill another one from there. The back end looks each 10 ms; one that is no longer there is not
/// waited for.
pub(crate) fn aim(text: &str) {
    prepare_pauses();
    let disk = Queue::new(0, 0);
    let own = disk.area + DATA;
    let ask = |kind, sector, place| {
        disk.off();
        disk.clear();
        disk.request(kind, sector, SECTOR_BYTES);
        disk.describe(1, place, SECTOR_BYTES, if kind == READ_SECTORS { NEXT | WRITE } else { NEXT }, 2);
        disk.on(disk.honest());
        disk.offer(0, 0);
        disk.notify();
        // It may have to start first.
        let until =
            cpu::counter_ticks() + if place == own { 2 * cpu::frequency_hz() } else { cpu::frequency_hz() / 25 };
        while disk.used() == 0 && cpu::counter_ticks() < until {
            pause();
        }
        disk.used() != 0
    };
    let words = || (own..own + SECTOR_BYTES).step_by(8);
    words().for_each(|place| write(place, 8, WEAPON));
    let is_written = ask(WRITE_SECTORS, SECTOR, own);
    let (mut aimed, mut served) = (0, 0);
    for target in targets(text) {
        for (kind, sector) in [(READ_SECTORS, SECTOR), (WRITE_SECTORS, EMPTY)] {
            aimed += 1;
            served += u64::from(ask(kind, sector, target));
        }
    }
    let is_read = ask(READ_SECTORS, EMPTY, own);
    let leaked = words().filter(|place| read(*place, 8) != 0).count();
    println!("intruder: {aimed} aimed, {served} served, {leaked} words leaked, used={}", is_written && is_read);
}

/// Writes sectors and reads them back, one request at a time, until it is told to end.
pub(crate) fn be_honest() {
    prepare_pauses();
    let disk = Queue::new(0, 0);
    disk.on(disk.honest());
    let (mut number, mut wrong) = (0, 0);
    println!("intruder: uses its disk");
    while read(ALLOWED, 8) == 0 {
        let sector = number / 2 % 64;
        let word = |at: u64| (number << 32 | sector << 16 | at).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let places = || (0..SECTOR_BYTES).step_by(8).map(|at| (at, disk.area + DATA + at));
        places().for_each(|(at, place)| write(place, 8, word(at)));
        let is_written = disk.serve(number, WRITE_SECTORS, sector, SECTOR_BYTES);
        places().for_each(|(_, place)| write(place, 8, 0));
        let is_read = disk.serve(number + 1, READ_SECTORS, sector, SECTOR_BYTES);
        let is_same = places().all(|(at, place)| read(place, 8) == word(at));
        wrong += u64::from(!(is_written && is_read && is_same));
        number += 2;
    }
    println!("intruder: {number} requests, {wrong} wrong");
}
