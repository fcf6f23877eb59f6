//! What is certain of the servers of an instance: the analysis of one whole core (`real-time.md` 4; QV-38), with what the kernel itself takes.

use super::{BACKGROUND, Line};
use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::kernel::resolve::Resolver;
use crate::unit::format_duration;
use bulkhead_analysis::core_bounds::{CoreBounds, Verdict, client_responses, fits};
use bulkhead_analysis::core_model::{CoreModel, Gate, Server};
use bulkhead_analysis::steps::Steps;
use bulkhead_plan::model::InstanceServer;
use bulkhead_plan::ticks;

/// Longest passage of the kernel without a look for interrupts, in instructions. Tests measure it: calls in the states that their bounds name, attacks, and states in which much of one
/// component happens at one instant stay below 2,500; random subsystems below this (CH-60).
pub const PASSAGE: u64 = 2_900;
/// From the last instruction of one thread to the first one of another when a budget is used up or comes back: 1,075 where nobody schedules but the kernel. Random subsystems wake a more
/// important thread 4,394 late at most, which is a passage and this.
pub const EXCHANGE: u64 = 1_800;
/// From the last instruction of who is interrupted to its next one, while the driver waits behind. A test measures it, with as many interrupts as an instance can have: 1,613 with a
/// sporadic server, 2,000 with one for eight clients, 2,457 below as many schedulers as there can be.
pub const TOP_HALF: u64 = 2_600;
/// Most servers that a kernel passes over at once.
const MAX_VETOED: usize = 8;
/// Time of an instruction: that of the exact runs on QEMU, as for the bounds of shared cores.
pub(super) const INSTRUCTION_NS: u64 = 16;

/// The core as the analysis sees it.
fn model(lines: &[Line], hz: u64) -> CoreModel {
    let lateness_ticks = ticks::round_up((PASSAGE + EXCHANGE) * INSTRUCTION_NS, hz);
    let rule = |line: &Line| {
        let mut rule = line.rule.clone();
        // Each server of a band can be late by itself.
        if let (Some(slots), Some((budget_ticks, _))) = (line.slots, rule.budget()) {
            let more_ticks = lateness_ticks.saturating_mul(u64::from(slots.saturating_sub(1)));
            rule.set_budget(budget_ticks.saturating_add(more_ticks));
        }
        rule
    };
    let server = |(owner, line): (usize, &Line)| Server {
        background: line.has_background.then_some(line.level.saturating_add(BACKGROUND)),
        ..Server::new(owner, line.level, rule(line))
    };
    CoreModel {
        servers: lines.iter().enumerate().map(server).collect(),
        blocking_ticks: ticks::round_up(PASSAGE * INSTRUCTION_NS, hz),
        // The end of a budget is noticed behind a passage, and the successor is loaded on it.
        lateness_ticks,
        ..CoreModel::default()
    }
}

/// The core for the server of a place, which waits besides: for each reason its ticks.
fn waits(model: &CoreModel, waiting: &[(usize, u64)], place: usize) -> Option<CoreModel> {
    let reasons = waiting.iter().filter(|(waits, _)| *waits == place);
    let blocking_ticks = reasons.fold(model.blocking_ticks, |sum, (_, ticks)| sum.saturating_add(*ticks));
    (blocking_ticks != model.blocking_ticks).then(|| CoreModel { blocking_ticks, ..model.clone() })
}

/// The bounds of a core where some servers wait besides.
fn bounds(model: &CoreModel, waiting: &[(usize, u64)], steps: &Steps) -> CoreBounds {
    let mut bounds = CoreBounds::of(model, steps);
    for (place, bounds) in bounds.servers.iter_mut().enumerate() {
        let blocked = waits(model, waiting, place);
        if let Some(found) = blocked.and_then(|model| CoreBounds::of(&model, steps).servers.into_iter().nth(place)) {
            *bounds = found;
        }
    }
    bounds
}

