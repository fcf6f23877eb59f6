//! The one search behind every bound: the least time by which a supply covers some work and all that is taken meanwhile.
//!
//! What is nested in the model (a task waits in a guest, whose supply is what the monitor leaves of a server, which gets what
//! more important servers leave of a core) is one fixed point here: for monotone steps the least fixed point of a nest is that of
//! the steps one after the other at one common time. The search goes up from a time before which straight lines exclude an
//! answer ([`crate::line`]), and where it gets slow it jumps along them. Neither changes what is found.

use crate::demand::Demand;
use crate::line::{Item, Line, earliest};
use crate::overhead::Overhead;
use crate::response::Contention;
use crate::steps::Steps;
use crate::supply::{MAX_WINDOW_TICKS, Supply};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

/// Plain steps before a search jumps: most need fewer, and a jump is dearer than a step.
const PLAIN_STEPS: usize = 4;

/// Something that takes time from whatever is further out.
enum Layer<'a> {
    /// More important work.
    Contention(&'a Contention),
    /// The monitor's work in a window that ends `later_ticks` later, and has at least a length.
    Overhead { overhead: &'a Overhead, later_ticks: u64, at_least_ticks: u64 },
}

impl Layer<'_> {
    fn size(&self) -> usize {
        match self {
            Self::Contention(contention) => contention.demands.iter().map(Demand::size).fold(1, usize::saturating_add),
            Self::Overhead { overhead, .. } => overhead.size(),
        }
    }
}

/// What everything is taken from.
enum Base<'a> {
    /// A supply with a formula.
    Formula(&'a Supply),
    /// Several, some of which have one.
    Sum(Sum<'a>),
}

impl Base<'_> {
    fn size(&self) -> usize {
        match self {
            Self::Formula(supply) => supply.size(),
            Self::Sum(_) => 1,
        }
    }
}

/// A supply with the work that is done in it.
pub(crate) struct Search<'a> {
    /// From the outermost to the innermost.
    layers: Vec<Layer<'a>>,
    base: Base<'a>,
    /// Further work that the outermost contention counts, and how much of it.
    added: &'a [Demand],
    added_lines: Vec<Line>,
    added_count: usize,
    /// The outermost layer counts without work, too: it is a response and no supply.
    is_response: bool,
    given: Line,
    lines: Vec<Line>,
    /// Steps of one look at everything.
    size: usize,
    items: RefCell<Vec<Item>>,
    /// Work and a time before which it is not done: what a search for as much or more begins with.
    known: [Cell<(u64, u64)>; 2],
}

impl<'a> Search<'a> {
    /// In a supply.
    pub(crate) fn in_supply(supply: &'a Supply) -> Self {
        Self::new(Vec::new(), supply, &[], false)
    }

    /// Below more important work.
    pub(crate) fn below(contention: &'a Contention) -> Self {
        Self::below_added(contention, &[])
    }

    /// The same with work that is added later ([`Self::add`]).
    pub(crate) fn below_added(contention: &'a Contention, added: &'a [Demand]) -> Self {
        Self::new(alloc::vec![Layer::Contention(contention)], &contention.offered, added, true)
    }

    /// Counts the first `count` of the added ones from now on, more than before.
    pub(crate) fn add(&mut self, count: usize) {
        self.added_count = count;
    }

