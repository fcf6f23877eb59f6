//! Flash files of two worlds: a good one is accepted, and each change of one fact is refused with its code. Checksums are made right again
//! after each change, so that the rule itself has to find it.

use bulkhead_abi::plan::{POLICY_HALT, POLICY_RESTART};
use bulkhead_flash::{NonSecure, Parts, build};
use bulkhead_verify::Code;
use bulkhead_verify::world::{SecureMonitor, is_flash, verify_flash};
use bulkhead_world::context::EntryLevel;
use bulkhead_world::cores::CoresPlan;
use bulkhead_world::flash::{
    ChannelDirection, ChannelPlan, PLAN, PLAN_BYTES, PriorityPlan, ServerKind, ServerPlan, UrgentPlan, WindowPlan,
    WindowsPlan, WishPlan, secure_ram,
};
use bulkhead_world::health::HealthPlan;

const WINDOW: (u64, u64) = (0x4000_0000, 16 << 20);
const KERNEL: u64 = WINDOW.0 + 0x20_0000;
const TREE: u64 = WINDOW.0 + 0x80_0000;
const DEVICES: [(u64, u64); 3] = [(0x0800_0000, 0x1_0000), (0x080a_0000, 0x2_0000), (0x0904_0000, 0x1000)];
const HEALTH: HealthPlan = HealthPlan {
    heartbeat_ticks: 6_250_000,
    missed: 3,
    stuck_samples: 500,
    policy: POLICY_RESTART,
    max_restarts: 4,
    within_ticks: 625_000_000,
    backoff_ticks: 0,
};
const READ_EXECUTE: u32 = 5;
const READ_WRITE: u32 = 6;

/// An ELF file with these segments (address, flags, bytes), entered at the first.
fn elf(segments: &[(u64, u32, usize)]) -> Vec<u8> {
    let mut bytes = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 183, 0, 1, 0, 0, 0];
    bytes.extend([segments[0].0, 64, 0].iter().flat_map(|word| word.to_le_bytes()));
    bytes.extend([0_u16, 0, 64, 56, segments.len() as u16, 64, 0, 0].iter().flat_map(|half| half.to_le_bytes()));
    let mut offset = 64 + 56 * segments.len();
    for (address, flags, size) in segments {
        bytes.extend([1, *flags].iter().flat_map(|word: &u32| word.to_le_bytes()));
        let words = [offset as u64, *address, *address, *size as u64, *size as u64, 4096];
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        offset += size;
    }
    for (number, (_, _, size)) in segments.iter().enumerate() {
        bytes.extend(vec![number as u8 + 1; *size]);
    }
    bytes
}

fn monitor() -> Vec<u8> {
    elf(&[(0, READ_EXECUTE, 0x780)])
}

pub(super) fn expected() -> SecureMonitor {
    SecureMonitor::of_elf(&monitor()).expect("a secure monitor")
}

const fn channel(letter: u8, address: u64, direction: ChannelDirection, interrupt: u32) -> ChannelPlan {
    let mut name = [0; 32];
    name[0] = letter;
    let (direction, poll) = (direction as u32, 0);
    ChannelPlan { name, address, direction, blocks: 10, block_bytes: 32, interrupt, poll, reserved: 0 }
}

const POOLS: u64 = WINDOW.0 + WINDOW.1;
const CHANNELS: [ChannelPlan; 2] = [
    channel(b'a', POOLS, ChannelDirection::ToWorld, 42),
    channel(b'b', POOLS + 0x1000, ChannelDirection::ToPayload, 0),
];

/// The page of the wish, behind the channels.
const WISH: u64 = POOLS + 0x2000;

