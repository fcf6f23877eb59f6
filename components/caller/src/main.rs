//! Calls another component, which calls it back. The lowest byte of its argument says what it does; how often, or from which seed, is above.
#![no_std]
#![no_main]

mod count;
mod registers;

use bulkhead_component::{call, interface, mixed, println};

bulkhead_component::entry!(main);

/// What it calls.
mod callee {
    bulkhead_component::import! {
        /// The sum, and what the capability says.
        pub fn add(a, b);
        /// What this component makes of a value, twice.
        pub fn twice(value);
        /// Faults.
        pub fn fault();
        /// Runs over the end of its stack.
        pub fn overrun(stack_bytes);
        /// What a register was in `mirror`.
        pub fn seen(number);
        /// Part of a random tree of calls.
        pub fn down(levels, seed);
        /// Registers by hand.
        pub fn mirror(a, b, c, d, e, f, g, h);
        /// Returns the counter as it was at its entry.
        pub fn instant();
        /// This component itself.
        pub fn again(levels, seed);
    }
}

bulkhead_component::export! {
    /// One more.
    fn back(_token, value) {
        value.wrapping_add(1)
    }

    /// Part of a random tree of calls: the callee, itself, or one that is refused.
    fn up(token, levels, seed) {
        let one = match seed % 7 {
            0..=2 if levels > 0 => callee::down(levels - 1, mixed(seed, 3)),
            3 | 4 if levels > 0 => callee::again(levels - 1, mixed(seed, 4)),
            5 => interface::invoke(mixed(seed, 5) % 40, [seed, 1, 2, 3, 4, 5, 6, 7]).map(|words| words[0]),
            6 => callee::add(seed, levels),
            _ => Ok(token),
        };
        mixed(one.map_or_else(|code| code.number(), |value| value.rotate_left(16)), seed)
    }
}

/// What both do.
const SHOWS: u8 = 0;
/// What registers are on both sides.
const REGISTERS: u8 = 1;
/// Calls that fail.
const FAILS: u8 = 2;
/// Instructions.
const COUNTS: u8 = 3;
/// Random trees of calls.
const RANDOM: u8 = 4;

fn main(argument: u64) {
    let number = argument >> 8;
    match argument as u8 {
        SHOWS => {
            println!("2 + 3 = {:?}", callee::add(2, 3));
            println!("40 and 2 more: {:?}", callee::twice(40));
        }
        REGISTERS => registers::run(),
        FAILS => fail(),
        COUNTS => count::run(number),
        RANDOM => random(number),
        _ => println!("caller: {argument} is nothing that it does"),
    }
}

/// The callee faults, in two ways, more often than it has stacks; then it is called as if nothing had been.
fn fail() {
    for _ in 0..4 {
        println!("fault: {:?}, overrun: {:?}", callee::fault(), callee::overrun(4096));
    }
    println!("1 + 1 = {:?}", callee::add(1, 1));
}

/// What a hundred trees come to.
fn random(seed: u64) {
    let mut sum = 0;
    for number in 0..100 {
        sum = mixed(sum, up(0, 12, mixed(seed, number)));
    }
    println!("random {seed}: {sum:#x}");
    println!("{:?}", call::version().map(|version| version.abi));
}
