//! Servers and what claims their time: in their order, each within its rule, with a temporal capability of its own.

use crate::finding::{Findings, Kind};
use bulkhead_kernel_abi::boot::{ServerRow, Tables, TcapRow};
use bulkhead_kernel_abi::{ALL_TICKS, MAX_SERVERS, NONE};

/// Numbers of rules (`real-time.md` 5): no limit, sporadic, deferrable, polling. Others need clients, which this version cannot judge.
const UNLIMITED: u32 = 0;
const SPORADIC: u32 = 1;
const POLLING: u32 = 3;
/// Flags of a sporadic server: dispatch anchor, lag clamp.
const SPORADIC_FLAGS: u32 = 3;
/// Most pieces of a budget that are dated apart.
const MAX_CHUNKS: u16 = 16;
/// Periods are shorter, in ticks.
const PERIODS_END: u64 = 1 << 56;
/// Levels with budget, and what is added to one for work without.
const LEVELS: u8 = 64;
/// There is no work without budget.
const NO_BACKGROUND: u8 = 255;

/// Judges the servers and the temporal capabilities that they are made with.
pub(crate) fn check(tables: &Tables<'_>, findings: &mut Findings) {
    let count = tables.servers.len();
    findings.require((1..=MAX_SERVERS).contains(&count), Kind::Server, || {
        format!("there are {count} servers, and a kernel has 1 to {MAX_SERVERS}")
    });
    let mut least = 0;
    for (number, row) in tables.servers.iter().enumerate() {
        findings.require(row.level >= least && row.level < LEVELS, Kind::Server, || {
            format!("server {number} has level {}, which is not behind that of the one before it", row.level)
        });
        least = row.level.saturating_add(1);
        findings.require(is_within_its_rule(row), Kind::Server, || {
            format!(
                "server {number} has {} of {} ticks by rule {}, or bits that its rule has not",
                row.budget_ticks, row.period_ticks, row.rule
            )
        });
        let is_plain = (row.holder, row.band, row.clients, row.reserved) == (NONE, NONE, 0, [0; 3]);
        findings.require(is_plain && usize::from(row.tcap) == number, Kind::Server, || {
            format!("server {number} is held by somebody, has clients, or has another one's time")
        });
    }
    for number in 0..count.max(tables.tcaps.len()) {
        let server = u16::try_from(number).unwrap_or(NONE);
        let own =
            TcapRow { left_ticks: ALL_TICKS, expires_ticks: ALL_TICKS, end_point: NONE, server, ..TcapRow::default() };
        findings.require(tables.tcaps.get(number) == Some(&own) && number < count, Kind::Server, || {
            format!("temporal capability {number} is not all the time of server {number}, which has one of its own")
        });
    }
}

/// States whether its numbers are such as its rule has.
fn is_within_its_rule(row: &ServerRow) -> bool {
    let background = row.background == NO_BACKGROUND || row.background == LEVELS.saturating_add(row.level);
    match row.rule {
        UNLIMITED => {
            let times = [row.budget_ticks, row.period_ticks, row.smallest_chunk_ticks];
            times == [0; 3] && (row.flags, row.chunks) == (0, 0) && (background || row.background == 0)
        }
        SPORADIC..=POLLING => {
            let is_dated = row.rule == SPORADIC;
            let is_time = (1..=row.period_ticks).contains(&row.budget_ticks) && row.period_ticks < PERIODS_END;
            let has_chunks =
                (2..=MAX_CHUNKS).contains(&row.chunks) && (1..=row.budget_ticks).contains(&row.smallest_chunk_ticks);
            let has_none = (row.chunks, row.smallest_chunk_ticks, row.flags) == (0, 0, 0);
            is_time && background && if is_dated { has_chunks && row.flags & !SPORADIC_FLAGS == 0 } else { has_none }
        }
        _ => false,
    }
}
