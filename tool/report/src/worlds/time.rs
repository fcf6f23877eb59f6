//! When whom the core belongs to: tasks of the payload, servers of the world below, and a start of that world.

use super::{Worlds, WorldsInput, below, world_name};
use crate::gantt;
use crate::html::Html;
use crate::page::judged;
use crate::table::{Cell, Table};
use crate::words::{grouped, percent, plural, rough};
use bulkhead_analysis::payload::PROMISED_PATHS;
use bulkhead_plan::model::WorldServer;
use bulkhead_trace::{Measurements, Timeline};

/// Adds what was judged of time to the verdicts at the head of the page.
pub(crate) fn verdicts(list: &mut Vec<(&'static str, String)>, input: &WorldsInput<'_>) {
    let late = responses(input).filter(|(.., is_kept)| !is_kept).count();
    if !input.secure.tasks.is_empty() {
        let text = if late == 0 {
            "every deadline kept".to_owned()
        } else {
            format!("{} not certain", plural(late, "deadline"))
        };
        list.push((judged(late == 0), text));
    }
    if input.timeline.is_some_and(|timeline| !timeline.is_complete()) {
        list.push(("warn", "trace incomplete".to_owned()));
    }
}

/// Who ran, over the whole trace, and how much of it.
fn ran(html: &mut Html, input: &WorldsInput<'_>, timeline: &Timeline) {
    html.leaf("h3", &[], "What ran");
    let measured = Measurements::of(timeline);
    gantt::strip(html, timeline, &measured);
    let mut table =
        Table::new(&["task", "began", "in all", "of the time", "longest", "budget", "budgets used up", "refilled"]);
    for (number, core) in timeline.layout.cores.iter().enumerate() {
        let Some(measure) = measured.cores.get(number) else { continue };
        let runs = timeline.runs(number);
        for (place, (server, seen)) in core.servers.iter().zip(&measure.servers).enumerate() {
            let lengths = || runs.iter().filter(|run| run.server == Some(place)).map(|run| run.to_ns - run.from_ns);
            let all_ns = lengths().sum();
            table.row(vec![
                Cell::Partition(
                    timeline.layout.slot(number, server.slot).map_or(0, |slot| slot.partition),
                    server.name.clone(),
                ),
                Cell::Count(Some(lengths().count() as u64)),
                Cell::Time(Some(all_ns)),
                Cell::Number(percent(all_ns, timeline.length_ns())),
                Cell::Time(lengths().max()),
                Cell::Time(server.budget_ns),
                Cell::Count(server.budget_ns.map(|_| seen.exhaustions)),
                Cell::Count(server.budget_ns.map(|_| seen.replenishments)),
            ]);
        }
    }
    table.write(html);
    below::turns(html, timeline, &measured, input);
    let lost: u64 = timeline.lost.iter().sum();
    if lost > 0 {
        let text = format!("{} records found no room and are missing: who ran meanwhile was not seen.", grouped(lost));
        html.leaf("p", &[("class", &"warning")], text);
    }
    for warning in &timeline.warnings {
        html.leaf("p", &[("class", &"warning")], warning);
    }
    let clock = if timeline.layout.clock.is_empty() { "of an unnamed clock" } else { timeline.layout.clock.as_str() };
    let note = format!(
        "Times are {clock}. A task\u{2019}s time has in it what interrupts of the payload took meanwhile; a run ends where another task begins."
    );
    html.leaf("p", &[("class", &"note")], note);
}

/// Each task's worst response, and whether its deadline is kept.
fn responses<'a>(
    input: &WorldsInput<'a>,
) -> impl Iterator<Item = (&'a bulkhead_plan::model::PayloadTask, Option<u64>, bool)> {
    let (tasks, responses) = (&input.secure.tasks, &input.bounds.responses_ns);
    tasks
        .iter()
        .zip(responses)
        .map(|(task, response)| (task, *response, response.is_some_and(|response| response <= task.task.deadline_ns)))
}

pub(crate) fn write(html: &mut Html, input: &Worlds<'_>) {
    tasks(html, input);
    servers(html, input);
    windows(html, input);
    if !input.secure.is_alone() {
        let (latency, name) = (rough(input.bounds.latency_ns), world_name(input.secure));
        let text = format!("A secure interrupt reaches the payload within {latency}, whatever {name} does.");
        html.leaf("p", &[], text);
    }
    if let Some(context) = &input.partitions {
        // Of the partitions' guests, as far as the description names some.
        crate::time::tasks(html, context);
    }
    if let Some(world) = input.secure.world() {
        let text = match input.bounds.start_ns {
            Some(start) => format!(
                "A start or restart of {} takes at most {} from the order until a server may run it.",
                world.name,
                rough(start)
            ),
            None => format!(
                "How long a start of {} takes has no bound: more urgent tasks may never let it end.",
                world.name
            ),
        };
        html.leaf("p", &[], text);
    }
    if let Some(timeline) = input.timeline {
        ran(html, input, timeline);
    }
    let instruction = input.assumptions.instruction_ps;
    let note = format!(
        "Bounds rest on the secure monitor\u{2019}s paths in instructions ({} to the payload, {} to the other world, which tests hold), each \
         taken as {}.{:03} ns.",
        PROMISED_PATHS.to_payload,
        PROMISED_PATHS.to_world,
        instruction / 1_000,
        instruction % 1_000,
    );
    html.leaf("p", &[("class", &"note")], note);
}

