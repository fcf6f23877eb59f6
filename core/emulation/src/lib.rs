//! What the monitor answers when a guest touches something that is not simply mapped.
//!
//! Each module is one device or one call interface as a pure function of (plan, state, access). The monitor decodes an
//! exit with [`trap`], calls one of the others, and does what the returned value says; it keeps the only code that touches
//! registers. So every rule here runs as a host test and under a fuzzer, byte for byte as on the target.
//!
//! Rules of this crate: no allocation, no panic, no unbounded loop, no indexing; a hostile guest chooses every argument.
//! State that two vCPUs of one partition may touch at once consists of relaxed atomics and is valid when zeroed, so it
//! can live in the partition's shared page. No lock: each word is meaningful alone, and two vCPUs that race on a device
//! register see one of the two orders, as on real hardware.
//!
//! The rejected alternative, one `Device` trait with dynamic dispatch over a list, costs an indirect call on each exit
//! and hides from the compiler that a distributor read needs neither the console nor the PCI state.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::unreachable,
        clippy::unwrap_used
    )
)]

#[cfg(test)]
extern crate std;

pub mod gic;
#[cfg(not(target_os = "none"))]
pub mod own_registers;
pub mod pci;
pub mod pl011;
pub mod psci;
#[cfg(not(target_os = "none"))]
pub mod registers;
#[cfg(not(target_os = "none"))]
pub mod state;
pub mod sysreg;
pub mod trap;
#[cfg(feature = "devices")]
pub mod virtio;

#[cfg(test)]
#[path = "../tests/support/random.rs"]
mod testing;
