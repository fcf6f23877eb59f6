//! Where registers and memory are: `reg`, and `ranges` up to the root.
//!
//! Devicetree Specification 0.4, 2.3.6 and 2.3.8. A bus without `ranges` has addresses of its own (I2C, for example): what is on
//! it is not mapped. A translation costs what it reads, from a budget for the whole tree, so that no tree takes long.

use crate::tree::{Node, words};
use bulkhead_abi::PAGE_BYTES;
use std::cell::Cell;
use std::fmt;

/// Cells that may be read in all translations together. Of the trees of Debian's kernel the largest needs 48,000.
const WORK: u64 = 2_000_000;

/// Most cells of an address or a size: three for PCI, where the first says what kind of address it is.
const MOST_CELLS: usize = 4;

/// What a tree may ask for: the work that is left, and how far its addresses may go.
#[derive(Debug)]
pub(crate) struct Budget {
    work: Cell<u64>,
    end: u64,
}

impl Budget {
    /// All of the work, for a machine whose physical addresses have this many bits.
    #[must_use]
    pub(crate) fn new(address_bits: u32) -> Self {
        Self { work: Cell::new(WORK), end: 1_u64.checked_shl(address_bits).unwrap_or(u64::MAX) }
    }

    /// Takes some of it; `None` when it does not suffice any more.
    pub(crate) fn spend(&self, work: usize) -> Option<()> {
        let left = self.work.get().checked_sub(u64::try_from(work).ok()?);
        self.work.set(left.unwrap_or(0));
        left.map(|_| ())
    }

    /// States whether something was left undone for it.
    #[must_use]
    pub(crate) fn is_exhausted(&self) -> bool {
        self.work.get() == 0
    }
}

/// Addresses from `start` up to and without `end`; never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Extent {
    start: u64,
    end: u64,
}

impl Extent {
    /// `None` when it is empty or goes beyond 64 bits.
    #[must_use]
    pub(crate) fn new(start: u64, bytes: u64) -> Option<Self> {
        Self::between(start, start.checked_add(bytes)?)
    }

    /// `None` when it is empty.
    #[must_use]
    pub(crate) fn between(start: u64, end: u64) -> Option<Self> {
        (start < end).then_some(Self { start, end })
    }

    /// First byte.
    #[must_use]
    pub(crate) fn start(self) -> u64 {
        self.start
    }

    /// One past the last byte.
    #[must_use]
    pub(crate) fn end(self) -> u64 {
        self.end
    }

    /// Bytes.
    #[must_use]
    pub(crate) fn bytes(self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// States whether both have an address.
    #[must_use]
    pub(crate) fn overlaps(self, other: Self) -> bool {
        self.start < other.end && other.start < self.end
    }

    /// States whether all of the other is in it.
    #[must_use]
    pub(crate) fn contains(self, other: Self) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    /// The part that both have.
    #[must_use]
    pub(crate) fn common(self, other: Self) -> Option<Self> {
        Self::between(self.start.max(other.start), self.end.min(other.end))
    }

    /// All pages of which it has a byte.
    #[must_use]
    pub(crate) fn pages(self) -> Self {
        let end = self.end.checked_next_multiple_of(PAGE_BYTES).unwrap_or(u64::MAX);
        Self { start: align_down(self.start, PAGE_BYTES), end }
    }

    /// The pages of which it has every byte.
    #[must_use]
    pub(crate) fn whole_pages(self) -> Option<Self> {
        Self::between(self.start.checked_next_multiple_of(PAGE_BYTES)?, align_down(self.end, PAGE_BYTES))
    }
}

/// The multiple of a power of two at or below an address.
#[must_use]
pub(crate) fn align_down(address: u64, granule: u64) -> u64 {
    address & !granule.saturating_sub(1)
}

/// What is wrong with a `reg`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Its bus has no cells for an address, or more than any address needs.
    Cells,
    /// It is no whole number of entries.
    Uneven,
    /// A number does not fit.
    TooWide,
    /// A size is 0.
    Empty,
    /// A bus on the way does not pass its addresses on.
    NotCovered,
    /// It ends behind the last physical address.
    TooHigh,
}

impl fmt::Display for Trouble {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Cells => "the `#address-cells` and `#size-cells` of its bus are of no use",
            Self::Uneven => "`reg` is no whole number of entries",
            Self::TooWide => "a number in `reg` has more than 64 bits",
            Self::Empty => "a size in `reg` is 0",
            Self::NotCovered => "the `ranges` of a bus that it is on do not have its addresses",
            Self::TooHigh => "it ends beyond the last physical address",
        })
    }
}

/// `reg` of a node in the addresses of the machine.
#[derive(Debug, Default)]
pub(crate) struct Placed {
    /// What is mapped, in the order of `reg`.
    pub(crate) extents: Vec<Extent>,
    /// What is wrong with the rest.
    pub(crate) trouble: Option<Trouble>,
}

