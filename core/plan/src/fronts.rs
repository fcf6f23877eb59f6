//! virtio between partitions: what the front and the back end of each device see (`devices.md` section 6, record 0039).
//!
//! A partition with fronts has a pool, a second and lower piece of RAM that it shares with its one back end. A device of it is a register
//! frame, whose upper part is the device page. For the back end each device is a port whose window is the device page and the pool,
//! with a doorbell of its own in each direction.

use crate::channels::{self, End, NO_DOORBELL, PoolEnd};
use crate::error::PlanError;
use crate::interrupts::Routes;
use crate::layout::{AreaKind, Layout};
use crate::limits::at_most;
use crate::model::{InterruptMode, LEAST_FRONT_BYTES, System, VirtioDevice, VirtioKind, pool_bytes};
use crate::tables::{Attributes, Mapping};
use crate::{narrow, ticks};
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use bulkhead_abi::devices::{CONFIGURATION_WORDS, DeviceFront, DevicePlan, MAX_FRONTS};
use bulkhead_abi::plan::{DoorbellPlan, PCI_IVSHMEM, PciFunction, PortInformation, WINDOW_VIRTIO, Window};
use bulkhead_abi::virtio::{
    BLOCK_FLUSH, BLOCK_READ_ONLY, BLOCK_SEGMENTS, BlockConfiguration, DEVICE_BLOCK, DEVICE_NET, FRAME_OFFSET,
    FrontPlan, MAX_QUEUE_SIZE, NET_MAC, NetConfiguration, PAGE_REGISTER,
};
use bulkhead_abi::{GuestAddress, NAME_BYTES, PAGE_BYTES, PhysicalAddress};
use bulkhead_guest_abi::channel::{PORT_BLOCK, PORT_NET};
use bulkhead_guest_abi::guest::{
    DIRECTION_SOURCE, GUEST_CHANNELS, GUEST_FRONT_STEP, GUEST_FRONTS, GUEST_PCI_MEMORY, GUEST_PCI_REGISTERS, GUEST_POOL,
};
use bulkhead_guest_abi::name_from;
use zerocopy::IntoBytes;

/// Bytes of a sector.
const SECTOR_BYTES: u64 = 512;
/// Longest wait of a restart for a back end to leave, which copies at most a page at a time (`devices.md` section 6).
const LEAVE_NS: u64 = 100_000_000;
/// A request has two descriptors beside those of its data: header and status (Virtual I/O Device 1.2, 5.2.6).
const MOST_SEGMENTS: u32 = MAX_QUEUE_SIZE as u32 - 2;

/// A device as its front sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrontEnd {
    /// Place of the device in the system.
    pub device: usize,
    /// Guest address of its first register.
    pub registers: GuestAddress,
    /// Index of its notification among the partition's doorbells.
    pub doorbell: u32,
    /// INTID that it is interrupted by.
    pub interrupt: u32,
}

/// A device as its back end sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackEnd {
    /// Place of the device in the system.
    pub device: usize,
    /// Guest address of the device page; the pool is behind it.
    pub window: GuestAddress,
    /// Bytes of both.
    pub window_bytes: u64,
    /// Index of the front's interrupt among the partition's doorbells.
    pub doorbell: u32,
    /// INTID that a notification is.
    pub interrupt: u32,
    /// PCI function, if the partition sees channels so.
    pub function: Option<u32>,
}

/// The ends of virtio devices in one partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VirtioEnds {
    /// Those that it has.
    pub fronts: Vec<FrontEnd>,
    /// Those that it serves.
    pub backs: Vec<BackEnd>,
}

/// States whether a partition has fronts, and thereby a pool.
#[must_use]
pub fn has_fronts(system: &System, partition: usize) -> bool {
    system.fronts_of(partition).next().is_some()
}

/// Returns the bytes of the pool of a partition with fronts.
#[must_use]
pub fn pool_of(system: &System, partition: usize) -> Option<u64> {
    let memory_bytes = system.partitions.get(partition)?.memory_bytes;
    has_fronts(system, partition).then(|| pool_bytes(memory_bytes))
}

/// Returns where the page begins in whose end the registers of a partition's front are.
#[must_use]
pub const fn front_page(front: usize) -> u64 {
    GUEST_FRONTS.0 + front as u64 * GUEST_FRONT_STEP
}

