//! Pages of the pool and what the core remembers of translation tables in them (Arm ARM D8.16): the only memory beside its own that the kernel reaches.
//!
//! All are in the kernel's half, where the host maps them writable and never executable; what is copied from the image is there read-only. So are
//! data of components, which a reset makes what they were. Numbers and
//! addresses are compared with what there is here, at the last place before the access.

use super::{HALF, PAGE, boot_root};
use core::arch::asm;
use core::ops::Range;

/// Entries of a page.
const WORDS: u16 = 512;
/// Where the ASID is in TTBR0_EL1 and in the operand of an invalidation.
const ASID_SHIFT: u32 = 48;

/// Pages that nobody has at boot, and what may be copied into them.
#[derive(Clone, Debug)]
pub struct Pool {
    address: u64,
    pages: u32,
    image: Range<u64>,
}

impl Pool {
    /// A pool of so many pages at a physical address, and the physical addresses of the image.
    ///
    /// # Safety
    /// The kernel's half maps all of these pages at their physical addresses, writable and never executable, and nothing in Rust is in them. What
    /// [`Self::copy_image`] is asked for in the image is mapped there as well, and so is what [`Self::restore_page`] is, of which the first page is
    /// writable, no table, and nothing in Rust.
    #[must_use]
    pub const unsafe fn new(address: u64, pages: u32, image: Range<u64>) -> Self {
        Self { address, pages, image }
    }

    /// The address of a page in the kernel's half.
    fn page(&self, page: u32) -> Option<u64> {
        let address = self.address.wrapping_add(u64::from(page).wrapping_mul(PAGE as u64));
        (page < self.pages).then_some(HALF | address)
    }

    fn place(&self, page: u32, index: u16) -> Option<*mut u64> {
        let page = self.page(page).filter(|_| index < WORDS)?;
        Some(core::ptr::with_exposed_provenance_mut(page.wrapping_add(u64::from(index).wrapping_mul(8)) as usize))
    }

    pub(super) fn word(&self, page: u32, index: u16) -> u64 {
        // SAFETY: a word of a page that the kernel's half maps (`Self::new`), aligned to 8 bytes. Volatile: the core reads and a component may write it.
        self.place(page, index).map_or(0, |place| unsafe { place.read_volatile() })
    }

    pub(super) fn set_word(&self, page: u32, index: u16, word: u64) {
        let Some(place) = self.place(page, index) else { return };
        // SAFETY: as above. What a word means as an entry of a table is for `core/objects` to say, and no table of the kernel's half is in the pool.
        unsafe { place.write_volatile(word) };
        // An entry is there before the core looks for it, at EL0 or in a walk ahead of time.
        // SAFETY: a barrier.
        unsafe { asm!("dsb nshst", options(nostack, preserves_flags)) };
    }

    pub(super) fn clear(&self, page: u32) {
        if let Some(page) = self.page(page) {
            // SAFETY: a page that the kernel's half maps, and of which nothing is in Rust.
            unsafe { clear(page) };
        }
    }

    pub(super) fn copy(&self, to: u32, from: u32) {
        if let (Some(to), Some(from)) = (self.page(to), self.page(from)) {
            // SAFETY: two pages that the kernel's half maps.
            unsafe { copy(to, from) };
        }
    }

    pub(super) fn copy_image(&self, to: u32, physical: u64) {
        if let (Some(to), Some(from)) = (self.page(to), self.of_image(physical)) {
            // SAFETY: a page that the kernel's half maps, and one of the image that it maps as well (`Self::new`).
            unsafe { copy(to, from) };
        }
    }

    pub(super) fn restore_page(&self, to: u64, from: Option<u64>) {
        let Some(to) = self.of_image(to) else { return };
        match from.map(|from| self.of_image(from)) {
            // SAFETY: two pages of the image that the kernel's half maps, the first one writable (`Self::new`).
            Some(Some(from)) => unsafe { copy(to, from) },
            Some(None) => {}
            // SAFETY: the first one alone.
            None => unsafe { clear(to) },
        }
    }

    /// The address of a page of the image in the kernel's half.
    fn of_image(&self, physical: u64) -> Option<u64> {
        let end = physical.checked_add(PAGE as u64)?;
        let is_inside = physical >= self.image.start && end <= self.image.end && physical & 0xfff == 0;
        is_inside.then_some(HALF | physical)
    }
}

/// As DCZID_EL0 says it: 512 bytes.
const MOST_WORDS: u64 = 7;

