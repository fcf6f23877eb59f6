//! Tests of the planner through its public functions.

mod device_tree;
mod layout;
mod loading;
mod refusals;
mod routes;
mod tables;
