//! From a checked system to the parts of its flash file.

use crate::LatencyTask;
use crate::hybrid::{self, ImageBelow};
use crate::{Built, Error, NonSecure, Parts, Program, World, assemble, device_tree};
use bulkhead_abi::PAGE_BYTES;
use bulkhead_abi::plan::{POLICY_HALT, POLICY_RESTART, POLICY_STOP};
use bulkhead_plan::loading::{self, Piece, Placement};
use bulkhead_plan::maps::{GICD_BYTES, GICR_BYTES};
use bulkhead_plan::model::{
    self, GuestImage, HealthPolicy, KERNEL_TICK_NS, Secure, System, WorldChannel, WorldDirection, WorldHealth,
    WorldLevel, WorldServer,
};
use bulkhead_plan::ticks;
use bulkhead_world::context::EntryLevel;
use bulkhead_world::cores::CoresPlan;
use bulkhead_world::flash::{
    CHANNEL_NAME_BYTES, ChannelDirection, ChannelPlan, PriorityPlan, ServerKind, ServerPlan, UrgentPlan, WindowPlan,
    WindowsPlan, WishPlan, WorldPlan,
};
use bulkhead_world::health::HealthPlan;
use bulkhead_world::records::RING_RECORDS;

/// A flash file, and what its non-secure world begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flash {
    /// The file.
    pub bytes: Vec<u8>,
    /// The world plan in it.
    pub plan: WorldPlan,
    /// Bytes of the secure monitor, at its start.
    pub monitor_bytes: u64,
    /// The payload.
    pub payload: Program,
    /// The world below the payload.
    pub world: Option<PlacedWorld>,
}

/// What a non-secure world begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedWorld {
    /// Where its parts go.
    pub placement: Placement,
    /// Its device tree.
    pub device_tree: Vec<u8>,
    /// What is copied: whole pages from their first one on, ascending and apart.
    pub segments: Vec<Piece>,
}

/// Builds the flash file of a system, with the ELF file of the secure monitor.
///
/// # Errors
/// With the part that does not fit, and where; [`Error::NoSecureWorld`] for a system of partitions, [`Error::NoImageBelow`] for one whose
/// partitions are below a payload.
pub fn of_system(system: &System, monitor: &[u8]) -> Result<Flash, Error> {
    make(system, monitor, None)
}

/// Builds the flash file of a system whose partitions are below a payload, with the ELF file of the secure monitor of several cores and the
/// image of the partitions' monitor.
///
/// # Errors
/// With the part that does not fit, and where.
pub fn of_hybrid(system: &System, monitor: &[u8], below: ImageBelow<'_>) -> Result<Flash, Error> {
    make(system, monitor, Some(below))
}

