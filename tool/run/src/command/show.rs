//! Shows a run's events: a coloured prefix per partition for people, one JSON value per line for programs.

use crate::console::{ConsoleNames, Line, readable};
use crate::diagnosis::{reason_name, state_name};
use crate::machine::Event;
use crate::observer::Observer;
use bulkhead_abi::status::{REASON_MANAGED, REASON_NONE, REASON_REQUESTED, STATE_INITIAL, STATE_RUNNING};
use bulkhead_files::output::{AnsiColor, FAULT, styled};
use serde_json::{Value, json};
use std::io::{self, Write};

use super::Format;

/// Colours of prefixes, in order of partitions: those that are readable on light and on dark ground, without red, which is for
/// faults.
const COLOURS: [AnsiColor; 5] =
    [AnsiColor::Cyan, AnsiColor::Yellow, AnsiColor::Magenta, AnsiColor::Green, AnsiColor::Blue];

/// Writes events.
pub struct Show<W: Write> {
    output: W,
    format: Format,
    colour: bool,
    names: ConsoleNames,
    /// Consoles whose lines are shown; empty means all.
    only: Vec<usize>,
    width: usize,
    serial: Vec<u8>,
}

impl<W: Write> Show<W> {
    /// Makes a writer for the consoles named ([`crate::MachineOptions::console_names`]); `only` chooses some of them, empty means all.
    pub fn new(output: W, format: Format, colour: bool, names: ConsoleNames, only: Vec<usize>) -> Self {
        let width = names.all().iter().map(|name| name.chars().count()).max().unwrap_or(0).max("machine".len());
        Self { output, format, colour, names, only, width, serial: Vec::new() }
    }

    /// Shows one event.
    ///
    /// # Errors
    /// When the output is closed.
    pub fn event(&mut self, event: &Event) -> io::Result<()> {
        match (event, self.format) {
            (Event::Line(line), _) if !self.shows(line.console) => Ok(()),
            (Event::Line(line), Format::Text) => self.prefixed(Some(line.console), &line.shown()),
            (Event::Serial(bytes), Format::Text) => self.serial(bytes),
            (Event::State { partition, state, reason, generation }, Format::Text) => {
                self.state(*partition, *state, *reason, *generation)
            }
            (Event::Disk(trouble), Format::Text) => {
                self.prefixed(None, &styled(&format!("** {trouble}"), FAULT, self.colour))
            }
            (Event::DevicesFailed(report), Format::Text) => {
                self.prefixed(None, &styled(&format!("** {report}"), FAULT, self.colour))
            }
            // The error that ends the run says it; here it would come twice.
            (Event::MonitorCrash(_), Format::Text) => Ok(()),
            (event, Format::Json) => {
                let value = self.json(event);
                self.value(&value)
            }
        }
    }

    fn shows(&self, console: usize) -> bool {
        self.only.is_empty() || self.only.contains(&console)
    }

    /// Writes one JSON value as a line; nothing in text form.
    pub(crate) fn value(&mut self, value: &Value) -> io::Result<()> {
        if self.format == Format::Json {
            writeln!(self.output, "{value}")?;
        }
        self.output.flush()
    }

    fn prefixed(&mut self, console: Option<usize>, text: &str) -> io::Result<()> {
        let name = console.map_or("machine", |console| self.names.name(console));
        let padding = " ".repeat(self.width.saturating_sub(name.chars().count()));
        match console.filter(|_| self.colour) {
            Some(console) => {
                let style = COLOURS.get(console % COLOURS.len()).copied().unwrap_or(AnsiColor::Cyan).on_default();
                writeln!(self.output, "{style}{name}{padding} |{style:#} {text}")?;
            }
            None => writeln!(self.output, "{name}{padding} | {text}")?,
        }
        self.output.flush()
    }

    fn state(&mut self, partition: usize, state: u32, reason: u32, generation: u32) -> io::Result<()> {
        let text = match state {
            STATE_INITIAL => return Ok(()),
            STATE_RUNNING if generation <= 1 => "** started".to_owned(),
            STATE_RUNNING => format!("** started again (start {generation})"),
            _ if reason == 0 => format!("** {}", state_name(state)),
            _ => format!("** {}: {}", state_name(state), reason_name(reason)),
        };
        // What somebody asked for is no fault.
        let is_fault = !matches!(reason, REASON_NONE | REASON_REQUESTED | REASON_MANAGED);
        self.prefixed(Some(partition), &styled(&text, FAULT, self.colour && is_fault))
    }

