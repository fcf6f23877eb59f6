//! The system description as it is written: `system.toml`, version 1.
//!
//! Nothing is resolved here: names are names and quantities are texts with their places. [`crate::resolve`] gives them
//! their meaning. The doc comments are what editors show, because the JSON Schema is made from these types.

use crate::decode::{Decode, Duration, Located, Reader, Size, Value, WordSchema, table, words};
use crate::pci::{PciFunction, Region};
use crate::secure::Secure;
use crate::sharing::{Route, RouteRule, Schedule, Server, Task};
use crate::virtio::VirtioDevice;
use bulkhead_abi::MAX_CORES;
use bulkhead_abi::plan::MAX_RESTARTS;
use schemars::JsonSchema;
use toml::de::DeValue;

/// Version of the format that this tool reads.
pub const DESCRIPTION_VERSION: u64 = 1;

table! {
    /// A system of partitions on one board.
    pub struct Description {
        /// Version of the format: 1.
        version: Located<u64>,
        /// Name of the system.
        #[schemars(regex(pattern = crate::schema::NAME))]
        name: Located<String>,
        /// Board: the name of a built-in board file such as `qemu-virt`, or the path of one (ending in `.toml`).
        board: Located<String>,
        /// RAM given to the machine, for example `"1 GiB"`.
        memory: Located<Size>,
        /// The system shows what `bulkhead demo` shows: its partitions `control`, `linux`, `rtos` and `intruder`, and `office` if it has
        /// one, play their roles, and `bulkhead run` judges them at the end; below a payload the roles are `control`, `linux` and `intruder`; default
        /// false.
        demonstration: Option<Located<bool>>,
        /// Trace recording.
        trace: Option<Located<Trace>>,
        /// Partitions; the order gives their numbers.
        #[schemars(default)]
        partition: Vec<Located<Partition>>,
        /// Channels between partitions, each in one direction.
        #[schemars(default)]
        channel: Vec<Located<Channel>>,
        /// Schedules of the cores that several vCPUs share; a core without one belongs to one vCPU.
        #[schemars(default)]
        schedule: Vec<Located<Schedule>>,
        /// PCI functions of partitions.
        #[schemars(default)]
        pci: Vec<Located<PciFunction>>,
        /// virtio devices of partitions that other partitions serve.
        #[schemars(default)]
        virtio: Vec<Located<VirtioDevice>>,
        /// The secure world and the world below it, on a board that is entered at EL3; then there are no partitions.
        secure: Option<Located<Secure>>,
    }
}

/// Partitions that a demonstration is about.
pub const ROLES: &[&str] = &["control", "linux", "rtos", "intruder"];
/// Partitions that a demonstration with virtio devices is about.
pub const DEVICE_ROLES: &[&str] = &["linux", "office", "rtos", "asleep", "intruder"];
/// One that may be there: it then shares its core with `rtos`.
pub const OPTIONAL_ROLE: &str = "office";

impl Description {
    /// States whether the system is a demonstration.
    #[must_use]
    pub fn is_demonstration(&self) -> bool {
        self.demonstration.as_ref().is_some_and(|state| state.value)
    }

    /// Reads the root table of a file.
    pub(crate) fn decode_root(
        table: &toml::de::DeTable<'_>,
        whole: crate::source::Span,
        reader: &mut Reader,
    ) -> Option<Self> {
        Self::decode_table(table, whole, reader)
    }
}

table! {
    /// Trace recording.
    pub struct Trace {
        /// Record from boot on; default true when the table is present.
        enabled: Option<Located<bool>>,
        /// Records that each core keeps, a power of two from 128 to 1,048,576, default 4096; of a payload of the secure world from 128 to
        /// 2048, default 1024.
        #[schemars(range(min = 128, max = 1_048_576))]
        records: Option<Located<u64>>,
    }
}

words! {
    /// How much depends on the partition. Read by health and degradation policies only.
    pub enum Criticality {
        /// High.
        High = "high",
        /// Medium.
        Medium = "medium",
        /// Low.
        Low = "low",
        /// Best effort.
        BestEffort = "best-effort",
    }
}

