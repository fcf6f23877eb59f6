//! The command `board check`: a look at a board file alone.

use super::{Examined, Limit, examine};
use crate::code::Code;
use crate::command::{Format, exit_code, print, print_report};
use crate::diagnostic::{Diagnostic, Report};
use crate::unit::format_size;
use bulkhead_plan::model::{Bank, Board};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;

/// Shown at the end of `bulkhead board check --help`.
const CHECK_HELP: &str = "\
Examples:
  bulkhead board check boards/mine.toml
  bulkhead board check boards/mine.toml --format json | jq '.limits'

Exit codes:
  0  Bulkhead can run on this board, as far as its file says
  1  the file is wrong or not finished, or the board lacks something
  2  wrong usage
  3  the file cannot be read

JSON (one value; fields are only ever added within a version):
  as `check --format json`, and limits[] (what the board lacks, in a few words each), board (when accepted: name, cores, core_types[],
  ram_bytes, banks, security_states, shared_interrupts, spare_interrupts, devices[])";

/// Arguments of `bulkhead board check`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = CHECK_HELP)]
pub struct BoardCheckArguments {
    /// Board file (TOML).
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Form of the report.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// Runs `bulkhead board check`: says whether Bulkhead can run on a board, and what is in the way if not.
#[must_use]
pub fn check(arguments: &BoardCheckArguments) -> ExitCode {
    let name = arguments.file.display().to_string();
    let examined = match bulkhead_files::read::text(&arguments.file, bulkhead_files::read::BOARD) {
        Ok(text) => examine(&name, &text),
        Err(error) => {
            let mut report = Report::default();
            let message = format!("board file {name} cannot be read: {}", crate::reason(&error));
            report.push(Diagnostic::new(Code::FileUnreadable, message));
            Examined { report, board: None, limits: Vec::new() }
        }
    };
    match arguments.format {
        Format::Json => print(&format!("{:#}\n", to_json(&examined))),
        Format::Text => {
            print_report(&examined.report);
            if let Some(board) = &examined.board {
                print(&summary(&name, board));
            }
        }
    }
    exit_code(&examined.report)
}

/// Two lines about a board on which Bulkhead can run.
#[must_use]
pub fn summary(name: &str, board: &Board) -> String {
    let banks = board.banks.iter().map(|bank| format!("{} at {}", format_size(bank.bytes), bank.start));
    let reserved: u64 = board.reserved_in(&board.banks).iter().map(|one| one.bytes).sum();
    let mut text = format!(
        "{name}: Bulkhead can run on {}: {} of {}, RAM {}",
        board.name,
        count(board.core_mpidr.len(), "core"),
        core_types(board).join(" and "),
        banks.collect::<Vec<_>>().join(" and "),
    );
    if reserved != 0 {
        text.push_str(&format!(" ({} of it reserved)", format_size(reserved)));
    }
    let masters = board.devices.iter().filter(|device| device.dma).count();
    text.push_str(&format!(
        "\n  GICv3 with {} and {}, {} of them spare; {}, {masters} with DMA; console input {}\n",
        count(board.security_states as usize, "security state"),
        count(board.shared_interrupts as usize, "shared interrupt"),
        board.spare_interrupts.len(),
        count(board.devices.len(), "device"),
        if board.uart.is_some() { "by a PL011" } else { "not possible: the file names no UART for the monitor" },
    ));
    if let Some(secure) = &board.secure {
        text.push_str(&format!(
            "  entered at EL3, for systems with two worlds: secure RAM {} at {}, flash {} at {}\n",
            format_size(secure.ram.bytes),
            secure.ram.start,
            format_size(secure.flash.bytes),
            secure.flash.start,
        ));
    }
    text
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Names of the core types, each once.
fn core_types(board: &Board) -> Vec<&'static str> {
    let mut names: Vec<_> = board.core_types.iter().flatten().map(|kind| kind.name).collect();
    names.dedup();
    names
}

fn to_json(examined: &Examined) -> Value {
    let mut whole = examined.report.to_json();
    whole["limits"] = examined.limits.iter().map(|limit: &Limit| Value::from(limit.title())).collect();
    if let Some(board) = &examined.board {
        let bank = |bank: &Bank| json!({ "address": bank.start.0, "bytes": bank.bytes });
        let devices = board.devices.iter().map(|device| json!({ "name": device.name, "dma": device.dma }));
        whole["board"] = json!({
            "name": board.name,
            "cores": board.core_mpidr.len(),
            "core_types": core_types(board),
            "ram_bytes": board.ram_bytes(),
            "banks": board.banks.iter().map(bank).collect::<Vec<_>>(),
            "security_states": board.security_states,
            "shared_interrupts": board.shared_interrupts,
            "spare_interrupts": board.spare_interrupts.len(),
            "devices": devices.collect::<Vec<_>>(),
        });
    }
    whole
}
