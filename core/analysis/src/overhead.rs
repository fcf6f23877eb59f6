//! What the monitor takes from a vCPU's own time, so that its guest does not get it.
//!
//! The monitor charges the server that was chosen, from that decision to the next one, and a server that gives the core
//! away until its successor's guest runs (record 0021). So budgets, responses and envelopes are in *charged* time and
//! need no term for switches, and the side that pre-empts pays for both exchanges (`real-time.md` 1.2). What a guest
//! executes is less: the way in to each decision that pre-empts it is charged to it, and so are interrupts of others
//! that change nobody's turn, and both exchanges when its own budget runs out and comes back.
//!
//! How often can others pre-empt? A guest may sleep and wake as fast as it can, and nothing limits that but its budget: each time
//! that it runs it is charged at least [`Costs::least_stint_ticks`]. So servers above take the core at most as often as their
//! envelopes hold that, and once for each time that a budget runs out. A server with a least charge
//! (`real-time.md` 1.5) takes it at most as often as what it is charged holds that. A guest that is trusted to run certain tasks wakes when
//! one of them is released.
//!
//! How often can an interrupt come? It waits at EL2, active and so silent, until its owner runs. One that wakes its owner is a
//! pre-emption and counted there. Others enter once while a more important owner is drained, once after each run of an owner
//! whose route is `defer`, and those of less important owners once for each time that this vCPU left the core to them. A rate
//! limit changes none of that: it keeps an interrupt from waking its owner, not from entering.
//!
//! How often can managers ask? As often as the limiters let them, each for itself and for each of those that it asks. A request
//! interrupts the vCPU that runs, wakes the one that is asked, and is served in the time of that one.

use crate::arithmetic::{divide_down, divide_up};
use crate::envelope::Envelope;
use crate::guest::Task;
use crate::line::Line;
use crate::steps::Steps;
use alloc::vec::Vec;

/// Costs of the monitor in ticks. All zero: nothing is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// One exchange of vCPUs, with the way in to its decision.
    pub switch_ticks: u64,
    /// What a vCPU is charged when it is pre-empted: the way in to the decision.
    pub way_in_ticks: u64,
    /// An interrupt that changes nobody's turn.
    pub entry_ticks: u64,
    /// Work of the monitor at a switch now and then, and the shortest time in between.
    pub publication_ticks: u64,
    /// That time.
    pub publication_period_ticks: u64,
    /// The least that a vCPU is charged each time that it runs.
    pub least_stint_ticks: u64,
}

impl Costs {
    /// What a vCPU pays for taking the core and for giving it away.
    #[must_use]
    pub const fn both_exchanges_ticks(&self) -> u64 {
        self.switch_ticks.saturating_mul(2)
    }

    /// What a job pays beside its work: both exchanges, its own interrupt, and those of `sources` that wait for others meanwhile.
    #[must_use]
    pub const fn job_ticks(&self, sources: u64) -> u64 {
        self.both_exchanges_ticks().saturating_add(self.entry_ticks.saturating_mul(sources.saturating_add(1)))
    }

    /// What the vCPU that runs pays for a manager's request to another one.
    #[must_use]
    pub const fn request_ticks(&self) -> u64 {
        self.entry_ticks.saturating_mul(REQUEST_ENTRIES)
    }
}

/// Interrupts of a neighbour that a manager's request counts for: after its own entry the monitor looks who is asked.
pub const REQUEST_ENTRIES: u64 = 2;

/// Most rounds in which what is taken and what is charged meet: halved this often, the longest time is less than a tick.
const MAX_ROUNDS: usize = 64;

/// What is known of a vCPU besides its servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Habits {
    /// Interrupt sources.
    pub sources: u64,
    /// Those of them that never wake it while others want to run (route `defer`).
    pub deferred: u64,
    /// The tasks that its guest is trusted to run and nothing else; `None` when it may do anything.
    pub tasks: Option<Vec<Task>>,
}

/// How often something comes back: at most `pieces` times in each period, and in two more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Returns {
    /// Period.
    pub period_ticks: u64,
    /// How often in each.
    pub pieces: u64,
}

impl Returns {
    /// Most times in any window.
    #[must_use]
    pub fn in_window(&self, ticks: u64) -> u64 {
        divide_down(ticks, self.period_ticks).saturating_add(2).saturating_mul(self.pieces)
    }
}

