//! Trace rings: 32-byte records per core, read live, shown as text or JSON.

use crate::diagnosis::{exception_class_name, reason_name, state_name};
use crate::observer::Observer;
use crate::ram::Ram;
use bulkhead_abi::hypercall;
use bulkhead_abi::observe as abi;
use bulkhead_abi::observe::{TRACE_HEADER_BYTES, TRACE_MAGIC, TraceHeader, TraceRecord};
use bulkhead_abi::{PhysicalAddress, image::CoreBoot};
use serde_json::{Value, json};

/// Exception classes of calls, and where the class is in a syndrome (Arm ARM D17.2.37).
const CLASS_SHIFT: u32 = 26;
/// Bytes of a record.
const RECORD_BYTES: u64 = size_of::<TraceRecord>() as u64;

/// Reads one core's trace ring.
#[derive(Debug)]
pub struct TraceReader {
    address: PhysicalAddress,
    capacity: u64,
    read: u64,
}

impl TraceReader {
    /// Makes a reader that begins with the oldest record still in the ring.
    #[must_use]
    pub fn new(boot: &CoreBoot) -> Self {
        let capacity = boot.trace_bytes.saturating_sub(TRACE_HEADER_BYTES) / RECORD_BYTES;
        Self { address: boot.trace, capacity, read: 0 }
    }

    /// Returns new records in order, and how many were overwritten before they could be read.
    pub fn poll(&mut self, ram: &Ram) -> (Vec<TraceRecord>, u64) {
        let none = (Vec::new(), 0);
        let Some(header) = ram.read_at::<TraceHeader>(self.address).filter(|header| header.magic == TRACE_MAGIC) else {
            return none;
        };
        // The monitor wraps at the capacity it was given; never believe in more than fits.
        let capacity = if header.capacity == 0 { self.capacity } else { self.capacity.min(header.capacity) };
        let (Some(written), true) = (self.written(ram), capacity > 0) else { return none };
        if written <= self.read {
            return none;
        }
        let first = self.read.max(written.saturating_sub(capacity));
        let mut records = Vec::new();
        for index in first..written {
            let offset = TRACE_HEADER_BYTES + (index % capacity) * RECORD_BYTES;
            records.extend(self.address.checked_add(offset).and_then(|address| ram.read_at::<TraceRecord>(address)));
        }
        let after = self.written(ram).unwrap_or(written).max(written);
        let valid_from = first.max(after.saturating_add(1).saturating_sub(capacity)).min(written);
        let spoiled = usize::try_from(valid_from - first).unwrap_or(usize::MAX).min(records.len());
        records.drain(..spoiled);
        let lost = valid_from - self.read;
        self.read = written;
        (records, lost)
    }

    fn written(&self, ram: &Ram) -> Option<u64> {
        ram.load_u64(self.address.checked_add(core::mem::offset_of!(TraceHeader, written) as u64)?)
    }
}

/// Collects the records of all cores while a machine runs.
#[derive(Debug)]
pub struct TraceCollector {
    readers: Vec<TraceReader>,
    records: Vec<TraceRecord>,
    lost: Vec<u64>,
}

impl TraceCollector {
    /// Makes a collector that begins with the oldest records still in the rings.
    #[must_use]
    pub fn new(observer: &Observer) -> Self {
        let boots = observer.plan().header.cores.iter().take(observer.core_count());
        let readers: Vec<_> = boots.map(TraceReader::new).collect();
        let lost = vec![0; readers.len()];
        Self { readers, records: Vec::new(), lost }
    }

    /// Takes what is new. Often enough, nothing is lost: a ring holds what its core wrote since the last call.
    pub fn poll(&mut self, observer: &Observer) {
        for (reader, lost) in self.readers.iter_mut().zip(&mut self.lost) {
            let (records, missed) = reader.poll(observer.ram());
            self.records.extend(records);
            *lost += missed;
        }
    }

    /// Returns everything collected, in order of time.
    #[must_use]
    pub fn finish(mut self, observer: &Observer) -> Trace {
        self.poll(observer);
        // The core decides between equal times, so that the order does not depend on when the rings were read.
        self.records.sort_by_key(|record| (record.time_ticks, record.core));
        let is_recording = (0..observer.core_count()).any(|core| observer.traces(core));
        Trace { records: self.records, lost: self.lost, is_recording }
    }
}

/// The records of all cores, merged by time.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// Records in order of time; records of one core keep their order.
    pub records: Vec<TraceRecord>,
    /// Records lost per core.
    pub lost: Vec<u64>,
    /// Some core records at all.
    pub is_recording: bool,
}

impl Trace {
    /// Reads what is in the rings now.
    #[must_use]
    pub fn read(observer: &Observer) -> Self {
        TraceCollector::new(observer).finish(observer)
    }

