//! RAM, and what of it is not for the taking.

use crate::address::{Budget, Extent, Trouble, align_down, cells, number, place};
use crate::interrupt::short;
use crate::tree::Tree;
use bulkhead_abi::PAGE_BYTES;

/// What an image is aligned to.
pub(crate) const IMAGE_ALIGNMENT: u64 = 0x20_0000;

/// Most entries of a list that a board file may have (`bulkhead_description`).
pub(crate) const MOST_ENTRIES: usize = 1024;

/// RAM as a tree tells it.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// Banks by address, neither overlapping nor touching; empty when the tree does not say, or contradicts itself.
    pub(crate) banks: Vec<(Extent, String)>,
    /// Where RAM begins according to a node that leaves its size to a boot loader.
    pub(crate) start: Option<(u64, String)>,
    /// What is remarkable about it.
    pub(crate) remarks: Vec<String>,
    /// Two banks that overlap, with their nodes.
    pub(crate) overlap: Option<String>,
}

/// Reads the memory nodes.
#[must_use]
pub(crate) fn memory(tree: &Tree<'_>, budget: &Budget) -> Memory {
    let mut found = Memory::default();
    let mut banks = Vec::new();
    for node in tree.nodes().filter(|node| node.text("device_type") == Some("memory") && node.is_enabled()) {
        let placed = place(node, budget);
        for extent in placed.extents {
            match extent.whole_pages() {
                Some(pages) => banks.push((pages, short(node))),
                None => found.remarks.push(format!("{}: {:#x} is less than a page", short(node), extent.start())),
            }
        }
        let first = node.parent().zip(node.words("reg")).and_then(|(bus, reg)| number(reg.get(..cells(bus).0)?));
        match (placed.trouble, first) {
            (None, _) => {}
            // What boot loaders fill in: an address without a size, or neither.
            (Some(Trouble::Empty), Some(0)) if banks.is_empty() => {}
            (Some(Trouble::Empty), Some(first)) if banks.is_empty() => found.start = Some((first, short(node))),
            (Some(trouble), _) => found.remarks.push(format!("{}: {trouble}", short(node))),
        }
    }
    banks.sort();
    if banks.len() > MOST_ENTRIES {
        found.remarks.push(format!("of {} banks the first {MOST_ENTRIES} are taken", banks.len()));
        banks.truncate(MOST_ENTRIES);
    }
    for (bank, node) in banks {
        match found.banks.last_mut() {
            Some((last, other)) if last.overlaps(bank) => {
                found.overlap = Some(format!("{other} ({}) and {node} ({})", text(*last), text(bank)));
            }
            Some((last, _)) if last.end() == bank.start() => {
                if let Some(joined) = Extent::between(last.start(), bank.end()) {
                    *last = joined;
                }
            }
            _ => found.banks.push((bank, node)),
        }
    }
    if found.overlap.is_some() {
        found.banks.clear();
    }
    found
}

fn text(extent: Extent) -> String {
    format!("{:#x} to {:#x}", extent.start(), extent.end())
}

/// A region that is not for the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reserved {
    /// Whole pages.
    pub(crate) pages: Extent,
    /// What it is called in the tree.
    pub(crate) name: String,
    /// Where it comes from.
    pub(crate) source: String,
}

/// What a tree says of memory that is not free.
#[derive(Debug, Default)]
pub(crate) struct Reservations {
    /// By address; none overlaps another.
    pub(crate) regions: Vec<Reserved>,
    /// Regions that only Linux wants, or that get their place when it boots.
    pub(crate) wishes: Vec<String>,
}

/// Reads `/reserved-memory` and the memory reservation block.
#[must_use]
pub(crate) fn reservations(tree: &Tree<'_>, budget: &Budget) -> Reservations {
    let mut found = Reservations::default();
    let mut regions = Vec::new();
    for (index, (address, bytes)) in tree.reservations().iter().enumerate() {
        if let Some(extent) = Extent::new(*address, *bytes) {
            let source = format!("entry {index} of the memory reservation block");
            regions.push(Reserved { pages: extent.pages(), name: format!("reservation{index}"), source });
        }
    }
    let parent = tree.at_path("/reserved-memory");
    for node in parent.into_iter().flat_map(|parent| parent.children()).filter(|node| node.is_enabled()) {
        let placed = place(node, budget);
        if let Some(trouble) = placed.trouble {
            found.wishes.push(format!("{}: {trouble}", short(node)));
        }
        if node.is_compatible(&["shared-dma-pool"]) || node.has("reusable") {
            found.wishes.push(format!("{}: a pool of Linux, not reserved here", short(node)));
            continue;
        }
        if !node.has("reg") {
            found.wishes.push(format!("{}: gets its place when Linux boots", short(node)));
        }
        let whose = if node.has("no-map") { ", which nobody may map" } else { "" };
        let regions_of_node = placed.extents.into_iter().map(|extent| Reserved {
            pages: extent.pages(),
            name: node.base_name().to_owned(),
            source: format!("{}{whose}", short(node)),
        });
        regions.extend(regions_of_node);
    }
    regions.sort_by_key(|region| region.pages);
    for region in regions {
        match found.regions.last_mut() {
            Some(last) if last.pages.overlaps(region.pages) => {
                let end = last.pages.end().max(region.pages.end());
                last.pages = Extent::between(last.pages.start(), end).unwrap_or(last.pages);
                // A hostile tree could have any number of them in one place.
                if last.source.len() < 300 {
                    last.source = format!("{}; {}", last.source, region.source);
                }
            }
            _ => found.regions.push(region),
        }
    }
    if found.regions.len() > MOST_ENTRIES {
        found.wishes.push(format!("Of {} reserved regions the first {MOST_ENTRIES} are taken", found.regions.len()));
        found.regions.truncate(MOST_ENTRIES);
    }
    found
}

/// The parts of regions that lie in banks; those of regions outside of all banks are `None`.
#[must_use]
pub(crate) fn in_banks(region: &Reserved, banks: &[Extent]) -> Vec<Extent> {
    banks.iter().filter_map(|bank| bank.common(region.pages)).collect()
}

/// Proposes a load address: the first multiple of 2 MiB above page 0 in the first bank at which 2 MiB are not reserved.
#[must_use]
pub(crate) fn load_address(start: u64, end: u64, reserved: &[Reserved]) -> Option<u64> {
    let mut address = start.max(PAGE_BYTES).checked_next_multiple_of(IMAGE_ALIGNMENT)?;
    for region in reserved {
        let room = Extent::new(address, IMAGE_ALIGNMENT)?;
        if region.pages.overlaps(room) {
            address = region.pages.end().checked_next_multiple_of(IMAGE_ALIGNMENT)?;
        }
    }
    (address < end && align_down(address, IMAGE_ALIGNMENT) == address).then_some(address)
}

/// The multiple of 1 GiB at or below an address.
#[must_use]
pub(crate) fn start_of_gib(address: u64) -> u64 {
    align_down(address, 1 << 30)
}
