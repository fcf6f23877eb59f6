//! Servers that several tests describe, and the numbers that probes say about them.

use bulkhead_kernel_abi::NONE;
use bulkhead_kernel_abi::boot::ServerRow;
use bulkhead_words::{Rule, ServerFlag};

/// 1 ms at 62.5 MHz.
pub const MILLISECOND: u64 = 62_500;

/// A server without a budget, whose threads have turns of 1 ms.
#[must_use]
pub fn unlimited(level: u8) -> ServerRow {
    ServerRow { level, background: 255, holder: NONE, band: NONE, quantum_ticks: MILLISECOND, ..ServerRow::default() }
}

/// A sporadic server with a period of 10 ms.
#[must_use]
pub fn sporadic(level: u8, milliseconds: u64) -> ServerRow {
    ServerRow {
        rule: Rule::Sporadic.number(),
        flags: ServerFlag::DispatchAnchor.number(),
        budget_ticks: milliseconds * MILLISECOND,
        period_ticks: 10 * MILLISECOND,
        smallest_chunk_ticks: 1000,
        chunks: 8,
        ..unlimited(level)
    }
}

/// Numbers of the line that begins so, in their order.
///
/// # Panics
/// When there is no such line.
#[must_use]
pub fn numbers(lines: &[String], name: &str) -> Vec<u64> {
    let line = lines.iter().find_map(|line| line.strip_prefix(name));
    let line = line.unwrap_or_else(|| panic!("no {name:?} in {lines:?}"));
    line.split(|char: char| !char.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect()
}
