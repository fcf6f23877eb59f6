//! The page of a system with a secure section: the two worlds of one core, what is whose, and when the lower one runs.
//!
//! A page of its own beside that of partitions, and not more columns there: nearly nothing is common. Here no monitor shares cores by
//! plan; a payload's kernel does, some tasks of which are the other world. What the two have in common, frame and tables, they share.

mod below;
mod memory;
mod time;

use crate::html::Html;
use crate::page::{Context, Input, Written, frame, of_image};
use crate::table::{Cell, Table, chip};
use crate::words::{grouped, plural, size};
use crate::{evidence, overview, traffic, words};
use bulkhead_description::Report;
use bulkhead_flash::Flash;
use bulkhead_image::WorldMaps;
use bulkhead_plan::model::{GuestImage, HealthPolicy, PayloadKind, Secure, System, World, WorldDirection, WorldHealth};
use bulkhead_timing::Assumptions;
use bulkhead_timing::payload::PayloadBounds;
use bulkhead_trace::Timeline;
use bulkhead_trace::words::duration;
use bulkhead_verify::world::FlashVerdict;
use std::ops::Deref;

/// Everything the page of two worlds is written from.
#[derive(Clone, Copy, Debug)]
pub struct WorldsInput<'a> {
    /// The system.
    pub system: &'a System,
    /// Its secure section.
    pub secure: &'a Secure,
    /// Its flash file.
    pub flash: &'a Flash,
    /// What lies where.
    pub maps: &'a WorldMaps,
    /// Warnings of the description.
    pub warnings: &'a Report,
    /// The verdict on the flash file.
    pub verdict: &'a FlashVerdict,
    /// SHA-256 of the flash file, 64 digits.
    pub flash_hash: &'a str,
    /// What was computed.
    pub bounds: &'a PayloadBounds,
    /// What the bounds rest on.
    pub assumptions: &'a Assumptions,
    /// A run, with the names of the description.
    pub timeline: Option<&'a Timeline>,
    /// Partitions below the payload: the page of them alone would be written from this.
    pub below: Option<&'a Input<'a>>,
}

impl WorldsInput<'_> {
    /// Colour of the payload, as a partition's number: that of a trace, where both worlds are behind the partitions.
    pub(crate) fn payload(&self) -> usize {
        self.system.partitions.len()
    }

    /// Colour of the world below.
    pub(crate) fn world(&self) -> usize {
        self.payload() + 1
    }

    /// The cell of the payload's name.
    fn payload_cell(&self) -> Cell {
        Cell::Partition(self.payload(), "payload".to_owned())
    }

    /// The cell of who is at the other end of a channel to the payload: a partition, or the one image below.
    fn other_end(&self, partition: Option<usize>) -> Cell {
        let found = partition.and_then(|index| Some((index, self.system.partitions.get(index)?)));
        found.map_or_else(|| self.world_cell(), |(index, partition)| Cell::Partition(index, partition.name.clone()))
    }

    /// The cell of the other world's name.
    fn world_cell(&self) -> Cell {
        Cell::Partition(self.world(), world_name(self.secure).to_owned())
    }
}

/// All of it, with what sections of a page of partitions are written from; that is measured once.
pub(crate) struct Worlds<'a> {
    input: WorldsInput<'a>,
    /// `None` where there are no partitions below the payload.
    partitions: Option<Context<'a>>,
}

impl<'a> Deref for Worlds<'a> {
    type Target = WorldsInput<'a>;

    fn deref(&self) -> &Self::Target {
        &self.input
    }
}

