//! A small simulator around the product's own scheduler: jobs arrive, the core decides, runs are recorded.
//!
//! At one instant all arrivals are reported first, then the completion, then the core is asked once: an arrival at the
//! instant of a completion is not a block (`real-time.md` 1.1).
#![allow(dead_code)] // Each test program uses a part of it.

pub(crate) mod random;

use bulkhead_sched::budget::{Anchor, Budget, Chunk, Deferrable, Mutant, Polling, Sporadic, SporadicParameters};
use bulkhead_sched::dispatch::Core;
use bulkhead_sched::server::Server;
use std::collections::VecDeque;

/// Starts and ends, or dates and amounts.
pub(crate) type Pairs = Vec<(u64, u64)>;

/// Work that never ends.
pub(crate) const ALWAYS: u64 = u64::MAX / 4;

/// Something that happens to a vCPU.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// This much work arrives.
    Work(u64),
    /// This much work arrives at the PIBS server with this number for this client.
    Request(u8, usize, u64),
    /// These interrupts are now pending.
    Pending(u64),
}

/// One stretch of running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) vcpu: u8,
    pub(crate) server: u8,
    pub(crate) background: bool,
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// A finished job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) vcpu: u8,
    pub(crate) arrived: u64,
    pub(crate) finished: u64,
}

#[derive(Clone, Copy, Debug)]
struct Job {
    arrived: u64,
    left: u64,
    client: Option<(u8, usize)>,
}

pub(crate) struct Simulation {
    pub(crate) core: Core<16, 8>,
    pub(crate) runs: Vec<Run>,
    pub(crate) done: Vec<Done>,
    /// Every deadline of a running server is noticed this much late.
    pub(crate) late: u64,
    events: Vec<(u64, u8, Event)>,
    jobs: [VecDeque<Job>; 8],
}

impl Simulation {
    pub(crate) fn new(servers: impl IntoIterator<Item = (u8, Server)>) -> Self {
        Self {
            core: Core::new(0, servers).expect("the servers of a test are valid"),
            runs: Vec::new(),
            done: Vec::new(),
            late: 0,
            events: Vec::new(),
            jobs: Default::default(),
        }
    }

    pub(crate) fn at(&mut self, time: u64, vcpu: u8, event: Event) -> &mut Self {
        self.events.push((time, vcpu, event));
        self
    }

    pub(crate) fn work(&mut self, time: u64, vcpu: u8, amount: u64) -> &mut Self {
        self.at(time, vcpu, Event::Work(amount))
    }

    pub(crate) fn periodic(&mut self, vcpu: u8, amount: u64, period: u64, offset: u64, until: u64) -> &mut Self {
        let mut time = offset;
        while time < until {
            self.work(time, vcpu, amount);
            time += period;
        }
        self
    }

    fn arrive(&mut self, now: u64, vcpu: u8, event: Event) {
        match event {
            Event::Work(left) => {
                self.jobs[usize::from(vcpu)].push_back(Job { arrived: now, left, client: None });
                self.core.wake(now, vcpu);
            }
            Event::Request(server, client, left) => {
                let job = Job { arrived: now, left, client: Some((server, client)) };
                let queue = &mut self.jobs[usize::from(vcpu)];
                // The shortest period first, in order inside a period.
                let place = queue.iter().position(|other| other.client > job.client).unwrap_or(queue.len());
                queue.insert(place, job);
                assert!(self.core.request(now, server, client));
            }
            Event::Pending(sources) => self.core.set_pending(now, vcpu, sources),
        }
    }

    fn complete(&mut self, now: u64, vcpu: u8) {
        let queue = &mut self.jobs[usize::from(vcpu)];
        let Some(place) = queue.iter().position(|job| job.left == 0) else {
            return;
        };
        let job = queue.remove(place).expect("just found");
        self.done.push(Done { vcpu, arrived: job.arrived, finished: now });
        let empty = queue.is_empty();
        match job.client {
            Some((server, client)) => assert!(self.core.complete(now, server, client)),
            None if empty => self.core.block(now, vcpu),
            None => {}
        }
    }

