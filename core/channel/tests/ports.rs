//! Behaviour of both kinds of port with an honest peer: contents, limits, restarts, resumption (QV-51, QV-55).

mod support;

use bulkhead_channel::{
    Geometry, MappedWindow, OpenError, PeerStatus, QueuingReader, QueuingWriter, ReceiveError, SampleError,
    SamplingReader, SamplingWriter, SendError, WriteError,
};
use bulkhead_guest_abi::channel::{READER_MAGIC, WRITER_MAGIC};
use support::{HEAD, READER, WRITER, peek, poke, restart_destination, restart_source, window};

/// QV-55: the register.
#[test]
fn a_sampling_port_keeps_the_newest_value() {
    let geometry = Geometry::sampling(16).unwrap();
    let words = window(geometry);
    let mut writer = SamplingWriter::open(&words[..], geometry, 100).unwrap();
    let mut reader = SamplingReader::open(&words[..], geometry).unwrap();
    let mut buffer = [0; 16];
    assert_eq!(reader.read(&mut buffer), Err(SampleError::NoValue));
    for round in 1..=9u64 {
        assert_eq!(writer.write(b"overwritten", 100).unwrap().sequence, 2 * round - 1);
        assert_eq!(writer.write(&[round as u8; 13], 100 + round).unwrap().sequence, 2 * round);
        let sample = reader.read(&mut buffer).unwrap();
        assert!(sample.is_new);
        assert_eq!((sample.message.sequence, sample.message.time_ticks), (2 * round, 100 + round));
        assert_eq!(sample.message.payload, [round as u8; 13]);
        assert!(!reader.read(&mut buffer).unwrap().is_new, "the same value again");
    }
    assert_eq!((writer.written(), reader.written()), (18, 18));
}

#[test]
fn an_old_value_is_refused_when_the_caller_asks() {
    let geometry = Geometry::sampling(8).unwrap();
    let words = window(geometry);
    let mut writer = SamplingWriter::open(&words[..], geometry, 1).unwrap();
    let mut reader = SamplingReader::open(&words[..], geometry).unwrap();
    let mut buffer = [0; 8];
    let _ = writer.write(b"x", 1_000).unwrap();
    assert!(reader.read_fresh(&mut buffer, 1_050, 50).is_ok());
    assert_eq!(reader.read_fresh(&mut buffer, 1_051, 50), Err(SampleError::Stale { age_ticks: 51 }));
    assert!(reader.read_fresh(&mut buffer, 900, 50).is_ok(), "a time stamp from the future is age 0, not a wrap");
}

/// QV-55: the ring.
#[test]
fn a_queuing_port_keeps_the_order_and_fills_up() {
    for depth in [1, 2, 3, 5, 16] {
        let geometry = Geometry::queuing(40, depth).unwrap();
        let words = window(geometry);
        let mut writer = QueuingWriter::open(&words[..], geometry, 7).unwrap();
        let mut reader = QueuingReader::open(&words[..], geometry).unwrap();
        let mut buffer = [0; 40];
        let (mut sent, mut received) = (0u64, 0u64);
        for _ in 0..4 {
            while let Ok(written) = writer.send(&[sent as u8; 40][..1 + sent as usize % 40], 1_000 + sent) {
                sent += 1;
                assert_eq!(written.sequence, sent);
            }
            assert_eq!(sent - received, u64::from(depth), "no slot is lost");
            assert_eq!(writer.send(b"x", 0), Err(SendError::Full));
            assert_eq!((writer.free(), reader.pending()), (0, depth));
            while let Ok(message) = reader.receive(&mut buffer) {
                assert_eq!((message.sequence, message.time_ticks), (received + 1, 1_000 + received));
                assert_eq!(message.payload, &[received as u8; 40][..1 + received as usize % 40]);
                received += 1;
            }
            assert_eq!(received, sent);
            assert_eq!(reader.receive(&mut buffer), Err(ReceiveError::Empty));
            assert_eq!((writer.free(), reader.pending()), (depth, 0));
        }
    }
}

