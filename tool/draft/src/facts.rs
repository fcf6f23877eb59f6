//! Everything that a device tree says of a board, gathered before anything is written.

use crate::address::{Budget, Extent};
use crate::controller::{self, Controller};
use crate::cores::{self, Cores, Psci, Timer};
use crate::devices::{self, Device, Devices, union};
use crate::error::TreeError;
use crate::interrupt::{Interrupt, Lines};
use crate::memory::{self, Memory, Reservations, Reserved};
use crate::tree::Tree;
use bulkhead_arm::Intid;
use std::collections::BTreeSet;

/// Most letters of a board's name: an image carries it.
const MOST_NAME: usize = 31;

/// What a tree says.
#[derive(Debug)]
pub(crate) struct Facts {
    /// `model`.
    pub(crate) model: Option<String>,
    /// `compatible` of the root.
    pub(crate) compatible: Vec<String>,
    /// Cores.
    pub(crate) cores: Cores,
    /// How firmware is called.
    pub(crate) psci: Psci,
    /// Interrupt controller.
    pub(crate) controller: Controller,
    /// Timer.
    pub(crate) timer: Timer,
    /// RAM.
    pub(crate) memory: Memory,
    /// Memory that is not free.
    pub(crate) reservations: Reservations,
    /// What has registers.
    pub(crate) devices: Devices,
    /// Shared interrupts that a node names, switched off or not.
    pub(crate) shared: BTreeSet<u32>,
    /// Nodes with an interrupt whose INTID is not known.
    pub(crate) unknown_interrupts: usize,
}

/// Gathers the facts of a tree.
///
/// # Errors
/// When it is not the tree of a machine, or leads through more translations than any board has.
pub(crate) fn gather(tree: &Tree<'_>) -> Result<Facts, TreeError> {
    let root = tree.root().ok_or(TreeError::NoMachine("it has no node"))?;
    if root.children().any(|node| node.children().any(|inner| inner.name() == "__overlay__")) {
        return Err(TreeError::NoMachine("it is an overlay, a change to a device tree; apply it first: fdtoverlay"));
    }
    if tree.at_path("/images").is_some() && tree.at_path("/configurations").is_some() {
        return Err(TreeError::NoMachine(
            "it is a FIT image that contains other files; take the tree out first: dumpimage",
        ));
    }
    let gic = controller::find(tree);
    let cores = cores::cores(tree);
    let budget = Budget::new(cores.address_bits().0);
    let memory = memory::memory(tree, &budget);
    if cores.cores.is_empty() && gic.is_none() && memory.banks.is_empty() {
        return Err(TreeError::NoMachine(
            "it describes no machine: neither cores nor an interrupt controller nor memory",
        ));
    }
    let lines = Lines::new(tree, gic, &budget);
    let mut taken: Vec<Extent> = memory.banks.iter().map(|(bank, _)| *bank).collect();
    let controller = controller::controller(tree, gic, &taken, &budget);
    taken.extend(controller.extents());
    let devices = devices::devices(tree, &lines, &taken, &budget);
    let (shared, unknown_interrupts) = interrupts(tree, &lines);
    let facts = Facts {
        model: root.text("model").map(str::to_owned),
        compatible: root.texts("compatible").map(str::to_owned).collect(),
        psci: cores::psci(tree, &cores),
        timer: cores::timer(tree, &lines),
        reservations: memory::reservations(tree, &budget),
        cores,
        controller,
        memory,
        devices,
        shared,
        unknown_interrupts,
    };
    if budget.is_exhausted() { Err(TreeError::TooMuchWork) } else { Ok(facts) }
}

/// Every shared interrupt that a node names, and how many nodes have one that cannot be known.
fn interrupts<'t, 'a>(tree: &'t Tree<'a>, lines: &Lines<'t, 'a>) -> (BTreeSet<u32>, usize) {
    let mut shared = BTreeSet::new();
    let mut unknown = 0_usize;
    for node in tree.nodes() {
        let before = unknown;
        for interrupt in lines.of(node).into_iter().chain(lines.through(node)) {
            match interrupt {
                Interrupt::Shared { intid, .. } => drop(shared.insert(intid)),
                Interrupt::Private { .. } => {}
                Interrupt::Unknown(_) => unknown = before.saturating_add(1),
            }
        }
    }
    (shared, unknown)
}