    /// Writes one line of text per record: ticks, core, partition, event.
    #[must_use]
    pub fn text(&self, observer: &Observer) -> String {
        let mut text = String::new();
        if !self.is_recording {
            text.push_str("# no core records; say so in the description: [trace] enabled = true\n");
        }
        for (core, lost) in self.lost.iter().enumerate().filter(|(_, lost)| **lost > 0) {
            text.push_str(&format!("# core {core}: {lost} older records were overwritten\n"));
        }
        for record in &self.records {
            let name = observer.plan().partition_name(usize::from(record.partition));
            text.push_str(&format!("{:>14} core {} {name:<12} {}\n", record.time_ticks, record.core, describe(record)));
        }
        text
    }

    /// Returns the records as JSON, with names beside the raw numbers.
    #[must_use]
    pub fn json(&self, observer: &Observer) -> Value {
        let records: Vec<_> = self.records.iter().map(|record| record_json(record, observer)).collect();
        json!({
            "counter_hz": observer.plan().header.counter_hz,
            "recording": self.is_recording,
            "lost": self.lost,
            "records": records,
        })
    }
}

fn record_json(record: &TraceRecord, observer: &Observer) -> Value {
    json!({
        "time_ticks": record.time_ticks,
        "kind": kind_name(record.kind),
        "core": record.core,
        "partition": observer.plan().partition_name(usize::from(record.partition)),
        "small": record.small,
        "first": record.first,
        "second": record.second,
        "text": describe(record),
    })
}

/// Returns the word for a kind of record.
#[must_use]
pub fn kind_name(kind: u16) -> &'static str {
    match kind {
        abi::TRACE_GUEST_START => "guest start",
        abi::TRACE_EXIT => "exit",
        abi::TRACE_CALL => "call",
        abi::TRACE_INTERRUPT => "interrupt",
        abi::TRACE_STATE => "state",
        abi::TRACE_DOORBELL => "doorbell",
        abi::TRACE_FAULT => "fault",
        _ => "unknown",
    }
}

/// Returns the name of a call, or its number (Arm DEN 0022 for PSCI, [`bulkhead_abi::hypercall`] for ours).
#[must_use]
pub fn call_name(function: u64) -> String {
    let name = match function {
        hypercall::CALL_VERSION => "version",
        hypercall::CALL_HEARTBEAT => "heartbeat",
        hypercall::CALL_DOORBELL => "doorbell",
        hypercall::CALL_PARTITION_STATUS => "partition status",
        hypercall::CALL_PARTITION_SUSPEND => "partition suspend",
        hypercall::CALL_PARTITION_RESUME => "partition resume",
        hypercall::CALL_PARTITION_RESTART => "partition restart",
        0x8400_0000 => "PSCI_VERSION",
        0x8400_0001 | 0xc400_0001 => "CPU_SUSPEND",
        0x8400_0002 => "CPU_OFF",
        0x8400_0003 | 0xc400_0003 => "CPU_ON",
        0x8400_0004 | 0xc400_0004 => "AFFINITY_INFO",
        0x8400_0006 => "MIGRATE_INFO_TYPE",
        0x8400_0008 => "SYSTEM_OFF",
        0x8400_0009 => "SYSTEM_RESET",
        0x8400_000a => "PSCI_FEATURES",
        0x8000_0000 => "SMCCC_VERSION",
        other => return format!("{other:#x}"),
    };
    name.to_owned()
}

/// Returns a record's meaning in words.
#[must_use]
pub fn describe(record: &TraceRecord) -> String {
    let TraceRecord { small, first, second, .. } = *record;
    match record.kind {
        abi::TRACE_GUEST_START => format!("guest start at {first:#x}"),
        abi::TRACE_CALL => format!("call {}({second:#x})", call_name(first)),
        abi::TRACE_EXIT => {
            let class = exception_class_name(first);
            format!("exit: {class} (class {:#x}, ESR {first:#x}) at {second:#x}", first >> CLASS_SHIFT)
        }
        abi::TRACE_INTERRUPT => format!("interrupt {small}"),
        abi::TRACE_STATE => {
            let reason = u32::try_from(first).map_or("unknown", reason_name);
            format!("state: {} (reason: {reason})", state_name(small))
        }
        abi::TRACE_DOORBELL if first == 1 => format!("doorbell of channel {small}"),
        abi::TRACE_DOORBELL => format!("doorbell of channel {small}, limited"),
        abi::TRACE_FAULT => format!("fault: {}, ESR {first:#x}, guest address {second:#x}", reason_name(small)),
        other => format!("unknown kind {other}: {small:#x} {first:#x} {second:#x}"),
    }
}
