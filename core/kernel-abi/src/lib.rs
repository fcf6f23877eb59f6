//! Bytes and numbers that the kernel, its components and the host agree on (`kernel.md` 1, 2, 8 and 10).
//!
//! - [`call`]: the calls, their operations, registers, answers and bounds, in one table from which the reference is made.
//! - [`code`]: what a call answers.
//! - [`capability`]: a capability's 16 bytes, its kinds and rights.
//! - [`boot`]: the tables that the host writes and the kernel casts.
//! - [`image`]: where these tables, components and translation tables lie in an instance.
//! - [`accounts`]: what an instance records for those that watch it: the page of accounts, and records of faults.
//!
//! The host writes, the kernel reads, and `bulkhead verify` reads again: these types are all that they share. So every number
//! is here once, every layout is `repr(C)` without padding (`zerocopy` refuses to derive `IntoBytes` otherwise), and sizes are
//! asserted where a type is defined, because assembly takes offsets from them.
//!
//! Boot tables are spans of rows, each an offset and a count in the header, and not arrays of the largest size as the
//! monitor's plan has them: with 64 capability tables of 256 slots these would be 256 KiB in an instance of two components.
//! The price is one check per span at boot ([`boot::Tables::read`]); behind it there are slices and no offsets.
//!
//! Linked at EL1 and on the host, never at EL2. It depends on no other crate of ours: words of time are numbers here, and
//! who reads them asks `core/words`.
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

pub mod accounts;
pub mod boot;
pub mod call;
pub mod capability;
pub mod code;
pub mod console;
pub mod image;
mod numbers;
pub mod trace;

pub use capability::{Capability, Kind};
pub use code::Code;

/// Counts up with any change of calls, codes, layouts or boot tables. A component carries the version it was built for.
pub const KERNEL_ABI_VERSION: u32 = 6;

/// Most components of an instance, processes among them.
pub const MAX_COMPONENTS: usize = 64;
/// Most threads: a set of them is one word.
pub const MAX_THREADS: usize = 64;
/// Most servers: a set of them is one word.
pub const MAX_SERVERS: usize = 64;
/// Most bands.
pub const MAX_BANDS: usize = 8;
/// Most schedulers.
pub const MAX_SCHEDULERS: usize = 15;
/// Most levels of schedulers, each the parent of the next.
pub const MAX_SCHEDULER_DEPTH: usize = 8;
/// Most temporal capabilities.
pub const MAX_TCAPS: usize = 64;
/// Most end points.
pub const MAX_END_POINTS: usize = 128;
/// Most interrupts that are bound to end points.
pub const MAX_BINDINGS: usize = 32;
/// Most interrupts that are held at once, their drivers being at work (measured, `kernel.md` 6: each makes others dearer).
pub const MAX_HELD: usize = 4;
/// Most devices whose registers components have.
pub const MAX_DEVICES: usize = 32;
/// Most wires to and from other instances.
pub const MAX_WIRES: usize = 8;
/// Most exports of a wire.
pub const MAX_EXPORTS: usize = 64;
/// Most regions of memory.
pub const MAX_REGIONS: usize = 64;
/// Most pages of a region that was made at run time: one page says which they are.
pub const MAX_REGION_PAGES: u32 = 512;
/// Most quotas: one for each component.
pub const MAX_QUOTAS: usize = MAX_COMPONENTS;
/// Most pages of a pool.
pub const MAX_POOL_PAGES: usize = 1024;
/// Most programs of which processes are made.
pub const MAX_PROGRAMS: usize = 16;
/// Most segments of a program.
pub const MAX_SEGMENTS: usize = 8;
/// Capability slots of a process.
pub const PROCESS_SLOTS: usize = 64;
/// The slot in which a process that was spawned has its own quota; those that it was given follow.
pub const PROCESS_QUOTA_SLOT: u64 = 1;
/// Most calls that a thread is inside at once.
pub const MAX_FRAMES: usize = 8;
/// Bytes of the place of a thread's floating-point registers: v0 to v31, FPCR, FPSR, a word that says whose they are, and one of zero.
pub const FLOATING_POINT_BYTES: usize = 544;
/// Most stacks for callers of a component: the free ones are one word.
pub const MAX_STACKS: usize = 64;
/// Most words of a temporal capability's vector (CH-50).
pub const MAX_VECTOR: usize = 16;
/// Bytes that one `print` takes at most: those of seven registers.
pub const PRINT_BYTES: usize = 56;
/// No object: where the number of one may be missing.
pub const NONE: u16 = u16::MAX;
/// An amount of time without end: of a temporal capability, and as `ticks` of a call (`kernel.md` 4).
pub const ALL_TICKS: u64 = u64::MAX;
