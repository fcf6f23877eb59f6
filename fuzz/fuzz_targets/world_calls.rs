//! Any call of a non-secure world (SG-32).
#![no_main]

#[path = "../../core/world/tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| support::calls::run(bytes));
