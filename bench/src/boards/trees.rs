//! A draft of a board file for every device tree in Debian's kernel package for arm64.
//!
//! What no tree says is filled in as the monitor wants it (`Draft::filled`): entered at EL2, four list registers, RAM around what is
//! reserved. So a board that "could run" is one whose tree has nothing against it; none of them was tried. Reading them all takes a
//! second or two, so there is no short form, and nothing here needs QEMU.

use crate::{Failure, record};
use bulkhead_description::board::{Limit, examine};
use bulkhead_description::{Code, Diagnostic, Severity};
use bulkhead_draft::{Draft, draft};
use bulkhead_files::read::{self, DEVICE_TREE};
use bulkhead_files::table::table;
use bulkhead_run::exit_code;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Where `./x` puts the trees.
const TREES: &str = ".cache/boards/trees";
/// Most time for one tree.
const MOST_TIME: Duration = Duration::from_secs(1);

/// What became of one tree.
#[derive(Clone, Debug)]
enum Answer {
    /// Nothing is against it.
    CouldRun {
        /// Its console is a UART that the monitor drives.
        has_input: bool,
    },
    /// What the board lacks, each once.
    Lacks(BTreeSet<Limit>),
    /// It is no device tree of a machine, and why.
    Refused(String),
    /// The filled draft is not well-formed, and how.
    Malformed(String),
}

/// A tree with its answer.
#[derive(Clone, Debug)]
struct Board {
    vendor: String,
    name: String,
    answer: Answer,
    took: Duration,
}

/// Makes drafts of the trees in a folder, or in that of Debian's kernel, and perhaps writes down what came of it.
pub(super) fn run(folder: Option<&Path>, is_recorded: bool) -> Result<u8, Failure> {
    let folder = folder.map_or_else(|| bulkhead_ledger::repository().join(TREES), Path::to_path_buf);
    let paths = trees(&folder)?;
    let boards: Vec<Board> = paths.iter().map(|path| look_at(path)).collect::<Result<_, _>>()?;
    let package = std::fs::read_to_string(folder.join("versions")).unwrap_or_default().trim().to_owned();
    bulkhead_files::output::print(&text(&boards, &package));
    if is_recorded {
        let path = bulkhead_ledger::repository().join("docs/boards.json");
        record::replace(&path, &format!("{:#}\n", form(&boards, &package)))?;
        bulkhead_files::say!("written to {}", path.display());
    }
    let is_bad = |board: &Board| matches!(board.answer, Answer::Malformed(_)) || board.took > MOST_TIME;
    Ok(if boards.iter().any(is_bad) { exit_code::FAILURE } else { exit_code::SUCCESS })
}

/// The trees in the folders of a folder, by name.
fn trees(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let cannot = |error: std::io::Error| {
        let hint = "without --trees `./x bench boards` downloads them";
        Failure::host(format!("cannot read the device trees of {}: {error}; {hint}", folder.display()))
    };
    let mut found = Vec::new();
    for vendor in std::fs::read_dir(folder).map_err(cannot)? {
        let vendor = vendor.map_err(cannot)?.path();
        if vendor.is_dir() {
            for file in std::fs::read_dir(vendor).map_err(cannot)? {
                found.push(file.map_err(cannot)?.path());
            }
        }
    }
    found.retain(|path| path.extension().is_some_and(|ending| ending == "dtb"));
    found.sort();
    match found.is_empty() {
        true => Err(Failure::host(format!("no folder of {} has a device tree (*.dtb)", folder.display()))),
        false => Ok(found),
    }
}

fn look_at(path: &Path) -> Result<Board, Failure> {
    let bytes = read::bytes(path, DEVICE_TREE)
        .map_err(|error| Failure::host(format!("device tree {} cannot be read: {error}", path.display())))?;
    let word = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
    let name = word(path.file_stem());
    let start = Instant::now();
    let made = draft(&bytes, &name);
    let answer = match made {
        Err(error) => Answer::Refused(error.to_string()),
        Ok(Draft { filled: None, .. }) => Answer::Refused(String::from(
            "its registers, windows and RAM leave no address for what it does not state; see which of them is too large",
        )),
        Ok(Draft { filled: Some(filled), .. }) => {
            let examined = examine(&name, &filled);
            let is_a_limit = |one: &Diagnostic| one.code == Code::BoardLimit || one.severity() == Severity::Warning;
            match &examined.board {
                Some(board) => Answer::CouldRun { has_input: board.uart.is_some() },
                None if examined.report.diagnostics.iter().all(is_a_limit) => {
                    Answer::Lacks(examined.limits.into_iter().collect())
                }
                None => Answer::Malformed(examined.report.to_text(false)),
            }
        }
    };
    let vendor = word(path.parent().and_then(Path::file_name));
    Ok(Board { vendor, name, answer, took: start.elapsed() })
}

