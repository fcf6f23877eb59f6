//! Address spaces of processes: translation tables of pool pages (`kernel.md` 7; CH-62).
//!
//! Three levels of 4 KiB (Arm ARM D8.3, 39 bits), of which a component has the first GiB. The kernel changes one entry at a time: one that was valid
//! becomes invalid and is forgotten by the core before it says anything else (break before make, D8.16). One core, so this is local.
//!
//! Tables that are not in the pool are the host's: nothing in them is changed.

use crate::quota::NO_PAGE;
use crate::{Objects, World};
use bulkhead_kernel_abi::capability::right;
use bulkhead_kernel_abi::image::{COMPONENT_STACKS, COMPONENT_TEXT};
use bulkhead_kernel_abi::{Code, NONE};

/// Bytes of a page.
pub(crate) const PAGE: u64 = 4096;
/// Entries of a table.
pub(crate) const ENTRIES: u16 = 512;
/// A page, or a table of the next level: bits 1:0.
const VALID: u64 = 0b11;
/// Bits 47:12 of an entry.
const OUTPUT: u64 = 0x0000_ffff_ffff_f000;
/// Of each page: normal write-back memory (number 1 in MAIR_EL1), inner shareable, accessed, not global, of EL0, never executed at EL1.
const PAGE_BITS: u64 = VALID | 1 << 2 | 3 << 8 | 1 << 10 | 1 << 11 | 1 << 6 | 1 << 53;
/// AP\[2\].
const READ_ONLY: u64 = 1 << 7;
/// UXN.
const EXECUTE_NEVER: u64 = 1 << 54;
/// Entries that a slice of taking a space apart looks at, beside which it takes as many tables out.
pub(crate) const ENTRIES_AT_ONCE: u32 = 16;
/// Entries of a group ([`crate::Page::groups`]), as a shift.
const GROUP_SHIFT: u32 = 3;
/// What is zero of the first entry of one.
const GROUP_MASK: u32 = (1 << GROUP_SHIFT) - 1;
/// The last entry of a table; a place without these bits is the first one of its table.
const LAST: u32 = ENTRIES as u32 - 1;
/// One past the last place of an address space: each is an entry of the second level and one of the third.
pub(crate) const PLACES: u32 = 512 * 512;

/// The entry of a page with these rights.
pub(crate) const fn page_word(physical: u64, rights: u8) -> u64 {
    let write = if rights & right::WRITE == 0 { READ_ONLY } else { 0 };
    let execute = if rights & right::EXECUTE == 0 { EXECUTE_NEVER } else { 0 };
    physical & OUTPUT | PAGE_BITS | write | execute
}

/// The rights that an entry gives.
pub(crate) const fn rights_of(word: u64) -> u8 {
    let write = if word & READ_ONLY == 0 { right::WRITE } else { 0 };
    let execute = if word & EXECUTE_NEVER == 0 { right::EXECUTE } else { 0 };
    right::READ | write | execute
}

/// The physical address that an entry has.
pub(crate) const fn output(word: u64) -> u64 {
    word & OUTPUT
}

/// The same entry for another page.
pub(crate) const fn with_output(word: u64, physical: u64) -> u64 {
    word & !OUTPUT | physical & OUTPUT
}

pub(crate) const fn is_valid(word: u64) -> bool {
    word & VALID != 0
}

pub(crate) const fn is_read_only(word: u64) -> bool {
    word & READ_ONLY != 0
}

/// Where the entry of a place is in its table.
pub(crate) const fn index(place: u32) -> u16 {
    (place & LAST) as u16
}

/// Where the entry of an address is in a table whose entries are so large.
const fn index_at(address: u64, shift: u32) -> u16 {
    (address.wrapping_shr(shift) & LAST as u64) as u16
}