fn make(system: &System, monitor: &[u8], below: Option<ImageBelow<'_>>) -> Result<Flash, Error> {
    let (board, secure) = (&system.board, system.secure.as_ref().ok_or(Error::NoSecureWorld)?);
    let facts = board.secure.as_ref().ok_or(Error::NoSecureWorld)?;
    let redistributor = board.gicr.get(secure.core).ok_or(Error::NoSecureWorld)?.0;
    let cores = secure.hybrid().map_or(Ok(CoresPlan::NONE), |_| hybrid::cores(system, secure))?;
    let mut devices = vec![(board.gicd.0, GICD_BYTES), (redistributor, GICR_BYTES)];
    // The library gives every core's private interrupts their groups.
    devices.extend(cores.redistributors.iter().filter(|frame| **frame != 0).map(|frame| (*frame, GICR_BYTES)));
    let given = secure.devices.iter().filter_map(|place| facts.devices().nth(*place));
    devices.extend(given.map(|device| (device.address.0, PAGE_BYTES)));
    let world = secure.world().map(|world| place(system, secure, world)).transpose()?;
    let image = secure.world().zip(world.as_ref()).map(|(described, placed)| NonSecure {
        memory: (described.memory.start.0, described.memory.bytes),
        segments: placed.segments.iter().map(|piece| (piece.guest.0, piece.bytes.as_slice())).collect(),
        entry: placed.placement.entry.0,
        argument: placed.placement.device_tree.0,
        level: match described.level {
            WorldLevel::El1 => EntryLevel::El1,
            WorldLevel::El2 => EntryLevel::El2,
        },
    });
    let non_secure = match secure.hybrid() {
        Some(described) => Some(hybrid::non_secure(described, below.ok_or(Error::NoImageBelow)?)),
        None => image,
    };
    let (servers, urgent) = servers(secure, board.counter_hz);
    let channels = match below {
        Some(image) => placed(channels(secure), image.pools)?,
        None => channels(secure),
    };
    let parts = Parts {
        monitor,
        payload: &secure.payload.elf,
        counter_hz: board.counter_hz,
        devices: &devices,
        interrupt_controller: (board.gicd.0, redistributor),
        interrupts: &secure.interrupts,
        servers: &servers,
        urgent: &urgent,
        cores,
        channels: &channels,
        health: secure.health.as_ref().map_or(HealthPlan::nobody(), |health| watched(health, board.counter_hz)),
        arguments: &secure.payload.arguments,
        trace_records: if system.trace_enabled { ring_of_payload(system.trace_records) } else { 0 },
        windows: windows(secure, board.counter_hz),
        wish: wish(secure),
        partitions: below.map_or(&[], |image| image.statuses),
        non_secure,
    };
    let Built { file, plan, payload, monitor_bytes } = assemble(&parts)?;
    Ok(Flash { bytes: file, plan, monitor_bytes, payload, world })
}

/// Records of the payload's ring. With partitions below it the description says how long those of their monitor are, which may be longer.
fn ring_of_payload(records: u64) -> u64 {
    records.clamp(*RING_RECORDS.start(), *RING_RECORDS.end())
}

/// The servers with the most important first, and what wakes them.
fn servers(secure: &Secure, counter_hz: u64) -> (Vec<ServerPlan>, Vec<UrgentPlan>) {
    let sorted = by_priority(secure);
    let plan = |(place, server): &(usize, &WorldServer)| ServerPlan {
        kind: match (server.interrupts.is_empty(), server.budget) {
            _ if server.latency.is_some() => ServerKind::Latency,
            _ if secure.has_windows(*place) => ServerKind::Window,
            (false, _) => ServerKind::Interrupt,
            (true, Some(_)) => ServerKind::Reserved,
            (true, None) => ServerKind::Background,
        } as u32,
        priority: server.priority,
        budget_ticks: server.budget.map_or(0, |budget| ticks::round_down(budget.budget_ns, counter_hz)),
        period: server.budget.map_or(0, |budget| u32::try_from(budget.period_ns / KERNEL_TICK_NS).unwrap_or(u32::MAX)),
        voluntary: u32::from(server.voluntary_return),
    };
    let urgent = sorted.iter().zip(0..).flat_map(|((_, server), place)| {
        server.interrupts.iter().map(move |intid| UrgentPlan { intid: *intid, server: place })
    });
    (sorted.iter().map(plan).collect(), urgent.collect())
}

/// The servers with their places in the description, the most important first.
fn by_priority(secure: &Secure) -> Vec<(usize, &WorldServer)> {
    let mut sorted: Vec<(usize, &WorldServer)> = secure.servers.iter().enumerate().collect();
    sorted.sort_by_key(|(_, server)| std::cmp::Reverse(server.priority));
    sorted
}

