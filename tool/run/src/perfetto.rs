//! Trace records in the form that the Perfetto UI opens (the JSON trace event format).
//!
//! Two groups of tracks: one track per core with its exits, interrupts and doorbells as instants, one per partition with
//! its states as slices. The rejected alternative, Perfetto's own protobuf format, needs a code generator and shows the
//! same picture.

use crate::diagnosis::{reason_name, state_name};
use crate::observer::Observer;
use crate::trace::{Trace, describe, kind_name};
use bulkhead_abi::observe::{TRACE_STATE, TraceRecord};
use serde_json::{Value, json};

/// Group of the tracks of cores.
const CORES: u32 = 1;
/// Group of the tracks of partitions.
const PARTITIONS: u32 = 2;

/// Returns the trace for the Perfetto UI.
#[must_use]
pub fn perfetto_json(trace: &Trace, observer: &Observer) -> Value {
    let mut events = names(observer);
    let mut slices = Slices { open: vec![false; observer.partition_count()], hz: observer.plan().header.counter_hz };
    for record in &trace.records {
        events.push(slices.instant(record));
        if record.kind == TRACE_STATE {
            events.extend(slices.state(record));
        }
    }
    if let Some(last) = trace.records.last() {
        events.extend(slices.close_all(last.time_ticks));
    }
    json!({ "displayTimeUnit": "ns", "traceEvents": events })
}

/// Names the groups and tracks.
fn names(observer: &Observer) -> Vec<Value> {
    let group =
        |group: u32, name: &str| json!({ "ph": "M", "name": "process_name", "pid": group, "args": { "name": name } });
    let track = |group: u32, track: usize, name: &str| json!({ "ph": "M", "name": "thread_name", "pid": group, "tid": track, "args": { "name": name } });
    let mut events = vec![group(CORES, "cores"), group(PARTITIONS, "partitions")];
    for (core, plan) in observer.plan().cores.iter().enumerate() {
        let partition = observer.plan().partition_name(plan.partition as usize);
        events.push(track(CORES, core, &format!("core {core}: {partition}, vCPU {}", plan.vcpu)));
    }
    for (partition, name) in observer.plan().partition_names().iter().enumerate() {
        events.push(track(PARTITIONS, partition, name));
    }
    events
}

/// Makes events, and remembers which partitions have an open slice.
struct Slices {
    open: Vec<bool>,
    hz: u64,
}

impl Slices {
    /// Converts counter ticks to microseconds, the format's unit, with nanoseconds behind the point.
    fn microseconds(&self, ticks: u64) -> f64 {
        let nanoseconds = u128::from(ticks) * 1_000_000_000 / u128::from(self.hz.max(1));
        nanoseconds as f64 / 1000.0
    }

    fn instant(&self, record: &TraceRecord) -> Value {
        json!({
            "ph": "i",
            "s": "t",
            "name": kind_name(record.kind),
            "ts": self.microseconds(record.time_ticks),
            "pid": CORES,
            "tid": record.core,
            "args": { "text": describe(record), "small": record.small, "first": record.first, "second": record.second },
        })
    }

    /// Ends the partition's slice, if one is open, and begins that of the new state.
    fn state(&mut self, record: &TraceRecord) -> Vec<Value> {
        let partition = usize::from(record.partition);
        let Some(open) = self.open.get_mut(partition) else { return Vec::new() };
        let was_open = std::mem::replace(open, true);
        let reason = u32::try_from(record.first).map_or("unknown", reason_name);
        let begin = json!({
            "ph": "B",
            "name": state_name(record.small),
            "ts": self.microseconds(record.time_ticks),
            "pid": PARTITIONS,
            "tid": partition,
            "args": { "reason": reason },
        });
        was_open.then(|| self.end(partition, record.time_ticks)).into_iter().chain([begin]).collect()
    }

    fn end(&self, partition: usize, ticks: u64) -> Value {
        json!({ "ph": "E", "ts": self.microseconds(ticks), "pid": PARTITIONS, "tid": partition })
    }

    fn close_all(&self, ticks: u64) -> Vec<Value> {
        (0..self.open.len())
            .filter(|partition| self.open[*partition])
            .map(|partition| self.end(partition, ticks))
            .collect()
    }
}
