//! `./x bench boards --suite`: the scenarios of `tests/system` on every built-in board.
//!
//! A scenario is a test of one test program, and `BULKHEAD_BOARD` puts its systems on another board. So the suite on a board is a run of that
//! program with the names of what can run there ([`bulkhead_system_tests::boards`]). What cannot is tried as well, one by one: it has to
//! fail, with the words that belong to its reason. So the table says neither too little nor too much.

use super::built_in;
use crate::Failure;
use bulkhead_files::table::table;
use bulkhead_run::exit_code;
use bulkhead_system_tests::boards::{self, OnBoard, Reason};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Where the package of the scenarios is, from the root of the repository.
const PACKAGE: &str = "tests/system";
/// What names a board in place of the one of a description.
const BOARD_VARIABLE: &str = "BULKHEAD_BOARD";

/// Names the program of the scenarios where it was built already, as by `./x test`: built here, it would be built once more, as what
/// other packages ask of the crates that it shares with them is not asked here.
const PROGRAM_VARIABLE: &str = "BULKHEAD_SCENARIOS";

/// What came of the suite on a board.
#[derive(Clone, Debug)]
struct Outcome {
    board: &'static str,
    passed: usize,
    failed: Vec<String>,
    /// What did not run, and why.
    cannot: Vec<(String, Reason)>,
    /// What the table says wrongly.
    wrong: Vec<String>,
    took: Duration,
}

/// Runs the suite on every built-in board, or on one.
pub(super) fn run(board: Option<&str>, is_short: bool) -> Result<u8, Failure> {
    let chosen = chosen(board, is_short)?;
    let program = std::env::var_os(PROGRAM_VARIABLE).map_or_else(build, |named| Ok(PathBuf::from(named)))?;
    let all = list(&program)?;
    let outcomes: Vec<Outcome> =
        chosen.into_iter().map(|board| run_on(&program, board, &all, is_short)).collect::<Result<_, _>>()?;
    bulkhead_files::output::print(&text(&outcomes));
    let is_good = |one: &Outcome| one.failed.is_empty() && one.wrong.is_empty() && one.passed != 0;
    Ok(if outcomes.iter().all(is_good) { exit_code::SUCCESS } else { exit_code::FAILURE })
}

/// The boards to run on.
fn chosen(board: Option<&str>, is_short: bool) -> Result<Vec<&'static str>, Failure> {
    let known: Vec<&'static str> = built_in().collect();
    let Some(wanted) = board else {
        // The default board's are the tests themselves.
        return Ok(known.into_iter().filter(|board| !is_short || boards::on(board).is_some()).collect());
    };
    let found = known.iter().find(|name| **name == wanted).ok_or_else(|| {
        let message = format!("no built-in board `{wanted}`; there are {}", known.join(", "));
        Failure { message, exit_code: exit_code::USAGE }
    })?;
    if is_short && boards::on(found).is_none() {
        let message = format!("`{found}` has no short form: `./x test` runs every scenario there");
        return Err(Failure { message, exit_code: exit_code::USAGE });
    }
    Ok(vec![found])
}

/// Builds the test program, and returns where it is.
fn build() -> Result<PathBuf, Failure> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut command = Command::new(&cargo);
    command.args(["test", "--locked", "--no-run", "--package", "bulkhead-system-tests", "--test", "scenarios"]);
    command.args(["--message-format", "json-render-diagnostics"]).current_dir(bulkhead_ledger::repository());
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| Failure::host(format!("cannot start `{cargo}`: {error}")))?;
    if !output.status.success() {
        return Err(Failure::host("the scenarios cannot be built; what cargo says is above".to_owned()));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let messages = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut programs = messages.filter(|message| message["target"]["name"] == "scenarios");
    let found = programs.find_map(|message| message["executable"].as_str().map(PathBuf::from));
    found.ok_or_else(|| Failure::host("cargo built the scenarios and did not say where they are".to_owned()))
}

/// The program, as cargo would start it.
fn command(program: &Path, board: Option<&OnBoard>, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(bulkhead_ledger::repository().join(PACKAGE));
    // Without a name each description has the board that it names: the default one, or that which the scenario is about.
    match board {
        Some(on) => command.env(BOARD_VARIABLE, on.board),
        None => command.env_remove(BOARD_VARIABLE),
    };
    command
}

fn cannot_start(error: &std::io::Error) -> Failure {
    Failure::host(format!("the scenarios cannot be started: {error}"))
}

/// Names of all scenarios.
fn list(program: &Path) -> Result<Vec<String>, Failure> {
    let output =
        command(program, None, &["--list", "--format", "terse"]).output().map_err(|error| cannot_start(&error))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}

/// Runs what can run on a board, and tries what cannot.
fn run_on(program: &Path, board: &'static str, all: &[String], is_short: bool) -> Result<Outcome, Failure> {
    let known = boards::on(board);
    let cannot = |name: &String| known.and_then(|known| known.reason(name)).map(|reason| (name.clone(), reason));
    let is_wanted = |name: &&String| match known {
        Some(known) if is_short => known.short.contains(&name.as_str()),
        Some(known) => known.reason(name).is_none(),
        None => true,
    };
    let names: Vec<&str> = all.iter().filter(is_wanted).map(String::as_str).collect();
    bulkhead_files::say!("{} scenarios on {board}", names.len());
    let start = Instant::now();
    let (passed, failed) = run_names(program, known, &names)?;
    let took = start.elapsed();
    let cannot: Vec<(String, Reason)> = if is_short { Vec::new() } else { all.iter().filter_map(cannot).collect() };
    let mut wrong = Vec::new();
    if let Some(known) = known {
        wrong = unknown(known, all);
        for (name, reason) in &cannot {
            wrong.extend(contradiction(program, known, name, *reason)?);
        }
    }
    Ok(Outcome { board, passed, failed, cannot, wrong, took })
}

