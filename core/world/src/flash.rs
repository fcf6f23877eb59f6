//! The flash file from which a core leaves reset, and the places in secure RAM that EL3 knows.
//!
//! The file begins with the text of the secure monitor. Its second page is the world plan: a head that EL3 reads ([`Head`]), then
//! what the payload's library reads. EL3 checks the page and the payload by CRC-32C while it copies both, and starts nothing when one differs.

use crate::cores::CoresPlan;
use crate::health::HealthPlan;
use crate::pool::Geometry;
use bulkhead_abi::MAX_PARTITIONS;

/// Text and constants of the secure monitor; reset enters here.
pub const MONITOR: u64 = 0;
/// The world plan in flash.
pub const PLAN: u64 = 0x1000;
/// Bytes of the world plan. The last four are the CRC-32C of all before them.
pub const PLAN_BYTES: u64 = 0x1000;
/// The largest file: what the machine shows of its flash.
pub const MOST_BYTES: u64 = 64 << 20;

/// First eight bytes of a world plan.
pub const MAGIC: u64 = u64::from_le_bytes(*b"BHWORLD1");

/// CRC-32C register after a message with its own CRC behind it, before the final inversion: the same for every message.
pub const CRC_RESIDUE: u32 = 0xb798_b438;

/// What EL3 reads of the world plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Head {
    /// [`MAGIC`].
    pub magic: u64,
    /// CNTFRQ_EL0, which only the highest level can write.
    pub counter_hz: u64,
    /// Where the payload is in flash, 16-byte aligned.
    pub payload_from: u64,
    /// Where it runs, 16-byte aligned, in secure RAM.
    pub payload_to: u64,
    /// Its bytes: a multiple of 16 and not 0, with its CRC-32C in the last four.
    pub payload_bytes: u64,
    /// Its first instruction.
    pub payload_entry: u64,
}

impl Head {
    /// The head as it stands in the plan.
    #[must_use]
    pub const fn words(&self) -> [u64; 6] {
        [self.magic, self.counter_hz, self.payload_from, self.payload_to, self.payload_bytes, self.payload_entry]
    }
}

/// What the payload's library reads besides: the whole page but its CRC. Zeros stand for what a system does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct WorldPlan {
    /// What EL3 reads.
    pub head: Head,
    /// TTBR0_EL1 of the payload.
    pub tables: u64,
    /// First address of the non-secure world's memory: all that a call may name, and all that a segment is copied to.
    pub window: u64,
    /// Bytes of it.
    pub window_bytes: u64,
    /// First instruction of the non-secure world; 0 = there is none.
    pub entry: u64,
    /// Its x0: the address of a device tree.
    pub argument: u64,
    /// Its level: 1 or 2.
    pub level: u64,
    /// The interrupt controller: its distributor.
    pub distributor: u64,
    /// The redistributor of the boot core.
    pub redistributor: u64,
    /// Bit n = INTID n is the payload's (group 1 secure); all others are the non-secure world's.
    pub secure_interrupts: [u32; 32],
    /// How many of the segments there are.
    pub segment_count: u64,
    /// What the non-secure world's memory holds when it begins.
    pub segments: [Segment; MOST_SEGMENTS],
    /// The tasks that run the non-secure world, the most important first; behind the last one there are zeros.
    pub servers: [ServerPlan; MOST_SERVERS],
    /// Interrupts of the non-secure world that may start one of them while it does not run (SG-44).
    pub urgent: [UrgentPlan; MOST_URGENT],
    /// The cores, where there are several (SG-13).
    pub cores: CoresPlan,
    /// Channels between the worlds; behind the last one there are zeros.
    pub channels: [ChannelPlan; MOST_CHANNELS],
    /// How the non-secure world is watched, and what happens after its faults.
    pub health: HealthPlan,
    /// The payload's arguments, zero-terminated text.
    pub arguments: [u8; ARGUMENT_BYTES],
    /// Records that the payload keeps until they are written out ([`crate::records`]), a power of two; 0 = it keeps none.
    pub trace_records: u64,
    /// When servers of the kind [`ServerKind::Window`] run (SG-50).
    pub windows: WindowsPlan,
    /// How stock Linux says which latency task it wants (SG-81, SG-82).
    pub wish: WishPlan,
    /// Pages in which the monitor at EL2 says how each partition is (`bulkhead_abi::status::StatusPage`); 0 = there is no such partition.
    pub partitions: [u64; MAX_PARTITIONS],
}

/// Most tasks that run a non-secure world: four with a budget, and the one that has what nobody else wants.
pub const MOST_SERVERS: usize = 5;
/// Most urgent interrupts.
pub const MOST_URGENT: usize = 8;
/// Bytes of the payload's arguments, with the zero at their end.
pub const ARGUMENT_BYTES: usize = 256;

