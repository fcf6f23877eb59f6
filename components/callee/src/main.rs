//! A component that others call: it adds, calls its caller back, and does on purpose what a callee must not. It has no thread of its own.
#![no_std]
#![no_main]

mod registers;

use bulkhead_component::{call, mixed};

bulkhead_component::entry!(main);

fn main(_argument: u64) {}

/// What it calls.
mod others {
    bulkhead_component::import! {
        /// Of the component that calls this one.
        pub fn back(value);
        /// One of both, at random.
        pub fn up(levels, seed);
        /// This component itself.
        pub fn again(levels, seed);
    }
}

bulkhead_component::export! {
    /// The sum, and what the caller's capability says of it.
    fn add(token, a, b) {
        a.wrapping_add(b).wrapping_add(token)
    }

    /// What its caller makes of a value, twice.
    fn twice(_token, value) {
        let one = others::back(value).unwrap_or(0);
        others::back(one).unwrap_or(0)
    }

    /// An instruction that there is not: the caller gets `Faulted`.
    fn fault(_token) {
        // SAFETY: an exception that the kernel takes; it does not come back.
        unsafe { core::arch::asm!("udf #0", options(noreturn)) }
    }

    /// Stores to the page below its stack, which is empty.
    fn overrun(_token, stack_bytes) {
        let here = core::ptr::from_ref(&stack_bytes) as usize;
        let below = (here & !(stack_bytes as usize - 1)) - 8;
        // SAFETY: none: the page is not there, and the store must not come back.
        unsafe { core::ptr::with_exposed_provenance_mut::<u64>(below).write_volatile(0) };
        0
    }

    /// Register `number` as it was when `mirror` was entered.
    fn seen(_token, number) {
        registers::seen(number)
    }

    /// Part of a random tree of calls; see the caller.
    fn down(token, levels, seed) {
        let one = match seed % 5 {
            0 => call::version().map(|version| version.abi),
            1 | 2 if levels > 0 => others::up(levels - 1, mixed(seed, 1)),
            3 if levels > 0 => others::again(levels - 1, mixed(seed, 2)),
            4 if seed % 35 == 4 => return fault(token),
            _ => Ok(token),
        };
        mixed(one.map_or_else(|code| code.number(), |value| value.rotate_left(8)), seed)
    }
}
