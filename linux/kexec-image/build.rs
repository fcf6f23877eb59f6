//! Strips the program for Linux guests: it goes into an initramfs. Other builds keep their symbols for debugging.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is_guest = std::env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|environment| environment == "musl");
    if is_guest {
        println!("cargo::rustc-link-arg-bins=--strip-all");
    }
}
