//! Health policies and watchdogs.

use super::Resolver;
use super::partition::{is_direct, span};
use crate::code::Code;
use crate::decode::{Duration, Located};
use crate::description::{DmaFaults, Health, OnFault, Partition};
use crate::diagnostic::Diagnostic;
use crate::unit::format_duration;
use bulkhead_abi::plan::MAX_RESTARTS;
use bulkhead_plan::model::{DeviceEvents, HealthPolicy};

/// Wait before a restart when the description does not say.
const DEFAULT_BACKOFF_NS: u64 = 10_000_000;
/// Watchdog periods that the monitor can keep: below, its own sampling would be the load; above, it is no watchdog.
const WATCHDOG_NS: std::ops::RangeInclusive<u64> = 1_000_000..=600_000_000_000;
/// Times between two looks at the SMMU's events: below, looking would be the load; above, nobody could tell what an event belongs to.
const DMA_POLL_NS: std::ops::RangeInclusive<u64> = 1_000_000..=60_000_000_000;

impl Resolver<'_> {
    /// Resolves what the partition does about DMA of its functions that the SMMU stopped.
    pub(super) fn device_events(&mut self, partition: &Partition) -> Option<DeviceEvents> {
        let health = partition.health.as_ref()?;
        let name = &partition.name.value;
        let Some(poll) = &health.dma_poll else {
            let faults = health.dma_faults.as_ref()?;
            let message = "`dma_faults` needs `dma_poll`: what nobody looks at is neither counted nor a fault";
            let diagnostic = Diagnostic::new(Code::KeyNeeded, message).at(faults.span, "");
            self.push(diagnostic.help("add for example `dma_poll = \"10 ms\"`"));
            return None;
        };
        if !self.description.pci.iter().any(|function| function.partition.value == *name) {
            self.does_not_apply(Some(poll.span), "dma_poll", "a partition without PCI functions");
            return None;
        }
        if let Some(interrupts) = partition.interrupts.as_ref().filter(|_| is_direct(partition)) {
            let message = format!("partition `{name}` has direct interrupts and looks at DMA events");
            let why = "on a core with direct interrupts the monitor has no timer interrupt of its own";
            let diagnostic = Diagnostic::new(Code::DirectDmaPoll, message).at(poll.span, "cannot be kept");
            let diagnostic = diagnostic.at(interrupts.span, "the guest owns the interrupts of its core").note(why);
            self.push(diagnostic.help("leave it out: the SMMU confines its functions all the same"));
            return None;
        }
        let look_ns = self.duration(poll)?;
        if !DMA_POLL_NS.contains(&look_ns) {
            let message = format!("a partition cannot look at DMA events every {}", format_duration(look_ns));
            self.push(Diagnostic::new(Code::BadDmaPoll, message).at(poll.span, "expected 1 ms to 1 min"));
            return None;
        }
        let are_faults = health.dma_faults.as_ref().is_some_and(|word| word.value == DmaFaults::Fault);
        Some(DeviceEvents { look_ns: Some(look_ns), are_faults })
    }

    /// Resolves the health policy.
    pub(super) fn health(&mut self, partition: &Partition) -> Option<HealthPolicy> {
        let Some(health) = &partition.health else {
            return Some(HealthPolicy::Stop);
        };
        self.health_policy(&format!("partition `{}`", partition.name.value), health)
    }

    /// Resolves a written policy; `who` is whose it is.
    pub(super) fn health_policy(&mut self, who: &str, health: &Located<Health>) -> Option<HealthPolicy> {
        let policy = match health.on_fault.value {
            OnFault::Restart => return self.restart(who, health),
            OnFault::Halt => HealthPolicy::Halt,
            OnFault::Stop => HealthPolicy::Stop,
        };
        let beside = format!("`on_fault = \"{}\"`", health.on_fault.word());
        self.does_not_apply(span(&health.max), "max", &beside);
        self.does_not_apply(span(&health.within), "within", &beside);
        self.does_not_apply(span(&health.backoff), "backoff", &beside);
        Some(policy)
    }

    fn restart(&mut self, who: &str, health: &Located<Health>) -> Option<HealthPolicy> {
        let (Some(max), Some(within)) = (&health.max, &health.within) else {
            let message = format!("{who} may be restarted without end");
            let why = "what fails at once would be restarted for ever and never be reported as stopped";
            let diagnostic =
                Diagnostic::new(Code::RestartWithoutLimit, message).at(health.span, "needs `max` and `within`");
            self.push(
                diagnostic.note(why).help("for example `{ on_fault = \"restart\", max = 3, within = \"10 s\" }`"),
            );
            return None;
        };
        let within_ns = self.duration(within);
        let backoff_ns = match &health.backoff {
            Some(backoff) => self.duration(backoff),
            None => Some(DEFAULT_BACKOFF_NS),
        };
        let count = u32::try_from(max.value).ok().filter(|max| *max > 0);
        if count.is_none() {
            let message = format!("`max = {}` is not a number of restarts", max.value);
            let diagnostic =
                Diagnostic::new(Code::LimitZero, message).at(max.span, format!("expected 1 to {MAX_RESTARTS}"));
            self.push(diagnostic.help("`on_fault = \"stop\"` means no restart"));
        }
        if count.is_some_and(|count| count > MAX_RESTARTS) {
            let message = format!("`max = {}` is more restarts than the monitor remembers", max.value);
            let diagnostic =
                Diagnostic::new(Code::LimitTooLarge, message).at(max.span, format!("expected 1 to {MAX_RESTARTS}"));
            self.push(diagnostic.help("choose a shorter `within` and fewer restarts in it"));
            return None;
        }
        if within_ns == Some(0) {
            self.push(
                Diagnostic::new(Code::LimitZero, "`within` of zero limits nothing").at(within.span, "expected a time"),
            );
            return None;
        }
        let (max, within_ns, backoff_ns) = (count?, within_ns?, backoff_ns?);
        if backoff_ns.saturating_mul(u64::from(max)) >= within_ns {
            self.never_reached(max, within, within_ns, health.backoff.as_ref(), backoff_ns);
        }
        Some(HealthPolicy::Restart { max, within_ns, backoff_ns })
    }

    /// Warns of a limit that the back-off keeps from being reached.
    fn never_reached(
        &mut self,
        max: u32,
        within: &Located<Duration>,
        within_ns: u64,
        backoff: Option<&Located<Duration>>,
        backoff_ns: u64,
    ) {
        let message = format!("the limit of {max} restarts within {} can never be reached", format_duration(within_ns));
        let note = format!("{max} restarts with a wait of {} before each take longer", format_duration(backoff_ns));
        let place = backoff.map_or(within.span, |backoff| backoff.span);
        let diagnostic = Diagnostic::new(Code::LimitNeverReached, message).at(place, "").note(note);
        self.push(diagnostic.help("lower `backoff` or raise `within`"));
    }

    /// Resolves the watchdog: `None` for a bad one.
    pub(super) fn watchdog(&mut self, partition: &Partition) -> Option<Option<u64>> {
        let Some(watchdog) = &partition.watchdog else {
            return Some(None);
        };
        let period_ns = self.duration(watchdog)?;
        if !WATCHDOG_NS.contains(&period_ns) {
            let message = format!("a watchdog cannot have a period of {}", format_duration(period_ns));
            self.push(Diagnostic::new(Code::BadWatchdog, message).at(watchdog.span, "expected 1 ms to 10 min"));
            return None;
        }
        Some(Some(period_ns))
    }
}
