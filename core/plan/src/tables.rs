//! Translation tables as data: VMSAv8-64, 4 KiB granule, root at level 1, or at level 0 for input addresses beyond 39 bits.
//!
//! One builder serves EL2 stage 1 and stage 2; they differ in attribute bits, and EL2 alone may need a level 0: its map is identity, so
//! what lies beyond 512 GiB needs more bits, while guest addresses have 39 everywhere. A mapping is a whole number of
//! pages; the builder uses the largest block (1 GiB, 2 MiB) to which input and output are both aligned. Mappings never overlap, so the
//! builder never splits a block.
//!
//! The rejected alternative, crate `aarch64-paging`, works on live tables with pointers; here tables are bytes for
//! another machine. References: Arm ARM DDI 0487, D8.3 (descriptors).

use alloc::vec;
use alloc::vec::Vec;
use bulkhead_abi::{PAGE_BYTES, PhysicalAddress};
use bulkhead_arm::el2::GUEST_ADDRESS_BITS;
use core::fmt;

/// Entries of a table.
pub const TABLE_ENTRIES: usize = 512;
/// Bytes of a level-2 block.
pub const BLOCK_BYTES: u64 = 2 << 20;
/// Bytes that one level-1 entry covers.
pub const LEVEL_1_BYTES: u64 = 1 << 30;
/// Bytes that one level-0 entry covers: as many as a root at level 1.
const LEVEL_0_BYTES: u64 = LEVEL_1_BYTES * TABLE_ENTRIES as u64;
/// Most bits of an address, input or output (Arm ARM D8.2, 4 KiB granule without FEAT_LPA2).
pub const MOST_ADDRESS_BITS: u32 = 48;
/// One past the highest guest address.
pub const GUEST_ADDRESS_END: u64 = 1 << GUEST_ADDRESS_BITS;

const TABLE_OR_PAGE: u64 = 0b11;
const BLOCK: u64 = 0b01;
const TYPE_MASK: u64 = 0b11;
/// Output or next-table address of a descriptor, bits 47:12.
const ADDRESS_MASK: u64 = 0x0000_ffff_ffff_f000;

const ACCESS_FLAG: u64 = 1 << 10;
const INNER_SHAREABLE: u64 = 0b11 << 8;
/// XN at EL2 stage 1, XN\[1\] at stage 2: no execution at any exception level.
const EXECUTE_NEVER: u64 = 1 << 54;

/// Descriptor attributes: everything but address and type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes(pub u64);

/// EL2 stage 1: AP\[1\] is RES1 where there is one exception level; AP\[2\] makes an entry read-only.
const EL2_AP_RES1: u64 = 1 << 6;
const EL2_READ_ONLY: u64 = 1 << 7;
const EL2_DEVICE: u64 = 0;
const EL2_NORMAL: u64 = 1 << 2;
const EL2_NON_CACHEABLE: u64 = 2 << 2;
const EL2_COMMON: u64 = ACCESS_FLAG | INNER_SHAREABLE | EL2_AP_RES1;

const STAGE2_READ: u64 = 1 << 6;
const STAGE2_WRITE: u64 = 1 << 7;
const STAGE2_NORMAL: u64 = 0b1111 << 2;
const STAGE2_DEVICE: u64 = 0b0001 << 2;
const STAGE2_NON_CACHEABLE: u64 = 0b0101 << 2;
const STAGE2_COMMON: u64 = ACCESS_FLAG | INNER_SHAREABLE | STAGE2_READ;

impl Attributes {
    /// Monitor text: read and execute.
    pub const EL2_TEXT: Self = Self(EL2_COMMON | EL2_NORMAL | EL2_READ_ONLY);
    /// Monitor data that nobody writes.
    pub const EL2_READ: Self = Self(EL2_COMMON | EL2_NORMAL | EL2_READ_ONLY | EXECUTE_NEVER);
    /// Monitor data.
    pub const EL2_WRITE: Self = Self(EL2_COMMON | EL2_NORMAL | EXECUTE_NEVER);
    /// Pages that a guest maps non-cacheable, read by the monitor.
    pub const EL2_SHARED_READ: Self = Self(EL2_COMMON | EL2_NON_CACHEABLE | EL2_READ_ONLY | EXECUTE_NEVER);
    /// Pages that a guest maps non-cacheable, written by the monitor.
    pub const EL2_SHARED_WRITE: Self = Self(EL2_COMMON | EL2_NON_CACHEABLE | EXECUTE_NEVER);
    /// Device registers.
    pub const EL2_DEVICE: Self = Self(EL2_COMMON | EL2_DEVICE | EXECUTE_NEVER);

