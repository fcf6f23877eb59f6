//! Servers: does each get its budget in time, and can anybody keep the core from another?

use super::{Scope, at};
use crate::bounds::{CoreTiming, ServerBound};
use crate::clock::{Clock, readable, written_down, written_up};
use crate::cores::SharedModel;
use crate::guest_tasks::shortest_run;
use bulkhead_analysis::core_bounds::Verdict;
use bulkhead_analysis::core_model::CoreModel;
use bulkhead_analysis::response::Contention;
use bulkhead_description::unit::format_duration;
use bulkhead_description::{Code, Diagnostic};
use bulkhead_plan::maps::VcpuUse;
use bulkhead_plan::model::{Gate, ServerReference};
use bulkhead_words::Anchor;

pub(super) fn check(scope: &Scope, core: &CoreTiming, found: &mut Vec<Diagnostic>) {
    let SharedModel::Servers(model) = &core.core.model else {
        return;
    };
    let used = core.servers.iter().filter(|server| server.verdict != Verdict::Off);
    for server in used {
        if matches!(server.verdict, Verdict::Late { .. }) {
            found.push(late(scope, core, model, server));
        }
        found.extend(too_small(scope, model, server));
        found.extend(small_remainder(scope, model, server));
        found.extend(double_hit(scope, core, server));
        found.extend(few_chunks(scope, core, server));
        found.extend(anchor(scope, server));
        found.extend(clients(scope, server));
    }
    for culprit in 0..core.servers.len() {
        found.extend(starves(scope, core, culprit));
    }
}

/// BH0801: what is missing, who takes it, and what would fit.
fn late(scope: &Scope, core: &CoreTiming, model: &CoreModel, server: &ServerBound) -> Diagnostic {
    let name = scope.server_name(server.reference);
    let (budget_ns, period_ns) = server.budget_and_period_ns.unwrap_or((0, 0));
    let core_number = core.core.board_core;
    let message = match server.response_ns {
        Some(response) => format!(
            "{name} is late by {} on core {core_number}: its budget is not certain in its period",
            readable(response.saturating_sub(period_ns))
        ),
        None => format!("{name} is never certain of its budget on core {core_number}: the core is full"),
    };
    let needs = match server.response_ns {
        Some(response) => format!(
            "{} take {} at worst, the period is {}",
            readable(budget_ns),
            readable(response),
            readable(period_ns)
        ),
        None => format!("{} in every {} do not fit", readable(budget_ns), readable(period_ns)),
    };
    let mut diagnostic = Diagnostic::new(Code::NotSchedulable, message);
    diagnostic = at(diagnostic, scope.place(server.reference, |spans| spans.budget.or(spans.share)), needs);
    let window = server.response_ns.unwrap_or(period_ns);
    for (reference, text) in takers(scope, core, model, server, window) {
        diagnostic = at(diagnostic, scope.place(reference, |spans| spans.budget.or(spans.share)), text);
    }
    let contention = core.ticks.as_ref().and_then(|ticks| ticks.servers.get(server.number)?.contention.as_ref());
    match contention {
        Some(contention) => what_fits(scope, server, contention, diagnostic),
        None => diagnostic,
    }
}

/// What each more important server takes in a window.
fn takers(
    scope: &Scope,
    core: &CoreTiming,
    model: &CoreModel,
    late: &ServerBound,
    window_ns: u64,
) -> Vec<(ServerReference, String)> {
    let clock = Clock::new(scope.hz());
    let Some(own) = model.servers.get(late.number) else {
        return Vec::new();
    };
    let above = core.servers.iter().filter(|one| one.number != late.number && one.priority <= own.lowest_priority());
    let text = |one: &ServerBound| {
        let (budget, period) = model.servers.get(one.number)?.budget()?;
        let ticks = clock.ticks_up(window_ns);
        let taken = bulkhead_analysis::demand::Demand::periodic(budget, period).in_window(ticks)?;
        let text = format!("more important: may take {} meanwhile", readable(clock.ns_up(taken)));
        Some((one.reference, text))
    };
    above.filter_map(text).collect()
}

