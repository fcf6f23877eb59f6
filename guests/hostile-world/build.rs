//! Links the world by its own script: it runs at an address of non-secure memory, at the level that the flash file says.

fn main() {
    let directory = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    println!("cargo::rerun-if-changed=hostile-world.ld");
    println!("cargo::rustc-link-arg-bins=-T{directory}/hostile-world.ld");
}
