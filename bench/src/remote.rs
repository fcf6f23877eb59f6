//! Row 14: a signal from an instance of the real-time kernel to a sleeping receiver in another one, on another core.

use crate::Failure;
use crate::lab::Lab;
use crate::outcome::Found;
use bulkhead_system_tests::kernel::remote::{Signals, signals};

/// How many more signals there are in the longer of two runs.
const MORE: u64 = 1_000;

/// What one of them takes, from two runs that differ in their number alone.
fn each(fewer: Signals, more: Signals) -> Option<(u64, [u64; 4])> {
    let each = |more: u64, fewer: u64| {
        let difference = more.checked_sub(fewer)?;
        difference.is_multiple_of(MORE).then_some(difference / MORE)
    };
    let mut counts = [0; 4];
    for (count, (more, fewer)) in counts.iter_mut().zip(more.counts.into_iter().zip(fewer.counts)) {
        *count = each(more, fewer)?;
    }
    Some((each(more.ticks, fewer.ticks)?, counts))
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
