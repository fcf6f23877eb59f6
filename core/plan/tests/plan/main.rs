//! Tests of the planner through its public functions.

mod accepted;
mod device_tree;
mod layout;
mod loading;
mod refusals;
mod routes;
mod shared;
mod tables;
