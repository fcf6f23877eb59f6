//! Instances of the real-time kernel: in partitions, and as files of their own for the bare board.
//!
//! What isolates the components of an instance is judged by `bulkhead-verify-instance`, which shares `core/kernel-abi` with the writer and nothing else. This
//! module finds the bytes. Nothing in an image says that a partition's guest is an instance, because the monitor does not know the kernel: so a guest is taken for
//! one if it has the head of one anywhere, or begins as the kernel does. Somebody who damages both has made another guest, which is isolated from other
//! partitions all the same; the number of instances is in the report, so that a missing one is seen.

mod dma;
mod ports;
mod wires;

use crate::channel::End;
use crate::code::Code;
use crate::dma::Master;
use crate::finding::Findings;
use crate::image::{Contents, PAGE, Partition, View};
use crate::monitor::Monitor;
use crate::walk::{Map, Memory};
use crate::{Extent, Verdict};
use bulkhead_abi::image::{ARM64_IMAGE_MAGIC, IMAGE_MAGIC};
use bulkhead_abi::plan::{PCI_DEVICE, Segment};
use bulkhead_guest_abi::guest::GUEST_ECAM;
use bulkhead_kernel_abi::image::{LOAD, MAGIC};
pub use bulkhead_verify_instance::Expected as Kernel;
use bulkhead_verify_instance::{Kind, Summary, summary, verify};

/// Bytes of configuration space of a device of a bus.
const DEVICE_BYTES: u64 = 1 << 15;
/// Where an arm64 Image says how long it is, and its magic.
const IMAGE_BYTES: usize = 16;
const IMAGE_MARK: usize = 56;
/// Bytes in front that every kernel has of its own, without its length.
const FRONT: usize = 4096;

/// Reads the kernel that instances must hold from its ELF file; `None` when it is none.
#[must_use]
pub fn kernel(file: &[u8]) -> Option<Kernel> {
    let (text, bytes) = Monitor::text_of(file)?;
    Some(Kernel::of(&text, bytes))
}

/// Judges the instances in partitions; returns how many there are, and their components. `guests` is what each partition maps, `ends` are of its channels, `functions` reach memory.
pub(crate) fn check(
    view: &View<'_>,
    contents: &Contents,
    (guests, ends, functions): (&[Map], &[End], &[Master]),
    kernel: Option<&Kernel>,
    findings: &mut Findings,
) -> (usize, usize) {
    let (mut instances, mut components, mut wired) = (0, 0, Vec::new());
    for (partition, map) in contents.partitions.iter().zip(guests) {
        let Some(bytes) = guest(view, partition).filter(|bytes| is_instance(bytes, kernel)) else { continue };
        instances += 1;
        let place = format!("partition \"{}\": ", partition.name());
        let bytes = without_rest(&bytes);
        components += judge(bytes, kernel, &place, findings);
        let entry = partition.plan.entry.0;
        findings.require(entry == LOAD, Code::InstanceStart, || {
            format!("{place}the instance is entered at {entry:#x}, and its kernel begins at {LOAD:#x}")
        });
        if let Some(summary) = summary(bytes) {
            belongings(partition, map, &summary, &place, findings);
            dma::check(partition, functions, &summary, &place, findings);
            wired.push((partition, summary));
        }
    }
    wires::check(&wired, ends, findings);
    ports::check(&wired, ends, findings);
    (instances, components)
}

/// What an instance gives its components is the partition's own: registers that its stage 2 shows as a device, and interrupts that it gets.
fn belongings(partition: &Partition, map: &Map, summary: &Summary, place: &str, findings: &mut Findings) {
    for (component, device) in summary.components.iter().flat_map(|one| one.devices.iter().map(move |it| (one, it))) {
        let is_own = |page| {
            let is_mapped = map.find(page).is_some_and(|run| run.memory == Memory::Device && run.rights.write);
            is_mapped || is_configuration(partition, page)
        };
        let end = device.physical.saturating_add(device.bytes);
        findings.require((device.physical..end).step_by(PAGE as usize).all(is_own), Code::InstanceForeign, || {
            format!(
                "{place}component `{}` has the device `{}`, which the partition has not",
                component.name, device.name
            )
        });
    }
    for intid in &summary.interrupts {
        let is_own = partition.plan.interrupts().iter().any(|one| one.intid == *intid);
        findings.require(is_own, Code::InstanceForeign, || {
            format!("{place}a component has the interrupt {intid}, which the partition has not")
        });
    }
}

/// States whether a page is the configuration space of a PCI function of the board that the partition has: the monitor answers there.
fn is_configuration(partition: &Partition, page: u64) -> bool {
    let Some(offset) = page.checked_sub(GUEST_ECAM.0) else { return false };
    let function =
        usize::try_from(offset / DEVICE_BYTES).ok().and_then(|device| partition.plan.pci().get(device.checked_sub(1)?));
    offset.is_multiple_of(DEVICE_BYTES) && function.is_some_and(|function| function.kind == PCI_DEVICE)
}

