//! The core of an instance: its servers on the kernel's own scheduler, and on each of them those who work there, in the order that `kernel.md` 3 gives.
//!
//! A server that its threads hold has a FIFO: the head works, and goes to the back when its turn is over; who becomes ready goes to the back. Of a server that
//! a scheduler in user space holds the most important one works, by the numbers of the description, as ChaosRT does. At one instant servers are made and
//! ended first, then everything arrives, then what is done, then the choice.

use super::worker::{Job, Source, Worker};
use crate::event::{Event, EventKind};
use bulkhead_description::scenario::{InstanceArrival, MadeServer, SimulatedInstance, Target};
use bulkhead_kernel::rows;
use bulkhead_kernel_abi::boot::ServerRow;
use bulkhead_kernel_abi::{MAX_SERVERS, NONE};
use bulkhead_plan::ticks;
use bulkhead_sched::band::Bands;
use bulkhead_sched::kernel::{KernelCore, Next, Stint, Usage};
use std::collections::VecDeque;

/// Slots, as the kernel has them.
type Core = KernelCore<MAX_SERVERS>;

/// A server, as to who works on it.
#[derive(Clone, Debug, Default)]
struct Queue {
    /// Who has something to do; the head is who works.
    ready: VecDeque<usize>,
    /// A scheduler in user space says who works.
    is_held: bool,
    /// Own time of a turn; 0 without turns.
    quantum_ticks: u64,
    /// What is left of the turn.
    turn_ticks: u64,
    /// Longest response, by client; of one that works for nobody the first one.
    worst_ticks: Vec<Option<u64>>,
}

/// A server of a band in the course of a simulation.
#[derive(Clone, Debug)]
struct Making {
    what: MadeServer,
    at_ticks: u64,
    end_ticks: u64,
    worker: Option<usize>,
}

/// An instance in the course of a simulation.
#[derive(Debug)]
pub struct InstanceRun {
    hz: u64,
    core: Box<Core>,
    bands: Box<Bands<MAX_SERVERS>>,
    queues: Vec<Queue>,
    workers: Vec<Worker>,
    sources: Vec<Source>,
    making: Vec<Making>,
    now_ticks: u64,
    end_ticks: u64,
    /// Time that a change of who works takes; who comes pays.
    exchange_ticks: u64,
    loading_ticks: u64,
    running: Option<(Stint, usize)>,
    waiting: u64,
    choices: u64,
}

impl InstanceRun {
    /// An instance at time 0, for so long; `exchange_ns` is what each change of who works takes. `None` when its rows contradict each other, which
    /// the checks of its description do not let happen.
    #[must_use]
    pub fn new(
        instance: &SimulatedInstance,
        arrivals: &[InstanceArrival],
        made: &[MadeServer],
        (until_ns, exchange_ns): (u64, u64),
    ) -> Option<Self> {
        let (rows, hz) = (&instance.servers, instance.counter_hz);
        let (mut core, mut bands) = (Box::new(Core::empty()), Box::new(Bands::new()));
        if !core.configure(0, rows.iter().map(|row| rows::levels(row, rows))) {
            return None;
        }
        for (slot, row) in (0..u8::MAX).zip(rows).filter(|(_, row)| row.band == NONE) {
            core.activate(0, slot, rows::budget(row, rows, 0)?, rows::goes_on(row)).ok()?;
        }
        bands.clear(instance.bands.iter().any(|band| band.admission != 0).then(|| rows::quick(rows)));
        if !instance.bands.iter().all(|row| bands.add(rows::band(row, rows))) {
            return None;
        }
        let mut workers: Vec<Worker> = Vec::new();
        let mut worker_of = |target: Target| {
            let place = workers.iter().position(|one| one.target == target).unwrap_or(workers.len());
            if place == workers.len() {
                workers.push(Worker::new(instance, made, target));
            }
            place
        };
        let sources = arrivals.iter().map(|one| Source::new(worker_of(one.target), one, hz)).collect();
        let making = |(place, what): (usize, &MadeServer)| Making {
            what: what.clone(),
            at_ticks: ticks::round_up(what.at_ns, hz),
            end_ticks: what.end_ns.map_or(u64::MAX, |end_ns| ticks::round_up(end_ns, hz)),
            worker: workers.iter().position(|one| one.target == Target::Made(place)),
        };
        let making = made.iter().enumerate().map(making).collect();
        let end_ticks = ticks::round_up(until_ns, hz);
        Some(Self {
            hz,
            core,
            bands,
            queues: rows.iter().map(queue).collect(),
            workers,
            sources,
            making,
            now_ticks: 0,
            end_ticks,
            exchange_ticks: ticks::round_up(exchange_ns, hz),
            loading_ticks: 0,
            running: None,
            waiting: 0,
            choices: 0,
        })
    }