/// The table of windows, with servers by their places in the world plan.
fn windows(secure: &Secure, counter_hz: u64) -> WindowsPlan {
    let Some(table) = &secure.windows else { return WindowsPlan::NONE };
    let sorted = by_priority(secure);
    let to_ticks = |time_ns| ticks::round_down(time_ns, counter_hz);
    let mut plan = WindowsPlan {
        major_ticks: to_ticks(table.major_ns),
        count: u32::try_from(table.windows.len()).unwrap_or(u32::MAX),
        interrupt: table.interrupt.unwrap_or(0),
        ..WindowsPlan::NONE
    };
    for (to, window) in plan.windows.iter_mut().zip(&table.windows) {
        let (start, end) = (to_ticks(window.offset_ns), to_ticks(window.offset_ns.saturating_add(window.length_ns)));
        let server =
            sorted.iter().zip(0..).find(|((place, _), _)| *place == window.server).map_or(0, |(_, place)| place);
        *to = WindowPlan { offset_ticks: start, length_ticks: end.saturating_sub(start), server, reserved: 0 };
    }
    plan
}

/// The word in which stock Linux says which latency task it wants, and what wants which.
fn wish(secure: &Secure) -> WishPlan {
    let mut plan = WishPlan { address: secure.wish.map_or(0, |address| address.0), ..WishPlan::NONE };
    for (to, (_, server)) in plan.priorities.iter_mut().zip(by_priority(secure)) {
        let threads = server.latency.and_then(|latency| latency.threads);
        *to = threads.map_or(PriorityPlan::default(), |(from, to)| PriorityPlan { from, to });
    }
    plan
}

/// The channels, as they were written.
fn channels(secure: &Secure) -> Vec<ChannelPlan> {
    let plan = |channel: &WorldChannel| {
        let mut name = [0; CHANNEL_NAME_BYTES];
        // The zero at the end stays: names are shorter.
        name.iter_mut().zip(channel.name.bytes()).for_each(|(to, from)| *to = from);
        ChannelPlan {
            name,
            address: channel.address.0,
            direction: match channel.direction {
                WorldDirection::ToWorld => ChannelDirection::ToWorld,
                WorldDirection::ToPayload => ChannelDirection::ToPayload,
            } as u32,
            blocks: channel.blocks,
            block_bytes: channel.block_bytes,
            interrupt: channel.interrupt.unwrap_or(0),
            poll: channel.poll_ns.map_or(0, |poll| u32::try_from(poll / KERNEL_TICK_NS).unwrap_or(u32::MAX)),
            reserved: 0,
        }
    };
    secure.channels.iter().map(plan).collect()
}

/// The channels, where the image below has their pools.
fn placed(mut channels: Vec<ChannelPlan>, pools: &[u64]) -> Result<Vec<ChannelPlan>, Error> {
    if channels.len() != pools.len() {
        return Err(Error::Channel);
    }
    channels.iter_mut().zip(pools).for_each(|(channel, address)| channel.address = *address);
    Ok(channels)
}

/// The latency tasks with the most important first, as Linux is told of them.
fn latency_tasks(secure: &Secure) -> Vec<LatencyTask<'_>> {
    let all = by_priority(secure).into_iter().map(|(_, server)| server);
    all.map_while(|server| Some((server.name.as_str(), server.latency?.threads))).collect()
}

/// How the world below is watched.
fn watched(health: &WorldHealth, counter_hz: u64) -> HealthPlan {
    let to_ticks = |time_ns| ticks::round_up(time_ns, counter_hz);
    let mut plan = HealthPlan {
        heartbeat_ticks: health.heartbeat.map_or(0, |heartbeat| to_ticks(heartbeat.period_ns)),
        // Not 0, which would mean that nobody watches.
        missed: health.heartbeat.map_or(1, |heartbeat| heartbeat.missed.max(1)),
        stuck_samples: health.stuck_samples,
        ..HealthPlan::nobody()
    };
    match health.policy {
        HealthPolicy::Stop => plan.policy = POLICY_STOP,
        HealthPolicy::Halt => plan.policy = POLICY_HALT,
        HealthPolicy::Restart { max, within_ns, backoff_ns } => {
            plan.policy = POLICY_RESTART;
            plan.max_restarts = max;
            plan.within_ticks = to_ticks(within_ns);
            plan.backoff_ticks = to_ticks(backoff_ns);
        }
    }
    plan
}