words! {
    /// A promise about the guest's behaviour, read by the checker only.
    pub enum Trust {
        /// Its author promises that the guest behaves.
        Trusted = "trusted",
        /// Nothing is promised: it may be hostile.
        Untrusted = "untrusted",
    }
}

words! {
    /// What becomes of the software-generated interrupts of a guest with direct interrupts.
    pub enum SgiRule {
        /// It sends them itself, to every core that has their number open.
        Open = "open",
        /// The monitor sends them, to its own cores alone. Writes of its priority mask and of what ends and deactivates apart are exits then.
        Filtered = "filtered",
    }
}

words! {
    /// How interrupts reach the guest.
    pub enum Interrupts {
        /// The guest owns the physical CPU interface: no exit, for one trusted core.
        Direct = "direct",
        /// Through the monitor and hardware-mapped list registers: one exit per interrupt, none at its end.
        Mapped = "mapped",
    }
}

words! {
    /// The console of a partition.
    pub enum Console {
        /// A virtual PL011 at the board's UART address.
        Pl011 = "pl011",
        /// A ring in memory that a native guest writes itself.
        Ring = "ring",
        /// None.
        None = "none",
    }
}

words! {
    /// What an image file is.
    pub enum ImageKind {
        /// An arm64 Linux `Image`.
        Linux = "linux",
        /// An AArch64 executable.
        Elf = "elf",
        /// Bytes that are loaded and entered at the first one.
        Raw = "raw",
        /// An instance of the real-time kernel, described by a file of its own.
        Kernel = "kernel",
    }
}

words! {
    /// What happens after a fault.
    pub enum OnFault {
        /// The partition stays stopped.
        Stop = "stop",
        /// It is restarted.
        Restart = "restart",
        /// All partitions stop and the board is switched off.
        Halt = "halt",
    }
}

words! {
    /// Direction of a port, seen from its partition.
    pub enum Direction {
        /// The partition writes.
        Source = "source",
        /// The partition reads.
        Destination = "destination",
    }
}

words! {
    /// Kind of a port, as in ARINC 653.
    pub enum PortKind {
        /// Keeps the newest value.
        Sampling = "sampling",
        /// Keeps messages in order.
        Queuing = "queuing",
    }
}

words! {
    /// What is promised about a device's DMA.
    pub enum Dma {
        /// The partition that drives the device is trusted not to aim it at foreign memory.
        Trusted = "trusted",
    }
}

table! {
    /// A partition: a guest with its cores, memory and devices.
    pub struct Partition {
        /// Name: a letter or digit first, then letters, digits, `-` and `_`, at most 31 bytes.
        #[schemars(regex(pattern = crate::schema::NAME))]
        name: Located<String>,
        /// Default `medium`.
        criticality: Option<Located<Criticality>>,
        /// Default `untrusted`.
        trust: Option<Located<Trust>>,
        /// Board cores, by index; vCPU n runs on the n-th entry.
        #[schemars(length(min = 1, max = MAX_CORES), inner(range(max = MAX_CORES - 1)))]
        cores: Located<Vec<Located<u64>>>,
        /// RAM of the guest.
        memory: Located<Memory>,
        /// What is loaded.
        image: Located<Image>,
        /// Text for native guests (`elf`, `raw`), at most 255 bytes.
        arguments: Option<Located<String>>,
        /// Default `mapped`.
        interrupts: Option<Located<Interrupts>>,
        /// Direct interrupts below a payload: what becomes of the guest's software-generated interrupts; default `open`.
        sgi: Option<Located<SgiRule>>,
        /// Board devices passed through.
        #[schemars(default)]
        devices: Vec<Located<Device>>,
        /// Pages of its RAM that have a name, for `dma` of PCI functions.
        #[schemars(default)]
        region: Vec<Located<Region>>,
        /// Default `pl011` for `linux` images and `ring` for others.
        console: Option<Located<Console>>,
        /// What happens after a fault; default `stop`.
        health: Option<Located<Health>>,
        /// A fault is raised when no heartbeat comes for this long.
        watchdog: Option<Located<Duration>>,
        /// May suspend, resume and restart other partitions; default false.
        manages: Option<Located<bool>>,
        /// With `manages = true`: most requests to each of the others in a window; default 10 in 100 ms.
        manage_limit: Option<Located<Limit>>,
        /// Compiled device-tree overlay (`.dtbo`), applied to the generated device tree.
        device_tree_overlay: Option<Located<String>>,
        /// Ends of channels.
        #[schemars(default)]
        ports: Vec<Located<Port>>,
        /// What its interrupts (timer, console, doorbells) do on a shared core while another vCPU runs; default `priority`.
        route: Option<Located<Route>>,
        /// The most doorbells that reach the partition in each window, from all senders together; its channels then have no limit of their own.
        doorbell_limit: Option<Located<Limit>>,
        /// Claims of its vCPUs on the time of shared cores; needed there, unless the core goes round.
        #[schemars(default)]
        servers: Vec<Located<Server>>,
        /// Under `round-robin`: interrupts of others may end its turn; default true.
        preemptible: Option<Located<bool>>,
        /// What the guest runs; read by the analysis only.
        #[schemars(default)]
        tasks: Vec<Located<Task>>,
    }
}

