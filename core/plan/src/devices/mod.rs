//! PCI functions of partitions: everything that is decided about them before boot (record 0037).
//!
//! A function is confined by tables that nobody changes ([`smmu`]), found at places that nobody moves ([`bars`]), seen through a header that
//! has nothing to arm ([`header`]), and handled by steps that are written here and obeyed by the monitor ([`scripts`]). What a
//! system must be like for that is in `check`.

pub mod bars;
mod check;
pub mod header;
pub mod pci;
mod plans;
pub mod scripts;
pub mod smmu;

pub(crate) use check::{check, check_scripts};
pub(crate) use plans::{boot_devices, contents, device_plan};

use crate::layout::{AreaKind, Layout};
use crate::maps::CoreUse;
use crate::model::{PciFunction, PciHost, PciModel, PciReset, Reach, SmmuStage, System};
use crate::tables::{Attributes, Mapping};
use alloc::vec::Vec;
use bars::Places;
use bulkhead_abi::plan::PCI_DEVICE;
use bulkhead_abi::{GuestAddress, MAX_PARTITIONS, PAGE_BYTES, PhysicalAddress};

/// Returns the model of a function.
#[must_use]
pub fn model<'a>(system: &'a System, function: &PciFunction) -> Option<&'a PciModel> {
    system.board.pci.as_ref()?.models.get(function.model)
}

/// Returns the functions of a partition and their places among those of the system.
pub fn of_partition(system: &System, partition: usize) -> impl Iterator<Item = (usize, &PciFunction)> {
    system.functions.iter().enumerate().filter(move |(_, function)| function.partition == partition)
}

/// States whether an SMMU confines functions of the system.
#[must_use]
pub fn has_smmu(system: &System) -> bool {
    !system.functions.is_empty() && system.board.pci.as_ref().is_some_and(|host| host.smmu.is_some())
}

/// States whether a partition has functions.
#[must_use]
pub fn has_functions(system: &System, partition: usize) -> bool {
    of_partition(system, partition).next().is_some()
}

/// Returns the functions of a partition as its virtual bus has them, behind its channels.
pub(crate) fn pci_functions(
    system: &System,
    partition: usize,
) -> impl Iterator<Item = bulkhead_abi::plan::PciFunction> {
    of_partition(system, partition).map(|(_, function)| bulkhead_abi::plan::PciFunction {
        kind: PCI_DEVICE,
        interrupt: function.interrupt,
        doorbell: crate::channels::NO_DOORBELL,
        ..bulkhead_abi::plan::PciFunction::default()
    })
}

/// Returns the page of configuration space of function 0 of a device (PCI Express Base 4.0, 7.2.2).
#[must_use]
pub const fn configuration(host: &PciHost, bus: u32, device: u32) -> PhysicalAddress {
    PhysicalAddress(host.configuration.0 + ((bus as u64) << 20 | (device as u64) << 15))
}

/// Returns the page of configuration space of a function.
#[must_use]
pub const fn configuration_of(host: &PciHost, function: &PciFunction) -> PhysicalAddress {
    configuration(host, function.bus, function.device)
}

/// Returns the devices of bus 0 where functions can be, the root port among them, lowest first.
#[must_use]
pub fn root_bus(host: &PciHost) -> Vec<u32> {
    let mut devices: Vec<u32> = host.slots.iter().copied().chain(host.root_port).collect();
    devices.sort_unstable();
    devices.dedup();
    devices
}

/// Returns the INTID of INTA of a device: of its own slot, or of the root port's that it is behind (PCI-to-PCI Bridge 1.2, 9.1).
#[must_use]
pub fn line(host: &PciHost, bus: u32, device: u32) -> u32 {
    let slot = if bus == 0 { device } else { host.root_port.unwrap_or(0) + device };
    host.first_interrupt + slot % 4
}

/// What a context descriptor stands for: all RAM of a partition, or the regions that one function is confined to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// The partition.
    pub partition: usize,
    /// The function with regions of its own, by its place in the system.
    pub function: Option<usize>,
}

impl Context {
    /// Its ASID: that of a partition is one above its index, those of single functions are above all of them.
    #[must_use]
    pub fn asid(&self) -> u64 {
        self.function.map_or(self.partition, |function| MAX_PARTITIONS + function) as u64 + 1
    }
}

