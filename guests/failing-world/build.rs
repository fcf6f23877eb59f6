//! Links the world by its own script: it runs at an address of non-secure memory, without translation.

fn main() {
    let directory = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    println!("cargo::rerun-if-changed=failing-world.ld");
    println!("cargo::rustc-link-arg-bins=-T{directory}/failing-world.ld");
}
