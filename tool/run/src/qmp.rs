//! QEMU's control connection (QMP): JSON lines over a socket; a command, its answer, and events in between.
//!
//! One thread reads and sorts lines into answers and events, so that an event never waits for a command. It ends when
//! QEMU closes the connection. The rejected alternative, the `qapi` crate, brings nineteen crates for five commands.

use crate::error::RunError;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

/// How long QEMU may take for a greeting or an answer; loading a large machine on a busy host takes seconds.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longest line believed.
const MAX_LINE_BYTES: u64 = 1 << 20;

/// An event that QEMU reported.
#[derive(Clone, Debug, PartialEq)]
pub struct QmpEvent {
    /// Its name, for example `SHUTDOWN`.
    pub name: String,
    /// Its data.
    pub data: Value,
}

/// A connection on which commands are accepted.
pub struct Qmp {
    stream: UnixStream,
    answers: Receiver<Value>,
    events: Receiver<QmpEvent>,
    version: Value,
    next_id: u64,
}

impl Qmp {
    /// Waits for the greeting and leaves negotiation mode.
    pub fn connect(stream: UnixStream) -> Result<Self, RunError> {
        let reader = stream.try_clone().map_err(RunError::host("cannot duplicate the control socket"))?;
        let (answer_sender, answers) = mpsc::channel();
        let (event_sender, events) = mpsc::channel();
        std::thread::Builder::new()
            .name("qmp-reader".to_owned())
            .spawn(move || sort_lines(reader, &answer_sender, &event_sender))
            .map_err(RunError::host("cannot start a thread"))?;
        let mut qmp = Self { stream, answers, events, version: Value::Null, next_id: 1 };
        let greeting = qmp.receive("its greeting")?;
        match greeting.get("QMP") {
            Some(facts) => qmp.version = facts["version"].clone(),
            None => return Err(RunError::Qmp(format!("instead of a greeting it sent {greeting}"))),
        }
        qmp.execute("qmp_capabilities")?;
        Ok(qmp)
    }

    /// Returns what the greeting said of QEMU's version.
    pub fn version(&self) -> &Value {
        &self.version
    }

    /// Runs a command without arguments and returns its answer.
    pub fn execute(&mut self, command: &str) -> Result<Value, RunError> {
        self.execute_with(command, json!({}))
    }

    /// Runs a command and returns its answer.
    pub fn execute_with(&mut self, command: &str, arguments: Value) -> Result<Value, RunError> {
        let id = self.send_with(command, arguments)?;
        loop {
            let answer = self.receive(&format!("the answer to `{command}`"))?;
            if answer["id"] != id {
                continue; // The late answer to an earlier command that ran out of time.
            }
            if let Some(error) = answer.get("error") {
                let text = error["desc"].as_str().unwrap_or("no description");
                return Err(RunError::Qmp(format!("`{command}` was refused: {text}")));
            }
            return Ok(answer["return"].clone());
        }
    }

    /// Sends a command without arguments and waits for nothing.
    pub fn send(&mut self, command: &str) -> Result<(), RunError> {
        self.send_with(command, json!({})).map(|_| ())
    }

    /// Sends a command and returns the number that its answer has.
    fn send_with(&mut self, command: &str, arguments: Value) -> Result<u64, RunError> {
        let id = self.next_id;
        self.next_id += 1;
        let mut line = json!({ "execute": command, "arguments": arguments, "id": id }).to_string();
        line.push('\n');
        self.stream
            .write_all(line.as_bytes())
            .map_err(|cause| RunError::Qmp(format!("`{command}` could not be sent: {cause}")))?;
        Ok(id)
    }

    fn receive(&self, what: &str) -> Result<Value, RunError> {
        self.answers.recv_timeout(PATIENCE).map_err(|error| {
            RunError::Qmp(match error {
                RecvTimeoutError::Timeout => format!("no sign of {what} within {} s", PATIENCE.as_secs()),
                RecvTimeoutError::Disconnected => format!("closed before {what}"),
            })
        })
    }

    /// Returns the next event that arrived, without waiting.
    pub fn next_event(&self) -> Option<QmpEvent> {
        self.events.try_recv().ok()
    }

    /// Waits for an event of this name, passing over others; false when time runs out or the connection closes.
    pub fn wait_for_event(&self, name: &str, limit: Duration) -> bool {
        let deadline = std::time::Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(std::time::Instant::now());
            match self.events.recv_timeout(left) {
                Ok(event) if event.name == name => return true,
                Ok(_) => {}
                Err(_) => return false,
            }
        }
    }
}

impl Drop for Qmp {
    fn drop(&mut self) {
        // Lets the reader thread end even if the other side keeps its end open.
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

fn sort_lines(stream: UnixStream, answers: &Sender<Value>, events: &Sender<QmpEvent>) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = Vec::new();
        match reader.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let Ok(message) = serde_json::from_slice::<Value>(&line) else { continue };
        let delivered = match message["event"].as_str() {
            Some(name) => events.send(QmpEvent { name: name.to_owned(), data: message["data"].clone() }).is_ok(),
            None => answers.send(message).is_ok(),
        };
        if !delivered {
            return;
        }
    }
}
