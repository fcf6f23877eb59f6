//! Budget rules as the analysis knows them: what is certain of each, and what each can take from others.
//!
//! This is the analysis's whole knowledge of single rules. Everything else asks the functions here, so that a new rule is one
//! variant with its arms in this file. Sources: `real-time.md` 2.

use crate::arithmetic::{divide_down, scale_up};
use crate::core_bounds::{certain, is_disturbed, is_donor, is_foreign_donor};
use crate::core_model::{CoreModel, Gate, Server};
use crate::demand::Demand;
use crate::envelope::Envelope;
use crate::guest::Task;
use crate::response::Contention;
use crate::steps::Steps;
use crate::supply::Supply;
use alloc::vec::Vec;
use bulkhead_words::Rule as Word;

/// How time is spent and comes back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// No limit.
    Unlimited,
    /// No limit that is enforced, but the guest is trusted to run these tasks and nothing else.
    Promised(Vec<Task>),
    /// Sporadic server.
    Sporadic {
        /// Budget.
        budget_ticks: u64,
        /// Period.
        period_ticks: u64,
        /// Chunks are dated when they execute.
        dispatch_anchor: bool,
        /// Starvation gathers no credit.
        lag_clamp: bool,
        /// Chunks kept.
        chunks: u32,
        /// Smallest chunk that is offered.
        minimum_ticks: u64,
    },
    /// Deferrable server.
    Deferrable {
        /// Budget.
        budget_ticks: u64,
        /// Period.
        period_ticks: u64,
    },
    /// Polling server.
    Polling {
        /// Budget.
        budget_ticks: u64,
        /// Period.
        period_ticks: u64,
    },
    /// Server for work on behalf of others.
    Pibs(Pibs),
}

/// A PIBS server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pibs {
    /// Share of the core, numerator.
    pub numerator: u64,
    /// Share of the core, denominator.
    pub denominator: u64,
    /// Its clients.
    pub clients: Vec<Client>,
    /// The published rule: the grant grows with the client's period and survives a raise of the priority (PIBS-03).
    pub published: bool,
}

impl Pibs {
    /// Shortest period of its clients.
    #[must_use]
    pub fn floor_ticks(&self) -> u64 {
        self.clients.iter().map(|client| client.period_ticks).min().unwrap_or(0)
    }

    /// Grant of the corrected rule: the share of the shortest client period, rounded down. Of the published one: of the
    /// longest, because a grant in hand is kept when a shorter client raises the priority.
    #[must_use]
    pub fn grant_ticks(&self) -> u64 {
        let longest = self.clients.iter().map(|client| client.period_ticks).max().unwrap_or(0);
        let period = if self.published { longest } else { self.floor_ticks() };
        crate::arithmetic::scale_down(period, self.numerator, self.denominator)
    }
}

/// How a budget comes back in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pieces {
    /// They are dated when they execute.
    pub dispatch_anchor: bool,
    /// Starvation gathers no credit.
    pub lag_clamp: bool,
    /// Most of them.
    pub chunks: u32,
    /// Smallest one that is offered.
    pub minimum_ticks: u64,
}

/// A client of a PIBS server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    /// Period of the client's own server.
    pub period_ticks: u64,
    /// Priority at which work for it is done.
    pub priority: u8,
}

impl Rule {
    /// Budget and period, where it has them; grant and shortest client period of one with clients.
    #[must_use]
    pub fn budget(&self) -> Option<(u64, u64)> {
        match self {
            Self::Unlimited | Self::Promised(_) => None,
            Self::Sporadic { budget_ticks, period_ticks, .. }
            | Self::Deferrable { budget_ticks, period_ticks }
            | Self::Polling { budget_ticks, period_ticks } => Some((*budget_ticks, *period_ticks)),
            Self::Pibs(pibs) => Some((pibs.grant_ticks(), pibs.floor_ticks())),
        }
    }

    /// A rule with a budget of its own, by its word; `None` for the words of others. `pieces` says how its budget comes back, where that is in pieces.
    #[must_use]
    pub const fn budgeted(word: Word, budget_ticks: u64, period_ticks: u64, pieces: Pieces) -> Option<Self> {
        let Pieces { dispatch_anchor, lag_clamp, chunks, minimum_ticks } = pieces;
        match word {
            Word::Unlimited | Word::Pibs => None,
            Word::Sporadic => {
                Some(Self::Sporadic { budget_ticks, period_ticks, dispatch_anchor, lag_clamp, chunks, minimum_ticks })
            }
            Word::Deferrable => Some(Self::Deferrable { budget_ticks, period_ticks }),
            Word::Polling => Some(Self::Polling { budget_ticks, period_ticks }),
        }
    }

