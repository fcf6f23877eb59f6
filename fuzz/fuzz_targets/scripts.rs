//! Any device script, at a device that answers anything.
#![no_main]

#[path = "../../core/device/tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| support::scripts(bytes));
