//! Notifications with a limit, and receivers that poll: bounds, counters, and the published defects.

use bulkhead_kernel_abi::Code;
use bulkhead_rt::{
    Block, Blocks, DEFAULT_MAXIMUM, DEFAULT_WINDOW_US, Event, Kernel, Limit, Poll, Record, Sent, Task, Who, release_due,
};
use std::collections::VecDeque;

/// The counter of QEMU's board.
const HZ: u64 = 62_500_000;

/// A kernel that sends and has a clock.
#[derive(Default)]
struct Fake {
    now: u64,
    sent: Vec<(u64, u64)>,
    is_gone: bool,
}

impl Kernel for Fake {
    fn now_ticks(&mut self) -> u64 {
        self.now
    }
    fn switch(&mut self, _: Who, _: u64, _: u64, _: u64) -> Result<(), Code> {
        panic!("a notification is no decision of the scheduler, and takes no lock")
    }
    fn events(&mut self, _: Option<u64>) -> Result<Event, Code> {
        panic!("nor does it take events")
    }
    fn send(&mut self, slot: u64) -> Result<(), Code> {
        if self.is_gone {
            return Err(Code::Gone);
        }
        self.sent.push((slot, self.now));
        Ok(())
    }
    fn rest(&mut self) {
        panic!("nor does it wait")
    }
}

fn limit(window_ticks: u64, maximum: u16) -> Limit {
    Limit { window_ticks, maximum }
}

/// CH-37: microseconds and a number; 0 is no limit and says so.
#[test]
fn limits_are_as_a_receiver_is_created_with() {
    assert_eq!(Limit::new(DEFAULT_WINDOW_US, DEFAULT_MAXIMUM, HZ), limit(62_500, 64));
    assert_eq!(Limit::new(1, 1, HZ), limit(63, 1), "rounded up: no more pass");
    assert_eq!(Limit::new(u32::MAX, u16::MAX, HZ), limit(268_435_455_938, u16::MAX));
    assert_eq!(Limit::new(0, 1, HZ), limit(1, 1));
    let none = Limit::new(1_000, 0, HZ);
    assert!(none.is_none() && !limit(1, 1).is_none());
    let record = Record::new(none, 5);
    let mut kernel = Fake::default();
    for _ in 0..1_000 {
        assert_eq!(record.notify(&mut kernel), Ok(Sent::Now));
    }
    assert_eq!((record.counters(), kernel.sent.len()), ([1_000, 0, 0], 1_000));
}

/// CH-31, CH-33, CH-42: by the record alone; the sender is told; every notification is counted once. RATE-01.
#[test]
fn the_sender_is_told_and_everything_is_counted() {
    let record = Record::new(limit(10, 2), 3);
    let mut kernel = Fake::default();
    let mut passed = Vec::new();
    for now in [8, 9, 9, 10, 11, 11, 18, 20] {
        kernel.now = now;
        match record.notify(&mut kernel) {
            Ok(Sent::Now) => passed.push(now),
            Ok(Sent::Limited { release_at_ticks }) => assert_eq!(release_at_ticks, now / 10 * 10 + 10),
            Err(code) => panic!("{code:?}"),
        }
    }
    assert_eq!(passed, [8, 9, 10, 11, 20]);
    assert_eq!((record.counters(), kernel.sent.len(), kernel.sent[0]), ([5, 3, 0], 5, (3, 8)));
    kernel.is_gone = true;
    assert_eq!(record.notify(&mut kernel), Err(Code::Gone));
}

