//! Prints, asks for the kernel's version, and does one thing that its argument names: most are forbidden to a component, and the thread ends there.
#![no_std]
#![no_main]

mod attacks;
mod given;
mod lives;
mod server;
mod text;
mod timer;

use bulkhead_component::{KERNEL_ABI_VERSION, call, println};

bulkhead_component::entry!(main);

fn main(argument: u64) {
    if argument >= lives::FIRST {
        return lives::run();
    }
    if argument >= text::FIRST {
        return text::run(argument);
    }
    if argument >= given::FIRST {
        return given::run();
    }
    if argument >= server::FIRST {
        // Nothing is printed before what is measured: consoles differ.
        return server::run(argument);
    }
    match call::version() {
        Ok(version) if version.abi == u64::from(KERNEL_ABI_VERSION) => {
            println!("component {argument}: ABI version {}, counter {} Hz", version.abi, version.counter_hz);
        }
        other => println!("component {argument}: {other:?}"),
    }
    match argument {
        0 => {}
        timer::FIRST.. => timer::run(argument),
        _ => {
            attacks::run(argument);
            println!("component {argument}: still here");
        }
    }
}