/// The address of `pages` pages in the half of a component, checked.
pub(crate) fn addresses(address: u64, pages: u64) -> Result<(), Code> {
    let end = pages.checked_mul(PAGE).and_then(|bytes| bytes.checked_add(address)).ok_or(Code::BadArgument)?;
    let is_inside = address >= COMPONENT_TEXT && end <= COMPONENT_STACKS && address & 0xfff == 0 && pages != 0;
    if is_inside { Ok(()) } else { Err(Code::BadArgument) }
}

/// An entry of the last level: its table and where it is there.
pub(crate) type Place = (u32, u16);

/// A walk over what a space maps. While it lasts nothing is unmapped there.
pub(crate) struct Walk {
    /// Its table of the second level.
    second: u32,
    /// The one of the third level for places below `end`.
    third: u32,
    end: u32,
    /// The place that is looked at next.
    pub(crate) at: u32,
}

impl Walk {
    /// The table that the place is in, and the place behind its last one.
    pub(crate) const fn table(&self) -> (u32, u32) {
        (self.third, self.end)
    }
}

impl Objects<'_> {
    /// The first table of a component, if it is the pool's.
    pub(crate) fn root_of(&self, component: u16) -> Option<u32> {
        self.pool_page(self.component(component)?.space & OUTPUT)
    }

    /// The table that an entry of another one is.
    fn table_at<W: World>(&self, world: &W, table: u32, index: u16) -> Result<Option<u32>, Code> {
        let word = world.word(table, index);
        if word & VALID == 0 {
            return Ok(None);
        }
        self.pool_page(word & OUTPUT).map(Some).ok_or(Code::Denied)
    }

    /// The tables of an address, the first one, the second and the third one, as far as there are.
    fn tables<W: World>(
        &self,
        world: &W,
        component: u16,
        address: u64,
    ) -> Result<(u32, Option<u32>, Option<u32>), Code> {
        let root = self.root_of(component).ok_or(Code::Denied)?;
        let second = self.table_at(world, root, index_at(address, 30))?;
        let third = match second {
            Some(second) => self.table_at(world, second, index_at(address, 21))?,
            None => None,
        };
        Ok((root, second, third))
    }

    /// Where the entry of an address is; `None` without a table for it.
    pub(crate) fn find_entry<W: World>(&self, world: &W, component: u16, address: u64) -> Result<Option<Place>, Code> {
        let (_, _, third) = self.tables(world, component, address)?;
        Ok(third.map(|third| (third, index_at(address, 12))))
    }

    /// What an address is mapped to; 0 for nothing.
    pub(crate) fn entry<W: World>(&self, world: &W, component: u16, address: u64) -> Result<u64, Code> {
        Ok(self.find_entry(world, component, address)?.map_or(0, |(table, index)| world.word(table, index)))
    }

    /// The same place, with tables made for it from the component's own quota. Those that are missing are counted first.
    pub(crate) fn make_entry<W: World>(&mut self, world: &mut W, component: u16, address: u64) -> Result<Place, Code> {
        let (root, second, third) = self.tables(world, component, address)?;
        let third = match third {
            Some(third) => third,
            None => {
                let missing = if second.is_none() { 2 } else { 1 };
                let quota = self.process(component).map_or(NONE, |one| one.quota);
                if self.room.quotas.get(usize::from(quota)).is_none_or(|one| one.pages < missing) {
                    return Err(Code::Full);
                }
                let second = match second {
                    Some(second) => second,
                    None => self.make_table(world, (component, quota), (root, index_at(address, 30)))?,
                };
                self.make_table(world, (component, quota), (second, index_at(address, 21)))?
            }
        };
        Ok((third, index_at(address, 12)))
    }

    /// Makes a table below an entry of another one.
    fn make_table<W: World>(
        &mut self,
        world: &mut W,
        (component, quota): (u16, u16),
        (above, index): Place,
    ) -> Result<u32, Code> {
        let table = self.take_table(world, quota)?;
        world.set_word(above, index, self.physical(table) | VALID);
        self.note_entry(above, index);
        self.count_tables(component, 1);
        Ok(table)
    }

    /// How many tables an address has not yet.
    pub(crate) fn missing_tables<W: World>(&self, world: &W, component: u16, address: u64) -> Result<u32, Code> {
        let (_, second, third) = self.tables(world, component, address)?;
        Ok(match (second, third) {
            (_, Some(_)) => 0,
            (Some(_), None) => 1,
            (None, None) => 2,
        })
    }

    /// An entry of a table is made.
    fn note_entry(&mut self, table: u32, index: u16) {
        if let Some(page) = self.room.pages.get_mut(table as usize) {
            page.set_groups(page.groups() | 1u64.wrapping_shl(u32::from(index).wrapping_shr(GROUP_SHIFT)));
        }
    }

    /// The first entry of a table, from one on, that may have been made; one past the last for none.
    fn next_entry(&self, table: u32, from: u32) -> u32 {
        let groups = self.room.pages.get(table as usize).map_or(0, crate::Page::groups);
        let group = from.wrapping_shr(GROUP_SHIFT);
        let left = if group < u64::BITS { groups.wrapping_shr(group) } else { 0 };
        match left.trailing_zeros() {
            0 => from,
            u64::BITS => u32::from(ENTRIES),
            behind => group.wrapping_add(behind).wrapping_shl(GROUP_SHIFT),
        }
    }

    fn count_tables(&mut self, component: u16, by: i16) {
        if let Some(one) = self.process_mut(component) {
            one.tables = one.tables.saturating_add_signed(by);
        }
    }

    fn count_own(&mut self, component: u16, page: u32, by: i32) {
        let Some(one) = self.room.processes.get_mut(usize::from(component)).filter(|one| one.quota != NONE) else {
            return;
        };
        if let Some(page) = self.room.pages.get(page as usize).filter(|page| page.owner == one.quota) {
            one.own_pages = one.own_pages.saturating_add_signed(by);
            // In no region.
            let by = if page.link == NO_PAGE { by } else { 0 };
            one.private_pages = one.private_pages.saturating_add_signed(by);
        }
    }

    /// Maps a page where none is. The use that the mapping is was counted by the caller.
    pub(crate) fn set_entry<W: World>(
        &mut self,
        world: &mut W,
        component: u16,
        address: u64,
        word: u64,
    ) -> Result<(), Code> {
        let (table, index) = self.make_entry(world, component, address)?;
        if world.word(table, index) & VALID != 0 {
            return Err(Code::Busy);
        }
        world.set_word(table, index, word);
        self.note_entry(table, index);
        if let Some(page) = self.pool_page(word & OUTPUT) {
            self.count_own(component, page, 1);
        }
        Ok(())
    }

    /// Takes a page out of the map. Nothing else follows before the core has forgotten it.
    pub(crate) fn clear_entry<W: World>(&mut self, world: &mut W, component: u16, address: u64, place: Place) {
        let word = world.word(place.0, place.1);
        world.set_word(place.0, place.1, 0);
        world.forget(component, address);
        self.drop_mapping(component, word);
    }

    /// Changes what an entry says of its page: break before make.
    pub(crate) fn change_entry<W: World>(
        &mut self,
        world: &mut W,
        component: u16,
        address: u64,
        (table, index): Place,
        word: u64,
    ) {
        world.set_word(table, index, 0);
        world.forget(component, address);
        world.set_word(table, index, word);
    }

    fn drop_mapping(&mut self, component: u16, word: u64) {
        if let Some(page) = self.pool_page(word & OUTPUT) {
            self.count_own(component, page, -1);
            self.drop_page(page);
        }
    }

    /// The page that an entry maps, if it is the pool's.
    pub(crate) fn page_of(&self, word: u64) -> Option<u32> {
        self.pool_page(word & OUTPUT).filter(|_| word & VALID != 0)
    }

    /// A walk over what a space maps, from a place on.
    pub(crate) fn walk<W: World>(&self, world: &W, component: u16, place: u32) -> Walk {
        let second = self.root_of(component).and_then(|root| self.page_of(world.word(root, 0)));
        let at = if second.is_some() { place } else { PLACES };
        Walk { second: second.unwrap_or(NO_PAGE), third: NO_PAGE, end: at & !LAST, at }
    }

    /// Brings a walk that is behind its table to the next one, or to the end of a group of the second level without one; false when there is none.
    pub(crate) fn next_table<W: World>(&self, world: &W, walk: &mut Walk) -> bool {
        if walk.at < walk.end {
            return true;
        }
        let mut upper = walk.at.wrapping_shr(9);
        if upper & GROUP_MASK == 0 {
            upper = self.next_entry(walk.second, upper);
        }
        if upper >= u32::from(ENTRIES) {
            walk.at = PLACES;
            return false;
        }
        let mut third = None;
        for _ in 0..=GROUP_MASK {
            third = self.page_of(world.word(walk.second, upper as u16));
            if third.is_some() {
                break;
            }
            upper = upper.wrapping_add(1);
            if upper & GROUP_MASK == 0 {
                break;
            }
        }
        let first = upper.wrapping_shl(9);
        (walk.at, walk.end) = (walk.at.max(first), first);
        if let Some(third) = third {
            walk.end = first.wrapping_add(u32::from(ENTRIES));
            (walk.third, walk.at) = (third, self.next_place(third, walk.at));
        }
        true
    }

    /// The place behind another one of a table; groups in which no entry was made are passed.
    #[inline]
    pub(crate) fn behind(&self, table: u32, place: u32) -> u32 {
        let next = place.wrapping_add(1);
        if next & GROUP_MASK == 0 && next & LAST != 0 { self.next_place(table, next) } else { next }
    }

    /// The first place of a table, from one of its places on, whose entry may have been made; the one behind its last for none.
    fn next_place(&self, table: u32, place: u32) -> u32 {
        (place & !LAST).wrapping_add(self.next_entry(table, place & LAST))
    }

    /// Looks for the next page that a space maps, from `place` on; at most a slice of entries. Returns the place behind what it looked at, and
    /// where the page's entry is if there is one.
    pub(crate) fn next_mapped<W: World>(&self, world: &W, component: u16, place: u32) -> (u32, Option<Place>) {
        let mut walk = self.walk(world, component, place);
        for _ in 0..ENTRIES_AT_ONCE {
            if !self.next_table(world, &mut walk) {
                return (PLACES, None);
            }
            let place = walk.at;
            if place >= walk.end {
                continue;
            }
            walk.at = self.behind(walk.third, place);
            if world.word(walk.third, index(place)) & VALID != 0 {
                return (walk.at, Some((walk.third, index(place))));
            }
        }
        (walk.at, None)
    }

    /// One slice of taking a space apart, which the core has forgotten and nobody runs in: a page, or a table behind its last page. Returns
    /// the next place; `None` when only the root is left.
    pub(crate) fn take_apart<W: World>(&mut self, world: &mut W, component: u16, place: u32) -> Option<u32> {
        let root = self.root_of(component)?;
        let second = self.page_of(world.word(root, 0))?;
        let (next, found) = self.next_mapped(world, component, place);
        if let Some((table, index)) = found {
            let word = world.word(table, index);
            world.set_word(table, index, 0);
            self.drop_mapping(component, word);
        }
        // Tables that were passed hold nothing any more.
        let mut upper = self.next_entry(second, place.wrapping_shr(9));
        // At most as many as entries were looked at, and one.
        while upper < next.wrapping_shr(9).min(u32::from(ENTRIES)) {
            if let Some(third) = self.page_of(world.word(second, upper as u16)) {
                world.set_word(second, upper as u16, 0);
                self.drop_page(third);
                self.count_tables(component, -1);
            }
            upper = self.next_entry(second, upper.wrapping_add(1));
        }
        if next < PLACES {
            return Some(next);
        }
        world.set_word(root, 0, 0);
        self.drop_page(second);
        self.count_tables(component, -1);
        None
    }
}