/// A section: its anchor, its title, and who writes it.
type Section = (&'static str, &'static str, fn(&mut Html, &Worlds<'_>));

const SECTIONS: [Section; 8] = [
    ("overview", "System", overview),
    ("evidence", "Evidence", evidence),
    ("time", "Time", time::write),
    ("cores", "Cores", below::cores),
    ("interrupts", "Interrupts", interrupts),
    ("channels", "Channels", channels),
    ("health", "Health", health),
    ("memory", "Memory", memory::write),
];

/// Returns the page.
#[must_use]
pub fn write_worlds(input: &WorldsInput<'_>) -> String {
    let worlds = Worlds { input: *input, partitions: input.below.map(|below| Context::new(*below)) };
    let written = SECTIONS.iter().map(|(anchor, title, write)| {
        let mut content = Html::default();
        write(&mut content, &worlds);
        (*anchor, *title, content)
    });
    let written: Vec<Written> = written.filter(|(.., content)| !content.is_empty()).collect();
    let mut verdicts = of_image(input.verdict.is_accepted(), input.warnings);
    time::verdicts(&mut verdicts, input);
    frame(&input.system.name, &verdicts, written)
}

/// The name of the world below, for people.
pub(crate) fn world_name(secure: &Secure) -> &str {
    secure.below_name().unwrap_or("other world")
}

fn overview(html: &mut Html, input: &Worlds<'_>) {
    let (system, secure) = (input.system, input.secure);
    let facts = [
        ("board", system.board.name.clone()),
        ("memory", size(system.memory_bytes)),
        ("worlds", if !secure.is_alone() { "2" } else { "1" }.to_owned()),
        (if secure.hybrid().is_some() { "core of the payload" } else { "core of both" }, secure.core.to_string()),
        ("servers", grouped(secure.servers.len() as u64)),
        ("channels", grouped(secure.channels.len() as u64)),
    ];
    html.element("dl", &[("class", &"facts")], |html| {
        for (name, value) in facts {
            html.element("div", &[], |html| {
                html.leaf("dt", &[], name);
                html.leaf("dd", &[], value);
            });
        }
    });
    let mut table = Table::new(&["world", "security state", "begins at", "what runs", "memory", "devices", "on fault"]);
    let kind = match secure.payload.kind {
        PayloadKind::FreeRtos => "FreeRTOS",
        PayloadKind::Elf => "ELF",
    };
    table.row(vec![
        input.payload_cell(),
        Cell::text("secure"),
        Cell::text("EL1"),
        Cell::text(kind),
        Cell::Size(secure.payload.memory_bytes),
        Cell::text(payload_devices(system, secure).join(", ")),
        Cell::text("nobody restarts it"),
    ]);
    if let Some(world) = secure.world() {
        table.row(world_row(input, world));
    }
    if let Some(below) = secure.hybrid() {
        table.row(below::world_row(input, below));
    }
    table.write(html);
    if secure.hybrid().is_some() {
        html.leaf("h3", &[], "Partitions below the payload");
        overview::partitions(html, system);
    }
}

fn payload_devices<'a>(system: &'a System, secure: &Secure) -> Vec<&'a str> {
    let facts = system.board.secure.iter().flat_map(|facts| facts.devices()).enumerate();
    facts.filter(|(place, _)| secure.devices.contains(place)).map(|(_, device)| device.name.as_str()).collect()
}

fn world_row(input: &WorldsInput<'_>, world: &World) -> Vec<Cell> {
    let image = match &world.image {
        GuestImage::Linux { .. } => "Linux",
        GuestImage::Elf { .. } => "ELF",
        GuestImage::Raw { .. } => "raw",
        GuestImage::Kernel { .. } => "kernel",
    };
    vec![
        input.world_cell(),
        Cell::text("non-secure"),
        Cell::text(world.level.name()),
        Cell::text(image),
        Cell::Size(world.memory.bytes),
        Cell::text("all others"),
        Cell::text(on_fault(input.secure)),
    ]
}

/// What happens after a fault of the world as a whole.
fn on_fault(secure: &Secure) -> String {
    secure.health.as_ref().map_or("the payload\u{2019}s own business".to_owned(), policy)
}

fn policy(health: &WorldHealth) -> String {
    match health.policy {
        HealthPolicy::Stop => "stop".to_owned(),
        HealthPolicy::Halt => "halt".to_owned(),
        HealthPolicy::Restart { max, within_ns, backoff_ns } => {
            format!("restart after {}, {max} times in {}", duration(backoff_ns), duration(within_ns))
        }
    }
}

fn evidence(html: &mut Html, input: &Worlds<'_>) {
    let (verdict, extent) = (input.verdict, &input.verdict.extent);
    html.element("p", &[("class", &"lead")], |html| {
        let good = verdict.is_accepted();
        chip(html, if good { "good" } else { "bad" }, if good { "accepted" } else { "refused" });
        html.text(format!(
            " The finished flash file was read again, byte by byte: {} of the payload, {} of its tables walked, {} of its own, no secure \
             address in the {} of the other world.",
            size(extent.payload_bytes),
            plural(extent.table_pages, "page"),
            plural(extent.interrupts, "interrupt"),
            size(extent.window_bytes),
        ));
    });
    evidence::findings(html, &verdict.findings);
    // A file that is refused may hold any code.
    if verdict.is_accepted() {
        let bytes = grouped(input.flash.monitor_bytes);
        html.leaf("p", &[], format!("Code at EL3: the secure monitor, {bytes} bytes with all its data, which the tool contains and compared."));
    }
    below::evidence(html, input);
    let hash = ("flash file", input.flash.bytes.len() as u64, input.flash_hash);
    evidence::hashes(html, &input.system.source_hash, hash);
    evidence::hazards(html, input.warnings);
}

