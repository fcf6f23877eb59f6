//! Partitions below a payload: the image of their monitor in the flash file, and what the secure monitor is told of the cores.

use crate::build::{Planned, read_monitor, read_secure_monitor};
use crate::{Error, Image, build_image};
use bulkhead_flash::{Flash, ImageBelow};
use bulkhead_plan::model::System;
use bulkhead_plan::{AreaKind, part_of};
use bulkhead_world::cores::CoresPlan;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;

/// A flash file, and the image of the monitor at EL2 in it where partitions are below the payload.
#[derive(Clone, Debug)]
pub struct BuiltFlash {
    /// The file.
    pub flash: Flash,
    /// The image in it.
    pub below: Option<Image>,
}

/// Builds the flash file of a system with the secure monitor at this path, or else the one that is found ([`read_secure_monitor`]).
///
/// # Errors
/// When there is no monitor, or the parts do not fit.
pub fn build_flash(system: &System, monitor: Option<&Path>) -> Result<BuiltFlash, Error> {
    flash_with(system, &read_secure_monitor(monitor, system)?)
}

/// Builds the flash file of a system with this secure monitor. The monitor of partitions below is the one that is found ([`read_monitor`]).
pub(crate) fn flash_with(system: &System, monitor: &[u8]) -> Result<BuiltFlash, Error> {
    if system.secure.as_ref().is_none_or(|secure| secure.hybrid().is_none()) {
        let flash = bulkhead_flash::of_system(system, monitor).map_err(Error::Flash)?;
        return Ok(BuiltFlash { flash, below: None });
    }
    let image = build_image(system, &read_monitor(None, part_of(system))?)?;
    let pools = pools(system, &image);
    let statuses = statuses(system, &image);
    let start = image.plan.header.image_start.0;
    let below = ImageBelow { start, bytes: &image.bytes, pools: &pools, statuses: &statuses };
    let flash = bulkhead_flash::of_hybrid(system, monitor, below).map_err(Error::Flash)?;
    Ok(BuiltFlash { flash, below: Some(image) })
}

/// Where an image has what its monitor says of each partition.
fn statuses(system: &System, image: &Image) -> Vec<u64> {
    (0..system.partitions.len()).map(|index| image.plan.layout.address(AreaKind::Status(index)).0).collect()
}

/// Where an image has the pools of channels to the payload.
fn pools(system: &System, image: &Image) -> Vec<u64> {
    system.pools().map(|(index, _)| image.plan.layout.address(AreaKind::Pool(index)).0).collect()
}

/// The partitions' own plan, as for a system without a payload.
pub(crate) fn planned(system: &System, image: Image) -> Planned {
    Planned { system: system.clone(), image, monitor_elf: Vec::new() }
}

/// What the secure monitor does for the cores, for people; nothing where it serves one.
pub(crate) fn cores_text(cores: &CoresPlan) -> String {
    let mut out = String::new();
    for (core, (closed, kicks)) in cores.closed.iter().zip(cores.kicks).enumerate().take(cores.count as usize) {
        let open = list(!closed & 0xffff, 16);
        let _ = writeln!(out, "  core {core}: SGIs of others that arrive: {open}; kicks cores: {}", list(kicks, 32));
    }
    out
}

/// The same for programs.
pub(crate) fn cores_form(cores: &CoresPlan) -> Value {
    let one =
        |(closed, kicks): (&u32, u32)| json!({ "open_sgis": bits(!closed & 0xffff, 16), "kicks": bits(kicks, 32) });
    cores.closed.iter().zip(cores.kicks).take(cores.count as usize).map(one).collect()
}

fn bits(word: u32, width: u32) -> Vec<u32> {
    (0..width).filter(|bit| word >> bit & 1 == 1).collect()
}

/// Bits of a word, those in a row as ranges.
fn list(word: u32, width: u32) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for bit in bits(word, width) {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == bit => *last = bit,
            _ => ranges.push((bit, bit)),
        }
    }
    let text = |(first, last): (u32, u32)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    match ranges.is_empty() {
        true => String::from("none"),
        false => ranges.into_iter().map(text).collect::<Vec<_>>().join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::{BuiltFlash, cores_form, cores_text};
    use crate::inspect::Format;
    use bulkhead_abi::Part;
    use bulkhead_flash::ImageBelow;
    use bulkhead_plan::{MonitorImage, samples};
    use bulkhead_world::cores::CoresPlan;
    use serde_json::Value;

    /// Of partitions below a payload both are shown: what the payload reaches, and what `inspect` shows of any partitions.
    #[test]
    fn both_the_payload_and_the_partitions_are_shown() {
        let system = samples::hybrid_with_channels();
        let mut monitor = samples::monitor();
        monitor.text.splice(64..72, Part::Hybrid.mark());
        let image = crate::assemble(&system, &MonitorImage { part: Part::Hybrid, ..monitor }).expect("a plan");
        let pools = super::pools(&system, &image);
        let statuses = super::statuses(&system, &image);
        let start = image.plan.header.image_start.0;
        let below = ImageBelow { start, bytes: &image.bytes, pools: &pools, statuses: &statuses };
        let flash = bulkhead_flash::of_hybrid(&system, &samples::secure_monitor(), below).expect("it fits");
        let built = BuiltFlash { flash, below: Some(image) };
        let shown = |dts: Option<&str>, format| crate::secure::shown(&system, built.clone(), dts, format);
        let text = shown(None, Format::Text).expect("a text");
        for part in [
            "rw- device  redistributor of core 3",
            "memory of world (NS = 1)",
            "core 3: SGIs of others that arrive: none; kicks cores: 1-3",
            "non-secure world world: the monitor at EL2, entry 0x40200000",
            "channel 0 telemetry to control, 10 blocks of 32 bytes at 0x",
            "channel 1 answers from office to the payload, 5 blocks of 8 bytes at 0x",
            "map of the monitor on core 3",
            "partition office: entry",
        ] {
            assert!(text.contains(part), "{part} is missing in:\n{text}");
        }
        let json: Value = serde_json::from_str(&shown(None, Format::Json).expect("a form")).expect("JSON");
        let office = &json["channels"][1];
        assert_eq!((&json["non_secure"]["level"], &office["partition"]), (&"EL2".into(), &"office".into()));
        assert_eq!(
            (&json["cores"][1]["kicks"][2], &json["below"]["partitions"][1]["name"]),
            (&3.into(), &"office".into())
        );
        assert!(shown(Some("office"), Format::Text).expect("a tree").starts_with("/dts-v1/;"));
        assert!(shown(Some("payload"), Format::Text).is_err());
    }

    #[test]
    fn cores_are_shown_with_what_is_open() {
        let plan = CoresPlan { count: 2, closed: [0x7fff, 0x8100, 0, 0], kicks: [0b1010, 0, 0, 0], ..CoresPlan::NONE };
        let text = "  core 0: SGIs of others that arrive: 15; kicks cores: 1, 3\n  core 1: SGIs of others that arrive: 0-7, 9-14; kicks cores: none\n";
        assert_eq!(cores_text(&plan), text);
        assert_eq!(cores_form(&plan)[0].to_string(), r#"{"kicks":[1,3],"open_sgis":[15]}"#);
        assert_eq!(cores_text(&CoresPlan::NONE), "");
    }
}
