//! Time: what each core promises, what it gave, and both side by side.

use crate::gantt;
use crate::html::Html;
use crate::page::Context;
use crate::table::{Cell, Table, partition_name};
use crate::timing::{CoreTiming, ServerTiming};
use crate::words::{percent, plural, rough};
use bulkhead_trace::measure::{CoreMeasure, SlotMeasure};

/// A bound beside what was measured.
struct Comparison {
    what: String,
    partition: usize,
    bound_ns: u64,
    measured_ns: u64,
    /// The bound is a lower one: the measurement must not be less.
    is_floor: bool,
}

impl Comparison {
    fn holds(&self) -> bool {
        if self.is_floor { self.measured_ns >= self.bound_ns } else { self.measured_ns <= self.bound_ns }
    }

    /// Returns how much of the room the measurement used: 1 is the bound itself.
    fn tightness(&self) -> Option<f64> {
        let (part, whole) =
            if self.is_floor { (self.bound_ns, self.measured_ns) } else { (self.measured_ns, self.bound_ns) };
        (whole > 0).then(|| part as f64 / whole as f64)
    }
}

/// Adds the verdicts of this section to those at the head of the page: class and words of a chip.
pub(crate) fn verdicts(list: &mut Vec<(&'static str, String)>, context: &Context<'_>) {
    let mut add = |holds: bool, text: String| list.push((if holds { "good" } else { "bad" }, text));
    let servers = || context.input.timing.cores.iter().flat_map(|core| &core.servers);
    let judged = servers().filter_map(|server| server.bound.verdict.as_ref());
    let (mut good, mut bad) = (0, 0);
    judged.for_each(|(holds, _)| if *holds { good += 1 } else { bad += 1 });
    if good + bad > 0 {
        let text =
            if bad == 0 { "every budget certain".to_owned() } else { format!("{} not certain", plural(bad, "budget")) };
        add(bad == 0, text);
    }
    let tasks = || context.input.timing.cores.iter().flat_map(|core| &core.tasks);
    if tasks().next().is_some() {
        let late = tasks().filter(|task| !task.is_kept()).count();
        let text = if late == 0 {
            "every deadline kept".to_owned()
        } else {
            format!("{} not certain", plural(late, "deadline"))
        };
        add(late == 0, text);
    }
    let compared = comparisons(context);
    if !compared.is_empty() {
        let broken = compared.iter().filter(|one| !one.holds()).count();
        let text = if broken == 0 {
            "measured within bounds".to_owned()
        } else {
            format!("{} exceeded", plural(broken, "bound"))
        };
        add(broken == 0, text);
    }
}

pub(crate) fn write(html: &mut Html, context: &Context<'_>) {
    let cores = &context.input.timing.cores;
    for core in cores.iter().filter(|core| core.is_shared) {
        promises(html, context, core);
    }
    tasks(html, context);
    if !context.input.timing.assumption.is_empty() {
        html.leaf("p", &[("class", &"note")], &context.input.timing.assumption);
    }
    dedicated(html, context);
    if let (Some(timeline), Some(measured)) = (context.input.timeline, &context.measured) {
        html.leaf("h3", &[], "What ran");
        gantt::strip(html, timeline, measured);
        for core in cores.iter().filter(|core| core.is_shared) {
            gantt::exact(html, timeline, measured, core.core);
        }
        measured_table(html, context);
    }
    compared_table(html, context);
}

/// What the description says guests run, and how late it can be.
pub(crate) fn tasks(html: &mut Html, context: &Context<'_>) {
    let mut table = Table::new(&["task", "cost", "period", "deadline", "worst response", "verdict"]);
    for bound in context.input.timing.cores.iter().flat_map(|core| &core.tasks) {
        let partition = context.input.system.partitions.get(bound.partition);
        let Some(task) = partition.and_then(|partition| partition.tasks.get(bound.task)) else { continue };
        let kept = bound.is_kept();
        table.row(vec![
            Cell::Partition(bound.partition, format!("{}.{}", context.partition_name(bound.partition), task.name)),
            Cell::Time(Some(task.cost_ns)),
            Cell::Time(Some(task.period_ns)),
            Cell::Time(Some(bound.deadline_ns)),
            Cell::Time(bound.response_ns),
            Cell::Verdict(kept, if kept { "kept" } else { "not certain" }.to_owned()),
        ]);
    }
    if !table.is_empty() {
        html.leaf("h3", &[], "Tasks of guests");
        table.write(html);
    }
}

fn dedicated(html: &mut Html, context: &Context<'_>) {
    let cores: Vec<_> = context.input.timing.cores.iter().filter(|core| !core.is_shared).collect();
    if cores.is_empty() {
        return;
    }
    html.leaf("h3", &[], "Dedicated cores");
    html.leaf(
        "p",
        &[],
        "One vCPU owns each of these. Nothing is scheduled there, so its guest has the whole core at any time.",
    );
    let mut table = Table::new(&["core", "partition", "vCPU"]);
    for core in cores {
        for slot in &core.slots {
            table.row(vec![
                Cell::text(core.board_core.to_string()),
                Cell::Partition(slot.partition, context.partition_name(slot.partition).to_owned()),
                Cell::text(slot.vcpu.to_string()),
            ]);
        }
    }
    table.write(html);
}

/// What a shared core promises to whom.
fn promises(html: &mut Html, context: &Context<'_>, core: &CoreTiming) {
    html.leaf("h3", &[], format!("Core {}: {}", core.board_core, core.schedule));
    loads(html, core);
    let mut table = Table::new(&[
        "server",
        "priority",
        "rule",
        "budget",
        "period",
        "share",
        "gate",
        "when empty",
        "worst response",
        "verdict",
    ]);
    for server in &core.servers {
        let bound = &server.bound;
        let verdict = bound.verdict.as_ref().map_or(Cell::Dash, |(good, text)| Cell::Verdict(*good, text.clone()));
        table.row(vec![
            Cell::Partition(partition_of(core, server), server.name.clone()),
            Cell::Number(server.priority.to_string()),
            Cell::text(&server.rule),
            Cell::Time(server.budget_ns),
            Cell::Time(server.period_ns),
            server.share.map_or(Cell::Dash, |(part, whole)| Cell::Number(percent(part, whole))),
            Cell::text(&server.gate),
            Cell::text(&server.on_empty),
            Cell::Time(bound.response_ns),
            verdict,
        ]);
    }
    if table.is_empty() {
        html.leaf("p", &[], "There are no servers: guests take turns.");
    } else {
        table.write(html);
    }
    supplies(html, context, core);
}

/// What each vCPU of the core gets in the worst case.
fn supplies(html: &mut Html, context: &Context<'_>, core: &CoreTiming) {
    let mut windows: Vec<u64> =
        core.slots.iter().flat_map(|slot| slot.bound.supply.iter().map(|(window, _)| *window)).collect();
    windows.sort_unstable();
    windows.dedup();
    let mut titles = vec![
        "vCPU".to_owned(),
        "first instruction".to_owned(),
        "budgets used up".to_owned(),
        "longest dark".to_owned(),
    ];
    titles.extend(windows.iter().map(|window| format!("least in {}", rough(*window))));
    let titles: Vec<_> = titles.iter().map(String::as_str).collect();
    let mut table = Table::new(&titles);
    for slot in core.slots.iter().filter(|slot| slot.bound != crate::timing::SlotBound::default()) {
        let bound = &slot.bound;
        let mut row = vec![
            Cell::Partition(slot.partition, format!("{}, vCPU {}", context.partition_name(slot.partition), slot.vcpu)),
            Cell::Time(bound.conforming_wait_ns),
            Cell::Time(bound.drained_wait_ns),
            Cell::Time(bound.blackout_ns),
        ];
        let least = |window: &u64| bound.supply.iter().find(|(known, _)| known == window).map(|(_, least)| *least);
        row.extend(windows.iter().map(|window| Cell::Time(least(window))));
        table.row(row);
    }
    if !table.is_empty() {
        html.leaf(
            "p",
            &[("class", &"note")],
            "What each vCPU gets at the latest and at the least, whatever the others do:",
        );
        table.write(html);
    }
}

/// How much of the core is promised: one bar.
fn loads(html: &mut Html, core: &CoreTiming) {
    let shares: Vec<_> = core
        .servers
        .iter()
        .filter_map(|server| Some((server, server.share.filter(|(_, whole)| *whole > 0)?)))
        .collect();
    if shares.is_empty() {
        return;
    }
    let sum: f64 = shares.iter().map(|(_, (part, whole))| *part as f64 / *whole as f64).sum();
    // More than the whole core is shown as it is; the verdict says that it cannot be.
    let scale = if sum > 1.0 { sum } else { 1.0 };
    html.element(
        "div",
        &[("class", &"load"), ("role", &"img"), ("aria-label", &format!("{:.0} % promised", sum * 100.0))],
        |html| {
            for (server, (part, whole)) in &shares {
                let share = *part as f64 / *whole as f64;
                let class = format!("b{}", partition_of(core, server) % 8);
                let style = format!("width:{:.2}%", share / scale * 100.0);
                let title = format!("{}: {}", server.name, percent(*part, *whole));
                html.element("span", &[("class", &class), ("style", &style), ("title", &title)], |_| {});
            }
        },
    );
    // Below the bar, where there is room for every name.
    html.element("p", &[("class", &"legend")], |html| {
        for (server, (part, whole)) in &shares {
            html.element("span", &[("class", &"entry")], |html| {
                partition_name(html, partition_of(core, server), &server.name);
                html.text(percent(*part, *whole));
            });
        }
    });
    let rest = if sum > 1.0 {
        "more than there is".to_owned()
    } else {
        format!("{:.1}\u{202f}% is left to those without a budget", (1.0 - sum) * 100.0)
    };
    html.leaf("p", &[("class", &"note")], format!("{:.1}\u{202f}% of the core is promised; {rest}.", sum * 100.0));
}

fn partition_of(core: &CoreTiming, server: &ServerTiming) -> usize {
    core.slots.get(server.slot).map_or(0, |slot| slot.partition)
}

/// What was measured, per vCPU of shared cores.
fn measured_table(html: &mut Html, context: &Context<'_>) {
    let mut table = Table::new(&[
        "vCPU",
        "ran",
        "start-up",
        "wake-ups",
        "mean response",
        "worst response",
        "longest wait",
        "longest dark",
    ]);
    let length = context.input.timeline.map_or(0, bulkhead_trace::Timeline::length_ns);
    for core in &context.input.timing.cores {
        for (index, slot) in core.slots.iter().enumerate() {
            let Some(measure) = context.measure(core.core).and_then(|core| core.slots.get(index)) else { continue };
            table.row(vec![
                Cell::Partition(
                    slot.partition,
                    format!("{}, vCPU {}", context.partition_name(slot.partition), slot.vcpu),
                ),
                Cell::Number(percent(measure.running.total_ns(), length)),
                Cell::Time(measure.startup_ns),
                Cell::Count(core.is_shared.then_some(measure.wakes)),
                mean_response(core, measure),
                Cell::Time(measure.longest_response_ns),
                Cell::Time(measure.longest_wait_ns),
                Cell::Time(measure.longest_blackout_ns()),
            ]);
        }
    }
    if table.is_empty() {
        return;
    }
    table.write(html);
    html.leaf(
        "p",
        &[("class", &"note")],
        "Start-up is the time until a guest had nothing to do for the first time. Responses are those after it: from a \
         wake-up until there is nothing to do again.",
    );
}

/// The mean response, where there were any: a guest that always computes has none, which is no good value but none at all.
fn mean_response(core: &CoreTiming, measure: &SlotMeasure) -> Cell {
    let never_idle = measure.responses == 0 && measure.startup_ns.is_none() && measure.running.total_ns() > 0;
    if core.is_shared && never_idle {
        return Cell::Number("never idle".to_owned());
    }
    Cell::Time(measure.mean_response_ns())
}

/// Deadlines of tasks beside what their guests needed. A guest's own scheduler leaves no trace, so the time from a wake-up of its vCPU
/// until there is nothing to do again stands for the task's response, which is never longer.
fn deadlines(core: &CoreTiming, measure: &CoreMeasure, context: &Context<'_>, list: &mut Vec<Comparison>) {
    for bound in &core.tasks {
        let slot = core.slots.iter().position(|slot| slot.partition == bound.partition);
        let seen = slot.and_then(|slot| measure.slots.get(slot)).and_then(|slot| slot.longest_response_ns);
        let partition = context.input.system.partitions.get(bound.partition);
        let task = partition.and_then(|partition| partition.tasks.get(bound.task));
        let is_alone = core.tasks.iter().filter(|one| one.partition == bound.partition).count() == 1;
        let (Some(measured_ns), Some(task)) = (seen, task) else { continue };
        // With several tasks, a longer time may be that of all together and refutes nothing.
        if is_alone || measured_ns <= bound.deadline_ns {
            let what = format!("{}.{}: deadline of the task", context.partition_name(bound.partition), task.name);
            let bound_ns = bound.deadline_ns;
            list.push(Comparison { what, partition: bound.partition, bound_ns, measured_ns, is_floor: false });
        }
    }
}

fn comparisons(context: &Context<'_>) -> Vec<Comparison> {
    let mut list = Vec::new();
    for core in &context.input.timing.cores {
        let Some(measure) = context.measure(core.core) else { continue };
        for (slot, seen) in core.slots.iter().zip(&measure.slots) {
            let name = format!("{}, vCPU {}", context.partition_name(slot.partition), slot.vcpu);
            let mut add = |what: String, bound: Option<u64>, measured: Option<u64>, is_floor| {
                if let (Some(bound_ns), Some(measured_ns)) = (bound, measured) {
                    list.push(Comparison { what, partition: slot.partition, bound_ns, measured_ns, is_floor });
                }
            };
            let bound = &slot.bound;
            add(
                format!("{name}: longest wait for its first instruction"),
                bound.blackout_ns,
                seen.longest_wait_ns,
                false,
            );
            add(format!("{name}: longest dark"), bound.blackout_ns, seen.longest_blackout_ns(), false);
            // A bound of next to nothing says nothing.
            for (window, least) in bound.supply.iter().filter(|(window, least)| *least >= window / 1000) {
                let what = format!("{name}: least in {}", rough(*window));
                add(what, Some(*least), seen.least_supply_ns(*window), true);
            }
        }
        deadlines(core, measure, context, &mut list);
        for (server, seen) in core.servers.iter().zip(&measure.servers) {
            let what = format!("{}: most in a period", server.name);
            if let (Some(bound_ns), Some(measured_ns)) = (server.bound.most_in_period_ns, seen.most_in_period_ns) {
                let partition = partition_of(core, server);
                list.push(Comparison { what, partition, bound_ns, measured_ns, is_floor: false });
            }
        }
    }
    list
}

/// Bounds against measurements.
fn compared_table(html: &mut Html, context: &Context<'_>) {
    let compared = comparisons(context);
    if compared.is_empty() {
        return;
    }
    html.leaf("h3", &[], "Bounds against measurements");
    let mut table = Table::new(&["what", "bound", "measured", "tightness", "verdict"]);
    for one in &compared {
        let limit = if one.is_floor { "at least the bound" } else { "within the bound" };
        let text = if one.holds() { limit } else { "bound broken" };
        table.row(vec![
            Cell::Partition(one.partition, one.what.clone()),
            Cell::Time(Some(one.bound_ns)),
            Cell::Time(Some(one.measured_ns)),
            Cell::Ratio(one.tightness()),
            Cell::Verdict(one.holds(), text.to_owned()),
        ]);
    }
    table.write(html);
    let mut ratios: Vec<_> = compared.iter().filter_map(Comparison::tightness).collect();
    ratios.sort_by(f64::total_cmp);
    if let Some(median) = ratios.get(ratios.len() / 2) {
        let text = format!(
            "Tightness is how much of the room a worst case used; 1 is the bound itself. The median is {}. \
             A measurement can refute a bound and never prove it.",
            crate::words::ratio_text(*median)
        );
        html.leaf("p", &[("class", &"note")], text);
    }
}
