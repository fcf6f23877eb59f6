//! Reads a finished image again and proves that its partitions are isolated.
//!
//! Translation validation: the claim is about the artefact, not about the source. This crate shares only
//! `core/abi` and `core/guest-abi` with the writer. It walks every EL2 and stage-2 table in the bytes that will boot, follows every address in every
//! plan, and refuses the image unless each fact that isolation rests on holds: each physical page is writable by at
//! most one partition, monitor memory is in nobody's map except declared pages with the declared rights, each core's
//! monitor maps what record 0001 lists and nothing else, nothing is writable and executable at EL2, registers hold
//! exactly the confining values, every interrupt has one owner. On a shared core each vCPU has its own slot with its own plan and
//! data, and every claim on the core's time is well formed and, where a guest could keep it open, bounded.
//!
//! The method is comparison with what must be (module `cover`): a mapping that is not expected is refused even if no
//! rule names it. The rejected alternative, a list of forbidden things, would let through what its author did not think of.
//!
//! The monitor's text and constants must be those of the monitor that the tool contains, byte for byte (module `monitor`).
//! What it does not show: that the monitor's code is right, and facts of the board
//! (where devices are, which of them can write memory by themselves); `bulkhead check` judges those from the board
//! file.
#![forbid(unsafe_code)]
// They end the program when the stream cannot be written; see `bulkhead_files::output`.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod area;
mod board;
mod channel;
pub mod code;
mod command;
mod console;
mod cover;
mod devices;
mod dma;
mod el2;
mod finding;
mod fronts;
mod guest;
mod image;
pub mod instance;
mod interrupts;
mod loading;
mod management;
mod monitor;
mod padding;
mod registers;
mod schedule;
mod server;
mod values;
mod walk;
pub mod world;

pub use code::Code;
pub use command::{Format, VerifyArguments, verify};
pub use dma::Reached;
pub use finding::{Finding, Findings};
pub use monitor::{Expected, Monitor};

use area::{Areas, Maps};
use image::{Contents, View};
use sha2::{Digest, Sha256};
use walk::Stage;

/// Numbers of what was read and compared, for the report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Cores.
    pub cores: usize,
    /// Partitions.
    pub partitions: usize,
    /// Channels.
    pub channels: usize,
    /// virtio devices between partitions.
    pub virtio_devices: usize,
    /// Translation table pages walked.
    pub table_pages: usize,
    /// Bytes that some guest can write.
    pub guest_writable_bytes: u64,
    /// Interrupts with an owner.
    pub interrupts: usize,
    /// Cores with a schedule.
    pub shared_cores: usize,
    /// vCPUs on them.
    pub shared_vcpus: usize,
    /// Servers of these vCPUs.
    pub servers: usize,
    /// Instances of the real-time kernel.
    pub instances: usize,
    /// Components of these.
    pub components: usize,
}

/// The outcome for one image.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// What is wrong; empty for a good image.
    pub findings: Vec<Finding>,
    /// What was read.
    pub extent: Extent,
    /// What the DMA of each function reaches, in the order of streams.
    pub reaches: Vec<Reached>,
}

impl Verdict {
    /// States whether the image is accepted.
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

/// Verifies the bytes of an image, which must hold one of these monitors: that of the part that its header names.
#[must_use]
pub fn verify_bytes(bytes: &[u8], expected: &Expected) -> Verdict {
    verify_below(bytes, expected).0
}

/// Verifies the bytes of an image as [`verify_bytes`], and tells of its partitions' ends of channels to a payload.
pub(crate) fn verify_below(bytes: &[u8], expected: &Expected) -> (Verdict, Vec<channel::Pool>) {
    let mut findings = Findings::default();
    let (extent, pools, reaches) = examine(bytes, expected, &mut findings).unwrap_or_default();
    (Verdict { findings: findings.0, extent, reaches }, pools)
}

/// Returns the SHA-256 of an image, which names the bytes that a verdict is about.
#[must_use]
pub fn hash(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// What an image says, its partitions' ends of channels to a payload, and what its functions reach.
type Examined = (Extent, Vec<channel::Pool>, Vec<Reached>);

/// Runs all checks; `None` when the image cannot be read far enough.
fn examine(bytes: &[u8], expected: &Expected, findings: &mut Findings) -> Option<Examined> {
    let view = View::open(bytes, findings)?;
    if !view.check_header(findings) {
        return None;
    }
    expected.check(&view, findings);
    let contents = Contents::read(&view, findings)?;
    let bits = board::check(&view, &contents, findings);
    values::check(&view, &contents, bits, findings);
    let mut maps = Maps::default();
    for core in &contents.cores {
        let place = format!("EL2 tables of core {}", core.index);
        maps.cores.push(walk::walk(&view, Stage::El2, bits, core.boot.el2_root.0, &place, findings));
    }
    for partition in &contents.partitions {
        let place = format!("stage-2 tables of partition \"{}\"", partition.name());
        maps.guests.push(walk::walk(&view, Stage::Guest, bits, partition.entry.stage2_root.0, &place, findings));
    }
    channel::information_pages(&view, &contents, &mut maps, findings);
    let ends = channel::ends(&view, &contents, &maps, findings);
    let devices = dma::Devices::read(&view, &contents, findings);
    let translation = dma::check(&view, &contents, &devices, findings);
    let streams = dma::streams(&view, &contents, bits, &devices, &translation, findings);
    let of_devices = dma::areas(&devices, &translation, &streams);
    let areas = Areas::collect(&view, &contents, &maps, &ends, &of_devices, findings);
    el2::check(&view, &contents, &maps, &areas, &devices, findings);
    let places = dma::places(&devices, &translation);
    let pairs = fronts::check(&contents, &devices, &ends, findings);
    guest::check(&view, &contents, &maps, &areas, (&ends, &pairs), (&devices, &places), findings);
    channel::check(&contents, &ends.channels, findings);
    channel::check_pools(&ends.pools, findings);
    schedule::check(&view, &contents, findings);
    interrupts::check(&view, &contents, &ends.pools, findings);
    devices::check(&view, &contents, findings);
    console::check(&contents, findings);
    loading::check(&view, &contents, findings);
    management::check(&contents, findings);
    let (instances, components) = instance::check(
        &view,
        &contents,
        (&maps.guests, &ends.channels, &streams.functions),
        expected.kernel(),
        findings,
    );
    padding::check(&view, &contents, &maps, &devices, &streams, findings);
    let shared = || contents.cores.iter().filter(|core| core.schedule.is_some());
    let extent = Extent {
        cores: contents.cores.len(),
        partitions: contents.partitions.len(),
        channels: ends.channels.len() / 2,
        virtio_devices: pairs.len(),
        table_pages: maps.cores.iter().chain(&maps.guests).map(|map| map.tables.len()).sum(),
        guest_writable_bytes: maps
            .guests
            .iter()
            .flat_map(|map| &map.runs)
            .filter(|run| run.rights.write)
            .map(|run| run.bytes)
            .sum(),
        shared_cores: shared().count(),
        shared_vcpus: shared().map(|core| core.vcpus.len()).sum(),
        servers: shared().filter_map(|core| core.schedule).map(|plan| plan.server_count as usize).sum(),
        instances,
        components,
        interrupts: contents.partitions.iter().map(|partition| partition.plan.interrupt_count as usize).sum(),
    };
    Some((extent, ends.pools, streams.reaches))
}
