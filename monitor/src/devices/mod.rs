//! Devices that the monitor gives to guests: the console's input, PCI functions, and fronts of virtio.

mod console_input;
#[cfg(feature = "devices")]
pub mod fronts;
#[cfg(feature = "devices")]
pub mod functions;
