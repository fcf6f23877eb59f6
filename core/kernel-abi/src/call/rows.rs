//! What a line of the table of calls is. It is for pages, tests and bindings of other languages: the kernel has a `match`.

use super::Call;
use crate::Code;

/// How long a call can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// One path, whatever the tables hold.
    Constant,
    /// At most so many steps of the same kind.
    Steps(u8),
    /// Pieces of one page or one object; between them the kernel looks for interrupts.
    Slices,
}

/// A register and what it holds.
pub type Register = (u8, &'static str);

/// A call, or one operation of it.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The call.
    pub call: Call,
    /// Number, name and meaning of the operation, where the call has several.
    pub operation: Option<(u64, &'static str, &'static str)>,
    /// Registers that it takes; x0 is the operation where there are several.
    pub arguments: &'static [Register],
    /// Registers that it answers, beside the code's.
    pub answers: &'static [Register],
    /// What it may answer besides [`Code::COMMON`].
    pub codes: &'static [Code],
    /// How long it can be.
    pub bound: Bound,
}

impl Row {
    /// The register of the code: x0, or x8 where x0 to x7 belong to caller and callee.
    #[must_use]
    pub const fn code_register(&self) -> u8 {
        if matches!(self.call, Call::Invoke | Call::Return) { 8 } else { 0 }
    }
}
