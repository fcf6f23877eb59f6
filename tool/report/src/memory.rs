//! The map of physical memory: all of RAM to scale, and the monitor's part of it magnified.

use crate::figure::{WIDTH, figure, label, legend, line, rectangle};
use crate::html::Html;
use crate::table::{Cell, Table};
use crate::words::{address, size};
use bulkhead_plan::model::System;
use bulkhead_plan::{Area, AreaKind, Plan};

/// What a piece of memory is for, as coarsely as a picture can show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// Code and constants of the monitor.
    Code,
    /// Plans and tables: what was decided on the host.
    Decided,
    /// Pristine images of guests.
    Pristine,
    /// What the monitor writes.
    State,
    /// Rings that people read.
    Rings,
    /// Channels.
    Channel,
    /// Device pages and pools of virtio devices.
    Virtio,
    /// RAM of a partition.
    Ram(usize),
}

impl Use {
    fn of(kind: AreaKind) -> Self {
        match kind {
            AreaKind::Text | AreaKind::Rodata => Self::Code,
            AreaKind::Header
            | AreaKind::VcpuPlan(..)
            | AreaKind::Schedule(_)
            | AreaKind::PartitionPlan(_)
            | AreaKind::Information(_)
            | AreaKind::DevicePlan(_)
            | AreaKind::BootDevices
            | AreaKind::StreamTable
            | AreaKind::Commands
            | AreaKind::DeviceTables(_)
            | AreaKind::El2Tables(_)
            | AreaKind::Stage2Tables(_) => Self::Decided,
            AreaKind::Pristine(_) => Self::Pristine,
            AreaKind::Guard
            | AreaKind::Stack(_)
            | AreaKind::Data(_)
            | AreaKind::Events
            | AreaKind::Counters(..)
            | AreaKind::Usage(_)
            | AreaKind::StolenTime(..)
            | AreaKind::Shared(_)
            | AreaKind::Status(_)
            | AreaKind::Manage(_)
            | AreaKind::Doorbell(_)
            | AreaKind::AllDoorbells(_)
            | AreaKind::Notifications(_)
            | AreaKind::Interrupts(_) => Self::State,
            AreaKind::ChannelReader(_) | AreaKind::ChannelWriter(_) | AreaKind::Pool(_) => Self::Channel,
            AreaKind::DevicePage(_) | AreaKind::FrontPool(_) => Self::Virtio,
            AreaKind::Trace(_) | AreaKind::VcpuConsole(..) | AreaKind::GuestConsole(_) => Self::Rings,
            AreaKind::Ram(partition) => Self::Ram(partition),
        }
    }

    fn class(self) -> String {
        match self {
            Self::Code => "m-code".to_owned(),
            Self::Decided => "m-decided".to_owned(),
            Self::Pristine => "m-pristine".to_owned(),
            Self::State => "m-state".to_owned(),
            Self::Rings => "m-rings".to_owned(),
            Self::Channel | Self::Virtio => "m-channel".to_owned(),
            Self::Ram(partition) => format!("p{}", partition % 8),
        }
    }

    fn words(self, system: &System) -> String {
        match self {
            Self::Code => "monitor, text and constants".to_owned(),
            Self::Decided => "plans and translation tables".to_owned(),
            Self::Pristine => "pristine guest images".to_owned(),
            Self::State => "monitor state".to_owned(),
            Self::Rings => "console and trace rings".to_owned(),
            Self::Channel => "channels".to_owned(),
            Self::Virtio => "virtio devices, shared by front and back end".to_owned(),
            Self::Ram(partition) => format!("RAM of {}", name(system, partition)),
        }
    }
}

fn name(system: &System, partition: usize) -> &str {
    system.partitions.get(partition).map_or("?", |partition| partition.name.as_str())
}

/// A stretch of one use; pieces that lie side by side are one.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    what: Use,
    from: u64,
    to: u64,
}

fn stretches(areas: &[Area]) -> Vec<Stretch> {
    let mut list: Vec<Stretch> = Vec::new();
    for area in areas.iter().filter(|area| area.bytes > 0) {
        let what = Use::of(area.kind);
        match list.last_mut() {
            Some(last) if last.what == what && last.to == area.address.0 => last.to = area.end(),
            _ => list.push(Stretch { what, from: area.address.0, to: area.end() }),
        }
    }
    list
}

