//! The kernel's objects and its calls, as pure code (`kernel.md` 1 to 6; CH-8, CH-10, CH-60, CH-61, CH-63, CH-64).
//!
//! This is their data, in layouts for a fast path in assembly: a component of 128 bytes whose free stacks are its first word, frames of 32
//! bytes in the thread; and what they need of the outside, as two narrow traits.
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

mod component;
mod counters;
mod thread;
mod world;

pub use component::{Component, ComponentState, OnFault};
pub use counters::{Counters, Links, Queue, WORN};
pub use thread::{Event, Frame, NEVER, Registers, Thread, ThreadState, event};
pub use world::{Machine, Time, World};