/// Returns the ends of virtio devices in a partition: its doorbells, functions and windows come behind those of its channels.
#[must_use]
pub fn ends(system: &System, routes: &Routes, partition: usize, channels: &[End], pools: &[PoolEnd]) -> VirtioEnds {
    let as_pci = system.partitions.get(partition).is_some_and(|partition| partition.pci_channels);
    let mut doorbells = narrow(channels.iter().filter(|end| end.doorbell != NO_DOORBELL).count())..;
    let mut next_doorbell = || doorbells.next().unwrap_or(NO_DOORBELL);
    let fronts: Vec<FrontEnd> = (system.fronts_of(partition).enumerate())
        .map(|(index, (device, _))| FrontEnd {
            device,
            registers: GuestAddress(front_page(index) + FRAME_OFFSET),
            doorbell: next_doorbell(),
            interrupt: routes.interrupt(device),
        })
        .collect();
    let last = channels.last().map(|end| end.window.0 + end.window_bytes);
    let last = pools.last().map(|end| end.window.0 + end.window_bytes).or(last).unwrap_or(GUEST_CHANNELS.0);
    let mut next_window = last.next_multiple_of(channels::WINDOW_ALIGNMENT);
    let functions = 1 + narrow(channels.len() + pools.len())..;
    let back = |((device, one), function): ((usize, &VirtioDevice), u32)| {
        let window_bytes = PAGE_BYTES + pool_of(system, one.front).unwrap_or(0);
        let window =
            if as_pci { GUEST_PCI_MEMORY.0 + u64::from(function) * channels::PCI_MEMORY_STEP } else { next_window };
        next_window = (next_window + window_bytes).next_multiple_of(channels::WINDOW_ALIGNMENT);
        BackEnd {
            device,
            window: GuestAddress(window),
            window_bytes,
            doorbell: next_doorbell(),
            interrupt: routes.notification(device),
            function: as_pci.then_some(function),
        }
    };
    let backs = system.backs_of(partition).zip(functions).map(back).collect();
    VirtioEnds { fronts, backs }
}

impl VirtioEnds {
    /// Returns the PCI functions of the devices that the partition serves.
    pub fn functions(&self) -> impl Iterator<Item = PciFunction> {
        self.backs.iter().filter_map(|end| {
            let registers = GUEST_PCI_REGISTERS.0 + u64::from(end.function?) * channels::PCI_REGISTERS_STEP;
            Some(PciFunction {
                kind: PCI_IVSHMEM,
                interrupt: end.interrupt,
                registers: GuestAddress(registers),
                memory: end.window,
                memory_bytes: end.window_bytes.next_power_of_two(),
                doorbell: end.doorbell,
                position: 0,
            })
        })
    }

    /// Returns the trapped registers of the partition's devices.
    pub fn windows(&self) -> impl Iterator<Item = Window> {
        self.fronts.iter().zip(0..).map(|(end, index)| Window {
            guest: end.registers,
            bytes: u64::from(PAGE_REGISTER),
            kind: WINDOW_VIRTIO,
            index,
        })
    }

    /// Returns the doorbells of all ends, in the order of their numbers.
    #[must_use]
    pub fn doorbells(&self, system: &System, layout: &Layout, routes: &Routes) -> Vec<DoorbellPlan> {
        let doorbell = |device: usize, intid: u32, is_notification: bool| {
            let one = system.virtio.get(device)?;
            let peer = if is_notification { one.back } else { one.front };
            let limiter = system.limiter_of_virtio(one, peer);
            Some(DoorbellPlan {
                intid,
                peer: narrow(peer),
                words: layout.address(words_area(system, device, is_notification)?),
                period_ticks: ticks::round_up(limiter.period_ns, system.board.counter_hz),
                events: limiter.events,
                channel: narrow(channel_of(system, device, is_notification)),
            })
        };
        let notifications = self.fronts.iter().map(|end| doorbell(end.device, routes.notification(end.device), true));
        let interrupts = self.backs.iter().map(|end| doorbell(end.device, routes.interrupt(end.device), false));
        notifications.chain(interrupts).flatten().collect()
    }
}

/// Returns the number that a device's doorbell has in traces: behind the channels, notifications before interrupts.
#[must_use]
pub fn channel_of(system: &System, device: usize, is_notification: bool) -> usize {
    system.channels.len() + 2 * device + usize::from(!is_notification)
}

