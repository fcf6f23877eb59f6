//! `bulkhead build` and `inspect` of a system with a secure section: what lies where in flash and in both worlds, and who owns which interrupt.

/// Writing to a string cannot fail.
macro_rules! line {
    ($out:expr, $($argument:tt)*) => {
        let _ = writeln!($out, $($argument)*);
    };
}

mod between;
mod servers;

use crate::below::{self, BuiltFlash, build_flash, cores_form, cores_text};
use crate::inspect::{self, Format, InspectArguments};
use crate::map::size_text;
use crate::{Error, json};
use between::{channel_name, channels, channels_form, health_form, urgent_form, write_between};
use bulkhead_abi::PAGE_BYTES;
use bulkhead_flash::{Flash, PlacedWorld, Rights};
use bulkhead_plan::maps::{GICD_BYTES, GICR_BYTES};
use bulkhead_plan::model::{Below, Secure, System, World, WorldLevel};
use bulkhead_world::flash::{self, secure_ram};
use dtoolkit::fdt::Fdt;
use serde_json::{Value, json};
use servers::{servers_form, windows_form, write_servers};
use std::fmt::Write as _;
use std::path::Path;

/// Version of the JSON form; it changes only when a field is removed or changes its meaning.
const JSON_VERSION: u32 = 1;

/// A range of addresses and what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// Where it starts.
    pub start: u64,
    /// Its length.
    pub bytes: u64,
    /// What its owner may do there, as people write it.
    pub rights: &'static str,
    /// What it is.
    pub what: String,
}

/// Where everything of two worlds lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorldMaps {
    /// Parts of the flash file.
    pub flash: Vec<Range>,
    /// What the payload can reach, by its own tables.
    pub payload: Vec<Range>,
    /// What is in the other world's memory when it begins; empty without such a world.
    pub world: Vec<Range>,
    /// Interrupts of the payload, and whose they are.
    pub interrupts: Vec<(u32, String)>,
}

/// Tells where everything of a system with a secure section lies; `None` for a system of partitions.
#[must_use]
pub fn world_maps(system: &System, flash: &Flash) -> Option<WorldMaps> {
    let secure = system.secure.as_ref()?;
    Some(WorldMaps {
        flash: in_flash(flash),
        payload: of_payload(system, secure, flash),
        world: worlds(secure, flash).flat_map(|(_, placed)| of_world(placed)).collect(),
        interrupts: secure.interrupts.iter().map(|intid| (*intid, interrupt_text(system, *intid))).collect(),
    })
}

/// One line about a flash file.
pub(crate) fn summary(system: &System, flash: &Flash, output: &Path, symbols: &Path) -> String {
    let world = match system.secure.as_ref().map(|secure| &secure.below) {
        Some(Below::Image(world)) => format!("`{}` at {}", world.name, world.level.name()),
        Some(Below::Partitions(_)) => format!("monitor at EL2 with {} partitions", system.partitions.len()),
        Some(Below::Nobody) | None => String::from("no world below"),
    };
    format!(
        "{}: flash file of {} for {} in {}: secure monitor, payload, {world}; symbols in {}",
        system.name,
        size_text(flash.bytes.len() as u64),
        system.board.name,
        output.display(),
        symbols.display(),
    )
}

/// Builds the flash file of a system and shows what is in it.
pub(crate) fn show(arguments: &InspectArguments, system: &System) -> Result<String, Error> {
    let built = build_flash(system, arguments.source.monitor.as_deref())?;
    shown(system, built, arguments.dts.as_deref(), arguments.format)
}

/// Shows what is in a flash file, with the partitions' own plan behind it where there are any.
pub(crate) fn shown(system: &System, built: BuiltFlash, dts: Option<&str>, format: Format) -> Result<String, Error> {
    let BuiltFlash { flash, below } = built;
    let secure = system.secure.as_ref().ok_or(Error::Flash(bulkhead_flash::Error::NoSecureWorld))?;
    let below = below.map(|image| below::planned(system, image));
    match (dts, format, below) {
        (Some(name), _, None) => device_tree_source(secure, &flash, name),
        (Some(name), _, Some(below)) => inspect::device_tree_source(&below, name),
        (None, Format::Text, below) => {
            let below = below.map(|below| format!("\n{}", inspect::text(&below))).unwrap_or_default();
            Ok(text(system, secure, &flash) + &cores_text(&flash.plan.cores) + &below)
        }
        (None, Format::Json, below) => {
            let mut form = form(system, secure, &flash);
            if let (Some(below), Some(members)) = (below, form.as_object_mut()) {
                members.insert(String::from("cores"), cores_form(&flash.plan.cores));
                members.insert(String::from("below"), json::form(&below));
            }
            Ok(format!("{form:#}\n"))
        }
    }
}

