//! Waiting for something that a machine does, or for its end, at most for some time.

use super::{End, Machine, View};
use crate::console::Line;
use crate::diagnosis::describe_state;
use crate::error::RunError;
use std::time::{Duration, Instant};

/// Time between two looks at RAM.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

impl Machine {
    /// Polls about every millisecond until `condition` returns a value.
    ///
    /// Ends early with an error when a monitor crashes (unless tolerated), QEMU ends, or every partition has ended; what
    /// `condition` finds in the last look at RAM still counts. What was printed before what it found is among the lines
    /// afterwards. `waiting_for` completes "waited 5 s for ..." in the message
    /// of a timeout.
    pub fn wait_for<T>(
        &mut self,
        waiting_for: &str,
        limit: Duration,
        mut condition: impl FnMut(&View<'_>) -> Option<T>,
    ) -> Result<T, RunError> {
        let deadline = Instant::now() + limit;
        loop {
            // Looked at before RAM: what was written before the end is then seen.
            let end = self.end();
            if matches!(end, Ok(None)) {
                self.poll();
            } else {
                self.finish();
            }
            if let Some(found) = condition(&self.view()) {
                // The condition looked at RAM as it is now. What was printed before that is seen by one poll, and let go of by
                // the next.
                self.poll();
                self.poll();
                return Ok(found);
            }
            self.refuse_crash()?;
            if end?.is_some() {
                let (waiting_for, state) = (waiting_for.to_owned(), self.describe());
                return Err(RunError::EndedEarly { waiting_for, state });
            }
            if Instant::now() >= deadline {
                return Err(self.timeout(waiting_for, limit));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Fails if any monitor has crashed, in this poll or an earlier one, and that is not tolerated.
    fn refuse_crash(&self) -> Result<(), RunError> {
        match self.crashes.iter().find(|report| report.is_crash() && !self.tolerates_crashes) {
            Some(report) => Err(RunError::MonitorCrashed(Box::new(report.clone()))),
            None => Ok(()),
        }
    }

    /// Makes the error for a time limit that passed, with the state of the machine.
    pub fn timeout(&self, waiting_for: &str, after: Duration) -> RunError {
        RunError::Timeout { waiting_for: waiting_for.to_owned(), after, state: self.describe() }
    }

    /// Describes every partition and core and what was printed last, one line each.
    fn describe(&self) -> Vec<String> {
        let Some(observer) = &self.observer else { return Vec::new() };
        let mut state = describe_state(observer);
        for (console, (name, lines)) in self.names.all().iter().zip(&self.lines).enumerate() {
            let latest = lines.latest().map_or("nothing", |line| line.text.as_str());
            state.push(format!("latest output of {name}: {latest}"));
            let unfinished = self.view().unfinished(console);
            if !unfinished.is_empty() {
                state.push(format!("unfinished line of {name}: {unfinished}"));
            }
        }
        state
    }

    /// Waits for a whole line of a partition or UART that contains `pattern`, and returns it.
    ///
    /// Lines are used up: the next call for this console looks only at later lines.
    pub fn wait_for_line(&mut self, console: &str, pattern: &str, limit: Duration) -> Result<Line, RunError> {
        self.wait_for_match(console, pattern, limit, false)
    }

    /// As [`Self::wait_for_line`], for a prompt: an unfinished line that contains `pattern` counts too, and is not used up.
    pub fn wait_for_prompt(&mut self, console: &str, pattern: &str, limit: Duration) -> Result<Line, RunError> {
        self.wait_for_match(console, pattern, limit, true)
    }

    fn wait_for_match(
        &mut self,
        console: &str,
        pattern: &str,
        limit: Duration,
        unfinished: bool,
    ) -> Result<Line, RunError> {
        let index = self.names.place(console);
        let index =
            index.ok_or_else(|| RunError::Other(format!("the system has no partition or UART named {console}")))?;
        let what = format!("{console} to print {pattern:?}");
        let mut position = self.cursors[index];
        let line = self.wait_for(&what, limit, |view| {
            for (number, line) in view.lines[index].since(position) {
                position = number + 1;
                if line.text.contains(pattern) {
                    return Some(line.clone());
                }
            }
            let text = view.unfinished(index);
            let bytes = text.clone().into_bytes();
            (unfinished && text.contains(pattern)).then_some(Line {
                console: index,
                time_ticks: 0,
                text,
                bytes,
                lost_bytes: 0,
                complete: false,
                component: None,
            })
        })?;
        self.cursors[index] = position;
        Ok(line)
    }

    /// Waits until every partition is off or stopped, or the machine powered itself off.
    pub fn wait_for_end(&mut self, limit: Duration) -> Result<End, RunError> {
        let deadline = Instant::now() + limit;
        loop {
            self.poll();
            self.refuse_crash()?;
            if let Some(end) = self.end()? {
                self.finish();
                return Ok(end);
            }
            if Instant::now() >= deadline {
                return Err(self.timeout("the system to end", limit));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}