/// Runs scenarios, prints what the program prints, and returns how many passed and which failed.
fn run_names(program: &Path, board: Option<&OnBoard>, names: &[&str]) -> Result<(usize, Vec<String>), Failure> {
    let mut command = command(program, board, &["--exact"]);
    command.args(names).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|error| cannot_start(&error))?;
    let mut passed = Vec::new();
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            bulkhead_files::say!("{line}");
            passed.extend(verdict(&line).filter(|(_, has_passed)| *has_passed).map(|(name, _)| name.to_owned()));
        }
    }
    child.wait().map_err(|error| cannot_start(&error))?;
    // One that a dead program never came to has not passed either.
    let failed = names.iter().filter(|name| !passed.iter().any(|one| one == *name));
    Ok((passed.len(), failed.map(|name| (*name).to_owned()).collect()))
}

/// Scenario and verdict of a line of the test program, if it is one.
fn verdict(line: &str) -> Option<(&str, bool)> {
    let (name, verdict) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    match verdict {
        "ok" => Some((name, true)),
        "FAILED" => Some((name, false)),
        _ => None,
    }
}

/// Names of the table that are no scenarios.
fn unknown(known: &OnBoard, all: &[String]) -> Vec<String> {
    let named = known.cannot.iter().flat_map(|(_, names)| *names).chain(known.short);
    let missing = named.filter(|name| !all.iter().any(|one| one == *name));
    missing.map(|name| format!("{name} is no scenario")).collect()
}

/// What is wrong with the reason of a scenario that cannot run on a board: it passes, or fails with other words.
fn contradiction(program: &Path, board: &OnBoard, name: &str, reason: Reason) -> Result<Option<String>, Failure> {
    let Some(sign) = reason.sign() else { return Ok(None) };
    let output = command(program, Some(board), &["--exact", name]).output();
    let output = output.map_err(|error| cannot_start(&error))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let has_passed = text.lines().filter_map(verdict).any(|(_, has_passed)| has_passed);
    Ok(match (has_passed, text.contains(sign)) {
        (true, _) => Some(format!("{name} passes, and the table says that it {}", reason.text())),
        (false, false) => Some(format!("{name} fails without a word of `{sign}`:\n{text}")),
        (false, true) => None,
    })
}

/// One line for each board, then what is not as it should be.
fn text(outcomes: &[Outcome]) -> String {
    let mut rows = vec![["board", "passed", "failed", "cannot run", "seconds"].map(str::to_owned).to_vec()];
    rows.extend(outcomes.iter().map(|one| {
        let counts = [one.passed, one.failed.len(), one.cannot.len()].map(|count| count.to_string());
        let seconds = one.took.as_secs().to_string();
        std::iter::once(one.board.to_owned()).chain(counts).chain([seconds]).collect()
    }));
    let mut text = table(&rows, 1, 0);
    for one in outcomes {
        for reason in Reason::ALL {
            let count = one.cannot.iter().filter(|(_, other)| *other == reason).count();
            if count != 0 {
                text += &format!("{}: {count} cannot run: {}\n", one.board, reason.text());
            }
        }
        for name in &one.failed {
            text += &format!("{}: {name} FAILED\n", one.board);
        }
        for wrong in &one.wrong {
            text += &format!("{}: the table is wrong: {wrong}\n", one.board);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_told_from_other_lines() {
        assert_eq!(verdict("test hello::it_says_hello ... ok"), Some(("hello::it_says_hello", true)));
        assert_eq!(
            verdict("test boot::it_boots - should panic ... FAILED"),
            Some(("boot::it_boots - should panic", false))
        );
        for other in ["test boot::it_boots has been running for over 60 seconds", "test result: ok. 1 passed", "ok"] {
            assert_eq!(verdict(other), None, "{other}");
        }
    }

    #[test]
    fn boards_are_chosen_by_name() {
        let all: Vec<&str> = built_in().collect();
        assert_eq!(chosen(None, false).as_deref(), Ok(all.as_slice()));
        assert_eq!(chosen(None, true).as_deref(), Ok(&all[1..]));
        assert_eq!(chosen(Some(all[1]), true).as_deref(), Ok(&all[1..2]));
        for (board, is_short) in [("no-such-board", false), (all[0], true)] {
            assert_eq!(chosen(Some(board), is_short).expect_err(board).exit_code, exit_code::USAGE);
        }
    }

    #[test]
    fn what_is_not_as_it_should_be_is_named() {
        let all = ["a::b".to_owned()];
        let known = OnBoard { board: "x", short: &["a::b", "a::c"], cannot: &[(Reason::Cores, &["a::d"])] };
        assert_eq!(unknown(&known, &all), ["a::d is no scenario", "a::c is no scenario"]);
        let cannot = vec![("a::d".to_owned(), Reason::Cores)];
        let failed = vec!["a::e".to_owned()];
        let one = Outcome { board: "x", passed: 3, failed, cannot, wrong: unknown(&known, &[]), took: Duration::ZERO };
        let text = text(&[one]);
        for part in [
            "x           3       1           1        0",
            "x: a::e FAILED",
            "x: 1 cannot run: needs more cores",
            "a::b is no scenario",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }
}
