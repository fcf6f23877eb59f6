//! The part of the description that is about the secure world: the payload, the world below it, and when that may run.

use crate::decode::{Decode, Duration, Located, Reader, Size, Value, table, words};
use crate::description::{Image, OnFault};
use bulkhead_abi::MAX_CORES;
use bulkhead_abi::plan::MAX_RESTARTS;
use schemars::JsonSchema;
use toml::de::DeValue;

/// Most blocks of a channel between the worlds.
pub const MOST_BLOCKS: u64 = bulkhead_world::pool::MAX_BLOCKS as u64;
/// Most bytes of one.
pub const MOST_BLOCK_BYTES: u64 = bulkhead_world::pool::MAX_BLOCK_BYTES as u64;

/// The highest priority of a thread of Linux.
pub const MOST_THREAD_PRIORITY: u64 = bulkhead_world::servers::MOST_PRIORITY as u64;

/// Priorities of a payload: `configMAX_PRIORITIES` of the world library's port; 0 is that of the idle task.
pub const PAYLOAD_PRIORITIES: u64 = 16;

table! {
    /// The secure world: a payload at S-EL1 of one core, and the world below it.
    pub struct Secure {
        /// What runs in the secure world.
        payload: Located<Payload>,
        /// Text for the payload, at most 255 bytes.
        arguments: Option<Located<String>>,
        /// Core of the payload: 0, on which the machine starts; default 0.
        #[schemars(range(max = MAX_CORES - 1))]
        core: Option<Located<u64>>,
        /// Secure RAM of the payload, from where payloads are linked.
        memory: Located<Size>,
        /// Devices of the secure world that the payload has, by their names in the board file.
        #[schemars(default)]
        devices: Vec<Located<String>>,
        /// Further interrupts of the payload: its secure timer and those of its devices are its own in any case.
        #[schemars(default)]
        interrupts: Vec<Located<PayloadInterrupt>>,
        /// What the payload runs; read by the analysis only.
        #[schemars(default)]
        tasks: Vec<Located<PayloadTask>>,
        /// The payload uses floating-point registers; default false.
        floating_point: Option<Located<bool>>,
        /// The world below; without it the payload is alone.
        non_secure: Option<Located<NonSecure>>,
        /// Tasks of the payload that give the core to the world below, at most 5; default: one of priority 1 that has what nothing more
        /// urgent wants.
        #[schemars(default)]
        servers: Vec<Located<WorldServer>>,
        /// Length of the table of windows, which repeats for ever.
        major_frame: Option<Located<Duration>>,
        /// When servers may run, if that is fixed; at most 32. A server with windows runs in them alone.
        #[schemars(default)]
        windows: Vec<Located<WorldWindow>>,
        /// A spare interrupt of the board that is pending in the world below from the start of each window on; default: nobody tells it.
        window_interrupt: Option<Located<u64>>,
        /// Tasks of which the one that the world below wants runs it, at most 4; in place of servers with a budget.
        #[schemars(default)]
        latency_tasks: Vec<Located<LatencyTask>>,
        /// How the world below is watched, and what happens after its faults; default: that is the payload's own business.
        health: Option<Located<WorldHealth>>,
        /// Channels between the worlds, at most 8; programs number them in this order.
        #[schemars(default)]
        channel: Vec<Located<WorldChannel>>,
    }
}

words! {
    /// What a payload is.
    pub enum PayloadKind {
        /// FreeRTOS with the world library.
        FreeRtos = "freertos",
        /// Another program with the world library.
        Elf = "elf",
    }
}

table! {
    /// What runs in the secure world. Paths are relative to this file; the prefix `guest:` means the directory of built guests.
    pub struct Payload {
        /// What it is.
        kind: Located<PayloadKind>,
        /// Its executable, linked at the place for payloads in secure RAM.
        file: Located<String>,
    }
}

/// An interrupt of the payload: its INTID, or a table that says more.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(untagged)]
pub enum PayloadInterrupt {
    /// The INTID.
    Intid(Located<u64>),
    /// INTID and priority.
    Table(PayloadInterruptTable),
}

impl PayloadInterrupt {
    /// Its INTID.
    pub(crate) fn intid(&self) -> &Located<u64> {
        match self {
            Self::Intid(intid) => intid,
            Self::Table(table) => &table.intid,
        }
    }
}

