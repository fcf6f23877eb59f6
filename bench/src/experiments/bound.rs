//! Measured worst cases beside the bounds that were computed for them.

use super::Findings;
use super::guests::TICK_NS;
use crate::Failure;
use bulkhead_analysis::costs::RECORDED;
use bulkhead_plan::model::System;
use bulkhead_run::Machine;
use bulkhead_timing::Assumptions;

const MS: f64 = 1e6;

/// A measured worst case and its bound.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// Of what.
    pub label: String,
    /// What both count.
    pub unit: &'static str,
    /// The worst that was seen.
    pub measured: f64,
    /// The worst that can be.
    pub bound: f64,
    /// The bound is a least amount, and more is better.
    pub is_least: bool,
}

impl Bound {
    /// States whether nothing worse than the bound was seen.
    #[must_use]
    pub fn holds(&self) -> bool {
        if self.is_least { self.measured >= self.bound } else { self.measured <= self.bound }
    }

    /// How near the worst case came to the bound: 1 when it was reached.
    #[must_use]
    pub fn tightness(&self) -> f64 {
        let (small, large) = if self.is_least { (self.bound, self.measured) } else { (self.measured, self.bound) };
        if large > 0.0 { small / large } else { 1.0 }
    }

    /// As text.
    #[must_use]
    pub fn text(&self) -> String {
        let word = if self.is_least { "at least" } else { "at most" };
        format!(
            "{}: {:.3} {}, {word} {:.3}, tightness {:.2}",
            self.label,
            self.measured,
            self.unit,
            self.bound,
            self.tightness()
        )
    }
}

/// The middle of some tightness ratios; of an even number, the smaller one of the middle two.
#[must_use]
pub fn median_tightness<'a>(bounds: impl Iterator<Item = &'a Bound>) -> Option<f64> {
    let mut all: Vec<f64> = bounds.map(Bound::tightness).collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len().checked_sub(1)? / 2).copied()
}

impl Findings {
    /// Adds a worst case that is at most its bound.
    pub(crate) fn at_most(&mut self, label: impl Into<String>, unit: &'static str, measured: f64, bound: f64) {
        self.bounds.push(Bound { label: label.into(), unit, measured, bound, is_least: false });
    }

    /// Adds a worst case that is at least its bound.
    pub(crate) fn at_least(&mut self, label: impl Into<String>, unit: &'static str, measured: f64, bound: f64) {
        self.bounds.push(Bound { label: label.into(), unit, measured, bound, is_least: true });
    }
}

/// For every server of a system: its owner's longest wait, where it has a bound, and what it used of what it may.
pub(super) fn servers(findings: &mut Findings, label: &str, machine: &Machine, system: &System) -> Result<(), Failure> {
    let bounds = bulkhead_timing::bounds(system, &Assumptions::default());
    let usage = machine.final_usage(0, crate::lab::RUN_LIMIT)?;
    let elapsed_ns = usage.time_ticks * TICK_NS;
    let name = |partition: usize| system.partitions.get(partition).map_or("", |partition| partition.name.as_str());
    for core in &bounds.cores {
        for vcpu in &core.vcpus {
            let seen = usage.slots.get(vcpu.slot).map_or(0, |slot| slot.longest_blackout_ticks);
            let seen_ms = (seen * TICK_NS) as f64 / MS;
            if let Some(bound) = vcpu.blackout_ns {
                let label = format!("{label}{}, longest wait", name(vcpu.vcpu.partition));
                findings.at_most(label, "ms", seen_ms, bound as f64 / MS);
            }
        }
        for server in &core.servers {
            let used = usage.servers.get(server.number);
            let (Some((budget, period)), Some(used)) = (server.budget_and_period_ns, used) else { continue };
            // An eligible-dated server may have spent two budgets within the last period; lateness is repaid in the next one.
            let most = (elapsed_ns / period + 2) * budget;
            let used_ns = used.budgeted_ticks * TICK_NS;
            // An instruction is a tick here.
            let (overrun, latest) = (used.longest_overrun_ticks, RECORDED.timer_latency + RECORDED.longest_passage);
            // Not worst cases that a guest was made to reach, so without a ratio.
            findings.claim(
                used_ns <= most && overrun <= latest,
                format!(
                    "{label}{}, priority {}: used {:.1} ms of at most {:.1} ms in {:.1} s, overrun {overrun} of at most {latest} instructions",
                    name(server.reference.partition),
                    server.priority,
                    used_ns as f64 / MS,
                    most as f64 / MS,
                    elapsed_ns as f64 / 1e9
                ),
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Bound, median_tightness};

    fn bound(measured: f64, bound: f64, is_least: bool) -> Bound {
        Bound { label: String::new(), unit: "ms", measured, bound, is_least }
    }

    /// QV-39, SG-47: the ratio says how near the worst case came, and a broken bound is broken from either side.
    #[test]
    fn tightness_is_one_where_the_bound_is_reached() {
        assert!(bound(3.0, 4.0, false).holds() && !bound(4.1, 4.0, false).holds());
        assert!(bound(4.0, 3.0, true).holds() && !bound(2.9, 3.0, true).holds());
        assert!((bound(3.0, 4.0, false).tightness() - 0.75).abs() < 1e-9);
        assert!((bound(4.0, 3.0, true).tightness() - 0.75).abs() < 1e-9);
        let all = [bound(1.0, 10.0, false), bound(5.0, 10.0, false), bound(9.0, 10.0, false), bound(9.5, 10.0, false)];
        assert_eq!(median_tightness(all.iter()), Some(0.5));
        assert_eq!(median_tightness([].iter()), None);
    }
}
