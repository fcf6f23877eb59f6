//! Instances of the real-time kernel: `build --native`, and what `inspect` shows of them, from their bytes.

use crate::Error;
use crate::build::{BuildArguments, ENVIRONMENT, REFUSED};
use crate::inspect::{Format, InspectArguments};
use crate::map::size_text;
use crate::write::write_all;
use bulkhead_description::command::print_report;
use bulkhead_description::kernel::{ENDING, Laid, is_kernel_file, load_native};
use bulkhead_description::{Options, Report};
use bulkhead_guest_abi::channel::PORT_SAMPLING;
use bulkhead_verify_instance::{Component, Device, Page, Port, Program, Quota, Summary, summary};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Version of the JSON form of an instance by itself.
const JSON_VERSION: u32 = 1;
/// Bytes of a page.
const PAGE_BYTES: u64 = 4096;

/// Writes an instance for the bare board; the report of a description that is refused was printed.
pub(crate) fn build(arguments: &BuildArguments) -> Result<Result<String, ExitCode>, Error> {
    let path = &arguments.source.system;
    if !arguments.native || !is_kernel_file(path) {
        return Err(Error::Native(path.clone()));
    }
    let laid = match load(path, arguments.source.guests.clone()) {
        Ok(laid) => laid,
        Err(code) => return Ok(Err(code)),
    };
    let output = arguments.output.clone().unwrap_or_else(|| PathBuf::from(format!("{}.img", name_of(path))));
    write_all(&[(output.as_path(), laid.bytes.as_slice())])?;
    let (components, size) = (laid.components.len(), size_text(laid.bytes.len() as u64));
    Ok(Ok(format!("{}: {size} for the bare board, {components} component(s)", output.display())))
}

/// Runs `bulkhead inspect` on the description of an instance.
pub(crate) fn inspect(arguments: &InspectArguments) -> ExitCode {
    let laid = match load(&arguments.source.system, arguments.source.guests.clone()) {
        Ok(laid) => laid,
        Err(code) => return code,
    };
    let text = match arguments.format {
        Format::Text => text(&laid.bytes, ""),
        Format::Json => {
            let mut form = form(&laid.bytes);
            form["version"] = JSON_VERSION.into();
            format!("{form:#}\n")
        }
    };
    bulkhead_files::output::print(text.trim_start());
    ExitCode::SUCCESS
}

fn load(path: &Path, guests: Option<PathBuf>) -> Result<Laid, ExitCode> {
    let code = |report: &Report| ExitCode::from(if report.has_environment_errors() { ENVIRONMENT } else { REFUSED });
    match load_native(path, &Options::from_environment(guests)) {
        Ok(laid) => {
            print_report(&laid.warnings);
            Ok(laid)
        }
        Err(report) => {
            print_report(&report);
            Err(code(&report))
        }
    }
}

/// `flight` of `flight.kernel.toml`.
fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.strip_suffix(ENDING).unwrap_or(&name).to_owned()
}

/// Writing to a string cannot fail.
macro_rules! line {
    ($out:expr, $($argument:tt)*) => {
        let _ = writeln!($out, $($argument)*);
    };
}

/// The form for people, behind an empty line; `place` says where the instance is.
pub(crate) fn text(bytes: &[u8], place: &str) -> String {
    let Some(instance) = summary(bytes) else { return String::new() };
    let mut out = String::new();
    line!(
        out,
        "\ninstance of the real-time kernel{place}: {}, of it {} the kernel and {} translation tables",
        size_text(bytes.len() as u64),
        size_text(instance.kernel_pages * PAGE_BYTES),
        size_text(instance.table_pages as u64 * PAGE_BYTES)
    );
    for (number, component) in instance.components.iter().enumerate() {
        let Component { name, threads, entries, stacks, .. } = component;
        line!(
            out,
            "\ncomponent {number} {name}: {threads} thread(s), {entries} function(s) for others, {stacks} stack(s) for callers"
        );
        write_pages(&mut out, &component.pages);
        for Device { name, physical, bytes, reaches_all } in &component.devices {
            let reach = if *reaches_all { ", and all memory, with which the component is trusted" } else { "" };
            line!(out, "  device {name}: {} of registers at {physical:#x}{reach}", size_text(*bytes));
        }
        for port in &component.ports {
            let Port { name, window, bytes, shape: (_, message_bytes, slots), .. } = port;
            let does = if port.is_source { "written" } else { "read" };
            line!(
                out,
                "  port {name}: {does}, {slots} of {message_bytes} bytes in {} at {window:#x}",
                size_text(*bytes)
            );
        }
        if let Some(Quota { bytes, components, threads, regions }) = component.quota {
            let bytes = size_text(bytes);
            line!(
                out,
                "  quota: {bytes} of the pool, {components} process(es), {threads} thread(s), {regions} region(s)"
            );
        }
        for (slot, capability) in &component.slots {
            line!(out, "  slot {slot:>3}  {capability}");
        }
    }
    write_programs(&mut out, &instance);
    line!(out, "\nwho can reach whom{place}");
    let mut rows = vec![["component", "calls", "sends to", "devices"].map(String::from).to_vec()];
    for component in &instance.components {
        let names = |numbers: &[u16]| names(&instance, numbers).join(", ");
        let devices: Vec<&str> = component.devices.iter().map(|device| device.name.as_str()).collect();
        rows.push(vec![component.name.clone(), names(&component.calls), names(&component.sends), devices.join(", ")]);
    }
    out.push_str(&bulkhead_files::table::table(&rows, 4, 2));
    out
}

