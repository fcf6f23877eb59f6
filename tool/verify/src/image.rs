//! The finished bytes as structures: header, core plans, partition plans.

use crate::area::overlap;
use crate::code::Code;
use crate::finding::Findings;
use bulkhead_abi::image::{
    ARM64_IMAGE_HEADER_BYTES, ARM64_IMAGE_MAGIC, ARM64_IMAGE_PLACE_OFFSET, ARM64_IMAGE_SIZE_OFFSET,
};
use bulkhead_abi::image::{CoreBoot, IMAGE_MAGIC, ImageHeader, MAX_BANKS, MAX_RESERVED, PartitionEntry, RamBank};
use bulkhead_abi::plan::{DoorbellPlan, PARTITION_PLAN_MAGIC, PartitionPlan, VCPU_PLAN_MAGIC, VcpuPlan};
use bulkhead_abi::schedule::{
    MAX_CORE_QUANTA, MAX_CORE_SERVERS, MAX_CORE_VCPUS, MAX_CORE_WINDOWS, SCHEDULE_PLAN_MAGIC, SchedulePlan, SlotPlan,
};
use bulkhead_abi::{ABI_VERSION, MAX_CORES, MAX_PARTITIONS, PhysicalAddress};
use bulkhead_guest_abi::name_text;
use std::ops::Range;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes of a page.
pub(crate) const PAGE: u64 = 4096;

/// Rounds up to whole pages without overflow.
pub(crate) fn page_end(address: u64) -> u64 {
    address.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX)
}

/// An image and what its header says.
pub(crate) struct View<'a> {
    bytes: &'a [u8],
    pub(crate) header: ImageHeader,
    pub(crate) header_offset: u64,
}

impl<'a> View<'a> {
    /// Finds the header: the first page that begins with the magic number.
    pub(crate) fn open(bytes: &'a [u8], findings: &mut Findings) -> Option<Self> {
        let pages = (0..bytes.len()).step_by(4096);
        let candidate = pages
            .filter(|offset| bytes.get(*offset..*offset + 8) == Some(IMAGE_MAGIC.to_le_bytes().as_slice()))
            .find_map(|offset| {
                let (header, _) = ImageHeader::read_from_prefix(bytes.get(offset..)?).ok()?;
                Some((offset as u64, header))
            });
        let Some((header_offset, header)) = candidate else {
            findings.add(
                Code::NoHeader,
                "no page of the file begins with BULKHEAD: it is no image, or it was cut off before its header",
            );
            return None;
        };
        Some(Self { bytes, header, header_offset })
    }

