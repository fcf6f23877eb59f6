//! Bounds of one shared core: for every server the worst response, the most it takes and the least it gives; for every vCPU
//! what its servers give together (`real-time.md` 4.2 to 4.4; CFG-01 is the golden example).

use crate::blackout::{debt_ticks, first_tick, wait_after_sleep};
use crate::contention::{self, Obstacle};
use crate::core_model::{Client, CoreModel, Gate, Server};
use crate::envelope::Envelope;
use crate::interrupt::{Delivery, HandlerServer};
use crate::overhead::{Costs, Overhead};
use crate::preemption;
use crate::response::Contention;
use crate::rule;
use crate::search::Search;
use crate::steps::Steps;
use crate::supply::{MAX_WINDOW_TICKS, Supply};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// How far beyond its period a response is searched for, so that a refusal can say how late it is.
const LATE_PERIODS: u64 = 64;

/// What the analysis says about a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The whole budget is certain in every period, this long after it is due.
    Fits {
        /// Worst response of the budget.
        response_ticks: u64,
    },
    /// The budget is not certain in every period.
    Late {
        /// Worst response of the first budget of a busy window; `None` when it is never done.
        response_ticks: Option<u64>,
    },
    /// The search for the response took too many steps ([`crate::steps`]), so nothing is promised.
    NotFound,
    /// A server of another vCPU may keep the core for ever.
    NoBound {
        /// That server.
        culprit: usize,
        /// It does so in its background, with its budget used up.
        background: bool,
    },
    /// The server has no budget; what it gets is what is left ([`ServerBounds::supply`]).
    Unlimited,
    /// The server has no budget, and a server of another vCPU may keep the core for ever.
    Starved {
        /// That server.
        culprit: usize,
        /// It does so in its background, with its budget used up.
        background: bool,
    },
    /// An unlimited server of the same vCPU is more important, so this one adds nothing.
    Shadowed {
        /// That server.
        by: usize,
    },
    /// The server is switched off.
    Off,
}

/// Bounds of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerBounds {
    /// The verdict.
    pub verdict: Verdict,
    /// Least that its owner is charged through it when it always wants it.
    pub supply: Supply,
    /// The same for an owner that sleeps between its jobs. Each sleep splits the budget of a sporadic server, and with too few
    /// chunks for the pieces the last one is delayed again and again.
    pub sleeper_supply: Supply,
    /// Longest time in which its owner wants to run and gets nothing through it, whether that sleeps in between or not; `None`
    /// without a promise.
    pub blackout_ticks: Option<u64>,
    /// Most that runs through it, foreground only.
    pub envelope: Envelope,
    /// What it waits for, for questions about parts of its budget; `None` without a bound.
    pub contention: Option<Contention>,
}

impl ServerBounds {
    /// Worst response of the whole budget.
    #[must_use]
    pub const fn response_ticks(&self) -> Option<u64> {
        match self.verdict {
            Verdict::Fits { response_ticks } => Some(response_ticks),
            Verdict::Late { response_ticks } => response_ticks,
            _ => None,
        }
    }
}

/// Bounds of a vCPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VcpuBounds {
    /// The vCPU, as numbered in the model.
    pub vcpu: usize,
    /// What its guest executes when it always wants to run: what its servers give together, less what the monitor takes.
    pub supply: Supply,
    /// The same when it sleeps between its jobs.
    pub sleeper_supply: Supply,
    /// What the monitor takes.
    pub overhead: Overhead,
    /// Longest time that it wants to run and is not chosen: the bound for any wait, whatever its guest did before and in whatever
    /// state its budgets are. Its first instruction is a switch later.
    pub blackout_ticks: Option<u64>,
    /// Longest time from a wake-up until it is chosen while one of its budgets is in hand.
    pub conforming_wait_ticks: Option<u64>,
    /// The same with every budget just used up, or forgotten: a polling server's by the sleep itself.
    pub drained_wait_ticks: Option<u64>,
    /// The searches for these waits ended; otherwise some of them took too many steps, and what is missing may exist.
    pub is_found: bool,
}

