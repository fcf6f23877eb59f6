//! Who maps what: the EL2 map of each core and the stage 2 of each partition (record 0001).

use crate::channels::{End, PoolEnd};
use crate::devices::{self, bars::Places};
use crate::fronts::{self, VirtioEnds};
use crate::layout::{self, Area, AreaKind, Layout};
use crate::model::{BoardDevice, InterruptMode, Partition, System};
use crate::tables::{Attributes, Mapping};
use alloc::vec::Vec;
use bulkhead_abi::{GuestAddress, PAGE_BYTES, PhysicalAddress};
use bulkhead_guest_abi::channel::{CHANNEL_READER_OFFSET, CHANNEL_STATUS_OFFSET, CHANNEL_WRITER_OFFSET};
use bulkhead_guest_abi::guest::{
    GUEST_CONSOLE, GUEST_DEVICES, GUEST_GICR, GUEST_INFORMATION, GUEST_MOVED_DEVICES, GUEST_STOLEN_TIME,
};

/// Bytes of the distributor.
pub const GICD_BYTES: u64 = 64 << 10;
/// Bytes of one core's redistributor frames (RD and SGI).
pub const GICR_BYTES: u64 = 128 << 10;

/// A vCPU, by what the description calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VcpuUse {
    /// Partition.
    pub partition: usize,
    /// vCPU of the partition.
    pub vcpu: usize,
}

/// A core and the vCPUs that it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreUse {
    /// Index of the core on the board.
    pub board_core: usize,
    /// Its vCPUs in the order of the description; the place in this list is the *slot* of a shared core.
    pub vcpus: Vec<VcpuUse>,
    /// Place of the core's schedule in [`System::schedules`]; `None` when one vCPU owns the core.
    pub schedule: Option<usize>,
}

impl CoreUse {
    /// States whether the core has a schedule. One vCPU alone under a schedule is a shared core too: it has budgets.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.schedule.is_some()
    }

    /// States whether the core runs a vCPU of the partition.
    #[must_use]
    pub fn runs(&self, partition: usize) -> bool {
        self.vcpus.iter().any(|vcpu| vcpu.partition == partition)
    }

    /// Returns the partitions of the core in the order of the description, each once.
    #[must_use]
    pub fn partitions(&self) -> Vec<usize> {
        let mut partitions: Vec<usize> = self.vcpus.iter().map(|vcpu| vcpu.partition).collect();
        partitions.dedup();
        partitions
    }
}

/// Returns what each core in use runs, by core index in the image.
#[must_use]
pub fn core_uses(system: &System) -> Vec<CoreUse> {
    system.used_cores().into_iter().map(|board_core| core_use(system, board_core)).collect()
}

/// Returns what one core runs.
#[must_use]
pub fn core_use(system: &System, board_core: usize) -> CoreUse {
    let mut vcpus = Vec::new();
    for (partition, description) in system.partitions.iter().enumerate() {
        let here = description.cores.iter().enumerate().filter(|(_, core)| **core == board_core);
        vcpus.extend(here.map(|(vcpu, _)| VcpuUse { partition, vcpu }));
    }
    let schedule = system.schedules.iter().position(|schedule| schedule.board_core == board_core);
    CoreUse { board_core, vcpus, schedule }
}

/// States whether a manager may ask for this partition to be suspended or restarted: it runs `mapped`, or EL3 brings its core to EL2.
#[must_use]
pub fn is_manageable(system: &System, partition: usize) -> bool {
    let partition = system.partitions.get(partition);
    partition.is_some_and(|partition| partition.mode == InterruptMode::Mapped || is_kicked(system, partition))
}

/// States whether EL3 brings each core of a partition to EL2 whatever its guest masks: below a payload, but not on the payload's own core.
#[must_use]
pub fn is_kicked(system: &System, partition: &Partition) -> bool {
    system.secure.as_ref().is_some_and(|secure| partition.cores.iter().all(|core| *core != secure.core))
}

/// Returns where the guest of a vCPU reads what was stolen from it.
#[must_use]
pub const fn stolen_time_guest(vcpu: usize) -> GuestAddress {
    GuestAddress(GUEST_STOLEN_TIME.0 + vcpu as u64 * PAGE_BYTES)
}

/// States whether a partition may manage others.
#[must_use]
pub fn manages(system: &System, partition: usize) -> bool {
    system.partitions.get(partition).is_some_and(|partition| partition.manages)
}

