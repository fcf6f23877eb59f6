//! Scenarios on QEMU. Requirement ids (`QV-1`, `SG-60`, ...) are those of the project's requirements list.

mod boot;
mod bulkheadctl;
mod channels;
mod console;
mod counting;
mod crash;
mod device;
mod faults;
mod freertos;
mod hello;
mod hostile;
mod isolation;
mod linux;
mod manage;
mod pair;
mod repeat;
mod steady;
mod support;
mod watchdog;
