//! The bytes of the monitor's parts: the same at every load address, because nothing in them is an address and nothing can panic; and
//! in the parts that know no payload, the same as before there was one.

use bulkhead_ledger::repository;
use elf::ElfBytes;
use elf::endian::LittleEndian;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "aarch64-unknown-none-softfloat";
/// Parts and the features of `monitor/Cargo.toml` that make them.
const PARTS: [(&str, &str); 4] = [("own", ""), ("shared", "shared"), ("hybrid", "hybrid"), ("devices", "devices")];
/// SHA-256 of text and constants of the parts for systems without a payload, as they were at commit 8c400264, the last one before there
/// was a secure monitor. A commit that changes one names the defect that it mends in these parts, or what they can do that they
/// could not do before; work on systems with a payload alone changes none.
const BEFORE_PAYLOADS: [(&str, &str); 2] = [
    ("own", "e1011a7f983314053a95619fdb7c3014fcee0cb88fa2d8b0891853048de2cfa1"),
    ("shared", "94dfa36f6cb2ffed64a956d0744c0daaea67dfb56374d4697526509ddfb32c5c"),
];
/// What the names of all functions of the part `hybrid` alone have in common: rooms, mangled.
const OF_HYBRID: &str = "16bulkhead_monitor4gate";
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

/// The names of all symbols of a part.
fn symbols(part: &str) -> Vec<String> {
    let file = built(part);
    let elf = ElfBytes::<LittleEndian>::minimal_parse(&file).expect("an ELF file");
    let (symbols, names) = elf.symbol_table().expect("sections").expect("symbols");
    let names = symbols.iter().filter_map(|symbol| names.get(symbol.st_name as usize).ok());
    let names: Vec<String> = names.map(str::to_owned).collect();
    assert!(names.iter().any(|name| name == "bulkhead_image_start"), "symbols are read");
    names
}

#[test]
fn no_code_that_panics_is_linked() {
    for (part, _) in PARTS {
        let panics: Vec<String> = symbols(part).into_iter().filter(|name| name.contains("panic")).collect();
        assert!(panics.is_empty(), "`{part}`: {panics:?}");
    }
}

#[test]
fn parts_without_a_payload_hold_no_instruction_of_one() {
    for (part, _) in PARTS {
        let of_hybrid: Vec<String> = symbols(part).into_iter().filter(|name| name.contains(OF_HYBRID)).collect();
        assert_eq!(!of_hybrid.is_empty(), part == "hybrid", "`{part}`: {of_hybrid:?}");
    }
}

#[test]
fn parts_without_a_payload_are_what_they_were_before_there_was_one() {
    for (part, wanted) in BEFORE_PAYLOADS {
        let monitor = bulkhead_image::monitor::read(&built(part)).expect("a monitor");
        let hash = Sha256::new().chain_update(&monitor.text).chain_update(&monitor.rodata).finalize();
        let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hash, wanted, "text and constants of `{part}` changed: see `BEFORE_PAYLOADS`");
    }
}