#[test]
fn messages_sent_before_the_destination_opens_are_kept() {
    let geometry = Geometry::queuing(8, 3).unwrap();
    let words = window(geometry);
    let mut writer = QueuingWriter::open(&words[..], geometry, 7).unwrap();
    assert!(!writer.destination_is_open());
    for text in [b"1", b"2", b"3"] {
        let _ = writer.send(text, 0).unwrap();
    }
    assert_eq!(writer.send(b"4", 0), Err(SendError::Full));
    let mut reader = QueuingReader::open(&words[..], geometry).unwrap();
    assert!(writer.destination_is_open());
    assert_eq!(drain(&mut reader), [b"1", b"2", b"3"]);
}

fn drain<M: bulkhead_channel::SharedMemory>(reader: &mut QueuingReader<M>) -> Vec<Vec<u8>> {
    let mut buffer = [0; 4032];
    std::iter::from_fn(|| reader.receive(&mut buffer).ok().map(|message| message.payload.to_vec())).collect()
}

#[test]
fn a_restarted_source_starts_over_and_the_destination_is_told_once() {
    let geometry = Geometry::queuing(8, 4).unwrap();
    let words = window(geometry);
    poke(&words, 1, 1);
    let mut writer = QueuingWriter::open(&words[..], geometry, 1_000).unwrap();
    let mut reader = QueuingReader::open(&words[..], geometry).unwrap();
    for text in [b"a", b"b", b"c"] {
        let _ = writer.send(text, 0).unwrap();
    }
    assert_eq!(drain(&mut reader), [b"a", b"b", b"c"]);
    let _ = writer.send(b"lost", 0).unwrap();
    let mut buffer = [0; 8];

    restart_source(&words);
    assert_eq!(reader.receive(&mut buffer), Err(ReceiveError::PeerClosed));
    let mut writer = QueuingWriter::open(&words[..], geometry, 2_000).unwrap();
    // The stale count 3 of the old incarnation must not free slots that the destination has not seen.
    for text in [b"d", b"e", b"f", b"g"] {
        let _ = writer.send(text, 0).unwrap();
    }
    assert_eq!(writer.send(b"h", 0), Err(SendError::Full));
    assert_eq!(reader.receive(&mut buffer), Err(ReceiveError::PeerReset { generation: 2 }));
    assert_eq!(drain(&mut reader), [b"d", b"e", b"f", b"g"]);
    assert_eq!(writer.free(), 4);
    assert_eq!(writer.send(b"h", 0).unwrap().sequence, 5);
}

#[test]
fn a_restarted_destination_goes_on_where_the_source_knows_it_was() {
    let geometry = Geometry::queuing(8, 4).unwrap();
    let words = window(geometry);
    let mut writer = QueuingWriter::open(&words[..], geometry, 1_000).unwrap();
    let mut reader = QueuingReader::open(&words[..], geometry).unwrap();
    let mut buffer = [0; 8];
    let _ = writer.send(b"1", 0).unwrap();
    let _ = writer.send(b"2", 0).unwrap();
    reader.receive(&mut buffer).unwrap();
    let _ = writer.send(b"3", 0).unwrap();
    // The source has seen that 1 was read; 2 is read behind its back.
    reader.receive(&mut buffer).unwrap();
    restart_destination(&words);
    let _ = writer.send(b"4", 0).unwrap();
    let mut reader = QueuingReader::open(&words[..], geometry).unwrap();
    assert_eq!(drain(&mut reader), [b"2", b"3", b"4"], "at least once, nothing lost");
    assert_eq!(writer.free(), 4);
}

/// The one race of the rule above: the source looks at the count just before the page is cleared and publishes it just
/// after the new destination took the older one. The destination meets an overwritten slot and continues at the new
/// count.
#[test]
fn a_destination_that_started_from_an_old_count_catches_up() {
    let geometry = Geometry::queuing(8, 2).unwrap();
    let words = window(geometry);
    let mut writer = QueuingWriter::open(&words[..], geometry, 1_000).unwrap();
    let mut reader = QueuingReader::open(&words[..], geometry).unwrap();
    let _ = writer.send(b"1", 0).unwrap();
    let _ = writer.send(b"2", 0).unwrap();
    assert_eq!(drain(&mut reader), [b"1", b"2"]);
    // The source sees 2 read and sends two more; a new destination still starts from 0.
    let _ = writer.send(b"3", 0).unwrap();
    let _ = writer.send(b"4", 0).unwrap();
    poke(&words, READER + 1, 0);
    let mut reader = QueuingReader::open(&words[..], geometry).unwrap();
    let mut buffer = [0; 8];
    assert!(matches!(reader.receive(&mut buffer), Err(ReceiveError::Corrupt(_))));
    assert_eq!(drain(&mut reader), [b"3", b"4"]);
    assert_eq!(writer.free(), 2);
}

