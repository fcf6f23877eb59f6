//! Servers: in which order they come, their numbers for the kernel, and whether each gets its budget in time (`kernel.md` 3; QV-21, QV-22, QV-38).
//!
//! Shorter periods come first, equal ones by their place in the file, servers without a limit last. So a server can be late only for those before it, and the
//! largest response to a budget is the fixed point of the usual equation.

use super::file::{KernelServer, ServerKind};
use super::resolve::Resolver;
use crate::code::Code;
use crate::decode::Located;
use crate::diagnostic::Diagnostic;
use crate::unit::format_duration;
use bulkhead_kernel_abi::NONE;
use bulkhead_kernel_abi::boot::ServerRow;
use bulkhead_plan::ticks;
use bulkhead_words::{OnEmpty, Parameter, Rule, ServerFlag, Word as _};

/// How long a turn is when the description does not say.
const QUANTUM_NS: u64 = 1_000_000;
/// Smallest remainder of a budget that is worth a switch; of a small budget half of it.
const MINIMUM_NS: u64 = 20_000;
/// Pieces of a budget that are dated apart.
const CHUNKS: u16 = 8;
/// No level without budget.
const NO_BACKGROUND: u8 = 255;
/// What is added to a level for work without budget.
const BACKGROUND: u8 = 64;
/// Most rounds until the equation stops: then the server is late.
const MOST_ROUNDS: usize = 10_000;

/// A server that was read.
#[derive(Clone, Debug)]
struct Resolved {
    name: String,
    rule: Rule,
    /// Budget and period; none without a limit.
    time_ns: Option<(u64, u64)>,
    has_background: bool,
    quantum_ns: u64,
}

/// The servers of an instance, the most important one first.
#[derive(Clone, Debug, Default)]
pub(super) struct Servers(Vec<Resolved>);

impl Servers {
    /// The number of a server.
    pub(super) fn number(&self, name: &str) -> Option<u16> {
        let place = self.0.iter().position(|server| server.name == name)?;
        u16::try_from(place).ok()
    }

    /// Their rows.
    pub(super) fn rows(&self, counter_hz: u64) -> Vec<ServerRow> {
        let row = |(level, server): (u8, &Resolved)| {
            let (budget_ns, period_ns) = server.time_ns.unwrap_or_default();
            let is_dated = server.rule.has(Parameter::Anchor);
            let minimum_ns = MINIMUM_NS.min(budget_ns / 2);
            let flags = [ServerFlag::DispatchAnchor, ServerFlag::LagClamp].map(ServerFlag::number);
            ServerRow {
                rule: server.rule.number(),
                flags: if is_dated { flags.iter().sum() } else { 0 },
                budget_ticks: ticks::round_down(budget_ns, counter_hz),
                period_ticks: ticks::round_up(period_ns, counter_hz),
                smallest_chunk_ticks: if is_dated { ticks::round_up(minimum_ns, counter_hz).max(1) } else { 0 },
                quantum_ticks: ticks::round_up(server.quantum_ns, counter_hz),
                chunks: if is_dated { CHUNKS } else { 0 },
                level,
                background: if server.has_background { BACKGROUND + level } else { NO_BACKGROUND },
                holder: NONE,
                band: NONE,
                ..ServerRow::default()
            }
        };
        (0..).zip(&self.0).map(row).collect()
    }
}

