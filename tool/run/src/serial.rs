//! The machine's own serial line: a socket to QEMU that is emptied at all times.
//!
//! QEMU writes to it inside the guest's store, with its big lock held, and waits when the socket is full. A thread that
//! waits for QEMU (an answer on the control connection, its end) must therefore keep reading, or both wait for ever: a
//! guest that prints a few hundred bytes before the control connection is negotiated is enough. So a thread reads
//! whatever comes. [`SerialLine::take`] reads too, so that what QEMU wrote before a poll is seen by it.

use crate::error::RunError;
use rustix::event::{PollFd, PollFlags, poll};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};

/// Our end of the line.
pub(crate) struct SerialLine {
    stream: UnixStream,
    unread: Arc<Mutex<Vec<u8>>>,
}

impl SerialLine {
    /// Starts to read.
    pub(crate) fn start(stream: UnixStream) -> Result<Self, RunError> {
        stream.set_nonblocking(true).map_err(RunError::host("cannot set up a socket"))?;
        let reader = stream.try_clone().map_err(RunError::host("cannot duplicate the serial socket"))?;
        let unread = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&unread);
        std::thread::Builder::new()
            .name("serial-reader".to_owned())
            .spawn(move || while await_bytes(&reader) && empty(&reader, &kept) {})
            .map_err(RunError::host("cannot start a thread"))?;
        Ok(Self { stream, unread })
    }

    /// Returns what QEMU has written since the last call.
    pub(crate) fn take(&self) -> Vec<u8> {
        empty(&self.stream, &self.unread);
        std::mem::take(&mut *self.unread.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sends bytes; returns how many were taken (QEMU's buffer may be full).
    pub(crate) fn send(&self, bytes: &[u8]) -> Result<usize, RunError> {
        match (&self.stream).write(bytes) {
            Ok(count) => Ok(count),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
            Err(cause) => Err(RunError::Host { doing: "cannot write to the machine's serial line".to_owned(), cause }),
        }
    }
}

impl Drop for SerialLine {
    fn drop(&mut self) {
        // Ends the thread even if somebody keeps the other end open.
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

/// Waits until there is something to read, or the end.
pub(crate) fn await_bytes(stream: &UnixStream) -> bool {
    let mut waited = [PollFd::new(stream, PollFlags::IN)];
    matches!(poll(&mut waited, None), Ok(_) | Err(rustix::io::Errno::INTR))
}

/// Reads until there is nothing; false at the end of the line. The lock keeps two readers' bytes in order.
fn empty(mut stream: &UnixStream, unread: &Mutex<Vec<u8>>) -> bool {
    let mut unread = unread.lock().unwrap_or_else(PoisonError::into_inner);
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(count @ 1..) => unread.extend_from_slice(&buffer[..count]),
            Ok(_) => return false,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return error.kind() == ErrorKind::WouldBlock,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::SerialLine;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    /// A machine that prints much before anybody looks must not be stopped by it: this hangs if nobody reads.
    #[test]
    fn the_other_side_never_waits_for_a_poll() {
        let (ours, mut theirs) = UnixStream::pair().expect("a socket");
        let line = SerialLine::start(ours).expect("a serial line");
        for number in 0..100_000u32 {
            theirs.write_all(&[number as u8]).expect("a byte goes out");
        }
        let expected: Vec<u8> = (0..100_000u32).map(|number| number as u8).collect();
        assert_eq!(line.take(), expected, "all of it, in order, by the first look");
        drop(line);
        assert!(theirs.write_all(&[0]).is_err(), "the line is closed with its owner");
    }
}
