//! `bulkhead run --log`: a file per console.
//!
//! Each file appears, or replaces the one of an earlier run, when the run ends, however it ends; until then its lines are in a
//! file beside it whose name ends in `.partial`. That the files can be written is seen before the machine starts.

use crate::console::{ConsoleNames, readable};
use crate::error::RunError;
use crate::machine::Event;
use bulkhead_files::write::Stream;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Name of the file for the machine's own serial line; no partition can have it, since names have no dot.
const SERIAL_NAME: &str = "machine.serial";

/// The files of a run.
pub(super) struct Logs {
    /// By console, and the machine's own serial line as the last one.
    files: Vec<(PathBuf, Stream)>,
    /// An unfinished line of the serial line.
    serial: Vec<u8>,
    /// The first error; the run continues, and says it at its end.
    failed: Option<(PathBuf, io::Error)>,
}

impl Logs {
    /// Begins a file `NAME.log` for each name in a directory, which is made if it is missing.
    pub(super) fn create(directory: &Path, names: &ConsoleNames) -> Result<Self, RunError> {
        std::fs::create_dir_all(directory)
            .map_err(RunError::host(format!("cannot make the directory {} for logs", directory.display())))?;
        let names = names.all().iter().map(String::as_str).chain([SERIAL_NAME]);
        let open = |name: &str| {
            let path = directory.join(format!("{name}.log"));
            let stream =
                Stream::create(&path).map_err(RunError::host(format!("cannot write the log {}", path.display())))?;
            Ok((path, stream))
        };
        Ok(Self { files: names.map(open).collect::<Result<_, RunError>>()?, serial: Vec::new(), failed: None })
    }

    /// Writes what an event shows into the file that it belongs to.
    pub(super) fn event(&mut self, event: &Event) {
        match event {
            Event::Line(line) => self.line(line.console, &line.shown()),
            Event::Serial(bytes) => {
                self.serial.extend_from_slice(bytes);
                while let Some(end) = self.serial.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = self.serial.drain(..=end).collect();
                    self.line(self.files.len().saturating_sub(1), &readable(&line));
                }
            }
            Event::State { .. } | Event::MonitorCrash(_) | Event::DevicesFailed(_) | Event::Disk(_) => {}
        }
    }

    fn line(&mut self, file: usize, text: &str) {
        let Some((path, stream)) = self.files.get_mut(file) else { return };
        // Whole lines reach the file at once, for a reader who follows it.
        if let Err(error) = stream.write_all(format!("{text}\n").as_bytes()).and_then(|()| stream.flush()) {
            self.failed.get_or_insert((path.clone(), error));
        }
    }

    /// Gives all files their names.
    ///
    /// # Errors
    /// The first that could not be written; the others are there nevertheless.
    pub(super) fn finish(mut self) -> Result<(), RunError> {
        if !self.serial.is_empty() {
            let rest = std::mem::take(&mut self.serial);
            self.line(self.files.len().saturating_sub(1), &readable(&rest));
        }
        let mut failed = self.failed;
        for (path, stream) in self.files {
            if let Err(error) = stream.finish() {
                failed.get_or_insert((path, error));
            }
        }
        match failed {
            Some((path, error)) => Err(RunError::host(format!("cannot write the log {}", path.display()))(error)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::Line;

    fn line(console: usize, text: &str) -> Event {
        let bytes = text.as_bytes().to_vec();
        Event::Line(Line {
            console,
            time_ticks: 7,
            text: text.to_owned(),
            bytes,
            lost_bytes: 0,
            complete: true,
            component: None,
        })
    }

    fn directory(name: &str) -> PathBuf {
        let directory = std::env::temp_dir().join(format!("bulkhead-log-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&directory);
        directory
    }

    fn names() -> ConsoleNames {
        ConsoleNames::new(vec!["linux".to_owned(), "control".to_owned()], ["uart1"])
    }

    fn listed(directory: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(directory).expect("a directory");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn each_console_gets_its_lines_and_an_old_file_stays_until_the_end() {
        let directory = directory("lines").join("deep");
        std::fs::create_dir_all(&directory).expect("a directory");
        std::fs::write(directory.join("linux.log"), "of an earlier run\n").expect("a file");
        let mut logs = Logs::create(&directory, &names()).expect("files can be begun");
        for event in
            [line(0, "one"), line(1, "two"), line(0, "three"), line(2, "four"), Event::Serial(b"boot\r\nre".to_vec())]
        {
            logs.event(&event);
        }
        let read = |name: &str| std::fs::read_to_string(directory.join(name)).expect("a file");
        assert_eq!(read("linux.log"), "of an earlier run\n", "nothing is half-written");
        logs.event(&Event::Serial(b"st".to_vec()));
        logs.finish().expect("files can be written");
        assert_eq!((read("linux.log").as_str(), read("control.log").as_str()), ("one\nthree\n", "two\n"));
        assert_eq!((read("uart1.log").as_str(), read("machine.serial.log").as_str()), ("four\n", "boot\nrest\n"));
        let expected = ["control.log", "linux.log", "machine.serial.log", "uart1.log"];
        assert_eq!(listed(&directory), expected, "nothing else is left");
    }

    #[test]
    fn what_cannot_be_written_is_said_at_once_and_leaves_nothing() {
        let directory = directory("refused");
        std::fs::create_dir_all(directory.join("control.log")).expect("a directory");
        let error = Logs::create(&directory, &names()).err().expect("refused").to_string();
        assert!(error.contains("cannot write the log") && error.contains("control.log"), "{error}");
        assert_eq!(listed(&directory), ["control.log"]);
        let file = directory.join("control.log/file");
        std::fs::write(&file, "").expect("a file");
        let error = Logs::create(&file, &names()).err().expect("refused").to_string();
        assert!(error.contains("cannot make the directory"), "{error}");
    }
}
