//! A victim that lives by interrupts alone, beside an attacker (`tests/soak`).
//!
//! Arguments: `role=tick` (a periodic timer and nothing else), `role=wake` (the same, and each tick starts a chain of
//! interrupts that wake each other and another partition) or `role=woken` (answers the doorbells of `wake`, and rings
//! that of its port `values`, if it has one);
//! `period_us=N` (default 1000); `idle=compute` (it computes in between rather than sleep); `bound=TICKS` (latest handling
//! of a tick, from its date) and `round=TICKS` (latest end of its chain), 0 for no bound; `start_us=N` (first tick, when the
//! others have been prepared).
//!
//! The chain is: timer, software-generated interrupt to itself, private interrupt that it makes pending in its
//! redistributor, doorbell to the other partition, doorbell back. Nothing is polled and nothing guards a wait: a lost
//! interrupt stops the chain, and a lost tick stops everything.
//!
//! Output: `ticker start words=ADDRESS`, and a line `ticker FAILED ...` for each broken bound, at most [`MOST_REPORTS`]. It
//! never ends; the words at the address say how far it is ([`Words`]).
#![no_std]
#![no_main]

use bulkhead_sdk::{
    abi::plan::PortInformation,
    arguments, cpu,
    guest_abi::guest::DIRECTION_SOURCE,
    hypercall, information,
    interrupt::{self, InterruptId, VIRTUAL_TIMER},
    mmio, println, timer,
};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

bulkhead_sdk::entry!(main);

const DEFAULT_PERIOD_MICROSECONDS: u64 = 1000;
const MICROSECONDS_PER_SECOND: u64 = 1_000_000;
/// First link of the chain, sent to itself.
const OWN_SGI: InterruptId = InterruptId(6);
/// Second link, made pending in the redistributor.
const PENDED: InterruptId = InterruptId(9);
const GICR_ISPENDR0: u64 = 0x1_0200;
const MOST_REPORTS: u64 = 4;

/// What the host reads, in this order.
#[repr(C)]
struct Words {
    /// Ticks handled.
    ticks: AtomicU64,
    /// Date of the latest one, in counter ticks.
    date: AtomicU64,
    /// Longest time from a date to its handler, in counter ticks.
    latest: AtomicU64,
    /// Chains begun; doorbells received by `role=woken`.
    begun: AtomicU64,
    /// Chains ended; doorbells answered by `role=woken`.
    ended: AtomicU64,
    /// Longest time from a tick's date to the end of its chain.
    longest: AtomicU64,
    /// Bounds that were broken.
    failures: AtomicU64,
    /// Interrupts that nobody asked for.
    strays: AtomicU64,
}

static WORDS: Words = Words {
    ticks: AtomicU64::new(0),
    date: AtomicU64::new(0),
    latest: AtomicU64::new(0),
    begun: AtomicU64::new(0),
    ended: AtomicU64::new(0),
    longest: AtomicU64::new(0),
    failures: AtomicU64::new(0),
    strays: AtomicU64::new(0),
};

/// Date of the next tick.
static NEXT: AtomicU64 = AtomicU64::new(0);
static PERIOD: AtomicU64 = AtomicU64::new(0);
static TICK_BOUND: AtomicU64 = AtomicU64::new(0);
static CHAIN_BOUND: AtomicU64 = AtomicU64::new(0);
/// Date of the tick whose chain is under way.
static CHAIN_DATE: AtomicU64 = AtomicU64::new(0);
/// Interrupts that the chain has taken; 0 while none is under way.
static LINK: AtomicU64 = AtomicU64::new(0);
/// Argument of the doorbell call, `u32::MAX` without a doorbell.
static DOORBELL: AtomicU32 = AtomicU32::new(u32::MAX);
/// Interrupt of the peer's doorbell, 0 for none.
static BELL: AtomicU32 = AtomicU32::new(0);
/// Doorbell of who reads this one's values, `u32::MAX` without one. It is an attacker, so an answer is of no interest.
static VALUES_DOORBELL: AtomicU32 = AtomicU32::new(u32::MAX);
/// Interrupt of a doorbell that anybody may ring, 0 for none.
static FOREIGN_BELL: AtomicU32 = AtomicU32::new(0);

fn take(id: InterruptId) {
    match id {
        VIRTUAL_TIMER => tick(),
        OWN_SGI => {
            link(1);
            // SAFETY: the set-pending register of this guest's own redistributor.
            unsafe { mmio::write32(interrupt::redistributor() + GICR_ISPENDR0, 1 << PENDED.0) };
        }
        PENDED => {
            link(2);
            ring();
        }
        id if id.0 == BELL.load(Relaxed) => bell(),
        // How often it comes is the attacker's affair, within the limit of its doorbell.
        id if id.0 == FOREIGN_BELL.load(Relaxed) => {}
        _ => {
            WORDS.strays.fetch_add(1, Relaxed);
        }
    }
}

