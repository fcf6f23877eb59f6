//! The JSON form: one object with one list, written as it comes.
//!
//! The form is part of the product: `docs/book/src/reference/simulate.md` describes it and `docs/reference/simulate.schema.json` is its schema.

use crate::event::{Event, Sink};
use crate::stage::{Lanes, Stage};
use serde_json::Value;
use std::io::{self, Write};

/// Writes events.
#[derive(Debug)]
pub struct JsonWriter<W> {
    output: W,
    /// Number of each core, and the names of who can run there as JSON strings.
    cores: Vec<(usize, Vec<String>)>,
    /// Key of who an event is about.
    key: String,
    is_first: bool,
}

impl<W: Write> JsonWriter<W> {
    /// Starts the object.
    ///
    /// # Errors
    /// When the output cannot be written.
    pub fn new(mut output: W, stage: &dyn Stage) -> io::Result<Self> {
        let names = |core: Lanes| {
            let names = core.names.into_iter().map(|name| Value::from(name).to_string()).collect();
            (core.number, names)
        };
        let cores = stage.lanes().into_iter().map(names).collect();
        output.write_all(b"{\"events\":[")?;
        let key = stage.noun().to_lowercase();
        Ok(Self { output, cores, key, is_first: true })
    }

    /// Ends the object.
    ///
    /// # Errors
    /// When the output cannot be written.
    pub fn finish(mut self, stage: &dyn Stage) -> io::Result<()> {
        write!(self.output, "\n]{}}}\n", stage.facts())?;
        self.output.flush()
    }
}

impl<W: Write> Sink for JsonWriter<W> {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        let Some((core, names)) = self.cores.get(event.core) else { return Ok(()) };
        let name = names.get(event.slot).map_or("null", String::as_str);
        let separator = if std::mem::take(&mut self.is_first) { "" } else { "," };
        let (time_ns, key) = (event.time_ns, &self.key);
        write!(self.output, "{separator}\n{{\"t_ns\":{time_ns},\"core\":{core},\"{key}\":{name},\"server\":")?;
        match event.server {
            Some(server) => write!(self.output, "{server}")?,
            None => self.output.write_all(b"null")?,
        }
        write!(self.output, ",\"event\":\"{}\"}}", event.kind.word())
    }
}
