//! Numbers of a finished run, read from the pages of the components.

use crate::story::index;
use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::status::StatusPage;
use bulkhead_plan::model::Component;
use bulkhead_run::{Machine, RunError};
use bulkhead_verify_instance::summary;
use std::collections::BTreeMap;

/// Names of numbers, `COMPONENT.COUNT`, with the physical addresses that the instance thinks they have.
pub type Places = BTreeMap<String, u64>;

/// Where each number that a component keeps for the host is, by the translation tables in the bytes of the instance.
///
/// # Errors
/// When the bytes are none of an instance, or a number is in no page that its component can write.
pub fn places(bytes: &[u8], components: &[Component]) -> Result<Places, String> {
    let instance = summary(bytes).ok_or("the image of the instance cannot be read")?;
    let mut places = Places::new();
    for (component, mapped) in components.iter().zip(&instance.components) {
        for (name, address) in &component.counts {
            let page = mapped
                .pages
                .iter()
                .find(|page| page.write && address.checked_sub(page.address).is_some_and(|offset| offset < page.bytes));
            let page =
                page.ok_or_else(|| format!("`{name}` of component `{}` is in no page of its", component.name))?;
            places.insert(format!("{}.{name}", component.name), page.output + (address - page.address));
        }
    }
    Ok(places)
}

/// Numbers by their names, `COMPONENT.COUNT`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts(pub BTreeMap<String, u64>);

/// The numbers that the demonstration is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// Periods of the control loop: done, lost, and with another result than the first one.
    pub periods: u64,
    /// See [`Self::periods`].
    pub lost_periods: u64,
    /// See [`Self::periods`].
    pub wrong_results: u64,
    /// Its longest response, in ticks of the counter.
    pub worst_response_ticks: u64,
    /// Periods that the logger was told of, and those that it was not.
    pub messages: u64,
    /// See [`Self::messages`].
    pub missing_messages: u64,
    /// Rounds that the tasks of the subsystem computed, and those with another result than the first one.
    pub rounds: u64,
    /// See [`Self::rounds`].
    pub wrong_rounds: u64,
    /// How often one of them was stopped for want of budget.
    pub stops: u64,
    /// Processes that were made, those that came to their end as expected, and children of the spawner that did not, or were refused.
    pub created: u64,
    /// See [`Self::created`].
    pub ended: u64,
    /// See [`Self::created`].
    pub failed: u64,
    /// Alarms that rang at the client of the driver, and those that it asked for again.
    pub rung: u64,
    /// See [`Self::rung`].
    pub repeated: u64,
    /// How often the driver was begun again, and whether its supervisor gave it up.
    pub driver_resets: u64,
    /// See [`Self::driver_resets`].
    pub given_up: u64,
    /// How often the intruder was begun again.
    pub intruder_resets: u64,
    /// Attacks that were tried.
    pub tried: u64,
    /// Attacks that ended in another way than expected.
    pub unexpected: u64,
    /// What the intruder says that it got.
    pub succeeded: u64,
    /// Calls of one component by another.
    pub calls: u64,
}

impl Counts {
    /// Reads the numbers of an instance that is a partition.
    ///
    /// # Errors
    /// When the partition is not there, or an address is not in its RAM.
    pub fn of_partition(machine: &Machine, partition: &str, places: &Places) -> Result<Self, String> {
        let observer = machine.observer().ok_or("the machine has no monitor")?;
        let index = index(machine, partition).map_err(|error| error.to_string())?;
        let plan = observer.plan().partitions.get(index).ok_or("the image has no plan of the partition")?;
        let physical = |address: u64| {
            plan.ram().iter().find_map(|ram| {
                let offset = address.checked_sub(ram.guest.0).filter(|offset| *offset < ram.bytes)?;
                ram.physical.0.checked_add(offset)
            })
        };
        Self::read(machine, places, physical)
    }

    /// Reads the numbers of an instance on the bare board, where physical addresses are what the instance thinks they are.
    ///
    /// # Errors
    /// When an address is not in RAM.
    pub fn of_board(machine: &Machine, places: &Places) -> Result<Self, String> {
        Self::read(machine, places, Some)
    }

    fn read(machine: &Machine, places: &Places, physical: impl Fn(u64) -> Option<u64>) -> Result<Self, String> {
        let one = |(name, address): (&String, &u64)| {
            let value = physical(*address).and_then(|address| machine.ram().load_u64(PhysicalAddress(address)));
            value.map(|value| (name.clone(), value)).ok_or_else(|| format!("`{name}` is not in RAM of the instance"))
        };
        places.iter().map(one).collect::<Result<_, _>>().map(Self)
    }

