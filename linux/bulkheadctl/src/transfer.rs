//! `channel read`, `watch` and `write`.

use crate::arguments::{Format, ReadOptions, WriteOptions};
use crate::failure::{CORRUPT, FULL, Failure, MACHINE, NOTHING, USAGE};
use crate::hardware::{Mapping, counter_hz, counter_ticks};
use crate::interrupt::{Deadline, Waiter};
use crate::json::Object;
use crate::payload::{Shown, show};
use crate::port::Port;
use crate::sysfs::Machine;
use bulkhead_channel::{
    Corruption, MappedWindow, Message, OpenError, QueuingReader, QueuingWriter, ReceiveError, SampleError,
    SamplingReader, SamplingWriter, SendError,
};
use std::io::{BufRead, Read, Write};
use std::time::Duration;

/// How often a full queue is tried again.
const RETRY: Duration = Duration::from_millis(1);

/// What an attempt to read brought.
enum Arrival<'b> {
    Message(Message<'b>),
    /// Nothing new.
    Nothing,
    /// The source's end is closed.
    Closed,
    /// The source was restarted.
    Reset {
        generation: u32,
    },
    /// Rubbish.
    Corrupt(Corruption),
}

/// The destination's end of either kind.
enum Reader<'m> {
    Sampling(SamplingReader<MappedWindow<'m>>),
    Queuing(QueuingReader<MappedWindow<'m>>),
}

impl<'m> Reader<'m> {
    fn open(port: &Port, window: MappedWindow<'m>) -> Result<Self, OpenError> {
        if port.geometry.is_sampling() {
            SamplingReader::open(window, port.geometry).map(Self::Sampling)
        } else {
            QueuingReader::open(window, port.geometry).map(Self::Queuing)
        }
    }

    fn take<'b>(&mut self, buffer: &'b mut [u8]) -> Arrival<'b> {
        match self {
            Self::Sampling(reader) => match reader.read(buffer) {
                Ok(sample) if sample.is_new => Arrival::Message(sample.message),
                Ok(_) | Err(SampleError::NoValue | SampleError::Stale { .. }) => Arrival::Nothing,
                Err(SampleError::PeerClosed | SampleError::BufferTooSmall { .. }) => Arrival::Closed,
                Err(SampleError::PeerReset { generation }) => Arrival::Reset { generation },
                Err(SampleError::Corrupt(corruption)) => Arrival::Corrupt(corruption),
            },
            Self::Queuing(reader) => match reader.receive(buffer) {
                Ok(message) => Arrival::Message(message),
                Err(ReceiveError::Empty) => Arrival::Nothing,
                Err(ReceiveError::PeerClosed | ReceiveError::BufferTooSmall { .. }) => Arrival::Closed,
                Err(ReceiveError::PeerReset { generation }) => Arrival::Reset { generation },
                Err(ReceiveError::Corrupt(corruption)) => Arrival::Corrupt(corruption),
            },
        }
    }
}

/// Prints messages as they arrive.
pub(crate) fn read(
    machine: &Machine,
    options: &ReadOptions,
    format: Format,
    output: &mut dyn Write,
) -> Result<(), Failure> {
    let port = Port::find(machine, &options.name)?;
    if port.is_source() {
        return Err(Failure::new(USAGE, format!("port {} is the source of its channel; write to it", options.name)));
    }
    let _lock = port.lock()?;
    let mapping = port.map_window()?;
    let mut reader =
        Reader::open(&port, window(&mapping)?).map_err(|error| Failure::new(MACHINE, error.to_string()))?;
    let mut waiter = None;
    let mut buffer = vec![0; port.geometry.message_bytes() as usize];
    let mut deadline = Deadline::after(options.timeout);
    let mut printed = 0;
    let mut is_closed = false;
    let mut was_reset = false;
    while options.count.is_none_or(|count| printed < count) {
        match reader.take(&mut buffer) {
            Arrival::Message(message) => {
                print(&port, &message, format, output)?;
                printed += 1;
                deadline = Deadline::after(options.timeout);
                was_reset = false;
                continue;
            }
            Arrival::Reset { generation } => {
                eprintln!("bulkheadctl: the source of {} was restarted (start {generation})", options.name);
                // The new incarnation may have written already; a source that claims to restart all the time has to wait.
                if !was_reset {
                    was_reset = true;
                    continue;
                }
            }
            Arrival::Corrupt(corruption) if options.is_watch => {
                eprintln!("bulkheadctl: {}: {corruption}", options.name)
            }
            Arrival::Corrupt(corruption) => {
                return Err(Failure::new(CORRUPT, format!("{}: {corruption}", options.name)));
            }
            Arrival::Nothing => is_closed = false,
            Arrival::Closed => is_closed = true,
        }
        if deadline.is_over() {
            return Err(nothing(&options.name, is_closed));
        }
        waiter.get_or_insert_with(|| Waiter::new(machine, &port)).wait(deadline)?;
    }
    Ok(())
}

