//! What runs inside a Linux partition to use Bulkhead: channels, the management device, heartbeats, wake-up latency, and back ends
//! of virtio devices of other partitions.
//!
//! The program works on a stock kernel. Channel ends are PCI functions 1af4:1110 (ivshmem, revision 0) and the management
//! device is 1af4:1111; both are found in sysfs, mapped through their `resource` files, and doorbells are waited for
//! through `uio_pci_generic`. So no kernel module of ours exists. Below a payload of the secure world (`world`) channels are memory that the device
//! tree names, mapped through `/dev/mem`.
//!
//! Everything that reads the machine goes through a root directory for sysfs and one for devices, so the tests run on a
//! tree of ordinary files. Code that needs `unsafe` (mapping, device registers, the counter) is in [`hardware`] alone.
//!
//! Build for a guest: `cargo build --profile bare --target aarch64-unknown-linux-musl -p bulkheadctl`. The `bare` profile
//! ends the program on a panic and optimises across crates; the build script strips it.
#![deny(unsafe_code)]

pub mod arguments;
mod channel;
mod disk;
pub mod failure;
#[allow(unsafe_code)]
pub mod hardware;
mod interrupt;
mod json;
mod latency;
mod partition;
mod payload;
mod pool;
mod port;
mod serve;
mod sysfs;
mod tap;
mod transfer;
mod tree;
mod wish;
mod world;

use arguments::{Command, Invocation, Request};
use failure::Failure;
use std::ffi::OsString;
use std::io::Write;

/// Runs one invocation; output goes to `output`, messages about what happens meanwhile to standard error.
///
/// # Errors
///
/// A [`Failure`] carries the message and the exit code.
pub fn run(arguments: Vec<OsString>, output: &mut dyn Write) -> Result<(), Failure> {
    let request = match arguments::parse(arguments)? {
        Request::Print(text) => {
            write!(output, "{text}")?;
            return Ok(());
        }
        Request::Run(request) => request,
    };
    let Invocation { machine, format, command } = request;
    match command {
        Command::ChannelList => channel::list(&machine, format, output),
        Command::ChannelShow { name } => channel::show(&machine, &name, format, output),
        Command::ChannelRead(options) => transfer::read(&machine, &options, format, output),
        Command::ChannelWrite(options) => transfer::write(&machine, &options),
        Command::ChannelWait { name, timeout } => channel::wait(&machine, &name, timeout),
        Command::ChannelRing { name } => channel::ring(&machine, &name),
        Command::PartitionList => partition::list(&machine, format, output),
        Command::PartitionStatus { name } => partition::status(&machine, &name, format, output),
        Command::PartitionManage { name, action } => partition::manage(&machine, &name, action),
        Command::WorldList => world::list(&machine, format, output),
        Command::WorldReceive(options) => world::receive(&machine, &options, format, output),
        Command::WorldSend { options, tag } => world::send(&machine, &options, tag),
        Command::WorldPriority { priority: None, .. } => wish::show(&machine, format, output),
        Command::WorldPriority { priority: Some(priority), timeout } => {
            wish::want(&machine, priority, timeout, format, output)
        }
        Command::Serve(options) => serve::serve(&machine, &options, output),
        Command::Pool => pool::check(&machine, format, output),
        Command::Heartbeat { every, count } => partition::heartbeat(&machine, every, count),
        Command::Latency { every, count, each } => latency::measure(every, count, each, format, output),
    }
}