fn tasks(html: &mut Html, input: &WorldsInput<'_>) {
    let mut table = Table::new(&["task", "priority", "cost", "period", "deadline", "worst response", "verdict"]);
    for (task, response, is_kept) in responses(input) {
        table.row(vec![
            Cell::Partition(input.payload(), task.task.name.clone()),
            Cell::Number(task.priority.to_string()),
            Cell::Time(Some(task.task.cost_ns)),
            Cell::Time(Some(task.task.period_ns)),
            Cell::Time(Some(task.task.deadline_ns)),
            Cell::Time(response),
            Cell::Verdict(is_kept, if is_kept { "kept" } else { "not certain" }.to_owned()),
        ]);
    }
    if !table.is_empty() {
        html.leaf("h3", &[], "Tasks of the payload");
        table.write(html);
    }
}

fn servers(html: &mut Html, input: &WorldsInput<'_>) {
    if input.secure.is_alone() {
        return;
    }
    html.leaf("h3", &[], format!("Tasks that are {}", world_name(input.secure)));
    let mut table =
        Table::new(&["server", "priority", "budget", "period", "runs", "delay", "blackout", "an activation ends"]);
    for (place, (server, (blackout, delay))) in input.secure.servers.iter().zip(&input.bounds.blackouts_ns).enumerate()
    {
        let budget = server.budget;
        table.row(vec![
            Cell::Partition(input.world(), server.name.clone()),
            Cell::Number(server.priority.to_string()),
            Cell::Time(budget.map(|budget| budget.budget_ns)),
            Cell::Time(budget.map(|budget| budget.period_ns)),
            Cell::text(if input.secure.has_windows(place) { "in its windows".to_owned() } else { when(server) }),
            Cell::Time(*delay),
            Cell::Time(*blackout),
            Cell::text(end(server)),
        ]);
    }
    table.write(html);
    let note = "Delay: until the other world runs, with a budget in hand. Blackout: with one that was just used up.";
    html.leaf("p", &[("class", &"note")], note);
}

/// The windows, and what each may suffer (SG-52).
fn windows(html: &mut Html, input: &WorldsInput<'_>) {
    let Some(windows) = &input.secure.windows else { return };
    let mut table = Table::new(&["window of", "start", "length", "begins late by", "loses"]);
    for (window, suffers) in windows.windows.iter().zip(&input.bounds.windows_ns) {
        let name = input.secure.servers.get(window.server).map_or_else(String::new, |server| server.name.clone());
        table.row(vec![
            Cell::Partition(input.world(), name),
            Cell::Time(Some(window.offset_ns)),
            Cell::Time(Some(window.length_ns)),
            Cell::Time(suffers.latest_start),
            Cell::Time(Some(suffers.most_lost)),
        ]);
    }
    html.leaf("h3", &[], "Windows");
    table.write(html);
    let told = windows
        .interrupt
        .map_or_else(String::new, |intid| format!(" Interrupt {intid} tells the world of each start."));
    let note = format!(
        "Starts in each {}. At most: until its server runs, and of its length, where all more urgent work of the payload falls into it.{told}",
        rough(windows.major_ns)
    );
    html.leaf("p", &[("class", &"note")], note);
}

fn when(server: &WorldServer) -> String {
    if server.latency.is_some() && server.interrupts.is_empty() {
        return "when the world wants it or a less urgent one".to_owned();
    }
    if server.interrupts.is_empty() && server.budget.is_none() {
        return "whenever nothing more urgent does".to_owned();
    }
    if server.interrupts.is_empty() {
        return "as soon as it has a budget".to_owned();
    }
    let list: Vec<_> = server.interrupts.iter().map(u32::to_string).collect();
    format!("after interrupt {}", list.join(", "))
}

fn end(server: &WorldServer) -> &'static str {
    match (server.budget, server.voluntary_return) {
        (Some(_), false) => "with its budget",
        (Some(_), true) => "with its budget, or when the world gives the core back",
        (None, true) => "when the world gives the core back",
        (None, false) => "",
    }
}
