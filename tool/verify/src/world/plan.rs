//! The world plan: read, and compared with what a system of two worlds may say.

use super::channels::{self, Channel};
use super::cores::Cores;
use super::layout::{
    ARGUMENT, ARGUMENT_BYTES, ARGUMENTS, BACKGROUND, CONTEXTS, DISTRIBUTOR, ENTRY, FIRST_SPECIAL, FLASH_BYTES, HALT,
    HEALTH, HEALTH_BYTES, INTERRUPTS, LAST, LATENCY, LEVEL, MAGIC, MOST_PARTITIONS, MOST_RESTARTS, MOST_SEGMENTS,
    MOST_SERVERS, MOST_URGENT, PAGE, PARTITIONS, PAYLOAD, PLAN, PLAN_BYTES, PLAN_END, PRIORITIES, REDISTRIBUTOR,
    RESERVED, RESTART, RING_RECORDS, SECURE_RAM_END, SECURE_TIMER, SEGMENT_BYTES, SEGMENT_COUNT, SEGMENTS,
    SERVER_BYTES, SERVERS, SGI_END, SHARED_FIRST, STOP, TABLE_BASE, TABLES, TRACE_RECORDS, URGENT, WINDOW,
    WINDOW_BYTES, WINDOWED, WISH, half, word,
};
use super::windows;
use crate::code::Code;
use crate::finding::Findings;

/// A segment: where in the file, where it belongs, bytes, CRC-32C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) bytes: u64,
    crc: u64,
}

/// What a plan says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) counter_hz: u64,
    pub(super) payload_from: u64,
    pub(super) payload_to: u64,
    pub(super) payload_bytes: u64,
    pub(super) payload_entry: u64,
    pub(super) tables: u64,
    pub(super) window: u64,
    pub(super) window_bytes: u64,
    pub(super) entry: u64,
    pub(super) argument: u64,
    pub(super) level: u64,
    pub(super) distributor: u64,
    pub(super) redistributor: u64,
    /// The payload's INTIDs.
    pub(super) interrupts: Vec<u32>,
    pub(super) segments: Vec<Segment>,
    pub(super) servers: usize,
    /// Their kinds.
    pub(super) kinds: Vec<u32>,
    /// INTIDs that change hands.
    pub(super) urgent: Vec<u32>,
    /// The page of the wish; 0 = there is none.
    pub(super) wish: u64,
    pub(super) channels: Vec<Channel>,
    /// Pages in which the monitor at EL2 says how each partition is.
    pub(super) partitions: Vec<u64>,
    /// Several cores; `None` = one.
    pub(super) cores: Option<Cores>,
}

impl Segment {
    /// Its bytes in the file.
    pub(super) fn content<'a>(&self, file: &'a [u8]) -> Option<&'a [u8]> {
        let (from, bytes) = usize::try_from(self.from).ok().zip(usize::try_from(self.bytes).ok())?;
        file.get(from..from.checked_add(bytes)?)
    }
}