fn device_tree_source(secure: &Secure, flash: &Flash, name: &str) -> Result<String, Error> {
    let known = secure.world().into_iter().map(|world| world.name.clone()).collect();
    let missing = || Error::NoPartition { name: name.to_owned(), known };
    let (_, placed) = worlds(secure, flash).find(|(world, _)| world.name == name).ok_or_else(missing)?;
    let tree = Fdt::new(&placed.device_tree);
    tree.map(|tree| tree.to_string()).map_err(|error| Error::Monitor(format!("own device tree is damaged: {error}")))
}

/// The world below, described and placed, if there is one.
fn worlds<'a>(secure: &'a Secure, flash: &'a Flash) -> impl Iterator<Item = (&'a World, &'a PlacedWorld)> {
    secure.world().into_iter().zip(&flash.world)
}

fn in_flash(flash: &Flash) -> Vec<Range> {
    let plan = &flash.plan;
    let range = |start, bytes, what: &str| Range { start, bytes, rights: "r--", what: what.to_owned() };
    let mut ranges = vec![
        range(flash::MONITOR, flash.monitor_bytes, "secure monitor"),
        range(flash::PLAN, flash::PLAN_BYTES, "world plan"),
        range(plan.head.payload_from, plan.head.payload_bytes, "payload with its tables"),
    ];
    for segment in plan.segments.iter().take(usize::try_from(plan.segment_count).unwrap_or(0)) {
        ranges.push(range(segment.from, segment.bytes, &format!("for {:#x}", segment.to)));
    }
    ranges
}

/// What the payload can reach, by its own tables.
fn of_payload(system: &System, secure: &Secure, flash: &Flash) -> Vec<Range> {
    let range = |start, bytes, rights, what: &str| Range { start, bytes, rights, what: what.to_owned() };
    let mut ranges = vec![
        range(flash::MONITOR, flash::MOST_BYTES, "r--", "flash"),
        range(system.board.gicd.0, GICD_BYTES, "rw- device", "interrupt distributor"),
        range(flash.plan.redistributor, GICR_BYTES, "rw- device", "redistributor of its core"),
        range(secure_ram::CONTEXTS, PAGE_BYTES, "rw- device", "contexts of the worlds"),
        range(secure_ram::STATE, PAGE_BYTES, "rw- device", "state words of the secure monitor"),
        range(secure_ram::PLAN, flash::PLAN_BYTES, "r--", "world plan"),
    ];
    for (core, frame) in (1..).zip(flash.plan.cores.redistributors).filter(|(_, frame)| *frame != 0) {
        ranges.push(range(frame, GICR_BYTES, "rw- device", &format!("redistributor of core {core}")));
    }
    if let Some(below) = secure.hybrid() {
        let what = format!("memory of {} (NS = 1)", below.name);
        ranges.push(range(below.memory.start.0, below.memory.bytes, "rw-", &what));
    }
    for (start, bytes, rights) in &flash.payload.ranges {
        let (rights, what) = match rights {
            Rights::Text => ("r-x", "payload: text"),
            Rights::Constants => ("r--", "payload: constants"),
            Rights::Data => ("rw-", "payload: data and stacks"),
        };
        ranges.push(range(*start, *bytes, rights, what));
    }
    let facts = system.board.secure.iter().flat_map(|facts| facts.devices()).enumerate();
    for (_, device) in facts.filter(|(place, _)| secure.devices.contains(place)) {
        ranges.push(range(device.address.0, PAGE_BYTES, "rw- device", &format!("device {}", device.name)));
    }
    for (world, _) in worlds(secure, flash) {
        let what = format!("memory of {} (NS = 1)", world.name);
        ranges.push(range(world.memory.start.0, world.memory.bytes, "rw-", &what));
    }
    for channel in channels(flash) {
        let what = format!("channel {} (NS = 1)", channel_name(channel));
        ranges.push(range(channel.address, channel.pool_bytes().unwrap_or(0), "rw- device", &what));
    }
    ranges.sort_by_key(|range| range.start);
    ranges
}

