//! Builds the flash file from which a core leaves reset: the secure monitor, the world plan, the payload with its translation tables,
//! and what the non-secure world begins with (`docs/specification/secure-world.md`, part 2).
//!
//! One file, so that nothing else is loaded: on QEMU it is what `-bios` shows at 0. Every part has its CRC-32C; EL3 checks the plan and
//! the payload while it copies them, the payload's library the rest.
//!
//! Rejected: a payload that maps itself. With tables made here, `verify` can say from the bytes that nothing of the payload is writable
//! and executable, and that it reaches the other world's memory as what it is.

mod device_tree;
mod error;
mod hybrid;
mod program;
mod system;
mod tables;

pub use device_tree::{LatencyTask, World, device_tree};
pub use error::Error;
pub use hybrid::ImageBelow;
pub use program::{Flat, Program, Rights, flat};
pub use system::{Flash, PlacedWorld, of_hybrid, of_system};

use bulkhead_abi::PAGE_BYTES;
use bulkhead_plan::checksum::crc32c;
use bulkhead_world::context::EntryLevel;
use bulkhead_world::cores::{CoresPlan, MOST_CORES};
use bulkhead_world::flash::{
    self, ARGUMENT_BYTES, ChannelPlan, Head, MOST_BYTES, MOST_SEGMENTS, Segment, ServerPlan, UrgentPlan, WindowsPlan,
    WishPlan, WorldPlan, secure_ram,
};
use bulkhead_world::health::HealthPlan;

/// What a flash file is made of.
#[derive(Clone, Debug)]
pub struct Parts<'a> {
    /// ELF file of the secure monitor.
    pub monitor: &'a [u8],
    /// ELF file of the payload, linked at [`secure_ram::PAYLOAD`].
    pub payload: &'a [u8],
    /// CNTFRQ_EL0.
    pub counter_hz: u64,
    /// Registers that the payload reaches, as first addresses and bytes, whole pages.
    pub devices: &'a [(u64, u64)],
    /// The interrupt controller: distributor, and redistributor of the boot core.
    pub interrupt_controller: (u64, u64),
    /// INTIDs that are the payload's.
    pub interrupts: &'a [u32],
    /// Tasks of the payload that run the other world, the most important first.
    pub servers: &'a [ServerPlan],
    /// Its urgent interrupts.
    pub urgent: &'a [UrgentPlan],
    /// The cores, where the secure monitor is `multi`; none where it is `dual`.
    pub cores: CoresPlan,
    /// Channels between the worlds, with their places outside the other world's memory.
    pub channels: &'a [ChannelPlan],
    /// How the other world is watched.
    pub health: HealthPlan,
    /// Arguments of the payload.
    pub arguments: &'a str,
    /// Records that the payload keeps until they are written out; 0 = none.
    pub trace_records: u64,
    /// When servers run that have windows.
    pub windows: WindowsPlan,
    /// The word in which stock Linux says which latency task it wants.
    pub wish: WishPlan,
    /// Pages in which the monitor of partitions says how each of them is.
    pub partitions: &'a [u64],
    /// The other world.
    pub non_secure: Option<NonSecure<'a>>,
}

/// The world beside the payload.
#[derive(Clone, Debug)]
pub struct NonSecure<'a> {
    /// Its memory: first address and bytes, whole pages.
    pub memory: (u64, u64),
    /// What is there when it begins: addresses and bytes.
    pub segments: Vec<(u64, &'a [u8])>,
    /// Its first instruction.
    pub entry: u64,
    /// Its x0.
    pub argument: u64,
    /// Its level.
    pub level: EntryLevel,
}

/// Builds the file.
///
/// # Errors
/// With the part that does not fit, and where.
pub fn build(parts: &Parts<'_>) -> Result<Vec<u8>, Error> {
    assemble(parts).map(|built| built.file)
}

