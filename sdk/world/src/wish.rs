//! The word in which stock Linux says which latency task it wants (SG-81, SG-82).
//!
//! It is memory that the other world writes whenever it likes. It is read once for each look, and what was read is bounded by the plan's ranges before
//! it chooses anything (`core/world`); of what is written back nothing is ever read here.

use crate::cell::Cell;
use bulkhead_world::flash::{WishPlan, WorldPlan, wish_words};
use bulkhead_world::servers::{Servers, wanted_by_word};

struct Wish {
    plan: WishPlan,
    read: u64,
}

static WISH: Cell<Wish> = Cell::new(Wish { plan: WishPlan::NONE, read: 0 });

impl Wish {
    fn word(&self, place: u64) -> *mut u64 {
        core::ptr::with_exposed_provenance_mut::<u64>(self.plan.address as usize).wrapping_add(place as usize)
    }

    /// Reads the word, once.
    fn wanted(&self) -> u64 {
        // SAFETY: the plan's page, which the host's tables map and `verify` has found to be nobody's; there is one, as the callers know.
        unsafe { self.word(wish_words::WANTED).read_volatile() }
    }

    fn answer(&self, read: u64, place: u64) {
        // SAFETY: as above; who else writes there hurts itself.
        unsafe {
            self.word(wish_words::PLACE).write_volatile(place);
            self.word(wish_words::READ).write_volatile(read);
        }
    }
}

/// Takes the word from the plan.
///
/// # Safety
/// Interrupts are masked.
pub(crate) unsafe fn start(plan: &WorldPlan) {
    // SAFETY: the caller's.
    unsafe { *WISH.get() = Wish { plan: plan.wish, read: 0 } };
}

/// The other world begins again, and wants nothing.
///
/// # Safety
/// Interrupts are masked or the caller is the one task that starts the world, which does not run.
pub(crate) unsafe fn forget(plan: &WorldPlan) {
    if plan.wish.address != 0 {
        let wish = Wish { plan: plan.wish, read: 0 };
        // SAFETY: as `Wish::wanted`.
        unsafe { wish.word(wish_words::WANTED).write_volatile(0) };
        wish.answer(0, 0);
    }
}

/// The word is another one than that of the last look.
///
/// # Safety
/// Interrupts are masked.
pub(crate) unsafe fn has_changed() -> bool {
    // SAFETY: the caller's.
    let wish = unsafe { WISH.get() };
    wish.plan.address != 0 && wish.wanted() != wish.read
}

/// Looks at the word, if there is one: from now on the world wants what it says.
///
/// # Safety
/// Interrupts are masked.
pub(crate) unsafe fn look(servers: &mut Servers) {
    // SAFETY: the caller's.
    let wish = unsafe { WISH.get() };
    if wish.plan.address == 0 {
        return;
    }
    let read = wish.wanted();
    wish.read = read;
    let wanted = wanted_by_word(&wish.plan, read);
    servers.wishes(wanted);
    wish.answer(read, wanted.wrapping_add(1));
}