/// Bounds of a core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreBounds {
    /// In the order of the model.
    pub servers: Vec<ServerBounds>,
    /// In ascending order of their numbers.
    pub vcpus: Vec<VcpuBounds>,
}

impl CoreBounds {
    /// Computes all bounds of a core.
    ///
    /// Each server and each vCPU has an allowance of steps of its own.
    #[must_use]
    pub fn of(model: &CoreModel, steps: &Steps) -> Self {
        let servers: Vec<_> = model
            .servers
            .iter()
            .enumerate()
            .map(|(number, server)| server_bounds(model, number, server, steps))
            .collect();
        let mut numbers: Vec<usize> = model.servers.iter().map(|server| server.vcpu).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let vcpus = numbers.into_iter().map(|vcpu| vcpu_bounds(model, &servers, vcpu, steps)).collect();
        Self { servers, vcpus }
    }

    /// States whether every server with a budget gets it in every period, and nobody can keep the core from it.
    #[must_use]
    pub fn is_accepted(&self) -> bool {
        self.servers
            .iter()
            .all(|server| !matches!(server.verdict, Verdict::Late { .. } | Verdict::NotFound | Verdict::NoBound { .. }))
    }

    /// Bounds of a vCPU.
    #[must_use]
    pub fn vcpu(&self, vcpu: usize) -> Option<&VcpuBounds> {
        self.vcpus.iter().find(|bounds| bounds.vcpu == vcpu)
    }
}

/// Bounds of a server, or that they were not found.
fn server_bounds(model: &CoreModel, number: usize, server: &Server, steps: &Steps) -> ServerBounds {
    let (bounds, is_found) = steps.bound(|steps| searched_bounds(model, number, server, steps));
    if is_found {
        return bounds;
    }
    ServerBounds { verdict: Verdict::NotFound, contention: bounds.contention, ..nothing(model, server, None) }
}

fn searched_bounds(model: &CoreModel, number: usize, server: &Server, steps: &Steps) -> ServerBounds {
    let contention = match contention::of_server(model, number) {
        Ok(contention) => contention,
        Err(obstacle) => return without_bound(model, server, obstacle),
    };
    if server.gate == Gate::Never {
        return ServerBounds { verdict: Verdict::Off, ..nothing(model, server, None) };
    }
    let Some((budget, period)) = server.budget() else {
        let supply = Supply::Rest(Box::new(contention.clone()));
        return ServerBounds {
            verdict: Verdict::Unlimited,
            blackout_ticks: supply.blackout(steps),
            sleeper_supply: supply.clone(),
            supply,
            envelope: Envelope::Unlimited,
            contention: Some(contention),
        };
    };
    let (verdict, response) = judge(model, number, &contention, (budget, period), steps);
    let (supply, sleeper_supply) = match verdict {
        Verdict::Fits { response_ticks } => rule::supplies(model, number, server, &contention, response_ticks, steps),
        _ => (Supply::Nothing, Supply::Nothing),
    };
    let bounds = ServerBounds {
        verdict,
        blackout_ticks: None,
        supply,
        sleeper_supply,
        envelope: rule::envelope(model, number, server, response),
        contention: Some(contention),
    };
    let awake_ticks = bounds.supply.blackout(steps).map(|ticks| ticks.saturating_add(debt_ticks(model, server)));
    let woken_ticks = wait_after_sleep(model, server, &bounds, steps);
    let blackout_ticks = match server.rule.forgets_what_is_not_wanted() {
        // Nobody who wants to run waits for longer than from one date of the grid to the next.
        true => woken_ticks,
        false => awake_ticks.zip(woken_ticks).map(|(awake, woken)| awake.max(woken)),
    };
    ServerBounds { blackout_ticks, ..bounds }
}

