//! The output stream and the error stream.
//!
//! `println!` ends the program with a panic when the stream cannot be written, and `let _ = write!` hides it. Here the first
//! error is kept, and the program ends with it ([`result`]).
//!
//! Whether a stream gets colours is decided here for all commands: on a terminal that has them, unless `NO_COLOR` is set
//! ([`colours`], [`colours_of_errors`]).

use anstream::{AutoStream, ColorChoice};
pub use anstyle::AnsiColor;
use anstyle::Style;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Mutex;

/// Exit code when the output cannot be written.
const ENVIRONMENT: u8 = 3;

/// The first error of the output stream.
static FAILED: Mutex<Option<io::Error>> = Mutex::new(None);

/// The output stream of the program; an error of it is also kept for [`result`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Output;

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        io::stdout().write(bytes).inspect_err(keep)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush().inspect_err(keep)
    }
}

/// Keeps the first error, unless it is that the reader went away (as `head` does): that is none.
fn keep(error: &io::Error) {
    let copy = || error.raw_os_error().map_or_else(|| io::Error::from(error.kind()), io::Error::from_raw_os_error);
    if !matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::Interrupted)
        && let Ok(mut failed) = FAILED.lock()
    {
        failed.get_or_insert_with(copy);
    }
}

/// Writes text to the output stream; an error is kept for [`result`].
pub fn print(text: &str) {
    let _ = Output.write_all(text.as_bytes());
}

/// Style of what went wrong: errors, faults of guests, monitors that failed.
pub const FAULT: Style = AnsiColor::Red.on_default().bold();
/// Style of warnings.
pub const WARNING: Style = AnsiColor::Yellow.on_default().bold();

/// States whether colours belong on the output stream: it is a terminal that has them, and `NO_COLOR` is not set.
#[must_use]
pub fn colours() -> bool {
    AutoStream::choice(&io::stdout()) != ColorChoice::Never
}

/// States whether colours belong on the error stream.
#[must_use]
pub fn colours_of_errors() -> bool {
    AutoStream::choice(&io::stderr()) != ColorChoice::Never
}

/// Puts a text into a style, if colours are wanted.
#[must_use]
pub fn styled(text: &str, style: Style, colours: bool) -> String {
    if colours { format!("{style}{text}{style:#}") } else { text.to_owned() }
}

/// Writes text to the error stream, a word `error:` or `warning:` in front of it in its colour. Nobody could be told that this
/// fails, and it must not end the program.
pub fn complain(text: &str) {
    let _ = io::stderr().write_all(marked(text, colours_of_errors()).as_bytes());
}

/// The text with its first word in the colour that the word has.
fn marked(text: &str, colours: bool) -> String {
    let styles = [("error:", FAULT), ("warning:", WARNING)];
    let found = styles.iter().find_map(|(word, style)| Some((*word, *style, text.strip_prefix(word)?)));
    match found {
        Some((word, style, rest)) => styled(word, style, colours) + rest,
        None => text.to_owned(),
    }
}

/// The exit code of the program: `code`, unless something could not be written to the output stream.
#[must_use]
pub fn result(code: ExitCode) -> ExitCode {
    let _ = Output.flush();
    match FAILED.lock().map(|failed| failed.as_ref().map(ToString::to_string)) {
        Ok(Some(error)) => {
            complain(&format!("error: cannot write to the output stream: {error}\n"));
            ExitCode::from(ENVIRONMENT)
        }
        _ => code,
    }
}

/// As `println!`.
#[macro_export]
macro_rules! say {
    ($($arguments:tt)*) => { $crate::output::print(&::std::format!("{}\n", ::core::format_args!($($arguments)*))) };
}

/// As `eprintln!`.
#[macro_export]
macro_rules! complain {
    ($($arguments:tt)*) => { $crate::output::complain(&::std::format!("{}\n", ::core::format_args!($($arguments)*))) };
}

#[cfg(test)]
mod tests {
    use super::{FAULT, marked, styled};

    #[test]
    fn errors_are_red_where_colours_are_wanted() {
        assert_eq!(marked("error: no\n", true), "\u{1b}[1m\u{1b}[31merror:\u{1b}[0m no\n");
        assert_eq!(marked("error: no\n", false), "error: no\n");
        assert_eq!(marked("no error: none\n", true), "no error: none\n");
        assert_eq!(styled("stopped", FAULT, false), "stopped");
    }
}
