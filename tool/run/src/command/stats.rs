//! `bulkhead stats`: counters per vCPU, use of shared cores, refused DMA and state per partition of a running machine.

use super::show::partitions_json;
use super::{Format, RunChoice, dma, finish, instances, parse_duration, usage};
use crate::diagnosis::{phase_name, reason_name, state_name};
use crate::error::RunError;
use crate::observer::Observer;
use crate::tally;
use bulkhead_abi::observe::COUNTER_NAMES;
use bulkhead_abi::plan::VcpuPlan;
use bulkhead_files::table::table;
use serde_json::{Value, json};
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

/// Shown at the end of `bulkhead stats --help`.
const EXAMPLES: &str = "\
Examples:
  bulkhead stats                          the only run there is
  bulkhead stats --live --interval 5s     again every five seconds, with what changed
  bulkhead stats --format json            every counter, for programs

Of a system with a [secure] section there is what the payload records, with [trace] enabled = true in the description: how often
each of its tasks and each server had the core, budgets that were used up, restarts of the world below. Of partitions below a
payload there is all that there is of any partition.

Of a partition whose guest is an instance of the real-time kernel there is what each of its servers and threads used, and how often
each call was made.

Of partitions with PCI functions there is the DMA that the SMMU refused to them: how much, and of the latest one what was wrong, the
StreamID and the address. A partition whose `health` says `dma_poll` counts it from boot on; of one that does not, there are the
events that are in the queue of all functions, 256 at most.";

/// Arguments of `bulkhead stats`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct StatsArguments {
    /// The machine.
    #[command(flatten)]
    pub choice: RunChoice,
    /// Form of the output.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Print again after each interval until interrupted, with the change since the last time.
    #[arg(long)]
    pub live: bool,
    /// Interval of `--live`.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "1 s")]
    pub interval: Duration,
}

/// Runs `bulkhead stats`.
#[must_use]
pub fn stats(arguments: &StatsArguments) -> ExitCode {
    finish(show(arguments))
}

fn show(arguments: &StatsArguments) -> Result<(), RunError> {
    let (observer, mut payload) = arguments.choice.look()?;
    let mut before = None;
    loop {
        let now = observer.as_ref().map(counters);
        let text = match arguments.format {
            Format::Text => {
                let below = observer.as_ref().zip(now.as_ref());
                let below = below.map(|(observer, now)| text_of(observer, now, before.as_ref()));
                let above = payload.as_ref().map(tally::text);
                above.into_iter().chain(below).collect::<Vec<_>>().join("\n")
            }
            Format::Json => format!("{}\n", json_of(observer.as_ref(), payload.as_ref())),
        };
        // A reader that went away ends the command, and is no mistake.
        if bulkhead_files::Output.write_all(text.as_bytes()).is_err() || !arguments.live {
            return Ok(());
        }
        before = now;
        std::thread::sleep(arguments.interval);
        if payload.is_some() {
            // Its run adds up; a new visitor is told the newest sum.
            payload = arguments.choice.look()?.1;
        }
    }
}

/// Everything as JSON: what the monitor below keeps, and what a payload's records come to.
fn json_of(observer: Option<&Observer>, payload: Option<&Value>) -> Value {
    let mut form = observer.map_or_else(|| json!({}), stats_json);
    if let Some(payload) = payload {
        form["payload"] = payload.clone();
    }
    form
}

/// Counters per vCPU, by core and slot, in the order of [`COUNTER_NAMES`].
type Table = Vec<Vec<u64>>;

fn counters(observer: &Observer) -> Table {
    let of_vcpu = |(_, plan): (usize, &VcpuPlan)| {
        let page = observer.vcpu_counter_page(plan.partition as usize, plan.vcpu as usize);
        COUNTER_NAMES.iter().map(|(counter, _)| page.values[*counter as usize]).collect()
    };
    observer.plan().vcpus().map(of_vcpu).collect()
}

/// Returns the table for people: partitions, then counters that are not zero everywhere, one column per vCPU, then
/// what shared cores gave to whom.
#[must_use]
pub fn stats_text(observer: &Observer) -> String {
    text_of(observer, &counters(observer), None)
}

fn text_of(observer: &Observer, now: &Table, before: Option<&Table>) -> String {
    let mut rows = vec![
        ["partition", "state", "reason", "starts", "restarts", "faults", "heartbeats"].map(str::to_owned).to_vec(),
    ];
    for partition in 0..observer.partition_count() {
        let status = observer.status(partition);
        rows.push(vec![
            observer.plan().partition_name(partition).to_owned(),
            state_name(status.state).to_owned(),
            reason_name(status.reason).to_owned(),
            status.generation.to_string(),
            status.restarts.to_string(),
            status.faults.to_string(),
            status.heartbeats.to_string(),
        ]);
    }
    let mut text = table(&rows, 1, 0);
    text.push('\n');
    text.push_str(&table(&counter_rows(observer, now, before), 1, 0));
    text.push_str(&usage::text(observer));
    text.push_str(&instances::text(observer));
    text.push_str(&dma::text(observer));
    for core in 0..observer.core_count() {
        if let Some(report) = crate::CrashReport::of_core(observer, core) {
            text.push_str(&format!("{report}\n"));
        }
    }
    text
}

fn counter_rows(observer: &Observer, now: &Table, before: Option<&Table>) -> Vec<Vec<String>> {
    let mut head = vec!["core".to_owned()];
    let mut owners = vec!["partition".to_owned()];
    for (core, plan) in observer.plan().vcpus() {
        head.push(core.to_string());
        owners.push(observer.plan().partition_name(plan.partition as usize).to_owned());
    }
    let mut rows = vec![head, owners];
    for (index, (_, name)) in COUNTER_NAMES.iter().enumerate() {
        if now.iter().all(|values| values[index] == 0) {
            continue;
        }
        let mut row = vec![(*name).to_owned()];
        for (column, values) in now.iter().enumerate() {
            let change = before.map(|before| values[index].wrapping_sub(before[column][index]));
            row.push(match change {
                Some(change) => format!("{} (+{change})", values[index]),
                None => values[index].to_string(),
            });
        }
        rows.push(row);
    }
    rows
}

/// Returns everything as JSON.
#[must_use]
pub fn stats_json(observer: &Observer) -> Value {
    let vcpus = observer.plan().vcpus().map(|(core, plan)| {
        let (partition, vcpu) = (plan.partition as usize, plan.vcpu as usize);
        let page = observer.vcpu_counter_page(partition, vcpu);
        let counters: serde_json::Map<String, Value> = COUNTER_NAMES
            .iter()
            .map(|(counter, name)| (json_key(name), json!(page.values[*counter as usize])))
            .collect();
        json!({
            "core": core,
            "partition": observer.plan().partition_name(partition),
            "vcpu": vcpu,
            "phase": phase_name(observer.vcpu_phase(partition, vcpu)),
            "entered_ticks": page.entered_ticks,
            "crash": crate::CrashReport::of_core(observer, core).map(|report| report.to_string()),
            "counters": counters,
        })
    });
    json!({
        "partitions": partitions_json(observer),
        "cores": vcpus.collect::<Vec<_>>(),
        "shared_cores": usage::json(observer),
        "instances": instances::json(observer),
        "dma": dma::json(observer),
    })
}

/// Returns a counter's name as a JSON key: small letters and underscores.
fn json_key(name: &str) -> String {
    let letter = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '_' };
    name.chars().map(letter).collect()
}
