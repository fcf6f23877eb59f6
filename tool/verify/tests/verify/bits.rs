//! One changed bit, anywhere in an image, is refused (QV-3; A14 of docs/base-findings.md): every byte is covered by a checksum, by a comparison
//! or by the rule that it is zero.

use crate::support::{Editor, verify_bytes};
use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};

/// Places tried in each of the two images.
const PLACES: usize = 5_000;

/// Flips one bit at each place, one after the other, and returns the places that were accepted.
fn accepted(bytes: &mut [u8], places: impl Iterator<Item = (usize, u8)>) -> Vec<String> {
    let mut accepted = Vec::new();
    for (place, bit) in places {
        bytes[place] ^= 1 << bit;
        if verify_bytes(bytes).is_accepted() {
            accepted.push(format!("bit {bit} of byte {place:#x}"));
        }
        bytes[place] ^= 1 << bit;
    }
    accepted
}

/// One place in each page, so that nothing small is left out, then places anywhere.
fn places(length: usize, seed: u8) -> impl Iterator<Item = (usize, u8)> {
    let mut random = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
    let pages = length / 4096;
    (0..PLACES).map(move |index| {
        let number = random.next_u64();
        let place = match index < pages {
            true => index * 4096 + (number >> 8) as usize % 4096,
            false => (number >> 8) as usize % length,
        };
        (place, (number & 7) as u8)
    })
}

fn refuse_every_bit(image: Editor, seed: u8) {
    let mut bytes = image.finish();
    assert!(verify_bytes(&bytes).is_accepted());
    let length = bytes.len();
    let accepted = accepted(&mut bytes, places(length, seed));
    assert!(accepted.is_empty(), "{} of {PLACES} accepted: {accepted:?}", accepted.len());
}

#[test]
fn five_thousand_flipped_bits_are_refused_each() {
    refuse_every_bit(Editor::demo(), 14);
}

#[test]
fn five_thousand_flipped_bits_of_an_image_with_shared_cores_are_refused_each() {
    refuse_every_bit(Editor::shared(), 15);
}
