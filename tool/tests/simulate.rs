//! `bulkhead simulate` as users and scripts see it: what goes where, and with which exit code.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const SCENARIO: &str = r#"until = "4 ms"

[[schedule]]
core = 0
kind = "fixed-priority"

[[partition]]
name = "a"
cores = [0]
servers = [{ priority = 1, budget = "1 ms", period = "2 ms" }]

[[arrival]]
vcpu = "a"
busy = true
"#;

fn directory(name: &str, text: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("simulate-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory can be made");
    std::fs::write(directory.join("scenario.toml"), text).expect("a scenario can be written");
    directory
}

fn simulate(arguments: &[&str], directory: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bulkhead"));
    command.arg("simulate").arg("scenario.toml").args(arguments).current_dir(directory);
    command.output().expect("the command can be started")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

#[test]
fn each_form_goes_where_it_should_with_0() {
    let directory = directory("forms", SCENARIO);
    let output = simulate(&[], &directory);
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
    assert!(text(&output.stdout).starts_with("core 0, 0 to 4 ms\n"), "{}", text(&output.stdout));

    let output = simulate(&["--format", "json"], &directory);
    assert_eq!(output.status.code(), Some(0));
    let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let words: Vec<&str> =
        value["events"].as_array().expect("a list").iter().filter_map(|event| event["event"].as_str()).collect();
    assert_eq!(
        words,
        ["arrive", "start", "exhaust", "stop", "replenish", "start", "exhaust", "stop"],
        "a millisecond in every two"
    );

    let output = simulate(&["--format", "perfetto", "-o", "x.perfetto-trace"], &directory);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(0), ""));
    assert!(std::fs::metadata(directory.join("x.perfetto-trace")).is_ok_and(|file| file.len() > 100));

    let output = simulate(&["--format", "none", "--rate", "--events", "3"], &directory);
    assert!(text(&output.stderr).starts_with("3 events and "), "{}", text(&output.stderr));
}

#[test]
fn mistakes_give_1_2_and_3() {
    let directory = directory("mistakes", &SCENARIO.replace("\"4 ms\"", "4"));
    let output = simulate(&[], &directory);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(1), ""));
    let report = text(&output.stderr);
    assert!(
        report.starts_with("error[BH0008]: `4` has no unit") && report.contains("--> scenario.toml:1:9"),
        "{report}"
    );
    assert!(report.contains("perhaps you meant") && report.contains("\"4 ms\""), "{report}");

    let output = simulate(&["--until", "10"], &directory);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("did you mean \"10 ms\"?"), "{}", text(&output.stderr));

    std::fs::write(directory.join("scenario.toml"), SCENARIO).expect("a scenario can be written");
    assert_eq!(simulate(&["--format", "perfetto"], &directory).status.code(), Some(2), "a binary file needs a name");
    let output = simulate(&["-o", "no-such-directory/x"], &directory);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    std::fs::remove_file(directory.join("scenario.toml")).expect("it was written");
    assert_eq!(simulate(&[], &directory).status.code(), Some(3));
}

/// A system that a scenario names is judged as `check` judges it, with the same time of an instruction.
#[test]
fn a_system_is_checked_with_the_instruction_time_that_is_given() {
    let scenario = "system = \"system.toml\"\nuntil = \"4 ms\"\n\n[[arrival]]\nvcpu = \"a\"\nbusy = true\n";
    let directory = directory("instruction-time", scenario);
    let partition = |name: &str, server: &str| {
        format!(
            "\n[[partition]]\nname = \"{name}\"\ntrust = \"trusted\"\ncores = [0]\nmemory = \"1 MiB\"\n\
             image = {{ kind = \"raw\", file = \"tiny.bin\" }}\nservers = [{{ {server} }}]\n"
        )
    };
    let system = format!(
        "version = 1\nname = \"system\"\nboard = \"qemu-virt\"\nmemory = \"64 MiB\"\n\n[[schedule]]\ncore = 0\n\
         kind = \"fixed-priority\"\n{}{}",
        partition("a", "priority = 1, budget = \"9950 us\", period = \"10 ms\""),
        partition("b", "priority = 2, budget = \"20 us\", period = \"10 ms\"")
    );
    std::fs::write(directory.join("system.toml"), system).expect("a description can be written");
    std::fs::write(directory.join("tiny.bin"), [0; 16]).expect("a guest can be written");
    let check = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bulkhead"));
        command.args(["check", "system.toml"]).args(arguments).current_dir(&directory);
        command.output().expect("the command can be started").status.code()
    };
    // Sixteen nanoseconds each leave too little for the second server, one does not.
    for (arguments, code) in [(&[] as &[&str], 1), (&["--instruction-time", "1 ns"], 0)] {
        let output = simulate(arguments, &directory);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", text(&output.stderr));
        assert_eq!(text(&output.stderr).contains("error[BH0801]"), code == 1);
        assert_eq!(check(arguments), Some(code));
    }
    let output = simulate(&["--instruction-time", "2 us"], &directory);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("`2 us` is not from 1 ns to 1 us"), "{}", text(&output.stderr));
}
