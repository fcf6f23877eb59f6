//! Who looks at a run from outside: `attach`, `stats` and `trace`, and what they are told.

use crate::console_server::ConsoleServer;
use crate::control::ControlServer;
use crate::error::RunError;
use crate::machine::Machine;
use crate::tally::Tally;
use crate::worlds::WorldsTrace;
use std::time::{Duration, Instant};

/// Time between two sums of a payload's records.
const TELL_INTERVAL: Duration = Duration::from_millis(100);

/// The run's side.
pub(super) struct Visitors {
    control: ControlServer,
    consoles: ConsoleServer,
    /// What the payload's records come to, and when visitors were told.
    tally: Option<(Tally, Instant)>,
}

impl Visitors {
    /// Lets visitors of a system in.
    pub(super) fn start(system: &str, machine: &Machine, worlds: Option<&WorldsTrace>) -> Result<Self, RunError> {
        let (run, uarts) = (std::process::id().to_string(), machine.uart_names());
        let control = ControlServer::start(&run, system, &machine.shared_paths())?;
        let consoles = ConsoleServer::start(&run, &uarts)?;
        control.tell_of_consoles(&uarts);
        let tally = worlds.map(WorldsTrace::tally);
        if let Some(tally) = &tally {
            control.tell_of_payload(tally.value());
        }
        Ok(Self { control, consoles, tally: tally.map(|tally| (tally, Instant::now())) })
    }

    /// Tells them what UARTs printed, and now and then what the payload's records come to.
    pub(super) fn tell(&mut self, machine: &mut Machine) {
        for (console, text) in machine.take_heard() {
            self.consoles.tell(&console, &text);
        }
        let due = |(_, told): &&mut (Tally, Instant)| told.elapsed() >= TELL_INTERVAL;
        let Some((tally, told)) = self.tally.as_mut().filter(due) else { return };
        *told = Instant::now();
        if machine.records().is_some_and(|records| tally.take(records)) {
            self.control.tell_of_payload(tally.value());
        }
    }

    /// Passes on what was typed: to UARTs at once, to the machine's own serial line by `input`, which keeps what that does not take yet.
    pub(super) fn forward(&mut self, machine: &mut Machine, input: &mut Vec<u8>) -> Result<(), RunError> {
        while let Some(bytes) = self.control.next_input() {
            input.extend(bytes);
        }
        if !input.is_empty() {
            let taken = machine.send_serial(input)?;
            input.drain(..taken);
        }
        self.consoles.forward(|console, bytes| machine.send_uart(console, bytes))
    }
}
