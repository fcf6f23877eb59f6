//! ChaosRT's library half: a scheduler in user space that the tasks of one subsystem share (`kernel.md` 6 and 9; CH-3, CH-30 to CH-38, CH-63).
//!
//! The kernel has no queue of a scheduler's threads. Here they are: fixed priorities, round robin among equals, tasks that block, wake each
//! other, sleep and yield, memory in blocks, and notifications with a limit. Tasks enter by Call; the scheduler's own thread runs only for
//! events. Nothing here touches a register: the kernel is a trait ([`Kernel`]), so every rule runs as a host test on the kernel's own objects.
//!
//! - `tasks`: who may run, and who is best. `lock`: the word that guards it. `rt`: what tasks call. `scheduler`: the scheduler's thread.
//! - `notify`: limited notifications, and receivers that poll. `memory`: blocks of one size.
//!
//! ## One word guards the state
//!
//! A task may lose the core between any two instructions, to one that the kernel lets in (rule N2). So the state is guarded by one word,
//! {owner, contended}. Who finds it taken marks it contended and switches to the owner, with a number as good as its own, so that nobody in between
//! delays both; the owner, when it leaves a contended word, lets the best one run. Nobody spins, and nobody sleeps. A task may be ended inside: the scheduler's thread is told of
//! its end and takes the word over (`lock`), and what was left half done is put right ([`Tasks::put_right`]).
//!
//! ## Decisions and their age
//!
//! Who decides reads the token first, then the state, and gives the token to `switch`; the kernel refuses it (`Stale`) when an event came in
//! between. Only the scheduler's thread can take events. So who is refused gives the core to that thread, which no token is needed for, and decides again
//! when it runs again. A task that returns from any function here has seen, after its last switch, that it is the best one.
//!
//! Rejected: to leave the word taken over `switch`, which saves a second look at the state; every task that runs would have to release what another one
//! took, and a task that ends would keep it for ever.
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

mod kernel;
mod lock;
mod memory;
mod notify;
mod rt;
mod scheduler;
mod tasks;

pub use kernel::{Event, Kernel, Who};
pub use lock::{Lock, Word};
pub use memory::{Block, Blocks};
pub use notify::{DEFAULT_MAXIMUM, DEFAULT_WINDOW_US, Limit, Poll, Record, Sent, release_due};
pub use rt::{Guarded, Rt};
pub use scheduler::Scheduler;
pub use tasks::{Chosen, MOST_TASKS, PRIORITIES, Task, Tasks};
