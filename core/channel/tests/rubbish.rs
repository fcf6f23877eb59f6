//! Each kind of rubbish that a peer can leave, and the error it has to become (QV-53).

mod support;

use bulkhead_channel::crc::Crc32c;
use bulkhead_channel::{
    Corruption, Geometry, QueuingReader, QueuingWriter, ReceiveError, SampleError, SamplingReader, SamplingWriter,
    SendError,
};
use std::sync::atomic::AtomicU64;
use support::{HEAD, READER, WRITER, peek, poke, window};

const SLOT: usize = WRITER + HEAD;

fn queue(depth: u32) -> (Geometry, Vec<AtomicU64>) {
    let geometry = Geometry::queuing(8, depth).unwrap();
    let words = window(geometry);
    (geometry, words)
}

/// Writes a slot with a checksum that is right for whatever it claims.
fn forge(words: &[AtomicU64], slot_word: usize, sequence: u64, bytes: u32, payload: &[u8]) {
    let crc = Crc32c::new().update(&sequence.to_le_bytes()).update(&0u64.to_le_bytes()).update(&bytes.to_le_bytes());
    let crc = crc.update(payload).finish();
    poke(words, slot_word, sequence);
    poke(words, slot_word + 1, 0);
    poke(words, slot_word + 2, u64::from(bytes) | (u64::from(crc) << 32));
    for (index, chunk) in payload.chunks(8).enumerate() {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        poke(words, slot_word + 3 + index, u64::from_le_bytes(word));
    }
}

#[test]
fn every_single_bit_of_a_message_is_covered() {
    let (geometry, words) = queue(1);
    for bit in 0..4 * 64 {
        let mut writer = QueuingWriter::open(&words[..], geometry, 1).unwrap();
        let mut reader = QueuingReader::open(&words[..], geometry).unwrap();
        let _ = writer.send(b"12345678", 99).unwrap();
        let word = SLOT + bit / 64;
        poke(&words, word, peek(&words, word) ^ (1 << (bit % 64)));
        let error = reader.receive(&mut [0; 8]).unwrap_err();
        assert!(
            matches!(error, ReceiveError::Corrupt(Corruption::Checksum | Corruption::Length)),
            "bit {bit}: {error:?}"
        );
        assert_eq!(reader.receive(&mut [0; 8]), Err(ReceiveError::Empty), "the bad message is dropped");
    }
}

#[test]
fn a_length_beyond_the_port_is_refused_although_buffer_and_checksum_agree() {
    let (geometry, words) = queue(1);
    let mut writer = QueuingWriter::open(&words[..], geometry, 1).unwrap();
    let mut reader = QueuingReader::open(&words[..], geometry).unwrap();
    let _ = writer.send(b"x", 0).unwrap();
    forge(&words, SLOT, 1, 9, b"123456789");
    assert_eq!(reader.receive(&mut [0; 64]), Err(ReceiveError::Corrupt(Corruption::Length)));
    let _ = writer.send(b"x", 0).unwrap();
    forge(&words, SLOT, 2, 0, b"");
    assert_eq!(reader.receive(&mut [0; 64]), Err(ReceiveError::Corrupt(Corruption::Length)), "an empty message");
}

#[test]
fn a_replayed_message_is_out_of_sequence() {
    let (geometry, words) = queue(2);
    let mut writer = QueuingWriter::open(&words[..], geometry, 1).unwrap();
    let mut reader = QueuingReader::open(&words[..], geometry).unwrap();
    let _ = writer.send(b"a", 0).unwrap();
    reader.receive(&mut [0; 8]).unwrap();
    let _ = writer.send(b"b", 0).unwrap();
    // Slot 1 gets a copy of message 1, whole and with its right checksum.
    forge(&words, SLOT + 8, 1, 1, b"a");
    assert_eq!(reader.receive(&mut [0; 8]), Err(ReceiveError::Corrupt(Corruption::Sequence)));
}

#[test]
fn impossible_counts_of_a_source_are_refused_and_change_nothing() {
    let (geometry, words) = queue(4);
    let mut writer = QueuingWriter::open(&words[..], geometry, 1).unwrap();
    let mut reader = QueuingReader::open(&words[..], geometry).unwrap();
    let _ = writer.send(b"a", 0).unwrap();
    reader.receive(&mut [0; 8]).unwrap();
    for lie in [0, 6, 7, u64::MAX, 1 << 63] {
        poke(&words, WRITER + 4, lie);
        assert_eq!(reader.receive(&mut [0; 8]), Err(ReceiveError::Corrupt(Corruption::Counter)), "{lie}");
        assert_eq!((reader.read(), reader.pending(), peek(&words, READER + 1)), (1, 0, 1));
    }
}

