//! Writes a timeline as a Perfetto trace.
//!
//! Packets are written in order of time while the events pass by, so every track is in order, and each packet is encoded
//! at once: a simulation of ten million events would not fit into memory as messages.

use super::flows::Flows;
use super::message::{DebugAnnotation, EventType, SEQ_INCREMENTAL_STATE_CLEARED, TracePacket, TrackEvent};
use super::record::{EventRecord, LayoutRecord};
use super::tracks::{Track, descriptors};
use crate::text;
use crate::timeline::{Event, EventKind, Run, Timeline};
use crate::words::{reason_name, state_name};

/// The only writer of the trace.
const SEQUENCE: u32 = 1;

/// Returns the bytes of the trace file.
#[must_use]
pub fn write(timeline: &Timeline) -> Vec<u8> {
    let mut writer = Writer::new(timeline);
    writer.head();
    for (index, event) in timeline.events.iter().enumerate() {
        writer.dedicated_until(event.time_ns);
        writer.begin_event(event);
        writer.show(index, event);
        writer.end_event(event);
    }
    writer.close_all();
    writer.bytes
}

/// What is shown of a core now.
#[derive(Clone, Debug, Default)]
struct Lane {
    /// The run that is open.
    run: Option<OpenRun>,
    /// By slot: it is ready.
    ready: Vec<bool>,
    /// By slot: a slice is open on its track.
    open: Vec<bool>,
}

#[derive(Clone, Copy, Debug)]
struct OpenRun {
    slot: usize,
    /// Server and its budget at the beginning, while that is being used up.
    budget: Option<(usize, u64)>,
    from_ns: u64,
}

struct Writer<'a> {
    timeline: &'a Timeline,
    bytes: Vec<u8>,
    flows: Flows,
    lanes: Vec<Lane>,
    /// By partition: its state slice is open.
    states: Vec<bool>,
    /// Beginnings and ends on dedicated cores: time, core, and the run that begins.
    dedicated: std::vec::IntoIter<(u64, usize, Option<Run>)>,
    next_dedicated: Option<(u64, usize, Option<Run>)>,
    /// The event that the next packet carries.
    carried: Option<EventRecord>,
    time_ns: u64,
}

impl<'a> Writer<'a> {
    fn new(timeline: &'a Timeline) -> Self {
        let layout = &timeline.layout;
        let lanes = layout.cores.iter().map(|core| {
            let count = core.slots.len();
            Lane { run: None, ready: vec![false; count], open: vec![false; count] }
        });
        let mut dedicated = Vec::new();
        for (core, _) in layout.cores.iter().enumerate().filter(|(_, core)| !core.is_shared) {
            for run in timeline.runs(core) {
                dedicated.push((run.from_ns, core, Some(run)));
                dedicated.push((run.to_ns, core, None));
            }
        }
        // Stable, so that a run that ends where the next one begins ends first.
        dedicated.sort_by_key(|(time_ns, ..)| *time_ns);
        let mut dedicated = dedicated.into_iter();
        Self {
            timeline,
            bytes: Vec::new(),
            flows: Flows::of(timeline),
            lanes: lanes.collect(),
            states: vec![false; layout.partitions.len()],
            next_dedicated: dedicated.next(),
            dedicated,
            carried: None,
            time_ns: timeline.from_ns,
        }
    }

    fn packet(&mut self, packet: TracePacket) {
        // Field 1 of a trace, with a length. Writing to a vector cannot fail.
        prost::encoding::message::encode(1, &packet, &mut self.bytes);
    }

    /// Writes who is who, and the tracks.
    fn head(&mut self) {
        let record = LayoutRecord {
            lost: self.timeline.lost.clone(),
            warnings: self.timeline.warnings.clone(),
            to_ns: self.timeline.to_ns,
            events: self.timeline.events.len() as u64,
            ..LayoutRecord::of(&self.timeline.layout)
        };
        self.packet(TracePacket {
            trusted_packet_sequence_id: Some(SEQUENCE),
            sequence_flags: Some(SEQ_INCREMENTAL_STATE_CLEARED),
            first_packet_on_sequence: Some(true),
            bulkhead_guest_abi: Some(record),
            ..TracePacket::default()
        });
        for track in descriptors(&self.timeline.layout) {
            self.packet(TracePacket {
                trusted_packet_sequence_id: Some(SEQUENCE),
                track_descriptor: Some(track),
                ..TracePacket::default()
            });
        }
    }