/// Returns the context descriptors of a system, in their order: those of partitions, then those of single functions.
#[must_use]
pub fn contexts(system: &System) -> Vec<Context> {
    let smmu = system.board.pci.as_ref().and_then(|host| host.smmu);
    if smmu.is_none_or(|smmu| smmu.stage == SmmuStage::Two) {
        return Vec::new();
    }
    let reaches_all =
        |partition: &usize| of_partition(system, *partition).any(|(_, function)| function.reach == Reach::Partition);
    let whole = (0..system.partitions.len()).filter(reaches_all);
    let whole = whole.map(|partition| Context { partition, function: None });
    let single = system.functions.iter().enumerate().filter(|(_, one)| matches!(one.reach, Reach::Regions(_)));
    let single = single.map(|(index, one)| Context { partition: one.partition, function: Some(index) });
    whole.chain(single).collect()
}

/// Returns what the functions of a context reach: RAM of their partition, at the guest's addresses, and nothing else.
#[must_use]
pub fn reach(system: &System, layout: &Layout, context: &Context) -> Vec<Mapping> {
    let Some(partition) = system.partitions.get(context.partition) else { return Vec::new() };
    let (guest, physical) = (partition.guest_ram.0, layout.address(AreaKind::Ram(context.partition)).0);
    let function = context.function.and_then(|function| system.functions.get(function));
    match function.map(|function| &function.reach) {
        None => [smmu::device_ram(guest, physical, partition.memory_bytes)].to_vec(),
        Some(Reach::Regions(regions)) => {
            let region = |start: u64, bytes| smmu::device_ram(start, physical + (start - guest), bytes);
            regions.iter().map(|one| region(one.start.0, one.bytes)).collect()
        }
        Some(Reach::Partition | Reach::Everything) => Vec::new(),
    }
}

/// Returns what a guest reaches of its functions: what is behind their base addresses, as device memory, without tables of messages.
#[must_use]
pub fn guest_pages(system: &System, places: &Places, partition: usize) -> Vec<Mapping> {
    let mut mappings = Vec::new();
    for (index, function) in of_partition(system, partition) {
        let Some(model) = model(system, function) else { continue };
        for (register, place) in places.of(index).iter().enumerate().filter(|(_, place)| place.guest != GuestAddress(0))
        {
            let piece = |(offset, bytes): (u64, u64)| Mapping {
                input: place.guest.0 + offset,
                output: PhysicalAddress(place.physical.0 + offset),
                bytes,
                attributes: Attributes::STAGE2_DEVICE,
            };
            mappings.extend(bars::reached(model, register, place.bytes).into_iter().map(piece));
        }
    }
    mappings
}

/// Returns the pages of registers that one core's monitor needs, each once: those that its scripts name, and page 1 of the SMMU where a
/// partition looks at events.
#[must_use]
pub fn monitor_pages(system: &System, places: &Places, core: usize, core_use: &CoreUse) -> Vec<Mapping> {
    let Some(host) = system.board.pci.as_ref().filter(|_| !system.functions.is_empty()) else { return Vec::new() };
    let is_boot_core = core == 0;
    let mut pages = Vec::new();
    if is_boot_core {
        pages.extend(root_bus(host).into_iter().map(|device| configuration(host, 0, device).0));
        pages.extend(host.smmu.iter().flat_map(|smmu| [0, smmu::register::PAGE_1].map(|page| smmu.address.0 + page)));
    }
    let own = |function: &PciFunction| is_boot_core || core_use.runs(function.partition);
    for (index, function) in system.functions.iter().enumerate().filter(|(_, function)| own(function)) {
        pages.push(configuration_of(host, function).0);
        if let Some(PciReset::Virtio { bar, offset }) = model(system, function).map(|model| model.reset) {
            let status = places.of(index).get(bar).map_or(0, |place| place.physical.0) + offset;
            pages.push(status - status % PAGE_BYTES);
        }
    }
    if core_use.partitions().into_iter().any(|partition| looks(system, partition).is_some()) {
        pages.extend(host.smmu.map(|smmu| smmu.address.0 + smmu::register::PAGE_1));
    }
    pages.sort_unstable();
    pages.dedup();
    let page = |page: u64| Mapping {
        input: page,
        output: PhysicalAddress(page),
        bytes: PAGE_BYTES,
        attributes: Attributes::EL2_DEVICE,
    };
    pages.into_iter().map(page).collect()
}

/// Returns how often a partition looks at events of its functions, if it does: one whose functions are confined, and that has a timer.
#[must_use]
pub fn looks(system: &System, partition: usize) -> Option<u64> {
    system.board.pci.as_ref()?.smmu?;
    let period_ns = system.partitions.get(partition)?.device_events.look_ns?;
    has_functions(system, partition).then_some(period_ns)
}