    /// Returns the file's bytes in a range of physical addresses.
    pub(crate) fn slice(&self, address: u64, bytes: u64) -> Option<&'a [u8]> {
        let start = usize::try_from(address.checked_sub(self.header.image_start.0)?).ok()?;
        self.bytes.get(start..start.checked_add(usize::try_from(bytes).ok()?)?)
    }

    /// Reads a 64-bit word.
    pub(crate) fn word(&self, address: u64) -> Option<u64> {
        Some(u64::from_le_bytes(self.slice(address, 8)?.try_into().ok()?))
    }

    /// Reads a structure.
    pub(crate) fn read<T: FromBytes + KnownLayout + Immutable>(&self, address: PhysicalAddress) -> Option<T> {
        T::read_from_bytes(self.slice(address.0, size_of::<T>() as u64)?).ok()
    }

    /// The plan area.
    pub(crate) fn plan_range(&self) -> Range<u64> {
        self.header.plan.0..self.header.plan.0.saturating_add(self.header.plan_bytes)
    }

    /// The part of the file that the plan filled.
    pub(crate) fn file_range(&self) -> Range<u64> {
        self.header.image_start.0..self.header.image_start.0.saturating_add(self.header.image_bytes)
    }

    /// All memory of the monitor.
    pub(crate) fn monitor_range(&self) -> Range<u64> {
        self.header.image_start.0..self.header.image_start.0.saturating_add(self.header.memory_bytes)
    }

    /// The machine's RAM, bank by bank.
    pub(crate) fn banks(&self) -> impl Iterator<Item = Range<u64>> {
        self.header.banks().iter().map(|bank| bank.start.0..bank.start.0.saturating_add(bank.bytes))
    }

    /// States whether a range touches RAM.
    pub(crate) fn touches_ram(&self, range: &Range<u64>) -> bool {
        self.banks().any(|bank| overlap(&bank, range))
    }

    /// States whether a range lies in one bank of RAM, in the part of it that is for the plan.
    pub(crate) fn in_ram(&self, range: &Range<u64>) -> bool {
        self.banks().any(|bank| bank.start <= range.start && range.end <= bank.end)
            && !self.reserved().any(|one| overlap(&one, range))
    }

    /// Memory inside the banks that is in nobody's map.
    fn reserved(&self) -> impl Iterator<Item = Range<u64>> {
        self.header.reserved().iter().map(|one| one.start.0..one.start.0.saturating_add(one.bytes))
    }

    /// RAM for a sentence.
    pub(crate) fn ram_words(&self) -> String {
        let list = |ranges: Vec<Range<u64>>| {
            ranges.iter().map(|one| format!("{:#x}..{:#x}", one.start, one.end)).collect::<Vec<_>>().join(" and ")
        };
        let reserved: Vec<_> = self.reserved().collect();
        let without = if reserved.is_empty() { String::new() } else { format!(" without {}", list(reserved)) };
        format!("RAM {}{without}", list(self.banks().collect()))
    }

    /// First byte of RAM.
    fn ram_start(&self) -> u64 {
        self.banks().next().map_or(0, |bank| bank.start)
    }

    /// Checks the front of the file and the header by themselves. Returns whether anything after it can be read.
    pub(crate) fn check_header(&self, findings: &mut Findings) -> bool {
        let header = &self.header;
        self.check_front(findings);
        findings.require(header.abi_version == ABI_VERSION, Code::Version, || {
            format!("the image has layout version {}, this tool reads version {ABI_VERSION}", header.abi_version)
        });
        let mut copy = *header;
        copy.header_crc = 0;
        let crc = crc32c::crc32c(copy.as_bytes());
        findings.require(crc == header.header_crc, Code::HeaderCrc, || {
            format!("the header says {:#010x}, its bytes give {crc:#010x}", header.header_crc)
        });
        let length = self.bytes.len() as u64;
        findings.require(length == header.memory_bytes, Code::FileLength, || {
            format!("the file has {length} bytes, its header says {}", header.memory_bytes)
        });
        let counts = header.core_count as usize <= MAX_CORES && header.partition_count as usize <= MAX_PARTITIONS;
        let counts =
            counts && header.core_count > 0 && header.partition_count > 0 && header.boot_core < header.core_count;
        findings.require(counts, Code::Count, || {
            format!(
                "{} cores, {} partitions, boot core {}: at most {MAX_CORES} and {MAX_PARTITIONS}, at least one each",
                header.core_count, header.partition_count, header.boot_core
            )
        });
        let layout = self.check_layout(findings);
        if layout {
            let text = self.slice(header.image_start.0, self.header_offset).map(crc32c::crc32c);
            findings.require(text == Some(header.text_crc), Code::TextCrc, || {
                format!(
                    "the header says {:#010x}, text and constants give {:#010x}",
                    header.text_crc,
                    text.unwrap_or(0)
                )
            });
            let plan = self.slice(header.plan.0, header.plan_bytes).map(crc32c::crc32c);
            findings.require(plan == Some(header.plan_crc), Code::PlanCrc, || match plan {
                Some(crc) => format!("the header says {:#010x}, the plan area gives {crc:#010x}", header.plan_crc),
                None => String::from("the plan area is not completely in the file"),
            });
        }
        layout && counts
    }

    fn check_front(&self, findings: &mut Findings) {
        let front = self.bytes.get(..ARM64_IMAGE_HEADER_BYTES).unwrap_or_default();
        let field = |offset: usize| {
            front.get(offset..offset + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
        };
        let magic = field(56) & u64::from(u32::MAX) == u64::from(ARM64_IMAGE_MAGIC);
        findings.require(magic, Code::Arm64Header, || {
            String::from("the magic number at byte 56 is missing: boot loaders will not take the file")
        });
        let place = self.header.image_start.0.checked_sub(self.ram_start());
        findings.require(Some(field(ARM64_IMAGE_PLACE_OFFSET)) == place, Code::Arm64Header, || {
            format!(
                "the place field is {:#x}, but the image runs at {:#x} of RAM that starts at {:#x}: a boot loader would put it \
                 elsewhere",
                field(ARM64_IMAGE_PLACE_OFFSET),
                self.header.image_start.0,
                self.ram_start()
            )
        });
        findings.require(field(ARM64_IMAGE_SIZE_OFFSET) == self.header.memory_bytes, Code::Arm64Header, || {
            format!(
                "the size field is {:#x}, but the monitor owns {:#x} bytes: a boot loader could put something there",
                field(ARM64_IMAGE_SIZE_OFFSET),
                self.header.memory_bytes
            )
        });
    }

    fn check_layout(&self, findings: &mut Findings) -> bool {
        let header = &self.header;
        let end = |start: PhysicalAddress, bytes: u64| start.0.checked_add(bytes);
        let rodata_end = end(header.rodata, header.rodata_bytes);
        let follows = header.text == header.image_start
            && end(header.text, header.text_bytes) == Some(header.rodata.0)
            && rodata_end == header.image_start.0.checked_add(self.header_offset)
            && rodata_end.and_then(|end| end.checked_add(PAGE)) == Some(header.plan.0);
        let pages = [
            header.image_start.0,
            header.text_bytes,
            header.rodata_bytes,
            header.plan_bytes,
            header.image_bytes,
            header.memory_bytes,
        ];
        let whole = pages.iter().all(|value| value % PAGE == 0);
        let inside = end(header.plan, header.plan_bytes).is_some_and(|plan_end| plan_end <= self.file_range().end);
        let good = findings.require(follows && whole && inside, Code::HeaderLayout, || {
            format!(
                "text {}, read-only data {}, header at +{:#x}, plan {}: each must follow the other in whole \
             pages, all inside the file",
                header.text, header.rodata, self.header_offset, header.plan
            )
        });
        let monitor = self.monitor_range();
        let inside_ram = self.in_ram(&monitor)
            && monitor.start != 0
            && header.memory_bytes >= header.image_bytes
            && monitor.end < u64::MAX;
        findings.require(inside_ram, Code::MonitorOutsideRam, || {
            format!("the monitor owns {:#x}..{:#x}, which is not in {}", monitor.start, monitor.end, self.ram_words())
        });
        good && self.check_banks(findings) && inside_ram
    }

    /// Checks that the banks are whole pages in order, and that what is reserved lies in them.
    fn check_banks(&self, findings: &mut Findings) -> bool {
        let header = &self.header;
        let whole = |one: &RamBank| {
            one.bytes != 0
                && one.start.0.is_multiple_of(PAGE)
                && one.bytes.is_multiple_of(PAGE)
                && one.start.0.checked_add(one.bytes).is_some()
        };
        let banks: Vec<Range<u64>> = self.banks().collect();
        let good = header.bank_count as usize <= MAX_BANKS
            && header.banks().iter().all(whole)
            && banks.windows(2).all(|pair| matches!(pair, [one, next] if one.end <= next.start))
            && header.reserved_count as usize <= MAX_RESERVED
            && header.reserved().iter().all(whole)
            && self.reserved().all(|one| banks.iter().any(|bank| bank.start <= one.start && one.end <= bank.end));
        findings.require(good, Code::HeaderLayout, || {
            format!("{}: banks must be whole pages in order, and what is reserved must be in them", self.ram_words())
        })
    }
}