impl Plan {
    /// Reads the plan of a file; `None` when it is damaged.
    pub(super) fn read(file: &[u8], findings: &mut Findings) -> Option<Self> {
        let page = file.get(PLAN..PLAN_END)?;
        let (content, crc) = page.split_at_checked(PLAN_BYTES - 4)?;
        let is_whole = page.starts_with(MAGIC) && half(crc, 0)? == crc32c::crc32c(content);
        let is_whole = findings.require(is_whole, Code::WorldPlan, || {
            String::from("the world plan does not begin as one, or its checksum is wrong")
        });
        let rest = content.get(LAST..)?;
        findings.require(rest.iter().all(|byte| *byte == 0), Code::WorldPlan, || {
            String::from("there are bytes behind the last field of the world plan")
        });
        let field = |offset| word(page, offset);
        let count = usize::try_from(field(SEGMENT_COUNT)?).unwrap_or(usize::MAX);
        let all = |place: usize| {
            let start = SEGMENTS + place * SEGMENT_BYTES;
            Some(Segment {
                from: field(start)?,
                to: field(start + 8)?,
                bytes: field(start + 16)?,
                crc: field(start + 24)?,
            })
        };
        let all: Vec<Segment> = (0..MOST_SEGMENTS).map(all).collect::<Option<_>>()?;
        let (used, unused) = all.split_at_checked(count).unwrap_or((&[], &all));
        let none = Segment { from: 0, to: 0, bytes: 0, crc: 0 };
        findings.require(count <= MOST_SEGMENTS && unused.iter().all(|one| *one == none), Code::WorldPlan, || {
            String::from("the number of segments is not that of its entries")
        });
        let bit = |intid: &u32| {
            half(page, INTERRUPTS + 4 * (*intid as usize / 32)).is_some_and(|word| word >> (intid % 32) & 1 == 1)
        };
        let kinds = servers(page, field(8)?, findings)?;
        let partitions: Vec<u64> =
            (0..MOST_PARTITIONS).map(|place| field(PARTITIONS + 8 * place)).collect::<Option<_>>()?;
        let rest = partitions.iter().skip_while(|page| **page != 0);
        findings.require(rest.clone().all(|page| *page == 0), Code::WorldPlan, || {
            String::from("the pages about partitions are not one behind the other")
        });
        let plan = Self {
            counter_hz: field(8)?,
            payload_from: field(16)?,
            payload_to: field(24)?,
            payload_bytes: field(32)?,
            payload_entry: field(40)?,
            tables: field(TABLE_BASE)?,
            window: field(WINDOW)?,
            window_bytes: field(WINDOW_BYTES)?,
            entry: field(ENTRY)?,
            argument: field(ARGUMENT)?,
            level: field(LEVEL)?,
            distributor: field(DISTRIBUTOR)?,
            redistributor: field(REDISTRIBUTOR)?,
            interrupts: (0..1024).filter(bit).collect(),
            segments: used.to_vec(),
            servers: kinds.len(),
            kinds,
            wish: field(WISH)?,
            urgent: (0..MOST_URGENT)
                .filter_map(|place| half(page, URGENT + 8 * place))
                .filter(|one| *one != 0)
                .collect(),
            channels: channels::read(page, findings)?,
            partitions: partitions.into_iter().take_while(|page| *page != 0).collect(),
            cores: Cores::read(page)?,
        };
        plan.check_urgent(page, findings);
        plan.check_health(page, findings)?;
        windows::check(page, &plan, findings)?;
        is_whole.then_some(plan)
    }

    /// The world below: its memory, its beginning and what lies there.
    pub(super) fn check_world(&self, file: &[u8], findings: &mut Findings) {
        if self.entry == 0 {
            let is_empty = [self.window, self.window_bytes, self.argument, self.level].iter().all(|word| *word == 0);
            findings.require(is_empty && self.segments.is_empty(), Code::WorldWindow, || {
                String::from("there is no world below, and it has memory or segments")
            });
            return;
        }
        let (start, end) = (self.window, self.window.checked_add(self.window_bytes));
        let Some(end) = end.filter(|end| start.is_multiple_of(PAGE) && end.is_multiple_of(PAGE) && start < *end) else {
            return findings.add(Code::WorldWindow, "the other world's memory is no whole pages");
        };
        for (first, last, what) in [(0, FLASH_BYTES, "flash"), (CONTEXTS, SECURE_RAM_END, "secure RAM")] {
            findings.require(end <= first || last <= start, Code::WorldWindow, || {
                format!("the other world's memory {start:#x} to {:#x} has {what} in it", end - 1)
            });
        }
        let inside = |address: u64| (start..end).contains(&address);
        findings.require(inside(self.entry) && self.entry.is_multiple_of(4), Code::WorldEntry, || {
            format!("the other world is entered at {:#x}, outside its memory or between instructions", self.entry)
        });
        let is_loaded =
            self.segments.iter().any(|one| (one.to..one.to.saturating_add(one.bytes)).contains(&self.entry));
        findings.require(is_loaded, Code::WorldEntry, || {
            format!("nothing is loaded at {:#x}, where the other world is entered", self.entry)
        });
        // The monitor at EL2 needs none: it is asked for nothing else than 0.
        let has_tree = inside(self.argument) || self.cores.is_some();
        findings.require(has_tree, Code::WorldEntry, || {
            format!("its device tree is at {:#x}, outside its memory", self.argument)
        });
        findings.require((1..=2).contains(&self.level), Code::WorldEntry, || {
            format!("the other world has no level {}", self.level)
        });
        for (place, one) in self.segments.iter().enumerate() {
            self.check_segment(place, one, (start, end), file, findings);
        }
    }

