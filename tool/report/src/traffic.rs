//! What passes between partitions and devices: interrupts and channels.

use crate::html::Html;
use crate::page::Context;
use crate::table::{Cell, Table};
use crate::timing::InterruptTiming;
use crate::words::size;
use bulkhead_abi::plan::{INTERRUPT_CONSOLE, INTERRUPT_DEVICE, INTERRUPT_DOORBELL, InterruptPlan};
use bulkhead_plan::fronts;
use bulkhead_plan::model::{Limiter, PortKind, System, VirtioKind};
use bulkhead_trace::EventKind;
use bulkhead_trace::measure::InterruptMeasure;
use bulkhead_trace::words::duration;
use bulkhead_words::{RouteRule, name_of};

pub(crate) fn interrupts(html: &mut Html, context: &Context<'_>) {
    let input = &context.input;
    let mut table = Table::new(&[
        "INTID",
        "owner",
        "from",
        "trigger",
        "rule",
        "limit",
        "bound",
        "budget used up",
        "seen",
        "held",
        "longest hold",
    ]);
    for (owner, planned) in input.plan.partitions.iter().enumerate() {
        for interrupt in planned.plan.interrupts() {
            let is_shared = planned.plan.shared_vcpus != 0;
            let seen = measure(context, owner, interrupt.intid);
            let bound = bound(context, owner, interrupt);
            table.row(vec![
                Cell::Number(interrupt.intid.to_string()),
                Cell::Partition(owner, context.partition_name(owner).to_owned()),
                Cell::text(origin(input.system, owner, interrupt)),
                Cell::text(if interrupt.edge != 0 { "edge" } else { "level" }),
                Cell::text(if is_shared { name_of::<RouteRule>(interrupt.route) } else { "" }),
                Cell::text(route_limit(input.system, owner, interrupt.intid)),
                Cell::Time(bound.and_then(|bound| bound.conforming_ns)),
                Cell::Time(bound.and_then(|bound| bound.drained_ns)),
                Cell::Count(seen.map(|seen| seen.count)),
                Cell::Count(seen.map(|seen| seen.held)),
                Cell::Time(seen.and_then(|seen| seen.longest_delivery_ns)),
            ]);
        }
    }
    private_interrupts(&mut table, context);
    if table.is_empty() {
        return;
    }
    html.leaf(
        "p",
        &[("class", &"lead")],
        "Every interrupt has one owner. One that comes while its owner does not run is held and handed over when it does.",
    );
    table.write(html);
    if context.input.timing.cores.iter().any(|core| !core.interrupts.is_empty()) {
        let text = "Bounds reach to the end of a handler whose length is declared, otherwise to its first instruction.";
        html.leaf("p", &[("class", &"note")], text);
    }
}

/// First interrupt that is shared between cores; those below belong to a core and the vCPU that runs on it.
const FIRST_SHARED: u32 = 32;
/// Virtual and physical timer of a guest.
const TIMERS: [u32; 2] = [27, 30];

/// Adds the private interrupts that the trace shows: the timers of guests, and what they send each other.
fn private_interrupts(table: &mut Table, context: &Context<'_>) {
    let Some(measured) = &context.measured else { return };
    let seen = measured.cores.iter().flat_map(|core| core.interrupts.keys());
    let mut keys: Vec<_> = seen.filter_map(|(owner, intid)| Some((*intid, (*owner)?))).collect();
    keys.retain(|(intid, _)| *intid < FIRST_SHARED);
    keys.sort_unstable();
    keys.dedup();
    for (intid, owner) in keys {
        let seen = measure(context, owner, intid);
        let from = if TIMERS.contains(&intid) { "its timer" } else { "private" };
        table.row(vec![
            Cell::Number(intid.to_string()),
            Cell::Partition(owner, context.partition_name(owner).to_owned()),
            Cell::text(from),
            Cell::Dash,
            Cell::Dash,
            Cell::Dash,
            Cell::Dash,
            Cell::Dash,
            Cell::Count(seen.map(|seen| seen.count)),
            Cell::Count(seen.map(|seen| seen.held)),
            Cell::Time(seen.and_then(|seen| seen.longest_delivery_ns)),
        ]);
    }
}

/// Returns what the trace says of an interrupt, all cores together.
fn measure(context: &Context<'_>, owner: usize, intid: u32) -> Option<InterruptMeasure> {
    let measured = context.measured.as_ref()?;
    let seen = measured.cores.iter().filter_map(|core| core.interrupts.get(&(Some(owner), intid)));
    Some(seen.fold(InterruptMeasure::default(), |sum, one| InterruptMeasure {
        count: sum.count + one.count,
        held: sum.held + one.held,
        longest_delivery_ns: sum.longest_delivery_ns.max(one.longest_delivery_ns),
    }))
}

/// Returns the bounds of an interrupt: the worst of its owner's vCPUs.
fn bound<'a>(context: &Context<'a>, owner: usize, interrupt: &InterruptPlan) -> Option<&'a InterruptTiming> {
    let partition = context.input.system.partitions.get(owner)?;
    let devices = &context.input.system.board.devices;
    let place = partition.devices.iter().position(|device| {
        devices.get(*device).is_some_and(|device| device.interrupts.iter().any(|one| one.intid == interrupt.intid))
    });
    let all = context.input.timing.cores.iter().flat_map(|core| &core.interrupts);
    all.filter(|bound| bound.partition == owner && bound.device == place).max_by_key(|bound| bound.drained_ns)
}

