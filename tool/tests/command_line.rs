//! The command line as users and scripts see it: what goes where, and with which exit code.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A description that is accepted without a warning; its guest is a raw file beside it.
const GOOD: &str = include_str!("support/good.toml");

/// Makes a directory with a description and its guest; each test has its own.
fn system(name: &str, text: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory can be made");
    std::fs::write(directory.join("tiny.bin"), b"sixteen bytes...").expect("a guest can be written");
    std::fs::write(directory.join("system.toml"), text).expect("a description can be written");
    directory
}

fn bulkhead(arguments: &[&str], directory: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bulkhead"))
        .args(arguments)
        .current_dir(directory)
        .env_remove("BULKHEAD_GUESTS")
        .output()
        .expect("the command can be started")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

#[test]
fn an_accepted_description_gives_0_and_one_line() {
    let directory = system("accepted", GOOD);
    for argument in [".", "system.toml"] {
        let output = bulkhead(&["check", argument], &directory);
        assert_eq!(output.status.code(), Some(0));
        assert_eq!(text(&output.stdout), "good: accepted: 1 partition on 1 of 8 cores of qemu-virt, 0 channels\n");
        assert_eq!(text(&output.stderr), "");
    }
}

#[test]
fn a_refused_description_gives_1_and_its_report_on_the_error_stream() {
    let directory = system("refused", &GOOD.replace("cores = [0]", "cores = [0, 8]"));
    let output = bulkhead(&["check", "system.toml"], &directory);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout), "");
    let report = text(&output.stderr);
    assert!(report.starts_with("error[BH0201]: the board has no core 8\n --> system.toml:8:13\n"), "{report}");
    assert!(!report.contains('\u{1b}'), "no colours into a pipe");
}

#[test]
fn json_is_one_value_on_the_output_stream() {
    let directory = system("json", &GOOD.replace("cores = [0]", "cores = [0, 8]"));
    let output = bulkhead(&["check", "--format", "json", "system.toml"], &directory);
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(1), ""));
    let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(
        (&value["version"], &value["accepted"], &value["errors"]),
        (&Value::from(1), &Value::from(false), &Value::from(1))
    );
    let diagnostic = &value["diagnostics"][0];
    assert_eq!((&diagnostic["code"], &diagnostic["severity"]), (&Value::from("BH0201"), &Value::from("error")));
    let label = &diagnostic["labels"][0];
    assert_eq!(
        (&label["file"], &label["line"], &label["column"]),
        (&Value::from("system.toml"), &Value::from(8), &Value::from(13))
    );

    let accepted: Value =
        serde_json::from_slice(&bulkhead(&["check", "--format", "json", "."], &system("json-good", GOOD)).stdout)
            .expect("JSON");
    assert_eq!(
        (&accepted["accepted"], &accepted["diagnostics"]),
        (&Value::from(true), &Value::from(Vec::<Value>::new()))
    );
}

#[test]
fn warnings_are_accepted_unless_they_are_denied() {
    let text_with_warning = GOOD.replace("name = \"a\"", "name = \"a\"\ntrust = \"trusted\"\ninterrupts = \"direct\"");
    let directory = system("warned", &text_with_warning);
    let output = bulkhead(&["check", "."], &directory);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stderr).starts_with("warning[BH0209]: "), "{}", text(&output.stderr));
    assert_eq!(bulkhead(&["check", "--deny-warnings", "."], &directory).status.code(), Some(1));
}

#[test]
fn a_missing_description_gives_3_and_wrong_usage_2() {
    let directory = system("environment", GOOD);
    let missing = bulkhead(&["check", "no-such-file.toml"], &directory);
    assert_eq!(missing.status.code(), Some(3));
    assert!(
        text(&missing.stderr)
            .starts_with("error[BH0001]: system description no-such-file.toml cannot be read: there is no such file\n")
    );
    for arguments in [&["check"][..], &["check", "--no-such-option", "."], &["no-such-command"], &[]] {
        let output = bulkhead(arguments, &directory);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(!output.stderr.is_empty(), "{arguments:?}");
    }
}

#[test]
fn guests_are_found_by_option_and_by_environment() {
    let directory = system("guests", &GOOD.replace("\"tiny.bin\"", "\"guest:deep/tiny.bin\""));
    std::fs::create_dir_all(directory.join("built/deep")).expect("a directory can be made");
    std::fs::copy(directory.join("tiny.bin"), directory.join("built/deep/tiny.bin")).expect("a guest can be copied");
    assert_eq!(bulkhead(&["check", "--guests", "built", "."], &directory).status.code(), Some(0));
    let by_environment = Command::new(env!("CARGO_BIN_EXE_bulkhead"))
        .args(["check", "."])
        .current_dir(&directory)
        .env("BULKHEAD_GUESTS", "built")
        .output();
    assert_eq!(by_environment.expect("the command can be started").status.code(), Some(0));
    let wrong = bulkhead(&["check", "--guests", "elsewhere", "."], &directory);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(text(&wrong.stderr).contains("looked for it at elsewhere/deep/tiny.bin"), "{}", text(&wrong.stderr));
}

