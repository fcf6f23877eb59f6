//! Where each part of a resolved system was written, and the check that another crate adds.
//!
//! Whether the time of a shared core suffices is a question for the analysis, which is a crate of its own; its answers must
//! look and behave like every other diagnostic. So [`crate::load`] calls the check that it is given, on a system that has no error of
//! form, and hands it the places. The rejected alternative, a second pass in the command `check` alone, would let `build` and
//! `run` accept what `check` refuses.

use crate::diagnostic::Diagnostic;
use crate::source::Span;
use bulkhead_plan::model::System;

/// Places of the parts of a [`System`]; each list is in the order and of the length of the system's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spans {
    /// Partitions.
    pub partitions: Vec<PartitionSpans>,
    /// Schedules.
    pub schedules: Vec<ScheduleSpans>,
    /// Channels.
    pub channels: Vec<ChannelSpans>,
    /// virtio devices.
    pub virtio: Vec<ChannelSpans>,
    /// The secure world.
    pub secure: Option<SecureSpans>,
}

/// Places of the secure world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecureSpans {
    /// Tasks of the payload.
    pub tasks: Vec<TaskSpans>,
    /// Servers of the world below, and its latency tasks behind them.
    pub servers: Vec<WorldServerSpans>,
    /// Windows, by their starts.
    pub windows: Vec<Span>,
}

/// Places of a server of the world below.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorldServerSpans {
    /// All of it.
    pub whole: Span,
    /// `budget`.
    pub budget: Option<Span>,
    /// `period`.
    pub period: Option<Span>,
}

/// Places of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionSpans {
    /// Its name.
    pub name: Span,
    /// `trust`.
    pub trust: Option<Span>,
    /// The entries of `cores`.
    pub cores: Vec<Span>,
    /// `route`.
    pub route: Option<Span>,
    /// `doorbell_limit`.
    pub doorbell_limit: Option<Span>,
    /// Its devices.
    pub devices: Vec<DeviceSpans>,
    /// Its servers.
    pub servers: Vec<ServerSpans>,
    /// Its tasks.
    pub tasks: Vec<TaskSpans>,
}

/// Places of a device of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceSpans {
    /// The whole entry.
    pub whole: Span,
    /// `route`.
    pub route: Option<Span>,
    /// `limit`.
    pub limit: Option<Span>,
    /// `handler`.
    pub handler: Option<Span>,
    /// `deadline`.
    pub deadline: Option<Span>,
}

/// Places of a server. What was not written has no place; [`ServerSpans::or_whole`] then points at the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSpans {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// The whole table.
    pub whole: Span,
    /// `priority`.
    pub priority: Option<Span>,
    /// `rule`.
    pub rule: Option<Span>,
    /// `budget`.
    pub budget: Option<Span>,
    /// `period`.
    pub period: Option<Span>,
    /// `anchor`.
    pub anchor: Option<Span>,
    /// `chunks`.
    pub chunks: Option<Span>,
    /// `minimum`.
    pub minimum: Option<Span>,
    /// `least_charge`.
    pub least_charge: Option<Span>,
    /// `share`.
    pub share: Option<Span>,
    /// `clients`.
    pub clients: Option<Span>,
    /// `gate`.
    pub gate: Option<Span>,
    /// `payer`.
    pub payer: Option<Span>,
}

impl ServerSpans {
    /// Returns a place, or that of the server.
    #[must_use]
    pub fn or_whole(&self, place: Option<Span>) -> Span {
        place.unwrap_or(self.whole)
    }
}

/// Places of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSpans {
    /// The whole table.
    pub whole: Span,
    /// `cost`.
    pub cost: Span,
    /// `period`.
    pub period: Span,
    /// `deadline`.
    pub deadline: Option<Span>,
}

/// Places of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleSpans {
    /// The whole table.
    pub whole: Span,
    /// `core`.
    pub core: Span,
    /// `kind`.
    pub kind: Span,
    /// The quanta, or the one of a round robin.
    pub quanta: Vec<Span>,
    /// `major_frame`.
    pub major_frame: Option<Span>,
    /// The windows.
    pub windows: Vec<Span>,
}

/// Places of a channel or a virtio device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelSpans {
    /// Its name.
    pub name: Span,
    /// `doorbell`.
    pub doorbell: Option<Span>,
}

/// A check of another crate: it looks at a system without errors and returns what it finds.
///
/// The caller that loads a description names one ([`crate::load`]); there is no default, so that nobody can forget it.
/// The check of time is an implementation whose fields are the assumptions that it rests on.
///
/// Rejected: a variable of the process that the program sets at its start. Every other caller got systems that nobody had checked.
pub trait Check {
    /// Looks at a system without errors.
    fn check(&self, system: &System, spans: &Spans) -> Vec<Diagnostic>;
}
