//! The time of a payload in the secure world, and of the world below it (SG-47).
//!
//! All of it in nanoseconds, as the description has it: the payload's kernel counts milliseconds and the paths are instructions, so that ticks
//! of the counter would add nothing but rounding.

use crate::assumption::Assumptions;
use crate::clock::readable;
use bulkhead_abi::PAGE_BYTES;
use bulkhead_analysis::payload::{
    Disturbance, PROMISED_KERNEL, PROMISED_PATHS, PROMISED_START, Payload, Server, Task, Windows,
};
use bulkhead_analysis::steps::Steps;
use bulkhead_analysis::table::Window;
use bulkhead_description::spans::{SecureSpans, Spans};
use bulkhead_description::unit::format_duration;
use bulkhead_description::{Code, Diagnostic};
use bulkhead_plan::loading::DEVICE_TREE_BYTES;
use bulkhead_plan::model::{HealthPolicy, KERNEL_TICK_NS, Secure, System, World};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// A blackout beyond this is none that anybody could wait for.
const LONGEST_BLACKOUT_NS: u64 = 60_000_000_000;
/// Finest step in which advice is given.
const ADVICE_NS: u64 = 10_000;

/// Bounds of a payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PayloadBounds {
    /// By task: its worst response, if there is a bound.
    pub responses_ns: Vec<Option<u64>>,
    /// By server: the longest time without the core, with its budget used up before; and with it in hand.
    pub blackouts_ns: Vec<(Option<u64>, Option<u64>)>,
    /// Longest time from a secure interrupt to the payload's vector.
    pub latency_ns: u64,
    /// By window, in the order of their starts: the longest time until its server runs, and the most of its length that this loses.
    pub windows_ns: Vec<Disturbance>,
    /// Longest start or restart of the world below, from its order until a server may run it, if there is a bound. The wait before it is not in it.
    pub start_ns: Option<u64>,
}

fn model(secure: &Secure, assumptions: &Assumptions) -> Payload {
    let tasks = secure.tasks.iter().map(|one| Task {
        priority: one.priority,
        cost: one.task.cost_ns,
        period: one.task.period_ns,
    });
    let servers = secure.servers.iter().map(|one| Server {
        priority: one.priority,
        budget: one.budget.map(|budget| (budget.budget_ns, budget.period_ns)),
    });
    // Without a world below nothing is switched.
    let switch = if !secure.is_alone() { switch_ns(assumptions) } else { 0 };
    let handlers = secure.handlers.iter().map(|handler| (handler.cost_ns, handler.period_ns)).collect();
    let windows = secure.windows.as_ref().map(|table| Windows {
        major: table.major_ns,
        list: table
            .windows
            .iter()
            .map(|one| Window { offset_ticks: one.offset_ns, length_ticks: one.length_ns, owner: one.server })
            .collect(),
        boundary: assumptions.instructions_ns(PROMISED_KERNEL.boundary),
        tick: (assumptions.instructions_ns(PROMISED_KERNEL.tick), KERNEL_TICK_NS),
    });
    Payload { tasks: tasks.collect(), servers: servers.collect(), switch, handlers, windows }
}

/// What a start takes when nothing comes between.
fn start_cost_ns(world: &World, assumptions: &Assumptions) -> u64 {
    let pages = |bytes: u64| bytes.div_ceil(PAGE_BYTES);
    // Each part, and the device tree, may begin and end inside of a page.
    let copied =
        pages(world.image.content_bytes().saturating_add(DEVICE_TREE_BYTES)).saturating_add(world.image.parts());
    assumptions.instructions_ns(PROMISED_START.instructions(pages(world.memory.bytes), copied))
}

fn switch_ns(assumptions: &Assumptions) -> u64 {
    assumptions.instructions_ns(PROMISED_PATHS.to_payload.saturating_add(PROMISED_PATHS.to_world))
}