    pub(crate) fn run(&mut self, until: u64) -> &mut Self {
        self.events.sort_by_key(|(time, ..)| *time);
        let mut next_event = 0;
        let mut now = self.events.first().map_or(0, |(time, ..)| (*time).min(until));
        let mut ran = None;
        while now < until {
            while let Some((time, vcpu, event)) = self.events.get(next_event).copied().filter(|(time, ..)| *time <= now)
            {
                assert_eq!(time, now, "no arrival is skipped");
                self.arrive(now, vcpu, event);
                next_event += 1;
            }
            if let Some(vcpu) = ran {
                self.complete(now, vcpu);
            }
            let decision = self.core.pick(now);
            let mut next = self.events.get(next_event).map_or(until, |(time, ..)| (*time).min(until));
            if let Some(deadline) = decision.deadline_ticks {
                assert!(deadline > now, "a deadline lies in the future");
                next = next.min(deadline.saturating_add(self.late));
            }
            ran = None;
            if let Some(choice) = decision.choice {
                let job = self.jobs[usize::from(choice.vcpu)].front_mut().expect("only ready vCPUs are chosen");
                next = next.min(now.saturating_add(job.left));
                job.left -= next - now;
                ran = Some(choice.vcpu);
                self.note(Run {
                    vcpu: choice.vcpu,
                    server: choice.server,
                    background: choice.background,
                    from: now,
                    to: next,
                });
            }
            now = next;
        }
        if let Some(vcpu) = ran {
            self.complete(now, vcpu);
        }
        self.core.advance(now);
        self
    }

    fn note(&mut self, run: Run) {
        match self.runs.last_mut() {
            Some(last) if (last.to, last.server, last.background) == (run.from, run.server, run.background) => {
                last.to = run.to;
            }
            _ => self.runs.push(run),
        }
    }

    /// Foreground runs of a server.
    pub(crate) fn of(&self, server: u8) -> Vec<(u64, u64)> {
        let mine = self.runs.iter().filter(|run| run.server == server && !run.background);
        mine.map(|run| (run.from, run.to)).collect()
    }

    /// Background runs of a server.
    pub(crate) fn background_of(&self, server: u8) -> Vec<(u64, u64)> {
        let mine = self.runs.iter().filter(|run| run.server == server && run.background);
        mine.map(|run| (run.from, run.to)).collect()
    }

    /// Most that a server ran in the foreground in any window of `length`.
    pub(crate) fn most_in(&self, server: u8, length: u64) -> u64 {
        most_in(&self.of(server), length)
    }

    /// The chunks of a sporadic server.
    pub(crate) fn chunks(&self, server: u8) -> Vec<(u64, u64)> {
        match &self.core.server(server).expect("exists").budget {
            Budget::Sporadic(rule) => pairs(rule.chunks()),
            _ => panic!("server {server} is not sporadic"),
        }
    }

    /// Longest response of a vCPU's finished jobs.
    pub(crate) fn worst_response(&self, vcpu: u8) -> u64 {
        let mine = self.done.iter().filter(|done| done.vcpu == vcpu);
        mine.map(|done| done.finished - done.arrived).max().unwrap_or(0)
    }
}

/// Most of the runs that lies in any half-open window of `length`. Windows that begin with a run or end with one suffice.
pub(crate) fn most_in(runs: &[(u64, u64)], length: u64) -> u64 {
    let inside = |from: u64| -> u64 {
        let to = from.saturating_add(length);
        runs.iter().map(|run| run.1.min(to).saturating_sub(run.0.max(from))).sum()
    };
    let starts = runs.iter().flat_map(|run| [run.0, run.1.saturating_sub(length)]);
    starts.map(inside).max().unwrap_or(0)
}

pub(crate) fn pairs(chunks: impl Iterator<Item = Chunk>) -> Vec<(u64, u64)> {
    chunks.map(|chunk| (chunk.date_ticks, chunk.amount_ticks)).collect()
}

pub(crate) fn parameters(budget: u64, period: u64, anchor: Anchor) -> SporadicParameters {
    SporadicParameters {
        budget_ticks: budget,
        period_ticks: period,
        smallest_chunk_ticks: 1,
        chunks: 16,
        anchor,
        lag_clamp: true,
    }
}

pub(crate) fn sporadic(budget: u64, period: u64, anchor: Anchor) -> Sporadic {
    Sporadic::new(parameters(budget, period, anchor), 0).expect("valid parameters")
}

pub(crate) fn eligible(budget: u64, period: u64) -> Budget {
    Budget::Sporadic(sporadic(budget, period, Anchor::Eligible))
}

pub(crate) fn dispatched(budget: u64, period: u64) -> Budget {
    Budget::Sporadic(sporadic(budget, period, Anchor::Dispatch))
}

pub(crate) fn deferrable(budget: u64, period: u64) -> Budget {
    Budget::Deferrable(Deferrable::new(budget, period, 0).expect("valid parameters"))
}

pub(crate) fn polling(budget: u64, period: u64) -> Budget {
    Budget::Polling(Polling::new(budget, period, 0).expect("valid parameters"))
}

/// A sporadic server with one rule broken, or none.
pub(crate) fn mutant(parameters: SporadicParameters, mutant: Mutant) -> Budget {
    Budget::Sporadic(Sporadic::new(parameters, 0).expect("valid parameters").with_mutant(mutant))
}
