//! One shared core: its policy, and guests that do nothing but the work that arrives.
//!
//! At one instant all arrivals are reported first, then what is done, then the policy is asked once: an arrival at the
//! instant of a completion is not a block (`real-time.md` 1.1).
//!
//! A guest handles its interrupts before its other work, in order. Its interrupt gate is open while a handler is not done. If the gate
//! has no voluntary return, it stays open until a budget behind it is used up or the guest has nothing to do, because the
//! monitor then does not hear of the end of a handler (SG-45).

use crate::arrivals::{Dates, ENDLESS_TICKS};
use crate::event::{Event, EventKind};
use bulkhead_abi::schedule::{Gate, MAX_CORE_SERVERS, MAX_CORE_VCPUS, Rule, ScheduleKind, SchedulePlan, ServerFlag};
use bulkhead_description::scenario::CheckedArrival;
use bulkhead_plan::maps::CoreUse;
use bulkhead_plan::ticks;
use bulkhead_sched::dispatch::{Choice, Core, Decision, Usage};
use bulkhead_sched::quantum::QuantumRing;
use bulkhead_schedule::plan::{self, BadPlan};
use std::collections::VecDeque;

/// The policy of a core: the monitor's.
#[derive(Debug)]
enum Policy {
    Servers(Box<Core<MAX_CORE_SERVERS, MAX_CORE_VCPUS>>),
    Ring(Box<QuantumRing>),
}

#[derive(Clone, Copy, Debug)]
struct Job {
    arrived_ticks: u64,
    left_ticks: u64,
    client: usize,
}

/// A vCPU.
#[derive(Debug, Default)]
struct Guest {
    handlers: VecDeque<Job>,
    work: VecDeque<Job>,
    /// Number of its PIBS server.
    pibs: Option<u8>,
    /// Servers of it behind interrupt gates that stay open when a handler is done.
    lasting_gates: u64,
    gate_is_open: bool,
}

impl Guest {
    fn job(&mut self) -> Option<&mut Job> {
        self.handlers.front_mut().or(self.work.front_mut())
    }

    fn has_nothing(&self) -> bool {
        self.handlers.is_empty() && self.work.is_empty()
    }
}

/// What arrives at one guest.
#[derive(Debug)]
struct Source {
    slot: usize,
    is_interrupt: bool,
    client: usize,
    work_ticks: u64,
    dates: Dates,
    next_ticks: Option<u64>,
}

/// A core in the course of a simulation.
#[derive(Debug)]
pub struct CoreRun {
    index: usize,
    hz: u64,
    policy: Policy,
    guests: Vec<Guest>,
    sources: Vec<Source>,
    now_ticks: u64,
    end_ticks: u64,
    running: Option<Choice>,
    waiting: u64,
    /// Slot of each server.
    slot_of: Vec<usize>,
    choices: u64,
}

impl CoreRun {
    /// A core at time 0. `index` is its place among the shared cores.
    ///
    /// # Errors
    /// When the plan contradicts itself, which the description's checks do not let happen.
    pub fn new(
        index: usize,
        plan: &SchedulePlan,
        core_use: &CoreUse,
        arrivals: &[CheckedArrival],
        hz: u64,
        end_ticks: u64,
    ) -> Result<Self, BadPlan> {
        let policy = if plan.kind() == Some(ScheduleKind::RoundRobin) {
            Policy::Ring(Box::new(plan::ring(plan, 0)?))
        } else {
            let mut core = Box::new(Core::empty());
            plan::configure(&mut core, plan, 0)?;
            Policy::Servers(core)
        };
        let mut guests: Vec<Guest> = core_use.vcpus.iter().map(|_| Guest::default()).collect();
        let servers = plan.servers().iter();
        for (number, server) in servers.clone().enumerate() {
            let Some(guest) = guests.get_mut(server.slot as usize) else { continue };
            if server.rule().is_some_and(Rule::serves_clients) {
                guest.pibs = u8::try_from(number).ok();
            }
            if server.gate() == Some(Gate::Interrupt) && !server.has(ServerFlag::VoluntaryReturn) {
                guest.lasting_gates |= 1 << number;
            }
        }
        let slot_of = servers.map(|server| server.slot as usize).collect();
        let sources = arrivals.iter().filter_map(|arrival| source(arrival, plan, core_use, hz)).collect();
        let (running, waiting, choices) = (None, 0, 0);
        Ok(Self { index, hz, policy, guests, sources, now_ticks: 0, end_ticks, running, waiting, slot_of, choices })
    }

    /// The instant that [`Self::step`] plays next; `None` at the end of the simulation.
    #[must_use]
    pub fn next_ticks(&self) -> Option<u64> {
        (self.now_ticks < self.end_ticks).then_some(self.now_ticks)
    }

