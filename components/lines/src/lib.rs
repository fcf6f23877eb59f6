//! What threads of callers and the thread of a driver leave for each other in memory of the driver's component. None of them waits for another, and one
//! that vanishes at any instruction (its component was ended while it was inside) holds up nobody (`kernel.md` 5, 9; CH-8).
//!
//! [`Lines`] has a fixed number of records of [`LINE_BYTES`] each. A caller takes a free one by one exchange, fills it, and gives it to the driver by another
//! one; the driver takes those that are full in the order of their tickets. A record whose caller vanished in between is taken back when it has
//! stayed so for the time that the driver gives, which [`Watch`] remembers: so what is lost is that line, and one place for that long. Somebody who was only slow is
//! told `Late` instead of being printed; if his place was taken by then, a line that is being written can have bytes of his.
//!
//! Rejected: *a lock that callers take*, because who is ended inside would keep it, and *a ring*, because a caller of little importance who has taken
//! the next place and does not run would hold up all who came later.
//!
//! [`Typed`] is a ring from the driver to any reader.
#![no_std]
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a line at most.
pub const LINE_BYTES: usize = 48;
/// Words of a line, the first byte lowest.
pub const LINE_WORDS: usize = LINE_BYTES / 8;
/// Lines that can wait.
pub const LINES: usize = 16;

/// A record is free, or its ticket is in bits 63:16, its length in 15:8 and one of these in 7:0.
const FREE: u64 = 0;
const TAKEN: u64 = 1;
const FULL: u64 = 2;

/// Why a line was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is empty, or longer than [`LINE_BYTES`].
    Length,
    /// All records are in use.
    Full,
    /// The driver took the record back meanwhile.
    Late,
}

/// One line.
#[derive(Debug)]
struct Line {
    state: AtomicU64,
    words: [AtomicU64; LINE_WORDS],
}

impl Line {
    const fn new() -> Self {
        Self { state: AtomicU64::new(FREE), words: [const { AtomicU64::new(0) }; LINE_WORDS] }
    }
}

/// A text of at most [`LINE_BYTES`] bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text {
    words: [u64; LINE_WORDS],
    length: usize,
}

impl Text {
    /// Its bytes.
    pub fn bytes(&self) -> impl Iterator<Item = u8> + use<> {
        self.words.into_iter().flat_map(u64::to_le_bytes).take(self.length)
    }
}

/// When the driver saw each record taken first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Watch([(u64, u64); LINES]);

/// Lines that wait for the driver.
#[derive(Debug)]
pub struct Lines {
    records: [Line; LINES],
    /// The next ticket.
    next: AtomicU64,
}

impl Default for Lines {
    fn default() -> Self {
        Self::new()
    }
}

impl Lines {
    /// None waits.
    #[must_use]
    pub const fn new() -> Self {
        Self { records: [const { Line::new() }; LINES], next: AtomicU64::new(1) }
    }

    /// Leaves a text of `length` bytes for the driver.
    ///
    /// # Errors
    /// [`Refusal`]; then nothing of it is printed.
    pub fn put(&self, length: u64, words: [u64; LINE_WORDS]) -> Result<(), Refusal> {
        let Ok(length @ 1..=LINE_BYTES) = usize::try_from(length) else { return Err(Refusal::Length) };
        let (record, taken) = self.reserve().ok_or(Refusal::Full)?;
        record.words.iter().zip(words).for_each(|(slot, word)| slot.store(word, Ordering::Relaxed));
        let full = taken ^ TAKEN | (length as u64) << 8 | FULL;
        // What was stored is there for who sees the record full.
        match record.state.compare_exchange(taken, full, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => Ok(()),
            Err(_) => Err(Refusal::Late),
        }
    }

    /// A free record, taken by a ticket of its own: one look at each.
    fn reserve(&self) -> Option<(&Line, u64)> {
        let taken = self.next.fetch_add(1, Ordering::Relaxed) << 16 | TAKEN;
        let is_mine =
            |line: &&Line| line.state.compare_exchange(FREE, taken, Ordering::Acquire, Ordering::Relaxed).is_ok();
        Some((self.records.iter().find(is_mine)?, taken))
    }

    /// The oldest line that is complete; for the driver's one thread.
    pub fn take(&self) -> Option<Text> {
        let mut oldest = self.oldest()?;
        // Older ones may have been completed while the records were looked at, those of one caller in their order: until nothing changes.
        for _ in 0..LINES {
            let again = self.oldest()?;
            if core::ptr::eq(again, oldest) {
                break;
            }
            oldest = again;
        }
        let words =
            core::array::from_fn(|index| oldest.words.get(index).map_or(0, |word| word.load(Ordering::Relaxed)));
        let length = (oldest.state.load(Ordering::Relaxed) >> 8 & 0xff) as usize;
        oldest.state.store(FREE, Ordering::Release);
        Some(Text { words, length })
    }

    /// The full record with the smallest ticket, of those that are seen in one pass.
    fn oldest(&self) -> Option<&Line> {
        let seen = self.records.iter().map(|line| (line.state.load(Ordering::Acquire), line));
        let full = seen.filter(|(state, _)| state & 0xff == FULL);
        full.min_by_key(|(state, _)| *state).map(|(_, line)| line)
    }

