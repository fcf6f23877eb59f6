//! What commands share that read a description, and the command `schema`.
//!
//! Exit codes of every command: 0 done or accepted, 1 refused by a check, 2 wrong usage, 3 environment (a file, a program
//! or the machine). Reports go to the error stream, results to the output stream.

use crate::diagnostic::Report;
use crate::unit::format_size;
use crate::{Check, Loaded, Options, load, pairs, schema};
use bulkhead_plan::model::{Below, PayloadKind, Secure, System};
use std::path::PathBuf;
use std::process::ExitCode;

/// Exit code: refused by a check.
pub const EXIT_REFUSED: u8 = 1;
/// Exit code: wrong usage.
pub const EXIT_USAGE: u8 = 2;
/// Exit code: a file, a program or the machine.
pub const EXIT_ENVIRONMENT: u8 = 3;

/// Form of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// For programs: one JSON value on the output stream.
    Json,
}

/// The description that a command works on. Other commands flatten this into their own arguments.
#[derive(Clone, Debug, clap::Args)]
pub struct DescriptionArguments {
    /// System description (TOML), or a directory with a `system.toml`.
    #[arg(value_name = "SYSTEM")]
    pub system: PathBuf,
    /// Directory of built guests, which the prefix `guest:` means [default: $BULKHEAD_GUESTS, else target/guests].
    #[arg(long, value_name = "DIR")]
    pub guests: Option<PathBuf>,
}

impl DescriptionArguments {
    /// Reads and checks the description. Warnings and errors are printed; an error gives the exit code to end with.
    ///
    /// # Errors
    /// The exit code, after everything was said.
    pub fn load(&self, check: &dyn Check) -> Result<Loaded, ExitCode> {
        match load(&self.system, &Options::from_environment(self.guests.clone()), check) {
            Ok(loaded) => {
                print_report(&loaded.warnings);
                Ok(loaded)
            }
            Err(report) => {
                print_report(&report);
                Err(exit_code(&report))
            }
        }
    }
}

/// Returns the exit code that a report asks for.
#[must_use]
pub fn exit_code(report: &Report) -> ExitCode {
    if report.has_environment_errors() {
        ExitCode::from(EXIT_ENVIRONMENT)
    } else if report.has_errors() {
        ExitCode::from(EXIT_REFUSED)
    } else {
        ExitCode::SUCCESS
    }
}

/// Prints a report to the error stream.
pub fn print_report(report: &Report) {
    use bulkhead_files::output;
    output::complain(&report.to_text(output::colours_of_errors()));
}

/// Writes a text to the output stream.
pub fn print(text: &str) {
    bulkhead_files::output::print(text);
}

/// Shown at the end of `bulkhead check --help`.
pub const CHECK_HELP: &str = "\
Exit codes:
  0  accepted, perhaps with warnings
  1  refused: at least one error, or a warning with --deny-warnings
  2  wrong usage
  3  the description or its board file cannot be read

JSON (one value; fields are only ever added within a version):
  version 1, accepted, errors, warnings, omitted (how many of them are not shown), diagnostics[]: code, severity (error, warning), title, message,
  labels[] (file, line, column, end_line, end_column from 1, start and end in bytes, text; the first is the mistake),
  notes[], helps[], suggestions[] (place as in a label, replacement, text)
  accepted systems with virtio devices between partitions have virtio[]: name, kind, front, back, notified and interrupted (events, per_ns), answer_ns
  (null: no answer has a bound)";

/// Arguments of `bulkhead check`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = CHECK_HELP)]
pub struct CheckArguments {
    /// The description.
    #[command(flatten)]
    pub description: Option<DescriptionArguments>,
    /// Form of the report.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Refuse a description with warnings, too.
    #[arg(long)]
    pub deny_warnings: bool,
    /// Print the long text of a code instead, as `bulkhead explain` does.
    #[arg(long, value_name = "CODE", exclusive = true)]
    pub explain: Option<String>,
}

/// One line about an accepted system, and its virtio devices.
#[must_use]
pub fn summary(loaded: &Loaded) -> String {
    let system = &loaded.system;
    if let Some(secure) = &system.secure {
        return summary_of_worlds(system, secure);
    }
    format!("{}: accepted: {}\n{}", system.name, partitions_text(system), pairs::text(system))
}

/// The partitions of a system, their cores, channels and PCI functions.
fn partitions_text(system: &System) -> String {
    let cores = system.used_cores().len();
    let shared = match system.schedules.len() {
        0 => String::new(),
        number => format!(" ({number} of them shared)"),
    };
    let count = |number: usize, what: &str| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
    let functions = match system.functions.len() {
        0 => String::new(),
        number => format!(", {}", count(number, "PCI function")),
    };
    let virtio = match system.virtio.len() {
        0 => String::new(),
        number => format!(", {}", count(number, "virtio device")),
    };
    format!(
        "{} on {cores}{shared} of {} of {}, {}{functions}{virtio}",
        count(system.partitions.len(), "partition"),
        count(system.board.core_mpidr.len(), "core"),
        system.board.name,
        count(system.channels.len(), "channel")
    )
}

/// One line about an accepted system with a secure section.
fn summary_of_worlds(system: &System, secure: &Secure) -> String {
    let kind = match secure.payload.kind {
        PayloadKind::FreeRtos => "FreeRTOS",
        PayloadKind::Elf => "a payload",
    };
    let below = match &secure.below {
        Below::Nobody => String::from("with nothing below"),
        Below::Image(world) => {
            let memory = format_size(world.memory.bytes);
            format!("above `{}` at {} with {memory}", world.name, world.level.name())
        }
        Below::Partitions(_) => format!("above {}", partitions_text(system)),
    };
    format!(
        "{}: accepted: {kind} in the secure world of core {} of {}, {below}\n",
        system.name, secure.core, system.board.name
    )
}

/// What a schema describes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum SchemaOf {
    /// `system.toml`.
    #[default]
    System,
    /// A board file.
    Board,
    /// An instance of the real-time kernel: `NAME.kernel.toml`.
    Kernel,
}

/// Arguments of `bulkhead schema`.
#[derive(Clone, Debug, clap::Args)]
pub struct SchemaArguments {
    /// What the schema describes.
    #[arg(value_enum, default_value_t)]
    pub of: SchemaOf,
}

/// Runs `bulkhead schema`: prints a JSON Schema, for editors that complete and check TOML.
#[must_use]
pub fn schema(arguments: &SchemaArguments) -> ExitCode {
    let value = match arguments.of {
        SchemaOf::System => schema::description(),
        SchemaOf::Board => schema::board(),
        SchemaOf::Kernel => schema::kernel(),
    };
    print(&format!("{value:#}\n"));
    ExitCode::SUCCESS
}

/// Arguments of `bulkhead explain`.
#[derive(Clone, Debug, clap::Args)]
pub struct ExplainArguments {
    /// Code of a diagnostic or finding, for example BH0101 or V042; without it, all codes are listed.
    pub code: Option<String>,
}
