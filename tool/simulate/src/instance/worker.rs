//! Who works in a simulated instance, and what arrives there.

use crate::arrivals::{Dates, ENDLESS_TICKS};
use bulkhead_description::scenario::{InstanceArrival, MadeServer, SimulatedInstance, Target};
use bulkhead_plan::ticks;
use std::collections::VecDeque;

/// Something to do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub(super) arrived_ticks: u64,
    left_ticks: u64,
    /// For whom, on a server that works for others: its place among their periods.
    pub(super) client: Option<usize>,
}

/// A thread, or what stands for one on a server.
#[derive(Clone, Debug)]
pub(super) struct Worker {
    pub(super) name: String,
    pub(super) target: Target,
    /// Its server; none while that is not made.
    pub(super) server: Option<u8>,
    /// What a scheduler in user space goes by; the smallest first.
    pub(super) priority: u64,
    jobs: VecDeque<Job>,
}

impl Worker {
    pub(super) fn new(instance: &SimulatedInstance, made: &[MadeServer], target: Target) -> Self {
        let byte = |server: u16| u8::try_from(server).ok();
        let fact = |server: u16| instance.facts.iter().find(|fact| fact.number == server);
        let (name, server) = match target {
            Target::Thread(thread) => {
                (instance.threads.get(thread).cloned(), instance.server_of(thread).and_then(byte))
            }
            Target::Server(server) => (fact(server).map(|fact| fact.name.clone()), byte(server)),
            Target::Made(place) => (made.get(place).map(|made| made.name.clone()), None),
        };
        let row = |thread: usize| instance.tcaps.get(usize::from(instance.thread_rows.get(thread)?.tcap));
        let priority = match target {
            Target::Thread(thread) => row(thread).map_or(u64::MAX, |tcap| tcap.priority),
            Target::Server(_) | Target::Made(_) => u64::MAX,
        };
        Self { name: name.unwrap_or_default(), target, server, priority, jobs: VecDeque::new() }
    }

    /// Adds something to do. Who works for others does the work of the shortest period first; the rest is in order.
    pub(super) fn add(&mut self, job: Job) {
        let place = self.jobs.iter().position(|other| other.client > job.client).unwrap_or(self.jobs.len());
        self.jobs.insert(place, job);
    }

    /// What is left of what it does; none when it has nothing to do.
    pub(super) fn left_ticks(&self) -> Option<u64> {
        self.jobs.front().map(|job| job.left_ticks)
    }

    /// It has worked so long.
    pub(super) fn work(&mut self, ticks: u64) {
        if let Some(job) = self.jobs.front_mut() {
            job.left_ticks = job.left_ticks.saturating_sub(ticks);
        }
    }

    /// What is done. It need not be the first one any more: something for a shorter period may have come at this instant.
    pub(super) fn take_done(&mut self) -> Option<Job> {
        let place = self.jobs.iter().position(|job| job.left_ticks == 0)?;
        self.jobs.remove(place)
    }

    /// Its server has ended.
    pub(super) fn end(&mut self) {
        self.server = None;
        self.jobs.clear();
    }
}

/// What arrives at one of them.
#[derive(Debug)]
pub(super) struct Source {
    worker: usize,
    client: Option<usize>,
    work_ticks: u64,
    dates: Dates,
    next_ticks: Option<u64>,
}

impl Source {
    pub(super) fn new(worker: usize, one: &InstanceArrival, hz: u64) -> Self {
        let arrival = &one.arrival;
        let mut dates = Dates::new(arrival);
        let next_ticks = dates.next().map(|date| ticks::round_up(date, hz));
        // A budget is rounded down: work that is as long as one fits into it.
        let work_ticks =
            if arrival.work_ns == 0 { ENDLESS_TICKS } else { ticks::round_down(arrival.work_ns, hz).max(1) };
        Self { worker, client: arrival.client, work_ticks, dates, next_ticks }
    }

    pub(super) fn next_ticks(&self) -> Option<u64> {
        self.next_ticks
    }

    /// What arrives now, and where.
    pub(super) fn take(&mut self, now: u64, hz: u64) -> (usize, Job) {
        self.next_ticks = self.dates.next().map(|date| ticks::round_up(date, hz).max(now));
        (self.worker, Job { arrived_ticks: now, left_ticks: self.work_ticks, client: self.client })
    }
}
