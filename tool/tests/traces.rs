//! `bulkhead trace` and `bulkhead report` on files: whole, cut, of another system, and none at all.

use bulkhead_abi::{PART_OFFSET, Part};
use bulkhead_trace::{CoreLayout, EventKind, Layout, SlotLayout, Timeline, perfetto};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const DESCRIPTION: &str = include_str!("support/good.toml");

/// A 64-bit little-endian AArch64 ELF file in the place of the monitor: one segment of text, one of constants.
fn monitor() -> Vec<u8> {
    let mut text = vec![0; 4096];
    text[56..60].copy_from_slice(b"ARMd");
    text[PART_OFFSET..][..8].copy_from_slice(&Part::Shared.mark());
    let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    file.extend([2, 0, 183, 0, 1, 0, 0, 0]);
    [0x4020_0000_u64, 64, 0].iter().for_each(|word| file.extend(word.to_le_bytes()));
    file.extend([0; 4]);
    [64_u16, 56, 2, 64, 0, 0].iter().for_each(|half| file.extend(half.to_le_bytes()));
    for (flags, address, offset, bytes) in [(5_u32, 0x4020_0000_u64, 176_u64, 4096_u64), (4, 0x4020_1000, 4272, 64)] {
        [1, flags].iter().for_each(|word| file.extend(word.to_le_bytes()));
        [offset, address, address, bytes, bytes, 4096].iter().for_each(|word| file.extend(word.to_le_bytes()));
    }
    file.extend(text);
    file.extend([7; 64]);
    file
}

/// A trace of a system with this partition alone on core 0.
fn trace(partition: &str) -> Vec<u8> {
    let slots = vec![SlotLayout { partition: 0, vcpu: 0 }];
    let mut timeline = Timeline::new(Layout {
        system: "good".to_owned(),
        clock: "instructions, not cycles: each takes 16 ns".to_owned(),
        partitions: vec![partition.to_owned()],
        cores: vec![CoreLayout { is_shared: false, slots, servers: Vec::new() }],
        channels: Vec::new(),
    });
    timeline.push(1000, 0, EventKind::GuestStart { partition: 0, entry: 0x4000_0000 });
    for index in 1..50 {
        timeline.push(index * 10_000, 0, EventKind::Interrupt { intid: 27, owner: Some(0), held: false });
    }
    timeline.finish(0);
    perfetto::write(&timeline)
}

fn directory(name: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory can be made");
    let whole = trace("a");
    let files: [(&str, &[u8]); 6] = [
        ("tiny.bin", b"sixteen bytes..."),
        ("system.toml", DESCRIPTION.as_bytes()),
        ("monitor.elf", &monitor()),
        ("whole.perfetto-trace", &whole),
        ("cut.perfetto-trace", &whole[..whole.len() * 2 / 3]),
        ("other.perfetto-trace", &trace("b")),
    ];
    for (name, bytes) in files {
        std::fs::write(directory.join(name), bytes).expect("a file can be written");
    }
    directory
}

fn bulkhead(arguments: &[&str], directory: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bulkhead"))
        .args(arguments)
        .current_dir(directory)
        .env("BULKHEAD_MONITOR", "monitor.elf")
        .output()
        .expect("the command can be started")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

#[test]
fn a_trace_file_is_shown_as_text_up_to_where_it_was_cut() {
    let directory = directory("shown");
    let whole = bulkhead(&["trace", "--text", "--file", "whole.perfetto-trace"], &directory);
    assert_eq!(whole.status.code(), Some(0));
    let whole = text(&whole.stdout);
    assert!(whole.starts_with("          1000 core 0 a            guest start at 0x40000000\n"), "{whole}");
    assert_eq!(whole.lines().count(), 50);
    let cut = bulkhead(&["trace", "--text", "--file", "cut.perfetto-trace"], &directory);
    assert_eq!(cut.status.code(), Some(0));
    let cut = text(&cut.stdout);
    let (warning, events) = cut.split_once('\n').expect("lines");
    assert!(
        warning.starts_with("# the trace file is cut: it holds ") && warning.ends_with(" of 50 events"),
        "{warning}"
    );
    assert!(whole.starts_with(events) && events.lines().count() > 20, "{events}");
}

#[test]
fn a_file_that_is_no_trace_is_refused_with_what_to_do() {
    let directory = directory("no-trace");
    let output = bulkhead(&["trace", "--text", "--file", "system.toml"], &directory);
    assert_ne!(output.status.code(), Some(0));
    assert!(text(&output.stderr).contains("no Perfetto trace"), "{}", text(&output.stderr));
    let output = bulkhead(&["trace", "--text", "--file", "absent"], &directory);
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stderr).contains("cannot read the trace absent"), "{}", text(&output.stderr));
    // A file is shown and nothing else can be done with it.
    assert_eq!(bulkhead(&["trace", "--file", "whole.perfetto-trace"], &directory).status.code(), Some(2));
}

