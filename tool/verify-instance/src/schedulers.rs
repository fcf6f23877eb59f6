//! Schedulers, bands, and who runs on which claim: the tree ends, every thread is one scheduler's, and no claim says more than its scheduler could.

use crate::finding::{Findings, Kind};
use bulkhead_kernel_abi::boot::{BandRow, SchedulerRow, Tables, TcapRow, ThreadRow};
use bulkhead_kernel_abi::capability::TOKEN_MASK;
use bulkhead_kernel_abi::{ALL_TICKS, MAX_SCHEDULER_DEPTH, MAX_VECTOR, NONE};
use std::collections::BTreeSet;

/// Periods are shorter, in ticks.
const PERIODS_END: u64 = 1 << 56;
/// Where a word of a vector has its scheduler's id.
const ID_SHIFT: u32 = 48;

/// Judges them all.
pub(crate) fn check(tables: &Tables<'_>, findings: &mut Findings) {
    schedulers(tables, findings);
    bands(tables, findings);
    claims(tables, findings);
    threads(tables, findings);
}

/// The scheduler that leads itself by this thread.
fn led_by<'t>(tables: &Tables<'t>, thread: usize) -> Option<(u16, &'t SchedulerRow)> {
    (0..).zip(tables.schedulers).find(|(_, row)| usize::from(row.thread) == thread)
}

/// A scheduler and those above it; `None` when these do not end after as many as may be.
fn chain(tables: &Tables<'_>, scheduler: u16) -> Option<Vec<u16>> {
    let mut chain = Vec::new();
    let mut next = scheduler;
    while next != NONE {
        let row = tables.schedulers.get(usize::from(next))?;
        if chain.len() >= MAX_SCHEDULER_DEPTH || chain.contains(&next) {
            return None;
        }
        chain.push(next);
        next = row.parent;
    }
    Some(chain)
}

/// States whether a scheduler is another one, or above it.
fn is_above(tables: &Tables<'_>, above: u16, scheduler: u16) -> bool {
    chain(tables, scheduler).is_some_and(|chain| chain.contains(&above))
}

fn id_of(tables: &Tables<'_>, scheduler: u16) -> u16 {
    tables.schedulers.get(usize::from(scheduler)).map_or(0, |row| row.id)
}

/// The scheduler that holds a server.
fn holder_of(tables: &Tables<'_>, server: u16) -> u16 {
    tables.servers.get(usize::from(server)).map_or(NONE, |row| row.holder)
}

/// Each has a thread of its own and a number of its own, and the tree ends.
fn schedulers(tables: &Tables<'_>, findings: &mut Findings) {
    let mut leaders = BTreeSet::new();
    for (number, row) in (0..).zip(tables.schedulers) {
        findings.require(chain(tables, number).is_some(), Kind::Scheduler, || {
            format!(
                "scheduler {number} is above itself, deeper than {MAX_SCHEDULER_DEPTH}, or below one that is not there"
            )
        });
        let has_thread = usize::from(row.thread) < tables.threads.len() && leaders.insert(row.thread);
        findings.require(has_thread, Kind::Scheduler, || {
            format!(
                "events of scheduler {number} are taken by thread {}, which is not there or takes others",
                row.thread
            )
        });
        findings.require((row.id, row.reserved) == (number + 1, 0), Kind::Scheduler, || {
            format!("scheduler {number} has the number {} in vectors, or bits that mean nothing", row.id)
        });
    }
    for (number, row) in tables.servers.iter().enumerate() {
        let is_held = row.holder == NONE || usize::from(row.holder) < tables.schedulers.len() && row.band == NONE;
        findings.require(is_held, Kind::Scheduler, || {
            format!("server {number} is held by scheduler {}, which is not there or cannot", row.holder)
        });
    }
}

/// Each has rows of its own among the servers, one level, and periods and a budget that can be.
fn bands(tables: &Tables<'_>, findings: &mut Findings) {
    let can_be = |row: &BandRow| {
        let is_range = row.shortest_period_ticks <= row.longest_period_ticks && row.longest_period_ticks < PERIODS_END;
        let has_budget = (1..=row.budget_ticks).contains(&row.smallest_budget_ticks);
        is_range
            && has_budget
            && row.budget_ticks <= row.shortest_period_ticks
            && row.admission <= 1
            && row.reserved == 0
    };
    for (number, row) in (0_u16..).zip(tables.bands) {
        findings.require(can_be(row), Kind::Band, || {
            format!("band {number} has periods, a budget or a test that cannot be, or bits that mean nothing")
        });
        let first = usize::from(row.first_server);
        let own = first..first + usize::from(row.servers);
        let in_it: Vec<usize> = (0..tables.servers.len()).filter(|one| tables.servers[*one].band == number).collect();
        findings.require(!own.is_empty() && in_it == own.collect::<Vec<_>>(), Kind::Band, || {
            format!("band {number} has not the {} servers from {} on, alone", row.servers, row.first_server)
        });
    }
    for (number, row) in tables.servers.iter().enumerate() {
        findings.require(row.band == NONE || usize::from(row.band) < tables.bands.len(), Kind::Band, || {
            format!("server {number} is of band {}, which is not there", row.band)
        });
    }
}