fn what_fits(scope: &Scope, server: &ServerBound, contention: &Contention, diagnostic: Diagnostic) -> Diagnostic {
    let clock = Clock::new(scope.hz());
    let Some((budget_ns, period_ns)) = server.budget_and_period_ns else {
        return diagnostic;
    };
    let monitor = format!(
        "of that, the monitor may take {} (longest passage and late timers)",
        readable(clock.ns_up(contention.blocking_ticks.saturating_add(contention.lateness_ticks)))
    );
    let mut diagnostic = diagnostic.note(monitor);
    if scope.server(server.reference).is_some_and(|server| server.rule.clients().is_some()) {
        return diagnostic.help("make its share smaller, or take from the servers above");
    }
    let period = clock.ticks_down(period_ns);
    let fits =
        |ns: u64| scope.steps.bound(|steps| contention.response(clock.ticks_down(ns), period, steps)).0.is_some();
    let largest = written_down(largest_below(budget_ns, fits));
    if largest == 0 || !fits(largest) {
        diagnostic =
            diagnostic.help("no budget was found that fits here with this period: take from the servers above");
    } else {
        let text = format!("a budget of {} fits with this period", format_duration(largest));
        diagnostic = match scope.server_spans(server.reference).and_then(|spans| spans.budget) {
            Some(span) => diagnostic.suggest(span, format!("\"{}\"", format_duration(largest)), text),
            None => diagnostic.help(text),
        };
    }
    match server.response_ns {
        Some(response) => diagnostic
            .help(format!("this budget fits with a period of {} or more", format_duration(written_up(response)))),
        None => diagnostic,
    }
}

