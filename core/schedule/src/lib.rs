//! A shared core as its plan describes it: what knows both the image's layouts (`core/abi`) and the policies (`core/sched`).
//!
//! - [`plan`]: from the bytes of a schedule plan to servers, a time table or a ring.
//! - [`posts`]: software-generated interrupts to a vCPU that shares its core.
//! - [`shared`]: a shared core as its interrupts see it: who is woken, what waits, until when.
//! - [`stolen_time`]: what a guest is told of the time that others had.
//!
//! It is a crate between the two and not part of either. The policies are checked against definitions and models that know
//! no image, and another kernel than the monitor can use them: they depend on `core/words` alone. The layouts are read by guests
//! and by the verifier, who have no business with policies. And it is not part of the monitor, because the simulator sets its
//! cores up from the same bytes with this very code: there is no second way from a description to what runs.
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

pub mod plan;
pub mod posts;
pub mod shared;
pub mod stolen_time;
