//! The form for people: who ran when as a chart, the first events, and a table of what each one got.

use crate::event::{Event, EventKind, Sink};
use crate::simulation::Counts;
use crate::stage::{Lanes, Stage};
use bulkhead_description::unit::format_duration;
use std::fmt::Write as _;
use std::io;

/// Columns of the chart.
const COLUMNS: usize = 100;
/// Events that are listed.
const LISTED: usize = 40;

/// What is remembered of one that runs.
#[derive(Clone, Debug, Default)]
struct Lane {
    /// Time with and without budget in each column.
    columns: Vec<(u64, u64)>,
    /// It runs since then, in the background or not.
    since: Option<(u64, bool)>,
    starts: u64,
    exhaustions: u64,
    arrivals: u64,
    done: u64,
    worst_response_ns: u64,
    budgeted_ns: u64,
    background_ns: u64,
}

/// Collects what the text shows; needs the same memory for any length of the simulation.
#[derive(Debug)]
pub struct TextSink {
    until_ns: u64,
    lanes: Vec<Vec<Lane>>,
    first: Vec<Event>,
}

impl TextSink {
    /// A collector for a simulation that ends at this time.
    #[must_use]
    pub fn new(stage: &dyn Stage, until_ns: u64) -> Self {
        let lane = Lane { columns: vec![(0, 0); COLUMNS], ..Lane::default() };
        let lanes = stage.lanes().iter().map(|core| vec![lane.clone(); core.names.len()]).collect();
        Self { until_ns: until_ns.max(1), lanes, first: Vec::new() }
    }

    fn stop(lane: &mut Lane, now_ns: u64, until_ns: u64) {
        let Some((from_ns, background)) = lane.since.take() else { return };
        let total = if background { &mut lane.background_ns } else { &mut lane.budgeted_ns };
        *total += now_ns - from_ns;
        let start_of = |column: usize| (column as u128 * u128::from(until_ns) / COLUMNS as u128) as u64;
        let first = (u128::from(from_ns) * COLUMNS as u128 / u128::from(until_ns)) as usize;
        for (column, (budgeted, free)) in lane.columns.iter_mut().enumerate().skip(first.saturating_sub(1)) {
            let (start, end) = (start_of(column), start_of(column + 1));
            if start >= now_ns {
                break;
            }
            let inside = now_ns.min(end).saturating_sub(from_ns.max(start));
            *(if background { free } else { budgeted }) += inside;
        }
    }

    /// Writes everything.
    #[must_use]
    pub fn text(mut self, stage: &dyn Stage, counts: Counts) -> String {
        let end_ns = counts.cut_ns.unwrap_or(self.until_ns);
        for lane in self.lanes.iter_mut().flatten() {
            Self::stop(lane, end_ns, self.until_ns);
        }
        let mut text = String::new();
        let cores = stage.lanes();
        for (index, core) in cores.iter().enumerate() {
            let lanes = self.lanes.get(index).map_or(&[] as &[Lane], Vec::as_slice);
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{}, 0 to {}", core.title, format_duration(self.until_ns));
            self.chart(&mut text, core, lanes);
            table(&mut text, core, stage.noun(), lanes, end_ns);
            text.push('\n');
        }
        text.push_str(&stage.remarks());
        self.list(&mut text, &cores, counts);
        text
    }

    fn chart(&self, text: &mut String, core: &Lanes, lanes: &[Lane]) {
        let width = core.names.iter().map(String::len).max().unwrap_or(0).max(4);
        for (name, lane) in core.names.iter().zip(lanes) {
            let _ = write!(text, "  {name:width$} |");
            let column_ns = (self.until_ns / COLUMNS as u64).max(1);
            text.extend(lane.columns.iter().map(|(budgeted, free)| {
                let used = budgeted + free;
                match () {
                    () if used == 0 => ' ',
                    () if free > budgeted => '-',
                    () if used * 2 >= column_ns => '#',
                    () => '+',
                }
            }));
            text.push_str("|\n");
        }
        let column = format_duration(self.until_ns / COLUMNS as u64);
        let _ = writeln!(text, "  a column is {column}: # runs, + runs for less than half, - in the background\n");
    }

    fn list(&self, text: &mut String, cores: &[Lanes], counts: Counts) {
        let shown = self.first.len();
        let _ = writeln!(text, "the first {shown} of {} events", counts.events);
        for event in &self.first {
            let place = cores.get(event.core);
            let core = place.map_or(0, |core| core.number);
            let name = place.and_then(|core| core.names.get(event.slot)).map_or("?", String::as_str);
            let server = event.server.map_or_else(String::new, |server| format!(" server {server}"));
            let more = match event.kind {
                EventKind::Start { background: true } => String::from(", in the background"),
                EventKind::Complete { response_ns } => format!(" after {}", format_duration(response_ns)),
                _ => String::new(),
            };
            let word = event.kind.word();
            let _ = writeln!(text, "  {:>14} ns  core {core}  {name}{server} {word}{more}", event.time_ns);
        }
        if let Some(cut_ns) = counts.cut_ns {
            let _ = writeln!(text, "ended by --events at {}", format_duration(cut_ns));
        }
    }
}

fn table(text: &mut String, core: &Lanes, noun: &str, lanes: &[Lane], end_ns: u64) {
    let head = [noun, "arrived", "done", "worst ns", "budget ns", "background ns", "share", "starts", "empty"];
    let mut rows = vec![head.map(String::from).to_vec()];
    let share = |time_ns: u64| format!("{:.2} %", time_ns as f64 * 100.0 / end_ns.max(1) as f64);
    for (name, lane) in core.names.iter().zip(lanes) {
        let worst = if lane.done == 0 { String::from("-") } else { lane.worst_response_ns.to_string() };
        rows.push(vec![
            name.clone(),
            lane.arrivals.to_string(),
            lane.done.to_string(),
            worst,
            lane.budgeted_ns.to_string(),
            lane.background_ns.to_string(),
            share(lane.budgeted_ns + lane.background_ns),
            lane.starts.to_string(),
            lane.exhaustions.to_string(),
        ]);
    }
    text.push_str(&bulkhead_files::table::table(&rows, 1, 2));
    let idle_ns = core.idle_ns;
    let _ = writeln!(text, "  idle {idle_ns} ns, {}", share(idle_ns));
}

impl Sink for TextSink {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        if self.first.len() < LISTED {
            self.first.push(*event);
        }
        let until_ns = self.until_ns;
        let Some(lane) = self.lanes.get_mut(event.core).and_then(|lanes| lanes.get_mut(event.slot)) else {
            return Ok(());
        };
        match event.kind {
            EventKind::Start { background } => {
                lane.since = Some((event.time_ns, background));
                lane.starts += 1;
            }
            EventKind::Stop => Self::stop(lane, event.time_ns, until_ns),
            EventKind::Exhaust => lane.exhaustions += 1,
            EventKind::Arrive | EventKind::Interrupt => lane.arrivals += 1,
            EventKind::Complete { response_ns } => {
                lane.done += 1;
                lane.worst_response_ns = lane.worst_response_ns.max(response_ns);
            }
            EventKind::Replenish | EventKind::Admit | EventKind::Refuse | EventKind::End => {}
        }
        Ok(())
    }
}
