//! Records of a payload: what its tasks and the other world's servers did, and when, as bytes on the secure console.
//!
//! Secure RAM is out of the host's reach, so records go over the secure UART, between the text. A byte of a record has its highest bit set and
//! a byte of text (ASCII) has not, so neither disturbs the other wherever one cuts into the other, and nobody has to mask interrupts while a record
//! is written. Rejected: a page of the other world's memory, which that world could write; frames between two marks, which a more urgent task's
//! line would break.
//!
//! A record is 17 bytes and their CRC-32C, in 28 bytes of six bits each; the first one has the next to highest bit set too.

/// Bytes of a record on the line.
pub const FRAME_BYTES: usize = 28;
/// Kind, counter, argument, CRC.
const BODY_BYTES: usize = 21;
/// Bytes that the CRC is of.
const CHECKED_BYTES: usize = 17;
/// Set in each byte of a record.
const RECORD: u8 = 0x80;
/// Set in its first byte.
const FIRST: u8 = 0x40;
const SIX_BITS: u8 = 0x3f;

/// Fewest and most records that a payload's ring may hold, a power of two, and how many when nothing is said.
pub const RING_RECORDS: core::ops::RangeInclusive<u64> = 128..=2048;
/// See [`RING_RECORDS`].
pub const DEFAULT_RING_RECORDS: u64 = 1024;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A task runs from now on; the argument is its number.
    Runs = 1,
    /// The counter is a task's number, the argument the first eight bytes of its name.
    Named = 2,
    /// As [`Kind::Named`], with seven further bytes, and in the highest one more than its place among the servers, 0 if it is none.
    NamedOn = 3,
    /// So many records found no room and are missing here.
    Lost = 4,
    /// The other world's state, and its reason in the upper half: numbers of `core/abi`.
    State = 5,
    /// The budget of a server is used up.
    UsedUp = 6,
    /// The budget of a server is full again.
    Filled = 7,
}

impl Kind {
    const ALL: [Self; 7] =
        [Self::Runs, Self::Named, Self::NamedOn, Self::Lost, Self::State, Self::UsedUp, Self::Filled];

    fn of(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == number)
    }
}

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The number of a [`Kind`].
    pub kind: u8,
    /// When, in ticks of the counter.
    pub counter: u64,
    /// What about it.
    pub argument: u64,
}

impl Record {
    /// What happened; `None` for a kind that this version does not know.
    #[must_use]
    pub fn kind(&self) -> Option<Kind> {
        Kind::of(self.kind)
    }

    /// The bytes on the line.
    #[must_use]
    pub fn frame(&self) -> [u8; FRAME_BYTES] {
        let words = [self.counter.to_le_bytes(), self.argument.to_le_bytes()];
        let checked = || core::iter::once(self.kind).chain(words.into_iter().flatten());
        let crc = (!checked().fold(u32::MAX, crc)).to_le_bytes();
        let mut body = checked().chain(crc);
        let (mut bits, mut held) = (0_u32, 0_u32);
        let mut first = FIRST;
        core::array::from_fn(|_| {
            if held < 6 {
                bits |= u32::from(body.next().unwrap_or(0)) << held;
                held = held.wrapping_add(8);
            }
            let byte = RECORD | first | bits as u8 & SIX_BITS;
            (bits, held, first) = (bits >> 6, held.wrapping_sub(6), 0);
            byte
        })
    }

    /// Takes apart what was on the line.
    fn of(body: &[u8; BODY_BYTES]) -> Option<Self> {
        let (checked, sum) = body.split_at_checked(CHECKED_BYTES)?;
        let crc = !checked.iter().copied().fold(u32::MAX, crc);
        let word = |from: usize| checked.get(from..)?.first_chunk().copied().map(u64::from_le_bytes);
        let record = Self { kind: *checked.first()?, counter: word(1)?, argument: word(9)? };
        (sum == crc.to_le_bytes()).then_some(record)
    }
}

/// CRC-32C of one more byte, with a table of 16 words: a payload writes some thousand records in a second.
fn crc(register: u32, byte: u8) -> u32 {
    /// What four bits become in four steps of the polynomial 0x82f63b78.
    const TABLE: [u32; 16] = [
        0x0000_0000,
        0x105e_c76f,
        0x20bd_8ede,
        0x30e3_49b1,
        0x417b_1dbc,
        0x5125_dad3,
        0x61c6_9362,
        0x7198_540d,
        0x82f6_3b78,
        0x92a8_fc17,
        0xa24b_b5a6,
        0xb215_72c9,
        0xc38d_26c4,
        0xd3d3_e1ab,
        0xe330_a81a,
        0xf36e_6f75,
    ];
    let step = |word: u32| word >> 4 ^ TABLE.get((word & 15) as usize).copied().unwrap_or(0);
    step(step(register ^ u32::from(byte)))
}

