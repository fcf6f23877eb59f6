//! Compiles the FreeRTOS guest with the cross compiler: kernel sources from the crate `freertos-next`, the rest from `guest/`.
//!
//! The guest counts as stock FreeRTOS only while no kernel file was touched. `kernel.sha256` lists what was released as
//! V11.2.0 (the tag of that name in FreeRTOS/FreeRTOS-Kernel); the build compares first, and compiles the very files it compared. cargo runs this script again when a source
//! changes, so the program around it (`src/main.rs`) only has to write the result; or it compiles an application of yours with the same
//! kernel and board files.

#[path = "src/compile.rs"]
#[allow(dead_code, reason = "the program compiles payloads of the secure world with it too")]
mod compile;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn main() {
    let kernel = directory("DEP_FREERTOS_KERNEL");
    let package = directory("CARGO_MANIFEST_DIR");
    let output = directory("OUT_DIR").join("freertos.elf");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/compile.rs");
    println!("cargo::rerun-if-changed=guest");
    println!("cargo::rerun-if-changed=kernel.sha256");
    println!("cargo::rerun-if-changed={}", kernel.display());

    verify_untouched(&kernel, &package.join("kernel.sha256"));
    // For the program, which compiles other applications.
    println!("cargo::rustc-env=FREERTOS_KERNEL={}", kernel.display());
    let guest = package.join("guest");
    compile::compile(&kernel, &compile::Board::partition(&guest), &[guest.join("main.c")], &output)
        .unwrap_or_else(|why| panic!("{why}"));
}

fn directory(variable: &str) -> PathBuf {
    PathBuf::from(std::env::var_os(variable).unwrap_or_else(|| panic!("cargo does not set {variable}")))
}

fn verify_untouched(kernel: &Path, sums: &Path) {
    let sums = read(sums);
    for line in String::from_utf8_lossy(&sums).lines() {
        let (expected, file) = line.split_once("  ").unwrap_or_else(|| panic!("kernel.sha256: `{line}`"));
        let mut bytes = read(&kernel.join(file));
        // The crate packs the files with the other kind of line ends.
        bytes.retain(|byte| *byte != b'\r');
        assert!(
            sha256(&bytes) == expected,
            "{file} of the FreeRTOS kernel is not the released one; delete {} and build again",
            kernel.display(),
        );
    }
}

fn read(file: &Path) -> Vec<u8> {
    std::fs::read(file).unwrap_or_else(|why| panic!("cannot read {}: {why}", file.display()))
}

fn sha256(bytes: &[u8]) -> String {
    let cannot = |why| panic!("cannot run sha256sum: {why}");
    let mut child =
        Command::new("sha256sum").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap_or_else(cannot);
    // Dropped at the end of the statement: the program sees the end of its input. It prints nothing before that.
    child.stdin.take().expect("piped above").write_all(bytes).unwrap_or_else(|why| panic!("sha256sum: {why}"));
    let output = child.wait_with_output().unwrap_or_else(|why| panic!("sha256sum: {why}"));
    String::from_utf8_lossy(&output.stdout).split_whitespace().next().unwrap_or_default().to_owned()
}
