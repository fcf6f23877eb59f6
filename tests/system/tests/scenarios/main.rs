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
mod shared_budgets;
mod shared_hostile;
mod shared_lifecycle;
mod shared_registers;
mod shared_schedules;
mod shared_storms;
mod shared_wakeups;
mod steady;
mod support;
mod watchdog;
