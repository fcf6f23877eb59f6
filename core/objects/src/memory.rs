//! Regions of memory, and the calls that map them (`kernel.md` 2 and 7; CH-61, CH-62).
//!
//! A region is a run of pages of the image that the host described, or one made at run time: its pages come from a quota when they are mapped first, as
//! zeros, and one page of its own says which they are. A capability is for a part of it.
//!
//! Each page is a slice. At the first page that cannot be mapped, unmapped or changed the call ends: with what was done if that is not
//! nothing, else with the code. So a refusal changes nothing, and nothing has to be undone.

use crate::calls::{Answer, Reply, values};
use crate::quota::NO_PAGE;
use crate::space::{ENTRIES_AT_ONCE, addresses, output, page_word, rights_of};
use crate::{Counters, Objects, Sliced, WORN, World};
use bulkhead_kernel_abi::boot::RegionRow;
use bulkhead_kernel_abi::call::MemoryOperation;
use bulkhead_kernel_abi::capability::{memory_word, right};
use bulkhead_kernel_abi::{Capability, Code, Kind, MAX_REGION_PAGES, NONE};

/// Rights to memory itself.
const ACCESS: u8 = right::READ | right::WRITE | right::EXECUTE;
/// Rights to a region that was made at run time: nothing of the pool is executed.
const MADE: u8 = right::READ | right::WRITE | right::USE | right::REVOKE;

/// A region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Life and grant.
    pub counters: Counters,
    /// It is one.
    pub is_used: bool,
    /// Quota that pays for its pages; [`NONE`] for one of the host.
    pub quota: u16,
    /// Pages.
    pub pages: u32,
    /// The page whose words are the numbers of its pages + 1.
    pub list: u32,
    /// Of one of the host: where it begins.
    pub physical: u64,
}

impl Region {
    /// No region.
    pub const EMPTY: Self = Self {
        counters: Counters { life: 1, grant: 1 },
        is_used: false,
        quota: NONE,
        pages: 0,
        list: NO_PAGE,
        physical: 0,
    };

    /// A region as the host described it.
    #[must_use]
    pub const fn new(row: &RegionRow) -> Self {
        Self { is_used: true, pages: row.pages, physical: row.physical, ..Self::EMPTY }
    }
}

/// W^X, and nothing that is no right.
fn access(rights: u64) -> Result<u8, Code> {
    let some = u8::try_from(rights).map_err(|_| Code::BadArgument)?;
    if some & !ACCESS != 0 || some & right::READ == 0 {
        return Err(Code::BadArgument);
    }
    if some & (right::WRITE | right::EXECUTE) == right::WRITE | right::EXECUTE { Err(Code::Denied) } else { Ok(some) }
}

