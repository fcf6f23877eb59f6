//! Real-time control loop: 100 Hz, absolute releases, telemetry through a channel, output free of time.
//!
//! Arguments: `periods=N` (end after N periods; endless without), `period_us=N` (default 10000), `report=K` (a line each K
//! periods, default 100), `watchdog=1` (a heartbeat each period), `response=1` (the longest response of the loop as the last line
//! but one, for a machine whose time is exact). The last line, `done iterations=N releases_due=M`,
//! compares what was done with what the counter says was due: M - N periods were lost.
//!
//! Output and telemetry index by period. How late a release was served is in the telemetry alone, because it depends on
//! the machine and, under emulation, on the host.
#![no_std]
#![no_main]

mod plant;
mod releases;
mod telemetry;

use bulkhead_sdk::{arguments, cpu, hypercall, information, interrupt, println, timer};
use plant::Plant;
use telemetry::{Record, Telemetry};

bulkhead_sdk::entry!(main);

/// 100 Hz.
const DEFAULT_PERIOD_MICROSECONDS: u64 = 10_000;
const DEFAULT_REPORT_PERIODS: u64 = 100;
const MICROSECONDS_PER_SECOND: u64 = 1_000_000;
const NANOSECONDS_PER_SECOND: u64 = 1_000_000_000;

/// What the arguments ask for.
struct Settings {
    periods: u64,
    period_ticks: u64,
    report_periods: u64,
    has_watchdog: bool,
    says_response: bool,
}

impl Settings {
    fn read() -> Self {
        let text = information::arguments();
        let period_us = arguments::number(text, "period_us")
            .unwrap_or(DEFAULT_PERIOD_MICROSECONDS)
            .clamp(1, MICROSECONDS_PER_SECOND);
        Self {
            periods: arguments::number(text, "periods").unwrap_or(u64::MAX),
            period_ticks: (cpu::frequency_hz() * period_us / MICROSECONDS_PER_SECOND).max(1),
            report_periods: arguments::number(text, "report").unwrap_or(DEFAULT_REPORT_PERIODS).max(1),
            has_watchdog: arguments::number(text, "watchdog") == Some(1),
            says_response: arguments::number(text, "response") == Some(1),
        }
    }
}

fn main() {
    let settings = Settings::read();
    let mut telemetry = Telemetry::open("telemetry");
    println!("control start");
    interrupt::on_interrupt(take_interrupt);
    interrupt::start();
    timer::enable_interrupt();
    releases::start(settings.period_ticks);
    let iterations = run(&settings, &mut telemetry);
    timer::stop();
    println!("done iterations={iterations} releases_due={}", releases::due(settings.periods));
}

fn take_interrupt(id: interrupt::InterruptId) {
    if id == interrupt::VIRTUAL_TIMER {
        releases::count();
    }
}

/// Serves each release in order; returns how many were served.
fn run(settings: &Settings, telemetry: &mut Telemetry) -> u64 {
    let mut plant = Plant::default();
    let mut latest_ticks_late = 0;
    let mut longest_response_ticks = 0;
    let mut iterations = 0;
    while iterations < settings.periods {
        let release = iterations + 1;
        releases::wait_for(release);
        let ticks_late = cpu::counter_ticks() - releases::time_ticks(release);
        latest_ticks_late = ticks_late.max(latest_ticks_late);
        plant.step(release);
        iterations = release;
        telemetry.publish(&Record {
            period: release,
            position_micrometres: plant.position_micrometres(),
            iterations,
            releases_due: releases::due(settings.periods),
            ticks_late,
            most_ticks_late: latest_ticks_late,
        });
        if release.is_multiple_of(settings.report_periods) {
            println!("period {release} position {}", plant.position_micrometres());
        }
        if settings.has_watchdog {
            // Without Bulkhead below there is no watchdog to tell.
            let _ = hypercall::heartbeat();
        }
        if settings.says_response {
            let response_ticks = cpu::counter_ticks() - releases::time_ticks(release);
            longest_response_ticks = response_ticks.max(longest_response_ticks);
        }
    }
    if settings.says_response {
        let response_ns = longest_response_ticks * NANOSECONDS_PER_SECOND / cpu::frequency_hz();
        println!("response most_ns={response_ns}");
    }
    iterations
}
