//! Rows of the boot tables as servers and bands of `core/sched`. The kernel makes them at boot, and `bulkhead simulate` runs the same ones.

use bulkhead_kernel_abi::NONE;
use bulkhead_kernel_abi::boot::{BandRow, ServerRow};
use bulkhead_sched::Members;
use bulkhead_sched::band::{Band, Quick};
use bulkhead_sched::budget::{
    Anchor, Budget, Client, Deferrable, MAX_CLIENTS, Pibs, PibsRule, Polling, Share, Sporadic, SporadicParameters,
};
use bulkhead_words::{Rule, ServerFlag};

/// The set of one; the empty one of a number that none is.
pub(crate) const fn bit(number: u8) -> u64 {
    if number < 64 { 1u64.wrapping_shl(number as u32) } else { 0 }
}

/// A row's level without budget when it has none.
const NO_BACKGROUND: u8 = 255;
/// Levels with budget.
const LEVELS: u8 = 64;
/// Chunks of a band's server whose row does not say.
const CHUNKS: u8 = 8;

/// A number of a row as a slot; those are never as large.
fn byte(number: u16) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}

/// It continues without budget, below everybody who has some.
#[must_use]
pub const fn goes_on(row: &ServerRow) -> bool {
    row.background != NO_BACKGROUND
}

/// A budget comes back a period after it is used, and not after the server became ready.
#[must_use]
pub fn is_dated_by_its_use(row: &ServerRow) -> bool {
    ServerFlag::DispatchAnchor.is_in(row.flags)
}

/// The levels at which a server can be: its own, or one better than each client's (`kernel.md` 3).
#[must_use]
pub fn levels(row: &ServerRow, rows: &[ServerRow]) -> u64 {
    match Rule::from_number(row.rule) {
        Some(Rule::Pibs) => Members(row.clients).fold(0, |set, client| set | bit(level_for(client, rows))),
        _ => bit(row.level),
    }
}

fn level_for(client: u8, rows: &[ServerRow]) -> u8 {
    rows.get(usize::from(client)).map_or(LEVELS, |row| row.level.saturating_sub(1))
}

/// The budget of a row; `None` when its numbers contradict each other.
#[must_use]
pub fn budget(row: &ServerRow, rows: &[ServerRow], now: u64) -> Option<Budget> {
    let (budget_ticks, period_ticks) = (row.budget_ticks, row.period_ticks);
    match Rule::from_number(row.rule)? {
        Rule::Unlimited => Some(Budget::Unlimited),
        Rule::Sporadic => {
            let parameters = SporadicParameters {
                budget_ticks,
                period_ticks,
                smallest_chunk_ticks: row.smallest_chunk_ticks,
                chunks: u8::try_from(row.chunks).ok()?,
                anchor: if is_dated_by_its_use(row) { Anchor::Dispatch } else { Anchor::Eligible },
                lag_clamp: ServerFlag::LagClamp.is_in(row.flags),
            };
            Sporadic::new(parameters, now).ok().map(Budget::Sporadic)
        }
        Rule::Deferrable => Deferrable::new(budget_ticks, period_ticks, now).ok().map(Budget::Deferrable),
        Rule::Polling => Polling::new(budget_ticks, period_ticks, now).ok().map(Budget::Polling),
        Rule::Pibs => {
            let share =
                Share { numerator: u32::try_from(budget_ticks).ok()?, denominator: u32::try_from(period_ticks).ok()? };
            let is_published = ServerFlag::PublishedPibs.is_in(row.flags);
            let rule = if is_published { PibsRule::Published } else { PibsRule::Corrected };
            let mut clients = [Client::default(); MAX_CLIENTS];
            let mut count: usize = 0;
            for (client, place) in Members(row.clients).zip(clients.iter_mut()) {
                let period_ticks = rows.get(usize::from(client))?.period_ticks;
                *place = Client { period_ticks, priority: level_for(client, rows) };
                count = count.wrapping_add(1);
            }
            let clients = clients.get(..count)?;
            Pibs::new(share, rule, clients, row.smallest_chunk_ticks, now).ok().map(Budget::Pibs)
        }
    }
}

/// A band with its slots.
#[must_use]
pub fn band(row: &BandRow, servers: &[ServerRow]) -> Band {
    let chunks = servers.get(usize::from(row.first_server)).map_or(0, |server| server.chunks);
    Band {
        first_slot: byte(row.first_server),
        slots: byte(row.servers),
        shortest_ticks: row.shortest_period_ticks,
        longest_ticks: row.longest_period_ticks,
        budget_ticks: row.budget_ticks,
        smallest_ticks: row.smallest_budget_ticks,
        chunks: u8::try_from(chunks).ok().filter(|chunks| *chunks != 0).unwrap_or(CHUNKS),
    }
}

/// The published test with the servers of the host.
#[must_use]
pub fn quick(servers: &[ServerRow]) -> Quick {
    servers.iter().filter(|row| row.band == NONE).fold(Quick::new(), |quick, row| match Rule::from_number(row.rule) {
        Some(Rule::Pibs) => {
            let [numerator, denominator] =
                [row.budget_ticks, row.period_ticks].map(|ticks| u32::try_from(ticks).unwrap_or(u32::MAX));
            quick.with_io(Share { numerator, denominator })
        }
        Some(Rule::Sporadic | Rule::Deferrable | Rule::Polling) => quick.with_main(row.budget_ticks, row.period_ticks),
        _ => quick,
    })
}