/// Computes the bounds; `None` for a system of partitions.
#[must_use]
pub fn bounds(system: &System, assumptions: &Assumptions) -> Option<PayloadBounds> {
    let secure = system.secure.as_ref()?;
    let (payload, steps) = (model(secure, assumptions), Steps::default());
    let blackout = |server| {
        let search = |steps: &Steps| {
            (payload.blackout(server, LONGEST_BLACKOUT_NS, steps), payload.wait(server, LONGEST_BLACKOUT_NS, steps))
        };
        steps.bound(search).0
    };
    Some(PayloadBounds {
        responses_ns: (0..secure.tasks.len())
            .map(|task| steps.bound(|steps| payload.response(task, steps)).0)
            .collect(),
        blackouts_ns: (0..secure.servers.len()).map(blackout).collect(),
        latency_ns: payload.switch,
        windows_ns: (0..secure.windows.as_ref().map_or(0, |table| table.windows.len()))
            .filter_map(|window| steps.bound(|steps| payload.disturbance(window, steps)).0)
            .collect(),
        start_ns: secure.world().and_then(|world| {
            let cost = start_cost_ns(world, assumptions);
            steps.bound(|steps| payload.start(cost, LONGEST_BLACKOUT_NS, steps)).0
        }),
    })
}

/// What is refused: tasks that miss their deadlines.
pub(crate) fn judge(system: &System, spans: &Spans, assumptions: &Assumptions) -> Vec<Diagnostic> {
    let (Some(secure), Some(bounds)) = (&system.secure, bounds(system, assumptions)) else { return Vec::new() };
    let Some(spans) = &spans.secure else { return Vec::new() };
    let late = |(place, response): (usize, &Option<u64>)| {
        let deadline_ns = secure.tasks.get(place)?.task.deadline_ns;
        let is_kept = response.is_some_and(|response| response <= deadline_ns);
        (!is_kept).then(|| late_task(secure, spans, assumptions, place, *response))
    };
    let lost = bounds.windows_ns.iter().enumerate().filter_map(|(place, one)| lost_window(secure, spans, place, one));
    bounds.responses_ns.iter().enumerate().filter_map(late).chain(lost).collect()
}

/// BH0809.
fn lost_window(secure: &Secure, spans: &SecureSpans, place: usize, suffers: &Disturbance) -> Option<Diagnostic> {
    let (window, span) = secure.windows.as_ref()?.windows.get(place).zip(spans.windows.get(place))?;
    if suffers.most_lost < window.length_ns {
        return None;
    }
    let name = &secure.servers.get(window.server)?.name;
    let message = format!("a window of `{name}` may pass without it");
    let label = format!("more urgent work may take all of its {}", readable(window.length_ns));
    let diagnostic = Diagnostic::new(Code::WindowLost, message).at(*span, label);
    Some(diagnostic.help("make it longer, give the server a higher priority, or make the tasks above it shorter"))
}

