//! The work of one doorbell is bounded (CH-39, CH-40).

mod support;

use bulkhead_sched::drain::{Drain, ENTRIES};
use std::collections::VecDeque;
use support::random::check;

/// A ring's writer: refuses when the ring is full.
#[derive(Default)]
struct Sender {
    written: u32,
    entries: VecDeque<u32>,
}

impl Sender {
    fn send(&mut self, read: u32) -> bool {
        let has_room = self.written.wrapping_sub(read) < ENTRIES;
        if has_room {
            self.entries.push_back(self.written);
            self.written = self.written.wrapping_add(1);
        }
        has_room
    }
}

/// CH-40. Published: the receiver reads until the ring is empty. A sender on another core that writes one entry while one is read keeps it
/// there as long as it likes. Here the same sender costs what the ring held when the doorbell was heard.
#[test]
fn a_sender_that_goes_on_writing_does_not_keep_the_receiver() {
    let mut flood = Sender::default();
    flood.send(0);
    let mut read = 0;
    let mut handled = 0;
    while read != flood.written && handled < 100_000 {
        read += 1;
        handled += 1;
        flood.send(read);
    }
    assert_eq!(handled, 100_000, "the defect: it is given up here, and not at an empty ring");

    let mut drain = Drain::<2>::new();
    let mut senders = [Sender::default(), Sender::default()];
    for _ in 0..ENTRIES + 3 {
        senders[0].send(0);
    }
    senders[1].send(0);
    assert!(drain.begin(|source| senders[source].written));
    let mut taken = [0, 0];
    while let Some((source, _)) = drain.next_entry() {
        taken[source] += 1;
        while senders[source].send(drain.read_index(source)) {}
    }
    assert_eq!(taken, [ENTRIES, 1], "what came meanwhile waits for its own doorbell");
}

/// CH-40: who was first is last the next time, slices do not lose their place, and rubbish costs its writer alone.
#[test]
fn sources_take_turns_and_rubbish_is_counted() {
    let mut drain = Drain::<3>::new();
    let mut order = |written: [u32; 3]| {
        assert!(drain.begin(|source| written[source]));
        let first = drain.next_entry();
        assert!(!drain.begin(|_| 0), "the last doorbell is not served yet");
        let rest: Vec<usize> = std::iter::from_fn(|| drain.next_entry()).map(|(source, _)| source).collect();
        (first, rest, drain.broken())
    };
    assert_eq!(order([1, 1, 1]), (Some((1, 0)), vec![2, 0], 0));
    assert_eq!(order([2, 2, 2]), (Some((2, 1)), vec![0, 1], 0));
    assert_eq!(order([3, 900, 3]), (Some((0, 2)), vec![2], 1), "more than a ring holds");
    assert_eq!(order([4, 901, 3]), (Some((1, 900 % 16)), vec![0], 1), "and it continues from there");
    assert_eq!(order([3, 901, 4]), (Some((2, 3)), vec![], 2), "nor backwards");
    assert!(Drain::<0>::new().next_entry().is_none());
}

/// CH-39, CH-41: as long as a doorbell follows each entry, every one is handled once and in order, in a bounded number of steps each.
#[test]
fn every_entry_is_handled_once_and_in_order() {
    check("drain", |random| {
        let mut drain = Drain::<4>::new();
        let mut senders: [Sender; 4] = Default::default();
        let mut handled = [0u32; 4];
        for _ in 0..60 {
            let source = random.index(4);
            for _ in 0..random.within(0, 20) {
                senders[source].send(drain.read_index(source));
            }
            drain.begin(|source| senders[source].written);
            for _ in 0..random.within(0, 30) {
                let Some((source, place)) = drain.next_entry() else { break };
                assert_eq!(senders[source].entries.pop_front(), Some(handled[source]));
                assert_eq!(place, (handled[source] % ENTRIES) as usize);
                handled[source] += 1;
            }
        }
        for _ in 0..2 {
            let left =
                (0..).take_while(|_| drain.next_entry().map(|(source, _)| handled[source] += 1).is_some()).count();
            assert!(left <= 4 * ENTRIES as usize);
            drain.begin(|source| senders[source].written);
        }
        while let Some((source, _)) = drain.next_entry() {
            handled[source] += 1;
        }
        assert_eq!(handled, senders.map(|sender| sender.written));
        assert_eq!(drain.broken(), 0);
    });
}
