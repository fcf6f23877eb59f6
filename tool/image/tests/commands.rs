//! The commands `build` and `inspect` on files.

use bulkhead_image::{BuildArguments, build};
use clap::Parser;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// As the program `bulkhead` wires it.
#[derive(Parser)]
struct CommandLine {
    #[command(flatten)]
    arguments: BuildArguments,
}

/// Makes an empty directory for one test.
fn directory(test: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

/// Runs `build` on the files of a directory.
fn run(directory: &Path, output: &str) -> ExitCode {
    run_words(directory, output, &[])
}

/// The same, with a disk.
fn run_with(directory: &Path, output: &str, disk: &str) -> ExitCode {
    run_words(directory, output, &["--disk".to_owned(), directory.join(disk).display().to_string()])
}

fn run_words(directory: &Path, output: &str, more: &[String]) -> ExitCode {
    let at = |name: &str| directory.join(name).display().to_string();
    let words =
        ["bulkhead", &at("system.toml"), "--monitor", &at("monitor"), "--output", &at(output)].map(String::from);
    let words = words.iter().chain(more);
    build(&CommandLine::try_parse_from(words).unwrap().arguments, &bulkhead_timing::Assumptions::default())
}

const SYSTEM: &str = r#"
version = 1
name = "small"
board = "qemu-virt"
memory = "256 MiB"

[[partition]]
name = "raw"
cores = [0]
memory = "2 MiB"
image = { kind = "raw", file = "raw.bin" }
"#;

/// Writes a system of one raw guest and an ELF monitor with one executable segment.
fn write_system(directory: &Path) {
    fs::write(directory.join("system.toml"), SYSTEM).unwrap();
    fs::write(directory.join("raw.bin"), [0x14_u8; 64]).unwrap();
    let mut file = vec![0; 64 + 56];
    file[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    file[16..20].copy_from_slice(&[2, 0, 183, 0]);
    file[20] = 1;
    file[24..32].copy_from_slice(&0x4020_0000_u64.to_le_bytes());
    file[32] = 64;
    file[52..58].copy_from_slice(&[64, 0, 56, 0, 1, 0]);
    file[64] = 1;
    file[68] = 5;
    for (offset, value) in [(72, 120), (80, 0x4020_0000), (88, 0x4020_0000), (96, 4096), (104, 4096), (112, 4096_u64)] {
        file[offset..offset + 8].copy_from_slice(&value.to_le_bytes());
    }
    file.extend(bulkhead_plan::samples::arm64_header(0));
    file.extend(bulkhead_abi::Part::Shared.mark());
    file.resize(120 + 4096, 0);
    fs::write(directory.join("monitor"), file).unwrap();
}

#[test]
fn build_writes_image_and_symbols_and_nothing_else() {
    let directory = directory("build_writes");
    write_system(&directory);
    assert_eq!(run(&directory, "small.img"), ExitCode::SUCCESS);
    let image = fs::read(directory.join("small.img")).unwrap();
    assert_eq!(&image[56..60], b"ARM\x64");
    assert_eq!(fs::read(directory.join("small.elf")).unwrap(), fs::read(directory.join("monitor")).unwrap());
    let mut names: Vec<_> = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["monitor", "raw.bin", "small.elf", "small.img", "system.toml"]);
}

#[test]
fn a_disk_is_written_beside_the_image() {
    let directory = directory("build_disk");
    write_system(&directory);
    assert_eq!(run_with(&directory, "small.img", "small.disk"), ExitCode::SUCCESS);
    let (image, disk) =
        (fs::read(directory.join("small.img")).unwrap(), fs::read(directory.join("small.disk")).unwrap());
    assert!(disk == bulkhead_image::disk::disk(&image).unwrap());
    // Neither file may take the other's place, and a device gets nothing.
    for (output, disk, code) in [("a.img", "a.img", 1), ("a.img", "a.elf", 1), ("a.img", "/dev/null", 3)] {
        assert_eq!(run_with(&directory, output, disk), ExitCode::from(code), "{output}, {disk}");
        assert!(!directory.join("a.img").exists() && !directory.join("a.elf").exists());
    }
}

#[test]
fn second_build_gives_the_same_file() {
    let directory = directory("build_twice");
    write_system(&directory);
    assert_eq!(run(&directory, "first.img"), ExitCode::SUCCESS);
    assert_eq!(run(&directory, "second.img"), ExitCode::SUCCESS);
    assert!(fs::read(directory.join("first.img")).unwrap() == fs::read(directory.join("second.img")).unwrap());
}

#[test]
fn missing_monitor_is_a_problem_of_the_environment() {
    let directory = directory("no_monitor");
    write_system(&directory);
    fs::remove_file(directory.join("monitor")).unwrap();
    assert_eq!(run(&directory, "small.img"), ExitCode::from(3));
    assert!(!directory.join("small.img").exists());
}

#[test]
fn image_is_not_written_over_its_symbols() {
    let directory = directory("same_name");
    write_system(&directory);
    assert_eq!(run(&directory, "small.elf"), ExitCode::from(1));
    assert!(!directory.join("small.elf").exists());
}

#[test]
fn refused_description_leaves_the_old_image() {
    let directory = directory("refused");
    write_system(&directory);
    assert_eq!(run(&directory, "small.img"), ExitCode::SUCCESS);
    let before = fs::read(directory.join("small.img")).unwrap();
    fs::write(directory.join("system.toml"), SYSTEM.replace("2 MiB", "512 MiB")).unwrap();
    assert_eq!(run(&directory, "small.img"), ExitCode::from(1));
    assert!(fs::read(directory.join("small.img")).unwrap() == before);
}
