//! The order of planning, and its result.

use crate::channels::{self, End, PoolEnd};
use crate::device_tree::{self, Facts};
use crate::devices::{self, bars::Places};
use crate::emit;
use crate::error::PlanError;
use crate::fronts::{self, VirtioEnds};
use crate::interrupts::Routes;
use crate::layout::{Area, AreaKind, Layout, Sizes};
use crate::limits;
use crate::loading::{self, Piece, Placement};
use crate::maps::{self, CoreUse, GICD_BYTES, GICR_BYTES};
use crate::model::{InterruptMode, System};
use crate::narrow;
use crate::tables::{AddressBits, BLOCK_BYTES, Mapping, Tables};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use bulkhead_abi::devices::{BootDevices, DevicePlan};
use bulkhead_abi::image::ImageHeader;
use bulkhead_abi::plan::{
    InterruptPlan, MAX_WINDOWS, PCI_DEVICE, PartitionPlan, PciFunction, VcpuPlan, WINDOW_ECAM, WINDOW_GICD,
    WINDOW_GICR, WINDOW_PCI_REGISTERS, WINDOW_UART, Window,
};
use bulkhead_abi::schedule::SchedulePlan;
use bulkhead_abi::{GuestAddress, PAGE_BYTES, Part, PhysicalAddress};
use bulkhead_arm::el2::GUEST_ADDRESS_BITS;
use bulkhead_guest_abi::guest::{GUEST_ECAM, GUEST_GICD, GUEST_GICR, GUEST_UART, GuestInformation};

/// The monitor as linked: what goes to the front of the image, byte for byte, wherever that is loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MonitorImage {
    /// Text from its first byte on; padded with zeros to whole pages.
    pub text: Vec<u8>,
    /// Read-only data, from the first page after the text; padded likewise.
    pub rodata: Vec<u8>,
    /// Which part of the monitor it is.
    pub part: Part,
}

/// One partition of a plan.
#[derive(Clone, Debug)]
pub struct PlannedPartition {
    /// What the monitor reads.
    pub plan: PartitionPlan,
    /// What a native guest reads.
    pub information: Option<GuestInformation>,
    /// The guest's flattened device tree.
    pub device_tree: Vec<u8>,
    /// Its channel ends.
    pub ends: Vec<End>,
    /// Its ends of channels to the payload of the secure world.
    pub pools: Vec<PoolEnd>,
    /// Its ends of virtio devices.
    pub virtio: VirtioEnds,
    /// Its stage-2 mappings.
    pub stage2: Vec<Mapping>,
    /// Its PCI functions and fronts, if it has some.
    pub devices: Option<DevicePlan>,
}

/// A decided system.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Bytes of the image from its load address on, before the arm64 header is patched.
    pub bytes: Vec<u8>,
    /// The image header as it is in `bytes`.
    pub header: ImageHeader,
    /// What each core runs, by core index.
    pub core_uses: Vec<CoreUse>,
    /// Plans of vCPUs, by core index and slot.
    pub vcpus: Vec<Vec<VcpuPlan>>,
    /// Schedules, by core index; `None` for a core that one vCPU owns.
    pub schedules: Vec<Option<SchedulePlan>>,
    /// Each core's EL2 map.
    pub el2: Vec<Vec<Mapping>>,
    /// Partitions.
    pub partitions: Vec<PlannedPartition>,
    /// What the boot core does to PCI functions, if there are any.
    pub boot_devices: Option<BootDevices>,
    /// What functions of each context descriptor reach.
    pub reach: Vec<Vec<Mapping>>,
    /// Where what is behind PCI functions is.
    pub places: Places,
    /// Physical memory.
    pub layout: Layout,
}

impl Plan {
    /// Returns all areas of physical memory by address.
    #[must_use]
    pub fn areas(&self) -> Vec<Area> {
        self.layout.areas()
    }
}

