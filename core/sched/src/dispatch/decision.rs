//! The answer of a core in words that a tool can match on. The monitor takes it as it comes ([`Next`]).

use super::{Core, Next, Stint};
use crate::dates::NEVER;

/// Who runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The vCPU.
    pub vcpu: u8,
    /// The server through which it runs, and which is charged unless `background`.
    pub server: u8,
    /// The server's budget is used up and it runs on idle time.
    pub background: bool,
}

/// The answer of [`Core::pick`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Who runs; `None` when the core is idle.
    pub choice: Option<Choice>,
    /// When to ask again if nothing is reported before; `None` when nothing would change.
    pub deadline_ticks: Option<u64>,
}

impl From<Next> for Decision {
    fn from(Next { stint, deadline_ticks }: Next) -> Self {
        let choice = Choice { vcpu: stint.vcpu(), server: stint.server(), background: stint.is_background() };
        Self {
            choice: (stint != Stint::IDLE).then_some(choice),
            deadline_ticks: (deadline_ticks != NEVER).then_some(deadline_ticks),
        }
    }
}

impl<const SERVERS: usize, const VCPUS: usize> Core<SERVERS, VCPUS> {
    /// As [`Self::next`].
    pub fn pick(&mut self, now: u64) -> Decision {
        self.next(now).into()
    }
}