    fn added(&self) -> &'a [Demand] {
        self.added.get(..self.added_count).unwrap_or(self.added)
    }

    /// Below more important work, and paying for the monitor's in a window that ends `later_ticks` after the work and has at
    /// least a length.
    pub(crate) fn paying(
        overhead: &'a Overhead,
        contention: &'a Contention,
        later_ticks: u64,
        at_least_ticks: u64,
    ) -> Self {
        let layers =
            alloc::vec![Layer::Overhead { overhead, later_ticks, at_least_ticks }, Layer::Contention(contention),];
        Self::new(layers, &contention.offered, &[], true)
    }

    fn new(mut layers: Vec<Layer<'a>>, mut supply: &'a Supply, added: &'a [Demand], is_response: bool) -> Self {
        let base = loop {
            supply = match supply {
                Supply::Rest(contention) => {
                    layers.push(Layer::Contention(contention));
                    &contention.offered
                }
                Supply::Net { charged, overhead } => {
                    layers.push(Layer::Overhead { overhead, later_ticks: 0, at_least_ticks: 0 });
                    charged
                }
                Supply::Sum(parts) => break Base::Sum(Sum::new(parts)),
                formula => break Base::Formula(formula),
            }
        };
        let mut lines = Vec::new();
        for layer in &layers {
            match layer {
                Layer::Contention(contention) => {
                    lines.push(Line::NOTHING);
                    lines.extend(contention.demands.iter().map(Demand::line));
                }
                Layer::Overhead { overhead, later_ticks, .. } => lines.push(overhead.line().earlier(*later_ticks)),
            }
        }
        let given = match &base {
            Base::Formula(supply) => supply.line(),
            Base::Sum(sum) => sum.line(),
        };
        let size = layers.iter().map(Layer::size).fold(base.size(), usize::saturating_add);
        let known = [Cell::new((0, 0)), Cell::new((0, 0))];
        let added_lines = added.iter().map(Demand::line).collect();
        let items = RefCell::new(Vec::new());
        Self { layers, base, added, added_lines, added_count: 0, is_response, given, lines, size, items, known }
    }

    /// A line above what is left for the work of a search in this supply.
    fn line_above(&self) -> Line {
        self.given.left_over(self.lines.iter().fold(Line::NOTHING, |sum, line| sum.plus(*line)))
    }

    /// What has to be given by a time for some work to be done; the exact parts of it go to `items`. `None` without a limit.
    fn needed(&self, work_ticks: u64, time: u64, items: &mut Vec<Item>) -> Option<u64> {
        items.clear();
        let mut lines = self.lines.iter().copied();
        let mut take = |items: &mut Vec<Item>, ticks: u64| {
            items.push(Item { ticks, line: lines.next().unwrap_or(Line::NOTHING) });
            ticks
        };
        let mut amount = work_ticks;
        for (depth, layer) in self.layers.iter().enumerate() {
            // Nothing is wanted of this supply, so that nobody waits for it.
            if amount == 0 && (depth > 0 || !self.is_response) {
                return Some(0);
            }
            match layer {
                Layer::Contention(contention) => {
                    let fixed = contention.fixed_ticks(amount);
                    amount = amount.saturating_add(take(items, fixed));
                    for demand in &contention.demands {
                        amount = amount.saturating_add(take(items, demand.in_window(time)?));
                    }
                    let added = if depth == 0 { self.added() } else { &[] };
                    for (demand, line) in added.iter().zip(&self.added_lines) {
                        let ticks = demand.in_window(time)?;
                        items.push(Item { ticks, line: *line });
                        amount = amount.saturating_add(ticks);
                    }
                }
                Layer::Overhead { overhead, later_ticks, at_least_ticks } => {
                    let window = time.saturating_add(*later_ticks).max(*at_least_ticks);
                    amount = amount.saturating_add(take(items, overhead.in_window(window, amount)));
                }
            }
        }
        Some(amount)
    }

    /// The least time by which some work is done, if it is at most `limit_ticks`.
    pub(crate) fn least(&self, work_ticks: u64, limit_ticks: u64, steps: &Steps) -> Option<u64> {
        self.least_from(work_ticks, 0, limit_ticks, steps)
    }

    /// The same where the answer is known not to lie before `from`.
    pub(crate) fn least_from(&self, work_ticks: u64, from: u64, limit_ticks: u64, steps: &Steps) -> Option<u64> {
        let limit = limit_ticks.min(self.longest());
        let mut items = self.items.take();
        let found = self.climb(work_ticks, from.max(self.known_before(work_ticks)), limit, &mut items, steps);
        self.items.replace(items);
        let time = found?;
        // A failure and a success are remembered apart: they help different searches.
        let [done, not_done] = &self.known;
        if time <= limit { done } else { not_done }.set((work_ticks, time));
        (time <= limit).then_some(time)
    }

    /// Beyond this, supplies with formulas are not searched.
    fn longest(&self) -> u64 {
        match &self.base {
            Base::Formula(Supply::Whole | Supply::Table(_)) if self.layers.len() <= usize::from(self.is_response) => {
                u64::MAX
            }
            _ => MAX_WINDOW_TICKS,
        }
    }

    /// The answer, or a time above the limit that no answer precedes.
    fn climb(&self, work_ticks: u64, from: u64, limit: u64, items: &mut Vec<Item>, steps: &Steps) -> Option<u64> {
        let mut time = from;
        for step in 0.. {
            if !steps.take(self.size.saturating_add(self.added_count)) {
                return None;
            }
            let needed = self.needed(work_ticks, time, items)?;
            if step == 0 || step >= PLAIN_STEPS {
                if !steps.take(items.len()) {
                    return None;
                }
                let later = if needed == 0 { time } else { earliest(self.given, work_ticks, items, time)? };
                if later > limit {
                    return Some(later);
                }
                if later > time {
                    time = later;
                    continue;
                }
            }
            let next = match &self.base {
                Base::Formula(supply) => supply.formula_window(needed)?,
                Base::Sum(sum) => sum.least(needed, time, limit, steps)?,
            };
            if next <= time {
                return Some(time);
            }
            time = next;
            if time > limit {
                return Some(time);
            }
        }
        None
    }

    fn known_before(&self, work_ticks: u64) -> u64 {
        let usable = self.known.iter().map(Cell::get).filter(|(work, _)| *work <= work_ticks);
        usable.map(|(_, time)| time).max().unwrap_or(0)
    }

    /// The most work that is certain to be done in a window.
    pub(crate) fn most(&self, window_ticks: u64, steps: &Steps) -> u64 {
        let fits = |work: u64| self.least(work, window_ticks, steps).is_some();
        let mut most = self.line_above().most_at(window_ticks).min(window_ticks);
        if let Base::Formula(supply) = &self.base {
            most = most.min(supply.formula(window_ticks));
        }
        let (mut low, mut step) = (self.certain_at_once(window_ticks, steps).min(most), 1u64);
        // Doubling first: the answer is near.
        let mut high = most.saturating_add(1);
        while low.saturating_add(step) < high {
            if !fits(low.saturating_add(step)) {
                high = low.saturating_add(step);
                break;
            }
            low = low.saturating_add(step);
            step = step.saturating_mul(2);
        }
        while high.saturating_sub(low) > 1 {
            let middle = low + (high - low) / 2;
            if fits(middle) {
                low = middle;
            } else {
                high = middle;
            }
        }
        if steps.is_used_up() { 0 } else { low }
    }

    /// Work that fits because everything else fits in front of it.
    fn certain_at_once(&self, window_ticks: u64, steps: &Steps) -> u64 {
        let has_turns = |layer: &Layer| matches!(layer, Layer::Contention(contention) if contention.turns.is_some());
        if self.layers.iter().any(has_turns) || !steps.take(self.size.saturating_add(self.added_count)) {
            return 0;
        }
        let Base::Formula(supply) = &self.base else { return 0 };
        let mut items = self.items.take();
        // The more is done, the more the monitor takes: so what it takes while everything is done is the most.
        let given = supply.formula(window_ticks);
        let work = given.max(1);
        let taken = self.needed(work, window_ticks, &mut items).map_or(u64::MAX, |needed| needed.saturating_sub(work));
        self.items.replace(items);
        given.saturating_sub(taken)
    }
}