/// A task that runs the non-secure world (SG-41, SG-80).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ServerPlan {
    /// A [`ServerKind`]; 0 = there is none.
    pub kind: u32,
    /// Its priority among the payload's tasks: higher is more urgent, as in FreeRTOS.
    pub priority: u32,
    /// What it may use in each of its periods, in ticks of the counter; 0 = it has no limit.
    pub budget_ticks: u64,
    /// Its period in ticks of the payload's kernel.
    pub period: u32,
    /// Not 0: an activation ends when the other world says so, not only with the budget (SG-45).
    pub voluntary: u32,
}

/// When a server wants to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ServerKind {
    /// From an urgent interrupt on, to the end of its activation: ITask.
    Interrupt = 1,
    /// As long as it has budget: RTask.
    Reserved = 2,
    /// Always: BTask.
    Background = 3,
    /// When the other world asks for it or for a less important one: LTASK.
    Latency = 4,
    /// While one of its windows is open.
    Window = 5,
}

/// Most windows of a table.
pub const MOST_WINDOWS: usize = bulkhead_sched::cyclic::MAX_WINDOWS;

/// The table of windows, on a grid from tick 0 of the payload's kernel (SG-50).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct WindowsPlan {
    /// Ticks of the counter after which the table begins again; 0 = there is none.
    pub major_ticks: u64,
    /// How many windows there are.
    pub count: u32,
    /// The shared interrupt that is pending in the other world from the start of each window on (SG-51); 0 = nobody tells it.
    pub interrupt: u32,
    /// The windows, in order; behind the last one there are zeros.
    pub windows: [WindowPlan; MOST_WINDOWS],
}

/// A window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct WindowPlan {
    /// Its start in the major frame, in ticks of the counter.
    pub offset_ticks: u64,
    /// Its length.
    pub length_ticks: u64,
    /// The place of its server.
    pub server: u32,
    /// Zero.
    pub reserved: u32,
}

impl WindowsPlan {
    /// No window.
    pub const NONE: Self = Self {
        major_ticks: 0,
        count: 0,
        interrupt: 0,
        windows: [WindowPlan { offset_ticks: 0, length_ticks: 0, server: 0, reserved: 0 }; MOST_WINDOWS],
    };
}

/// A page in which a program of stock Linux writes the priority for which it wants a latency task, and what priorities want (SG-81, SG-82).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct WishPlan {
    /// The page: memory of the machine that is neither world's own; 0 = there is none. Its words are [`wish_words`].
    pub address: u64,
    /// By the place of a latency task: the priorities that want it.
    pub priorities: [PriorityPlan; MOST_SERVERS],
}

/// Words of the page of a wish, by their places.
pub mod wish_words {
    /// The other world's: the priority for which it wants a latency task.
    pub const WANTED: u64 = 0;
    /// The payload's: the priority that it read last, as it was.
    pub const READ: u64 = 1;
    /// The payload's: one more than the place of the latency task that this wants; 0 = the background task.
    pub const PLACE: u64 = 2;
}

/// Priorities of threads, as the other world counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct PriorityPlan {
    /// First priority; 0 = there are none.
    pub from: u32,
    /// Last priority.
    pub to: u32,
}

impl WishPlan {
    /// No such page.
    pub const NONE: Self = Self { address: 0, priorities: [PriorityPlan { from: 0, to: 0 }; MOST_SERVERS] };
}

/// An urgent interrupt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct UrgentPlan {
    /// Its INTID; 0 = there is none.
    pub intid: u32,
    /// Which of the servers it starts.
    pub server: u32,
}

/// Most channels between the worlds: sets of them are one word of an event.
pub const MOST_CHANNELS: usize = 8;

/// A channel between the worlds: a pool ([`crate::pool`]) that goes one way (SG-70).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ChannelPlan {
    /// Its name, zero-terminated; a name that begins with a zero is no channel.
    pub name: [u8; CHANNEL_NAME_BYTES],
    /// First address of its pool: whole pages of the machine's memory that are neither world's own.
    pub address: u64,
    /// A [`ChannelDirection`].
    pub direction: u32,
    /// Blocks of the pool.
    pub blocks: u32,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// The shared interrupt that says to the other world that there is a message; 0 = it looks by itself.
    pub interrupt: u32,
    /// Ticks of the payload's kernel between two looks for messages of the other world; 0 = it calls.
    pub poll: u32,
    /// Zero.
    pub reserved: u32,
}

/// Bytes of a channel's name, with the zero at its end.
pub const CHANNEL_NAME_BYTES: usize = bulkhead_abi::NAME_BYTES;

/// Which way messages go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ChannelDirection {
    /// From the payload to the non-secure world.
    ToWorld = 1,
    /// From the non-secure world to the payload.
    ToPayload = 2,
}

impl ChannelPlan {
    /// Bytes of its pool, in whole pages; `None` when no pool is so.
    #[must_use]
    pub const fn pool_bytes(&self) -> Option<u64> {
        match Geometry::new(self.blocks, self.block_bytes) {
            Some(geometry) => {
                Some((geometry.words() as u64).saturating_mul(8).next_multiple_of(bulkhead_abi::PAGE_BYTES))
            }
            None => None,
        }
    }

