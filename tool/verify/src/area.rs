//! Declared memory: every range that a plan or table names, with its owner. Whatever is not here is nobody's.

use crate::channel::Ends;
use crate::code::Code;
use crate::finding::Findings;
use crate::image::{Contents, PAGE, View, page_end};
use crate::walk::Map;
use bulkhead_abi::PAGE_BYTES;
use bulkhead_abi::image::stack_bytes;
use std::ops::Range;

/// What a range is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Text,
    Rodata,
    Header,
    VcpuPlan(usize, usize),
    Schedule(usize),
    PartitionPlan(usize),
    Information(usize),
    CoreTables(usize),
    GuestTables(usize),
    Pristine(usize),
    Stack(usize),
    Data(usize),
    Counters(usize, usize),
    Usage(usize),
    StolenTime(usize, usize),
    Trace(usize),
    Shared(usize),
    Status(usize),
    Manage(usize),
    VcpuConsole(usize, usize),
    GuestConsole(usize),
    /// By its receiver: senders that are limited together have one page.
    Doorbell(usize),
    ChannelReader(usize),
    ChannelWriter(usize),
    Pool(usize),
    /// By its front: shared with the back end.
    DevicePage(usize),
    FrontPool(usize),
    /// What the owner does with the functions of its partition.
    DevicePlan(usize),
    /// The scripts of the boot core.
    BootDevices,
    /// What the SMMU reads: streams, descriptors and commands, tables of a partition's devices.
    StreamTable,
    Descriptors,
    DeviceTables(usize),
    /// Where the SMMU writes events.
    Events,
    Ram(usize),
}

impl Use {
    /// The core whose monitor alone may use it.
    pub(crate) fn core(self) -> Option<usize> {
        match self {
            Self::VcpuPlan(core, _)
            | Self::Schedule(core)
            | Self::Stack(core)
            | Self::Data(core)
            | Self::Counters(core, _)
            | Self::Usage(core)
            | Self::StolenTime(core, _)
            | Self::Trace(core) => Some(core),
            _ => None,
        }
    }

    /// The partition that it belongs to.
    pub(crate) fn partition(self) -> Option<usize> {
        match self {
            Self::PartitionPlan(partition)
            | Self::Information(partition)
            | Self::Pristine(partition)
            | Self::Shared(partition)
            | Self::Status(partition)
            | Self::Manage(partition)
            | Self::VcpuConsole(partition, _)
            | Self::GuestConsole(partition)
            | Self::Doorbell(partition)
            | Self::ChannelReader(partition)
            | Self::ChannelWriter(partition)
            | Self::Pool(partition)
            | Self::DevicePage(partition)
            | Self::FrontPool(partition)
            | Self::DevicePlan(partition)
            | Self::Ram(partition) => Some(partition),
            _ => None,
        }
    }

    /// It is a translation table.
    pub(crate) fn is_table(self) -> bool {
        matches!(
            self,
            Self::CoreTables(_) | Self::GuestTables(_) | Self::StreamTable | Self::Descriptors | Self::DeviceTables(_)
        )
    }
}

/// A declared range, whole pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Area {
    pub(crate) range: Range<u64>,
    pub(crate) owner: Use,
}

/// All declared ranges by address.
#[derive(Clone, Debug, Default)]
pub(crate) struct Areas(pub(crate) Vec<Area>, Vec<(u64, Use)>);

/// States whether two ranges share an address.
pub(crate) fn overlap(first: &Range<u64>, second: &Range<u64>) -> bool {
    first.start < second.end && second.start < first.end
}

impl Areas {
    /// Collects everything and reports overlaps and wrong places.
    pub(crate) fn collect(
        view: &View<'_>,
        contents: &Contents,
        maps: &Maps,
        ends: &Ends,
        of_devices: &[(u64, u64, Use)],
        findings: &mut Findings,
    ) -> Self {
        let mut areas = Self::default();
        areas.add_file(view, contents, maps);
        of_devices.iter().for_each(|(start, bytes, owner)| areas.add(*start, *bytes, *owner));
        areas.add_cores(contents);
        areas.add_partitions(contents, ends);
        areas.0.retain(|area| !area.range.is_empty());
        areas.0.sort_by_key(|area| (area.range.start, area.range.end));
        areas.0.dedup();
        areas.check_overlaps(findings);
        areas.check_places(view, findings);
        areas
    }