/// Largest value below `above` for which `fits` holds, when it holds for everything smaller; 0 when it never does.
pub(crate) fn largest_below(above: u64, fits: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (0, above);
    while high.saturating_sub(low) > 1 {
        let middle = low + (high - low) / 2;
        if fits(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// BH0802 and BH0821: one diagnostic per server that may keep the core, with everybody who may starve.
fn starves(scope: &Scope, core: &CoreTiming, number: usize) -> Option<Diagnostic> {
    let reference = scope.reference(core, number)?;
    let victim = |server: &&ServerBound| match server.verdict {
        Verdict::NoBound { culprit, .. } | Verdict::Starved { culprit, .. } => culprit == number,
        _ => false,
    };
    let victims: Vec<&ServerBound> = core.servers.iter().filter(victim).collect();
    let first = victims.first()?;
    let background =
        matches!(first.verdict, Verdict::NoBound { background: true, .. } | Verdict::Starved { background: true, .. });
    let promised = victims.iter().any(|victim| matches!(victim.verdict, Verdict::NoBound { .. }));
    let trusted = scope.partition(reference).is_some_and(|partition| partition.trusted);
    let code = if trusted && !promised { Code::MayStarve } else { Code::Starves };
    let name = scope.server_name(reference);
    let what = if background { "in its background " } else { "" };
    let message = format!("{name} {what}may keep core {} for ever", core.core.board_core);
    let why = match background {
        true => "continues without a budget at its background priority".to_owned(),
        false => "has no limit".to_owned(),
    };
    let mut diagnostic = at(Diagnostic::new(code, message), scope.place(reference, |spans| spans.priority), why);
    for victim in &victims {
        let text = format!("{} may never run", scope.server_name(victim.reference));
        diagnostic = at(diagnostic, scope.place(victim.reference, |spans| spans.priority), text);
    }
    diagnostic = match code {
        Code::MayStarve => diagnostic.note("the partition is trusted, so this is no error"),
        _ => diagnostic
            .note("no bound can be computed for a server below one without a limit, or beside it without a quantum"),
    };
    Some(match (background, trusted) {
        (true, _) => {
            diagnostic.help("let it stop when it is empty, or give it a background priority behind all others")
        }
        (false, true) => diagnostic
            .help("name its guest's `tasks`, which then count as its demand, or give it a budget and a period"),
        (false, false) => diagnostic.help("give it a budget and a period, or the least important priority"),
    })
}

/// BH0805.
fn too_small(scope: &Scope, model: &CoreModel, server: &ServerBound) -> Option<Diagnostic> {
    let one = model.servers.get(server.number)?;
    let (budget, _) = one.budget()?;
    let sliver = one.rule.sliver_ticks();
    if one.payer.is_some() || budget.saturating_sub(sliver) > model.costs.both_exchanges_ticks() {
        return None;
    }
    let clock = Clock::new(scope.hz());
    let name = scope.server_name(server.reference);
    let switches = readable(clock.ns_up(model.costs.both_exchanges_ticks()));
    let message = format!("the budget of {name} is used up by switching");
    let label =
        format!("{} certain, two switches take {switches}", readable(clock.ns_down(budget.saturating_sub(sliver))));
    let place = scope.place(server.reference, |spans| spans.budget.or(spans.share));
    Some(
        at(Diagnostic::new(Code::BudgetTooSmall, message), place, label)
            .help("a larger budget with a longer period costs the others the same"),
    )
}

/// BH0831. Nobody is told to mend what he did not write: the default is short on slow cores, which wastes time of that server only.
fn small_remainder(scope: &Scope, model: &CoreModel, server: &ServerBound) -> Option<Diagnostic> {
    let one = model.servers.get(server.number)?;
    let minimum_ticks = one.rule.smallest_chunk_ticks()?;
    let (budget_ticks, _) = one.budget()?;
    let written = scope.server_spans(server.reference).and_then(|spans| spans.minimum)?;
    // A budget that is itself too small is an error already.
    let needed_ticks = model.costs.both_exchanges_ticks().saturating_add(scope.costs.entry);
    if minimum_ticks >= needed_ticks || budget_ticks <= needed_ticks.saturating_mul(2) {
        return None;
    }
    let clock = Clock::new(scope.hz());
    let name = scope.server_name(server.reference);
    let needed = format_duration(written_up(clock.ns_up(needed_ticks)));
    let message =
        format!("a remainder of {} does not pay for a switch to {name}", readable(clock.ns_up(minimum_ticks)));
    let place = scope.place(server.reference, |spans| spans.minimum);
    let diagnostic =
        at(Diagnostic::new(Code::SmallRemainder, message), place, format!("to start and to stop it takes {needed}"));
    Some(diagnostic.suggest(written, format!("\"{needed}\""), "let it wait for more"))
}

/// BH0822.
fn double_hit(scope: &Scope, core: &CoreTiming, server: &ServerBound) -> Option<Diagnostic> {
    let SharedModel::Servers(model) = &core.core.model else { return None };
    if !model.servers.get(server.number)?.rule.hits_twice() {
        return None;
    }
    let others = |other: &&ServerBound| {
        other.reference.partition != server.reference.partition
            && other.priority >= server.priority
            && other.budget_and_period_ns.is_some()
    };
    let below = core.servers.iter().find(others)?;
    let message = format!("{} is deferrable and may take two budgets at once", scope.server_name(server.reference));
    let place = scope.place(server.reference, |spans| spans.rule);
    let diagnostic = at(Diagnostic::new(Code::DoubleHit, message), place, "keeps its budget to the end of a period");
    let label = format!("{} has to allow for both", scope.server_name(below.reference));
    let diagnostic = at(diagnostic, scope.place(below.reference, |spans| spans.budget), label);
    Some(match scope.server_spans(server.reference).and_then(|spans| spans.rule) {
        Some(span) => diagnostic.suggest(span, "\"sporadic\"", "a sporadic server costs others one budget per period"),
        None => diagnostic,
    })
}

/// BH0823: by the runs that the description names: tasks, or handlers behind an interrupt gate.
fn few_chunks(scope: &Scope, core: &CoreTiming, server: &ServerBound) -> Option<Diagnostic> {
    let described = scope.server(server.reference)?;
    let chunks = described.rule.chunks()?;
    let (budget_ns, _) = described.rule.budget_and_period_ns()?;
    let clock = Clock::new(scope.hz());
    let partition = scope.partition(server.reference)?;
    let used = VcpuUse { partition: server.reference.partition, vcpu: described.vcpu };
    let (run_ns, what) = match described.gate {
        Gate::Interrupt { .. } => {
            let routes = partition.device_routes.iter().chain([&partition.route]);
            (routes.filter_map(|route| route.handler_ns).min()?, "handler")
        }
        _ => (clock.ns_down(shortest_run(scope.system, used)), "task"),
    };
    if run_ns == 0 || !core.core.core_use.vcpus.contains(&used) {
        return None;
    }
    let needed = budget_ns.div_ceil(run_ns).saturating_add(1);
    if u64::from(chunks) >= needed {
        return None;
    }
    let message = format!(
        "{} has {chunks} chunks for a budget of up to {} runs",
        scope.server_name(server.reference),
        needed - 1
    );
    let place = scope.place(server.reference, |spans| spans.chunks.or(spans.budget));
    let label = format!("the shortest {what} takes {}", readable(run_ns));
    let diagnostic = at(Diagnostic::new(Code::FewChunks, message), place, label);
    Some(match (scope.server_spans(server.reference).and_then(|spans| spans.chunks), needed <= 16) {
        (Some(span), true) => diagnostic.suggest(span, needed.to_string(), "one for each run and one more"),
        (None, true) => diagnostic.help(format!("set `chunks = {needed}`")),
        (_, false) => diagnostic
            .note("with fewer chunks than runs, parts of the budget wait for others; the bounds allow for that")
            .help("a smaller budget with a shorter period needs fewer, at most 16 can be had"),
    })
}

/// BH0824 and BH0825.
fn anchor(scope: &Scope, server: &ServerBound) -> Option<Diagnostic> {
    let described = scope.server(server.reference)?;
    let dispatch_anchor = described.rule.anchor()? == Anchor::Dispatch;
    let partition = scope.partition(server.reference)?;
    let name = scope.server_name(server.reference);
    let place = scope.place(server.reference, |spans| spans.anchor);
    if !dispatch_anchor && !partition.trusted {
        let message = format!("{name} of an untrusted partition may use two budgets close together");
        let diagnostic =
            at(Diagnostic::new(Code::CreditUntrusted, message), place, "dates time by when it could have been used");
        return Some(match scope.server_spans(server.reference).and_then(|spans| spans.anchor) {
            Some(span) => diagnostic.suggest(span, "\"dispatch\"", "never more than the budget in any period"),
            None => diagnostic,
        });
    }
    if dispatch_anchor && matches!(described.gate, Gate::Always | Gate::Window) && !partition.tasks.is_empty() {
        let message = format!("{name} caps a guest that names tasks, and gives it less than its budget");
        let period = server.budget_and_period_ns.map_or(0, |(_, period)| period);
        let label = format!(
            "certain in the long run: {}.{:02} % of the core",
            server.supply_ppm / 10_000,
            server.supply_ppm % 10_000 / 100
        );
        let diagnostic = at(Diagnostic::new(Code::CapGuaranteed, message), place, label);
        let note = format!(
            "the budget comes back {} after the guest was dispatched, not after it wanted to run",
            readable(period)
        );
        return Some(
            diagnostic
                .note(note)
                .help("with `trust = \"trusted\"` and `anchor = \"eligible\"` it is certain in every period"),
        );
    }
    None
}

/// BH0826 and BH0830.
fn clients(scope: &Scope, server: &ServerBound) -> Vec<Diagnostic> {
    let Some(rule) = scope.server(server.reference).map(|server| &server.rule) else { return Vec::new() };
    let Some(clients) = rule.clients() else { return Vec::new() };
    let mut found = Vec::new();
    let name = scope.server_name(server.reference);
    let periods = bulkhead_plan::schedule::clients(scope.system, clients);
    if let (Some((shortest, _)), Some((longest, _))) = (periods.first(), periods.last())
        && *longest > shortest.saturating_mul(10)
    {
        let message =
            format!("the clients of {name} have periods of {} and of {}", readable(*shortest), readable(*longest));
        let place = scope.place(server.reference, |spans| spans.clients);
        let grant = server.budget_and_period_ns.map_or(0, |(grant, _)| grant);
        let label = format!("works in grants of {} for all of them", readable(grant));
        let diagnostic = at(Diagnostic::new(Code::ClientPeriods, message), place, label);
        found.push(diagnostic.help("use two servers, each for clients with similar periods"));
    }
    if rule.is_published() {
        let message = format!("{name} follows the published rule, for which no bound holds");
        let place = scope.place(server.reference, |spans| spans.rule);
        let diagnostic = at(
            Diagnostic::new(Code::PublishedRule, message),
            place,
            "a grant in hand survives a raise of the priority",
        );
        found.push(diagnostic.help("leave `published` out, except in experiments"));
    }
    found
}
