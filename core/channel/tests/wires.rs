//! Wires between instances: in order, once, bounded, and whatever the peer writes (CH-39, CH-40, CH-41).

mod support;

use bulkhead_channel::{Entry, Geometry, Look, WIRE_ENTRIES, WireReceiver, WireSender};
use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;
use support::{Guarded, READER, Random, WRITER, peek, poke, restart_destination, restart_source, window};

fn wire() -> Vec<AtomicU64> {
    window(Geometry::queuing(8, 1).unwrap())
}

fn entry(number: u64) -> Entry {
    Entry { index: number % 5, bits: 1 << (number % 48) }
}

fn send(sender: &mut WireSender, words: &[AtomicU64], number: u64) -> bool {
    sender.send(&Guarded::source(words), entry(number))
}

fn look(receiver: &mut WireReceiver, words: &[AtomicU64]) -> Look {
    receiver.look(&Guarded::destination(words))
}

fn take(receiver: &mut WireReceiver, words: &[AtomicU64]) -> Option<Entry> {
    receiver.take(&Guarded::destination(words))
}

/// CH-39, CH-40. Published: the receiver reads until the ring is empty, and a sender that writes one entry while one is read keeps it there. Here the same
/// sender costs what the ring held when the doorbell was heard.
#[test]
fn a_sender_that_never_stops_does_not_keep_the_receiver() {
    let words = wire();
    let (mut sender, mut receiver) = (WireSender::open(&Guarded::source(&words), 7), WireReceiver::new());
    send(&mut sender, &words, 0);
    // Published: the write index is looked at again behind each entry.
    let mut handled = 0;
    while look(&mut receiver, &words) == Look::Entries(1) && handled < 10_000 {
        assert!(take(&mut receiver, &words).is_some());
        handled += 1;
        send(&mut sender, &words, handled);
    }
    assert_eq!(handled, 10_000, "the defect: it is given up here, and not at an empty ring");
    let sent = (0..2 * WIRE_ENTRIES).filter(|number| send(&mut sender, &words, u64::from(*number))).count();
    assert_eq!(sent, WIRE_ENTRIES as usize - 1, "one is there already");
    assert_eq!(look(&mut receiver, &words), Look::Entries(WIRE_ENTRIES));
    let mut handled = 0;
    // A receiver that never ends fails here, and does not run for ever.
    while handled <= WIRE_ENTRIES && take(&mut receiver, &words).is_some() {
        handled += 1;
        while send(&mut sender, &words, 1) {}
    }
    assert_eq!(handled, WIRE_ENTRIES, "what came meanwhile waits for its own doorbell");
}

/// CH-40: random sends, looks and slices against a queue.
#[test]
fn every_entry_arrives_once_and_in_order() {
    let mut random = Random(0x5eed);
    for case in 0..300 {
        let words = wire();
        let (mut sender, mut receiver) = (WireSender::open(&Guarded::source(&words), case), WireReceiver::new());
        let (mut model, mut seen, mut next) = (VecDeque::new(), 0, 0);
        for _ in 0..200 {
            match random.below(3) {
                0 => {
                    for _ in 0..random.below(20) {
                        let was_sent = send(&mut sender, &words, next);
                        assert_eq!(was_sent, model.len() < WIRE_ENTRIES as usize, "case {case}");
                        if was_sent {
                            model.push_back(entry(next));
                            next += 1;
                        }
                    }
                }
                1 => {
                    assert_eq!(look(&mut receiver, &words), Look::Entries(model.len() as u32), "case {case}");
                    seen = model.len();
                }
                _ => {
                    for _ in 0..random.below(6) {
                        let expected = if seen > 0 { model.pop_front() } else { None };
                        seen = seen.saturating_sub(1);
                        assert_eq!(take(&mut receiver, &words), expected, "case {case}");
                    }
                }
            }
        }
    }
}

/// Indices run on and wrap: the receiver begins where the source says that it has been.
#[test]
fn indices_wrap() {
    let words = wire();
    let guarded = Guarded::destination(&words);
    let mut receiver = WireReceiver::new();
    let first = u32::MAX - 2;
    poke(&words, WRITER + 1, u64::from(first));
    for number in 0..8_u32 {
        let at = first.wrapping_add(number);
        let place = WRITER + 8 + (at % WIRE_ENTRIES) as usize * 2;
        poke(&words, place, entry(number.into()).index);
        poke(&words, place + 1, entry(number.into()).bits);
        poke(&words, WRITER, 1 << 32 | u64::from(at.wrapping_add(1)));
        assert_eq!(receiver.look(&guarded), Look::Entries(1));
        assert_eq!(receiver.take(&guarded), Some(entry(number.into())));
        assert_eq!(peek(&words, READER), 1 << 32 | u64::from(at.wrapping_add(1)));
    }
}

