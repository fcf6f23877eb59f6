//! `bulkhead attach`: one partition's console on this terminal, with input.
//!
//! Output is read from RAM and passed on byte by byte, terminal sequences included, because a guest's shell needs them:
//! attach to a partition only if you would connect a terminal to it. (`bulkhead run` filters them.) Input goes to the
//! machine's serial line, after the console focus was moved to the partition. `Ctrl-] q` leaves, `Ctrl-] n` goes to the next
//! partition.

use super::{finish, listen};
use crate::console::{Merger, Output, merger_of};
use crate::control::Visit;
use crate::error::RunError;
use crate::focus;
use crate::observer::Observer;
use rustix::termios::{OptionalActions, OutputModes, Termios, isatty, tcgetattr, tcsetattr};
use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::time::{Duration, Instant};

/// `Ctrl-]`.
const ESCAPE: u8 = 0x1d;
/// Time between two looks at the rings.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// How long the monitors may take to pass the focus on.
const FOCUS_PATIENCE: Duration = Duration::from_secs(2);

/// Shown at the end of `bulkhead attach --help`.
const KEYS: &str = "\
Ctrl-] q leaves, Ctrl-] n goes to the next partition.

Examples:
  bulkhead attach linux              the only run there is
  bulkhead attach secure --run 4711  the payload of a system with a [secure] section, of this run";

/// Arguments of `bulkhead attach`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = KEYS)]
pub struct AttachArguments {
    /// The partition, or the world below a payload or `secure` for the payload itself.
    pub name: String,
    /// Process id of the `bulkhead run` to attach to [default: the only one]
    #[arg(long, value_name = "PID")]
    pub run: Option<String>,
}

/// Runs `bulkhead attach`.
#[must_use]
pub fn attach(arguments: &AttachArguments) -> ExitCode {
    match converse(arguments) {
        // The reader of the output has seen enough.
        Err(RunError::Host { cause, .. }) if cause.kind() == io::ErrorKind::BrokenPipe => finish(Ok(())),
        result => finish(result),
    }
}

fn converse(arguments: &AttachArguments) -> Result<(), RunError> {
    let visit = Visit::connect(arguments.run.as_deref())?;
    if visit.consoles().contains(&arguments.name) {
        let _raw = RawTerminal::enter().map_err(RunError::host("cannot change the terminal"))?;
        return listen::converse(&visit, &arguments.name, &read_input());
    }
    let observer = observer_for(&visit, &arguments.name)?;
    let partition = observer.plan().partition_named(&arguments.name).ok_or_else(|| unknown(&visit, &arguments.name))?;
    let _raw = RawTerminal::enter().map_err(RunError::host("cannot change the terminal"))?;
    let merger = merger_of(observer.plan(), partition);
    let mut session = Session { visit, observer, partition, merger, escape: Escape::default(), said_deaf: false };
    session.announce()?;
    session.converse(&read_input())
}

/// The view of the RAM that consoles of partitions are in.
fn observer_for(visit: &Visit, name: &str) -> Result<Observer, RunError> {
    match visit.observer() {
        Ok(observer) => Ok(observer.clone()),
        Err(_) if !visit.consoles().is_empty() => Err(unknown(visit, name)),
        Err(_) => Err(RunError::Other(format!("{}: {WITHOUT_CONSOLES}", visit.system))),
    }
}

/// Why nobody can attach to a world alone below a payload, in a run that lets nobody have its UARTs.
const WITHOUT_CONSOLES: &str = "both worlds print to UARTs of the board, which this run keeps to itself, because it is a demonstration and judged by \
                                them\n  help: `bulkhead run --plain` runs the system as any other, and `bulkhead attach` then has its consoles";

fn unknown(visit: &Visit, name: &str) -> RunError {
    let partitions = visit.observer().map(|observer| observer.plan().partition_names()).unwrap_or_default();
    let names: Vec<_> = partitions.into_iter().chain(visit.consoles().iter().cloned()).collect();
    RunError::Other(format!("{} has no console `{name}`; it has {}", visit.system, names.join(", ")))
}

struct Session {
    visit: Visit,
    observer: Observer,
    partition: usize,
    merger: Merger,
    escape: Escape,
    said_deaf: bool,
}

impl Session {
    fn announce(&self) -> Result<(), RunError> {
        let name = self.observer.plan().partition_name(self.partition);
        write_out(
            format!("[{name} of {}: Ctrl-] q leaves, Ctrl-] n shows the next partition]\r\n", self.visit.system)
                .as_bytes(),
        )
    }

