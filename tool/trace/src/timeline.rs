//! The timeline: events in order of time, and who ran when.
//!
//! The maker of one (the decoder of rings, the simulator, the reader of files) calls [`Timeline::new`], then
//! [`Timeline::push`] in any order, then [`Timeline::finish`]. Events of one core that bear the same time keep the order in
//! which they were pushed, because that order is the order in which they happened.

use crate::layout::Layout;
use bulkhead_abi::status::STATE_RUNNING;
use std::collections::BTreeMap;

/// Something that happened on a core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, since boot.
    pub time_ns: u64,
    /// On which core.
    pub core: usize,
    /// What.
    pub kind: EventKind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A shared core starts to run a vCPU. It runs until the core's next `Run` or `Idle`.
    Run {
        /// Its slot.
        slot: usize,
        /// The server on whose budget it runs; none under round robin.
        server: Option<usize>,
        /// It runs in the background and pays nothing.
        background: bool,
        /// Budget in hand; none if unlimited.
        budget_ns: Option<u64>,
        /// When the core will be asked again at the latest.
        until_ns: Option<u64>,
    },
    /// A shared core has nobody to run.
    Idle,
    /// A vCPU of a shared core becomes ready.
    Wake {
        /// Its slot.
        slot: usize,
        /// The interrupt that woke it.
        interrupt: Option<u32>,
    },
    /// A vCPU of a shared core has nothing to do.
    Block {
        /// Its slot.
        slot: usize,
    },
    /// A server's budget ran out.
    Exhausted {
        /// The server.
        server: usize,
    },
    /// A server's budget came back.
    Replenished {
        /// The server.
        server: usize,
        /// Budget in hand; none if it is not known.
        budget_ns: Option<u64>,
    },
    /// Up to when the core's monitor charged the vCPU that ran; a decision follows.
    Charged {
        /// Since when, where another one paid for the loading; none if since the last such instant.
        from_ns: Option<u64>,
        /// The server that paid until then, from its budget or in the background, as it ran last.
        payer: Option<usize>,
        /// Up to when.
        until_ns: u64,
    },
    /// A physical interrupt.
    Interrupt {
        /// Its INTID.
        intid: u32,
        /// The partition that owns it; none for the monitor's own.
        owner: Option<usize>,
        /// The owner does not run and the interrupt waits for it.
        held: bool,
    },
    /// A doorbell was rung.
    Doorbell {
        /// The sending partition.
        partition: usize,
        /// The channel.
        channel: usize,
        /// The limiter let it through.
        sent: bool,
    },
    /// A guest was entered for the first time since start or restart.
    GuestStart {
        /// The partition.
        partition: usize,
        /// Entry point.
        entry: u64,
    },
    /// A partition changed its state.
    State {
        /// The partition.
        partition: usize,
        /// One of the `STATE_` constants of [`bulkhead_abi::status`].
        state: u32,
        /// One of the `REASON_` constants of [`bulkhead_abi::status`].
        reason: u32,
    },
    /// An exit that is no call.
    Exit {
        /// The partition.
        partition: usize,
        /// ESR_EL2.
        syndrome: u64,
        /// ELR_EL2.
        address: u64,
    },
    /// A call by HVC or SMC.
    Call {
        /// The partition.
        partition: usize,
        /// Function.
        function: u64,
        /// First argument.
        argument: u64,
    },
    /// A fault that goes to the health policy.
    Fault {
        /// The partition.
        partition: usize,
        /// One of the `REASON_` constants of [`bulkhead_abi::status`].
        reason: u32,
        /// ESR_EL2.
        syndrome: u64,
        /// Guest address.
        address: u64,
    },
    /// A remark, such as a simulated job that is released or done.
    Mark {
        /// The slot that it is about.
        slot: Option<usize>,
        /// The remark.
        text: String,
    },
}

/// A stretch of time in which one vCPU had its core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Its slot.
    pub slot: usize,
    /// The server that paid.
    pub server: Option<usize>,
    /// In the background.
    pub background: bool,
    /// From.
    pub from_ns: u64,
    /// To; later than `from_ns`.
    pub to_ns: u64,
}

/// Events of all cores in order of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// Who is who.
    pub layout: Layout,
    /// Events in order of time; read them, but add to them with [`Timeline::push`].
    pub events: Vec<Event>,
    /// Earliest time known of.
    pub from_ns: u64,
    /// Latest time known of.
    pub to_ns: u64,
    /// Records that were overwritten before they could be read, per core.
    pub lost: Vec<u64>,
    /// What is wrong with the source, in words: cut, damaged, out of order.
    pub warnings: Vec<String>,
}

impl Timeline {
    /// Makes an empty timeline of a system.
    #[must_use]
    pub fn new(layout: Layout) -> Self {
        let lost = vec![0; layout.cores.len()];
        Self { layout, lost, ..Self::default() }
    }

    /// Adds an event.
    pub fn push(&mut self, time_ns: u64, core: usize, kind: EventKind) {
        self.events.push(Event { time_ns, core, kind });
    }

