//! Any syndrome and any call (QV-13).
#![no_main]

#[path = "../../core/emulation/tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| support::targets::trap(bytes));
