//! Physical memory: what lies where, from the load address to the last partition.
//!
//! One contiguous range belongs to the monitor (record 0001): first the bytes of the file, then memory that is not in
//! the file and starts as zeros. Small things that cores share a 2 MiB block for come first and rings come last,
//! because every core needs one table page per 2 MiB that it maps in pages. The RAM of partitions follows.
//!
//! No page holds data of two owners. The page below a stack is never mapped on the stack's core: it is the data of
//! another core (which no other core maps) or, below the first stack, a page that nobody maps. A guard page per core
//! would cost memory and catch nothing more.

use crate::devices::{self, smmu};
use crate::error::PlanError;
use crate::fronts;
use crate::maps::{CoreUse, VcpuUse};
use crate::model::{Bank, System};
use crate::tables::{BLOCK_BYTES, LEVEL_1_BYTES};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use bulkhead_abi::console::CONSOLE_HEADER_BYTES;
use bulkhead_abi::devices::{BootDevices, DevicePlan, EVENT_BYTES, EVENT_ENTRIES};
use bulkhead_abi::image::stack_bytes;
use bulkhead_abi::observe::{TRACE_HEADER_BYTES, TraceRecord};
use bulkhead_abi::schedule::SCHEDULER_BYTES;
use bulkhead_abi::{PAGE_BYTES, PhysicalAddress};
use bulkhead_guest_abi::channel::writer_bytes;
use core::ops::Range;

/// Private data of one vCPU. A core that one vCPU owns has no more.
pub const VCPU_DATA_BYTES: u64 = 4 << 10;
/// Monitor state shared by the cores of one partition.
pub const SHARED_BYTES: u64 = 4 << 10;
/// Entries of a console ring.
pub const CONSOLE_ENTRIES: u64 = 1 << 14;
/// Bytes of a console ring, header included.
pub const CONSOLE_BYTES: u64 = CONSOLE_HEADER_BYTES + CONSOLE_ENTRIES * 8;

/// What a piece of memory is for. The numbers are indices of cores (in the image), partitions, vCPUs and channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AreaKind {
    /// Monitor text.
    Text,
    /// Monitor read-only data.
    Rodata,
    /// Image header page.
    Header,
    /// Plan of a vCPU: partition, vCPU.
    VcpuPlan(usize, usize),
    /// Schedule of a shared core.
    Schedule(usize),
    /// Partition plan.
    PartitionPlan(usize),
    /// Information page of a native guest.
    Information(usize),
    /// PCI functions and fronts of a partition.
    DevicePlan(usize),
    /// What the boot core does to PCI functions.
    BootDevices,
    /// Stream table of the SMMU.
    StreamTable,
    /// Command queue of the SMMU, and context descriptors.
    Commands,
    /// Tables of a context descriptor, by its place among those.
    DeviceTables(usize),
    /// EL2 stage-1 tables of a core.
    El2Tables(usize),
    /// Stage-2 tables of a partition.
    Stage2Tables(usize),
    /// Pristine copy of a partition's image.
    Pristine(usize),
    /// The page below the first stack.
    Guard,
    /// Stack of a core.
    Stack(usize),
    /// Private data of a core: a page per vCPU, then the scheduler of a shared core.
    Data(usize),
    /// Event queue of the SMMU.
    Events,
    /// Counters and crash record of a vCPU: partition, vCPU.
    Counters(usize, usize),
    /// What a shared core has given to whom.
    Usage(usize),
    /// What was stolen from a vCPU, where its guest reads it: partition, vCPU.
    StolenTime(usize, usize),
    /// Monitor state shared by the cores of a partition.
    Shared(usize),
    /// Status page of a partition.
    Status(usize),
    /// Request page of a managing partition.
    Manage(usize),
    /// Limiter words of a channel's doorbell, where it has a limiter of its own.
    Doorbell(usize),
    /// Limiter words of all doorbells to a partition together.
    AllDoorbells(usize),
    /// The destination's page of a channel.
    ChannelReader(usize),
    /// The source's pages of a channel.
    ChannelWriter(usize),
    /// Pool of a channel to the payload of the secure world, by its place among those.
    Pool(usize),
    /// Limiter words of a virtio device's notification, where it has a limiter of its own.
    Notifications(usize),
    /// The same of its interrupt.
    Interrupts(usize),
    /// The page of a virtio device's registers that front and back end share.
    DevicePage(usize),
    /// Trace ring of a core.
    Trace(usize),
    /// Ring of a vCPU's virtual PL011: partition, vCPU.
    VcpuConsole(usize, usize),
    /// Ring that a native guest writes itself.
    GuestConsole(usize),
    /// Pool of a partition with fronts of virtio devices.
    FrontPool(usize),
    /// RAM of a partition.
    Ram(usize),
}

