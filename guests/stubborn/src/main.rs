//! A guest that masks everything and never gives its core back, and a manager that stops it all the same (QV-5, CF-9).
//!
//! `role=stubborn` is for a `direct` partition. `quiet_ms=N` (default 10): it takes `N` ticks of 1 ms first, as a guest does that has
//! all interrupts to itself, and says so at their end. `sgis=1`: then it sends every software-generated interrupt to every core by every register that
//! sends any. Then, unless `masks=0`, with all of its interface as unwilling as can be (DAIF, ICC_PMR_EL1, ICC_IGRPEN1_EL1, ICC_AP1R0_EL1), it loops for ever.
//! All of that comes again with each start.
//!
//! `storm=N`: in place of the loop it calls the monitor for ever, with `N` turns of a loop between two calls.
//!
//! `role=keeper` is a manager: `after_ms=N` (default 100) after the counter began, when `target=N` loops, it suspends and resumes that `rounds=N`
//! times (default 1000), restarts it, lets it run for `settle_ms=N` (default 0), and leaves it suspended for `rest_ms=N` (default 0).
//!
//! `role=owner` has a clock whose interrupt it takes `count=N` times; `role=thief`, for a `direct` partition, ends that interrupt for ever (attack A12).
//!
//! ```text
//! stubborn quiet 10 ticks, at worst 2 late
//! keeper suspended 1000 of 1000, at worst 1234 ticks; resumed 1000
//! keeper restarted, start 2
//! ```
#![no_std]
#![no_main]

mod stolen;

use bulkhead_sdk::abi::hypercall::CALL_VERSION;
use bulkhead_sdk::abi::status::{STATE_RUNNING, STATE_SUSPENDED};
use bulkhead_sdk::hypercall::{self, CallError, PartitionStatus};
use bulkhead_sdk::interrupt::{self, InterruptId, VIRTUAL_TIMER};
use bulkhead_sdk::{arguments, cpu, information, println, timer};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

bulkhead_sdk::entry!(main);

const TICK_US: u64 = 1_000;
/// How long a manager waits for what it asked for.
const PATIENCE_MS: u64 = 1_000;

/// Ticks taken, the date of the next one, and how late the latest came, in counter ticks.
static TAKEN: AtomicU64 = AtomicU64::new(0);
static NEXT: AtomicU64 = AtomicU64::new(0);
static LATEST: AtomicU64 = AtomicU64::new(0);

fn main() {
    let text = information::arguments();
    match arguments::value(text, "role") {
        Some("stubborn") => stubborn(text),
        Some("keeper") => keeper(text),
        Some("owner") => stolen::own(number(text, "count", 100)),
        Some("thief") => stolen::steal(),
        _ => println!("stubborn FAILED: no such role"),
    }
}

fn number(text: &str, key: &str, default: u64) -> u64 {
    arguments::number(text, key).unwrap_or(default)
}

/// Microseconds as ticks of the counter.
fn ticks(microseconds: u64) -> u64 {
    cpu::frequency_hz().saturating_mul(microseconds) / 1_000_000
}

fn stubborn(text: &str) {
    let quiet = number(text, "quiet_ms", 10);
    interrupt::on_interrupt(tick);
    interrupt::start();
    NEXT.store(cpu::counter_ticks() + ticks(TICK_US), Relaxed);
    timer::set_compare_ticks(NEXT.load(Relaxed));
    timer::enable_interrupt();
    cpu::unmask_interrupts();
    println!("stubborn takes its ticks");
    while TAKEN.load(Relaxed) < quiet {
        cpu::wait_for_interrupt();
    }
    cpu::mask_interrupts();
    timer::stop();
    println!("stubborn quiet {quiet} ticks, at worst {} late", LATEST.load(Relaxed));
    if number(text, "masks", 1) == 0 {
        cpu::wait_until(|| false);
    }
    if number(text, "sgis", 0) != 0 {
        send_all();
    }
    println!("stubborn masks everything");
    match number(text, "storm", u64::MAX) {
        u64::MAX => mask_all(),
        distance => call_all(distance),
    }
}

fn tick(id: InterruptId) {
    if id != VIRTUAL_TIMER {
        return;
    }
    let date = NEXT.load(Relaxed);
    LATEST.fetch_max(cpu::counter_ticks().saturating_sub(date), Relaxed);
    NEXT.store(date + ticks(TICK_US), Relaxed);
    timer::set_compare_ticks(date + ticks(TICK_US));
    TAKEN.fetch_add(1, Relaxed);
}

/// Every number to every core of a cluster, to all but this one, and to itself (IHI 0069, 12.2: ICC_SGI1R_EL1, ICC_ASGI1R_EL1, ICC_SGI0R_EL1).
fn send_all() {
    for intid in 0..16_u64 {
        for value in [intid << 24 | 0xffff, intid << 24 | 1 << 40, intid << 24 | 1] {
            // SAFETY: sends interrupts, which this guest masks, and which nobody else is to get.
            unsafe {
                core::arch::asm!(
                    "msr S3_0_C12_C11_5, {v}", "msr S3_0_C12_C11_6, {v}", "msr S3_0_C12_C11_7, {v}", "isb",
                    v = in(reg) value, options(nostack)
                );
            }
        }
    }
}

