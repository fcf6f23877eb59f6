//! An image as a file: finds the header page and reads the plan from it.
//!
//! Plans never change while a machine runs, so they are read from the file and not from RAM, where they appear only once
//! QEMU has loaded the image. The header is looked for at page boundaries by its magic number and believed only with the
//! right version and checksum; the tool's own file is trusted beyond that.

use crate::error::RunError;
use bulkhead_abi::devices::{BOOT_DEVICES_MAGIC, BootDevices, DEVICE_PLAN_MAGIC, DevicePlan};
use bulkhead_abi::image::{ARM64_IMAGE_HEADER_BYTES, ARM64_IMAGE_MAGIC};
use bulkhead_abi::image::{CoreBoot, IMAGE_MAGIC, ImageHeader};
use bulkhead_abi::plan::{PARTITION_PLAN_MAGIC, PCI_DEVICE, PartitionPlan, VCPU_PLAN_MAGIC, VcpuPlan};
use bulkhead_abi::schedule::{MAX_CORE_SERVERS, MAX_CORE_VCPUS, SCHEDULE_PLAN_MAGIC, SchedulePlan};
use bulkhead_abi::{ABI_VERSION, MAX_CORES, MAX_PARTITIONS, PAGE_BYTES, PhysicalAddress};
use bulkhead_guest_abi::name_text;
use bulkhead_world::flash::{MAGIC, PLAN, Segment, WorldPlan};
use std::mem::offset_of;
use std::path::Path;
use zerocopy::{FromBytes, IntoBytes};

/// What a core runs.
#[derive(Clone, Debug)]
pub struct CorePlan {
    /// Its vCPUs by slot: one, unless the core is shared.
    pub vcpus: Vec<VcpuPlan>,
    /// Its schedule; `None` when one vCPU owns the core.
    pub schedule: Option<SchedulePlan>,
}

/// The plan of a system, as its image file holds it.
#[derive(Clone, Debug)]
pub struct ImagePlan {
    /// The image header.
    pub header: ImageHeader,
    /// What each core in use runs.
    pub cores: Vec<CorePlan>,
    /// Plan of each partition.
    pub partitions: Vec<PartitionPlan>,
    /// PCI functions of each partition; `None` for one without.
    pub devices: Vec<Option<Box<DevicePlan>>>,
    /// Where the SMMU writes what it refuses; `None` where it is left alone.
    pub event_queue: Option<PhysicalAddress>,
}

