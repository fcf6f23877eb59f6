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
/// What lies between the kernel and the machine. The application is linked behind the first source.
#[derive(Clone, Debug)]
pub(crate) struct Board {
    /// Folders of headers and sources, by their names in messages and debug information.
    pub folders: Vec<(PathBuf, &'static str)>,
    /// Entry and vectors.
    pub start: PathBuf,
    /// The rest.
    pub sources: Vec<PathBuf>,
    /// Linker script.
    pub script: PathBuf,
    /// A static library behind all objects.
    pub library: Option<PathBuf>,
}

impl Board {
    /// A partition, or the bare board: the files in this folder.
    pub(crate) fn partition(guest: &Path) -> Self {
        Self {
            folders: vec![(guest.to_path_buf(), "freertos/guest"), (guest.join("include"), "freertos/guest/include")],
            start: guest.join("start.S"),
            sources: ["board.c", "arguments.c", "memory.c"].map(|file| guest.join(file)).to_vec(),
            script: guest.join("guest.ld"),
            library: None,
        }
    }

    /// The secure world: the files in `world`, what is the same everywhere in `guest`, and the library of the secure world.
    pub(crate) fn secure(guest: &Path, world: &Path, library: &Path) -> Self {
        let files = world.join("freertos");
        Self {
            folders: vec![
                (files.clone(), "world/freertos"),
                (world.to_path_buf(), "world"),
                (guest.join("include"), "freertos/guest/include"),
            ],
            start: files.join("start.S"),
            sources: vec![
                files.join("board.c"),
                files.join("health.c"),
                files.join("messages.c"),
                files.join("partitions.c"),
                files.join("overrun.c"),
                files.join("trace.c"),
                files.join("world.c"),
                guest.join("memory.c"),
            ],
            script: files.join("payload.ld"),
            library: Some(library.to_path_buf()),
        }
    }
}

/// Compiles one source at a time: the compiler's own temporary objects have random names, and the names of objects stay in
/// the symbol table, so two builds would differ. The objects are left beside `output`.
pub(crate) fn compile(kernel: &Path, board: &Board, application: &[PathBuf], output: &Path) -> Result<(), String> {
    let sources = KERNEL_SOURCES.iter().map(|file| kernel.join(file)).chain([board.start.clone()]);
    let sources = sources.chain(application.iter().cloned()).chain(board.sources.iter().cloned());
    let mut link = compiler(kernel, board);
    link.args(["-nostdlib", "-static", "-no-pie", "-Wl,--build-id=none", "-Wl,-z,max-page-size=4096"]);
    link.arg("-T").arg(&board.script);
    for source in sources {
        let name = source.file_name().ok_or_else(|| format!("{} names no file", source.display()))?;
        let object = output.with_file_name(name).with_extension("o");
        run(compiler(kernel, board).arg("-c").arg(&source).arg("-o").arg(&object))?;
        link.arg(object);
    }
    if let Some(library) = &board.library {
        // Of the library and of the kernel only what is called.
        link.arg("-Wl,--gc-sections").arg(library);
    }
    run(link.arg("-o").arg(output))
}

fn compiler(kernel: &Path, board: &Board) -> Command {
    let mut command = Command::new(COMPILER);
    command
        // GUEST: the port runs at EL1 and yields by SVC; without it the port wants EL3.
        .args(["-DGUEST", "-std=gnu11", "-O2", "-g1", "-Wall", "-Wextra", "-Werror", "-mcpu=cortex-a53"])
        // No C library, no FP registers (the port saves them only for tasks that ask), no position independence.
        .args(["-ffreestanding", "-fno-pie", "-mgeneral-regs-only", "-mstrict-align", "-mno-outline-atomics"])
        .args(["-fno-stack-protector", "-fno-asynchronous-unwind-tables", "-fno-tree-loop-distribute-patterns"])
        // The file must not depend on where it was built.
        .arg(format!("-ffile-prefix-map={}=FreeRTOS-Kernel", kernel.display()))
        .args(std::env::current_dir().map(|here| format!("-ffile-prefix-map={}=freertos", here.display())));
    for (folder, name) in &board.folders {
        command.arg(format!("-ffile-prefix-map={}={name}", folder.display()));
        // The board's headers, and string.h and stdlib.h: the kernel includes them, a freestanding compiler has none.
        command.arg("-I").arg(folder);
    }
    command
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
