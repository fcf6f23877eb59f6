//! Measured worst cases: the numbers to be put beside computed bounds.
//!
//! All of them are *observed*: a bound is refuted by a larger measurement, and never proved by a smaller one. What is not
//! seen whole is not counted as a response. A wait that the end of the trace cuts off counts with what was seen of it:
//! a vCPU that starves must not look as if it had never waited.

use crate::intervals::Intervals;
use crate::timeline::{EventKind, Run, Timeline};
use bulkhead_abi::status::STATE_RUNNING;
use std::collections::BTreeMap;

/// What was measured on all cores.
#[derive(Clone, Debug, Default)]
pub struct Measurements {
    /// By core index.
    pub cores: Vec<CoreMeasure>,
}

/// What was measured on one core.
#[derive(Clone, Debug, Default)]
pub struct CoreMeasure {
    /// By slot.
    pub slots: Vec<SlotMeasure>,
    /// By server.
    pub servers: Vec<ServerMeasure>,
    /// By owner and INTID.
    pub interrupts: BTreeMap<(Option<usize>, u32), InterruptMeasure>,
    /// Time in which somebody ran.
    pub busy_ns: u64,
    /// Switches from one vCPU, or from nobody, to another.
    pub switches: u64,
}

/// What a vCPU has got.
#[derive(Clone, Debug, Default)]
pub struct SlotMeasure {
    /// Times that it became ready.
    pub wakes: u64,
    /// From its start until it had nothing to do for the first time: the longest, where it was started again. What a guest does once
    /// says nothing about what it does for ever, so its start is no response.
    pub startup_ns: Option<u64>,
    /// Times that it became ready and then had nothing to do again, both seen.
    pub responses: u64,
    /// Longest such time.
    pub longest_response_ns: Option<u64>,
    /// All such times together.
    pub response_sum_ns: u64,
    /// Longest time from becoming ready to running.
    pub longest_wait_ns: Option<u64>,
    /// When it ran.
    pub running: Intervals,
    /// When it was ready: waiting or running.
    pub ready: Intervals,
}

impl SlotMeasure {
    /// Returns the longest time that it was ready and did not run; none if it was never seen ready.
    #[must_use]
    pub fn longest_blackout_ns(&self) -> Option<u64> {
        self.ready.longest_ns().map(|_| self.ready.without(&self.running).longest_ns().unwrap_or(0))
    }

    /// Returns the least that it got in any window of this length in which it was ready all the time.
    #[must_use]
    pub fn least_supply_ns(&self, window_ns: u64) -> Option<u64> {
        self.running.least_in(window_ns, &self.ready)
    }

    /// Returns the mean response, rounded down.
    #[must_use]
    pub fn mean_response_ns(&self) -> Option<u64> {
        self.response_sum_ns.checked_div(self.responses)
    }
}

/// What a server has given.
#[derive(Clone, Debug, Default)]
pub struct ServerMeasure {
    /// When it paid.
    pub budgeted: Intervals,
    /// When it ran in the background.
    pub background: Intervals,
    /// Times that it started to run.
    pub starts: u64,
    /// Times that its budget ran out.
    pub exhaustions: u64,
    /// Times that budget came back.
    pub replenishments: u64,
    /// The most it paid in any window of its period.
    pub most_in_period_ns: Option<u64>,
}

/// What interrupts of one number did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterruptMeasure {
    /// How many came.
    pub count: u64,
    /// How many waited because their owner did not run.
    pub held: u64,
    /// Longest time from such an interrupt to the owner's next turn on that core.
    pub longest_delivery_ns: Option<u64>,
}

impl Measurements {
    /// Measures a timeline.
    #[must_use]
    pub fn of(timeline: &Timeline) -> Self {
        Self { cores: (0..timeline.layout.cores.len()).map(|core| measure_core(timeline, core)).collect() }
    }
}

fn measure_core(timeline: &Timeline, core: usize) -> CoreMeasure {
    let Some(layout) = timeline.layout.cores.get(core) else { return CoreMeasure::default() };
    let runs = timeline.runs(core);
    let mut watch = Watch::new(layout.slots.len());
    let mut measure = CoreMeasure {
        slots: vec![SlotMeasure::default(); layout.slots.len()],
        servers: vec![ServerMeasure::default(); layout.servers.len()],
        ..CoreMeasure::default()
    };
    for run in &runs {
        measure.add_run(run);
    }
    for charge in &timeline.charges(core) {
        measure.add_charge(charge);
    }
    measure.switches = runs.len() as u64;
    // States of a partition are recorded on the core of its first vCPU and concern its others too.
    let concerns = |kind: &EventKind| matches!(kind, EventKind::State { .. });
    for event in timeline.events.iter().filter(|event| event.core == core || concerns(&event.kind)) {
        measure.add_event(timeline, core, event.time_ns, &event.kind, &mut watch);
    }
    watch.end(timeline.to_ns, &mut measure);
    for (server, plan) in measure.servers.iter_mut().zip(&layout.servers) {
        server.most_in_period_ns = plan.period_ns.map(|period| server.budgeted.most_in(period));
    }
    measure
}

impl CoreMeasure {
    fn add_run(&mut self, run: &Run) {
        self.busy_ns += run.to_ns - run.from_ns;
        if let Some(slot) = self.slots.get_mut(run.slot) {
            slot.running.push(run.from_ns, run.to_ns);
        }
        if let Some(server) = run.server.and_then(|server| self.servers.get_mut(server)) {
            server.starts += 1;
        }
    }

    fn add_charge(&mut self, charge: &Run) {
        if let Some(server) = charge.server.and_then(|server| self.servers.get_mut(server)) {
            let kind = if charge.background { &mut server.background } else { &mut server.budgeted };
            kind.push(charge.from_ns, charge.to_ns);
        }
    }