/// CH-38: the last one before a silence is sent by the task that releases, in the next window, and charged to that one.
#[test]
fn what_is_held_back_is_sent_in_the_next_window() {
    let records = [Record::new(limit(100, 2), 1), Record::new(limit(70, 1), 2), Record::new(limit(100, 1), 3)];
    let mut kernel = Fake { now: 50, ..Default::default() };
    for record in &records[..2] {
        for _ in 0..4 {
            record.notify(&mut kernel).expect("it is there");
        }
    }
    assert_eq!(release_due(&records, &mut kernel), 70);
    for (now, next) in [(69, 70), (70, 100), (100, u64::MAX), (500, u64::MAX)] {
        kernel.now = now;
        assert_eq!(release_due(&records, &mut kernel), next, "at {now}");
    }
    assert_eq!(kernel.sent, [(1, 50), (1, 50), (2, 50), (2, 70), (1, 100)]);
    assert_eq!(records.each_ref().map(Record::counters), [[2, 2, 1], [1, 3, 1], [0, 0, 0]]);
    // It took a place of its window.
    kernel.now = 100;
    assert_eq!(records[0].notify(&mut kernel), Ok(Sent::Now));
    assert_eq!(records[0].notify(&mut kernel), Ok(Sent::Limited { release_at_ticks: 200 }));
}

/// A job of `work` ticks beside senders that never stop: each notification that passes takes `cost` ticks from it. Returns its length and how many
/// passed meanwhile; `None` when it has not ended after a thousand times its work.
fn job(records: &[Record], start: u64, work: u64, cost: u64) -> Option<(u64, u64)> {
    let mut kernel = Fake { now: start, ..Default::default() };
    let (mut left, mut passed) = (work, 0);
    while left > 0 {
        for record in records {
            if record.notify(&mut kernel) == Ok(Sent::Now) {
                passed += 1;
                kernel.now += cost;
            }
        }
        // Held-back ones count as well.
        let before = kernel.sent.len();
        release_due(records, &mut kernel);
        passed += (kernel.sent.len() - before) as u64;
        kernel.now += (kernel.sent.len() - before) as u64 * cost + 1;
        left -= 1;
        if kernel.now - start > 1_000 * work {
            return None;
        }
    }
    Some((kernel.now - start, passed))
}

/// CH-32, CH-36: with one limit in aggregate at most e (ceil(L / p) + 1) in the job, L its measured length; with one per sender that many times the senders;
/// monotone in e; the job always ends.
#[test]
fn interrupts_in_a_job_are_bounded_and_grow_with_the_limit() {
    for (period, cost, start) in [(100, 1, 0), (100, 1, 99), (100, 7, 50), (333, 3, 332), (1_000, 20, 7)] {
        for senders in [1usize, 3] {
            let mut before = 0;
            for events in 1..=16 {
                let records: Vec<Record> =
                    (0..senders).map(|slot| Record::new(limit(period, events), slot as u64)).collect();
                if u64::from(events) * cost * senders as u64 >= period {
                    continue;
                }
                let (length, passed) = job(&records, start, 2_000, cost).expect("it ends");
                let most = u64::from(events) * (length.div_ceil(period) + 1) * senders as u64;
                assert!(passed <= most, "{passed} of {most}: p {period}, e {events}, {senders} senders");
                assert!(passed >= before, "{passed} after {before}: more events let less pass");
                before = passed;
            }
            assert!(before > 10, "the flood was none");
        }
    }
    let none = [Record::new(limit(0, 0), 0)];
    let unlimited = job(&none, 0, 2_000, 7).expect("one notification for each tick of work");
    assert_eq!(unlimited, (2_000 * 8, 2_000), "without a limit the length of the flood decides");
}

