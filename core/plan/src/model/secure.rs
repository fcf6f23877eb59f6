//! The secure world of a system, and the world below it.

use super::{Bank, GuestImage, HealthPolicy, Task};
use alloc::{string::String, vec::Vec};
use bulkhead_abi::PhysicalAddress;

/// Period of the payload's kernel: `configTICK_RATE_HZ` of the world library's port.
pub const KERNEL_TICK_NS: u64 = 1_000_000;

/// A payload at S-EL1 of one core, and what it lets run below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secure {
    /// What runs in the secure world.
    pub payload: Payload,
    /// Its core: the one that the machine boots on.
    pub core: usize,
    /// Places in [`super::SecureFacts::devices`] of the devices that it has.
    pub devices: Vec<usize>,
    /// Its INTIDs, ascending: the secure timer, those of its devices, and others that the description gives to it.
    pub interrupts: Vec<u32>,
    /// Its tasks, for the analysis only.
    pub tasks: Vec<PayloadTask>,
    /// Handlers of its interrupts whose time is known, for the analysis only.
    pub handlers: Vec<PayloadHandler>,
    /// What runs below it.
    pub below: Below,
    /// The payload's tasks that run that world, by descending priority.
    pub servers: Vec<WorldServer>,
    /// When they may run, if that is fixed.
    pub windows: Option<WorldWindows>,
    /// Channels between the worlds, in the order in which programs number them.
    pub channels: Vec<WorldChannel>,
    /// The page in which stock Linux says which latency task it wants: neither world's own.
    pub wish: Option<PhysicalAddress>,
    /// What is looked at and done when that world fails; `None` = that is the payload's own business.
    pub health: Option<WorldHealth>,
}

/// What runs below a payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Below {
    /// Nobody: the payload is alone.
    Nobody,
    /// One image.
    Image(World),
    /// The monitor at EL2 with the partitions of the system.
    Partitions(Hybrid),
}

/// The non-secure world of a system whose partitions run below a payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hybrid {
    /// Its name.
    pub name: String,
    /// Its memory, which is that of the machine.
    pub memory: Bank,
}

impl Secure {
    /// The image below; `None` when there is nobody, or a system of partitions.
    #[must_use]
    pub const fn world(&self) -> Option<&World> {
        match &self.below {
            Below::Image(world) => Some(world),
            Below::Nobody | Below::Partitions(_) => None,
        }
    }

    /// The partitions below; `None` when there are none.
    #[must_use]
    pub const fn hybrid(&self) -> Option<&Hybrid> {
        match &self.below {
            Below::Partitions(hybrid) => Some(hybrid),
            Below::Nobody | Below::Image(_) => None,
        }
    }

    /// The channels to partitions: their places among all channels, and they themselves.
    pub fn pools(&self) -> impl Iterator<Item = (usize, &WorldChannel)> {
        self.channels.iter().enumerate().filter(|(_, channel)| channel.partition.is_some())
    }

    /// States whether a server runs in windows alone.
    #[must_use]
    pub fn has_windows(&self, server: usize) -> bool {
        self.windows.as_ref().is_some_and(|table| table.windows.iter().any(|window| window.server == server))
    }

    /// States whether nobody is below.
    #[must_use]
    pub const fn is_alone(&self) -> bool {
        matches!(self.below, Below::Nobody)
    }

    /// The name of what is below; `None` when nobody is.
    #[must_use]
    pub fn below_name(&self) -> Option<&str> {
        match &self.below {
            Below::Nobody => None,
            Below::Image(world) => Some(&world.name),
            Below::Partitions(hybrid) => Some(&hybrid.name),
        }
    }
}

/// What the payload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadKind {
    /// FreeRTOS with the world library.
    FreeRtos,
    /// Another program with the world library.
    Elf,
}

/// What runs in the secure world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    /// What it is.
    pub kind: PayloadKind,
    /// Its ELF file.
    pub elf: Vec<u8>,
    /// Secure RAM that it may take, from where payloads are linked.
    pub memory_bytes: u64,
    /// Text for it.
    pub arguments: String,
}

