//! The form for the Perfetto UI, by way of the timeline that traces of machines become too.

use crate::event::{Event, EventKind, Sink};
use crate::stage::Stage;
use bulkhead_description::unit::format_duration;
use bulkhead_trace as trace;
use bulkhead_trace::Timeline;
use std::io;

/// More events make a file that the UI does not open.
pub const MAX_EVENTS: u64 = 2_000_000;

/// Keeps a timeline of the events.
#[derive(Debug)]
pub struct TimelineSink {
    timeline: Timeline,
    events: u64,
    /// The core's last run ended then; nobody has started since.
    stopped: Vec<Option<u64>>,
    /// By simulated core and slot: what has arrived and is not done. A vCPU is ready as long as that is something.
    pending: Vec<Vec<u64>>,
    /// Simulated cores are the shared ones; a timeline has all of them. This is where each of them is.
    places: Vec<usize>,
}

impl TimelineSink {
    /// An empty timeline of the simulation's cores.
    #[must_use]
    pub fn new(stage: &dyn Stage) -> Self {
        let (layout, places) = stage.layout();
        let lanes = stage.lanes();
        Self {
            timeline: Timeline::new(layout),
            events: 0,
            stopped: vec![None; lanes.len()],
            pending: lanes.iter().map(|core| vec![0; core.names.len()]).collect(),
            places,
        }
    }

    /// The finished timeline.
    #[must_use]
    pub fn finish(mut self, end_ns: u64) -> Timeline {
        for core in 0..self.stopped.len() {
            self.settle(core, u64::MAX);
        }
        self.timeline.finish(end_ns);
        self.timeline
    }

    /// A stop that no start at the same instant followed leaves the core idle.
    fn settle(&mut self, core: usize, now_ns: u64) {
        if let Some(stopped) = self.stopped.get_mut(core)
            && let Some(at_ns) = stopped.filter(|at_ns| *at_ns < now_ns)
        {
            *stopped = None;
            self.push(at_ns, core, trace::EventKind::Idle);
        }
    }

    fn push(&mut self, time_ns: u64, core: usize, kind: trace::EventKind) {
        let place = self.places.get(core).copied().unwrap_or(usize::MAX);
        self.timeline.push(time_ns, place, kind);
    }

    fn mark(&mut self, event: &Event, text: String) {
        self.push(event.time_ns, event.core, trace::EventKind::Mark { slot: Some(event.slot), text });
    }

    /// Counts what a vCPU has to do; the first makes it ready, and after the last it has nothing to do.
    fn count(&mut self, event: &Event, arrives: bool) {
        let Some(pending) = self.pending.get_mut(event.core).and_then(|core| core.get_mut(event.slot)) else { return };
        let was = *pending;
        *pending = if arrives { was.saturating_add(1) } else { was.saturating_sub(1) };
        let slot = event.slot;
        match (was, *pending) {
            (0, 1) => self.push(event.time_ns, event.core, trace::EventKind::Wake { slot, interrupt: None }),
            (1, 0) => self.push(event.time_ns, event.core, trace::EventKind::Block { slot }),
            _ => {}
        }
    }
}

impl Sink for TimelineSink {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        self.events += 1;
        if self.events > MAX_EVENTS {
            let message = format!("more than {MAX_EVENTS} events; shorten the simulation with --until or --events");
            return Err(io::Error::other(message));
        }
        self.settle(event.core, event.time_ns);
        let (slot, server) = (event.slot, event.server.map(usize::from));
        match event.kind {
            EventKind::Start { background } => {
                if let Some(stopped) = self.stopped.get_mut(event.core) {
                    *stopped = None;
                }
                let kind = trace::EventKind::Run { slot, server, background, budget_ns: None, until_ns: None };
                self.push(event.time_ns, event.core, kind);
            }
            EventKind::Stop => {
                if let Some(stopped) = self.stopped.get_mut(event.core) {
                    *stopped = Some(event.time_ns);
                }
            }
            EventKind::Exhaust => {
                if let Some(server) = server {
                    self.push(event.time_ns, event.core, trace::EventKind::Exhausted { server });
                }
            }
            EventKind::Replenish => {
                if let Some(server) = server {
                    let kind = trace::EventKind::Replenished { server, budget_ns: None };
                    self.push(event.time_ns, event.core, kind);
                }
            }
            EventKind::Arrive => {
                self.mark(event, String::from("work arrives"));
                self.count(event, true);
            }
            EventKind::Interrupt => {
                self.mark(event, String::from("interrupt"));
                self.count(event, true);
            }
            EventKind::Admit => self.mark(event, String::from("server is made")),
            EventKind::Refuse => self.mark(event, String::from("band admits no such server")),
            EventKind::End => self.mark(event, String::from("server ends")),
            EventKind::Complete { response_ns } => {
                self.mark(event, format!("done after {}", format_duration(response_ns)));
                self.count(event, false);
            }
        }
        Ok(())
    }
}
