//! What a native guest of Bulkhead links.
//!
//! A guest built with this crate runs unchanged in a partition and on the bare QEMU `virt` board: it is entered at EL1 by
//! the arm64 boot protocol, finds out by itself whether Bulkhead is below it ([`information`]), and uses the same
//! interrupt controller, timer, power calls and text output in both. In steady state it makes no exit: output goes into a
//! ring in its own memory, the timer and its interrupt are the hardware's.
//!
//! ```text
//! #![no_std]
//! #![no_main]
//! bulkhead_sdk::entry!(main);
//!
//! fn main() {
//!     bulkhead_sdk::println!("hello from {}", bulkhead_sdk::information::name());
//! }
//! ```
//!
//! The guest's `build.rs` passes `-Tbulkhead-guest.ld`, the linker script of this crate.
//!
//! Modules without hardware ([`arguments`], [`device_tree`], [`ring`], [`syndrome`]) build everywhere and have host tests; the rest exists
//! on the bare-metal target only. The rejected alternative, the crates `aarch64-rt` and `arm-gic`, brings more code than a
//! guest of a few kilobytes has, and vectors that do not save every register.
#![no_std]

pub mod arguments;
pub mod device_tree;
pub mod ring;
pub mod syndrome;

#[cfg(target_os = "none")]
pub mod console;
#[cfg(target_os = "none")]
pub mod exception;
#[cfg(target_os = "none")]
pub mod hypercall;
#[cfg(target_os = "none")]
pub mod information;
#[cfg(target_os = "none")]
pub mod interrupt;
#[cfg(target_os = "none")]
mod memory;
#[cfg(target_os = "none")]
pub mod pool;
#[cfg(target_os = "none")]
pub mod port;
#[cfg(target_os = "none")]
pub mod psci;
#[cfg(any(test, target_os = "none"))]
mod psci_error;
#[cfg(target_os = "none")]
pub mod secondary;
#[cfg(target_os = "none")]
mod start;
#[cfg(target_os = "none")]
pub mod timer;

pub use bulkhead_abi as abi;
#[cfg(target_os = "none")]
pub use bulkhead_arch::el1::{cpu, mmio};
pub use bulkhead_arm as arm;
pub use bulkhead_channel as channel;
pub use bulkhead_guest_abi as guest_abi;
