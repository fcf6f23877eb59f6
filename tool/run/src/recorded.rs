//! What a kernel that records has told: the rings of instances as cores of a timeline, behind those of the board.
//!
//! Such a core has a slot for each thread and the instance's servers, so the picture, the text and the numbers of a trace are those of any shared core. A ring is memory of its
//! partition: whatever guest writes it, a number that is out of range is no event.

use crate::instance::Instance;
use crate::observer::Observer;
use crate::ram::Ram;
use crate::trace::LiveRing;
use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::observe::{self as abi, TraceRecord};
use bulkhead_kernel_abi::image::TRACE_BYTES;
use bulkhead_kernel_abi::trace as kinds;
use bulkhead_trace::decode::ticks_to_ns as time_ns;
use bulkhead_trace::ring::{Batch, RingReader};
use bulkhead_trace::{CoreLayout, EventKind, ServerLayout, SlotLayout, Timeline};
use bulkhead_words::Rule;

/// "Nobody" in the place of who runs.
const NOBODY: u32 = u32::MAX;

/// What an instance has recorded.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Name of its partition.
    pub partition: String,
    /// What its numbers are called.
    pub instance: Instance,
    /// Its records.
    pub batch: Batch,
}

/// Reads the rings of all instances that have one, from the oldest record on.
#[derive(Debug)]
pub(crate) struct InstanceRings {
    readers: Vec<(usize, PhysicalAddress, RingReader, Batch)>,
    partitions: usize,
}

impl InstanceRings {
    pub(crate) fn new(observer: &Observer) -> Self {
        Self { readers: Vec::new(), partitions: observer.plan().partitions.len() }
    }

    /// Takes what is new. An instance may have started since the last time.
    pub(crate) fn poll(&mut self, observer: &Observer) {
        for partition in 0..self.partitions {
            if self.readers.iter().all(|(known, ..)| *known != partition)
                && let Some(ring) = observer.instance(partition).and_then(|instance| instance.trace)
            {
                self.readers.push((partition, ring, RingReader::new(TRACE_BYTES), Batch::default()));
            }
        }
        for (_, address, reader, batch) in &mut self.readers {
            let new = reader.poll(&LiveRing { ram: observer.ram(), address: *address });
            batch.records.extend(new.records);
            batch.warnings.extend(new.warnings);
            batch.lost += new.lost;
        }
    }

    pub(crate) fn finish(self, observer: &Observer) -> Vec<Recorded> {
        let names = observer.plan().partition_names();
        let recorded = |(partition, _, _, batch): (usize, _, _, Batch)| {
            let instance = observer.instance(partition)?;
            Some(Recorded { partition: names.get(partition)?.clone(), instance, batch })
        };
        self.readers.into_iter().filter_map(recorded).collect()
    }
}

impl Recorded {
    /// Reads what an instance has recorded, which is the guest of this partition; `None` when its kernel does not record.
    #[must_use]
    pub fn read(ram: &Ram, partition: &str, instance: Instance) -> Option<Self> {
        let address = instance.trace?;
        let batch = RingReader::new(TRACE_BYTES).poll(&LiveRing { ram, address });
        Some(Self { partition: partition.to_owned(), instance, batch })
    }

    fn component_name(&self, component: u64) -> &str {
        let component = usize::try_from(component).ok();
        component.and_then(|number| self.instance.components.get(number)).map_or("process", String::as_str)
    }

