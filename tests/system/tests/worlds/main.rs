//! Two worlds on one core, on QEMU: the secure monitor, stock FreeRTOS above it, and what may run below.

mod alone;
mod branches;
mod cores;
mod described;
mod health;
mod hostile;
mod hybrid;
mod input;
mod linux;
mod messages;
mod messengers;
mod records;
mod registers;
mod servers;
mod stopped;
mod timers;
mod untrusted;
mod watched;
mod windows;
