//! Any bytes as a device tree of which a draft of a board file is made.
#![no_main]

#[path = "../../tool/draft/tests/support/attack.rs"]
mod attack;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    attack::device_tree(bytes);
});