/// A file, and what it says.
struct Built {
    file: Vec<u8>,
    plan: WorldPlan,
    payload: Program,
    monitor_bytes: u64,
}

fn assemble(parts: &Parts<'_>) -> Result<Built, Error> {
    let monitor = program::flat(parts.monitor, "the secure monitor")?;
    if monitor.base != flash::MONITOR || monitor.entry != flash::MONITOR || monitor.bytes.len() as u64 > flash::PLAN {
        return Err(Error::Monitor);
    }
    let payload = program::read(parts.payload)?;
    let payload_bytes = sealed(tables::with_tables(&payload, parts)?);
    let monitor_bytes = monitor.bytes.len() as u64;
    let mut file = monitor.bytes;
    file.resize(at(flash::PLAN)?, 0);
    file.resize(at(flash::PLAN + flash::PLAN_BYTES)?, 0);
    let head = Head {
        magic: flash::MAGIC,
        counter_hz: parts.counter_hz,
        payload_from: append(&mut file, &payload_bytes)?,
        payload_to: secure_ram::TABLES,
        payload_bytes: payload_bytes.len() as u64,
        payload_entry: payload.entry,
    };
    let mut plan = WorldPlan::new(head, secure_ram::TABLES);
    (plan.distributor, plan.redistributor) = parts.interrupt_controller;
    for intid in parts.interrupts {
        let word = plan.secure_interrupts.get_mut(*intid as usize / 32).ok_or(Error::Interrupt(*intid))?;
        *word |= 1 << (intid % 32);
    }
    fill(&mut plan.servers, parts.servers, "servers")?;
    fill(&mut plan.urgent, parts.urgent, "urgent interrupts")?;
    fill(&mut plan.channels, parts.channels, "channels")?;
    plan.health = parts.health;
    // The zero at the end stays.
    fill(&mut plan.arguments[..ARGUMENT_BYTES - 1], parts.arguments.as_bytes(), "bytes of arguments")?;
    plan.trace_records = parts.trace_records;
    (plan.windows, plan.wish) = (parts.windows, parts.wish);
    fill(&mut plan.partitions, parts.partitions, "partitions")?;
    plan.cores = checked(parts.cores)?;
    if let Some(world) = &parts.non_secure {
        add_non_secure(&mut plan, &mut file, world)?;
    }
    let page = plan_bytes(&plan);
    file[at(flash::PLAN)?..][..page.len()].copy_from_slice(&page);
    if file.len() as u64 > MOST_BYTES {
        return Err(Error::TooLarge { bytes: file.len() as u64 });
    }
    Ok(Built { file, plan, payload, monitor_bytes })
}

fn fill<T: Copy>(places: &mut [T], values: &[T], what: &'static str) -> Result<(), Error> {
    let (most, count) = (places.len(), values.len());
    let places = places.get_mut(..count).ok_or(Error::Full { what, most, count })?;
    places.copy_from_slice(values);
    Ok(())
}

/// What EL3 relies on: no core kicks the payload's, and none that is not there.
fn checked(cores: CoresPlan) -> Result<CoresPlan, Error> {
    let known = cores.redistributors.iter().take_while(|address| **address != 0).count();
    let behind = cores.redistributors.iter().skip(known).any(|address| *address != 0);
    let is_none = cores == CoresPlan::NONE;
    let others = (1_u32 << cores.count.clamp(1, MOST_CORES as u32)) - 2;
    let is_good = cores.count == known as u32 + 1
        && (1..=2).contains(&cores.caller_level)
        && !behind
        && cores.kicks.iter().all(|kicks| kicks & !others == 0)
        && (1..=cores.watch_most_ticks).contains(&cores.watch_least_ticks);
    if is_none || is_good { Ok(cores) } else { Err(Error::Cores) }
}

