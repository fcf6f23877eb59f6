//! `world list`, `send` and `receive`: messages with the payload of the secure world, from the Linux below it.
//!
//! A channel is a pool of blocks (`core/world::pool`). Of a Linux that is alone below the payload it is in memory that is nobody's: the device
//! tree says where, and the stock kernel lets `/dev/mem` map what is outside of its own memory. Of a partition it is a PCI function. It is looked
//! at in turns: the kernel has no driver that would wait for its interrupt.
//! Each run of the program goes on where the one before stopped.

use crate::arguments::{Format, ReadOptions, WriteOptions};
use crate::failure::{CORRUPT, FULL, Failure, MACHINE, NOT_FOUND, NOTHING, USAGE};
use crate::hardware::Mapping;
use crate::interrupt::Deadline;
use crate::json::{Object, array};
use crate::payload::{Shown, show};
use crate::port;
use crate::sysfs::{Function, Machine};
use crate::tree;
use bulkhead_abi::plan::PortInformation;
use bulkhead_channel::MappedWindow;
use bulkhead_guest_abi::guest::DIRECTION_SOURCE;
use bulkhead_guest_abi::name_text;
use bulkhead_world::pool::{Filter, Geometry, PoolError, Receiver, Sender};
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::io::{BufRead, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Nodes of channels in the device tree, below its root.
const NODES: &str = "bulkhead-channels";
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(1);

/// A channel to the secure world or from it.
#[derive(Debug)]
pub(crate) struct WorldChannel {
    name: String,
    is_to_payload: bool,
    geometry: Geometry,
    blocks: u32,
    /// Address and length.
    memory: (u64, usize),
    place: Place,
}

/// What leads to a channel's memory.
#[derive(Debug)]
enum Place {
    /// A node of the device tree: the memory is mapped through `/dev/mem`.
    Node(PathBuf),
    /// A PCI function of this partition: the memory is its BAR 2.
    Function(Function),
}

impl WorldChannel {
    fn all(machine: &Machine) -> Result<Vec<Self>, Failure> {
        let Some(nodes) = tree::nodes(machine, NODES, "blocks") else {
            return Self::of_functions(machine);
        };
        let read = |node: PathBuf| Self::read(&node).ok_or_else(|| tree::damaged(&node));
        let mut channels: Vec<Self> = nodes.into_iter().map(read).collect::<Result<_, _>>()?;
        channels.sort_by_key(|channel| channel.memory.0);
        Ok(channels)
    }

    /// The channels of a partition below a payload.
    fn of_functions(machine: &Machine) -> Result<Vec<Self>, Failure> {
        // Without a PCI bus there are none; with one, what fails is said.
        let has_bus = machine.sysfs("bus/pci/devices").is_dir();
        let pools = if has_bus { port::pools(machine)? } else { Vec::new() };
        if pools.is_empty() {
            let message = "this Linux has no channels to a secure world: its device tree has no node \
                           /bulkhead-channels, and no PCI function is one";
            return Err(Failure::new(NOT_FOUND, message));
        }
        let read = |(function, information): (Function, PortInformation)| {
            let damaged = || Failure::new(MACHINE, format!("{} is no channel that there can be", function.address));
            let geometry = Geometry::new(information.slots, information.message_bytes).ok_or_else(damaged)?;
            Ok(Self {
                name: name_text(&information.name).to_owned(),
                is_to_payload: information.direction == DIRECTION_SOURCE,
                geometry,
                blocks: information.slots,
                memory: (function.resource_address(2)?, geometry.words().saturating_mul(size_of::<u64>())),
                place: Place::Function(function),
            })
        };
        pools.into_iter().map(read).collect()
    }

    fn read(node: &Path) -> Option<Self> {
        let cell = |name: &str| Some(u32::from_be_bytes(tree::bytes(node, name)?.try_into().ok()?));
        let text =
            |name: &str| Some(String::from_utf8(tree::bytes(node, name)?).ok()?.trim_end_matches('\0').to_owned());
        let blocks = cell("blocks")?;
        let geometry = Geometry::new(blocks, cell("block-bytes")?)?;
        Some(Self {
            name: text("label")?,
            is_to_payload: match text("direction")?.as_str() {
                "to-payload" => true,
                "to-world" => false,
                _ => return None,
            },
            geometry,
            blocks,
            memory: tree::memory(node)?,
            place: Place::Node(node.to_path_buf()),
        })
    }

    fn find(machine: &Machine, name: &str, is_to_payload: bool) -> Result<Self, Failure> {
        let mut all = Self::all(machine)?;
        let Some(place) = all.iter().position(|channel| channel.name == name) else {
            let names: Vec<&str> = all.iter().map(|channel| channel.name.as_str()).collect();
            return Err(Failure::new(NOT_FOUND, format!("no channel {name}; there are: {}", names.join(", "))));
        };
        let channel = all.swap_remove(place);
        match (channel.is_to_payload, is_to_payload) {
            (true, false) => Err(Failure::new(USAGE, format!("{name} goes to the payload; send to it"))),
            (false, true) => Err(Failure::new(USAGE, format!("{name} comes from the payload; receive from it"))),
            _ => Ok(channel),
        }
    }

    /// Takes the channel for this process, as long as the file is open.
    fn lock(&self) -> Result<File, Failure> {
        let file = match &self.place {
            Place::Node(node) => {
                let path = node.join("reg");
                File::open(&path)
                    .map_err(|error| Failure::machine(format_args!("cannot open {}", path.display()), &error))?
            }
            Place::Function(function) => function.open_resource("resource2")?,
        };
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|error| {
            if error == rustix::io::Errno::WOULDBLOCK {
                Failure::new(MACHINE, format!("channel {} is in use by another process", self.name))
            } else {
                Failure::machine(format_args!("cannot lock channel {}", self.name), &error.into())
            }
        })?;
        Ok(file)
    }

    fn map(&self, machine: &Machine) -> Result<Mapping, Failure> {
        if let Place::Function(function) = &self.place {
            // Write-combining, as the other end has it, or else as the kernel maps devices.
            let file = function.open_first_resource(["resource2_wc", "resource2"])?;
            return Mapping::new(&file, self.memory.1)
                .map_err(|error| Failure::machine(format_args!("cannot map BAR 2 of {}", function.address), &error));
        }
        tree::map(machine, self.memory, &format!("channel {}", self.name))
    }

    fn describe(&self) -> Object {
        Object::default()
            .text("name", &self.name)
            .text("direction", if self.is_to_payload { "to_payload" } else { "to_world" })
            .number("blocks", self.blocks.into())
            .number("block_bytes", self.geometry.block_bytes().into())
            .number("address", self.memory.0)
    }

    fn failure(&self, error: PoolError) -> Failure {
        match error {
            PoolError::Corrupt => Failure::new(CORRUPT, format!("{}: the pool's counts cannot be", self.name)),
            PoolError::Length => {
                let most = self.geometry.block_bytes();
                Failure::new(USAGE, format!("{}: the message is longer than a block of {most} bytes", self.name))
            }
            other => Failure::new(MACHINE, format!("{}: {other:?}", self.name)),
        }
    }
}

