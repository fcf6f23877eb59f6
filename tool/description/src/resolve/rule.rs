//! Budget rules of servers: which keys go with which rule, and their ranges.

use super::Resolver;
use super::partition::{is_trusted, span};
use crate::code::Code;
use crate::decode::Located;
use crate::description::Partition;
use crate::diagnostic::Diagnostic;
use crate::sharing::{Anchor, Rule, Server, parse_share};
use crate::source::Span;
use crate::unit::format_duration;
use bulkhead_plan::model::{self, BudgetRule};
use bulkhead_plan::sharing::{MAX_CHUNKS, MAX_PERIOD_TICKS};
use bulkhead_plan::ticks;
use bulkhead_words::{Parameter, Word as _};

/// Smallest remainder when the description does not say and the budget is at least twice as large.
const DEFAULT_MINIMUM_NS: u64 = 20_000;
/// Chunks when the description does not say (`real-time.md` 5.5).
const DEFAULT_CHUNKS: u32 = 8;
/// The same behind an interrupt gate.
const DEFAULT_GATED_CHUNKS: u32 = 4;

/// Smallest remainder for a budget or grant when the description does not say.
pub(super) fn default_minimum_ns(budget_ns: u64) -> u64 {
    if budget_ns >= 2 * DEFAULT_MINIMUM_NS { DEFAULT_MINIMUM_NS } else { budget_ns / 2 }
}

/// Where a parameter of the rule is written.
fn written(server: &Server, parameter: Parameter) -> Option<Span> {
    match parameter {
        Parameter::Budget => span(&server.budget),
        Parameter::Period => span(&server.period),
        Parameter::Anchor => span(&server.anchor),
        Parameter::Chunks => span(&server.chunks),
        Parameter::Clamp => span(&server.clamp),
        Parameter::Minimum => span(&server.minimum),
        Parameter::Share => span(&server.share),
        Parameter::Clients => span(&server.clients),
        Parameter::Published => span(&server.published),
        Parameter::LeastCharge => span(&server.least_charge),
        Parameter::OnEmpty => span(&server.on_empty),
    }
}

