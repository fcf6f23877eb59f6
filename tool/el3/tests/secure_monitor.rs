//! The secure monitor that was built, and copies of it with one thing changed.

use bulkhead_el3::configuration::Configuration;
use bulkhead_el3::instruction::{Instruction, read};
use bulkhead_el3::{Program, branches, promises};
use std::path::{Path, PathBuf};

fn built() -> Vec<u8> {
    configuration("dual")
}

fn configuration(name: &str) -> Vec<u8> {
    let usual = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/guests");
    let guests = std::env::var_os("BULKHEAD_GUESTS").map_or_else(usual, PathBuf::from);
    let file = guests.join(format!("../secure-monitor/{name}.elf"));
    std::fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}; run ./x build first", file.display()))
}

fn program(file: &[u8]) -> Program {
    Program::read(file).unwrap_or_else(|why| panic!("{why}"))
}

/// SG-2, SG-9, SG-10: no stack, no loop, no nesting, one length for each path, every register of the worlds in its word, sizes below their
/// ceilings; SG-15: a register of group 0 is skipped and nothing else happens; SG-25: an exception that cannot happen is written down, and
/// the core stops.
#[test]
fn the_program_holds_what_it_promises() {
    for name in ["dual", "multi"] {
        let program = program(&configuration(name));
        let known = promises::check(&program).unwrap_or_else(|wrong| panic!("{name}: {}", wrong.join("\n")));
        let expected = Configuration::of(&program);
        assert_eq!((expected.name, known.len()), (name, expected.paths.len()));
    }
}

/// SG-11: no branch is missing in the table, and none of the table in the binary.
#[test]
fn every_branch_is_in_the_table() {
    for name in ["dual", "multi"] {
        let program = program(&configuration(name));
        let listed = branches::listed(&program).unwrap_or_else(|wrong| panic!("{name}: {}", wrong.join("\n")));
        assert_eq!(listed.len(), Configuration::of(&program).branches.len());
    }
}

/// Every way that the reader follows at run time has a direction of each of its branches in the table.
#[test]
fn branches_of_ways_are_those_of_run_time() {
    for program in ["dual", "multi"].map(|name| program(&configuration(name))) {
        let listed = branches::listed(&program).expect("a table");
        for known in promises::check(&program).expect("a program") {
            for (at, _) in &known.way.decisions {
                assert!(listed.iter().any(|(found, branch)| found.address == *at && !branch.is_boot), "{at:#x}");
            }
        }
    }
}

/// The file with a word of a program changed.
fn changed(mut file: Vec<u8>, change: impl Fn(u64, u32, Option<Instruction>) -> Option<u32>) -> Vec<u8> {
    let original = program(&file);
    let text = original.text();
    let place = file.windows(text.len()).position(|window| window == text).expect("the text is in the file");
    let mut changes = 0;
    for (address, word) in original.instructions() {
        if let Some(other) = change(address, word, read(word, address)) {
            file[place + address as usize..][..4].copy_from_slice(&other.to_le_bytes());
            changes += 1;
        }
    }
    assert_eq!(changes, 1, "words changed");
    file
}

fn complaints(file: &[u8]) -> String {
    let program = program(file);
    let promises = promises::check(&program).err().unwrap_or_default();
    let branches = branches::listed(&program).err().unwrap_or_default();
    [promises, branches].concat().join("\n")
}

/// The address of a label of the built program, and of what stands `words` behind it.
fn behind(label: &str, words: u64) -> u64 {
    program(&built()).address(label).unwrap_or_else(|| panic!("there is no label {label}")) + 4 * words
}

const NOTHING: u32 = 0xd503_3fdf; // ISB
const SECURE_MONITOR_CALL: u32 = 0xd400_0003;
const EXCEPTION_RETURN: u32 = 0xd69f_03e0;

