//! Who restarts the front.

use crate::{PORT, REPORT_WORDS, pause};
use bulkhead_abi::status::REASON_BACK_END_BUSY;
use bulkhead_sdk::channel::SampleError;
use bulkhead_sdk::port::SamplingDestination;
use bulkhead_sdk::{arguments, cpu, hypercall, println};

/// Longest time, in microseconds, between what a life has to reach and its end.
const MOST_DELAY_US: u64 = 1 << 10;
/// A life ends after as many reads and up to this many more.
const MOST_READS: u64 = 4;

/// The newest report.
fn report(port: &mut SamplingDestination) -> Option<[u64; REPORT_WORDS]> {
    let mut buffer = [0; 64];
    match port.read(&mut buffer) {
        Ok(sample) => {
            let mut words = [0; REPORT_WORDS];
            words
                .iter_mut()
                .zip(sample.message.payload.as_chunks().0)
                .for_each(|(to, word)| *to = u64::from_le_bytes(*word));
            Some(words)
        }
        Err(SampleError::NoValue | SampleError::PeerClosed | SampleError::PeerReset { .. }) => None,
        Err(_) => {
            println!("lives FAILED: the port has no report");
            None
        }
    }
}

/// Numbers of a generator whose low bits nobody uses (Knuth's MMIX constants).
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

/// States whether a life began although the back end had not left its pool within the 100 ms that a restart waits, as on a host whose cores are
/// needed elsewhere: such a life is not promised an empty pool.
fn is_beside_busy(target: u32, life: u64) -> bool {
    hypercall::partition_status(target)
        .is_ok_and(|status| (status.generation, status.reason) == (life, u64::from(REASON_BACK_END_BUSY)))
}

pub(crate) fn manage(text: &str) {
    let number = |key, default| arguments::number(text, key).unwrap_or(default);
    let (restarts, target) = (number("restarts", 1000), number("target", 0) as u32);
    let Ok(mut port) = SamplingDestination::open(PORT) else {
        return println!("lives FAILED: no port");
    };
    let (mut found, mut wrong, mut reads, mut beside) = (0, 0, 0, 0);
    let mut state = number("seed", 1);
    for life in 1..=restarts + 1 {
        let least = 1 + random(&mut state) % MOST_READS;
        let [_, words, bad, ended] = loop {
            match report(&mut port) {
                Some(report) if report[0] == life && report[3] >= least => break report,
                _ if is_beside_busy(target, life) => {
                    beside += 1;
                    break [life, 0, 0, 0];
                }
                _ => pause(200),
            }
        };
        (found, wrong, reads) = (found + words, wrong + bad, reads + ended);
        let until = cpu::counter_ticks() + cpu::frequency_hz() * (random(&mut state) % MOST_DELAY_US) / 1_000_000;
        while cpu::counter_ticks() < until {
            cpu::yield_now();
        }
        let ask = if life <= restarts { hypercall::restart_partition } else { hypercall::suspend_partition };
        while ask(target).is_err() {
            pause(200);
        }
        if life % 100 == 0 {
            println!("lives: {life} restarts");
        }
    }
    println!(
        "lives: {restarts} restarts, {found} words found in the pool, {wrong} words wrong, {reads} reads, {beside} beside a busy back end"
    );
}