/// Examines one; returns how many components it has.
fn judge(bytes: &[u8], kernel: Option<&Kernel>, place: &str, findings: &mut Findings) -> usize {
    let Some(kernel) = kernel else {
        let message = "this tool contains no kernel to compare an instance with; build both with ./x, or name the kernel by --kernel";
        findings.add(Code::NoKernel, format!("{place}{message}"));
        return 0;
    };
    for finding in verify(bytes, kernel) {
        findings.add(code_of(finding.kind), format!("{place}{}", finding.message));
    }
    summary(bytes).map_or(0, |summary| summary.components.len())
}

/// The bytes that a partition's guest finds from the address of an instance on, out of as many segments as lie there one behind the other.
fn guest(view: &View<'_>, partition: &Partition) -> Option<Vec<u8>> {
    let ram = partition.plan.ram().iter().find(|ram| LOAD >= ram.guest.0 && LOAD - ram.guest.0 < ram.bytes)?;
    let start = ram.physical.0.checked_add(LOAD - ram.guest.0)?;
    let mut bytes = Vec::new();
    // Each finds another one, since they do not overlap; where they do, they are refused, and a guest ends.
    for _ in partition.plan.segments() {
        let place = start.saturating_add(bytes.len() as u64);
        let has =
            |segment: &&Segment| place.checked_sub(segment.destination.0).is_some_and(|inside| inside < segment.bytes);
        let Some(segment) = partition.plan.segments().iter().find(has) else { break };
        let inside = place - segment.destination.0;
        let Some(source) = segment.source.0.checked_add(inside) else { break };
        bytes.extend_from_slice(view.slice(source, segment.bytes - inside)?);
    }
    Some(bytes)
}

/// What of it is the instance, as its header says: the guest's device tree may follow.
fn without_rest(bytes: &[u8]) -> &[u8] {
    let length = bytes.get(IMAGE_BYTES..).and_then(|bytes| bytes.first_chunk().copied()).map(u64::from_le_bytes);
    length.and_then(|length| bytes.get(..usize::try_from(length).ok()?)).unwrap_or(bytes)
}

/// States whether it is meant as an instance.
fn is_instance(bytes: &[u8], kernel: Option<&Kernel>) -> bool {
    let has_head = bytes.chunks(PAGE as usize).any(|page| page.starts_with(&MAGIC.to_le_bytes()));
    has_head || kernel.is_some_and(|kernel| kernel.begins(bytes.get(..FRONT).unwrap_or_default()))
}

/// States whether a file is an instance for the bare board: no page of it begins as an image of partitions does.
pub(crate) fn is_native(bytes: &[u8]) -> bool {
    let is_image = bytes.get(IMAGE_MARK..IMAGE_MARK + 4) == Some(ARM64_IMAGE_MAGIC.to_le_bytes().as_slice());
    let begins = |magic: u64| bytes.chunks(PAGE as usize).any(|page| page.starts_with(&magic.to_le_bytes()));
    is_image && begins(MAGIC) && !begins(IMAGE_MAGIC)
}

/// Judges an instance for the bare board.
#[must_use]
pub fn verify_instance(bytes: &[u8], kernel: Option<&Kernel>) -> Verdict {
    let mut findings = Findings::default();
    let components = judge(bytes, kernel, "", &mut findings);
    let extent = Extent { cores: 1, instances: 1, components, ..Extent::default() };
    Verdict { findings: findings.0, extent, reaches: Vec::new() }
}

/// The code of a kind of finding.
#[must_use]
pub fn code_of(kind: Kind) -> Code {
    match kind {
        Kind::Image => Code::InstanceImage,
        Kind::Head => Code::InstanceHead,
        Kind::Checksum => Code::InstanceChecksum,
        Kind::Kernel => Code::InstanceKernel,
        Kind::Tables => Code::InstanceTables,
        Kind::Descriptor => Code::InstanceDescriptor,
        Kind::KernelHalf => Code::InstanceKernelHalf,
        Kind::BootHalf => Code::InstanceBootHalf,
        Kind::WritableExecutable => Code::InstanceWriteExecute,
        Kind::Reach => Code::InstanceReach,
        Kind::Shared => Code::InstanceShared,
        Kind::Unused => Code::InstanceUnused,
        Kind::Component => Code::InstanceComponent,
        Kind::Entry => Code::InstanceEntry,
        Kind::Stack => Code::InstanceStack,
        Kind::Row => Code::InstanceRow,
        Kind::Capability => Code::InstanceCapability,
        Kind::Interrupt => Code::InstanceInterrupt,
        Kind::Server => Code::InstanceServer,
        Kind::Scheduler => Code::InstanceScheduler,
        Kind::Band => Code::InstanceBand,
        Kind::Claim => Code::InstanceClaim,
        Kind::Dma => Code::InstanceDma,
        Kind::Device => Code::InstanceDevice,
        Kind::Wire => Code::InstanceWire,
        Kind::Port => Code::InstancePort,
        Kind::Pool => Code::InstancePool,
        Kind::FloatingPoint => Code::InstanceFloatingPoint,
        Kind::Program => Code::InstanceProgram,
        Kind::Quota => Code::InstanceQuota,
        Kind::Data => Code::InstanceData,
        Kind::Accounts => Code::InstanceAccounts,
    }
}
