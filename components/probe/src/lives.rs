//! What one life leaves to the next one: a number that begins with 7, one that begins with 0 on a page of its own, and one that outlives a reset.

use bulkhead_component::println;
use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering};

/// First argument that is about it.
pub(crate) const FIRST: u64 = 150;

static DATA: AtomicU64 = AtomicU64::new(7);
/// More than a page, so that the last one is none that the first number is on.
static ZEROS: [AtomicU64; 1024] = [const { AtomicU64::new(0) }; 1024];

bulkhead_component::noinit! {
    static OUTLIVES: AtomicU64 = AtomicU64::new(0);
}

pub(crate) fn run() {
    let (first, last) = (&ZEROS[0], &ZEROS[1023]);
    // One thread: the order in which it does things is the order in which it sees them.
    let [data, first, last, outlives] =
        [&DATA, first, last, &OUTLIVES].map(|number| number.fetch_add(1, Ordering::Relaxed));
    println!("data {data}, zeros {first} and {last}, outlives {outlives}");
    // SAFETY: an exception that the kernel takes: the life ends here.
    unsafe { asm!("udf #0") }
}