/// A vCPU: its plan and the core and slot where the image says that it runs.
#[derive(Clone, Copy)]
pub(crate) struct Vcpu {
    pub(crate) core: usize,
    pub(crate) slot: usize,
    pub(crate) address: PhysicalAddress,
    pub(crate) plan: VcpuPlan,
}

/// A core: its boot record, its vCPUs and, if it is shared, its schedule.
#[derive(Clone)]
pub(crate) struct Core {
    pub(crate) index: usize,
    pub(crate) boot: CoreBoot,
    pub(crate) vcpus: Vec<Vcpu>,
    pub(crate) schedule: Option<SchedulePlan>,
}

impl Core {
    /// States whether the core runs a vCPU of the partition.
    pub(crate) fn runs(&self, partition: usize) -> bool {
        self.vcpus.iter().any(|vcpu| vcpu.plan.partition as usize == partition)
    }

    /// A vCPU's slot, if it shares the core.
    pub(crate) fn slot(&self, vcpu: &Vcpu) -> Option<&SlotPlan> {
        self.schedule.as_ref()?.slots.get(vcpu.slot)
    }

    /// The core's redistributor; that its vCPUs agree on it is a check of its own.
    pub(crate) fn gicr(&self) -> u64 {
        self.vcpus.first().map_or(0, |vcpu| vcpu.plan.gicr.0)
    }

    /// The vCPU that gets console input here, if one does.
    pub(crate) fn receiver(&self) -> Option<&Vcpu> {
        self.vcpus.iter().find(|vcpu| vcpu.plan.uart.0 != 0)
    }
}