fn nothing(name: &str, is_closed: bool) -> Failure {
    let why = if is_closed { "the source has not opened its end" } else { "nothing new within the time (--timeout)" };
    Failure::new(NOTHING, format!("{name}: {why}"))
}

fn print(port: &Port, message: &Message<'_>, format: Format, output: &mut dyn Write) -> Result<(), Failure> {
    let age_us = u128::from(message.age_ticks(counter_ticks())) * 1_000_000 / u128::from(counter_hz().max(1));
    let age_us = u64::try_from(age_us).unwrap_or(u64::MAX);
    match format {
        Format::Raw => output.write_all(message.payload)?,
        Format::Text => match show(message.payload) {
            Shown::Text(text) | Shown::Hexadecimal(text) => writeln!(output, "{text}")?,
        },
        Format::Json => {
            let object = Object::default()
                .text("channel", port.name())
                .number("sequence", message.sequence)
                .number("time_ticks", message.time_ticks)
                .number("age_us", age_us)
                .number("bytes", message.payload.len() as u64);
            let object = match show(message.payload) {
                Shown::Text(text) => object.text("text", &text),
                Shown::Hexadecimal(digits) => object.text("hex", &digits),
            };
            writeln!(output, "{}", object.finish())?;
        }
    }
    // Each message is seen at once, also through a pipe.
    output.flush()?;
    Ok(())
}

/// The source's end of either kind.
enum Writer<'m> {
    Sampling(SamplingWriter<MappedWindow<'m>>),
    Queuing(QueuingWriter<MappedWindow<'m>>),
}

impl<'m> Writer<'m> {
    fn open(port: &Port, window: MappedWindow<'m>) -> Result<Self, OpenError> {
        if port.geometry.is_sampling() {
            SamplingWriter::open(window, port.geometry, counter_ticks()).map(Self::Sampling)
        } else {
            QueuingWriter::open(window, port.geometry, counter_ticks()).map(Self::Queuing)
        }
    }

    fn put(&mut self, payload: &[u8]) -> Result<(), SendError> {
        match self {
            Self::Sampling(writer) => match writer.write(payload, counter_ticks()) {
                Ok(_) => Ok(()),
                Err(bulkhead_channel::WriteError::Length { most }) => Err(SendError::Length { most }),
            },
            Self::Queuing(writer) => writer.send(payload, counter_ticks()).map(|_| ()),
        }
    }
}

/// Writes one message, or one per line.
pub(crate) fn write(machine: &Machine, options: &WriteOptions) -> Result<(), Failure> {
    let port = Port::find(machine, &options.name)?;
    if !port.is_source() {
        return Err(Failure::new(
            USAGE,
            format!("port {} is the destination of its channel; read from it", options.name),
        ));
    }
    let _lock = port.lock()?;
    let mapping = port.map_window()?;
    let mut writer =
        Writer::open(&port, window(&mapping)?).map_err(|error| Failure::new(MACHINE, error.to_string()))?;
    let mut put = |payload: &[u8]| put_and_ring(&port, &mut writer, payload, options);
    let input_error = |error: std::io::Error| Failure::machine("cannot read standard input", &error);
    if let Some(data) = &options.data {
        return put(data);
    }
    let input = std::io::stdin().lock();
    if options.lines {
        return input.split(b'\n').try_for_each(|line| put(&line.map_err(input_error)?));
    }
    // One byte more than fits, so that a message that is too long is seen as such.
    let mut data = Vec::new();
    let most = u64::from(port.geometry.message_bytes()).saturating_add(1);
    input.take(most).read_to_end(&mut data).map_err(input_error)?;
    put(&data)
}

fn put_and_ring(port: &Port, writer: &mut Writer<'_>, payload: &[u8], options: &WriteOptions) -> Result<(), Failure> {
    let deadline = Deadline::after(options.timeout);
    loop {
        match writer.put(payload) {
            Ok(()) => break,
            Err(error @ SendError::Length { .. }) => {
                return Err(Failure::new(
                    USAGE,
                    format!("{}: {} bytes given, but {error}", port.name(), payload.len()),
                ));
            }
            Err(SendError::Full) if !deadline.is_over() => std::thread::sleep(deadline.remaining(RETRY)),
            Err(SendError::Full) => return Err(Failure::new(FULL, format!("{}: the queue is full", port.name()))),
            Err(SendError::Corrupt(corruption)) => {
                return Err(Failure::new(CORRUPT, format!("{}: {corruption}", port.name())));
            }
        }
    }
    if options.ring && port.has_doorbell() {
        port.doorbells().ring();
    }
    Ok(())
}

fn window(mapping: &Mapping) -> Result<MappedWindow<'_>, Failure> {
    mapping.window().ok_or_else(|| Failure::new(MACHINE, "the channel's window is not aligned"))
}
