//! `bulkhead inspect`: what `build` would put into the image, without writing it.

use crate::Error;
use crate::build::{Planned, SystemArguments, fail, load_system, plan_system};
use crate::json;
use crate::map::{area_text, el2_rights_text, size_text, stage2_rights_text};
use crate::report::core_memory;
use crate::schedule;
use bulkhead_abi::plan::{
    INTERRUPT_CONSOLE, INTERRUPT_DEVICE, InterruptPlan, PartitionPlan, WINDOW_ECAM, WINDOW_GICD, WINDOW_GICR,
    WINDOW_UART, WINDOW_VIRTIO,
};
use bulkhead_description::Check;
use bulkhead_description::kernel::is_kernel_file;
use bulkhead_plan::fronts;
use bulkhead_plan::model::{GuestImage, System, VirtioKind};
use bulkhead_plan::tables::{Attributes, Mapping};
use clap::{Args, ValueEnum};
use dtoolkit::fdt::Fdt;
use std::fmt::Write as _;
use std::process::ExitCode;

/// Form of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Tables for people.
    #[default]
    Text,
    /// One JSON object.
    Json,
}

/// Arguments of `bulkhead inspect`.
#[derive(Args, Clone, Debug)]
pub struct InspectArguments {
    /// Description and its parts.
    #[command(flatten)]
    pub source: SystemArguments,
    /// Print only the device tree of this partition, as DTS.
    #[arg(long, value_name = "PARTITION")]
    pub dts: Option<String>,
    /// Form of the output.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// Runs `bulkhead inspect`.
///
/// Exit codes: 0 shown, 1 the description is refused, 3 a file is missing.
#[must_use]
pub fn inspect(arguments: &InspectArguments, check: &dyn Check) -> ExitCode {
    if is_kernel_file(&arguments.source.system) {
        return crate::instance::inspect(arguments);
    }
    let system = match load_system(&arguments.source, check) {
        Ok(system) => system,
        Err(code) => return code,
    };
    if system.secure.is_some() {
        return match crate::secure::show(arguments, &system) {
            Ok(text) => {
                bulkhead_files::output::print(&text);
                ExitCode::SUCCESS
            }
            Err(error) => fail(&error),
        };
    }
    let planned = match plan_system(&arguments.source, system) {
        Ok(planned) => planned,
        Err(code) => return code,
    };
    let text = match (&arguments.dts, arguments.format) {
        (Some(name), _) => match device_tree_source(&planned, name) {
            Ok(text) => text,
            Err(error) => return fail(&error),
        },
        (None, Format::Text) => text(&planned),
        (None, Format::Json) => format!("{:#}\n", json::form(&planned)),
    };
    bulkhead_files::output::print(&text);
    ExitCode::SUCCESS
}

/// Returns a partition's device tree as DTS.
pub(crate) fn device_tree_source(planned: &Planned, name: &str) -> Result<String, Error> {
    let known = || planned.system.partitions.iter().map(|partition| partition.name.clone());
    let missing = || Error::NoPartition { name: name.to_string(), known: known().collect() };
    let index = known().position(|one| one == name).ok_or_else(missing)?;
    let bytes =
        planned.image.plan.partitions.get(index).map(|partition| partition.device_tree.as_slice()).unwrap_or_default();
    Fdt::new(bytes)
        .map(|tree| tree.to_string())
        .map_err(|error| Error::Monitor(format!("own device tree is damaged: {error}")))
}

/// Writing to a string cannot fail.
macro_rules! line {
    ($out:expr, $($argument:tt)*) => {
        let _ = writeln!($out, $($argument)*);
    };
}

pub(crate) fn text(planned: &Planned) -> String {
    let (system, plan) = (&planned.system, &planned.image.plan);
    let mut out = String::new();
    let image_bytes = size_text(plan.header.memory_bytes);
    let start = plan.header.image_start;
    line!(out, "system {} on board {}: image {image_bytes}, loaded at {start}", system.name, system.board.name);
    write_memory(&mut out, planned);
    write_virtio(&mut out, system);
    for (core_use, schedule) in plan.core_uses.iter().zip(&plan.schedules) {
        if let Some(schedule) = schedule {
            out.push_str(&schedule::text(system, core_use, schedule));
            out.push_str(&schedule::waits_text(&schedule::waits(plan, core_use, schedule), system));
        }
    }
    for (core_use, mappings) in plan.core_uses.iter().zip(&plan.el2) {
        line!(out, "\nmap of the monitor on core {}", core_use.board_core);
        write_mappings(&mut out, planned, mappings, el2_rights_text);
    }
    for (partition, result) in system.partitions.iter().zip(&plan.partitions) {
        let (entry, tree) = (result.plan.entry, result.plan.device_tree);
        line!(out, "\npartition {}: entry {entry}, device tree {tree}", partition.name);
        write_mappings(&mut out, planned, &result.stage2, stage2_rights_text);
        write_emulation(&mut out, &result.plan);
        if let GuestImage::Kernel { bytes, .. } = &partition.image {
            let place = format!(" in partition {}", partition.name);
            out.push_str(&crate::instance::text(bytes, &place));
        }
    }
    out
}

fn write_memory(out: &mut String, planned: &Planned) {
    line!(out, "\nphysical memory");
    for area in planned.image.plan.areas() {
        let (size, name) = (size_text(area.page_bytes()), area_text(&planned.system, area.kind));
        line!(out, "  {:#012x}..{:#012x} {size:>8}  {name}", area.address.0, area.end());
    }
    line!(out, "\nmonitor memory per core, tables included, rings and pristine images not");
    let head = ["core", "all", "private", "EL2 tables", "share of the partitions"];
    let mut rows = vec![head.map(String::from).to_vec()];
    for memory in core_memory(&planned.image) {
        let bytes = [memory.total_bytes(), memory.private_bytes, memory.el2_table_bytes, memory.partition_share_bytes];
        rows.push(std::iter::once(memory.board_core.to_string()).chain(bytes.map(size_text)).collect());
    }
    out.push_str(&bulkhead_files::table::table(&rows, 1, 2));
}

/// Who serves which device to whom, and what the two share for it.
fn write_virtio(out: &mut String, system: &System) {
    if system.virtio.is_empty() {
        return;
    }
    line!(out, "\nvirtio devices, each with a device page and the pool of its front that front and back end write");
    let mut rows = vec![["device", "kind", "front", "back end", "size", "pool"].map(String::from).to_vec()];
    let name = |index: usize| system.partitions.get(index).map_or("?", |partition| partition.name.as_str()).to_owned();
    for device in &system.virtio {
        let bytes = match device.kind {
            VirtioKind::Block { bytes, .. } => size_text(bytes),
            VirtioKind::Net { .. } => String::from("-"),
        };
        let pool = size_text(fronts::pool_of(system, device.front).unwrap_or(0));
        let (front, back) = (name(device.front), name(device.back));
        rows.push(vec![device.name.clone(), device.kind.name().to_owned(), front, back, bytes, pool]);
    }
    out.push_str(&bulkhead_files::table::table(&rows, 4, 2));
}

fn write_emulation(out: &mut String, plan: &PartitionPlan) {
    for window in plan.windows() {
        let end = window.guest.0 + window.bytes;
        line!(out, "  {:#012x}..{end:#012x} emulated  {}", window.guest.0, window_text(window.kind));
    }
    for interrupt in plan.interrupts() {
        let trigger = if interrupt.edge != 0 { "edge " } else { "level" };
        let (intid, name) = (interrupt.intid, interrupt_text(interrupt));
        // Without a shared core nobody else can run, and a route means nothing.
        let route = match plan.shared_vcpus {
            0 => String::new(),
            _ => format!(", {}", schedule::route_text(interrupt)),
        };
        line!(out, "  interrupt {intid:>3} {trigger} {name}{route}");
    }
}

/// Names the rights of a mapping.
pub(crate) type RightsText = fn(Attributes) -> &'static str;

fn write_mappings(out: &mut String, planned: &Planned, mappings: &[Mapping], rights_text: RightsText) {
    let mut sorted = mappings.to_vec();
    sorted.sort_by_key(|mapping| mapping.input);
    for mapping in sorted {
        let end = mapping.input + mapping.bytes;
        let (rights, target) = (rights_text(mapping.attributes), target_text(planned, &mapping));
        let elsewhere = match mapping.output.0 == mapping.input {
            true => String::new(),
            false => format!(" at {:#x}", mapping.output.0),
        };
        line!(out, "  {:#010x}..{end:#010x}  {rights:<12} {target}{elsewhere}", mapping.input);
    }
}

/// Names what a mapping leads to.
pub(crate) fn target_text(planned: &Planned, mapping: &Mapping) -> String {
    let board = &planned.system.board;
    let area = planned.image.plan.areas().into_iter().find(|area| area.address == mapping.output);
    if let Some(area) = area {
        return area_text(&planned.system, area.kind);
    }
    let device = board
        .devices
        .iter()
        .find(|device| bulkhead_plan::maps::whole_pages(device.address, device.bytes).0 == mapping.output.0);
    match device {
        Some(device) => format!("device {}", device.name),
        None if mapping.output == board.gicd => String::from("interrupt distributor"),
        None if board.uart.is_some_and(|uart| uart.address == mapping.output) => {
            String::from("UART, for console input")
        }
        None => String::from("redistributor of this core"),
    }
}

/// Names what the monitor answers for.
pub(crate) fn window_text(kind: u32) -> &'static str {
    match kind {
        WINDOW_GICD => "interrupt distributor",
        WINDOW_GICR => "redistributors",
        WINDOW_UART => "PL011",
        WINDOW_ECAM => "PCI configuration space",
        WINDOW_VIRTIO => "registers of a virtio device",
        _ => "registers of a PCI function",
    }
}

