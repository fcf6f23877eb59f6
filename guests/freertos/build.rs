//! Compiles the FreeRTOS guest with the cross compiler: kernel sources from the crate `freertos-next`, the rest from `guest/`.
//!
//! The guest counts as stock FreeRTOS only while no kernel file was touched. `kernel.sha256` lists what Amazon released as
//! V11.2.0; the build compares first, and compiles the very files it compared. cargo runs this script again when a source
//! changes, so the program around it (`src/main.rs`) only has to write the result.

use std::path::{Path, PathBuf};
use std::process::Command;

const COMPILER: &str = "aarch64-linux-gnu-gcc";
/// Of the kernel: all that a guest with tasks and queues needs, and the port for GICv3 with system registers.
const KERNEL_SOURCES: &[&str] = &[
    "list.c",
    "queue.c",
    "tasks.c",
    "portable/MemMang/heap_4.c",
    "portable/GCC/ARM_AARCH64_SRE/port.c",
    "portable/GCC/ARM_AARCH64_SRE/portASM.S",
];
const GUEST_SOURCES: &[&str] = &["start.S", "main.c", "board.c", "arguments.c", "memory.c"];

fn main() {
    let kernel = directory("DEP_FREERTOS_KERNEL");
    let package = directory("CARGO_MANIFEST_DIR");
    let output = directory("OUT_DIR").join("freertos.elf");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=guest");
    println!("cargo::rerun-if-changed=kernel.sha256");
    println!("cargo::rerun-if-changed={}", kernel.display());

    verify_untouched(&kernel, &package.join("kernel.sha256"));
    compile(&kernel, &package.join("guest"), &output);
}

fn directory(variable: &str) -> PathBuf {
    PathBuf::from(
        std::env::var_os(variable).unwrap_or_else(|| panic!("cargo does not set {variable}")),
    )
}

fn verify_untouched(kernel: &Path, sums: &Path) {
    let output = Command::new("sha256sum")
        .args(["--check", "--strict", "--quiet"])
        .arg(sums)
        .current_dir(kernel)
        .output();
    let output = output.unwrap_or_else(|why| panic!("cannot run sha256sum: {why}"));
    assert!(
        output.status.success(),
        "the FreeRTOS kernel in {} is not the released one; delete that directory and build again:\n{}{}",
        kernel.display(),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
}

fn compile(kernel: &Path, guest: &Path, output: &Path) {
    let mut command = Command::new(COMPILER);
    command
        // GUEST: the port runs at EL1 and yields by SVC; without it the port wants EL3.
        .args([
            "-DGUEST",
            "-std=gnu11",
            "-O2",
            "-g1",
            "-Wall",
            "-Wextra",
            "-Werror",
        ])
        // No C library, no FP registers (the port saves them only for tasks that ask), no position independence.
        .args([
            "-ffreestanding",
            "-nostdlib",
            "-static",
            "-fno-pie",
            "-no-pie",
            "-mgeneral-regs-only",
            "-mstrict-align",
        ])
        .args([
            "-fno-stack-protector",
            "-fno-asynchronous-unwind-tables",
            "-fno-tree-loop-distribute-patterns",
        ])
        .args([
            "-mcpu=cortex-a53",
            "-mno-outline-atomics",
            "-Wl,--build-id=none",
            "-Wl,--no-warn-rwx-segments",
        ])
        // The file must not depend on where it was built.
        .arg(format!(
            "-ffile-prefix-map={}=FreeRTOS-Kernel",
            kernel.display()
        ))
        .arg(format!("-ffile-prefix-map={}=guest", guest.display()))
        .arg(format!(
            "-ffile-prefix-map={}=.",
            guest.parent().unwrap_or(guest).display()
        ))
        .arg(format!("-T{}", guest.join("guest.ld").display()))
        .arg("-I")
        .arg(guest)
        // string.h and stdlib.h: the kernel includes them, a freestanding compiler has none.
        .arg("-I")
        .arg(guest.join("include"))
        // System directory: warnings in the kernel's headers are not ours to fix.
        .arg("-isystem")
        .arg(kernel.join("include"))
        .arg("-isystem")
        .arg(kernel.join("portable/GCC/ARM_AARCH64_SRE"));
    for source in KERNEL_SOURCES {
        command.arg(kernel.join(source));
    }
    for source in GUEST_SOURCES {
        command.arg(guest.join(source));
    }
    let status = command.arg("-o").arg(output).status();
    let status = status
        .unwrap_or_else(|why| panic!("cannot run {COMPILER}: {why}; `./x guests` installs it"));
    assert!(status.success(), "{COMPILER} failed: {status}");
}
