//! What is known of a machine when all of its guests have ended: what a shared core gave to whom, and counted instructions.

use crate::error::RunError;
use crate::machine::Machine;
use crate::plugin::Counts;
use bulkhead_abi::schedule::UsagePage;
use std::time::{Duration, Instant};

impl Machine {
    /// Returns the instruction counts once no core is in the middle of a passage: when all guests are seen to have ended, the monitor's
    /// way from the last one's end to its sleep is still to come, and it may be the longest of all.
    ///
    /// # Errors
    /// When the machine was started without counting, or a passage does not end within the limit.
    pub fn final_counts(&self, limit: Duration) -> Result<Counts, RunError> {
        let begun = Instant::now();
        loop {
            let counts = self.counts()?;
            if counts.cores.iter().all(|core| core.passages.under_way == 0) {
                return Ok(counts);
            }
            if begun.elapsed() >= limit {
                return Err(self.timeout("every core to leave its monitor", limit));
            }
            std::thread::yield_now();
        }
    }

    /// Returns a shared core's accounts from after the last line that any partition printed. The monitor writes them when the
    /// core becomes idle, which is a moment after its last guest is seen to have ended, so this waits for that.
    ///
    /// # Errors
    /// When the core is not shared, or its monitor says nothing more within the limit.
    pub fn final_usage(&self, core: usize, limit: Duration) -> Result<UsagePage, RunError> {
        let observer = self.observer().ok_or_else(|| RunError::Other("the machine runs no monitor".to_owned()))?;
        let names = observer.plan().partition_names();
        let last_ticks = names.iter().filter_map(|name| self.lines(name).last().map(|line| line.time_ticks)).max();
        let last_ticks = last_ticks.unwrap_or(0);
        let begun = Instant::now();
        loop {
            if let Some(usage) = observer.usage(core).filter(|usage| usage.time_ticks > last_ticks) {
                return Ok(usage);
            }
            if begun.elapsed() >= limit {
                let what = format!("core {core} to account for all time up to its counter's {last_ticks}");
                return Err(self.timeout(&what, limit));
            }
            std::thread::yield_now();
        }
    }
}
