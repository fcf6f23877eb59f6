//! Console output: reads the rings of each partition, merges them by stamp and cuts the result into lines.
//!
//! A partition has one ring per vCPU written by the monitor and, if it is a native guest, one it writes itself. That last
//! one is *hostile*: its header and entries can hold anything at any time. So the reader takes the address and size from the
//! image file, keeps its own index, reads at most one ring's worth per poll, and clamps stamps so that they never go back
//! within a ring. A lying guest can spoil its own output and nothing else.
//!
//! The real-time kernel says in its ring which component prints ([`bulkhead_kernel_abi::console::writer_of`]). A line is then put together of what one component printed,
//! with others in between, and carries its name: no component can print what is taken for a line of another one or of the kernel. Without that entry lost,
//! nobody knows whose text it is, and the line says so.
//!
//! Merging: an entry's stamp is taken before the entry becomes visible, so an older stamp may appear in another ring a
//! moment later. What one poll finds is therefore held back until the next one: by then every older stamp is visible. All
//! cores read one counter, so stamps of different rings can be compared.

use crate::image_file::ImagePlan;
use crate::instance::{component_names, name_of};
use crate::ram::{Ram, behind};
use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::console::{CONSOLE_HEADER_BYTES, CONSOLE_MAGIC, ConsoleHeader};
use bulkhead_kernel_abi::MAX_COMPONENTS;
use bulkhead_kernel_abi::console::{KERNEL_WRITER, writer_of};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest line kept; a longer one is cut into several.
pub const MAX_LINE_BYTES: usize = 4096;

/// One piece of console output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// A byte.
    Byte(u8),
    /// This many bytes were overwritten before they could be read.
    Lost(u64),
}

/// Who printed, in a ring that says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Writer {
    /// A guest that is one program, or the kernel of an instance.
    Guest,
    /// A component of an instance, by its number.
    Component(u16),
    /// A component, but the entry that says which was lost.
    Lost,
}

/// A piece of output with its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamped {
    /// Who wrote it.
    pub writer: Writer,
    /// Counter ticks when it was written, as the writer says.
    pub time_ticks: u64,
    /// What was written.
    pub output: Output,
}

/// Reads one ring.
#[derive(Debug)]
pub struct RingReader {
    address: PhysicalAddress,
    capacity: u64,
    read: u64,
    latest_ticks: u64,
    writer: Writer,
    pending: VecDeque<Stamped>,
}

impl RingReader {
    /// Makes a reader of the ring of `bytes` bytes at `address`.
    #[must_use]
    pub fn new(address: PhysicalAddress, bytes: u64) -> Self {
        let capacity = bytes.saturating_sub(CONSOLE_HEADER_BYTES) / 8;
        Self { address, capacity, read: 0, latest_ticks: 0, writer: Writer::Guest, pending: VecDeque::new() }
    }

    fn written(&self, ram: &Ram) -> Option<u64> {
        ram.load_u64(behind(self.address, core::mem::offset_of!(ConsoleHeader, written) as u64)?)
    }

    /// Takes what is new in the ring into `pending`; at most one ring's worth.
    pub fn poll(&mut self, ram: &Ram) {
        if self.capacity == 0 || ram.load_u64(self.address) != Some(CONSOLE_MAGIC) {
            return;
        }
        let Some(written) = self.written(ram) else { return };
        if written < self.read {
            // The ring started over (a restarted guest), or its writer lies; either way its start is where to continue.
            self.read = 0;
        }
        if written == self.read {
            return;
        }
        let first = self.read.max(written.saturating_sub(self.capacity));
        let entries = self.copy_entries(ram, first, written);
        // An entry is whole only if the writer cannot have begun to reuse its slot while it was copied.
        let after = self.written(ram).unwrap_or(written).max(written);
        let valid_from = first.max(after.saturating_add(1).saturating_sub(self.capacity)).min(written);
        let lost = valid_from - self.read;
        if lost > 0 {
            // A kernel has such an entry in front of each text.
            let says_who = entries.iter().any(|entry| writer_of(*entry).is_some());
            self.writer = if says_who { Writer::Lost } else { Writer::Guest };
            self.push(Output::Lost(lost));
        }
        for entry in entries.into_iter().skip(usize::try_from(valid_from - first).unwrap_or(usize::MAX)) {
            if let Some(writer) = writer_of(entry) {
                self.writer = match writer {
                    KERNEL_WRITER => Writer::Guest,
                    number if usize::from(number) < MAX_COMPONENTS => Writer::Component(number),
                    _ => Writer::Lost,
                };
                continue;
            }
            self.latest_ticks = self.latest_ticks.max(entry >> 8);
            self.push(Output::Byte(entry.to_le_bytes()[0]));
        }
        self.read = written;
    }

