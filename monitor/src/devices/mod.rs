//! Devices that the monitor gives to guests: the console's input.

mod console_input;