fn place(system: &System, secure: &Secure, world: &model::World) -> Result<PlacedWorld, Error> {
    let board = &system.board;
    let placement = loading::place(world).map_err(Error::World)?;
    let redistributor = board.gicr.get(secure.core).ok_or(Error::NoSecureWorld)?.0;
    let uart = board.uart.ok_or(Error::NoConsole)?;
    let described = World {
        cores: 1,
        memory: (world.memory.start.0, world.memory.bytes),
        interrupt_controller: [(board.gicd.0, GICD_BYTES), (redistributor, GICR_BYTES)],
        channels: &channels(secure),
        latency: &latency_tasks(secure),
        wish: secure.wish.map_or(0, |address| address.0),
        console: (uart.address.0, uart.intid, world.console_clock_hz),
        initrd: placement.initrd.map(|(address, bytes)| (address.0, bytes)),
        command_line: match &world.image {
            GuestImage::Linux { command_line, .. } => command_line,
            GuestImage::Elf { .. } | GuestImage::Raw { .. } | GuestImage::Kernel { .. } => "",
        },
    };
    let tree = device_tree(&described);
    let pieces = loading::pieces(world, &placement, tree.clone()).map_err(Error::World)?;
    Ok(PlacedWorld { placement, device_tree: tree, segments: whole_pages(pieces) })
}

