//! Puts the parts of the monitor that were built into the tool, or nothing where there are none yet: a fresh clone must compile.
use std::path::PathBuf;

/// What `./x` builds, below cargo's target directory, and the name of its copy.
const FILES: [(&str, &str); 8] = [
    ("monitor/own.elf", "own.elf"),
    ("monitor/shared.elf", "shared.elf"),
    ("monitor/hybrid.elf", "hybrid.elf"),
    ("monitor/devices.elf", "devices.elf"),
    ("secure-monitor/dual.elf", "dual.elf"),
    ("secure-monitor/multi.elf", "multi.elf"),
    ("guests/kernel/kernel.elf", "kernel.elf"),
    ("guests/kernel/traced.elf", "traced.elf"),
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    // target/PROFILE/build/PACKAGE/out
    let target = out.ancestors().nth(4).unwrap_or(&out);
    for (built, name) in FILES {
        let part = target.join(built);
        println!("cargo::rerun-if-changed={}", part.display());
        // Cargo compiles again what contains the copy, but only if it has changed.
        let elf = std::fs::read(&part).unwrap_or_default();
        if let Err(error) = std::fs::write(out.join(name), elf) {
            println!("cargo::error=cannot copy {}: {error}", part.display());
        }
    }
}
