//! Quick tests of a whole core (`real-time.md` 4.1; QV-37). Information beside the verdict, never the verdict.
//!
//! Equation (1) of Quest-V refuses the seed's own experiment (UT-02) and accepts systems that miss under the published PIBS
//! rule (PIBS-03), so nobody should decide by it. All of it is computed with exact fractions: UT-01 lies a few thousandths
//! below its limit, and n(2^(1/n) - 1) is not a fraction at all, so both sides are raised to the n-th power.

use crate::ratio::Ratio;

/// Share of a server for work on behalf of others, as it counts in equation (1): `(2 - U) * U`.
#[must_use]
pub fn io_share(numerator: u64, denominator: u64) -> Ratio {
    let (numerator, denominator) = (u128::from(numerator), u128::from(denominator));
    let double = denominator.saturating_mul(2).saturating_sub(numerator);
    Ratio::new(double, denominator).times(&Ratio::new(numerator, denominator))
}

/// The sum of shares.
#[must_use]
pub fn sum(shares: &[Ratio]) -> Ratio {
    shares.iter().fold(Ratio::whole(0), |sum, share| sum.plus(share))
}

/// Liu and Layland for `count` servers with this sum: `sum <= n(2^(1/n) - 1)`, as `(sum/n + 1)^n <= 2`.
#[must_use]
pub fn liu_layland(total: &Ratio, count: usize) -> bool {
    let Ok(number) = u128::try_from(count.max(1)) else { return false };
    let base = total.times(&Ratio::new(1, number)).plus(&Ratio::whole(1));
    base.power(count.max(1)) <= Ratio::whole(2)
}

/// `n(2^(1/n) - 1)` in ten-thousandths, rounded down: what equation (1) compares with, for printing.
#[must_use]
pub fn liu_layland_limit_in_ten_thousandths(count: usize) -> u64 {
    let exceeds = |value: u64| !liu_layland(&Ratio::new(u128::from(value), 10_000), count);
    crate::arithmetic::least(10_001, exceeds).map_or(10_000, |above| above.saturating_sub(1))
}

/// Hyperbolic test: `prod(1 + U_i) <= 2`.
#[must_use]
pub fn hyperbolic(shares: &[Ratio]) -> bool {
    product_of_one_plus(shares) <= Ratio::whole(2)
}

fn product_of_one_plus(shares: &[Ratio]) -> Ratio {
    shares.iter().fold(Ratio::whole(1), |product, share| product.times(&share.plus(&Ratio::whole(1))))
}

/// Left side of equation (1): main servers as budget by period, servers for others as [`io_share`].
#[must_use]
pub fn equation_one(mains: &[Ratio], io_shares: &[Ratio]) -> Ratio {
    sum(mains).plus(&sum(io_shares))
}

/// Hyperbolic form of equation (1), strictly better: for every main server in the order of priorities,
/// `prod of those above (1 + U) * (1 + U_i + sum (2 - U_j)U_j) <= 2`.
#[must_use]
pub fn equation_one_hyperbolic(mains: &[Ratio], io_shares: &[Ratio]) -> bool {
    let others = sum(io_shares);
    let mut above = Ratio::whole(1);
    for share in mains {
        let one_more = share.plus(&Ratio::whole(1));
        if above.times(&one_more.plus(&others)) > Ratio::whole(2) {
            return false;
        }
        above = above.times(&one_more);
    }
    true
}

/// One deferrable server above everything: `prod(1 + U_i) <= (U_s + 2) / (2 U_s + 1)` (DS-03).
#[must_use]
pub fn below_a_deferrable_server(server: &Ratio, shares: &[Ratio]) -> bool {
    let two = Ratio::whole(2);
    product_of_one_plus(shares).times(&server.times(&two).plus(&Ratio::whole(1))) <= server.plus(&two)
}