impl ImagePlan {
    /// Reads the plan out of an image's bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, RunError> {
        let header = find_header(bytes)?;
        let core_count = header.core_count as usize;
        let partition_count = header.partition_count as usize;
        if core_count > MAX_CORES || partition_count > MAX_PARTITIONS {
            return Err(bad(format!(
                "its header names {core_count} cores and {partition_count} partitions, more than fit"
            )));
        }
        let mut cores = Vec::new();
        for (index, boot) in header.cores.iter().take(core_count).enumerate() {
            let core = read_core(bytes, &header, boot, index)?;
            let good = |plan: &VcpuPlan| plan.magic == VCPU_PLAN_MAGIC && (plan.partition as usize) < partition_count;
            if !core.vcpus.iter().all(good) {
                return Err(bad(format!("the plan of core {index} is damaged")));
            }
            cores.push(core);
        }
        let mut partitions = Vec::new();
        for (index, entry) in header.partitions.iter().take(partition_count).enumerate() {
            let plan: PartitionPlan = read(bytes, &header, entry.plan, || format!("plan of partition {index}"))?;
            if plan.magic != PARTITION_PLAN_MAGIC {
                return Err(bad(format!("the plan of partition {index} is damaged")));
            }
            partitions.push(plan);
        }
        let vcpus = || cores.iter().flat_map(|core| core.vcpus.iter());
        let devices = (0..partition_count).map(|index| {
            let planned = vcpus().find(|vcpu| vcpu.partition as usize == index && vcpu.devices.0 != 0);
            let plan =
                planned.map(|vcpu| read(bytes, &header, vcpu.devices, || format!("functions of partition {index}")));
            let plan: Option<Box<DevicePlan>> = plan.transpose()?.map(Box::new);
            let is_good = plan.as_ref().is_none_or(|plan| plan.magic == DEVICE_PLAN_MAGIC);
            is_good.then_some(plan).ok_or_else(|| bad(format!("the functions of partition {index} are damaged")))
        });
        let devices = devices.collect::<Result<_, _>>()?;
        let boot = vcpus().find(|vcpu| vcpu.boot_devices.0 != 0);
        let boot = boot.map(|vcpu| read(bytes, &header, vcpu.boot_devices, || "scripts of the boot core".to_owned()));
        let boot = boot.transpose()?.filter(|boot: &BootDevices| boot.magic == BOOT_DEVICES_MAGIC);
        let event_queue = boot.as_ref().and_then(crate::refused::event_queue);
        Ok(Self { header, cores, partitions, devices, event_queue })
    }

    /// Reads the plan of an image file, or of the image in the flash file of a system with partitions below a payload.
    pub fn from_file(path: &Path) -> Result<Self, RunError> {
        let bytes = bulkhead_files::read::bytes(path, bulkhead_files::read::IMAGE)
            .map_err(RunError::host(format!("cannot read the image {}", path.display())))?;
        Self::from_bytes(image_below(&bytes).unwrap_or(&bytes))
    }

    /// Reads the plan that a machine runs from its image or flash file; `None` for a flash file without partitions, in which there is none.
    pub(crate) fn of_machine(path: &Path) -> Result<Option<Self>, RunError> {
        let bytes = bulkhead_files::read::bytes(path, bulkhead_files::read::IMAGE)
            .map_err(RunError::host(format!("cannot read the image {}", path.display())))?;
        match image_below(&bytes) {
            None if is_flash(&bytes) => Ok(None),
            below => Self::from_bytes(below.unwrap_or(&bytes)).map(Some),
        }
    }

    /// Returns the name of a partition, or `"?"` without such a partition.
    #[must_use]
    pub fn partition_name(&self, partition: usize) -> &str {
        self.header.partitions.get(partition).map_or("?", |entry| name_text(&entry.name))
    }

    /// Returns the names of all partitions in order.
    #[must_use]
    pub fn partition_names(&self) -> Vec<String> {
        (0..self.partitions.len()).map(|index| self.partition_name(index).to_owned()).collect()
    }

    /// States whether a partition has PCI functions of the board: what is behind them on the host is in the description alone.
    pub fn has_functions(&self) -> bool {
        self.partitions.iter().flat_map(PartitionPlan::pci).any(|function| function.kind == PCI_DEVICE)
    }

    /// Returns the index of a partition by name.
    #[must_use]
    pub fn partition_named(&self, name: &str) -> Option<usize> {
        (0..self.partitions.len()).find(|index| self.partition_name(*index) == name)
    }

    /// Returns every vCPU with its core (index in the header), by core and slot.
    pub fn vcpus(&self) -> impl Iterator<Item = (usize, &VcpuPlan)> {
        self.cores.iter().enumerate().flat_map(|(core, plan)| plan.vcpus.iter().map(move |vcpu| (core, vcpu)))
    }

    /// Returns the cores (indices in the header) that run a partition's vCPUs, in the order of the vCPUs.
    #[must_use]
    pub fn cores_of(&self, partition: usize) -> Vec<usize> {
        let mut cores: Vec<_> = self
            .vcpus()
            .filter(|(_, plan)| plan.partition as usize == partition)
            .map(|(core, plan)| (plan.vcpu, core))
            .collect();
        cores.sort_unstable();
        cores.into_iter().map(|(_, core)| core).collect()
    }
}

fn read_core(bytes: &[u8], header: &ImageHeader, boot: &CoreBoot, index: usize) -> Result<CorePlan, RunError> {
    let vcpu = |address| read(bytes, header, address, || format!("plan of core {index}"));
    if boot.schedule.0 == 0 {
        return Ok(CorePlan { vcpus: vec![vcpu(boot.plan)?], schedule: None });
    }
    let schedule: SchedulePlan = read(bytes, header, boot.schedule, || format!("schedule of core {index}"))?;
    let slots = schedule.slot_count as usize;
    let fits = (1..=MAX_CORE_VCPUS).contains(&slots) && schedule.server_count as usize <= MAX_CORE_SERVERS;
    if schedule.magic != SCHEDULE_PLAN_MAGIC || !fits {
        return Err(bad(format!("the schedule of core {index} is damaged")));
    }
    let vcpus = schedule.slots.iter().take(slots).map(|slot| vcpu(slot.plan)).collect::<Result<_, _>>()?;
    Ok(CorePlan { vcpus, schedule: Some(schedule) })
}

