//! Budget rules as a system resolves them: what each is given by, what it must be like, and how a plan writes it.
//!
//! This is the planner's whole knowledge of single rules. Everything else asks the methods here, so that a new rule is one
//! variant with its arms in this file.

use crate::error::PlanError;
use crate::limits::at_most;
use crate::model::{ServerReference, System};
use crate::schedule::{self, fill};
use crate::sharing::{MAX_CHUNKS, MAX_PERIOD_TICKS, require};
use crate::ticks;
use alloc::vec::Vec;
use bulkhead_abi::schedule::{ClientPlan, MAX_SERVER_CLIENTS, ServerPlan};
use bulkhead_words::{Anchor, Rule, ServerFlag};

/// How the time of a server is spent and comes back, with what the rule is given by ([`Rule::parameters`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BudgetRule {
    /// No limit.
    Unlimited,
    /// Sporadic server.
    Sporadic {
        /// Budget per period.
        budget_ns: u64,
        /// Period.
        period_ns: u64,
        /// Smallest usable remainder.
        minimum_ns: u64,
        /// Chunks kept, 2 to 16.
        chunks: u32,
        /// Chunks are dated when they execute, rather than when they became eligible.
        dispatch_anchor: bool,
        /// Starvation gathers no credit.
        lag_clamp: bool,
    },
    /// Deferrable server.
    Deferrable {
        /// Budget per period.
        budget_ns: u64,
        /// Period.
        period_ns: u64,
    },
    /// Polling server.
    Polling {
        /// Budget per period.
        budget_ns: u64,
        /// Period.
        period_ns: u64,
    },
    /// Server for work on behalf of others.
    Pibs {
        /// Share of the core: numerator and denominator.
        share: (u64, u64),
        /// Smallest usable grant.
        minimum_ns: u64,
        /// Servers on whose behalf it works: sporadic, deferrable or polling ones of the same core.
        clients: Vec<ServerReference>,
        /// The published rule, for experiments.
        published: bool,
    },
}

impl BudgetRule {
    /// Returns the rule without its parameters.
    #[must_use]
    pub fn word(&self) -> Rule {
        match self {
            Self::Unlimited => Rule::Unlimited,
            Self::Sporadic { .. } => Rule::Sporadic,
            Self::Deferrable { .. } => Rule::Deferrable,
            Self::Polling { .. } => Rule::Polling,
            Self::Pibs { .. } => Rule::Pibs,
        }
    }

    /// Returns budget and period of a rule that has both, in nanoseconds.
    #[must_use]
    pub fn budget_and_period_ns(&self) -> Option<(u64, u64)> {
        match *self {
            Self::Sporadic { budget_ns, period_ns, .. }
            | Self::Deferrable { budget_ns, period_ns }
            | Self::Polling { budget_ns, period_ns } => Some((budget_ns, period_ns)),
            Self::Unlimited | Self::Pibs { .. } => None,
        }
    }

    /// Returns the servers on whose behalf it works; `None` for a rule whose time is its server's own.
    #[must_use]
    pub fn clients(&self) -> Option<&[ServerReference]> {
        match self {
            Self::Pibs { clients, .. } => Some(clients),
            _ => None,
        }
    }

    /// Gives the rule its clients, and the smallest grant, which depends on them. Changes nothing in a rule without clients.
    pub fn set_clients(&mut self, list: Vec<ServerReference>, smallest_grant_ns: u64) {
        if let Self::Pibs { clients, minimum_ns, .. } = self {
            (*clients, *minimum_ns) = (list, smallest_grant_ns);
        }
    }

    /// Returns what a server of the rule has at least when it is chosen and has not run since its budget came back, in
    /// nanoseconds; 0 for a rule without a limit, which charges nothing.
    #[must_use]
    pub fn least_in_hand_ns(&self) -> u64 {
        match *self {
            Self::Unlimited => 0,
            Self::Sporadic { minimum_ns, .. } | Self::Pibs { minimum_ns, .. } => minimum_ns,
            Self::Deferrable { budget_ns, .. } | Self::Polling { budget_ns, .. } => budget_ns,
        }
    }

    /// Returns its share of the core, numerator and denominator; `None` for a rule that has none.
    #[must_use]
    pub fn share(&self) -> Option<(u64, u64)> {
        match *self {
            Self::Pibs { share, .. } => Some(share),
            _ => None,
        }
    }

    /// Returns the pieces of the budget that are dated apart; `None` for a rule that has none.
    #[must_use]
    pub fn chunks(&self) -> Option<u32> {
        match *self {
            Self::Sporadic { chunks, .. } => Some(chunks),
            _ => None,
        }
    }

