//! From the records of all cores to a timeline.
//!
//! Records come from RAM that a monitor wrote, and the monitor may be newer than this tool or may have failed. So every
//! index in a record is checked against the layout where it is used, and what cannot be understood becomes a remark and
//! a warning rather than an error.

use crate::layout::Layout;
use crate::ring::Batch;
use crate::timeline::{EventKind, Timeline};
use bulkhead_abi::observe as abi;
use bulkhead_abi::observe::TraceRecord;

/// The monitor's own interrupts: list register maintenance and the timer of EL2 (`platform-facts.md`); the record names
/// the vCPU that was running.
const MONITOR_INTERRUPTS: [u32; 2] = [25, 26];
/// "Nobody" in the field of the partition.
const NOBODY: u8 = 0xff;
/// "Unlimited" or "never" in a field of ticks.
const ENDLESS: u64 = u64::MAX;

/// Converts counter ticks to nanoseconds, rounded down.
#[must_use]
pub fn ticks_to_ns(ticks: u64, counter_hz: u64) -> u64 {
    let ns = u128::from(ticks) * 1_000_000_000 / u128::from(counter_hz.max(1));
    u64::try_from(ns).unwrap_or(u64::MAX)
}

impl Timeline {
    /// Makes the timeline of a system from the records of its cores; `batches` is by core index.
    #[must_use]
    pub fn from_records(layout: Layout, counter_hz: u64, batches: &[Batch]) -> Self {
        let mut timeline = Self::new(layout);
        timeline.lost.resize(batches.len().max(timeline.lost.len()), 0);
        for (core, batch) in batches.iter().enumerate() {
            if let Some(lost) = timeline.lost.get_mut(core) {
                *lost = batch.lost;
            }
            timeline.warnings.extend(batch.warnings.iter().map(|warning| format!("core {core}: {warning}")));
            timeline.add_records(core, counter_hz, &batch.records);
        }
        timeline.finish(0);
        timeline
    }

    fn add_records(&mut self, core: usize, counter_hz: u64, records: &[TraceRecord]) {
        let (mut foreign, mut unknown, mut backwards) = (0_u64, 0_u64, 0_u64);
        let mut latest_ticks = 0;
        for record in records {
            if usize::from(record.core) != core {
                foreign += 1;
                continue;
            }
            // Sorting by time would tear such a record out of its order, so it gets the time of the one before.
            backwards += u64::from(record.time_ticks < latest_ticks);
            latest_ticks = latest_ticks.max(record.time_ticks);
            let kind = event_kind(record, &self.layout, counter_hz);
            unknown += u64::from(kind.is_none());
            let kind = kind.unwrap_or_else(|| EventKind::Mark { slot: None, text: unknown_text(record) });
            self.push(ticks_to_ns(latest_ticks, counter_hz), core, kind);
        }
        let problems = [
            (foreign, "are damaged (they bear the number of another core) and were left out"),
            (unknown, "are of a kind that this tool does not know; is it older than the image?"),
            (backwards, "bear an earlier time than the one before"),
        ];
        for (count, problem) in problems.into_iter().filter(|(count, _)| *count > 0) {
            self.warnings.push(format!("core {core}: {count} records {problem}"));
        }
    }
}

fn unknown_text(record: &TraceRecord) -> String {
    format!("unknown kind {}: {:#x} {:#x} {:#x}", record.kind, record.small, record.first, record.second)
}

/// Returns what a record says, or none if its kind or one of its values is not known.
fn event_kind(record: &TraceRecord, layout: &Layout, counter_hz: u64) -> Option<EventKind> {
    let TraceRecord { small, first, second, .. } = *record;
    let partition = usize::from(record.partition);
    let servers = layout.cores.get(usize::from(record.core)).map_or(0, |core| core.servers.len());
    let known_server = |server: u32| usize::try_from(server).ok().filter(|server| *server < servers);
    let time = |ticks: u64| (ticks != ENDLESS).then(|| ticks_to_ns(ticks, counter_hz));
    let kind = match record.kind {
        abi::TRACE_GUEST_START => EventKind::GuestStart { partition, entry: first },
        abi::TRACE_EXIT => EventKind::Exit { partition, syndrome: first, address: second },
        abi::TRACE_CALL => EventKind::Call { partition, function: first, argument: second },
        abi::TRACE_INTERRUPT => EventKind::Interrupt {
            intid: small,
            owner: Some(partition)
                .filter(|partition| *partition < layout.partitions.len() && !MONITOR_INTERRUPTS.contains(&small)),
            held: first == 1,
        },
        abi::TRACE_STATE => {
            EventKind::State { partition, state: small, reason: u32::try_from(first).unwrap_or(u32::MAX) }
        }
        abi::TRACE_DOORBELL => EventKind::Doorbell { partition, channel: small as usize, sent: first == 1 },
        abi::TRACE_FAULT => EventKind::Fault { partition, reason: small, syndrome: first, address: second },
        abi::TRACE_SWITCH if record.partition == NOBODY => EventKind::Idle,
        abi::TRACE_SWITCH => EventKind::Run {
            slot: (small & 0xff) as usize,
            server: known_server((small >> 8) & 0xff),
            background: (small >> 16) & 1 == 1,
            budget_ns: time(first),
            until_ns: time(second).filter(|_| second != 0),
        },
        abi::TRACE_WAKE => {
            EventKind::Wake { slot: usize::try_from(first).ok()?, interrupt: Some(small).filter(|intid| *intid != 0) }
        }
        abi::TRACE_BLOCK => EventKind::Block { slot: small as usize },
        abi::TRACE_BUDGET if first == 1 => EventKind::Exhausted { server: small as usize },
        abi::TRACE_BUDGET if first == 2 => EventKind::Replenished { server: small as usize, budget_ns: time(second) },
        abi::TRACE_CHARGE => EventKind::Charged {
            from_ns: time(first).filter(|_| first != 0),
            payer: known_server(small),
            until_ns: ticks_to_ns(second, counter_hz),
        },
        _ => return None,
    };
    Some(kind)
}
