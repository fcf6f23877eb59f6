//! RATE-04: every interleaving of concurrent senders in a fresh window, with the packed word and with split words.
//!
//! Two senders are explored completely. Three are explored with at most two preemptions, which keeps the run
//! short and is what the counterexamples below need.

use bulkhead_sched::latch::{self, Flag, Outcome};
use bulkhead_sched::limiter::{Verdict, Word, try_pass_on};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use loom::thread;

/// The limiter's word on the model checker's atomics.
struct ModelWord(AtomicU64);

impl Word for ModelWord {
    fn load(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn compare_exchange_weak(&self, current: u64, new: u64) -> bool {
        self.0.compare_exchange_weak(current, new, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

/// Explores `run`, completely for two senders.
fn explore(senders: usize, run: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = (senders > 2).then_some(2);
    model.check(run);
}

/// Runs `send` once per item, the first on the calling thread, and returns how many passed.
fn race<T: Copy + Send + 'static>(items: &[T], send: impl Fn(T) -> bool + Clone + Send + 'static) -> usize {
    let (first, others) = items.split_first().unwrap();
    let threads: Vec<_> = others
        .iter()
        .map(|item| {
            let (item, send) = (*item, send.clone());
            thread::spawn(move || send(item))
        })
        .collect();
    let first = usize::from(send(*first));
    first + threads.into_iter().map(|sender| usize::from(sender.join().unwrap())).sum::<usize>()
}

/// Runs one sender per entry of `times` in every interleaving and returns the fewest and the most that passed.
fn packed(times: &'static [u64], events: u32) -> (usize, usize) {
    let seen = std::sync::Arc::new(std::sync::Mutex::new((usize::MAX, 0)));
    let record = seen.clone();
    explore(times.len(), move || {
        let word = Arc::new(ModelWord(AtomicU64::new(0)));
        let passed = race(times, move |now| try_pass_on(&*word, now, 10, events) == Verdict::Send);
        let mut range = record.lock().unwrap();
        *range = (range.0.min(passed), range.1.max(passed));
    });
    *seen.lock().unwrap()
}

/// The public Chaos code's shape: window and count in two words, check and increment apart.
fn split(senders: usize, events: u32) -> usize {
    let most = std::sync::Arc::new(std::sync::Mutex::new(0));
    let record = most.clone();
    explore(senders, move || {
        let state = Arc::new((AtomicU64::new(0), AtomicU32::new(0)));
        let passed = race(&vec![(); senders], move |()| {
            if state.0.load(Ordering::SeqCst) != 5 {
                state.0.store(5, Ordering::SeqCst);
                state.1.store(0, Ordering::SeqCst);
            }
            if state.1.load(Ordering::SeqCst) >= events {
                return false;
            }
            state.1.fetch_add(1, Ordering::SeqCst);
            true
        });
        let mut most = record.lock().unwrap();
        *most = passed.max(*most);
    });
    *most.lock().unwrap()
}

/// CH-34, CH-35.
#[test]
fn rate_04_packed_word_passes_exactly_the_limit() {
    assert_eq!(packed(&[50, 50], 1), (1, 1), "two senders, one event");
    assert_eq!(packed(&[50, 50, 50], 1), (1, 1), "three senders, one event");
    assert_eq!(packed(&[50, 50, 50], 2), (2, 2), "three senders, two events");
}

/// CH-35: why it is one word.
#[test]
fn rate_04_split_words_let_two_and_three_through() {
    assert_eq!(split(2, 1), 2, "two senders, one event");
    assert_eq!(split(3, 1), 3, "three senders, one event");
    assert_eq!(split(3, 2), 3, "three senders, two events");
}

/// Two senders read the clock on either side of a boundary. Whatever the order, neither window passes twice.
#[test]
fn a_boundary_between_two_clock_readings_costs_at_most_one_event_each() {
    let (fewest, most) = packed(&[59, 60], 1);
    assert_eq!((fewest, most), (1, 2), "in order both pass; overtaken, the late one is charged to the new window");
    assert_eq!(packed(&[59, 60, 60], 1).1, 2, "equality of windows alone would let three through here");
}

/// The latch's bit on the model checker's atomics.
struct ModelFlag(AtomicBool);

impl Flag for ModelFlag {
    fn set(&self) {
        self.0.swap(true, Ordering::Relaxed);
    }

    fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

/// CH-30, CH-34: two senders of one window and the release of an earlier notification, in every interleaving. What one of them
/// was told to hold back is sent by one release or another, and no window passes more than its one event.
#[test]
fn a_latched_notification_is_sent_in_every_interleaving() {
    const PERIOD: u64 = 10;
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let word = Arc::new(ModelWord(AtomicU64::new(0)));
        let flag = Arc::new(ModelFlag(AtomicBool::new(false)));
        let (other_word, other_flag) = (word.clone(), flag.clone());
        let sender = thread::spawn(move || latch::try_pass_on(&*other_flag, &*other_word, 12, PERIOD, 1));
        // The timer of the window before comes late, in the middle of this one.
        let (timer_word, timer_flag) = (word.clone(), flag.clone());
        let timer = thread::spawn(move || latch::release_on(&*timer_flag, &*timer_word, 13, PERIOD, 1));
        let own = latch::try_pass_on(&*flag, &*word, 11, PERIOD, 1);
        let other = sender.join().unwrap();
        let released = timer.join().unwrap();
        let sends = [Some(own), Some(other), released].iter().filter(|one| **one == Some(Outcome::Send)).count();
        assert_eq!(sends, 1, "the window of 10 to 20 passes one event: {own:?} {other:?} {released:?}");
        // Somebody was held back and was told to release at 20.
        let told = [Some(own), Some(other), released];
        assert!(told.contains(&Some(Outcome::Latched { release_at_ticks: 20 })), "{told:?}");
        let release = latch::release_on(&*flag, &*word, 20, PERIOD, 1);
        assert_eq!(release, Some(Outcome::Send), "nothing is lost: {told:?}");
        assert_eq!(latch::release_on(&*flag, &*word, 20, PERIOD, 1), None, "and nothing is sent twice");
    });
}
