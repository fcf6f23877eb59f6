//! An instance of the real-time kernel: who works on which server, and what is certain of it beside what was seen (`kernel.md` 3 and 8; QV-20 to QV-24, QV-32, QV-37, QV-38).
//!
//! Servers and bands come from the instance's own boot tables, by the kernel's own code, onto the kernel's own scheduler. What works there is made up: a
//! scenario says what arrives at threads and servers, or, without one, everything arrives at once and as often as its servers allow
//! ([`critical_instant`]), which is what `bulkhead check` computes its bounds for.
//!
//! Left out: the kernel's time, unless a change of who works is given a price; calls between components, signals and devices; claims on time that schedulers
//! hand to each other, and that they pass others over (CH-23): both are in the bounds. A scheduler in user space is taken to choose by the numbers of the
//! description. Rejected: to run the kernel's own objects with made-up programs. It would show calls too, and a scenario would be a program.

mod run;
mod worker;

use crate::event::Sink;
use crate::simulation::{Counts, Limits};
use crate::stage::{Lanes, Stage};
use bulkhead_description::scenario::{
    CheckedArrival, InstanceArrival, InstanceScenario, MadeServer, Pattern, SimulatedInstance, Target,
};
use bulkhead_kernel::rows;
use bulkhead_plan::model::InstanceServer;
use bulkhead_plan::ticks;
use bulkhead_trace::{CoreLayout, Layout, ServerLayout, SlotLayout};
use serde_json::{Value, json};
use std::io;

pub use run::InstanceRun;

/// An instance that can be run.
#[derive(Debug)]
pub struct InstanceSimulation {
    instance: SimulatedInstance,
    run: InstanceRun,
    limits: Limits,
}

impl InstanceSimulation {
    /// Prepares a scenario. `exchange_ns` is what each change of who works takes; who comes pays.
    ///
    /// # Errors
    /// A sentence, when the boot tables contradict each other, which the checks of the description do not let happen.
    pub fn new(scenario: InstanceScenario, limits: Limits, exchange_ns: u64) -> Result<Self, String> {
        let InstanceScenario { instance, arrivals, made, .. } = scenario;
        let run = InstanceRun::new(&instance, &arrivals, &made, (limits.until_ns, exchange_ns));
        let run = run.ok_or_else(|| format!("the servers of `{}` contradict each other", instance.name))?;
        Ok(Self { instance, run, limits })
    }

    /// The state.
    #[must_use]
    pub const fn state(&self) -> &InstanceRun {
        &self.run
    }

    /// Runs to a limit.
    ///
    /// # Errors
    /// When the sink cannot take an event.
    pub fn run(&mut self, sink: &mut dyn Sink) -> io::Result<Counts> {
        let mut counts = Counts::default();
        let mut events = Vec::new();
        while let Some(now) = self.run.next_ticks() {
            self.run.step(&mut events);
            for event in events.drain(..) {
                sink.event(&event)?;
                counts.events += 1;
                if counts.events == self.limits.events {
                    counts.cut_ns = Some(ticks::to_ns(now, self.instance.counter_hz));
                    counts.choices = self.run.choices();
                    return Ok(counts);
                }
            }
        }
        counts.choices = self.run.choices();
        Ok(counts)
    }

    /// What was seen of each server, for each client where it works for others: name, what is certain, the longest response.
    fn seen(&self) -> Vec<(String, &InstanceServer, Option<u64>, Option<u64>)> {
        let mut rows = Vec::new();
        for fact in &self.instance.facts {
            if fact.clients.is_empty() {
                let slots = fact.number..fact.number.saturating_add(fact.band.unwrap_or(1));
                let worst = slots.filter_map(|slot| self.run.worst_ns(slot, 0)).max();
                rows.push((fact.name.clone(), fact, fact.bound_ns, worst));
            }
            for (place, (client, bound_ns)) in fact.clients.iter().enumerate() {
                rows.push((
                    format!("{} for {client}", fact.name),
                    fact,
                    *bound_ns,
                    self.run.worst_ns(fact.number, place),
                ));
            }
        }
        rows
    }

    fn used_ns(&self, fact: &InstanceServer) -> [u64; 2] {
        let slots = fact.number..fact.number.saturating_add(fact.band.unwrap_or(1));
        let used = slots.map(|slot| self.run.usage(slot)).fold([0, 0], |[budgeted, background], usage| {
            [budgeted + usage.budgeted_ticks, background + usage.background_ticks]
        });
        used.map(|ticks| ticks::to_ns(ticks, self.instance.counter_hz))
    }
}

