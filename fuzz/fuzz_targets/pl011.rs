//! Any use of the virtual PL011.
#![no_main]

#[path = "../../core/emulation/tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| support::targets::pl011(bytes));
