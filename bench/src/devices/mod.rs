//! Stock Linux with disks and network cards: its own ([`own`]), and those of another partition ([`fronts`]). What it costs is in differences of
//! two runs with different numbers of requests.

pub(crate) mod fronts;
pub(crate) mod own;

use crate::Failure;
use bulkhead_abi::observe::Counter;
use bulkhead_run::CoreCounts;

/// A run from power on to power off.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    all: u64,
    monitor: u64,
    entries: u64,
    interrupts: u64,
    /// Interrupts of Linux's own timer, as Linux counts them.
    ticks: u64,
    /// How often it had nothing to do.
    waits: u64,
}

impl Run {
    /// What a core counted, and the monitor of its partition.
    fn of(core: &CoreCounts, counter: impl Fn(Counter) -> u64, ticks: u64) -> Self {
        Self {
            all: core.all_since,
            monitor: core.range("monitor").map_or(0, |range| range.since),
            entries: counter(Counter::Exits) + counter(Counter::Hypercall) + counter(Counter::Psci),
            interrupts: counter(Counter::Interrupt),
            ticks,
            waits: core.waits,
        }
    }

    /// What it has more than a shorter one.
    fn more_than(&self, fewer: &Self) -> Self {
        Self {
            all: self.all.saturating_sub(fewer.all),
            monitor: self.monitor.saturating_sub(fewer.monitor),
            entries: self.entries.saturating_sub(fewer.entries),
            interrupts: self.interrupts.saturating_sub(fewer.interrupts),
            ticks: self.ticks.saturating_sub(fewer.ticks),
            waits: self.waits.saturating_sub(fewer.waits),
        }
    }

    /// Entries without those for ticks of Linux, which are none of a device's.
    fn without_ticks(&self) -> u64 {
        self.entries.saturating_sub(self.ticks)
    }
}

/// Reads how often the timer interrupted, in a line of `/proc/interrupts`.
fn ticks(lines: &[String]) -> Result<u64, Failure> {
    let line = lines.iter().find(|line| line.ends_with("arch_timer"));
    let count = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    count.ok_or_else(|| Failure::wrong(format!("Linux did not say how often its timer interrupted: {lines:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linux_says_how_often_its_timer_interrupted() {
        let lines = ["linux: ready", " 11:        606     GICv3  27 Level     arch_timer"].map(str::to_owned);
        assert_eq!(ticks(&lines).ok(), Some(606));
        assert!(ticks(&lines[..1]).is_err());
    }
}
