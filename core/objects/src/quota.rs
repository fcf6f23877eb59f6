//! Quotas and the pages of the pool (`kernel.md` 1 and 7; QV-20).
//!
//! A quota says how many pages and objects can still be taken. It can be split and never grows: what a process has is what it was given, and
//! comes back to the quota above when the process ends. Which pages of the pool these are does not matter, so all that nobody has are
//! in one list, and taking one is constant. Each page has a record: which quota paid, and how often it is used (each mapping at EL0 is one use;
//! a region that it belongs to is one, and so is being a table). It goes back with its last use, and until then stays charged.
//!
//! Rejected: a run of pages for each quota. Splitting would need a search for a gap, and a page that is still mapped would keep a run in pieces.

use crate::{Counters, Objects, WORN, World};
use bulkhead_kernel_abi::boot::{QuotaRow, Tables};
use bulkhead_kernel_abi::{Code, NONE};

/// No page.
pub const NO_PAGE: u32 = u32::MAX;
/// Records that one slice looks at.
const RECORDS_AT_ONCE: usize = 64;

/// What can be taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Life and grant.
    pub counters: Counters,
    /// It is one.
    pub is_used: bool,
    /// Component whose it is, or [`NONE`].
    pub component: u16,
    /// Quota that it was split from, or [`NONE`].
    pub parent: u16,
    /// Pages that can be taken.
    pub pages: u32,
    /// Pages that were taken and are not back.
    pub taken: u32,
    /// Components that can be made.
    pub components: u16,
    /// Threads.
    pub threads: u16,
    /// Regions.
    pub regions: u16,
    /// Programs of which processes may be made from it, a bit each; a quota that is split off has the same.
    pub programs: u32,
}

impl Quota {
    /// A quota as the host granted it.
    #[must_use]
    pub fn new(row: &QuotaRow) -> Self {
        Self {
            counters: Counters { life: 1, grant: 1 },
            is_used: true,
            component: row.component,
            parent: NONE,
            pages: row.pages,
            taken: 0,
            components: row.components,
            threads: row.threads,
            regions: row.regions,
            programs: row.programs,
        }
    }
}

/// What of a quota is given to another one, as `spawn` and `fork` have it in a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) pages: u32,
    components: u16,
    threads: u16,
    regions: u16,
}

impl Share {
    pub(crate) fn of(word: u64) -> Result<Self, Code> {
        if word >> 56 != 0 {
            return Err(Code::BadArgument);
        }
        let byte = |from: u32| (word.wrapping_shr(from) & 0xff) as u16;
        Ok(Self { pages: word as u32, components: byte(32), threads: byte(40), regions: byte(48) })
    }
}

/// A page of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Quota that it is charged to; [`NONE`] when nobody has it.
    pub owner: u16,
    /// Mappings at EL0, regions, and tables that it is.
    pub uses: u16,
    /// The next one that nobody has. Of one that a region has: the region's number in bits 31:16, and the place there in 15:0; else [`NO_PAGE`].
    /// Of a translation table, which nobody maps: groups 32 to 63.
    pub link: u32,
    /// Of a translation table: groups 0 to 31 ([`Page::groups`]).
    pub groups: u32,
}

// There is one for each page that a pool can have: with a word more, the state of the kernel would be a page larger.
const _: () = assert!(size_of::<Page>() == 12);

impl Page {
    /// A page that is not there.
    pub const EMPTY: Self = Self { owner: NONE, uses: 0, link: NO_PAGE, groups: 0 };

    /// Of a translation table of the second or third level: which groups of eight entries have been made since it is one, a bit each. What looks for pages
    /// passes the others: a space has few tables, and these few entries.
    pub(crate) const fn groups(&self) -> u64 {
        (self.link as u64).wrapping_shl(32) | self.groups as u64
    }

    /// The same, to be changed.
    pub(crate) const fn set_groups(&mut self, groups: u64) {
        (self.link, self.groups) = (groups.wrapping_shr(32) as u32, groups as u32);
    }
}