/// BH0808.
fn late_task(
    secure: &Secure,
    spans: &SecureSpans,
    assumptions: &Assumptions,
    place: usize,
    response: Option<u64>,
) -> Diagnostic {
    let Some((task, span)) = secure.tasks.get(place).zip(spans.tasks.get(place)) else {
        return Diagnostic::new(Code::PayloadLate, "a task of the payload misses its deadline");
    };
    let (name, deadline_ns) = (&task.task.name, task.task.deadline_ns);
    let payload = model(secure, assumptions);
    let (message, label) = match response {
        Some(response) => (
            format!("task `{name}` of the payload misses its deadline by {}", readable(response - deadline_ns)),
            format!("ends {} after its release at worst, and has {}", readable(response), readable(deadline_ns)),
        ),
        None => (
            format!("task `{name}` of the payload is not certain to end before its next release"),
            format!("has {}", readable(deadline_ns)),
        ),
    };
    let mut diagnostic = Diagnostic::new(Code::PayloadLate, message).at(span.deadline.unwrap_or(span.period), label);
    let share = payload.share_ppm(place);
    if share > 1_000_000 {
        let text = format!("it and what comes before it need {} % of the core", share.div_ceil(10_000));
        diagnostic = diagnostic.note(text);
    }
    let above =
        secure.servers.iter().zip(&spans.servers).enumerate().filter(|(_, (one, _))| one.priority >= task.priority);
    for (number, (server, at)) in above {
        if let Some((open_ns, major_ns)) = windows_of(secure, number) {
            let text = format!("its windows are {} of each {}", readable(open_ns), readable(major_ns));
            diagnostic = diagnostic.at(at.whole, format!("server `{}` is above it: {text}", server.name));
            continue;
        }
        let Some(budget) = server.budget else {
            let text = format!("server `{}` has no budget and is above it", server.name);
            diagnostic = diagnostic.at(at.whole, text);
            continue;
        };
        let fits = |budget_ns: u64| {
            let mut other = payload.clone();
            if let Some(server) = other.servers.get_mut(number) {
                server.budget = Some((budget_ns, budget.period_ns));
            }
            is_kept(&other, place, deadline_ns)
        };
        if let (Some(most_ns), Some(at)) = (largest(budget.budget_ns, fits), at.budget) {
            let text = format!("a budget of {} for `{}` is the most that fits", format_duration(most_ns), server.name);
            return diagnostic.suggest(at, format!("\"{}\"", format_duration(most_ns)), text);
        }
    }
    let fits = |cost_ns: u64| {
        let mut other = payload.clone();
        if let Some(task) = other.tasks.get_mut(place) {
            task.cost = cost_ns;
        }
        is_kept(&other, place, deadline_ns)
    };
    diagnostic.help(match largest(task.task.cost_ns, fits) {
        Some(most_ns) => format!("a cost of {} is the most that fits", format_duration(most_ns)),
        None => String::from("nothing of it fits below what comes before it: give it a higher priority, or lower that"),
    })
}

/// The lengths of a server's windows together, and their round.
fn windows_of(secure: &Secure, server: usize) -> Option<(u64, u64)> {
    let table = secure.windows.as_ref()?;
    let mut lengths = table.windows.iter().filter(|one| one.server == server).map(|one| one.length_ns).peekable();
    lengths.peek()?;
    Some((lengths.fold(0, u64::saturating_add), table.major_ns))
}

fn is_kept(payload: &Payload, task: usize, deadline_ns: u64) -> bool {
    payload.response(task, &Steps::of_advice()).is_some_and(|response| response <= deadline_ns)
}

/// The largest amount below this one that fits, if any does: what fits stays so with less.
fn largest(below_ns: u64, fits: impl Fn(u64) -> bool) -> Option<u64> {
    let (mut good, mut bad) = (0, below_ns.div_ceil(ADVICE_NS));
    while bad.saturating_sub(good) > 1 {
        let middle = good + (bad - good) / 2;
        if fits(middle.saturating_mul(ADVICE_NS)) { good = middle } else { bad = middle }
    }
    (good > 0).then_some(good.saturating_mul(ADVICE_NS))
}

