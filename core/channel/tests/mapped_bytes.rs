//! Bytes with several writers: every place and length against an array, and neighbours that stay (QV-53).

use bulkhead_channel::MappedBytes;
use std::cell::UnsafeCell;

const BYTES: usize = 64;

/// A window on the stack, aligned as pages are.
#[repr(align(8))]
struct Memory(UnsafeCell<[u8; BYTES]>);

impl Memory {
    fn new() -> Self {
        Self(UnsafeCell::new(std::array::from_fn(|at| at as u8 + 1)))
    }

    fn window(&self) -> MappedBytes<'_> {
        // SAFETY: the array lives as long as the window and is accessed through it alone, by this thread.
        unsafe { MappedBytes::new(self.0.get().cast(), BYTES) }.expect("it is aligned")
    }
}

fn content(window: &MappedBytes<'_>) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    window.read(0, &mut bytes);
    bytes
}

#[test]
fn bytes_are_copied_from_and_to_every_place() {
    for at in 0..BYTES {
        for length in 0..=BYTES - at {
            let memory = Memory::new();
            let window = memory.window();
            let mut expected = content(&window);
            assert_eq!(expected[at], at as u8 + 1);
            let mut read = vec![0; length];
            window.read(at, &mut read);
            assert_eq!(read, expected[at..at + length]);
            let written: Vec<u8> = (0..length).map(|byte| 0x80 | byte as u8).collect();
            window.write(at, &written);
            expected[at..at + length].copy_from_slice(&written);
            assert_eq!(content(&window), expected, "{length} bytes at {at}");
        }
    }
}

#[test]
fn halves_and_words_are_little_endian_and_leave_their_neighbours() {
    for at in 0..BYTES + 8 {
        let memory = Memory::new();
        let window = memory.window();
        let (mut expected, is_half, is_word) = (content(&window), at % 2 == 0 && at < BYTES, at % 4 == 0 && at < BYTES);
        let take =
            |count: usize| (0..count).rev().fold(0u32, |value, byte| value << 8 | u32::from(expected[at + byte]));
        assert_eq!(u32::from(window.load_half(at)), if is_half { take(2) } else { 0 }, "at {at}");
        assert_eq!(window.load_word(at), if is_word { take(4) } else { 0 }, "at {at}");
        window.store_half(at, 0xa1b2);
        if is_half {
            expected[at..at + 2].copy_from_slice(&[0xb2, 0xa1]);
        }
        assert_eq!(content(&window), expected, "a half at {at}");
        window.store_word(at, 0xa1b2_c3d4);
        if is_word {
            expected[at..at + 4].copy_from_slice(&[0xd4, 0xc3, 0xb2, 0xa1]);
        }
        assert_eq!(content(&window), expected, "a word at {at}");
    }
}

#[test]
fn nothing_outside_is_read_or_written() {
    let memory = Memory::new();
    let window = memory.window();
    let before = content(&window);
    let mut read = [7; 12];
    window.read(BYTES - 4, &mut read);
    assert_eq!(read, [61, 62, 63, 64, 0, 0, 0, 0, 0, 0, 0, 0]);
    for at in [BYTES, BYTES + 3, usize::MAX - 7, usize::MAX] {
        window.store_half(at, 1);
        window.store_word(at, 1);
        window.write(at, &[1]);
        assert_eq!((window.load_half(at), window.load_word(at)), (0, 0));
    }
    window.write(BYTES - 1, &[9, 9, 9]);
    assert_eq!(content(&window)[..BYTES - 1], before[..BYTES - 1]);
    assert_eq!(content(&window)[BYTES - 1], 9);
    assert!(unsafe_new(BYTES - 1).is_none() && unsafe_new(BYTES).is_some());
}

fn unsafe_new(bytes: usize) -> Option<usize> {
    let memory = Memory::new();
    // SAFETY: as in `window`; the window ends with this function.
    unsafe { MappedBytes::new(memory.0.get().cast(), bytes) }.map(|window| window.bytes())
}
