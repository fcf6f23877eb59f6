//! The sliding limiter and the latch beside the grid limiter (`real-time.md` 3.4).

use bulkhead_sched::latch::{Latch, Outcome};
use bulkhead_sched::limiter::bound;
use bulkhead_sched::sliding::SlidingLimiter;
use std::sync::atomic::AtomicU64;

/// A cheap generator; the seed is the case.
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn most_in(times: &[u64], window: u64) -> u64 {
    let inside = |start: &u64| times.iter().filter(|time| **time >= *start && **time < *start + window).count() as u64;
    times.iter().map(inside).max().unwrap_or(0)
}

#[test]
fn rate_01_the_sliding_form_passes_8_9_18_20() {
    let mut limiter = SlidingLimiter::<2>::new();
    let sends = [8, 9, 9, 10, 11, 11, 18, 20];
    let passed: Vec<u64> = sends.into_iter().filter(|now| limiter.try_pass(*now, 10)).collect();
    assert_eq!(passed, [8, 9, 18, 20]);
    assert!(!SlidingLimiter::<0>::new().try_pass(5, 10), "no events means never");
}

/// CH-30, CH-32.
#[test]
fn p12_no_window_exceeds_the_bounds_of_either_form() {
    const SEED: u64 = 0x5eed_1e55_0000_0001;
    println!("P12: 100000 cases, seed {SEED}");
    for case in 0..100_000u64 {
        let mut state = SEED ^ case.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let period = next(&mut state) % 20 + 1;
        let mut sliding = SlidingLimiter::<3>::new();
        let (word, latch) = (AtomicU64::new(0), Latch::new());
        let (mut now, mut release_at) = (0, None);
        let (mut slid, mut gridded) = (Vec::new(), Vec::new());
        for _ in 0..24 {
            now += next(&mut state) % 8;
            if let Some(at) = release_at.filter(|at| *at <= now) {
                assert_eq!(latch.release(&word, at, period, 3), Some(Outcome::Send), "seed {SEED}, case {case}");
                gridded.push(at);
                release_at = None;
            }
            if sliding.try_pass(now, period) {
                slid.push(now);
            }
            match latch.try_pass(&word, now, period, 3) {
                Outcome::Send => gridded.push(now),
                Outcome::Latched { release_at_ticks } => release_at = Some(release_at_ticks),
                Outcome::Limited => unreachable!("three events per window"),
            }
        }
        for window in [1, period, period + 1, 2 * period, 3 * period + 2] {
            assert!(most_in(&slid, window) <= 3 * window.div_ceil(period), "seed {SEED}, case {case}: {slid:?}");
            let most = bound(window, period, 3).expect("a period");
            assert!(most_in(&gridded, window) <= most, "seed {SEED}, case {case}: {gridded:?}");
        }
    }
}

/// CH-30, CH-31: what was held back is one notification in the next window.
#[test]
fn a_latch_releases_one_notification_at_the_next_window() {
    let (word, latch) = (AtomicU64::new(0), Latch::new());
    assert_eq!(latch.release(&word, 0, 10, 1), None, "nothing was held back");
    assert_eq!(latch.try_pass(&word, 12, 10, 1), Outcome::Send);
    assert_eq!(latch.try_pass(&word, 13, 10, 1), Outcome::Latched { release_at_ticks: 20 });
    assert_eq!(latch.try_pass(&word, 19, 10, 1), Outcome::Latched { release_at_ticks: 20 });
    assert_eq!(latch.release(&word, 20, 10, 1), Some(Outcome::Send));
    assert_eq!(latch.release(&word, 20, 10, 1), None, "two became one");
    assert_eq!(latch.try_pass(&word, 21, 10, 1), Outcome::Latched { release_at_ticks: 30 }, "and it was charged");
    // A sender that comes first in the new window takes its place; the latch waits for the next one.
    assert_eq!(latch.try_pass(&word, 30, 10, 1), Outcome::Send);
    assert_eq!(latch.release(&word, 30, 10, 1), Some(Outcome::Latched { release_at_ticks: 40 }));
    assert_eq!(latch.release(&word, 40, 10, 1), Some(Outcome::Send));
}

#[test]
fn without_a_limit_or_without_events_nothing_is_latched() {
    let (word, latch) = (AtomicU64::new(0), Latch::new());
    assert_eq!(latch.try_pass(&word, 5, 0, 1), Outcome::Send);
    assert_eq!(latch.try_pass(&word, 5, 10, 0), Outcome::Limited);
    assert_eq!(latch.release(&word, 5, 10, 0), None);
}