/// The verdict on a server with a budget, and the response of the first budget of a busy window.
fn judge(
    model: &CoreModel,
    number: usize,
    contention: &Contention,
    (budget, period): (u64, u64),
    steps: &Steps,
) -> (Verdict, Option<u64>) {
    let response = contention.response(budget, period.saturating_mul(LATE_PERIODS), steps);
    let in_time = match model.servers.get(number).and_then(|server| server.rule.pibs()) {
        Some(pibs) => clients_in_time(model, number, pibs.grant_ticks(), &pibs.clients, steps),
        None => response.is_some_and(|response| response <= period),
    };
    match response {
        Some(response_ticks) if in_time => (Verdict::Fits { response_ticks }, response),
        response_ticks => (Verdict::Late { response_ticks }, response),
    }
}

/// States whether a server gets its budget in every period, without any other bound of it.
#[must_use]
pub fn fits(model: &CoreModel, number: usize, steps: &Steps) -> bool {
    let (Ok(contention), Some(times)) =
        (contention::of_server(model, number), model.servers.get(number).and_then(Server::budget))
    else {
        return false;
    };
    let (verdict, _) = judge(model, number, &contention, times, steps);
    matches!(verdict, Verdict::Fits { .. }) && !steps.is_used_up()
}

/// A grant is done within the period of each client, at that client's priority.
fn clients_in_time(model: &CoreModel, number: usize, grant_ticks: u64, clients: &[Client], steps: &Steps) -> bool {
    clients.iter().all(|client| {
        let contention = contention::of_server_at(model, number, client.priority);
        contention.is_ok_and(|contention| contention.response(grant_ticks, client.period_ticks, steps).is_some())
    })
}

/// Longest time until a grant in hand is done for each client of a server that works for others, at that client's priority: in the order of its clients,
/// `None` where it may be more than the client's period.
#[must_use]
pub fn client_responses(model: &CoreModel, number: usize, steps: &Steps) -> Vec<Option<u64>> {
    let Some(pibs) = model.servers.get(number).and_then(|server| server.rule.pibs()) else { return Vec::new() };
    let response = |client: &Client| {
        let contention = contention::of_server_at(model, number, client.priority).ok()?;
        let (response, is_found) =
            steps.bound(|steps| contention.response(pibs.grant_ticks(), client.period_ticks, steps));
        response.filter(|_| is_found)
    };
    pibs.clients.iter().map(response).collect()
}

fn without_bound(model: &CoreModel, server: &Server, obstacle: Obstacle) -> ServerBounds {
    let verdict = match obstacle {
        _ if server.gate == Gate::Never => Verdict::Off,
        Obstacle::Sibling(by) => Verdict::Shadowed { by },
        // Nobody promised anything to a server without a budget.
        Obstacle::Unlimited(culprit) if server.budget().is_none() => Verdict::Starved { culprit, background: false },
        Obstacle::Background(culprit) if server.budget().is_none() => Verdict::Starved { culprit, background: true },
        Obstacle::Unlimited(culprit) => Verdict::NoBound { culprit, background: false },
        Obstacle::Background(culprit) => Verdict::NoBound { culprit, background: true },
    };
    ServerBounds { verdict, ..nothing(model, server, None) }
}

fn nothing(model: &CoreModel, server: &Server, response: Option<u64>) -> ServerBounds {
    ServerBounds {
        verdict: Verdict::Off,
        supply: Supply::Nothing,
        sleeper_supply: Supply::Nothing,
        blackout_ticks: None,
        envelope: rule::envelope(model, usize::MAX, server, response),
        contention: None,
    }
}

/// Others spend this server's budget, too.
pub(crate) fn is_donor(model: &CoreModel, number: usize) -> bool {
    model.servers.iter().any(|server| server.payer == Some(number))
}

/// Another vCPU spends this server's budget.
pub(crate) fn is_foreign_donor(model: &CoreModel, number: usize, server: &Server) -> bool {
    model.servers.iter().any(|other| other.payer == Some(number) && other.vcpu != server.vcpu)
}

