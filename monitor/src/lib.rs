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
//! | module | duty |
//! | --- | --- |
//! | [`state`] | data of a core and of a partition |
//! | [`observe`] | counters, trace, console rings |
//! | [`exit`] | synchronous exits: exhaustive match |
//! | [`access`] | emulated windows |
//! | [`call`] | hypercalls, PSCI |
//! | [`interrupt`] | physical interrupts, list registers |
//! | `noted` | interrupts in list registers or waiting for one, until they are taken away |
//! | [`lifecycle`] | start, stop, restart, suspend |
//! | [`health`] | faults and policies, watchdog |
//! | [`input`] | console input of the partition in focus |
#![cfg_attr(target_os = "none", no_std)]
#![forbid(unsafe_code)]

pub mod access;
pub mod boot;
pub mod call;
pub mod decide;
pub mod exchange;
mod exit;
pub mod health;
pub mod input;
pub mod interrupt;
pub mod lifecycle;
mod noted;
pub mod observe;
pub mod scheduler;
pub mod state;
#[cfg(test)]
mod tests;
