//! Connects the kernel's logic to the vectors. Everything here is target-only and unsafe by nature; it decides nothing.
#![cfg_attr(target_os = "none", no_std)]
#![cfg_attr(target_os = "none", no_main)]
#![cfg_attr(
    target_os = "none",
    deny(
        clippy::arithmetic_side_effects,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::unreachable,
        clippy::unwrap_used
    )
)]

#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!("bulkhead-kernel runs at EL1; build it for aarch64-unknown-none-softfloat (see ./x build)");
}

#[cfg(target_os = "none")]
mod entry;
