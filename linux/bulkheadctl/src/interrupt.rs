//! Waiting: for a doorbell where the port has an interrupt, by polling where it has none.
//!
//! The limiter may hold a notification back while the data is in the channel, so a receiver polls in any case, only less
//! often when it has an interrupt (`real-time.md` 3.4: latency is bounded by the poll).

use crate::failure::{Failure, MACHINE};
use crate::port::Port;
use crate::sysfs::Machine;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::Read;
use std::time::{Duration, Instant};

/// Poll period beside an interrupt.
const POLL_WITH_INTERRUPT: Duration = Duration::from_millis(100);
/// Poll period without one.
const POLL_ALONE: Duration = Duration::from_millis(5);

/// A moment to give up, if any.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    /// Counts from now; `None` = never.
    pub(crate) fn after(timeout: Option<Duration>) -> Self {
        Self(timeout.and_then(|timeout| Instant::now().checked_add(timeout)))
    }

    /// Returns the time left, at most `most`.
    pub(crate) fn remaining(&self, most: Duration) -> Duration {
        self.0.map_or(most, |end| end.saturating_duration_since(Instant::now()).min(most))
    }

    /// States whether it is over.
    pub(crate) fn is_over(&self) -> bool {
        self.0.is_some_and(|end| Instant::now() >= end)
    }
}

/// Waits until something may have arrived.
#[derive(Debug)]
pub(crate) struct Waiter<'p> {
    port: &'p Port,
    /// The port's uio device, where it has an interrupt.
    uio: Option<File>,
}

impl<'p> Waiter<'p> {
    /// Prepares waiting; without the driver it falls back to polling and says so.
    pub(crate) fn new(machine: &Machine, port: &'p Port) -> Self {
        let uio = port
            .has_interrupt()
            .then(|| machine.open_uio(port.function()))
            .and_then(|opened| opened.map_err(|failure| eprintln!("bulkheadctl: polling, because {failure}")).ok());
        Self { port, uio }
    }

    /// Prepares waiting for doorbells; polling is no substitute.
    pub(crate) fn for_doorbell(machine: &Machine, port: &'p Port) -> Result<Self, Failure> {
        if !port.has_interrupt() {
            let message = format!("port {} receives no doorbell: the channel's description has none", port.name());
            return Err(Failure::new(MACHINE, message));
        }
        Ok(Self { port, uio: Some(machine.open_uio(port.function())?) })
    }

    /// Waits for a doorbell, for the poll period, or to the deadline, whichever is first; returns whether it was rung.
    pub(crate) fn wait(&mut self, deadline: Deadline) -> Result<bool, Failure> {
        let Some(uio) = self.uio.as_mut() else {
            std::thread::sleep(deadline.remaining(POLL_ALONE));
            return Ok(false);
        };
        // A doorbell that came while the line was masked keeps its level, so unmasking delivers it: none is missed.
        self.port.doorbells().unmask();
        self.port.function().interrupt_switch()?.unmask()?;
        let left = deadline.remaining(POLL_WITH_INTERRUPT);
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(left.subsec_nanos()) };
        let describe = |error: &std::io::Error| Failure::machine("cannot wait for the doorbell", error);
        let mut descriptors = [PollFd::new(&*uio, PollFlags::IN)];
        match poll(&mut descriptors, Some(&timeout)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(false),
            Ok(_) => {}
            Err(error) => return Err(describe(&error.into())),
        }
        let mut count = [0; 4];
        uio.read_exact(&mut count).map_err(|error| describe(&error))?;
        self.port.doorbells().take();
        Ok(true)
    }
}
