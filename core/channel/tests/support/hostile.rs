//! A port under a hostile peer, driven by a script of bytes: the fuzz target and the seeded test run the same code.
//!
//! Asserted at every step: no panic, no access outside the window, no store outside the own area, bounded work, results
//! inside their types' promises. Asserted at the end: once the peer's pages are cleared and an honest peer opens, messages
//! flow again (QV-53: damage harms only the two ends, and a restart of the guilty one heals it).

use super::{Guarded, READER, WRITER, peek, poke, restart_destination, restart_source, window};
use bulkhead_channel::{
    Geometry, QueuingReader, QueuingWriter, ReceiveError, SampleError, SamplingReader, SamplingWriter, SendError,
};
use std::sync::atomic::AtomicU64;

/// Words of the layout that a call may touch besides the payload.
const MOST_ACCESSES: usize = 40;
const MESSAGE_BYTES: [u32; 8] = [1, 7, 8, 9, 40, 41, 64, 4032];

/// Bytes of a script; zeros behind its end.
struct Script<'s> {
    rest: &'s [u8],
}

impl Script<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        *first
    }

    fn word(&mut self) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|_| self.byte()))
    }
}

/// The port under attack.
enum Subject<'a> {
    SamplingReader(SamplingReader<&'a Guarded<'a>>),
    SamplingWriter(SamplingWriter<&'a Guarded<'a>>),
    QueuingReader(QueuingReader<&'a Guarded<'a>>),
    QueuingWriter(QueuingWriter<&'a Guarded<'a>>),
}

impl<'a> Subject<'a> {
    fn open(is_reader: bool, geometry: Geometry, memory: &'a Guarded<'a>, now: u64) -> Self {
        match (is_reader, geometry.is_sampling()) {
            (true, true) => Self::SamplingReader(SamplingReader::open(memory, geometry).unwrap()),
            (true, false) => Self::QueuingReader(QueuingReader::open(memory, geometry).unwrap()),
            (false, true) => Self::SamplingWriter(SamplingWriter::open(memory, geometry, now).unwrap()),
            (false, false) => Self::QueuingWriter(QueuingWriter::open(memory, geometry, now).unwrap()),
        }
    }

    /// One call; returns whether a message went through.
    fn operate(&mut self, buffer: &mut [u8], length: usize, now: u64) -> bool {
        match self {
            Self::SamplingReader(reader) => match reader.read(buffer) {
                Ok(sample) => {
                    assert!(!sample.message.payload.is_empty() && sample.message.sequence > 0);
                    true
                }
                Err(error) => {
                    assert!(!matches!(error, SampleError::BufferTooSmall { .. } | SampleError::Stale { .. }));
                    false
                }
            },
            Self::QueuingReader(reader) => {
                let before = reader.read();
                match reader.receive(buffer) {
                    Ok(message) => {
                        assert_eq!(message.sequence, reader.read());
                        assert!(!message.payload.is_empty());
                        true
                    }
                    Err(error) => {
                        assert!(!matches!(error, ReceiveError::BufferTooSmall { .. }));
                        assert!(error != ReceiveError::PeerClosed || reader.read() == before);
                        false
                    }
                }
            }
            Self::SamplingWriter(writer) => {
                let before = writer.written();
                let written =
                    writer.write(&buffer[..length], now).expect("a sampling source never waits and never fails");
                assert_eq!(written.sequence, before.wrapping_add(1));
                true
            }
            Self::QueuingWriter(writer) => {
                let before = writer.written();
                match writer.send(&buffer[..length], now) {
                    Ok(written) => {
                        assert_eq!(written.sequence, before + 1);
                        true
                    }
                    Err(error) => {
                        assert!(!matches!(error, SendError::Length { .. }));
                        assert_eq!(writer.written(), before);
                        false
                    }
                }
            }
        }
    }
}