/// Finds the registers (or the memory) of a node.
#[must_use]
pub(crate) fn place(node: Node<'_, '_>, budget: &Budget) -> Placed {
    let mut placed = Placed::default();
    let (Some(reg), Some(bus)) = (node.property("reg"), node.parent()) else { return placed };
    let (address_cells, size_cells) = cells(bus);
    // Numbers on a bus: chip selects, addresses of I2C.
    if size_cells == 0 {
        return placed;
    }
    if address_cells == 0 || address_cells > MOST_CELLS || size_cells > MOST_CELLS {
        placed.trouble = Some(Trouble::Cells);
        return placed;
    }
    let reg = words(reg);
    let entry_cells = address_cells.saturating_add(size_cells);
    // Then the cells are others than this bus says, and every entry would be a guess.
    if !reg.len().is_multiple_of(entry_cells) {
        placed.trouble = Some(Trouble::Uneven);
        return placed;
    }
    for entry in reg.chunks_exact(entry_cells) {
        let (address, size) = entry.split_at_checked(address_cells).unwrap_or_default();
        let extent = match (number(address), number(size)) {
            (Some(_), Some(0)) => Err(Some(Trouble::Empty)),
            (Some(address), Some(size)) => Extent::new(address, size).ok_or(Some(Trouble::TooHigh)),
            _ => Err(Some(Trouble::TooWide)),
        };
        match extent.and_then(|extent| translate(extent, bus, budget)) {
            Ok(extent) if extent.end > budget.end => placed.trouble = Some(Trouble::TooHigh),
            Ok(extent) => placed.extents.push(extent),
            Err(trouble) => placed.trouble = placed.trouble.or(trouble),
        }
    }
    placed
}

/// `#address-cells` and `#size-cells` of what is in a node, with the defaults of the specification.
#[must_use]
pub(crate) fn cells(bus: Node<'_, '_>) -> (usize, usize) {
    let cells = |name, default| match bus.property(name) {
        None => default,
        Some(_) => bus.word(name).and_then(|cells| usize::try_from(cells).ok()).unwrap_or(usize::MAX),
    };
    (cells("#address-cells", 2), cells("#size-cells", 1))
}

/// The number in some cells; `None` when it has more than 64 bits.
#[must_use]
pub(crate) fn number(cells: &[u32]) -> Option<u64> {
    let (high, low) = cells.split_at_checked(cells.len().saturating_sub(2))?;
    let is_small = high.iter().all(|cell| *cell == 0);
    is_small.then(|| low.iter().fold(0, |number, cell| number << 32 | u64::from(*cell)))
}

/// Follows `ranges` from a bus up to the root. That a bus has addresses of its own is no trouble.
fn translate(mut extent: Extent, bus: Node<'_, '_>, budget: &Budget) -> Result<Extent, Option<Trouble>> {
    for bus in bus.line() {
        let Some(parent) = bus.parent() else { break };
        let ranges = words(bus.property("ranges").ok_or(None)?);
        budget.spend(ranges.len().saturating_add(1)).ok_or(Some(Trouble::NotCovered))?;
        // An empty list: the same addresses above.
        if ranges.is_empty() {
            continue;
        }
        let ((address_cells, size_cells), (parent_cells, _)) = (cells(bus), cells(parent));
        let entry_cells = address_cells.saturating_add(parent_cells).saturating_add(size_cells);
        if entry_cells == 0 {
            return Err(Some(Trouble::NotCovered));
        }
        let through = |entry: &[u32]| {
            let (from, rest) = entry.split_at_checked(address_cells)?;
            let (to, size) = rest.split_at_checked(parent_cells)?;
            let window = Extent::new(number(from)?, number(size)?)?;
            let offset = extent.start.checked_sub(window.start)?;
            window.contains(extent).then(|| Extent::new(number(to)?.checked_add(offset)?, extent.bytes()))?
        };
        extent = ranges.chunks_exact(entry_cells).find_map(through).ok_or(Some(Trouble::NotCovered))?;
    }
    Ok(extent)
}

/// The windows of a PCI host bridge in the addresses of the machine: what `ranges` leads to.
#[must_use]
pub(crate) fn windows(bridge: Node<'_, '_>, budget: &Budget) -> Vec<Extent> {
    let (Some(ranges), Some(parent)) = (bridge.words("ranges"), bridge.parent()) else { return Vec::new() };
    let ((address_cells, size_cells), (parent_cells, _)) = (cells(bridge), cells(parent));
    let entry_cells = address_cells.saturating_add(parent_cells).saturating_add(size_cells);
    if entry_cells == 0 || budget.spend(ranges.len()).is_none() {
        return Vec::new();
    }
    let window = |entry: &[u32]| {
        let (to, size) = entry.get(address_cells..)?.split_at_checked(parent_cells)?;
        translate(Extent::new(number(to)?, number(size)?)?, parent, budget).ok()
    };
    ranges.chunks_exact(entry_cells).filter_map(window).collect()
}
