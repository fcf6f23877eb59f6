//! Layout and events as protobuf messages of our own, so that a trace file can be read back exactly.
//!
//! An event is a number for its kind and up to four numbers and a text. That form is plain on purpose: it has one field
//! list for all kinds, and an older tool reads the kinds that it knows.

use crate::layout::{ChannelLayout, CoreLayout, Layout, ServerLayout, SlotLayout};
use crate::timeline::{Event, EventKind};
use prost::Message;

/// An event.
#[derive(Clone, PartialEq, Message)]
pub struct EventRecord {
    /// Core.
    #[prost(uint32, tag = "1")]
    pub core: u32,
    /// Kind, see [`EventRecord::of`].
    #[prost(uint32, tag = "2")]
    pub kind: u32,
    /// Arguments; an optional number is stored plus one, none as zero.
    #[prost(uint64, tag = "3")]
    pub a: u64,
    /// See `a`.
    #[prost(uint64, tag = "4")]
    pub b: u64,
    /// See `a`.
    #[prost(uint64, tag = "5")]
    pub c: u64,
    /// See `a`.
    #[prost(uint64, tag = "6")]
    pub d: u64,
    /// Text.
    #[prost(string, tag = "7")]
    pub text: String,
}

/// An optional number as a number. The largest number cannot be told from the one below it; no time is that late.
fn optional(value: Option<u64>) -> u64 {
    value.map_or(0, |value| value.saturating_add(1))
}

fn number(value: u64) -> Option<u64> {
    value.checked_sub(1)
}

fn index(value: u64) -> Option<usize> {
    usize::try_from(value).ok()
}

impl EventRecord {
    /// Returns the record of an event.
    #[must_use]
    pub fn of(event: &Event) -> Self {
        let flag = u64::from;
        let some = |value: &Option<usize>| optional(value.map(|value| value as u64));
        let (kind, [a, b, c, d]) = match &event.kind {
            EventKind::Run { slot, server, background, budget_ns, until_ns } => {
                let slot_and_flag = ((*slot as u64) << 1) | flag(*background);
                (1, [slot_and_flag, some(server), optional(*budget_ns), optional(*until_ns)])
            }
            EventKind::Idle => (2, [0; 4]),
            EventKind::Wake { slot, interrupt } => (3, [*slot as u64, optional(interrupt.map(u64::from)), 0, 0]),
            EventKind::Block { slot } => (4, [*slot as u64, 0, 0, 0]),
            EventKind::Exhausted { server } => (5, [*server as u64, 0, 0, 0]),
            EventKind::Replenished { server, budget_ns } => (6, [*server as u64, optional(*budget_ns), 0, 0]),
            EventKind::Interrupt { intid, owner, held } => (7, [u64::from(*intid), some(owner), flag(*held), 0]),
            EventKind::Doorbell { partition, channel, sent } => {
                (8, [*partition as u64, *channel as u64, flag(*sent), 0])
            }
            EventKind::GuestStart { partition, entry } => (9, [*partition as u64, *entry, 0, 0]),
            EventKind::State { partition, state, reason } => {
                (10, [*partition as u64, u64::from(*state), u64::from(*reason), 0])
            }
            EventKind::Exit { partition, syndrome, address } => (11, [*partition as u64, *syndrome, *address, 0]),
            EventKind::Call { partition, function, argument } => (12, [*partition as u64, *function, *argument, 0]),
            EventKind::Fault { partition, reason, syndrome, address } => {
                (13, [*partition as u64, u64::from(*reason), *syndrome, *address])
            }
            EventKind::Mark { slot, .. } => (14, [some(slot), 0, 0, 0]),
            EventKind::Charged { from_ns, payer, until_ns } => (15, [optional(*from_ns), *until_ns, some(payer), 0]),
        };
        let text = if let EventKind::Mark { text, .. } = &event.kind { text.clone() } else { String::new() };
        Self { core: u32::try_from(event.core).unwrap_or(u32::MAX), kind, a, b, c, d, text }
    }

    /// Returns what happened, or none if this tool does not know the kind or a number is out of range.
    #[must_use]
    pub fn kind(&self) -> Option<EventKind> {
        let Self { a, b, c, d, .. } = *self;
        let small = |value: u64| u32::try_from(value).ok();
        Some(match self.kind {
            1 => EventKind::Run {
                slot: index(a >> 1)?,
                server: number(b).and_then(index),
                background: a & 1 == 1,
                budget_ns: number(c),
                until_ns: number(d),
            },
            2 => EventKind::Idle,
            3 => EventKind::Wake { slot: index(a)?, interrupt: number(b).and_then(small) },
            4 => EventKind::Block { slot: index(a)? },
            5 => EventKind::Exhausted { server: index(a)? },
            6 => EventKind::Replenished { server: index(a)?, budget_ns: number(b) },
            7 => EventKind::Interrupt { intid: small(a)?, owner: number(b).and_then(index), held: c == 1 },
            8 => EventKind::Doorbell { partition: index(a)?, channel: index(b)?, sent: c == 1 },
            9 => EventKind::GuestStart { partition: index(a)?, entry: b },
            10 => EventKind::State { partition: index(a)?, state: small(b)?, reason: small(c)? },
            11 => EventKind::Exit { partition: index(a)?, syndrome: b, address: c },
            12 => EventKind::Call { partition: index(a)?, function: b, argument: c },
            13 => EventKind::Fault { partition: index(a)?, reason: small(b)?, syndrome: c, address: d },
            14 => EventKind::Mark { slot: number(a).and_then(index), text: self.text.clone() },
            15 => EventKind::Charged { from_ns: number(a), until_ns: b, payer: number(c).and_then(index) },
            _ => return None,
        })
    }
}

