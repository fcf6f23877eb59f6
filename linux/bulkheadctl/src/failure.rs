//! Why an invocation failed, and its exit code.

use std::fmt;
use std::io;

/// The machine or the kernel did not do what was asked (permissions, no driver, no device).
pub const MACHINE: u8 = 1;
/// The command line is wrong.
pub const USAGE: u8 = 2;
/// No channel or partition has that name.
pub const NOT_FOUND: u8 = 3;
/// Nothing arrived in time, or the peer has not opened its end.
pub const NOTHING: u8 = 4;
/// The queue stayed full.
pub const FULL: u8 = 5;
/// The peer's memory is rubbish.
pub const CORRUPT: u8 = 6;
/// The monitor refused: this partition may not do that.
pub const REFUSED: u8 = 7;

/// An exit code and one message: what, where, why, what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Exit code.
    pub code: u8,
    /// Message, without the program's name.
    pub message: String,
}

impl Failure {
    /// Makes a failure.
    pub fn new(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// Makes a failure of the machine from an operation and the system's answer.
    pub fn machine(what: impl fmt::Display, error: &io::Error) -> Self {
        let hint = match error.kind() {
            io::ErrorKind::PermissionDenied => " (run it as root)",
            _ => "",
        };
        Self::new(MACHINE, format!("{what}: {error}{hint}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// Errors of the output.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::new(MACHINE, format!("cannot write the output: {error}"))
    }
}