#[test]
fn a_sampling_port_survives_restarts_of_either_side() {
    let geometry = Geometry::sampling(8).unwrap();
    let words = window(geometry);
    poke(&words, 1, 1);
    let mut writer = SamplingWriter::open(&words[..], geometry, 1_000).unwrap();
    let mut reader = SamplingReader::open(&words[..], geometry).unwrap();
    let mut buffer = [0; 8];
    assert!(writer.write(b"a", 0).is_ok() && writer.write(b"b", 0).is_ok());
    assert_eq!(reader.read(&mut buffer).unwrap().message.payload, b"b");

    restart_source(&words);
    assert_eq!(reader.read(&mut buffer), Err(SampleError::PeerClosed));
    let mut writer = SamplingWriter::open(&words[..], geometry, 2_000).unwrap();
    assert_eq!(writer.write(b"c", 0).unwrap().sequence, 1);
    assert_eq!(reader.read(&mut buffer), Err(SampleError::PeerReset { generation: 2 }));
    assert_eq!(reader.read(&mut buffer).unwrap().message.payload, b"c");

    restart_destination(&words);
    assert!(!writer.destination_is_open());
    assert!(writer.write(b"d", 0).is_ok());
    let mut reader = SamplingReader::open(&words[..], geometry).unwrap();
    let sample = reader.read(&mut buffer).unwrap();
    assert_eq!((sample.message.payload, sample.message.sequence, sample.is_new), (&b"d"[..], 2, true));
}

#[test]
fn two_incarnations_never_share_an_epoch() {
    let geometry = Geometry::sampling(8).unwrap();
    let words = window(geometry);
    let epoch = || peek(&words, WRITER + 3) >> 32;
    let mut reader = SamplingReader::open(&words[..], geometry).unwrap();
    let mut buffer = [0; 8];
    // The counter's low half is 0 here, and the same in the second incarnation: both are stepped over.
    let mut writer = SamplingWriter::open(&words[..], geometry, 1 << 32).unwrap();
    assert!(writer.write(b"a", 0).is_ok() && reader.read(&mut buffer).is_ok());
    assert_eq!(epoch(), 1);
    restart_source(&words);
    let _ = SamplingWriter::open(&words[..], geometry, 2 << 32).unwrap();
    assert_eq!(epoch(), 2);
}

#[test]
fn programs_of_one_partition_take_over_from_each_other() {
    let geometry = Geometry::queuing(8, 4).unwrap();
    let words = window(geometry);
    let mut buffer = [0; 8];
    for round in 0..10u64 {
        let mut writer = QueuingWriter::open(&words[..], geometry, round).unwrap();
        assert_eq!(writer.send(&[round as u8], 0).unwrap().sequence, round + 1);
        let mut reader = QueuingReader::open(&words[..], geometry).unwrap();
        let message = reader.receive(&mut buffer).unwrap();
        assert_eq!((message.sequence, message.payload), (round + 1, &[round as u8][..]));
    }
    let geometry = Geometry::sampling(8).unwrap();
    let words = window(geometry);
    for round in 0..10u64 {
        let mut writer = SamplingWriter::open(&words[..], geometry, round).unwrap();
        assert_eq!(writer.write(&[round as u8], 0).unwrap().sequence, round + 1);
        let mut reader = SamplingReader::open(&words[..], geometry).unwrap();
        assert_eq!(reader.read(&mut buffer).unwrap().message.payload, [round as u8]);
    }
}