fn interrupts(html: &mut Html, input: &Worlds<'_>) {
    let secure = input.secure;
    let mut table = Table::new(&["INTID", "group", "world", "what", "while the payload runs"]);
    for (intid, what) in &input.maps.interrupts {
        table.row(vec![
            Cell::Number(intid.to_string()),
            Cell::text("1 secure"),
            input.payload_cell(),
            Cell::text(what),
            Cell::Dash,
        ]);
    }
    for server in &secure.servers {
        for intid in &server.interrupts {
            table.row(vec![
                Cell::Number(intid.to_string()),
                Cell::text("1 non-secure"),
                input.world_cell(),
                Cell::text(line_of(input.system, *intid)),
                Cell::text(format!("wakes {}", server.name)),
            ]);
        }
    }
    if !secure.is_alone() {
        table.row(vec![
            Cell::Number("all others".to_owned()),
            Cell::text("1 non-secure"),
            input.world_cell(),
            Cell::Dash,
            Cell::text(if secure.hybrid().is_some() { "wait on its core" } else { "wait" }),
        ]);
    }
    table.write(html);
    let note = "An interrupt of the payload comes to it whatever the other world does or masks; the other world\u{2019}s come to it without \
                the secure monitor.";
    html.leaf("p", &[("class", &"note")], note);
    if let Some(context) = &input.partitions {
        html.leaf("h3", &[], "Of the partitions");
        traffic::interrupts(html, context);
    }
}

/// Whose line an interrupt of the world below is, as far as the board file says it.
fn line_of(system: &System, intid: u32) -> String {
    let device = system.board.devices.iter().find(|device| device.interrupts.iter().any(|one| one.intid == intid));
    device.map(|device| device.name.clone()).unwrap_or_default()
}

fn channels(html: &mut Html, input: &Worlds<'_>) {
    if let Some(context) = &input.partitions {
        traffic::channels(html, context);
    }
    if input.secure.channels.is_empty() {
        return;
    }
    let mut table =
        Table::new(&["channel", "from", "to", "blocks", "bytes of each", "at", "the reader learns of a message"]);
    let placed = input.flash.plan.channels.iter().map(|channel| channel.address);
    for (channel, address) in input.secure.channels.iter().zip(placed) {
        let (payload, below) = (|| input.payload_cell(), || input.other_end(channel.partition));
        let ((from, to), signal) = match (channel.direction, channel.interrupt, channel.poll_ns) {
            (WorldDirection::ToWorld, Some(intid), _) => ((payload(), below()), format!("interrupt {intid}")),
            (WorldDirection::ToWorld, None, _) => ((payload(), below()), "it looks by itself".to_owned()),
            (WorldDirection::ToPayload, _, Some(ns)) => {
                ((below(), payload()), format!("it looks every {}", duration(ns)))
            }
            (WorldDirection::ToPayload, _, None) => ((below(), payload()), "by call".to_owned()),
        };
        table.row(vec![
            Cell::text(&channel.name),
            from,
            to,
            Cell::Count(Some(u64::from(channel.blocks))),
            Cell::Count(Some(u64::from(channel.block_bytes))),
            Cell::Code(words::address(address)),
            Cell::text(signal),
        ]);
    }
    table.write(html);
    let note = "Both worlds write into these pages. The payload copies a message, bounds it, and only then uses it.";
    html.leaf("p", &[("class", &"note")], note);
}

fn health(html: &mut Html, input: &Worlds<'_>) {
    if input.secure.is_alone() {
        return;
    }
    let name = world_name(input.secure);
    if input.secure.hybrid().is_some() {
        let text = "The monitor at EL2 watches each partition, with the policy in the table of partitions. This is about that monitor, and about all of them together.";
        html.leaf("p", &[], text);
    }
    let Some(health) = &input.secure.health else {
        let text = format!("No part of the description: how {name} is watched is the payload\u{2019}s own business.");
        html.leaf("p", &[], text);
        return;
    };
    let mut table = Table::new(&["what", "is a fault"]);
    if let Some(heartbeat) = health.heartbeat {
        let limit =
            format!("when {} in a row are missing, one each {}", heartbeat.missed, duration(heartbeat.period_ns));
        table.row(vec![Cell::text("signs of life"), Cell::text(limit)]);
    }
    if health.stuck_samples > 0 {
        let limit =
            format!("when {} looks in a row show none, one tick apart or more", grouped(health.stuck_samples.into()));
        table.row(vec![Cell::text("progress"), Cell::text(limit)]);
    }
    table.row(vec![Cell::text("power off and reset"), Cell::text("always; never the machine\u{2019}s")]);
    table.write(html);
    html.leaf("p", &[], format!("After a fault: {}.", policy(health)));
}
