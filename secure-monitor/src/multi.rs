//! The secure monitor in the configuration `multi`: one to four cores, of which the boot core has the payload (SG-13).
//!
//! The same gate as `dual` (`main.rs`), and behind it what several cores need: kicks, watches, starts and ends.
#![cfg_attr(target_os = "none", no_std)]
#![cfg_attr(target_os = "none", no_main)]

#[cfg(target_os = "none")]
core::arch::global_asm!(
    include_str!(concat!(env!("OUT_DIR"), "/multi.s")),
    include_str!("gate.s"),
    include_str!("cores.s")
);

/// As in `dual`: nothing can panic.
#[cfg(target_os = "none")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

/// As in `dual`: on the host there is nothing to run.
#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!("bulkhead-secure-monitor-multi runs at EL3; `./x build` makes it for the target");
    std::process::exit(2);
}
