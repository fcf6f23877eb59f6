//! An own reader of translation tables of stage 1 with 39 bits and 4 KiB pages, written from the Arm ARM (DDI 0487, D8.3) and not from the writer. Every
//! bit of a descriptor is accounted for.

use crate::finding::{Findings, Kind};
use crate::{PAGE, View};
use bulkhead_kernel_abi::image::LOAD;
use std::collections::BTreeMap;

/// Bits 47:12 of a descriptor.
const OUTPUT: u64 = 0x0000_ffff_ffff_f000;
/// Bits of a page or block that are read here: valid and kind, AttrIndx, AP, SH, AF, nG, output, PXN, UXN.
const KNOWN: u64 = 0b11 | 7 << 2 | 3 << 6 | 3 << 8 | 1 << 10 | 1 << 11 | OUTPUT | 1 << 53 | 1 << 54;

/// What a page or block says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) output: u64,
    pub(crate) bytes: u64,
    /// EL0 reads it.
    pub(crate) el0: bool,
    /// Who reads it writes it.
    pub(crate) write: bool,
    pub(crate) execute_el1: bool,
    pub(crate) execute_el0: bool,
    pub(crate) is_global: bool,
    /// Number in MAIR_EL1: 0 device, 1 normal write-back, 2 normal non-cacheable.
    pub(crate) memory: u64,
}

/// What an address space maps, and the tables that say so.
#[derive(Clone, Debug, Default)]
pub(crate) struct Map {
    /// By input address.
    pub(crate) mappings: BTreeMap<u64, Mapping>,
    /// Addresses of tables.
    pub(crate) tables: Vec<u64>,
}

impl Map {
    /// The mapping of a page.
    pub(crate) fn at(&self, address: u64) -> Option<&Mapping> {
        let (start, mapping) = self.mappings.range(..=address).next_back()?;
        (address - start < mapping.bytes).then_some(mapping)
    }
}

/// Walks the tables from a root; input addresses have no upper bits.
pub(crate) fn walk(view: &View<'_>, root: u64, place: &str, findings: &mut Findings) -> Map {
    let mut map = Map::default();
    level(view, (root, 1, 0), place, &mut map, findings);
    map
}

/// Walks one table, at most three deep.
fn level(
    view: &View<'_>,
    (table, level_number, input): (u64, u32, u64),
    place: &str,
    map: &mut Map,
    findings: &mut Findings,
) {
    let is_new = !map.tables.contains(&table);
    let is_table = table.is_multiple_of(PAGE) && table >= LOAD && is_new;
    let Some(page) = view.page(table).filter(|_| is_table) else {
        findings.add(Kind::Descriptor, format!("{place}: a table at {table:#x} is not in the image, or is used twice"));
        return;
    };
    map.tables.push(table);
    let bytes = PAGE << (9 * (3 - level_number));
    for (index, word) in (0_u64..).zip(page.chunks_exact(8)) {
        let entry = word.first_chunk().copied().map_or(0, u64::from_le_bytes);
        let address = input + index * bytes;
        match (entry & 0b11, level_number) {
            _ if entry == 0 => {}
            (0b11, 1 | 2) if entry & !(OUTPUT | 0b11) == 0 => {
                level(view, (entry & OUTPUT, level_number + 1, address), place, map, findings);
            }
            (0b11, 3) | (0b01, 2) if entry & !KNOWN == 0 => {
                let mapping = mapping(entry, bytes);
                let shareable = if mapping.memory == 0 { 0 } else { 3 };
                let is_sound = entry >> 10 & 1 == 1 && entry >> 8 & 3 == shareable && mapping.memory <= 2;
                findings.require(is_sound && mapping.output.is_multiple_of(bytes), Kind::Descriptor, || {
                    format!("{place}: the entry for {address:#x} is {entry:#x}, of no memory type that is in use")
                });
                map.mappings.insert(address, mapping);
            }
            _ => findings.add(
                Kind::Descriptor,
                format!("{place}: the entry for {address:#x} is {entry:#x}, with bits that nobody expects"),
            ),
        }
    }
}

fn mapping(entry: u64, bytes: u64) -> Mapping {
    Mapping {
        output: entry & OUTPUT,
        bytes,
        el0: entry >> 6 & 1 == 1,
        write: entry >> 7 & 1 == 0,
        execute_el1: entry >> 53 & 1 == 0,
        execute_el0: entry >> 54 & 1 == 0,
        is_global: entry >> 11 & 1 == 0,
        memory: entry >> 2 & 7,
    }
}