#[test]
fn one_changed_word_is_seen() {
    let at = |place: u64, word: u32| changed(built(), move |address, _, _| (address == place).then_some(word));
    let cases: [(&str, Vec<u8>, &str); 12] = [
        ("a branch more", at(behind("to_secure", 1), 0xb400_0040), "the table has no cbz"),
        ("a branch less", at(behind("slot 0x400", 3), NOTHING), "the binary has no cbnz, number 1 behind `slot 0x400`"),
        ("a branch elsewhere", at(behind("slot 0x400", 3), 0xb500_0060), "the table says otherwise"),
        ("a loop", at(behind("to_secure", 1), 0x17ff_ffff), "a loop at run time"),
        ("SMC", at(behind("skip", 0), SECURE_MONITOR_CALL), "is no instruction that it may have"),
        ("a second ERET", at(behind("skip", 0), EXCEPTION_RETURN), "ERET stands behind"),
        ("a push", at(behind("save_registers", 2), 0xa9bf_0be1), "otherwise than by whole words"),
        ("a register not saved", at(behind("save_registers", 0), NOTHING), "and should be ELR_EL3 as it was"),
        (
            "a register not loaded",
            at(behind("load_registers", 4), NOTHING),
            "ELR_EL1 is not written, and should be the word at SP_EL3",
        ),
        ("of the other world", at(behind("load_registers", 0), 0xa950_0be3), "path 4"),
        ("memory elsewhere", at(behind("skip", 1), 0xf940_03de), "memory is read that is no context"),
        // FIQ is not taken to EL3: movz x0, #0xf31.
        ("SCR_EL3.FIQ", at(behind("slot 0x400", 6), 0xd281_e620), "SCR_EL3 is written as"),
    ];
    for (what, file, expected) in cases {
        let found = complaints(&file);
        assert!(found.contains(expected), "{what}: {found}");
    }
}

/// The same of what `multi` has besides.
#[test]
fn one_changed_word_of_cores_is_seen() {
    let file = configuration("multi");
    let at = |label: &str, words: u64, word: u32| {
        let place = program(&file).address(label).unwrap_or_else(|| panic!("there is no label {label}")) + 4 * words;
        changed(file.clone(), move |address, _, _| (address == place).then_some(word))
    };
    let cases: [(&str, Vec<u8>, &str); 10] = [
        ("a kick of EL2 itself", at("group_0", 6, NOTHING), "the binary has no b.eq, number 0 behind `group_0`"),
        (
            "a kick elsewhere",
            at("group_0", 11, 0x9110_03de),
            "ELR_EL3 is VBAR_EL2 + 1024, and should be VBAR_EL2 + 1280",
        ),
        ("a watch that goes on", at("group_0", 1, NOTHING), "is not written, and should be 0x0"),
        ("a kick that is not masked", at("group_0", 13, 0xd280_013e), "SPSR_EL3 is 0x9, and should be 0x3c9"),
        ("a register not given back", at("answered", 2, NOTHING), "and should be x28 as it was"),
        ("a call that writes a register", at("calls", 8, 0xaa00_03e1), "x1 is x0 as it was"),
        // AND of seven, in place of three: lines that no core has.
        ("a line of no core", at("targets", 0, 0x9240_083e), "memory is read that is no context"),
        ("a request among the turns", at("targets", 38, 0xa900_fb7d), "writes to"),
        ("a world that begins with words of another", at("parked", 30, NOTHING), "the word at SP_EL3"),
        ("SCR_EL3.FIQ", at("parked", 36, 0xd281_e620), "SCR_EL3 is written as"),
    ];
    for (what, file, expected) in cases {
        let found = complaints(&file);
        assert!(found.contains(expected), "{what}: {found}");
    }
}

/// Growth in padding counts as well: it is one word more without padding.
#[test]
fn one_instruction_more_is_one_more() {
    let file = built();
    let size = program(&file).size();
    let last = program(&file).instructions().map(|(address, _)| address).take_while(|at| *at < 0x400).last();
    let hole = last.expect("an instruction") + 4;
    let text = program(&file).text().to_vec();
    let place = file.windows(text.len()).position(|window| window == text).expect("the text is in the file");
    let mut larger = file.clone();
    larger[place + hole as usize..][..4].copy_from_slice(&NOTHING.to_le_bytes());
    let grown = program(&larger).size();
    assert_eq!((grown.bytes, grown.instructions), (size.bytes, size.instructions + 1));
    assert_eq!(grown.unpadded_bytes(), size.unpadded_bytes() + 4);
}

/// Whatever a file holds, it is read or refused.
#[test]
fn no_changed_byte_makes_the_reader_panic() {
    let (mut read, mut tried) = (0, 0);
    for file in ["dual", "multi"].map(configuration) {
        // Seven divides no size of a header, a symbol or a word, so that each of their bytes has its turn.
        for place in (0..file.len()).step_by(7) {
            let mut damaged = file.clone();
            damaged[place] ^= 0xff;
            tried += 1;
            if let Ok(program) = Program::read(&damaged) {
                read += 1;
                let _ = (promises::check(&program), branches::listed(&program), program.size().padding_bytes());
            }
        }
    }
    assert!(read > tried / 2, "{read} of {tried} were read");
}

#[test]
fn what_is_no_program_at_0_is_refused() {
    assert!(Program::read(b"no ELF file").is_err());
    let mut elsewhere = built();
    // e_entry.
    elsewhere[0x18] = 4;
    assert_eq!(Program::read(&elsewhere).err().as_deref(), Some("it is no program of one page at address 0"));
}
