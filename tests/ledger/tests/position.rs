//! The monitor's bytes are the same at every load address, because nothing in them is an address and nothing can panic.

use bulkhead_ledger::repository;
use elf::ElfBytes;
use elf::endian::LittleEndian;
use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "aarch64-unknown-none-softfloat";
/// Parts and the features of `monitor/Cargo.toml` that make them.
const PARTS: [(&str, &str); 2] = [("own", ""), ("shared", "shared")];
/// Where the other links put it: beyond 4 GiB, so that half an address would show too.
const ELSEWHERE: u64 = 0x12_3456_7000;

/// What `./x build` made.
fn built(part: &str) -> Vec<u8> {
    let folder =
        std::env::var_os("BULKHEAD_MONITOR").map_or_else(|| repository().join("target/monitor"), PathBuf::from);
    let file = folder.join(format!("{part}.elf"));
    std::fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}; run ./x build first", file.display()))
}

/// Links a part for another address, in a folder of its own that later runs find again.
fn linked_elsewhere(folder: &Path, features: &str) -> Vec<u8> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args([
        "rustc",
        "--locked",
        "--quiet",
        "--profile",
        "bare",
        "--target",
        TARGET,
        "--package",
        "bulkhead-monitor",
    ]);
    cargo
        .args(["--bin", "bulkhead-monitor", "--no-default-features", "--features", features, "--target-dir"])
        .arg(folder);
    cargo.arg("--").arg(format!("-Clink-arg=--defsym=link_address={ELSEWHERE:#x}"));
    assert!(cargo.current_dir(repository()).status().expect("cargo runs").success());
    std::fs::read(folder.join(TARGET).join("bare/bulkhead-monitor")).expect("cargo made it")
}

fn first_address(file: &[u8]) -> u64 {
    ElfBytes::<LittleEndian>::minimal_parse(file).expect("an ELF file").ehdr.e_entry
}

#[test]
fn text_and_constants_are_the_same_bytes_at_every_address() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("elsewhere");
    for (part, features) in PARTS {
        let (here, there) = (built(part), linked_elsewhere(&folder, features));
        assert_eq!((first_address(&here), first_address(&there)), (0, ELSEWHERE), "{part}");
        let [here, there] = [here, there].map(|file| bulkhead_image::monitor::read(&file).expect("a monitor"));
        let differs = here.text.iter().zip(&there.text).position(|(one, other)| one != other);
        assert_eq!((differs, here.text.len()), (None, there.text.len()), "text of `{part}`: an address is in it");
        assert!(
            here.rodata == there.rodata,
            "constants of `{part}` hold an address: a panic's place, a table of functions?"
        );
    }
}

#[test]
fn no_code_that_panics_is_linked() {
    for (part, _) in PARTS {
        let file = built(part);
        let elf = ElfBytes::<LittleEndian>::minimal_parse(&file).expect("an ELF file");
        let (symbols, names) = elf.symbol_table().expect("sections").expect("symbols");
        let names: Vec<&str> = symbols.iter().filter_map(|symbol| names.get(symbol.st_name as usize).ok()).collect();
        assert!(names.contains(&"bulkhead_image_start"), "symbols are read");
        let panics: Vec<&&str> = names.iter().filter(|name| name.contains("panic")).collect();
        assert!(panics.is_empty(), "`{part}`: {panics:?}");
    }
}