impl Decode for PayloadInterrupt {
    fn decode(value: Value<'_, '_>, key: &str, reader: &mut Reader) -> Option<Self> {
        match value.get_ref() {
            DeValue::Table(_) => PayloadInterruptTable::decode(value, key, reader).map(Self::Table),
            _ => Located::decode(value, key, reader).map(Self::Intid),
        }
    }
}

table! {
    /// An interrupt of the payload with its priority and time.
    pub struct PayloadInterruptTable {
        /// INTID.
        intid: Located<u64>,
        /// Priority that the payload gives it, 0x00 to 0x78 in steps of 8; those from 0x80 on are the other world's. Read by the check only.
        priority: Option<Located<u64>>,
        /// Longest execution time of its handler; read by the analysis only. Default: nobody knows, and it is in no bound.
        cost: Option<Located<Duration>>,
        /// `cost`: shortest distance of two.
        period: Option<Located<Duration>>,
    }
}

table! {
    /// A periodic task of the payload; read by the analysis only.
    pub struct PayloadTask {
        /// Name, unique among the payload's tasks and servers.
        #[schemars(regex(pattern = crate::schema::NAME))]
        name: Located<String>,
        /// Priority as in FreeRTOS: a higher number is more urgent, 0 is the idle task's.
        #[schemars(range(max = PAYLOAD_PRIORITIES - 1))]
        priority: Located<u64>,
        /// Longest execution time.
        cost: Located<Duration>,
        /// Period, or shortest distance of two releases.
        period: Located<Duration>,
        /// Deadline from the release; default the period.
        deadline: Option<Located<Duration>>,
    }
}

words! {
    /// Where the world below begins.
    pub enum WorldEntry {
        /// At EL1.
        El1 = "el1",
        /// At EL2.
        El2 = "el2",
    }
}

table! {
    /// The world below the payload: one image, or partitions.
    pub struct NonSecure {
        /// Name of the world, also that of its console; default `world`.
        #[schemars(regex(pattern = crate::schema::NAME))]
        name: Option<Located<String>>,
        /// What is loaded.
        image: Option<Located<Image>>,
        /// RAM of the world, from the start of the board's RAM; default all of the machine's.
        memory: Option<Located<Size>>,
        /// Where it begins; default `el2`.
        entry: Option<Located<WorldEntry>>,
        /// The monitor at EL2 with the partitions of the description, in place of `image`, `memory` and `entry`; default false.
        partitions: Option<Located<bool>>,
    }
}

table! {
    /// A task of the payload that gives the core to the world below.
    pub struct WorldServer {
        /// Name, unique among the payload's tasks and servers.
        #[schemars(regex(pattern = crate::schema::NAME))]
        name: Located<String>,
        /// Priority as in FreeRTOS: a higher number is more urgent, 0 is the idle task's.
        #[schemars(range(max = PAYLOAD_PRIORITIES - 1))]
        priority: Located<u64>,
        /// Time per period (a deferrable budget); without it the world runs here whenever nothing more urgent does.
        budget: Option<Located<Duration>>,
        /// The period: whole milliseconds, the ticks of the payload's kernel.
        period: Option<Located<Duration>>,
        /// Urgent interrupts of the world, which wake this server: devices of the board by name, or INTIDs of them or of channels.
        #[schemars(default)]
        interrupts: Vec<Located<Urgent>>,
        /// An activation ends when the world gives the core back, not only when the budget is used up; default false.
        voluntary_return: Option<Located<bool>>,
    }
}

table! {
    /// A task of the payload that runs the world below when that wants it, or a less urgent one.
    pub struct LatencyTask {
        /// Name, unique among the payload's tasks and servers.
        #[schemars(regex(pattern = crate::schema::NAME))]
        name: Located<String>,
        /// Priority as in FreeRTOS: a higher number is more urgent, 0 is the idle task's.
        #[schemars(range(max = PAYLOAD_PRIORITIES - 1))]
        priority: Located<u64>,
        /// Time per period (a deferrable budget).
        budget: Located<Duration>,
        /// The period: whole milliseconds, the ticks of the payload's kernel.
        period: Located<Duration>,
        /// Interrupts of the world that want this task: devices of the board by name, or INTIDs of them or of channels.
        #[schemars(default)]
        interrupts: Vec<Located<Urgent>>,
        /// Priorities of Linux's threads that want this task, if a program there writes them into the shared word; default: none.
        threads: Option<Located<ThreadPriorities>>,
    }
}

