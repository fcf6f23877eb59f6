//! Models of the experiments, independent of the code they judge.
//!
//! Each is a discrete-event model written from the seeds' text and from `real-time.md`, in nanoseconds, without a line of
//! `core/sched`: a mistake in the scheduler shows as a difference instead of being made twice. They know nothing of paths: a
//! switch takes no time, unless a cost is given. The rejected alternative, running the project's own simulator as the
//! reference, compares the scheduler with itself.

pub mod mips;
pub mod quest;
pub mod safeg;
pub mod spumone;
pub mod statistics;
pub mod storm;
