//! Links the target binary by `kernel.ld`.
fn main() {
    println!("cargo::rerun-if-changed=kernel.ld");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("none") {
        let directory = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
        println!("cargo::rustc-link-arg-bins=-T{directory}/kernel.ld");
        println!("cargo::rustc-link-arg-bins=-zmax-page-size=4096");
    }
}