fn origin(system: &System, owner: usize, interrupt: &InterruptPlan) -> String {
    match interrupt.kind {
        INTERRUPT_DEVICE => {
            let owned = system.partitions.get(owner).map(|partition| partition.devices.as_slice()).unwrap_or_default();
            let devices = owned.iter().filter_map(|device| system.board.devices.get(*device));
            let found =
                devices.into_iter().find(|device| device.interrupts.iter().any(|one| one.intid == interrupt.intid));
            found.map_or_else(|| "device".to_owned(), |device| format!("device {}", device.name))
        }
        INTERRUPT_DOORBELL => "doorbell".to_owned(),
        INTERRUPT_CONSOLE => "console".to_owned(),
        _ => "?".to_owned(),
    }
}

fn route_limit(system: &System, owner: usize, intid: u32) -> String {
    let Some(partition) = system.partitions.get(owner) else { return String::new() };
    let routes = partition.devices.iter().zip(&partition.device_routes);
    let mut found = routes.filter(|(device, _)| {
        let device = system.board.devices.get(**device);
        device.is_some_and(|device| device.interrupts.iter().any(|one| one.intid == intid))
    });
    found.next().and_then(|(_, route)| route.limit.as_ref()).map(limit_text).unwrap_or_default()
}

fn limit_text(limit: &Limiter) -> String {
    format!("{} in {}", limit.events, duration(limit.period_ns))
}

pub(crate) fn channels(html: &mut Html, context: &Context<'_>) {
    let system = context.input.system;
    let mut table =
        Table::new(&["channel", "from", "to", "kind", "message", "doorbell", "bound", "held back", "rung", "limited"]);
    for (index, channel) in system.channels.iter().enumerate() {
        let (source, destination) = (channel.source.partition, channel.destination.partition);
        let kind = match channel.kind {
            PortKind::Sampling => "sampling".to_owned(),
            PortKind::Queuing { depth } => format!("queuing, {depth} deep"),
        };
        let doorbell = match &channel.doorbell {
            None => Cell::text("none"),
            Some(_) => match (system.aggregate_limiter(channel), system.limiter(channel)) {
                (Some(limit), _) => Cell::text(format!("{}, all senders together", limit_text(&limit))),
                (None, Some(limit)) => Cell::text(limit_text(&limit)),
                (None, None) => Cell::Warning("unlimited".to_owned()),
            },
        };
        let bound = context.input.timing.channels.iter().find(|bound| bound.channel == index);
        let rung = |wanted: bool| {
            let events = context.input.timeline?.events.iter();
            let is_it = |kind: &EventKind| matches!(kind, EventKind::Doorbell { channel, sent, .. } if *channel == index && *sent == wanted);
            Some(events.filter(|event| is_it(&event.kind)).count() as u64)
        };
        table.row(vec![
            Cell::text(&channel.name),
            Cell::Partition(source, context.partition_name(source).to_owned()),
            Cell::Partition(destination, context.partition_name(destination).to_owned()),
            Cell::text(kind),
            Cell::Number(format!("{} B", channel.message_bytes)),
            doorbell,
            Cell::Time(bound.and_then(|bound| bound.within_limit_ns)),
            Cell::Time(bound.and_then(|bound| bound.held_back_ns)),
            Cell::Count(rung(true)),
            Cell::Count(rung(false)),
        ]);
    }
    if !table.is_empty() {
        html.leaf(
            "p",
            &[("class", &"lead")],
            "A channel is memory that two partitions see, and one of them writes each page. A limited doorbell never \
             disturbs its receiver more often than the limit. A bound is from the doorbell to the end of the receiver\u{2019}s handler.",
        );
        table.write(html);
    }
    virtio_devices(html, context);
}

/// Who serves which device to whom, and what the two share for it.
fn virtio_devices(html: &mut Html, context: &Context<'_>) {
    let system = context.input.system;
    let titles = [
        "virtio device",
        "front",
        "back end",
        "kind",
        "shared pool",
        "doorbells",
        "notified",
        "interrupted",
        "limited",
    ];
    let mut table = Table::new(&titles);
    for (index, device) in system.virtio.iter().enumerate() {
        let kind = match device.kind {
            VirtioKind::Net { .. } => "network card".to_owned(),
            VirtioKind::Block { bytes, is_read_only: true } => format!("disk of {}, read-only", size(bytes)),
            VirtioKind::Block { bytes, .. } => format!("disk of {}", size(bytes)),
        };
        let limits =
            [device.back, device.front].map(|receiver| limit_text(&system.limiter_of_virtio(device, receiver)));
        let limits = match limits {
            [first, second] if first == second => format!("{first}, each way"),
            [first, second] => format!("{first}; back {second}"),
        };
        let rung = |is_notification: bool, wanted: bool| {
            let number = fronts::channel_of(system, index, is_notification);
            let events = context.input.timeline?.events.iter();
            let is_it = |kind: &EventKind| matches!(kind, EventKind::Doorbell { channel, sent, .. } if *channel == number && *sent == wanted);
            Some(events.filter(|event| is_it(&event.kind)).count() as u64)
        };
        let limited = rung(true, false).zip(rung(false, false)).map(|(first, second)| first + second);
        table.row(vec![
            Cell::text(&device.name),
            Cell::Partition(device.front, context.partition_name(device.front).to_owned()),
            Cell::Partition(device.back, context.partition_name(device.back).to_owned()),
            Cell::text(kind),
            Cell::Size(fronts::pool_of(system, device.front).unwrap_or(0)),
            Cell::text(limits),
            Cell::Count(rung(true, true)),
            Cell::Count(rung(false, true)),
            Cell::Count(limited),
        ]);
    }
    if !table.is_empty() {
        html.leaf(
            "p",
            &[("class", &"lead")],
            "A virtio device is one partition\u{2019}s, with stock drivers, and another one serves it. Front and back end both write its device page and \
             the front\u{2019}s pool, the one memory that two partitions write: what is wrong there harms these two. Devices of one front have one pool.",
        );
        table.write(html);
    }
}