/// A source that starts again is another incarnation, and its entries arrive; a destination that starts again takes what was unread, and what it took since
/// the source last looked a second time.
#[test]
fn restarts_of_either_end_do_not_break_it() {
    let words = wire();
    let (mut sender, mut receiver) = (WireSender::open(&Guarded::source(&words), 9), WireReceiver::new());
    (0..5).for_each(|number| assert!(send(&mut sender, &words, number)));
    assert_eq!(look(&mut receiver, &words), Look::Entries(5));
    assert_eq!([take(&mut receiver, &words), take(&mut receiver, &words)], [Some(entry(0)), Some(entry(1))]);
    // The source's pages are cleared while entries are taken: none is made up from zeros.
    restart_source(&words);
    assert_eq!(take(&mut receiver, &words), None);
    assert_eq!(look(&mut receiver, &words), Look::Entries(0));
    // The same count, which would be the same incarnation.
    sender = WireSender::open(&Guarded::source(&words), 9);
    (10..13).for_each(|number| assert!(send(&mut sender, &words, number)));
    assert_eq!(take(&mut receiver, &words), None, "not before it has looked");
    assert_eq!(look(&mut receiver, &words), Look::Entries(3));
    assert_eq!(take(&mut receiver, &words), Some(entry(10)));
    // The source looks when it sends; then the destination takes one more and starts again.
    assert!(send(&mut sender, &words, 13));
    assert_eq!(take(&mut receiver, &words), Some(entry(11)));
    restart_destination(&words);
    // Until it reads again, the ring holds what it holds.
    let sent = (14..40).filter(|number| send(&mut sender, &words, *number)).count();
    assert_eq!(sent, WIRE_ENTRIES as usize - 3, "eleven to thirteen are not read, as far as the source knows");
    receiver = WireReceiver::new();
    assert_eq!(look(&mut receiver, &words), Look::Entries(WIRE_ENTRIES));
    let taken: Vec<Entry> = std::iter::from_fn(|| take(&mut receiver, &words)).collect();
    assert_eq!(taken, (11..27).map(entry).collect::<Vec<_>>());
}

/// Whatever the source writes at whatever moment, a look and a ring of takes is all that it costs; what is taken is what was there.
#[test]
fn a_hostile_source_gets_no_more_than_a_ring() {
    let mut random = Random(0xbad);
    let (mut rubbish, mut most) = (0, 0);
    for _ in 0..20_000 {
        let words = wire();
        let mut receiver = WireReceiver::new();
        for _ in 0..8 {
            scribble(&words, WRITER, &mut random);
            let guarded = Guarded::destination(&words);
            let looked = receiver.look(&guarded);
            rubbish += u32::from(looked == Look::Rubbish);
            let mut taken = 0;
            loop {
                if random.below(4) == 0 {
                    scribble(&words, WRITER, &mut random);
                }
                if receiver.take(&guarded).is_none() {
                    break;
                }
                taken += 1;
            }
            let expected = if let Look::Entries(count) = looked { count } else { 0 };
            assert!(taken <= expected && expected <= WIRE_ENTRIES, "{taken} of {looked:?}");
            assert!(guarded.accesses.get() <= 4 + 5 * WIRE_ENTRIES as usize, "{}", guarded.accesses.get());
            most = most.max(taken);
        }
    }
    println!("{rubbish} looks at rubbish, at most {most} entries");
    assert!(rubbish > 1000 && most == WIRE_ENTRIES);
}

/// Whatever the destination writes, the sender writes into its own page alone, and never more than a ring beyond what it believed last.
#[test]
fn a_hostile_destination_stops_its_own_wire_alone() {
    let mut random = Random(0xd0bad);
    for case in 0..2_000 {
        let words = wire();
        let source = Guarded::source(&words);
        let mut sender = WireSender::open(&source, case);
        for number in 0..60 {
            if random.below(3) == 0 {
                scribble(&words, READER, &mut random);
            }
            sender.send(&source, entry(number));
            assert!(sender.unread(&source) <= WIRE_ENTRIES);
        }
    }
}

/// Writes something plausible or anything into one of the peer's words.
fn scribble(words: &[AtomicU64], first: usize, random: &mut Random) {
    let word = first + random.below(40) as usize * random.below(2) as usize;
    let own = peek(words, word);
    let value = match random.below(5) {
        0 => random.next(),
        1 => own.wrapping_add(random.below(20)),
        2 => own.wrapping_sub(random.below(20)),
        3 => (1 + random.below(2)) << 32 | random.below(40),
        _ => 0,
    };
    poke(words, word, value);
}
