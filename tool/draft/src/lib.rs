//! Drafts of board files, made from device trees.
//!
//! A device tree is what boot loaders and Linux describe a machine with, so it is the first thing that somebody with a new board has. It
//! says more than a board file needs in some places and less in others: nothing of exception levels, security states or list
//! registers. What it says is written down with the node that it comes from, and what it does not say is a TODO that
//! `bulkhead board check` refuses, never a guess.
//!
//! A tree comes from a boot loader, from a vendor's archive, or from somebody who wants to see the tool fail. [`tree`] reads it without
//! panic, recursion or going back, and everything above works from a budget ([`address::Budget`]), counted in cells and not in
//! time: a tree that leads in circles is refused after as many steps on every host.
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

mod error;
mod address;
mod controller;
mod cores;
mod interrupt;
mod memory;
mod devices;
mod facts;
mod kinds;
mod tree;

pub use error::{Looks, TreeError};
