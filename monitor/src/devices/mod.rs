//! Devices that the monitor gives to guests: the console's input, and PCI functions.

mod console_input;
#[cfg(feature = "devices")]
pub mod functions;