    fn add(&mut self, start: u64, bytes: u64, owner: Use) {
        // Copies of segments have an alignment of their own, checked with them.
        if !start.is_multiple_of(PAGE) && !matches!(owner, Use::Pristine(_)) {
            self.1.push((start, owner));
        }
        if start != 0 && bytes != 0 {
            self.0.push(Area { range: start - start % PAGE..page_end(start.saturating_add(bytes)), owner });
        }
    }

    fn add_file(&mut self, view: &View<'_>, contents: &Contents, maps: &Maps) {
        let header = &view.header;
        self.add(header.text.0, header.text_bytes, Use::Text);
        self.add(header.rodata.0, header.rodata_bytes, Use::Rodata);
        self.add(header.image_start.0 + view.header_offset, PAGE, Use::Header);
        for (core, map) in maps.cores.iter().enumerate() {
            map.tables.iter().for_each(|table| self.add(*table, PAGE, Use::CoreTables(core)));
        }
        for (partition, map) in maps.guests.iter().enumerate() {
            map.tables.iter().for_each(|table| self.add(*table, PAGE, Use::GuestTables(partition)));
        }
        for (partition, information) in maps.information.iter().enumerate() {
            self.add(information.unwrap_or(0), PAGE, Use::Information(partition));
        }
        for partition in &contents.partitions {
            // The padding of a copy belongs to it.
            let segments = partition.plan.segments().iter();
            let start = segments.clone().map(|segment| segment.source.0).min().unwrap_or(0);
            let end = segments.map(|segment| segment.source.0.saturating_add(segment.bytes)).max().unwrap_or(0);
            self.add(start, end.saturating_sub(start), Use::Pristine(partition.index));
        }
    }

    fn add_cores(&mut self, contents: &Contents) {
        for core in &contents.cores {
            let (boot, index) = (&core.boot, core.index);
            let bytes = stack_bytes(boot.schedule.0 != 0);
            self.add(boot.stack_top.0.saturating_sub(bytes), bytes, Use::Stack(index));
            self.add(boot.data.0, boot.data_bytes, Use::Data(index));
            self.add(boot.schedule.0, PAGE, Use::Schedule(index));
            self.add(core.schedule.map_or(0, |plan| plan.usage.0), PAGE, Use::Usage(index));
            self.add(boot.trace.0, boot.trace_bytes, Use::Trace(index));
            // Boot code writes what went wrong before any plan is read into the page that its record names.
            self.add(boot.counters.0, PAGE, Use::Counters(index, 0));
            for vcpu in &core.vcpus {
                self.add(vcpu.address.0, PAGE, Use::VcpuPlan(index, vcpu.slot));
                self.add(vcpu.plan.counters.0, PAGE, Use::Counters(index, vcpu.slot));
                self.add(core.slot(vcpu).map_or(0, |slot| slot.stolen_time.0), PAGE, Use::StolenTime(index, vcpu.slot));
                // All vCPUs of a partition name one range; `dedup` leaves one.
                self.add(vcpu.plan.shared.0, vcpu.plan.shared_bytes, Use::Shared(vcpu.plan.partition as usize));
            }
        }
    }

    fn add_partitions(&mut self, contents: &Contents, ends: &Ends) {
        for partition in &contents.partitions {
            let (entry, plan, index) = (&partition.entry, &partition.plan, partition.index);
            self.add(entry.plan.0, PAGE, Use::PartitionPlan(index));
            self.add(entry.status.0, PAGE, Use::Status(index));
            self.add(plan.manage.get(index).map_or(0, |page| page.0), PAGE, Use::Manage(index));
            for (vcpu, ring) in entry.vcpu_console.iter().enumerate() {
                self.add(ring.0, entry.console_bytes, Use::VcpuConsole(index, vcpu));
            }
            self.add(entry.guest_console.0, entry.console_bytes, Use::GuestConsole(index));
            for doorbell in partition.doorbells() {
                self.add(doorbell.words.0, PAGE, Use::Doorbell(doorbell.peer as usize));
            }
            for ram in plan.ram().iter() {
                self.add(ram.physical.0, ram.bytes, Use::Ram(index));
            }
        }
        // A page is declared once, by the end that writes it.
        for end in &ends.channels {
            match end.is_source {
                true => {
                    self.add(end.writer.start, end.writer.end - end.writer.start, Use::ChannelWriter(end.partition))
                }
                false => self.add(end.reader, PAGE_BYTES, Use::ChannelReader(end.partition)),
            }
        }
        for pool in &ends.pools {
            self.add(pool.pages.start, pool.pages.end - pool.pages.start, Use::Pool(pool.partition));
        }
    }

