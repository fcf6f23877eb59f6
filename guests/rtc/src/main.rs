//! Waits for the alarm of a PL031 real-time clock that was passed through, and prints `rtc alarm`.
//!
//! It shows a device that belongs to the guest: registers without an exit, and the device's own interrupt. Arguments:
//! `alarms=N` (default 1). QEMU's clock rings exactly a second after it was set; how much later the
//! handler began is printed at the end, as the benchmark reads it. Without an alarm within [`GUARD_SECONDS`] it says so and ends, so that a test cannot hang.
#![no_std]
#![no_main]

use bulkhead_sdk::{
    arguments, cpu, information,
    interrupt::{self, InterruptId, VIRTUAL_TIMER},
    mmio, println, timer,
};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

bulkhead_sdk::entry!(main);

/// Registers of the clock on QEMU `virt`, at the same guest address in a partition.
const CLOCK: u64 = 0x0901_0000;
/// Its interrupt, level-sensitive.
const CLOCK_INTERRUPT: InterruptId = InterruptId(34);
const CLOCK_DATA: u64 = 0x00;
const CLOCK_MATCH: u64 = 0x04;
const CLOCK_CONTROL: u64 = 0x0c;
const CLOCK_INTERRUPT_MASK: u64 = 0x10;
const CLOCK_MASKED_STATUS: u64 = 0x18;
const CLOCK_INTERRUPT_CLEAR: u64 = 0x1c;
/// Longest wait for an alarm that is due after one second.
const GUARD_SECONDS: u64 = 5;

static ALARMS: AtomicU64 = AtomicU64::new(0);
static SET_TICKS: AtomicU64 = AtomicU64::new(0);
static LEAST_TICKS: AtomicU64 = AtomicU64::new(u64::MAX);
static MOST_TICKS: AtomicU64 = AtomicU64::new(0);
static IS_OVERDUE: AtomicBool = AtomicBool::new(false);

fn main() {
    let wanted = arguments::number(information::arguments(), "alarms").unwrap_or(1);
    interrupt::on_interrupt(take_interrupt);
    interrupt::start();
    timer::enable_interrupt();
    interrupt::set_edge(CLOCK_INTERRUPT, false);
    interrupt::enable(CLOCK_INTERRUPT);
    println!("rtc start");
    for alarm in 1..=wanted {
        set_alarm();
        timer::set_compare_ticks(cpu::counter_ticks() + GUARD_SECONDS * cpu::frequency_hz());
        cpu::wait_until(|| ALARMS.load(Ordering::Relaxed) >= alarm || IS_OVERDUE.load(Ordering::Relaxed));
        if ALARMS.load(Ordering::Relaxed) < alarm {
            println!("rtc failed: no alarm within {GUARD_SECONDS} s");
            return;
        }
        println!("rtc alarm");
    }
    let (least, most) = (LEAST_TICKS.load(Ordering::Relaxed), MOST_TICKS.load(Ordering::Relaxed));
    println!("bench rtc min={least} max={most} n={wanted}");
    println!("bench done");
    println!("rtc done");
}

/// Asks for an alarm in one second.
fn set_alarm() {
    // SAFETY: registers of the clock, which belongs to this guest alone; the clock writes no memory.
    unsafe {
        mmio::write32(CLOCK + CLOCK_CONTROL, 1);
        let now = mmio::read32(CLOCK + CLOCK_DATA);
        mmio::write32(CLOCK + CLOCK_MATCH, now.wrapping_add(1));
        SET_TICKS.store(cpu::counter_ticks(), Ordering::Relaxed);
        mmio::write32(CLOCK + CLOCK_INTERRUPT_MASK, 1);
    }
}

fn take_interrupt(id: InterruptId) {
    let entered_ticks = cpu::counter_ticks();
    if id == VIRTUAL_TIMER {
        IS_OVERDUE.store(true, Ordering::Relaxed);
        timer::stop();
    } else if id == CLOCK_INTERRUPT {
        // SAFETY: as above. The interrupt is taken away at its source before it ends, or it would come again.
        let is_raised = unsafe {
            let status = mmio::read32(CLOCK + CLOCK_MASKED_STATUS);
            mmio::write32(CLOCK + CLOCK_INTERRUPT_CLEAR, 1);
            status & 1 != 0
        };
        if is_raised {
            let late_ticks = entered_ticks - SET_TICKS.load(Ordering::Relaxed) - cpu::frequency_hz();
            LEAST_TICKS.fetch_min(late_ticks, Ordering::Relaxed);
            MOST_TICKS.fetch_max(late_ticks, Ordering::Relaxed);
            ALARMS.fetch_add(1, Ordering::Relaxed);
        }
    }
}
