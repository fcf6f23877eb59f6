//! Attacks on the kernel from EL0, by number, with what they need: calls that the SDK has no function for, and every register on both sides of a call.
//!
//! The table of attacks and what is expected of each is `tests/hostile-kernel`.
#![no_std]

pub mod attacks;
pub mod kernel;
pub mod registers;