/// Returns where the limiter words of a device's doorbell are.
#[must_use]
pub fn words_area(system: &System, device: usize, is_notification: bool) -> Option<AreaKind> {
    let one = system.virtio.get(device)?;
    let receiver = if is_notification { one.back } else { one.front };
    let is_aggregate = system.partitions.get(receiver)?.doorbell_limit.is_some();
    Some(match (is_aggregate, is_notification) {
        (true, _) => AreaKind::AllDoorbells(receiver),
        (false, true) => AreaKind::Notifications(device),
        (false, false) => AreaKind::Interrupts(device),
    })
}

/// Describes the end of a device to the guest that serves it.
#[must_use]
pub fn port(system: &System, end: &BackEnd) -> PortInformation {
    let Some(device) = system.virtio.get(end.device) else { return PortInformation::default() };
    PortInformation {
        name: name_from(&device.name),
        window: end.window,
        window_bytes: end.window_bytes,
        direction: DIRECTION_SOURCE,
        kind: match device.kind {
            VirtioKind::Net { .. } => PORT_NET,
            VirtioKind::Block { .. } => PORT_BLOCK,
        },
        message_bytes: 0,
        slots: u32::try_from(end.window_bytes / PAGE_BYTES).unwrap_or(0).saturating_sub(1),
        doorbell: end.doorbell,
        interrupt: end.interrupt,
    }
}

/// Fills in the fronts of a partition and their pool.
pub(crate) fn fill_plan(plan: &mut DevicePlan, system: &System, layout: &Layout, partition: usize, ends: &[FrontEnd]) {
    let pool = layout.area(AreaKind::FrontPool(partition));
    plan.pool = pool.map_or(PhysicalAddress(0), |area| area.address);
    plan.pool_bytes = pool.map_or(0, |area| area.page_bytes());
    let fronts = ends.iter().filter_map(|end| {
        let (plan, configuration) = registers(&system.virtio.get(end.device)?.kind, end.doorbell);
        Some(DeviceFront { page: layout.address(AreaKind::DevicePage(end.device)), plan, configuration })
    });
    plan.front_count = crate::schedule::fill(&mut plan.fronts, fronts);
    plan.leave_ticks = if plan.front_count == 0 { 0 } else { ticks::round_up(LEAVE_NS, system.board.counter_hz) };
}

/// Returns what the trapped registers of a device answer, and its configuration space.
#[must_use]
pub fn registers(kind: &VirtioKind, doorbell: u32) -> (FrontPlan, [u32; CONFIGURATION_WORDS]) {
    let mut configuration = [0; CONFIGURATION_WORDS];
    let (device, features) = match *kind {
        VirtioKind::Net { address } => {
            put(&mut configuration, NetConfiguration { address, padding: [0; 2] }.as_bytes());
            (DEVICE_NET, NET_MAC)
        }
        VirtioKind::Block { bytes, is_read_only } => {
            let sectors = bytes / SECTOR_BYTES;
            put(
                &mut configuration,
                BlockConfiguration { sectors, most_bytes: 0, most_segments: MOST_SEGMENTS }.as_bytes(),
            );
            (DEVICE_BLOCK, BLOCK_SEGMENTS | BLOCK_FLUSH | if is_read_only { BLOCK_READ_ONLY } else { 0 })
        }
    };
    (FrontPlan { device, features, doorbell, padding: 0 }, configuration)
}

fn put(words: &mut [u32], bytes: &[u8]) {
    for (word, bytes) in words.iter_mut().zip(bytes.chunks(4)) {
        *word = bytes.first_chunk().copied().map_or(0, u32::from_le_bytes);
    }
}

/// Returns what a partition's guest reaches of the devices that it has and serves: device pages and pools, which are everybody's who may
/// see them to write.
#[must_use]
pub fn guest_pages(system: &System, layout: &Layout, partition: usize, ends: &VirtioEnds) -> Vec<Mapping> {
    let at = |input: u64, kind: AreaKind| {
        layout.area(kind).map(|area| Mapping {
            input,
            output: area.address,
            bytes: area.page_bytes(),
            attributes: Attributes::STAGE2_SHARED_WRITE,
        })
    };
    let mut mappings: Vec<Mapping> = Vec::new();
    for end in &ends.fronts {
        mappings.extend(at(end.registers.0 + u64::from(PAGE_REGISTER), AreaKind::DevicePage(end.device)));
    }
    mappings.extend(at(GUEST_POOL.0, AreaKind::FrontPool(partition)));
    for end in &ends.backs {
        mappings.extend(at(end.window.0, AreaKind::DevicePage(end.device)));
        let front = system.virtio.get(end.device).map_or(usize::MAX, |device| device.front);
        mappings.extend(at(end.window.0 + PAGE_BYTES, AreaKind::FrontPool(front)));
    }
    mappings
}