/// Writes the bounds.
pub(crate) fn text(secure: &Secure, bounds: &PayloadBounds, assumptions: &Assumptions) -> String {
    let mut text = format!(
        "bounds at {}.{:03} ns per instruction; gate: {} to the payload, {} to the other world (instructions that tests hold)\n",
        assumptions.instruction_ps / 1_000,
        assumptions.instruction_ps % 1_000,
        PROMISED_PATHS.to_payload,
        PROMISED_PATHS.to_world,
    );
    let time = |ns: Option<u64>| ns.map_or(String::from("none"), readable);
    if !secure.is_alone() {
        let _ = writeln!(
            text,
            "secure interrupt to the payload, whatever the other world does: {}",
            readable(bounds.latency_ns)
        );
    }
    if !secure.tasks.is_empty() {
        let mut rows = vec![["task", "priority", "response", "deadline"].map(String::from).to_vec()];
        for (task, response) in secure.tasks.iter().zip(&bounds.responses_ns) {
            let name = task.task.name.clone();
            rows.push(vec![name, task.priority.to_string(), time(*response), readable(task.task.deadline_ns)]);
        }
        text.push('\n');
        text.push_str(&bulkhead_files::table::table(&rows, 1, 2));
    }
    if !secure.servers.is_empty() {
        let mut rows = vec![["server", "priority", "budget", "period", "delay", "blackout"].map(String::from).to_vec()];
        for (server, (blackout, wait)) in secure.servers.iter().zip(&bounds.blackouts_ns) {
            let (budget, period) = match server.budget {
                Some(budget) => (readable(budget.budget_ns), readable(budget.period_ns)),
                None => (String::from("-"), String::from("-")),
            };
            rows.push(vec![
                server.name.clone(),
                server.priority.to_string(),
                budget,
                period,
                time(*wait),
                time(*blackout),
            ]);
        }
        text.push('\n');
        text.push_str(&bulkhead_files::table::table(&rows, 1, 2));
        text.push_str(
            "  delay: until the other world runs, with a budget in hand; blackout: with one that was just used up\n",
        );
    }
    text.push_str(&windows_text(secure, bounds));
    if let Some(world) = secure.world() {
        let _ = write!(
            text,
            "\nstart or restart of `{}`, until a server may run it: {}",
            world.name,
            time(bounds.start_ns)
        );
        if let Some(HealthPolicy::Restart { backoff_ns, .. }) = secure.health.map(|health| health.policy) {
            let _ = write!(text, ", {} after its fault is found", readable(backoff_ns));
        }
        text.push('\n');
    }
    text
}

/// The windows, and what each may suffer.
fn windows_text(secure: &Secure, bounds: &PayloadBounds) -> String {
    let Some(table) = &secure.windows else { return String::new() };
    let mut rows = vec![["window of", "start", "length", "begins", "loses"].map(String::from).to_vec()];
    for (window, suffers) in table.windows.iter().zip(&bounds.windows_ns) {
        rows.push(vec![
            secure.servers.get(window.server).map_or(String::new(), |server| server.name.clone()),
            readable(window.offset_ns),
            readable(window.length_ns),
            suffers.latest_start.map_or(String::from("none"), readable),
            readable(suffers.most_lost),
        ]);
    }
    let mut text = format!("\nwindows, again every {}\n", readable(table.major_ns));
    text.push_str(&bulkhead_files::table::table(&rows, 1, 2));
    text.push_str(
        "  begins: until its server runs, at most; loses: the most of its length that more urgent work takes\n",
    );
    text
}

/// The bounds for programs: `tasks[]` (`name`, `response_ns`, `deadline_ns`), `servers[]` (`name`, `delay_ns`, `blackout_ns`), `windows[]`
/// (`server`, `offset_ns`, `length_ns`, `latest_start_ns`, `most_lost_ns`), `latency_ns`, `start_ns`.
pub(crate) fn form(secure: &Secure, bounds: &PayloadBounds) -> Value {
    let tasks = secure.tasks.iter().zip(&bounds.responses_ns).map(|(task, response)| {
        json!({ "name": task.task.name, "response_ns": response, "deadline_ns": task.task.deadline_ns })
    });
    let servers =
        secure.servers.iter().zip(&bounds.blackouts_ns).map(
            |(server, (blackout, wait))| json!({ "name": server.name, "delay_ns": wait, "blackout_ns": blackout }),
        );
    let table = secure.windows.iter().flat_map(|table| &table.windows).zip(&bounds.windows_ns);
    let windows = table.map(|(window, suffers)| {
        json!({
            "server": secure.servers.get(window.server).map(|server| &server.name),
            "offset_ns": window.offset_ns,
            "length_ns": window.length_ns,
            "latest_start_ns": suffers.latest_start,
            "most_lost_ns": suffers.most_lost,
        })
    });
    json!({
        "latency_ns": bounds.latency_ns,
        "start_ns": bounds.start_ns,
        "tasks": tasks.collect::<Vec<_>>(),
        "servers": servers.collect::<Vec<_>>(),
        "windows": windows.collect::<Vec<_>>(),
    })
}
