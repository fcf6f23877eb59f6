//! Who ran when: the whole trace as a strip per vCPU, and one stretch of it exactly.
//!
//! A trace has thousands of turns and a figure has 800 columns. So the strip shows in each column how much of it a vCPU
//! had, in five shades, and the exact figure shows the place that matters most: where somebody waited longest.

use crate::figure::{GUTTER, MARGIN, TimeAxis, WIDTH, at, figure, label, label_within, legend, rectangle};
use crate::html::Html;
use crate::words::rough;
use bulkhead_trace::{EventKind, Interval, Measurements, Run, Timeline};
use std::fmt::Write;

/// Height of a lane.
const LANE: f64 = 30.0;
/// Height of what is drawn in a lane.
const BAR: f64 = 18.0;
/// Room for the number of the core in front of a lane's name.
const CORE: f64 = 48.0;
/// Columns of the strip.
const COLUMNS: u64 = 400;
/// Shades of the strip.
const SHADES: usize = 5;
/// Most turns that are shown exactly.
const MOST_TURNS: usize = 240;

/// Writes the strip of all cores in the trace.
pub(crate) fn strip(html: &mut Html, timeline: &Timeline, measured: &Measurements) {
    let lanes: Vec<_> = (timeline.layout.cores.iter().enumerate())
        .flat_map(|(core, layout)| (0..layout.slots.len()).map(move |slot| (core, slot)))
        .collect();
    let axis = TimeAxis::new(timeline.from_ns, timeline.to_ns);
    let bottom = lanes.len() as f64 * LANE + 6.0;
    let title = format!(
        "The whole trace, {} long. A column is darker the more of it the vCPU had; below it, in the thin line, where it \
         was ready and waited.",
        rough(timeline.length_ns())
    );
    figure(html, bottom + 26.0, &title, |html| {
        axis.write(html, 4.0, bottom);
        for (lane, (core, slot)) in lanes.iter().enumerate() {
            let top = lane as f64 * LANE + 4.0;
            lane_name(html, timeline, *core, *slot, top);
            let Some(measure) = measured.cores.get(*core).and_then(|core| core.slots.get(*slot)) else { continue };
            let partition = timeline.layout.slot(*core, *slot).map_or(0, |owner| owner.partition);
            shades(html, timeline, &measure.running, &axis, (top + 3.0, BAR), partition);
            shades(html, timeline, &measure.ready.without(&measure.running), &axis, (top + 23.0, 2.5), WAIT);
        }
    });
}

/// In the place of a partition: waiting.
const WAIT: usize = usize::MAX;

fn lane_name(html: &mut Html, timeline: &Timeline, core: usize, slot: usize, top: f64) {
    let name = timeline.layout.slot_name(core, slot).to_string();
    label_within(html, GUTTER - 10.0, top + 17.0, GUTTER - 10.0 - CORE, "lane end", &name);
    if slot == 0 {
        label(html, 2.0, top + 17.0, "tick", &format!("core {core}"));
    }
}

/// Draws a set of times column by column: one path per shade.
fn shades(
    html: &mut Html,
    timeline: &Timeline,
    set: &bulkhead_trace::Intervals,
    axis: &TimeAxis,
    place: (f64, f64),
    partition: usize,
) {
    let mut paths = vec![String::new(); SHADES];
    let column_ns = timeline.length_ns().div_ceil(COLUMNS).max(1);
    let width = (WIDTH - MARGIN - GUTTER) / COLUMNS as f64 + 0.15;
    for column in 0..COLUMNS {
        let from = timeline.from_ns + column * column_ns;
        let to = (from + column_ns).min(timeline.to_ns);
        let amount = set.within(from, to);
        if from >= to || amount == 0 {
            continue;
        }
        let shade = (amount * SHADES as u64).div_ceil(to - from).clamp(1, SHADES as u64) as usize - 1;
        if let Some(path) = paths.get_mut(shade) {
            let (x, width, height) = (at(axis.place(from)), at(width), at(place.1));
            let _ = write!(path, "M{x} {}h{width}v{height}h-{width}z", at(place.0));
        }
    }
    for (shade, path) in paths.iter().enumerate().filter(|(_, path)| !path.is_empty()) {
        let class = match partition {
            WAIT => format!("wait s{}", shade + 1),
            partition => format!("p{} s{}", partition % 8, shade + 1),
        };
        html.void("path", &[("d", path), ("class", &class)]);
    }
}