/// Fills a page with zeros, a block of the cache by an instruction where the core allows it.
///
/// # Safety
/// The address is of a page that the kernel's half maps writable, and of which nothing is in Rust.
// Not in each of its callers: it is long.
#[inline(never)]
unsafe fn clear(page: u64) {
    let block: u64;
    // The core says how much `dc zva` clears, and whether it may be used: a monitor can forbid it.
    // SAFETY: reads what the core says of `dc zva`; no memory is touched.
    unsafe { asm!("mrs {}, DCZID_EL0", out(reg) block, options(nomem, nostack, preserves_flags)) };
    // Bits 3:0 are the block's words as a power of two, bit 4 forbids it (Arm ARM D17.2.36). Eight blocks of no more than 512 bytes are in a page without a rest.
    if block & 0x1f <= MOST_WORDS {
        // A line of the cache by an instruction, which need not be read before.
        // SAFETY: as the caller promises: whole blocks of one page, which is normal memory. Bytes of pages have no meaning here.
        unsafe {
            asm!(
                "2:",
                ".rept 8",
                "dc zva, {to}",
                "add {to}, {to}, {block}",
                ".endr",
                "cmp {to}, {end}",
                "b.lo 2b",
                // As below.
                "dsb nshst",
                to = inout(reg) page => _,
                end = in(reg) page.wrapping_add(PAGE as u64),
                block = in(reg) 4u64.wrapping_shl(block as u32),
                options(nostack),
            );
        }
        return;
    }
    // 32 stores of 16 bytes for each look whether it is over: the compiler's own loop takes twice as long.
    // SAFETY: as the caller promises; bytes of pages have no meaning here.
    unsafe {
        asm!(
            "2:",
            ".rept 32",
            "stp xzr, xzr, [{to}], #16",
            ".endr",
            "sub {left}, {left}, #512",
            "cbnz {left}, 2b",
            // A walk ahead of time finds zeros in what becomes a table.
            "dsb nshst",
            to = inout(reg) page => _,
            left = inout(reg) PAGE => _,
            options(nostack, preserves_flags),
        );
    }
}

/// Copies a page, 1024 bytes for each look whether it is over.
///
/// # Safety
/// Both addresses are of pages that the kernel's half maps, the first one writable, and of which nothing is in Rust.
// Not in each of its callers: it is longer.
#[inline(never)]
unsafe fn copy(to: u64, from: u64) {
    // Pairs of registers: 16 bytes by an instruction, which is what the price of a fork is made of.
    // SAFETY: as the caller promises; bytes of pages have no meaning here.
    unsafe {
        asm!(
            "2:",
            ".rept 32",
            "ldp {a}, {b}, [{from}], #16",
            "ldp {c}, {d}, [{from}], #16",
            "stp {a}, {b}, [{to}], #16",
            "stp {c}, {d}, [{to}], #16",
            ".endr",
            "sub {left}, {left}, #1024",
            "cbnz {left}, 2b",
            to = inout(reg) to => _,
            from = inout(reg) from => _,
            left = inout(reg) PAGE => _,
            a = out(reg) _, b = out(reg) _, c = out(reg) _, d = out(reg) _,
            options(nostack, preserves_flags),
        );
    }
}

/// Lets the core forget the translation of an address of a component.
pub(super) fn forget(asid: u16, address: u64) {
    let operand = u64::from(asid).wrapping_shl(ASID_SHIFT) | address.wrapping_shr(12) & 0xfff_ffff_ffff;
    // DSB before: the entry is gone before the core is told to forget it. DSB behind: it has forgotten before anything follows. No ISB: the return to EL0
    // synchronises, and the kernel does not use this half. Local: one core has these tables.
    // SAFETY: only forgets.
    unsafe { asm!("dsb nshst", "tlbi vae1, {}", "dsb nsh", in(reg) operand, options(nostack, preserves_flags)) };
}

/// Lets the core forget all of a component, which is loaded no more: a table that is given away must not be walked ahead of time.
pub(super) fn forget_all(asid: u16) {
    let space: u64;
    // TTBR0_EL1 says whose tables the core may walk now, called or not.
    // SAFETY: reads a register that no other core has.
    unsafe { asm!("mrs {}, TTBR0_EL1", out(reg) space, options(nomem, nostack, preserves_flags)) };
    if space.wrapping_shr(ASID_SHIFT) == u64::from(asid) {
        // The tables of the switch-on, which no component has: nothing of them is for EL0. ISB: no walk begins at the former root from here on.
        // SAFETY: a root of the host, whose tables nobody writes; the kernel does not use this half, and loads a component before it returns to EL0.
        unsafe { asm!("msr TTBR0_EL1, {}", "isb", in(reg) boot_root(), options(nostack, preserves_flags)) };
    }
    let operand = u64::from(asid).wrapping_shl(ASID_SHIFT);
    // DSB before and behind, no ISB, and only this core, for the reasons that `forget` has.
    // SAFETY: only forgets.
    unsafe { asm!("dsb nshst", "tlbi aside1, {}", "dsb nsh", in(reg) operand, options(nostack, preserves_flags)) };
}