fn write_pages(out: &mut String, pages: &[Page]) {
    for page in pages {
        let end = page.address + page.bytes;
        line!(out, "  {:#010x}..{end:#010x}  {}  at {:#x}", page.address, rights(page), page.output);
    }
}

/// What processes are made of, if there can be any.
fn write_programs(out: &mut String, instance: &Summary) {
    if instance.pool_bytes > 0 {
        line!(out, "\npool for what is made at run time: {}", size_text(instance.pool_bytes));
    }
    for (number, Program { name, start_bytes, stack_bytes, segments }) in instance.programs.iter().enumerate() {
        let (start, stack) = (size_text(*start_bytes), size_text(*stack_bytes));
        line!(out, "program {number} {name}: a process of it begins with {start} of its quota, of it {stack} stack");
        write_pages(out, segments);
    }
}

fn rights(page: &Page) -> &'static str {
    match (page.write, page.execute) {
        (true, true) => "rwx",
        (true, false) => "rw-",
        (false, true) => "r-x",
        (false, false) => "r--",
    }
}

fn names<'s>(instance: &'s Summary, numbers: &[u16]) -> Vec<&'s str> {
    let name = |number: &u16| instance.components.get(usize::from(*number)).map_or("?", |one| one.name.as_str());
    numbers.iter().map(name).collect()
}

/// The form for programs: `kernel_bytes`, `table_bytes`, `pool_bytes`, `components[]`, `programs[]`.
pub(crate) fn form(bytes: &[u8]) -> Value {
    let Some(instance) = summary(bytes) else { return Value::Null };
    let page = |page: &Page| json!({"address": page.address, "output": page.output, "bytes": page.bytes, "rights": rights(page)});
    let device = |one: &Device| {
        let Device { name, physical, bytes, reaches_all } = one;
        json!({"name": name, "physical": physical, "bytes": bytes, "reaches_all": reaches_all})
    };
    let quota = |one: Quota| json!({"bytes": one.bytes, "processes": one.components, "threads": one.threads, "regions": one.regions});
    let port = |one: &Port| {
        let (kind, message_bytes, slots) = one.shape;
        let kind = if kind == PORT_SAMPLING { "sampling" } else { "queuing" };
        let direction = if one.is_source { "source" } else { "destination" };
        json!({
            "name": one.name,
            "direction": direction,
            "kind": kind,
            "message_bytes": message_bytes,
            "slots": slots,
            "window": one.window,
            "bytes": one.bytes,
        })
    };
    let component = |one: &Component| {
        let slot = |(slot, capability): &(usize, String)| json!({"slot": slot, "capability": capability});
        json!({
            "name": one.name,
            "threads": one.threads,
            "entries": one.entries,
            "stacks": one.stacks,
            "map": one.pages.iter().map(page).collect::<Vec<_>>(),
            "slots": one.slots.iter().map(slot).collect::<Vec<_>>(),
            "calls": names(&instance, &one.calls),
            "sends": names(&instance, &one.sends),
            "devices": one.devices.iter().map(device).collect::<Vec<_>>(),
            "ports": one.ports.iter().map(port).collect::<Vec<_>>(),
            "quota": one.quota.map(quota),
        })
    };
    let program = |one: &Program| {
        json!({
            "name": one.name,
            "start_bytes": one.start_bytes,
            "stack_bytes": one.stack_bytes,
            "segments": one.segments.iter().map(page).collect::<Vec<_>>(),
        })
    };
    json!({
        "bytes": bytes.len(),
        "kernel_bytes": instance.kernel_pages * PAGE_BYTES,
        "table_bytes": instance.table_pages as u64 * PAGE_BYTES,
        "pool_bytes": instance.pool_bytes,
        "components": instance.components.iter().map(component).collect::<Vec<_>>(),
        "programs": instance.programs.iter().map(program).collect::<Vec<_>>(),
    })
}
