//! A program of processes: what it does is what its maker says in its argument. In slot 1 is its quota, and behind it what it imports.
#![no_std]
#![no_main]

use bulkhead_component::call::{component_fault, counter_ticks, receive};
use bulkhead_component::process::{self, Fork, Made, Share};
use bulkhead_component::{Code, mixed, println};
use bulkhead_kernel_abi::capability::right;
use bulkhead_kernel_abi::{PROCESS_QUOTA_SLOT, PROCESS_SLOTS};
use core::arch::asm;
use core::hint::black_box;
use core::sync::atomic::{AtomicU64, Ordering};

bulkhead_component::entry!(main);

bulkhead_component::slots! {
    /// What pays for the threads of its children.
    payer;
}

/// Says hello, and exits with 7.
const HELLO: u64 = 0;
/// Forks; both look at their memory.
const FORKS: u64 = 1;
/// Becomes itself again, with [`BECAME`].
const EXECS: u64 = 2;
const BECAME: u64 = 3;
/// Counts how often it began, and faults.
const FAULTS: u64 = 4;
/// Maps, protects, shares and unmaps memory.
const MAPS: u64 = 5;
/// Forks until it is refused, and each child does.
const BOMB: u64 = 6;
/// Forks, exits and waits, as often as the number above the lowest byte says, and says how long it took.
const COUNTS: u64 = 7;
/// Runs for ever.
const SPINS: u64 = 8;
/// Forks as often as the number above the lowest byte says, looks each time that parent and child have memory of their own, and exits with how often that was so.
const WORKS: u64 = 9;

/// Spawns the program whose number is above the lowest byte until it is refused, and each child does.
const SPAWNS: u64 = 10;

/// A slot that nothing is in.
const CHILD: u64 = PROCESS_SLOTS as u64 - 1;
const REGION: u64 = PROCESS_SLOTS as u64 - 2;
const PART: u64 = PROCESS_SLOTS as u64 - 3;
/// Slots for forks of a bomb, and pages that are too few for one.
const MOST_FORKS: u64 = 16;
const LEAST_PAGES: u32 = 16;
/// Where memory is mapped.
const ADDRESS: u64 = 0x1000_0000;

/// Its own, in each process.
static NUMBER: AtomicU64 = AtomicU64::new(1);
/// With the stack of 16 KiB, and 4 KiB of other data, 64 KiB of memory that it may write: 16 pages, and 4 translation tables for these.
const NEEDED_PAGES: u32 = 16 + 4;
static MEMORY: [AtomicU64; 11 * 512] = [const { AtomicU64::new(0) }; 11 * 512];

fn made() -> Made {
    Made { quota: PROCESS_QUOTA_SLOT, payer: payer(), to: CHILD }
}

/// Waits for the child's end, which nobody tells it: a process has no end point.
fn wait() -> Result<u64, Code> {
    loop {
        let record = component_fault(CHILD)?;
        if record.number != 0 {
            return Ok(record.syndrome);
        }
        let _ = receive(0, counter_ticks() + 1_000);
    }
}

fn main(argument: u64) {
    match argument & 0xff {
        HELLO => println!("worker: hello"),
        FORKS => forks(),
        EXECS => println!("worker: {:?}", process::exec(argument >> 8, BECAME)),
        BECAME => println!("worker: became itself, number {}", NUMBER.load(Ordering::Relaxed)),
        FAULTS => {
            println!("worker: begins with number {}", NUMBER.fetch_add(1, Ordering::Relaxed));
            // SAFETY: an exception that the kernel takes.
            unsafe { asm!("brk #2") }
        }
        MAPS => maps(),
        BOMB => bomb("forks", |to, share| process::fork(Made { to, ..made() }, share)),
        SPAWNS => bomb("children", |to, share| {
            let made = Made { to, ..made() };
            process::spawn(argument >> 8, argument, made, payer()..payer() + 1, share).map(Fork::Parent)
        }),
        COUNTS => counts(argument >> 8),
        WORKS => works(argument >> 8),
        SPINS => loop {
            black_box(NUMBER.fetch_add(1, Ordering::Relaxed));
        },
        _ => {}
    }
    process::exit(7 + argument);
}

fn forks() {
    NUMBER.store(40, Ordering::Relaxed);
    let mut local = black_box(50);
    match process::fork(made(), Share { pages: 40, ..Share::default() }) {
        Ok(Fork::Child) => {
            local += 1;
            let number = NUMBER.fetch_add(1, Ordering::Relaxed) + 1;
            println!("child: {number} {}", black_box(local));
            process::exit(number);
        }
        Ok(Fork::Parent(_)) => {
            let code = wait();
            println!("parent: {} {}, child {code:?}", NUMBER.load(Ordering::Relaxed), black_box(local));
            println!("parent: destroys {:?}, again {:?}", process::destroy(CHILD), process::destroy(CHILD));
        }
        Err(code) => println!("worker: no fork, {code:?}"),
    }
}

