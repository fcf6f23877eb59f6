//! Runs a system on QEMU and watches it: the library behind `bulkhead run`, `attach`, `stats` and `trace`, and what the
//! tests, the demonstration and the benchmarks drive machines with.
//!
//! A [`Machine`] is a QEMU process with its RAM in a file that this process maps too. An [`Observer`] reads that RAM live:
//! counters, partition states, console and trace rings. So watching costs the guests nothing, needs no emulated device and
//! no cooperation. The rejected alternatives, a UART shared by everybody and QEMU's debug interfaces, disturb what is
//! measured.
//!
//! ```no_run
//! use bulkhead_run::{Machine, MachineOptions};
//! use std::time::Duration;
//!
//! # fn main() -> Result<(), bulkhead_run::RunError> {
//! let options = MachineOptions::for_image_file("system.img".as_ref())?;
//! let mut machine = Machine::start(options)?;
//! let line = machine.wait_for_prompt("linux", "login:", Duration::from_secs(60))?;
//! println!("{} after {} ticks", line.text, line.time_ticks);
//! # Ok(())
//! # }
//! ```
// They end the program when the stream cannot be written; see `bulkhead_files::output`.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod accounts;
mod child;
mod os;

pub mod command;
pub mod console;
mod console_server;
pub mod control;
pub mod diagnosis;
mod disks;
pub mod el3;
pub mod error;
pub mod focus;
pub mod functions;
pub mod image_file;
mod input;
pub mod instance;
mod joined;
pub mod line_log;
pub mod machine;
mod medium;
pub mod observer;
pub mod plugin;
pub mod qemu;
pub mod qmp;
pub mod ram;
mod reaction;
pub mod recorded;
pub mod refused;
mod serial;
pub mod source;
mod start;
mod tally;
pub mod trace;
mod uart;
pub mod worlds;

pub use console::{ConsoleReader, Line};
pub use diagnosis::CrashReport;
pub use disks::{DiskTrouble, DiskTroubleKind};
pub use error::{RunError, exit_code};
pub use image_file::ImagePlan;
pub use line_log::LineLog;
pub use machine::{End, Event, Machine, View};
pub use observer::{Observer, Phase};
pub use plugin::{CoreCounts, CountingOptions, Counts, Passages};
pub use qemu::{Boot, MachineOptions, QemuFacts};
pub use ram::Ram;
pub use source::Source;
