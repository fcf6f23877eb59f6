//! The virtual bus: functions by what they are, and attacks on configuration space (H7, H11, H17).

use crate::raw::{read, write};
use bulkhead_sdk::guest_abi::guest::GUEST_ECAM;

const SPACE_BYTES: u64 = 4096;
/// Numbers of devices and functions on a bus.
const SPACES: u64 = 256;
/// Functions with number 0.
const DEVICE_STEP: u64 = 8;
const COMMAND: u64 = 0x04;
const BASE_ADDRESS_0: u64 = 0x10;
const BASE_ADDRESSES: u64 = 6;
/// Interrupt line: a byte that software may use as it likes.
const LINE: u64 = 0x3c;
/// What is not there.
const NOBODY: u64 = 0xffff_ffff;
/// Command: memory and bus mastering; memory alone.
const MEMORY_AND_MASTER: u64 = 6;
const MEMORY: u64 = 2;
const WIDTHS: [u64; 4] = [1, 2, 4, 8];
/// Widths and first places of accesses that are not aligned.
const UNALIGNED: [(u64, u64); 4] = [(2, 1), (4, 1), (4, 2), (8, 4)];
/// All ones, what switches messages on, and a frame of the interrupt controller.
const VALUES: [u64; 3] = [u64::MAX, 0x8001_0001_8001_0001, 0x0808_0040_0808_0040];

/// Configuration space of a function.
#[derive(Clone, Copy)]
pub(crate) struct Space(u64);

impl Space {
    /// Looks for functions by vendor and device.
    pub(crate) fn all(identity: u64) -> impl Iterator<Item = Self> {
        let spaces = (0..SPACES).step_by(DEVICE_STEP as usize).map(Self::numbered);
        spaces.filter(move |space| space.identity() == identity)
    }

    fn numbered(number: u64) -> Self {
        Self(GUEST_ECAM.0 + number * SPACE_BYTES)
    }

    fn identity(self) -> u64 {
        read(self.0, 4)
    }

    /// Memory answers, the function masters the bus, and its line is not silent.
    pub(crate) fn master(self) {
        write(self.0 + COMMAND, 2, MEMORY_AND_MASTER);
    }

    /// Mastering off.
    pub(crate) fn no_master(self) {
        write(self.0 + COMMAND, 2, MEMORY);
    }

    /// Where a base address register says that its registers are.
    pub(crate) fn base(self, register: u64) -> u64 {
        let place = self.0 + BASE_ADDRESS_0 + 4 * register;
        let upper = if read(place, 4) & 6 == 4 { read(place + 4, 4) << 32 } else { 0 };
        read(place, 4) & !0xf | upper
    }

    /// Adds up what identity, class, base addresses and capabilities say.
    fn digest(self) -> u64 {
        let is_fixed = |offset: &u64| !matches!(*offset, COMMAND | LINE);
        let words = (0..SPACE_BYTES).step_by(4).filter(is_fixed).map(|offset| read(self.0 + offset, 4));
        words.fold(0, |sum: u64, word| sum.rotate_left(5) ^ word)
    }

    /// Writes a base address by every width in which it can be written. What was written last is no question for the size.
    pub(crate) fn move_to(self, place: u64) {
        for register in 0..BASE_ADDRESSES {
            let at = self.0 + BASE_ADDRESS_0 + 4 * register;
            write(at & !7, 8, place | place << 32);
            (0..4).for_each(|byte| write(at + byte, 1, place >> (8 * byte) & 0xff));
            (0..4).step_by(2).for_each(|half| write(at + half, 2, place >> (8 * half) & 0xffff));
            write(at, 4, place);
        }
    }
}

/// Functions that are there.
pub(crate) fn present() -> impl Iterator<Item = Space> {
    (0..SPACES).map(Space::numbered).filter(|space| space.identity() != NOBODY)
}

/// Adds up what all functions say they are.
pub(crate) fn digest() -> u64 {
    present().fold(0, |sum: u64, space| sum.rotate_left(7) ^ space.digest())
}

/// Reads configuration space of all 256 functions, every place by every width, and writes it; also by accesses that are not aligned. Returns the accesses.
pub(crate) fn sweep() -> u64 {
    let mut accesses = 0;
    for number in 0..SPACES {
        let space = Space::numbered(number);
        let is_there = space.identity() != NOBODY;
        // What is not there remembers nothing: one value is as good as three, and one function of each device is enough for accesses that no register
        // has. That is four million exits less.
        let values = if is_there { &VALUES[..] } else { &VALUES[..1] };
        let unaligned = if is_there || number % DEVICE_STEP == 0 { &UNALIGNED[..] } else { &[] };
        for (width, first) in WIDTHS.map(|width| (width, 0)).iter().chain(unaligned) {
            // None reaches into the next function.
            for offset in (*first..=SPACE_BYTES - width).step_by(*width as usize) {
                _ = read(space.0 + offset, *width);
                values.iter().for_each(|value| write(space.0 + offset, *width, *value));
                accesses += 1 + values.len() as u64;
            }
        }
    }
    // A base address that was asked for its size says where it is again.
    present().for_each(|space| space.move_to(0));
    accesses
}