/// CH-38: a poll finds what was not notified, within its period, at absolute dates.
#[test]
fn a_poll_bounds_the_latency() {
    let poll = Poll::new(1_000);
    assert_eq!([0, 1, 999, 1_000, 1_001].map(|now| poll.deadline_ticks(now)), [1_000, 1_000, 1_000, 2_000, 2_000]);
    assert_eq!(Poll::new(0).deadline_ticks(5), 6);
    // 50 sends per 1,000 ticks and a limit of 10: within the limit at once, else at the next poll or window, whichever is first.
    for (period, events) in [(1_000, 10), (5_000, 60), (700, 1)] {
        let record = Record::new(limit(1_000, events), 0);
        let poll = Poll::new(period);
        let (mut kernel, mut ring, mut worst, mut deadline) = (Fake::default(), VecDeque::new(), 0, period);
        for now in 0..50_000 {
            kernel.now = now;
            let mut is_notified = false;
            if now % 20 == 0 {
                ring.push_back(now);
                is_notified = record.notify(&mut kernel) == Ok(Sent::Now);
            }
            if is_notified || now >= deadline {
                deadline = poll.deadline_ticks(now);
                Poll::take(ring.len(), 1_000, || ring.pop_front(), |sent: u64| worst = worst.max(now - sent));
            }
        }
        assert!(worst <= period, "{worst} ticks, polled each {period}");
        let [sent, limited, _] = record.counters();
        assert_eq!((sent + limited, kernel.sent.len() as u64), (2_500, sent));
        assert_eq!(sent, 50 * u64::from(events.min(50)), "admitted is min(sends, limit) per window");
    }
}

/// The published receiver takes until there is nothing left: with a sender that refills while it works there is no bound. Ours takes
/// what was there when it began.
#[test]
fn a_drain_until_empty_has_no_bound() {
    const CAPACITY: usize = 16;
    let drain = |is_published: bool| {
        let mut ring: VecDeque<u32> = (0..3).collect();
        let (mut taken, mut work) = (0, 0);
        let present = ring.len();
        while work < 100_000 {
            if is_published {
                if ring.pop_front().is_none() {
                    break;
                }
                taken += 1;
            } else {
                taken = Poll::take(present, CAPACITY, || ring.pop_front(), |_| work += 1);
                break;
            }
            // A sender on another core is as fast.
            ring.push_back(0);
            work += 1;
        }
        taken
    };
    assert_eq!(drain(true), 100_000, "it would not end");
    assert_eq!(drain(false), 3);
    // What is said to be there is not believed: at most a ring, and no more than comes.
    let mut pops = 0;
    assert_eq!(Poll::take(usize::MAX, CAPACITY, || Some(()), |()| pops += 1), CAPACITY);
    assert_eq!((pops, Poll::take(5, CAPACITY, || None::<()>, |()| ())), (CAPACITY, 0));
}

/// CH-3: memory in blocks, against a list of who has what.
#[test]
fn blocks_are_whole_and_bounded() {
    let [one, two] = [3, 63].map(|number| Task::new(number).expect("a task"));
    let mut blocks: Blocks<2> = Blocks::new(100);
    let mut had: Vec<(Task, Block)> = Vec::new();
    for _ in 0..100 {
        had.push((one, blocks.allocate(one).expect("it may")));
    }
    assert_eq!(blocks.allocate(one), Err(Code::Denied), "others were promised the rest");
    for _ in 0..28 {
        had.push((two, blocks.allocate(two).expect("it may")));
    }
    assert_eq!(blocks.allocate(two), Err(Code::Full));
    let mut numbers: Vec<Block> = had.iter().map(|(_, block)| *block).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..128).collect::<Vec<_>>(), "each once");
    // Not another one's, not twice, not one that there is not.
    assert_eq!(blocks.free(one, had[127].1), Err(Code::Denied));
    assert_eq!((blocks.free(two, had[127].1), blocks.free(two, had[127].1)), (Ok(()), Err(Code::Denied)));
    assert_eq!(blocks.free(one, 128), Err(Code::Denied));
    assert_eq!(blocks.allocate(two), Ok(had[127].1));
    // Who ends keeps nothing.
    assert_eq!((blocks.free_all(one), blocks.has(one), blocks.has(two)), (100, 0, 28));
    assert_eq!((0..100).filter(|_| blocks.allocate(one).is_ok()).count(), 100);
    assert!(Task::new(64).is_none());
}
