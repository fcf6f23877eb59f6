//! README and book, typed as they stand.
//!
//! A page is a text with listings ([`page`]). Its commands run in one shell in a copy of the repository ([`shell`]), and what they
//! print is compared with what the page shows ([`pattern`]). Descriptions of systems that no command reads are checked by themselves
//! ([`fragment`]). The rules for authors are in the book, `docs/book/src/documentation.md`.
#![forbid(unsafe_code)]

pub mod fragment;
pub mod page;
pub mod pattern;
pub mod shell;

use std::path::{Path, PathBuf};

/// Where the pages of the book are, below the repository.
pub const BOOK: &str = "docs/book/src";

/// The repository that this crate lies in.
#[must_use]
pub fn repository() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    folder.ancestors().nth(2).unwrap_or(folder).to_path_buf()
}
