//! The flash file of a system with a secure section, read again (`docs/specification/secure-world.md`, part 12).
//!
//! What the split between the worlds rests on, from the bytes that will boot: the secure monitor is the one that was tested, word for word;
//! the payload's tables lead to its own memory, to flash that is read alone, to registers, and to the other world's memory only as such;
//! nothing of it is writable and executable; the other world's memory holds no secure address; each segment and each interrupt belongs to
//! one world. Everything outside of these parts is empty.
//!
//! It does not show facts of the board (which addresses are registers, which interrupt a device raises), nor what the payload does.

mod below;
mod channels;
mod cores;
pub(crate) mod layout;
mod plan;
mod tables;
mod windows;

use crate::code::Code;
use crate::finding::{Finding, Findings};
use crate::monitor::Monitor;
use crate::{Expected, Extent};
use cores::Cores;
use layout::{DISTRIBUTOR_BYTES, FLASH_BYTES, MAGIC, PLAN, PLAN_END, REDISTRIBUTOR_BYTES, TABLES};
use plan::Plan;
use std::path::Path;

/// Numbers of what was read and compared, for the report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlashExtent {
    /// Bytes of the payload, its tables included.
    pub payload_bytes: u64,
    /// Pages of its tables.
    pub table_pages: usize,
    /// INTIDs that are its own.
    pub interrupts: usize,
    /// Servers of the other world.
    pub servers: usize,
    /// Bytes of the other world's memory.
    pub window_bytes: u64,
    /// Segments in it.
    pub segments: usize,
    /// Channels between the worlds.
    pub channels: usize,
    /// What was read of partitions below, where there are any and nothing is wrong with them.
    pub below: Option<Extent>,
}

/// The outcome for one flash file.
#[derive(Clone, Debug)]
pub struct FlashVerdict {
    /// What is wrong; empty for a good file.
    pub findings: Vec<Finding>,
    /// What was read.
    pub extent: FlashExtent,
}

impl FlashVerdict {
    /// States whether the file is accepted.
    #[must_use]
    pub fn is_accepted(&self) -> bool {
        self.findings.is_empty()
    }

    /// States whether some finding has this code.
    #[must_use]
    pub fn has(&self, code: Code) -> bool {
        self.findings.iter().any(|finding| finding.code == code)
    }
}

/// States whether the bytes are a flash file and no image.
#[must_use]
pub fn is_flash(bytes: &[u8]) -> bool {
    bytes.get(PLAN..).is_some_and(|page| page.starts_with(MAGIC))
}

/// The secure monitor that flash files must hold, as it lies in their first page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecureMonitor(Vec<u8>);

impl SecureMonitor {
    /// Takes it out of its ELF file; `None` when it is none.
    #[must_use]
    pub fn of_elf(file: &[u8]) -> Option<Self> {
        let mut page = Monitor::flat(file)?;
        page.resize(PLAN.max(page.len()), 0);
        (page.len() == PLAN).then_some(Self(page))
    }

    /// Reads the one that flash files of one core must hold: of a file or a folder that the user names, else the one that the tool contains.
    ///
    /// # Errors
    /// When there is none, with what to do about it.
    pub fn read(given: Option<&Path>) -> Result<Self, String> {
        Self::read_one(given, "dual.elf", bulkhead_contained_monitor::secure_elf())
    }

    /// Reads the one of files for several cores.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_of_cores(given: Option<&Path>) -> Result<Self, String> {
        Self::read_one(given, "multi.elf", bulkhead_contained_monitor::secure_elf_of_cores())
    }

    fn read_one(given: Option<&Path>, name: &str, contained: Option<&[u8]>) -> Result<Self, String> {
        let Some(path) = given else {
            let contained = contained.and_then(Self::of_elf);
            return contained.ok_or_else(|| {
                String::from(
                    "this tool contains no secure monitor, because it was compiled before one was built; build both with ./x, or \
                     name the secure monitor by --monitor",
                )
            });
        };
        let path = if path.is_dir() { path.join(name) } else { path.to_path_buf() };
        let file = bulkhead_files::read::bytes(&path, bulkhead_files::read::MONITOR)
            .map_err(|error| format!("cannot read the secure monitor {}: {error}", path.display()))?;
        Self::of_elf(&file).ok_or_else(|| format!("{} is not a secure monitor's ELF file", path.display()))
    }
}

/// States whether a flash file is for several cores, with partitions below its payload.
#[must_use]
pub fn has_partitions(bytes: &[u8]) -> bool {
    let cores = PLAN + layout::CORES;
    bytes.get(cores..cores + layout::CORES_BYTES).is_some_and(|entry| entry.iter().any(|byte| *byte != 0))
}

/// Verifies the bytes of a flash file of one core, which must hold this secure monitor.
#[must_use]
pub fn verify_flash(bytes: &[u8], expected: &SecureMonitor) -> FlashVerdict {
    verify(bytes, expected, None)
}