    /// How often the policy chose.
    #[must_use]
    pub fn choices(&self) -> u64 {
        self.choices
    }

    /// What a server has used; under round robin what a guest used in its own turns and in others'.
    #[must_use]
    pub fn usage(&self, server: u8) -> Usage {
        match &self.policy {
            Policy::Servers(core) => core.usage(server),
            Policy::Ring(ring) => {
                let (used_ticks, stolen_ticks) = ring.used_and_stolen_ticks(server);
                Usage {
                    budgeted_ticks: used_ticks - stolen_ticks,
                    background_ticks: stolen_ticks,
                    longest_overrun_ticks: 0,
                }
            }
        }
    }

    /// Time in which nobody ran.
    #[must_use]
    pub fn idle_ticks(&self) -> u64 {
        match &self.policy {
            Policy::Servers(core) => core.idle_ticks(),
            Policy::Ring(ring) => ring.idle_ticks(),
        }
    }

    /// Plays one instant and finds the next one. Events are added in their order.
    pub fn step(&mut self, events: &mut Vec<Event>) {
        let now = self.now_ticks;
        self.arrivals(now, events);
        if let Some(choice) = self.running {
            self.completion(now, choice, events);
        }
        let decision = self.pick(now, events);
        let next_arrival = self.sources.iter().filter_map(|source| source.next_ticks).min();
        let mut next = next_arrival.unwrap_or(u64::MAX).min(self.end_ticks);
        next = next.min(decision.deadline_ticks.unwrap_or(u64::MAX));
        let job = decision.choice.and_then(|choice| self.guests.get_mut(usize::from(choice.vcpu))).and_then(Guest::job);
        if let Some(job) = job {
            next = next.min(now.saturating_add(job.left_ticks));
            job.left_ticks -= next - now;
        }
        self.now_ticks = next;
        if next == self.end_ticks {
            self.finish(events);
        }
    }

    /// Brings the accounts to the end of the simulation.
    fn finish(&mut self, events: &mut Vec<Event>) {
        match &mut self.policy {
            Policy::Servers(core) => core.advance(self.end_ticks),
            Policy::Ring(ring) => ring.advance(self.end_ticks),
        }
        if let Some(choice) = self.running {
            self.completion(self.end_ticks, choice, events);
            self.push(events, self.end_ticks, usize::from(choice.vcpu), self.server(choice), EventKind::Stop);
        }
    }

    fn push(&self, events: &mut Vec<Event>, now: u64, slot: usize, server: Option<u8>, kind: EventKind) {
        let time_ns = ticks::to_ns(now, self.hz);
        events.push(Event { time_ns, core: self.index, slot, server, kind });
    }

    fn server(&self, choice: Choice) -> Option<u8> {
        matches!(self.policy, Policy::Servers(_)).then_some(choice.server)
    }

    fn arrivals(&mut self, now: u64, events: &mut Vec<Event>) {
        for place in 0..self.sources.len() {
            while let Some(source) = self.sources.get_mut(place).filter(|source| source.next_ticks == Some(now)) {
                source.next_ticks = source.dates.next().map(|date| ticks::round_up(date, self.hz).max(now));
                let (slot, is_interrupt) = (source.slot, source.is_interrupt);
                let job = Job { arrived_ticks: now, left_ticks: source.work_ticks, client: source.client };
                let kind = if is_interrupt { EventKind::Interrupt } else { EventKind::Arrive };
                self.push(events, now, slot, None, kind);
                self.arrive(now, slot, is_interrupt, job);
            }
        }
    }

    fn arrive(&mut self, now: u64, slot: usize, is_interrupt: bool, job: Job) {
        let (Some(guest), Ok(vcpu)) = (self.guests.get_mut(slot), u8::try_from(slot)) else { return };
        if is_interrupt {
            guest.handlers.push_back(job);
            guest.gate_is_open = true;
        } else {
            // A PIBS server serves the shortest period first; without one all clients are 0.
            let place = guest.work.iter().position(|other| other.client > job.client).unwrap_or(guest.work.len());
            guest.work.insert(place, job);
        }
        match &mut self.policy {
            Policy::Servers(core) => {
                if is_interrupt {
                    core.set_pending(now, vcpu, 1);
                }
                match guest.pibs {
                    Some(server) => {
                        core.request(now, server, job.client);
                    }
                    None => core.wake(now, vcpu),
                }
            }
            Policy::Ring(ring) => {
                ring.advance(now);
                ring.set_ready(vcpu, true);
                if is_interrupt {
                    ring.interrupt(vcpu);
                }
            }
        }
    }

