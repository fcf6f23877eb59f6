//! Who maps what: the EL2 map of each core and the stage 2 of each partition (record 0001).

use crate::channels::End;
use crate::layout::{Area, AreaKind, Layout};
use crate::model::{InterruptMode, Partition, System};
use crate::tables::{Attributes, Mapping};
use alloc::vec::Vec;
use bulkhead_abi::channel::{CHANNEL_READER_OFFSET, CHANNEL_STATUS_OFFSET, CHANNEL_WRITER_OFFSET};
use bulkhead_abi::guest::{GUEST_CONSOLE, GUEST_INFORMATION};
use bulkhead_abi::{PAGE_BYTES, PhysicalAddress};

/// Bytes of the distributor.
pub const GICD_BYTES: u64 = 64 << 10;
/// Bytes of one core's redistributor frames (RD and SGI).
pub const GICR_BYTES: u64 = 128 << 10;

/// A core and the vCPU that it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreUse {
    /// Index of the core on the board.
    pub board_core: usize,
    /// Partition.
    pub partition: usize,
    /// vCPU of the partition.
    pub vcpu: usize,
}

/// Returns what each core in use runs, by core index in the image.
#[must_use]
pub fn core_uses(system: &System) -> Vec<CoreUse> {
    let mut uses: Vec<CoreUse> = Vec::new();
    for (partition, description) in system.partitions.iter().enumerate() {
        uses.extend(description.cores.iter().enumerate().map(|(vcpu, board_core)| CoreUse {
            board_core: *board_core,
            partition,
            vcpu,
        }));
    }
    uses.sort_by_key(|core_use| core_use.board_core);
    uses
}

/// States whether a manager may ask for this partition to be suspended or restarted: it runs `mapped`.
#[must_use]
pub fn is_manageable(system: &System, partition: usize) -> bool {
    system.partitions.get(partition).is_some_and(|partition| partition.mode == InterruptMode::Mapped)
}

/// States whether a partition may manage others.
#[must_use]
pub fn manages(system: &System, partition: usize) -> bool {
    system.partitions.get(partition).is_some_and(|partition| partition.manages)
}

/// Returns the address of a board core's redistributor.
#[must_use]
pub fn redistributor(system: &System, board_core: usize) -> PhysicalAddress {
    PhysicalAddress(system.board.gicr.0 + board_core as u64 * GICR_BYTES)
}

/// A core that receives console input while its partition has the focus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsoleInput {
    /// It has the focus at boot.
    pub is_first: bool,
    /// Board core that has the focus next.
    pub next_board_core: usize,
}

/// States whether a core receives console input: it runs vCPU 0 of a `mapped` partition with a virtual UART. The focus
/// goes round these partitions in the order of the description.
#[must_use]
pub fn console_input(system: &System, core_use: &CoreUse) -> Option<ConsoleInput> {
    let has_input = |partition: &&Partition| partition.virtual_uart && partition.mode == InterruptMode::Mapped;
    let ring: Vec<usize> =
        system.partitions.iter().filter(has_input).filter_map(|partition| partition.cores.first().copied()).collect();
    let place = ring.iter().position(|board_core| *board_core == core_use.board_core)?;
    let next_board_core = ring.get(place + 1).or(ring.first()).copied()?;
    Some(ConsoleInput { is_first: place == 0, next_board_core })
}

/// Returns the identity map of one core's monitor.
#[must_use]
pub fn el2(system: &System, layout: &Layout, core: usize, core_use: &CoreUse) -> Vec<Mapping> {
    let own = core_use.partition;
    let mut kinds: Vec<(AreaKind, Attributes)> = Vec::new();
    kinds.push((AreaKind::Text, Attributes::EL2_TEXT));
    for kind in [
        AreaKind::Rodata,
        AreaKind::Header,
        AreaKind::CorePlan(core),
        AreaKind::PartitionPlan(own),
        AreaKind::Pristine(own),
    ] {
        kinds.push((kind, Attributes::EL2_READ));
    }
    for kind in [
        AreaKind::Stack(core),
        AreaKind::Data(core),
        AreaKind::Counters(core),
        AreaKind::Trace(core),
        AreaKind::Shared(own),
        AreaKind::VcpuConsole(own, core_use.vcpu),
        AreaKind::Manage(own),
        AreaKind::Ram(own),
    ] {
        kinds.push((kind, Attributes::EL2_WRITE));
    }
    kinds.push((AreaKind::Status(own), Attributes::EL2_SHARED_WRITE));
    for other in (0..system.partitions.len()).filter(|other| *other != own) {
        if manages(system, own) {
            kinds.push((AreaKind::Status(other), Attributes::EL2_SHARED_READ));
        }
        if is_manageable(system, own) {
            kinds.push((AreaKind::Manage(other), Attributes::EL2_READ));
        }
    }
    for (index, channel) in system.channels.iter().enumerate() {
        if channel.source.partition == own {
            kinds.push((AreaKind::Doorbell(index), Attributes::EL2_WRITE));
            kinds.push((AreaKind::ChannelWriter(index), Attributes::EL2_SHARED_WRITE));
        }
        if channel.destination.partition == own {
            kinds.push((AreaKind::ChannelReader(index), Attributes::EL2_SHARED_WRITE));
        }
    }
    let mut mappings: Vec<Mapping> = kinds
        .into_iter()
        .filter_map(|(kind, attributes)| layout.area(kind).map(|area| at(area.address.0, area, attributes)))
        .collect();
    let device = |address: PhysicalAddress, bytes| Mapping {
        input: address.0,
        output: address,
        bytes,
        attributes: Attributes::EL2_DEVICE,
    };
    mappings.push(device(system.board.gicd, GICD_BYTES));
    mappings.push(device(redistributor(system, core_use.board_core), GICR_BYTES));
    if console_input(system, core_use).is_some() {
        mappings.push(device(system.board.uart, PAGE_BYTES));
    }
    mappings
}

