//! The JSON form: one object with one list, written as it comes.
//!
//! The form is part of the product: `docs/book/src/reference/simulate.md` describes it and `docs/reference/simulate.schema.json` is its schema.

use crate::event::{Event, Sink};
use crate::simulation::Simulation;
use serde_json::Value;
use std::io::{self, Write};

/// Writes events.
#[derive(Debug)]
pub struct JsonWriter<W> {
    output: W,
    /// Number of each core, and the names of its vCPUs as JSON strings.
    cores: Vec<(usize, Vec<String>)>,
    is_first: bool,
}

impl<W: Write> JsonWriter<W> {
    /// Starts the object.
    ///
    /// # Errors
    /// When the output cannot be written.
    pub fn new(mut output: W, simulation: &Simulation) -> io::Result<Self> {
        let names = |(index, core): (usize, &bulkhead_plan::maps::CoreUse)| {
            let names =
                (0..core.vcpus.len()).map(|slot| Value::from(simulation.vcpu_name(index, slot)).to_string()).collect();
            (core.board_core, names)
        };
        let cores = simulation.cores.iter().enumerate().map(names).collect();
        output.write_all(b"{\"events\":[")?;
        Ok(Self { output, cores, is_first: true })
    }

    /// Ends the object.
    ///
    /// # Errors
    /// When the output cannot be written.
    pub fn finish(mut self) -> io::Result<()> {
        self.output.write_all(b"\n]}\n")?;
        self.output.flush()
    }
}

impl<W: Write> Sink for JsonWriter<W> {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        let Some((core, names)) = self.cores.get(event.core) else { return Ok(()) };
        let name = names.get(event.slot).map_or("null", String::as_str);
        let separator = if std::mem::take(&mut self.is_first) { "" } else { "," };
        write!(self.output, "{separator}\n{{\"t_ns\":{},\"core\":{core},\"vcpu\":{name},\"server\":", event.time_ns)?;
        match event.server {
            Some(server) => write!(self.output, "{server}")?,
            None => self.output.write_all(b"null")?,
        }
        write!(self.output, ",\"event\":\"{}\"}}", event.kind.word())
    }
}