impl Objects<'_> {
    pub(crate) fn memory<W: World>(&mut self, world: &mut W, component: u16, x: [u64; 8]) -> Answer {
        let operation = MemoryOperation::from_number(x[0]).ok_or(Code::BadCall)?;
        match operation {
            MemoryOperation::Map => {
                self.in_pages(world, component, x[4], |this, world, page| this.map(world, component, x, page))
            }
            MemoryOperation::Unmap => self.in_pages(world, component, x[3], |this, world, page| {
                let (address, place, _) = this.mapped(world, component, x, page)?;
                this.clear_entry(world, component, address, place);
                Ok(())
            }),
            MemoryOperation::Protect => self.in_pages(world, component, x[3], |this, world, page| {
                let (address, place, word) = this.mapped(world, component, x, page)?;
                let (wanted, has) = (access(x[4])?, rights_of(word));
                if wanted & !has != 0 {
                    return Err(Code::Denied);
                }
                if wanted != has {
                    this.change_entry(world, component, address, place, page_word(word, wanted));
                }
                Ok(())
            }),
            MemoryOperation::Share => self.share(component, x),
            MemoryOperation::Create => self.create_region(world, component, x),
        }
    }

    /// Does something page by page, until it is done, refused, or an interrupt waits.
    fn in_pages<W: World>(
        &mut self,
        world: &mut W,
        component: u16,
        pages: u64,
        mut slice: impl FnMut(&mut Self, &mut W, u64) -> Result<(), Code>,
    ) -> Answer {
        let running = self.running;
        let begun = self.thread(running).map_or(Sliced::NONE, |one| one.sliced);
        let mut done = begun.done;
        // The largest number of pages ends each of these loops: an address space has no more.
        loop {
            match slice(self, world, u64::from(done)) {
                Err(code) if done == 0 => return Err(code),
                Err(_) => return values([u64::from(done)]),
                Ok(()) => done = done.saturating_add(1),
            }
            if u64::from(done) >= pages {
                return values([u64::from(done)]);
            }
            if world.is_interrupted() {
                return Ok(Reply::Again(Sliced { component, done, ..Sliced::NONE }));
            }
        }
    }

    /// Maps page `page` of those that were asked for.
    fn map<W: World>(&mut self, world: &mut W, component: u16, x: [u64; 8], page: u64) -> Result<(), Code> {
        let [_, slot, from, address, pages, rights, ..] = x;
        let rights = access(rights)?;
        let found = self.find_as(component, slot, Kind::Memory, rights)?;
        addresses(address, pages)?;
        let (first, most) = found.pages();
        let is_inside = from.checked_add(pages).is_some_and(|end| end <= u64::from(most));
        let region = *self.room.regions.get(usize::from(found.object)).ok_or(Code::BadCapability)?;
        let number = u64::from(first).wrapping_add(from).wrapping_add(page);
        if !is_inside || number >= u64::from(region.pages) {
            return Err(Code::BadArgument);
        }
        let address = address.wrapping_add(page.wrapping_shl(12));
        if self.entry(world, component, address)? != 0 {
            return Err(Code::Busy);
        }
        if region.list == NO_PAGE {
            let physical = region.physical.wrapping_add(number.wrapping_shl(12));
            return self.set_entry(world, component, address, page_word(physical, rights));
        }
        // Tables first: they can be refused, and a page that nobody maps would be the region's for nothing.
        let index = number as u16;
        let there = world.word(region.list, index);
        let needed = if there == 0 { 1 } else { 0 };
        self.has_pages(world, component, address, region.quota, needed)?;
        let page = match u32::try_from(there.wrapping_sub(1)) {
            Ok(page) => page,
            Err(_) => {
                let page = self.take_cleared(world, region.quota)?;
                world.set_word(region.list, index, u64::from(page).wrapping_add(1));
                if let Some(record) = self.room.pages.get_mut(page as usize) {
                    record.link = u32::from(found.object).wrapping_shl(16) | u32::from(index);
                }
                page
            }
        };
        if !self.use_page(page) {
            return Err(Code::Full);
        }
        self.set_entry(world, component, address, page_word(self.physical(page), rights))
    }

    /// States whether there are pages for the tables of an address and these others of a quota, which may be the same one.
    fn has_pages<W: World>(
        &self,
        world: &W,
        component: u16,
        address: u64,
        quota: u16,
        needed: u32,
    ) -> Result<(), Code> {
        let tables = self.missing_tables(world, component, address)?;
        let own = self.process(component).map_or(NONE, |one| one.quota);
        let both = if own == quota { needed } else { 0 };
        let has = |quota: u16, pages: u32| {
            pages == 0 || self.room.quotas.get(usize::from(quota)).is_some_and(|one| one.is_used && one.pages >= pages)
        };
        if has(own, tables.wrapping_add(both)) && has(quota, needed) { Ok(()) } else { Err(Code::Full) }
    }

    /// The mapping of page `page` of those that were asked for; of the region, if one was named.
    fn mapped<W: World>(
        &mut self,
        world: &W,
        component: u16,
        x: [u64; 8],
        page: u64,
    ) -> Result<(u64, crate::space::Place, u64), Code> {
        let [_, slot, address, pages, ..] = x;
        addresses(address, pages)?;
        let named = if slot == 0 { None } else { Some(self.find_as(component, slot, Kind::Memory, right::READ)?) };
        let address = address.wrapping_add(page.wrapping_shl(12));
        let place = self.find_entry(world, component, address)?.ok_or(Code::BadArgument)?;
        let word = world.word(place.0, place.1);
        if word == 0 || named.is_some_and(|memory| !self.is_of(world, &memory, word)) {
            return Err(Code::BadArgument);
        }
        Ok((address, place, word))
    }

    /// States whether an entry maps a page of the part of a region that a capability is for.
    fn is_of<W: World>(&self, world: &W, memory: &Capability, word: u64) -> bool {
        let Some(region) = self.room.regions.get(usize::from(memory.object)) else { return false };
        let (first, pages) = memory.pages();
        let place = if region.list == NO_PAGE {
            output(word).checked_sub(region.physical).map(|offset| offset.wrapping_shr(12))
        } else {
            // The page says where it was put; the region's own list says whether it still is there.
            let page = self.page_of(word).unwrap_or(NO_PAGE);
            let link = self.room.pages.get(page as usize).map_or(NO_PAGE, |page| page.link);
            let is_listed = link.wrapping_shr(16) == u32::from(memory.object)
                && world.word(region.list, (link & 511) as u16) == u64::from(page).wrapping_add(1);
            is_listed.then_some(u64::from(link & 0xffff))
        };
        let end = u64::from(first).wrapping_add(u64::from(pages)).min(u64::from(region.pages));
        place.is_some_and(|place| (u64::from(first)..end).contains(&place))
    }

    /// Puts a capability to part of a region into a slot.
    fn share(&mut self, component: u16, x: [u64; 8]) -> Answer {
        let [_, slot, from, pages, rights, to, ..] = x;
        let found = self.find_as(component, slot, Kind::Memory, right::USE)?;
        let (first, most) = found.pages();
        let is_inside = from.checked_add(pages).is_some_and(|end| end <= u64::from(most)) && pages != 0;
        let (Ok(from), Ok(pages)) = (u32::try_from(from), u32::try_from(pages)) else { return Err(Code::BadArgument) };
        if !is_inside {
            return Err(Code::BadArgument);
        }
        let rights = found.rights & (rights as u8);
        let word = memory_word(first.wrapping_add(from), pages);
        self.put(component, to, Capability { rights, word, ..found })?;
        values([])
    }

    /// Makes a region of which no page is there yet.
    fn create_region<W: World>(&mut self, world: &mut W, component: u16, x: [u64; 8]) -> Answer {
        let [_, slot, pages, to, ..] = x;
        let quota = self.object_of(component, slot, Kind::Quota, right::USE)?;
        let pages = u32::try_from(pages).ok().filter(|pages| (1..=MAX_REGION_PAGES).contains(pages));
        let pages = pages.ok_or(Code::BadArgument)?;
        self.empty(component, to)?;
        let is_free = |one: &Region| !one.is_used && one.counters.grant != WORN;
        let mut numbered = (0..u16::MAX).zip(self.room.regions.iter());
        let (number, free) = numbered.find(|(_, one)| is_free(one)).ok_or(Code::Full)?;
        let counters = free.counters;
        let one = self.quota_mut(quota).ok_or(Code::BadCapability)?;
        if one.pages == 0 {
            return Err(Code::Full);
        }
        one.regions = one.regions.checked_sub(1).ok_or(Code::Full)?;
        let list = self.take_cleared(world, quota)?;
        if let Some(place) = self.room.regions.get_mut(usize::from(number)) {
            *place = Region { counters, is_used: true, quota, pages, list, physical: 0 };
        }
        let word = memory_word(0, pages);
        let made =
            Capability { kind: Kind::Memory.number(), rights: MADE, object: number, grant: counters.grant, word };
        self.put(component, to, made)?;
        values([])
    }

    /// One slice of the end of all regions that a quota pays for: up to one page, behind places without one. `cursor` is region and page; returns the next one,
    /// `None` at the end.
    pub(crate) fn end_regions<W: World>(&mut self, world: &mut W, quota: u16, cursor: u32) -> Option<u32> {
        let (mut number, mut page) = (cursor.wrapping_shr(9), cursor & 511);
        let region = loop {
            let region = self.room.regions.get(number as usize)?;
            if region.is_used && region.quota == quota && region.list != NO_PAGE {
                break region;
            }
            (number, page) = (number.wrapping_add(1), 0);
        };
        let (list, pages, mut counters) = (region.list, region.pages, region.counters);
        if page == 0 {
            // Nobody maps more of it from here on.
            counters.revoke();
        }
        let end = page.saturating_add(ENTRIES_AT_ONCE).min(pages);
        while page < end {
            let place = page as u16;
            page = page.wrapping_add(1);
            if let Ok(there) = u32::try_from(world.word(list, place).wrapping_sub(1)) {
                world.set_word(list, place, 0);
                self.drop_page(there);
                break;
            }
        }
        let region = self.room.regions.get_mut(number as usize)?;
        region.counters = counters;
        if page < pages {
            return Some(number.wrapping_shl(9) | page);
        }
        *region = Region { counters, ..Region::EMPTY };
        self.drop_page(list);
        if let Some(one) = self.quota_mut(quota) {
            one.regions = one.regions.saturating_add(1);
        }
        Some(number.wrapping_add(1).wrapping_shl(9))
    }
}
