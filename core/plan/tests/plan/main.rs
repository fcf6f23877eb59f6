//! Tests of the planner through its public functions.

mod accepted;
mod device_tree;
mod functions;
mod layout;
mod loading;
#[path = "../../../sched/tests/support/random.rs"]
mod random;
mod refusals;
mod routes;
mod shared;
mod tables;
mod virtio;
