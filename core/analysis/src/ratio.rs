//! Exact fractions, for the quick tests of [`crate::admission`].

use crate::natural::Natural;
use core::cmp::Ordering;

/// A fraction that is not negative. Numerator and denominator have no limit of size and are not reduced.
#[derive(Clone, Debug)]
pub struct Ratio {
    numerator: Natural,
    denominator: Natural,
}

impl Ratio {
    /// `numerator / denominator`; with a denominator of zero, `numerator`, because nothing is shared out.
    #[must_use]
    pub fn new(numerator: u128, denominator: u128) -> Self {
        let divisor = greatest_common_divisor(numerator, denominator.max(1)).max(1);
        Self {
            numerator: Natural::from_u128(numerator / divisor),
            denominator: Natural::from_u128(denominator.max(1) / divisor),
        }
    }

    /// A whole number.
    #[must_use]
    pub fn whole(value: u64) -> Self {
        Self::new(u128::from(value), 1)
    }

    /// The sum of two fractions.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let left = self.numerator.times(&other.denominator);
        let right = other.numerator.times(&self.denominator);
        Self { numerator: left.plus(&right), denominator: self.denominator.times(&other.denominator) }
    }

    /// The product of two fractions.
    #[must_use]
    pub fn times(&self, other: &Self) -> Self {
        Self {
            numerator: self.numerator.times(&other.numerator),
            denominator: self.denominator.times(&other.denominator),
        }
    }

    /// The fraction to a power.
    #[must_use]
    pub fn power(&self, exponent: usize) -> Self {
        (0..exponent).fold(Self::whole(1), |product, _| product.times(self))
    }

    /// `self * unit`, rounded down: 7284 for 0.7284 in units of 10,000.
    #[must_use]
    pub fn in_units(&self, unit: u64) -> u64 {
        let holds = |value: u64| Self::whole(value) > self.times(&Self::whole(unit));
        crate::arithmetic::least(u64::MAX, holds).map_or(u64::MAX, |above| above.saturating_sub(1))
    }
}

impl PartialEq for Ratio {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Ratio {}

impl Ord for Ratio {
    fn cmp(&self, other: &Self) -> Ordering {
        self.numerator.times(&other.denominator).cmp(&other.numerator.times(&self.denominator))
    }
}

impl PartialOrd for Ratio {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn greatest_common_divisor(mut left: u128, mut right: u128) -> u128 {
    while right > 0 {
        (left, right) = (right, left % right);
    }
    left
}

#[cfg(test)]
mod tests {
    use super::Ratio;

    #[test]
    fn fractions_are_exact() {
        let third = Ratio::new(1, 3);
        assert_eq!(third.plus(&third).plus(&third), Ratio::whole(1));
        assert_eq!(Ratio::new(2, 3).power(3), Ratio::new(8, 27));
        assert!(Ratio::new(1, 3) < Ratio::new(u128::from(u64::MAX), 3 * u128::from(u64::MAX) - 1));
        assert_eq!((Ratio::new(7284, 10_000).in_units(10_000), Ratio::new(2, 3).in_units(10)), (7284, 6));
        assert_eq!(Ratio::new(0, 7).in_units(10_000), 0);
    }
}
