//! The flash file of two worlds as it lies in bytes: stated again, so that the writer and this reader can disagree.
//!
//! `docs/specification/secure-world.md`, part 2. A test compares it with the layout that the secure monitor and the payload's library are
//! compiled with.

/// End of the secure monitor's page, and the first byte of the world plan.
pub(super) const PLAN: usize = 0x1000;
/// Bytes of the world plan; the last four are its CRC-32C.
pub(super) const PLAN_BYTES: usize = 0x1000;
/// First byte behind the plan.
pub(super) const PLAN_END: usize = PLAN + PLAN_BYTES;
/// What a machine shows of its flash.
pub(super) const FLASH_BYTES: u64 = 64 << 20;
/// A world plan begins so.
pub(super) const MAGIC: &[u8; 8] = b"BHWORLD1";
/// Pages.
pub(super) const PAGE: u64 = 0x1000;

/// Secure RAM: its first page has the contexts of both worlds, the second one words of the secure monitor, the third one the plan.
pub(super) const CONTEXTS: u64 = 0x0e00_0000;
pub(super) const STATE: u64 = 0x0e00_1000;
pub(super) const PLAN_IN_RAM: u64 = 0x0e00_2000;
/// The payload's tables, and the payload behind them.
pub(super) const TABLES: u64 = 0x0e01_0000;
pub(super) const PAYLOAD: u64 = 0x0e02_0000;
pub(super) const SECURE_RAM_END: u64 = 0x0f00_0000;

/// Offsets in the plan.
pub(super) const TABLE_BASE: usize = 48;
pub(super) const WINDOW: usize = 56;
pub(super) const WINDOW_BYTES: usize = 64;
pub(super) const ENTRY: usize = 72;
pub(super) const ARGUMENT: usize = 80;
pub(super) const LEVEL: usize = 88;
pub(super) const DISTRIBUTOR: usize = 96;
pub(super) const REDISTRIBUTOR: usize = 104;
pub(super) const INTERRUPTS: usize = 112;
pub(super) const SEGMENT_COUNT: usize = 240;
pub(super) const SEGMENTS: usize = 248;
pub(super) const SEGMENT_BYTES: usize = 32;
pub(super) const MOST_SEGMENTS: usize = 8;
pub(super) const SERVERS: usize = 504;
pub(super) const SERVER_BYTES: usize = 24;
pub(super) const MOST_SERVERS: usize = 5;
pub(super) const URGENT: usize = 624;
pub(super) const MOST_URGENT: usize = 8;
/// Of several cores; zeros for one.
pub(super) const CORES: usize = 688;
pub(super) const CORES_BYTES: usize = 80;
pub(super) const CHANNELS: usize = 768;
pub(super) const CHANNEL_BYTES: usize = 64;
pub(super) const MOST_CHANNELS: usize = 8;
pub(super) const CHANNEL_NAME_BYTES: usize = 32;
pub(super) const HEALTH: usize = 1280;
pub(super) const HEALTH_BYTES: usize = 40;
pub(super) const ARGUMENTS: usize = 1320;
pub(super) const ARGUMENT_BYTES: usize = 256;
/// Records that the payload keeps, and the fewest and most of them.
pub(super) const TRACE_RECORDS: usize = 1576;
pub(super) const RING_RECORDS: std::ops::RangeInclusive<u64> = 128..=2048;
/// The table of windows, and the page in which Linux says which latency task it wants.
pub(super) const WINDOW_TABLE: usize = 1584;
pub(super) const MOST_WINDOWS: usize = 32;
pub(super) const WINDOW_TABLE_BYTES: usize = 16 + 24 * MOST_WINDOWS;
pub(super) const WISH: usize = WINDOW_TABLE + WINDOW_TABLE_BYTES;
/// The highest priority of a thread of Linux.
pub(super) const MOST_THREAD_PRIORITY: u32 = 99;
/// Kinds of servers: with a budget always, and never.
pub(super) const RESERVED: u32 = 2;
pub(super) const BACKGROUND: u32 = 3;
pub(super) const LATENCY: u32 = 4;
pub(super) const WINDOWED: u32 = 5;
/// What follows is empty up to the CRC.
pub(super) const LAST: usize = PARTITIONS + 8 * MOST_PARTITIONS;
/// Pages in which the monitor at EL2 says how each partition is.
pub(super) const PARTITIONS: usize = WISH + 8 + 8 * MOST_SERVERS;
pub(super) const MOST_PARTITIONS: usize = 8;