/// A file as the builder makes it.
pub(super) fn good(has_world: bool) -> Vec<u8> {
    let payload = secure_ram::PAYLOAD;
    let payload =
        elf(&[(payload, READ_EXECUTE, 0x1800), (payload + 0x2000, 4, 0x100), (payload + 0x3000, READ_WRITE, 0x1000)]);
    let (kernel, tree) = (vec![7; 0x3210], vec![9; 0x400]);
    let servers = [
        ServerPlan {
            kind: ServerKind::Interrupt as u32,
            priority: 14,
            budget_ticks: 125_000,
            period: 30,
            voluntary: 1,
        },
        ServerPlan { kind: ServerKind::Window as u32, priority: 9, ..ServerPlan::default() },
        ServerPlan { kind: ServerKind::Latency as u32, priority: 5, budget_ticks: 625_000, period: 50, voluntary: 0 },
        ServerPlan { kind: ServerKind::Background as u32, priority: 1, budget_ticks: 0, period: 0, voluntary: 0 },
    ];
    let mut windows = WindowsPlan { major_ticks: 6_250_000, count: 2, interrupt: 43, ..WindowsPlan::NONE };
    windows.windows[0] = WindowPlan { offset_ticks: 0, length_ticks: 625_000, server: 1, reserved: 0 };
    windows.windows[1] = WindowPlan { offset_ticks: 3_125_000, length_ticks: 625_000, server: 1, reserved: 0 };
    let mut wish = WishPlan { address: WISH, ..WishPlan::NONE };
    wish.priorities[2] = PriorityPlan { from: 95, to: 99 };
    let world = NonSecure {
        memory: WINDOW,
        segments: vec![(KERNEL, kernel.as_slice()), (TREE, tree.as_slice())],
        entry: KERNEL,
        argument: TREE,
        level: EntryLevel::El2,
    };
    let parts = Parts {
        monitor: &monitor(),
        payload: &payload,
        counter_hz: 62_500_000,
        devices: &DEVICES,
        interrupt_controller: (DEVICES[0].0, DEVICES[1].0),
        interrupts: &[29, 40],
        servers: if has_world { &servers } else { &[] },
        urgent: if has_world { &[UrgentPlan { intid: 33, server: 0 }] } else { &[] },
        cores: CoresPlan::NONE,
        channels: if has_world { &CHANNELS } else { &[] },
        health: if has_world { HEALTH } else { HealthPlan::nobody() },
        arguments: "end",
        trace_records: 256,
        windows: if has_world { windows } else { WindowsPlan::NONE },
        wish: if has_world { wish } else { WishPlan::NONE },
        partitions: &[],
        non_secure: has_world.then_some(world),
    };
    build(&parts).expect("a flash file")
}

/// A file that is changed.
pub(super) struct Changed(pub(super) Vec<u8>);

impl Changed {
    pub(super) fn word(&self, offset: u64) -> u64 {
        u64::from_le_bytes(self.0[offset as usize..][..8].try_into().expect("eight bytes"))
    }

    pub(super) fn put(&mut self, offset: u64, value: u64) {
        self.0[offset as usize..][..8].copy_from_slice(&value.to_le_bytes());
    }

    /// Changes a word of the plan.
    pub(super) fn plan(&mut self, offset: usize, change: impl FnOnce(u64) -> u64) {
        let place = PLAN + offset as u64;
        self.put(place, change(self.word(place)));
    }

    /// Changes the leaf descriptor of an address in the payload's tables, or what leads to it.
    pub(super) fn leaf(&mut self, address: u64, change: impl FnOnce(u64) -> u64) {
        let from = self.word(PLAN + 16);
        let mut table = secure_ram::TABLES;
        for level in 1..=3 {
            let place = from + (table - secure_ram::TABLES) + (address >> (39 - 9 * level) & 0x1ff) * 8;
            let entry = self.word(place);
            if entry & 3 != 3 || level == 3 {
                return self.put(place, change(entry));
            }
            table = entry & 0xffff_ffff_f000;
        }
    }

    /// Maps the block of 2 MiB around an address so, in place of what its table says.
    pub(super) fn block(&mut self, address: u64, attributes: u64) {
        let table_of = |file: &Self, table: u64, level: u32| {
            file.word(PLAN + 16) + (table - secure_ram::TABLES) + (address >> (39 - 9 * level) & 0x1ff) * 8
        };
        let first = self.word(table_of(self, secure_ram::TABLES, 1)) & 0xffff_ffff_f000;
        self.put(table_of(self, first, 2), address >> 21 << 21 | attributes | 1);
    }

