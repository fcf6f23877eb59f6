//! What a payload of the secure world links, in Rust or through `bulkhead_world.h` in C: the library of the secure world.
//!
//! Decisions are `bulkhead-world`'s, which runs as host tests; here are the registers and the C interface. Everything runs at S-EL1, on the
//! core of the payload. Design: `docs/specification/secure-world.md`, part 8.
#![cfg_attr(target_os = "none", no_std)]

#[cfg(target_os = "none")]
mod cell;
#[cfg(target_os = "none")]
pub mod cores;
#[cfg(target_os = "none")]
pub mod health;
#[cfg(target_os = "none")]
pub mod machine;
#[cfg(target_os = "none")]
mod memory;
#[cfg(target_os = "none")]
pub mod messages;
#[cfg(target_os = "none")]
pub mod partitions;
#[cfg(target_os = "none")]
pub mod records;
#[cfg(target_os = "none")]
pub mod servers;
#[cfg(target_os = "none")]
pub mod time;
#[cfg(target_os = "none")]
pub mod urgent;
#[cfg(target_os = "none")]
pub mod windows;
#[cfg(target_os = "none")]
mod wish;
