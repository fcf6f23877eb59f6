//! What the fixed-size structures of the image format can hold, checked before anything is laid out.
//!
//! `bulkhead check` refuses most of this earlier with a place in the user's file. The planner checks again, because its
//! arithmetic relies on it and a [`System`] can be made by hand.

use crate::devices;
use crate::error::PlanError;
use crate::layout::CONSOLE_BYTES;
use crate::model::{Bank, Channel, GuestImage, Limiter, Partition, PortKind, Secure, System, WorldChannel};
use crate::sharing;
use crate::tables::{BLOCK_BYTES, GUEST_ADDRESS_END};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use bulkhead_abi::image::{MAX_BANKS, MAX_RESERVED};
use bulkhead_abi::plan::{MAX_DOORBELLS, MAX_INTID, MAX_PCI_FUNCTIONS};
use bulkhead_abi::{MAX_CORES, MAX_PARTITIONS, NAME_BYTES, PAGE_BYTES};
use bulkhead_guest_abi::channel::{SAMPLING_SLOTS, writer_bytes};
use bulkhead_guest_abi::guest::{GUEST_CHANNELS, GUEST_CONSOLE, MAX_PORTS};

const _: () = assert!(GUEST_CONSOLE.0 + CONSOLE_BYTES <= GUEST_CHANNELS.0, "the console ring ends before the channels");

/// Most payload bytes of a message (`core/guest-abi/src/channel.rs`).
const MAX_MESSAGE_BYTES: u64 = 4032;
/// Most slots of a queuing port: what a BAR of 16 MiB holds of the largest messages.
const MAX_SLOTS: u64 = 4000;

impl PortKind {
    /// Returns the number of slots.
    #[must_use]
    pub fn slots(&self) -> u32 {
        match self {
            Self::Sampling => SAMPLING_SLOTS,
            Self::Queuing { depth } => *depth,
        }
    }
}

impl Partition {
    /// States whether the guest finds its information page and channels at fixed addresses.
    #[must_use]
    pub fn is_native(&self) -> bool {
        !self.pci_channels && !matches!(self.image, GuestImage::Linux { .. })
    }
}

impl System {
    /// Returns the limiter of all doorbells to a channel's receiver together, if it has one (CH-36).
    #[must_use]
    pub fn aggregate_limiter(&self, channel: &Channel) -> Option<Limiter> {
        self.partitions.get(channel.destination.partition)?.doorbell_limit
    }

    /// Returns the limiter that a channel's doorbell is counted in: the receiver's, or its own.
    #[must_use]
    pub fn limiter(&self, channel: &Channel) -> Option<Limiter> {
        let doorbell = channel.doorbell?;
        self.aggregate_limiter(channel).or(doorbell.limiter)
    }

    /// Returns the channels between a payload and partitions: their places among the payload's channels, and they themselves.
    pub fn pools(&self) -> impl Iterator<Item = (usize, &WorldChannel)> {
        self.secure.iter().flat_map(Secure::pools)
    }

    /// Returns the board cores in use, lowest first and each once; the position in this list is the core's index in the image.
    #[must_use]
    pub fn used_cores(&self) -> Vec<usize> {
        let mut cores: Vec<usize> =
            self.partitions.iter().flat_map(|partition| partition.cores.iter().copied()).collect();
        cores.sort_unstable();
        cores.dedup();
        cores
    }
}