    fn push(&mut self, output: Output) {
        self.pending.push_back(Stamped { writer: self.writer, time_ticks: self.latest_ticks, output });
    }

    /// Copies the entries `first..end`, at most `capacity` of them.
    fn copy_entries(&self, ram: &Ram, first: u64, end: u64) -> Vec<u64> {
        let mut entries = Vec::new();
        let mut index = first;
        while index < end {
            let slot = index % self.capacity;
            let count = (end - index).min(self.capacity - slot);
            let mut bytes = vec![0; usize::try_from(count * 8).unwrap_or(0)];
            let offset = CONSOLE_HEADER_BYTES + slot * 8;
            if !behind(self.address, offset).is_some_and(|address| ram.copy_at(address, &mut bytes)) {
                break;
            }
            entries.extend(bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default())));
            index += count;
        }
        entries
    }
}

/// Merges the rings of one partition.
#[derive(Debug, Default)]
pub struct Merger {
    rings: Vec<RingReader>,
    /// Newest stamp that an earlier poll saw and left pending.
    horizon_ticks: Option<u64>,
}

impl Merger {
    /// Makes a merger of these rings.
    #[must_use]
    pub fn new(rings: Vec<RingReader>) -> Self {
        Self { rings, horizon_ticks: None }
    }

    /// Polls every ring; returns, in order, what is certain to precede everything that comes later.
    ///
    /// With `flush`, returns all there is: for the end of a run, when no writer is left.
    pub fn poll(&mut self, ram: &Ram, flush: bool) -> Vec<Stamped> {
        for ring in &mut self.rings {
            ring.poll(ram);
        }
        let horizon = if flush { Some(u64::MAX) } else { self.horizon_ticks };
        let mut merged = Vec::new();
        while let Some(ring) = self.earliest(horizon) {
            merged.extend(self.rings[ring].pending.pop_front());
        }
        self.horizon_ticks = self.rings.iter().filter_map(|ring| ring.pending.back()).map(|last| last.time_ticks).max();
        merged
    }

    fn earliest(&self, horizon: Option<u64>) -> Option<usize> {
        let horizon = horizon?;
        let heads =
            self.rings.iter().enumerate().filter_map(|(index, ring)| Some((ring.pending.front()?.time_ticks, index)));
        heads.min().filter(|(ticks, _)| *ticks <= horizon).map(|(_, index)| index)
    }
}

/// Names of what prints: partitions by their index, then the UARTs that are devices of the board. The place of a name is
/// [`Line::console`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConsoleNames {
    names: Vec<String>,
    partitions: usize,
}

impl ConsoleNames {
    /// Makes names that differ: a UART with the name of a partition gets a dot, which no partition has.
    #[must_use]
    pub fn new<'a>(partitions: Vec<String>, uarts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut all = Self { partitions: partitions.len(), names: partitions };
        for uart in uarts {
            let is_taken = all.place(uart).is_some();
            all.names.push(if is_taken { format!("{uart}.uart") } else { uart.to_owned() });
        }
        all
    }

    /// Returns the place of a name.
    #[must_use]
    pub fn place(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| known == name)
    }

    /// Returns the name at a place.
    #[must_use]
    pub fn name(&self, console: usize) -> &str {
        self.names.get(console).map_or("?", String::as_str)
    }

    /// Returns all names in order.
    #[must_use]
    pub fn all(&self) -> &[String] {
        &self.names
    }

    /// Returns the place among the UARTs, for a console that is one.
    #[must_use]
    pub fn uart(&self, console: usize) -> Option<usize> {
        console.checked_sub(self.partitions).filter(|_| console < self.names.len())
    }
}