    /// Who works, by slot.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.workers.iter().map(|worker| worker.name.as_str())
    }

    /// The instant that [`Self::step`] plays next; `None` at the end of the simulation.
    #[must_use]
    pub fn next_ticks(&self) -> Option<u64> {
        (self.now_ticks < self.end_ticks).then_some(self.now_ticks)
    }

    /// How often the scheduler chose.
    #[must_use]
    pub const fn choices(&self) -> u64 {
        self.choices
    }

    /// What a server has used.
    #[must_use]
    pub fn usage(&self, server: u16) -> Usage {
        u8::try_from(server).map_or_else(|_| Usage::default(), |slot| self.core.usage(slot))
    }

    /// Time in which nobody ran.
    #[must_use]
    pub fn idle_ticks(&self) -> u64 {
        self.core.idle_ticks()
    }

    /// The longest time from an arrival on a server to its end, for one of its clients; `None` when nothing was done.
    #[must_use]
    pub fn worst_ns(&self, server: u16, client: usize) -> Option<u64> {
        let worst = self.queues.get(usize::from(server))?.worst_ticks.get(client)?;
        worst.map(|ticks| ticks::to_ns(ticks, self.hz))
    }

    /// Plays one instant and finds the next one. Events are added in their order.
    pub fn step(&mut self, events: &mut Vec<Event>) {
        let now = self.now_ticks;
        self.core.advance(now);
        self.make(now, events);
        self.arrivals(now, events);
        self.completion(now, events);
        self.end_turn();
        let next = self.choose(now, events);
        let mut until = next.deadline_ticks.min(self.next_event_ticks()).min(self.end_ticks).max(now + 1);
        if let Some((stint, worker)) = self.running {
            let left_ticks = self.workers.get(worker).and_then(Worker::left_ticks).unwrap_or(u64::MAX);
            until = until.min(now.saturating_add(self.loading_ticks).saturating_add(left_ticks));
            let queue = self.queues.get_mut(usize::from(stint.server()));
            if let Some(queue) = queue.filter(|queue| !queue.is_held && queue.quantum_ticks != 0) {
                if queue.ready.len() > 1 {
                    until = until.min(now + queue.turn_ticks.max(1));
                }
                queue.turn_ticks = queue.turn_ticks.saturating_sub(until - now);
            }
            let loading_ticks = self.loading_ticks.min(until - now);
            self.loading_ticks -= loading_ticks;
            if let Some(worker) = self.workers.get_mut(worker) {
                worker.work(until - now - loading_ticks);
            }
        }
        self.now_ticks = until;
        if until == self.end_ticks {
            self.finish(events);
        }
    }

    /// When something arrives, is made or ended.
    fn next_event_ticks(&self) -> u64 {
        let arrivals = self.sources.iter().filter_map(Source::next_ticks);
        let now = self.now_ticks;
        let makings = self.making.iter().flat_map(|one| [one.at_ticks, one.end_ticks]).filter(|date| *date > now);
        arrivals.chain(makings).min().unwrap_or(u64::MAX)
    }

    fn finish(&mut self, events: &mut Vec<Event>) {
        self.core.advance(self.end_ticks);
        self.completion(self.end_ticks, events);
        if let Some((stint, worker)) = self.running.take() {
            self.push(events, worker, Some(stint.server()), EventKind::Stop);
        }
    }

    fn push(&self, events: &mut Vec<Event>, slot: usize, server: Option<u8>, kind: EventKind) {
        events.push(Event { time_ns: ticks::to_ns(self.now_ticks, self.hz), core: 0, slot, server, kind });
    }

    fn arrivals(&mut self, now: u64, events: &mut Vec<Event>) {
        for place in 0..self.sources.len() {
            while let Some(source) = self.sources.get_mut(place).filter(|source| source.next_ticks() == Some(now)) {
                let (worker, job) = source.take(now, self.hz);
                self.push(events, worker, None, EventKind::Arrive);
                self.arrive(now, worker, job);
            }
        }
    }

    fn arrive(&mut self, now: u64, number: usize, job: Job) {
        let Some(worker) = self.workers.get_mut(number) else { return };
        // What arrives at a server that was not made is turned away.
        let Some(slot) = worker.server else { return };
        let was_idle = worker.left_ticks().is_none();
        let client = job.client;
        worker.add(job);
        let order = worker.priority;
        if let Some(client) = client {
            self.core.request(now, slot, client);
        }
        let Some(queue) = self.queues.get_mut(usize::from(slot)).filter(|_| was_idle) else { return };
        let is_behind = |other: &usize| self.workers.get(*other).is_some_and(|one| one.priority > order);
        let place = if queue.is_held { queue.ready.iter().position(is_behind) } else { None };
        if queue.ready.is_empty() {
            queue.turn_ticks = queue.quantum_ticks;
        }
        queue.ready.insert(place.unwrap_or(queue.ready.len()), number);
        self.core.wake(now, slot);
    }

    /// Ends what the one that worked has done.
    fn completion(&mut self, now: u64, events: &mut Vec<Event>) {
        let Some((stint, number)) = self.running else { return };
        let Some(worker) = self.workers.get_mut(number) else { return };
        let Some(job) = worker.take_done() else { return };
        let has_more = worker.left_ticks().is_some();
        let slot = stint.server();
        let response_ticks = now - job.arrived_ticks;
        let response_ns = ticks::to_ns(response_ticks, self.hz);
        self.push(events, number, Some(slot), EventKind::Complete { response_ns });
        if let Some(client) = job.client {
            self.core.complete(now, slot, client);
        }
        let Some(queue) = self.queues.get_mut(usize::from(slot)) else { return };
        if let Some(worst) = queue.worst_ticks.get_mut(job.client.unwrap_or(0)) {
            *worst = (*worst).max(Some(response_ticks));
        }
        if !has_more {
            let was_head = queue.ready.front() == Some(&number);
            queue.ready.retain(|one| *one != number);
            if was_head {
                queue.turn_ticks = queue.quantum_ticks;
            }
            if queue.ready.is_empty() {
                self.core.block(now, slot);
            }
        }
    }

    /// Makes and ends servers of bands.
    fn make(&mut self, now: u64, events: &mut Vec<Event>) {
        for place in 0..self.making.len() {
            let is_now = |making: &&Making| making.at_ticks == now || making.end_ticks == now;
            let Some(making) = self.making.get(place).filter(is_now).cloned() else { continue };
            let server = making.worker.and_then(|worker| self.workers.get(worker)).and_then(|worker| worker.server);
            if making.at_ticks == now {
                let (budget, period) = (
                    ticks::round_down(making.what.budget_ns, self.hz),
                    ticks::round_up(making.what.period_ns, self.hz),
                );
                let band = u8::try_from(making.what.band).unwrap_or(u8::MAX);
                let made = self.bands.create(&mut self.core, now, band, budget, period);
                let Some(worker) = making.worker else { continue };
                let kind = if made.is_ok() { EventKind::Admit } else { EventKind::Refuse };
                self.push(events, worker, made.ok(), kind);
                if let Some(worker) = self.workers.get_mut(worker) {
                    worker.server = made.ok();
                }
            } else if let (true, Some(slot), Some(worker)) = (making.end_ticks == now, server, making.worker) {
                let _ = self.bands.destroy(&mut self.core, now, slot);
                if let Some(queue) = self.queues.get_mut(usize::from(slot)) {
                    queue.ready.clear();
                }
                if let Some(worker) = self.workers.get_mut(worker) {
                    worker.end();
                }
                self.push(events, worker, Some(slot), EventKind::End);
            }
        }
    }

    /// The head of who ran goes to the back when its turn is over.
    fn end_turn(&mut self) {
        let Some((stint, number)) = self.running else { return };
        let Some(queue) = self.queues.get_mut(usize::from(stint.server())) else { return };
        let is_over = !queue.is_held && queue.quantum_ticks != 0 && queue.turn_ticks == 0;
        if is_over && queue.ready.len() > 1 && queue.ready.front() == Some(&number) {
            queue.ready.rotate_left(1);
            queue.turn_ticks = queue.quantum_ticks;
        }
    }

    /// Asks the scheduler, and tells what changed.
    fn choose(&mut self, now: u64, events: &mut Vec<Event>) -> Next {
        self.choices += 1;
        let exhausted = self.core.take_exhausted();
        let next = self.core.next(now);
        let waiting = self.core.waiting();
        let came_back = self.waiting & !waiting;
        self.waiting = waiting;
        for (set, kind) in [(exhausted, EventKind::Exhaust), (came_back, EventKind::Replenish)] {
            for slot in (0..MAX_SERVERS as u8).filter(|slot| set & 1 << slot != 0) {
                let head = self.queues.get(usize::from(slot)).and_then(|queue| queue.ready.front().copied());
                let last = self.running.filter(|(stint, _)| stint.server() == slot).map(|(_, worker)| worker);
                // Nobody waits for what comes back to nobody.
                let concerned = if kind == EventKind::Exhaust { head.or(last) } else { head };
                if let Some(worker) = concerned {
                    self.push(events, worker, Some(slot), kind);
                }
            }
        }
        let head = self.queues.get(usize::from(next.stint.server())).and_then(|queue| queue.ready.front().copied());
        let chosen = head.filter(|_| next.stint != Stint::IDLE).map(|worker| (next.stint, worker));
        let is_other = |one: &Option<(Stint, usize)>| one.map(|(stint, worker)| (stint.is_background(), worker));
        if is_other(&chosen) != is_other(&self.running) {
            if let Some((stint, worker)) = self.running {
                self.push(events, worker, Some(stint.server()), EventKind::Stop);
            }
            if let Some((stint, worker)) = chosen {
                let kind = EventKind::Start { background: stint.is_background() };
                self.push(events, worker, Some(stint.server()), kind);
                self.loading_ticks = self.exchange_ticks;
            }
        }
        self.running = chosen;
        next
    }
}

fn queue(row: &ServerRow) -> Queue {
    let clients = row.clients.count_ones().max(1) as usize;
    Queue {
        is_held: row.holder != NONE,
        quantum_ticks: row.quantum_ticks,
        turn_ticks: row.quantum_ticks,
        worst_ticks: vec![None; clients],
        ..Queue::default()
    }
}
