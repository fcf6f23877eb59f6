//! Tasks of a subsystem whose scheduler is ChaosRT. A thread's argument says what it does (bits 7:0), which task it is (15:8), and how much of it (from bit 16
//! on). Nothing is printed before what is measured: consoles differ.
#![no_std]
#![no_main]

use bulkhead_component::range::Range;
use bulkhead_component::{Code, call, mixed, println};
use core::hint::black_box;
use core::sync::atomic::{AtomicU64, Ordering};

bulkhead_component::entry!(main);

mod rt {
    bulkhead_component::import! {
        /// Ends a task.
        pub fn end(me, other);
        /// Lets equals run.
        pub fn give_way(me);
        /// Waits to be woken, or until a date.
        pub fn block(me, until_ticks);
        /// Waits until a date.
        pub fn sleep(me, until_ticks);
        /// Wakes a task.
        pub fn wake(me, other);
        /// Notifies, within a limit.
        pub fn notify();
        /// A block of memory.
        pub fn allocate(me);
        /// Takes it back.
        pub fn release(me, block);
    }
}

bulkhead_component::slots! {
    /// The end point of the task that is notified.
    news;
}

bulkhead_component::counts! {
    /// Rounds that tasks computed, all together.
    rounds;
    /// Those whose result was not that of the first one: somebody changed their memory or their registers.
    wrong_results;
    /// Rounds in which a task was away for longer than [`STOP`] though it never waits: its server had no time left.
    stops;
}

/// Spins for some milliseconds, and says how much it ran.
const SPINS: u8 = 0;
/// Yields this often, with an equal, and says what that one's yields took, up to its own first instruction behind one.
const YIELDS: u8 = 1;
/// Notifies as often as it can for some milliseconds.
const NOTIFIES: u8 = 2;
/// Takes notifications, and looks once in a millisecond, for some milliseconds.
const POLLS: u8 = 3;
/// Waits to be woken by the task after it, this often.
const WAITS: u8 = 4;
/// Wakes the task before it, this often.
const WAKES: u8 = 5;
/// Sleeps for a millisecond, this often.
const SLEEPS: u8 = 6;
/// Takes blocks of memory and gives them back.
const TAKES: u8 = 7;

/// Computes this many rounds of about 10,000 instructions, and never waits.
const COMPUTES: u8 = 8;

/// 1 ms at 62.5 MHz.
const MILLISECOND: u64 = 62_500;
/// A longer time between two looks at the counter is an absence.
const ABSENCE: u64 = 300;
/// No equal and nobody more important has the core for so long at once, if their servers have less.
const STOP: u64 = 20 * MILLISECOND;
/// What the waiting task and the one that wakes it did, in turn.
static TURNS: AtomicU64 = AtomicU64::new(0);
/// When the latest task yielded; 0 when somebody counted it.
static YIELDED: AtomicU64 = AtomicU64::new(0);

fn main(argument: u64) {
    let (me, count) = (argument >> 8 & 0xff, argument >> 16);
    match argument as u8 {
        SPINS => spin(me, count),
        YIELDS => yields(me, count),
        NOTIFIES => notifies(me, count),
        POLLS => polls(me, count),
        WAITS => waits(me, count),
        WAKES => wakes(me, count),
        SLEEPS => sleeps(me, count),
        TAKES => takes(me),
        COMPUTES => computes(me, count),
        other => println!("task {me}: {other} is nothing that it does"),
    }
    let _ = rt::end(me, me);
}

/// Runs until then, and counts how much, and how often and how long it was away.
fn until(end: u64) -> [u64; 3] {
    let (mut before, mut ran, mut absences, mut longest) = (call::counter_ticks(), 0, 0, 0);
    while before < end {
        let now = call::counter_ticks();
        if now - before > ABSENCE {
            absences += 1;
            longest = core::cmp::max(longest, now - before);
        } else {
            ran += now - before;
        }
        before = now;
    }
    [ran, absences, longest]
}

fn spin(me: u64, milliseconds: u64) {
    let [ran, absences, longest] = until(call::counter_ticks() + milliseconds * MILLISECOND);
    // All have to have counted before anybody prints.
    let _ = rt::sleep(me, call::counter_ticks() + 20 * MILLISECOND);
    println!("task {me} ran {ran} ticks, {absences} absences, longest {longest}");
}

