//! `bulkhead report`: everything that is known of a system on one page, before and after a run.
//!
//! The page is one HTML file without a script, without a font, without anything from a network: it can be mailed, archived
//! beside an image and read in ten years. Figures are SVG inside it. It is written from a checked system, its image, the
//! verdict on the image's bytes, the computed bounds, and where they exist a trace and results of experiments; the same
//! input gives the same bytes.
//!
//! The rejected alternative, an interactive page, needs a script to be read at all, and a reader of evidence must be able
//! to see that nothing in it moves.
#![forbid(unsafe_code)]
// They end the program when the stream cannot be written; see `bulkhead_files::output`.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod axis;
mod bounds;
mod command;
mod evidence;
pub mod experiment;
mod experiments;
mod figure;
mod gantt;
mod html;
mod memory;
mod overview;
mod page;
mod plot;
mod table;
mod time;
pub mod timing;
mod traffic;
mod words;
mod worlds;

pub use command::{ReportArguments, report};
pub use page::{Evidence, Input, write};
pub use worlds::{WorldsInput, write_worlds};