/// Who is who.
#[derive(Clone, PartialEq, Message)]
pub struct LayoutRecord {
    /// Name of the system.
    #[prost(string, tag = "1")]
    pub system: String,
    /// What the times are.
    #[prost(string, tag = "2")]
    pub clock: String,
    /// Names of partitions.
    #[prost(string, repeated, tag = "3")]
    pub partitions: Vec<String>,
    /// Cores.
    #[prost(message, repeated, tag = "4")]
    pub cores: Vec<CoreRecord>,
    /// Channels.
    #[prost(message, repeated, tag = "5")]
    pub channels: Vec<ChannelRecord>,
    /// Records lost per core.
    #[prost(uint64, repeated, tag = "6")]
    pub lost: Vec<u64>,
    /// Warnings.
    #[prost(string, repeated, tag = "7")]
    pub warnings: Vec<String>,
    /// End of the time covered.
    #[prost(uint64, tag = "8")]
    pub to_ns: u64,
    /// Number of events in the file.
    #[prost(uint64, tag = "9")]
    pub events: u64,
}

/// A core.
#[derive(Clone, PartialEq, Message)]
pub struct CoreRecord {
    /// See [`CoreLayout::is_shared`].
    #[prost(bool, tag = "1")]
    pub is_shared: bool,
    /// Slots: partition and vCPU, one after the other.
    #[prost(uint64, repeated, tag = "2")]
    pub slots: Vec<u64>,
    /// Servers.
    #[prost(message, repeated, tag = "3")]
    pub servers: Vec<ServerRecord>,
}

/// A server.
#[derive(Clone, PartialEq, Message)]
pub struct ServerRecord {
    /// Name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Slot.
    #[prost(uint64, tag = "2")]
    pub slot: u64,
    /// Priority.
    #[prost(uint32, tag = "3")]
    pub priority: u32,
    /// Budget.
    #[prost(uint64, optional, tag = "4")]
    pub budget_ns: Option<u64>,
    /// Period.
    #[prost(uint64, optional, tag = "5")]
    pub period_ns: Option<u64>,
}

/// A channel.
#[derive(Clone, PartialEq, Message)]
pub struct ChannelRecord {
    /// Name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Sender.
    #[prost(uint64, tag = "2")]
    pub source: u64,
    /// Receiver.
    #[prost(uint64, tag = "3")]
    pub destination: u64,
    /// Interrupt of the doorbell.
    #[prost(uint32, optional, tag = "4")]
    pub doorbell_interrupt: Option<u32>,
}

impl LayoutRecord {
    /// Returns the record of a layout.
    #[must_use]
    pub fn of(layout: &Layout) -> Self {
        let server = |server: &ServerLayout| ServerRecord {
            name: server.name.clone(),
            slot: server.slot as u64,
            priority: server.priority,
            budget_ns: server.budget_ns,
            period_ns: server.period_ns,
        };
        let core = |core: &CoreLayout| CoreRecord {
            is_shared: core.is_shared,
            slots: core.slots.iter().flat_map(|slot| [slot.partition as u64, slot.vcpu as u64]).collect(),
            servers: core.servers.iter().map(server).collect(),
        };
        let channel = |channel: &ChannelLayout| ChannelRecord {
            name: channel.name.clone(),
            source: channel.source as u64,
            destination: channel.destination as u64,
            doorbell_interrupt: channel.doorbell_interrupt,
        };
        Self {
            system: layout.system.clone(),
            clock: layout.clock.clone(),
            partitions: layout.partitions.clone(),
            cores: layout.cores.iter().map(core).collect(),
            channels: layout.channels.iter().map(channel).collect(),
            ..Self::default()
        }
    }

    /// Returns the layout.
    #[must_use]
    pub fn layout(&self) -> Layout {
        let wide = |value: u64| index(value).unwrap_or(usize::MAX);
        let server = |server: &ServerRecord| ServerLayout {
            name: server.name.clone(),
            slot: wide(server.slot),
            priority: server.priority,
            budget_ns: server.budget_ns,
            period_ns: server.period_ns,
        };
        let core = |core: &CoreRecord| CoreLayout {
            is_shared: core.is_shared,
            slots: (core.slots.chunks_exact(2))
                .map(|pair| SlotLayout { partition: wide(pair[0]), vcpu: wide(pair[1]) })
                .collect(),
            servers: core.servers.iter().map(server).collect(),
        };
        let channel = |channel: &ChannelRecord| ChannelLayout {
            name: channel.name.clone(),
            source: wide(channel.source),
            destination: wide(channel.destination),
            doorbell_interrupt: channel.doorbell_interrupt,
        };
        Layout {
            system: self.system.clone(),
            clock: self.clock.clone(),
            partitions: self.partitions.clone(),
            cores: self.cores.iter().map(core).collect(),
            channels: self.channels.iter().map(channel).collect(),
        }
    }
}
