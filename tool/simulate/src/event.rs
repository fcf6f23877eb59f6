//! What happens in a simulation.

use std::io;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The vCPU starts to run.
    Start {
        /// It pays nothing.
        background: bool,
    },
    /// The vCPU stops running.
    Stop,
    /// The server that the vCPU ran through has no budget left.
    Exhaust,
    /// Budget came back to a server that waited for it.
    Replenish,
    /// Work arrived.
    Arrive,
    /// Work, or the handler of an interrupt, is done.
    Complete {
        /// Time since it arrived.
        response_ns: u64,
    },
    /// An interrupt arrived.
    Interrupt,
    /// A band admitted a server that was made.
    Admit,
    /// A band did not: nothing was made.
    Refuse,
    /// A server of a band has ended, and what was to be done there.
    End,
}

impl EventKind {
    /// Returns the word in the JSON form.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Start { .. } => "start",
            Self::Stop => "stop",
            Self::Exhaust => "exhaust",
            Self::Replenish => "replenish",
            Self::Arrive => "arrive",
            Self::Complete { .. } => "complete",
            Self::Interrupt => "interrupt",
            Self::Admit => "admit",
            Self::Refuse => "refuse",
            Self::End => "end",
        }
    }
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub time_ns: u64,
    /// Place of the core among the shared ones ([`crate::Simulation::cores`]).
    pub core: usize,
    /// Slot of the vCPU on it; of an instance the place among those who work.
    pub slot: usize,
    /// Number of the server, where one is concerned; none under round robin.
    pub server: Option<u8>,
    /// What.
    pub kind: EventKind,
}

/// Where events go, in order of time.
pub trait Sink {
    /// Takes an event.
    ///
    /// # Errors
    /// When it cannot be written.
    fn event(&mut self, event: &Event) -> io::Result<()>;
}

impl Sink for Vec<Event> {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        self.push(*event);
        Ok(())
    }
}

/// Nowhere: for measuring.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nowhere;

impl Sink for Nowhere {
    fn event(&mut self, _: &Event) -> io::Result<()> {
        Ok(())
    }
}
