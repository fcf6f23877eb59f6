//! Files that are no files, outputs that cannot be written (A15 of docs/base-findings.md): every command answers, with an error and its exit code.

use bulkhead_abi::{PART_OFFSET, Part};
use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const GOOD: &str = include_str!("support/good.toml");

/// Exit code for what the machine cannot give.
const ENVIRONMENT: Option<i32> = Some(3);

/// Makes an empty directory with a description, its guest and a monitor; each test has its own.
fn directory(name: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("files-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).expect("a directory can be made");
    fs::write(directory.join("tiny.bin"), b"sixteen bytes...").expect("a guest can be written");
    fs::write(directory.join("system.toml"), GOOD).expect("a description can be written");
    fs::write(directory.join("monitor.elf"), monitor()).expect("a monitor can be written");
    directory
}

/// The smallest ELF file that is a monitor: one page of text that begins with an arm64 Image header.
fn monitor() -> Vec<u8> {
    let load: u64 = 0x4020_0000;
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    let words: [(u64, usize); 13] = [
        (2, 2),
        (183, 2),
        (1, 4),
        (load, 8),
        (64, 8),
        (0, 8),
        (0, 4),
        (64, 2),
        (56, 2),
        (1, 2),
        (64, 2),
        (0, 2),
        (0, 2),
    ];
    let segment = [(1, 4), (5, 4), (4096, 8), (load, 8), (load, 8), (4096, 8), (4096, 8), (4096, 8)];
    for (value, bytes) in words.into_iter().chain(segment) {
        file.extend_from_slice(&value.to_le_bytes()[..bytes]);
    }
    file.resize(8192, 0);
    file[4096 + 56..4096 + 60].copy_from_slice(b"ARM\x64");
    file[4096 + PART_OFFSET..][..8].copy_from_slice(&Part::Shared.mark());
    file
}

fn command(arguments: &[&str], directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bulkhead"));
    command.args(arguments).current_dir(directory).env_remove("BULKHEAD_GUESTS").env("BULKHEAD_MONITOR", "monitor.elf");
    command.stdin(Stdio::null());
    command
}

fn bulkhead(arguments: &[&str], directory: &Path) -> Output {
    command(arguments, directory).output().expect("the command can be started")
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().expect("mkfifo can be started").success());
}

/// Makes a file of 3 GiB that takes no space.
fn huge(path: &Path) {
    File::create(path).and_then(|file| file.set_len(3 << 30)).expect("a sparse file can be made");
}

#[test]
fn what_is_read_is_a_regular_file_with_a_limit() {
    let directory = directory("read");
    pipe(&directory.join("pipe"));
    huge(&directory.join("huge"));
    fs::write(directory.join("board.toml"), GOOD.replace("qemu-virt", "B.toml")).expect("written");
    fs::write(directory.join("guest.toml"), GOOD.replace("tiny.bin", "G")).expect("written");
    for (odd, reason) in [
        ("/dev/zero", "a device or a pipe"),
        ("pipe", "a device or a pipe"),
        ("huge", "it has 3221225472 bytes, and a"),
    ] {
        let _ = fs::remove_file(directory.join("B.toml"));
        let _ = fs::remove_file(directory.join("G"));
        symlink(odd, directory.join("B.toml")).and_then(|()| symlink(odd, directory.join("G"))).expect("links");
        for arguments in [
            &["check", odd][..],
            &["check", "board.toml"],
            &["check", "guest.toml"],
            &["build", odd],
            &["build", ".", "--monitor", odd],
            &["inspect", odd],
            &["verify", odd],
            &["verify", "tiny.bin", "--monitor", odd],
            &["simulate", odd],
            &["run", odd],
            &["report", ".", "--trace", odd],
            &["trace", "--text", "--file", odd],
            &["trace", "--ram", "tiny.bin", "--image", odd],
        ] {
            let output = bulkhead(arguments, &directory);
            let (code, text) = (output.status.code(), errors(&output));
            // A guest file is a matter of the description, as a missing one is.
            assert!(
                code == ENVIRONMENT || arguments[1] == "guest.toml" && code == Some(1),
                "{arguments:?}: {code:?}: {text}"
            );
            assert!(text.contains(reason), "{arguments:?}: {text}");
        }
    }
}

