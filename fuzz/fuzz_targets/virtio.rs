//! Any access to the front of a virtio device.
#![no_main]

#[path = "../../core/emulation/tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| support::targets::virtio(bytes));