fn of_world(placed: &PlacedWorld) -> Vec<Range> {
    let tree = placed.placement.device_tree.0;
    let initrd = placed.placement.initrd.map(|(address, _)| address.0);
    let name = |start: u64, end: u64| {
        let holds = |address: u64| (start..end).contains(&address);
        let parts = [
            (holds(placed.placement.entry.0), "image"),
            (holds(tree), "device tree"),
            (initrd.is_some_and(holds), "initial RAM file system"),
        ];
        let named: Vec<&str> = parts.into_iter().filter(|(is_there, _)| *is_there).map(|(_, name)| name).collect();
        if named.is_empty() { String::from("segment of the image") } else { named.join(" and ") }
    };
    let range = |start: u64, bytes: u64| Range { start, bytes, rights: "rwx", what: name(start, start + bytes) };
    placed.segments.iter().map(|piece| range(piece.guest.0, piece.bytes.len() as u64)).collect()
}

/// Whose an interrupt of the payload is.
fn interrupt_text(system: &System, intid: u32) -> String {
    let Some(facts) = &system.board.secure else { return String::from("payload") };
    match facts.devices().find(|device| device.intid == Some(intid)) {
        Some(device) => device.name.clone(),
        None if intid == facts.timer => String::from("secure timer"),
        None => String::from("payload"),
    }
}

fn text(system: &System, secure: &Secure, flash: &Flash) -> String {
    let mut out = String::new();
    let file = size_text(flash.bytes.len() as u64);
    line!(out, "system {} on board {}: flash file {file}, entered at EL3", system.name, system.board.name);
    line!(out, "\nflash");
    write_ranges(&mut out, &in_flash(flash));
    let (core, entry) = (secure.core, flash.plan.head.payload_entry);
    line!(out, "\nsecure world on core {core}: payload at S-EL1, entry {entry:#x}, its own map");
    write_ranges(&mut out, &of_payload(system, secure, flash));
    for intid in &secure.interrupts {
        line!(out, "  interrupt {intid:>3} group 1 secure  {}", interrupt_text(system, *intid));
    }
    write_servers(&mut out, secure, &flash.plan, system.board.counter_hz);
    for (world, placed) in worlds(secure, flash) {
        let (entry, tree) = (placed.placement.entry, placed.placement.device_tree);
        line!(
            out,
            "\nnon-secure world {}: entered at {}, entry {entry}, device tree {tree}",
            world.name,
            world.level.name()
        );
        let (start, end) = (world.memory.start.0, world.memory.end());
        line!(
            out,
            "  {start:#012x}..{end:#012x} {:>9}  rwx         its memory; in it when it begins:",
            size_text(world.memory.bytes)
        );
        write_ranges(&mut out, &of_world(placed));
        write_between(&mut out, system, secure, flash);
    }
    if let Some(world) = secure.hybrid() {
        let (entry, level) = (flash.plan.entry, WorldLevel::El2.name());
        line!(
            out,
            "\nnon-secure world {}: the monitor at {level}, entry {entry:#x}; its partitions are below",
            world.name
        );
        write_between(&mut out, system, secure, flash);
    }
    out
}

fn write_ranges(out: &mut String, ranges: &[Range]) {
    for range in ranges {
        let end = range.start + range.bytes;
        line!(
            out,
            "  {:#012x}..{end:#012x} {:>9}  {:<10}  {}",
            range.start,
            size_text(range.bytes),
            range.rights,
            range.what
        );
    }
}

fn form(system: &System, secure: &Secure, flash: &Flash) -> Value {
    let ranges = |ranges: Vec<Range>| -> Vec<Value> {
        let one = |range: Range| json!({ "start": range.start, "bytes": range.bytes, "rights": range.rights, "use": range.what });
        ranges.into_iter().map(one).collect()
    };
    let urgent = urgent_form(secure, &flash.plan);
    let interrupts =
        secure.interrupts.iter().map(|intid| json!({ "intid": intid, "use": interrupt_text(system, *intid) }));
    let world = worlds(secure, flash).next().map(|(world, placed)| {
        json!({
            "name": world.name,
            "level": world.level.name(),
            "entry": placed.placement.entry.0,
            "device_tree": placed.placement.device_tree.0,
            "memory": { "start": world.memory.start.0, "bytes": world.memory.bytes },
            "segments": ranges(of_world(placed)),
            "urgent": urgent,
            "health": secure.health.as_ref().map(|_| health_form(&flash.plan.health)),
        })
    });
    let partitions = secure.hybrid().map(|world| {
        json!({
            "name": world.name,
            "level": WorldLevel::El2.name(),
            "entry": flash.plan.entry,
            "memory": { "start": world.memory.start.0, "bytes": world.memory.bytes },
            "urgent": urgent,
            "health": secure.health.as_ref().map(|_| health_form(&flash.plan.health)),
        })
    });
    json!({
        "version": JSON_VERSION,
        "system": system.name,
        "board": system.board.name,
        "flash": { "bytes": flash.bytes.len(), "parts": ranges(in_flash(flash)) },
        "secure": {
            "core": secure.core,
            "entry": flash.plan.head.payload_entry,
            "map": ranges(of_payload(system, secure, flash)),
            "interrupts": interrupts.collect::<Vec<_>>(),
            "servers": servers_form(secure, &flash.plan),
            "windows": windows_form(secure, &flash.plan, system.board.counter_hz),
        },
        "non_secure": world.or(partitions),
        "channels": channels_form(system, secure, flash),
    })
}

