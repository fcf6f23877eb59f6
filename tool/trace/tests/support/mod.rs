//! Rings built by hand: a shared core with two partitions, and a dedicated one.
#![allow(dead_code, reason = "each test file uses a part")]

#[path = "../../../../core/sched/tests/support/random.rs"]
pub(crate) mod random;

use bulkhead_abi::observe::{
    TRACE_BLOCK, TRACE_BUDGET, TRACE_DOORBELL, TRACE_GUEST_START, TRACE_HEADER_BYTES, TRACE_INTERRUPT, TRACE_MAGIC,
    TRACE_STATE, TRACE_SWITCH, TRACE_WAKE, TraceHeader, TraceRecord,
};
use bulkhead_abi::status::{STATE_OFF, STATE_RUNNING};
use bulkhead_trace::{ChannelLayout, CoreLayout, Layout, ServerLayout, SlotLayout, Timeline, ring};
pub(crate) use random::Random;
use zerocopy::IntoBytes;

/// A tick has 16 ns.
pub(crate) const COUNTER_HZ: u64 = 62_500_000;
/// INTID of the doorbell of channel 0.
pub(crate) const DOORBELL: u32 = 100;
/// INTID of the device of `control`.
pub(crate) const DEVICE: u32 = 34;

pub(crate) fn layout() -> Layout {
    let slot = |partition| SlotLayout { partition, vcpu: 0 };
    let server = |name: &str, slot, priority, budget_ns, period_ns| ServerLayout {
        name: name.to_owned(),
        slot,
        priority,
        budget_ns,
        period_ns,
    };
    Layout {
        system: "synthetic".to_owned(),
        clock: "ticks of a test".to_owned(),
        partitions: ["control", "linux", "sensor"].map(str::to_owned).to_vec(),
        cores: vec![
            CoreLayout {
                is_shared: true,
                slots: vec![slot(0), slot(1)],
                servers: vec![server("control", 0, 1, Some(1600), Some(16_000)), server("linux", 1, 9, None, None)],
            },
            CoreLayout { is_shared: false, slots: vec![slot(2)], servers: Vec::new() },
        ],
        channels: vec![ChannelLayout {
            name: "samples".to_owned(),
            source: 2,
            destination: 0,
            doorbell_interrupt: Some(DOORBELL),
        }],
    }
}

pub(crate) fn record(
    ticks: u64,
    core: u8,
    partition: u8,
    kind: u16,
    small: u32,
    first: u64,
    second: u64,
) -> TraceRecord {
    TraceRecord { time_ticks: ticks, kind, core, partition, small, first, second }
}

/// `control` starts on server 0 with this budget.
pub(crate) fn control_runs(ticks: u64, budget_ticks: u64) -> TraceRecord {
    record(ticks, 0, 0, TRACE_SWITCH, 0, budget_ticks, ticks + budget_ticks)
}

/// `linux` starts on server 1.
pub(crate) fn linux_runs(ticks: u64) -> TraceRecord {
    record(ticks, 0, 1, TRACE_SWITCH, 1 | (1 << 8), u64::MAX, u64::MAX)
}

pub(crate) fn idle(ticks: u64) -> TraceRecord {
    record(ticks, 0, 0xff, TRACE_SWITCH, 0, 0, 0)
}

pub(crate) fn wake(ticks: u64, slot: u8, intid: u32) -> TraceRecord {
    record(ticks, 0, slot, TRACE_WAKE, intid, u64::from(slot), 0)
}

pub(crate) fn block(ticks: u64, slot: u8) -> TraceRecord {
    record(ticks, 0, slot, TRACE_BLOCK, u32::from(slot), 0, 0)
}

pub(crate) fn interrupt(ticks: u64, core: u8, owner: u8, intid: u32, held: u64) -> TraceRecord {
    record(ticks, core, owner, TRACE_INTERRUPT, intid, held, 0)
}

/// What the shared core records: `linux` runs, `control` is woken three times and once exhausts its budget.
pub(crate) fn shared_core() -> Vec<TraceRecord> {
    vec![
        record(0, 0, 0, TRACE_STATE, STATE_RUNNING, 0, 0),
        record(0, 0, 1, TRACE_STATE, STATE_RUNNING, 0, 0),
        wake(0, 1, 0),
        linux_runs(10),
        // The device's interrupt waits 5 ticks for control, which needs 50.
        interrupt(1000, 0, 0, DEVICE, 1),
        wake(1000, 0, DEVICE),
        control_runs(1005, 100),
        interrupt(1010, 0, 0, DEVICE, 0),
        block(1055, 0),
        linux_runs(1055),
        // The doorbell's interrupt; control uses its budget up and finishes 1000 ticks later.
        interrupt(2000, 0, 0, DOORBELL, 1),
        wake(2000, 0, DOORBELL),
        control_runs(2010, 100),
        record(2110, 0, 0, TRACE_BUDGET, 0, 1, 0),
        linux_runs(2110),
        record(3010, 0, 0, TRACE_BUDGET, 0, 2, 100),
        control_runs(3010, 100),
        block(3020, 0),
        linux_runs(3020),
        block(3500, 1),
        idle(3500),
        record(4000, 0, 1, TRACE_STATE, STATE_OFF, 0, 0),
    ]
}

/// What the dedicated core records: its guest starts, rings once with effect and once without, and goes off.
pub(crate) fn dedicated_core() -> Vec<TraceRecord> {
    vec![
        record(5, 1, 2, TRACE_STATE, STATE_RUNNING, 0, 0),
        record(5, 1, 2, TRACE_GUEST_START, 0, 0x4000_0000, 0),
        record(1900, 1, 2, TRACE_DOORBELL, 0, 1, 0),
        record(1950, 1, 2, TRACE_DOORBELL, 0, 0, 0),
        record(3900, 1, 2, TRACE_DOORBELL, 0, 1, 0),
        record(4005, 1, 2, TRACE_STATE, STATE_OFF, 0, 0),
    ]
}

/// The bytes of a ring of this capacity after its core has written these records.
pub(crate) fn ring(capacity: u64, records: &[TraceRecord]) -> Vec<u8> {
    let header = TraceHeader { magic: TRACE_MAGIC, capacity, written: records.len() as u64, enabled: 1 };
    let mut bytes = vec![0; (TRACE_HEADER_BYTES + capacity * 32) as usize];
    bytes[..32].copy_from_slice(header.as_bytes());
    for (index, record) in records.iter().enumerate() {
        let at = (TRACE_HEADER_BYTES + (index as u64 % capacity) * 32) as usize;
        bytes[at..at + 32].copy_from_slice(record.as_bytes());
    }
    bytes
}

/// The timeline of records of the shared core.
pub(crate) fn of_records(records: &[TraceRecord]) -> Timeline {
    Timeline::from_records(layout(), COUNTER_HZ, &[ring::decode(&ring(64, records))])
}

/// The timeline of both cores, by way of the bytes of their rings.
pub(crate) fn timeline() -> Timeline {
    let batches = [ring::decode(&ring(64, &shared_core())), ring::decode(&ring(64, &dedicated_core()))];
    Timeline::from_records(layout(), COUNTER_HZ, &batches)
}
