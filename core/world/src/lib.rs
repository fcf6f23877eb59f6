//! Two worlds on one core: what the secure monitor at EL3, the library that its payload links, and the host tool agree on.
//!
//! The secure monitor holds no decision: it saves, loads and checks who called. The non-secure world's context is a structure
//! in secure RAM that the payload reads and writes, so whatever can be decided is decided at S-EL1, by code that runs as host tests
//! here. Design: `docs/specification/secure-world.md`.
//!
//! - [`calls`]: what the non-secure world may ask for, and what it is answered (SG-14, SG-31, SG-32).
//! - [`context`]: what is switched (SG-9), as a struct, as offsets and as the list that the monitor's instructions are made of.
//! - [`control`]: values of the registers that EL3 owns, and of those that a restart of the non-secure world resets.
//! - [`cores`]: several cores, and what EL3 keeps of each (SG-13).
//! - [`flash`]: the head of the flash file from which both worlds start.
//! - [`handover`]: urgent interrupts of the non-secure world while it does not run (SG-44, SG-85).
//! - [`health`]: states of the non-secure world, what is a fault, and what follows (SG-60, SG-61).
//! - [`interrupts`]: which world an interrupt belongs to, as writes to the interrupt controller (SG-6, SG-7).
//! - [`overrun`]: overrun handlers and deferrable accounts of tasks (SG-42, SG-43).
//! - [`pool`]: messages between the worlds in blocks of a fixed size (SG-70 to SG-72).
//! - [`records`]: what a payload tells of its time, on the secure console.
//! - [`restart`]: a start of the non-secure world, in short steps (SG-62).
//! - [`servers`]: which tasks of the payload may run the non-secure world (SG-41, SG-80).
//! - [`windows`]: windows of time for servers, and what disturbs them (SG-50 to SG-52).
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

pub mod calls;
pub mod context;
pub mod control;
pub mod cores;
pub mod flash;
pub mod handover;
pub mod health;
pub mod interrupts;
pub mod overrun;
pub mod pool;
pub mod records;
pub mod restart;
pub mod servers;
pub mod windows;