table! {
    /// Priorities of threads, as Linux's real-time classes have them: a higher number is more urgent.
    pub struct ThreadPriorities {
        /// First priority.
        #[schemars(range(min = 1, max = MOST_THREAD_PRIORITY))]
        from: Located<u64>,
        /// Last priority; default the first.
        #[schemars(range(min = 1, max = MOST_THREAD_PRIORITY))]
        to: Option<Located<u64>>,
    }
}

/// An urgent interrupt of the world below: a device of the board, or an INTID.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(untagged)]
pub enum Urgent {
    /// All interrupts of a device.
    Device(String),
    /// One interrupt.
    Intid(u64),
}

impl Decode for Urgent {
    fn decode(value: Value<'_, '_>, key: &str, reader: &mut Reader) -> Option<Self> {
        match value.get_ref() {
            DeValue::String(name) => Some(Self::Device(name.to_string())),
            DeValue::Integer(_) => u64::decode(value, key, reader).map(Self::Intid),
            _ => {
                reader.wrong_type(value, key, "the name of a device or an INTID");
                None
            }
        }
    }
}

table! {
    /// A window of the table.
    pub struct WorldWindow {
        /// Name of the server that may run in it.
        server: Located<String>,
        /// Start, from the start of the major frame.
        offset: Located<Duration>,
        /// Length.
        length: Located<Duration>,
    }
}

words! {
    /// Which way the messages of a channel go.
    pub enum WorldDirection {
        /// From the payload to the world below.
        ToWorld = "to_world",
        /// From the world below to the payload.
        ToPayload = "to_payload",
    }
}

table! {
    /// A channel between the worlds: a pool of blocks of one size, in memory that both reach.
    pub struct WorldChannel {
        /// Name, unique among the channels.
        #[schemars(regex(pattern = crate::schema::NAME))]
        name: Located<String>,
        /// Which way its messages go.
        direction: Located<WorldDirection>,
        /// Of partitions below the payload: the one that has the other end. It finds the channel among its ports, by this name.
        partition: Option<Located<String>>,
        /// Blocks, which is how many messages can be under way; 1 to 32.
        #[schemars(range(min = 1, max = MOST_BLOCKS))]
        blocks: Located<u64>,
        /// Bytes of a block, which a message may have; 1 to 4096.
        #[schemars(range(min = 1, max = MOST_BLOCK_BYTES))]
        block_bytes: Located<u64>,
        /// `to_world`: a spare interrupt of the board that is pending in the world below after each message; default: it looks by itself.
        interrupt: Option<Located<u64>>,
        /// `to_payload`: how often the payload looks for messages, in whole ticks of its kernel; calls do not wake it then. Default: the world below
        /// calls, and each call may wake who waits.
        poll: Option<Located<Duration>>,
    }
}

table! {
    /// How the world below is watched, and what happens after its faults.
    pub struct WorldHealth {
        /// The world shows a sign of life at least this often; default: nobody waits for one.
        heartbeat: Option<Located<Duration>>,
        /// A fault when so many in a row are missing, 1 to 255; default 3.
        #[schemars(range(min = 1, max = 255))]
        missed: Option<Located<u64>>,
        /// A fault when so many samples in a row show no progress: interrupts that wait, no call, always the same few addresses. One sample at most
        /// in each tick of the payload's kernel, and only while the world runs; 10 to 600000, 0 = nobody judges; default 1000.
        #[schemars(range(max = 600_000))]
        stuck_samples: Option<Located<u64>>,
        /// What happens after a fault.
        on_fault: Located<OnFault>,
        /// `restart`: at most this many restarts ...
        #[schemars(range(min = 1, max = MAX_RESTARTS))]
        max: Option<Located<u64>>,
        /// ... within this time.
        within: Option<Located<Duration>>,
        /// `restart`: wait before each; default `"10 ms"`.
        backoff: Option<Located<Duration>>,
    }
}