/// Returns what a partition's guest can reach.
#[must_use]
pub fn stage2(system: &System, layout: &Layout, index: usize, ends: &[End]) -> Vec<Mapping> {
    let Some(partition) = system.partitions.get(index) else { return Vec::new() };
    let mut mappings = Vec::new();
    let mut add = |input: u64, kind: AreaKind, attributes: Attributes| {
        mappings.extend(layout.area(kind).map(|area| at(input, area, attributes)));
    };
    add(partition.guest_ram.0, AreaKind::Ram(index), Attributes::STAGE2_RAM);
    add(GUEST_INFORMATION.0, AreaKind::Information(index), Attributes::STAGE2_SHARED_READ);
    add(GUEST_CONSOLE.0, AreaKind::GuestConsole(index), Attributes::STAGE2_SHARED_WRITE);
    for end in ends {
        let (reader, writer) = match end.is_source {
            true => (Attributes::STAGE2_SHARED_READ, Attributes::STAGE2_SHARED_WRITE),
            false => (Attributes::STAGE2_SHARED_WRITE, Attributes::STAGE2_SHARED_READ),
        };
        add(end.window.0 + CHANNEL_STATUS_OFFSET, AreaKind::Status(end.peer), Attributes::STAGE2_SHARED_READ);
        add(end.window.0 + CHANNEL_READER_OFFSET, AreaKind::ChannelReader(end.channel), reader);
        add(end.window.0 + CHANNEL_WRITER_OFFSET, AreaKind::ChannelWriter(end.channel), writer);
    }
    // A `direct` guest owns its core, so it programs its private interrupts without an exit. Only the SGI frame: the
    // other one could make the redistributor write memory (GICR_PENDBASER).
    if let (InterruptMode::Direct, Some(core)) = (partition.mode, partition.cores.first()) {
        let frame = PhysicalAddress(redistributor(system, *core).0 + GICR_BYTES / 2);
        let input = system.board.gicr.0 + GICR_BYTES / 2;
        mappings.push(Mapping { input, output: frame, bytes: GICR_BYTES / 2, attributes: Attributes::STAGE2_DEVICE });
    }
    let devices = partition.devices.iter().filter_map(|device| system.board.devices.get(*device));
    for (start, end) in united_pages(devices.map(|device| device_pages(device.address, device.bytes)).collect()) {
        let output = PhysicalAddress(start);
        mappings.push(Mapping { input: start, output, bytes: end - start, attributes: Attributes::STAGE2_DEVICE });
    }
    mappings
}

/// Joins ranges that overlap: several devices of one partition may lie in one page, which is mapped once.
fn united_pages(mut ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    ranges.sort_unstable();
    let mut united: Vec<(u64, u64)> = Vec::new();
    for (start, end) in ranges {
        match united.last_mut() {
            Some(last) if start < last.1 => last.1 = last.1.max(end),
            _ => united.push((start, end)),
        }
    }
    united
}

/// Returns the whole pages around a device's registers: first byte and one past the last.
#[must_use]
pub fn device_pages(address: PhysicalAddress, bytes: u64) -> (u64, u64) {
    let start = address.0 - address.0 % PAGE_BYTES;
    (start, address.0.saturating_add(bytes).min(1 << 48).next_multiple_of(PAGE_BYTES))
}

fn at(input: u64, area: Area, attributes: Attributes) -> Mapping {
    Mapping { input, output: area.address, bytes: area.page_bytes(), attributes }
}
