//! A server as it is written, by the keys that its rule has.

use super::{Line, at_least};
use crate::code::Code;
use crate::decode::Located;
use crate::description::Trust;
use crate::diagnostic::Diagnostic;
use crate::kernel::file::{Component, KernelServer, ServerKind, Thread};
use crate::kernel::resolve::Resolver;
use crate::sharing::parse_share;
use crate::source::Span;
use crate::unit::format_duration;
use bulkhead_analysis::core_model::{Pieces, Rule};
use bulkhead_plan::ticks;
use bulkhead_words::{Anchor, OnEmpty, Parameter, Rule as Word, Word as _};

/// How long a turn is when the description does not say.
pub(super) const QUANTUM_NS: u64 = 1_000_000;
/// Smallest remainder of a budget that is worth a switch; of a small budget half of it.
pub(super) const MINIMUM_NS: u64 = 20_000;
/// Pieces of a budget that are dated apart.
pub(super) const CHUNKS: u32 = 8;
/// Periods are shorter, in ticks.
pub(super) const PERIODS_END: u64 = 1 << 56;

impl Resolver<'_> {
    /// Reads a server.
    pub(super) fn server(&mut self, server: &Located<KernelServer>) -> Option<Line> {
        let word = self.rule_of(server)?;
        self.keys_of(server, word);
        let quantum_ns = server.quantum.as_ref().map_or(Some(QUANTUM_NS), |quantum| self.duration(quantum))?;
        let rule = match word {
            word if word.serves_clients() => self.share_of(server)?,
            word if word.has(Parameter::Budget) => self.budget_of(server, word)?,
            _ => Rule::Unlimited,
        };
        let hz = self.around.counter_hz;
        let is_io = word.serves_clients();
        let runs_on = |word: OnEmpty| word == OnEmpty::Background;
        let has_background =
            word.has(Parameter::OnEmpty) && server.on_empty.as_ref().map_or(!is_io, |on_empty| runs_on(on_empty.value));
        Some(Line {
            name: server.name.value.clone(),
            span: server.budget.as_ref().map_or(server.span, |budget| budget.span),
            smallest_ticks: match rule.pibs() {
                Some(_) => at_least(MINIMUM_NS, hz).max(1),
                None => rule.smallest_chunk_ticks().unwrap_or(0),
            },
            rule,
            word,
            has_background,
            quantum_ticks: ticks::round_up(quantum_ns, hz),
            priority: server.priority.as_ref().map(|priority| priority.value),
            clients: server.clients.iter().map(|client| client.value.clone()).collect(),
            slots: None,
            longest_ticks: 0,
            has_published_test: false,
            holder: self.holder_of(&server.name),
            level: 0,
            number: 0,
        })
    }

    /// The rule that is written, or that its other keys mean.
    fn rule_of(&mut self, server: &KernelServer) -> Option<Word> {
        let is_io = server.kind.as_ref().is_some_and(|kind| kind.value == ServerKind::Io);
        // The first rule of all that has a budget, or has none, or works for others.
        let has = |rule: &&Word| rule.has(Parameter::Budget) == server.budget.is_some();
        let is_usual = |rule: &&Word| rule.serves_clients() == is_io && (is_io || has(rule));
        let usual = Word::ALL.iter().find(is_usual).copied()?;
        let Some(rule) = &server.rule else { return Some(usual) };
        if rule.value.serves_clients() != is_io {
            let message = match is_io {
                true => "a server that works for others has the rule `pibs`".to_owned(),
                false => format!("the rule `{}` is that of servers which work for others", rule.value.name()),
            };
            let diagnostic = Diagnostic::new(Code::KeyDoesNotApply, message).at(rule.span, "remove it");
            self.push(diagnostic.help("`kind = \"io\"` makes a server that works for others"));
            return None;
        }
        Some(rule.value)
    }

    /// Reports keys that another rule has.
    fn keys_of(&mut self, server: &KernelServer, rule: Word) {
        let written: [(Parameter, Option<Span>); 6] = [
            (Parameter::Budget, server.budget.as_ref().map(|one| one.span)),
            (Parameter::Period, server.period.as_ref().map(|one| one.span)),
            (Parameter::Anchor, server.anchor.as_ref().map(|one| one.span)),
            (Parameter::Share, server.share.as_ref().map(|one| one.span)),
            (Parameter::Clients, server.clients.first().map(|one| one.span)),
            (Parameter::OnEmpty, server.on_empty.as_ref().map(|one| one.span)),
        ];
        for (parameter, span) in written {
            if let Some(span) = span.filter(|_| !rule.has(parameter)) {
                let message = format!("a server by the rule `{}` has no `{}`", rule.name(), parameter.name());
                self.push(Diagnostic::new(Code::KeyDoesNotApply, message).at(span, "remove it"));
            }
        }
        if let (Some(quantum), Some(holder)) = (&server.quantum, &server.holder) {
            let message = "threads of a server that a scheduler holds take no turns by themselves";
            let diagnostic = Diagnostic::new(Code::KeyDoesNotApply, message).at(quantum.span, "remove it");
            self.push(diagnostic.at(holder.span, "says who runs"));
        }
        if let Some(priority) = server.priority.as_ref().filter(|_| rule.serves_clients()) {
            let message = "a server that works for others has the priorities of its clients";
            self.push(Diagnostic::new(Code::KeyDoesNotApply, message).at(priority.span, "remove it"));
        }
    }

    /// Budget and period.
    fn budget_of(&mut self, server: &Located<KernelServer>, word: Word) -> Option<Rule> {
        let (Some(budget), Some(period)) = (&server.budget, &server.period) else {
            let message = format!("a server by the rule `{}` needs a budget and a period", word.name());
            self.push(
                Diagnostic::new(Code::KeyNeeded, message)
                    .at(server.span, "one of them is missing")
                    .help("for example `budget = \"2 ms\", period = \"10 ms\"`"),
            );
            return None;
        };
        let (budget_ns, period_ns) = (self.duration(budget), self.duration(period));
        let (budget_ns, period_ns) = (budget_ns?, period_ns?);
        let hz = self.around.counter_hz;
        let (budget_ticks, period_ticks) = (ticks::round_down(budget_ns, hz), ticks::round_up(period_ns, hz));
        if budget_ticks < 2 || budget_ns > period_ns || period_ticks >= PERIODS_END {
            let (own, whole) = (format_duration(budget_ns), format_duration(period_ns));
            let message = format!("a budget of {own} in each {whole} cannot be");
            let label = "expected two ticks of the counter at least, and no more than the period";
            self.push(Diagnostic::new(Code::BadBudget, message).at(budget.span, label).at(period.span, ""));
            return None;
        }
        let is_cap = self.is_cap(&server.name);
        let pieces = Pieces {
            dispatch_anchor: server.anchor.as_ref().map_or(is_cap, |anchor| anchor.value == Anchor::Dispatch),
            lag_clamp: true,
            chunks: CHUNKS,
            minimum_ticks: at_least(MINIMUM_NS.min(budget_ns / 2), hz).max(1),
        };
        Rule::budgeted(word, budget_ticks, period_ticks, pieces)
    }

    /// The share of a server that works for others.
    fn share_of(&mut self, server: &Located<KernelServer>) -> Option<Rule> {
        if server.share.is_none() || server.clients.is_empty() {
            let message = "a server that works for others needs a share of the core, and clients";
            let diagnostic = Diagnostic::new(Code::KeyNeeded, message).at(server.span, "one of them is missing");
            self.push(diagnostic.help("for example `share = \"4 %\", clients = [\"control\"]`"));
        }
        let share = server.share.as_ref()?;
        match parse_share(&share.value.0) {
            Ok((numerator, denominator)) => Some(Rule::share(numerator, denominator)),
            Err(bad) => {
                let mut diagnostic = Diagnostic::new(Code::BadShare, bad.problem).at(share.span, "");
                if let Some(replacement) = bad.replacement {
                    diagnostic = diagnostic.suggest(share.span, format!("\"{replacement}\""), "perhaps you meant");
                }
                self.push(diagnostic);
                None
            }
        }
    }

    /// States whether others are to be protected from what runs on a server: somebody untrusted, or somebody whom a device wakes (`real-time.md` 5.5).
    fn is_cap(&self, server: &str) -> bool {
        // A budget that is handed on may be kept for later, and is bounded by when it is used.
        if self.holder_of(server).is_some() {
            return true;
        }
        let runs = |thread: &Thread| thread.server.as_ref().is_some_and(|name| name.value == server);
        let takes_interrupts = |component: &Component, thread: &Thread| {
            let own = component.end_points.iter().filter(|one| one.thread.value == thread.name.value);
            let mut signals = own.flat_map(|one| &one.signals.value);
            signals.any(|signal| component.interrupts.iter().any(|one| one.signal.value == signal.value))
        };
        self.file.component.iter().any(|component| {
            let is_trusted = component.trust.as_ref().is_some_and(|trust| trust.value == Trust::Trusted);
            let mut threads = component.threads.iter().filter(|thread| runs(thread));
            threads.any(|thread| !is_trusted || takes_interrupts(component, thread))
        })
    }
}