impl Resolver<'_> {
    /// Computes the bounds, reports who has none, and returns what reports say.
    pub(super) fn times(&mut self, lines: &[Line]) -> Vec<InstanceServer> {
        let hz = self.around.counter_hz;
        let (model, steps) = (model(lines, hz), Steps::default());
        let mut waiting = self.vetoes(lines);
        waiting.extend(self.top_halves(lines));
        let bounds = bounds(&model, &waiting, &steps);
        // What is promised holds beside the doorbells of wires; what is refused is wrong without them as well.
        let rung = CoreModel { events: self.doorbells(), ..model.clone() };
        let promised = if rung.events.is_empty() { bounds.clone() } else { self::bounds(&rung, &waiting, &steps) };
        self.rung(lines, &bounds, &promised);
        let mut facts = Vec::new();
        for (place, line) in lines.iter().enumerate() {
            let verdict = bounds.servers.get(place).map(|bounds| bounds.verdict);
            if let Some(verdict) = verdict {
                let band = self.culprit(lines, &model, place, verdict);
                self.judge(lines, line, verdict, band);
            }
            let bound_ticks = promised.servers.get(place).and_then(|bounds| bounds.response_ticks());
            let blocked = waits(&rung, &waiting, place);
            let of_clients = client_responses(blocked.as_ref().unwrap_or(&rung), place, &steps);
            let to_ns = |ticks: u64| ticks::to_ns(ticks, hz);
            facts.push(InstanceServer {
                name: line.name.clone(),
                number: line.number,
                band: line.slots,
                rule: line.word,
                time_ns: line.rule.budget().map(|(budget, period)| (to_ns(budget), to_ns(period))),
                share: line.rule.pibs().map(|pibs| (pibs.numerator, pibs.denominator)),
                level: line.level,
                has_background: line.has_background,
                holder: line
                    .holder
                    .and_then(|holder| self.file.scheduler.get(holder))
                    .map(|one| one.name.value.clone()),
                bound_ns: bound_ticks.map(to_ns),
                clients: line.clients.iter().cloned().zip(of_clients.into_iter().map(|one| one.map(to_ns))).collect(),
            });
        }
        facts
    }

    /// A server of which another one says that it may not preempt is passed over until the other one has done: it waits for the largest budget of those
    /// behind it that share a scheduler with it (CH-23). Returns their places, with how long each may wait in ticks.
    fn vetoes(&mut self, lines: &[Line]) -> Vec<(usize, u64)> {
        let schedulers = |line: &Line| line.holder.map_or_else(Vec::new, |holder| self.above(holder));
        let mut waiting = Vec::new();
        for (place, line) in lines.iter().enumerate() {
            let own = schedulers(line);
            let behind = lines.iter().skip(place + 1);
            let sharing = behind.filter(|other| schedulers(other).iter().any(|one| own.contains(one)));
            if let Some(most) = sharing.filter_map(|other| other.rule.budget()).map(|(budget, _)| budget).max() {
                waiting.push((place, most));
            }
        }
        if let Some((place, _)) = waiting.get(MAX_VETOED) {
            let message = format!("{} servers can be passed over, and a kernel remembers {MAX_VETOED}", waiting.len());
            let span = lines.get(*place).map_or(self.file.version.span, |line| line.span);
            let diagnostic = Diagnostic::new(Code::TooManyVetoes, message).at(span, "the first one too many");
            self.push(diagnostic.note("servers that one scheduler, or schedulers below one, hold do not preempt each other against its word").help(
                "let schedulers without a common parent hold them, or fewer servers",
            ));
        }
        waiting
    }

    /// The first band in front of a server that is late, if it would not be without bands.
    fn culprit<'l>(&self, lines: &'l [Line], model: &CoreModel, place: usize, verdict: Verdict) -> Option<&'l Line> {
        let Verdict::Late { .. } = verdict else { return None };
        let before = || lines.iter().take(place).filter(|line| line.slots.is_some());
        let first = before().next()?;
        let mut without = model.clone();
        for (server, line) in without.servers.iter_mut().zip(lines) {
            if line.slots.is_some() {
                server.gate = Gate::Never;
            }
        }
        fits(&without, place, &Steps::default()).then_some(first)
    }

    /// Reports a server whose budget is not certain. `band` is what makes it late.
    fn judge(&mut self, lines: &[Line], line: &Line, verdict: Verdict, band: Option<&Line>) {
        let hz = self.around.counter_hz;
        let (_, period_ticks) = line.rule.budget().unwrap_or_default();
        let time = |ticks: u64| format_duration(ticks::to_ns(ticks, hz));
        let message = match line.rule.pibs() {
            Some(_) => format!("server `{}` does not finish a grant in each period of its clients", line.name),
            None => format!("server `{}` does not get its budget in each period", line.name),
        };
        let diagnostic = match verdict {
            Verdict::Late { response_ticks } => {
                let takes = response_ticks.map_or_else(
                    || String::from("and has it at no time that was found"),
                    |ticks| {
                        format!(
                            "and has it after {}, which is {} too late",
                            time(ticks),
                            time(ticks.saturating_sub(period_ticks))
                        )
                    },
                );
                let diagnostic = Diagnostic::new(Code::InstanceLate, message)
                    .at(line.span, format!("is due within {} {takes}", time(period_ticks)))
                    .note("those in front of it can take so much, and the kernel itself takes a passage and an exchange for each of them");
                let diagnostic = match line.holder {
                    Some(_) => diagnostic.note("and it may have to wait for the budget of one behind it, if a scheduler that both have in common says so"),
                    None => diagnostic,
                };
                match band {
                    Some(band) => self.late_by_a_band(line, band, &takes),
                    None => diagnostic.help("make a budget smaller, or a period longer"),
                }
            }
            Verdict::NotFound => Diagnostic::new(Code::InstanceLate, message)
                .at(line.span, "no bound was found in as many steps as are allowed")
                .help("leave more of the core free: such a search is long where the core is full"),
            Verdict::NoBound { culprit, .. } => {
                let other = lines.get(culprit).map_or("", |line| line.name.as_str());
                let message = format!("server `{other}` has no limit and comes before server `{}`", line.name);
                let diagnostic =
                    Diagnostic::new(Code::UnlimitedAbove, message).at(line.span, "may never have its budget");
                let place = lines.get(culprit).map_or(line.span, |line| line.span);
                diagnostic
                    .at(place, "may keep the core for ever")
                    .help("give it a budget, or a larger priority number than those that have one")
            }
            Verdict::Fits { .. }
            | Verdict::Unlimited
            | Verdict::Starved { .. }
            | Verdict::Shadowed { .. }
            | Verdict::Off => return,
        };
        self.push(diagnostic);
    }

    fn late_by_a_band(&self, line: &Line, band: &Line, takes: &str) -> Diagnostic {
        let hz = self.around.counter_hz;
        let (_, period_ticks) = line.rule.budget().unwrap_or_default();
        let time = |ticks: u64| format_duration(ticks::to_ns(ticks, hz));
        let (budget_ticks, shortest_ticks) = band.rule.budget().unwrap_or_default();
        let message =
            format!("server `{}` does not get its budget in each period beside band `{}`", line.name, band.name);
        Diagnostic::new(Code::BandAbove, message)
            .at(line.span, format!("is due within {} {takes}", time(period_ticks)))
            .at(band.span, format!("comes before it, and can take that much in each {}", time(shortest_ticks)))
            .note(format!(
                "a band counts as one server with {} in its shortest period, whatever is made in it",
                time(budget_ticks)
            ))
            .help("make the band's budget smaller, or its shortest period longer than that of the server")
    }
}

/// Most time that all of them can take in any time as long as this, which begins anywhere; the first one without a limit or with a background otherwise.
pub(crate) fn most_ns(servers: &[InstanceServer], window_ns: u64) -> Result<u64, &InstanceServer> {
    let mut sum_ns = 0_u64;
    for server in servers {
        let Some((budget_ns, period_ns)) = server.time_ns.filter(|_| !server.has_background) else {
            return Err(server);
        };
        // A budget at its beginning, and one in each period that begins; a grant can be late by a whole period, besides.
        let more = if server.share.is_some() { 2 } else { 1 };
        let times = window_ns.div_ceil(period_ns.max(1)).saturating_add(more);
        sum_ns = sum_ns.saturating_add(times.saturating_mul(budget_ns));
    }
    Ok(sum_ns)
}
