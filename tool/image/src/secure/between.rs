//! What both worlds have to do with each other: urgent interrupts, health, channels.

use super::servers::server_names;
use bulkhead_abi::plan::{POLICY_HALT, POLICY_RESTART};
use bulkhead_flash::Flash;
use bulkhead_plan::model::{Secure, System};
use bulkhead_plan::ticks;
use bulkhead_world::flash::{ChannelDirection, ChannelPlan, UrgentPlan, WorldPlan};
use bulkhead_world::health::HealthPlan;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// The channels of a plan.
pub(super) fn channels(flash: &Flash) -> impl Iterator<Item = &ChannelPlan> {
    flash.plan.channels.iter().filter(|channel| channel.direction != 0)
}

pub(super) fn channel_name(channel: &ChannelPlan) -> String {
    let name: Vec<u8> = channel.name.iter().copied().take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&name).into_owned()
}

fn is_to_world(channel: &ChannelPlan) -> bool {
    channel.direction == ChannelDirection::ToWorld as u32
}

/// How the reader of a channel learns of a message.
fn signal_text(channel: &ChannelPlan) -> String {
    match (is_to_world(channel), channel.interrupt, channel.poll) {
        (true, 0, _) => String::from("it looks by itself"),
        (true, intid, _) => format!("interrupt {intid}"),
        (false, _, 0) => String::from("by call"),
        (false, _, ticks) => format!("looked for every {ticks} ms"),
    }
}

fn channel_text(channel: &ChannelPlan, partition: Option<&str>) -> String {
    let to = match (is_to_world(channel), partition) {
        (true, None) => String::from("to the world"),
        (true, Some(name)) => format!("to {name}"),
        (false, None) => String::from("to the payload"),
        (false, Some(name)) => format!("from {name} to the payload"),
    };
    let (name, blocks, bytes) = (channel_name(channel), channel.blocks, channel.block_bytes);
    format!("{name} {to}, {blocks} blocks of {bytes} bytes at {:#x}, {}", channel.address, signal_text(channel))
}

/// What both worlds have to do with each other: interrupts, health, channels.
pub(super) fn write_between(out: &mut String, system: &System, secure: &Secure, flash: &Flash) {
    line!(out, "  interrupts: every other one, group 1 non-secure");
    write_health(out, secure, &flash.plan.health, system.board.counter_hz);
    let names = server_names(secure);
    for urgent in urgent(&flash.plan) {
        let server = names.get(urgent.server as usize).copied().unwrap_or("?");
        line!(out, "  interrupt {:>3} wakes {server} while the payload runs", urgent.intid);
    }
    for (number, channel) in channels(flash).enumerate() {
        line!(out, "  channel {number} {}", channel_text(channel, partition_of(system, secure, number)));
    }
}

/// The partition at the other end of a channel; `None` where one image is below.
fn partition_of<'a>(system: &'a System, secure: &Secure, channel: usize) -> Option<&'a str> {
    let partition = secure.channels.get(channel)?.partition?;
    system.partitions.get(partition).map(|partition| partition.name.as_str())
}

/// How the other world is watched, by the plan.
fn write_health(out: &mut String, secure: &Secure, health: &HealthPlan, counter_hz: u64) {
    if secure.health.is_none() {
        line!(out, "  health: the payload's own business");
        return;
    }
    let ms = |ticks| ticks::to_ns(ticks, counter_hz) / 1_000_000;
    let heartbeat = match health.heartbeat_ticks {
        0 => String::from("no heartbeat"),
        period => format!("heartbeat each {} ms, {} missed are a fault", ms(period), health.missed),
    };
    let progress = match health.stuck_samples {
        0 => String::from("progress not judged"),
        samples => format!("stuck after {samples} samples"),
    };
    let policy = match health.policy {
        POLICY_RESTART => format!(
            "restart after {} ms, at most {} within {} ms",
            ms(health.backoff_ticks),
            health.max_restarts,
            ms(health.within_ticks)
        ),
        POLICY_HALT => String::from("halt"),
        _ => String::from("stop"),
    };
    line!(out, "  health: {heartbeat}; {progress}; after a fault: {policy}");
}

/// The interrupts that wake a server while the payload runs.
fn urgent(plan: &WorldPlan) -> impl Iterator<Item = &UrgentPlan> {
    plan.urgent.iter().filter(|urgent| urgent.intid != 0)
}

pub(super) fn urgent_form(secure: &Secure, plan: &WorldPlan) -> Vec<Value> {
    let names = server_names(secure);
    let form = |urgent: &UrgentPlan| json!({ "intid": urgent.intid, "server": names.get(urgent.server as usize) });
    urgent(plan).map(form).collect()
}

pub(super) fn channels_form(system: &System, secure: &Secure, flash: &Flash) -> Vec<Value> {
    let form = |(number, channel): (usize, &ChannelPlan)| {
        json!({
            "name": channel_name(channel),
            "partition": partition_of(system, secure, number),
            "direction": if is_to_world(channel) { "to_world" } else { "to_payload" },
            "blocks": channel.blocks,
            "block_bytes": channel.block_bytes,
            "start": channel.address,
            "interrupt": Some(channel.interrupt).filter(|intid| *intid != 0),
            "poll_ms": Some(channel.poll).filter(|ticks| *ticks != 0),
        })
    };
    channels(flash).enumerate().map(form).collect()
}

/// The plan's own numbers: ticks of the counter.
pub(super) fn health_form(health: &HealthPlan) -> Value {
    let policy = match health.policy {
        POLICY_RESTART => "restart",
        POLICY_HALT => "halt",
        _ => "stop",
    };
    let is_restarted = health.policy == POLICY_RESTART;
    json!({
        "heartbeat_ticks": Some(health.heartbeat_ticks).filter(|ticks| *ticks != 0),
        "missed": health.missed,
        "stuck_samples": Some(health.stuck_samples).filter(|samples| *samples != 0),
        "on_fault": policy,
        "max_restarts": Some(health.max_restarts).filter(|_| is_restarted),
        "within_ticks": Some(health.within_ticks).filter(|_| is_restarted),
        "backoff_ticks": Some(health.backoff_ticks).filter(|_| is_restarted),
    })
}
