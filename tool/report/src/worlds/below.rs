//! Partitions below a payload: who has which core, what arrives there and who is kicked, and how much of a run each had.

use super::{Worlds, WorldsInput, on_fault};
use crate::evidence as sections;
use crate::html::Html;
use crate::table::{Cell, Table};
use crate::words::{percent, plural, size};
use bulkhead_plan::model::{Hybrid, InterruptMode};
use bulkhead_trace::{EventKind, Measurements, Timeline};

/// The world of partitions in the table of worlds.
pub(super) fn world_row(input: &WorldsInput<'_>, below: &Hybrid) -> Vec<Cell> {
    let partitions = plural(input.system.partitions.len(), "partition");
    vec![
        input.world_cell(),
        Cell::text("non-secure"),
        Cell::text("EL2"),
        Cell::text(format!("monitor with {partitions}")),
        Cell::Size(below.memory.bytes),
        Cell::text("all others"),
        Cell::text(on_fault(input.secure)),
    ]
}

/// What was read again of the image below, and the code at EL2.
pub(super) fn evidence(html: &mut Html, input: &Worlds<'_>) {
    if let Some(extent) = &input.verdict.extent.below {
        let text = format!(
            "In it, the image of the monitor at EL2: {} of {} walked, {} of guest-writable memory compared, {} with one owner each. What it says of \
             the machine agrees with what the secure monitor is told.",
            plural(extent.table_pages, "table page"),
            plural(extent.partitions, "partition"),
            size(extent.guest_writable_bytes),
            plural(extent.interrupts, "interrupt"),
        );
        html.leaf("p", &[], text);
    }
    if let Some(context) = &input.partitions {
        sections::privileged(html, context);
    }
}

/// Every core: whose it is, what arrives there from others, and whether EL3 takes it away from its guest.
pub(super) fn cores(html: &mut Html, input: &Worlds<'_>) {
    if input.secure.hybrid().is_none() {
        return;
    }
    let cores = &input.flash.plan.cores;
    let mut table =
        Table::new(&["core", "partition", "vCPU", "interrupts", "shared with", "SGIs that arrive", "kicked from"]);
    for (core, closed) in cores.closed.iter().enumerate().take(cores.count as usize) {
        let owners = input.system.partitions.iter().enumerate().filter_map(|(index, partition)| {
            Some((index, partition, partition.cores.iter().position(|one| *one == core)?))
        });
        let kicked_from =
            (0_u32..).zip(cores.kicks).take(cores.count as usize).filter(|(_, mask)| mask >> core & 1 == 1);
        let from: Vec<u32> = kicked_from.map(|(from, _)| from).collect();
        let own = core == input.secure.core;
        for (index, partition, vcpu) in owners {
            table.row(vec![
                Cell::Number(core.to_string()),
                Cell::Partition(index, partition.name.clone()),
                Cell::Number(vcpu.to_string()),
                Cell::text(match partition.mode {
                    InterruptMode::Mapped => "mapped",
                    InterruptMode::Direct => "direct",
                }),
                if own { input.payload_cell() } else { Cell::Dash },
                Cell::text(ranges(!closed & 0xffff)),
                Cell::text(kicked(&from)),
            ]);
        }
    }
    table.write(html);
    let note = "SGIs are software-generated interrupts: a number that arrives at a core arrives from every sender. A kick of EL3 brings a core to its \
                monitor, whatever its guest masks; that is how a guest with direct interrupts is stopped, started again and watched. The payload\u{2019}s \
                core is never kicked: the payload takes it away by itself.";
    html.leaf("p", &[("class", &"note")], note);
}

fn kicked(cores: &[u32]) -> String {
    match cores {
        [] => "nowhere".to_owned(),
        cores => format!("core {}", cores.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")),
    }
}

/// Bits of a word, those in a row as ranges.
fn ranges(word: u32) -> String {
    let mut list: Vec<(u32, u32)> = Vec::new();
    for bit in (0..u32::BITS).filter(|bit| word >> bit & 1 == 1) {
        match list.last_mut() {
            Some((_, last)) if *last + 1 == bit => *last = bit,
            _ => list.push((bit, bit)),
        }
    }
    let text =
        |(first, last): (u32, u32)| if first == last { first.to_string() } else { format!("{first}\u{2013}{last}") };
    if list.is_empty() { "none".to_owned() } else { list.into_iter().map(text).collect::<Vec<_>>().join(", ") }
}

/// Who had which core, and what its monitor saw of them meanwhile.
pub(super) fn turns(html: &mut Html, timeline: &Timeline, measured: &Measurements, input: &WorldsInput<'_>) {
    if input.secure.hybrid().is_none() {
        return;
    }
    html.leaf("h3", &[], "Who had the cores");
    let mut table = Table::new(&[
        "core",
        "who",
        "in all",
        "of the time",
        "turns",
        "longest",
        "interrupts",
        "exits",
        "starts",
        "faults",
    ]);
    for (core, (layout, measure)) in timeline.layout.cores.iter().zip(&measured.cores).enumerate() {
        let runs = timeline.runs(core);
        for (slot, (owner, seen)) in layout.slots.iter().zip(&measure.slots).enumerate() {
            let all_ns = seen.running.total_ns();
            let turns = || runs.iter().filter(|run| run.slot == slot);
            let is_partition = owner.partition < input.system.partitions.len();
            let interrupts = measure.interrupts.iter().filter(|((by, _), _)| *by == Some(owner.partition));
            let count = |is_it: fn(&EventKind, usize) -> bool| {
                let events = timeline.of_core(core).filter(|event| is_it(&event.kind, owner.partition));
                Cell::Count(is_partition.then_some(events.count() as u64))
            };
            table.row(vec![
                Cell::Number(core.to_string()),
                Cell::Partition(owner.partition, timeline.layout.slot_name(core, slot).to_string()),
                Cell::Time(Some(all_ns)),
                Cell::Number(percent(all_ns, timeline.length_ns())),
                Cell::Count(Some(turns().count() as u64)),
                Cell::Time(turns().map(|run| run.to_ns - run.from_ns).max()),
                Cell::Count(is_partition.then_some(interrupts.map(|(_, seen)| seen.count).sum())),
                count(|kind, of| matches!(kind, EventKind::Exit { partition, .. } if *partition == of)),
                count(|kind, of| matches!(kind, EventKind::GuestStart { partition, .. } if *partition == of)),
                count(|kind, of| matches!(kind, EventKind::Fault { partition, .. } if *partition == of)),
            ]);
        }
    }
    table.write(html);
    let note = format!(
        "In the time of a server it is the partition of the payload\u{2019}s core that runs, while its monitor says so; the rest is that of {}: its monitor \
         starts, or nobody is left to run. Interrupts, exits, starts and faults are those of the rings of the monitor.",
        super::world_name(input.secure)
    );
    html.leaf("p", &[("class", &"note")], note);
}
