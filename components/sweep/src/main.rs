//! Executes every encoding of a system instruction at EL0, and every SVC that is no call, and says which ones come back. Each that faults ends the
//! thread; the umpire (`components/hostile`) begins it again, and it continues with the next one.
#![no_std]
#![no_main]

use bulkhead_component::println;
use core::arch::{asm, global_asm};
use core::sync::atomic::{AtomicU64, Ordering};

global_asm!(include_str!("table.s"), options(raw));

unsafe extern "C" {
    fn bulkhead_sweep_writes();
    fn bulkhead_sweep_reads();
    fn bulkhead_sweep_calls();
}

bulkhead_component::entry!(main);

/// Encodings of a table, and bytes of each.
const ENCODINGS: u64 = 0x1_0000;
const BYTES: u64 = 8;
/// Numbers of SVC that are calls.
const CALLS: u64 = 16;
/// Code of a call that there is not.
const BAD_CALL: u64 = 15;

bulkhead_component::noinit! {
    /// How far it is: nothing else outlives a fault but what came of it.
    static PROGRESS: AtomicU64 = AtomicU64::new(0);
    /// Encodings that came back, a bit each.
    static CAME_BACK: [AtomicU64; ENCODINGS as usize / 64] = [const { AtomicU64::new(0) }; ENCODINGS as usize / 64];
}
/// What an instruction that takes an address or a value finds in x0, and may write.
static WORDS: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];

fn main(number: u64) {
    let (table, first): (unsafe extern "C" fn(), u64) = match number {
        250 => (bulkhead_sweep_writes, 0),
        251 => (bulkhead_sweep_reads, 0),
        252 => (bulkhead_sweep_calls, CALLS),
        _ => return,
    };
    let table = table as *const () as u64;
    // One core, one thread: what was before a fault is there behind it.
    for at in PROGRESS.load(Ordering::Relaxed)..ENCODINGS - first {
        PROGRESS.store(at + 1, Ordering::Relaxed);
        let encoding = first + at;
        let found = execute(table + encoding * BYTES);
        if number == 252 && found == BAD_CALL {
            continue;
        }
        if let Some(word) = CAME_BACK.get((encoding / 64) as usize) {
            // As above.
            word.fetch_or(1 << (encoding % 64), Ordering::Relaxed);
        }
    }
    say();
    // As above.
    PROGRESS.store(0, Ordering::Relaxed);
    // SAFETY: an exception that the kernel takes: it says that the sweep is over.
    unsafe { asm!("brk #0xd0e") }
}

/// Executes one instruction and its return; what x0 is then.
fn execute(address: u64) -> u64 {
    let mut found = (&raw const WORDS).expose_provenance() as u64;
    // SAFETY: an instruction of EL0, which changes no register but x0 and the flags, or nothing that this program uses: TPIDR_EL0, hints.
    unsafe { asm!("blr {}", in(reg) address, inout("x0") found, clobber_abi("C")) };
    found
}

/// Says which came back, as ranges, and forgets them.
fn say() {
    // As above.
    let is_back = |at: &u64| {
        CAME_BACK.get((*at / 64) as usize).is_some_and(|word| word.load(Ordering::Relaxed) >> (at % 64) & 1 != 0)
    };
    let mut at = 0;
    while let Some(start) = (at..ENCODINGS).find(is_back) {
        let end = (start..ENCODINGS).find(|at| !is_back(at)).unwrap_or(ENCODINGS);
        println!("came back: {start:#x} to {:#x}", end - 1);
        at = end;
    }
    // As above.
    CAME_BACK.iter().for_each(|word| word.store(0, Ordering::Relaxed));
}