    /// Writes an event on a track. The first one of each event carries the event itself.
    fn emit(&mut self, track: Track, kind: EventType, event: TrackEvent) {
        let event = TrackEvent { r#type: Some(kind as i32), track_uuid: Some(track.uuid()), ..event };
        let packet = TracePacket {
            timestamp: Some(self.time_ns),
            trusted_packet_sequence_id: Some(SEQUENCE),
            track_event: Some(event),
            bulkhead_event: self.carried.take(),
            ..TracePacket::default()
        };
        self.packet(packet);
    }

    fn begin_event(&mut self, event: &Event) {
        self.time_ns = event.time_ns;
        self.carried = Some(EventRecord::of(event));
    }

    /// An event that changed nothing on any track is shown as a remark, so that its packet exists.
    fn end_event(&mut self, event: &Event) {
        if self.carried.is_some() {
            self.instant(Track::Core(event.core), event, TrackEvent::default());
        }
    }

    fn instant(&mut self, track: Track, event: &Event, rest: TrackEvent) {
        // The UI groups events by name, so what differs from one to the next is an argument.
        let name = text::title(event, &self.timeline.layout);
        let mut notes = rest.debug_annotations;
        notes.extend(text::registers(&event.kind).into_iter().map(|(name, value)| pointer(name, value)));
        self.emit(track, EventType::Instant, TrackEvent { name: Some(name), debug_annotations: notes, ..rest });
    }

    /// Returns the track of a slot if the layout has it, else that of the core.
    fn slot_track(&self, core: usize, slot: usize) -> Track {
        if self.timeline.layout.slot(core, slot).is_some() { Track::Slot(core, slot) } else { Track::Core(core) }
    }

    /// Returns the track of a partition's vCPU on a core, else that of the core.
    fn partition_track(&self, core: usize, partition: usize) -> Track {
        let slots = self.timeline.layout.slots_of(partition);
        slots.into_iter().find(|(on, _)| *on == core).map_or(Track::Core(core), |(_, slot)| Track::Slot(core, slot))
    }

    fn show(&mut self, index: usize, event: &Event) {
        let core = event.core;
        match &event.kind {
            EventKind::Run { .. } => self.show_run(index, event),
            EventKind::Idle => self.end_run(core),
            // For `bulkhead report`; what it adds to a chart is less than a pixel.
            EventKind::Charged { .. } => {}
            EventKind::Wake { slot, .. } => {
                // A wake-up by the guest's timer has no interrupt of its own in the trace: it is shown as one.
                let flow_ids = self.flows.beginning(index);
                if !flow_ids.is_empty() {
                    let owner = self.timeline.layout.slot_name(core, *slot).to_string();
                    let debug_annotations = vec![note("owner", owner)];
                    let rest = TrackEvent { debug_annotations, flow_ids, ..TrackEvent::default() };
                    self.instant(Track::Interrupts(core), event, rest);
                }
                self.show_wake(core, *slot);
            }
            EventKind::Block { slot } => self.show_block(core, *slot),
            EventKind::Exhausted { server } => self.show_budget(event, *server, Some(0), true),
            EventKind::Replenished { server, budget_ns } => self.show_budget(event, *server, *budget_ns, false),
            EventKind::Interrupt { owner, .. } => {
                let owner = owner.map(|owner| self.timeline.layout.partition_name(owner).to_owned());
                let rest = TrackEvent {
                    debug_annotations: owner.map(|owner| note("owner", owner)).into_iter().collect(),
                    flow_ids: self.flows.beginning(index),
                    terminating_flow_ids: self.flows.ending(index),
                    ..TrackEvent::default()
                };
                self.instant(Track::Interrupts(core), event, rest);
            }
            EventKind::Doorbell { partition, .. } => {
                let rest = TrackEvent { flow_ids: self.flows.beginning(index), ..TrackEvent::default() };
                self.instant(self.partition_track(core, *partition), event, rest);
            }
            EventKind::State { partition, state, reason } => self.show_state(*partition, *state, *reason),
            EventKind::GuestStart { partition, .. }
            | EventKind::Exit { partition, .. }
            | EventKind::Call { partition, .. }
            | EventKind::Fault { partition, .. } => {
                self.instant(self.partition_track(core, *partition), event, TrackEvent::default());
            }
            EventKind::Mark { slot, .. } => {
                let track = slot.map_or(Track::Core(core), |slot| self.slot_track(core, slot));
                self.instant(track, event, TrackEvent::default());
            }
        }
    }

    fn show_run(&mut self, index: usize, event: &Event) {
        let EventKind::Run { slot, server, background, budget_ns, until_ns } = event.kind else { return };
        let core = event.core;
        self.end_run(core);
        let layout = &self.timeline.layout;
        let server_name = server.and_then(|server| layout.server_name(core, server)).map(str::to_owned);
        let mut notes: Vec<_> = server_name.iter().map(|name| note("server", name.clone())).collect();
        notes.extend(background.then(|| note("budget", "background, pays nothing".to_owned())));
        notes.extend(budget_ns.map(|budget| number("budget in hand, ns", budget)));
        notes.extend(until_ns.map(|until| number("asked again at, ns", until)));
        let whole = TrackEvent {
            name: Some(layout.slot_name(core, slot).to_string()),
            categories: vec!["schedule".to_owned()],
            debug_annotations: notes,
            ..TrackEvent::default()
        };
        self.emit(Track::Core(core), EventType::SliceBegin, whole);
        self.close_slot(core, slot);
        let name = match (server_name, background) {
            (Some(name), true) => format!("runs in the background of {name}"),
            (Some(name), false) => format!("runs on {name}"),
            (None, _) => "runs".to_owned(),
        };
        let flows = self.flows.ending(index);
        self.open_slot(
            core,
            slot,
            TrackEvent { name: Some(name), terminating_flow_ids: flows, ..TrackEvent::default() },
        );
        let budget = server.zip(budget_ns).filter(|_| !background);
        if let Some((server, budget)) = budget {
            self.counter(core, server, budget);
        }
        if let Some(lane) = self.lanes.get_mut(core) {
            lane.run = Some(OpenRun { slot, budget, from_ns: event.time_ns });
            if let Some(ready) = lane.ready.get_mut(slot) {
                *ready = true;
            }
        }
    }

    /// Ends the run that is open on a core. Its vCPU waits from now on if it is still ready.
    fn end_run(&mut self, core: usize) {
        let Some(run) = self.lanes.get_mut(core).and_then(|lane| lane.run.take()) else { return };
        self.emit(Track::Core(core), EventType::SliceEnd, TrackEvent::default());
        if let Some((server, budget)) = run.budget {
            self.counter(core, server, budget.saturating_sub(self.time_ns - run.from_ns));
        }
        self.close_slot(core, run.slot);
        if self.lanes.get(core).and_then(|lane| lane.ready.get(run.slot)) == Some(&true) {
            self.open_slot(core, run.slot, waits());
        }
    }

    fn show_wake(&mut self, core: usize, slot: usize) {
        let Some(ready) = self.lanes.get_mut(core).and_then(|lane| lane.ready.get_mut(slot)) else { return };
        if !std::mem::replace(ready, true) {
            self.close_slot(core, slot);
            self.open_slot(core, slot, waits());
        }
    }

    fn show_block(&mut self, core: usize, slot: usize) {
        if let Some(ready) = self.lanes.get_mut(core).and_then(|lane| lane.ready.get_mut(slot)) {
            *ready = false;
        }
        self.close_slot(core, slot);
    }

    fn show_budget(&mut self, event: &Event, server: usize, budget_ns: Option<u64>, is_remark: bool) {
        if is_remark || budget_ns.is_none() {
            let slot = self.timeline.layout.cores.get(event.core).and_then(|core| core.servers.get(server));
            let track = slot.map_or(Track::Core(event.core), |found| self.slot_track(event.core, found.slot));
            self.instant(track, event, TrackEvent::default());
        }
        if let Some(budget) = budget_ns {
            self.counter(event.core, server, budget);
        }
        let run = self.lanes.get_mut(event.core).and_then(|lane| lane.run.as_mut());
        if let Some(run) = run.filter(|run| run.budget.is_some_and(|(running, _)| running == server)) {
            run.budget = budget_ns.map(|budget| (server, budget));
            run.from_ns = event.time_ns;
        }
    }

    fn counter(&mut self, core: usize, server: usize, value_ns: u64) {
        let plan = self.timeline.layout.cores.get(core).and_then(|core| core.servers.get(server));
        // Only servers with a budget have a track for it.
        if plan.is_some_and(|plan| plan.budget_ns.is_some()) {
            let value = TrackEvent { counter_value: i64::try_from(value_ns).ok(), ..TrackEvent::default() };
            self.emit(Track::Budget(core, server), EventType::Counter, value);
        }
    }

    fn show_state(&mut self, partition: usize, state: u32, reason: u32) {
        let Some(open) = self.states.get_mut(partition) else { return };
        if std::mem::replace(open, true) {
            self.emit(Track::Partition(partition), EventType::SliceEnd, TrackEvent::default());
        }
        let begin = TrackEvent {
            name: Some(state_name(state).to_owned()),
            debug_annotations: vec![note("reason", reason_name(reason).to_owned())],
            ..TrackEvent::default()
        };
        self.emit(Track::Partition(partition), EventType::SliceBegin, begin);
        // A vCPU that is stopped from outside does not block by itself.
        if state != bulkhead_abi::status::STATE_RUNNING {
            for (core, slot) in self.timeline.layout.slots_of(partition) {
                let is_running = self.lanes.get(core).and_then(|lane| lane.run).is_some_and(|run| run.slot == slot);
                if self.timeline.layout.cores.get(core).is_some_and(|core| core.is_shared) && !is_running {
                    self.show_block(core, slot);
                } else if let Some(ready) = self.lanes.get_mut(core).and_then(|lane| lane.ready.get_mut(slot)) {
                    *ready = false;
                }
            }
        }
    }

    fn open_slot(&mut self, core: usize, slot: usize, begin: TrackEvent) {
        let Some(open) = self.lanes.get_mut(core).and_then(|lane| lane.open.get_mut(slot)) else { return };
        *open = true;
        self.emit(Track::Slot(core, slot), EventType::SliceBegin, begin);
    }

    fn close_slot(&mut self, core: usize, slot: usize) {
        let open = self.lanes.get_mut(core).and_then(|lane| lane.open.get_mut(slot));
        if open.is_some_and(|open| std::mem::replace(open, false)) {
            self.emit(Track::Slot(core, slot), EventType::SliceEnd, TrackEvent::default());
        }
    }

    /// Writes what begins and ends on dedicated cores up to a time.
    fn dedicated_until(&mut self, time_ns: u64) {
        while let Some((at_ns, core, begins)) = self.next_dedicated.filter(|(at_ns, ..)| *at_ns <= time_ns) {
            self.time_ns = at_ns;
            if begins.is_some() {
                let name = self.timeline.layout.slot_name(core, 0).to_string();
                let begin = |name| TrackEvent { name: Some(name), ..TrackEvent::default() };
                self.emit(Track::Core(core), EventType::SliceBegin, begin(name));
                self.open_slot(core, 0, begin("owns the core".to_owned()));
            } else {
                self.emit(Track::Core(core), EventType::SliceEnd, TrackEvent::default());
                self.close_slot(core, 0);
            }
            self.next_dedicated = self.dedicated.next();
        }
    }

    fn close_all(&mut self) {
        self.dedicated_until(self.timeline.to_ns);
        self.time_ns = self.timeline.to_ns;
        for core in 0..self.lanes.len() {
            self.end_run(core);
            for slot in 0..self.timeline.layout.cores.get(core).map_or(0, |core| core.slots.len()) {
                self.close_slot(core, slot);
            }
        }
        for partition in 0..self.states.len() {
            if self.states.get(partition) == Some(&true) {
                self.emit(Track::Partition(partition), EventType::SliceEnd, TrackEvent::default());
            }
        }
    }
}

fn waits() -> TrackEvent {
    TrackEvent { name: Some("waits".to_owned()), ..TrackEvent::default() }
}

fn note(name: &str, value: String) -> DebugAnnotation {
    DebugAnnotation { name: Some(name.to_owned()), string_value: Some(value), ..DebugAnnotation::default() }
}

fn number(name: &str, value: u64) -> DebugAnnotation {
    DebugAnnotation { name: Some(name.to_owned()), uint_value: Some(value), ..DebugAnnotation::default() }
}

fn pointer(name: &str, value: u64) -> DebugAnnotation {
    DebugAnnotation { name: Some(name.to_owned()), pointer_value: Some(value), ..DebugAnnotation::default() }
}
