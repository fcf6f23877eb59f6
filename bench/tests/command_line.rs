//! The program `bulkhead-bench` keeps the rules of the tool for what it reads and prints.

use std::fs::File;
use std::process::{Command, Output};

/// Exit code when the host lacks something or a file cannot be used.
const ENVIRONMENT: Option<i32> = Some(3);

fn bench(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bulkhead-bench"));
    command.args(arguments);
    command
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_full_device_is_an_error_and_a_reader_that_went_away_is_none() {
    for arguments in [&["--list"][..], &["soak", "--seed", "1", "--describe"]] {
        let full = File::options().write(true).open("/dev/full").expect("there is /dev/full");
        let output = bench(arguments).stdout(full).output().expect("it can be started");
        assert_eq!(output.status.code(), ENVIRONMENT, "{arguments:?}: {}", errors(&output));
        assert!(errors(&output).contains("cannot write to the output stream: No space left"), "{}", errors(&output));
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = bench(arguments).stdout(writer).output().expect("it can be started");
        assert_eq!((output.status.code(), errors(&output).as_str()), (Some(0), ""), "{arguments:?}");
    }
}

#[test]
fn the_state_of_a_soak_is_a_regular_file() {
    let output = bench(&["soak", "--state", "/dev/zero"]).output().expect("it can be started");
    assert_eq!(output.status.code(), ENVIRONMENT);
    assert!(errors(&output).contains("/dev/zero"), "{}", errors(&output));
}

#[test]
fn wrong_usage_says_how_it_is_called() {
    let output = bench(&["--short", "--record"]).output().expect("it can be started");
    assert_eq!(output.status.code(), Some(2));
    assert!(errors(&output).contains("Usage: ./x bench"), "{}", errors(&output));
    let output = bench(&["timr"]).output().expect("it can be started");
    assert_eq!(output.status.code(), Some(2));
    assert!(errors(&output).contains("no row, group or experiment `timr`"), "{}", errors(&output));
}

#[test]
fn boards_are_counted_in_any_folder_of_trees() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus");
    let output = bench(&["boards", "--trees", corpus]).output().expect("it can be started");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!((output.status.code(), errors(&output).as_str()), (Some(0), ""), "{text}");
    for line in ["  interrupts of the timer       1             1", "refused: device_tree/truncated: it is cut off"] {
        assert!(text.contains(line), "{text}");
    }
    let output = bench(&["boards", "--trees", "/no/such/folder"]).output().expect("it can be started");
    assert_eq!(output.status.code(), ENVIRONMENT);
    assert!(errors(&output).contains("cannot read the device trees of /no/such/folder"), "{}", errors(&output));
}

#[test]
fn tasks_of_boards_exclude_each_other_and_know_the_boards() {
    for arguments in [
        &["boards", "--rows", "--suite"][..],
        &["boards", "--suite", "--trees", "mine"],
        &["boards", "--short"],
        &["boards", "--rows", "--board", "qemu-virt"],
    ] {
        let output = bench(arguments).output().expect("it can be started");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", errors(&output));
    }
    // Before anything is built or run.
    for arguments in [&["boards", "--suite", "--board", "no-such"][..], &["soak", "--board", "no-such", "--seed", "1"]]
    {
        let output = bench(arguments).output().expect("it can be started");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", errors(&output));
        assert!(errors(&output).contains("qemu-virt, xlnx-versal-virt"), "{}", errors(&output));
    }
    let output = bench(&["boards", "--suite", "--short", "--board", "qemu-virt"]).output().expect("it can be started");
    assert!(errors(&output).contains("`./x test` runs every scenario there"), "{}", errors(&output));
}

/// The attacker is given what the board has: its cores, and a device whose interrupt it can raise, where its guest finds it.
#[test]
fn a_siege_is_made_for_the_board_that_is_named() {
    let described = |board: &str| {
        let output =
            bench(&["soak", "--board", board, "--seed", "15", "--describe"]).output().expect("it can be started");
        assert_eq!((output.status.code(), errors(&output).as_str()), (Some(0), ""));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    for (board, cores, device, arguments) in [
        ("qemu-virt", "[1, 2, 3, 4]", "rtc", "device=0x9010000 interrupt=34"),
        ("xlnx-versal-virt", "[1]", "uart1", "device=0xc000000 interrupt=51"),
    ] {
        let text = described(board);
        let (cores, device) = (format!("cores = {cores}"), format!("devices = [{{ name = \"{device}\" }}]"));
        for part in [&format!("board = \"{board}\""), &cores, &device, arguments] {
            assert!(text.contains(part), "{part} is not in: {text}");
        }
    }
}
