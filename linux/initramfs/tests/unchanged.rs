//! What the Linux guests are made of: kernel, modules and busybox bit for bit as in Debian's packages, whose own sums `packages.sh` compares
//! and notes, beside the few files of this repository. Nothing of a guest is changed to make it one.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Files of this repository in an archive.
const OURS: [&str; 4] = ["init", "init-modes", "bin/bulkheadctl", "bin/kexec-image"];

fn guests() -> PathBuf {
    let usual = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/guests");
    std::env::var_os("BULKHEAD_GUESTS").map_or_else(usual, PathBuf::from).join("linux")
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|cause| panic!("{}: {cause}; `./x build` makes it", path.display()))
}

/// Runs a program with this input.
fn filter(program: &str, arguments: &[&str], input: Vec<u8>) -> Vec<u8> {
    let mut child =
        Command::new(program).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect(program);
    let mut to = child.stdin.take().expect("its input is a pipe");
    let writer = std::thread::spawn(move || to.write_all(&input));
    let output = child.wait_with_output().expect(program);
    writer.join().expect("the writer ends").expect(program);
    assert!(output.status.success(), "{program}");
    output.stdout
}

/// Regular files of a `newc` archive by their paths.
fn files(archive: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut at = 0;
    loop {
        let field = |number: usize| {
            let digits = &archive[at + 6 + 8 * number..][..8];
            usize::from_str_radix(std::str::from_utf8(digits).expect("digits"), 16).expect("digits")
        };
        assert_eq!(&archive[at..at + 6], b"070701");
        let (mode, bytes, name_bytes) = (field(1), field(6), field(11));
        let name = String::from_utf8(archive[at + 110..][..name_bytes - 1].to_vec()).expect("a name");
        let contents = (at + 110 + name_bytes).next_multiple_of(4);
        if name == "TRAILER!!!" {
            return files;
        }
        if mode & 0o170_000 == 0o100_000 {
            files.insert(name, archive[contents..][..bytes].to_vec());
        }
        at = (contents + bytes).next_multiple_of(4);
    }
}

/// MZ-1, SG-5: the list of touched files is empty.
#[test]
fn files_of_the_distribution_are_unchanged() {
    let sums = String::from_utf8(read(&guests().join("sums"))).expect("sums are text");
    let sums: BTreeMap<&str, &str> = sums
        .lines()
        .map(|line| line.split_once("  ").expect("a sum and a name"))
        .map(|(sum, name)| (name, sum))
        .collect();
    let (mut touched, mut seen) = (Vec::new(), BTreeSet::new());
    let mut judge = |name: &str, contents: Vec<u8>| {
        let sum = String::from_utf8(filter("md5sum", &[], contents)).expect("a sum is text");
        let sum = sum.split_whitespace().next().expect("a sum").to_owned();
        match sums.get_key_value(name) {
            Some((name, expected)) if *expected == sum => _ = seen.insert(*name),
            _ => touched.push(format!("{name}: {sum}, expected {:?}", sums.get(name))),
        }
    };
    judge("vmlinuz", read(&guests().join("Image")));
    for archive in ["initramfs.cpio.gz", "initramfs-devices.cpio.gz"] {
        let files = files(&filter("gzip", &["-dc"], read(&guests().join(archive))));
        assert!(files.contains_key("init") && files.contains_key("bin/busybox"), "{archive}");
        for (path, contents) in files.into_iter().filter(|(path, _)| !OURS.contains(&path.as_str())) {
            judge(path.strip_prefix("lib/modules/").or(path.strip_prefix("bin/")).unwrap_or(&path), contents);
        }
    }
    assert!(touched.is_empty(), "{touched:#?}");
    assert_eq!(seen, sums.keys().copied().collect(), "each file of the packages is in a guest");
}