/// What is decided about a partition before memory is laid out.
pub(crate) struct Draft {
    pub(crate) placement: Placement,
    pub(crate) ends: Vec<End>,
    pub(crate) pools: Vec<PoolEnd>,
    pub(crate) virtio: VirtioEnds,
    pub(crate) functions: Vec<PciFunction>,
    pub(crate) interrupts: Vec<InterruptPlan>,
    pub(crate) windows: Vec<Window>,
    pub(crate) pieces: Vec<Piece>,
    pub(crate) pristine: Vec<u8>,
    pub(crate) pristine_offsets: Vec<u64>,
    pub(crate) device_tree: Vec<u8>,
}

/// Layout and the tables that belong to it.
pub(crate) struct Settled {
    pub(crate) layout: Layout,
    pub(crate) el2: Vec<(Vec<Mapping>, Tables)>,
    pub(crate) stage2: Vec<(Vec<Mapping>, Tables)>,
    pub(crate) devices: Vec<(Vec<Mapping>, Tables)>,
    pub(crate) places: Places,
}

impl Settled {
    /// Returns the root of a partition's stage 2.
    pub(crate) fn stage2_root(&self, partition: usize) -> PhysicalAddress {
        self.stage2.get(partition).map_or(PhysicalAddress(0), |(_, tables)| tables.root())
    }
}

/// Plans a system: decides all memory, routes and tables and writes the bytes of the image.
///
/// # Errors
/// The first thing that does not fit, with what to do about it.
pub fn plan(system: &System, monitor: &MonitorImage) -> Result<Plan, PlanError> {
    limits::check(system)?;
    devices::check(system)?;
    fronts::check(system)?;
    let places = devices::bars::place(system)?;
    devices::check_scripts(system, &places)?;
    check_monitor(system, monitor)?;
    let routes = Routes::assign(system)?;
    let drafts: Vec<Draft> =
        (0..system.partitions.len()).map(|index| draft(system, &routes, index)).collect::<Result<_, _>>()?;
    let uses = maps::core_uses(system);
    let settled = settle(system, monitor, &drafts, &uses, places)?;
    emit::image(system, monitor, &drafts, &uses, (settled, &routes))
}

/// The smallest part of the monitor that serves a system.
#[must_use]
pub fn part_of(system: &System) -> Part {
    match (system.secure.is_some(), system.schedules.is_empty()) {
        (true, _) => Part::Hybrid,
        _ if !system.functions.is_empty() || !system.virtio.is_empty() => Part::Devices,
        (false, true) => Part::Own,
        (false, false) => Part::Shared,
    }
}

fn check_monitor(system: &System, monitor: &MonitorImage) -> Result<(), PlanError> {
    if !part_of(system).is_served_by(monitor.part) {
        let reason = match part_of(system) {
            Part::Hybrid => "it is not the part `hybrid`, but this system has a payload above its partitions",
            Part::Devices => {
                "it is not the part `devices`, but partitions of this system have PCI functions or virtio devices"
            }
            Part::Shared => "it is not the part `shared`, but vCPUs of this system share a core",
            Part::Own => "it is the part `hybrid`, but this system has no payload above its partitions",
        };
        return Err(PlanError::Monitor { reason });
    }
    if monitor.text.is_empty() || monitor.text.len().max(monitor.rodata.len()) > 64 << 20 {
        return Err(PlanError::Monitor { reason: "its text is empty or absurdly large" });
    }
    Ok(())
}

