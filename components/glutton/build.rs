//! Links the component with the linker script of the SDK.

fn main() {
    println!("cargo:rustc-link-arg-bins=-Tcomponent.ld");
    println!("cargo:rustc-link-arg-bins=-zmax-page-size=4096");
}
