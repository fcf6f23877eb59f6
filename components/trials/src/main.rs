//! What the experiments of the real-time kernel run beside the components of systems: who is asked and who watches. A thread's argument says what it
//! does (bits 7:0) and how much of it (from bit 8 on). Nothing is printed before what is measured: consoles differ.
#![no_std]
#![no_main]

mod requests;

use bulkhead_component::println;

bulkhead_component::entry!(main);

bulkhead_component::slots! {
    /// Where its interrupt is signalled.
    told;
    /// The interrupt.
    line;
}

/// Serves this many requests.
const SERVES: u8 = 1;
/// Watches how long the thread that serves is at it.
const WATCHES: u8 = 2;

/// 1 ms at 62.5 MHz.
const MILLISECOND: u64 = 62_500;

fn main(argument: u64) {
    let much = argument >> 8;
    match argument as u8 {
        SERVES => requests::serve(much),
        WATCHES => requests::watch(),
        other => println!("trials: {other} is nothing that it does"),
    }
}