fn yields(me: u64, count: u64) {
    let mut range = Range::EMPTY;
    for _ in 0..count {
        YIELDED.store(call::counter_ticks(), Ordering::Relaxed);
        let _ = rt::give_way(me);
        let now = call::counter_ticks();
        // The other one's last yield, or nothing when it has ended: then something else brought this one back.
        match YIELDED.swap(0, Ordering::Relaxed) {
            0 => {}
            before => range.add(now - before),
        }
    }
    let _ = rt::sleep(me, call::counter_ticks() + 5 * MILLISECOND);
    range.print("yield");
}

fn notifies(me: u64, milliseconds: u64) {
    let end = call::counter_ticks() + milliseconds * MILLISECOND;
    let (mut sent, mut limited, mut refused) = (0u64, 0u64, 0u64);
    while call::counter_ticks() < end {
        match rt::notify() {
            Ok(0) => sent += 1,
            Ok(other) if other >> 32 == 1 => limited += 1,
            _ => refused += 1,
        }
    }
    let _ = rt::sleep(me, call::counter_ticks() + 20 * MILLISECOND);
    println!("task {me} notified: {sent} sent, held back {}, refused {refused}", u64::from(limited > 0));
}

fn polls(me: u64, milliseconds: u64) {
    let end = call::counter_ticks() + milliseconds * MILLISECOND;
    let (mut told, mut looked) = (0, 0);
    while call::counter_ticks() < end {
        match call::receive(news(), call::counter_ticks() / MILLISECOND * MILLISECOND + MILLISECOND) {
            Ok((_, count)) => told += count,
            Err(Code::TimedOut) => looked += 1,
            Err(other) => println!("task {me}: {other:?}"),
        }
    }
    println!("task {me} was told {told} times, looked {looked} times");
}

fn waits(me: u64, count: u64) {
    let mut late = 0;
    for turn in 0..count {
        late += u64::from(rt::block(me, u64::MAX) != Ok(0));
        // The one that woke it is less important: it has not gone on.
        assert_eq!(TURNS.swap(2 * turn + 2, Ordering::Relaxed), 2 * turn + 1);
    }
    println!("task {me} was woken {count} times, late {late}");
}

fn wakes(me: u64, count: u64) {
    for turn in 0..count {
        assert_eq!(TURNS.swap(2 * turn + 1, Ordering::Relaxed), 2 * turn);
        let _ = rt::wake(me, me - 1);
        assert_eq!(TURNS.load(Ordering::Relaxed), 2 * turn + 2, "it ran at once");
    }
    println!("task {me} woke {count} times");
}

fn sleeps(me: u64, count: u64) {
    let start = call::counter_ticks();
    let mut latest = 0;
    for turn in 1..=count {
        let date = start + turn * MILLISECOND;
        let _ = rt::sleep(me, date);
        latest = core::cmp::max(latest, call::counter_ticks() - date);
    }
    println!("task {me} slept {count} times, latest {latest}");
}

fn takes(me: u64) {
    let mut blocks = [0; 17];
    for block in &mut blocks {
        *block = rt::allocate(me).unwrap_or(u64::MAX);
    }
    let wrong = rt::release(me, 63);
    println!("task {me} took {:?}, then {:#x}; not its: {wrong:?}", &blocks[..3], blocks[16]);
    println!("task {me} gave back: {:?}; as another: {:?}", rt::release(me, blocks[0]), rt::give_way(me + 1));
}

/// What a round comes to.
fn round(from: u64) -> u64 {
    (0..1_000).fold(from, |sum, number| black_box(mixed(sum, number)))
}

fn computes(me: u64, count: u64) {
    let expected = round(me);
    let mut before = call::counter_ticks();
    for _ in 0..count {
        let result = round(me);
        let now = call::counter_ticks();
        rounds::count().add(1);
        wrong_results::count().add(u64::from(result != expected));
        stops::count().add(u64::from(now - before > STOP));
        before = now;
    }
}