/// Pools of channels: most blocks and bytes of a block, and the words in front of both rings.
pub(crate) const MOST_BLOCKS: u32 = 32;
pub(crate) const MOST_BLOCK_BYTES: u32 = 4096;
pub(crate) const POOL_RING_WORDS: u64 = 16;

/// Bytes of the distributor and of the redistributor of one core.
pub(super) const DISTRIBUTOR_BYTES: u64 = 0x1_0000;
pub(super) const REDISTRIBUTOR_BYTES: u64 = 0x2_0000;

/// INTIDs: the secure timer, which is the only private one that the other world does not raise by registers of its own (timers, maintenance,
/// debug channel, performance counters, cross trigger) or that nobody raises; the first number of no interrupt, and the first that is no SGI.
pub(super) const SECURE_TIMER: u32 = 29;
pub(super) const FIRST_SPECIAL: u32 = 1020;
pub(super) const SGI_END: u32 = 16;
/// The first shared interrupt.
pub(super) const SHARED_FIRST: u32 = 32;
/// Policies after a fault of the other world, and the most restarts that are counted.
pub(super) const STOP: u32 = 1;
pub(super) const RESTART: u32 = 2;
pub(super) const HALT: u32 = 3;
pub(super) const MOST_RESTARTS: u32 = 128;
/// Priorities of a payload's tasks.
pub(super) const PRIORITIES: u32 = 16;

/// A little-endian word at an offset.
pub(super) fn word(bytes: &[u8], offset: usize) -> Option<u64> {
    bytes.get(offset..)?.first_chunk().copied().map(u64::from_le_bytes)
}

