//! Lines of privileged code of each part, counted by `tests/ledger`; do not edit: `BULKHEAD_BLESS=1 cargo test -p bulkhead-ledger`.

use bulkhead_abi::Part;

/// Code lines of a part: every item of ours that is compiled for it, after rustfmt with its defaults.
#[must_use]
pub const fn code_lines(part: Part) -> usize {
    match part {
        Part::Own => 6200,
        Part::Shared => 11474,
        Part::Hybrid => 6531,
        Part::Devices => 12822,
    }
}
