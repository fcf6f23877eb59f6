//! The payload's tasks that run the world below: budgets and windows.

use super::hybrid::has_partitions;
use crate::code::Code;
use crate::decode::{Duration, Located};
use crate::description::ImageKind;
use crate::diagnostic::Diagnostic;
use crate::resolve::Resolver;
use crate::resolve::partition::span;
use crate::secure::{LatencyTask, MOST_THREAD_PRIORITY, Secure, ThreadPriorities, WorldServer, WorldWindow};
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
        latency: None,
    }
}

/// A latency task as a server of the same words.
fn as_server(task: &Located<LatencyTask>) -> Located<WorldServer> {
    let LatencyTask { name, priority, budget, period, interrupts, .. } = task.value.clone();
    let value =
        WorldServer { name, priority, budget: Some(budget), period: Some(period), interrupts, voluntary_return: None };
    Located { value, span: task.span }
}

impl Resolver<'_> {
    /// The servers as they are written, behind them the latency tasks, and behind these the one that nobody wrote.
    pub(super) fn world_servers(&mut self, secure: &Secure, payloads: &[u32]) -> Option<Vec<model::WorldServer>> {
        let latency: Vec<Located<WorldServer>> = secure.latency_tasks.iter().map(as_server).collect();
        let written: Vec<&Located<WorldServer>> = secure.servers.iter().chain(&latency).collect();
        if let Some(first) = written.first().filter(|_| secure.non_secure.is_none()) {
            let message = format!("server `{}` has no world to run", first.name.value);
            let diagnostic = Diagnostic::new(Code::KeyDoesNotApply, message).at(first.span, "remove it");
            self.push(diagnostic.help("or add a section `[secure.non_secure]`"));
        }
        // A background server is added where nobody wrote one.
        let is_added = secure.servers.is_empty();
        let most = if is_added { MOST_SERVERS - 1 } else { MOST_SERVERS };
        if let Some(extra) = written.get(most) {
            let message = format!(
                "{} servers are too many: a world plan holds {MOST_SERVERS}",
                written.len() + usize::from(is_added)
            );
            self.push(Diagnostic::new(Code::TooManyServers, message).at(extra.span, "the first one too many"));
        }
        if let Some(first) = secure.latency_tasks.first() {
            self.beside_latency_tasks(secure, first);
        }
        let servers = secure.servers.iter().map(|server| {
            self.in_windows(secure, server);
            self.world_server(server, payloads)
        });
        let mut all: Vec<_> = servers.collect();
        for (task, server) in secure.latency_tasks.iter().zip(&latency) {
            let threads = self.threads(task, secure);
            let server = self.world_server(server, payloads);
            all.push(server.zip(threads).map(|(server, threads)| model::WorldServer {
                latency: Some(model::LatencyTask { threads }),
                ..server
            }));
        }
        let mut all: Vec<model::WorldServer> = all.into_iter().collect::<Option<_>>()?;
        self.urgent_once(&written, &all)?;
        self.threads_once(secure, &all)?;
        if is_added && secure.non_secure.is_some() {
            all.push(background());
        }
        Some(all)
    }

    /// Latency tasks are the world's only servers but the one that has what nobody else wants.
    fn beside_latency_tasks(&mut self, secure: &Secure, first: &Located<LatencyTask>) {
        for server in &secure.servers {
            let is_windowed = secure.windows.iter().any(|window| window.server.value == server.name.value);
            if server.budget.is_none() && server.interrupts.is_empty() && !is_windowed {
                self.below_latency_tasks(secure, server);
                continue;
            }
            let message = format!("server `{}` stands beside latency tasks", server.name.value);
            let diagnostic = Diagnostic::new(Code::ServerBesideLatency, message)
                .at(server.span, "has a budget, interrupts or windows of its own")
                .at(first.span, "the first latency task")
                .note("of the latency tasks one runs at a time, the one that the world wants; what runs beside them by its own rule would be one more");
            self.push(diagnostic.help("make it a latency task, or leave its budget, interrupts and windows out"));
        }
    }

    /// What has the rest comes behind every latency task, of which Linux is told by their places.
    fn below_latency_tasks(&mut self, secure: &Secure, server: &Located<WorldServer>) {
        let Some(task) = secure.latency_tasks.iter().find(|task| task.priority.value <= server.priority.value) else {
            return;
        };
        let message = format!("server `{}` is not below latency task `{}`", server.name.value, task.name.value);
        let diagnostic = Diagnostic::new(Code::ServerBesideLatency, message)
            .at(server.priority.span, "has no limit, and leaves nothing to what is not above it")
            .at(task.priority.span, "the latency task's");
        self.push(diagnostic.help("give it a lower priority than every latency task"));
    }

    /// A server with windows has their lengths, and no other limit.
    fn in_windows(&mut self, secure: &Secure, server: &Located<WorldServer>) {
        if !secure.windows.iter().any(|window| window.server.value == server.name.value) {
            return;
        }
        let beside = "the windows of this server";
        self.does_not_apply(span(&server.budget), "budget", beside);
        self.does_not_apply(span(&server.period), "period", beside);
        self.does_not_apply(span(&server.voluntary_return), "voluntary_return", beside);
        self.does_not_apply(server.interrupts.first().map(|one| one.span), "interrupts", beside);
    }

    /// Priorities of threads that want a latency task.
    fn threads(&mut self, task: &Located<LatencyTask>, secure: &Secure) -> Option<Option<(u32, u32)>> {
        let Some(threads) = &task.threads else { return Some(None) };
        let is_linux = secure
            .non_secure
            .as_ref()
            .and_then(|world| world.image.as_ref())
            .is_some_and(|image| image.kind.value == ImageKind::Linux);
        if !is_linux {
            self.does_not_apply(
                Some(threads.span),
                "threads",
                "a world that is not stock Linux: it names a latency task by a call",
            );
            return None;
        }
        let ThreadPriorities { from, to } = &threads.value;
        let last = to.as_ref().unwrap_or(from);
        if from.value < 1 || last.value > MOST_THREAD_PRIORITY || from.value > last.value {
            let message = format!("no thread has priorities from {} to {}", from.value, last.value);
            let label = format!("expected 1 to {MOST_THREAD_PRIORITY}, the first one first");
            self.push(Diagnostic::new(Code::ThreadsOutside, message).at(threads.span, label));
            return None;
        }
        Some(u32::try_from(from.value).ok().zip(u32::try_from(last.value).ok()))
    }

    /// A priority of threads wants one latency task.
    fn threads_once(&mut self, secure: &Secure, all: &[model::WorldServer]) -> Option<()> {
        let ranges = all.iter().filter_map(|server| server.latency.as_ref()).zip(&secure.latency_tasks);
        let mut seen: Vec<((u32, u32), Span)> = Vec::new();
        for (latency, written) in ranges {
            let Some((range, place)) = latency.threads.zip(span(&written.threads)) else { continue };
            if let Some((_, first)) = seen.iter().find(|(other, _)| other.0 <= range.1 && range.0 <= other.1) {
                let message = String::from("a priority of threads would want two latency tasks");
                self.push(
                    Diagnostic::new(Code::ThreadsOutside, message).at(place, "this one").at(*first, "and this one"),
                );
                return None;
            }
            seen.push((range, place));
        }
        Some(())
    }

    /// An urgent interrupt wakes one server, and there are not too many.
    fn urgent_once(&mut self, all: &[&Located<WorldServer>], servers: &[model::WorldServer]) -> Option<()> {
        let mut seen: Vec<(u32, Span)> = Vec::new();
        for (server, written) in servers.iter().zip(all) {
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
            latency: None,
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
            self.does_not_apply(span(&secure.window_interrupt), "window_interrupt", "no `windows`");
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
        let interrupt = self.window_interrupt(secure)?;
        let windows = placed.into_iter().map(|(_, window)| window).collect();
        Some(Some(model::WorldWindows { major_ns, windows, interrupt }))
    }

    /// A shared interrupt that no device and no channel raises.
    fn window_interrupt(&mut self, secure: &Secure) -> Option<Option<u32>> {
        let Some(written) = &secure.window_interrupt else { return Some(None) };
        if secure.non_secure.as_ref().is_some_and(|world| has_partitions(world)) {
            self.does_not_apply(Some(written.span), "window_interrupt", "`partitions = true`");
            return None;
        }
        let spares = &self.board.board.spare_interrupts;
        let taken = secure.channel.iter().filter_map(|channel| channel.interrupt.as_ref());
        let payloads = secure.interrupts.iter().map(|interrupt| interrupt.intid());
        let same = taken.chain(payloads).find(|other| other.value == written.value);
        let found = u32::try_from(written.value).ok().filter(|intid| spares.contains(intid) && same.is_none());
        if found.is_none() {
            let (first, last) = (spares.first().copied().unwrap_or(0), spares.last().copied().unwrap_or(0));
            let message = format!("interrupt {} is no spare one of the board", written.value);
            let label = format!("spare ones are from {first} to {last}; `bulkhead board show` lists them");
            let diagnostic = Diagnostic::new(Code::WindowInterrupt, message).at(written.span, label);
            self.push(match same {
                Some(other) => diagnostic.at(other.span, "has it"),
                None => diagnostic,
            });
            return None;
        }
        Some(found)
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