/// Names what an interrupt is for.
pub(crate) fn interrupt_text(interrupt: &InterruptPlan) -> &'static str {
    match interrupt.kind {
        INTERRUPT_DEVICE => "device",
        INTERRUPT_CONSOLE => "console",
        _ => "doorbell",
    }
}

#[cfg(test)]
mod tests {
    use super::{device_tree_source, json, text};
    use crate::assemble;
    use crate::build::Planned;
    use bulkhead_files::table::COLUMNS;
    use bulkhead_plan::samples;

    fn demo() -> Planned {
        let system = samples::demo();
        let image = assemble(&system, &samples::monitor()).unwrap();
        Planned { system, image, monitor_elf: Vec::new() }
    }

    #[test]
    fn text_and_json_draw_virtio_devices() {
        let system = samples::virtio();
        let mut monitor = samples::monitor();
        monitor.part = bulkhead_abi::Part::Devices;
        monitor.text.splice(64..72, monitor.part.mark());
        let image = assemble(&system, &monitor).unwrap();
        let planned = Planned { system, image, monitor_elf: Vec::new() };
        let text = text(&planned);
        for part in [
            "disk    block  office  linux",
            "virtio device disk, device page",
            "pool of office's virtio devices",
            "emulated  registers of a virtio device",
            "doorbell words of virtio device net, notifications",
        ] {
            assert!(text.contains(part), "{part} is missing in:\n{text}");
        }
        assert!(!text.contains('?'), "everything has a name:\n{text}");
        let json = json::form(&planned);
        let lab = &json["virtio"][2];
        assert_eq!((&lab["name"], &lab["front"], &lab["back"]), (&"store".into(), &"lab".into(), &"server".into()));
        assert_eq!((&lab["size"], &lab["pool_bytes"]), (&1536.into(), &(9 << 20).into()));
    }