/// When one of a vCPU's own budgets runs out and comes back, its windows open, its turns begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnReturns {
    /// How often in time.
    pub returns: Returns,
    /// How many of them in a row are charged at least this: all chunks of a sporadic server, its whole budget. `None` for what
    /// comes back whether its guest was charged or not.
    pub budget_ticks: Option<u64>,
}

impl OwnReturns {
    /// Most times in any window in which its vCPU is charged `charged_ticks`, each of which takes `each_ticks` of that.
    fn in_window(&self, ticks: u64, charged_ticks: u64, each_ticks: u64) -> u64 {
        let in_time = self.returns.in_window(ticks);
        let Some(budget_ticks) = self.budget_ticks else { return in_time };
        // Where they take more than half of the budget, more charged time is not more for the guest.
        if self.returns.pieces.saturating_mul(each_ticks) > budget_ticks / 2 {
            return in_time;
        }
        // Those at both ends, and as many again: one that is charged more than the least may meet one more round.
        let rounds = divide_down(charged_ticks, budget_ticks).saturating_add(3);
        in_time.min(rounds.saturating_mul(self.returns.pieces))
    }
}

/// A server above whose guest may do anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spender {
    /// Most that it runs.
    pub envelope: Envelope,
    /// What each of its activations is charged at least; 0 = what it runs.
    pub least_charge_ticks: u64,
}

impl Spender {
    /// A line below the times that it takes the core.
    fn line(&self, least_stint_ticks: u64) -> Line {
        self.envelope.line().part_below(least_stint_ticks.max(self.least_charge_ticks))
    }

    /// Most activations that begin in a window; `None` when nothing but its running time bounds them.
    fn activations(&self, ticks: u64) -> Option<u64> {
        let charged = self.envelope.charged_in_window(ticks, self.least_charge_ticks)?;
        Some(charged.checked_div(self.least_charge_ticks)?.saturating_add(1))
    }
}

/// What others do in a window that the monitor takes time for.
#[derive(Clone, Copy)]
struct Others {
    /// Times that they take the core.
    preemptions: u64,
    /// Entries of the sources of those whose budgets ran out, and of requests.
    entries: u64,
}

/// What the monitor takes from one vCPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overhead {
    /// Costs.
    pub costs: Costs,
    /// Servers above whose guests may do anything.
    pub spenders: Vec<Spender>,
    /// Periods of releases of trusted guests above.
    pub releases: Vec<u64>,
    /// Budgets above that run out and come back, and the interrupt sources of their owners. And requests of managers to others,
    /// with the interrupts that each counts for.
    pub drained: Vec<(Returns, u64)>,
    /// Sources of vCPUs above whose route is `defer`.
    pub deferred_above: u64,
    /// Sources of all vCPUs above, which may wait from before.
    pub sources_above: u64,
    /// Sources of the vCPUs that run when this one has nothing to spend.
    pub sources_below: u64,
    /// When this vCPU's own budgets run out and come back, its windows open, its turns begin.
    pub own: Vec<OwnReturns>,
    /// What its servers may owe from before, because it slept earlier than their least charges allow.
    pub owed_ticks: u64,
    /// It was just woken, and the monitor does what it does now and then at other switches.
    pub woken: bool,
}

impl Overhead {
    fn is_nothing(&self) -> bool {
        self.costs == Costs::default()
    }

    /// Most pre-emptions by more important vCPUs.
    #[must_use]
    pub fn preemptions(&self, ticks: u64) -> u64 {
        if self.spenders.is_empty() && self.releases.is_empty() && self.drained.is_empty() {
            return 0;
        }
        let least_ticks = self.costs.least_stint_ticks;
        let by_stints = |spent: u64| if spent == 0 { 0 } else { divide_up(spent, least_ticks) };
        let (mut spent, mut whole) = (0u64, 0u64);
        for spender in &self.spenders {
            let runs = spender.envelope.in_window(ticks);
            match spender.activations(ticks).filter(|count| *count < by_stints(runs)) {
                Some(activations) => whole = whole.saturating_add(activations),
                None => spent = spent.saturating_add(runs),
            }
        }
        let whole = whole.saturating_add(by_stints(spent));
        let released = self.releases.iter().map(|period| divide_up(ticks, *period).saturating_add(1));
        let drained = self.drained.iter().map(|(returns, _)| returns.in_window(ticks));
        // Those that the window cuts at its ends.
        released.chain(drained).fold(whole.saturating_add(2), u64::saturating_add)
    }