/// A partition: its header entry and its plan.
#[derive(Clone, Copy)]
pub(crate) struct Partition {
    pub(crate) index: usize,
    pub(crate) entry: PartitionEntry,
    pub(crate) plan: PartitionPlan,
}

impl Partition {
    /// Returns the name for messages.
    pub(crate) fn name(&self) -> &str {
        name_text(&self.plan.name)
    }

    /// Returns the doorbells that it rings.
    pub(crate) fn doorbells(&self) -> impl Iterator<Item = &DoorbellPlan> + Clone {
        self.plan.doorbells().iter()
    }
}

/// Everything the image describes, with counts that were checked.
pub(crate) struct Contents {
    /// The part of the monitor that the header names.
    pub(crate) part: u32,
    pub(crate) cores: Vec<Core>,
    pub(crate) partitions: Vec<Partition>,
}

impl Contents {
    /// Reads all plans; `None` when one cannot be read.
    pub(crate) fn read(view: &View<'_>, findings: &mut Findings) -> Option<Self> {
        let header = &view.header;
        let mut cores = Vec::new();
        for (index, boot) in header.cores().iter().enumerate() {
            cores.push(read_core(view, index, boot, findings)?);
        }
        let mut partitions = Vec::new();
        for (index, entry) in header.partitions().iter().enumerate() {
            let plan = view.read::<PartitionPlan>(entry.plan).filter(|_| in_plan(view, entry.plan));
            let good = plan.is_some_and(|plan| {
                plan.magic == PARTITION_PLAN_MAGIC && plan.index as usize == index && plan.name == entry.name
            });
            if !findings.require(good, Code::PartitionPlan, || {
                format!("partition {index}: at {} is no plan for it", entry.plan)
            }) {
                return None;
            }
            partitions.extend(plan.map(|plan| Partition { index, entry: *entry, plan }));
        }
        Some(Self { part: header.part, cores, partitions })
    }

    /// Returns all vCPUs.
    pub(crate) fn vcpus(&self) -> impl Iterator<Item = &Vcpu> {
        self.cores.iter().flat_map(|core| &core.vcpus)
    }

    /// Returns the vCPUs of a partition.
    pub(crate) fn vcpus_of(&self, partition: usize) -> impl Iterator<Item = &Vcpu> {
        self.vcpus().filter(move |vcpu| vcpu.plan.partition as usize == partition)
    }
}

fn read_core(view: &View<'_>, index: usize, boot: &CoreBoot, findings: &mut Findings) -> Option<Core> {
    let schedule = match boot.schedule.0 {
        0 => None,
        _ => Some(read_schedule(view, index, boot, findings)?),
    };
    let plans: Vec<PhysicalAddress> = match &schedule {
        None => vec![boot.plan],
        Some(plan) => plan.slots().iter().map(|slot| slot.plan).collect(),
    };
    let mut vcpus = Vec::new();
    for (slot, address) in plans.into_iter().enumerate() {
        let plan = view.read::<VcpuPlan>(address).filter(|_| in_plan(view, address));
        let good = plan.is_some_and(|plan| plan.magic == VCPU_PLAN_MAGIC && plan.core as usize == index);
        if !findings.require(good, Code::VcpuPlan, || format!("core {index}: at {address} is no plan of a vCPU for it"))
        {
            return None;
        }
        vcpus.extend(plan.map(|plan| Vcpu { core: index, slot, address, plan }));
    }
    Some(Core { index, boot: *boot, vcpus, schedule })
}

fn read_schedule(view: &View<'_>, index: usize, boot: &CoreBoot, findings: &mut Findings) -> Option<SchedulePlan> {
    let plan = view.read::<SchedulePlan>(boot.schedule).filter(|_| in_plan(view, boot.schedule));
    let good = plan.is_some_and(|plan| {
        plan.magic == SCHEDULE_PLAN_MAGIC
            && (1..=MAX_CORE_VCPUS).contains(&(plan.slot_count as usize))
            && plan.server_count as usize <= MAX_CORE_SERVERS
            && plan.window_count as usize <= MAX_CORE_WINDOWS
            && plan.quantum_count as usize <= MAX_CORE_QUANTA
    });
    let reason = || format!("core {index}: at {} is no schedule, or one of its counts is too large", boot.schedule);
    plan.filter(|_| findings.require(good, Code::Schedule, reason))
}

/// States whether an address is a page of the plan area.
pub(crate) fn in_plan(view: &View<'_>, address: PhysicalAddress) -> bool {
    let plan = view.plan_range();
    address.0.is_multiple_of(PAGE) && address.0 >= plan.start && address.0.saturating_add(PAGE) <= plan.end
}