    /// Makes the checksums of payload and plan right.
    pub(super) fn seal(mut self) -> Vec<u8> {
        let (from, bytes) = (self.word(PLAN + 16) as usize, self.word(PLAN + 32) as usize);
        if from.saturating_add(bytes) <= self.0.len() && bytes > 4 {
            let crc = crc32c::crc32c(&self.0[from..from + bytes - 4]);
            self.0[from + bytes - 4..from + bytes].copy_from_slice(&crc.to_le_bytes());
        }
        let (start, end) = (PLAN as usize, (PLAN + PLAN_BYTES) as usize - 4);
        let crc = crc32c::crc32c(&self.0[start..end]);
        self.0[end..end + 4].copy_from_slice(&crc.to_le_bytes());
        self.0
    }
}

#[test]
fn good_files_are_accepted() {
    for has_world in [true, false] {
        let file = good(has_world);
        assert!(is_flash(&file));
        let verdict = verify_flash(&file, &expected());
        assert!(verdict.is_accepted(), "{:?}", verdict.findings);
        let extent = verdict.extent;
        assert_eq!((extent.interrupts, extent.segments), (2, if has_world { 2 } else { 0 }));
        assert!(extent.table_pages >= 4);
    }
    assert_eq!(Changed(good(true)).seal(), good(true), "the checksums are those of the builder");
}

/// Offsets of fields of the plan.
mod at {
    pub(super) const COUNTER: usize = 8;
    pub(super) const PAYLOAD_TO: usize = 24;
    pub(super) const PAYLOAD_ENTRY: usize = 40;
    pub(super) const WINDOW: usize = 56;
    pub(super) const WINDOW_BYTES: usize = 64;
    pub(super) const ENTRY: usize = 72;
    pub(super) const ARGUMENT: usize = 80;
    pub(super) const LEVEL: usize = 88;
    pub(super) const REDISTRIBUTOR: usize = 104;
    pub(super) const INTERRUPTS: usize = 112;
    pub(super) const SEGMENT: usize = 248;
    pub(super) const SERVER: usize = 504;
    pub(super) const URGENT: usize = 624;
    pub(super) const CORES: usize = 688;
    pub(super) const CHANNEL: usize = 768;
    pub(super) const HEALTH: usize = 1280;
    pub(super) const TRACE_RECORDS: usize = 1576;
    pub(super) const WINDOWS: usize = 1584;
    pub(super) const WISH: usize = WINDOWS + 16 + 32 * 24;
    pub(super) const BEHIND: usize = WISH + 8 + 5 * 8;
}

type Change = fn(&mut Changed);

const READ_ONLY: u64 = 1 << 7;
const NON_SECURE: u64 = 1 << 5;
const NEVER_EXECUTED: u64 = 1 << 53;