#[test]
fn impossible_counts_of_a_destination_free_nothing() {
    let (geometry, words) = queue(2);
    let mut writer = QueuingWriter::open(&words[..], geometry, 1).unwrap();
    let mut reader = QueuingReader::open(&words[..], geometry).unwrap();
    let _ = writer.send(b"a", 0).unwrap();
    reader.receive(&mut [0; 8]).unwrap();
    let _ = writer.send(b"b", 0).unwrap();
    let _ = writer.send(b"c", 0).unwrap();
    for lie in [0, 4, u64::MAX] {
        poke(&words, READER + 1, lie);
        assert_eq!(writer.send(b"d", 0), Err(SendError::Corrupt(Corruption::Counter)), "{lie}");
        assert_eq!(writer.free(), 0);
    }
    poke(&words, READER + 1, 2);
    assert_eq!(writer.free(), 1);
}

#[test]
fn a_foreign_head_is_named() {
    let geometry = Geometry::sampling(8).unwrap();
    let words = window(geometry);
    let mut writer = SamplingWriter::open(&words[..], geometry, 1).unwrap();
    let mut reader = SamplingReader::open(&words[..], geometry).unwrap();
    let _ = writer.write(b"a", 0).unwrap();
    let mut read = || reader.read(&mut [0; 8]).map(|_| ());
    for (word, lie, corruption) in [
        (WRITER, 1, Corruption::Magic),
        (WRITER + 1, 2 | (8 << 32), Corruption::Parameters),
        (WRITER + 1, 1 | (9 << 32), Corruption::Parameters),
        (WRITER + 2, 5, Corruption::Parameters),
    ] {
        let honest = peek(&words, word);
        poke(&words, word, lie);
        assert_eq!(read(), Err(SampleError::Corrupt(corruption)));
        poke(&words, word, honest);
        assert_eq!(read(), Ok(()));
    }
}

#[test]
fn a_source_that_shows_an_older_value_is_corrupt() {
    let geometry = Geometry::sampling(8).unwrap();
    let words = window(geometry);
    let mut writer = SamplingWriter::open(&words[..], geometry, 1).unwrap();
    let mut reader = SamplingReader::open(&words[..], geometry).unwrap();
    let stale = Err(SampleError::Corrupt(Corruption::Sequence));
    let _ = writer.write(b"1", 0).unwrap();
    let _ = writer.write(b"2", 0).unwrap();
    // The count says two were written, the pair points to the first.
    let first = (0..4).map(|slot| SLOT + slot * 8).find(|word| peek(&words, *word) == 1).unwrap();
    let (pair, slot) = ((first - SLOT) / 8 / 2, (first - SLOT) / 8 % 2);
    poke(&words, WRITER + 2, 4 | ((pair as u64) << 32));
    poke(&words, WRITER + 3, ((slot as u64) << pair) | (peek(&words, WRITER + 3) >> 32 << 32));
    assert_eq!(reader.read(&mut [0; 8]).map(|_| ()), stale, "older than the count");
    poke(&words, WRITER + 4, 1);
    assert!(reader.read(&mut [0; 8]).is_ok());
    forge(&words, first, 9, 1, b"9");
    assert!(reader.read(&mut [0; 8]).is_ok());
    forge(&words, first, 8, 1, b"8");
    assert_eq!(reader.read(&mut [0; 8]).map(|_| ()), stale, "older than what was read before");
}

/// The destination's page decides at most which pair is used, whatever is in it.
#[test]
fn a_sampling_source_masks_what_the_destination_writes() {
    let geometry = Geometry::sampling(8).unwrap();
    let words = window(geometry);
    let guarded = support::Guarded::source(&words);
    let mut writer = SamplingWriter::open(&guarded, geometry, 1).unwrap();
    let mut reader = SamplingReader::open(&words[..], geometry).unwrap();
    for lie in [u64::MAX, 2, 0x8000_0000, 3 << 31] {
        poke(&words, READER + 2, lie);
        let written = writer.write(b"a", 0).unwrap();
        assert_eq!(reader.read(&mut [0; 8]).unwrap().message.sequence, written.sequence);
    }
}