#[test]
fn a_report_is_written_with_and_without_a_trace() {
    let directory = directory("report");
    let output = bulkhead(&["report", ".", "--monitor", "monitor.elf"], &directory);
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
    assert_eq!(text(&output.stdout), "report of good in good.html\n");
    let page = std::fs::read_to_string(directory.join("good.html")).expect("a page");
    assert!(page.contains("image verified") && !page.contains("What ran"));
    let given = ["--monitor", "monitor.elf", "--trace", "cut.perfetto-trace", "-o", "cut.html"];
    let output = bulkhead(&[&["report", "system.toml"], &given[..]].concat(), &directory);
    assert_eq!(output.status.code(), Some(0));
    let page = std::fs::read_to_string(directory.join("cut.html")).expect("a page");
    assert!(page.contains("What ran") && page.contains("the trace file is cut"));
    assert!(page.contains("instructions, not cycles: each takes 16 ns"));
    // Without the monitor of this test the image has another one than the tool.
    let output = bulkhead(&["report", "."], &directory);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("the image is not verified: "), "{}", text(&output.stderr));
}

#[test]
fn a_report_is_refused_for_a_trace_of_another_system_and_without_its_files() {
    let directory = directory("refused-report");
    let refused = |arguments: &[&str], code: i32, words: &str| {
        let output = bulkhead(&[&["report", "."], arguments].concat(), &directory);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(words), "{said}");
    };
    refused(&["--trace", "other.perfetto-trace"], 1, "is a trace of another system: it has the partitions b");
    refused(&["--monitor", "absent.elf"], 3, "absent.elf");
    refused(&["--bench", "absent"], 3, "`./x bench` makes them");
    refused(&["--trace", "absent"], 3, "cannot read the trace absent");
    refused(&["-o", "no/such/folder/x.html"], 3, "cannot write the report");
    assert!(!directory.join("good.html").exists(), "nothing is written when something is wrong");
}

/// What comes at the end of a long run does not fail for a reason that was there at its start: no machine is started.
#[test]
fn a_run_sees_first_whether_its_files_can_be_written() {
    let directory = directory("targets");
    let refused = |arguments: &[&str], words: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_bulkhead"))
            .args([&["run", "."], arguments].concat())
            .current_dir(&directory)
            .env("BULKHEAD_MONITOR", "monitor.elf")
            .env("BULKHEAD_QEMU", "no-such-machine")
            .output()
            .expect("the command can be started");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains(words), "{said}");
    };
    refused(&["--trace", "no/such/folder/x.perfetto-trace"], "cannot write the trace to no/such/folder");
    refused(&["--trace", "."], "cannot write the trace to .");
    refused(&["--log", "tiny.bin"], "cannot make the directory tiny.bin for logs");
    std::fs::create_dir_all(directory.join("logs/a.log")).expect("a directory");
    refused(&["--log", "logs"], "cannot write the log logs/a.log");
    // Nothing is in the way here, so the machine is what is missing; nothing is left behind.
    refused(&["--trace", "x.perfetto-trace", "--log", "new"], "no-such-machine");
    assert!(!directory.join("x.perfetto-trace").exists());
    assert_eq!(std::fs::read_dir(directory.join("new")).expect("a directory").count(), 0);
}
