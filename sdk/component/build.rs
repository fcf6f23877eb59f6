//! Puts the linker script of components on the linker's search path of every program that depends on this crate.
//!
//! A library cannot pass linker arguments to its dependants, but a search path it can; so each program's own build script is one line,
//! `-Tcomponent.ld`.

use std::{env, fs, path::PathBuf};

fn main() {
    println!("cargo:rerun-if-changed=component.ld");
    let output = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR for build scripts"));
    fs::copy("component.ld", output.join("component.ld")).expect("component.ld is readable and OUT_DIR is writable");
    println!("cargo:rustc-link-search={}", output.display());
}
