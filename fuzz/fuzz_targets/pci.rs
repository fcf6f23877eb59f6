//! Any access to the virtual PCI bus.
#![no_main]

#[path = "../../core/emulation/tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| support::targets::pci(bytes));
