//! The payload's tasks that run the world below: budgets and windows.

use crate::code::Code;
use crate::decode::{Duration, Located};
use crate::diagnostic::Diagnostic;
use crate::resolve::Resolver;
use crate::resolve::partition::span;
use crate::secure::{Secure, WorldServer, WorldWindow};
use crate::source::Span;
use crate::unit::format_duration;
use bulkhead_abi::schedule::MAX_CORE_WINDOWS;
use bulkhead_plan::model::{self, KERNEL_TICK_NS, WorldBudget};
use bulkhead_world::flash::{MOST_SERVERS, MOST_URGENT};

/// Priority of the server that is there when the description names none: just above the idle task.
const BACKGROUND_PRIORITY: u32 = 1;
/// Shortest budget: below it a server is used up by its own switches.
const LEAST_BUDGET_NS: u64 = 10_000;

/// The server of a world whose description names none.
fn background() -> model::WorldServer {
    model::WorldServer {
        name: String::from("btask"),
        priority: BACKGROUND_PRIORITY,
        budget: None,
        interrupts: Vec::new(),
        voluntary_return: false,
    }
}

impl Resolver<'_> {
    /// The servers, by descending priority.
    pub(super) fn world_servers(&mut self, secure: &Secure, payloads: &[u32]) -> Option<Vec<model::WorldServer>> {
        if let Some(first) = secure.servers.first().filter(|_| secure.non_secure.is_none()) {
            let message = format!("server `{}` has no world to run", first.name.value);
            let diagnostic = Diagnostic::new(Code::KeyDoesNotApply, message).at(first.span, "remove it");
            self.push(diagnostic.help("or add a section `[secure.non_secure]`"));
        }
        if let Some(extra) = secure.servers.get(MOST_SERVERS) {
            let message = format!("{} servers are too many: a world plan holds {MOST_SERVERS}", secure.servers.len());
            self.push(Diagnostic::new(Code::TooManyServers, message).at(extra.span, "the first one too many"));
        }
        let all: Vec<_> = secure.servers.iter().map(|server| self.world_server(server, payloads)).collect();
        let all: Vec<model::WorldServer> = all.into_iter().collect::<Option<_>>()?;
        self.urgent_once(secure, &all)?;
        if all.is_empty() && secure.non_secure.is_some() {
            return Some(vec![background()]);
        }
        Some(all)
    }

    /// An urgent interrupt wakes one server, and there are not too many.
    fn urgent_once(&mut self, secure: &Secure, servers: &[model::WorldServer]) -> Option<()> {
        let mut seen: Vec<(u32, Span)> = Vec::new();
        for (server, written) in servers.iter().zip(&secure.servers) {
            for intid in &server.interrupts {
                if let Some((_, first)) = seen.iter().find(|(other, _)| other == intid) {
                    let message = format!("interrupt {intid} would wake two servers");
                    let diagnostic = Diagnostic::new(Code::InterruptTwice, message).at(written.name.span, "this one");
                    self.push(diagnostic.at(*first, "and this one"));
                    return None;
                }
                seen.push((*intid, written.name.span));
                if seen.len() > MOST_URGENT {
                    let message = format!("more than {MOST_URGENT} urgent interrupts, which a world plan holds");
                    self.push(
                        Diagnostic::new(Code::TooManyInterrupts, message).at(written.name.span, "too many with these"),
                    );
                    return None;
                }
            }
        }
        Some(())
    }

    fn world_server(&mut self, server: &Located<WorldServer>, payloads: &[u32]) -> Option<model::WorldServer> {
        let priority = self.payload_priority(&server.priority);
        let budget = self.world_budget(server);
        let interrupts = self.urgent(server, payloads);
        if server.budget.is_none() && server.interrupts.is_empty() {
            self.does_not_apply(span(&server.voluntary_return), "voluntary_return", "a server that nothing wakes");
        }
        Some(model::WorldServer {
            name: server.name.value.clone(),
            priority: priority?,
            budget: budget?,
            interrupts: interrupts?,
            voluntary_return: server.voluntary_return.as_ref().is_some_and(|state| state.value),
        })
    }

    fn world_budget(&mut self, server: &Located<WorldServer>) -> Option<Option<WorldBudget>> {
        let name = server.name.as_str();
        let (budget, period) = match (&server.budget, &server.period) {
            (None, None) => return Some(None),
            (Some(budget), Some(period)) => (budget, period),
            (Some(budget), None) => {
                let message = format!("server `{name}` has a budget and no period");
                let diagnostic = Diagnostic::new(Code::ServerWithoutPeriod, message)
                    .at(budget.span, "so much, but how often?")
                    .note("a budget without a period never comes back, or is no limit");
                self.push(
                    diagnostic.help("add `period`, or remove `budget`: then it has what nothing more urgent wants"),
                );
                return None;
            }
            (None, Some(period)) => {
                self.does_not_apply(Some(period.span), "period", "a server without `budget`");
                return None;
            }
        };
        let (budget_ns, period_ns) = (self.duration(budget), self.duration(period));
        let (budget_ns, period_ns) = (budget_ns?, period_ns?);
        if budget_ns >= period_ns || budget_ns < LEAST_BUDGET_NS {
            let message =
                format!("a budget of {} in {} is none", format_duration(budget_ns), format_duration(period_ns));
            let label = format!("expected at least {} and less than the period", format_duration(LEAST_BUDGET_NS));
            self.push(Diagnostic::new(Code::BadBudget, message).at(budget.span, label).at(period.span, "the period"));
            return None;
        }
        if !period_ns.is_multiple_of(KERNEL_TICK_NS) {
            let message = format!("{} is no whole number of the payload's ticks", format_duration(period_ns));
            let label = format!("a tick of its kernel is {}", format_duration(KERNEL_TICK_NS));
            self.push(Diagnostic::new(Code::BadBudget, message).at(period.span, label));
            return None;
        }
        Some(Some(WorldBudget { budget_ns, period_ns }))
    }

    /// The table of windows.
    pub(super) fn world_windows(&mut self, secure: &Secure) -> Option<Option<model::WorldWindows>> {
        if secure.windows.is_empty() {
            self.does_not_apply(span(&secure.major_frame), "major_frame", "no `windows`");
            return Some(None);
        }
        if let Some(extra) = secure.windows.get(MAX_CORE_WINDOWS) {
            let message = format!("{} windows are too many: a table holds {MAX_CORE_WINDOWS}", secure.windows.len());
            self.push(Diagnostic::new(Code::WindowCount, message).at(extra.span, "the first one too many"));
            return None;
        }
        let place = secure.windows.first().map_or(secure.memory.span, |window| window.span);
        let major = self.needed(&secure.major_frame, "major_frame", place, "a table of windows")?;
        let major_ns = self.duration(major)?;
        let placed: Vec<_> =
            secure.windows.iter().map(|window| self.world_window(secure, window, major, major_ns)).collect();
        let mut placed: Vec<(&WorldWindow, model::WorldWindow)> = placed.into_iter().collect::<Option<_>>()?;
        placed.sort_by_key(|(_, window)| window.offset_ns);
        for pair in placed.windows(2) {
            self.world_windows_overlap(pair)?;
        }
        self.not_built(place, "a table of windows", "leave `windows` out: servers then run by their priorities");
        Some(Some(model::WorldWindows { major_ns, windows: placed.into_iter().map(|(_, window)| window).collect() }))
    }

    fn world_window<'w>(
        &mut self,
        secure: &Secure,
        written: &'w Located<WorldWindow>,
        major: &Located<Duration>,
        major_ns: u64,
    ) -> Option<(&'w WorldWindow, model::WorldWindow)> {
        let (offset_ns, length_ns) = (self.duration(&written.offset), self.duration(&written.length));
        let name = &written.server;
        let server = secure.servers.iter().position(|server| server.name.value == name.value);
        if server.is_none() {
            let known: Vec<&str> = secure.servers.iter().map(|server| server.name.as_str()).collect();
            let message = format!("there is no server `{}`", name.value);
            let mut diagnostic = Diagnostic::new(Code::UnknownServer, message).at(name.span, "has a window here");
            if let Some(meant) = crate::suggest::closest(name, known.iter().copied()) {
                diagnostic = diagnostic.suggest(name.span, format!("\"{meant}\""), format!("did you mean `{meant}`?"));
            }
            self.push(diagnostic);
        }
        let (server, offset_ns, length_ns) = (server?, offset_ns?, length_ns?);
        if length_ns == 0 || offset_ns.checked_add(length_ns).is_none_or(|end_ns| end_ns > major_ns) {
            let message = format!("a window of `{}` is empty or leaves the major frame", name.value);
            let diagnostic = Diagnostic::new(Code::WindowOutside, message).at(written.span, "");
            self.push(diagnostic.at(major.span, "the frame starts again here"));
            return None;
        }
        Some((&written.value, model::WorldWindow { server, offset_ns, length_ns }))
    }

    fn world_windows_overlap(&mut self, pair: &[(&WorldWindow, model::WorldWindow)]) -> Option<()> {
        let [(first, earlier), (second, later)] = pair else { return Some(()) };
        let end_ns = earlier.offset_ns.saturating_add(earlier.length_ns);
        if later.offset_ns >= end_ns {
            return Some(());
        }
        let message = format!("windows of `{}` and `{}` overlap", first.server.value, second.server.value);
        let diagnostic = Diagnostic::new(Code::WindowOverlap, message)
            .at(second.offset.span, format!("starts at {}", format_duration(later.offset_ns)))
            .at(first.length.span, format!("ends at {}", format_duration(end_ns)));
        let start = format!("\"{}\"", format_duration(end_ns));
        self.push(diagnostic.suggest(second.offset.span, start, "start it when the other one ends"));
        None
    }
}