/// Checks everything that later steps take for granted.
///
/// # Errors
/// The first thing that does not fit.
pub fn check(system: &System) -> Result<(), PlanError> {
    at_most("partitions", "the system", system.partitions.len(), MAX_PARTITIONS)?;
    check_cores(system)?;
    let load = system.board.load_address.0;
    aligned("load address", load, BLOCK_BYTES)?;
    let board = &system.board;
    at_most("banks of RAM", "the board", board.banks.len(), MAX_BANKS)?;
    at_most("reserved regions", "the board", board.reserved_in(&board.banks).len(), MAX_RESERVED)?;
    let ram_end = board.banks.iter().map(Bank::end).max().unwrap_or(0);
    let is_loadable = board.banks.first().is_some_and(|bank| bank.start.0 <= load && load < bank.end() && load != 0);
    if ram_end > board.physical_address_end() || !is_loadable || system.memory_bytes > board.ram_bytes() {
        return Err(PlanError::OutOfMemory {
            what: String::from("the machine"),
            bytes: system.memory_bytes,
            memory_bytes: system.board.ram_bytes(),
        });
    }
    if !system.trace_records.is_power_of_two() || system.trace_records > 1 << 24 {
        return Err(PlanError::Misaligned {
            what: String::from("trace.records"),
            value: system.trace_records,
            alignment: 2,
        });
    }
    check_board(system)?;
    system.partitions.iter().try_for_each(|partition| check_partition(system, partition))?;
    sharing::check(system)?;
    system.channels.iter().try_for_each(|channel| check_channel(system, channel))?;
    system.pools().try_for_each(|(_, channel)| check_pool(system, channel))?;
    (0..system.partitions.len()).try_for_each(|index| check_ends(system, index))
}

fn check_board(system: &System) -> Result<(), PlanError> {
    let interrupts =
        system.board.devices.iter().flat_map(|device| device.interrupts.iter().map(|interrupt| interrupt.intid));
    for intid in interrupts.chain(system.board.spare_interrupts.iter().copied()) {
        if !(32..MAX_INTID).contains(&intid) {
            return Err(PlanError::BadReference {
                place: format!("board \"{}\"", system.board.name),
                target: format!("interrupt {intid}"),
            });
        }
    }
    Ok(())
}

fn check_cores(system: &System) -> Result<(), PlanError> {
    let cores = system.used_cores();
    at_most("cores in use", "the system", cores.len(), MAX_CORES)?;
    if let Some(core) = cores.iter().find(|core| **core >= system.board.core_mpidr.len()) {
        return Err(PlanError::BadReference { place: String::from("a partition"), target: format!("core {core}") });
    }
    if cores.first() != Some(&0) {
        return Err(PlanError::BootCoreUnused);
    }
    Ok(())
}

fn check_partition(system: &System, partition: &Partition) -> Result<(), PlanError> {
    let place = format!("partition \"{}\"", partition.name);
    if partition.name.len() >= NAME_BYTES {
        return Err(too_big(format!("the name of {place}"), partition.name.len() as u64, NAME_BYTES as u64 - 1));
    }
    if partition.cores.is_empty() {
        return Err(PlanError::BadReference { place, target: String::from("no core") });
    }
    if partition.device_routes.len() != partition.devices.len() {
        return Err(PlanError::BadReference { place, target: String::from("another number of routes than devices") });
    }
    if let Some(device) = partition.devices.iter().find(|device| **device >= system.board.devices.len()) {
        return Err(PlanError::BadReference { place, target: format!("device {device}") });
    }
    aligned(&format!("memory of {place}"), partition.memory_bytes, PAGE_BYTES)?;
    aligned(&format!("guest address of {place}"), partition.guest_ram.0, PAGE_BYTES)?;
    if let Some(physical) = partition.physical_ram {
        aligned(&format!("physical address of {place}"), physical.0, PAGE_BYTES)?;
    }
    let end = partition.guest_ram.0.saturating_add(partition.memory_bytes);
    let physical_end = system.board.physical_address_end();
    if partition.memory_bytes == 0
        || end > GUEST_ADDRESS_END
        || partition.physical_ram.is_some_and(|address| address.0 >= physical_end)
    {
        return Err(too_big(format!("memory of {place}"), partition.memory_bytes, GUEST_ADDRESS_END));
    }
    Ok(())
}

