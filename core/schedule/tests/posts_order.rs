//! What a sender wrote before it posted is seen by who takes the post, whatever the cores' caches do; and of those who post between two
//! takings one alone wakes the core.

use bulkhead_schedule::posts::{self, Word};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

/// The word on the model checker's atomics, in the orders of the real one.
struct Model(AtomicU32);

impl Word for Model {
    fn fill(&self, bits: u32) -> u32 {
        self.0.fetch_or(bits, Ordering::Release)
    }
    fn empty(&self) -> u32 {
        self.0.swap(0, Ordering::Acquire)
    }
    fn peek(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

#[test]
fn who_takes_a_post_sees_what_was_written_before_it() {
    loom::model(|| {
        let word = Arc::new(Model(AtomicU32::new(0)));
        let messages = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
        let senders = [0, 1].map(|number| {
            let (word, messages) = (word.clone(), messages.clone());
            thread::spawn(move || {
                messages[number].store(1, Ordering::Relaxed);
                posts::post(&*word, 1 << number)
            })
        });
        let take = || {
            let taken = posts::take(&*word);
            for (number, message) in messages.iter().enumerate().filter(|(number, _)| taken >> number & 1 != 0) {
                assert_eq!(message.load(Ordering::Relaxed), 1, "the message of sender {number}");
            }
            taken
        };
        let first = take();
        let wakes = senders.map(|sender| u32::from(sender.join().unwrap())).iter().sum::<u32>();
        assert_eq!((first | take(), posts::is_posted(&*word)), (0b11, false), "each post is taken once");
        // Two wake the core only if the word was emptied between them.
        assert!(wakes == 1 || wakes == 2 && first.count_ones() == 1, "{wakes} wake, the first took {first:#b}");
    });
}
