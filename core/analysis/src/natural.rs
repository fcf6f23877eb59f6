//! Natural numbers of any size, just enough to compare products of shares exactly.
//!
//! A product of sixteen shares with periods in nanoseconds has a thousand bits. Schoolbook steps are fast enough for
//! that, and a crate for it would be a dependency of the checker for sixty lines.

use alloc::vec::Vec;
use core::cmp::Ordering;

/// A natural number: digits to the base 2^32, the least one first, without leading zeros.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Natural(Vec<u32>);

impl Natural {
    pub(crate) fn from_u128(mut value: u128) -> Self {
        let mut digits = Vec::new();
        while value > 0 {
            digits.push(low_half(value));
            value >>= 32;
        }
        Self(digits)
    }

    pub(crate) fn plus(&self, other: &Self) -> Self {
        let length = self.0.len().max(other.0.len());
        let mut carry = 0u128;
        let mut digits = Vec::with_capacity(length + 1);
        for place in 0..length {
            let sum = carry + u128::from(self.digit(place)) + u128::from(other.digit(place));
            digits.push(low_half(sum));
            carry = sum >> 32;
        }
        digits.push(low_half(carry));
        Self(digits).trimmed()
    }

    pub(crate) fn times(&self, other: &Self) -> Self {
        let mut total = Self::default();
        for (place, digit) in self.0.iter().enumerate() {
            let mut row: Vec<u32> = core::iter::repeat_n(0, place).collect();
            let mut carry = 0u128;
            for factor in &other.0 {
                let product = carry + u128::from(*digit) * u128::from(*factor);
                row.push(low_half(product));
                carry = product >> 32;
            }
            row.push(low_half(carry));
            total = total.plus(&Self(row).trimmed());
        }
        total
    }

    fn digit(&self, place: usize) -> u32 {
        self.0.get(place).copied().unwrap_or(0)
    }

    fn trimmed(mut self) -> Self {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
        self
    }
}

/// The low 32 bits.
fn low_half(value: u128) -> u32 {
    // The mask makes the conversion exact.
    (value & u128::from(u32::MAX)) as u32
}

impl Ord for Natural {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_length = self.0.len().cmp(&other.0.len());
        by_length.then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }
}

impl PartialOrd for Natural {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::Natural;

    #[test]
    fn sums_products_and_comparisons_agree_with_128_bits() {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        for _ in 0..10_000 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let (left, right) = (u128::from(state), u128::from(state.rotate_left(23) >> (state & 31)));
            let [a, b] = [left, right].map(Natural::from_u128);
            assert_eq!(a.plus(&b), Natural::from_u128(left + right));
            assert_eq!(a.times(&b), Natural::from_u128(left * right));
            assert_eq!(a.cmp(&b), left.cmp(&right));
        }
        let large = Natural::from_u128(u128::MAX);
        let square = large.times(&large);
        // (2^128 - 1)^2 + 2^129 - 1 = 2^256.
        let whole = square.plus(&large).plus(&large).plus(&Natural::from_u128(1));
        assert_eq!(whole.0, [0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert!(square > large);
    }
}
