//! Links the guest with the SDK's linker script.

fn main() {
    println!("cargo:rustc-link-arg-bins=-Tbulkhead-guest.ld");
}
