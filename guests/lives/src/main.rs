//! A front of virtio that is restarted again and again while it reads, and the manager that restarts it.
//!
//! `role=front`: each life looks for bytes in its pool (`pool=BYTES` of it, hexadecimal) and its device page before it starts its driver, then writes its
//! mark to its place on the disk and reads the whole disk for ever, 64 KiB at a time and eight requests at once. It knows every word that may come back.
//! Its port `lives` says how far it is.
//!
//! `role=manager`: it restarts the partition with number `target=N` `restarts=N` times (default 1000), each time after it has read a few times and at an
//! instant that nobody chose, and suspends it at the end.
//!
//! ```text
//! lives: 1000 restarts, 0 words found in the pool, 0 words wrong, 12345 reads, 0 beside a busy back end
//! ```
#![no_std]
#![no_main]

mod driver;
mod front;
mod manager;
mod mark;

use bulkhead_sdk::interrupt::{self, InterruptId};
use bulkhead_sdk::{arguments, cpu, information, println, timer};
use core::sync::atomic::{AtomicBool, Ordering};

bulkhead_sdk::entry!(main);

/// What a life says of itself in the port: its number, words found before its driver began, words that came back wrong, and reads that ended.
const REPORT_WORDS: usize = 4;
const PORT: &str = "lives";

static IS_AWAKE: AtomicBool = AtomicBool::new(false);

fn main() {
    interrupt::on_interrupt(take_interrupt);
    interrupt::start();
    timer::enable_interrupt();
    let text = information::arguments();
    match arguments::value(text, "role") {
        Some("front") => front::live(text),
        Some("manager") => manager::manage(text),
        _ => println!("lives FAILED: no such role"),
    }
}

fn take_interrupt(_: InterruptId) {
    timer::stop();
    IS_AWAKE.store(true, Ordering::Relaxed);
}

/// Sleeps for some microseconds.
fn pause(microseconds: u64) {
    timer::set_compare_ticks(cpu::counter_ticks() + cpu::frequency_hz() * microseconds / 1_000_000);
    cpu::wait_until(|| IS_AWAKE.swap(false, Ordering::Relaxed));
}
