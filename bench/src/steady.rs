//! Exits in steady state: two runs on a virtual clock that differ in length alone, and what the longer one adds.

use crate::Failure;
use crate::lab::{Lab, Variant, partition_lines};
use crate::outcome::Found;
use bulkhead_abi::observe::{COUNTER_NAMES, Counter};

/// Counters of one partition at the end of a run, and what it printed.
fn counters(lab: &Lab, partition: &str, variant: Variant<'_>) -> Result<(Vec<u64>, Vec<String>), Failure> {
    let machine = lab.run(variant, |options| options.icount_shift = Some(0))?;
    let observer = machine.observer().ok_or_else(|| Failure::wrong("the machine has no monitor".to_owned()))?;
    let index = observer.plan().partition_named(partition);
    let index = index.ok_or_else(|| Failure::wrong(format!("there is no partition {partition}")))?;
    let values = COUNTER_NAMES.iter().map(|(counter, _)| observer.partition_counter(index, *counter));
    Ok((values.collect(), partition_lines(&machine, partition)))
}

/// What the longer run has more, and the version that the guest printed, if it printed one.
struct Added(Vec<u64>, Option<String>);

impl Added {
    fn between(shorter: &[u64], longer: &[u64], printed: &[String]) -> Self {
        let more = longer.iter().zip(shorter).map(|(long, short)| long.saturating_sub(*short)).collect();
        Self(more, printed.iter().find(|line| line.contains("FreeRTOS V") || line.ends_with("says hello")).cloned())
    }

    fn of(&self, counter: Counter) -> u64 {
        let all = COUNTER_NAMES.iter().zip(&self.0);
        all.filter(|((known, _), _)| *known == counter).map(|(_, more)| *more).sum()
    }

    /// Exits and calls together: everything that enters the monitor.
    fn entries(&self) -> u64 {
        self.of(Counter::Exits) + self.of(Counter::Hypercall) + self.of(Counter::Psci)
    }

    fn details(&self) -> Vec<String> {
        let all = COUNTER_NAMES.iter().zip(&self.0).filter(|(_, more)| **more != 0);
        let parts: Vec<String> = all.map(|((_, name), more)| format!("{name} {more}")).collect();
        let moved = if parts.is_empty() { "no counter moved".to_owned() } else { parts.join(", ") };
        std::iter::once(moved).chain(self.1.clone()).collect()
    }
}

/// What two runs of a partition differ by.
fn added(lab: &Lab, partition: &str, shorter: Variant<'_>, longer: Variant<'_>) -> Result<Added, Failure> {
    let ((shorter, _), (longer, printed)) = (counters(lab, partition, shorter)?, counters(lab, partition, longer)?);
    Ok(Added::between(&shorter, &longer, &printed))
}

/// Entries beyond one for each physical interrupt and one for each SGI sent. Zero means: none for an end of interrupt,
/// none for anything else.
fn beyond_interrupts(added: &Added, least_interrupts: u64) -> Result<Found, Failure> {
    at_least(added, Counter::Interrupt, least_interrupts, "interrupts in 10 s")?;
    Ok(beyond(added))
}

/// A guest that does nothing shows nothing.
fn at_least(added: &Added, counter: Counter, least: u64, what: &str) -> Result<(), Failure> {
    let seen = added.of(counter);
    if seen < least { Err(Failure::wrong(format!("only {seen} {what}, expected {least} or more"))) } else { Ok(()) }
}

fn beyond(added: &Added) -> Found {
    let expected = added.of(Counter::Interrupt) + added.of(Counter::SendSgi);
    Found::new(added.entries().saturating_sub(expected) as f64, added.details())
}

/// 100 periods a second, `direct`.
pub(crate) fn direct(lab: &Lab) -> Result<Found, Failure> {
    let shorter = Variant { name: "control", changes: &[] };
    let longer = Variant { name: "control", changes: &[("periods=1000", "periods=2000")] };
    let added = added(lab, "control", shorter, longer)?;
    Ok(Found::new(added.entries() as f64, added.details()))
}

