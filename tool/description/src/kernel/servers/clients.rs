//! Servers that work for others: which clients they can have (`real-time.md` 2.3; QV-32, QV-33).

use super::Line;
use super::read::MINIMUM_NS;
use crate::code::Code;
use crate::decode::Located;
use crate::diagnostic::Diagnostic;
use crate::kernel::file::KernelServer;
use crate::kernel::resolve::Resolver;
use crate::source::Span;
use crate::suggest;
use crate::unit::format_duration;
use bulkhead_analysis::core_model::Rule;
use bulkhead_plan::ticks;

/// Most clients of one server.
const MAX_CLIENTS: usize = 8;

impl Resolver<'_> {
    /// Checks the clients of those that work for others, and puts them into the order of their periods. `lines` are all others, the most important first.
    pub(super) fn clients(&mut self, io: Vec<Line>, lines: &[Line]) -> Option<Vec<Line>> {
        let (before, mut found) = (io.len(), Vec::new());
        for mut one in io {
            let Some(written) = self.file.server.iter().find(|server| server.name.value == one.name) else { continue };
            let Some(clients) = self.clients_of(written, lines) else { continue };
            one.clients = clients.iter().map(|(_, line)| line.name.clone()).collect();
            if self.has_a_grant(written, &one.rule, &clients) {
                found.push(one);
            }
        }
        (found.len() == before).then_some(found)
    }

    /// The clients of a server with their places, the shortest period first.
    fn clients_of<'l>(&mut self, server: &Located<KernelServer>, lines: &'l [Line]) -> Option<Vec<(Span, &'l Line)>> {
        let mut clients: Vec<(Span, &Line)> = Vec::new();
        let mut is_good = !server.clients.is_empty();
        for client in &server.clients {
            match self.client(client, lines) {
                Some(line) => clients.push((client.span, line)),
                None => is_good = false,
            }
        }
        if let Some(extra) = server.clients.get(MAX_CLIENTS) {
            let message = format!("server `{}` has {} clients", server.name.value, server.clients.len());
            let label = format!("the first one too many; at most {MAX_CLIENTS}");
            self.push(Diagnostic::new(Code::BadClient, message).at(extra.span, label));
            return None;
        }
        let period = |line: &Line| line.rule.budget().unwrap_or_default().1;
        clients.sort_by_key(|(_, line)| period(line));
        for pair in clients.windows(2) {
            let [(first, one), (second, other)] = pair else { continue };
            let place = |line: &Line| lines.iter().position(|known| known.name == line.name);
            let problem = match () {
                () if one.name == other.name => format!("`{}` is a client twice", one.name),
                () if period(one) == period(other) => {
                    format!("clients `{}` and `{}` have the same period", one.name, other.name)
                }
                () if place(one) > place(other) => {
                    format!("client `{}` has a shorter period than `{}`, and comes behind it", one.name, other.name)
                }
                () => continue,
            };
            let diagnostic = Diagnostic::new(Code::BadClient, problem).at(*second, "").at(*first, "");
            self.push(diagnostic.note("work is done in the order of its clients' periods, so each has one of its own").help(
                "let one of them have another period, or work for one of them alone: requests of others are then charged to it",
            ));
            is_good = false;
        }
        is_good.then_some(clients)
    }

    /// A server that can be a client: it has a budget of its own.
    fn client<'l>(&mut self, client: &Located<String>, lines: &'l [Line]) -> Option<&'l Line> {
        let known: Vec<&str> = self.file.server.iter().map(|server| server.name.as_str()).collect();
        if !known.contains(&client.as_str()) {
            let diagnostic = Diagnostic::new(Code::UnknownServer, format!("there is no server `{}`", client.value))
                .at(client.span, "would never be a client");
            self.push(match suggest::closest(client, known.iter().copied()) {
                Some(meant) => {
                    diagnostic.suggest(client.span, format!("\"{meant}\""), format!("did you mean `{meant}`?"))
                }
                None => diagnostic.help(format!("there are {}", suggest::list(&known))),
            });
            return None;
        }
        let line = lines.iter().find(|line| line.name == client.value && line.slots.is_none());
        let has_budget = line.filter(|line| line.rule.budget().is_some());
        // One that could not be read was reported.
        let is_read = line.is_some() || self.is_io(client);
        if has_budget.is_none() && is_read {
            let message = format!("server `{}` cannot be a client: it has no period of its own", client.value);
            let diagnostic = Diagnostic::new(Code::BadClient, message).at(client.span, "how urgent is its work?");
            self.push(diagnostic.help("a client has a budget and a period, and works for itself"));
        }
        has_budget
    }

    fn is_io(&self, name: &str) -> bool {
        let found = self.file.server.iter().find(|server| server.name.value == name);
        found.is_some_and(|server| {
            server.kind.as_ref().is_some_and(|kind| kind.value == super::super::file::ServerKind::Io)
        })
    }

    /// A grant is the share of the shortest period, and pays for the switches around it at least.
    fn has_a_grant(&mut self, server: &KernelServer, rule: &Rule, clients: &[(Span, &Line)]) -> bool {
        let (Some(pibs), Some((place, shortest))) = (rule.pibs(), clients.first()) else { return false };
        let period_ticks = shortest.rule.budget().unwrap_or_default().1;
        let grant = u128::from(period_ticks) * u128::from(pibs.numerator) / u128::from(pibs.denominator.max(1));
        let (grant_ticks, hz) = (u64::try_from(grant).unwrap_or(u64::MAX), self.around.counter_hz);
        let is_enough = grant_ticks >= super::at_least(MINIMUM_NS, hz).max(1);
        if !is_enough {
            let message = format!(
                "server `{}` has {} at a time, and less than {} is not worth a switch",
                server.name.value,
                format_duration(ticks::to_ns(grant_ticks, hz)),
                format_duration(MINIMUM_NS)
            );
            let share = server.share.as_ref().map_or(server.name.span, |share| share.span);
            let diagnostic =
                Diagnostic::new(Code::GrantTooSmall, message).at(share, "of the shortest period of its clients");
            self.push(
                diagnostic
                    .at(*place, "has it")
                    .help("make the share larger, or serve clients with longer periods alone"),
            );
        }
        is_enough
    }
}