/// Writes the section's content.
pub(crate) fn write(html: &mut Html, system: &System, plan: &Plan) {
    let areas = plan.areas();
    let list = stretches(&areas);
    let monitor = (system.board.load_address.0, plan.layout.monitor_end.0);
    let title = format!(
        "Physical memory of {} at {}, to scale, and the {} of the monitor magnified. What is not coloured is free.",
        size(system.memory_bytes),
        address(system.board.ram_start().0),
        size(monitor.1 - monitor.0)
    );
    figure(html, 236.0, &title, |html| draw(html, system, &list, monitor));
    let shown = [Use::Code, Use::Decided, Use::Pristine, Use::State, Use::Rings, Use::Channel];
    let used = shown.into_iter().filter(|what| list.iter().any(|stretch| stretch.what == *what));
    let mut entries: Vec<(String, String)> = used.map(|what| (what.class(), what.words(system))).collect();
    entries.extend((0..system.partitions.len()).map(Use::Ram).map(|what| (what.class(), what.words(system))));
    let entries: Vec<_> = entries.iter().map(|(class, text)| (class.as_str(), text.as_str())).collect();
    legend(html, &entries);
    html.element("details", &[], |html| {
        html.leaf("summary", &[], format!("All {} stretches by address", list.len()));
        let mut table = Table::new(&["from", "to", "size", "use"]);
        for stretch in &list {
            let what = match stretch.what {
                Use::Ram(partition) => Cell::Partition(partition, stretch.what.words(system)),
                what => Cell::Text(what.words(system)),
            };
            let bytes = Cell::Size(stretch.to - stretch.from);
            table.row(vec![Cell::Code(address(stretch.from)), Cell::Code(address(stretch.to)), bytes, what]);
        }
        table.write(html);
    });
}

/// Top and height of the bar of all RAM, and of the magnified one.
const ALL: (f64, f64) = (34.0, 46.0);
const MAGNIFIED: (f64, f64) = (150.0, 46.0);
/// A stretch that is this wide has room for its name.
const NAME_WIDTH: f64 = 76.0;

fn draw(html: &mut Html, system: &System, list: &[Stretch], monitor: (u64, u64)) {
    let board = &system.board;
    let edge = 1.0;
    let place = |range: (u64, u64), value: u64| {
        let share = value.clamp(range.0, range.1).saturating_sub(range.0) as f64 / (range.1 - range.0).max(1) as f64;
        edge + share * (WIDTH - 2.0 * edge)
    };
    // The monitor as a whole is one stretch of the upper bar.
    rectangle(html, [edge, ALL.0, WIDTH - 2.0 * edge, ALL.1], "free", "free");
    // Banks side by side, in the order of their addresses.
    let in_banks = |address: u64| place((0, system.memory_bytes), board.ram_offset(address));
    let (left, right) = (in_banks(monitor.0), in_banks(monitor.1).max(in_banks(monitor.0) + 2.0));
    rectangle(html, [left, ALL.0, right - left, ALL.1], "m-state", "monitor");
    for stretch in list.iter().filter(|stretch| matches!(stretch.what, Use::Ram(_))) {
        bar_piece(html, system, stretch, ALL, (in_banks(stretch.from), in_banks(stretch.to)));
    }
    let banks = board.banks_of(system.memory_bytes);
    for bank in &banks {
        label(html, in_banks(bank.start.0), ALL.0 - 10.0, "tick", &address(bank.start.0));
    }
    if let Some(last) = banks.last() {
        label(html, WIDTH - edge, ALL.0 - 10.0, "tick end", &address(last.end()));
    }
    let (top, bottom) = (ALL.0 + ALL.1, MAGNIFIED.0);
    line(html, (left, top), (edge, bottom), "lead");
    line(html, (right, top), (WIDTH - edge, bottom), "lead");
    rectangle(html, [edge, MAGNIFIED.0, WIDTH - 2.0 * edge, MAGNIFIED.1], "free", "free");
    for stretch in list.iter().filter(|stretch| !matches!(stretch.what, Use::Ram(_))) {
        bar_piece(html, system, stretch, MAGNIFIED, (place(monitor, stretch.from), place(monitor, stretch.to)));
    }
    label(html, edge, MAGNIFIED.0 + MAGNIFIED.1 + 18.0, "tick", &address(monitor.0));
    label(html, WIDTH - edge, MAGNIFIED.0 + MAGNIFIED.1 + 18.0, "tick end", &address(monitor.1));
}

fn bar_piece(html: &mut Html, system: &System, stretch: &Stretch, bar: (f64, f64), ends: (f64, f64)) {
    let width = (ends.1 - ends.0).max(1.5);
    let words = stretch.what.words(system);
    let title = format!("{words}: {} from {}", size(stretch.to - stretch.from), address(stretch.from));
    rectangle(html, [ends.0, bar.0, width, bar.1], &format!("{} edge", stretch.what.class()), &title);
    if width >= NAME_WIDTH {
        let short = match stretch.what {
            Use::Ram(partition) => name(system, partition).to_owned(),
            _ => words.rsplit(", ").next().unwrap_or_default().to_owned(),
        };
        let fits = (width / 7.4) as usize;
        if short.chars().count() <= fits {
            let pale = if matches!(stretch.what, Use::Pristine | Use::Rings) { " pale" } else { "" };
            let (middle, line) = ((ends.0 + ends.1) / 2.0, bar.0 + bar.1 / 2.0);
            label(html, middle, line - 1.0, &format!("on middle{pale}"), &short);
            label(html, middle, line + 14.0, &format!("on small middle{pale}"), &size(stretch.to - stretch.from));
        }
    }
}