fn draft(system: &System, routes: &Routes, index: usize) -> Result<Draft, PlanError> {
    let missing =
        || PlanError::BadReference { place: String::from("the system"), target: format!("partition {index}") };
    let partition = system.partitions.get(index).ok_or_else(missing)?;
    let placement = loading::place(partition)?;
    let ends = channels::ends(system, routes, index);
    let pools = channels::pool_ends(system, index, &ends);
    let virtio = fronts::ends(system, routes, index, &ends, &pools);
    let mut functions = channels::pci_functions(system, index, &ends, &pools);
    functions.extend(virtio.functions());
    functions.extend(devices::pci_functions(system, index));
    let mut interrupts = routes.of_partition(system, index)?;
    for interrupt in &mut interrupts {
        // A line of a device is no doorbell: nothing of it is emulated, so it takes the fast way.
        let rung = |function: &PciFunction| function.kind != PCI_DEVICE && function.interrupt == interrupt.intid;
        let function = functions.iter().position(rung);
        interrupt.pci_function = function.map_or(0, |function| narrow(function) + 1);
    }
    let console = routes.console(index);
    let device_tree = device_tree::build(&Facts {
        system,
        index,
        partition,
        placement: &placement,
        console,
        functions: &functions,
        fronts: &virtio.fronts,
    })?;
    let pieces = loading::pieces(partition, &placement, device_tree.clone())?;
    let (pristine, pristine_offsets) = loading::pristine(&pieces);
    // The most frequent first: the monitor looks in this order. A notification comes with each request (`devices.front_notify`), while a
    // guest that runs leaves the distributor alone.
    let windows: Vec<Window> = virtio.windows().chain(windows(system, index, &functions)).collect();
    limits::at_most("emulated windows", &partition.name, windows.len(), MAX_WINDOWS)?;
    Ok(Draft {
        placement,
        ends,
        pools,
        virtio,
        functions,
        interrupts,
        windows,
        pieces,
        pristine,
        pristine_offsets,
        device_tree,
    })
}

/// Returns the ranges of guest addresses that the monitor answers.
fn windows(system: &System, index: usize, functions: &[PciFunction]) -> Vec<Window> {
    let Some(partition) = system.partitions.get(index) else { return Vec::new() };
    let window = |guest: u64, bytes, kind, index| Window { guest: GuestAddress(guest), bytes, kind, index };
    // A `direct` guest has its SGI frame itself (see `maps::stage2`); only the RD frame below it is answered.
    let redistributors = match partition.mode {
        InterruptMode::Mapped => partition.cores.len() as u64 * GICR_BYTES,
        InterruptMode::Direct => GICR_BYTES / 2,
    };
    // The most frequent first here, too.
    let mut windows = vec![window(GUEST_GICD.0, GICD_BYTES, WINDOW_GICD, 0)];
    if partition.virtual_uart {
        windows.push(window(GUEST_UART.0, PAGE_BYTES, WINDOW_UART, 0));
    }
    windows.push(window(GUEST_GICR.0, redistributors, WINDOW_GICR, 0));
    if !functions.is_empty() {
        windows.push(window(GUEST_ECAM.0, device_tree::ECAM_BYTES, WINDOW_ECAM, 0));
    }
    let emulated = functions.iter().enumerate().filter(|(_, function)| function.kind != PCI_DEVICE);
    windows.extend(emulated.map(|(function, description)| {
        window(description.registers.0, channels::PCI_REGISTERS_BYTES, WINDOW_PCI_REGISTERS, narrow(function))
    }));
    windows
}

/// Repeats layout and tables until the number of table pages agrees.
///
/// The count can only change because addresses moved by a few pages; if two layouts should ever alternate, the larger
/// count is kept and the spare page stays zero.
fn settle(
    system: &System,
    monitor: &MonitorImage,
    drafts: &[Draft],
    uses: &[CoreUse],
    places: Places,
) -> Result<Settled, PlanError> {
    const ROUNDS: usize = 16;
    let whole_pages = |bytes: &[u8]| (bytes.len() as u64).next_multiple_of(PAGE_BYTES);
    let mut sizes = Sizes {
        text_bytes: whole_pages(&monitor.text),
        rodata_bytes: whole_pages(&monitor.rodata),
        el2_pages: vec![1; uses.len()],
        stage2_pages: vec![1; drafts.len()],
        device_pages: vec![1; devices::contexts(system).len()],
        pristine_bytes: drafts.iter().map(|draft| draft.pristine.len() as u64).collect(),
    };
    for _ in 0..ROUNDS {
        let layout = Layout::compute(system, uses, &sizes)?;
        let el2 = el2_tables(system, &layout, &places, uses)?;
        let stage2 = stage2_tables(system, &layout, &places, drafts)?;
        let devices = device_tables(system, &layout)?;
        let pages = |sets: &[(Vec<Mapping>, Tables)]| {
            sets.iter().map(|(_, tables)| tables.page_count() as u64).collect::<Vec<_>>()
        };
        let (el2_pages, stage2_pages, device_pages) = (pages(&el2), pages(&stage2), pages(&devices));
        let fits = |needed: &[u64], given: &[u64]| needed.iter().zip(given).all(|(needed, given)| needed <= given);
        let fits_all = fits(&el2_pages, &sizes.el2_pages) && fits(&stage2_pages, &sizes.stage2_pages);
        if fits_all && fits(&device_pages, &sizes.device_pages) {
            return Ok(Settled { layout, el2, stage2, devices, places });
        }
        let grow = |given: &mut [u64], needed: &[u64]| {
            given.iter_mut().zip(needed).for_each(|(given, needed)| *given = (*given).max(*needed))
        };
        grow(&mut sizes.el2_pages, &el2_pages);
        grow(&mut sizes.stage2_pages, &stage2_pages);
        grow(&mut sizes.device_pages, &device_pages);
    }
    Err(PlanError::Unsettled)
}