/// Several supplies at once.
struct Sum<'a> {
    formulas: Vec<&'a Supply>,
    searches: Vec<Search<'a>>,
}

impl<'a> Sum<'a> {
    fn new(parts: &'a [Supply]) -> Self {
        let mut sum = Self { formulas: Vec::new(), searches: Vec::new() };
        for part in parts {
            match part {
                Supply::Rest(_) | Supply::Net { .. } | Supply::Sum(_) => sum.searches.push(Search::in_supply(part)),
                formula => sum.formulas.push(formula),
            }
        }
        sum
    }

    fn line(&self) -> Line {
        let formulas = self.formulas.iter().map(|supply| supply.line());
        formulas.chain(self.searches.iter().map(Search::line_above)).fold(Line::NOTHING, Line::plus)
    }

    /// The least time from `from` on, before which it is known not to be, by which an amount is given; any time above the limit if it
    /// is not given by then.
    fn least(&self, amount: u64, from: u64, limit: u64, steps: &Steps) -> Option<u64> {
        let suffices = |time: u64| self.gives(amount, time, steps);
        let from = earliest(self.line(), amount, &[], from)?;
        if from > limit || suffices(from) {
            return Some(from);
        }
        let (mut low, mut step) = (from, 1u64);
        let mut high = loop {
            if steps.is_used_up() {
                return None;
            }
            let next = low.saturating_add(step);
            if suffices(next.min(limit)) {
                break next.min(limit);
            }
            if next >= limit {
                return Some(limit.saturating_add(1));
            }
            low = next;
            step = step.saturating_mul(2);
        };
        while high.saturating_sub(low) > 1 {
            let middle = low + (high - low) / 2;
            if suffices(middle) {
                high = middle;
            } else {
                low = middle;
            }
        }
        (!steps.is_used_up()).then_some(high)
    }

    fn gives(&self, amount: u64, time: u64, steps: &Steps) -> bool {
        if !steps.take(self.formulas.len()) {
            return false;
        }
        let mut missing = self.formulas.iter().fold(amount, |rest, supply| rest.saturating_sub(supply.formula(time)));
        for (number, search) in self.searches.iter().enumerate() {
            if missing == 0 {
                return true;
            }
            if number.saturating_add(1) == self.searches.len() {
                return search.least(missing, time, steps).is_some();
            }
            missing = missing.saturating_sub(search.most(time, steps));
        }
        missing == 0
    }
}