/// Never returns.
fn mask_all() -> ! {
    // SAFETY: masks every interrupt of this core for good and loops without memory.
    unsafe {
        core::arch::asm!(
            "msr daifset, #0xf",
            "msr S3_0_C4_C6_0, xzr",   // ICC_PMR_EL1
            "msr S3_0_C12_C12_7, xzr", // ICC_IGRPEN1_EL1
            "msr S3_0_C12_C9_0, {ones}", // ICC_AP1R0_EL1
            "isb",
            "2: b 2b",
            ones = in(reg) u64::from(u32::MAX), options(nostack, noreturn)
        );
    }
}

/// Calls for ever, with `distance` turns of a loop between two calls: it is at EL2 most of the time, and there when EL3 comes to fetch it.
fn call_all(distance: u64) -> ! {
    loop {
        if !call_with_pattern() {
            println!("stubborn FAILED: a call changed registers");
        }
        for _ in 0..distance {
            core::hint::spin_loop();
        }
    }
}

/// The null call with a pattern in registers that it must not change (SMCCC: x18 to x30). Returns whether they are what they were.
fn call_with_pattern() -> bool {
    let changed: u64;
    // SAFETY: a call that changes x0 to x17 at most; x19 and x29 are kept by the compiler's own rules, the others are named.
    unsafe {
        core::arch::asm!(
            "mov x20, #20", "mov x21, #21", "mov x22, #22", "mov x23, #23", "mov x24, #24",
            "mov x25, #25", "mov x26, #26", "mov x27, #27", "mov x28, #28",
            "hvc #0",
            "sub x20, x20, #20", "sub x21, x21, #21", "sub x22, x22, #22", "sub x23, x23, #23", "sub x24, x24, #24",
            "sub x25, x25, #25", "sub x26, x26, #26", "sub x27, x27, #27", "sub x28, x28, #28",
            "orr x0, x20, x21", "orr x0, x0, x22", "orr x0, x0, x23", "orr x0, x0, x24",
            "orr x0, x0, x25", "orr x0, x0, x26", "orr x0, x0, x27", "orr x0, x0, x28",
            inout("x0") CALL_VERSION => changed,
            out("x20") _, out("x21") _, out("x22") _, out("x23") _, out("x24") _, out("x25") _, out("x26") _,
            out("x27") _, out("x28") _, clobber_abi("C"), options(nostack)
        );
    }
    changed == 0
}

/// Waits until the target is in a state, in a start. Returns how long it took, in counter ticks.
fn wait_for(target: u32, is_reached: impl Fn(PartitionStatus) -> bool) -> Option<u64> {
    let start = cpu::counter_ticks();
    loop {
        let took = cpu::counter_ticks().saturating_sub(start);
        match hypercall::partition_status(target) {
            Ok(status) if is_reached(status) => return Some(took),
            Ok(_) if took <= ticks(PATIENCE_MS * 1_000) => cpu::yield_now(),
            _ => return None,
        }
    }
}

/// Asks until the limit of requests lets it.
fn ask(request: impl Fn() -> Result<(), CallError>) -> bool {
    loop {
        match request() {
            Ok(()) => return true,
            Err(CallError::Limited) => cpu::yield_now(),
            Err(_) => return false,
        }
    }
}

fn pass_ms(time: u64) {
    let end = cpu::counter_ticks() + ticks(time * 1_000);
    while cpu::counter_ticks() < end {
        cpu::yield_now();
    }
}

fn keeper(text: &str) {
    let target = u32::try_from(number(text, "target", 0)).unwrap_or(u32::MAX);
    let rounds = number(text, "rounds", 1_000);
    let start = ticks(number(text, "after_ms", 100) * 1_000);
    while cpu::counter_ticks() < start {
        cpu::yield_now();
    }
    let is = |state: u32| move |status: PartitionStatus| status.state == u64::from(state);
    let (mut suspended, mut resumed, mut worst) = (0_u64, 0_u64, 0);
    for _ in 0..rounds {
        if !ask(|| hypercall::suspend_partition(target)) {
            break;
        }
        let Some(took) = wait_for(target, is(STATE_SUSPENDED)) else { break };
        worst = took.max(worst);
        suspended += 1;
        if !ask(|| hypercall::resume_partition(target)) || wait_for(target, is(STATE_RUNNING)).is_none() {
            break;
        }
        resumed += 1;
    }
    println!("keeper suspended {suspended} of {rounds}, at worst {worst} ticks; resumed {resumed}");
    let before = hypercall::partition_status(target).map_or(0, |status| status.generation);
    let is_new = |status: PartitionStatus| status.state == u64::from(STATE_RUNNING) && status.generation > before;
    if ask(|| hypercall::restart_partition(target)) && wait_for(target, is_new).is_some() {
        println!("keeper restarted, start {}", before + 1);
    }
    pass_ms(number(text, "settle_ms", 0));
    if ask(|| hypercall::suspend_partition(target)) && wait_for(target, is(STATE_SUSPENDED)).is_some() {
        println!("keeper leaves it suspended");
    }
    pass_ms(number(text, "rest_ms", 0));
    println!("keeper rested");
}
