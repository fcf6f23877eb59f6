//! The published quick test of a core, equation (1) of Quest-V (QV-37): `sum C_i / T_i + sum (2 - U_j) U_j <= n (2^(1/n) - 1)`.
//!
//! Shares are whole numbers of 2^-32. Each one is rounded up and each limit down, so that nothing is admitted that the equation refuses;
//! with 64 servers the sum is less than 2^-24 above the exact one. The sum is kept, and what is added is what is taken away again, so
//! it does not drift.
//!
//! It decides nothing about deadlines that the exact test does not decide better (`real-time.md` 4.1), and means nothing unless shorter
//! periods are more important.

use crate::budget::Share;

/// A whole core.
pub const ONE: u64 = 1 << 32;

/// `n (2^(1/n) - 1)` of 1 to 64 servers, in 2^-32 of a core, rounded down.
pub const LIMITS: [u64; 64] = [
    4_294_967_296,
    3_558_067_407,
    3_349_057_226,
    3_250_553_484,
    3_193_272_858,
    3_155_822_954,
    3_129_427_399,
    3_109_822_014,
    3_094_685_642,
    3_082_646_743,
    3_072_842_872,
    3_064_704_547,
    3_057_840_596,
    3_051_973_442,
    3_046_900_662,
    3_042_471_161,
    3_038_569_880,
    3_035_107_653,
    3_032_014_314,
    3_029_233_891,
    3_026_721_191,
    3_024_439_322,
    3_022_357_874,
    3_020_451_554,
    3_018_699_151,
    3_017_082_749,
    3_015_587_106,
    3_014_199_179,
    3_012_907_735,
    3_011_703_051,
    3_010_576_669,
    3_009_521_195,
    3_008_530_137,
    3_007_597_774,
    3_006_719_041,
    3_005_889_440,
    3_005_104_963,
    3_004_362_026,
    3_003_657_414,
    3_002_988_237,
    3_002_351_886,
    3_001_746_005,
    3_001_168_455,
    3_000_617_297,
    3_000_090_760,
    2_999_587_231,
    2_999_105_234,
    2_998_643_417,
    2_998_200_539,
    2_997_775_458,
    2_997_367_122,
    2_996_974_562,
    2_996_596_879,
    2_996_233_245,
    2_995_882_890,
    2_995_545_099,
    2_995_219_208,
    2_994_904_600,
    2_994_600_698,
    2_994_306_965,
    2_994_022_900,
    2_993_748_032,
    2_993_481_922,
    2_993_224_158,
];

/// Bits that one step of the division finds: what remains of a period and as many bits fit into a word.
const STEP: u32 = 8;

/// `budget / period` in 2^-32 of a core, rounded up; a budget is at most its period, and a period at most 2^56.
pub(super) fn share(budget_ticks: u64, period_ticks: u64) -> u64 {
    let (mut whole, mut rest) = (0u64, budget_ticks);
    for _ in 0..ONE.trailing_zeros() / STEP {
        let scaled = rest.wrapping_shl(STEP);
        let digit = scaled.checked_div(period_ticks).unwrap_or(0);
        rest = scaled.wrapping_sub(digit.wrapping_mul(period_ticks));
        whole = whole.wrapping_shl(STEP).wrapping_add(digit);
    }
    whole.saturating_add(u64::from(rest > 0))
}

/// `(2 - U) U` in 2^-32 of a core, rounded up: it grows with U up to a whole core, so U may be rounded up first.
fn io_share(share: Share) -> u64 {
    let used = self::share(u64::from(share.numerator), u64::from(share.denominator)).min(ONE);
    let product = u128::from(used).saturating_mul(u128::from(ONE.saturating_mul(2).saturating_sub(used)));
    u64::try_from(product.div_ceil(u128::from(ONE))).unwrap_or(u64::MAX)
}

/// The servers of an instance as the published test counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quick {
    /// The left side.
    sum: u64,
    /// Servers with a budget and a period.
    mains: u32,
}

impl Quick {
    /// No servers.
    #[must_use]
    pub const fn new() -> Self {
        Self { sum: 0, mains: 0 }
    }

    /// With a server that the host made.
    #[must_use]
    pub fn with_main(mut self, budget_ticks: u64, period_ticks: u64) -> Self {
        self.replace(0, share(budget_ticks, period_ticks));
        self
    }

    /// With a server for others that the host made.
    #[must_use]
    pub fn with_io(mut self, share: Share) -> Self {
        self.sum = self.sum.saturating_add(io_share(share));
        self
    }

    /// The left side, in 2^-32 of a core.
    #[must_use]
    pub const fn sum(&self) -> u64 {
        self.sum
    }

    /// States whether the equation holds.
    #[must_use]
    pub fn holds(&self) -> bool {
        let place = usize::try_from(self.mains.saturating_sub(1)).unwrap_or(usize::MAX);
        LIMITS.get(place).is_some_and(|limit| self.sum <= *limit)
    }

    /// States whether the equation holds when one share becomes another, or a new server comes with it.
    pub(super) fn admits(mut self, before: u64, after: u64) -> bool {
        self.replace(before, after);
        self.holds()
    }

    /// One share becomes another. A server is one that has a share.
    pub(super) fn replace(&mut self, before: u64, after: u64) {
        self.sum = self.sum.saturating_sub(before).saturating_add(after);
        let (gone, come) = (u32::from(before > 0), u32::from(after > 0));
        self.mains = self.mains.saturating_sub(gone).saturating_add(come);
    }
}
