//! Scenarios on QEMU. Requirement ids (`QV-1`, `SG-60`, ...) are those of the project's requirements list.

mod crash;
mod device;
mod faults;
mod freertos;
mod hello;
mod linux;
mod manage;
mod repeat;
mod steady;
mod support;
mod watchdog;