/// What a byte of the secure console is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Text.
    Text(u8),
    /// Part of a record.
    Part,
    /// The last part of this one.
    Whole(Record),
    /// The last part of one that is damaged.
    Damaged,
}

/// Tells text and records apart. A record that another one begins within was not written to its end, and is no record.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    body: [u8; BODY_BYTES],
    /// Parts so far; 0 = no record has begun.
    parts: usize,
}

impl Decoder {
    /// Takes the next byte.
    pub fn take(&mut self, byte: u8) -> Taken {
        if byte & RECORD == 0 {
            return Taken::Text(byte);
        }
        if byte & FIRST != 0 {
            (self.parts, self.body) = (0, [0; BODY_BYTES]);
        } else if self.parts == 0 {
            // The rest of one whose beginning was not seen.
            return Taken::Damaged;
        }
        let at = self.parts.wrapping_mul(6);
        let bits = u16::from(byte & SIX_BITS) << (at % 8);
        for (place, part) in (at / 8..).zip(bits.to_le_bytes()) {
            if let Some(held) = self.body.get_mut(place) {
                *held |= part;
            }
        }
        self.parts = self.parts.wrapping_add(1);
        if self.parts < FRAME_BYTES {
            return Taken::Part;
        }
        self.parts = 0;
        Record::of(&self.body).map_or(Taken::Damaged, Taken::Whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;
    use std::vec::Vec;

    fn decode(bytes: impl IntoIterator<Item = u8>) -> (Vec<u8>, Vec<Record>, usize) {
        let (mut decoder, mut text, mut records, mut damaged) = (Decoder::default(), Vec::new(), Vec::new(), 0);
        for byte in bytes {
            match decoder.take(byte) {
                Taken::Text(byte) => text.push(byte),
                Taken::Whole(record) => records.push(record),
                Taken::Damaged => damaged += 1,
                Taken::Part => {}
            }
        }
        (text, records, damaged)
    }

    fn samples() -> impl Iterator<Item = Record> {
        let mut word = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = move || {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            word ^ word >> 29
        };
        (0..200).map(move |_| Record { kind: next() as u8, counter: next(), argument: next() })
    }

    #[test]
    fn a_record_comes_back_whatever_is_printed_within_it() {
        let text = b"rtos: ticks 1000\n";
        for record in samples() {
            let frame = record.frame();
            assert!(
                frame.iter().all(|byte| byte & RECORD != 0)
                    && frame.iter().filter(|byte| **byte & FIRST != 0).count() == 1
            );
            for cut in 0..=FRAME_BYTES {
                let (before, behind) = frame.split_at(cut);
                let line = before.iter().chain(text).chain(behind).copied();
                assert_eq!(decode(line), (text.to_vec(), vec![record], 0));
            }
        }
    }

    #[test]
    fn a_record_that_was_cut_is_none_and_the_next_one_is_whole() {
        let (one, two) =
            (Record { kind: 1, counter: 2, argument: 3 }, Record { kind: 7, counter: u64::MAX, argument: 0 });
        for kept in 1..FRAME_BYTES {
            let line = one.frame().into_iter().take(kept).chain(two.frame());
            assert_eq!(decode(line), (Vec::new(), vec![two], 0));
        }
        let (_, records, damaged) = decode(one.frame().into_iter().skip(1).chain(two.frame()));
        assert_eq!((records, damaged > 0), (vec![two], true), "of one whose beginning is missing it is said");
    }

    #[test]
    fn each_wrong_bit_is_found() {
        let record = Record { kind: Kind::Runs as u8, counter: 0x1234_5678, argument: 0xe03_0000 };
        for bit in (0..FRAME_BYTES * 8).filter(|bit| bit % 8 < 6) {
            let mut frame = record.frame();
            frame[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(frame), (Vec::new(), Vec::new(), 1), "bit {bit}");
        }
        assert_eq!((record.kind(), Record { kind: 8, ..record }.kind()), (Some(Kind::Runs), None));
    }

    /// The check value of CRC-32C.
    #[test]
    fn the_crc_is_the_known_one() {
        assert_eq!(!b"123456789".iter().copied().fold(u32::MAX, crc), 0xe306_9283);
    }
}
