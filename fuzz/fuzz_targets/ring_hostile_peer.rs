//! A port of either kind and either end under a peer that writes what it likes.
#![no_main]

#[path = "../../core/channel/tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| support::hostile::run(bytes));
