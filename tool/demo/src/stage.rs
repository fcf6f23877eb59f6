//! A run of a demonstration: the machine, what is shown of it, and who visits it meanwhile.

use crate::cast::Cast;
use crate::story::{Shown, has_ended};
use crate::uart::{ANSWER, REQUEST};
use crate::{CONTROL, INTRUDER, LINUX, OFFICE};
use bulkhead_run::command::Format;
use bulkhead_run::command::show::Show;
use bulkhead_run::control::ControlServer;
use bulkhead_run::source::SourceError;
use bulkhead_run::{End, Event, Machine, MachineOptions, Observer, RunError};
use std::time::{Duration, Instant};

/// Between two looks at a machine that says nothing.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// A machine that was started, what is shown of it, and the door for `bulkhead attach` and `bulkhead stats`.
pub(crate) struct Stage {
    machine: Machine,
    show: Option<Show<bulkhead_files::Output>>,
    control: Option<ControlServer>,
}

impl Stage {
    /// Starts a machine whose run is shown, and which visitors find by the name of its system.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(crate) fn open(options: MachineOptions, shown: Shown, system: &str) -> Result<Self, SourceError> {
        let names = options.console_names();
        let machine = Machine::start(options)?;
        let colour = bulkhead_files::output::colours() && shown.events == Some(Format::Text);
        let show = shown.events.map(|format| Show::new(bulkhead_files::Output, format, colour, names, Vec::new()));
        let control = ControlServer::start(&std::process::id().to_string(), system, &machine.shared_paths())?;
        Ok(Self { machine, show, control: Some(control) })
    }

    /// Starts a machine of which nothing is shown.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(crate) fn hidden(options: MachineOptions) -> Result<Self, SourceError> {
        Ok(Self { machine: Machine::start(options)?, show: None, control: None })
    }

    /// Watches the run until the story is told: controller done, Linux off after its restart, office off, intruder at its end. Answers at
    /// the UART of Linux meanwhile, and passes on what `bulkhead attach` sends.
    ///
    /// # Errors
    /// As for [`Stage::watch_until`].
    pub(crate) fn watch(self, cast: &Cast, limit: Duration) -> Result<Machine, SourceError> {
        self.watch_until(cast, limit, |machine| {
            let has_all = machine.observer().is_some_and(Observer::all_ended);
            has_all || is_told(machine, cast)
        })
    }

    /// The same until the machine has ended by itself, or this says so after a poll.
    ///
    /// # Errors
    /// When a monitor fails, or the run does not end within the limit.
    pub(crate) fn watch_until(
        mut self,
        cast: &Cast,
        limit: Duration,
        mut is_over: impl FnMut(&mut Machine) -> bool,
    ) -> Result<Machine, SourceError> {
        let start = Instant::now();
        let mut heard = 0;
        loop {
            let mut events = self.machine.poll();
            let ended = is_over(&mut self.machine) || self.machine.end()? == Some(End::PoweredOff);
            if ended {
                events.extend(self.machine.quit());
            }
            for event in events {
                if let Some(show) = &mut self.show
                    && show.event(&event).is_err()
                {
                    return Ok(self.machine);
                }
                if let Event::MonitorCrash(report) = event {
                    return Err(RunError::MonitorCrashed(report).into());
                }
            }
            if ended {
                return Ok(self.machine);
            }
            if start.elapsed() > limit {
                return Err(self.machine.timeout("the demonstration to end", limit).into());
            }
            if let Some(uart) = &cast.uart {
                heard = answer(&mut self.machine, uart, heard)?;
            }
            while let Some(bytes) = self.control.as_ref().and_then(ControlServer::next_input) {
                self.machine.send_serial(&bytes)?;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

/// Sends a line for each that Linux asked for since `heard` lines came from its UART; returns how many came by now.
fn answer(machine: &mut Machine, uart: &str, heard: usize) -> Result<usize, RunError> {
    let requests: Vec<bool> = machine.lines(uart).skip(heard).map(|line| line.text == REQUEST).collect();
    for _ in requests.iter().filter(|is_request| **is_request) {
        // Far less than the socket takes: a short count is an end of the machine, which is found by itself.
        machine.send_uart(uart, format!("{ANSWER}\n").as_bytes())?;
    }
    Ok(heard + requests.len())
}

fn is_told(machine: &Machine, cast: &Cast) -> bool {
    let Some(observer) = machine.observer() else { return false };
    let office = cast.has_office.then_some(OFFICE);
    [CONTROL, LINUX, INTRUDER].into_iter().chain(office).all(|name| has_ended(observer, name))
}