/// Returns the VMID of a partition.
#[must_use]
pub const fn vmid(partition: usize) -> u64 {
    partition as u64 + 1
}

/// Returns the address of a board core's redistributor.
#[must_use]
pub fn redistributor(system: &System, board_core: usize) -> PhysicalAddress {
    system.board.gicr.get(board_core).copied().unwrap_or(PhysicalAddress(0))
}

/// A core that receives console input while its partition has the focus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsoleInput {
    /// It has the focus at boot.
    pub is_first: bool,
    /// Board core that gets the UART's interrupt next: the own one when the focus is handed over.
    pub next_board_core: usize,
    /// The vCPU of this core that gets the input.
    pub receiver: VcpuUse,
    /// Partition with which the interrupt is handed over: from a `mapped` one, whose core has it, to the `direct` one that has the focus next.
    pub handed: Option<usize>,
}

/// A place in the ring of the focus.
#[derive(Clone, Copy)]
struct Receiver {
    board_core: usize,
    partition: usize,
    mode: InterruptMode,
}

/// States whether a core receives console input: it runs vCPU 0 of a `mapped` partition with a virtual UART, or of a `direct` one to which another
/// core hands it over, and the board has a UART for the monitor. The focus goes round these cores in the order of the description, and the first `mapped`
/// one has it at boot.
///
/// A core is in the ring once. Of several partitions with a virtual UART on one shared core, the first of the description
/// gets the input and the others only write: the hardware names the focus by core, in the route of the UART's interrupt,
/// and a ring of vCPUs would need a second, private focus in the monitor for a case that `bulkhead check` points out.
///
/// A `direct` partition is in the ring if EL3 brings its core to its monitor and the receiver before it is a `mapped` one: a core hands over to one
/// other core.
#[must_use]
pub fn console_input(system: &System, board_core: usize) -> Option<ConsoleInput> {
    system.board.uart?;
    let ring = focus_ring(system);
    let place = ring.iter().position(|one| one.board_core == board_core)?;
    let (before, own) = (ring.get(place.checked_sub(1).unwrap_or(ring.len() - 1))?, ring.get(place)?);
    let next = ring.get(place + 1).or(ring.first())?;
    let handed = match (own.mode, next.mode) {
        (InterruptMode::Direct, _) => Some(before.partition),
        (_, InterruptMode::Direct) => Some(next.partition),
        _ => None,
    };
    let next_board_core = if next.mode == InterruptMode::Direct { board_core } else { next.board_core };
    let receiver = VcpuUse { partition: own.partition, vcpu: 0 };
    Some(ConsoleInput { is_first: place == 0, next_board_core, receiver, handed })
}

/// Returns who gets console input, in the order in which they have the focus.
fn focus_ring(system: &System) -> Vec<Receiver> {
    let mut receivers: Vec<Receiver> = Vec::new();
    for (partition, description) in system.partitions.iter().enumerate() {
        let mode = description.mode;
        // A plan names the kicked core by 32 bits.
        let is_named = description
            .cores
            .iter()
            .all(|core| system.board.core_mpidr.get(*core).is_some_and(|mpidr| mpidr >> 32 == 0));
        let may_receive = mode == InterruptMode::Mapped || is_kicked(system, description) && is_named;
        let core = description.cores.first().filter(|core| {
            description.virtual_uart && may_receive && receivers.iter().all(|one| one.board_core != **core)
        });
        receivers.extend(core.map(|core| Receiver { board_core: *core, partition, mode }));
    }
    let first = receivers.iter().position(|one| one.mode == InterruptMode::Mapped);
    receivers.rotate_left(first.unwrap_or(0));
    let mut before = InterruptMode::Direct;
    receivers.retain(|one| {
        let is_kept = one.mode == InterruptMode::Mapped || before == InterruptMode::Mapped;
        before = if is_kept { one.mode } else { before };
        is_kept
    });
    receivers
}

/// Areas to map, each once. A core that runs several partitions maps what any of them needs, so an area can be asked for
/// twice, once to read and once to write it.
struct Wanted(Vec<(AreaKind, Attributes)>);

impl Wanted {
    fn add(&mut self, kind: AreaKind, attributes: Attributes) {
        match self.0.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, known)) => *known = wider(*known, attributes),
            None => self.0.push((kind, attributes)),
        }
    }
}

