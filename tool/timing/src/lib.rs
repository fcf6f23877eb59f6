//! Does the time of every shared core suffice? Bounds before boot, diagnostics with places, suggestions.
//!
//! [`cores`] turns a checked system into the models of `core/analysis`, in the ticks that the monitor will count: it reads
//! the same [`bulkhead_abi::schedule::SchedulePlan`] that goes into the image, so that what is analysed is what runs.
//! [`bounds`] computes every bound; `report` and `bench` use it, too. `check` says what is refused and what is doubtful
//! (`real-time.md` 4.5); [`suggest`] looks for budgets that fit; [`command`] is `bulkhead check`.
//!
//! What the monitor itself takes comes from [`bulkhead_analysis::costs`], in instructions of this build; how long an
//! instruction takes is an [`assumption`] that every output prints.
//!
//! [`Assumptions`] is the [`bulkhead_description::Check`] without which no description is loaded, so that `build` and `run` refuse what
//! `check` refuses.
#![forbid(unsafe_code)]
// They end the program when the stream cannot be written; see `bulkhead_files::output`.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod assumption;
pub mod bounds;
mod check;
mod clock;
pub mod command;
pub mod cores;
mod guest_tasks;
pub mod json;
pub mod payload;
pub mod propose;
pub mod quick;
mod rule;
pub mod suggest;
pub mod text;

pub use assumption::Assumptions;
pub use bounds::{Bounds, bounds};
