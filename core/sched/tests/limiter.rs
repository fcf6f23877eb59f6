//! Golden examples and window bounds of the grid limiter (`real-time.md` 3.4).

use bulkhead_sched::limiter::{LATE_WINDOWS, MAX_ATTEMPTS, Verdict, Word, bound, try_pass, try_pass_on};
use proptest::prelude::*;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Sends at the given times to a fresh limiter and returns the times that passed.
fn passed(times: &[u64], period: u64, events: u32) -> Vec<u64> {
    let word = AtomicU64::new(0);
    times.iter().copied().filter(|now| try_pass(&word, *now, period, events) == Verdict::Send).collect()
}

/// CH-30: windows begin at multiples of the period, not at the first sender.
#[test]
fn rate_01_the_grid_passes_8_9_10_11_20() {
    assert_eq!(passed(&[8, 9, 9, 10, 11, 11, 18, 20], 10, 2), [8, 9, 10, 11, 20]);
}

/// Four senders with a limiter each, one event per 100 us, every one ringing without pause; the victim's window is 1 ms.
#[test]
fn rate_03_four_senders_cost_a_millisecond_44_events() {
    const NANOSECONDS_PER_EVENT: u64 = 849;
    assert_eq!(bound(1_000_000, 100_000, 1).map(|events| events * 4), Some(44));
    assert_eq!(44 * NANOSECONDS_PER_EVENT, 37_356);
    // The bound is reached: an interval that is open at both ends of the grid by one tick sees eleven windows.
    let storm: Vec<u64> = (0..2_000).map(|step| step * 1_000 + 999).collect();
    let times = passed(&storm, 100_000, 1);
    let densest =
        times.iter().map(|start| times.iter().filter(|t| **t >= *start && **t < *start + 1_000_000).count()).max();
    assert_eq!(densest, Some(10), "a periodic storm meets one grid point less than the bound");
    let late_then_early = passed(&[99_999, 100_000, 200_000, 300_000], 100_000, 1);
    assert_eq!(
        late_then_early,
        [99_999, 100_000, 200_000, 300_000],
        "two events one tick apart: the double hit of CH-32"
    );
}

#[test]
fn the_double_hit_is_reached_and_not_exceeded() {
    // CH-32: 2e within one period, around a grid point, for e = 3.
    let times = passed(&[97, 98, 99, 99, 100, 101, 102, 103], 100, 3);
    assert_eq!(times, [97, 98, 99, 100, 101, 102]);
    assert_eq!(bound(100, 100, 3), Some(6));
}

#[test]
fn a_period_of_zero_is_no_limiter_and_leaves_the_word_alone() {
    let word = AtomicU64::new(77);
    assert!((0..1_000).all(|now| try_pass(&word, now, 0, 1) == Verdict::Send));
    assert_eq!(word.load(Ordering::Relaxed), 77);
    assert_eq!(bound(1, 0, 1), None);
}

#[test]
fn no_events_means_never() {
    assert_eq!(passed(&[0, 10, 20, 30], 10, 0), []);
}

#[test]
fn a_fresh_word_counts_window_zero() {
    // The word starts as (window 0, used 0), which is the truth at time 0.
    assert_eq!(passed(&[0, 0, 0], 10, 2), [0, 0]);
}

/// CH-35.
#[test]
fn the_count_cannot_spill_into_the_window() {
    let full = AtomicU64::new((5 << 24) | 0xff_ffff);
    assert_eq!(try_pass(&full, 50, 10, u32::MAX), Verdict::Limited);
    assert_eq!(full.load(Ordering::Relaxed), (5 << 24) | 0xff_ffff);
    let nearly = AtomicU64::new((5 << 24) | 0xff_fffe);
    assert_eq!(try_pass(&nearly, 50, 10, u32::MAX), Verdict::Send);
    assert_eq!(nearly.load(Ordering::Relaxed), (5 << 24) | 0xff_ffff);
}

#[test]
fn the_wrap_of_the_window_number_is_harmless() {
    // Period 1: the 40-bit number wraps at time 2^40.
    let wrap = 1u64 << 40;
    let word = AtomicU64::new((wrap - 2) << 24 | 1);
    assert_eq!(try_pass(&word, wrap - 1, 1, 1), Verdict::Send);
    assert_eq!(try_pass(&word, wrap - 1, 1, 1), Verdict::Limited);
    assert_eq!(try_pass(&word, wrap, 1, 1), Verdict::Send);
    assert_eq!(try_pass(&word, wrap, 1, 1), Verdict::Limited);
    assert_eq!(try_pass(&word, wrap + 1, 1, 1), Verdict::Send);
    // The counter's own end is no special case either.
    let word = AtomicU64::new(1000 << 24 | 1);
    assert_eq!(try_pass(&word, u64::MAX, 1, 1), Verdict::Send);
    assert_eq!(try_pass(&word, u64::MAX, 1, 1), Verdict::Limited);
}