/// Returns the attributes that allow what either allows. Both are of one memory type: what is shared with others is
/// asked for as shared by everyone.
fn wider(first: Attributes, second: Attributes) -> Attributes {
    match first {
        Attributes::EL2_READ | Attributes::EL2_SHARED_READ => second,
        _ => first,
    }
}

/// Returns the identity map of one core's monitor: what its vCPUs need, each area once.
#[must_use]
pub fn el2(system: &System, layout: &Layout, places: &Places, core: usize, core_use: &CoreUse) -> Vec<Mapping> {
    let mut wanted = Wanted(Vec::new());
    wanted.add(AreaKind::Text, Attributes::EL2_TEXT);
    for kind in [AreaKind::Rodata, AreaKind::Header, AreaKind::Schedule(core)] {
        wanted.add(kind, Attributes::EL2_READ);
    }
    for kind in [AreaKind::Stack(core), AreaKind::Data(core), AreaKind::Trace(core), AreaKind::Usage(core)] {
        wanted.add(kind, Attributes::EL2_WRITE);
    }
    for VcpuUse { partition, vcpu } in &core_use.vcpus {
        wanted.add(AreaKind::VcpuPlan(*partition, *vcpu), Attributes::EL2_READ);
        wanted.add(AreaKind::Counters(*partition, *vcpu), Attributes::EL2_WRITE);
        wanted.add(AreaKind::VcpuConsole(*partition, *vcpu), Attributes::EL2_WRITE);
        wanted.add(AreaKind::StolenTime(*partition, *vcpu), Attributes::EL2_WRITE);
    }
    core_use.partitions().into_iter().for_each(|partition| add_partition(&mut wanted, system, partition));
    if core == 0 {
        wanted.add(AreaKind::BootDevices, Attributes::EL2_READ);
    }
    let input = console_input(system, core_use.board_core);
    if let Some(other) = input.and_then(|input| input.handed) {
        wanted.add(AreaKind::Status(other), Attributes::EL2_SHARED_READ);
    }
    let mut mappings: Vec<Mapping> = wanted
        .0
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
    if input.is_some() {
        mappings.extend(system.board.uart.map(|uart| device(uart.address, PAGE_BYTES)));
    }
    mappings.extend(devices::monitor_pages(system, places, core, core_use));
    mappings
}

/// Adds what the monitor of a partition's core needs, whichever vCPU it runs.
fn add_partition(wanted: &mut Wanted, system: &System, own: usize) {
    wanted.add(AreaKind::PartitionPlan(own), Attributes::EL2_READ);
    wanted.add(AreaKind::Pristine(own), Attributes::EL2_READ);
    wanted.add(AreaKind::DevicePlan(own), Attributes::EL2_READ);
    if devices::looks(system, own).is_some() {
        wanted.add(AreaKind::Events, Attributes::EL2_READ);
    }
    for kind in [AreaKind::Shared(own), AreaKind::Manage(own), AreaKind::Ram(own)] {
        wanted.add(kind, Attributes::EL2_WRITE);
    }
    wanted.add(AreaKind::Status(own), Attributes::EL2_SHARED_WRITE);
    for other in (0..system.partitions.len()).filter(|other| *other != own) {
        if manages(system, own) {
            wanted.add(AreaKind::Status(other), Attributes::EL2_SHARED_READ);
        }
        if is_manageable(system, own) {
            wanted.add(AreaKind::Manage(other), Attributes::EL2_READ);
        }
    }
    for (device, _) in system.fronts_of(own) {
        wanted.add(AreaKind::DevicePage(device), Attributes::EL2_SHARED_WRITE);
    }
    wanted.add(AreaKind::FrontPool(own), Attributes::EL2_SHARED_WRITE);
    let notifications = system.fronts_of(own).filter_map(|(device, _)| fronts::words_area(system, device, true));
    let interrupts = system.backs_of(own).filter_map(|(device, _)| fronts::words_area(system, device, false));
    notifications.chain(interrupts).for_each(|words| wanted.add(words, Attributes::EL2_WRITE));
    for (index, channel) in system.channels.iter().enumerate() {
        if channel.source.partition == own {
            if let Some(words) = layout::doorbell_area(system, index) {
                wanted.add(words, Attributes::EL2_WRITE);
            }
            wanted.add(AreaKind::ChannelWriter(index), Attributes::EL2_SHARED_WRITE);
        }
        if channel.destination.partition == own {
            wanted.add(AreaKind::ChannelReader(index), Attributes::EL2_SHARED_WRITE);
        }
    }
}