/// A periodic task of the payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PayloadTask {
    /// What it does.
    pub task: Task,
    /// Its priority: as in FreeRTOS a higher number is more urgent.
    pub priority: u32,
}

/// The handler of an interrupt of the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayloadHandler {
    /// Its INTID.
    pub intid: u32,
    /// Longest execution time.
    pub cost_ns: u64,
    /// Shortest distance of two.
    pub period_ns: u64,
}

/// Where the world below begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorldLevel {
    /// EL1.
    El1,
    /// EL2.
    El2,
}

impl WorldLevel {
    /// How people write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::El1 => "EL1",
            Self::El2 => "EL2",
        }
    }
}

/// The world below the payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct World {
    /// Its name, also that of its console.
    pub name: String,
    /// Its memory.
    pub memory: Bank,
    /// What is loaded; guest addresses are physical ones.
    pub image: GuestImage,
    /// Its level.
    pub level: WorldLevel,
    /// The frequency of its console's clock.
    pub console_clock_hz: u64,
}

/// A task of the payload that gives the core to the world below.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorldServer {
    /// Name.
    pub name: String,
    /// Priority among the payload's tasks, a higher number is more urgent.
    pub priority: u32,
    /// Deferrable budget; `None` = it runs whenever nothing more urgent does.
    pub budget: Option<WorldBudget>,
    /// INTIDs of the world that wake it.
    pub interrupts: Vec<u32>,
    /// An activation ends when the world gives the core back, not only with the budget.
    pub voluntary_return: bool,
    /// It is a latency task: it runs when the world wants it, or a less urgent one.
    pub latency: Option<LatencyTask>,
}

/// What makes a server a latency task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyTask {
    /// First and last priority of threads of Linux that want it.
    pub threads: Option<(u32, u32)>,
}

/// So much of each period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorldBudget {
    /// Time.
    pub budget_ns: u64,
    /// Period.
    pub period_ns: u64,
}

/// A table of windows that repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorldWindows {
    /// Length of the major frame.
    pub major_ns: u64,
    /// Windows in order, disjoint.
    pub windows: Vec<WorldWindow>,
    /// The shared interrupt that is pending in the world below from the start of each window on; `None` = nobody tells it.
    pub interrupt: Option<u32>,
}

/// A window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorldWindow {
    /// Place in [`Secure::servers`].
    pub server: usize,
    /// Start within the major frame.
    pub offset_ns: u64,
    /// Length.
    pub length_ns: u64,
}

/// A channel between the worlds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorldChannel {
    /// Name.
    pub name: String,
    /// Which way it goes.
    pub direction: WorldDirection,
    /// Blocks of its pool.
    pub blocks: u32,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// The partition that has the other end; `None` where one image is below.
    pub partition: Option<usize>,
    /// Where its pool is: whole pages that are neither world's own. Of a partition's the planner decides.
    pub address: PhysicalAddress,
    /// Bytes of its pool: whole pages, by `bulkhead_world::pool::Geometry`.
    pub pool_bytes: u64,
    /// The shared interrupt that tells the world below of a message; `None` = it looks by itself.
    pub interrupt: Option<u32>,
    /// Time between two looks of the payload, whole ticks of its kernel; `None` = the world below calls.
    pub poll_ns: Option<u64>,
}

/// Which way messages go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorldDirection {
    /// From the payload to the world below.
    ToWorld,
    /// From the world below to the payload.
    ToPayload,
}

impl WorldDirection {
    /// How people write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ToWorld => "to_world",
            Self::ToPayload => "to_payload",
        }
    }
}

/// How the world below is watched, and what happens after its faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorldHealth {
    /// Time between two signs of life, and how many may be missing; `None` = nobody waits for any.
    pub heartbeat: Option<Heartbeat>,
    /// A fault when so many samples in a row show no progress, at most one in each tick of the payload's kernel; 0 = progress is not judged.
    pub stuck_samples: u32,
    /// What happens after a fault.
    pub policy: HealthPolicy,
}

/// Signs of life that are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// Time between two.
    pub period_ns: u64,
    /// A fault when so many in a row are missing, 1 or more.
    pub missed: u32,
}
