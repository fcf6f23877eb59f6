//! Bands: reserves for servers that components make at run time. The analysis counts each as one server with the band's budget and its shortest period
//! (`kernel.md` 3; QV-20, QV-37).

use super::read::{CHUNKS, MINIMUM_NS, PERIODS_END, QUANTUM_NS};
use super::{Line, at_least};
use crate::code::Code;
use crate::decode::Located;
use crate::diagnostic::Diagnostic;
use crate::kernel::file::{Admission, Band};
use crate::kernel::resolve::Resolver;
use crate::unit::format_duration;
use bulkhead_analysis::core_model::{Pieces, Rule};
use bulkhead_kernel_abi::MAX_SERVERS;
use bulkhead_plan::ticks;
use bulkhead_words::{Parameter, Rule as Word, Word as _};

impl Resolver<'_> {
    /// Reads a band.
    pub(super) fn band(&mut self, band: &Located<Band>) -> Option<Line> {
        let (shortest_ns, longest_ns) = self.periods_of(band)?;
        let budget_ns = self.duration(&band.budget)?;
        let hz = self.around.counter_hz;
        let budget_ticks = ticks::round_down(budget_ns, hz);
        let (period_ticks, longest_ticks) = (ticks::round_up(shortest_ns, hz), ticks::round_up(longest_ns, hz));
        if budget_ticks < 2 || budget_ns > shortest_ns || longest_ticks >= PERIODS_END {
            let message = format!(
                "a budget of {} for all servers of band `{}` cannot be",
                format_duration(budget_ns),
                band.name.value
            );
            let label = "expected two ticks of the counter at least, and no more than the shortest period";
            self.push(Diagnostic::new(Code::BadBudget, message).at(band.budget.span, label));
            return None;
        }
        let slots =
            u16::try_from(band.servers.value).ok().filter(|slots| (1..=MAX_SERVERS).contains(&usize::from(*slots)));
        let Some(slots) = slots else {
            let message = format!("a band cannot have {} servers", band.servers.value);
            let label = format!("expected 1 to {MAX_SERVERS}, and no more than the instance has left");
            self.push(Diagnostic::new(Code::TooManyObjects, message).at(band.servers.span, label));
            return None;
        };
        let smallest_ticks = at_least(MINIMUM_NS.min(budget_ns / 2), hz).max(1);
        self.admission_of(band);
        // Servers of a band come back in pieces, as usual, and are caps: who makes them is trusted with no more than the band.
        let word = Word::ALL.iter().find(|rule| rule.has(Parameter::Chunks)).copied()?;
        let pieces = Pieces { dispatch_anchor: true, lag_clamp: false, chunks: CHUNKS, minimum_ticks: smallest_ticks };
        let rule = Rule::budgeted(word, budget_ticks, period_ticks, pieces)?;
        Some(Line {
            name: band.name.value.clone(),
            span: band.budget.span,
            rule,
            word,
            has_background: false,
            quantum_ticks: ticks::round_up(QUANTUM_NS, hz),
            smallest_ticks,
            priority: band.priority.as_ref().map(|priority| priority.value),
            clients: Vec::new(),
            slots: Some(slots),
            longest_ticks,
            has_published_test: band.admission.as_ref().is_some_and(|one| one.value == Admission::EquationOne),
            holder: None,
            level: 0,
            number: 0,
        })
    }

    /// The shortest and the longest period.
    fn periods_of(&mut self, band: &Band) -> Option<(u64, u64)> {
        let periods: Vec<Option<u64>> = band.periods.value.iter().map(|period| self.duration(period)).collect();
        let [shortest, longest] = periods.as_slice() else {
            let message = format!("band `{}` has {} periods", band.name.value, periods.len());
            let label = "expected two: the shortest and the longest";
            self.push(Diagnostic::new(Code::BadBand, message).at(band.periods.span, label));
            return None;
        };
        let (shortest, longest) = ((*shortest)?, (*longest)?);
        if shortest > longest {
            let message = format!("the periods of band `{}` are reversed", band.name.value);
            let text: Vec<&str> = band.periods.value.iter().map(|period| period.value.0.as_str()).collect();
            let replacement = format!("[\"{}\", \"{}\"]", text.get(1).unwrap_or(&""), text.first().unwrap_or(&""));
            let diagnostic = Diagnostic::new(Code::BadBand, message).at(band.periods.span, "the shortest one first");
            self.push(diagnostic.suggest(band.periods.span, replacement, "the other way round"));
            return None;
        }
        Some((shortest, longest))
    }

    /// Where the published test decides as well, servers are in the order of their periods, which it is about.
    fn admission_of(&mut self, band: &Band) {
        let Some(admission) = band.admission.as_ref().filter(|one| one.value == Admission::EquationOne) else { return };
        if let Some(priority) = self.file.server.iter().find_map(|server| server.priority.as_ref()) {
            let message =
                format!("band `{}` asks for a test that holds in the order of periods alone", band.name.value);
            let diagnostic =
                Diagnostic::new(Code::EquationOrder, message).at(admission.span, "is about the shortest period first");
            self.push(diagnostic.at(priority.span, "here priorities decide").help(
                "remove the priorities, or `admission`: the band's own rule holds in any order, and is exact for what `check` computes",
            ));
        }
    }
}