    /// RAM of a guest: read, write, execute.
    pub const STAGE2_RAM: Self = Self(STAGE2_COMMON | STAGE2_NORMAL | STAGE2_WRITE);
    /// Cacheable pages that a guest may only read: stolen time, since stock guests map it so.
    pub const STAGE2_READ: Self = Self(STAGE2_COMMON | STAGE2_NORMAL | EXECUTE_NEVER);
    /// Pages that a guest may only read (information, peer status, the other side of a channel).
    pub const STAGE2_SHARED_READ: Self = Self(STAGE2_COMMON | STAGE2_NON_CACHEABLE | EXECUTE_NEVER);
    /// Pages that a guest writes for others to read (channel, console ring).
    pub const STAGE2_SHARED_WRITE: Self = Self(STAGE2_COMMON | STAGE2_NON_CACHEABLE | STAGE2_WRITE | EXECUTE_NEVER);
    /// Registers of a passed-through device.
    pub const STAGE2_DEVICE: Self = Self(STAGE2_COMMON | STAGE2_DEVICE | STAGE2_WRITE | EXECUTE_NEVER);
}

/// One range to map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First input address (EL2 virtual or guest-physical).
    pub input: u64,
    /// First output address.
    pub output: PhysicalAddress,
    /// Bytes, whole pages.
    pub bytes: u64,
    /// Rights and memory type.
    pub attributes: Attributes,
}

/// How many bits the addresses of a map have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressBits {
    /// Of an input address (EL2 or guest): with 31 to 39 the root is at level 1, with up to [`MOST_ADDRESS_BITS`] at level 0.
    pub input: u32,
    /// Of an output address.
    pub output: u32,
}

/// Returns one past the highest address of this many bits.
#[must_use]
pub const fn address_end(bits: u32) -> u64 {
    if bits < MOST_ADDRESS_BITS { 1 << bits } else { 1 << MOST_ADDRESS_BITS }
}

/// Why a mapping cannot be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapError {
    /// Input, output or length is no whole page.
    Misaligned {
        /// First input address of the mapping.
        input: u64,
    },
    /// The range, on either side, ends beyond the bits that its addresses have.
    OutOfRange {
        /// First input address of the mapping.
        input: u64,
        /// First output address.
        output: u64,
        /// What the addresses of the map have.
        bits: AddressBits,
    },
    /// Something is mapped there already.
    Overlap {
        /// Input address mapped twice.
        input: u64,
    },
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Misaligned { input } => write!(f, "the range at {input:#x} is not made of whole pages"),
            Self::OutOfRange { input, output, bits } => write!(
                f,
                "the range at {input:#x}, in memory at {output:#x}, ends beyond the {} bits of an address there, or the {} of a \
                 physical one",
                bits.input, bits.output
            ),
            Self::Overlap { input } => write!(f, "address {input:#x} is mapped twice"),
        }
    }
}

/// A set of tables that share one root.
#[derive(Clone, Debug)]
pub struct Tables {
    base: PhysicalAddress,
    bits: AddressBits,
    pages: Vec<[u64; TABLE_ENTRIES]>,
}

impl Tables {
    /// Builds the tables of `mappings` for a place in memory; page 0 is the root.
    ///
    /// # Errors
    /// When a mapping is not made of whole pages, leaves the address space or overlaps another one.
    pub fn build(base: PhysicalAddress, bits: AddressBits, mappings: &[Mapping]) -> Result<Self, MapError> {
        let mut tables = Self { base, bits, pages: vec![[0; TABLE_ENTRIES]] };
        for mapping in mappings {
            tables.map(mapping)?;
        }
        Ok(tables)
    }

    /// Returns the address of the root.
    #[must_use]
    pub fn root(&self) -> PhysicalAddress {
        self.base
    }

    /// Returns the number of table pages.
    #[must_use]
    pub fn page_count(&self) -> usize {
        self.pages.len()
    }

