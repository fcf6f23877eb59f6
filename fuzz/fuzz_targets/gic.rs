//! Any access to the GIC filter of any plan (A8, A10, A11, QV-13).
#![no_main]

#[path = "../../core/emulation/tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| support::targets::gic(bytes));
