//! Puts the monitor that was built into the tool, or nothing where there is none yet: a fresh clone must compile.
use std::path::PathBuf;

/// Where `./x` puts the monitor, below cargo's target directory.
const MONITOR_PATH: &str = "aarch64-unknown-none-softfloat/bare/bulkhead-monitor";

fn main() {
    println!("cargo::rerun-if-env-changed=BULKHEAD_MONITOR");
    println!("cargo::rerun-if-changed=build.rs");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    // target/PROFILE/build/PACKAGE/out
    let built = out.ancestors().nth(4).map(|target| target.join(MONITOR_PATH));
    let monitor = std::env::var_os("BULKHEAD_MONITOR").map(PathBuf::from).or(built).unwrap_or_default();
    println!("cargo::rerun-if-changed={}", monitor.display());
    // Cargo compiles again what contains the copy, but only if it has changed.
    let elf = std::fs::read(&monitor).unwrap_or_default();
    if let Err(error) = std::fs::write(out.join("monitor.elf"), elf) {
        println!("cargo::error=cannot copy {}: {error}", monitor.display());
    }
}
