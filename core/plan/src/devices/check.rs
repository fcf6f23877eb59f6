//! What functions, their models and their board must be like for the plan to confine them.
//!
//! `bulkhead check` refuses all of this earlier with a place in the user's file; see [`crate::limits`] for why it is checked twice.

use super::bars::{self, Places};
use super::scripts::{self, SmmuMemory};
use super::{header, smmu};
use crate::error::PlanError;
use crate::limits::at_most;
use crate::maps;
use crate::model::{
    Bank, HealthPolicy, InterruptMode, Partition, PciFunction, PciHost, PciModel, PciReset, Reach, SmmuStage, System,
};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use bulkhead_abi::PAGE_BYTES;
use bulkhead_abi::devices::{MAX_BARS, MAX_BOOT_SCRIPTS, MAX_BOOT_STEPS, MAX_STEPS};
use bulkhead_abi::plan::MAX_INTID;

/// Bytes of configuration space that the plan uses: buses 0 and 1.
const CONFIGURATION_BYTES: u64 = 2 << 20;
/// Most context descriptors: what the page of commands has room for.
const MAX_CONTEXTS: usize = ((PAGE_BYTES - smmu::COMMAND_BYTES) / 64) as usize;
/// Most slots of a bus.
const SLOTS: u32 = 32;

fn require(good: bool, place: &str, reason: &str) -> Result<(), PlanError> {
    if good { Ok(()) } else { Err(PlanError::Pci { place: String::from(place), reason: String::from(reason) }) }
}

/// Checks everything about functions but whether they have room.
pub(crate) fn check(system: &System) -> Result<(), PlanError> {
    if system.functions.is_empty() {
        return Ok(());
    }
    let place = format!("board \"{}\"", system.board.name);
    let Some(host) = &system.board.pci else {
        return require(false, &place, "it has no PCI host bridge; use another board, or no PCI functions");
    };
    require(system.secure.is_none(), &place, "PCI functions and a payload of the secure world exclude each other")?;
    check_host(system, host, &place)?;
    for (index, function) in system.functions.iter().enumerate() {
        let place = format!("PCI function \"{}\"", function.name);
        let (Some(model), Some(partition)) =
            (host.models.get(function.model), system.partitions.get(function.partition))
        else {
            return Err(PlanError::BadReference { place, target: String::from("a model or a partition") });
        };
        check_place(system, host, index, function, &place)?;
        let is_behind = function.bus != 0;
        require(model.is_behind_root_port == is_behind, &place, "its bus is not that of its model")?;
        check_model(model, &format!("PCI model \"{}\"", model.name))?;
        check_reach(host, function, model, partition, &place)?;
        let good = model.reset != PciReset::None || !can_start_again(system, function.partition);
        let reason = "nothing resets it, and its partition can be started again; use another model, or start it once";
        require(good, &place, reason)?;
    }
    at_most("contexts of DMA", "the SMMU", super::contexts(system).len(), MAX_CONTEXTS)?;
    for partition in &system.partitions {
        let place = format!("partition \"{}\"", partition.name);
        let has_timer = partition.mode == InterruptMode::Mapped || partition.device_events.look_ns.is_none();
        require(has_timer, &place, "a partition with direct interrupts cannot look at events of DMA; make it mapped")?;
    }
    Ok(())
}

/// States whether a partition may be started a second time: by its own policy or by another partition.
fn can_start_again(system: &System, own: usize) -> bool {
    let restarts = |partition: &Partition| matches!(partition.health, HealthPolicy::Restart { .. });
    let is_managed = (0..system.partitions.len()).any(|other| other != own && maps::manages(system, other));
    system.partitions.get(own).is_some_and(restarts) || is_managed && maps::is_manageable(system, own)
}

fn check_host(system: &System, host: &PciHost, place: &str) -> Result<(), PlanError> {
    let whole = |bank: &Bank| (bank.start.0 | bank.bytes).is_multiple_of(PAGE_BYTES) && bank.start.0 != 0;
    let end = system.board.physical_address_end();
    let inside = |start: u64, bytes: u64| start.checked_add(bytes).is_some_and(|last| last <= end);
    let good = whole(&host.window) && inside(host.window.start.0, host.window.bytes);
    // A memory base register and a root port's window have 32 bits.
    require(good && host.window.end() <= 1 << 32, place, "its PCI window is not made of whole pages below 4 GiB")?;
    let good = host.configuration.0.is_multiple_of(1 << 20) && inside(host.configuration.0, CONFIGURATION_BYTES);
    require(good, place, "its PCI configuration space does not start at a multiple of 1 MiB")?;
    let aligned =
        |smmu: crate::model::Smmu| smmu.address.0.is_multiple_of(0x1_0000) && inside(smmu.address.0, 0x2_0000);
    require(host.smmu.is_none_or(aligned), place, "its SMMU does not start at a multiple of 64 KiB")?;
    let slots = host.slots.iter().chain(&host.root_port);
    require(slots.clone().all(|slot| *slot < SLOTS), place, "a slot of its PCI bus is beyond 31")?;
    require(host.wait_limit != 0, place, "its PCI functions have no time to answer")
}

