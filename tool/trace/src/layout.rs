//! Who is who in a trace: names and places that its events refer to by index.

use std::fmt;

/// The system that a timeline is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Name of the system.
    pub system: String,
    /// What the times are: such as "instructions, not cycles". Shown wherever a time is.
    pub clock: String,
    /// Name of each partition.
    pub partitions: Vec<String>,
    /// Each core.
    pub cores: Vec<CoreLayout>,
    /// Each channel.
    pub channels: Vec<ChannelLayout>,
}

/// A core and the vCPUs that run on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoreLayout {
    /// Several vCPUs share the core and its trace says who runs. Otherwise the core belongs to slot 0.
    pub is_shared: bool,
    /// Its vCPUs, in the order of the schedule plan.
    pub slots: Vec<SlotLayout>,
    /// Its servers, in the order of the schedule plan; empty under round robin and on a dedicated core.
    pub servers: Vec<ServerLayout>,
}

/// A vCPU of a core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotLayout {
    /// Index of its partition.
    pub partition: usize,
    /// Its number within the partition.
    pub vcpu: usize,
}

/// A server of a core.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerLayout {
    /// Name; unique on its core.
    pub name: String,
    /// Slot of its vCPU.
    pub slot: usize,
    /// Priority, 0 is the most important.
    pub priority: u32,
    /// Budget per period, where it has one.
    pub budget_ns: Option<u64>,
    /// Period, where it has one.
    pub period_ns: Option<u64>,
}

/// A channel with a doorbell, or without.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChannelLayout {
    /// Name.
    pub name: String,
    /// Index of the sending partition.
    pub source: usize,
    /// Index of the receiving partition.
    pub destination: usize,
    /// Interrupt that the receiver gets.
    pub doorbell_interrupt: Option<u32>,
}

impl Layout {
    /// Returns the name of a partition, or `?` without such a partition.
    #[must_use]
    pub fn partition_name(&self, partition: usize) -> &str {
        self.partitions.get(partition).map_or("?", String::as_str)
    }

    /// Returns the vCPU of a slot, if there is one.
    #[must_use]
    pub fn slot(&self, core: usize, slot: usize) -> Option<&SlotLayout> {
        self.cores.get(core)?.slots.get(slot)
    }

    /// Returns the name of a slot: its partition, and its vCPU where the partition has several.
    #[must_use]
    pub fn slot_name(&self, core: usize, slot: usize) -> SlotName<'_> {
        SlotName { layout: self, core, slot }
    }

    /// Returns the name of a server, if there is one.
    #[must_use]
    pub fn server_name(&self, core: usize, server: usize) -> Option<&str> {
        self.cores.get(core)?.servers.get(server).map(|server| server.name.as_str())
    }

    /// Returns the slots of a partition as pairs of core and slot, in the order of its vCPUs.
    #[must_use]
    pub fn slots_of(&self, partition: usize) -> Vec<(usize, usize)> {
        let mut found: Vec<_> = (self.cores.iter().enumerate())
            .flat_map(|(core, layout)| layout.slots.iter().enumerate().map(move |(slot, owner)| (owner, core, slot)))
            .filter(|(owner, ..)| owner.partition == partition)
            .collect();
        found.sort_by_key(|(owner, ..)| owner.vcpu);
        found.into_iter().map(|(_, core, slot)| (core, slot)).collect()
    }
}

/// A slot's name for people.
#[derive(Clone, Copy, Debug)]
pub struct SlotName<'a> {
    layout: &'a Layout,
    core: usize,
    slot: usize,
}

impl fmt::Display for SlotName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(owner) = self.layout.slot(self.core, self.slot) else { return write!(f, "slot {}", self.slot) };
        f.write_str(self.layout.partition_name(owner.partition))?;
        if self.layout.slots_of(owner.partition).len() > 1 { write!(f, ", vCPU {}", owner.vcpu) } else { Ok(()) }
    }
}
