//! Asks another component for a sum. Whose function it is, the description of the instance says.
#![no_std]
#![no_main]

use bulkhead_component::println;

bulkhead_component::entry!(main);

bulkhead_component::import! {
    /// The sum of two numbers.
    fn sum(first, second);
}

fn main(argument: u64) {
    for number in 1..=3 {
        println!("{number} + {argument} = {:?}", sum(number, argument));
    }
}