/// The same, `mapped`.
pub(crate) fn mapped(lab: &Lab) -> Result<Found, Failure> {
    let mode = ("interrupts = \"direct\"", "interrupts = \"mapped\"");
    let shorter = Variant { name: "control", changes: &[mode] };
    let longer = Variant { name: "control", changes: &[mode, ("periods=1000", "periods=2000")] };
    beyond_interrupts(&added(lab, "control", shorter, longer)?, 1000)
}

/// 1000 ticks of a kernel whose processes call it and whose page tables change all the time.
pub(crate) fn process(lab: &Lab) -> Result<Found, Failure> {
    let mut all = Found::new(0.0, Vec::new());
    for mode in ["direct", "mapped"] {
        let mode_line = format!("interrupts = \"{mode}\"");
        let mode_change = ("interrupts = \"direct\"", mode_line.as_str());
        let shorter = Variant { name: "process", changes: &[mode_change] };
        let longer = Variant { name: "process", changes: &[mode_change, ("ticks=100", "ticks=1100")] };
        let ((shorter, _), (longer, printed)) = (counters(lab, "kernel", shorter)?, counters(lab, "kernel", longer)?);
        let added = Added::between(&shorter, &longer, &printed);
        let did = printed.iter().find(|line| line.starts_with("process ticks=1100 ") && line.ends_with(" wrong=0"));
        let did = did.ok_or_else(|| Failure::wrong(format!("the kernel did not do its work: {printed:?}")))?;
        let found = match mode {
            "direct" => Found::new(added.entries() as f64, added.details()),
            _ => beyond_interrupts(&added, 1000)?,
        };
        all.value += found.value;
        all.details.push(format!("{mode}: {did}"));
        all.details.extend(found.details);
    }
    Ok(all)
}

/// A thousand SGIs to the own core, for which no interrupt comes to the monitor.
pub(crate) fn own_sgi(lab: &Lab) -> Result<Found, Failure> {
    let shorter = Variant { name: "sgi", changes: &[] };
    let longer = Variant { name: "sgi", changes: &[("samples=1000", "samples=2000")] };
    let added = added(lab, "bench", shorter, longer)?;
    at_least(&added, Counter::SendSgi, 1000, "software-generated interrupts")?;
    Ok(beyond(&added))
}

/// 1000 ticks a second; both runs print one line of the same length.
pub(crate) fn rtos(lab: &Lab) -> Result<Found, Failure> {
    let shorter = Variant { name: "rtos", changes: &[] };
    let longer = Variant { name: "rtos", changes: &[("every=1000", "every=2000")] };
    beyond_interrupts(&added(lab, "rtos", shorter, longer)?, 10_000)
}

/// Linux that sleeps.
pub(crate) fn linux(lab: &Lab) -> Result<Found, Failure> {
    let run = "bulkhead.run=echo,stamp>/dev/kmsg;dmesg|tail,-n1";
    let shorter = Variant { name: "linux", changes: &[(run, "bulkhead.run=sleep,10")] };
    let longer = Variant { name: "linux", changes: &[(run, "bulkhead.run=sleep,20")] };
    beyond_interrupts(&added(lab, "linux", shorter, longer)?, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(values: &[(Counter, u64)]) -> Added {
        let value = |counter| values.iter().filter(|(known, _)| *known == counter).map(|(_, value)| *value).sum();
        Added(COUNTER_NAMES.iter().map(|(counter, _)| value(*counter)).collect(), None)
    }

    #[test]
    fn an_exit_at_the_end_of_an_interrupt_shows() {
        let added = with(&[(Counter::Exits, 25), (Counter::Interrupt, 10), (Counter::SendSgi, 5)]);
        assert_eq!(beyond_interrupts(&added, 10).map(|found| found.value), Ok(10.0));
        assert!(beyond_interrupts(&added, 11).is_err(), "a guest that does nothing shows nothing");
    }

    #[test]
    fn calls_count_as_entries() {
        assert_eq!(with(&[(Counter::Exits, 1), (Counter::Hypercall, 2), (Counter::Psci, 4)]).entries(), 7);
    }
}
