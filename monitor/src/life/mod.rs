//! The life of a partition: its start at boot, faults and what its health policy makes of them, stop, suspension
//! and restart; and the powers that these need.

pub mod boot;
pub mod health;
pub mod lifecycle;
pub mod manage;
pub mod powers;
