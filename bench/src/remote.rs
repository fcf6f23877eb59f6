//! Row 14: a signal from an instance of the real-time kernel to a sleeping receiver in another one, on another core.

use crate::Failure;
use crate::lab::Lab;
use crate::outcome::Found;
use bulkhead_system_tests::kernel::remote::{Signals, signals};

/// How many more signals there are in the longer of two runs.
const MORE: u64 = 1_000;

/// A tick for this many signals may be the emulator's. It ends a core's turn at dates of its own, and what the other core then executes of its component is time, and
/// no instruction of a kernel or a monitor: those are counted apart, and must be the same for each signal.
const SIGNALS_FOR_A_TICK: u64 = 10;

/// What one of them takes, from two runs that differ in their number alone.
fn each(fewer: Signals, more: Signals) -> Option<(u64, [u64; 4])> {
    let mut counts = [0; 4];
    for (count, (more, fewer)) in counts.iter_mut().zip(more.counts.into_iter().zip(fewer.counts)) {
        let difference = more.checked_sub(fewer)?;
        *count = difference.is_multiple_of(MORE).then_some(difference / MORE)?;
    }
    let ticks = more.ticks.checked_sub(fewer.ticks)?;
    (ticks % MORE <= MORE / SIGNALS_FOR_A_TICK).then_some((ticks / MORE, counts))
}

pub(crate) fn signal(lab: &Lab) -> Result<Found, Failure> {
    for file in ["kernel", "crowd"] {
        lab.guest(&format!("kernel/{file}.elf"))?;
    }
    let (mut most, mut details) = (0, Vec::new());
    for mode in ["mapped", "direct"] {
        let [fewer, more] = [MORE, 2 * MORE].map(|times| signals(mode, times));
        let (ticks, [kernel, monitor, other_kernel, other_monitor]) = each(fewer, more)
            .ok_or_else(|| Failure::wrong(format!("signals do not take the same each: {fewer:?}, {more:?}")))?;
        let wakes = ticks.saturating_sub(kernel + monitor + other_monitor);
        details.push(format!(
            "`{mode}`: sender's kernel {kernel}, monitor {monitor}; receiver's monitor {other_monitor}, kernel {wakes}, and {} to put it to sleep again, which is not in it",
            other_kernel.saturating_sub(wakes)
        ));
        most = most.max(ticks);
    }
    Ok(Found::new(most as f64, details))
}

#[cfg(test)]
mod tests {
    use super::{Signals, each};

    #[test]
    fn instructions_are_exact_and_a_turn_of_the_emulator_is_none() {
        let run = |times, ticks, counts| Signals { times, ticks, counts };
        let fewer = run(1_000, 2_520_000, [9_000, 800, 70, 6]);
        let of = |ticks, kernel| each(fewer, run(2_000, ticks, [kernel, 1_800, 2_070, 3_006]));
        assert_eq!(of(5_040_000, 19_000), Some((2_520, [10, 1, 2, 3])));
        assert_eq!(of(5_040_020, 19_000), Some((2_520, [10, 1, 2, 3])));
        assert_eq!(of(5_040_101, 19_000), None);
        // One instruction of a kernel more, in one signal.
        assert_eq!(of(5_040_000, 19_001), None);
    }
}
