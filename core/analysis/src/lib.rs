//! Bounds in time, computed before boot (`real-time.md` sections 2 to 4).
//!
//! - [`core_bounds`]: one shared core as a whole: for every server the worst response, the most it takes from others and the
//!   least it gives its guest; for every vCPU what its servers give together.
//! - [`response`]: exact response-time analysis, the verdict. [`demand`]: what more important work takes meanwhile.
//! - [`supply`]: least service in any window of a length; [`table`]: the same for windows of a time table; [`guest`]: tasks
//!   inside a guest that gets such a supply.
//! - [`overhead`]: what of its charged time a guest does not get, because the monitor worked in it.
//! - [`envelope`]: most service in any window of a length.
//! - [`interrupt`], [`round_robin`], [`notification`]: latencies from an event to its handler.
//! - [`payload`]: tasks of the secure world and the servers among them.
//! - [`steps`]: how long each search may be, the same on every host. Beyond that the answer is that no bound was found.
//! - [`admission`]: quick tests, for information only. [`migration`]: what moving a server costs.
//! - [`costs`]: what a switch and an exit of the monitor cost, measured on this build.
//!
//! Every amount is a whole number of ticks; shares are exact fractions. What is taken is rounded up, what is given is rounded
//! down, and sums saturate: a number that does not fit is never a bound that is too good. No floating point anywhere: a
//! verdict must not depend on rounding (`real-time.md` UT-01 lies within a few thousandths of its limit).
//!
//! Rejected: an analysis inside the scheduler's crate. The monitor would carry code that only the host needs, and the tests that
//! compare both would compare a crate with itself.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod admission;
mod arithmetic;
mod blackout;
mod contention;
pub mod core_bounds;
pub mod core_model;
pub mod costs;
pub mod demand;
pub mod envelope;
pub mod guest;
pub mod interrupt;
mod line;
pub mod migration;
mod natural;
pub mod notification;
pub mod overhead;
pub mod payload;
mod preemption;
pub mod ratio;
pub mod response;
pub mod round_robin;
mod rule;
mod search;
pub mod steps;
pub mod supply;
pub mod table;
