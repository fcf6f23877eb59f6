//! Whole-number steps that every bound is made of. They saturate: a product that does not fit stands for "very much".

/// `amount / unit`, rounded up; without a unit, very much.
pub(crate) fn divide_up(amount: u64, unit: u64) -> u64 {
    if unit == 0 { u64::MAX } else { amount.div_ceil(unit) }
}

/// `amount / unit`, rounded down; without a unit, nothing.
pub(crate) fn divide_down(amount: u64, unit: u64) -> u64 {
    amount.checked_div(unit).unwrap_or(0)
}

/// `amount % unit`; without a unit, nothing.
pub(crate) fn remainder(amount: u64, unit: u64) -> u64 {
    amount.checked_rem(unit).unwrap_or(0)
}

/// `amount * numerator / denominator`, rounded up.
pub(crate) fn scale_up(amount: u64, numerator: u64, denominator: u64) -> u64 {
    let product = u128::from(amount) * u128::from(numerator);
    if denominator == 0 {
        return u64::MAX;
    }
    u64::try_from(product.div_ceil(u128::from(denominator))).unwrap_or(u64::MAX)
}

/// `amount * numerator / denominator`, rounded down.
pub(crate) fn scale_down(amount: u64, numerator: u64, denominator: u64) -> u64 {
    let product = u128::from(amount) * u128::from(numerator);
    let quotient = product.checked_div(u128::from(denominator)).unwrap_or(0);
    u64::try_from(quotient).unwrap_or(u64::MAX)
}

/// Least value in `0..=limit` for which `holds` is true, when it stays true from there on.
pub(crate) fn least(limit: u64, holds: impl Fn(u64) -> bool) -> Option<u64> {
    // Doubling first: answers are small compared with the limit.
    let mut high: u64 = 1;
    while !holds(high.min(limit)) {
        if high >= limit {
            return None;
        }
        high = high.saturating_mul(2);
    }
    let mut high = high.min(limit);
    let mut low = 0;
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Some(low)
}
