//! The QEMU process: started, watched and killed by one keeper thread of its own.
//!
//! The keeper exists because Linux ties a child's parent-death signal to the thread that created it. The keeper lives
//! exactly as long as the child, so the child dies when this process does and not when some worker thread ends.

use crate::error::RunError;
use crate::os::prepare_child;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader};
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Lines of standard error that are kept.
const STDERR_LINES: usize = 20;

/// A running QEMU.
pub(crate) struct QemuProcess {
    pid: u32,
    handle: OwnedFd,
    exited: Receiver<io::Result<ExitStatus>>,
    status: Option<ExitStatus>,
    stderr: Arc<Mutex<VecDeque<String>>>,
    keeper: Option<JoinHandle<()>>,
}

impl QemuProcess {
    /// Starts the command; the descriptors in `inherited` must stay open until this returns.
    pub(crate) fn start(mut command: Command, inherited: Vec<RawFd>) -> Result<Self, RunError> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        // A group of its own: Ctrl-C at the terminal reaches this tool alone, which then decides how the machine ends.
        command.process_group(0);
        prepare_child(&mut command, inherited);
        let program = command.get_program().to_owned();
        let stderr = Arc::new(Mutex::new(VecDeque::new()));
        let (started_sender, started) = mpsc::channel();
        let (exited_sender, exited) = mpsc::channel();
        let kept = Arc::clone(&stderr);
        let keeper = std::thread::Builder::new()
            .name("qemu-keeper".to_owned())
            .spawn(move || keep(command, &kept, &started_sender, &exited_sender))
            .map_err(RunError::host("cannot start a thread"))?;
        let spawned = started.recv().unwrap_or_else(|_| Err(io::Error::other("the keeper thread ended")));
        let (pid, handle) = spawned.map_err(|cause| match cause.kind() {
            io::ErrorKind::NotFound => RunError::QemuMissing { program: program.into() },
            _ => RunError::Host { doing: "cannot start QEMU".to_owned(), cause },
        })?;
        Ok(Self { pid, handle, exited, status: None, stderr, keeper: Some(keeper) })
    }

    /// Returns the process id.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns the exit status if QEMU has ended.
    pub(crate) fn status(&mut self) -> Option<ExitStatus> {
        self.wait(Duration::ZERO)
    }

    /// Waits for QEMU to end, at most `limit`.
    pub(crate) fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = match self.exited.recv_timeout(limit) {
                Ok(status) => Some(status.unwrap_or_else(|_| ExitStatus::from_raw(-1))),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => Some(ExitStatus::from_raw(-1)),
            };
        }
        self.status
    }

    /// Ends QEMU at once and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        if self.status().is_none() {
            // Fails only if QEMU has just ended by itself. The handle names this very process, never a reused number.
            let _ = pidfd_send_signal(&self.handle, Signal::KILL);
        }
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
        }
        let _ = self.status();
    }

    /// Returns the error for an end that was not expected.
    pub(crate) fn ended_error(&mut self) -> RunError {
        let status = self.status().map_or_else(|| "still running".to_owned(), |status| status_text(&status));
        RunError::QemuEnded { status, stderr: self.stderr_tail() }
    }

    /// Returns the last lines of standard error.
    fn stderr_tail(&self) -> Vec<String> {
        self.stderr.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

impl Drop for QemuProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Says in words how a process ended.
fn status_text(status: &ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => "unknown status".to_owned(),
    }
}

fn keep(
    mut command: Command,
    stderr: &Mutex<VecDeque<String>>,
    started: &Sender<io::Result<(u32, OwnedFd)>>,
    exited: &Sender<io::Result<ExitStatus>>,
) {
    let spawned = command.spawn().and_then(|child| Ok((handle_of(&child)?, child)));
    // The command holds the pipe's ends and closures; the child has its own copies.
    drop(command);
    let (handle, mut child) = match spawned {
        Ok(spawned) => spawned,
        Err(cause) => {
            let _ = started.send(Err(cause));
            return;
        }
    };
    let _ = started.send(Ok((child.id(), handle)));
    if let Some(pipe) = child.stderr.take() {
        for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
            let mut lines = stderr.lock().unwrap_or_else(PoisonError::into_inner);
            lines.push_back(crate::console::readable(&line));
            if lines.len() > STDERR_LINES {
                lines.pop_front();
            }
        }
    }
    let _ = exited.send(child.wait());
}

fn handle_of(child: &Child) -> io::Result<OwnedFd> {
    Ok(pidfd_open(Pid::from_child(child), PidfdFlags::empty())?)
}