impl Resolver<'_> {
    /// Reads the servers, puts them into their order, and checks that each gets its budget.
    pub(super) fn servers(&mut self) -> Servers {
        let file = self.file;
        let names: Vec<&str> = file.server.iter().map(|server| server.name.as_str()).collect();
        let mut servers = Vec::new();
        for server in &file.server {
            for client in &server.clients {
                self.client(client, &names);
            }
            self.servers_later(server);
            servers.extend(self.server(server).map(|resolved| (resolved, server)));
        }
        // Stable: equal periods stay in the order of the file.
        servers.sort_by_key(|(server, _)| server.time_ns.map_or(u64::MAX, |(_, period_ns)| period_ns));
        let times: Vec<(u64, u64)> = servers.iter().filter_map(|(server, _)| server.time_ns).collect();
        for (place, (server, written)) in servers.iter().enumerate() {
            let (Some((_, period_ns)), Some(before)) = (server.time_ns, times.get(..=place)) else { continue };
            if response_ns(before).is_none_or(|response_ns| response_ns > period_ns) {
                let message = format!("server `{}` does not get its budget in each period", server.name);
                let place = written.budget.as_ref().map_or(written.span, |budget| budget.span);
                let diagnostic = Diagnostic::new(Code::InstanceLate, message)
                    .at(place, format!("is due within {}", format_duration(period_ns)))
                    .note("servers with shorter periods come first, and what they can take leaves too little");
                self.push(diagnostic.help("make a budget smaller, or a period longer"));
            }
        }
        Servers(servers.into_iter().map(|(server, _)| server).collect())
    }

    fn server(&mut self, server: &Located<KernelServer>) -> Option<Resolved> {
        // The first rule of all that has a budget, or the one that has nothing.
        let is_default = |rule: &&Rule| rule.has(Parameter::Budget) == server.budget.is_some();
        let default = Rule::ALL.iter().find(is_default).copied()?;
        let rule = server.rule.as_ref().map_or(default, |rule| rule.value);
        if rule.serves_clients() || server.kind.as_ref().is_some_and(|kind| kind.value == ServerKind::Io) {
            return None;
        }
        let quantum_ns = server.quantum.as_ref().map_or(Some(QUANTUM_NS), |quantum| self.duration(quantum))?;
        let on_empty = server.on_empty.as_ref();
        let resolved = |time_ns: Option<(u64, u64)>| Resolved {
            name: server.name.value.clone(),
            rule,
            time_ns,
            has_background: time_ns.is_some() && on_empty.is_none_or(|word| word.value == OnEmpty::Background),
            quantum_ns,
        };
        if !rule.has(Parameter::Budget) {
            let others = [server.budget.as_ref(), server.period.as_ref()].into_iter().flatten().map(|one| one.span);
            for span in others.chain(on_empty.map(|one| one.span)) {
                let message = format!("a server by the rule `{}` has no budget", rule.name());
                self.push(Diagnostic::new(Code::KeyDoesNotApply, message).at(span, "remove it"));
            }
            return Some(resolved(None));
        }
        let (Some(budget), Some(period)) = (&server.budget, &server.period) else {
            let message = format!("a server by the rule `{}` needs a budget and a period", rule.name());
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
        let is_possible = ticks::round_down(budget_ns, hz) > 1 && budget_ns <= period_ns;
        if !is_possible || ticks::round_up(period_ns, hz) >= 1 << 56 {
            let (own, whole) = (format_duration(budget_ns), format_duration(period_ns));
            let message = format!("a budget of {own} in each {whole} cannot be");
            let label = "expected two ticks of the counter at least, and no more than the period";
            self.push(Diagnostic::new(Code::BadBudget, message).at(budget.span, label).at(period.span, ""));
            return None;
        }
        Some(resolved(Some((budget_ns, period_ns))))
    }
}

/// The longest time until the last of these servers has had its budget, all of them beginning at once; `None` if it has no end that was found.
fn response_ns(servers: &[(u64, u64)]) -> Option<u64> {
    let (&(own_ns, period_ns), before) = servers.split_last()?;
    let mut response_ns = own_ns;
    for _ in 0..MOST_ROUNDS {
        let others =
            before.iter().map(|(budget_ns, period_ns)| response_ns.div_ceil(*period_ns).saturating_mul(*budget_ns));
        let next_ns = others.fold(own_ns, u64::saturating_add);
        if next_ns == response_ns || next_ns > period_ns {
            return Some(next_ns);
        }
        response_ns = next_ns;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::response_ns;

    /// QV-38: the exact test, with a set that its sufficient bound refuses (three servers of a third each, harmonic).
    #[test]
    fn responses_are_exact() {
        assert_eq!(response_ns(&[(2, 10)]), Some(2));
        assert_eq!(response_ns(&[(1, 3), (2, 6), (4, 12)]), Some(12));
        assert_eq!(response_ns(&[(2, 5), (4, 7)]), Some(8), "beyond its period");
        assert_eq!(response_ns(&[]), None);
    }
}
