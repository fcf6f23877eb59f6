//! What the system is made of: partitions, cores, memory.

use crate::html::Html;
use crate::page::Context;
use crate::table::{Cell, Table};
use crate::words::{grouped, size};
use bulkhead_plan::model::{Criticality, GuestImage, HealthPolicy, InterruptMode, Partition, System};
use bulkhead_trace::words::duration;

pub(crate) fn write(html: &mut Html, context: &Context<'_>) {
    let (system, cores) = (context.input.system, &context.input.timing.cores);
    let shared = cores.iter().filter(|core| core.is_shared).count();
    let facts = [
        ("board", system.board.name.clone()),
        ("memory", size(system.memory_bytes)),
        ("partitions", grouped(system.partitions.len() as u64)),
        ("cores in use", grouped(cores.len() as u64)),
        ("of them shared", grouped(shared as u64)),
        ("channels", grouped(system.channels.len() as u64)),
    ];
    let of_virtio = (!system.virtio.is_empty()).then(|| ("virtio devices", grouped(system.virtio.len() as u64)));
    html.element("dl", &[("class", &"facts")], |html| {
        for (name, value) in facts.into_iter().chain(of_virtio) {
            html.element("div", &[], |html| {
                html.leaf("dt", &[], name);
                html.leaf("dd", &[], value);
            });
        }
    });
    partitions(html, system);
    components(html, system);
    servers(html, system);
}

/// Components of instances of the real-time kernel, and what each of them can reach.
fn components(html: &mut Html, system: &System) {
    let mut table = Table::new(&[
        "partition",
        "component",
        "program",
        "trust",
        "threads",
        "stacks for callers",
        "devices",
        "bound to",
    ]);
    let mut count = 0;
    for (index, partition) in system.partitions.iter().enumerate() {
        let GuestImage::Kernel { components, .. } = &partition.image else { continue };
        for component in components {
            let bound = component.bindings.iter().map(|(function, target)| format!("{function} = {target}"));
            table.row(vec![
                Cell::Partition(index, partition.name.clone()),
                Cell::text(component.name.as_str()),
                Cell::text(component.program.as_str()),
                Cell::text(if component.is_trusted { "trusted" } else { "untrusted" }),
                Cell::text(component.threads.join(", ")),
                Cell::text(component.stacks.to_string()),
                Cell::text(component.devices.join(", ")),
                Cell::text(bound.collect::<Vec<_>>().join(", ")),
            ]);
            count += 1;
        }
    }
    if count > 0 {
        html.leaf("h3", &[], "Components");
        table.write(html);
    }
}

/// Servers of instances with budgets: what each has, by when it has had it, and for whom it works.
fn servers(html: &mut Html, system: &System) {
    let mut table = Table::new(&["partition", "server", "rule", "time", "bound", "works for"]);
    let mut has_budgets = false;
    for (index, partition) in system.partitions.iter().enumerate() {
        let GuestImage::Kernel { servers, .. } = &partition.image else { continue };
        for server in servers {
            let time = |(budget, period)| format!("{} in {}", duration(budget), duration(period));
            let client = |(name, bound_ns): &(String, Option<u64>)| {
                format!("{name} by {}", bound_ns.map_or_else(|| "no bound".to_owned(), duration))
            };
            has_budgets |= server.time_ns.is_some();
            table.row(vec![
                Cell::Partition(index, partition.name.clone()),
                Cell::text(server.name.as_str()),
                Cell::text(server.rule.name()),
                Cell::text(server.time_ns.map_or_else(|| "what is left".to_owned(), time)),
                Cell::text(server.time_ns.and(server.bound_ns).map_or_else(|| "none".to_owned(), duration)),
                Cell::text(server.clients.iter().map(client).collect::<Vec<_>>().join(", ")),
            ]);
        }
    }
    if has_budgets {
        html.leaf("h3", &[], "Servers of instances");
        table.write(html);
    }
}

/// The partitions of a system.
pub(crate) fn partitions(html: &mut Html, system: &System) {
    let mut table = Table::new(&[
        "partition",
        "criticality",
        "trust",
        "cores",
        "memory",
        "guest",
        "interrupts",
        "on fault",
        "watchdog",
    ]);
    for (index, partition) in system.partitions.iter().enumerate() {
        table.row(row(index, partition));
    }
    table.write(html);
}

fn row(index: usize, partition: &Partition) -> Vec<Cell> {
    let cores: Vec<_> = partition.cores.iter().map(usize::to_string).collect();
    let mode = match partition.mode {
        InterruptMode::Mapped => "mapped",
        InterruptMode::Direct => "direct",
    };
    let trust = if partition.trusted { "trusted" } else { "untrusted" };
    let manages = if partition.manages { ", manages" } else { "" };
    vec![
        Cell::Partition(index, partition.name.clone()),
        Cell::text(criticality(partition.criticality)),
        Cell::text(format!("{trust}{manages}")),
        Cell::text(cores.join(", ")),
        Cell::Size(partition.memory_bytes),
        Cell::text(image(&partition.image)),
        Cell::text(mode),
        Cell::text(health(&partition.health)),
        Cell::Time(partition.watchdog_ns),
    ]
}

fn criticality(criticality: Criticality) -> &'static str {
    match criticality {
        Criticality::High => "high",
        Criticality::Medium => "medium",
        Criticality::Low => "low",
        Criticality::BestEffort => "best effort",
    }
}

fn image(image: &GuestImage) -> &'static str {
    match image {
        GuestImage::Linux { .. } => "Linux",
        GuestImage::Elf { .. } => "ELF",
        GuestImage::Raw { .. } => "raw",
        GuestImage::Kernel { .. } => "kernel",
    }
}

fn health(policy: &HealthPolicy) -> String {
    match policy {
        HealthPolicy::Stop => "stop".to_owned(),
        HealthPolicy::Halt => "halt the machine".to_owned(),
        HealthPolicy::Restart { max, within_ns, .. } => {
            format!("restart, {max} times in {}", duration(*within_ns))
        }
    }
}