/// Checks everything about virtio devices.
pub(crate) fn check(system: &System) -> Result<(), PlanError> {
    for device in &system.virtio {
        check_device(system, device)?;
    }
    for partition in 0..system.partitions.len() {
        check_fronts(system, partition)?;
    }
    Ok(())
}

fn require(good: bool, place: &str, reason: &str) -> Result<(), PlanError> {
    if good { Ok(()) } else { Err(PlanError::Virtio { place: place.to_string(), reason: String::from(reason) }) }
}

fn check_device(system: &System, device: &VirtioDevice) -> Result<(), PlanError> {
    let place = format!("virtio device \"{}\"", device.name);
    let (Some(front), Some(_)) = (system.partitions.get(device.front), system.partitions.get(device.back)) else {
        return Err(PlanError::BadReference { place, target: String::from("a partition") });
    };
    require(system.secure.is_none(), &place, "virtio devices and a payload of the secure world exclude each other")?;
    require(device.front != device.back, &place, "its front serves it; name another partition")?;
    require(device.name.len() < NAME_BYTES, &place, "its name has more than 31 bytes")?;
    require(front.mode == InterruptMode::Mapped, &place, "its front has direct interrupts; make it mapped")?;
    let is_large = front.memory_bytes >= LEAST_FRONT_BYTES;
    require(is_large, &place, "its front has less than 64 MiB, so its kernel could take the pool for other things")?;
    require(device.limiter.events > 0 && device.limiter.period_ns > 0, &place, "its limiter is zero")?;
    match device.kind {
        VirtioKind::Block { bytes, .. } => {
            let good = bytes > 0 && bytes.is_multiple_of(SECTOR_BYTES);
            require(good, &place, "its size is not a multiple of 512")
        }
        VirtioKind::Net { address } => {
            let is_alone = address.first().is_some_and(|first| first & 1 == 0) && address != [0; 6];
            require(is_alone, &place, "its MAC address is a group's, or zero")?;
            let same = system.virtio.iter().filter(|other| other.kind == device.kind).count();
            require(same == 1, &place, "another one has its MAC address")
        }
    }
}

fn check_fronts(system: &System, partition: usize) -> Result<(), PlanError> {
    let Some(name) = system.partitions.get(partition).map(|partition| &partition.name) else { return Ok(()) };
    let place = format!("partition \"{name}\"");
    at_most("virtio devices", &place, system.fronts_of(partition).count(), MAX_FRONTS)?;
    let mut backs = system.fronts_of(partition).map(|(_, device)| device.back);
    let first = backs.next();
    require(
        backs.all(|back| Some(back) == first),
        &place,
        "two partitions serve its virtio devices, but it has one pool, which one other shares",
    )?;
    let ram = system.partitions.get(partition).map_or(0, |partition| partition.guest_ram.0);
    let end = GUEST_POOL.0 + pool_of(system, partition).unwrap_or(0);
    require(first.is_none() || ram >= end, &place, "its RAM is not above the pool of its virtio devices")
}

/// States whether the monitor of a partition restarts fronts or functions of it, and so has a device plan.
#[must_use]
pub fn has_device_plan(system: &System, partition: usize) -> bool {
    has_fronts(system, partition) || crate::devices::has_functions(system, partition)
}

const _: () = assert!(FRAME_OFFSET + PAGE_REGISTER as u64 + PAGE_BYTES <= GUEST_FRONT_STEP, "frames do not overlap");
const _: () = assert!(pool_bytes(u64::MAX) + PAGE_BYTES <= channels::PCI_MEMORY_STEP, "a window holds every pool");
const _: () = assert!(GUEST_FRONTS.0 + MAX_FRONTS as u64 * GUEST_FRONT_STEP <= GUEST_PCI_MEMORY.0);