    /// Returns the instant that dates a chunk; `None` for a rule that has no chunks.
    #[must_use]
    pub fn anchor(&self) -> Option<Anchor> {
        match *self {
            Self::Sporadic { dispatch_anchor: true, .. } => Some(Anchor::Dispatch),
            Self::Sporadic { .. } => Some(Anchor::Eligible),
            _ => None,
        }
    }

    /// States whether it is a published rule whose bounds do not hold, for experiments.
    #[must_use]
    pub fn is_published(&self) -> bool {
        matches!(self, Self::Pibs { published: true, .. })
    }

    /// Writes the rule into a plan. The smallest remainder is rounded up, because zero would be no limit, but never past the
    /// budget.
    pub(crate) fn write(&self, plan: &mut ServerPlan, system: &System) {
        let hz = system.board.counter_hz;
        plan.rule = self.word().number();
        if let Some((budget_ns, period_ns)) = self.budget_and_period_ns() {
            plan.budget_ticks = ticks::round_down(budget_ns, hz);
            plan.period_ticks = ticks::round_up(period_ns, hz);
        }
        match self {
            Self::Unlimited | Self::Deferrable { .. } | Self::Polling { .. } => {}
            Self::Sporadic { minimum_ns, chunks, dispatch_anchor, lag_clamp, .. } => {
                plan.minimum_ticks = ticks::round_up(*minimum_ns, hz).min(plan.budget_ticks);
                plan.chunks = *chunks;
                plan.flags |= ServerFlag::DispatchAnchor.bits_if(*dispatch_anchor);
                plan.flags |= ServerFlag::LagClamp.bits_if(*lag_clamp);
            }
            Self::Pibs { share, minimum_ns, clients: names, published } => {
                (plan.share_numerator, plan.share_denominator) = *share;
                plan.minimum_ticks = ticks::round_up(*minimum_ns, hz).min(schedule::grant_ticks(system, *share, names));
                plan.flags |= ServerFlag::PublishedPibs.bits_if(*published);
                let list = schedule::clients(system, names);
                let clients = list.iter().map(|(period_ns, priority)| ClientPlan {
                    period_ticks: ticks::round_up(*period_ns, hz),
                    priority: u32::from(*priority),
                    reserved: 0,
                });
                plan.client_count = fill(&mut plan.clients, clients);
            }
        }
    }

    /// Checks what the layouts and the scheduler demand of the rule of the server at `reference`, which errors call `place`.
    pub(crate) fn check(&self, system: &System, reference: ServerReference, place: &str) -> Result<(), PlanError> {
        let hz = system.board.counter_hz;
        if let Some((budget_ns, period_ns)) = self.budget_and_period_ns() {
            let (budget, period) = (ticks::round_down(budget_ns, hz), ticks::round_up(period_ns, hz));
            let good = budget > 0 && budget <= period && period <= MAX_PERIOD_TICKS;
            require(good, place, "its budget must be positive and at most its period")?;
        }
        match self {
            Self::Unlimited | Self::Deferrable { .. } | Self::Polling { .. } => Ok(()),
            Self::Sporadic { budget_ns, minimum_ns, chunks, .. } => {
                require((2..=MAX_CHUNKS).contains(chunks), place, "chunks must be 2 to 16")?;
                require((1..=*budget_ns).contains(minimum_ns), place, "minimum must be positive and at most the budget")
            }
            Self::Pibs { share, minimum_ns, clients, .. } => {
                at_most("clients", place, clients.len(), MAX_SERVER_CLIENTS)?;
                let (numerator, denominator) = *share;
                let is_share = 0 < numerator && numerator < denominator && denominator <= u64::from(u32::MAX);
                require(is_share, place, "share must be between 0 and 1, with a denominator of at most 32 bits")?;
                check_clients(system, reference, clients, place)?;
                let minimum = ticks::round_up(*minimum_ns, hz);
                let grant = schedule::grant_ticks(system, *share, clients);
                require((1..=grant).contains(&minimum), place, "minimum must be positive and at most a grant")
            }
        }
    }
}

/// Checks the servers on whose behalf another one works.
fn check_clients(
    system: &System,
    reference: ServerReference,
    clients: &[ServerReference],
    place: &str,
) -> Result<(), PlanError> {
    let is_client = |client: &ServerReference| {
        schedule::server_core(system, *client) == schedule::server_core(system, reference)
            && schedule::server(system, *client).is_some_and(|client| client.rule.budget_and_period_ns().is_some())
    };
    let good = !clients.is_empty() && clients.iter().all(is_client);
    require(good, place, "clients must be servers of the same core with budget and period")?;
    let sorted = schedule::clients(system, clients).is_sorted_by_key(|(_, priority)| *priority);
    require(sorted, place, "a client with a longer period must not be more important than one with a shorter")
}