/// RAM of a partition: a size, or a table that also fixes addresses.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(untagged)]
pub enum Memory {
    /// A size; addresses are chosen.
    Size(Located<Size>),
    /// A size with addresses.
    Table(MemoryTable),
}

impl Decode for Memory {
    fn decode(value: Value<'_, '_>, key: &str, reader: &mut Reader) -> Option<Self> {
        match value.get_ref() {
            DeValue::Table(_) => MemoryTable::decode(value, key, reader).map(Self::Table),
            _ => Located::decode(value, key, reader).map(Self::Size),
        }
    }
}

table! {
    /// RAM with fixed addresses.
    pub struct MemoryTable {
        /// Size.
        size: Located<Size>,
        /// Where the guest sees it; default 0x4000_0000.
        guest_address: Option<Located<u64>>,
        /// Where it is; default chosen by the tool.
        physical_address: Option<Located<u64>>,
    }
}

table! {
    /// What is loaded into a partition. Paths are relative to this file; the prefix `guest:` means the directory of built guests.
    pub struct Image {
        /// What the file is.
        kind: Located<ImageKind>,
        /// The kernel, executable or bytes; of an instance of the real-time kernel its description, which ends in `.kernel.toml`.
        file: Located<String>,
        /// Initial RAM file system (`linux`).
        initrd: Option<Located<String>>,
        /// Kernel command line (`linux`).
        command_line: Option<Located<String>>,
        /// Guest address of the first byte (`raw`); default the start of RAM.
        load: Option<Located<u64>>,
        /// Guest address of the device tree, a multiple of 8, for a boot loader that looks for it at a place of its own; default behind
        /// the kernel (`linux`) or the last 64 KiB of RAM. The guest gets the address in `x0` in any case.
        device_tree_address: Option<Located<u64>>,
    }
}

/// A device passed through: its name, or a table that says more.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(untagged)]
pub enum Device {
    /// Name in the board file.
    Name(Located<String>),
    /// Name and promises.
    Table(Box<DeviceTable>),
}

impl Decode for Device {
    fn decode(value: Value<'_, '_>, key: &str, reader: &mut Reader) -> Option<Self> {
        match value.get_ref() {
            DeValue::Table(_) => DeviceTable::decode(value, key, reader).map(|table| Self::Table(Box::new(table))),
            _ => Located::decode(value, key, reader).map(Self::Name),
        }
    }
}