    /// Returns the tables as bytes, in the order of their addresses.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        self.pages.iter().flatten().flat_map(|entry| entry.to_le_bytes()).collect()
    }

    fn map(&mut self, mapping: &Mapping) -> Result<(), MapError> {
        let input = mapping.input;
        if !(input | mapping.output.0 | mapping.bytes).is_multiple_of(PAGE_BYTES) {
            return Err(MapError::Misaligned { input });
        }
        let fits = |start: u64, limit| start.checked_add(mapping.bytes).is_some_and(|end| end <= limit);
        let bits = self.bits;
        if !fits(input, address_end(bits.input)) || !fits(mapping.output.0, address_end(bits.output)) {
            return Err(MapError::OutOfRange { input, output: mapping.output.0, bits });
        }
        let mut done = 0;
        while done < mapping.bytes {
            let (from, to) = (input + done, mapping.output.0 + done);
            let fits = |bytes: u64| (from | to) % bytes == 0 && mapping.bytes - done >= bytes;
            let level_1 = self.level_1(from).ok_or(MapError::Overlap { input: from })?;
            if fits(LEVEL_1_BYTES) && self.entry(level_1, index(from, LEVEL_1_BYTES)) == 0 {
                self.set(level_1, index(from, LEVEL_1_BYTES), to | mapping.attributes.0 | BLOCK);
                done += LEVEL_1_BYTES;
                continue;
            }
            done += self.map_one(level_1, from, to, fits(BLOCK_BYTES), mapping.attributes)?;
        }
        Ok(())
    }

    /// Returns the level-1 table for an address: the root, or one below it.
    fn level_1(&mut self, input: u64) -> Option<usize> {
        if self.bits.input <= GUEST_ADDRESS_BITS { Some(0) } else { self.next_table(0, index(input, LEVEL_0_BYTES)) }
    }

    /// Maps one block or page and returns the bytes that it covers.
    fn map_one(
        &mut self,
        level_1: usize,
        input: u64,
        output: u64,
        wants_block: bool,
        attributes: Attributes,
    ) -> Result<u64, MapError> {
        let overlap = MapError::Overlap { input };
        let level_2 = self.next_table(level_1, index(input, LEVEL_1_BYTES)).ok_or(overlap)?;
        let level_2_index = index(input, BLOCK_BYTES);
        if wants_block && self.entry(level_2, level_2_index) == 0 {
            self.set(level_2, level_2_index, output | attributes.0 | BLOCK);
            return Ok(BLOCK_BYTES);
        }
        let level_3 = self.next_table(level_2, level_2_index).ok_or(overlap)?;
        let level_3_index = index(input, PAGE_BYTES);
        if self.entry(level_3, level_3_index) != 0 {
            return Err(overlap);
        }
        self.set(level_3, level_3_index, output | attributes.0 | TABLE_OR_PAGE);
        Ok(PAGE_BYTES)
    }

    /// Returns the page index of the table that an entry points to, adding an empty table; `None` if a block is there.
    fn next_table(&mut self, table: usize, entry_index: usize) -> Option<usize> {
        let entry = self.entry(table, entry_index);
        if entry == 0 {
            let new = self.pages.len();
            let address = self.base.0 + new as u64 * PAGE_BYTES;
            self.pages.push([0; TABLE_ENTRIES]);
            self.set(table, entry_index, address | TABLE_OR_PAGE);
            return Some(new);
        }
        if entry & TYPE_MASK != TABLE_OR_PAGE {
            return None;
        }
        usize::try_from(((entry & ADDRESS_MASK) - self.base.0) / PAGE_BYTES).ok()
    }

    fn entry(&self, table: usize, entry_index: usize) -> u64 {
        self.pages.get(table).and_then(|page| page.get(entry_index)).copied().unwrap_or(0)
    }

    fn set(&mut self, table: usize, entry_index: usize, value: u64) {
        if let Some(slot) = self.pages.get_mut(table).and_then(|page| page.get_mut(entry_index)) {
            *slot = value;
        }
    }
}

/// Returns the index in its table of the entry that covers `covered_bytes` at `input`.
fn index(input: u64, covered_bytes: u64) -> usize {
    usize::try_from(input / covered_bytes % TABLE_ENTRIES as u64).unwrap_or(0)
}