/// Something else may stop this server before its budget is used up: a server above, an equal, the end of a window.
pub(crate) fn is_disturbed(server: &Server, contention: &Contention) -> bool {
    contention.servers_above > 0 || contention.turns.is_some() || matches!(server.gate, Gate::Window(_))
}

/// What of a budget is certain in each period.
///
/// A sporadic server that is charged with less than its smallest chunk left keeps that sliver for the next period, and any
/// event on the core may charge it. So only `budget - (minimum - 1)` is certain. The second number is the period.
#[must_use]
pub fn certain(server: &Server) -> Option<(u64, u64)> {
    let (budget, period) = server.budget()?;
    Some((budget.saturating_sub(server.rule.sliver_ticks()), period))
}

/// The server through which a handler runs, as [`HandlerServer`]; `None` when nothing bounds it.
#[must_use]
pub fn handler_server(model: &CoreModel, bounds: &CoreBounds, number: usize, steps: &Steps) -> Option<HandlerServer> {
    let server = model.servers.get(number)?;
    let contention = bounds.servers.get(number)?.contention.clone()?;
    let payer = server.payer.map_or(Some(server), |payer| model.servers.get(payer))?;
    let Some((budget_ticks, period_ticks)) = payer.budget() else {
        return Some(HandlerServer {
            budget_ticks: u64::MAX,
            chunks: None,
            split: false,
            return_ticks: 0,
            refill_ticks: 0,
            contention,
        });
    };
    let response = contention.response(budget_ticks, period_ticks.saturating_mul(LATE_PERIODS), steps)?;
    let certain_ticks = certain(payer)?.0.saturating_sub(payer.least_charge_ticks);
    let cycle = period_ticks.saturating_add(response.saturating_sub(certain_ticks));
    let late_ticks = debt_ticks(model, payer).saturating_add(payer.least_charge_ticks);
    let wait = period_ticks.saturating_sub(certain_ticks).saturating_add(late_ticks);
    let (return_ticks, refill_ticks) = if payer.rule.is_dated_by_its_use() {
        (cycle, wait)
    } else if payer.rule.forgets_what_is_not_wanted() {
        (period_ticks, period_ticks.saturating_add(debt_ticks(model, payer)))
    } else {
        (period_ticks, wait)
    };
    let chunks = payer.rule.chunks().map(u64::from);
    let split = chunks.is_some() && payer.rule.is_dated_by_its_use() && is_disturbed(payer, &contention);
    Some(HandlerServer { budget_ticks: certain_ticks, chunks, split, return_ticks, refill_ticks, contention })
}

fn vcpu_bounds(model: &CoreModel, bounds: &[ServerBounds], vcpu: usize, steps: &Steps) -> VcpuBounds {
    let mine = || {
        let pairs = model.servers.iter().zip(bounds);
        pairs.filter(move |(server, _)| server.vcpu == vcpu)
    };
    let steady = || mine().filter(|(server, _)| matches!(server.gate, Gate::Always | Gate::Window(_)));
    let supply = together(steady().map(|(_, bounds)| &bounds.supply));
    let sleeper_supply = together(steady().map(|(_, bounds)| &bounds.sleeper_supply));
    let overhead = preemption::of_vcpu(model, bounds, vcpu);
    let net = |charged: &Supply| match charged {
        Supply::Nothing => Supply::Nothing,
        _ if model.costs == Costs::default() && overhead.owed_ticks == 0 => charged.clone(),
        _ => Supply::Net { charged: Box::new(charged.clone()), overhead: Box::new(overhead.clone()) },
    };
    // Each server alone is a promise, so the least counts, and one that is not found leaves those of the others.
    let least = |of: &dyn Fn(&Server, &ServerBounds, &Steps) -> Option<u64>| {
        let each = steady().map(|(server, bounds)| steps.bound(|steps| of(server, bounds, steps)));
        let each: Vec<(Option<u64>, bool)> = each.collect();
        let least = each.iter().filter_map(|(ticks, _)| *ticks).min();
        (least, least.is_some() || each.iter().all(|(_, is_found)| *is_found))
    };
    let (conforming_wait_ticks, is_conforming_found) = least(&|_, bounds, steps| first_tick(bounds, steps));
    let (drained_wait_ticks, is_drained_found) =
        least(&|server, bounds, steps| wait_after_sleep(model, server, bounds, steps));
    VcpuBounds {
        vcpu,
        blackout_ticks: steady().filter_map(|(_, bounds)| bounds.blackout_ticks).min(),
        supply: net(&supply),
        sleeper_supply: net(&sleeper_supply),
        overhead: overhead.clone(),
        conforming_wait_ticks,
        drained_wait_ticks,
        is_found: is_conforming_found && is_drained_found,
    }
}

