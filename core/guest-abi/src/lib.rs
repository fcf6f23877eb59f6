//! What guests see: addresses, the information page and the layout of channels.
//!
//! Planner, verifier, guests and tools agree on these bytes; EL2 neither reads nor writes them, since the monitor maps channel memory
//! and information pages as the plan says and never looks inside. Hence apart from `bulkhead_abi`, of which a reader of the
//! trusted code has to read all.
#![no_std]
#![forbid(unsafe_code)]

pub mod channel;
pub mod guest;

use bulkhead_abi::{NAME_BYTES, Name};

/// Returns the text of a name field up to its first zero byte, or `"?"` when it is not UTF-8.
#[must_use]
pub fn name_text(name: &Name) -> &str {
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    core::str::from_utf8(name.split_at(end).0).unwrap_or("?")
}

/// Makes a name field from text; text longer than 31 bytes is cut (the description checker refuses it before).
#[must_use]
pub fn name_from(text: &str) -> Name {
    let mut name = [0; NAME_BYTES];
    for (slot, byte) in name.iter_mut().take(NAME_BYTES - 1).zip(text.bytes()) {
        *slot = byte;
    }
    name
}