/// Commands with an output, of every kind that needs no machine.
const TALKING: [&[&str]; 13] = [
    &["--help"],
    &["--version"],
    &["check", "--help"],
    &["check", "."],
    &["check", ".", "--format", "json"],
    &["build", ".", "-o", "said.img"],
    &["inspect", "."],
    &["inspect", ".", "--format", "json"],
    &["explain"],
    &["explain", "BH0101"],
    &["schema"],
    &["simulate", concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/scenarios/storm.toml")],
    // What `build` above has made.
    &["verify", "said.img", "--monitor", "monitor.elf"],
];

#[test]
fn a_full_device_is_an_error_of_every_command() {
    let directory = directory("full");
    for arguments in TALKING {
        let full = File::options().write(true).open("/dev/full").expect("there is /dev/full");
        let output = command(arguments, &directory).stdout(full).output().expect("the command can be started");
        let text = errors(&output);
        assert_eq!(output.status.code(), ENVIRONMENT, "{arguments:?}: {text}");
        assert!(text.contains("cannot write to the output stream: No space left"), "{arguments:?}: {text}");
    }
}

#[test]
fn a_reader_that_went_away_is_none() {
    let directory = directory("gone");
    for arguments in TALKING {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = command(arguments, &directory).stdout(writer).output().expect("the command can be started");
        assert_eq!((output.status.code(), errors(&output).as_str()), (Some(0), ""), "{arguments:?}");
    }
}

/// Nobody can be told that the error stream is full; the exit code still says what happened.
#[test]
fn a_full_error_stream_keeps_the_exit_code() {
    let directory = directory("mute");
    let directions: [(&[&str], i32); 4] =
        [(&["check", "no-such.toml"], 3), (&["explain", "BH9999"], 2), (&["check"], 2), (&["verify", "tiny.bin"], 1)];
    for (arguments, code) in directions {
        let full = File::options().write(true).open("/dev/full").expect("there is /dev/full");
        let status = command(arguments, &directory).stderr(full).stdout(Stdio::null()).status();
        assert_eq!(status.expect("the command can be started").code(), Some(code), "{arguments:?}");
    }
}

/// Names in a directory that did not belong there before a command.
fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .expect("the directory can be read")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn both_files_of_build_appear_or_none() {
    let directory = directory("both");
    fs::create_dir(directory.join("made.elf")).expect("a directory");
    fs::write(directory.join("made.img"), "as before").expect("written");
    let before = names(&directory);
    let output = bulkhead(&["build", ".", "-o", "made.img"], &directory);
    assert_eq!(output.status.code(), ENVIRONMENT, "{}", errors(&output));
    assert!(errors(&output).contains("cannot write made.elf"), "{}", errors(&output));
    assert_eq!(fs::read_to_string(directory.join("made.img")).expect("still there"), "as before");
    assert_eq!(names(&directory), before, "nothing is left behind");
    fs::remove_dir(directory.join("made.elf")).expect("removed");
    assert_eq!(bulkhead(&["build", ".", "-o", "made.img"], &directory).status.code(), Some(0));
    assert!(fs::metadata(directory.join("made.img")).expect("made").len() > 4096);
    assert!(names(&directory).iter().all(|name| !name.contains("partial") && !name.contains("before")));
}

/// A14: an image is verified against the monitor that the tool contains; another one has to be named.
#[test]
fn verify_takes_another_monitor_by_name_alone() {
    let directory = directory("another");
    assert_eq!(bulkhead(&["build", ".", "-o", "other.img"], &directory).status.code(), Some(0));
    // The environment names the monitor to build with, and is not asked what to verify against.
    let refused = bulkhead(&["verify", "other.img"], &directory);
    let text = String::from_utf8_lossy(&refused.stdout);
    assert_eq!(refused.status.code(), Some(1), "{text}{}", errors(&refused));
    assert!(text.contains("V027") && text.contains("monitor sha256 "), "{text}{}", errors(&refused));
    let accepted = bulkhead(&["verify", "other.img", "--monitor", "monitor.elf"], &directory);
    assert_eq!(accepted.status.code(), Some(0), "{}{}", String::from_utf8_lossy(&accepted.stdout), errors(&accepted));
}

/// As a full disk would have it: the image fits, the symbols do not.
#[test]
fn a_disk_that_is_full_in_between_leaves_nothing() {
    let directory = directory("disk");
    let mut elf = monitor();
    elf.resize(4 << 20, 0);
    fs::write(directory.join("monitor.elf"), elf).expect("written");
    let before = names(&directory);
    let output = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 2048; exec \"$0\" build . -o made.img", env!("CARGO_BIN_EXE_bulkhead")])
        .current_dir(&directory)
        .env("BULKHEAD_MONITOR", "monitor.elf")
        .output()
        .expect("a shell can be started");
    assert_eq!(output.status.code(), ENVIRONMENT, "{}", errors(&output));
    assert!(errors(&output).contains("cannot write made.elf: File too large"), "{}", errors(&output));
    assert_eq!(names(&directory), before);
}

#[test]
fn links_lead_to_their_targets_and_devices_stay_devices() {
    let directory = directory("links");
    fs::create_dir(directory.join("elsewhere")).expect("a directory");
    symlink("elsewhere/real.img", directory.join("link.img")).expect("a link");
    for round in ["to a file that is not there yet", "to one that is"] {
        let output = bulkhead(&["build", ".", "-o", "link.img"], &directory);
        assert_eq!(output.status.code(), Some(0), "{round}: {}", errors(&output));
        assert!(fs::symlink_metadata(directory.join("link.img")).expect("the link").is_symlink(), "{round}");
        assert!(fs::metadata(directory.join("elsewhere/real.img")).expect("the image").len() > 4096, "{round}");
    }
    // Through a link, so that a mistake of the tool cannot harm the machine's own device.
    symlink("/dev/full", directory.join("full.img")).expect("a link");
    let output = bulkhead(&["build", ".", "-o", "full.img"], &directory);
    assert_eq!(output.status.code(), ENVIRONMENT);
    assert!(errors(&output).contains("full.img: it is no regular file"), "{}", errors(&output));
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/scenarios/storm.toml");
    for arguments in [&["simulate", scenario, "-o", "full.img"][..], &["report", ".", "-o", "full.img"]] {
        let output = bulkhead(arguments, &directory);
        assert_eq!(output.status.code(), ENVIRONMENT, "{arguments:?}: {}", errors(&output));
        assert!(errors(&output).contains("No space left"), "{arguments:?}: {}", errors(&output));
    }
    assert!(fs::symlink_metadata(directory.join("full.img")).expect("the link").is_symlink());
    assert!(fs::metadata("/dev/full").expect("the device").file_type().is_char_device());
}
