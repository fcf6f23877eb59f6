//! Instances of the real-time kernel in partitions with a core each, and channels between them.
//!
//! Cores take turns on one counter, so of several only contents and counts mean anything, and instructions per core, which an emulator plugin counts.

use super::files::Files;
use crate::System;
use bulkhead_abi::PhysicalAddress;
use bulkhead_kernel_abi::image::MAGIC;
use bulkhead_plan::model::GuestImage;
use bulkhead_run::CountingOptions;

/// A doorbell that holds nothing back.
pub const UNLIMITED: &str = "{ limit = 1000000, per = \"1 s\" }";

/// An instance in a partition of its own; its place says which core.
#[derive(Clone, Debug)]
pub struct Member {
    /// Name of the partition.
    pub name: &'static str,
    /// Description of the instance.
    pub text: String,
    /// More keys of the partition.
    pub keys: String,
}

/// A channel, whose name is that of both ports.
#[derive(Clone, Debug)]
pub struct Channel {
    /// Its name.
    pub name: String,
    /// Who writes.
    pub from: &'static str,
    /// Who reads.
    pub to: &'static str,
    /// Bytes of a message, and how many there is room for; of a wire neither matters.
    pub shape: (u32, u32),
    /// Its doorbell.
    pub doorbell: String,
}

impl Channel {
    /// A wire without a limit.
    #[must_use]
    pub fn wire(name: &str, from: &'static str, to: &'static str) -> Self {
        Self { name: name.to_owned(), from, to, shape: (8, 16), doorbell: UNLIMITED.to_owned() }
    }
}

/// The system of some instances, by cores.
///
/// # Panics
/// When it is refused.
#[must_use]
pub fn system(name: &str, mode: &str, members: &[Member], channels: &[Channel]) -> System {
    system_with(name, mode, members, channels, "")
}

/// The same, and partitions that are no instances, as descriptions of systems have them; their ports are those of the channels.
///
/// # Panics
/// When it is refused.
#[must_use]
pub fn system_with(name: &str, mode: &str, members: &[Member], channels: &[Channel], others: &str) -> System {
    let texts: Vec<_> = members.iter().map(|member| (member.name, member.text.as_str())).collect();
    let files = Files::new(name, &texts);
    let mut text = format!("version = 1\nname = \"{name}\"\nboard = \"qemu-virt\"\nmemory = \"256 MiB\"\n");
    for (core, member) in members.iter().enumerate() {
        let port = |channel: &Channel| {
            let direction = if channel.from == member.name { "source" } else { "destination" };
            let (name, (bytes, depth)) = (&channel.name, channel.shape);
            format!(
                "{{ name = \"{name}\", direction = \"{direction}\", kind = \"queuing\", message_bytes = {bytes}, depth = {depth} }}"
            )
        };
        let own = channels.iter().filter(|channel| [channel.from, channel.to].contains(&member.name));
        text.push_str(&format!(
            "[[partition]]\nname = \"{}\"\ntrust = \"trusted\"\ncores = [{core}]\nmemory = \"8 MiB\"\ninterrupts = \"{mode}\"\n\
             image = {{ kind = \"kernel\", file = {:?} }}\nports = [{}]\n{}\n",
            member.name,
            files.path(member.name),
            own.map(port).collect::<Vec<_>>().join(", "),
            member.keys
        ));
    }
    text.push_str(others);
    for Channel { name, from, to, doorbell, .. } in channels {
        let doorbell = if doorbell.is_empty() { String::new() } else { format!("doorbell = {doorbell}\n") };
        text.push_str(&format!(
            "[[channel]]\nname = \"{name}\"\nsource = \"{from}.{name}\"\ndestination = \"{to}.{name}\"\n{doorbell}"
        ));
    }
    System::from_text(name, &text)
}

/// Counts the instructions of each instance's kernel, as `kernel NAME`, beside the monitor's.
///
/// # Panics
/// When an instance has no head.
#[must_use]
pub fn counting(system: &System) -> CountingOptions {
    let plan = system.plan();
    let mut counting = CountingOptions::for_monitor(&plan);
    for (partition, planned) in system.model.partitions.iter().zip(&plan.partitions) {
        let GuestImage::Kernel { bytes, load, .. } = &partition.image else { continue };
        let ram = planned.ram().first().expect("a partition has memory");
        let start = ram.physical.0 + (load.0 - ram.guest.0);
        // Behind the kernel is the head of its tables.
        let head = bytes.chunks(4096).position(|page| page.starts_with(&MAGIC.to_le_bytes())).expect("a head") as u64;
        let range = PhysicalAddress(start)..PhysicalAddress(start + head * 4096);
        counting.ranges.push((format!("kernel {}", partition.name), range));
    }
    counting
}