/// Prints all channels.
pub(crate) fn list(machine: &Machine, format: Format, output: &mut dyn Write) -> Result<(), Failure> {
    let channels = WorldChannel::all(machine)?;
    if format == Format::Json {
        let objects: Vec<String> = channels.iter().map(|channel| channel.describe().finish()).collect();
        writeln!(output, "{}", array(&objects))?;
        return Ok(());
    }
    for channel in channels {
        let to = if channel.is_to_payload { "to the payload" } else { "to the world" };
        let (blocks, bytes) = (channel.blocks, channel.geometry.block_bytes());
        writeln!(output, "{:<24} {to:<16} {blocks} blocks of {bytes} bytes at {:#x}", channel.name, channel.memory.0)?;
    }
    Ok(())
}

/// Prints messages as they arrive.
pub(crate) fn receive(
    machine: &Machine,
    options: &ReadOptions,
    format: Format,
    output: &mut dyn Write,
) -> Result<(), Failure> {
    let channel = WorldChannel::find(machine, &options.name, false)?;
    let _lock = channel.lock()?;
    let mapping = channel.map(machine)?;
    let opened = Receiver::resume(window(&mapping)?, channel.geometry, Filter::default());
    let mut receiver = opened.map_err(|error| channel.failure(error))?;
    let mut buffer = vec![0; channel.geometry.block_bytes() as usize];
    let mut deadline = Deadline::after(options.timeout);
    let mut printed = 0;
    while options.count.is_none_or(|count| printed < count) {
        match receiver.dequeue() {
            Ok(message) => {
                let bytes = receiver.read(&message, &mut buffer).map_err(|error| channel.failure(error))?;
                print(&channel.name, message.tag(), bytes, format, output)?;
                receiver.free(&message).map_err(|error| channel.failure(error))?;
                printed += 1;
                deadline = Deadline::after(options.timeout);
            }
            Err(PoolError::Nothing) if deadline.is_over() => {
                return Err(Failure::new(NOTHING, format!("{}: nothing within the time (--timeout)", channel.name)));
            }
            Err(PoolError::Nothing) => std::thread::sleep(deadline.remaining(LOOK)),
            Err(error) => return Err(channel.failure(error)),
        }
    }
    Ok(())
}