    fn returns(&self, ticks: u64, charged_ticks: u64) -> u64 {
        let each_ticks = self.of_return().saturating_add(self.costs.publication_ticks.saturating_mul(2));
        let counts = self.own.iter().map(|returns| returns.in_window(ticks, charged_ticks, each_ticks));
        counts.fold(0, u64::saturating_add)
    }

    /// The same for a vCPU that was just woken and whose budget does not run out.
    #[must_use]
    pub fn in_hand(&self) -> Self {
        Self { own: Vec::new(), woken: true, ..self.clone() }
    }

    /// What one more return of its own budget takes.
    #[must_use]
    pub fn of_return(&self) -> u64 {
        self.sources_below.saturating_mul(self.costs.entry_ticks).saturating_add(self.costs.both_exchanges_ticks())
    }

    /// A line below what is taken.
    pub(crate) fn line(&self) -> Line {
        if self.is_nothing() {
            return Line::NOTHING;
        }
        let sum = |lines: &mut dyn Iterator<Item = Line>| lines.fold(Line::NOTHING, Line::plus);
        let each =
            |returns: &Returns| Line::below(returns.pieces, returns.period_ticks).plus(Line::constant(returns.pieces));
        let stint_ticks = self.costs.least_stint_ticks;
        let spent = sum(&mut self.spenders.iter().map(|spender| spender.line(stint_ticks)));
        let released = sum(&mut self.releases.iter().map(|period| Line::below(1, *period).plus(Line::constant(1))));
        let drained = sum(&mut self.drained.iter().map(|(returns, _)| each(returns)));
        let preemptions = spent.plus(released).plus(drained);
        // Returns of a budget are limited by what is charged as well.
        let by_time = self.own.iter().filter(|own| own.budget_ticks.is_none());
        let returns = sum(&mut by_time.map(|own| each(&own.returns)));
        let entries = sum(&mut self.drained.iter().map(|(returns, sources)| each(returns).times(*sources)))
            .plus(preemptions.times(self.deferred_above))
            .plus(returns.plus(Line::constant(1)).times(self.sources_below));
        preemptions
            .times(self.costs.way_in_ticks)
            .plus(returns.plus(Line::constant(1)).times(self.costs.both_exchanges_ticks()))
            .plus(entries.times(self.costs.entry_ticks))
    }

    /// Steps of one look.
    pub(crate) fn size(&self) -> usize {
        let parts = [self.spenders.len(), self.releases.len(), self.drained.len(), self.own.len()];
        parts.into_iter().fold(1, usize::saturating_add)
    }

    /// Most that is taken in a window of `ticks` in which its guest executes `executed_ticks`.
    #[must_use]
    pub fn in_window(&self, ticks: u64, executed_ticks: u64) -> u64 {
        if self.is_nothing() {
            return self.owed_ticks;
        }
        // Others do the same in every round, and there may be thousands of them.
        let others = self.others(ticks);
        // What is charged is what is executed and what is taken. Each round adds at most half of what the one before it did.
        let mut taken = 0;
        for _ in 0..MAX_ROUNDS {
            let next = self.taken(ticks, others, executed_ticks.saturating_add(taken));
            if next <= taken {
                return taken;
            }
            taken = next;
        }
        self.taken(ticks, others, u64::MAX)
    }

    /// What others do in a window, whatever its vCPU is charged.
    fn others(&self, ticks: u64) -> Others {
        let drained = self.drained.iter().map(|(returns, sources)| returns.in_window(ticks).saturating_mul(*sources));
        Others { preemptions: self.preemptions(ticks), entries: drained.fold(0, u64::saturating_add) }
    }