    /// Shows the machine's own serial line, which no partition uses, line by line.
    fn serial(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.serial.extend_from_slice(bytes);
        while let Some(end) = self.serial.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.serial.drain(..=end).collect();
            self.prefixed(None, &readable(&line))?;
        }
        Ok(())
    }

    fn json(&self, event: &Event) -> Value {
        let name = |console: usize| self.names.name(console).to_owned();
        match event {
            Event::Line(line) if self.names.uart(line.console).is_some() => json!({
                "event": "line",
                "uart": name(line.console),
                "text": line.text,
                "complete": line.complete,
            }),
            Event::Line(line) => line_json(line, &name(line.console)),
            Event::State { partition, state, reason, generation } => json!({
                "event": "state",
                "partition": name(*partition),
                "state": state_name(*state),
                "reason": reason_name(*reason),
                "generation": generation,
            }),
            Event::MonitorCrash(report) => json!({
                "event": "monitor crash",
                "core": report.core,
                "partition": report.partition,
                "text": report.to_string(),
            }),
            Event::DevicesFailed(report) => json!({ "event": "devices failed", "text": report.to_string() }),
            Event::Disk(trouble) => json!({
                "event": "disk trouble",
                "function": trouble.function,
                "file": trouble.file.display().to_string(),
                "text": trouble.to_string(),
            }),
            Event::Serial(bytes) => json!({ "event": "serial", "text": String::from_utf8_lossy(bytes) }),
        }
    }
}

fn line_json(line: &Line, partition: &str) -> Value {
    let mut value = json!({
        "event": "line",
        "partition": partition,
        "time_ticks": line.time_ticks,
        "text": line.text,
        "lost_bytes": line.lost_bytes,
        "complete": line.complete,
    });
    if let (Some(name), Value::Object(members)) = (&line.component, &mut value) {
        members.insert("component".to_owned(), name.as_str().into());
    }
    value
}

/// Returns the state of every partition by name.
pub(crate) fn partitions_json(observer: &Observer) -> Value {
    let mut partitions = serde_json::Map::new();
    for partition in 0..observer.partition_count() {
        let status = observer.status(partition);
        let value = json!({
            "state": state_name(status.state),
            "reason": reason_name(status.reason),
            "generation": status.generation,
            "restarts": status.restarts,
            "faults": status.faults,
            "heartbeats": status.heartbeats,
            "denied_calls": status.denied_calls,
            "restart_ticks": status.restart_ticks,
        });
        partitions.insert(observer.plan().partition_name(partition).to_owned(), value);
    }
    Value::Object(partitions)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(format: Format, colour: bool, only: Vec<usize>, events: &[Event]) -> String {
        let names = ConsoleNames::new(vec!["linux".to_owned(), "control".to_owned()], ["uart1"]);
        let mut show = Show::new(Vec::new(), format, colour, names, only);
        for event in events {
            show.event(event).expect("a vector takes everything");
        }
        String::from_utf8(show.output).expect("UTF-8")
    }

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

    #[test]
    fn each_line_has_the_prefix_of_its_partition() {
        let state = Event::State { partition: 0, state: STATE_RUNNING, reason: 0, generation: 2 };
        let stopped = Event::State { partition: 1, state: 5, reason: 1, generation: 1 };
        let serial = [Event::Serial(b"boot".to_vec()), Event::Serial(b"ing\r\nrest".to_vec())];
        let events = [line(0, "one"), line(1, "two"), state, stopped, serial[0].clone(), serial[1].clone()];
        let expected = "linux   | one\ncontrol | two\nlinux   | ** started again (start 2)\n\
            control | ** stopped: data access outside its memory\nmachine | booting\n";
        assert_eq!(shown(Format::Text, false, vec![], &events), expected);
        assert_eq!(shown(Format::Text, false, vec![1], &events[..2]), "control | two\n");
        assert_eq!(shown(Format::Text, false, vec![2], &[line(2, "out"), line(1, "two")]), "uart1   | out\n");
        assert_eq!(shown(Format::Text, true, vec![], &events[..1]), "\x1b[36mlinux   |\x1b[0m one\n");
        let coloured = shown(Format::Text, true, vec![], &events[2..4]);
        let expected = "\x1b[36mlinux   |\x1b[0m ** started again (start 2)\n\
            \x1b[33mcontrol |\x1b[0m \x1b[1m\x1b[31m** stopped: data access outside its memory\x1b[0m\n";
        assert_eq!(coloured, expected, "a fault is red");
    }

    #[test]
    fn json_has_one_value_per_line() {
        let text = shown(Format::Json, true, vec![], &[line(1, "say \"hi\"")]);
        let value: Value = serde_json::from_str(text.trim_end()).expect("one JSON value");
        assert_eq!((&value["event"], &value["partition"]), (&json!("line"), &json!("control")));
        assert_eq!((&value["text"], &value["time_ticks"]), (&json!("say \"hi\""), &json!(7)));
        assert_eq!(text.lines().count(), 1);
        let text = shown(Format::Json, true, vec![], &[line(2, "out")]);
        let value: Value = serde_json::from_str(text.trim_end()).expect("one JSON value");
        assert_eq!(value, json!({ "event": "line", "uart": "uart1", "text": "out", "complete": true }));
    }
}