fn print(name: &str, tag: u32, bytes: &[u8], format: Format, output: &mut dyn Write) -> Result<(), Failure> {
    match (format, show(bytes)) {
        (Format::Raw, _) => output.write_all(bytes)?,
        (Format::Text, Shown::Text(text) | Shown::Hexadecimal(text)) => writeln!(output, "{text}")?,
        (Format::Json, shown) => {
            let object =
                Object::default().text("channel", name).number("tag", tag.into()).number("bytes", bytes.len() as u64);
            let object = match shown {
                Shown::Text(text) => object.text("text", &text),
                Shown::Hexadecimal(digits) => object.text("hex", &digits),
            };
            writeln!(output, "{}", object.finish())?;
        }
    }
    // Each message is seen at once, also through a pipe, and before its block is free.
    output.flush()?;
    Ok(())
}

/// Sends one message, or one per line.
pub(crate) fn send(machine: &Machine, options: &WriteOptions, tag: u32) -> Result<(), Failure> {
    let channel = WorldChannel::find(machine, &options.name, true)?;
    let _lock = channel.lock()?;
    let mapping = channel.map(machine)?;
    let mut sender = Sender::resume(window(&mapping)?, channel.geometry).map_err(|error| channel.failure(error))?;
    let mut put = |payload: &[u8]| put(&channel, &mut sender, payload, tag, options.timeout);
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
    input
        .take(u64::from(channel.geometry.block_bytes()).saturating_add(1))
        .read_to_end(&mut data)
        .map_err(input_error)?;
    put(&data)
}

fn put(
    channel: &WorldChannel,
    sender: &mut Sender<MappedWindow<'_>>,
    payload: &[u8],
    tag: u32,
    timeout: Option<Duration>,
) -> Result<(), Failure> {
    let deadline = Deadline::after(timeout);
    loop {
        match sender.allocate() {
            Ok(block) => {
                let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
                let sent = sender.write(block, payload).and_then(|()| sender.enqueue(block, length, tag));
                return sent.map_err(|error| channel.failure(error));
            }
            Err(PoolError::Nothing) if deadline.is_over() => {
                return Err(Failure::new(FULL, format!("{}: no block is free", channel.name)));
            }
            Err(PoolError::Nothing) => std::thread::sleep(deadline.remaining(LOOK)),
            Err(error) => return Err(channel.failure(error)),
        }
    }
}

fn window(mapping: &Mapping) -> Result<MappedWindow<'_>, Failure> {
    mapping.window().ok_or_else(|| Failure::new(MACHINE, "the channel's memory is not aligned"))
}