    /// Most that is taken in a window in which others do so much, and its vCPU is charged so much.
    fn taken(&self, ticks: u64, others: Others, charged_ticks: u64) -> u64 {
        let preemptions = others.preemptions;
        let returns = self.returns(ticks, charged_ticks);
        let runs = preemptions.saturating_add(returns).saturating_add(1);
        let deferred = preemptions.saturating_mul(self.deferred_above);
        let below = returns.saturating_add(1).saturating_mul(self.sources_below);
        let entries = [deferred, below, self.sources_above].into_iter().fold(others.entries, u64::saturating_add);
        let costs = &self.costs;
        // It is written when somebody gives the core away or takes it by a decision, so this is more than it can be.
        let published = divide_up(ticks, costs.publication_period_ticks).saturating_add(1);
        let published = published.min(runs.saturating_sub(u64::from(self.woken)));
        self.owed_ticks
            .saturating_add(preemptions.saturating_mul(costs.way_in_ticks))
            .saturating_add(returns.saturating_add(1).saturating_mul(costs.both_exchanges_ticks()))
            .saturating_add(entries.saturating_mul(costs.entry_ticks))
            .saturating_add(published.saturating_mul(costs.publication_ticks))
    }

    /// The least window in which `charged` finds room for some work and for what is taken meanwhile, if it is at most
    /// `limit_ticks`; `charged` is the least window for an amount of charged time.
    #[must_use]
    pub fn least_window(
        &self,
        work_ticks: u64,
        limit_ticks: u64,
        steps: &Steps,
        charged: impl Fn(u64) -> Option<u64>,
    ) -> Option<u64> {
        let mut window = 0;
        while steps.take(self.size()) {
            let next = charged(work_ticks.saturating_add(self.in_window(window, work_ticks)))?;
            if next > limit_ticks {
                return None;
            }
            if next <= window {
                return Some(window);
            }
            window = next;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::{Costs, Overhead, OwnReturns, Returns, Spender};
    use crate::envelope::Envelope;

    /// QV-39, SG-48: the number of pre-emptions follows from the budgets above.
    #[test]
    fn a_budget_holds_as_many_preemptions_as_least_stints() {
        let envelope = Envelope::Stair { budget_ticks: 100, period_ticks: 1_000, jitter_ticks: 0, lateness_ticks: 0 };
        let costs = Costs { switch_ticks: 10, way_in_ticks: 2, least_stint_ticks: 7, ..Costs::default() };
        let spender = Spender { envelope, least_charge_ticks: 0 };
        let mut overhead = Overhead { costs, spenders: alloc::vec![spender], ..Overhead::default() };
        // 200 in 2,000, each at least 7, and two that the window cuts.
        assert_eq!(overhead.preemptions(2_000), 29 + 2);
        assert_eq!(overhead.in_window(2_000, 0), (29 + 2) * 2 + 2 * 10);
        overhead.drained = alloc::vec![(Returns { period_ticks: 1_000, pieces: 1 }, 3)];
        overhead.costs.entry_ticks = 1;
        assert_eq!(overhead.in_window(2_000, 0), (29 + 2 + 4) * 2 + 2 * 10 + 4 * 3);
        // Without a least stint nothing limits them.
        overhead.costs.least_stint_ticks = 0;
        assert_eq!(overhead.preemptions(2_000), u64::MAX);
        overhead.spenders.clear();
        overhead.releases = alloc::vec![500];
        assert_eq!(overhead.preemptions(2_000), 5 + 4 + 2);
        // Each activation is charged at least 50: three budgets and what is owed, 350 at most, and the one that the window cuts.
        overhead.costs.least_stint_ticks = 7;
        (overhead.releases, overhead.drained) = Default::default();
        overhead.spenders = alloc::vec![Spender { least_charge_ticks: 50, ..spender }];
        assert_eq!(overhead.preemptions(2_000), 7 + 1 + 2);
    }

    /// All pieces of a budget together are the budget, so a guest that is charged little meets few of them, however long that takes.
    #[test]
    fn returns_are_counted_by_time_and_by_what_is_charged() {
        let returns = Returns { period_ticks: 1_000, pieces: 2 };
        let own = OwnReturns { returns, budget_ticks: Some(400) };
        assert_eq!(own.in_window(10_000, 0, 10), 3 * 2);
        assert_eq!(own.in_window(10_000, 1_200, 10), 6 * 2);
        assert_eq!(own.in_window(10_000, 100_000, 10), 12 * 2, "by time");
        assert_eq!(own.in_window(10_000, 0, 101), 12 * 2, "half of the budget is for returning");
        assert_eq!(OwnReturns { budget_ticks: None, ..own }.in_window(10_000, 0, 10), 12 * 2);
    }
}
