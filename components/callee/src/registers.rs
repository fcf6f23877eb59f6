//! An entry by hand: what is in registers when it is entered, and patterns in all of them when it returns.

use bulkhead_component::interface::Record;
use core::arch::naked_asm;
use core::cell::UnsafeCell;

/// x0 to x30, SP, TPIDR_EL0 and the flags.
struct Seen(UnsafeCell<[u64; 34]>);

// SAFETY: written by the entry and read later by the one thread that there is.
unsafe impl Sync for Seen {}

static SEEN: Seen = Seen(UnsafeCell::new([0; 34]));

/// A word of what the latest one saw; 0 for others.
pub(crate) fn seen(number: u64) -> u64 {
    // SAFETY: see `Seen`.
    let words = unsafe { &*SEEN.0.get() };
    usize::try_from(number).ok().and_then(|number| words.get(number)).copied().unwrap_or(0)
}

#[used]
#[unsafe(link_section = ".bulkhead.exports")]
static MIRROR: Record = Record::new("mirror", 8, mirror as *const ());

/// Stores what it finds, and leaves 0xbb00 + number in each register.
#[unsafe(naked)]
extern "C" fn mirror() {
    naked_asm!(
        "stp x29, x30, [sp, #-16]!",
        "adrp x29, {seen}",
        "add x29, x29, :lo12:{seen}",
        "stp x0, x1, [x29]",
        "stp x2, x3, [x29, #16]",
        "stp x4, x5, [x29, #32]",
        "stp x6, x7, [x29, #48]",
        "stp x8, x9, [x29, #64]",
        "stp x10, x11, [x29, #80]",
        "stp x12, x13, [x29, #96]",
        "stp x14, x15, [x29, #112]",
        "stp x16, x17, [x29, #128]",
        "stp x18, x19, [x29, #144]",
        "stp x20, x21, [x29, #160]",
        "stp x22, x23, [x29, #176]",
        "stp x24, x25, [x29, #192]",
        "stp x26, x27, [x29, #208]",
        "mrs x0, NZCV",
        "mrs x1, TPIDR_EL0",
        "ldp x2, x3, [sp], #16",
        "mov x4, sp",
        "stp x28, x2, [x29, #224]",
        "stp x3, x4, [x29, #240]",
        "stp x1, x0, [x29, #256]",
        "mov x0, #0xbbbb",
        "msr TPIDR_EL0, x0",
        "mov w0, #0xf0000000",
        "msr NZCV, x0",
        "mov x0, #0xbb00",
        ".irp n, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30",
        "mov x\\n, #0xbb00 + \\n",
        ".endr",
        "svc #1",
        seen = sym SEEN,
    )
}

#[used]
#[unsafe(link_section = ".bulkhead.exports")]
static INSTANT: Record = Record::new("instant", 0, instant as *const ());

/// Returns at once, with the counter as it was at its entry: what is left of a call is the kernel's.
#[unsafe(naked)]
extern "C" fn instant() {
    naked_asm!("mrs x0, CNTVCT_EL0", "svc #1")
}
