//! UARTs that are devices of the board: a partition drives it, and the monitor has no part in it.
//!
//! What comes from one is cut into lines and kept like what a partition prints, under the UART's name. Its bytes have no stamps:
//! they come through QEMU and not through a ring in RAM.

use crate::console::{Line, LineCutter, Output, Stamped, Writer};
use crate::error::RunError;
use crate::machine::Machine;
use crate::serial::SerialLine;
use crate::worlds::Records;
use bulkhead_world::records::{Decoder, Taken};
use std::time::Duration;

/// What is kept of a UART's text for those who listen, until it is taken.
const MOST_HEARD_BYTES: usize = 1 << 16;

/// The far end of a UART.
pub(crate) struct Uart {
    serial: SerialLine,
    cutter: LineCutter,
    /// A payload's records between the text, if it writes any.
    records: Option<(Decoder, Records)>,
    /// Text since it was last taken, for those who listen.
    heard: Vec<u8>,
}

impl Uart {
    /// Makes the far end; its lines are of this console.
    pub(crate) fn new(serial: SerialLine, console: usize) -> Self {
        Self { serial, cutter: LineCutter::new(console), records: None, heard: Vec::new() }
    }

    /// The same of a payload that writes records between its text.
    pub(crate) fn with_records(self) -> Self {
        Self { records: Some(Default::default()), ..self }
    }

    /// Takes the records so far; `None` when there cannot be any.
    pub(crate) fn take_records(&mut self) -> Option<Records> {
        self.records.as_mut().map(|(_, records)| std::mem::take(records))
    }

    /// The records so far; `None` when there cannot be any.
    pub(crate) fn records(&self) -> Option<&Records> {
        self.records.as_ref().map(|(_, records)| records)
    }

    /// States whether a byte is text; parts of records are kept.
    fn is_text(&mut self, byte: u8) -> bool {
        let Some((decoder, records)) = &mut self.records else { return true };
        match decoder.take(byte) {
            Taken::Text(_) => return true,
            Taken::Part => {}
            Taken::Whole(record) => records.list.push(record),
            Taken::Damaged => records.damaged += 1,
        }
        false
    }

    /// Returns the lines that have become whole, and after such a pause an unfinished one too.
    pub(crate) fn poll(&mut self, flush_after: Option<Duration>) -> Vec<Line> {
        let stamped = |byte| Stamped { writer: Writer::Guest, time_ticks: 0, output: Output::Byte(byte) };
        let bytes = self.serial.take();
        let text: Vec<u8> = bytes.into_iter().filter(|byte| self.is_text(*byte)).collect();
        self.heard.extend(&text);
        // Nobody may ever listen.
        let old = self.heard.len().saturating_sub(MOST_HEARD_BYTES);
        self.heard.drain(..old);
        let pieces: Vec<Stamped> = text.into_iter().map(stamped).collect();
        let mut lines = self.cutter.push(&pieces);
        lines.extend(flush_after.map(|pause| self.cutter.flush_after(pause)).unwrap_or_default());
        lines
    }

    /// Returns the unfinished line as the last one.
    pub(crate) fn finish(&mut self) -> Vec<Line> {
        self.cutter.flush()
    }

    /// Returns the text of the unfinished line.
    pub(crate) fn unfinished(&self) -> String {
        self.cutter.unfinished()
    }
}

impl Machine {
    /// The records that a payload of the secure world has written and nobody has taken; `None` when its plan asks for none.
    #[must_use]
    pub fn records(&self) -> Option<&Records> {
        self.uarts.iter().find_map(Uart::records)
    }

    /// Takes the records that a payload of the secure world has written since the last call; `None` when its plan asks for none.
    pub fn take_records(&mut self) -> Option<Records> {
        self.uarts.iter_mut().find_map(Uart::take_records)
    }

    /// Takes the text that came from each UART since the last call, with its name.
    pub(crate) fn take_heard(&mut self) -> Vec<(String, Vec<u8>)> {
        let names = self.names.all();
        let names = names.iter().skip(names.len().saturating_sub(self.uarts.len()));
        let heard = self.uarts.iter_mut().zip(names).filter(|(uart, _)| !uart.heard.is_empty());
        heard.map(|(uart, name)| (name.clone(), std::mem::take(&mut uart.heard))).collect()
    }

    /// Names of the UARTs that are devices of the board.
    pub(crate) fn uart_names(&self) -> Vec<String> {
        let names = self.names.all();
        names.iter().skip(names.len().saturating_sub(self.uarts.len())).cloned().collect()
    }

    /// Sends bytes to a UART that is a device of the board; returns how many were taken (QEMU's buffer may be full).
    ///
    /// # Errors
    /// When the board has no such UART, or the machine has ended.
    pub fn send_uart(&mut self, name: &str, bytes: &[u8]) -> Result<usize, RunError> {
        let uart = self.names.place(name).and_then(|console| self.uarts.get(self.names.uart(console)?));
        let missing = || RunError::Other(format!("the board has no UART `{name}` that a partition could own"));
        uart.ok_or_else(missing)?.serial.send(bytes)
    }
}