/// Writes the exact figure of a shared core around its longest wait, if there is one.
pub(crate) fn exact(html: &mut Html, timeline: &Timeline, measured: &Measurements, core: usize) {
    let Some((slot, wait)) = longest_wait(measured, core) else { return };
    let runs = timeline.runs(core);
    let (from_ns, to_ns) = around(timeline, &runs, wait);
    let name = timeline.layout.slot_name(core, slot);
    let title = format!(
        "Core {core} where somebody waited longest: {name} was ready and did not run for {} from {} on.",
        rough(wait.length_ns()),
        rough(wait.from_ns)
    );
    let slots = timeline.layout.cores.get(core).map_or(0, |layout| layout.slots.len());
    let bottom = slots as f64 * LANE + 22.0;
    figure(html, bottom + 26.0, &title, |html| {
        let axis = TimeAxis::new(from_ns, to_ns);
        axis.write(html, 18.0, bottom);
        for lane in 0..slots {
            lane_name(html, timeline, core, lane, lane as f64 * LANE + 18.0);
        }
        draw_waits(html, measured, core, &axis, (from_ns, to_ns));
        for run in runs.iter().filter(|run| run.to_ns > from_ns && run.from_ns < to_ns) {
            draw_run(html, timeline, core, run, &axis);
        }
        draw_marks(html, timeline, core, &axis, (from_ns, to_ns));
    });
    let entries = [
        ("run", "runs on its budget"),
        ("run background", "runs in the background"),
        ("waiting", "ready, does not run"),
        ("mark", "interrupt that waits for its owner"),
        ("mark empty", "budget used up"),
    ];
    legend(html, &entries);
}

/// Returns the longest time that a vCPU of the core was ready and did not run.
fn longest_wait(measured: &Measurements, core: usize) -> Option<(usize, Interval)> {
    let slots = measured.cores.get(core)?.slots.iter().enumerate();
    let waits = slots.flat_map(|(slot, measure)| {
        let waits = measure.ready.without(&measure.running);
        waits.as_slice().iter().map(|wait| (slot, *wait)).collect::<Vec<_>>()
    });
    // The first of equal ones, so that the figure does not depend on how iterators end.
    waits.reduce(|best, next| if next.1.length_ns() > best.1.length_ns() { next } else { best })
}

/// Returns a stretch of the trace around a wait: as long again, but with no more turns than can be told apart.
fn around(timeline: &Timeline, runs: &[Run], wait: Interval) -> (u64, u64) {
    let mut margin = wait.length_ns() / 2 + 1;
    loop {
        let from = wait.from_ns.saturating_sub(margin).max(timeline.from_ns);
        let to = wait.to_ns.saturating_add(margin).min(timeline.to_ns);
        let turns = runs.iter().filter(|run| run.to_ns > from && run.from_ns < to).count();
        if turns <= MOST_TURNS || margin == 0 {
            return (from, to);
        }
        margin /= 2;
    }
}

fn draw_run(html: &mut Html, timeline: &Timeline, core: usize, run: &Run, axis: &TimeAxis) {
    let partition = timeline.layout.slot(core, run.slot).map_or(0, |owner| owner.partition);
    let background = if run.background { " background" } else { "" };
    let server = run.server.and_then(|server| timeline.layout.server_name(core, server)).unwrap_or("");
    let title = format!(
        "{} for {} from {}{}{server}",
        timeline.layout.slot_name(core, run.slot),
        rough(run.to_ns - run.from_ns),
        rough(run.from_ns),
        if server.is_empty() { "" } else { ", server " },
    );
    let (left, right) = (axis.place(run.from_ns), axis.place(run.to_ns));
    let top = run.slot as f64 * LANE + 22.0;
    let class = format!("p{}{background} edge", partition % 8);
    rectangle(html, [left, top, (right - left).max(0.8), BAR], &class, &title);
}

fn draw_waits(html: &mut Html, measured: &Measurements, core: usize, axis: &TimeAxis, window: (u64, u64)) {
    let slots = measured.cores.get(core).map(|core| core.slots.as_slice()).unwrap_or_default();
    for (slot, measure) in slots.iter().enumerate() {
        for wait in measure.ready.without(&measure.running).as_slice() {
            if wait.to_ns > window.0 && wait.from_ns < window.1 {
                let (left, right) = (axis.place(wait.from_ns), axis.place(wait.to_ns));
                let top = slot as f64 * LANE + 22.0 + BAR / 2.0 - 2.0;
                rectangle(html, [left, top, right - left, 4.0], "waiting", "");
            }
        }
    }
}

/// Marks above the lane: interrupts that wait, budgets that are used up.
fn draw_marks(html: &mut Html, timeline: &Timeline, core: usize, axis: &TimeAxis, window: (u64, u64)) {
    let servers = timeline.layout.cores.get(core).map(|layout| layout.servers.as_slice()).unwrap_or_default();
    for event in timeline.of_core(core).filter(|event| (window.0..=window.1).contains(&event.time_ns)) {
        let (slot, class, title) = match event.kind {
            EventKind::Interrupt { intid, owner: Some(owner), held: true } => {
                let slots = timeline.layout.slots_of(owner);
                let slot = slots.into_iter().find(|(on, _)| *on == core).map(|(_, slot)| slot);
                (slot, "mark", format!("interrupt {intid} at {}", rough(event.time_ns)))
            }
            EventKind::Exhausted { server } => {
                let slot = servers.get(server).map(|server| server.slot);
                (slot, "mark empty", format!("budget used up at {}", rough(event.time_ns)))
            }
            _ => continue,
        };
        let Some(slot) = slot else { continue };
        let (x, y) = (axis.place(event.time_ns), slot as f64 * LANE + 20.0);
        let path = format!("M{} {}l-4 -6h8z", at(x), at(y));
        html.element("path", &[("d", &path), ("class", &class)], |html| html.leaf("title", &[], title));
    }
}