    #[test]
    fn text_names_every_partition_area_and_route() {
        let text = text(&demo());
        for part in [
            "RAM of control",
            "stage-2 tables of linux",
            "map of the monitor on core 3",
            "rwx normal   RAM of rtos",
            "emulated  PCI configuration space",
            "interrupt  34 level device",
            "device rtc",
        ] {
            assert!(text.contains(part), "{part} is missing in:\n{text}");
        }
        assert!(!text.contains('?'), "everything has a name:\n{text}");
        // A second address has to go somewhere.
        let tables = text.lines().filter(|line| line.starts_with("  0x") && !line.contains(" at 0x"));
        assert_eq!(tables.clone().find(|line| line.chars().count() > COLUMNS), None, "tables fit a terminal");
        assert!(tables.count() > 50, "{text}");
    }

    /// CH-36: one page for all senders that are limited together.
    #[test]
    fn doorbells_that_are_limited_together_have_one_page() {
        let mut system = samples::demo();
        samples::limit_together(&mut system, 2);
        let image = assemble(&system, &samples::monitor()).unwrap();
        let text = text(&Planned { system, image, monitor_elf: Vec::new() });
        let memory = text.split("\nmap of the monitor").next().unwrap();
        let pages: Vec<&str> =
            memory.lines().filter_map(|line| line.split_once("doorbell words of ")).map(|line| line.1).collect();
        assert_eq!(pages, ["all channels to linux", "channel ticks"]);
    }

    #[test]
    fn json_form_has_the_same_maps() {
        let planned = demo();
        let form = json::form(&planned);
        assert_eq!(form["partitions"].as_array().map(Vec::len), Some(4));
        assert_eq!(form["cores"][0]["map"].as_array().map(Vec::len), Some(planned.image.plan.el2[0].len()));
        assert_eq!(form["image"]["start"], 0x4020_0000);
        let named = |part: &str| form.to_string().contains(part);
        assert!(named("RAM of intruder") && !named("\"?\""));
    }

    #[test]
    fn device_tree_is_shown_as_source() {
        let source = device_tree_source(&demo(), "linux").unwrap();
        assert!(source.starts_with("/dts-v1/;"), "{source}");
        assert!(source.contains("rtc@9010000"), "{source}");
    }

    #[test]
    fn unknown_partition_is_answered_with_the_known_ones() {
        let error = device_tree_source(&demo(), "Linux").unwrap_err().to_string();
        assert!(error.contains("control, rtos, linux, intruder"), "{error}");
    }
}