    fn add_event(&mut self, timeline: &Timeline, core: usize, time_ns: u64, kind: &EventKind, watch: &mut Watch) {
        match *kind {
            EventKind::Wake { slot, .. } => {
                if let Some(measure) = self.slots.get_mut(slot) {
                    measure.wakes += 1;
                }
                watch.wake(slot, time_ns);
            }
            EventKind::Run { slot, .. } => {
                watch.run(slot, time_ns, self);
                let owner = timeline.layout.slot(core, slot).map(|owner| owner.partition);
                watch.deliver(owner, time_ns, self);
            }
            EventKind::Block { slot } => watch.block(slot, time_ns, self),
            EventKind::State { partition, state, .. } if state != STATE_RUNNING => {
                for slot in 0..self.slots.len() {
                    if timeline.layout.slot(core, slot).is_some_and(|owner| owner.partition == partition) {
                        watch.stop(slot, time_ns, self);
                    }
                }
                watch.held.retain(|(owner, ..)| *owner != Some(partition));
            }
            EventKind::Exhausted { server } => {
                if let Some(measure) = self.servers.get_mut(server) {
                    measure.exhaustions += 1;
                }
            }
            EventKind::Replenished { server, .. } => {
                if let Some(measure) = self.servers.get_mut(server) {
                    measure.replenishments += 1;
                }
            }
            EventKind::Interrupt { intid, owner, held } => {
                let measure = self.interrupts.entry((owner, intid)).or_default();
                measure.count += 1;
                measure.held += u64::from(held);
                if held {
                    watch.held.push((owner, intid, time_ns));
                }
            }
            _ => {}
        }
    }
}

/// What is known of a slot while the events pass by.
#[derive(Clone, Copy, Debug, Default)]
struct SlotWatch {
    /// Ready since then; none while it has nothing to do or it is not known.
    ready_ns: Option<u64>,
    /// The beginning of this readiness was seen.
    is_whole: bool,
    /// It has not run since it became ready.
    waits: bool,
    /// It had nothing to do at least once since it was started.
    is_started: bool,
}

struct Watch {
    slots: Vec<SlotWatch>,
    /// Interrupts that wait: owner, INTID, since when.
    held: Vec<(Option<usize>, u32, u64)>,
}

impl Watch {
    fn new(slots: usize) -> Self {
        Self { slots: vec![SlotWatch::default(); slots], held: Vec::new() }
    }

    fn wake(&mut self, slot: usize, time_ns: u64) {
        // Waking a vCPU that is ready already changes nothing.
        if let Some(watch) = self.slots.get_mut(slot).filter(|watch| watch.ready_ns.is_none()) {
            *watch = SlotWatch { ready_ns: Some(time_ns), is_whole: true, waits: true, ..*watch };
        }
    }

    fn run(&mut self, slot: usize, time_ns: u64, measure: &mut CoreMeasure) {
        let (Some(watch), Some(slot)) = (self.slots.get_mut(slot), measure.slots.get_mut(slot)) else { return };
        match watch.ready_ns {
            // A vCPU that runs was ready; its wake-up was overwritten, or it has been ready since it was started.
            None => *watch = SlotWatch { ready_ns: Some(time_ns), is_whole: false, waits: false, ..*watch },
            Some(since_ns) if watch.waits => {
                watch.waits = false;
                slot.longest_wait_ns = slot.longest_wait_ns.max(Some(time_ns - since_ns));
            }
            Some(_) => {}
        }
    }

    fn block(&mut self, slot: usize, time_ns: u64, measure: &mut CoreMeasure) {
        let (Some(watch), Some(slot)) = (self.slots.get_mut(slot), measure.slots.get_mut(slot)) else { return };
        let watch = std::mem::replace(watch, SlotWatch { is_started: true, ..SlotWatch::default() });
        let Some(since_ns) = watch.ready_ns else { return };
        slot.ready.push(since_ns, time_ns);
        if !watch.is_started {
            slot.startup_ns = slot.startup_ns.max(Some(time_ns - since_ns));
        } else if watch.is_whole {
            slot.responses += 1;
            slot.response_sum_ns += time_ns - since_ns;
            slot.longest_response_ns = slot.longest_response_ns.max(Some(time_ns - since_ns));
        }
    }

    /// Its partition does not run any more: it is not ready, and this was no response.
    fn stop(&mut self, slot: usize, time_ns: u64, measure: &mut CoreMeasure) {
        let (Some(watch), Some(slot)) = (self.slots.get_mut(slot), measure.slots.get_mut(slot)) else { return };
        if let Some(since_ns) = std::mem::take(watch).ready_ns {
            slot.ready.push(since_ns, time_ns);
        }
    }

    fn deliver(&mut self, owner: Option<usize>, time_ns: u64, measure: &mut CoreMeasure) {
        self.held.retain(|(held_owner, intid, since_ns)| {
            if *held_owner != owner {
                return true;
            }
            let interrupt = measure.interrupts.entry((owner, *intid)).or_default();
            interrupt.longest_delivery_ns = interrupt.longest_delivery_ns.max(Some(time_ns - since_ns));
            false
        });
    }

    fn end(&mut self, time_ns: u64, measure: &mut CoreMeasure) {
        for (watch, slot) in self.slots.iter().zip(&mut measure.slots) {
            if let Some(since_ns) = watch.ready_ns.filter(|_| watch.waits) {
                slot.longest_wait_ns = slot.longest_wait_ns.max(Some(time_ns - since_ns));
            }
        }
        for slot in 0..self.slots.len() {
            self.stop(slot, time_ns, measure);
        }
    }
}
