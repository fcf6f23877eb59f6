//! Every register of this thread on both sides of a call (`registers.s`).

use core::arch::global_asm;

global_asm!(include_str!("registers.s"), options(raw));

/// x0 to x30, the flags, TPIDR_EL0.
pub type All = [u64; 33];
/// Place of the flags.
pub const FLAGS: usize = 31;
/// Bits of the flags.
pub const FLAG_BITS: u64 = 0xf000_0000;

/// What a new thread finds: x0 to x28, the flags, TPIDR_EL0, TPIDRRO_EL0.
pub type Fresh = [u64; 32];

macro_rules! exchanges {
    ($($name:ident)+) => {
        unsafe extern "C" { $(fn $name(put: *const All, found: *mut All);)+ }
        /// One for each call, then numbers that are none, and a loop without a call.
        const EXCHANGES: &[unsafe extern "C" fn(*const All, *mut All)] = &[$($name),+];
    };
}

exchanges! {
    bulkhead_hostile_exchange_0 bulkhead_hostile_exchange_1 bulkhead_hostile_exchange_2 bulkhead_hostile_exchange_3
    bulkhead_hostile_exchange_4 bulkhead_hostile_exchange_5 bulkhead_hostile_exchange_6 bulkhead_hostile_exchange_7
    bulkhead_hostile_exchange_8 bulkhead_hostile_exchange_9 bulkhead_hostile_exchange_10 bulkhead_hostile_exchange_11
    bulkhead_hostile_exchange_12 bulkhead_hostile_exchange_13 bulkhead_hostile_exchange_14 bulkhead_hostile_exchange_15
    bulkhead_hostile_exchange_16 bulkhead_hostile_exchange_255 bulkhead_hostile_exchange_256 bulkhead_hostile_exchange_65535
    bulkhead_hostile_exchange_70000
}

/// How many numbers there are to try: the sixteen calls, and four that are none.
pub const NUMBERS: usize = 20;
/// The loop, of x0 turns.
pub const LOOP: usize = 20;

/// Loads all registers, makes call `number` (16 and above: see [`NUMBERS`] and [`LOOP`]), and returns what all registers are then.
pub fn exchange(number: usize, put: &All) -> All {
    let mut found = [0; 33];
    let Some(exchange) = EXCHANGES.get(number) else { return found };
    // SAFETY: the function keeps the registers that a function keeps, reads one array, writes the other, and uses its own part of the stack; the kernel
    // touches no memory of a component.
    unsafe { exchange(put, &raw mut found) };
    found
}

/// Words that are told apart by place and by round, none of them a word of somebody else.
pub fn pattern(whose: u64, round: u64) -> All {
    let mut words = [0; 33];
    for (place, word) in (0u64..).zip(words.iter_mut()) {
        *word = whose << 48 | place << 32 | round & 0xffff_ffff;
    }
    words[FLAGS] = round << 28 & FLAG_BITS;
    words
}
