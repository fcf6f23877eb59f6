//! The servers that run the other world, and their windows.

use bulkhead_plan::model::Secure;
use bulkhead_plan::ticks;
use bulkhead_world::flash::{ServerKind, WindowPlan, WorldPlan};
use serde_json::{Value, json};
use std::fmt::Write as _;

fn kind_text(kind: u32) -> &'static str {
    match kind {
        _ if kind == ServerKind::Interrupt as u32 => "interrupt",
        _ if kind == ServerKind::Reserved as u32 => "reserved",
        _ if kind == ServerKind::Background as u32 => "background",
        _ if kind == ServerKind::Latency as u32 => "latency",
        _ => "windows",
    }
}

/// Names of the servers in the order of the plan.
pub(super) fn server_names(secure: &Secure) -> Vec<&str> {
    let mut sorted: Vec<_> = secure.servers.iter().collect();
    sorted.sort_by_key(|server| std::cmp::Reverse(server.priority));
    sorted.into_iter().map(|server| server.name.as_str()).collect()
}

pub(super) fn write_servers(out: &mut String, secure: &Secure, plan: &WorldPlan, counter_hz: u64) {
    let names = server_names(secure);
    for (server, name) in plan.servers.iter().zip(&names) {
        let budget = ticks::to_ns(server.budget_ticks, counter_hz) / 1_000;
        let time = match server.kind {
            kind if kind == ServerKind::Window as u32 => String::from("in its windows"),
            _ if server.budget_ticks == 0 => String::from("what is left"),
            _ => format!("{budget} us in {} ms", server.period),
        };
        line!(out, "  server {name}, priority {}, {}: {time}", server.priority, kind_text(server.kind));
    }
    let us = |ticks| ticks::to_ns(ticks, counter_hz) / 1_000;
    for window in windows(plan) {
        let (server, at, length) = (name_of(&names, window), us(window.offset_ticks), us(window.length_ticks));
        line!(out, "  window of {server} at {at} us of each {} us, for {length} us", us(plan.windows.major_ticks));
    }
    if plan.windows.interrupt != 0 {
        line!(out, "  interrupt {:>3} tells the other world of each start", plan.windows.interrupt);
    }
}

fn windows(plan: &WorldPlan) -> impl Iterator<Item = &WindowPlan> {
    plan.windows.windows.iter().take(plan.windows.count as usize)
}

fn name_of<'a>(names: &[&'a str], window: &WindowPlan) -> &'a str {
    names.get(window.server as usize).copied().unwrap_or("?")
}

pub(super) fn servers_form(secure: &Secure, plan: &WorldPlan) -> Vec<Value> {
    let names = server_names(secure);
    let servers = plan.servers.iter().zip(&names).map(|(server, name)| {
        json!({
            "name": name,
            "kind": kind_text(server.kind),
            "priority": server.priority,
            "budget_ticks": Some(server.budget_ticks).filter(|budget| *budget != 0),
            "period_ms": Some(server.period).filter(|period| *period != 0),
            "voluntary_return": server.voluntary != 0,
        })
    });
    servers.collect()
}

/// `null` where there is no table.
pub(super) fn windows_form(secure: &Secure, plan: &WorldPlan, counter_hz: u64) -> Value {
    if plan.windows.count == 0 {
        return Value::Null;
    }
    let (names, us) = (server_names(secure), |ticks| ticks::to_ns(ticks, counter_hz) / 1_000);
    let form = |window: &WindowPlan| {
        json!({
            "server": name_of(&names, window),
            "offset_us": us(window.offset_ticks),
            "length_us": us(window.length_ticks),
        })
    };
    json!({
        "major_frame_us": us(plan.windows.major_ticks),
        "interrupt": Some(plan.windows.interrupt).filter(|intid| *intid != 0),
        "windows": windows(plan).map(form).collect::<Vec<_>>(),
    })
}