    fn check_overlaps(&self, findings: &mut Findings) {
        let mut furthest: Option<&Area> = None;
        for area in &self.0 {
            if let Some(before) = furthest.filter(|before| overlap(&before.range, &area.range)) {
                let rams = matches!((before.owner, area.owner), (Use::Ram(_), _) | (_, Use::Ram(_)));
                let code = if rams { Code::RamPlace } else { Code::AreaOverlap };
                findings.add(
                    code,
                    format!(
                        "{:?} at {:#x}..{:#x} overlaps {:?} at {:#x}..{:#x}",
                        area.owner,
                        area.range.start,
                        area.range.end,
                        before.owner,
                        before.range.start,
                        before.range.end
                    ),
                );
            }
            if furthest.is_none_or(|before| before.range.end < area.range.end) {
                furthest = Some(area);
            }
        }
    }

    fn check_places(&self, view: &View<'_>, findings: &mut Findings) {
        for (start, owner) in &self.1 {
            findings.add(Code::AreaPlace, format!("{owner:?} at {start:#x} does not start on a page"));
        }
        let (plan, file, monitor) = (view.plan_range(), view.file_range(), view.monitor_range());
        for area in &self.0 {
            let (place, code, what) = match area.owner {
                Use::Text | Use::Rodata | Use::Header => {
                    (file.start..plan.start, Code::AreaPlace, "the front of the file")
                }
                Use::VcpuPlan(..)
                | Use::Schedule(_)
                | Use::PartitionPlan(_)
                | Use::Information(_)
                | Use::CoreTables(_)
                | Use::GuestTables(_)
                | Use::DevicePlan(_)
                | Use::BootDevices
                | Use::StreamTable
                | Use::Descriptors
                | Use::DeviceTables(_) => (plan.clone(), Code::AreaPlace, "the plan area"),
                Use::Pristine(_) => (plan.end..file.end, Code::SegmentSource, "what the file holds after the plan"),
                Use::Ram(_) => {
                    findings.require(view.in_ram(&area.range), Code::RamPlace, || {
                        format!(
                            "{:?} at {:#x}..{:#x} is not in {}",
                            area.owner,
                            area.range.start,
                            area.range.end,
                            view.ram_words()
                        )
                    });
                    findings.require(!overlap(&area.range, &monitor), Code::RamPlace, || {
                        format!(
                            "{:?} at {:#x}..{:#x} lies over the monitor's memory",
                            area.owner, area.range.start, area.range.end
                        )
                    });
                    continue;
                }
                _ => (file.end..monitor.end, Code::AreaPlace, "the monitor's memory that begins as zeros"),
            };
            let inside = area.range.start >= place.start && area.range.end <= place.end;
            findings.require(inside, code, || {
                format!(
                    "{:?} at {:#x}..{:#x} is not in {what}, {:#x}..{:#x}",
                    area.owner, area.range.start, area.range.end, place.start, place.end
                )
            });
        }
    }

    /// Returns the areas that a range touches.
    pub(crate) fn touching(&self, range: Range<u64>) -> impl Iterator<Item = &Area> {
        self.0.iter().filter(move |area| overlap(&area.range, &range))
    }
}

/// Every walked table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Maps {
    /// EL2 map of each core.
    pub(crate) cores: Vec<Map>,
    /// Stage 2 of each partition.
    pub(crate) guests: Vec<Map>,
    /// Physical page that each partition sees at the information address.
    pub(crate) information: Vec<Option<u64>>,
}
