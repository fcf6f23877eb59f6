//! Stolen time: what a guest is told of the time in which it was ready and another one had the core (Arm DEN 0057A, 1.0).

/// PV_TIME_FEATURES. Guests ask for it by SMCCC_ARCH_FEATURES, too.
pub const FEATURES: u32 = 0xc500_0020;
/// PV_TIME_ST, whose answer is the guest address of the structure of the calling vCPU.
pub const PLACE: u32 = 0xc500_0021;
/// Bytes of that structure (3.2.2): revision and attributes, 32 bits each and both zero, then the stolen time; the rest is zero.
pub const BYTES: u64 = 64;
/// Offset of the stolen time: nanoseconds, written by one store of 64 bits.
pub const STOLEN_OFFSET: u64 = 8;

/// The length of a number of ticks in nanoseconds, rounded down. `tick_length` is
/// [`SchedulePlan::tick_length`](bulkhead_abi::schedule::SchedulePlan::tick_length): a product of 128 bits cannot overflow, and the
/// rounding of the length is less than 1 ns in 2^32 ticks.
#[inline(always)]
#[must_use]
pub const fn nanoseconds(ticks: u64, tick_length: u64) -> u64 {
    ((ticks as u128).wrapping_mul(tick_length as u128) >> 32) as u64
}

#[cfg(test)]
mod tests {
    use super::nanoseconds;

    /// Frequencies of counters: of QEMU, of Versal, of boards with odd crystals, of Armv8.6, and the slowest.
    const FREQUENCIES: [u64; 7] = [62_500_000, 100_000_000, 19_200_000, 24_000_000, 31_250_000, 1_000_000_000, 1];

    fn exact(ticks: u64, hz: u64) -> u128 {
        u128::from(ticks) * 1_000_000_000 / u128::from(hz)
    }

    #[test]
    fn ticks_become_nanoseconds_without_overflow() {
        for hz in FREQUENCIES {
            let length = (1_000_000_000u64 << 32) / hz;
            // Up to what 64 bits of nanoseconds hold, 584 years.
            let most = u64::try_from(u128::from(u64::MAX) * u128::from(hz) / 1_000_000_000).unwrap_or(u64::MAX);
            for ticks in (0..64).map(|bit| 1u64 << bit).flat_map(|one| [one - 1, one, one + 1]).chain([most]) {
                let ticks = ticks.min(most);
                let (found, wanted) = (u128::from(nanoseconds(ticks, length)), exact(ticks, hz));
                assert!(found <= wanted && wanted - found <= u128::from(ticks >> 32) + 1, "{ticks} at {hz} Hz");
                assert!(nanoseconds(ticks.saturating_sub(1), length) <= nanoseconds(ticks, length), "never back");
            }
        }
    }

    #[test]
    fn a_tick_of_whole_nanoseconds_is_exact() {
        let length = (1_000_000_000u64 << 32) / 62_500_000;
        for ticks in [0, 1, 62_500_000, u64::MAX / 16] {
            assert_eq!(nanoseconds(ticks, length), ticks * 16);
        }
    }
}
