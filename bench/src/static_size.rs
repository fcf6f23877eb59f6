//! Sizes, counted without running anything, and what the monitor does before the first guest.

use crate::Failure;
use crate::lab::{Lab, Variant};
use crate::outcome::Found;
use bulkhead_abi::Part;
use bulkhead_image::{core_memory, monitor};
use bulkhead_ledger::code_lines;
use bulkhead_plan::layout::AreaKind;
use bulkhead_run::CountingOptions;

/// Text and read-only data of `own`.
pub(crate) fn own_bytes(lab: &Lab) -> Result<Found, Failure> {
    part_bytes(lab, Part::Own)
}

/// Text and read-only data of `shared`.
pub(crate) fn shared_bytes(lab: &Lab) -> Result<Found, Failure> {
    part_bytes(lab, Part::Shared)
}

/// Text and read-only data of a part.
pub(crate) fn part_bytes(lab: &Lab, part: Part) -> Result<Found, Failure> {
    let elf = lab.monitor(part)?;
    let wrong = |error: bulkhead_image::Error| Failure::wrong(error.to_string());
    let read = monitor::read(&elf).map_err(wrong)?;
    let exact = monitor::exact_bytes(&elf).map_err(wrong)?;
    if read.part != part {
        return Err(Failure::wrong(format!("the monitor is the part `{}`; name the folder of both", read.part.name())));
    }
    let pages = read.text.len() + read.rodata.len();
    Ok(Found::new(exact as f64, [format!("in whole pages {pages}")]))
}

/// Lines of our crates in `own`.
pub(crate) fn own_lines(_: &Lab) -> Result<Found, Failure> {
    part_lines(Part::Own)
}

/// Lines of our crates in `shared`.
pub(crate) fn shared_lines(_: &Lab) -> Result<Found, Failure> {
    part_lines(Part::Shared)
}

fn part_lines(part: Part) -> Result<Found, Failure> {
    let crates = code_lines::of_part(part).map_err(Failure::host)?;
    let total: usize = crates.iter().map(|(_, lines)| lines.total()).sum();
    if total == 0 {
        return Err(Failure::host("the sources are not where this program was built".to_owned()));
    }
    let parts = crates.iter().map(|(name, lines)| format!("{name} {}", lines.total())).collect::<Vec<_>>().join(", ");
    Ok(Found::new(total as f64, [parts, "third party: zerocopy, listed in docs/dependencies.md".to_owned()]))
}

/// Text and constants that a part has more than the one that it extends.
pub(crate) fn more_bytes(lab: &Lab, part: Part, base: Part) -> Result<Found, Failure> {
    let exact = |part| monitor::exact_bytes(&lab.monitor(part)?).map_err(|error| Failure::wrong(error.to_string()));
    Ok(difference([part, base], [exact(part)?, exact(base)?]))
}

/// Code lines that a part has more than the one that it extends.
pub(crate) fn more_lines(part: Part, base: Part) -> Result<Found, Failure> {
    let total = |part| code_lines::total(part).map(|lines| lines as u64).map_err(Failure::host);
    let totals = [total(part)?, total(base)?];
    if totals.contains(&0) {
        return Err(Failure::host("the sources are not where this program was built".to_owned()));
    }
    Ok(difference([part, base], totals))
}

fn difference([part, base]: [Part; 2], [more, less]: [u64; 2]) -> Found {
    Found::new(more as f64 - less as f64, [format!("{more} in `{}`, {less} in `{}`", part.name(), base.name())])
}

/// Monitor memory of the core of a partition with 1 GiB: one of Linux and a native one, the larger counts.
pub(crate) fn core_bytes(lab: &Lab) -> Result<Found, Failure> {
    let linux = [("memory = \"256 MiB\"", "memory = \"1 GiB\""), ("memory = \"512 MiB\"", "memory = \"2 GiB\"")];
    let native = [
        ("memory = \"256 MiB\"", "memory = \"2 GiB\""),
        ("memory = \"4 MiB\"", "memory = \"1 GiB\""),
        ("console = \"pl011\"", "console = \"ring\""),
    ];
    let mut worst = 0;
    let mut details = Vec::new();
    for variant in [Variant { name: "linux", changes: &linux }, Variant { name: "paths", changes: &native }] {
        let memory = core_memory(&lab.image(&lab.system(variant)?)?);
        let one = memory.first().ok_or_else(|| Failure::wrong("the system has no core".to_owned()))?;
        worst = worst.max(one.total_bytes());
        details.push(format!(
            "{}: {} = private {}, EL2 tables {}, the partition's tables and pages {}",
            if variant.name == "linux" { "Linux" } else { "native" },
            one.total_bytes(),
            one.private_bytes,
            one.el2_table_bytes,
            one.partition_share_bytes
        ));
    }
    Ok(Found::new(worst as f64, details))
}

/// Monitor memory for PCI functions: of the whole system, and of the partition that has them.
fn function_bytes(lab: &Lab) -> Result<[(u64, String); 2], Failure> {
    // What is behind a function is on the host and changes nothing here.
    let changes = [("virtio-blk", "virtio-rng"), ("disk = { file = \"DISK\" }", ""), ("PORT", "8080")];
    let plan = lab.image(&lab.system(Variant { name: "devices", changes: &changes })?)?.plan;
    let sum = |is_of: fn(AreaKind) -> bool| {
        let areas: Vec<_> = plan.areas().into_iter().filter(|area| is_of(area.kind)).collect();
        let parts: Vec<String> = areas.iter().map(|area| format!("{:?} {}", area.kind, area.page_bytes())).collect();
        (areas.iter().map(|area| area.page_bytes()).sum(), parts.join(", "))
    };
    Ok([
        sum(|kind| {
            use AreaKind::{BootDevices, Commands, Events, StreamTable};
            matches!(kind, BootDevices | Commands | Events | StreamTable)
        }),
        sum(|kind| matches!(kind, AreaKind::DevicePlan(_) | AreaKind::DeviceTables(_))),
    ])
}

fn found((bytes, parts): (u64, String)) -> Result<Found, Failure> {
    if bytes == 0 {
        return Err(Failure::wrong("the system has no functions".to_owned()));
    }
    Ok(Found::new(bytes as f64, [parts]))
}

/// Monitor memory that a system with functions has once.
pub(crate) fn functions_once(lab: &Lab) -> Result<Found, Failure> {
    let [once, _] = function_bytes(lab)?;
    found(once)
}

/// Monitor memory for each partition with functions.
pub(crate) fn functions_each(lab: &Lab) -> Result<Found, Failure> {
    let [_, each] = function_bytes(lab)?;
    found(each)
}

/// Instructions of the monitor from reset to the first one of the smallest guest.
pub(crate) fn first_guest(lab: &Lab) -> Result<Found, Failure> {
    let machine = lab.run(Variant { name: "sgi", changes: &[] }, |options| {
        options.icount_shift = Some(0);
        options.counting = options.plan.as_ref().map(CountingOptions::for_monitor);
    })?;
    let counts = machine.counts()?;
    let core = counts.cores.first().ok_or_else(|| Failure::wrong("no core was counted".to_owned()))?;
    Ok(Found::new(
        core.all.saturating_sub(core.all_since) as f64,
        ["one partition of 4 MiB, scrubbed and loaded".to_owned()],
    ))
}
