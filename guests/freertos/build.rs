//! Compiles the FreeRTOS guest with the cross compiler: kernel sources from the crate `freertos-next`, the rest from `guest/`.
//!
//! The guest counts as stock FreeRTOS only while no kernel file was touched. `kernel.sha256` lists what was released as
//! V11.2.0 (the tag of that name in FreeRTOS/FreeRTOS-Kernel); the build compares first, and compiles the very files it compared. cargo runs this script again when a source
//! changes, so the program around it (`src/main.rs`) only has to write the result.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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

/// Compiles one source at a time: the compiler's own temporary objects have random names, and the names of objects stay in
/// the symbol table, so two builds would differ.
fn compile(kernel: &Path, guest: &Path, output: &Path) {
    let sources =
        KERNEL_SOURCES.iter().map(|file| kernel.join(file)).chain(GUEST_SOURCES.iter().map(|file| guest.join(file)));
    let mut link = compiler(kernel, guest);
    link.args(["-nostdlib", "-static", "-no-pie", "-Wl,--build-id=none", "-Wl,-z,max-page-size=4096"]);
    link.arg("-T").arg(guest.join("guest.ld"));
    for source in sources {
        let name = source.file_name().unwrap_or_else(|| panic!("{} names no file", source.display()));
        let object = output.with_file_name(name).with_extension("o");
        run(compiler(kernel, guest).arg("-c").arg(&source).arg("-o").arg(&object));
        link.arg(object);
    }
    run(link.arg("-o").arg(output));
}

fn compiler(kernel: &Path, guest: &Path) -> Command {
    let mut command = Command::new(COMPILER);
    command
        // GUEST: the port runs at EL1 and yields by SVC; without it the port wants EL3.
        .args(["-DGUEST", "-std=gnu11", "-O2", "-g1", "-Wall", "-Wextra", "-Werror", "-mcpu=cortex-a53"])
        // No C library, no FP registers (the port saves them only for tasks that ask), no position independence.
        .args(["-ffreestanding", "-fno-pie", "-mgeneral-regs-only", "-mstrict-align", "-mno-outline-atomics"])
        .args(["-fno-stack-protector", "-fno-asynchronous-unwind-tables", "-fno-tree-loop-distribute-patterns"])
        // The file must not depend on where it was built.
        .arg(format!("-ffile-prefix-map={}=FreeRTOS-Kernel", kernel.display()))
        .arg(format!("-ffile-prefix-map={}=freertos", guest.parent().unwrap_or(guest).display()))
        .arg("-I")
        .arg(guest)
        // string.h and stdlib.h: the kernel includes them, a freestanding compiler has none.
        .arg("-I")
        .arg(guest.join("include"))
        // System directories: warnings in the kernel's headers are not ours to fix.
        .arg("-isystem")
        .arg(kernel.join("include"))
        .arg("-isystem")
        .arg(kernel.join("portable/GCC/ARM_AARCH64_SRE"));
    command
}

fn run(command: &mut Command) {
    let status =
        command.status().unwrap_or_else(|why| panic!("cannot run {COMPILER}: {why}; `./x guests` installs it"));
    assert!(status.success(), "{COMPILER} failed: {status}");
}