fn add_non_secure(plan: &mut WorldPlan, file: &mut Vec<u8>, world: &NonSecure<'_>) -> Result<(), Error> {
    let (start, bytes) = world.memory;
    let end = start.checked_add(bytes).ok_or(Error::Window)?;
    (plan.window, plan.window_bytes) = world.memory;
    (plan.entry, plan.argument) = (world.entry, world.argument);
    plan.level = match world.level {
        EntryLevel::El1 => 1,
        EntryLevel::El2 => 2,
    };
    if world.segments.len() > MOST_SEGMENTS {
        return Err(Error::Segments(world.segments.len()));
    }
    plan.segment_count = world.segments.len() as u64;
    for (place, (to, content)) in plan.segments.iter_mut().zip(&world.segments) {
        let last = to.checked_add(content.len() as u64).ok_or(Error::Window)?;
        if *to < start || last > end || to % PAGE_BYTES != 0 {
            return Err(Error::Segment { to: *to, bytes: content.len() as u64 });
        }
        let from = append(file, content)?;
        *place = Segment { from, to: *to, bytes: content.len() as u64, crc: u64::from(crc32c(content)) };
    }
    Ok(())
}

/// Puts bytes behind the file, on a page of their own, and returns where.
fn append(file: &mut Vec<u8>, content: &[u8]) -> Result<u64, Error> {
    let from = (file.len() as u64).next_multiple_of(PAGE_BYTES);
    if from.saturating_add(content.len() as u64) > MOST_BYTES {
        return Err(Error::TooLarge { bytes: from.saturating_add(content.len() as u64) });
    }
    file.resize(at(from)?, 0);
    file.extend_from_slice(content);
    file.resize(file.len().next_multiple_of(16), 0);
    Ok(from)
}

fn at(address: u64) -> Result<usize, Error> {
    usize::try_from(address).map_err(|_| Error::TooLarge { bytes: address })
}

/// Fills up to a multiple of 16, with the CRC-32C of all before it in the last four bytes.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.resize((bytes.len() + 4).next_multiple_of(16) - 4, 0);
    let crc = crc32c(&bytes);
    bytes.extend(crc.to_le_bytes());
    bytes
}

fn add_health(bytes: &mut Vec<u8>, health: &HealthPlan) {
    let HealthPlan { heartbeat_ticks, missed, stuck_samples, policy, max_restarts, within_ticks, backoff_ticks } =
        *health;
    let words = [heartbeat_ticks, pair(missed, stuck_samples), pair(policy, max_restarts), within_ticks, backoff_ticks];
    bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
}

/// Two fields of 32 bits as the word that holds both.
const fn pair(first: u32, second: u32) -> u64 {
    first as u64 | (second as u64) << 32
}

/// The page of a plan.
fn plan_bytes(plan: &WorldPlan) -> Vec<u8> {
    let mut bytes: Vec<u8> = Vec::new();
    let mut add = |word: u64| bytes.extend(word.to_le_bytes());
    // Every field of 32 bits has a neighbour, so words of 64 bits hold them all.
    plan.head.words().into_iter().for_each(&mut add);
    [plan.tables, plan.window, plan.window_bytes, plan.entry, plan.argument, plan.level].into_iter().for_each(&mut add);
    [plan.distributor, plan.redistributor].into_iter().for_each(&mut add);
    plan.secure_interrupts.chunks(2).for_each(|words| add(pair(words[0], words[1])));
    add(plan.segment_count);
    for segment in plan.segments {
        [segment.from, segment.to, segment.bytes, segment.crc].into_iter().for_each(&mut add);
    }
    for server in plan.servers {
        add(pair(server.kind, server.priority));
        add(server.budget_ticks);
        add(pair(server.period, server.voluntary));
    }
    for urgent in plan.urgent {
        add(pair(urgent.intid, urgent.server));
    }
    add_cores(&mut bytes, &plan.cores);
    add_channels(&mut bytes, &plan.channels);
    add_health(&mut bytes, &plan.health);
    bytes.extend(plan.arguments);
    bytes.extend(plan.trace_records.to_le_bytes());
    add_windows(&mut bytes, &plan.windows);
    add_wish(&mut bytes, &plan.wish);
    bytes.extend(plan.partitions.iter().flat_map(|page| page.to_le_bytes()));
    bytes.resize(flash::PLAN_BYTES as usize - 16, 0);
    sealed(bytes)
}

