//! Who stands in a server's way: from a whole core to the [`Contention`] of one of its servers.
//!
//! - An equal priority counts as more important (`real-time.md` 4.2: safe), except that an unlimited equal under a quantum takes
//!   a turn at a time.
//! - A server in the windows of another owner never meets a server in its own windows.
//! - A budget that another server spends is counted once, at the more important of both, and as a deferrable one: it can be
//!   kept until the spender wants it.
//! - An unlimited server whose guest is trusted to run certain tasks counts as these tasks.

use crate::core_model::{CoreModel, Gate, Rule, Server};
use crate::demand::Demand;
use crate::response::{Contention, Turns};
use crate::supply::Supply;
use crate::table::Table;
use alloc::vec::Vec;

/// Why there is no bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// An unlimited server of another vCPU.
    Unlimited(usize),
    /// The background of a server of another vCPU.
    Background(usize),
    /// An unlimited server, or a background, of the same vCPU.
    Sibling(usize),
}

/// What a server waits for, at the least important priority that it can have with a budget in hand.
pub(crate) fn of_server(model: &CoreModel, number: usize) -> Result<Contention, Obstacle> {
    let priority = model.servers.get(number).map_or(u8::MAX, Server::lowest_priority);
    of_server_at(model, number, priority)
}

/// What a server waits for at one of its priorities: one with clients has theirs.
pub(crate) fn of_server_at(model: &CoreModel, number: usize, priority: u8) -> Result<Contention, Obstacle> {
    let Some(server) = model.servers.get(number) else {
        return Ok(Contention::none());
    };
    let place = Place { number, vcpu: server.vcpu, priority, gate: server.gate };
    let mut contention = gather(model, &place)?;
    contention.offered = offered(model, server);
    if let Some(turns) = &mut contention.turns
        && let Some(chunks) = server.rule.chunks()
    {
        // A budget that comes back in pieces may queue up again for each.
        turns.extra_rounds = u64::from(chunks).saturating_sub(1);
    }
    Ok(contention)
}

/// What work of `vcpu` waits for that is less important than every server of other vCPUs.
pub(crate) fn below_everything(model: &CoreModel, vcpu: usize) -> Result<Contention, Obstacle> {
    let place = Place { number: usize::MAX, vcpu, priority: u8::MAX, gate: Gate::Always };
    let mut without_own = model.clone();
    for server in without_own.servers.iter_mut().filter(|server| server.vcpu == vcpu) {
        server.gate = Gate::Never;
    }
    gather(&without_own, &place)
}

struct Place {
    number: usize,
    vcpu: usize,
    priority: u8,
    gate: Gate,
}

fn offered(model: &CoreModel, server: &Server) -> Supply {
    match (server.gate, &model.table) {
        (Gate::Window(owner), Some(table)) => {
            Supply::Table(Table::of_owner(table.major_ticks, &table.windows, owner, table.passage_ticks))
        }
        (Gate::Window(_), None) => Supply::Nothing,
        _ => Supply::Whole,
    }
}

/// Servers in the windows of different owners never meet.
fn never_meet(left: Gate, right: Gate) -> bool {
    matches!((left, right), (Gate::Window(left), Gate::Window(right)) if left != right)
}

fn gather(model: &CoreModel, place: &Place) -> Result<Contention, Obstacle> {
    let mut contention =
        Contention { blocking_ticks: model.blocking_ticks, demands: model.events.clone(), ..Contention::none() };
    let quantum = model.quanta.iter().find(|(priority, _)| *priority == place.priority).map(|(_, quantum)| *quantum);
    let mut paid = Vec::new();
    let mut peers = 0u64;
    let rivals = model.servers.iter().enumerate().filter(|(number, rival)| {
        *number != place.number && rival.gate != Gate::Never && !never_meet(rival.gate, place.gate)
    });
    for (number, rival) in rivals {
        let sibling = rival.vcpu == place.vcpu;
        let unlimited = matches!(payer(model, rival).rule, Rule::Unlimited);
        let best = rival.best_priority();
        if unlimited && best == place.priority && quantum.is_some() && !sibling {
            peers = peers.saturating_add(1);
            continue;
        }
        if best <= place.priority {
            let takes = sibling || crate::preemption::may_take(model, rival, place.vcpu, place.priority);
            contention.servers_above = contention.servers_above.saturating_add(usize::from(takes));
            contention.lateness_ticks = contention.lateness_ticks.saturating_add(model.lateness_ticks);
            match demands(model, number, rival, place, &mut paid) {
                Some(demands) => contention.demands.extend(demands),
                None if sibling => return Err(Obstacle::Sibling(number)),
                None => return Err(Obstacle::Unlimited(number)),
            }
        }
        match rival.background.filter(|level| *level <= place.priority) {
            // Its guest runs then, and this server keeps its budget for later.
            Some(_) if sibling => {}
            Some(level) if level == place.priority && quantum.is_some() => peers = peers.saturating_add(1),
            Some(_) => return Err(Obstacle::Background(number)),
            None => {}
        }
    }
    contention.turns = quantum.filter(|_| peers > 0).map(|quantum_ticks| Turns {
        peers,
        quantum_ticks,
        turn_ticks: quantum_ticks.saturating_add(model.lateness_ticks),
        extra_rounds: 0,
    });
    Ok(contention)
}

fn payer<'a>(model: &'a CoreModel, server: &'a Server) -> &'a Server {
    server.payer.and_then(|payer| model.servers.get(payer)).unwrap_or(server)
}

/// What a rival takes; `None` without a limit. `paid` remembers budgets that were counted, so that one which two servers
/// spend is counted once.
fn demands(
    model: &CoreModel,
    number: usize,
    rival: &Server,
    place: &Place,
    paid: &mut Vec<usize>,
) -> Option<Vec<Demand>> {
    let source = rival.payer.unwrap_or(number);
    let owner = payer(model, rival);
    let shared = model.servers.iter().any(|other| other.payer == Some(source));
    // One's own budget spent by somebody else is in one's own cost already.
    if paid.contains(&source) || source == place.number {
        return Some(Vec::new());
    }
    paid.push(source);
    if !matches!(owner.rule, Rule::Unlimited) {
        return Some(owner.rule.demands(shared));
    }
    // Outside of its windows it stands in nobody's way.
    match (rival.gate, &model.table) {
        (Gate::Window(owner), Some(table)) if rival.gate != place.gate => {
            Some(alloc::vec![Demand::Windows(Table::of_owner(table.major_ticks, &table.windows, owner, 0))])
        }
        _ => None,
    }
}