/// A vector: sorted, a word with a number for each scheduler above that of the claim itself, and nothing else.
fn has_vector(tables: &Tables<'_>, row: &TcapRow) -> bool {
    let words = usize::from(row.words);
    if words > MAX_VECTOR {
        return false;
    }
    let (used, unused) = row.vector.split_at(words);
    let own = (0..).zip(tables.schedulers).find(|(_, one)| row.left_ticks != 0 && one.id == row.scheduler);
    let above = own.and_then(|(number, _)| chain(tables, number)).unwrap_or_default();
    let above: BTreeSet<u64> = above.iter().skip(1).map(|one| u64::from(id_of(tables, *one))).collect();
    let ids = used.iter().map(|word| word >> ID_SHIFT);
    let has_numbers = used.iter().all(|word| word & TOKEN_MASK != 0);
    has_numbers && ids.eq(above) && unused.iter().all(|word| *word == 0)
}

/// Those of servers come first and are on all that these have; others are one thread's, or one end point's and without time.
fn claims(tables: &Tables<'_>, findings: &mut Findings) {
    let count = tables.servers.len();
    for number in 0..count.max(tables.tcaps.len()) {
        let row = tables.tcaps.get(number);
        let is_plain = |row: &TcapRow| (row.expires_ticks, row.end_point, row.reserved) == (ALL_TICKS, NONE, 0);
        let is_known = |row: &TcapRow| usize::from(row.scheduler) <= tables.schedulers.len();
        let is_good = row.is_some_and(|row| {
            let server = u16::try_from(number).unwrap_or(NONE);
            let owner = id_of(tables, holder_of(tables, row.server));
            let is_of_its_server = match number < count {
                true => {
                    let (left, server) = (row.left_ticks == ALL_TICKS, row.server == server);
                    left && server && row.scheduler == owner && row.priority == 0
                }
                false if row.left_ticks == 0 => row.server == NONE && row.priority != 0,
                false => row.left_ticks == ALL_TICKS && owner != 0 && (1..=TOKEN_MASK).contains(&row.priority),
            };
            is_of_its_server && is_plain(row) && is_known(row) && has_vector(tables, row)
        });
        findings.require(is_good, Kind::Claim, || {
            format!("temporal capability {number} is not all the time of its server, or its vector is none")
        });
    }
    // One thread or one end point for each that does not go with a server.
    let mut users = BTreeSet::new();
    let of_threads = tables.threads.iter().map(|row| row.tcap).filter(|tcap| usize::from(*tcap) >= count);
    let of_end_points = tables.end_points.iter().map(|row| row.tcap).filter(|tcap| *tcap != NONE);
    for tcap in of_threads.chain(of_end_points) {
        findings.require(users.insert(tcap), Kind::Claim, || {
            format!("temporal capability {tcap} is that of two threads or end points")
        });
    }
    for (number, row) in tables.end_points.iter().enumerate().filter(|(_, row)| row.tcap != NONE) {
        let claim = tables.tcaps.get(usize::from(row.tcap));
        findings.require(claim.is_some_and(|claim| claim.server == NONE), Kind::Claim, || {
            format!("end point {number} is given temporal capability {}, which has time or is not there", row.tcap)
        });
    }
}

/// A thread is the holder's of its server, or of one below that, and has a claim of its own; or the server is held by its threads.
fn threads(tables: &Tables<'_>, findings: &mut Findings) {
    let mut labels = BTreeSet::new();
    for (number, row) in tables.threads.iter().enumerate() {
        findings.require(is_paid(tables, number, row), Kind::Claim, || {
            format!(
                "thread {number} of scheduler {} is not on time of server {} that it can have",
                row.scheduler, row.server
            )
        });
        let is_known = row.scheduler == NONE && row.label == 0
            || row.scheduler != NONE && labels.insert((row.scheduler, row.label));
        findings.require(is_known, Kind::Scheduler, || {
            format!("thread {number} has the label {}, which is another one's or means nothing", row.label)
        });
    }
}

fn is_paid(tables: &Tables<'_>, number: usize, row: &ThreadRow) -> bool {
    let Some(server) = tables.servers.get(usize::from(row.server)) else { return false };
    let Some(claim) = tables.tcaps.get(usize::from(row.tcap)) else { return false };
    let is_servers = row.tcap == row.server;
    if server.band != NONE || claim.server != row.server {
        return false;
    }
    let scheduler = match led_by(tables, number) {
        Some((leads, _)) if server.holder == leads => {
            return is_servers
                && tables.schedulers.get(usize::from(leads)).is_some_and(|one| one.parent == row.scheduler);
        }
        // It is its parent's.
        Some((_, one)) if one.parent == row.scheduler => row.scheduler,
        Some(_) => return false,
        None => row.scheduler,
    };
    if server.holder == NONE {
        return is_servers && scheduler == NONE && led_by(tables, number).is_none();
    }
    !is_servers && is_above(tables, server.holder, scheduler) && claim.scheduler == id_of(tables, scheduler)
}
