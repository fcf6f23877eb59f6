//! `bulkhead simulate`: the scheduler of shared cores, run on a scenario.
//!
//! A scenario says which cores are shared and what arrives at their vCPUs ([`bulkhead_description::scenario`]). The cores are
//! planned as for an image and translated by `bulkhead_schedule::plan`, as in the monitor; then [`core_run`] plays the guests: it
//! reports arrivals, completions and deadlines to the policy and follows its choices. Nothing here decides who runs.
//!
//! Or it is about an instance of the real-time kernel ([`instance`]): its servers as its image says, on the kernel's own scheduler, and the
//! bounds that `bulkhead check` prints beside what was seen.
//!
//! What a simulation leaves out: the time of switches and of the monitor. It shows what the rules give; what a machine gives is
//! shown by a run, and what is guaranteed by the analysis.
//!
//! Time is in ticks of the board's counter, as in the monitor, so that roundings are the product's. Events leave as a stream
//! ([`event::Sink`]), so that long simulations need no memory.
#![forbid(unsafe_code)]
// They end the program when the stream cannot be written; see `bulkhead_files::output`.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod arrivals;
pub mod command;
pub mod core_run;
pub mod event;
pub mod instance;
pub mod json;
pub mod simulation;
pub mod stage;
pub mod text;
pub mod timeline;

pub use command::{SimulateArguments, simulate};
pub use event::{Event, EventKind, Sink};
pub use instance::InstanceSimulation;
pub use simulation::{Limits, Simulation};
pub use stage::Stage;