impl Resolver<'_> {
    /// Resolves the rule of a server and its least charge; the clients of a PIBS server and what depends on them follow later.
    pub(super) fn rule(
        &mut self,
        partition: &Partition,
        server: &Located<Server>,
        gate: model::Gate,
    ) -> Option<(BudgetRule, u64)> {
        let default = if server.budget.is_some() { Rule::Sporadic } else { Rule::Unlimited };
        let rule = server.rule.as_ref().map_or(default, |rule| rule.value);
        self.keys_of_rule(server, rule);
        match rule {
            Rule::Unlimited => Some((BudgetRule::Unlimited, 0)),
            Rule::Sporadic => self.sporadic(partition, server, gate),
            Rule::Deferrable => {
                let (budget_ns, period_ns) = self.budget(server)?;
                let least_charge_ns = self.least_charge(server, budget_ns, "the budget")?;
                Some((BudgetRule::Deferrable { budget_ns, period_ns }, least_charge_ns))
            }
            Rule::Polling => {
                let (budget_ns, period_ns) = self.budget(server)?;
                let least_charge_ns = self.least_charge(server, budget_ns, "the budget")?;
                Some((BudgetRule::Polling { budget_ns, period_ns }, least_charge_ns))
            }
            Rule::Pibs => self.pibs(server).map(|rule| (rule, 0)),
        }
    }

    /// Reports keys that another rule has.
    fn keys_of_rule(&mut self, server: &Server, rule: Rule) {
        let beside = match &server.payer {
            Some(_) => String::from("`payer`, who has the budget"),
            None => format!("`rule = \"{}\"`", rule.name()),
        };
        if server.payer.is_some() && rule != Rule::Unlimited {
            self.does_not_apply(span(&server.rule), "rule", &beside);
        }
        for parameter in Parameter::ALL {
            let applies = match parameter {
                Parameter::Budget | Parameter::Period => rule.has(*parameter) && server.payer.is_none(),
                Parameter::OnEmpty => rule.has(*parameter) || server.payer.is_some(),
                _ => rule.has(*parameter),
            };
            if !applies {
                self.does_not_apply(written(server, *parameter), parameter.name(), &beside);
            }
        }
    }

    /// Reads budget and period.
    fn budget(&mut self, server: &Located<Server>) -> Option<(u64, u64)> {
        let budget = self.needed(&server.budget, "budget", server.span, "its rule");
        let period = self.needed(&server.period, "period", server.span, "a budget");
        let (budget, period) = (budget?, period?);
        let (budget_ns, period_ns) = (self.duration(budget), self.duration(period));
        let (budget_ns, period_ns) = (budget_ns?, period_ns?);
        let hz = self.board.board.counter_hz;
        let mut refuse = |message: String, label: &str, place| {
            self.push(Diagnostic::new(Code::BadBudget, message).at(place, label));
            None
        };
        if ticks::round_up(period_ns, hz) > MAX_PERIOD_TICKS {
            let message = format!("a period of {} is too long", format_duration(period_ns));
            return refuse(message, "expected less than 2 to the 56 ticks of the counter", period.span);
        }
        if ticks::round_down(budget_ns, hz) == 0 {
            let message = format!("a budget of {} is nothing", format_duration(budget_ns));
            return refuse(message, "expected at least one tick of the counter", budget.span);
        }
        if budget_ns > period_ns {
            let message = format!(
                "a budget of {} does not fit into a period of {}",
                format_duration(budget_ns),
                format_duration(period_ns)
            );
            self.push(
                Diagnostic::new(Code::BadBudget, message).at(budget.span, "longer than").at(period.span, "the period"),
            );
            return None;
        }
        Some((budget_ns, period_ns))
    }

    fn sporadic(
        &mut self,
        partition: &Partition,
        server: &Located<Server>,
        gate: model::Gate,
    ) -> Option<(BudgetRule, u64)> {
        let is_gated = matches!(gate, model::Gate::Interrupt { .. });
        let default_chunks = if is_gated { DEFAULT_GATED_CHUNKS } else { DEFAULT_CHUNKS };
        let chunks = match &server.chunks {
            None => Some(default_chunks),
            Some(written) => {
                let chunks = u32::try_from(written.value).ok().filter(|chunks| (2..=MAX_CHUNKS).contains(chunks));
                if chunks.is_none() {
                    let message = format!("a sporadic server cannot have {} chunks", written.value);
                    let diagnostic = Diagnostic::new(Code::BadChunks, message);
                    self.push(diagnostic.at(written.span, format!("expected 2 to {MAX_CHUNKS}")));
                }
                chunks
            }
        };
        let (budget_ns, period_ns) = self.budget(server)?;
        let (minimum_ns, least_charge_ns) = self.minimum(server, budget_ns, "the budget")?;
        let is_cap = !is_trusted(partition) || is_gated;
        let rule = BudgetRule::Sporadic {
            budget_ns,
            period_ns,
            minimum_ns,
            chunks: chunks?,
            dispatch_anchor: server.anchor.as_ref().map_or(is_cap, |anchor| anchor.value == Anchor::Dispatch),
            lag_clamp: server.clamp.as_ref().is_none_or(|state| state.value),
        };
        Some((rule, least_charge_ns))
    }

    /// Reads the smallest remainder, which must be worth something and fit into `limit_ns`, and the least charge, which must fit
    /// into the remainder: else a guest that never sleeps would be charged more than it runs.
    pub(super) fn minimum(&mut self, server: &Server, limit_ns: u64, what: &str) -> Option<(u64, u64)> {
        let Some(written) = &server.minimum else {
            let least_charge_ns = self.least_charge(server, limit_ns, what)?;
            // A budget of a few nanoseconds has no half; one tick is then the least.
            return Some((default_minimum_ns(limit_ns).max(least_charge_ns).max(1), least_charge_ns));
        };
        let minimum_ns = self.duration(written)?;
        if minimum_ns == 0 || minimum_ns > limit_ns {
            let message = format!("a smallest remainder of {} cannot be", format_duration(minimum_ns));
            let label = format!("expected more than 0 and at most {what}, {}", format_duration(limit_ns));
            self.push(Diagnostic::new(Code::BadMinimum, message).at(written.span, label));
            return None;
        }
        let least_charge_ns = self.least_charge(server, minimum_ns, "the smallest remainder")?;
        Some((minimum_ns, least_charge_ns))
    }

    /// Reads the least charge, which fits into `limit_ns`.
    fn least_charge(&mut self, server: &Server, limit_ns: u64, what: &str) -> Option<u64> {
        let Some(written) = &server.least_charge else { return Some(0) };
        let least_charge_ns = self.duration(written)?;
        if least_charge_ns > limit_ns {
            let message = format!("a least charge of {} cannot be", format_duration(least_charge_ns));
            let label = format!("expected at most {what}, {}", format_duration(limit_ns));
            self.push(Diagnostic::new(Code::BadMinimum, message).at(written.span, label));
            return None;
        }
        Some(least_charge_ns)
    }

    fn pibs(&mut self, server: &Located<Server>) -> Option<BudgetRule> {
        if let Some(payer) = &server.payer {
            self.does_not_apply(Some(payer.span), "payer", "`rule = \"pibs\"`, which has a share of its own");
        }
        let share = self.needed(&server.share, "share", server.span, "`rule = \"pibs\"`");
        let clients = self.needed(&server.clients, "clients", server.span, "`rule = \"pibs\"`");
        let (share, clients) = (share?, clients?);
        if clients.is_empty() {
            let message = "a PIBS server without clients has no work and no priority";
            self.push(Diagnostic::new(Code::BadClient, message).at(clients.span, "expected 1 to 4"));
            return None;
        }
        match parse_share(&share.value.0) {
            Ok(share) => Some(BudgetRule::Pibs {
                share,
                minimum_ns: 0,
                clients: Vec::new(),
                published: server.published.as_ref().is_some_and(|state| state.value),
            }),
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
}