/// Checks where a function is: it, its stream and its line are nobody else's.
fn check_place(
    system: &System,
    host: &PciHost,
    index: usize,
    function: &PciFunction,
    place: &str,
) -> Result<(), PlanError> {
    let is_there = match function.bus {
        0 => host.slots.contains(&function.device) && host.root_port != Some(function.device),
        1 => host.root_port.is_some() && function.device == 0 && host.buses > 1,
        _ => false,
    };
    require(is_there, place, "the board has no place for functions there; use another slot")?;
    let others = || system.functions.iter().enumerate().filter(move |(other, _)| *other != index);
    let is_alone = others().all(|(_, other)| other.stream() != function.stream());
    require(is_alone, place, "another function has its slot; use another one")?;
    let line = super::line(host, function.bus, function.device);
    let good = function.interrupt == line && (32..MAX_INTID).contains(&line);
    require(good, place, "its interrupt is not that of its slot")?;
    let shared = others().find(|(_, other)| other.interrupt == line && other.partition != function.partition);
    if let Some((_, other)) = shared {
        let reason = format!("its line is that of \"{}\", which another partition has; use another slot", other.name);
        return require(false, place, &reason);
    }
    let board = &system.board;
    let of_devices = board.devices.iter().flat_map(|device| device.interrupts.iter().map(|one| one.intid));
    let is_free = of_devices.chain(board.spare_interrupts.iter().copied()).all(|intid| intid != line);
    require(is_free, place, "its line is another device's or a spare interrupt; use another slot")
}

/// Checks what a model says of its function.
fn check_model(model: &PciModel, place: &str) -> Result<(), PlanError> {
    header::capabilities(&model.configuration)
        .map_err(|reason| PlanError::Pci { place: String::from(place), reason: String::from(reason) })?;
    let is_endpoint = model.configuration.get(3).is_some_and(|word| word >> 16 & 0x7f == 0);
    require(is_endpoint, place, "it is a bridge")?;
    let mut is_upper = false;
    for (register, bar) in model.bars.iter().enumerate() {
        let good = bar.bytes == 0 || bar.bytes.is_power_of_two() && !is_upper && bar.bytes <= 1 << 31;
        require(good, place, "a base address register has a bad size, or is the upper half of another one")?;
        is_upper = bar.is_wide && bar.bytes != 0;
        let good = !is_upper || bars::is_memory(bar) && register + 1 < MAX_BARS;
        require(good, place, "a base address register cannot be 64 bits wide")?;
    }
    match model.reset {
        PciReset::FunctionLevel { capability } => {
            let can_reset = usize::try_from(capability).is_ok_and(|at| header::can_reset(&model.configuration, at));
            require(can_reset, place, "it has no PCI Express capability there that can reset the function")
        }
        PciReset::Virtio { bar, offset } => {
            let is_there = model.bars.get(bar).is_some_and(|one| bars::is_shown(one) && offset < one.bytes);
            require(is_there, place, "its status register is not behind a base address that a guest sees")
        }
        PciReset::None => Ok(()),
    }
}

/// Checks what the DMA of a function reaches.
fn check_reach(
    host: &PciHost,
    function: &PciFunction,
    model: &PciModel,
    partition: &Partition,
    place: &str,
) -> Result<(), PlanError> {
    let is_confined = model.is_confined && host.smmu.is_some();
    let Reach::Regions(regions) = &function.reach else {
        let reaches_all = function.reach == Reach::Everything;
        return require(is_confined != reaches_all, place, "what its DMA reaches is not what the SMMU lets it reach");
    };
    let has_tables = is_confined && host.smmu.is_some_and(|smmu| smmu.stage == SmmuStage::One);
    require(has_tables, place, "only stage 1 of an SMMU confines a function to regions; let it reach its partition")?;
    require(!regions.is_empty(), place, "it reaches no region; name one")?;
    let (start, end) = (partition.guest_ram.0, partition.guest_ram.0.saturating_add(partition.memory_bytes));
    let mut sorted: Vec<(u64, u64)> = regions.iter().map(|region| (region.start.0, region.end())).collect();
    sorted.sort_unstable();
    let good = |(from, to): &(u64, u64)| {
        from < to && start <= *from && *to <= end && from.is_multiple_of(PAGE_BYTES) && to.is_multiple_of(PAGE_BYTES)
    };
    require(sorted.iter().all(good), place, "a region is not made of whole pages of its partition's RAM")?;
    let disjoint = sorted.windows(2).all(|pair| matches!(pair, [(_, end), (next, _)] if end <= next));
    require(disjoint, place, "two of its regions overlap")
}

/// Checks that the scripts fit, which depends on no place.
pub(crate) fn check_scripts(system: &System, places: &Places) -> Result<(), PlanError> {
    let scripts = scripts::boot(system, places, SmmuMemory::default());
    at_most("scripts of PCI functions", "the boot core", scripts.len(), MAX_BOOT_SCRIPTS)?;
    let steps = scripts.iter().map(|script| script.steps.len());
    at_most("steps of PCI functions", "the boot core", steps.clone().sum(), MAX_BOOT_STEPS)?;
    at_most("steps of PCI functions", "a script", steps.max().unwrap_or(0), MAX_STEPS)?;
    for (index, partition) in system.partitions.iter().enumerate() {
        let place = format!("partition \"{}\"", partition.name);
        at_most("steps of PCI functions", &place, scripts::quiesce(system, places, index).0.len(), MAX_STEPS)?;
    }
    Ok(())
}
