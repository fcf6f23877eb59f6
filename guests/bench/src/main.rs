//! Measures itself and prints `bench NAME min=.. max=.. n=..`, in ticks of the counter.
//!
//! Run it with `-icount shift=4,sleep=off` on one core, where a tick is an instruction. It runs in a partition and on the
//! bare board at EL1; what needs the monitor is left out there, so that the difference of two runs is the monitor's share.
//! Arguments: `samples=N` (default 1000), and `role=` for one thing alone, which the host counts from outside by comparing
//! two runs with different numbers of samples: `sgi`, `sender`, `notifier`, `receiver`, `leaver`, `sleeper` (see `roles.rs`).
#![no_std]
#![no_main]

mod measure;
mod roles;

use bulkhead_sdk::{
    abi::hypercall::CALL_DOORBELL,
    arguments, information,
    interrupt::{self, VIRTUAL_TIMER},
    print, println,
};
use measure::{Range, repeat};

bulkhead_sdk::entry!(main);

/// Samples of each row without `samples=`.
const DEFAULT_SAMPLES: u64 = 1000;
/// Bytes sent to a UART in the console row, so that the output stays readable.
const CONSOLE_SAMPLES: u64 = 64;
/// UART of the bare board.
const BOARD_UART: u64 = 0x0900_0000;
const UART_FLAG: u64 = 0x18;
const GICD_TYPER: u64 = 0x4;
const GICD_ISENABLER1: u64 = 0x104;
const GICR_ISENABLER0: u64 = 0x1_0100;

fn main() {
    let samples = arguments::number(information::arguments(), "samples").unwrap_or(DEFAULT_SAMPLES).max(1);
    match arguments::value(information::arguments(), "role") {
        None => measure_all(samples),
        Some("sleeper") => roles::sleep(samples),
        Some("sgi") => roles::send_to_itself(samples),
        Some("sender") => roles::send_doorbells(samples),
        Some("notifier") => roles::notify(samples),
        Some("receiver") => roles::receive_doorbells(samples),
        Some("leaver") => roles::leave(),
        Some(other) => println!("bench FAILED: no role is called {other}"),
    }
}

fn measure_all(samples: u64) {
    let is_partition = information::information().is_some();
    println!("bench start partition={is_partition} samples={samples}");
    row("nothing", &repeat(samples, measure::nothing));
    row("no_operation", &repeat(samples, measure::no_operation));
    measure_interrupts(samples);
    row("psci_version", &repeat(samples, measure::psci_version));
    if is_partition {
        row("hypercall", &repeat(samples, measure::version_by_hvc));
        row("hypercall_smc", &repeat(samples, measure::version_by_smc));
        measure_doorbell(samples);
    }
    let enabled = interrupt::distributor() + GICD_ISENABLER1;
    row("gicd_isenabler_read", &repeat(samples, || measure::read(enabled)));
    row("gicd_isenabler_write", &repeat(samples, || measure::write(enabled, 0)));
    let kind = interrupt::distributor() + GICD_TYPER;
    row("gicd_typer_read", &repeat(samples, || measure::read(kind)));
    let own_enabled = interrupt::redistributor() + GICR_ISENABLER0;
    row("gicr_isenabler_read", &repeat(samples, || measure::read(own_enabled)));
    measure_console();
    println!("bench done");
}

pub(crate) fn row(name: &str, range: &Range) {
    println!("bench {name} min={} max={} n={}", range.minimum_ticks, range.maximum_ticks, range.samples);
}

fn measure_interrupts(samples: u64) {
    interrupt::start();
    interrupt::enable(VIRTUAL_TIMER);
    interrupt::enable(measure::SGI);
    let (busy, idle, sgi) = measure::with_own_vectors(|| {
        let busy = repeat(samples, measure::timer_busy);
        let idle = repeat(samples, || measure::timer_idle(measure::DELAY_TICKS));
        let sgi = measure::own_sgi().map(|_| repeat(samples, || measure::own_sgi().unwrap_or(u64::MAX)));
        (busy, idle, sgi)
    });
    row("timer", &busy);
    row("timer_idle", &idle);
    match sgi {
        Some(sgi) => row("own_sgi", &sgi),
        None => println!("bench own_sgi skipped: it does not reach this core"),
    }
}

/// Rings the first doorbell of the partition, if it has one.
fn measure_doorbell(samples: u64) {
    let Some(port) = information::ports().iter().find(|port| port.doorbell != u32::MAX) else {
        return;
    };
    row("doorbell", &repeat(samples, || measure::call_by_hvc(CALL_DOORBELL, u64::from(port.doorbell))));
}

/// Sends bytes through the PL011, real or virtual, and through the own ring.
fn measure_console() {
    let uart = information::information().map_or(BOARD_UART, |page| page.uart.0);
    if uart != 0 {
        let range = repeat(CONSOLE_SAMPLES, || measure::write(uart, u64::from(b'.')));
        println!();
        row("console_byte", &range);
        // What a driver reads before each byte.
        row("console_flag_read", &repeat(CONSOLE_SAMPLES, || measure::read(uart + UART_FLAG)));
    }
    if information::information().is_some_and(|page| page.console.0 != 0) {
        let range = repeat(CONSOLE_SAMPLES, || {
            let before = bulkhead_sdk::cpu::counter_ticks();
            print!(".");
            bulkhead_sdk::cpu::counter_ticks() - before
        });
        println!();
        row("ring_byte", &range);
    }
}