/// A line of console output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Index of the partition; behind the last one, of a UART that is a device of the board ([`ConsoleNames`]).
    pub console: usize,
    /// Counter ticks of its first byte, as the writer says; 0 for a UART.
    pub time_ticks: u64,
    /// What a person reads: invalid UTF-8 replaced, control characters and terminal sequences taken out.
    pub text: String,
    /// The bytes as they were written, without the end of line.
    pub bytes: Vec<u8>,
    /// Bytes lost before it; such a line has no bytes and its text says `[n bytes lost]`.
    pub lost_bytes: u64,
    /// It ended with a line feed (and not because it was too long, or because output paused).
    pub complete: bool,
    /// Name of the component that printed it, in an instance of the real-time kernel; `None` for what the kernel says, and any other guest.
    pub component: Option<String>,
}

impl Line {
    /// What is shown to people: with `[NAME] ` in front, if a component printed it.
    #[must_use]
    pub fn shown(&self) -> Cow<'_, str> {
        match &self.component {
            Some(name) => format!("[{name}] {}", self.text).into(),
            None => self.text.as_str().into(),
        }
    }
}

/// The line that a writer has not ended.
#[derive(Debug)]
struct Unfinished {
    writer: Writer,
    bytes: Vec<u8>,
    first_ticks: u64,
}

/// Cuts merged output into lines.
#[derive(Debug, Default)]
pub struct LineCutter {
    console: usize,
    /// In the order in which they were begun; one of a writer.
    unfinished: Vec<Unfinished>,
    latest: Option<Instant>,
    /// Names of components by number, once one has printed.
    names: Option<Vec<String>>,
}

impl LineCutter {
    /// Makes a cutter for the console at this place ([`Line::console`]).
    #[must_use]
    pub fn new(console: usize) -> Self {
        Self { console, ..Self::default() }
    }

    /// Adds output; returns the lines it completes.
    pub fn push(&mut self, output: &[Stamped]) -> Vec<Line> {
        let mut lines = Vec::new();
        for piece in output {
            match piece.output {
                Output::Byte(byte) => {
                    let place = self.place_of(piece);
                    let Some(one) = self.unfinished.get_mut(place) else { continue };
                    if byte != b'\n' {
                        one.bytes.push(byte);
                    }
                    let is_end = byte == b'\n';
                    if is_end || one.bytes.len() >= MAX_LINE_BYTES {
                        let one = self.unfinished.remove(place);
                        lines.push(self.line(one, is_end));
                    }
                }
                Output::Lost(count) => {
                    lines.extend(self.flush());
                    lines.push(self.lost(piece.time_ticks, count));
                }
            }
        }
        if !output.is_empty() {
            self.latest = Some(Instant::now());
        }
        lines
    }

    /// Where the line of the piece's writer is; begins one if there is none.
    fn place_of(&mut self, piece: &Stamped) -> usize {
        self.unfinished.iter().position(|one| one.writer == piece.writer).unwrap_or_else(|| {
            let (writer, first_ticks) = (piece.writer, piece.time_ticks);
            self.unfinished.push(Unfinished { writer, bytes: Vec::new(), first_ticks });
            self.unfinished.len() - 1
        })
    }

    fn lost(&self, time_ticks: u64, count: u64) -> Line {
        let text = format!("[{count} bytes lost]");
        let (console, bytes) = (self.console, Vec::new());
        Line { console, time_ticks, text, bytes, lost_bytes: count, complete: true, component: None }
    }

    fn line(&self, one: Unfinished, complete: bool) -> Line {
        let Unfinished { writer, mut bytes, first_ticks } = one;
        while complete && bytes.last() == Some(&b'\r') {
            bytes.pop();
        }
        let text = readable(&bytes);
        let component = match writer {
            Writer::Guest => None,
            Writer::Lost => Some("?".to_owned()),
            Writer::Component(number) => Some(name_of(self.names.as_deref().unwrap_or_default(), usize::from(number))),
        };
        Line { console: self.console, time_ticks: first_ticks, text, bytes, lost_bytes: 0, complete, component }
    }

