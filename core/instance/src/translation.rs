//! Translation tables of 39 bits and 4 KiB pages (Arm ARM D8.3): what an address space maps, and the tables of it.

use std::collections::BTreeMap;

/// Bytes of a page, and of a table.
pub(crate) const PAGE: u64 = 4096;
/// Entries of a table.
const ENTRIES: u64 = 512;
/// Bytes that an entry of level 2 covers.
const BLOCK: u64 = PAGE * ENTRIES;

/// A page, or a table: bits 1:0.
const PAGE_OR_TABLE: u64 = 0b11;
/// A block of level 2.
const BLOCK_ENTRY: u64 = 0b01;
const ACCESS_FLAG: u64 = 1 << 10;
const INNER_SHAREABLE: u64 = 3 << 8;
const NOT_GLOBAL: u64 = 1 << 11;
/// AP\[1\]: EL0 has it, too.
const EL0: u64 = 1 << 6;
/// AP\[2\]: nobody writes it.
const READ_ONLY: u64 = 1 << 7;
const PRIVILEGED_NEVER: u64 = 1 << 53;
const UNPRIVILEGED_NEVER: u64 = 1 << 54;
const NEVER: u64 = PRIVILEGED_NEVER | UNPRIVILEGED_NEVER;

/// Bits 47:12 of an entry.
const OUTPUT: u64 = 0x0000_ffff_ffff_f000;

/// Numbers in MAIR_EL1: Device-nGnRnE, Normal write-back, Normal non-cacheable.
const DEVICE: u64 = 0;
const NORMAL: u64 = 1 << 2 | INNER_SHAREABLE;
const NON_CACHEABLE: u64 = 2 << 2 | INNER_SHAREABLE;

/// How a page may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Executed by the component, read by both.
    ComponentText,
    ComponentConstants,
    ComponentData,
    KernelText,
    KernelConstants,
    KernelData,
    /// Registers of a component's devices.
    ComponentDevice,
    /// Registers of the kernel's.
    Device,
    /// What somebody else writes, beyond the caches.
    SharedConstants,
    /// What somebody else reads.
    SharedData,
    /// What somebody else reads and the component writes.
    ComponentShared,
    /// What somebody else writes and the component reads.
    ComponentObserved,
    /// The kernel's first bytes at their own addresses, while translation is switched on.
    Boot,
}

impl Access {
    const fn bits(self) -> u64 {
        let bits = match self {
            Self::ComponentText => NORMAL | EL0 | READ_ONLY | PRIVILEGED_NEVER | NOT_GLOBAL,
            Self::ComponentConstants => NORMAL | EL0 | READ_ONLY | NEVER | NOT_GLOBAL,
            Self::ComponentData => NORMAL | EL0 | NEVER | NOT_GLOBAL,
            Self::ComponentDevice => DEVICE | EL0 | NEVER | NOT_GLOBAL,
            Self::KernelText => NORMAL | READ_ONLY | UNPRIVILEGED_NEVER,
            Self::KernelConstants => NORMAL | READ_ONLY | NEVER,
            Self::KernelData => NORMAL | NEVER,
            Self::Device => DEVICE | NEVER,
            Self::SharedConstants => NON_CACHEABLE | READ_ONLY | NEVER,
            Self::SharedData => NON_CACHEABLE | NEVER,
            Self::ComponentShared => NON_CACHEABLE | EL0 | NEVER | NOT_GLOBAL,
            Self::ComponentObserved => NON_CACHEABLE | EL0 | READ_ONLY | NEVER | NOT_GLOBAL,
            Self::Boot => NORMAL | READ_ONLY | UNPRIVILEGED_NEVER | NOT_GLOBAL,
        };
        bits | ACCESS_FLAG
    }
}

/// What an address space maps; addresses without the upper bits of the kernel's half.
#[derive(Clone, Debug, Default)]
pub(crate) struct Space {
    /// By page, and by block.
    pages: BTreeMap<u64, u64>,
    blocks: BTreeMap<u64, u64>,
}

impl Space {
    /// Maps whole pages. The caller has looked that none is mapped twice.
    pub(crate) fn map(&mut self, address: u64, physical: u64, bytes: u64, access: Access) {
        for offset in (0..bytes).step_by(PAGE as usize) {
            self.pages.insert(address + offset, (physical + offset) | access.bits() | PAGE_OR_TABLE);
        }
    }

    /// Maps one block of 2 MiB at its own address.
    pub(crate) fn map_block(&mut self, address: u64, access: Access) {
        self.blocks.insert(address, address | access.bits() | BLOCK_ENTRY);
    }

    /// Where a page is that is mapped.
    pub(crate) fn physical(&self, address: u64) -> Option<u64> {
        self.pages.get(&address).map(|entry| entry & OUTPUT)
    }

    /// The tables as pages, the root first; `first` is the physical address of the first one.
    pub(crate) fn tables(&self, first: u64) -> Vec<[u64; 512]> {
        let mut tables = vec![[0; 512]];
        let mut second = BTreeMap::new();
        let mut third = BTreeMap::new();
        let table_of = |tables: &mut Vec<[u64; 512]>, parent: usize, index: usize| {
            tables.push([0; 512]);
            tables[parent][index] = (first + (tables.len() as u64 - 1) * PAGE) | PAGE_OR_TABLE;
            tables.len() - 1
        };
        let place = |address: u64, bytes: u64| (address / bytes % ENTRIES) as usize;
        for (address, entry) in self.blocks.iter().chain(&self.pages) {
            let giga = address / (BLOCK * ENTRIES);
            let at = *second.entry(giga).or_insert_with(|| table_of(&mut tables, 0, place(*address, BLOCK * ENTRIES)));
            if self.blocks.contains_key(address) {
                tables[at][place(*address, BLOCK)] = *entry;
                continue;
            }
            let low =
                *third.entry(address / BLOCK).or_insert_with(|| table_of(&mut tables, at, place(*address, BLOCK)));
            tables[low][place(*address, PAGE)] = *entry;
        }
        tables
    }
}
