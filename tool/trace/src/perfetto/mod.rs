//! Timelines as Perfetto traces, for the Perfetto UI and for `bulkhead report`.
//!
//! Tracks, from the top: one per core (who runs), its interrupts, the budgets of its servers; then one per partition with
//! its states, and below it one per vCPU (runs or waits). Flows lead from an interrupt that waited to the slice in which
//! its owner handled it, and from a doorbell to the interrupt that it made at the receiver.
//!
//! The messages are declared by hand ([`message`]): about ten of Perfetto's several hundred are needed, and a generator at
//! build time would need a program that is not there. A test reads the files with Google's own decoder instead.

mod flows;
pub mod message;
mod read;
mod record;
mod tracks;
mod write;

pub use read::{ReadError, read};
pub use write::write;

/// How the names of trace files end.
pub const FILE_EXTENSION: &str = "perfetto-trace";