    /// Returns the unfinished lines, and begins new ones.
    pub fn flush(&mut self) -> Vec<Line> {
        let unfinished = std::mem::take(&mut self.unfinished);
        unfinished.into_iter().map(|one| self.line(one, false)).collect()
    }

    /// Returns the unfinished lines if nothing was added for this long (a prompt).
    pub fn flush_after(&mut self, pause: Duration) -> Vec<Line> {
        if self.latest.is_some_and(|latest| latest.elapsed() >= pause) { self.flush() } else { Vec::new() }
    }

    /// Returns the text of the latest unfinished line.
    #[must_use]
    pub fn unfinished(&self) -> String {
        self.unfinished.last().map(|one| readable(&one.bytes)).unwrap_or_default()
    }

    /// Learns what components are called, at the first text of one.
    fn learn(&mut self, pieces: &[Stamped], names: impl FnOnce() -> Option<Vec<String>>) {
        if self.names.is_none() && pieces.iter().any(|piece| matches!(piece.writer, Writer::Component(_))) {
            // Where there is no instance nobody is asked again.
            self.names = Some(names().unwrap_or_default());
        }
    }
}

/// Returns what a person would read on a terminal, without what could command one.
#[must_use]
pub fn readable(bytes: &[u8]) -> String {
    let decoded = String::from_utf8_lossy(bytes);
    let mut text = String::with_capacity(decoded.len());
    let mut characters = decoded.chars();
    while let Some(character) = characters.next() {
        match character {
            '\t' => text.push('\t'),
            '\u{1b}' => skip_terminal_sequence(&mut characters),
            character if character.is_control() => {}
            character => text.push(character),
        }
    }
    text
}

/// Skips the rest of an escape sequence (ECMA-48): `[` parameters and a final byte, or one character.
fn skip_terminal_sequence(characters: &mut std::str::Chars<'_>) {
    if characters.next() == Some('[') {
        let _final_byte = characters.find(|character| ('@'..='~').contains(character));
    }
}

/// Reads the consoles of all partitions.
#[derive(Debug)]
pub struct ConsoleReader {
    plan: Arc<ImagePlan>,
    consoles: Vec<(Merger, LineCutter)>,
    /// After such a pause an unfinished line is given out; `None` waits for its end.
    pub flush_after: Option<Duration>,
}

impl ConsoleReader {
    /// Makes a reader that begins with the oldest output still in the rings.
    #[must_use]
    pub fn new(plan: Arc<ImagePlan>) -> Self {
        let consoles =
            (0..plan.partitions.len()).map(|index| (merger_of(&plan, index), LineCutter::new(index))).collect();
        Self { plan, consoles, flush_after: None }
    }

    /// Returns new lines of all partitions.
    pub fn poll(&mut self, ram: &Ram) -> Vec<Line> {
        self.poll_with(ram, false)
    }

    /// Returns everything left, unfinished lines too; for the end of a run.
    pub fn finish(&mut self, ram: &Ram) -> Vec<Line> {
        self.poll_with(ram, true)
    }

    fn poll_with(&mut self, ram: &Ram, flush: bool) -> Vec<Line> {
        let mut lines = Vec::new();
        for (partition, (merger, cutter)) in self.consoles.iter_mut().enumerate() {
            let pieces = merger.poll(ram, flush);
            cutter.learn(&pieces, || component_names(&self.plan, ram, partition));
            lines.extend(cutter.push(&pieces));
            if flush {
                lines.extend(cutter.flush());
            } else if let Some(pause) = self.flush_after {
                lines.extend(cutter.flush_after(pause));
            }
        }
        lines
    }

    /// Returns the unfinished line of a partition.
    #[must_use]
    pub fn unfinished(&self, partition: usize) -> String {
        self.consoles.get(partition).map(|(_, cutter)| cutter.unfinished()).unwrap_or_default()
    }
}

/// Makes a merger of all rings of a partition.
#[must_use]
pub fn merger_of(plan: &ImagePlan, partition: usize) -> Merger {
    let Some(entry) = plan.header.partitions.get(partition) else { return Merger::default() };
    let rings = entry.vcpu_console.iter().chain([&entry.guest_console]).filter(|address| address.0 != 0);
    Merger::new(rings.map(|address| RingReader::new(*address, entry.console_bytes)).collect())
}