    /// Ends the job of the guest that ran, if it is done.
    fn completion(&mut self, now: u64, choice: Choice, events: &mut Vec<Event>) {
        let slot = usize::from(choice.vcpu);
        let Some(guest) = self.guests.get_mut(slot) else { return };
        // The job that ran need not be the first one any more: an interrupt may have come at this instant.
        let done = |jobs: &mut VecDeque<Job>| jobs.front().is_some_and(|job| job.left_ticks == 0);
        let job = if done(&mut guest.handlers) {
            guest.handlers.pop_front()
        } else {
            let place = guest.work.iter().position(|job| job.left_ticks == 0);
            place.and_then(|place| guest.work.remove(place))
        };
        let Some(job) = job else { return };
        let closes = guest.gate_is_open && guest.handlers.is_empty() && guest.lasting_gates == 0;
        let blocks = guest.has_nothing();
        if closes || blocks {
            guest.gate_is_open = false;
        }
        let pibs = guest.pibs;
        let response_ns = ticks::to_ns(now - job.arrived_ticks, self.hz);
        self.push(events, now, slot, self.server(choice), EventKind::Complete { response_ns });
        match &mut self.policy {
            Policy::Servers(core) => {
                if closes || blocks {
                    core.set_pending(now, choice.vcpu, 0);
                }
                if let Some(server) = pibs {
                    core.complete(now, server, job.client);
                }
                match blocks {
                    true => core.block(now, choice.vcpu),
                    // A PIBS server without requests blocks its vCPU, which may have other work.
                    false => core.wake(now, choice.vcpu),
                }
            }
            Policy::Ring(ring) => {
                ring.advance(now);
                ring.set_ready(choice.vcpu, !blocks);
            }
        }
    }

    /// Asks the policy, and tells what changed.
    fn pick(&mut self, now: u64, events: &mut Vec<Event>) -> Decision {
        self.choices += 1;
        let decision = match &mut self.policy {
            Policy::Ring(ring) => ring.pick(now).into(),
            Policy::Servers(_) => self.pick_server(now, events),
        };
        if decision.choice != self.running {
            if let Some(before) = self.running {
                self.push(events, now, usize::from(before.vcpu), self.server(before), EventKind::Stop);
            }
            if let Some(after) = decision.choice {
                let kind = EventKind::Start { background: after.background };
                self.push(events, now, usize::from(after.vcpu), self.server(after), kind);
            }
            self.running = decision.choice;
        }
        decision
    }

    fn pick_server(&mut self, now: u64, events: &mut Vec<Event>) -> Decision {
        let Policy::Servers(core) = &mut self.policy else {
            return Decision { choice: None, deadline_ticks: None };
        };
        core.advance(now);
        let exhausted = core.take_exhausted();
        let mut closed = false;
        if exhausted != 0 {
            for (slot, guest) in self.guests.iter_mut().enumerate() {
                // A gate without voluntary return closes when its budget is gone and no handler is left.
                if guest.gate_is_open && guest.lasting_gates & exhausted != 0 && guest.handlers.is_empty() {
                    guest.gate_is_open = false;
                    core.set_pending(now, slot as u8, 0);
                    closed = true;
                }
            }
        }
        let decision = core.pick(now);
        let waiting = core.waiting();
        let came_back = self.waiting & !waiting & if closed { !exhausted } else { u64::MAX };
        self.waiting = waiting;
        for (set, kind) in [(exhausted, EventKind::Exhaust), (came_back, EventKind::Replenish)] {
            for server in (0..64u8).filter(|server| set & 1 << server != 0) {
                let slot = self.slot_of.get(usize::from(server)).copied().unwrap_or(0);
                let blocked = kind == EventKind::Replenish && self.guests.get(slot).is_none_or(Guest::has_nothing);
                if !blocked {
                    self.push(events, now, slot, Some(server), kind);
                }
            }
        }
        decision
    }
}

fn source(arrival: &CheckedArrival, plan: &SchedulePlan, core_use: &CoreUse, hz: u64) -> Option<Source> {
    let own = |vcpu: &bulkhead_plan::maps::VcpuUse| vcpu.partition == arrival.partition && vcpu.vcpu == arrival.vcpu;
    let slot = core_use.vcpus.iter().position(own)?;
    let mut dates = Dates::new(arrival);
    let next_ticks = dates.next().map(|date| ticks::round_up(date, hz));
    let work_ticks = if arrival.work_ns == 0 { ENDLESS_TICKS } else { ticks::round_up(arrival.work_ns, hz).max(1) };
    // As on the machine: what no client's doorbell says is the client's with the longest period.
    let clients =
        plan.servers().iter().filter(|server| server.slot as usize == slot).map(|server| server.clients().len());
    let client = arrival.client.unwrap_or_else(|| clients.max().unwrap_or(0).saturating_sub(1));
    Some(Source { slot, is_interrupt: arrival.is_interrupt, client, work_ticks, dates, next_ticks })
}
