//! Servers and what claims their time: in their order, each within its rule, with a temporal capability of its own.

use crate::finding::{Findings, Kind};
use bulkhead_kernel_abi::NONE;
use bulkhead_kernel_abi::boot::{ServerRow, Tables};

/// Numbers of rules (`real-time.md` 5): no limit, sporadic, deferrable, polling, PIBS.
const UNLIMITED: u32 = 0;
const SPORADIC: u32 = 1;
const POLLING: u32 = 3;
const PIBS: u32 = 4;
/// Flags of a sporadic server: dispatch anchor, lag clamp.
const SPORADIC_FLAGS: u32 = 3;
/// Most pieces of a budget that are dated apart.
const MAX_CHUNKS: u16 = 16;
/// Most clients of a server that works for others.
const MAX_CLIENTS: u32 = 8;
/// Periods are shorter, in ticks.
const PERIODS_END: u64 = 1 << 56;
/// Levels with budget, and what is added to one for work without.
const LEVELS: u8 = 64;
/// There is no work without budget.
const NO_BACKGROUND: u8 = 255;

/// Judges the servers and the temporal capabilities that they are made with.
pub(crate) fn check(tables: &Tables<'_>, findings: &mut Findings) {
    findings.require(!tables.servers.is_empty(), Kind::Server, || "there is no server".to_owned());
    order(tables.servers, findings);
    for (number, row) in tables.servers.iter().enumerate() {
        let is_good = match row.rule {
            _ if row.band != NONE => is_reserved(row),
            PIBS => works_for_others(row, number, tables.servers),
            _ => is_within_its_rule(row),
        };
        findings.require(is_good, Kind::Server, || {
            format!(
                "server {number} has {} of {} ticks by rule {} for clients {:#x}, or bits that its rule has not",
                row.budget_ticks, row.period_ticks, row.rule, row.clients
            )
        });
        findings.require(usize::from(row.tcap) == number && row.reserved == [0; 3], Kind::Server, || {
            format!("server {number} has another one's time, or bits that mean nothing")
        });
    }
}

/// Levels are in the order of the numbers. Each is one server's alone, but those in front of clients, which are of work for them.
fn order(servers: &[ServerRow], findings: &mut Findings) {
    let for_clients = |row: &ServerRow| row.rule == PIBS;
    let fronts: Vec<u8> = servers
        .iter()
        .filter(|row| for_clients(row))
        .flat_map(|row| clients(row, servers))
        .map(|(_, client)| client.level.wrapping_sub(1))
        .collect();
    let mut before: Option<&ServerRow> = None;
    for (number, row) in servers.iter().enumerate() {
        let may_share = |one: &ServerRow| {
            let is_in_its_band = row.band != NONE && row.band == one.band;
            row.level == one.level && (for_clients(row) && for_clients(one) || is_in_its_band)
        };
        let is_behind = before.is_none_or(|one| {
            // Rows of one band are at one level.
            let is_apart = row.band == NONE || row.band != one.band;
            row.level > one.level && is_apart || may_share(one)
        });
        let is_own = for_clients(row) || !fronts.contains(&row.level);
        findings.require(is_behind && is_own && row.level < LEVELS, Kind::Server, || {
            format!(
                "server {number} has level {}, which is not behind that of the one before it, or is that of work for somebody",
                row.level
            )
        });
        before = Some(row);
    }
}

/// The clients of a server that are there, by number.
fn clients<'t>(row: &ServerRow, servers: &'t [ServerRow]) -> impl Iterator<Item = (usize, &'t ServerRow)> + use<'t> {
    let set = row.clients;
    servers.iter().enumerate().take(64).filter(move |(number, _)| set & 1 << number != 0)
}

/// States whether a row is a place in a band: what is made there says its budget and period itself.
fn is_reserved(row: &ServerRow) -> bool {
    let times = [row.budget_ticks, row.period_ticks, row.smallest_chunk_ticks, row.clients];
    row.rule == SPORADIC
        && times == [0; 4]
        && (2..=MAX_CHUNKS).contains(&row.chunks)
        && row.background == NO_BACKGROUND
        && row.flags & !SPORADIC_FLAGS == 0
}

fn has_background(row: &ServerRow) -> bool {
    row.background == NO_BACKGROUND || row.background == LEVELS.saturating_add(row.level)
}

/// States whether its numbers are such as its rule has.
fn is_within_its_rule(row: &ServerRow) -> bool {
    let background = has_background(row);
    if row.clients != 0 {
        return false;
    }
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

/// States whether a server that works for others has a share, clients with budgets in the order of their periods, a grant that is not too small, and its place in front of
/// the best of them.
fn works_for_others(row: &ServerRow, number: usize, servers: &[ServerRow]) -> bool {
    let clients: Vec<(usize, &ServerRow)> = clients(row, servers).collect();
    let Some((_, shortest)) = clients.first() else { return false };
    let is_whole = clients.len() == row.clients.count_ones() as usize && row.clients.count_ones() <= MAX_CLIENTS;
    let are_behind = clients
        .iter()
        .all(|(place, client)| *place > number && (SPORADIC..=POLLING).contains(&client.rule) && client.level > 0);
    let is_sorted = clients.is_sorted_by(|(_, one), (_, other)| one.period_ticks < other.period_ticks);
    let is_share = (1..row.period_ticks).contains(&row.budget_ticks) && u32::try_from(row.period_ticks).is_ok();
    let grant = u128::from(shortest.period_ticks) * u128::from(row.budget_ticks) / u128::from(row.period_ticks.max(1));
    let is_grant = row.smallest_chunk_ticks > 0 && grant >= u128::from(row.smallest_chunk_ticks);
    let is_in_front = shortest.level.checked_sub(1) == Some(row.level);
    let is_plain = (row.flags, row.chunks) == (0, 0) && has_background(row);
    is_whole && are_behind && is_sorted && is_share && is_grant && is_in_front && is_plain
}
