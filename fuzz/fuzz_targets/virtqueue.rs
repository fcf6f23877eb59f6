//! A back end of virtio under a front that writes what it likes, when it likes.
#![no_main]

#[path = "../../core/virtqueue/tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| support::hostile::run(bytes));
