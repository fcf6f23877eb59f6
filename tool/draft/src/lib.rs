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

mod address;
mod board;
pub mod command;
mod controller;
mod cores;
mod devices;
mod error;
mod facts;
mod interrupt;
mod kinds;
mod memory;
mod text;
mod tree;

pub use error::{Looks, TreeError};
use tree::Tree;

/// A draft of a board file.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The text, with TODOs.
    pub text: String,
    /// The text with the value that tests write in the place of each TODO. It states nothing about the board: it shows that the rest
    /// of the file is well-formed, and what would be in the way if everything unknown were as the monitor wants it. `None` of a tree whose
    /// registers, windows and RAM leave no address for what it does not state.
    pub filled: Option<String>,
    /// Number of TODOs.
    pub todos: usize,
    /// What is missing in the tree, or contradicts itself.
    pub warnings: Vec<String>,
}

/// Makes a draft from a flattened device tree; `origin` says in the text which tree it is.
///
/// # Errors
/// When the bytes are no device tree of a machine.
pub fn draft(bytes: &[u8], origin: &str) -> Result<Draft, TreeError> {
    let tree = Tree::read(bytes)?;
    let facts = facts::gather(&tree)?;
    let (text, filled, todos) = board::write(&facts, origin).finish();
    Ok(Draft { text, filled, todos, warnings: facts.warnings() })
}
