//! Puts the guest linker script on the linker's search path of every guest that depends on the SDK.
//!
//! A library cannot pass linker arguments to its dependants, but a search path it can; so each guest's own build script
//! is one line, `-Tbulkhead-guest.ld`.

use std::{env, fs, path::PathBuf};

fn main() {
    println!("cargo:rerun-if-changed=bulkhead-guest.ld");
    let output = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR for build scripts"));
    fs::copy("bulkhead-guest.ld", output.join("bulkhead-guest.ld"))
        .expect("sdk/bulkhead-guest.ld is readable and OUT_DIR is writable");
    println!("cargo:rustc-link-search={}", output.display());
}