    /// No channel.
    pub const NONE: Self = Self {
        name: [0; CHANNEL_NAME_BYTES],
        address: 0,
        direction: 0,
        blocks: 0,
        block_bytes: 0,
        interrupt: 0,
        poll: 0,
        reserved: 0,
    };
}

/// Most segments of a non-secure world.
pub const MOST_SEGMENTS: usize = 8;

/// Pristine bytes in flash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Segment {
    /// Where they are in flash, page-aligned.
    pub from: u64,
    /// Where they belong, page-aligned, in the window.
    pub to: u64,
    /// How many.
    pub bytes: u64,
    /// Their CRC-32C.
    pub crc: u64,
}

impl WorldPlan {
    /// Channels that the non-secure world may ring, a bit for each: those to the payload for which it does not look. Who looks is woken as often as
    /// the plan says, whatever is rung.
    #[must_use]
    pub fn doorbells(&self) -> u32 {
        let rings = |one: &ChannelPlan| one.direction == ChannelDirection::ToPayload as u32 && one.poll == 0;
        self.channels.iter().zip(0_u32..).fold(0, |all, (one, number)| all | u32::from(rings(one)) << number)
    }

    /// The plan of a payload that is alone.
    #[must_use]
    pub const fn new(head: Head, tables: u64) -> Self {
        Self {
            head,
            tables,
            window: 0,
            window_bytes: 0,
            entry: 0,
            argument: 0,
            level: 0,
            distributor: 0,
            redistributor: 0,
            secure_interrupts: [0; 32],
            segment_count: 0,
            segments: [Segment { from: 0, to: 0, bytes: 0, crc: 0 }; MOST_SEGMENTS],
            servers: [ServerPlan { kind: 0, priority: 0, budget_ticks: 0, period: 0, voluntary: 0 }; MOST_SERVERS],
            urgent: [UrgentPlan { intid: 0, server: 0 }; MOST_URGENT],
            cores: CoresPlan::NONE,
            channels: [ChannelPlan::NONE; MOST_CHANNELS],
            health: HealthPlan::nobody(),
            arguments: [0; ARGUMENT_BYTES],
            trace_records: 0,
            windows: WindowsPlan::NONE,
            wish: WishPlan::NONE,
            partitions: [0; MAX_PARTITIONS],
        }
    }
}

/// Secure RAM: who may touch what is in `docs/specification/secure-world.md`, part 2.
pub mod secure_ram {
    /// Contexts, [`crate::context::CORE_BYTES`] for each core, first the non-secure one.
    pub const CONTEXTS: u64 = 0x0e00_0000;
    /// What EL3 has to say: a line of [`STATE_BYTES`], and where there are several cores a [`crate::cores::StateLine`] for each.
    pub const STATE: u64 = 0x0e00_1000;
    /// Bytes of a core's line: ESR_EL3, ELR_EL3 and FAR_EL3 of an exception in EL3 itself, which nothing can cause.
    pub const STATE_BYTES: u64 = 64;
    /// The world plan, as EL3 checked it. The payload begins with this address in x0.
    pub const PLAN: u64 = 0x0e00_2000;
    /// Translation tables of the payload, which the host makes; what EL3 copies begins here.
    pub const TABLES: u64 = 0x0e01_0000;
    /// Payloads are linked here.
    pub const PAYLOAD: u64 = 0x0e02_0000;
}

/// The data register of the secure console, a PL011, for the one message of EL3.
pub const SECURE_CONSOLE: u64 = 0x0904_0000;

#[cfg(test)]
mod tests {
    use super::*;

    /// CRC-32C, bit by bit.
    fn crc(register: u32, bytes: &[u8]) -> u32 {
        bytes.iter().fold(register, |register, byte| {
            (0..8).fold(register ^ u32::from(*byte), |register, _| {
                if register & 1 == 1 { register >> 1 ^ 0x82f6_3b78 } else { register >> 1 }
            })
        })
    }

    #[test]
    fn a_message_with_its_crc_leaves_the_residue() {
        for message in [&b"bulkhead"[..], &[0; 60], &[0xff; 12]] {
            let register = crc(u32::MAX, message);
            assert_eq!(crc(register, &(!register).to_le_bytes()), CRC_RESIDUE);
            assert_ne!(crc(register, &(!register ^ 1).to_le_bytes()), CRC_RESIDUE);
        }
    }

    #[test]
    fn the_head_is_its_words() {
        let head =
            Head { magic: MAGIC, counter_hz: 1, payload_from: 2, payload_to: 3, payload_bytes: 4, payload_entry: 5 };
        assert_eq!(head.words(), [MAGIC, 1, 2, 3, 4, 5]);
        assert_eq!(size_of_val(&head.words()), size_of::<Head>());
    }
}