table! {
    /// A device passed through, with promises and a choice of interrupts.
    pub struct DeviceTable {
        /// Name in the board file.
        name: Located<String>,
        /// Must be `trusted` for a device that can write memory by itself.
        dma: Option<Located<Dma>>,
        /// INTIDs of the device that the partition gets; default all.
        #[schemars(inner(range(min = 32, max = 1019)))]
        interrupts: Option<Located<Vec<Located<u64>>>>,
        /// What its interrupts do on a shared core while another vCPU runs; default the partition's `route`.
        #[schemars(with = "Option<WordSchema<RouteRule>>")]
        route: Option<Located<RouteRule>>,
        /// Beyond this its interrupts wait as if deferred.
        limit: Option<Located<Limit>>,
        /// Longest time that its handler runs in the guest; read by the analysis only.
        handler: Option<Located<Duration>>,
        /// Latest time for its handler to have run; read by the analysis only.
        deadline: Option<Located<Duration>>,
    }
}

words! {
    /// What it means that the SMMU stopped DMA of an own function.
    pub enum DmaFaults {
        /// It is counted.
        Count = "count",
        /// The first time is a fault of the partition.
        Fault = "fault",
    }
}

table! {
    /// What happens after a fault of the partition.
    pub struct Health {
        /// The policy.
        on_fault: Located<OnFault>,
        /// `restart`: at most this many restarts ...
        #[schemars(range(min = 1, max = MAX_RESTARTS))]
        max: Option<Located<u64>>,
        /// ... within this time.
        within: Option<Located<Duration>>,
        /// `restart`: wait before each; default `"10 ms"`.
        backoff: Option<Located<Duration>>,
        /// A partition with PCI functions looks this often whether the SMMU stopped their DMA, 1 ms to 1 min; default never.
        dma_poll: Option<Located<Duration>>,
        /// With `dma_poll`: what DMA that was stopped means; default `count`.
        dma_faults: Option<Located<DmaFaults>>,
    }
}

table! {
    /// One end of a channel.
    pub struct Port {
        /// Name, unique in the partition.
        #[schemars(regex(pattern = crate::schema::NAME))]
        name: Located<String>,
        /// Direction.
        direction: Located<Direction>,
        /// Kind.
        kind: Located<PortKind>,
        /// Payload bytes of a message, 1 to 4032.
        #[schemars(range(min = 1, max = 4032))]
        message_bytes: Located<u64>,
        /// Messages that a `queuing` port keeps, 2 to 1024.
        #[schemars(range(min = 2, max = 1024))]
        depth: Option<Located<u64>>,
        /// At a `destination`: its guest promises to look at it at least this often, by a timer of its own; read by the analysis only.
        polls: Option<Located<Duration>>,
    }
}

table! {
    /// A channel from one port to another.
    pub struct Channel {
        /// Name, unique.
        #[schemars(regex(pattern = crate::schema::NAME))]
        name: Located<String>,
        /// Sending end, `partition.port`.
        source: Option<Located<String>>,
        /// Receiving end, `partition.port`.
        destination: Option<Located<String>>,
        /// Interrupt at the receiver; default none.
        doorbell: Option<Located<Doorbell>>,
    }
}

/// Interrupt at the receiver of a channel.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(untagged)]
pub enum Doorbell {
    /// `true`: within the receiver's `doorbell_limit`, without one unlimited, which is warned of; `false`: none.
    Plain(bool),
    /// With a limiter of its own.
    Limited(Limit),
}

impl Decode for Doorbell {
    fn decode(value: Value<'_, '_>, key: &str, reader: &mut Reader) -> Option<Self> {
        match value.get_ref() {
            DeValue::Table(_) => Limit::decode(value, key, reader).map(Self::Limited),
            DeValue::Boolean(state) => Some(Self::Plain(*state)),
            _ => {
                reader.wrong_type(value, key, "true, false or a table such as { limit = 10, per = \"100 ms\" }");
                None
            }
        }
    }
}

table! {
    /// At most `limit` notifications or interrupts in each window of `per`.
    pub struct Limit {
        /// How many per window, 1 or more.
        #[schemars(range(min = 1, max = 0xff_ffff))]
        limit: Located<u64>,
        /// Window.
        per: Located<Duration>,
    }
}