impl Facts {
    /// The bits of a physical address that everything in the tree needs, of those that cores have; for a test, since no tree says it.
    #[must_use]
    pub(crate) fn stand_in_bits(&self, banks: &[Extent]) -> u32 {
        let occupied = self.occupied();
        let end = banks.iter().chain(&occupied).map(|extent| extent.end()).max().unwrap_or(0);
        let least = [40, 44].into_iter().find(|bits| end <= 1 << bits).unwrap_or(cores::MOST_ADDRESS_BITS);
        least.min(self.cores.address_bits().0)
    }

    /// Name of the board: the first `compatible` in letters, digits and hyphens.
    #[must_use]
    pub(crate) fn name(&self) -> String {
        let text = self.compatible.first().or(self.model.as_ref()).map_or("board", String::as_str);
        let letters = text.chars().map(|letter| match letter {
            letter if letter.is_ascii_alphanumeric() => letter.to_ascii_lowercase(),
            _ => '-',
        });
        let name: String = letters.take(MOST_NAME).collect();
        let name = name.trim_matches('-');
        if name.is_empty() { String::from("board") } else { name.to_owned() }
    }

    /// Shared interrupts below the highest that a node names, which no node names.
    pub(crate) fn gaps(&self) -> impl Iterator<Item = u32> {
        let last = self.shared.last().copied().unwrap_or(Intid::FIRST_SHARED);
        (Intid::FIRST_SHARED..last).filter(|intid| !self.shared.contains(intid))
    }

    /// The fewest shared interrupts that the distributor can have: enough for the highest that a node names, in steps of 32.
    #[must_use]
    pub(crate) fn least_shared(&self) -> u32 {
        let last = self.shared.last().copied().unwrap_or(Intid::FIRST_SHARED);
        (last / 32).saturating_mul(32)
    }

    /// Reserved regions as they can be written, and why others cannot.
    #[must_use]
    pub(crate) fn reserved(&self) -> (Vec<Reserved>, Vec<String>) {
        let (mut inside, mut outside) = (Vec::new(), Vec::new());
        let banks: Vec<Extent> = self.memory.banks.iter().map(|(bank, _)| *bank).collect();
        let free = self.free();
        let start = self.memory.start.as_ref().map_or(0, |(start, _)| *start);
        for region in &self.reservations.regions {
            let parts = match banks.as_slice() {
                // Where RAM is, is still to be found out; it is not among registers, nor below where the tree says that it begins.
                [] if !free.iter().any(|room| room.contains(region.pages)) => Vec::new(),
                [] => Extent::between(region.pages.start().max(start), region.pages.end()).into_iter().collect(),
                banks => memory::in_banks(region, banks),
            };
            if parts.is_empty() {
                let (start, end) = (region.pages.start(), region.pages.end());
                let why = if banks.is_empty() { "lies among registers, or below RAM" } else { "is in no bank of RAM" };
                outside.push(format!("{}: {start:#x} to {end:#x} {why}", region.source));
            }
            inside.extend(parts.into_iter().map(|pages| Reserved { pages, ..region.clone() }));
        }
        (inside, outside)
    }

    /// Pages with registers, and windows of PCI, by address.
    #[must_use]
    pub(crate) fn occupied(&self) -> Vec<Extent> {
        let all = &self.devices;
        let listed = [&all.uarts, &all.smmus, &all.bridges, &all.devices].into_iter().flatten();
        let registers = listed.filter_map(Device::all_registers).chain(self.controller.extents());
        union(registers.chain(all.windows.iter().copied()).map(Extent::pages).collect())
    }

    /// An address at which neither registers nor RAM are, for a test that needs a distributor; no fact. `None` when there is none.
    #[must_use]
    pub(crate) fn stand_in_distributor(&self, banks: &[Extent]) -> Option<u64> {
        const FRAME: u64 = 0x1_0000;
        let taken = union(self.occupied().into_iter().chain(banks.iter().copied()).collect());
        let starts = std::iter::once(0).chain(taken.iter().map(|extent| extent.end()));
        let ends = taken.iter().map(|extent| extent.start()).chain([1 << 40]);
        let fits = |(start, end): (u64, u64)| {
            let start = start.checked_next_multiple_of(FRAME)?;
            (start.checked_add(FRAME)? <= end).then_some(start)
        };
        starts.zip(ends).find_map(fits)
    }

