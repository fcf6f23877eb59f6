//! Policies about time, as pure code: the same code decides in the monitor, in the simulator and in the analyser.
//!
//! - [`budget`]: how a server's time is spent and comes back: sporadic, deferrable, polling, PIBS.
//! - [`server`]: what competes for a core: `{priority, budget, gate, payer, on_empty}`.
//! - [`dispatch`]: how one core chooses among servers: dedicated, fixed priority, round robin, under a time table.
//! - [`cyclic`]: the time table.
//! - [`quantum`]: the published interrupt policies of round robin, for the experiments.
//! - [`limiter`]: the limit of doorbells. It is not a budget: its amounts are events, and theirs are durations
//!   (`real-time.md` 5.3).
//! - [`kernel`]: how the core of the real-time kernel chooses, with servers that come and go.
//! - [`band`]: servers that the kernel makes at run time, in reserves that the host has counted.
//! - [`tcap`]: claims on the time of a server, which schedulers of the kernel hand on.
//! - [`drain`]: how much one doorbell makes a kernel read from the rings of others.
//! - [`sliding`]: the limit without a double hit, for one sender. [`latch`]: a notification held back is sent later, once.
//!
//! What knows the plans of the monitor is above, in `core/schedule`. This crate depends on the words of time alone.
//!
//! Integer time only, no allocation, no locks: everything here belongs to one core, except a limiter's word and latch.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::unreachable,
        clippy::unwrap_used
    )
)]

#[cfg(any(not(target_os = "none"), feature = "kernel"))]
pub mod band;
pub mod budget;
pub mod cyclic;
mod dates;
pub mod dispatch;
#[cfg(any(not(target_os = "none"), feature = "kernel"))]
pub mod drain;
#[cfg(any(not(target_os = "none"), feature = "kernel"))]
pub mod kernel;
pub mod latch;
pub mod limiter;
pub mod quantum;
mod ready;
pub mod server;
pub mod sliding;
#[cfg(any(not(target_os = "none"), feature = "kernel"))]
pub mod tcap;

/// A place in an array of `COUNT` entries, a power of two: one mask, and no check that could fail.
#[inline(always)]
const fn within<const COUNT: usize>(place: usize) -> usize {
    const { assert!(COUNT.is_power_of_two()) };
    place & COUNT.wrapping_sub(1)
}

/// The numbers of the bits that are set, from the lowest on: of a set that is one word. No shift by a number: the compiler could not
/// see that it is in range.
#[derive(Clone, Copy, Debug)]
pub struct Members(pub u64);

impl Members {
    /// Those of which something is true, as a set again.
    #[inline]
    pub fn those(self, what: impl Fn(u8) -> bool) -> u64 {
        self.filter(|number| what(*number)).fold(0, |set, number| set | 1u64.wrapping_shl(u32::from(number)))
    }
}

impl Iterator for Members {
    type Item = u8;

    #[inline]
    fn next(&mut self) -> Option<u8> {
        if self.0 == 0 {
            return None;
        }
        let number = self.0.trailing_zeros() as u8;
        self.0 &= self.0.wrapping_sub(1);
        Some(number)
    }
}
