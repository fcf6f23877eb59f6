//! Compiles a FreeRTOS guest: kernel, board files, and an application.

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
/// Between the kernel and the board. The application is linked behind the first.
const BOARD_SOURCES: (&str, &[&str]) = ("start.S", &["board.c", "arguments.c", "memory.c"]);

/// Compiles one source at a time: the compiler's own temporary objects have random names, and the names of objects stay in
/// the symbol table, so two builds would differ. The objects are left beside `output`.
pub(crate) fn compile(kernel: &Path, guest: &Path, application: &[PathBuf], output: &Path) -> Result<(), String> {
    let (start, board) = BOARD_SOURCES;
    let sources = KERNEL_SOURCES.iter().map(|file| kernel.join(file)).chain([guest.join(start)]);
    let sources = sources.chain(application.iter().cloned()).chain(board.iter().map(|file| guest.join(file)));
    let mut link = compiler(kernel, guest);
    link.args(["-nostdlib", "-static", "-no-pie", "-Wl,--build-id=none", "-Wl,-z,max-page-size=4096"]);
    link.arg("-T").arg(guest.join("guest.ld"));
    for source in sources {
        let name = source.file_name().ok_or_else(|| format!("{} names no file", source.display()))?;
        let object = output.with_file_name(name).with_extension("o");
        run(compiler(kernel, guest).arg("-c").arg(&source).arg("-o").arg(&object))?;
        link.arg(object);
    }
    run(link.arg("-o").arg(output))
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

fn run(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|why| format!("cannot run {COMPILER}: {why}; `./x guests` installs it"))?;
    if status.success() { Ok(()) } else { Err(format!("{COMPILER} failed: {status}; its messages are above")) }
}
