//! Copying what a process maps, page by page, for a fork (`kernel.md` 7; QV-E6).
//!
//! What is the same for all pages is looked up once in a passage: while it lasts nobody else has a turn, so tables stay where they are. Between two
//! entries it looks for interrupts. What the passage behind one goes by is in the child: which place is next, and what it was given.

use crate::quota::NO_PAGE;
use crate::space::{Walk, index, is_read_only, is_valid, output, with_output};
use crate::{Objects, Page, Phase, World};
use bulkhead_kernel_abi::{Code, NONE};

/// How a passage over pages ends, if nothing is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passage {
    /// All of them are done.
    Over,
    /// An interrupt waits.
    Interrupted,
}

/// A passage over the pages of a parent.
struct Copying {
    child: u16,
    /// Quotas of parent and child.
    quotas: (u16, u16),
    /// Over the parent's space.
    walk: Walk,
    /// Pages that the child was given.
    given: u32,
}

impl Objects<'_> {
    /// Copies the parent's pages from where the child is on. The phase behind it begins at the end.
    pub(crate) fn copy_pages<W: World>(&mut self, world: &mut W, parent: u16, child: u16) -> Result<Passage, Code> {
        let quota = |number| self.process(number).map_or(NONE, |one| one.quota);
        let from = self.process(child).map_or(0, |one| one.cursor);
        let (quotas, walk) = ((quota(parent), quota(child)), self.walk(world, parent, from));
        let mut copying = Copying { child, quotas, walk, given: 0 };
        let done = loop {
            if !self.next_table(world, &mut copying.walk) {
                break Ok(Passage::Over);
            }
            match self.copy_table(world, &mut copying) {
                Ok(Passage::Over) if world.is_interrupted() => break Ok(Passage::Interrupted),
                Ok(Passage::Over) => {}
                other => break other,
            }
        };
        let next = (done != Ok(Passage::Over)).then_some(copying.walk.at);
        self.advance(child, next, Phase::Slots);
        if let Some(one) = self.process_mut(child) {
            one.own_pages = one.own_pages.saturating_add(copying.given);
            one.private_pages = one.private_pages.saturating_add(copying.given);
        }
        done
    }

    /// Copies what the table of a walk maps from its place on, up to the table's end.
    fn copy_table<W: World>(&mut self, world: &mut W, copying: &mut Copying) -> Result<Passage, Code> {
        let (table, end) = copying.walk.table();
        let (mut at, mut to) = (copying.walk.at, NO_PAGE);
        let done = loop {
            if at >= end {
                break Ok(Passage::Over);
            }
            let place = at;
            let word = world.word(table, index(place));
            at = self.behind(table, place);
            if is_valid(word)
                && let Err(code) = self.copy_entry(world, copying, (table, &mut to), place, word)
            {
                break Err(code);
            }
            if world.is_interrupted() {
                break Ok(Passage::Interrupted);
            }
        };
        copying.walk.at = at;
        done
    }

    /// Copies an entry: one's own page by its contents, a read-only one of the image by its address, nothing else. The entry says the same but for the page.
    #[inline]
    fn copy_entry<W: World>(
        &mut self,
        world: &mut W,
        copying: &mut Copying,
        (from, to): (u32, &mut u32),
        place: u32,
        word: u64,
    ) -> Result<(), Code> {
        let Some(page) = self.pool_page(output(word)) else {
            if is_read_only(word) {
                let to = self.table_like(world, copying.child, (from, to), place)?;
                world.set_word(to, index(place), word);
            }
            return Ok(());
        };
        // A process has a quota, and a page that is mapped an owner.
        if self.room.pages.get(page as usize).is_none_or(|one| one.owner != copying.quotas.0) {
            return Ok(());
        }
        let to = self.table_like(world, copying.child, (from, to), place)?;
        let copy = self.take_page_inline(copying.quotas.1)?;
        world.copy(copy, page);
        copying.given = copying.given.wrapping_add(1);
        // Nothing is there: each place is passed once, and nobody else maps anything in a process that is made.
        world.set_word(to, index(place), with_output(word, self.physical(copy)));
        Ok(())
    }

    /// The child's table for a place, in which what the parent's has may be made.
    #[inline]
    fn table_like<W: World>(
        &mut self,
        world: &mut W,
        child: u16,
        (from, to): (u32, &mut u32),
        place: u32,
    ) -> Result<u32, Code> {
        if *to == NO_PAGE {
            *to = self.make_table_like(world, child, from, place)?;
        }
        Ok(*to)
    }

    #[inline(never)] // Once for each table.
    fn make_table_like<W: World>(&mut self, world: &mut W, child: u16, from: u32, place: u32) -> Result<u32, Code> {
        let (table, _) = self.make_entry(world, child, u64::from(place).wrapping_shl(12))?;
        let groups = self.room.pages.get(from as usize).map_or(0, Page::groups);
        if let Some(page) = self.room.pages.get_mut(table as usize) {
            page.set_groups(page.groups() | groups);
        }
        Ok(table)
    }
}
