//! The secure monitor (EL3): the only gate between the two worlds of a core (SG-1).
//!
//! It saves one world, loads the other and checks who called; everything with a decision in it is the payload's, at S-EL1. It runs with
//! all exceptions masked and has no stack, no loop, no lock, no parser and no allocator (SG-2), so nothing that a world does can
//! make it take longer. That is why it is assembly: a compiler would need a stack. What the assembly knows (offsets, constants, which
//! registers are switched) is written by `build.rs` from `core/world`.
//!
//! Two configurations of one source: this one, `dual`, for one core, and `multi` for one to four (`multi.rs`).
//!
//! - `gate.s`: reset, the vectors, and the ways between the worlds. The number of each way is that of SafeG's paper (SG-20 to SG-24).
//! - `cores.s`: what `multi` has besides.
#![cfg_attr(target_os = "none", no_std)]
#![cfg_attr(target_os = "none", no_main)]

#[cfg(target_os = "none")]
core::arch::global_asm!(include_str!(concat!(env!("OUT_DIR"), "/dual.s")), include_str!("gate.s"));

/// Rust asks for one. No Rust code is in the image, so nothing can panic, and the linker leaves this out.
#[cfg(target_os = "none")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

/// On the host there is nothing to run: `cargo test` and the tool read the program that was built for the target.
#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!("bulkhead-secure-monitor runs at EL3; `./x build` makes it for the target");
    std::process::exit(2);
}