fn works(times: u64) {
    let mut good = 0;
    for turn in 0..times {
        NUMBER.store(turn, Ordering::Relaxed);
        match process::fork(made(), Share { pages: 40, ..Share::default() }) {
            Ok(Fork::Child) => {
                NUMBER.store(mixed(turn, 1), Ordering::Relaxed);
                process::exit(NUMBER.load(Ordering::Relaxed));
            }
            Ok(Fork::Parent(_)) => {
                let is_childs = wait() == Ok(mixed(turn, 1));
                let is_own = NUMBER.load(Ordering::Relaxed) == turn;
                good += u64::from(is_childs && is_own && process::destroy(CHILD).is_ok());
            }
            Err(_) => break,
        }
    }
    process::exit(good);
}

fn maps() {
    let rights = right::READ | right::WRITE;
    println!("region: {:?}", process::create_region(PROCESS_QUOTA_SLOT, 3, REGION));
    println!(
        "map: {:?}, again {:?}",
        process::map(REGION, 0, ADDRESS, 2, rights),
        process::map(REGION, 2, ADDRESS, 1, rights)
    );
    println!("writable and executable: {:?}", process::map(REGION, 2, ADDRESS + 0x4000, 1, rights | right::EXECUTE));
    let word = core::ptr::with_exposed_provenance_mut::<u64>(ADDRESS as usize + 0x1000);
    // SAFETY: a page that was mapped for this, and which nothing else knows.
    let zero = unsafe { word.read_volatile() };
    // SAFETY: the same.
    unsafe { word.write_volatile(77) };
    // The same page elsewhere, by a capability to a part of it.
    println!("share: {:?}", process::share(REGION, 1, 1, right::READ, PART));
    println!("more rights: {:?}", process::map(PART, 0, ADDRESS + 0x20_0000, 1, rights));
    println!("part: {:?}", process::map(PART, 0, ADDRESS + 0x20_0000, 1, right::READ));
    let other = core::ptr::with_exposed_provenance::<u64>(ADDRESS as usize + 0x20_0000);
    // SAFETY: the same.
    println!("was {zero}, is {}", unsafe { other.read_volatile() });
    println!("protect: {:?}", process::protect(ADDRESS, 2, right::READ));
    println!("unmap: {:?}, again {:?}", process::unmap(ADDRESS, 1), process::unmap(ADDRESS, 1));
    // A fault, which the maker sees: it may not write any more.
    // SAFETY: the kernel takes the exception.
    unsafe { word.write_volatile(78) };
}

fn bomb(what: &str, make: impl Fn(u64, Share) -> Result<Fork, Code>) {
    // What a child may have is less than what its parent has; it makes some as well.
    let mut share = Share { pages: 200, components: 8, threads: 8, regions: 0 };
    let mut made = 0;
    while made < MOST_FORKS {
        match make(CHILD - made, share) {
            Ok(Fork::Child) => made = 0,
            Ok(Fork::Parent(_)) => made += 1,
            Err(_) if share.components != 0 => {
                (share.components, share.threads) = (share.components / 2, share.components / 2)
            }
            Err(_) if share.pages >= LEAST_PAGES => share.pages -= LEAST_PAGES / 2,
            Err(code) => {
                println!("bomb: {made} {what}, then {code:?}");
                break;
            }
        }
    }
    // Spins, as what its quota allows.
    loop {
        black_box(NUMBER.fetch_add(1, Ordering::Relaxed));
    }
}

fn needed(pages: u32) -> Share {
    Share { pages, ..Share::default() }
}

fn counts(times: u64) {
    // Each page is written, so that none is left as the program has it.
    MEMORY.iter().for_each(|word| word.store(1, Ordering::Relaxed));
    // Nobody reads it: without this the compiler knows that, and leaves it out.
    black_box(&MEMORY);
    // What a fork needs is what there is to copy: one page less is too few, and this many are enough.
    if process::fork(made(), needed(NEEDED_PAGES - 1)).err() != Some(Code::Full) {
        return println!("worker: has another number of pages than {NEEDED_PAGES}");
    }
    let (mut least, mut most, mut sum, mut exits) = (u64::MAX, 0, 0, 0);
    let first = counter_ticks();
    for _ in 0..times {
        let before = counter_ticks();
        match process::fork(made(), needed(NEEDED_PAGES)) {
            // The child is more important than its parent, and runs at once.
            Ok(Fork::Child) => process::exit(counter_ticks() - before),
            Ok(Fork::Parent(_)) => {}
            Err(code) => return println!("worker: no fork, {code:?}"),
        }
        let Ok(ticks) = wait() else { return };
        if process::destroy(CHILD).is_ok() {
            exits += 1;
        }
        // The first one meets no date that is left of another one.
        if exits > 1 {
            (least, most, sum) = (least.min(ticks), most.max(ticks), sum + ticks);
        }
    }
    let total = counter_ticks() - first;
    println!("fork: {least} to {most}, sum {sum}, {exits} of {times} exits");
    println!("forks in all: {total} ticks");
}