    fn get(&self, name: &str) -> Result<u64, String> {
        let value = self.0.get(name).copied();
        value.ok_or_else(|| {
            let (component, count) = name.split_once('.').unwrap_or_default();
            format!("the instance has no component `{component}` that keeps a number `{count}`; the demonstration is about it")
        })
    }

    /// The numbers that the demonstration is about.
    ///
    /// # Errors
    /// When one is not there.
    pub fn named(&self) -> Result<Named, String> {
        // The intruder says nothing that is good for it, and no word of anybody ends the judge.
        let calls = self.0.iter().filter(|(name, _)| name.ends_with(".calls") && !name.starts_with("intruder."));
        Ok(Named {
            periods: self.get("loop.periods")?,
            lost_periods: self.get("loop.lost_periods")?,
            wrong_results: self.get("loop.wrong_results")?,
            worst_response_ticks: self.get("loop.worst_response_ticks")?,
            messages: self.get("logger.messages")?,
            missing_messages: self.get("logger.missing")?,
            rounds: self.get("tasks.rounds")?,
            wrong_rounds: self.get("tasks.wrong_results")?,
            stops: self.get("tasks.stops")?,
            created: self.get("spawner.created")?,
            ended: self.get("spawner.ended")?,
            failed: self.get("spawner.unexpected")?,
            rung: self.get("alarms.rung")?,
            repeated: self.get("alarms.repeated")?,
            driver_resets: self.get("keeper.resets")?,
            given_up: self.get("keeper.given_up")?,
            intruder_resets: self.get("umpire.resets")?,
            tried: self.get("umpire.tried")?,
            unexpected: self.get("umpire.unexpected")?,
            succeeded: self.get("intruder.succeeded")?,
            calls: calls.fold(0, |all, (_, count)| all.saturating_add(*count)),
        })
    }
}

/// What was found.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FlightFacts {
    /// What the components counted.
    pub counts: Named,
    /// Longest response of the loop by the analysis.
    pub bound_ns: u64,
    /// Faults and restarts of the partition: of the kernel itself.
    pub partition_faults: u64,
    /// Seconds in all.
    pub elapsed_s: f64,
}

/// Nanoseconds of a tick of the counter: on this clock it counts instructions.
const TICK_NS: u64 = 1 << super::ICOUNT_SHIFT;

impl FlightFacts {
    /// The loop's longest response.
    #[must_use]
    pub const fn worst_response_ns(&self) -> u64 {
        self.counts.worst_response_ticks.saturating_mul(TICK_NS)
    }

    /// Attacks that ended in another way than expected, and what the intruder got.
    #[must_use]
    pub const fn attacks_succeeded(&self) -> u64 {
        self.counts.unexpected.saturating_add(self.counts.succeeded)
    }
}

/// The state of the partition.
pub(super) fn status(machine: &Machine, partition: &str) -> Result<StatusPage, RunError> {
    let index = index(machine, partition)?;
    let observer = machine.observer().ok_or_else(|| RunError::Other("the machine has no monitor".to_owned()))?;
    Ok(observer.status(index))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBERS: [&str; 20] = [
        "loop.periods",
        "loop.lost_periods",
        "loop.wrong_results",
        "loop.worst_response_ticks",
        "logger.messages",
        "logger.missing",
        "tasks.rounds",
        "tasks.wrong_results",
        "tasks.stops",
        "spawner.created",
        "spawner.ended",
        "spawner.unexpected",
        "alarms.rung",
        "alarms.repeated",
        "keeper.resets",
        "keeper.given_up",
        "umpire.resets",
        "umpire.tried",
        "umpire.unexpected",
        "intruder.succeeded",
    ];

    fn counts(more: &[(&str, u64)]) -> Counts {
        let all = NUMBERS.iter().map(|name| (*name, 1)).chain(more.iter().copied());
        Counts(all.map(|(name, count)| (name.to_owned(), count)).collect())
    }

    /// CH-61: what the intruder keeps under a name that others have is not believed, and the largest word of anybody is a number like others.
    #[test]
    fn the_intruder_does_not_say_that_components_call_each_other() {
        assert_eq!(counts(&[("intruder.calls", 7)]).named().map(|named| named.calls), Ok(0));
        let most = counts(&[("loop.calls", u64::MAX), ("logger.calls", 2)]);
        assert_eq!(most.named().map(|named| named.calls), Ok(u64::MAX));
    }

    #[test]
    fn a_number_that_is_missing_is_said_by_its_name() {
        for name in NUMBERS {
            let mut counts = counts(&[]);
            counts.0.remove(name);
            let (component, count) = name.split_once('.').expect("of a component");
            let said = counts.named().expect_err("it is missing");
            assert!(said.contains(&format!("`{component}`")) && said.contains(&format!("`{count}`")), "{said}");
        }
    }
}
