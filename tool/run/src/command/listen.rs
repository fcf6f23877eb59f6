//! `bulkhead attach` to a console that is a UART of the board: the run passes bytes on both ways, since they come through QEMU.

use super::attach::{Action, Escape, write_out};
use crate::control::Visit;
use crate::error::RunError;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// Time between two looks at what was typed.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Shows a console and types into it until the run ends or the person leaves.
pub(super) fn converse(visit: &Visit, name: &str, input: &Receiver<Vec<u8>>) -> Result<(), RunError> {
    let mut stream = visit.console(name)?;
    stream.set_read_timeout(Some(POLL_INTERVAL)).map_err(RunError::host("cannot listen to the console"))?;
    write_out(format!("[{name} of {}: Ctrl-] q leaves]\r\n", visit.system).as_bytes())?;
    let mut escape = Escape::default();
    loop {
        if !show(&mut stream)? {
            return write_out(b"\r\n[the run has ended]\r\n");
        }
        for byte in input.try_iter().flatten() {
            match escape.take(byte) {
                // If the run has just ended the next look at it says so.
                Action::Send(byte) => drop(stream.write_all(&[byte])),
                Action::Leave => return write_out(b"\r\n[left]\r\n"),
                Action::Next => write_out(b"\r\n[a UART has no next console: leave, and attach to another one]\r\n")?,
                Action::Nothing => {}
            }
        }
    }
}

/// Shows what has come; false at the end of the run.
fn show(stream: &mut UnixStream) -> Result<bool, RunError> {
    let mut buffer = [0; 4096];
    match stream.read(&mut buffer) {
        Ok(0) => Ok(false),
        Ok(count) => write_out(&buffer[..count]).map(|()| true),
        Err(error) => Ok(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)),
    }
}