impl Objects<'_> {
    pub(crate) fn quota_mut(&mut self, number: u16) -> Option<&mut Quota> {
        self.room.quotas.get_mut(usize::from(number))
    }

    /// Makes the list of pages: all that the boot tables and the room have.
    pub(crate) fn fill_pool(&mut self, tables: &Tables<'_>) {
        self.pool_address = tables.header.pool_address;
        self.pool_pages = tables.header.pool_pages.min(self.room.pages.len().min(NO_PAGE as usize) as u32);
        self.free_page = NO_PAGE;
        // From the last, so that the first is taken first.
        for number in (0..self.pool_pages).rev() {
            let link = core::mem::replace(&mut self.free_page, number);
            if let Some(page) = self.room.pages.get_mut(number as usize) {
                *page = Page { link, ..Page::EMPTY };
            }
        }
    }

    /// The page of the pool at a physical address.
    pub(crate) fn pool_page(&self, physical: u64) -> Option<u32> {
        let offset = physical.checked_sub(self.pool_address)?;
        let page = offset.wrapping_shr(12);
        (page < u64::from(self.pool_pages)).then_some(page as u32)
    }

    /// The physical address of a page.
    pub(crate) fn physical(&self, page: u32) -> u64 {
        self.pool_address.wrapping_add(u64::from(page).wrapping_shl(12))
    }

    /// Takes a page, with one use. Its contents are whatever they were: the caller clears or copies.
    pub(crate) fn take_page(&mut self, quota: u16) -> Result<u32, Code> {
        self.take_page_inline(quota)
    }

    /// The same for who takes one page after the other.
    #[inline(always)]
    pub(crate) fn take_page_inline(&mut self, quota: u16) -> Result<u32, Code> {
        let number = self.free_page;
        let page = self.room.pages.get_mut(number as usize).ok_or(Code::Full)?;
        let one = self.room.quotas.get_mut(usize::from(quota)).filter(|one| one.is_used).ok_or(Code::Full)?;
        one.pages = one.pages.checked_sub(1).ok_or(Code::Full)?;
        one.taken = one.taken.saturating_add(1);
        self.free_page = page.link;
        *page = Page { owner: quota, uses: 1, ..Page::EMPTY };
        Ok(number)
    }

    /// Takes a page of zeros.
    pub(crate) fn take_cleared<W: World>(&mut self, world: &mut W, quota: u16) -> Result<u32, Code> {
        let page = self.take_page(quota)?;
        world.clear(page);
        Ok(page)
    }

    /// The same for a translation table: no group of it has been made.
    pub(crate) fn take_table<W: World>(&mut self, world: &mut W, quota: u16) -> Result<u32, Code> {
        let page = self.take_cleared(world, quota)?;
        if let Some(record) = self.room.pages.get_mut(page as usize) {
            record.set_groups(0);
        }
        Ok(page)
    }

    /// One use more; false when there cannot be more.
    pub(crate) fn use_page(&mut self, number: u32) -> bool {
        let Some(page) = self.room.pages.get_mut(number as usize) else { return false };
        match page.uses.checked_add(1) {
            Some(uses) => {
                page.uses = uses;
                true
            }
            None => false,
        }
    }

    /// One use less; with the last one the page goes back to the quota that it is charged to.
    pub(crate) fn drop_page(&mut self, number: u32) {
        let Some(page) = self.room.pages.get_mut(number as usize).filter(|page| page.owner != NONE) else { return };
        page.uses = page.uses.saturating_sub(1);
        if page.uses != 0 {
            return;
        }
        let owner = page.owner;
        *page = Page { link: self.free_page, ..Page::EMPTY };
        self.free_page = number;
        if let Some(one) = self.quota_mut(owner) {
            one.pages = one.pages.saturating_add(1);
            one.taken = one.taken.saturating_sub(1);
        }
    }

    /// Splits a quota: the component gets a new one, and its first thread and the component itself are taken from it. Everything is checked first.
    pub(crate) fn split(&mut self, from: u16, share: Share, component: u16) -> Result<u16, Code> {
        let one = self.room.quotas.get(usize::from(from)).filter(|one| one.is_used).ok_or(Code::BadCapability)?;
        let programs = one.programs;
        let less = |have: u16, given: u16| have.checked_sub(given).ok_or(Code::Full);
        let pages = one.pages.checked_sub(share.pages).ok_or(Code::Full)?;
        let components = less(less(one.components, 1)?, share.components)?;
        let threads = less(less(one.threads, 1)?, share.threads)?;
        let regions = less(one.regions, share.regions)?;
        let is_free = |one: &Quota| !one.is_used && one.counters.grant != WORN;
        let mut numbered = (0..u16::MAX).zip(self.room.quotas.iter_mut());
        let (number, part) = numbered.find(|(_, one)| is_free(one)).ok_or(Code::Full)?;
        // In their places: a quota that is made elsewhere is copied through memory.
        (part.is_used, part.component, part.parent, part.programs) = (true, component, from, programs);
        (part.pages, part.taken) = (share.pages, 0);
        (part.components, part.threads, part.regions) = (share.components, share.threads, share.regions);
        if let Some(rest) = self.quota_mut(from) {
            (rest.pages, rest.components, rest.threads, rest.regions) = (pages, components, threads, regions);
        }
        Ok(number)
    }

    /// Charges pages that outlive a quota to the one above; a slice at a time from `cursor` on. Returns where it is, `None` at the end.
    pub(crate) fn pass_pages_up(&mut self, quota: u16, cursor: u32) -> Option<u32> {
        let one = *self.room.quotas.get(usize::from(quota))?;
        let left = self.room.pages.get(cursor as usize..self.pool_pages as usize).filter(|left| !left.is_empty())?;
        if one.taken == 0 {
            return None;
        }
        let count = left.len().min(RECORDS_AT_ONCE);
        let mut passed = 0u32;
        for page in self.room.pages.iter_mut().skip(cursor as usize).take(count).filter(|page| page.owner == quota) {
            page.owner = one.parent;
            passed = passed.wrapping_add(1);
        }
        for (number, is_above) in [(quota, false), (one.parent, true)] {
            let Some(one) = self.quota_mut(number) else { continue };
            one.taken = if is_above { one.taken.saturating_add(passed) } else { one.taken.saturating_sub(passed) };
        }
        Some(cursor.saturating_add(count as u32))
    }

    /// Ends a quota: what is left goes to the one above, and so do the component and its threads that were made from it.
    pub(crate) fn end_quota(&mut self, number: u16) {
        let Some(one) = self.quota_mut(number) else { return };
        let Quota { pages, components, threads, regions, parent, .. } = *one;
        one.counters.revoke();
        *one = Quota { counters: one.counters, ..Quota::default() };
        if let Some(above) = self.quota_mut(parent) {
            above.pages = above.pages.saturating_add(pages);
            above.components = above.components.saturating_add(components).saturating_add(1);
            above.threads = above.threads.saturating_add(threads).saturating_add(1);
            above.regions = above.regions.saturating_add(regions);
        }
    }
}