/// Begins each piece on a page, and joins those that then meet: the library copies from page to page.
fn whole_pages(pieces: Vec<Piece>) -> Vec<Piece> {
    let mut whole: Vec<Piece> = Vec::new();
    for piece in pieces {
        let start = piece.guest.0 - piece.guest.0 % PAGE_BYTES;
        let behind = |last: &&mut Piece| last.guest.0 + (last.bytes.len() as u64).next_multiple_of(PAGE_BYTES) > start;
        if let Some(last) = whole.last_mut().filter(behind) {
            last.bytes.resize((piece.guest.0 - last.guest.0) as usize, 0);
            last.bytes.extend(piece.bytes);
            continue;
        }
        let mut bytes = vec![0; (piece.guest.0 - start) as usize];
        bytes.extend(piece.bytes);
        whole.push(Piece { guest: bulkhead_abi::GuestAddress(start), bytes });
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::{HealthPlan, ImageBelow, of_hybrid, of_system, whole_pages};
    use bulkhead_abi::GuestAddress;
    use bulkhead_abi::plan::POLICY_RESTART;
    use bulkhead_plan::loading::Piece;
    use bulkhead_plan::samples;
    use bulkhead_world::flash::{ServerKind, ServerPlan, UrgentPlan};

    /// What a description says is what the world plan says: servers by priority, with ticks of the counter and of the kernel.
    #[test]
    fn a_system_becomes_its_world_plan() {
        let flash = of_system(&samples::two_worlds(), &samples::secure_monitor()).expect("it fits");
        let plan = flash.plan;
        let urgent = ServerPlan {
            kind: ServerKind::Interrupt as u32,
            priority: 9,
            budget_ticks: 125_000,
            period: 30,
            voluntary: 1,
        };
        let rest = ServerPlan { kind: ServerKind::Background as u32, priority: 1, ..ServerPlan::default() };
        assert_eq!(plan.servers[..3], [urgent, rest, ServerPlan::default()]);
        assert_eq!(plan.urgent[..3], [27, 33, 0].map(|intid| UrgentPlan { intid, server: 0 }));
        assert_eq!((plan.secure_interrupts[0], plan.secure_interrupts[1]), (1 << 29, 1 << (60 - 32)));
        assert_eq!((plan.window, plan.window_bytes, plan.level), (0x4000_0000, 16 << 20, 1));
        assert_eq!((plan.entry, plan.argument), (0x4020_0040, 0x40ff_0000), "the tree has the last 64 KiB");
        assert_eq!(&plan.arguments[..7], b"sample\0");
        assert_eq!((&plan.channels[1].name[..8], plan.channels[1].poll), (&b"answers\0"[..], 2));
        assert_eq!((plan.channels[0].interrupt, plan.channels[2]), (50, bulkhead_world::flash::ChannelPlan::NONE));
        let health = plan.health;
        assert_eq!((health.heartbeat_ticks, health.missed, health.stuck_samples), (6_250_000, 3, 500));
        assert_eq!((health.policy, health.max_restarts), (POLICY_RESTART, 4));
        assert_eq!((health.within_ticks, health.backoff_ticks), (3_750_000_000, 1_250_000));
        // The image begins inside of a page, which is whole in flash.
        let segments: Vec<_> = plan.segments.iter().take(2).map(|segment| (segment.to, segment.bytes)).collect();
        assert_eq!(segments[0], (0x4020_0000, 0x1840));
        assert_eq!((segments[1].0, plan.segment_count), (0x40ff_0000, 2));
        assert_eq!(flash.monitor_bytes, 0x700);
    }

    #[test]
    fn a_system_of_partitions_has_no_flash_file() {
        let error = of_system(&samples::demo(), &samples::secure_monitor()).expect_err("it has no payload");
        assert_eq!(error, crate::Error::NoSecureWorld);
    }

    /// Partitions below a payload are one segment, entered at its first byte at EL2, in all of the machine's memory.
    #[test]
    fn partitions_below_a_payload_are_one_segment() {
        let (mut system, monitor) = (samples::hybrid(), samples::secure_monitor());
        assert_eq!(of_system(&system, &monitor).expect_err("no image"), crate::Error::NoImageBelow);
        let image = vec![0x11; 0x2345];
        let flash =
            of_hybrid(&system, &monitor, ImageBelow { start: 0x4020_0000, bytes: &image, pools: &[], statuses: &[] })
                .expect("it fits");
        let plan = &flash.plan;
        assert_eq!((plan.window, plan.window_bytes, plan.level), (0x4000_0000, 64 << 20, 2));
        assert_eq!((plan.entry, plan.argument, plan.segment_count), (0x4020_0000, 0, 1));
        assert_eq!((plan.segments[0].to, plan.segments[0].bytes), (0x4020_0000, 0x2345));
        assert_eq!((plan.cores.count, plan.health), (4, HealthPlan::nobody()));
        assert_eq!(plan.trace_records, 0, "nobody records");
        // The monitor below has rings of its own, which may be longer or shorter than any of a payload.
        system.trace_enabled = true;
        for (records, of_payload) in [(64, 128), (1024, 1024), (4096, 2048)] {
            system.trace_records = records;
            let below = ImageBelow { start: 0x4020_0000, bytes: &image, pools: &[], statuses: &[] };
            let flash = of_hybrid(&system, &monitor, below).expect("it fits");
            assert_eq!(flash.plan.trace_records, of_payload);
        }
        let outside =
            of_hybrid(&system, &monitor, ImageBelow { start: 0x43ff_f000, bytes: &image, pools: &[], statuses: &[] });
        assert_eq!(outside.expect_err("too far"), crate::Error::Segment { to: 0x43ff_f000, bytes: 0x2345 });
    }

    #[test]
    fn pieces_begin_on_pages_and_no_two_share_one() {
        let piece = |at, bytes: &[u8]| Piece { guest: GuestAddress(at), bytes: bytes.to_vec() };
        let whole = whole_pages(vec![piece(0x1010, &[1; 16]), piece(0x1040, &[2; 4096]), piece(0x3000, &[3; 8])]);
        assert_eq!(
            whole.iter().map(|one| (one.guest.0, one.bytes.len())).collect::<Vec<_>>(),
            [(0x1000, 0x1040), (0x3000, 8)]
        );
        let bytes = &whole[0].bytes;
        assert_eq!((bytes[0xf], bytes[0x10], bytes[0x20], bytes[0x3f], bytes[0x40], bytes[0x103f]), (0, 1, 0, 0, 2, 2));
    }
}