#[cfg(test)]
mod tests {
    use super::{device_tree_source, form, text};
    use bulkhead_plan::model::{WorldWindow, WorldWindows};
    use bulkhead_plan::samples;

    #[test]
    fn both_worlds_are_shown_with_what_is_theirs() {
        let system = samples::two_worlds();
        let secure = system.secure.as_ref().expect("a secure world");
        let flash = bulkhead_flash::of_system(&system, &samples::secure_monitor()).expect("it fits");
        let text = text(&system, secure, &flash);
        for part in [
            "secure monitor",
            "r-x         payload: text",
            "rw- device  device secure-gpio",
            "memory of below (NS = 1)",
            "interrupt  29 group 1 secure  secure timer",
            "interrupt  60 group 1 secure  secure-uart",
            "server urgent, priority 9, interrupt: 2000 us in 30 ms",
            "server rest, priority 1, background: what is left",
            "non-secure world below: entered at EL1, entry 0x40200040",
            "interrupt  33 wakes urgent while the payload runs",
            "rw- device  channel answers (NS = 1)",
            "channel 0 telemetry to the world, 10 blocks of 32 bytes at 0x41000000, interrupt 50",
            "channel 1 answers to the payload, 5 blocks of 8 bytes at 0x41001000, looked for every 2 ms",
            "health: heartbeat each 100 ms, 3 missed are a fault; stuck after 500 samples; after a fault: restart after 20 ms, at most 4 within 60000 ms",
        ] {
            assert!(text.contains(part), "{part} is missing in:\n{text}");
        }
        let value = form(&system, secure, &flash);
        assert_eq!((&value["non_secure"]["level"], &value["secure"]["core"]), (&"EL1".into(), &0.into()));
        assert_eq!(value["secure"]["servers"][0]["name"], "urgent");
        assert_eq!((&value["channels"][0]["interrupt"], &value["channels"][1]["poll_ms"]), (&50.into(), &2.into()));
        assert_eq!(value["non_secure"]["health"]["on_fault"], "restart");
        assert!(value["secure"]["windows"].is_null());
        let tree = device_tree_source(secure, &flash, "below").expect("a tree");
        assert!(tree.contains("pl011@9000000") && tree.contains("method = \"smc\""), "{tree}");
        assert!(tree.contains("channel@41001000") && tree.contains("label = \"answers\""), "{tree}");
        let error = device_tree_source(secure, &flash, "above").expect_err("no such world").to_string();
        assert!(error.contains("below"), "{error}");
    }

    /// SG-50, SG-51: a table of windows is shown, and who is told of them.
    #[test]
    fn windows_are_shown() {
        let mut system = samples::two_worlds();
        let secure = system.secure.as_mut().expect("a secure world");
        let rest = secure.servers.iter().position(|server| server.name == "rest").expect("it is there");
        let window = WorldWindow { server: rest, offset_ns: 30_000_000, length_ns: 20_000_000 };
        secure.windows = Some(WorldWindows { major_ns: 100_000_000, windows: vec![window], interrupt: Some(51) });
        let secure = system.secure.as_ref().expect("a secure world");
        let flash = bulkhead_flash::of_system(&system, &samples::secure_monitor()).expect("it fits");
        let text = text(&system, secure, &flash);
        for part in [
            "server rest, priority 1, windows: in its windows",
            "window of rest at 30000 us of each 100000 us, for 20000 us",
            "interrupt  51 tells the other world of each start",
        ] {
            assert!(text.contains(part), "{part} is missing in:\n{text}");
        }
        let value = form(&system, secure, &flash);
        assert_eq!(value["secure"]["servers"][1]["kind"], "windows");
        let windows = &value["secure"]["windows"];
        assert_eq!((&windows["interrupt"], &windows["windows"][0]["offset_us"]), (&51.into(), &30_000.into()));
    }
}
