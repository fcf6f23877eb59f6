//! The harness of the system tests: builds a system in memory, starts it on QEMU, and drives guests of a few instructions.
//!
//! The scenarios are in `tests/scenarios`, one file each, in one test program: linking one program takes a fraction of the
//! time of linking fourteen. Every machine is behind a [`slot`], so that no more run at once than the host has cores for,
//! and every wait has a limit ([`LIMIT`]) that a passing test never reaches, on a busy host either.
#![forbid(unsafe_code)]

pub mod assemble;
pub mod attacked;
pub mod boards;
pub mod disk;
pub mod el3;
pub mod execute;
pub mod failing;
pub mod hybrid;
mod joined;
pub mod kernel;
pub mod largest;
pub mod messages;
pub mod remote;
pub mod secure;
pub mod servers;
pub mod share;
pub mod sharing;
pub mod siblings;
pub mod slot;
pub mod system;
pub mod timers;
pub mod wakes;
pub mod ways;

pub use remote::Remote;
pub use sharing::Description;
pub use system::{Running, System};

use std::time::Duration;

/// The longest a single wait may take. Generous, because the host may be busy; it only decides how a failure ends.
pub const LIMIT: Duration = Duration::from_secs(600);