    /// A share of the core for clients that are not known yet.
    #[must_use]
    pub const fn share(numerator: u64, denominator: u64) -> Self {
        Self::Pibs(Pibs { numerator, denominator, clients: Vec::new(), published: false })
    }

    /// Gives the rule its clients. Changes nothing in a rule without clients.
    pub fn set_clients(&mut self, list: Vec<Client>) {
        if let Self::Pibs(Pibs { clients, .. }) = self {
            *clients = list;
        }
    }

    /// Gives the rule another budget, and a smallest chunk that fits it. Changes nothing in a rule without a budget of its own.
    pub fn set_budget(&mut self, ticks: u64) {
        match self {
            Self::Unlimited | Self::Promised(_) | Self::Pibs(_) => {}
            Self::Sporadic { budget_ticks, minimum_ticks, .. } => {
                *budget_ticks = ticks;
                *minimum_ticks = (*minimum_ticks).min((ticks / 2).max(1));
            }
            Self::Deferrable { budget_ticks, .. } | Self::Polling { budget_ticks, .. } => *budget_ticks = ticks,
        }
    }

    /// Lets a budget come back in at most this number of pieces, each at least this long. Changes nothing in a rule without pieces.
    pub fn limit_chunks(&mut self, most: u32, least_ticks: u64) {
        if let Self::Sporadic { minimum_ticks, chunks, .. } = self {
            *minimum_ticks = (*minimum_ticks).max(least_ticks);
            *chunks = (*chunks).min(most);
        }
    }

