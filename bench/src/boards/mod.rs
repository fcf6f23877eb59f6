//! `./x bench boards`: what is the same on every board, and what boards lack.
//!
//! Three tasks, each with its own source of boards: drafts of the device trees of real boards ([`trees`]), the rows of the documentation on
//! every built-in board ([`rows`]), and the scenarios of `tests/system` there ([`suite`]).

mod rows;
mod suite;
mod trees;

pub use rows::{MOST_ABOVE, OnBoard, above, measure, names, too_long};

use crate::{Failure, report};
use bulkhead_description::board::{BUILT_IN, built_in_board};
use bulkhead_run::exit_code;
use clap::Args;
use std::path::PathBuf;

/// Options of `./x bench boards`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct BoardsArguments {
    /// Folder of device trees, one folder inside for each vendor [default: those of Debian's kernel, which are downloaded]
    #[arg(long, value_name = "DIR")]
    trees: Option<PathBuf>,

    /// Write the result to docs/boards.json of the repository, from which a chapter of the book is made.
    #[arg(long, conflicts_with = "trees")]
    record: bool,

    /// Measure the rows that make sense on every built-in board, instead, and print them side by side.
    #[arg(long, conflicts_with_all = ["trees", "record"])]
    rows: bool,

    /// Run the scenarios of tests/system on every built-in board, instead.
    #[arg(long, conflicts_with_all = ["trees", "record", "rows"])]
    suite: bool,

    /// With --suite: what `./x test` runs on boards other than the default one, and nothing on that.
    #[arg(long, requires = "suite", conflicts_with = "rows")]
    short: bool,

    /// With --suite: on this built-in board alone.
    #[arg(long, value_name = "BOARD", requires = "suite", conflicts_with = "rows")]
    board: Option<String>,
}

const AFTER_HELP: &str = "\
Without --rows and --suite: drafts of board files from device trees. What no tree says is filled in as the monitor wants it, EL2 among
it. `could run` means that nothing in the tree is against it.

Examples:
  ./x bench boards                    prints on how many real boards Bulkhead could run
  ./x bench boards --record           and writes it down
  ./x bench boards --trees mine       takes other trees
  ./x bench boards --rows             prints what the monitor costs on each built-in board
  ./x bench boards --suite            runs all scenarios on each built-in board
  ./x bench boards --suite --board xlnx-versal-virt
                                      on that one alone

Exit codes:
  0  every tree was answered: by a board file that is well-formed, or by a reason; every row on every board is at most 3 instructions above
     the first; every scenario passed on every board where it can run, and failed as expected where it cannot
  1  a draft is not well-formed once it is filled in, or took more than a second; a row or a scenario is not as it should be
  2  wrong usage
  3  there are no trees, or the scenarios cannot be built";

/// Runs `./x bench boards`.
pub(crate) fn run(arguments: &BoardsArguments) -> Result<u8, Failure> {
    if arguments.rows {
        return print_rows();
    }
    if arguments.suite {
        return suite::run(arguments.board.as_deref(), arguments.short);
    }
    trees::run(arguments.trees.as_deref(), arguments.record)
}

/// Names of the built-in boards on which partitions run, the default one first. On a board that is entered at EL3 nothing runs without a
/// payload at S-EL1, and what is run here has none.
pub(crate) fn built_in() -> impl Iterator<Item = &'static str> {
    let is_other =
        |name: &&str| *name != BUILT_IN.default && built_in_board(name).is_some_and(|board| board.secure.is_none());
    let others = BUILT_IN.files.iter().map(|(name, _)| *name).filter(is_other);
    std::iter::once(BUILT_IN.default).chain(others)
}

fn print_rows() -> Result<u8, Failure> {
    bulkhead_files::say!("{}\n", report::INSTRUCTIONS);
    let all = measure(&names(), |_, _| ())?;
    bulkhead_files::output::print(&report::boards_text(&all));
    Ok(if too_long(&all).is_empty() { exit_code::SUCCESS } else { exit_code::FAILURE })
}