    /// Puts the events in order. The last run ends at the last event, or at `end_ns` if that is later.
    pub fn finish(&mut self, end_ns: u64) {
        self.events.sort_by_key(|event| (event.time_ns, event.core));
        self.from_ns = self.events.first().map_or(0, |event| event.time_ns);
        self.to_ns = self.events.last().map_or(0, |event| event.time_ns).max(end_ns);
    }

    /// Returns the length of time that the timeline covers.
    #[must_use]
    pub fn length_ns(&self) -> u64 {
        self.to_ns.saturating_sub(self.from_ns)
    }

    /// Returns the events of one core, in order.
    pub fn of_core(&self, core: usize) -> impl Iterator<Item = &Event> {
        self.events.iter().filter(move |event| event.core == core)
    }

    /// States whether no record was lost and nothing is wrong with the source.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.warnings.is_empty() && self.lost.iter().all(|lost| *lost == 0)
    }

    /// Returns who ran on a core, in order. Empty stretches are left out.
    #[must_use]
    pub fn runs(&self, core: usize) -> Vec<Run> {
        match self.layout.cores.get(core) {
            Some(layout) if layout.is_shared => self.shared_runs(core),
            Some(_) => self.dedicated_runs(core),
            None => Vec::new(),
        }
    }

    /// Returns who was charged when on a core, in order, as its monitor's accounts have it: one that gives the core away pays for the
    /// loading of its successor. A source without such records (the simulator has no loading) says who ran.
    #[must_use]
    pub fn charges(&self, core: usize) -> Vec<Run> {
        let mut charges = Vec::new();
        let mut current: Option<Run> = None;
        let mut last_of: BTreeMap<Option<usize>, Run> = BTreeMap::new();
        let mut end_ns: Option<u64> = None;
        for event in self.of_core(core) {
            match event.kind {
                EventKind::Run { slot, server, background, .. } => {
                    let run = Run { slot, server, background, from_ns: 0, to_ns: 0 };
                    last_of.extend(current.map(|before| (before.server, before)));
                    current = Some(run);
                }
                EventKind::Idle => last_of.extend(current.take().map(|before| (before.server, before))),
                EventKind::Charged { from_ns, payer, until_ns } => {
                    // One that gives way to itself in another way pays in the new way.
                    let from_ns = from_ns.filter(|_| current.is_none_or(|run| run.server != payer));
                    if let (Some(end_ns), Some(begin_ns), Some(payer)) = (end_ns, from_ns, last_of.get(&payer)) {
                        close(&mut charges, Some(Run { from_ns: end_ns, ..*payer }), begin_ns);
                    }
                    let begin_ns = from_ns.or(end_ns);
                    close(&mut charges, current.zip(begin_ns).map(|(run, from_ns)| Run { from_ns, ..run }), until_ns);
                    end_ns = Some(until_ns);
                }
                _ => {}
            }
        }
        if end_ns.is_none() { self.runs(core) } else { charges }
    }

    fn shared_runs(&self, core: usize) -> Vec<Run> {
        let mut runs = Vec::new();
        let mut current: Option<Run> = None;
        for event in self.of_core(core) {
            let next = match &event.kind {
                EventKind::Run { slot, server, background, .. } => Some(Run {
                    slot: *slot,
                    server: *server,
                    background: *background,
                    from_ns: event.time_ns,
                    to_ns: event.time_ns,
                }),
                EventKind::Idle => None,
                _ => continue,
            };
            close(&mut runs, current.take(), event.time_ns);
            current = next;
        }
        close(&mut runs, current, self.to_ns);
        runs
    }

    /// The vCPU of a dedicated core has it from its start as long as its partition runs. Where the start was overwritten,
    /// it has it from the first record on.
    fn dedicated_runs(&self, core: usize) -> Vec<Run> {
        let Some(owner) = self.layout.slot(core, 0) else { return Vec::new() };
        let begin = |from_ns| Run { slot: 0, server: None, background: false, from_ns, to_ns: from_ns };
        let is_cut = self.lost.get(core).is_some_and(|lost| *lost > 0);
        let mut is_started = is_cut;
        let mut current = is_cut.then(|| begin(self.of_core(core).next().map_or(self.from_ns, |event| event.time_ns)));
        let mut runs = Vec::new();
        for event in &self.events {
            match event.kind {
                EventKind::GuestStart { partition, .. } if event.core == core && partition == owner.partition => {
                    is_started = true;
                    current.get_or_insert(begin(event.time_ns));
                }
                EventKind::State { partition, state, .. } if partition == owner.partition => {
                    if state != STATE_RUNNING {
                        close(&mut runs, current.take(), event.time_ns);
                    } else if is_started {
                        current.get_or_insert(begin(event.time_ns));
                    }
                }
                _ => {}
            }
        }
        close(&mut runs, current, self.to_ns);
        runs
    }
}

/// Ends a run, and keeps it if it has any length.
fn close(runs: &mut Vec<Run>, current: Option<Run>, to_ns: u64) {
    runs.extend(current.map(|run| Run { to_ns, ..run }).filter(|run| run.to_ns > run.from_ns));
}