    /// Name and variant for people, such as "sporadic, dispatch".
    #[must_use]
    pub fn text(&self) -> &'static str {
        match self {
            Self::Unlimited => "unlimited",
            Self::Promised(_) => "unlimited, tasks promised",
            Self::Sporadic { dispatch_anchor: true, .. } => "sporadic, dispatch",
            Self::Sporadic { .. } => Word::Sporadic.name(),
            Self::Deferrable { .. } => Word::Deferrable.name(),
            Self::Polling { .. } => Word::Polling.name(),
            Self::Pibs(pibs) if pibs.published => "pibs, published",
            Self::Pibs(_) => Word::Pibs.name(),
        }
    }

    /// The share and the clients of a rule that works for others.
    #[must_use]
    pub fn pibs(&self) -> Option<&Pibs> {
        match self {
            Self::Pibs(pibs) => Some(pibs),
            _ => None,
        }
    }

    /// Pieces of the budget that are dated apart; `None` for a budget that never comes back in pieces.
    #[must_use]
    pub fn chunks(&self) -> Option<u32> {
        match self {
            Self::Sporadic { chunks, .. } => Some(*chunks),
            _ => None,
        }
    }

    /// Smallest of these pieces that is offered.
    #[must_use]
    pub fn smallest_chunk_ticks(&self) -> Option<u64> {
        match self {
            Self::Sporadic { minimum_ticks, .. } => Some(*minimum_ticks),
            _ => None,
        }
    }

    /// What of a budget may be kept for the next period: less than a chunk.
    #[must_use]
    pub fn sliver_ticks(&self) -> u64 {
        self.smallest_chunk_ticks().map_or(0, |ticks| ticks.saturating_sub(1))
    }

    /// States whether time comes back by when it was used, rather than on a grid or by when it could have been used.
    #[must_use]
    pub fn is_dated_by_its_use(&self) -> bool {
        matches!(self, Self::Sporadic { dispatch_anchor: true, .. } | Self::Pibs(_))
    }

    /// States whether what is not wanted at once is lost until the next date.
    #[must_use]
    pub fn forgets_what_is_not_wanted(&self) -> bool {
        matches!(self, Self::Polling { .. })
    }

    /// States whether two budgets can be taken at once, about a date of the grid (`real-time.md` 2.2).
    #[must_use]
    pub fn hits_twice(&self) -> bool {
        matches!(self, Self::Deferrable { .. })
    }

    /// What it can ask of the core while less important work waits; `shared` when others spend the budget, too, which can then
    /// be spent at any instant. Nothing bounds [`Rule::Unlimited`], which asks for nothing here.
    pub(crate) fn demands(&self, shared: bool) -> Vec<Demand> {
        match self {
            Self::Unlimited => Vec::new(),
            Self::Promised(tasks) => {
                tasks.iter().map(|task| Demand::periodic(task.cost_ticks, task.period_ticks)).collect()
            }
            Self::Sporadic { budget_ticks, period_ticks, .. } | Self::Polling { budget_ticks, period_ticks }
                if !shared =>
            {
                alloc::vec![Demand::periodic(*budget_ticks, *period_ticks)]
            }
            Self::Sporadic { budget_ticks, period_ticks, .. }
            | Self::Polling { budget_ticks, period_ticks }
            | Self::Deferrable { budget_ticks, period_ticks } => {
                alloc::vec![Demand::DoubleHit { budget_ticks: *budget_ticks, period_ticks: *period_ticks }]
            }
            Self::Pibs(pibs) => alloc::vec![Demand::Share {
                grant_ticks: pibs.grant_ticks(),
                numerator: pibs.numerator,
                denominator: pibs.denominator,
            }],
        }
    }

    /// How much longer its server has nothing because the end of a budget was noticed up to `late_ticks` late.
    ///
    /// A budget on a grid ends so much sooner, and the grid does not move. The budget of a sporadic server comes back at its own
    /// date, so that only a debt matters that swallows a whole budget, or all of it but a sliver. A debt of a PIBS server moves
    /// the date.
    pub(crate) fn debt_ticks(&self, late_ticks: u64) -> u64 {
        match (self, self.budget()) {
            (Self::Pibs(pibs), _) => scale_up(late_ticks, pibs.denominator, pibs.numerator),
            (Self::Sporadic { .. }, Some((budget_ticks, period_ticks))) => {
                let kept = late_ticks.saturating_add(self.sliver_ticks());
                divide_down(kept, budget_ticks).saturating_mul(period_ticks)
            }
            (rule, Some((budget_ticks, period_ticks))) => {
                let swallowed_ticks = divide_down(late_ticks, budget_ticks).saturating_mul(period_ticks);
                // From date to date of the grid is the longest wait of a polling server anyway.
                let sooner_ticks = if rule.forgets_what_is_not_wanted() { 0 } else { late_ticks };
                swallowed_ticks.saturating_add(sooner_ticks)
            }
            (_, None) => 0,
        }
    }
}

/// Supply to an owner that always wants it, and to one that sleeps.
pub(crate) fn supplies(
    model: &CoreModel,
    number: usize,
    server: &Server,
    contention: &Contention,
    response_ticks: u64,
    steps: &Steps,
) -> (Supply, Supply) {
    let nothing = (Supply::Nothing, Supply::Nothing);
    // A budget that another vCPU may spend is promised to nobody, and what somebody else pays is counted there.
    if server.payer.is_some() || is_foreign_donor(model, number, server) {
        return nothing;
    }
    let Some((certain_ticks, period_ticks)) = certain(server) else {
        return nothing;
    };
    // After an early sleep the rest of a chunk is usable when the missing time has passed; and the end of a window is one.
    let response_ticks = response_ticks.saturating_add(server.least_charge_ticks);
    let missing_ticks = if matches!(server.gate, Gate::Window(_)) { server.least_charge_ticks } else { 0 };
    let certain_ticks = certain_ticks.saturating_sub(missing_ticks);
    let explicit = Supply::Explicit { budget_ticks: certain_ticks, period_ticks, response_ticks };
    let dispatched = |late_ticks: u64, split: bool| Supply::Dispatched {
        budget_ticks: certain_ticks,
        period_ticks,
        jitter_ticks: late_ticks.saturating_sub(certain_ticks),
        split,
    };
    // The opening of a window counts as a wake-up, which gives the budget a new date.
    let redated = matches!(server.gate, Gate::Window(_) | Gate::Interrupt);
    let both = |supply: Supply| (supply.clone(), supply);
    match &server.rule {
        Rule::Unlimited | Rule::Promised(_) => nothing,
        Rule::Sporadic { dispatch_anchor, minimum_ticks, chunks, .. } => {
            let split = dispatched(response_ticks, true);
            if let Some(supply) = once_in_a_frame(server, contention, certain_ticks, steps) {
                return (supply, dispatched(response_ticks, true));
            }
            let enough = u64::from(chunks.saturating_sub(1)).saturating_mul(*minimum_ticks) >= certain_ticks;
            match *dispatch_anchor || redated {
                true => (dispatched(response_ticks, is_disturbed(server, contention)), split),
                false if enough => both(explicit),
                false => (explicit, split),
            }
        }
        // Closing the gate forgets the budget, and so does sleeping.
        Rule::Polling { .. } if redated => nothing,
        Rule::Polling { .. } => (explicit, Supply::Nothing),
        Rule::Deferrable { .. } => both(explicit),
        Rule::Pibs(pibs) if pibs.published => nothing,
        // Grants follow each other by what was used, so that lateness adds up within a request.
        Rule::Pibs(_) => both(dispatched(response_ticks.saturating_add(certain_ticks), false)),
    }
}

