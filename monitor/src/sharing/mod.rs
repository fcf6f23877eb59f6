//! Shared cores: who runs next, and how one vCPU makes room for another.

pub mod decide;
pub mod exchange;
pub mod scheduler;