/// The same of 32 bits.
pub(super) fn half(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..)?.first_chunk().copied().map(u32::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bulkhead_abi::plan::{MAX_RESTARTS, POLICY_HALT, POLICY_RESTART, POLICY_STOP};
    use bulkhead_world::cores::CoresPlan;
    use bulkhead_world::flash::{
        self, ChannelPlan, Segment, ServerPlan, UrgentPlan, WindowPlan, WindowsPlan, WorldPlan, secure_ram,
    };
    use bulkhead_world::health::HealthPlan;
    use bulkhead_world::pool;
    use std::mem::offset_of;

    #[test]
    fn it_is_what_the_secure_world_is_compiled_with() {
        let offsets = [
            offset_of!(WorldPlan, tables),
            offset_of!(WorldPlan, window),
            offset_of!(WorldPlan, window_bytes),
            offset_of!(WorldPlan, entry),
            offset_of!(WorldPlan, argument),
            offset_of!(WorldPlan, level),
            offset_of!(WorldPlan, distributor),
            offset_of!(WorldPlan, redistributor),
            offset_of!(WorldPlan, secure_interrupts),
            offset_of!(WorldPlan, segment_count),
            offset_of!(WorldPlan, segments),
            offset_of!(WorldPlan, servers),
            offset_of!(WorldPlan, urgent),
            offset_of!(WorldPlan, cores),
            offset_of!(WorldPlan, channels),
            offset_of!(WorldPlan, health),
            offset_of!(WorldPlan, arguments),
            offset_of!(WorldPlan, trace_records),
            offset_of!(WorldPlan, windows),
            offset_of!(WorldPlan, wish),
            offset_of!(WorldPlan, partitions),
            size_of::<WorldPlan>(),
        ];
        let own = [
            TABLE_BASE,
            WINDOW,
            WINDOW_BYTES,
            ENTRY,
            ARGUMENT,
            LEVEL,
            DISTRIBUTOR,
            REDISTRIBUTOR,
            INTERRUPTS,
            SEGMENT_COUNT,
            SEGMENTS,
            SERVERS,
            URGENT,
            CORES,
            CHANNELS,
            HEALTH,
            ARGUMENTS,
            TRACE_RECORDS,
            WINDOW_TABLE,
            WISH,
            PARTITIONS,
            LAST,
        ];
        assert_eq!(own, offsets);
        assert_eq!((SEGMENT_BYTES, SERVER_BYTES), (size_of::<Segment>(), size_of::<ServerPlan>()));
        assert_eq!((size_of::<UrgentPlan>(), CORES_BYTES), (8, size_of::<CoresPlan>()));
        assert_eq!(size_of::<ChannelPlan>(), CHANNEL_BYTES);
        assert_eq!((size_of::<WindowPlan>(), size_of::<WindowsPlan>()), (24, WINDOW_TABLE_BYTES));
        assert_eq!((MOST_WINDOWS, MOST_THREAD_PRIORITY), (flash::MOST_WINDOWS, bulkhead_world::servers::MOST_PRIORITY));
        use bulkhead_world::flash::ServerKind as Kind;
        let kinds = [Kind::Reserved, Kind::Background, Kind::Latency, Kind::Window].map(|kind| kind as u32);
        assert_eq!([RESERVED, BACKGROUND, LATENCY, WINDOWED], kinds);
        assert_eq!(RING_RECORDS, bulkhead_world::records::RING_RECORDS);
        assert_eq!(HEALTH_BYTES, size_of::<HealthPlan>());
        let of_health = [
            offset_of!(HealthPlan, heartbeat_ticks),
            offset_of!(HealthPlan, missed),
            offset_of!(HealthPlan, stuck_samples),
            offset_of!(HealthPlan, policy),
            offset_of!(HealthPlan, max_restarts),
            offset_of!(HealthPlan, within_ticks),
            offset_of!(HealthPlan, backoff_ticks),
        ];
        assert_eq!(of_health, [0, 8, 12, 16, 20, 24, 32]);
        assert_eq!((STOP, RESTART, HALT, MOST_RESTARTS), (POLICY_STOP, POLICY_RESTART, POLICY_HALT, MAX_RESTARTS));
        assert_eq!((PLAN as u64, PLAN_BYTES as u64, FLASH_BYTES), (flash::PLAN, flash::PLAN_BYTES, flash::MOST_BYTES));
        assert_eq!(u64::from_le_bytes(*MAGIC), flash::MAGIC);
        let places = [CONTEXTS, STATE, PLAN_IN_RAM, TABLES, PAYLOAD];
        use secure_ram as ram;
        assert_eq!(places, [ram::CONTEXTS, ram::STATE, ram::PLAN, ram::TABLES, ram::PAYLOAD]);
        let most = (flash::MOST_SEGMENTS, flash::MOST_SERVERS, flash::MOST_URGENT, flash::ARGUMENT_BYTES);
        assert_eq!((MOST_SEGMENTS, MOST_SERVERS, MOST_URGENT, ARGUMENT_BYTES), most);
        assert_eq!((MOST_CHANNELS, CHANNEL_NAME_BYTES), (flash::MOST_CHANNELS, flash::CHANNEL_NAME_BYTES));
        assert_eq!((MOST_BLOCKS, MOST_BLOCK_BYTES), (pool::MAX_BLOCKS, pool::MAX_BLOCK_BYTES));
        let words = pool::Geometry::new(5, 12).map(|geometry| geometry.words() as u64);
        assert_eq!(words, Some(POOL_RING_WORDS + 2 * 8 + 5 * 2));
    }
}