fn add_windows(bytes: &mut Vec<u8>, windows: &WindowsPlan) {
    let mut add = |word: u64| bytes.extend(word.to_le_bytes());
    add(windows.major_ticks);
    add(pair(windows.count, windows.interrupt));
    for window in windows.windows {
        [window.offset_ticks, window.length_ticks, pair(window.server, window.reserved)].into_iter().for_each(&mut add);
    }
}

fn add_wish(bytes: &mut Vec<u8>, wish: &WishPlan) {
    bytes.extend(wish.address.to_le_bytes());
    for range in wish.priorities {
        bytes.extend(pair(range.from, range.to).to_le_bytes());
    }
}

fn add_cores(bytes: &mut Vec<u8>, cores: &CoresPlan) {
    let CoresPlan { count, caller_level, redistributors, closed, kicks, watch_least_ticks, watch_most_ticks } = cores;
    bytes.extend([count, caller_level].into_iter().flat_map(|word| word.to_le_bytes()));
    bytes.extend(redistributors.iter().flat_map(|word| word.to_le_bytes()));
    bytes.extend(closed.iter().chain(kicks).flat_map(|word| word.to_le_bytes()));
    bytes.extend([watch_least_ticks, watch_most_ticks].into_iter().flat_map(|word| word.to_le_bytes()));
}

