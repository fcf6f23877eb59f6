//! Budgets that make a system pass.
//!
//! The search is deterministic and changes budgets only; periods, priorities and rules are the user's. Core by core, with the
//! most important server first:
//!
//! 1. A guest whose tasks miss a deadline gets the smallest budget with which they do not; a server that is late gets the
//!    largest budget that fits, if that is at least half of what was asked for.
//! 2. If that is not enough, every guest with tasks gets the smallest budget that its tasks need, which leaves more to others.
//! 3. If that is not enough either, the budgets of guests without tasks are scaled down by one common factor.
//!
//! The search has an allowance of steps as the analysis has ([`bulkhead_analysis::steps`]), and finds nothing beyond it.
//!
//! A budget that nobody needs is never raised. What is suggested was analysed again before it is shown.

use crate::assumption::Assumptions;
use crate::bounds::{TaskBound, core_ticks, tasks_of};
use crate::check::servers::largest_below;
use crate::clock::{Clock, written_down, written_up};
use crate::cores::{SharedCore, SharedModel, TickCosts, shared_cores};
use bulkhead_analysis::core_bounds::{self, CoreBounds, Verdict};
use bulkhead_analysis::core_model::{Gate, Server};
use bulkhead_analysis::steps::Steps;
use bulkhead_plan::maps::VcpuUse;
use bulkhead_plan::model::{ServerReference, System};
use bulkhead_plan::schedule::server;
use std::collections::BTreeMap;

/// Scaling is tried in thousandths.
const WHOLE: u64 = 1_000;
/// A suggested budget is at least this many times what its switches take.
const WORTH: u64 = 4;

/// Another budget for a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The server.
    pub server: ServerReference,
    /// Its budget as described.
    pub old_ns: u64,
    /// The suggested one.
    pub new_ns: u64,
}

/// The answer for a core that does not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// With these budgets it passes.
    Budgets {
        /// Core of the board.
        board_core: usize,
        /// Changes, the most important server first.
        changes: Vec<Change>,
    },
    /// No budgets were found with these periods and priorities.
    Nothing {
        /// Core of the board.
        board_core: usize,
    },
}

/// Looks for budgets for every core that does not pass, within these steps ([`Steps::of_a_suggestion`]).
#[must_use]
pub fn suggest(system: &System, assumptions: &Assumptions, steps: &Steps) -> Vec<Answer> {
    let cores = shared_cores(system, assumptions).into_iter();
    let searches = cores.map(|core| Search::new(system, assumptions, core, steps));
    searches.filter(|search| !search.passes()).map(Search::answer).collect()
}

/// Smallest budget of a vCPU's most important regular server with which all tasks of its guest keep their deadlines.
#[must_use]
pub(crate) fn budget_for_tasks(
    system: &System,
    assumptions: &Assumptions,
    vcpu: VcpuUse,
    steps: &Steps,
) -> Option<(ServerReference, u64)> {
    let core = shared_cores(system, assumptions).into_iter().find(|core| core.core_use.vcpus.contains(&vcpu))?;
    let search = Search::new(system, assumptions, core, steps);
    let number = search.regular_server(search.core.core_use.vcpus.iter().position(|one| *one == vcpu)?)?;
    Some((*search.core.servers.get(number)?, search.least_for_tasks(number)?))
}

struct Search<'a> {
    system: &'a System,
    assumptions: &'a Assumptions,
    core: SharedCore,
    steps: &'a Steps,
    /// Budgets that were chosen, as they will be written.
    chosen: BTreeMap<usize, u64>,
}

impl<'a> Search<'a> {
    fn new(system: &'a System, assumptions: &'a Assumptions, core: SharedCore, steps: &'a Steps) -> Self {
        Self { system, assumptions, core, steps, chosen: BTreeMap::new() }
    }

    /// Smallest budget that is worth its switches.
    fn worth_ns(&self) -> u64 {
        let exchanges = TickCosts::of(self.system, self.assumptions).overhead().both_exchanges_ticks();
        self.clock().ns_up(exchanges.saturating_mul(WORTH))
    }

    fn clock(&self) -> Clock {
        Clock::new(self.system.board.counter_hz)
    }

    fn passes(&self) -> bool {
        let ticks = core_ticks(&self.core, self.steps);
        let is_late = |verdict: &Verdict| matches!(verdict, Verdict::Late { .. } | Verdict::NotFound);
        let fits = ticks.iter().flat_map(|ticks| &ticks.servers).all(|server| !is_late(&server.verdict));
        fits && (0..self.core.core_use.vcpus.len()).all(|slot| self.keeps_tasks_of(slot, ticks.as_ref()))
    }

    /// States whether all tasks of a vCPU's guest keep their deadlines.
    fn keeps_tasks_of(&self, slot: usize, ticks: Option<&CoreBounds>) -> bool {
        tasks_of(self.system, self.assumptions, &self.core, ticks, slot, self.steps).iter().all(TaskBound::is_kept)
    }

    fn models(&self) -> &[Server] {
        match &self.core.model {
            SharedModel::Servers(model) => &model.servers,
            SharedModel::Ring { .. } => &[],
        }
    }

    /// The server that a guest's tasks live on: its most important one with a budget of its own that is regularly open.
    fn regular_server(&self, slot: usize) -> Option<usize> {
        self.models().iter().position(|server| {
            server.vcpu == slot
                && matches!(server.gate, Gate::Always | Gate::Window(_))
                && server.payer.is_none()
                && has_own_budget(server)
        })
    }

    fn budget_ns(&self, number: usize) -> u64 {
        let budget = self.models().get(number).and_then(Server::budget);
        budget.map_or(0, |(budget, _)| self.clock().ns_down(budget))
    }

