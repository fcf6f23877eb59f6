//! Adds for others. It has no thread of its own: a caller brings its own along.
#![no_std]
#![no_main]

bulkhead_component::entry!(main);

fn main(_argument: u64) {}

bulkhead_component::export! {
    /// The sum of two numbers.
    fn add(_token, first, second) {
        first.wrapping_add(second)
    }
}