/// CH-35: a sender that read the clock before a boundary and reaches the word after it must not reopen the new window.
#[test]
fn a_late_sender_does_not_reset_the_new_window() {
    let word = AtomicU64::new(0);
    assert_eq!(try_pass(&word, 100, 10, 1), Verdict::Send);
    assert_eq!(try_pass(&word, 99, 10, 1), Verdict::Limited, "charged to the window that the word is in");
    assert_eq!(try_pass(&word, 101, 10, 1), Verdict::Limited, "the new window was not counted from zero again");
    assert_eq!(try_pass(&word, 110, 10, 1), Verdict::Send);
}

#[test]
fn an_old_word_that_looks_far_ahead_does_not_block_for_long() {
    let ahead = |windows: u64| AtomicU64::new((windows << 24) | 1);
    assert_eq!(try_pass(&ahead(LATE_WINDOWS), 0, 10, 1), Verdict::Limited);
    assert_eq!(try_pass(&ahead(LATE_WINDOWS + 1), 0, 10, 1), Verdict::Send);
}

/// A word on which every exchange fails: the worst that contention or LL/SC can do.
struct Contended {
    attempts: Cell<u32>,
}

impl Word for Contended {
    fn load(&self) -> u64 {
        0
    }

    fn compare_exchange_weak(&self, _current: u64, _new: u64) -> bool {
        self.attempts.set(self.attempts.get() + 1);
        false
    }
}

/// CH-30: constant time, whatever the others do.
#[test]
fn attempts_are_bounded_by_events_plus_one_and_by_the_cap() {
    for (events, expected) in [(0, 0), (1, 2), (2, 3), (14, 15), (15, 16), (16, MAX_ATTEMPTS), (u32::MAX, MAX_ATTEMPTS)]
    {
        let word = Contended { attempts: Cell::new(0) };
        assert_eq!(try_pass_on(&word, 5, 10, events), Verdict::Limited);
        assert_eq!(word.attempts.get(), expected, "events = {events}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// CH-30, CH-32, P12: in every half-open window of length d at most e * (ceil(d / p) + 1) pass, and each grid window passes
    /// exactly min(sends in it, e): the limiter is neither too generous nor too strict.
    #[test]
    fn p12_grid_bound_holds_in_every_window(
        start in 0u64..1 << 39,
        gaps in prop::collection::vec(0u64..40, 1..200),
        period in 1u64..50,
        events in 1u32..6,
        interval in 1u64..200,
    ) {
        let mut now = start;
        let sends: Vec<u64> = gaps.iter().map(|gap| { now += gap; now }).collect();
        let word = AtomicU64::new(0);
        let times: Vec<u64> = sends.iter().copied().filter(|t| try_pass(&word, *t, period, events) == Verdict::Send).collect();

        let allowed = bound(interval, period, events).unwrap();
        for first in &times {
            let inside = times.iter().filter(|t| **t >= *first && **t - *first < interval).count() as u64;
            prop_assert!(inside <= allowed, "{inside} in [{first}, +{interval}), bound {allowed}");
        }
        for window in sends.iter().map(|t| t / period) {
            let sent = sends.iter().filter(|t| **t / period == window).count();
            let got = times.iter().filter(|t| **t / period == window).count();
            prop_assert_eq!(got, sent.min(events as usize));
        }
    }

    /// Clock readings that reach the word out of order (several cores at a boundary) never let more than `events` be
    /// charged to one window, so the bound over grid windows of the word's own time holds all the same.
    #[test]
    fn p12_holds_when_clock_readings_arrive_out_of_order(
        steps in prop::collection::vec((0u64..15, 0u64..30), 1..200),
        period in 1u64..20,
        events in 1u32..4,
    ) {
        let word = AtomicU64::new(0);
        let mut newest = 1_000_000u64;
        let mut in_window = std::collections::BTreeMap::<u64, u32>::new();
        for (advance, late) in steps {
            newest += advance;
            if try_pass(&word, newest - late, period, events) == Verdict::Send {
                let window = word.load(Ordering::Relaxed) >> 24;
                *in_window.entry(window).or_default() += 1;
            }
        }
        for (window, count) in in_window {
            prop_assert!(count <= events, "window {window} let {count} through");
        }
    }
}