/// How many boards lack something, and how many lack nothing else.
fn lacking(boards: &[Board]) -> Vec<(Limit, usize, usize)> {
    let sets =
        || boards.iter().filter_map(|board| if let Answer::Lacks(set) = &board.answer { Some(set) } else { None });
    let mut rows: Vec<_> = Limit::ALL
        .iter()
        .map(|limit| {
            let (all, alone) =
                (sets().filter(|set| set.contains(limit)), sets().filter(|set| set.len() == 1 && set.contains(limit)));
            (*limit, all.count(), alone.count())
        })
        .filter(|(_, all, _)| *all > 0)
        .collect();
    rows.sort_by_key(|(_, all, _)| std::cmp::Reverse(*all));
    rows
}

fn has_input(answer: &Answer) -> bool {
    matches!(answer, Answer::CouldRun { has_input: true })
}

fn could_run(board: &&Board) -> bool {
    matches!(board.answer, Answer::CouldRun { .. })
}

/// Trees with a GICv3 and PSCI: the others lack what no configuration brings.
fn with_gicv3_and_psci(boards: &[Board]) -> usize {
    let has_both = |board: &&Board| match &board.answer {
        Answer::CouldRun { .. } => true,
        Answer::Lacks(set) => !set.contains(&Limit::InterruptController) && !set.contains(&Limit::Psci),
        Answer::Refused(_) | Answer::Malformed(_) => false,
    };
    boards.iter().filter(has_both).count()
}

/// Number of trees and of those that could run, by vendor.
fn by_vendor(boards: &[Board]) -> BTreeMap<&str, (usize, usize)> {
    let mut vendors: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for board in boards {
        let (all, running) = vendors.entry(&board.vendor).or_default();
        *all += 1;
        *running += usize::from(could_run(&board));
    }
    vendors
}

fn text(boards: &[Board], package: &str) -> String {
    let from = if package.is_empty() { String::new() } else { format!(" of {package}") };
    let running = boards.iter().filter(could_run).count();
    let mut text = format!(
        "{} device trees{from}, what no tree says filled in as the monitor wants it\n\n  {running} could run: nothing in the tree is \
         against it; {} of them with console input\n  {} have a GICv3 and PSCI by SMC\n\n",
        boards.len(),
        boards.iter().filter(|board| has_input(&board.answer)).count(),
        with_gicv3_and_psci(boards)
    );
    let mut rows = vec![["what boards lack", "boards", "nothing else"].map(str::to_owned).to_vec()];
    rows.extend(
        lacking(boards)
            .into_iter()
            .map(|(limit, all, alone)| vec![limit.title().to_owned(), all.to_string(), alone.to_string()]),
    );
    text += &table(&rows, 1, 2);
    text.push('\n');
    let mut rows = vec![["vendor", "trees", "could run"].map(str::to_owned).to_vec()];
    let vendors = by_vendor(boards).into_iter();
    rows.extend(vendors.map(|(vendor, (all, running))| vec![vendor.to_owned(), all.to_string(), running.to_string()]));
    text += &table(&rows, 1, 2);
    for board in boards {
        match &board.answer {
            Answer::Refused(why) => text += &format!("\nrefused: {}/{}: {why}\n", board.vendor, board.name),
            Answer::Malformed(report) => {
                text += &format!("\nnot well-formed: {}/{}:\n{report}\n", board.vendor, board.name)
            }
            Answer::CouldRun { .. } | Answer::Lacks(_) => {}
        }
    }
    if let Some(slowest) = boards.iter().max_by_key(|board| board.took) {
        text += &format!(
            "\nthe slowest took {:.1} ms of this host ({}/{}), and a second is allowed\n",
            slowest.took.as_secs_f64() * 1_000.0,
            slowest.vendor,
            slowest.name
        );
    }
    text
}

fn form(boards: &[Board], package: &str) -> Value {
    let count = |is: fn(&Answer) -> bool| boards.iter().filter(|board| is(&board.answer)).count();
    let vendor = |(vendor, (all, _)): (&str, (usize, usize))| {
        let of_vendor = boards.iter().filter(|board| board.vendor == vendor).filter(could_run);
        let names: Vec<&str> = of_vendor.map(|board| board.name.as_str()).collect();
        json!({ "vendor": vendor, "trees": all, "could_run": names })
    };
    let lacking = lacking(boards).into_iter();
    json!({
        "command": "./x bench boards --record",
        "date": record::date(),
        "package": package,
        "trees": boards.len(),
        "could_run": count(|answer| matches!(answer, Answer::CouldRun { .. })),
        "console_input": count(has_input),
        "gicv3_and_psci": with_gicv3_and_psci(boards),
        "refused": count(|answer| matches!(answer, Answer::Refused(_))),
        "malformed": count(|answer| matches!(answer, Answer::Malformed(_))),
        "lacking": lacking.map(|(limit, all, alone)| json!({ "what": limit.title(), "boards": all, "nothing_else": alone })).collect::<Vec<_>>(),
        "vendors": by_vendor(boards).into_iter().map(vendor).collect::<Vec<_>>(),
    })
}