impl AreaKind {
    /// States whether the area is a ring that people read, a pristine image or memory that guests share, all left out of the monitor's own size.
    #[must_use]
    pub fn is_ring_or_pristine(&self) -> bool {
        matches!(
            self,
            Self::Trace(_)
                | Self::VcpuConsole(..)
                | Self::GuestConsole(_)
                | Self::Pristine(_)
                | Self::DevicePage(_)
                | Self::FrontPool(_)
        )
    }
}

/// A piece of physical memory with one use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// Its use.
    pub kind: AreaKind,
    /// First byte.
    pub address: PhysicalAddress,
    /// Bytes in use; the area ends at the next whole page.
    pub bytes: u64,
}

impl Area {
    /// Returns the bytes up to the next whole page.
    #[must_use]
    pub fn page_bytes(&self) -> u64 {
        self.bytes.next_multiple_of(PAGE_BYTES)
    }

    /// Returns one past the last page.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.address.0 + self.page_bytes()
    }
}

/// Sizes that the layout depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Monitor text, whole pages.
    pub text_bytes: u64,
    /// Monitor read-only data, whole pages.
    pub rodata_bytes: u64,
    /// Table pages of each core's EL2 map.
    pub el2_pages: Vec<u64>,
    /// Table pages of each partition's stage 2.
    pub stage2_pages: Vec<u64>,
    /// Table pages of each context descriptor.
    pub device_pages: Vec<u64>,
    /// Bytes of each partition's pristine image.
    pub pristine_bytes: Vec<u64>,
}

/// The decided layout.
#[derive(Clone, Debug)]
pub struct Layout {
    areas: BTreeMap<AreaKind, Area>,
    /// First byte of the plan area.
    pub plan: PhysicalAddress,
    /// Bytes of the plan area.
    pub plan_bytes: u64,
    /// One past the last byte of the file that is not zero by plan.
    pub file_end: PhysicalAddress,
    /// One past the last byte of the monitor's memory, and of the file.
    pub monitor_end: PhysicalAddress,
}

impl Layout {
    /// Lays out memory for these cores.
    ///
    /// # Errors
    /// When RAM is too small or fixed places of partitions overlap.
    pub fn compute(system: &System, uses: &[CoreUse], sizes: &Sizes) -> Result<Self, PlanError> {
        let mut cursor = Cursor { next: system.board.load_address.0, gap: 0..0, areas: BTreeMap::new() };
        cursor.take(AreaKind::Text, sizes.text_bytes);
        cursor.take(AreaKind::Rodata, sizes.rodata_bytes);
        cursor.take(AreaKind::Header, PAGE_BYTES);
        let plan = cursor.next;
        take_plan(&mut cursor, system, uses, sizes);
        let plan_end = cursor.next;
        take_pristine(&mut cursor, sizes);
        let file_end = cursor.next;
        take_state(&mut cursor, system, uses);
        take_rings(&mut cursor, system, uses.len());
        take_pools(&mut cursor, system);
        let monitor_end = cursor.next;
        place_ram(&mut cursor, system, monitor_end)?;
        Ok(Self {
            areas: cursor.areas,
            plan: PhysicalAddress(plan),
            plan_bytes: plan_end - plan,
            file_end: PhysicalAddress(file_end),
            monitor_end: PhysicalAddress(monitor_end),
        })
    }

    /// Returns the area of a kind, if there is one.
    #[must_use]
    pub fn area(&self, kind: AreaKind) -> Option<Area> {
        self.areas.get(&kind).copied()
    }

    /// Returns the address of an area, zero if there is none (the image format's "absent").
    #[must_use]
    pub fn address(&self, kind: AreaKind) -> PhysicalAddress {
        self.area(kind).map_or(PhysicalAddress(0), |area| area.address)
    }

    /// Returns all areas in the order of their addresses.
    #[must_use]
    pub fn areas(&self) -> Vec<Area> {
        let mut areas: Vec<Area> = self.areas.values().copied().collect();
        areas.sort_by_key(|area| (area.address, area.kind));
        areas
    }
}

struct Cursor {
    next: u64,
    /// What an alignment left free in front of an area: whatever fits goes there first.
    gap: Range<u64>,
    areas: BTreeMap<AreaKind, Area>,
}