    /// What lies between registers and has room for an image.
    fn free(&self) -> Vec<Extent> {
        let occupied = self.occupied();
        let starts = std::iter::once(0).chain(occupied.iter().map(|extent| extent.end()));
        let ends = occupied.iter().map(|extent| extent.start()).chain([1 << 40]);
        let rooms = starts.zip(ends).filter_map(|(start, end)| Extent::between(start, end));
        rooms.filter(|room| room.bytes() >= memory::IMAGE_ALIGNMENT).collect()
    }

    /// Banks that a test puts in the place of those that the tree does not state: around what is reserved, where no registers are.
    /// They are no facts. None when there is no place for any.
    #[must_use]
    pub(crate) fn stand_in_banks(&self, reserved: &[Reserved]) -> Vec<Extent> {
        const GIB: u64 = 1 << 30;
        let free = self.free();
        if let Some((start, _)) = &self.memory.start {
            let last = reserved.last().map_or(0, |region| region.pages.end());
            let end = start.saturating_add(GIB).max(last.checked_next_multiple_of(GIB).unwrap_or(last));
            let found = Extent::between(*start, end).and_then(|bank| free.iter().find_map(|room| room.common(bank)));
            if let Some(bank) = found.filter(|bank| bank.end() >= last) {
                return vec![bank];
            }
        }
        let around = |room: &Extent| {
            let mut inside = reserved.iter().filter(|region| room.contains(region.pages));
            let first = inside.next()?;
            let last = inside.next_back().unwrap_or(first);
            let start = memory::start_of_gib(first.pages.start());
            // With room for an image behind them.
            let end = last.pages.end().checked_next_multiple_of(GIB)?.checked_add(GIB)?;
            room.common(Extent::between(start, end)?)
        };
        let banks: Vec<Extent> = free.iter().filter_map(around).collect();
        if !banks.is_empty() {
            return banks;
        }
        let first =
            |room: &Extent| room.common(Extent::new(room.start().max(GIB).checked_next_multiple_of(GIB)?, GIB)?);
        free.iter().find_map(first).into_iter().collect()
    }
}

impl Device {
    /// The registers of all devices that an entry stands for.
    fn all_registers(&self) -> Option<Extent> {
        let bytes = self.registers.bytes().checked_mul(u64::from(self.more).saturating_add(1))?;
        Extent::new(self.registers.start(), bytes)
    }
}

impl Controller {
    /// Everything that it has.
    fn extents(&self) -> impl Iterator<Item = Extent> {
        self.distributor.iter().chain(&self.redistributors).chain(&self.others).copied()
    }
}

/// Remarks of one kind that are printed; the file has all of them.
const MOST_WARNINGS: usize = 5;

impl Facts {
    /// What is missing in the tree, or contradicts itself, in sentences.
    #[must_use]
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.cores.cores.is_empty() {
            warnings.push(String::from("no cores: /cpus has no readable node"));
        }
        if self.controller.version == 0 {
            let remarks = self.controller.remarks.join("; ");
            warnings.push(format!("no interrupt controller that is known (GICv3, GICv2): {remarks}"));
        } else if self.controller.distributor.is_none() {
            warnings.push(format!("the interrupt controller {} has no usable registers", self.controller.path));
        }
        if self.timer.path.is_none() {
            warnings.push(String::from("no timer: no node is of kind arm,armv8-timer"));
        } else if self.timer.interrupts.is_none() {
            warnings.push(String::from("the timer's interrupts are no private interrupts of the interrupt controller"));
        }
        if let Some(overlap) = &self.memory.overlap {
            warnings.push(format!("banks of RAM overlap: {overlap}"));
        }
        let lists = [&self.cores.remarks, &self.memory.remarks, &self.devices.left_out];
        for list in lists {
            warnings.extend(list.iter().take(MOST_WARNINGS).cloned());
            let more = list.len().saturating_sub(MOST_WARNINGS);
            if more > 0 {
                warnings.push(format!("{more} more like this; the file has all of them"));
            }
        }
        warnings
    }
}