/// Returns what a partition's guest can reach.
#[must_use]
pub fn stage2(
    system: &System,
    layout: &Layout,
    places: &Places,
    index: usize,
    (ends, pools, virtio): (&[End], &[PoolEnd], &VirtioEnds),
) -> Vec<Mapping> {
    let Some(partition) = system.partitions.get(index) else { return Vec::new() };
    let mut mappings = Vec::new();
    let mut add = |input: u64, kind: AreaKind, attributes: Attributes| {
        mappings.extend(layout.area(kind).map(|area| at(input, area, attributes)));
    };
    add(partition.guest_ram.0, AreaKind::Ram(index), Attributes::STAGE2_RAM);
    add(GUEST_INFORMATION.0, AreaKind::Information(index), Attributes::STAGE2_SHARED_READ);
    for vcpu in 0..partition.cores.len() {
        add(stolen_time_guest(vcpu).0, AreaKind::StolenTime(index, vcpu), Attributes::STAGE2_READ);
    }
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
    for end in pools {
        add(end.window.0, AreaKind::Pool(end.channel), Attributes::STAGE2_SHARED_WRITE);
    }
    mappings.extend(fronts::guest_pages(system, layout, index, virtio));
    // A `direct` guest owns its core, so it programs its private interrupts without an exit. Only the SGI frame: the
    // other one could make the redistributor write memory (GICR_PENDBASER).
    if let (InterruptMode::Direct, Some(core)) = (partition.mode, partition.cores.first()) {
        let frame = PhysicalAddress(redistributor(system, *core).0 + GICR_BYTES / 2);
        let input = GUEST_GICR.0 + GICR_BYTES / 2;
        mappings.push(Mapping { input, output: frame, bytes: GICR_BYTES / 2, attributes: Attributes::STAGE2_DEVICE });
    }
    mappings.extend(device_pages(system, partition));
    mappings.extend(devices::guest_pages(system, places, index));
    mappings
}

/// Returns the pages of a partition's devices and where its guest finds them: at the addresses of the board if these are among
/// [`GUEST_DEVICES`], otherwise one behind the other from [`GUEST_MOVED_DEVICES`] on.
#[must_use]
pub fn device_pages(system: &System, partition: &Partition) -> Vec<Mapping> {
    pages_of_devices(partition.devices.iter().filter_map(|device| system.board.devices.get(*device)))
}

/// As [`device_pages`] of a partition that has these devices.
#[must_use]
pub fn pages_of_devices<'d>(devices: impl Iterator<Item = &'d BoardDevice>) -> Vec<Mapping> {
    let ranges = united_pages(devices.map(|device| whole_pages(device.address, device.bytes)).collect());
    let (own, moved): (Vec<_>, Vec<_>) =
        ranges.into_iter().partition(|(start, end)| GUEST_DEVICES.start <= *start && *end <= GUEST_DEVICES.end);
    let mapping = |input, (start, end): (u64, u64)| Mapping {
        input,
        output: PhysicalAddress(start),
        bytes: end - start,
        attributes: Attributes::STAGE2_DEVICE,
    };
    let mut next = GUEST_MOVED_DEVICES.0;
    let mut pages: Vec<Mapping> = own.iter().map(|range| mapping(range.0, *range)).collect();
    for range in moved {
        let bytes = range.1 - range.0;
        while let Some((_, end)) = own.iter().find(|(start, end)| *start < next + bytes && next < *end) {
            next = *end;
        }
        pages.push(mapping(next, range));
        next += bytes;
    }
    pages
}

/// Returns where a guest finds the first register of one of its devices; the board's address of any other one.
#[must_use]
pub fn guest_address(pages: &[Mapping], address: PhysicalAddress) -> u64 {
    let offset = |page: &Mapping| address.0.checked_sub(page.output.0).filter(|offset| *offset < page.bytes);
    pages.iter().find_map(|page| offset(page).map(|offset| page.input + offset)).unwrap_or(address.0)
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
pub fn whole_pages(address: PhysicalAddress, bytes: u64) -> (u64, u64) {
    let start = address.0 - address.0 % PAGE_BYTES;
    (start, address.0.saturating_add(bytes).min(1 << 48).next_multiple_of(PAGE_BYTES))
}

fn at(input: u64, area: Area, attributes: Attributes) -> Mapping {
    Mapping { input, output: area.address, bytes: area.page_bytes(), attributes }
}