impl Stage for InstanceSimulation {
    fn noun(&self) -> &'static str {
        "thread"
    }

    fn lanes(&self) -> Vec<Lanes> {
        vec![Lanes {
            title: format!("instance {}", self.instance.name),
            number: 0,
            names: self.run.names().map(String::from).collect(),
            idle_ns: ticks::to_ns(self.run.idle_ticks(), self.instance.counter_hz),
        }]
    }

    fn layout(&self) -> (Layout, Vec<usize>) {
        let names: Vec<String> = self.run.names().map(String::from).collect();
        let servers = self.instance.facts.iter().flat_map(|fact| {
            (0..fact.band.unwrap_or(1)).map(move |place| ServerLayout {
                name: if fact.band.is_some() { format!("{} {place}", fact.name) } else { fact.name.clone() },
                slot: 0,
                priority: u32::from(fact.level),
                budget_ns: fact.time_ns.map(|(budget_ns, _)| budget_ns),
                period_ns: fact.time_ns.map(|(_, period_ns)| period_ns),
            })
        });
        let slots = (0..names.len()).map(|partition| SlotLayout { partition, vcpu: 0 }).collect();
        let core = CoreLayout { is_shared: true, slots, servers: servers.collect() };
        let layout = Layout {
            system: self.instance.name.clone(),
            clock: String::from("simulated time; switches cost nothing"),
            partitions: names,
            cores: vec![core],
            channels: Vec::new(),
        };
        (layout, vec![0])
    }

    fn remarks(&self) -> String {
        let head = ["server", "worst ns", "bound ns", "budget ns", "background ns"];
        let number = |value: Option<u64>| value.map_or_else(|| String::from("-"), |value| value.to_string());
        let mut rows = vec![head.map(String::from).to_vec()];
        for (name, fact, bound_ns, worst_ns) in self.seen() {
            let [used_ns, background_ns] = self.used_ns(fact);
            rows.push(vec![name, number(worst_ns), number(bound_ns), used_ns.to_string(), background_ns.to_string()]);
        }
        let table = bulkhead_files::table::table(&rows, 1, 2);
        format!("{table}  a bound is for work of a whole budget, less its smallest piece, that finds it whole\n\n")
    }

    fn facts(&self) -> String {
        let row = |(name, fact, bound_ns, worst_ns): (String, &InstanceServer, Option<u64>, Option<u64>)| {
            let [used_ns, background_ns] = self.used_ns(fact);
            json!({
                "name": name, "number": fact.number, "worst_ns": worst_ns, "bound_ns": bound_ns, "budget_ns": used_ns,
                "background_ns": background_ns,
            })
        };
        let servers: Vec<Value> = self.seen().into_iter().map(row).collect();
        format!(",\"servers\":{}", Value::from(servers))
    }
}

/// Everything at once: each server and band has work of a whole budget, less the smallest piece that is worth a switch, and again as soon as it finds its budget
/// whole; each server for others a grant for each client; and who has no budget works without end.
#[must_use]
pub fn critical_instant(instance: &SimulatedInstance) -> (Vec<InstanceArrival>, Vec<MadeServer>) {
    let (mut arrivals, mut made) = (Vec::new(), Vec::new());
    for fact in &instance.facts {
        let Some((budget_ns, period_ns)) = fact.time_ns else {
            arrivals.push(every(Target::Server(fact.number), (0, 0), None));
            continue;
        };
        if !fact.clients.is_empty() {
            arrivals.extend(grants(instance, fact));
            continue;
        }
        let mut target = Target::Server(fact.number);
        if fact.band.is_some() {
            let (name, band, end_ns) = (fact.name.clone(), made.len(), None);
            target = Target::Made(made.len());
            made.push(MadeServer { name, band, budget_ns, period_ns, at_ns: 0, end_ns });
        }
        // What is dated when it is used is back a period after that, which may be as late as the bound.
        let is_dated_by_its_use = instance.servers.get(usize::from(fact.number)).is_some_and(rows::is_dated_by_its_use);
        let late_ns = if fact.band.is_some() || is_dated_by_its_use { fact.bound_ns.unwrap_or(0) } else { 0 };
        let work_ns = budget_ns.saturating_sub(instance.smallest_ns(fact)).max(1);
        arrivals.push(every(target, (work_ns, period_ns.saturating_add(late_ns)), None));
    }
    (arrivals, made)
}

/// A grant in each period of each client.
fn grants<'a>(instance: &'a SimulatedInstance, fact: &'a InstanceServer) -> impl Iterator<Item = InstanceArrival> + 'a {
    let period_of = |name: &str| instance.facts.iter().find(|one| one.name == name)?.time_ns.map(|(_, period)| period);
    fact.clients.iter().enumerate().filter_map(move |(place, (client, _))| {
        let (grant_ns, _) = fact.time_ns?;
        let times = (grant_ns.saturating_sub(instance.smallest_ns(fact)).max(1), period_of(client)?);
        Some(every(Target::Server(fact.number), times, Some(place)))
    })
}

fn every(target: Target, (work_ns, period_ns): (u64, u64), client: Option<usize>) -> InstanceArrival {
    let pattern = if work_ns == 0 { Pattern::Busy } else { Pattern::Periodic { period_ns } };
    let (partition, vcpu, is_interrupt, offset_ns, burst, spacing_ns) = (0, 0, false, 0, 1, 0);
    let arrival =
        CheckedArrival { partition, vcpu, is_interrupt, work_ns, offset_ns, pattern, burst, spacing_ns, client };
    InstanceArrival { target, arrival }
}