/// What is changed, how, and the code that it must get.
const MUTANTS: &[(&str, Code, Change)] = &[
    ("a word of the secure monitor, such as its constant for SCR_EL3", Code::SecureMonitor, |file| file.0[0x123] ^= 1),
    ("a word behind the secure monitor", Code::SecureMonitor, |file| file.0[0x900] = 1),
    ("bytes behind the last field of the plan", Code::WorldPlan, |file| file.plan(at::BEHIND, |_| 1)),
    ("several cores under a secure monitor for one", Code::WorldPlan, |file| file.plan(at::CORES, |_| 4)),
    ("more segments than entries", Code::WorldPlan, |file| file.plan(at::SEGMENT - 8, |_| 9)),
    ("fewer segments than entries", Code::WorldPlan, |file| file.plan(at::SEGMENT - 8, |count| count - 1)),
    ("a payload that goes over the contexts", Code::Payload, |file| {
        file.plan(at::PAYLOAD_TO, |_| secure_ram::CONTEXTS)
    }),
    ("a payload entered in its data", Code::Payload, |file| {
        file.plan(at::PAYLOAD_ENTRY, |_| secure_ram::PAYLOAD + 0x3000)
    }),
    ("a payload entered in the other world", Code::Payload, |file| file.plan(at::PAYLOAD_ENTRY, |_| KERNEL)),
    ("no counter", Code::Payload, |file| file.plan(at::COUNTER, |_| 0)),
    ("a descriptor with an unknown bit", Code::PayloadTable, |file| {
        file.leaf(secure_ram::PAYLOAD, |entry| entry | 1 << 51);
    }),
    ("a page mapped elsewhere", Code::PayloadTable, |file| {
        file.leaf(secure_ram::PAYLOAD, |entry| entry + 0x1000);
    }),
    ("data that EL0 reaches", Code::PayloadTable, |file| {
        file.leaf(secure_ram::PAYLOAD + 0x3000, |entry| entry | 1 << 6)
    }),
    ("text that may be written", Code::PayloadWriteExecute, |file| {
        file.leaf(secure_ram::PAYLOAD, |entry| entry & !READ_ONLY);
    }),
    ("data that may be executed", Code::PayloadWriteExecute, |file| {
        file.leaf(secure_ram::PAYLOAD + 0x3000, |entry| entry & !NEVER_EXECUTED);
    }),
    ("flash that may be executed", Code::PayloadReach, |file| file.leaf(0, |entry| entry & !NEVER_EXECUTED)),
    ("contexts as normal memory", Code::PayloadReach, |file| {
        file.leaf(secure_ram::CONTEXTS, |entry| entry | 1 << 2 | 3 << 8);
    }),
    ("contexts that are not mapped", Code::PayloadReach, |file| file.leaf(secure_ram::CONTEXTS, |_| 0)),
    ("registers as read alone", Code::PayloadReach, |file| file.leaf(0x0904_0000, |entry| entry | READ_ONLY)),
    ("tables that may be written", Code::PayloadReach, |file| {
        file.leaf(secure_ram::TABLES, |_| secure_ram::TABLES | 0x703 | 1 << 2 | 1 << 53 | 1 << 54);
    }),
    ("another redistributor", Code::PayloadReach, |file| file.plan(at::REDISTRIBUTOR, |_| 0x0810_0000)),
    ("a page of the other world that is not mapped", Code::PayloadReach, |file| file.leaf(WINDOW.0 + (1 << 21), |_| 0)),
    ("a segment of flash that is not mapped", Code::PayloadReach, |file| file.leaf(0, |_| 0)),
    ("a distributor in the redistributor", Code::PayloadReach, |file| {
        file.plan(at::REDISTRIBUTOR - 8, |_| DEVICES[1].0);
    }),
    ("memory of the other world as secure", Code::PayloadOtherWorld, |file| {
        file.leaf(WINDOW.0, |entry| entry & !NON_SECURE);
    }),
    ("secure memory as the other world's", Code::PayloadOtherWorld, |file| {
        file.leaf(secure_ram::PAYLOAD + 0x3000, |entry| entry | NON_SECURE);
    }),
    ("the other world's memory executed by the payload", Code::PayloadOtherWorld, |file| {
        file.leaf(WINDOW.0, |entry| entry & !NEVER_EXECUTED);
    }),
    ("the other world's memory that no start can fill", Code::PayloadOtherWorld, |file| {
        file.leaf(WINDOW.0, |entry| entry | READ_ONLY);
    }),
    ("a window over secure RAM", Code::WorldWindow, |file| file.plan(at::WINDOW, |_| secure_ram::CONTEXTS)),
    ("a window over flash", Code::WorldWindow, |file| file.plan(at::WINDOW, |_| 0)),
    ("a window over registers of the payload", Code::WorldWindow, |file| {
        file.plan(at::WINDOW, |_| 0x0904_0000);
        file.plan(at::WINDOW_BYTES, |_| 0x1000);
    }),
    ("a window of half a page", Code::WorldWindow, |file| file.plan(at::WINDOW_BYTES, |bytes| bytes - 0x800)),
    ("an entry in secure RAM", Code::WorldEntry, |file| file.plan(at::ENTRY, |_| secure_ram::PAYLOAD)),
    ("an entry where nothing is", Code::WorldEntry, |file| file.plan(at::ENTRY, |_| WINDOW.0)),
    ("an entry between instructions", Code::WorldEntry, |file| file.plan(at::ENTRY, |entry| entry + 2)),
    ("a device tree in flash", Code::WorldEntry, |file| file.plan(at::ARGUMENT, |_| 0x3000)),
    ("an entry at EL3", Code::WorldEntry, |file| file.plan(at::LEVEL, |_| 3)),
    ("a segment for secure RAM", Code::WorldSegment, |file| file.plan(at::SEGMENT + 8, |_| secure_ram::PAYLOAD)),
    ("a segment beyond the window", Code::WorldSegment, |file| {
        file.plan(at::SEGMENT + 32 + 8, |_| WINDOW.0 + WINDOW.1);
    }),
    ("two segments at one place", Code::WorldSegment, |file| file.plan(at::SEGMENT + 32 + 8, |_| KERNEL)),
    ("a segment out of the payload", Code::WorldSegment, |file| file.plan(at::SEGMENT, |_| 0x2000)),
    ("a segment behind the file", Code::WorldSegment, |file| file.plan(at::SEGMENT, |_| 0x30_0000)),
    ("a byte of a segment", Code::WorldSegmentCrc, |file| {
        let from = file.word(PLAN + at::SEGMENT as u64) as usize;
        file.0[from + 5] ^= 1;
    }),
    ("the checksum of a segment", Code::WorldSegmentCrc, |file| file.plan(at::SEGMENT + 24, |crc| crc ^ 1)),
    ("an SGI of the payload", Code::WorldInterrupt, |file| file.plan(at::INTERRUPTS, |word| word | 1 << 5)),
    ("the other world's timer with the payload", Code::WorldInterrupt, |file| {
        file.plan(at::INTERRUPTS, |word| word | 1 << 27);
    }),
    (
        "the interrupt of performance counters, which the other world raises, with the payload",
        Code::WorldInterrupt,
        |file| {
            file.plan(at::INTERRUPTS, |word| word | 1 << 23);
        },
    ),
    ("the secure timer with the other world", Code::WorldInterrupt, |file| {
        file.plan(at::INTERRUPTS, |word| word & !(1 << 29));
    }),
    ("an urgent interrupt of the payload", Code::WorldInterrupt, |file| file.plan(at::URGENT, |_| 40)),
    ("an urgent interrupt for nobody", Code::WorldServer, |file| file.plan(at::URGENT, |word| word | 4 << 32)),
    ("a server with a budget and no period", Code::WorldServer, |file| file.plan(at::SERVER + 16, |_| 0)),
    ("a server with more budget than its period has", Code::WorldServer, |file| {
        file.plan(at::SERVER + 8, |_| 30 * 62_500);
    }),
    ("a server of no kind", Code::WorldServer, |file| file.plan(at::SERVER, |word| word | 0xff)),
    ("servers in another order", Code::WorldServer, |file| file.plan(at::SERVER + 24, |word| word | 15 << 32)),
    ("a channel without a name", Code::WorldChannel, |file| file.plan(at::CHANNEL, |_| 0)),
    ("two channels of one name", Code::WorldChannel, |file| file.plan(at::CHANNEL + 64, |_| u64::from(b'a'))),
    ("a channel in the other world's memory", Code::WorldChannel, |file| {
        file.plan(at::CHANNEL + 32, |_| POOLS - 0x1000);
    }),
    ("a channel in secure RAM", Code::WorldChannel, |file| {
        file.plan(at::CHANNEL + 32, |_| secure_ram::PAYLOAD + 0x3000);
    }),
    ("two channels in one page", Code::WorldChannel, |file| file.plan(at::CHANNEL + 64 + 32, |_| POOLS)),
    ("a channel between pages", Code::WorldChannel, |file| file.plan(at::CHANNEL + 32, |address| address + 8)),
    ("a channel with more blocks than a set holds", Code::WorldChannel, |file| {
        file.plan(at::CHANNEL + 40, |word| word | 33 << 32);
    }),
    ("a channel with larger blocks, so that its pool takes other pages", Code::WorldChannel, |file| {
        file.plan(at::CHANNEL + 48, |word| word | 0x800);
    }),
    ("a channel with too large blocks", Code::WorldChannel, |file| file.plan(at::CHANNEL + 48, |word| word | 0x2000)),
    ("a channel in both directions", Code::WorldChannel, |file| file.plan(at::CHANNEL + 40, |word| word | 3)),
    ("a channel that polls itself", Code::WorldChannel, |file| file.plan(at::CHANNEL + 56, |_| 1)),
    ("a channel with a private interrupt", Code::WorldChannel, |file| {
        file.plan(at::CHANNEL + 48, |word| word & 0xffff_ffff | 27 << 32);
    }),
    ("a channel with an interrupt of the payload", Code::WorldInterrupt, |file| {
        file.plan(at::CHANNEL + 48, |word| word & 0xffff_ffff | 40 << 32);
    }),
    ("a channel that is mapped as secure", Code::WorldChannel, |file| file.leaf(POOLS, |entry| entry & !NON_SECURE)),
    ("a channel that may be executed", Code::WorldChannel, |file| file.leaf(POOLS, |entry| entry & !NEVER_EXECUTED)),
    ("a channel as cached memory", Code::WorldChannel, |file| file.leaf(POOLS, |entry| entry | 1 << 2 | 3 << 8)),
    ("a channel that is not mapped", Code::WorldChannel, |file| file.leaf(POOLS, |_| 0)),
    ("a page behind the channels as the other world's", Code::PayloadOtherWorld, |file| {
        file.leaf(POOLS + 0x3000, |_| (POOLS + 0x3000) | 0x403 | NON_SECURE | 3 << 53);
    }),
    ("restarts without a limit", Code::WorldHealth, |file| file.plan(at::HEALTH + 16, |_| u64::from(POLICY_RESTART))),
    ("restarts within no time", Code::WorldHealth, |file| file.plan(at::HEALTH + 24, |_| 0)),
    ("restarts beside another policy", Code::WorldHealth, |file| {
        file.plan(at::HEALTH + 16, |word| word & !0xffff_ffff | u64::from(POLICY_HALT));
    }),
    ("a health policy of no kind", Code::WorldHealth, |file| file.plan(at::HEALTH + 16, |word| word | 0xff)),
    ("a heartbeat that nobody misses", Code::WorldHealth, |file| file.plan(at::HEALTH + 8, |word| word >> 32 << 32)),
    ("a heartbeat that no healthy world has", Code::WorldHealth, |file| file.plan(at::HEALTH, |_| 62_499)),
    ("a world that is stuck after two looks", Code::WorldHealth, |file| {
        file.plan(at::HEALTH + 8, |word| word & 0xffff_ffff | 2 << 32);
    }),
    ("a ring of records that no mask finds", Code::WorldPlan, |file| file.plan(at::TRACE_RECORDS, |_| 300)),
    ("a ring of records larger than any", Code::WorldPlan, |file| file.plan(at::TRACE_RECORDS, |_| 4096)),
    ("a window that is empty", Code::WorldWindows, |file| file.plan(at::WINDOWS + 24, |_| 0)),
    ("windows that overlap", Code::WorldWindows, |file| file.plan(at::WINDOWS + 24, |_| 3_125_001)),
    ("a window beyond the round", Code::WorldWindows, |file| file.plan(at::WINDOWS + 48, |_| 3_125_001)),
    ("a window of a server without any", Code::WorldWindows, |file| file.plan(at::WINDOWS + 32, |_| 0)),
    ("a window of nobody", Code::WorldWindows, |file| file.plan(at::WINDOWS + 32, |_| 9)),
    ("fewer windows than entries", Code::WorldWindows, |file| file.plan(at::WINDOWS + 8, |word| word - 1)),
    ("more windows than entries", Code::WorldWindows, |file| file.plan(at::WINDOWS + 8, |word| word + 1)),
    ("a round without windows", Code::WorldWindows, |file| {
        (0..8).for_each(|word| file.plan(at::WINDOWS + 8 + word * 8, |_| 0));
    }),
    ("a server of windows without one", Code::WorldWindows, |file| {
        file.plan(at::SERVER + 2 * 24, |word| word & !0xff | ServerKind::Window as u64);
        file.plan(at::SERVER + 2 * 24 + 8, |_| 0);
        file.plan(at::SERVER + 2 * 24 + 16, |_| 0);
        (0..6).for_each(|word| file.plan(at::WISH + word * 8, |_| 0));
    }),
    ("a server of windows with a budget", Code::WorldServer, |file| {
        file.plan(at::SERVER + 24 + 8, |_| 1000);
        file.plan(at::SERVER + 24 + 16, |_| 5);
    }),
    ("a latency task without a budget", Code::WorldServer, |file| {
        file.plan(at::SERVER + 2 * 24 + 8, |_| 0);
        file.plan(at::SERVER + 2 * 24 + 16, |_| 0);
    }),
    ("windows with an interrupt of the payload", Code::WorldInterrupt, |file| {
        file.plan(at::WINDOWS + 8, |word| word & 0xffff_ffff | 40 << 32);
    }),
    ("windows with an urgent interrupt", Code::WorldInterrupt, |file| {
        let urgent = file.word(PLAN + at::URGENT as u64) & 0xffff_ffff;
        file.plan(at::WINDOWS + 8, |word| word & 0xffff_ffff | urgent << 32);
    }),
    ("windows with a channel's interrupt", Code::WorldInterrupt, |file| {
        file.plan(at::WINDOWS + 8, |word| word & 0xffff_ffff | 42 << 32);
    }),
    ("windows with a private interrupt", Code::WorldInterrupt, |file| {
        file.plan(at::WINDOWS + 8, |word| word & 0xffff_ffff | 27 << 32);
    }),
    ("a wish in the other world's memory", Code::WorldWish, |file| file.plan(at::WISH, |_| POOLS - 0x1000)),
    ("a wish in a channel", Code::WorldWish, |file| file.plan(at::WISH, |_| POOLS)),
    ("a wish in secure RAM", Code::WorldWish, |file| file.plan(at::WISH, |_| secure_ram::PAYLOAD + 0x3000)),
    ("a wish between pages", Code::WorldWish, |file| file.plan(at::WISH, |address| address + 8)),
    ("priorities without a page", Code::WorldWish, |file| file.plan(at::WISH, |_| 0)),
    ("priorities that want no latency task", Code::WorldWish, |file| file.plan(at::WISH + 8, |_| 1 | 2 << 32)),
    ("priorities beyond the last", Code::WorldWish, |file| file.plan(at::WISH + 24, |_| 95 | 100 << 32)),
    ("a wish that is mapped as secure", Code::WorldChannel, |file| file.leaf(WISH, |entry| entry & !NON_SECURE)),
    ("a wish as cached memory", Code::WorldChannel, |file| file.leaf(WISH, |entry| entry | 1 << 2 | 3 << 8)),
    ("a wish that is not mapped", Code::WorldChannel, |file| file.leaf(WISH, |_| 0)),
    ("bytes between two parts", Code::FlashLength, |file| {
        let (from, bytes) = (file.word(PLAN + at::SEGMENT as u64), file.word(PLAN + at::SEGMENT as u64 + 16));
        file.0[(from + bytes) as usize] = 1;
    }),
    ("bytes behind the last part", Code::FlashLength, |file| file.0.extend([1; 16])),
];