    fn converse(&mut self, input: &Receiver<Vec<u8>>) -> Result<(), RunError> {
        loop {
            self.show_output(false)?;
            match input.try_recv() {
                Ok(bytes) => {
                    if self.take_input(&bytes)? {
                        return Ok(());
                    }
                    continue;
                }
                // The end of the input does not end the session: output may still come.
                Err(TryRecvError::Disconnected | TryRecvError::Empty) => {}
            }
            if self.visit.has_ended() {
                self.show_output(true)?;
                return write_out(b"\r\n[the run has ended]\r\n");
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    fn show_output(&mut self, flush: bool) -> Result<(), RunError> {
        let mut text = Vec::new();
        for piece in self.merger.poll(self.observer.ram(), flush) {
            match piece.output {
                Output::Byte(byte) => text.push(byte),
                Output::Lost(count) => text.extend(format!("\r\n[{count} bytes lost]\r\n").into_bytes()),
            }
        }
        if text.is_empty() { Ok(()) } else { write_out(&text) }
    }

    /// Passes input on; true when the person wants to leave.
    /// Sends a byte to the partition, moving the focus there first.
    fn send(&mut self, byte: u8) -> Result<(), RunError> {
        let Some(steps) = focus::steps_to(&self.observer, self.partition) else {
            if !std::mem::replace(&mut self.said_deaf, true) {
                write_out(
                    b"\r\n[this partition takes no input: it has no virtual UART, or its interrupts are direct]\r\n",
                )?;
            }
            return Ok(());
        };
        drop(self.visit.send(&vec![focus::NEXT; steps]));
        let limit = Instant::now() + FOCUS_PATIENCE;
        while focus::steps_to(&self.observer, self.partition) != Some(0) {
            if self.visit.has_ended() || Instant::now() > limit {
                return Ok(());
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        drop(self.visit.send(&[byte]));
        Ok(())
    }

    fn take_input(&mut self, bytes: &[u8]) -> Result<bool, RunError> {
        for byte in bytes {
            match self.escape.take(*byte) {
                // If the run has just ended the next look at it says so.
                Action::Send(byte) => self.send(byte)?,
                Action::Nothing => {}
                Action::Leave => {
                    write_out(b"\r\n[left]\r\n")?;
                    return Ok(true);
                }
                Action::Next => {
                    self.said_deaf = false;
                    self.partition = (self.partition + 1) % self.observer.partition_count();
                    self.merger = merger_of(self.observer.plan(), self.partition);
                    write_out(b"\r\n")?;
                    self.announce()?;
                }
            }
        }
        Ok(false)
    }
}

/// What a byte of input means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Send(u8),
    Nothing,
    Leave,
    Next,
}

/// Recognises commands after `Ctrl-]`.
#[derive(Debug, Default)]
pub(super) struct Escape {
    pending: bool,
}

impl Escape {
    pub(super) fn take(&mut self, byte: u8) -> Action {
        let was_pending = std::mem::replace(&mut self.pending, false);
        match (was_pending, byte) {
            (true, b'q') => Action::Leave,
            (true, b'n') => Action::Next,
            (false, 0..ESCAPE) | (false, 0x1e..) => Action::Send(byte),
            (true, _) => Action::Nothing,
            (false, ESCAPE) => {
                self.pending = true;
                Action::Nothing
            }
        }
    }
}

pub(super) fn write_out(bytes: &[u8]) -> Result<(), RunError> {
    let mut output = io::stdout().lock();
    output.write_all(bytes).and_then(|()| output.flush()).map_err(RunError::host("cannot write to the terminal"))
}

/// Reads the input on a thread of its own, so that output continues meanwhile; the thread ends with the process.
fn read_input() -> Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 256];
        while let Ok(count @ 1..) = io::stdin().lock().read(&mut buffer) {
            if sender.send(buffer[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    receiver
}

/// The terminal in raw mode; restored on drop. Nothing happens when the input is no terminal.
struct RawTerminal(Option<Termios>);

impl RawTerminal {
    fn enter() -> io::Result<Self> {
        let input = io::stdin();
        if !isatty(&input) {
            return Ok(Self(None));
        }
        let before = tcgetattr(&input)?;
        let mut raw = before.clone();
        raw.make_raw();
        // A native guest ends its lines with a line feed alone; the terminal adds the carriage return.
        raw.output_modes |= OutputModes::OPOST | OutputModes::ONLCR;
        tcsetattr(&input, OptionalActions::Flush, &raw)?;
        Ok(Self(Some(before)))
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // If this fails the terminal is gone, or `reset` helps.
            let _ = tcsetattr(io::stdin(), OptionalActions::Flush, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_from_input() {
        let mut escape = Escape::default();
        let actions: Vec<_> = b"a\x1dxb\x1dn\x1dq".iter().map(|byte| escape.take(*byte)).collect();
        let nothing = Action::Nothing;
        let expected =
            [Action::Send(b'a'), nothing, nothing, Action::Send(b'b'), nothing, Action::Next, nothing, Action::Leave];
        assert_eq!(actions, expected);
    }
}