fn add_channels(bytes: &mut Vec<u8>, channels: &[ChannelPlan]) {
    for channel in channels {
        bytes.extend(channel.name);
        bytes.extend(channel.address.to_le_bytes());
        let ChannelPlan { direction, blocks, block_bytes, interrupt, poll, reserved, .. } = *channel;
        for word in [direction, blocks, block_bytes, interrupt, poll, reserved] {
            bytes.extend(word.to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bulkhead_world::flash::{PriorityPlan, WindowPlan};

    #[test]
    fn a_plan_is_a_page_of_its_struct() {
        let mut plan = WorldPlan::new(Head { magic: flash::MAGIC, ..Head::default() }, 7);
        plan.secure_interrupts[0] = 1 << 29;
        plan.segment_count = 3;
        plan.segments[7].crc = 0x1234_5678;
        plan.servers[4] = ServerPlan { kind: 3, priority: 1, budget_ticks: 9, period: 5, voluntary: 1 };
        plan.urgent[7] = UrgentPlan { intid: 27, server: 2 };
        plan.cores.kicks[3] = 6;
        plan.cores.watch_most_ticks = 17;
        plan.channels[7] = ChannelPlan {
            name: std::array::from_fn(|place| place as u8),
            address: 5,
            direction: 1,
            blocks: 2,
            block_bytes: 3,
            interrupt: 4,
            poll: 6,
            reserved: 7,
        };
        plan.health = HealthPlan {
            heartbeat_ticks: 1,
            missed: 2,
            stuck_samples: 3,
            policy: 4,
            max_restarts: 5,
            within_ticks: 6,
            backoff_ticks: 7,
        };
        plan.arguments[255] = 8;
        (plan.windows.major_ticks, plan.windows.count, plan.windows.interrupt) = (9, 10, 11);
        plan.windows.windows[31] = WindowPlan { offset_ticks: 12, length_ticks: 13, server: 14, reserved: 15 };
        plan.wish.address = 16;
        plan.wish.priorities[4] = PriorityPlan { from: 17, to: 18 };
        let bytes = plan_bytes(&plan);
        assert_eq!(bytes.len() as u64, flash::PLAN_BYTES);
        let word = |offset: usize| u64::from_le_bytes(bytes[offset..][..8].try_into().unwrap());
        assert_eq!(word(std::mem::offset_of!(WorldPlan, tables)), 7);
        assert_eq!(word(std::mem::offset_of!(WorldPlan, secure_interrupts)), 1 << 29);
        assert_eq!(word(std::mem::offset_of!(WorldPlan, segment_count)), 3);
        assert_eq!(word(std::mem::offset_of!(WorldPlan, segments) + 7 * 32 + 24), 0x1234_5678);
        let servers = std::mem::offset_of!(WorldPlan, servers) + 4 * size_of::<ServerPlan>();
        assert_eq!([0, 8, 16].map(|offset| word(servers + offset)), [3 | 1 << 32, 9, 5 | 1 << 32]);
        assert_eq!(word(std::mem::offset_of!(WorldPlan, urgent) + 7 * 8), 27 | 2 << 32);
        let cores = std::mem::offset_of!(WorldPlan, cores);
        assert_eq!([56, 72].map(|offset| word(cores + offset)), [6 << 32, 17]);
        let channel = std::mem::offset_of!(WorldPlan, channels) + 7 * size_of::<ChannelPlan>();
        assert_eq!(
            [24, 32, 40, 48, 56].map(|offset| word(channel + offset)),
            [0x1f1e_1d1c_1b1a_1918, 5, 1 | 2 << 32, 3 | 4 << 32, 6 | 7 << 32]
        );
        let health = std::mem::offset_of!(WorldPlan, health);
        assert_eq!([0, 8, 16, 24, 32].map(|offset| word(health + offset)), [1, 2 | 3 << 32, 4 | 5 << 32, 6, 7]);
        assert_eq!(bytes[std::mem::offset_of!(WorldPlan, arguments) + 255], 8);
        let windows = std::mem::offset_of!(WorldPlan, windows);
        assert_eq!([0, 8].map(|offset| word(windows + offset)), [9, 10 | 11 << 32]);
        assert_eq!([0, 8, 16].map(|offset| word(windows + 16 + 31 * 24 + offset)), [12, 13, 14 | 15 << 32]);
        let wish = std::mem::offset_of!(WorldPlan, wish);
        assert_eq!([0, 40].map(|offset| word(wish + offset)), [16, 17 | 18 << 32]);
        assert!(size_of::<WorldPlan>() + 16 <= bytes.len());
        assert_eq!(!crc32c(&bytes), flash::CRC_RESIDUE);
    }

    /// EL3 relies on it: a kick of the payload's core would be a group 0 interrupt there, and nobody's.
    #[test]
    fn cores_that_cannot_be_served_are_refused() {
        let good = CoresPlan {
            count: 4,
            caller_level: 2,
            redistributors: [1, 2, 3],
            closed: [0; MOST_CORES],
            kicks: [0b1110; MOST_CORES],
            watch_least_ticks: 625,
            watch_most_ticks: 625_000_000,
        };
        assert_eq!((checked(good), checked(CoresPlan::NONE)), (Ok(good), Ok(CoresPlan::NONE)));
        let bad = [
            CoresPlan { count: 5, ..good },
            CoresPlan { count: 3, ..good },
            CoresPlan { count: 3, redistributors: [1, 0, 3], kicks: [0; MOST_CORES], ..good },
            CoresPlan { kicks: [0, 0, 1, 0], ..good },
            CoresPlan { count: 2, redistributors: [1, 0, 0], ..good },
            CoresPlan { watch_least_ticks: 0, ..good },
            CoresPlan { watch_most_ticks: 624, ..good },
            CoresPlan { count: 0, ..good },
            CoresPlan { caller_level: 0, ..good },
            CoresPlan { caller_level: 3, ..good },
        ];
        for cores in bad {
            assert_eq!(checked(cores), Err(Error::Cores), "{cores:?}");
        }
    }
}
