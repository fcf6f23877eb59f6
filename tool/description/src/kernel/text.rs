//! The servers of an instance as text and as JSON, for `bulkhead check`.

use super::{EXCHANGE, PASSAGE, TOP_HALF};
use crate::unit::format_duration;
use bulkhead_plan::model::InstanceServer;
use serde_json::{Value, json};
use std::fmt::Write;

/// A table: what each server has, by when at the latest, and for whom it works. Nothing for an instance without a budget.
#[must_use]
pub fn servers(servers: &[InstanceServer]) -> String {
    if servers.iter().all(|server| server.time_ns.is_none()) {
        return String::new();
    }
    let head = ["number", "server", "rule", "time", "bound", ""].map(str::to_owned);
    let lines: Vec<[String; 6]> = core::iter::once(head).chain(servers.iter().map(line)).collect();
    let widths: [usize; 6] =
        core::array::from_fn(|column| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0));
    let mut text = format!(
        "servers, the most important one first; of the kernel a passage of {PASSAGE} instructions, exchanges of {EXCHANGE} and top halves of {TOP_HALF} are counted, at 16 ns each\n"
    );
    for line in lines {
        let cells: Vec<String> = line.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        let _ = writeln!(text, "  {}", cells.join("  ").trim_end());
    }
    text
}

fn line(server: &InstanceServer) -> [String; 6] {
    let last = server.number + server.band.unwrap_or(1).saturating_sub(1);
    let number = if server.band.is_some() { format!("{}-{last}", server.number) } else { server.number.to_string() };
    let rule = if server.band.is_some() { "band".to_owned() } else { server.rule.name().to_owned() };
    let time = |time: Option<(u64, u64)>| {
        time.map_or_else(
            || "what is left".to_owned(),
            |(budget, period)| format!("{} in {}", format_duration(budget), format_duration(period)),
        )
    };
    let bound = match (server.bound_ns, server.time_ns) {
        (Some(ns), Some(_)) => format_duration(ns),
        _ => "-".to_owned(),
    };
    let mut more = Vec::new();
    for (client, bound_ns) in &server.clients {
        let bound = bound_ns.map_or_else(|| "no bound".to_owned(), format_duration);
        more.push(format!("for {client} by {bound}"));
    }
    more.extend(server.holder.iter().map(|holder| format!("held by {holder}")));
    if server.has_background {
        more.push("and the background".to_owned());
    }
    [number, server.name.clone(), rule, time(server.time_ns), bound, more.join(", ")]
}

/// The same for programs: times in ns, null where there is no bound.
#[must_use]
pub fn json(servers: &[InstanceServer]) -> Value {
    let one = |server: &InstanceServer| {
        let (budget_ns, period_ns) = server.time_ns.unzip();
        let clients = server.clients.iter().map(|(name, bound_ns)| json!({ "name": name, "response_ns": bound_ns }));
        json!({
            "name": server.name,
            "number": server.number,
            "servers": server.band,
            "rule": server.rule.name(),
            "level": server.level,
            "budget_ns": budget_ns,
            "period_ns": period_ns,
            "response_ns": server.bound_ns,
            "background": server.has_background,
            "holder": server.holder,
            "clients": clients.collect::<Vec<_>>(),
        })
    };
    servers.iter().map(one).collect()
}
