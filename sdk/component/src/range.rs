//! What a component counted, in the one line that `./x bench` and the tests read.

use crate::println;

/// Smallest, largest and sum of what was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Fewest; `u64::MAX` of nothing.
    pub least: u64,
    /// Most.
    pub most: u64,
    sum: u64,
    times: u64,
}

impl Range {
    /// Nothing yet.
    pub const EMPTY: Self = Self { least: u64::MAX, most: 0, sum: 0, times: 0 };

    /// Adds one.
    pub fn add(&mut self, one: u64) {
        let Self { least, most, sum, times } = *self;
        *self = Self { least: least.min(one), most: most.max(one), sum: sum.wrapping_add(one), times: times + 1 };
    }

    /// Prints `bench NAME min=A max=B sum=C n=D`.
    pub fn print(&self, name: &str) {
        let Self { least, most, sum, times } = self;
        println!("bench {name} min={least} max={most} sum={sum} n={times}");
    }
}
