//! From a resolved system to a plan: memory layout, interrupt routes, translation tables as data.
//!
//! Pure and without unsafe; allocates, so it runs on the host only (principle 1: decide on the host).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod model;