/// States whether the bytes are an arm64 boot Image.
#[must_use]
pub fn is_arm64_image(bytes: &[u8]) -> bool {
    bytes.get(56..ARM64_IMAGE_HEADER_BYTES).is_some_and(|magic| magic[..4] == ARM64_IMAGE_MAGIC.to_le_bytes())
}

/// States whether the bytes are a flash file: its second page begins as a world plan does.
#[must_use]
pub fn is_flash(bytes: &[u8]) -> bool {
    usize::try_from(PLAN)
        .ok()
        .and_then(|start| bytes.get(start..))
        .is_some_and(|page| page.starts_with(&MAGIC.to_le_bytes()))
}

/// The image of the monitor at EL2 in a flash file of several cores, where it is the only segment; `None` in other files.
pub(crate) fn image_below(flash: &[u8]) -> Option<&[u8]> {
    let plan = flash.get(usize::try_from(PLAN).ok()?..)?;
    let word = |offset: usize| Some(u64::from_le_bytes(plan.get(offset..)?.first_chunk().copied()?));
    let [count, segment] = [offset_of!(WorldPlan, cores), offset_of!(WorldPlan, segments)];
    if word(count)? == 0 || word(offset_of!(WorldPlan, segment_count))? != 1 {
        return None;
    }
    let from = usize::try_from(word(segment + offset_of!(Segment, from))?).ok()?;
    let bytes = usize::try_from(word(segment + offset_of!(Segment, bytes))?).ok()?;
    flash.get(from..from.checked_add(bytes)?)
}

fn bad(reason: impl std::fmt::Display) -> RunError {
    RunError::Image(format!("this is not a usable Bulkhead image: {reason}. Build it again with `bulkhead build`."))
}

fn find_header(bytes: &[u8]) -> Result<ImageHeader, RunError> {
    if is_flash(bytes) {
        return Err(RunError::Image(String::from(
            "this is the flash file of a system with a secure section: it keeps no counters, traces and consoles in RAM that could be \
             read from outside; `bulkhead run` shows its consoles, and `--log` keeps them",
        )));
    }
    if !is_arm64_image(bytes) {
        return Err(bad("it does not begin with an arm64 Image header"));
    }
    let mut reason = "no page of it holds an image header";
    for page in bytes.chunks(PAGE_BYTES as usize) {
        if !page.starts_with(&IMAGE_MAGIC.to_le_bytes()) {
            continue;
        }
        let Ok((header, _)) = ImageHeader::read_from_prefix(page) else { continue };
        if header.abi_version != ABI_VERSION {
            reason = "it was built for another version of Bulkhead";
        } else if header.header_crc != header_crc(&header) {
            reason = "the checksum of its header is wrong";
        } else {
            return Ok(header);
        }
    }
    Err(bad(reason))
}

/// Returns the CRC-32C that belongs in `header_crc`.
#[must_use]
pub fn header_crc(header: &ImageHeader) -> u32 {
    let cleared = ImageHeader { header_crc: 0, ..*header };
    crc32c::crc32c(cleared.as_bytes())
}

fn read<T: FromBytes>(
    bytes: &[u8],
    header: &ImageHeader,
    address: PhysicalAddress,
    what: impl Fn() -> String,
) -> Result<T, RunError> {
    let offset = address.0.checked_sub(header.image_start.0).and_then(|offset| usize::try_from(offset).ok());
    let found = offset.and_then(|offset| bytes.get(offset..)).and_then(|tail| T::read_from_prefix(tail).ok());
    found.map(|(value, _)| value).ok_or_else(|| bad(format!("the {} is outside the file", what())))
}