/// Runs a script.
pub(crate) fn run(bytes: &[u8]) {
    let mut script = Script { rest: bytes };
    let choice = script.byte();
    let is_reader = choice & 1 == 0;
    let message_bytes = MESSAGE_BYTES[usize::from(script.byte()) % MESSAGE_BYTES.len()];
    let geometry = if choice & 2 == 0 {
        Geometry::sampling(message_bytes)
    } else {
        Geometry::queuing(message_bytes, 1 + u32::from(script.byte()) % 5)
    }
    .unwrap();
    let words = window(geometry);
    let guarded = if is_reader { Guarded::destination(&words) } else { Guarded::source(&words) };
    let mut now = 1;
    let mut subject = Subject::open(is_reader, geometry, &guarded, now);
    let mut buffer = vec![0; message_bytes as usize];
    while !script.rest.is_empty() {
        now += 1;
        match script.byte() % 8 {
            0..=2 => {
                let length = 1 + usize::from(script.byte()) % message_bytes as usize;
                guarded.accesses.set(0);
                subject.operate(&mut buffer, length, now);
                let most = MOST_ACCESSES + message_bytes.div_ceil(8) as usize;
                assert!(guarded.accesses.get() <= most, "{} accesses", guarded.accesses.get());
            }
            3 => honest_peer(is_reader, geometry, &words, now),
            // Only what the peer can reach: its own pages.
            4 => poke_peer(&words, is_reader, usize::from(script.byte()) % 8, script.word()),
            5 => {
                let at = usize::from(script.byte()) % 6;
                let nudged = nudge(peek(&words, peer_first(is_reader) + at), script.byte());
                poke_peer(&words, is_reader, at, nudged);
            }
            6 => {
                let at = usize::from(script.byte()) * 256 + usize::from(script.byte());
                poke_peer(&words, is_reader, at, script.word());
            }
            _ if script.byte() & 1 == 0 => subject = Subject::open(is_reader, geometry, &guarded, now),
            _ => restart_peer(&words, is_reader),
        }
    }
    heals(&mut subject, is_reader, geometry, &words, now + 1);
}

/// After a restart of the peer and with an honest one, a message goes through within a bounded number of calls.
fn heals(subject: &mut Subject<'_>, is_reader: bool, geometry: Geometry, words: &[AtomicU64], now: u64) {
    restart_peer(words, is_reader);
    let mut buffer = vec![7; geometry.message_bytes() as usize];
    let length = buffer.len();
    if is_reader {
        honest_peer(is_reader, geometry, words, now);
        let arrived = (0..3).any(|_| subject.operate(&mut buffer, length, now));
        assert!(arrived, "the destination does not hear a restarted source");
        return;
    }
    // An honest destination takes all there is; then the source has room.
    honest_peer(is_reader, geometry, words, now);
    assert!(subject.operate(&mut buffer, length, now), "the source has no room for a restarted destination");
}

/// The other end, behaving well: a source writes one message, a destination takes everything.
fn honest_peer(subject_is_reader: bool, geometry: Geometry, words: &[AtomicU64], now: u64) {
    let payload = [now as u8];
    let mut buffer = vec![0; geometry.message_bytes() as usize];
    match (subject_is_reader, geometry.is_sampling()) {
        (true, true) => {
            let _ = SamplingWriter::open(words, geometry, now).unwrap().write(&payload, now).unwrap();
        }
        (true, false) => {
            let _ = QueuingWriter::open(words, geometry, now).unwrap().send(&payload, now).map(|_| ());
        }
        (false, true) => {
            let _ = SamplingReader::open(words, geometry).unwrap().read(&mut buffer).map(|_| ());
        }
        (false, false) => {
            let mut reader = QueuingReader::open(words, geometry).unwrap();
            for _ in 0..2 * geometry.slots() + 2 {
                let _ = reader.receive(&mut buffer).map(|_| ());
            }
        }
    }
}

fn peer_first(subject_is_reader: bool) -> usize {
    if subject_is_reader { WRITER } else { READER }
}

fn poke_peer(words: &[AtomicU64], subject_is_reader: bool, at: usize, value: u64) {
    let end = if subject_is_reader { words.len() } else { WRITER };
    let first = peer_first(subject_is_reader);
    poke(words, first + at % (end - first), value);
}

fn restart_peer(words: &[AtomicU64], subject_is_reader: bool) {
    if subject_is_reader { restart_source(words) } else { restart_destination(words) }
}

/// A value near the old one in either half: what a plausible lie looks like.
fn nudge(word: u64, by: u8) -> u64 {
    let step = u64::from(by >> 2);
    match by & 3 {
        0 => word.wrapping_add(step),
        1 => word.wrapping_sub(step),
        2 => word.wrapping_add(step << 32),
        _ => word ^ (1u64 << (by >> 2)),
    }
}
