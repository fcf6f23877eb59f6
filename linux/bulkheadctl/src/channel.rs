//! `channel list`, `show`, `wait` and `ring`.

use crate::arguments::Format;
use crate::failure::{Failure, MACHINE, NOTHING};
use crate::interrupt::{Deadline, Waiter};
use crate::json::{Object, array};
use crate::partition::{reason_text, state_text};
use crate::port::Port;
use crate::sysfs::Machine;
use bulkhead_channel::SharedMemory;
use bulkhead_guest_abi::channel::PORT_SAMPLING;
use bulkhead_guest_abi::channel::{CHANNEL_READER_OFFSET, CHANNEL_WRITER_OFFSET, READER_MAGIC, WRITER_MAGIC};
use std::io::Write;
use std::time::Duration;

/// Prints all ports.
pub(crate) fn list(machine: &Machine, format: Format, output: &mut dyn Write) -> Result<(), Failure> {
    let ports = Port::all(machine)?;
    if format == Format::Json {
        let objects: Vec<String> = ports.iter().map(|port| describe(port).finish()).collect();
        writeln!(output, "{}", array(&objects))?;
        return Ok(());
    }
    if ports.is_empty() {
        writeln!(output, "no channels: this partition has no PCI function 1af4:1110")?;
        return Ok(());
    }
    writeln!(
        output,
        "{:<20} {:<12} {:<9} {:>6} {:>6}  {:<9} FUNCTION",
        "NAME", "DIRECTION", "KIND", "BYTES", "SLOTS", "DOORBELL"
    )?;
    for port in &ports {
        let doorbell = if port.has_doorbell() || port.has_interrupt() { "yes" } else { "no" };
        writeln!(
            output,
            "{:<20} {:<12} {:<9} {:>6} {:>6}  {:<9} {}",
            port.name(),
            direction_text(port),
            kind_text(port),
            port.geometry.message_bytes(),
            port.geometry.slots(),
            doorbell,
            port.function().address
        )?;
    }
    Ok(())
}

/// Prints one port with what its window says.
pub(crate) fn show(machine: &Machine, name: &str, format: Format, output: &mut dyn Write) -> Result<(), Failure> {
    let port = Port::find(machine, name)?;
    let mapping = port.map_window()?;
    let window = mapping.window().ok_or_else(|| Failure::new(MACHINE, "the window is not aligned"))?;
    let word = |offset: u64| window.load_acquire(usize::try_from(offset / 8).unwrap_or(usize::MAX));
    let half = |offset: u64| (word(offset & !7) >> ((offset & 4) * 8)) & u64::from(u32::MAX);
    let source_is_open = word(CHANNEL_WRITER_OFFSET) == WRITER_MAGIC;
    let destination_is_open = word(CHANNEL_READER_OFFSET) == READER_MAGIC;
    let written = word(CHANNEL_WRITER_OFFSET + 32);
    let read = word(CHANNEL_READER_OFFSET + 8);
    let (state, reason) = (state_text(half(0)), reason_text(half(4)));
    let (generation, restarts) = (half(8), half(12));
    if format == Format::Json {
        let object = describe(&port)
            .truth("source_open", source_is_open)
            .truth("destination_open", destination_is_open)
            .number("written", written)
            .number("read", read)
            .text("peer_state", state)
            .text("peer_reason", reason)
            .number("peer_generation", generation)
            .number("peer_restarts", restarts);
        writeln!(output, "{}", object.finish())?;
        return Ok(());
    }
    let open = |is_open: bool| if is_open { "open" } else { "closed" };
    writeln!(output, "name:         {}", port.name())?;
    writeln!(output, "this end:     {}, {}", direction_text(&port), kind_text(&port))?;
    writeln!(output, "messages:     {} bytes, {} slots", port.geometry.message_bytes(), port.geometry.slots())?;
    writeln!(output, "function:     {}", port.function().address)?;
    writeln!(output, "source:       {}, {written} written", open(source_is_open))?;
    if port.geometry.is_sampling() {
        writeln!(output, "destination:  {}", open(destination_is_open))?;
    } else {
        writeln!(output, "destination:  {}, {read} read", open(destination_is_open))?;
    }
    writeln!(output, "peer:         {state} ({reason}), started {generation} times, {restarts} restarts")?;
    Ok(())
}

/// Waits for a doorbell.
pub(crate) fn wait(machine: &Machine, name: &str, timeout: Option<Duration>) -> Result<(), Failure> {
    let port = Port::find(machine, name)?;
    let deadline = Deadline::after(timeout);
    let mut waiter = Waiter::for_doorbell(machine, &port)?;
    loop {
        if waiter.wait(deadline)? {
            return Ok(());
        }
        if deadline.is_over() {
            return Err(Failure::new(NOTHING, format!("no doorbell of {name} within the time")));
        }
    }
}

/// Rings the doorbell.
pub(crate) fn ring(machine: &Machine, name: &str) -> Result<(), Failure> {
    let port = Port::find(machine, name)?;
    if !port.has_doorbell() {
        let why =
            if port.is_source() { "the channel's description has no doorbell" } else { "this end is the destination" };
        return Err(Failure::new(MACHINE, format!("port {name} cannot ring: {why}")));
    }
    port.doorbells().ring();
    Ok(())
}

fn describe(port: &Port) -> Object {
    Object::default()
        .text("name", port.name())
        .text("direction", direction_text(port))
        .text("kind", kind_text(port))
        .number("message_bytes", port.geometry.message_bytes().into())
        .number("slots", port.geometry.slots().into())
        .truth("doorbell", port.has_doorbell() || port.has_interrupt())
        .text("function", &port.function().address)
}

fn direction_text(port: &Port) -> &'static str {
    if port.is_source() { "source" } else { "destination" }
}

fn kind_text(port: &Port) -> &'static str {
    if port.geometry.kind() == PORT_SAMPLING { "sampling" } else { "queuing" }
}