    fn check_segment(&self, place: usize, one: &Segment, window: (u64, u64), file: &[u8], findings: &mut Findings) {
        let is_page = one.from.is_multiple_of(PAGE) && one.to.is_multiple_of(PAGE) && one.bytes != 0;
        let last = one.to.checked_add(one.bytes);
        findings.require(
            is_page && one.to >= window.0 && last.is_some_and(|end| end <= window.1),
            Code::WorldSegment,
            || format!("segment {place} belongs to {:#x}, which is not a page of the other world's memory", one.to),
        );
        let overlaps = |other: &Segment| {
            let apart = |first: u64, bytes: u64, second: u64, others: u64| {
                first.saturating_add(bytes) <= second || second.saturating_add(others) <= first
            };
            !apart(one.from, one.bytes, other.from, other.bytes) || !apart(one.to, one.bytes, other.to, other.bytes)
        };
        let twice = self.segments.iter().take(place).any(overlaps);
        let payload_end = self.payload_from.saturating_add(self.payload_bytes);
        findings.require(!twice && one.from >= payload_end, Code::WorldSegment, || {
            format!("segment {place} overlaps another one or the payload")
        });
        let Some(content) = one.content(file) else {
            return findings.add(Code::WorldSegment, format!("segment {place} is not in the file"));
        };
        findings.require(u64::from(crc32c::crc32c(content)) == one.crc, Code::WorldSegmentCrc, || {
            format!("the checksum of segment {place} is not that of its bytes")
        });
    }

    /// Each interrupt has one world.
    pub(super) fn check_interrupts(&self, findings: &mut Findings) {
        findings.require(self.interrupts.contains(&SECURE_TIMER), Code::WorldInterrupt, || {
            String::from("the secure timer is not the payload's")
        });
        for intid in &self.interrupts {
            let why = match intid {
                0..SGI_END => "an SGI, which the other world sends to itself",
                intid if *intid != SECURE_TIMER && *intid < SHARED_FIRST => {
                    "a private one, which the other world raises by registers of its own"
                }
                FIRST_SPECIAL.. => "no interrupt",
                _ => continue,
            };
            findings.add(Code::WorldInterrupt, format!("INTID {intid} is the payload's, and is {why}"));
        }
    }

    fn check_urgent(&self, page: &[u8], findings: &mut Findings) {
        let mut seen: Vec<u32> = Vec::new();
        for place in 0..MOST_URGENT {
            let Some((intid, server)) = half(page, URGENT + 8 * place).zip(half(page, URGENT + 8 * place + 4)) else {
                return;
            };
            if (intid, server) == (0, 0) {
                continue;
            }
            let is_worlds = (SGI_END..FIRST_SPECIAL).contains(&intid) && !self.interrupts.contains(&intid);
            findings.require(is_worlds && !seen.contains(&intid), Code::WorldInterrupt, || {
                format!("the urgent INTID {intid} is not the other world's, or is there twice")
            });
            findings.require((server as usize) < self.servers, Code::WorldServer, || {
                format!("INTID {intid} would wake server {server}, which is not there")
            });
            seen.push(intid);
        }
    }

    /// How the other world is watched: numbers that a policy may have, and none where nobody watches.
    fn check_health(&self, page: &[u8], findings: &mut Findings) -> Option<()> {
        let entry = page.get(HEALTH..HEALTH + HEALTH_BYTES)?;
        let (heartbeat, stuck) = (word(entry, 0)?, half(entry, 12)?);
        let (missed, policy, restarts) = (half(entry, 8)?, half(entry, 16)?, half(entry, 20)?);
        let (within, backoff) = (word(entry, 24)?, word(entry, 32)?);
        let is_good = match policy {
            RESTART => (1..=MOST_RESTARTS).contains(&restarts) && within != 0,
            STOP | HALT => restarts == 0 && within == 0 && backoff == 0,
            _ => false,
        };
        // More often than these, a healthy world is taken for a dead one.
        let is_patient = (heartbeat == 0 || heartbeat >= self.counter_hz / KERNEL_HZ)
            && (stuck == 0 || LEAST_STUCK_SAMPLES <= stuck);
        let is_watched = self.entry != 0 && (1..=MOST_MISSED).contains(&missed) && is_good && is_patient;
        findings.require(is_watched || entry.iter().all(|byte| *byte == 0), Code::WorldHealth, || {
            format!(
                "nobody can watch a world with health policy {policy}, {restarts} restarts, {missed} missed signs of life of {heartbeat} ticks \
                 and {stuck} samples without progress"
            )
        });
        Some(())
    }

