//! The secure monitor, read as bytes: what runs at EL3, and not what its source says.
//!
//! The program has no loop, no stack and five ways through it, so that a reader of a few hundred lines can follow every way from a
//! vector to its end and say what each register holds there (SG-2, SG-9). It knows the few instructions that the program is made of and
//! refuses all others: an SMC, an indirect branch or an access to other memory cannot hide among words that are not looked at.
//!
//! - [`program`]: the ELF file as words, labels and sizes (SG-10).
//! - [`instruction`]: what a word does.
//! - [`ways`]: every way from a vector to its end, with the state that it leaves.
//! - [`branches`]: the table of conditional branches, each with what takes either direction (SG-11).
//! - [`configuration`]: what differs between the configurations `dual` and `multi`, with the tables of the latter.
//! - [`promises`]: what is compared with the table, the lists of `core/world` and the design.
//!
//! Rejected: a disassembler's text, which differs between versions, and an emulation of the words, which shows the values of one run.
#![forbid(unsafe_code)]

pub mod branches;
pub mod configuration;
pub mod instruction;
pub mod program;
pub mod promises;
pub mod registers;
pub mod ways;

pub use program::Program;