/// Several supplies as one.
fn together<'a>(supplies: impl Iterator<Item = &'a Supply>) -> Supply {
    let mut parts: Vec<Supply> = supplies.filter(|supply| **supply != Supply::Nothing).cloned().collect();
    match (parts.pop(), parts.is_empty()) {
        (None, _) => Supply::Nothing,
        (Some(only), true) => only,
        (Some(last), false) => {
            parts.push(last);
            Supply::Sum(parts)
        }
    }
}

/// Delivery of an interrupt through the best of a vCPU's servers that it can count on: each alone is a bound, so the least
/// counts. `gated` chooses servers behind an interrupt gate, too.
#[must_use]
pub fn delivery(model: &CoreModel, bounds: &CoreBounds, vcpu: usize, handler_ticks: u64, steps: &Steps) -> Delivery {
    let mine = model
        .servers
        .iter()
        .enumerate()
        .filter(|(_, server)| server.vcpu == vcpu && matches!(server.gate, Gate::Always | Gate::Interrupt));
    let each = mine.filter_map(|(number, server)| Some((handler_server(model, bounds, number, steps)?, server)));
    let mut best = Delivery::default();
    for (handler, server) in each {
        let overhead = preemption::at_priority(model, &bounds.servers, vcpu, server.lowest_priority());
        // Returns of its own budget are counted by the handler's server: none while it is in hand, and one for each piece of a
        // further budget.
        let delivery = handler.paid_delivery(handler_ticks, &overhead.in_hand(), steps);
        best.conforming_ticks = least_of(best.conforming_ticks, delivery.conforming_ticks);
        best.drained_ticks = least_of(best.drained_ticks, delivery.drained_ticks);
    }
    if let Some(supplied) = bounds.vcpu(vcpu).and_then(|vcpu| vcpu.sleeper_supply.least_window(handler_ticks, steps)) {
        best.conforming_ticks = least_of(best.conforming_ticks, Some(supplied));
        best.drained_ticks = least_of(best.drained_ticks, Some(supplied));
    }
    best
}

fn least_of(left: Option<u64>, right: Option<u64>) -> Option<u64> {
    match (left, right) {
        (Some(left), Some(right)) => Some(left.min(right)),
        (left, right) => left.or(right),
    }
}

/// Delivery of an interrupt with the route `defer`: its owner runs anyway or the core has nothing better to do, so the
/// bound is that of work less important than everything else on the core.
#[must_use]
pub fn deferred_delivery(
    model: &CoreModel,
    bounds: &CoreBounds,
    vcpu: usize,
    handler_ticks: u64,
    steps: &Steps,
) -> Delivery {
    let Ok(others) = contention::below_everything(model, vcpu) else {
        return Delivery::default();
    };
    let overhead = preemption::at_priority(model, &bounds.servers, vcpu, u8::MAX);
    let window = Search::paying(&overhead, &others, 0, 0).least(handler_ticks, MAX_WINDOW_TICKS, steps);
    Delivery { conforming_ticks: window, drained_ticks: window }
}