impl Cursor {
    /// Takes the next whole pages for an area; an empty area is left out.
    fn take(&mut self, kind: AreaKind, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let fits = self.gap.end - self.gap.start >= bytes.next_multiple_of(PAGE_BYTES);
        let next = if fits { &mut self.gap.start } else { &mut self.next };
        let area = Area { kind, address: PhysicalAddress(*next), bytes };
        *next = area.end();
        self.areas.insert(kind, area);
    }

    /// Takes whole pages for an area at a multiple of its size, a power of two. What that leaves free in front of it is the first place
    /// for what follows, until [`Self::close`].
    fn take_aligned(&mut self, kind: AreaKind, bytes: u64) {
        let start = self.next.next_multiple_of(bytes);
        let area = Area { kind, address: PhysicalAddress(start), bytes };
        self.gap = self.next..start;
        self.next = area.end();
        self.areas.insert(kind, area);
    }

    fn close(&mut self) {
        self.gap = 0..0;
    }
}

fn vcpus(uses: &[CoreUse]) -> impl Iterator<Item = VcpuUse> {
    uses.iter().flat_map(|core_use| core_use.vcpus.iter().copied())
}

fn take_shared(cursor: &mut Cursor, uses: &[CoreUse], kind: impl Fn(usize) -> AreaKind) {
    let shared = uses.iter().enumerate().filter(|(_, core_use)| core_use.is_shared());
    shared.for_each(|(core, _)| cursor.take(kind(core), PAGE_BYTES));
}

/// What is decided about PCI functions. The stream table comes first, because its alignment leaves room for others in front of it.
fn take_devices(cursor: &mut Cursor, system: &System, sizes: &Sizes) {
    if devices::has_smmu(system) {
        cursor.take_aligned(AreaKind::StreamTable, smmu::STREAM_TABLE_BYTES);
        cursor.take(AreaKind::Commands, PAGE_BYTES);
    }
    if !system.functions.is_empty() {
        cursor.take(AreaKind::BootDevices, size_of::<BootDevices>() as u64);
    }
    for partition in (0..system.partitions.len()).filter(|partition| fronts::has_device_plan(system, *partition)) {
        cursor.take(AreaKind::DevicePlan(partition), size_of::<DevicePlan>() as u64);
    }
    for (context, pages) in sizes.device_pages.iter().enumerate() {
        cursor.take(AreaKind::DeviceTables(context), pages * PAGE_BYTES);
    }
}

fn take_plan(cursor: &mut Cursor, system: &System, uses: &[CoreUse], sizes: &Sizes) {
    take_devices(cursor, system, sizes);
    vcpus(uses).for_each(|vcpu| cursor.take(AreaKind::VcpuPlan(vcpu.partition, vcpu.vcpu), PAGE_BYTES));
    take_shared(cursor, uses, AreaKind::Schedule);
    (0..system.partitions.len()).for_each(|partition| cursor.take(AreaKind::PartitionPlan(partition), PAGE_BYTES));
    for (index, partition) in system.partitions.iter().enumerate() {
        if partition.is_native() {
            cursor.take(AreaKind::Information(index), PAGE_BYTES);
        }
    }
    for (core, pages) in sizes.el2_pages.iter().enumerate() {
        cursor.take(AreaKind::El2Tables(core), pages * PAGE_BYTES);
    }
    for (partition, pages) in sizes.stage2_pages.iter().enumerate() {
        cursor.take(AreaKind::Stage2Tables(partition), pages * PAGE_BYTES);
    }
    cursor.close();
}

/// Small images first; images of 2 MiB and more start at a block so that blocks map them.
fn take_pristine(cursor: &mut Cursor, sizes: &Sizes) {
    let is_large = |bytes: u64| bytes >= BLOCK_BYTES;
    for (partition, bytes) in sizes.pristine_bytes.iter().enumerate().filter(|(_, bytes)| !is_large(**bytes)) {
        cursor.take(AreaKind::Pristine(partition), *bytes);
    }
    for (partition, bytes) in sizes.pristine_bytes.iter().enumerate().filter(|(_, bytes)| is_large(**bytes)) {
        cursor.next = cursor.next.next_multiple_of(BLOCK_BYTES);
        cursor.take(AreaKind::Pristine(partition), *bytes);
    }
}