/// Verifies the bytes of a flash file with partitions below its payload, which must hold this secure monitor of several cores, and one of these
/// monitors at EL2.
#[must_use]
pub fn verify_hybrid(bytes: &[u8], expected: &SecureMonitor, below: &Expected) -> FlashVerdict {
    verify(bytes, expected, Some(below))
}

fn verify(bytes: &[u8], expected: &SecureMonitor, below: Option<&Expected>) -> FlashVerdict {
    let mut findings = Findings::default();
    let extent = examine(bytes, expected, below, &mut findings).unwrap_or_else(|| {
        findings
            .require(!findings.0.is_empty(), Code::WorldPlan, || String::from("the file ends inside its world plan"));
        FlashExtent::default()
    });
    FlashVerdict { findings: findings.0, extent }
}

fn examine(
    bytes: &[u8],
    expected: &SecureMonitor,
    monitors: Option<&Expected>,
    findings: &mut Findings,
) -> Option<FlashExtent> {
    let differs = bytes.iter().zip(&expected.0).position(|(found, own)| found != own);
    findings.require(differs.is_none(), Code::SecureMonitor, || {
        let offset = differs.unwrap_or(0);
        format!(
            "the secure monitor, or what fills its page, differs from byte {offset:#x} on from the one that is expected"
        )
    });
    let plan = Plan::read(bytes, findings)?;
    plan.check_world(bytes, findings);
    let below = match monitors {
        Some(monitors) => below::check(bytes, &plan, monitors, findings),
        None => {
            findings.require(plan.cores.is_none() && plan.partitions.is_empty(), Code::WorldPlan, || {
                String::from("the world plan has several cores or partitions, and its secure monitor serves one")
            });
            None
        }
    };
    plan.check_interrupts(findings);
    channels::check(&plan, findings);
    check_padding(bytes, &plan, findings);
    let payload = plan.payload(bytes, findings)?;
    let (leaves, table_pages) = tables::walk(payload, TABLES, findings);
    tables::check(&leaves, &plan, findings);
    findings.require(tables::is_text(&leaves, plan.payload_entry), Code::Payload, || {
        format!("the payload is entered at {:#x}, which it may not execute", plan.payload_entry)
    });
    let others = plan.cores.iter().flat_map(Cores::redistributors);
    let others = others.map(|frame| (frame, REDISTRIBUTOR_BYTES, "the redistributor of another core"));
    let own = [
        (plan.distributor, DISTRIBUTOR_BYTES, "the distributor"),
        (plan.redistributor, REDISTRIBUTOR_BYTES, "the redistributor of its core"),
    ];
    let frames: Vec<_> = own.into_iter().chain(others).collect();
    for (place, (start, bytes, what)) in frames.iter().enumerate() {
        let reaches = tables::has_device(&leaves, *start, *bytes);
        findings.require(reaches, Code::PayloadReach, || format!("the payload does not reach {what} at {start:#x}"));
        // What is written for one would reach the other, and its own be left as it is after reset.
        let shares =
            |(other, others, _): &&(u64, u64, _)| start.abs_diff(*other) < if start < other { *bytes } else { *others };
        if let Some((_, _, other)) = frames.iter().take(place).find(shares) {
            findings.add(Code::PayloadReach, format!("{what} at {start:#x} has registers of {other}"));
        }
    }
    let end = plan.window.saturating_add(plan.window_bytes);
    if let Some(device) = tables::device_in(&leaves, plan.window, end) {
        findings.add(
            Code::WorldWindow,
            format!("the other world's memory has registers of the payload in it, at {device:#x}"),
        );
    }
    Some(FlashExtent {
        payload_bytes: plan.payload_bytes,
        table_pages,
        interrupts: plan.interrupts.len(),
        servers: plan.servers,
        window_bytes: plan.window_bytes,
        segments: plan.segments.len(),
        channels: plan.channels.len(),
        below,
    })
}

/// Outside of its parts a file is empty, and it ends with the last of them.
fn check_padding(bytes: &[u8], plan: &Plan, findings: &mut Findings) {
    let length = bytes.len() as u64;
    findings.require(length <= FLASH_BYTES, Code::FlashLength, || {
        format!("the file has {length} bytes, and a machine shows {FLASH_BYTES} of its flash")
    });
    let mut parts: Vec<(u64, u64)> = vec![(0, PLAN_END as u64), (plan.payload_from, plan.payload_bytes)];
    parts.extend(plan.segments.iter().map(|segment| (segment.from, segment.bytes)));
    parts.sort_unstable();
    let mut end = 0;
    for (start, bytes_of_it) in parts.into_iter().chain([(length, 0)]) {
        let range = usize::try_from(end).ok().zip(usize::try_from(start).ok());
        let between = range.and_then(|(from, to)| bytes.get(from..to)).unwrap_or_default();
        findings.require(between.iter().all(|byte| *byte == 0), Code::FlashLength, || {
            format!("there are bytes between {end:#x} and {start:#x}, which no part has")
        });
        end = end.max(start.saturating_add(bytes_of_it));
    }
}