    /// The same core with another budget for one server.
    fn with(&self, number: usize, budget_ns: u64) -> Self {
        let mut core = self.core.clone();
        let ticks = self.clock().ticks_down(budget_ns).max(1);
        if let SharedModel::Servers(model) = &mut core.model
            && let Some(server) = model.servers.get_mut(number)
        {
            server.rule.set_budget(ticks);
        }
        let mut chosen = self.chosen.clone();
        chosen.insert(number, budget_ns);
        Self { system: self.system, assumptions: self.assumptions, core, steps: self.steps, chosen }
    }

    fn period_ns(&self, number: usize) -> u64 {
        let budget = self.models().get(number).and_then(Server::budget);
        budget.map_or(0, |(_, period)| self.clock().ns_down(period))
    }

    fn is_late(&self, number: usize) -> bool {
        match &self.core.model {
            SharedModel::Servers(model) => !self.steps.bound(|steps| core_bounds::fits(model, number, steps)).0,
            SharedModel::Ring { .. } => true,
        }
    }

    /// Largest budget that is certain in its period, at most `above_ns`.
    fn largest(&self, number: usize, above_ns: u64) -> Option<u64> {
        let fits = |budget_ns: u64| !self.with(number, budget_ns).is_late(number);
        let largest = written_down(largest_below(above_ns.saturating_add(1), fits));
        (largest >= self.worth_ns() && fits(largest)).then_some(largest)
    }

    fn keeps_tasks(&self, number: usize, budget_ns: u64) -> bool {
        let changed = self.with(number, budget_ns);
        let Some(slot) = self.models().get(number).map(|server| server.vcpu) else {
            return false;
        };
        changed.keeps_tasks_of(slot, core_ticks(&changed.core, self.steps).as_ref())
    }

    /// Smallest budget of a server with which all tasks of its guest keep their deadlines.
    fn least_for_tasks(&self, number: usize) -> Option<u64> {
        let most = self.largest(number, self.period_ns(number))?;
        if !self.keeps_tasks(number, most) {
            return None;
        }
        let too_small = |budget_ns: u64| !self.keeps_tasks(number, budget_ns.max(1));
        let least = written_up(largest_below(most, too_small).saturating_add(1)).max(written_up(self.worth_ns()));
        Some(if self.keeps_tasks(number, least) { least.min(most) } else { most })
    }

    /// States whether the server carries tasks.
    fn has_tasks(&self, number: usize) -> bool {
        let slot = self.models().get(number).map_or(usize::MAX, |server| server.vcpu);
        let timing_tasks =
            self.core.core_use.vcpus.get(slot).and_then(|vcpu| self.system.partitions.get(vcpu.partition));
        self.regular_server(slot) == Some(number)
            && timing_tasks.is_some_and(|partition| !partition.tasks.is_empty() && partition.cores.len() == 1)
    }

    /// Repairs one server after the other, the most important one first. `shrink` takes from guests with tasks what these do
    /// not need, and `lower` lowers guests without tasks that are late.
    fn repaired(self, shrink: bool, lower: bool) -> Option<Self> {
        let mut search = self;
        for number in 0..search.models().len() {
            let Some(one) = search.models().get(number) else { break };
            if !has_own_budget(one) || one.payer.is_some() {
                continue;
            }
            let budget_ns = search.budget_ns(number);
            if search.has_tasks(number) && (shrink || !search.keeps_tasks(number, budget_ns)) {
                let least = search.least_for_tasks(number)?;
                search = search.with(number, least);
            } else if search.is_late(number) {
                let half = budget_ns / 2;
                let largest = search.largest(number, budget_ns).filter(|largest| lower && *largest >= half)?;
                search = search.with(number, largest);
            }
        }
        search.passes().then_some(search)
    }

    /// Budgets of guests without tasks, scaled by a common factor.
    fn scaled(&self, thousandths: u64) -> Self {
        let mut search = self.again();
        for number in 0..search.models().len() {
            let plain = search.models().get(number).is_some_and(|one| has_own_budget(one) && one.payer.is_none());
            if plain && !search.has_tasks(number) {
                let budget_ns = search.budget_ns(number);
                let scaled = u128::from(budget_ns) * u128::from(thousandths) / u128::from(WHOLE);
                let scaled =
                    written_down(u64::try_from(scaled).unwrap_or(budget_ns)).max(written_up(search.worth_ns()));
                search = search.with(number, scaled);
            }
        }
        search
    }

    fn again(&self) -> Self {
        Self {
            system: self.system,
            assumptions: self.assumptions,
            core: self.core.clone(),
            steps: self.steps,
            chosen: self.chosen.clone(),
        }
    }

    fn answer(self) -> Answer {
        let board_core = self.core.board_core;
        let first = self.again().repaired(false, true).or_else(|| self.again().repaired(true, true));
        let found = first.or_else(|| {
            let works = |thousandths: u64| self.scaled(thousandths).repaired(true, false).is_some();
            let most = largest_below(WHOLE, works);
            if most == 0 { None } else { self.scaled(most).repaired(true, false) }
        });
        match found {
            Some(search) => Answer::Budgets { board_core, changes: search.changes() },
            None => Answer::Nothing { board_core },
        }
    }

    fn changes(&self) -> Vec<Change> {
        let change = |(number, new_ns): (&usize, &u64)| {
            let reference = *self.core.servers.get(*number)?;
            let (old_ns, _) = server(self.system, reference)?.rule.budget_and_period_ns()?;
            (old_ns != *new_ns).then_some(Change { server: reference, old_ns, new_ns: *new_ns })
        };
        self.chosen.iter().filter_map(change).collect()
    }
}

fn has_own_budget(server: &Server) -> bool {
    server.budget().is_some() && server.rule.pibs().is_none()
}