#[test]
fn a_source_whose_own_counters_are_impossible_starts_over() {
    let geometry = Geometry::queuing(8, 4).unwrap();
    let words = window(geometry);
    let mut writer = QueuingWriter::open(&words[..], geometry, 5).unwrap();
    let _ = writer.send(b"1", 0).unwrap();
    poke(&words, WRITER + 5, 9);
    let writer = QueuingWriter::open(&words[..], geometry, 6).unwrap();
    assert_eq!(writer.written(), 0);
    assert_eq!(peek(&words, WRITER + 3) >> 32, 6, "with a new epoch");
}

#[test]
fn wrong_lengths_are_refused_before_anything_is_touched() {
    let geometry = Geometry::queuing(8, 2).unwrap();
    let words = window(geometry);
    let mut writer = QueuingWriter::open(&words[..], geometry, 5).unwrap();
    assert_eq!(writer.send(&[0; 9], 0), Err(SendError::Length { most: 8 }));
    assert_eq!(writer.send(&[], 0), Err(SendError::Length { most: 8 }));
    assert!(words[WRITER + HEAD..].iter().all(|word| word.load(std::sync::atomic::Ordering::Relaxed) == 0));
    let mut reader = QueuingReader::open(&words[..], geometry).unwrap();
    assert_eq!(reader.receive(&mut [0; 7]), Err(ReceiveError::BufferTooSmall { needed: 8 }));
    let sampling = Geometry::sampling(8).unwrap();
    let words = window(sampling);
    let mut writer = SamplingWriter::open(&words[..], sampling, 5).unwrap();
    assert_eq!(writer.write(&[0; 9], 0), Err(WriteError::Length { most: 8 }));
    let mut reader = SamplingReader::open(&words[..], sampling).unwrap();
    assert_eq!(reader.read(&mut [0; 7]), Err(SampleError::BufferTooSmall { needed: 8 }));
}

#[test]
fn a_port_opens_only_as_its_own_kind_and_in_a_large_enough_window() {
    let sampling = Geometry::sampling(8).unwrap();
    let words = window(sampling);
    assert_eq!(QueuingReader::open(&words[..], sampling).unwrap_err(), OpenError::WrongKind);
    let short = &words[..words.len() - 1];
    let too_small = OpenError::WindowTooSmall { needed: 12_288, bytes: 12_280 };
    assert_eq!(SamplingWriter::open(short, sampling, 0).unwrap_err(), too_small);
    assert_eq!(SamplingReader::open(short, sampling).unwrap_err(), too_small);
    assert!(words.iter().all(|word| word.load(std::sync::atomic::Ordering::Relaxed) == 0));
}

#[test]
fn the_peers_partition_is_visible() {
    let geometry = Geometry::sampling(8).unwrap();
    let words = window(geometry);
    poke(&words, 0, 4 | (5 << 32));
    poke(&words, 1, 3 | (2 << 32));
    let reader = SamplingReader::open(&words[..], geometry).unwrap();
    assert_eq!(reader.peer_status(), PeerStatus { state: 4, reason: 5, generation: 3, restarts: 2 });
}

#[test]
fn a_mapped_window_is_the_same_memory() {
    let geometry = Geometry::sampling(8).unwrap();
    let words = window(geometry);
    let bytes = words.len() * 8;
    let address = words.as_ptr().cast::<u8>().cast_mut();
    // SAFETY: the vector lives to the end of the test, its buffer is aligned and consists of atomics.
    let mapped = unsafe { MappedWindow::new(address, bytes) }.unwrap();
    let mut writer = SamplingWriter::open(mapped, geometry, 1).unwrap();
    let _ = writer.write(b"mapped", 9).unwrap();
    let mut reader = SamplingReader::open(&words[..], geometry).unwrap();
    assert_eq!(reader.read(&mut [0; 8]).unwrap().message.payload, b"mapped");
    assert_eq!((peek(&words, WRITER), peek(&words, READER)), (WRITER_MAGIC, READER_MAGIC));
    // SAFETY: as above; the arguments are wrong on purpose and refused before any access.
    let refused = unsafe { [MappedWindow::new(address, bytes - 1), MappedWindow::new(address.wrapping_add(1), 8)] };
    assert!(refused.iter().all(Option::is_none));
    // SAFETY: as above.
    assert!(unsafe { MappedWindow::new(std::ptr::null_mut(), 8) }.is_none());
}