fn el2_tables(
    system: &System,
    layout: &Layout,
    places: &Places,
    uses: &[CoreUse],
) -> Result<Vec<(Vec<Mapping>, Tables)>, PlanError> {
    let bits = AddressBits { input: system.board.el2_address_bits(), output: system.board.physical_address_bits };
    let build = |(core, core_use): (usize, &CoreUse)| {
        let mappings = maps::el2(system, layout, places, core, core_use);
        let base = layout.address(AreaKind::El2Tables(core));
        let place = || format!("the monitor on core {}", core_use.board_core);
        let tables = Tables::build(base, bits, &mappings).map_err(|error| PlanError::Map { place: place(), error })?;
        Ok((mappings, tables))
    };
    uses.iter().enumerate().map(build).collect()
}

/// Tables through which functions reach memory: one set for each context descriptor.
fn device_tables(system: &System, layout: &Layout) -> Result<Vec<(Vec<Mapping>, Tables)>, PlanError> {
    let bits = AddressBits { input: GUEST_ADDRESS_BITS, output: system.board.physical_address_bits };
    let build = |(index, context): (usize, &devices::Context)| {
        let mappings = devices::reach(system, layout, context);
        let base = layout.address(AreaKind::DeviceTables(index));
        let name = system.partitions.get(context.partition).map_or("?", |partition| partition.name.as_str());
        let place = || format!("the PCI functions of partition \"{name}\"");
        let tables = Tables::build(base, bits, &mappings).map_err(|error| PlanError::Map { place: place(), error })?;
        Ok((mappings, tables))
    };
    devices::contexts(system).iter().enumerate().map(build).collect()
}

fn stage2_tables(
    system: &System,
    layout: &Layout,
    places: &Places,
    drafts: &[Draft],
) -> Result<Vec<(Vec<Mapping>, Tables)>, PlanError> {
    let bits = AddressBits { input: GUEST_ADDRESS_BITS, output: system.board.physical_address_bits };
    let build = |(index, draft): (usize, &Draft)| {
        let mappings = maps::stage2(system, layout, places, index, (&draft.ends, &draft.pools, &draft.virtio));
        let name = system.partitions.get(index).map_or("?", |partition| partition.name.as_str());
        check_windows(name, &mappings, &draft.windows)?;
        let base = layout.address(AreaKind::Stage2Tables(index));
        let place = || format!("partition \"{name}\"");
        let tables = Tables::build(base, bits, &mappings).map_err(|error| PlanError::Map { place: place(), error })?;
        Ok((mappings, tables))
    };
    drafts.iter().enumerate().map(build).collect()
}

/// Refuses a mapping over addresses that the monitor must answer itself.
fn check_windows(name: &str, mappings: &[Mapping], windows: &[Window]) -> Result<(), PlanError> {
    for window in windows {
        let overlaps = |mapping: &&Mapping| {
            mapping.input < window.guest.0 + window.bytes && window.guest.0 < mapping.input + mapping.bytes
        };
        if let Some(mapping) = mappings.iter().find(overlaps) {
            return Err(PlanError::Overlap {
                first: format!("guest memory of partition \"{name}\""),
                second: String::from("an emulated device of the same partition"),
                address: mapping.input.max(window.guest.0),
            });
        }
    }
    Ok(())
}

const _: () = assert!(BLOCK_BYTES.is_multiple_of(PAGE_BYTES));