    /// The payload's place, in the file and in secure RAM.
    pub(super) fn payload<'a>(&self, file: &'a [u8], findings: &mut Findings) -> Option<&'a [u8]> {
        let range = usize::try_from(self.payload_from).ok().zip(usize::try_from(self.payload_bytes).ok());
        let content = range.and_then(|(from, bytes)| file.get(from..from.checked_add(bytes)?));
        let is_placed = self.payload_to == TABLES
            && self.tables == TABLES
            && self.payload_from >= PLAN_END as u64
            && self.payload_from.is_multiple_of(16)
            && self.payload_bytes.is_multiple_of(16)
            && self.payload_bytes > PAYLOAD - TABLES
            && self.payload_to.saturating_add(self.payload_bytes) <= SECURE_RAM_END;
        let Some(content) = content.filter(|_| is_placed) else {
            findings.add(Code::Payload, "the payload is not in the file, or goes elsewhere than to secure RAM");
            return None;
        };
        let (before, crc) = content.split_at_checked(content.len() - 4)?;
        findings.require(half(crc, 0)? == crc32c::crc32c(before), Code::Payload, || {
            String::from("the checksum of the payload is not that of its bytes")
        });
        findings.require((1..=1_000_000_000).contains(&self.counter_hz), Code::Payload, || {
            format!("a counter does not run at {} Hz", self.counter_hz)
        });
        Some(content)
    }
}

/// The kinds of the servers, each with numbers that one may have.
fn servers(page: &[u8], counter_hz: u64, findings: &mut Findings) -> Option<Vec<u32>> {
    let (mut count, mut kinds) = (0, Vec::new());
    let mut above = PRIORITIES;
    for place in 0..MOST_SERVERS {
        let start = SERVERS + place * SERVER_BYTES;
        let entry = page.get(start..start + SERVER_BYTES)?;
        if entry.iter().all(|byte| *byte == 0) {
            continue;
        }
        let (kind, priority, budget) = (half(entry, 0)?, half(entry, 4)?, word(entry, 8)?);
        let (period, voluntary) = (half(entry, 16)?, half(entry, 20)?);
        // The library refuses an account with more than its period, and the payload then ends.
        let period_ticks = u64::from(period).saturating_mul(counter_hz / KERNEL_HZ);
        let is_limited = (budget == 0) == (period == 0)
            && (budget == 0 || budget < period_ticks)
            && (![RESERVED, LATENCY].contains(&kind) || budget != 0)
            && (![BACKGROUND, WINDOWED].contains(&kind) || budget == 0);
        let is_good = place == count
            && (1..=WINDOWED).contains(&kind)
            && priority <= above
            && priority < PRIORITIES
            && voluntary <= 1;
        findings.require(is_good && is_limited, Code::WorldServer, || {
            format!("server {place} has a kind, priority, budget or period that none has")
        });
        above = priority;
        count = place + 1;
        kinds.push(kind);
    }
    let arguments = page.get(ARGUMENTS..ARGUMENTS + ARGUMENT_BYTES)?;
    let text_end = arguments.iter().position(|byte| *byte == 0);
    let is_text = text_end.is_some_and(|end| arguments.iter().skip(end).all(|byte| *byte == 0));
    findings.require(is_text, Code::WorldPlan, || String::from("the payload's arguments do not end"));
    let records = word(page, TRACE_RECORDS)?;
    let is_ring = records == 0 || records.is_power_of_two() && RING_RECORDS.contains(&records);
    findings.require(is_ring, Code::WorldPlan, || format!("the payload cannot keep {records} records"));
    Some(kinds)
}

/// Ticks of the payload's kernel in a second: periods are counted in them, and signs of life are waited for as long at least.
const KERNEL_HZ: u64 = 1_000;
/// Fewest samples without progress.
const LEAST_STUCK_SAMPLES: u32 = 10;
/// Most signs of life that may be missing.
const MOST_MISSED: u32 = 255;
