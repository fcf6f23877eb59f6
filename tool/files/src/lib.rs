//! How the tool reads and writes. Every command goes through here, so that they all behave alike:
//!
//! - [`read`]: what is read is a regular file of a limited size. A device or a pipe could be endless, and a file of
//!   many gigabytes is no description, whatever is in it.
//! - [`write`]: what is written appears whole or not at all, all files of a command together; a link leads to its target, and a
//!   device is written through.
//! - [`table`]: tables fit a terminal.
//! - [`output`]: an error of the output stream is an error of the command, except that a reader who went away is none.
#![forbid(unsafe_code)]

pub mod output;
pub mod read;
pub mod table;
pub mod write;

pub use output::Output;