/// Returns the bytes of a core's private data.
#[must_use]
pub fn data_bytes(core_use: &CoreUse) -> u64 {
    let scheduler = if core_use.is_shared() { SCHEDULER_BYTES } else { 0 };
    core_use.vcpus.len() as u64 * VCPU_DATA_BYTES + scheduler
}

/// Returns where the limiter words of a channel's doorbell are: doorbells that are limited together have one word, and so
/// they cannot pass more than one of them could, on whatever cores their senders are (CH-35, CH-36).
#[must_use]
pub fn doorbell_area(system: &System, index: usize) -> Option<AreaKind> {
    let channel = system.channels.get(index).filter(|channel| channel.doorbell.is_some())?;
    let is_aggregate = system.aggregate_limiter(channel).is_some();
    Some(if is_aggregate { AreaKind::AllDoorbells(channel.destination.partition) } else { AreaKind::Doorbell(index) })
}

/// Returns the pages of limiter words, each once.
fn doorbell_words(system: &System) -> Vec<AreaKind> {
    let mut kinds = Vec::new();
    let of_virtio = |device| [true, false].map(|is_notification| fronts::words_area(system, device, is_notification));
    let of_virtio = (0..system.virtio.len()).flat_map(of_virtio).flatten();
    for kind in (0..system.channels.len()).filter_map(|index| doorbell_area(system, index)).chain(of_virtio) {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds
}

fn take_state(cursor: &mut Cursor, system: &System, uses: &[CoreUse]) {
    cursor.take(AreaKind::Guard, PAGE_BYTES);
    for (core, core_use) in uses.iter().enumerate() {
        cursor.take(AreaKind::Stack(core), stack_bytes(core_use.is_shared()));
        cursor.take(AreaKind::Data(core), data_bytes(core_use));
    }
    if devices::has_smmu(system) {
        cursor.take_aligned(AreaKind::Events, u64::from(EVENT_ENTRIES) * EVENT_BYTES);
    }
    vcpus(uses).for_each(|vcpu| cursor.take(AreaKind::Counters(vcpu.partition, vcpu.vcpu), PAGE_BYTES));
    // All pages that one partition writes must lie together.
    cursor.close();
    take_shared(cursor, uses, AreaKind::Usage);
    let sharing = uses.iter().filter(|core_use| core_use.is_shared()).flat_map(|core_use| &core_use.vcpus);
    sharing.for_each(|vcpu| cursor.take(AreaKind::StolenTime(vcpu.partition, vcpu.vcpu), PAGE_BYTES));
    for (index, partition) in system.partitions.iter().enumerate() {
        cursor.take(AreaKind::Shared(index), SHARED_BYTES);
        cursor.take(AreaKind::Status(index), PAGE_BYTES);
        if partition.manages {
            cursor.take(AreaKind::Manage(index), PAGE_BYTES);
        }
    }
    for kind in doorbell_words(system) {
        cursor.take(kind, PAGE_BYTES);
    }
    // All pages that one partition writes lie together, so that a restart clears them as one range.
    for partition in 0..system.partitions.len() {
        for (index, channel) in system.channels.iter().enumerate() {
            if channel.destination.partition == partition {
                cursor.take(AreaKind::ChannelReader(index), PAGE_BYTES);
            }
            if channel.source.partition == partition {
                cursor.take(AreaKind::ChannelWriter(index), writer_bytes(channel.message_bytes, channel.kind.slots()));
            }
        }
    }
    // Not among those that a restart of the partition clears: the payload's end continues.
    for (index, channel) in system.pools() {
        cursor.take(AreaKind::Pool(index), channel.pool_bytes);
    }
}

fn take_rings(cursor: &mut Cursor, system: &System, core_count: usize) {
    let trace_bytes = TRACE_HEADER_BYTES + system.trace_records * size_of::<TraceRecord>() as u64;
    (0..core_count).for_each(|core| cursor.take(AreaKind::Trace(core), trace_bytes));
    for (index, partition) in system.partitions.iter().enumerate() {
        if partition.virtual_uart {
            (0..partition.cores.len()).for_each(|vcpu| cursor.take(AreaKind::VcpuConsole(index, vcpu), CONSOLE_BYTES));
        }
        if partition.own_console {
            cursor.take(AreaKind::GuestConsole(index), CONSOLE_BYTES);
        }
    }
}

/// Pools come last: at a block each, so that blocks map them where front and monitor see them.
fn take_pools(cursor: &mut Cursor, system: &System) {
    for device in 0..system.virtio.len() {
        cursor.take(AreaKind::DevicePage(device), PAGE_BYTES);
    }
    for partition in 0..system.partitions.len() {
        if let Some(bytes) = fronts::pool_of(system, partition) {
            cursor.next = cursor.next.next_multiple_of(BLOCK_BYTES);
            cursor.take(AreaKind::FrontPool(partition), bytes);
        }
    }
}

/// Places partition RAM: fixed places first, then first fit above the monitor, in 2 MiB steps.
///
/// RAM below the load address is given only to partitions that ask for it: boot loaders keep their own things there.
fn place_ram(cursor: &mut Cursor, system: &System, monitor_end: u64) -> Result<(), PlanError> {
    let banks = system.board.banks_of(system.memory_bytes);
    let load = system.board.load_address.0;
    let mut taken: Vec<(u64, u64, String)> = Vec::new();
    for one in &system.board.reserved {
        taken.push((one.range.start.0, one.range.end(), format!("the reserved region \"{}\"", one.name)));
    }
    if let Some((start, _, owner)) = taken.iter().find(|(start, end, _)| *start < monitor_end && load < *end) {
        let first = String::from("the monitor with all guest images");
        return Err(PlanError::Overlap { first, second: owner.clone(), address: load.max(*start) });
    }
    taken.push((load, monitor_end, String::from("the monitor")));
    // Page 0 is never mapped at EL2, so that a null pointer faults.
    taken.push((0, PAGE_BYTES, String::from("page 0, which is never used")));
    if banks.first().is_none_or(|bank| monitor_end > bank.end()) {
        return Err(PlanError::OutOfMemory {
            what: String::from("the monitor with all guest images"),
            bytes: monitor_end - load,
            memory_bytes: system.memory_bytes,
        });
    }
    let in_order = |fixed: bool| {
        system.partitions.iter().enumerate().filter(move |(_, partition)| partition.physical_ram.is_some() == fixed)
    };
    for (index, partition) in in_order(true).chain(in_order(false)) {
        let what = format!("RAM of partition \"{}\"", partition.name);
        let bytes = partition.memory_bytes;
        let start = match partition.physical_ram {
            Some(fixed) => {
                if let Some((start, _, owner)) =
                    taken.iter().find(|(start, end, _)| *start < fixed.0 + bytes && fixed.0 < *end)
                {
                    return Err(PlanError::Overlap {
                        first: what,
                        second: owner.clone(),
                        address: fixed.0.max(*start),
                    });
                }
                fixed.0
            }
            None => place(&taken, &banks, monitor_end, bytes),
        };
        if !banks.iter().any(|bank| bank.start.0 <= start && start + bytes <= bank.end()) {
            return Err(PlanError::OutOfMemory { what, bytes, memory_bytes: system.memory_bytes });
        }
        taken.push((start, start + bytes, what));
        let kind = AreaKind::Ram(index);
        cursor.areas.insert(kind, Area { kind, address: PhysicalAddress(start), bytes });
    }
    Ok(())
}

/// Returns where RAM of this size goes: in the first bank with room, at a 1 GiB boundary if it is that large and there is one,
/// because a gibibyte then takes one table entry; otherwise at the lowest 2 MiB boundary that is free. Without room it is the end of
/// RAM.
fn place(taken: &[(u64, u64, String)], banks: &[Bank], from: u64, bytes: u64) -> u64 {
    let alignments: &[u64] = if bytes >= LEVEL_1_BYTES { &[LEVEL_1_BYTES, BLOCK_BYTES] } else { &[BLOCK_BYTES] };
    let places = banks.iter().flat_map(|bank| alignments.iter().map(move |alignment| (bank, *alignment)));
    let fits = places.map(|(bank, alignment)| (bank, first_fit(taken, from.max(bank.start.0), bytes, alignment)));
    let mut fits = fits.filter(|(bank, start)| start.saturating_add(bytes) <= bank.end());
    fits.next().map_or_else(|| banks.last().map_or(from, Bank::end), |(_, start)| start)
}

/// Returns the lowest aligned address from `from` on at which `bytes` touch nothing taken.
fn first_fit(taken: &[(u64, u64, String)], from: u64, bytes: u64, alignment: u64) -> u64 {
    let mut start = from.next_multiple_of(alignment);
    while let Some((_, end, _)) =
        taken.iter().find(|(taken_start, taken_end, _)| *taken_start < start + bytes && start < *taken_end)
    {
        start = end.next_multiple_of(alignment);
    }
    start
}