    /// Adds a core with everything that was recorded.
    pub fn add_to(&self, timeline: &mut Timeline, counter_hz: u64) {
        let core = timeline.layout.cores.len();
        let first = timeline.layout.partitions.len();
        // Threads of processes have no rows; there are as many tracks as threads were seen.
        let seen = self.batch.records.iter().filter_map(thread_of).max().map_or(0, |thread| thread + 1);
        let threads = self.instance.threads.len().max(seen);
        let names = (0..threads).map(|thread| format!("{}: {}", self.partition, self.instance.thread_name(thread)));
        timeline.layout.partitions.extend(names);
        let time = |ticks: u64| (ticks != 0).then(|| time_ns(ticks, counter_hz));
        let servers = self.instance.servers.iter().enumerate().map(|(number, row)| {
            let has_budget = Rule::from_number(row.rule).is_some_and(|rule| !rule.serves_clients());
            ServerLayout {
                name: format!("{} {}", self.partition, self.instance.server_name(number)),
                slot: 0,
                priority: row.level.into(),
                budget_ns: time(row.budget_ticks).filter(|_| has_budget),
                period_ns: time(row.period_ticks).filter(|_| has_budget),
            }
        });
        let servers: Vec<_> = servers.collect();
        let slots = (0..threads).map(|thread| SlotLayout { partition: first + thread, vcpu: 0 }).collect();
        let known = servers.len();
        timeline.layout.cores.push(CoreLayout { is_shared: true, slots, servers });
        timeline.lost.resize(core, 0);
        timeline.lost.push(self.batch.lost);
        timeline.warnings.extend(self.batch.warnings.iter().map(|text| format!("{}: {text}", self.partition)));
        let mut unknown = 0_u64;
        for record in &self.batch.records {
            let kind = self.event(record, (threads, known), counter_hz);
            unknown += u64::from(kind.is_none());
            if let Some(kind) = kind {
                timeline.push(time_ns(record.time_ticks, counter_hz), core, kind);
            }
        }
        if unknown > 0 {
            timeline.warnings.push(format!("{}: {unknown} records of its kernel are not known here", self.partition));
        }
    }

    /// What a record says; none if its kind or one of its numbers is not known.
    fn event(&self, record: &TraceRecord, (threads, servers): (usize, usize), counter_hz: u64) -> Option<EventKind> {
        let TraceRecord { small, first, second, .. } = *record;
        let thread = |number: u64| usize::try_from(number).ok().filter(|number| *number < threads);
        let server = |number: u64| usize::try_from(number).ok().filter(|number| *number < servers);
        let mark = |slot: Option<usize>, text: String| Some(EventKind::Mark { slot, text });
        let (from, to) = (self.component_name(first), self.component_name(second));
        match record.kind {
            abi::TRACE_SWITCH if small == NOBODY => Some(EventKind::Idle),
            abi::TRACE_SWITCH => Some(EventKind::Run {
                slot: thread(u64::from(small & 0xff))?,
                server: Some(server(u64::from(small >> 8 & 0xff))?),
                background: small >> 16 & 1 == 1,
                budget_ns: None,
                until_ns: (second != u64::MAX).then(|| time_ns(second, counter_hz)),
            }),
            abi::TRACE_WAKE => Some(EventKind::Wake { slot: thread(first)?, interrupt: None }),
            abi::TRACE_BLOCK => Some(EventKind::Block { slot: thread(small.into())? }),
            abi::TRACE_BUDGET if first == 1 => Some(EventKind::Exhausted { server: server(small.into())? }),
            abi::TRACE_BUDGET => Some(EventKind::Replenished { server: server(small.into())?, budget_ns: None }),
            kinds::TRACE_COMPONENT_CALL => mark(Some(thread(small.into())?), format!("calls {to} from {from}")),
            kinds::TRACE_COMPONENT_RETURN => mark(Some(thread(small.into())?), format!("returns from {from} to {to}")),
            kinds::TRACE_SEND => mark(
                Some(thread(small.into())?),
                format!("sends {second:#x} to {}", self.instance.end_point_name(first)),
            ),
            kinds::TRACE_VETO => {
                mark(None, format!("{} is passed over", self.instance.server_name(server(small.into())?)))
            }
            kinds::TRACE_TOP_HALF => {
                mark(None, format!("interrupt {small} for {}", self.instance.server_name(server(first)?)))
            }
            kinds::TRACE_COMPONENT_FAULT => {
                let component = self.component_name(first >> 16);
                mark(thread(first & 0xffff), format!("fault {small} in {component} at {second:#x}"))
            }
            _ => None,
        }
    }
}

/// The thread that a record is about.
fn thread_of(record: &TraceRecord) -> Option<usize> {
    match record.kind {
        abi::TRACE_SWITCH if record.small != NOBODY => Some((record.small & 0xff) as usize),
        abi::TRACE_WAKE => usize::try_from(record.first).ok().filter(|thread| *thread < 64),
        _ => None,
    }
}
