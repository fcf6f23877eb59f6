//! What the monitor does to PCI functions and to the SMMU in front of memory, as pure code (`devices.md` sections 3 and 4).
//!
//! [`script`] obeys lists of register accesses that the host decided: at boot, and before the memory of a partition that stops is
//! touched. [`events`] reads what the SMMU says about DMA that it refused. Both reach the machine by a trait of their own, so that
//! every rule runs as a host test and under a fuzzer, and `bulkhead verify` executes the same steps on a model of the registers.
//!
//! Rules of this crate: no allocation, no panic, no unbounded loop, no indexing. What a function answers is chosen by its owner.
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

pub mod events;
pub mod script;