fn check_channel(system: &System, channel: &Channel) -> Result<(), PlanError> {
    let place = format!("channel \"{}\"", channel.name);
    let (source, destination) = (channel.source.partition, channel.destination.partition);
    let partitions = system.partitions.len();
    if source >= partitions || destination >= partitions || source == destination {
        return Err(PlanError::BadReference {
            place,
            target: format!("partitions {source} and {destination} as two ends"),
        });
    }
    let own = channel.doorbell.and_then(|doorbell| doorbell.limiter);
    let limiters = [own, system.aggregate_limiter(channel).filter(|_| channel.doorbell.is_some())];
    at_most("limiters of its doorbell", &place, limiters.iter().flatten().count(), 1)?;
    let message_bytes = u64::from(channel.message_bytes);
    if message_bytes == 0 || message_bytes > MAX_MESSAGE_BYTES {
        return Err(too_big(format!("a message of {place}"), message_bytes, MAX_MESSAGE_BYTES));
    }
    let slots = channel.kind.slots();
    if slots < 2
        || u64::from(slots) > MAX_SLOTS
        || writer_bytes(channel.message_bytes, slots) > crate::channels::MAX_WINDOW_BYTES
    {
        return Err(too_big(format!("the depth of {place}"), u64::from(slots), MAX_SLOTS));
    }
    for port in [&channel.source, &channel.destination] {
        if port.name.len() >= NAME_BYTES {
            return Err(too_big(format!("the port name of {place}"), port.name.len() as u64, NAME_BYTES as u64 - 1));
        }
    }
    Ok(())
}

fn check_pool(system: &System, channel: &WorldChannel) -> Result<(), PlanError> {
    let place = format!("channel \"{}\"", channel.name);
    if channel.partition.is_none_or(|partition| partition >= system.partitions.len()) {
        return Err(PlanError::BadReference { place, target: String::from("no partition") });
    }
    if channel.name.len() >= NAME_BYTES {
        return Err(too_big(format!("the name of {place}"), channel.name.len() as u64, NAME_BYTES as u64 - 1));
    }
    if let Some(intid) = channel.interrupt.filter(|intid| !system.board.spare_interrupts.contains(intid)) {
        return Err(PlanError::BadReference { place, target: format!("interrupt {intid}, which is no spare one") });
    }
    aligned(&format!("the pool of {place}"), channel.pool_bytes, PAGE_BYTES)?;
    if channel.pool_bytes == 0 || channel.pool_bytes > crate::channels::PCI_MEMORY_STEP {
        return Err(too_big(format!("the pool of {place}"), channel.pool_bytes, crate::channels::PCI_MEMORY_STEP));
    }
    Ok(())
}

fn check_ends(system: &System, index: usize) -> Result<(), PlanError> {
    let Some(partition) = system.partitions.get(index) else { return Ok(()) };
    let place = format!("partition \"{}\"", partition.name);
    let sends = |channel: &&Channel| channel.source.partition == index;
    let ends =
        system.channels.iter().filter(|channel| sends(channel) || channel.destination.partition == index).count();
    let ends = ends + system.pools().filter(|(_, channel)| channel.partition == Some(index)).count();
    let doorbells = system.channels.iter().filter(sends).filter(|channel| channel.doorbell.is_some()).count();
    let ends = ends + system.backs_of(index).count();
    let doorbells = doorbells + system.fronts_of(index).count() + system.backs_of(index).count();
    at_most("doorbells to ring", &place, doorbells, MAX_DOORBELLS)?;
    let devices = devices::of_partition(system, index).count();
    if partition.pci_channels {
        // One function is the management device.
        at_most("channel ends as PCI functions", &place, ends, MAX_PCI_FUNCTIONS - 1)?;
        at_most("PCI functions with those of its channels", &place, 1 + ends + devices, MAX_PCI_FUNCTIONS)
    } else {
        at_most("PCI functions", &place, devices, MAX_PCI_FUNCTIONS)?;
        at_most("ports", &place, ends, MAX_PORTS)
    }
}

/// Refuses more of something than fits.
///
/// # Errors
/// [`PlanError::TooMany`].
pub fn at_most(what: &'static str, place: &str, found: usize, limit: usize) -> Result<(), PlanError> {
    if found > limit {
        return Err(PlanError::TooMany { what, place: place.to_string(), found, limit });
    }
    Ok(())
}

fn aligned(what: &str, value: u64, alignment: u64) -> Result<(), PlanError> {
    if !value.is_multiple_of(alignment) {
        return Err(PlanError::Misaligned { what: what.to_string(), value, alignment });
    }
    Ok(())
}

fn too_big(what: String, bytes: u64, limit: u64) -> PlanError {
    PlanError::TooBig { what, bytes, limit }
}
