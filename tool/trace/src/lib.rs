//! What happened on the cores, and when: trace rings become a [`Timeline`], a timeline becomes a Perfetto trace or numbers.
//!
//! ```text
//! ring in RAM ── ring ──► TraceRecord ── decode ──┐                ┌── perfetto::write ──► *.perfetto-trace ──► the UI
//!                                                 ├──► Timeline ───┤                           │
//! bulkhead simulate ──────────────────────────────┘                └── measure ──► worst cases │
//!                                  ▲                                                           │
//!                                  └───────────────────── perfetto::read ◄─────────────────────┘
//! ```
//!
//! The timeline is the middle because the monitor and the simulator are two sources of the same facts: a reader of
//! a schedule must not see which one it was. Times in it are nanoseconds since boot.
//!
//! There is one file form. A `.perfetto-trace` holds what the Perfetto UI shows, and beside it, in fields that the UI
//! passes over, the events themselves, so that `bulkhead report` reads the same file. The rejected alternative, a second
//! form for programs, would be a second thing to keep, to name and to lose.
#![forbid(unsafe_code)]
// They end the program when the stream cannot be written; see `bulkhead_files::output`.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod decode;
pub mod intervals;
pub mod layout;
pub mod measure;
pub mod perfetto;
pub mod ring;
pub mod text;
pub mod timeline;
pub mod words;

pub use intervals::{Interval, Intervals};
pub use layout::{ChannelLayout, CoreLayout, Layout, ServerLayout, SlotLayout};
pub use measure::{Measurements, ServerMeasure, SlotMeasure};
pub use timeline::{Event, EventKind, Run, Timeline};
