//! Works on a core beside a hostile guest. Its output is indexed and free of time, so two runs compare byte by byte.
//!
//! A round is started by the virtual timer: it takes a timer interrupt, sends itself a software generated interrupt, works
//! on a block of memory that keeps its content from round to round, checks registers that an attack would change, and
//! uses its channels. A line follows after every `rounds` rounds, with a digest of everything since the start.
//! Arguments: `lines=N` (default 100), `rounds=N` (rounds per line, default 10), `round_us=N` (default 1000).
#![no_std]
#![no_main]

mod peers;
mod work;

use bulkhead_sdk::{
    arguments, cpu, information,
    interrupt::{self, InterruptId, VIRTUAL_TIMER},
    println, timer,
};
use core::sync::atomic::{AtomicU64, Ordering};
use peers::Peers;
use work::Work;

bulkhead_sdk::entry!(main);

const DEFAULT_LINES: u64 = 100;
const DEFAULT_ROUNDS_PER_LINE: u64 = 10;
const DEFAULT_ROUND_MICROSECONDS: u64 = 1000;
const MICROSECONDS_PER_SECOND: u64 = 1_000_000;
/// Sent by the victim to itself each round.
const OWN_SGI: InterruptId = InterruptId(3);

static TIMER_INTERRUPTS: AtomicU64 = AtomicU64::new(0);
static OWN_INTERRUPTS: AtomicU64 = AtomicU64::new(0);
/// Interrupts that nobody asked for: a stray one changes the output.
static STRAY_INTERRUPTS: AtomicU64 = AtomicU64::new(0);

fn main() {
    let text = information::arguments();
    let lines = arguments::number(text, "lines").unwrap_or(DEFAULT_LINES);
    let rounds_per_line = arguments::number(text, "rounds").unwrap_or(DEFAULT_ROUNDS_PER_LINE).max(1);
    let round_us = arguments::number(text, "round_us").unwrap_or(DEFAULT_ROUND_MICROSECONDS);
    let round_ticks = (cpu::frequency_hz() * round_us / MICROSECONDS_PER_SECOND).max(1);
    interrupt::on_interrupt(take_interrupt);
    interrupt::start();
    timer::enable_interrupt();
    interrupt::enable(OWN_SGI);
    println!("victim start");
    let mut work = Work::new();
    let mut peers = Peers::open();
    let start_ticks = cpu::counter_ticks();
    let mut round = 0;
    for line in 1..=lines {
        let mut digest = 0;
        for _ in 0..rounds_per_line {
            round += 1;
            timer::set_compare_ticks(start_ticks + round * round_ticks);
            cpu::wait_until(|| TIMER_INTERRUPTS.load(Ordering::Relaxed) >= round);
            interrupt::send(OWN_SGI, 1 << cpu::vcpu());
            cpu::wait_until(|| OWN_INTERRUPTS.load(Ordering::Relaxed) >= round);
            peers.exchange(round);
            digest = work.round(round);
        }
        println!(
            "victim line {line} digest {digest:016x} timer {} own {} stray {}",
            TIMER_INTERRUPTS.load(Ordering::Relaxed),
            OWN_INTERRUPTS.load(Ordering::Relaxed),
            STRAY_INTERRUPTS.load(Ordering::Relaxed),
        );
    }
    println!("victim done lines={lines}");
}

fn take_interrupt(id: InterruptId) {
    match id {
        VIRTUAL_TIMER => {
            timer::stop();
            TIMER_INTERRUPTS.fetch_add(1, Ordering::Relaxed);
        }
        OWN_SGI => {
            OWN_INTERRUPTS.fetch_add(1, Ordering::Relaxed);
        }
        // How many depends on the peer and on time.
        id if Peers::is_doorbell(id) => {}
        _ => {
            STRAY_INTERRUPTS.fetch_add(1, Ordering::Relaxed);
        }
    }
}