/// The opening of a window gives the budget of an eligible-dated server a new date. With one window in a frame and a period that is
/// not longer, the whole budget is there at each opening, as long as its owner does not sleep: a wake-up late in a window dates it
/// late in the next ones, too.
fn once_in_a_frame(server: &Server, contention: &Contention, usable_ticks: u64, steps: &Steps) -> Option<Supply> {
    let (Rule::Sporadic { budget_ticks, period_ticks, dispatch_anchor: false, .. }, Supply::Table(table)) =
        (&server.rule, &contention.offered)
    else {
        return None;
    };
    let window = table.only_window()?;
    let from_opening = Contention { offered: Supply::Whole, ..contention.clone() };
    let late_ticks = server.least_charge_ticks;
    let response_ticks =
        from_opening.response(*budget_ticks, window.saturating_sub(late_ticks), steps)?.saturating_add(late_ticks);
    (*period_ticks <= table.major_ticks()).then(|| Supply::Explicit {
        budget_ticks: usable_ticks,
        period_ticks: table.major_ticks(),
        response_ticks,
    })
}

/// Most that a server takes in a window, whatever others do.
pub(crate) fn envelope(model: &CoreModel, number: usize, server: &Server, response: Option<u64>) -> Envelope {
    let lateness_ticks = model.lateness_ticks;
    let late = |budget: u64, period: u64| response.unwrap_or(period).min(period).saturating_sub(budget);
    let stair = |budget_ticks: u64, period_ticks: u64, jitter_ticks: u64| Envelope::Stair {
        budget_ticks,
        period_ticks,
        jitter_ticks,
        lateness_ticks,
    };
    match &server.rule {
        Rule::Unlimited | Rule::Promised(_) => Envelope::Unlimited,
        Rule::Sporadic { budget_ticks, period_ticks, .. } if is_donor(model, number) => {
            stair(*budget_ticks, *period_ticks, period_ticks.saturating_sub(*budget_ticks))
        }
        Rule::Sporadic { budget_ticks, period_ticks, dispatch_anchor: true, .. } => {
            stair(*budget_ticks, *period_ticks, 0)
        }
        // Without the clamp a starved server may burst without a bound (SS-07).
        Rule::Sporadic { lag_clamp: false, period_ticks, .. } if response.is_none_or(|ticks| ticks > *period_ticks) => {
            Envelope::Unlimited
        }
        Rule::Sporadic { budget_ticks, period_ticks, .. } | Rule::Polling { budget_ticks, period_ticks } => {
            stair(*budget_ticks, *period_ticks, late(*budget_ticks, *period_ticks))
        }
        Rule::Deferrable { budget_ticks, period_ticks } => {
            stair(*budget_ticks, *period_ticks, period_ticks.saturating_sub(*budget_ticks))
        }
        Rule::Pibs(pibs) => Envelope::Share {
            grant_ticks: pibs.grant_ticks(),
            numerator: pibs.numerator,
            denominator: pibs.denominator,
            // One tick more: the date of a grant is rounded up, so that a grant is up to a tick late.
            jitter_ticks: response.unwrap_or(u64::MAX).saturating_sub(pibs.grant_ticks()).saturating_add(1),
            lateness_ticks,
        },
    }
}