/// The codes that a change of this list shows.
pub(super) fn shown() -> impl Iterator<Item = Code> {
    MUTANTS.iter().map(|(_, code, _)| *code)
}

#[test]
fn every_mutant_is_refused_with_its_code() {
    let expected = expected();
    let mut failures = Vec::new();
    for (what, code, change) in MUTANTS {
        let mut file = Changed(good(true));
        change(&mut file);
        let verdict = verify_flash(&file.seal(), &expected);
        if !verdict.has(*code) {
            failures.push(format!("{what}: not {}, but {:?}", code.name(), verdict.findings));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    let mut codes: Vec<&str> = MUTANTS.iter().map(|(_, code, _)| code.name()).collect();
    codes.sort_unstable();
    codes.dedup();
    assert_eq!(codes.len(), 18, "every code of flash files has a mutant: {codes:?}");
}

/// Without making checksums right again, no byte of a used part can change.
#[test]
fn every_byte_counts() {
    let (file, expected) = (good(true), expected());
    for place in (0..file.len()).step_by(97) {
        let mut changed = file.clone();
        changed[place] ^= 0x10;
        assert!(!verify_flash(&changed, &expected).is_accepted(), "byte {place:#x}");
    }
}

#[test]
fn cut_files_are_refused_and_nothing_panics() {
    let (file, expected) = (good(true), expected());
    for length in (0..file.len()).step_by(251).chain([0x1000, 0x1008, 0x1fff, 0x2000]) {
        assert!(!verify_flash(&file[..length], &expected).is_accepted(), "{length:#x} bytes");
    }
    for place in (0..0x400).step_by(8) {
        for value in [0, 1, u64::MAX, 1 << 63, 0xfff, 0x1000, 0x0e02_0000, 0x4000_0000] {
            let mut changed = Changed(file.clone());
            changed.plan(place, |_| value);
            let _ = verify_flash(&changed.seal(), &expected);
        }
    }
}
