//! The trace rings of a machine: read live out of its RAM, as records and as a timeline.
//!
//! What records mean is the business of [`bulkhead_trace`]; here is where they are.

use crate::observer::Observer;
use crate::ram::{Ram, behind};
use crate::recorded::{InstanceRings, Recorded};
use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::observe::{TraceHeader, TraceRecord};
use bulkhead_abi::schedule::{Rule, ServerPlan};
use bulkhead_trace::decode::ticks_to_ns;
use bulkhead_trace::ring::{Batch, RingBytes, RingReader};
use bulkhead_trace::{ChannelLayout, CoreLayout, Layout, ServerLayout, SlotLayout, Timeline, text};

/// A ring in a machine's RAM.
pub(crate) struct LiveRing<'a> {
    pub(crate) ram: &'a Ram,
    pub(crate) address: PhysicalAddress,
}

impl RingBytes for LiveRing<'_> {
    fn header(&self) -> Option<TraceHeader> {
        self.ram.read_at(self.address)
    }

    fn written(&self) -> Option<u64> {
        self.ram.load_u64(behind(self.address, core::mem::offset_of!(TraceHeader, written) as u64)?)
    }

    fn record(&self, offset_bytes: u64) -> Option<TraceRecord> {
        self.ram.read_at(behind(self.address, offset_bytes)?)
    }
}

/// What to do for a system whose trace would be empty.
pub(crate) const NOT_RECORDING: &str =
    "no core records; say so in the description: [trace] enabled = true, or in that of an instance: trace = true";

/// Collects the records of all cores while a machine runs.
#[derive(Debug)]
pub struct TraceCollector {
    readers: Vec<(PhysicalAddress, RingReader)>,
    batches: Vec<Batch>,
    instances: InstanceRings,
}

impl TraceCollector {
    /// Makes a collector that begins with the oldest records still in the rings.
    #[must_use]
    pub fn new(observer: &Observer) -> Self {
        let boots = observer.plan().header.cores.iter().take(observer.core_count());
        let readers: Vec<_> = boots.map(|boot| (boot.trace, RingReader::new(boot.trace_bytes))).collect();
        let batches = vec![Batch::default(); readers.len()];
        Self { readers, batches, instances: InstanceRings::new(observer) }
    }

    /// Takes what is new. Often enough, nothing is lost: a ring holds what its core wrote since the last call.
    pub fn poll(&mut self, observer: &Observer) {
        for ((address, reader), batch) in self.readers.iter_mut().zip(&mut self.batches) {
            let new = reader.poll(&LiveRing { ram: observer.ram(), address: *address });
            batch.records.extend(new.records);
            batch.warnings.extend(new.warnings);
            batch.lost += new.lost;
        }
        self.instances.poll(observer);
    }

    /// Returns everything collected, in order of time.
    #[must_use]
    pub fn finish(mut self, observer: &Observer) -> Trace {
        self.poll(observer);
        let mut records: Vec<_> = self.batches.iter().flat_map(|batch| &batch.records).copied().collect();
        // The core decides between equal times, so that the order does not depend on when the rings were read.
        records.sort_by_key(|record| (record.time_ticks, record.core));
        let lost = self.batches.iter().map(|batch| batch.lost).collect();
        let is_recording = (0..observer.core_count()).any(|core| observer.traces(core));
        let instances = self.instances.finish(observer);
        let is_recording = is_recording || !instances.is_empty();
        Trace { records, lost, is_recording, batches: self.batches, instances }
    }
}

/// The records of all cores, merged by time.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// Records in order of time; records of one core keep their order.
    pub records: Vec<TraceRecord>,
    /// Records lost per core.
    pub lost: Vec<u64>,
    /// Some core records at all, or the kernel of an instance.
    pub is_recording: bool,
    batches: Vec<Batch>,
    /// What kernels of instances have recorded.
    pub instances: Vec<Recorded>,
}

impl Trace {
    /// Reads what is in the rings now.
    #[must_use]
    pub fn read(observer: &Observer) -> Self {
        TraceCollector::new(observer).finish(observer)
    }

    /// Returns what happened. `clock` says what the times are.
    #[must_use]
    pub fn timeline(&self, observer: &Observer, clock: &str) -> Timeline {
        let layout = layout(observer, clock);
        let counter_hz = observer.plan().header.counter_hz;
        let mut timeline = Timeline::from_records(layout, counter_hz, &self.batches);
        for instance in &self.instances {
            instance.add_to(&mut timeline, counter_hz);
        }
        timeline.finish(0);
        if !self.is_recording {
            timeline.warnings.push(NOT_RECORDING.to_owned());
        }
        timeline
    }

    /// Writes one line of text per record: nanoseconds, core, whom it is about, event.
    #[must_use]
    pub fn text(&self, observer: &Observer) -> String {
        text::lines(&self.timeline(observer, ""))
    }
}

/// Returns who is who in the traces of a machine.
#[must_use]
pub fn layout(observer: &Observer, clock: &str) -> Layout {
    let plan = observer.plan();
    let channels = plan.partitions.iter().enumerate().flat_map(|(source, partition)| {
        let used = partition.doorbells().iter();
        used.map(move |doorbell| (source, doorbell))
    });
    let mut layout = Layout {
        clock: clock.to_owned(),
        partitions: plan.partition_names(),
        cores: (0..plan.cores.len()).map(|core| core_layout(observer, core)).collect(),
        ..Layout::default()
    };
    for (source, doorbell) in channels {
        let index = doorbell.channel as usize;
        if layout.channels.len() <= index {
            layout.channels.resize(index + 1, ChannelLayout::default());
        }
        layout.channels[index] = ChannelLayout {
            name: format!("{index}"),
            source,
            destination: doorbell.peer as usize,
            doorbell_interrupt: Some(doorbell.intid),
        };
    }
    layout
}

fn core_layout(observer: &Observer, core: usize) -> CoreLayout {
    let plan = observer.plan();
    let hz = plan.header.counter_hz;
    let Some(core_plan) = plan.cores.get(core) else { return CoreLayout::default() };
    let slots: Vec<_> = (core_plan.vcpus.iter())
        .map(|vcpu| SlotLayout { partition: vcpu.partition as usize, vcpu: vcpu.vcpu as usize })
        .collect();
    let Some(schedule) = &core_plan.schedule else { return CoreLayout { slots, ..CoreLayout::default() } };
    let used = schedule.servers();
    let server = |server: &ServerPlan| {
        let index = server.slot as usize;
        let mut name = plan.partition_name(slots.get(index).map_or(usize::MAX, |slot| slot.partition)).to_owned();
        // The image holds no names of servers; priorities tell those of one vCPU apart.
        if used.iter().filter(|other| other.slot == server.slot).count() > 1 {
            name.push_str(&format!(", priority {}", server.priority));
        }
        let time = |ticks: u64| (server.rule() != Some(Rule::Unlimited) && ticks > 0).then(|| ticks_to_ns(ticks, hz));
        ServerLayout {
            name,
            slot: index,
            priority: server.priority,
            budget_ns: time(server.budget_ticks),
            period_ns: time(server.period_ticks),
        }
    };
    CoreLayout { is_shared: true, servers: used.iter().map(server).collect(), slots }
}