#[test]
fn codes_are_explained_in_both_ways() {
    let directory = system("explain", GOOD);
    let explained = bulkhead(&["explain", "bh0101"], &directory);
    assert_eq!(explained.status.code(), Some(0));
    assert!(text(&explained.stdout).starts_with("# BH0101: memory of two partitions overlaps\n"));
    assert_eq!(bulkhead(&["check", "--explain", "BH0101"], &directory).stdout, explained.stdout);
    assert_eq!(bulkhead(&["explain", "BH9999"], &directory).status.code(), Some(2));
    let finding = bulkhead(&["explain", "v042"], &directory);
    assert_eq!(finding.status.code(), Some(0), "{}", text(&finding.stderr));
    let finding = text(&finding.stdout);
    assert!(finding.starts_with("# V042: translation table in a guest's map\n\nA guest can reach a"), "{finding}");
    assert!(finding.contains("Do not run the image."), "{finding}");
    assert_eq!(text(&bulkhead(&["check", "--explain", "V042"], &directory).stdout), finding);
    assert_eq!(bulkhead(&["explain", "V999"], &directory).status.code(), Some(2));
    let list = text(&bulkhead(&["explain"], &directory).stdout);
    assert!(list.lines().count() >= 160 && list.lines().all(|line| line.starts_with("BH") || line.starts_with('V')));
}

#[test]
fn help_names_the_exit_codes_and_schemas_are_json() {
    let directory = system("help", GOOD);
    let help = bulkhead(&["--help"], &directory);
    assert_eq!(help.status.code(), Some(0));
    assert!(text(&help.stdout).contains("1  refused by a check"));
    for of in [&["schema"][..], &["schema", "board"]] {
        let value: Value = serde_json::from_slice(&bulkhead(of, &directory).stdout).expect("JSON");
        assert_eq!(value["$schema"], "http://json-schema.org/draft-07/schema#");
    }
}

#[test]
fn shells_complete_and_man_shows_every_command() {
    let directory = system("shells", GOOD);
    let script = bulkhead(&["completions", "bash"], &directory);
    assert_eq!(script.status.code(), Some(0), "{}", text(&script.stderr));
    std::fs::write(directory.join("complete.sh"), &script.stdout).expect("a script can be written");
    // What bash itself proposes after `bulkhead sim` and `bulkhead run --lo`.
    let propose = |word: &str, words: &str| {
        let program = format!(
            "source ./complete.sh; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _bulkhead bulkhead '{word}' bulkhead; echo \"${{COMPREPLY[@]}}\""
        );
        let output = Command::new("bash").args(["-c", &program]).current_dir(&directory).output().expect("bash runs");
        text(&output.stdout).trim().to_owned()
    };
    assert_eq!(propose("sim", "bulkhead sim"), "simulate");
    assert_eq!(propose("--lo", "bulkhead run --lo"), "--log");
    assert_eq!(bulkhead(&["completions", "csh"], &directory).status.code(), Some(2));

    let pages = bulkhead(&["man", "pages/man1"], &directory);
    assert_eq!(pages.status.code(), Some(0), "{}", text(&pages.stderr));
    let help = text(&bulkhead(&["--help"], &directory).stdout);
    let commands: Vec<&str> = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .filter(|command| *command != "help")
        .collect();
    assert!(commands.len() >= 14 && commands.contains(&"man"), "{help}");
    for command in commands {
        let page = directory.join(format!("pages/man1/bulkhead-{command}.1"));
        let page = std::fs::read_to_string(page).unwrap_or_else(|error| panic!("{command}: {error}"));
        assert!(page.contains(&format!(".TH bulkhead-{command} 1")), "{page}");
    }
    let program = std::fs::read_to_string(directory.join("pages/man1/bulkhead.1")).expect("a page");
    assert!(program.contains("bulkhead\\-check(1)"), "{program}");
    std::fs::write(directory.join("file"), "").expect("a file");
    let refused = bulkhead(&["man", "file"], &directory);
    assert_eq!(refused.status.code(), Some(3));
    assert!(text(&refused.stderr).starts_with("error: cannot write manual pages to file: "));
}

/// Colours are for terminals that want them, whatever prints.
#[test]
fn colours_can_be_asked_for_and_refused() {
    let directory = system("colours", &GOOD.replace("cores = [0]", "cores = [0, 8]"));
    for arguments in [&["check", "."][..], &["--no-such-option"], &["verify", "no-such-image"], &["explain", "X"]] {
        let run = |name: &str, value: &str| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_bulkhead"));
            command.args(arguments).current_dir(&directory).env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE");
            text(&command.env(name, value).output().expect("the command can be started").stderr)
        };
        let (wanted, refused) = (run("CLICOLOR_FORCE", "1"), run("NO_COLOR", "1"));
        assert!(wanted.contains("\u{1b}["), "{arguments:?}: {wanted}");
        assert!(!refused.contains('\u{1b}'), "{arguments:?}: {refused}");
    }
}
