//! The EL2 monitor.
//!
//! One instance per core. A core runs one vCPU of one partition; everything it needs was decided on the host and is in its
//! [`VcpuPlan`](bulkhead_abi::plan::VcpuPlan) and [`PartitionPlan`](bulkhead_abi::plan::PartitionPlan). There is no lock, no
//! allocator, no parser and no page-table code. Cores of different partitions share only single-writer words (status and
//! manage pages) and doorbell limiters; cores of one partition share [`state::Shared`], where every word is atomic.
//!
//! The logic is generic over [`bulkhead_arch::Machine`], so all of it runs as host tests on the fake machine. The binary
//! (`main.rs`) only connects it to the vectors.
//!
//! | room | duty |
//! | --- | --- |
//! | [`exits`] | why a guest stopped: exhaustive match, emulated windows, hypercalls, PSCI |
//! | [`devices`] | console input of the partition in focus |
//! | [`interrupts`] | physical interrupts, list registers, and what waits for one |
//! | [`life`] | start, stop, restart, suspend; faults and policies, watchdog; the powers to route, stop and power off |
//! | [`sharing`] | shared cores: decision and exchange |
//! | `gate` | below a payload: kicks, watches, and filtered `direct` guests |
//! | [`core_state`] | what belongs to a core, whichever of its vCPUs is loaded |
//! | [`state`] | data of a vCPU, and of a partition |
//! | [`observe`] | counters, trace, console rings |
#![cfg_attr(target_os = "none", no_std)]
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

#[cfg(not(feature = "shared"))]
mod alone;
pub mod core_state;
pub mod devices;
pub mod exits;
#[cfg(feature = "hybrid")]
mod gate;
pub mod interrupts;
pub mod life;
#[cfg(not(feature = "hybrid"))]
mod no_gate;
pub mod observe;
#[cfg(feature = "shared")]
pub mod sharing;
pub mod state;
#[cfg(not(feature = "shared"))]
use alone as sharing;

#[cfg(test)]
mod tests;