fn tick() {
    let (now, date) = (cpu::counter_ticks(), NEXT.load(Relaxed));
    let next = date + PERIOD.load(Relaxed);
    NEXT.store(next, Relaxed);
    timer::set_compare_ticks(next);
    let late = now.saturating_sub(date);
    WORDS.latest.fetch_max(late, Relaxed);
    WORDS.ticks.fetch_add(1, Relaxed);
    WORDS.date.store(date, Relaxed);
    let bound = TICK_BOUND.load(Relaxed);
    if bound != 0 && late > bound {
        fail("tick late", late, bound, date);
    }
    if DOORBELL.load(Relaxed) != u32::MAX {
        begin(date);
    }
}

/// Starts the next chain, if the one before has ended.
fn begin(date: u64) {
    let link = LINK.load(Relaxed);
    if link != 0 {
        // Where no time is promised, the watcher on the host sees whether it ever continues.
        if CHAIN_BOUND.load(Relaxed) != 0 {
            fail("chain lost after link", link, 0, CHAIN_DATE.load(Relaxed));
        }
        return;
    }
    CHAIN_DATE.store(date, Relaxed);
    WORDS.begun.fetch_add(1, Relaxed);
    LINK.store(1, Relaxed);
    interrupt::send(OWN_SGI, 1 << cpu::vcpu());
}

/// The chain continues from a link; an interrupt out of turn is a stray one.
fn link(expected: u64) {
    if LINK.load(Relaxed) == expected {
        LINK.store(expected + 1, Relaxed);
    } else {
        WORDS.strays.fetch_add(1, Relaxed);
    }
}

fn ring() {
    if hypercall::doorbell(DOORBELL.load(Relaxed)) != Ok(hypercall::Doorbell::Sent) {
        fail("doorbell refused", 0, 0, cpu::counter_ticks());
    }
}

fn bell() {
    if PERIOD.load(Relaxed) == 0 {
        WORDS.begun.fetch_add(1, Relaxed);
        WORDS.date.store(cpu::counter_ticks(), Relaxed);
        ring();
        WORDS.ended.fetch_add(1, Relaxed);
        let values = VALUES_DOORBELL.load(Relaxed);
        if values != u32::MAX {
            let _ = hypercall::doorbell(values);
        }
        return;
    }
    link(3);
    LINK.store(0, Relaxed);
    let (date, bound) = (CHAIN_DATE.load(Relaxed), CHAIN_BOUND.load(Relaxed));
    let took = cpu::counter_ticks().saturating_sub(date);
    WORDS.longest.fetch_max(took, Relaxed);
    WORDS.ended.fetch_add(1, Relaxed);
    if bound != 0 && took > bound {
        fail("chain late", took, bound, date);
    }
}

fn fail(what: &str, value: u64, bound: u64, date: u64) {
    if WORDS.failures.fetch_add(1, Relaxed) < MOST_REPORTS {
        let tick = WORDS.ticks.load(Relaxed);
        println!("ticker FAILED {what}: value={value} bound={bound} date={date} tick={tick}");
    }
}

/// The port of that name, or one that is not there.
fn named(name: &str) -> Option<&'static PortInformation> {
    let port = information::port(name)?;
    if port.direction != DIRECTION_SOURCE && port.interrupt != 0 {
        interrupt::enable(InterruptId(port.interrupt));
    }
    Some(port)
}

fn main() {
    let text = information::arguments();
    let number = |key, default| arguments::number(text, key).unwrap_or(default);
    cpu::mask_interrupts();
    interrupt::on_interrupt(take);
    interrupt::start();
    TICK_BOUND.store(number("bound", 0), Relaxed);
    CHAIN_BOUND.store(number("round", 0), Relaxed);
    let role = arguments::value(text, "role").unwrap_or("tick");
    if role != "tick" {
        for id in [OWN_SGI, PENDED] {
            interrupt::enable(id);
        }
        DOORBELL.store(named("out").map_or(u32::MAX, |port| port.doorbell), Relaxed);
        BELL.store(named("in").map_or(0, |port| port.interrupt), Relaxed);
        FOREIGN_BELL.store(named("foreign").map_or(0, |port| port.interrupt), Relaxed);
        VALUES_DOORBELL.store(named("values").map_or(u32::MAX, |port| port.doorbell), Relaxed);
    }
    println!("ticker start words={:#x}", (&raw const WORDS) as u64);
    if role != "woken" {
        let period = cpu::frequency_hz() * number("period_us", DEFAULT_PERIOD_MICROSECONDS) / MICROSECONDS_PER_SECOND;
        PERIOD.store(period, Relaxed);
        timer::enable_interrupt();
        let start = cpu::frequency_hz() / MICROSECONDS_PER_SECOND * number("start_us", 0);
        NEXT.store(start.max(cpu::counter_ticks()) + period, Relaxed);
        timer::set_compare_ticks(NEXT.load(Relaxed));
    }
    let computes = arguments::value(text, "idle") == Some("compute");
    cpu::unmask_interrupts();
    loop {
        if !computes {
            cpu::wait_for_interrupt();
        }
    }
}
