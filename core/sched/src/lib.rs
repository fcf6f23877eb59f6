//! Policies about time, as pure code: the same object code decides in the monitor, in the analyser and in the simulator.
//!
//! Today the crate holds the [`limiter`] of doorbells. Servers, schedules and admission join it as they are built; a
//! limiter is deliberately not one of them, because its amounts are events and theirs are durations (`real-time.md` 5.3).
#![no_std]
#![forbid(unsafe_code)]

pub mod limiter;