    /// Takes records back whose callers have had them for longer than `most_ticks`; returns how many.
    pub fn take_back(&self, watch: &mut Watch, now_ticks: u64, most_ticks: u64) -> u64 {
        let mut count = 0;
        for (line, (seen, since)) in self.records.iter().zip(&mut watch.0) {
            let state = line.state.load(Ordering::Relaxed);
            if state & 0xff != TAKEN || state != *seen {
                (*seen, *since) = (state, now_ticks);
            } else if now_ticks.saturating_sub(*since) > most_ticks {
                let is_back = line.state.compare_exchange(state, FREE, Ordering::Relaxed, Ordering::Relaxed).is_ok();
                count += u64::from(is_back);
            }
        }
        count
    }
}

/// Bytes that can wait for a reader.
pub const TYPED_BYTES: usize = 64;
/// Most bytes of one answer: the lowest byte of the word is how many there are.
pub const PIECE_BYTES: usize = 7;

/// What was typed, from the driver's thread to any reader.
#[derive(Debug)]
pub struct Typed {
    /// A byte each.
    bytes: [AtomicU64; TYPED_BYTES],
    written: AtomicU64,
    read: AtomicU64,
}

impl Default for Typed {
    fn default() -> Self {
        Self::new()
    }
}

impl Typed {
    /// Nothing was.
    #[must_use]
    pub const fn new() -> Self {
        Self { bytes: [const { AtomicU64::new(0) }; TYPED_BYTES], written: AtomicU64::new(0), read: AtomicU64::new(0) }
    }

    /// Adds a byte; false when nobody has read for so long that there is no room.
    pub fn push(&self, byte: u8) -> bool {
        let written = self.written.load(Ordering::Relaxed);
        let is_full = written.wrapping_sub(self.read.load(Ordering::Acquire)) >= TYPED_BYTES as u64;
        if let Some(slot) = self.bytes.get(place(written)).filter(|_| !is_full) {
            slot.store(byte.into(), Ordering::Relaxed);
            self.written.store(written.wrapping_add(1), Ordering::Release);
        }
        !is_full
    }

    /// Takes up to [`PIECE_BYTES`] bytes: how many in the lowest byte, the first one above it. 0 when there are none, or when another reader was faster.
    pub fn piece(&self) -> u64 {
        let read = self.read.load(Ordering::Relaxed);
        let waiting = self.written.load(Ordering::Acquire).wrapping_sub(read);
        let count = waiting.min(PIECE_BYTES as u64);
        let mut word = count;
        for number in 0..count {
            let slot = self.bytes.get(place(read.wrapping_add(number)));
            word |= slot.map_or(0, |slot| slot.load(Ordering::Relaxed) & 0xff) << (8 * (number + 1));
        }
        match self.read.compare_exchange(read, read.wrapping_add(count), Ordering::Release, Ordering::Relaxed) {
            Ok(_) => word,
            Err(_) => 0,
        }
    }
}

/// Where the byte of this number is.
const fn place(number: u64) -> usize {
    (number % TYPED_BYTES as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::{LINE_WORDS, LINES, Lines, Refusal, Watch};
    use core::sync::atomic::Ordering;

    fn put(lines: &Lines) -> Result<(), Refusal> {
        lines.put(8, [0x6161_6161_6161_6161; LINE_WORDS])
    }

    /// One that was ended between its two exchanges costs its line, and one place for as long as the driver says.
    #[test]
    fn the_place_of_a_caller_that_vanished_comes_back() {
        let (lines, mut watch) = (Lines::new(), Watch::default());
        assert!(lines.reserve().is_some());
        assert_eq!((put(&lines), lines.take().is_some(), lines.take()), (Ok(()), true, None), "it holds up nobody");
        assert_eq!(lines.take_back(&mut watch, 100, 50), 0, "seen for the first time");
        assert_eq!(lines.take_back(&mut watch, 150, 50), 0);
        assert_eq!(lines.take_back(&mut watch, 151, 50), 1);
        (0..LINES).for_each(|_| assert_eq!(put(&lines), Ok(())));
        assert_eq!(put(&lines), Err(Refusal::Full));
        // Those that are full belong to the driver.
        assert_eq!((lines.take_back(&mut watch, 1000, 50), lines.take_back(&mut watch, 2000, 50)), (0, 0));
    }

    /// One that was slow, and whose place was given to another, is told so.
    #[test]
    fn who_is_late_gives_nothing_to_the_driver() {
        let (lines, mut watch) = (Lines::new(), Watch::default());
        let (record, taken) = lines.reserve().expect("a place");
        assert_eq!((lines.take_back(&mut watch, 0, 50), lines.take_back(&mut watch, 51, 50)), (0, 1));
        let other = lines.reserve().expect("the place of the first one");
        assert!(core::ptr::eq(record, other.0));
        assert!(record.state.compare_exchange(taken, 0, Ordering::Relaxed, Ordering::Relaxed).is_err());
        assert_eq!(lines.take(), None);
    }
}
