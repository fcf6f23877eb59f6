//! From a resolved system to a plan: memory layout, interrupt routes, translation tables as data.
//!
//! [`plan`] takes a checked [`model::System`] and the monitor's bytes and returns every byte of the boot image, with
//! the layout that it decided. Nothing here reads a file or the clock, so the same input gives the same bytes.
//!
//! The steps are: check what the layouts can hold ([`limits`]), give out spare interrupts ([`interrupts`]), decide what
//! each channel end looks like ([`channels`]), write guest device trees ([`device_tree`]) and images ([`loading`]), lay
//! out memory ([`layout`]), make translation tables ([`maps`], [`tables`]), and fill the structures of
//! `core/abi` and `core/guest-abi` (`emit`). What shared cores need is in [`schedule`].
//!
//! The size of the tables depends on addresses and the addresses depend on the size of the tables. The planner repeats
//! layout and tables until both agree, which takes two or three rounds. The rejected alternative, tables at the far end
//! of memory, would make the file as large as the RAM or put tables where boot code must copy them to.
//!
//! Pure and without unsafe; allocates, so it runs on the host only (principle 1: decide on the host).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod channels;
pub mod checksum;
pub mod device_tree;
pub mod devices;
mod emit;
pub mod error;
pub mod fronts;
mod information;
pub mod interrupts;
pub mod layout;
pub mod limits;
pub mod loading;
pub mod maps;
pub mod model;
mod planner;
mod rule;
#[cfg(feature = "samples")]
pub mod samples;
pub mod schedule;
pub mod sharing;
pub mod tables;
pub mod ticks;

/// Narrows a count or an index; every one was checked against limits far below 32 bits ([`limits`]).
pub(crate) fn narrow(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

pub use error::PlanError;
pub use layout::{Area, AreaKind};
pub use planner::{MonitorImage, Plan, PlannedPartition, part_of, plan};
