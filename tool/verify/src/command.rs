//! `bulkhead verify`: the verdict on an image file, for people or programs.

use crate::image::View;
use crate::instance;
use crate::monitor::hash_text;
use crate::world::{self, FlashVerdict, SecureMonitor};
use crate::{Expected, Extent, Finding, Findings, Monitor, Reached, Verdict, hash, verify_bytes};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Exit code for an image that is refused.
const REFUSED: u8 = 1;
/// Exit code for a file that cannot be read.
const ENVIRONMENT: u8 = 3;
/// Version of the JSON form.
const JSON_VERSION: u32 = 1;

/// Form of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Sentences.
    #[default]
    Text,
    /// One JSON object: `version`, `image`, `sha256`, `monitor_sha256`, `accepted`, `findings[]` (`code`, `title`, `message`), `extent`.
    Json,
}

/// Arguments of `bulkhead verify`.
#[derive(Args, Clone, Debug)]
pub struct VerifyArguments {
    /// Image that `bulkhead build` wrote.
    pub image: PathBuf,
    /// ELF file of the monitor that the image must hold, or folder of its parts [default: what this tool contains]
    #[arg(long, value_name = "PATH")]
    pub monitor: Option<PathBuf>,
    /// ELF file of the real-time kernel that instances must hold [default: what this tool contains]
    #[arg(long, value_name = "ELF")]
    pub kernel: Option<PathBuf>,
    /// Form of the output.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// Runs `bulkhead verify`.
///
/// Exit codes: 0 accepted, 1 refused, 3 the file cannot be read.
#[must_use]
pub fn verify(arguments: &VerifyArguments) -> ExitCode {
    let bytes = match bulkhead_files::read::bytes(&arguments.image, bulkhead_files::read::IMAGE) {
        Ok(bytes) => bytes,
        Err(error) => {
            bulkhead_files::complain!(
                "error: cannot read {}: {error}; name an image that `bulkhead build` wrote",
                arguments.image.display()
            );
            return ExitCode::from(ENVIRONMENT);
        }
    };
    if world::is_flash(&bytes) {
        return verify_flash_file(arguments, &bytes);
    }
    let verdict = match judge(arguments, &bytes) {
        Ok(verdict) => verdict,
        Err(message) => {
            bulkhead_files::complain!("error: {message}");
            return ExitCode::from(ENVIRONMENT);
        }
    };
    let hashes = Hashes { image: hash_text(&hash(&bytes)), monitor: monitor_hash(&bytes) };
    let text = match arguments.format {
        Format::Text => to_text(&arguments.image, &hashes, &verdict),
        Format::Json => format!("{:#}\n", to_json(&arguments.image, &hashes, &verdict)),
    };
    bulkhead_files::output::print(&text);
    if verdict.is_accepted() { ExitCode::SUCCESS } else { ExitCode::from(REFUSED) }
}

/// The verdict on an image of partitions, or on an instance of the kernel for the bare board.
fn judge(arguments: &VerifyArguments, bytes: &[u8]) -> Result<Verdict, String> {
    let kernel = Expected::read_kernel(arguments.kernel.as_deref())?;
    if instance::is_native(bytes) {
        return Ok(instance::verify_instance(bytes, kernel.as_ref()));
    }
    let expected = Expected::read(arguments.monitor.as_deref())?;
    Ok(verify_bytes(bytes, &kernel.map_or_else(|| expected.clone(), |kernel| expected.clone().with_kernel(kernel))))
}

/// The verdict on a flash file.
fn verify_flash_file(arguments: &VerifyArguments, bytes: &[u8]) -> ExitCode {
    let verdict = match flash_verdict(arguments.monitor.as_deref(), bytes) {
        Ok(verdict) => verdict,
        Err(message) => {
            bulkhead_files::complain!("error: {message}");
            return ExitCode::from(ENVIRONMENT);
        }
    };
    let (image, sha256) = (arguments.image.display().to_string(), hash_text(&hash(bytes)));
    let text = match arguments.format {
        Format::Text => flash_text(&image, &sha256, &verdict),
        Format::Json => format!("{:#}\n", flash_json(&image, &sha256, &verdict)),
    };
    bulkhead_files::output::print(&text);
    if verdict.is_accepted() { ExitCode::SUCCESS } else { ExitCode::from(REFUSED) }
}

/// With partitions below, their monitor must be the one that the tool contains: the user names the secure monitor.
fn flash_verdict(monitor: Option<&Path>, bytes: &[u8]) -> Result<FlashVerdict, String> {
    if world::has_partitions(bytes) {
        return Ok(world::verify_hybrid(bytes, &SecureMonitor::read_of_cores(monitor)?, &Expected::read(None)?));
    }
    Ok(world::verify_flash(bytes, &SecureMonitor::read(monitor)?))
}

fn flash_text(image: &str, sha256: &str, verdict: &FlashVerdict) -> String {
    let mut text = String::new();
    for finding in &verdict.findings {
        let _ = writeln!(text, "{finding}");
    }
    let answer = match verdict.findings.len() {
        0 => String::from("accepted"),
        count => format!("refused, {count} finding(s)"),
    };
    let _ = writeln!(text, "{image}: {answer}\n  sha256 {sha256}");
    if verdict.is_accepted() {
        let extent = &verdict.extent;
        let _ = writeln!(
            text,
            "  two worlds: a payload of {} bytes with {} table page(s), {} interrupt(s), {} server(s); {} segment(s) for the other world; {} channel(s)",
            extent.payload_bytes,
            extent.table_pages,
            extent.interrupts,
            extent.servers,
            extent.segments,
            extent.channels,
        );
        let _ = writeln!(
            text,
            "  the secure monitor is the expected one; no secure address is in the other world's {} bytes; nothing of the payload is \
             writable and executable",
            extent.window_bytes,
        );
    }
    if let Some(below) = verdict.extent.below.filter(|_| verdict.is_accepted()) {
        text.push_str("  below the payload:\n");
        write_extent(&mut text, &below);
    }
    text
}

fn flash_json(image: &str, sha256: &str, verdict: &FlashVerdict) -> Value {
    let extent = &verdict.extent;
    json!({
        "version": JSON_VERSION,
        "image": image,
        "sha256": sha256,
        "accepted": verdict.is_accepted(),
        "findings": findings_json(&verdict.findings),
        "worlds": {
            "payload_bytes": extent.payload_bytes,
            "table_pages": extent.table_pages,
            "interrupts": extent.interrupts,
            "servers": extent.servers,
            "window_bytes": extent.window_bytes,
            "segments": extent.segments,
            "channels": extent.channels,
            "below": extent.below.as_ref().map(extent_json),
        },
    })
}

fn findings_json(findings: &[Finding]) -> Vec<Value> {
    let one = |finding: &Finding| json!({"code": finding.code.name(), "title": finding.code.title(), "message": finding.message});
    findings.iter().map(one).collect()
}

/// SHA-256 of the whole file and of the monitor in it, if it has one, in hexadecimal digits.
struct Hashes {
    image: String,
    monitor: Option<String>,
}

fn monitor_hash(bytes: &[u8]) -> Option<String> {
    let monitor = Monitor::of_image(&View::open(bytes, &mut Findings::default())?)?;
    Some(hash_text(&monitor.sha256()))
}

/// The form for people.
fn to_text(image: &Path, hashes: &Hashes, verdict: &Verdict) -> String {
    let extent = &verdict.extent;
    let mut text = String::new();
    for finding in &verdict.findings {
        let _ = writeln!(text, "{finding}");
    }
    let image = image.display();
    let answer = match verdict.findings.len() {
        0 => String::from("accepted"),
        count => format!("refused, {count} finding(s)"),
    };
    let _ = writeln!(text, "{image}: {answer}\n  sha256 {}", hashes.image);
    if let Some(monitor) = &hashes.monitor {
        let _ = writeln!(text, "  monitor sha256 {monitor}");
    }
    if !verdict.is_accepted() {
        return text;
    }
    write_extent(&mut text, extent);
    for reached in &verdict.reaches {
        let _ = writeln!(text, "  {}", reach_text(reached));
    }
    text
}

/// What a function reaches, in a sentence: it is named by bus, device and function, as its StreamID is.
fn reach_text(reached: &Reached) -> String {
    let Reached { stream, partition, bytes, of_bytes, is_guests } = reached;
    let (bus, device, function) = (stream >> 8, stream >> 3 & 31, stream & 7);
    let what = match (bytes, is_guests) {
        (_, true) => String::from("what its guest reaches, and nothing else"),
        (0, false) => String::from("nothing"),
        (bytes, false) if bytes == of_bytes => format!("its RAM, {bytes} bytes, and nothing else"),
        (bytes, false) => format!("{bytes} of the {of_bytes} bytes of its RAM, and nothing else"),
    };
    format!("through the SMMU function {bus:02x}:{device:02x}.{function} of \"{partition}\" reaches {what}")
}

fn reach_json(reached: &Reached) -> Value {
    json!({
        "stream": reached.stream,
        "partition": reached.partition,
        "bytes": reached.bytes,
        "of_bytes": reached.of_bytes,
        "as_its_guest": reached.is_guests,
    })
}

fn write_extent(text: &mut String, extent: &Extent) {
    if extent.partitions > 0 {
        write_partitions(text, extent);
    }
    if extent.instances > 0 {
        let _ = writeln!(
            text,
            "  {} instance(s) of the real-time kernel with {} component(s), each in an address space of its own; none reaches the kernel, its tables \
             or another component",
            extent.instances, extent.components,
        );
    }
}

fn write_partitions(text: &mut String, extent: &Extent) {
    let _ = writeln!(
        text,
        "  {} core(s), {} partition(s), {} channel(s), {} interrupt(s), {} table page(s) walked",
        extent.cores, extent.partitions, extent.channels, extent.interrupts, extent.table_pages,
    );
    let but = if extent.virtio_devices > 0 { ", those of virtio devices by two" } else { "" };
    let _ = writeln!(
        text,
        "  guests can write {} bytes, each by one partition{but}; no guest reaches monitor, tables or another partition",
        extent.guest_writable_bytes,
    );
    if extent.virtio_devices > 0 {
        let _ = writeln!(
            text,
            "  {} virtio device(s), each with one front and one back end, which alone share its page and the front's pool and ring each other",
            extent.virtio_devices,
        );
    }
    if extent.shared_cores > 0 {
        let _ = writeln!(
            text,
            "  {} core(s) shared by {} vCPU(s) with {} server(s); whatever a guest could keep open has a budget",
            extent.shared_cores, extent.shared_vcpus, extent.servers,
        );
    }
}

/// The form for programs.
fn to_json(image: &Path, hashes: &Hashes, verdict: &Verdict) -> Value {
    let findings = findings_json(&verdict.findings);
    let extent = &verdict.extent;
    json!({
        "version": JSON_VERSION,
        "image": image.display().to_string(),
        "sha256": hashes.image,
        "monitor_sha256": hashes.monitor,
        "accepted": verdict.is_accepted(),
        "findings": findings,
        "extent": extent_json(extent),
        "functions": verdict.reaches.iter().map(reach_json).collect::<Vec<_>>(),
    })
}

fn extent_json(extent: &Extent) -> Value {
    json!({
        "cores": extent.cores,
        "partitions": extent.partitions,
        "channels": extent.channels,
        "virtio_devices": extent.virtio_devices,
        "interrupts": extent.interrupts,
        "table_pages": extent.table_pages,
        "guest_writable_bytes": extent.guest_writable_bytes,
        "shared_cores": extent.shared_cores,
        "shared_vcpus": extent.shared_vcpus,
        "servers": extent.servers,
        "instances": extent.instances,
        "components": extent.components,
    })
}
