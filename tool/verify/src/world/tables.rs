//! The payload's translation tables, entry by entry: S-EL1 stage 1 with 39 bits and pages of 4 KiB (Arm ARM D8.3), and what they may lead to.

use super::layout::{CONTEXTS, FLASH_BYTES, PAGE, PAYLOAD, PLAN_IN_RAM, SECURE_RAM_END, STATE, TABLES, word};
use super::plan::Plan;
use crate::code::Code;
use crate::finding::Findings;
use std::collections::BTreeSet;

/// A leaf of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Leaf {
    pub(super) input: u64,
    pub(super) bytes: u64,
    write: bool,
    execute: bool,
    device: bool,
    cached: bool,
    other_world: bool,
}

impl Leaf {
    fn is_in(&self, start: u64, end: u64) -> bool {
        start <= self.input && self.end() <= end
    }

    fn touches(&self, start: u64, end: u64) -> bool {
        self.input < end && start < self.end()
    }

    fn end(&self) -> u64 {
        self.input.saturating_add(self.bytes)
    }
}

/// Bits of a leaf that have a meaning here: valid and kind, AttrIndx, NS, AP, SH, AF, address, PXN, UXN. Any other one is refused.
const KNOWN: u64 = 0x3 | 0x7 << 2 | 1 << 5 | 3 << 6 | 3 << 8 | 1 << 10 | ADDRESS | 1 << 53 | 1 << 54;
const ADDRESS: u64 = 0xffff_ffff_f000;
const ENTRIES: u64 = 512;

/// Walks the tables in the payload's bytes, which lie at [`TABLES`]; returns leaves by address and the number of table pages.
pub(super) fn walk(payload: &[u8], root: u64, findings: &mut Findings) -> (Vec<Leaf>, usize) {
    let mut walk = Walk { payload, leaves: Vec::new(), seen: BTreeSet::new(), findings };
    walk.table(root, 1, 0);
    (walk.leaves, walk.seen.len())
}

struct Walk<'a> {
    payload: &'a [u8],
    leaves: Vec<Leaf>,
    seen: BTreeSet<u64>,
    findings: &'a mut Findings,
}

impl Walk<'_> {
    fn refuse(&mut self, message: String) {
        self.findings.add(Code::PayloadTable, message);
    }

    fn table(&mut self, table: u64, level: u32, base: u64) {
        if !table.is_multiple_of(PAGE) || !(TABLES..PAYLOAD).contains(&table) || !self.seen.insert(table) {
            return self.refuse(format!("a table at {table:#x} is not among the payload's tables, or is used twice"));
        }
        let bytes = 1_u64 << (39 - 9 * level);
        for index in 0..ENTRIES {
            let offset = usize::try_from(table - TABLES + 8 * index).unwrap_or(usize::MAX);
            let Some(entry) = word(self.payload, offset) else {
                return self.refuse(format!("the table at {table:#x} is not in the payload"));
            };
            let input = base + index * bytes;
            match (entry & 3, level) {
                (0, _) if entry == 0 => {}
                (3, 1 | 2) if entry & !(ADDRESS | 3) == 0 => self.table(entry & ADDRESS, level + 1, input),
                (1, 1 | 2) | (3, 3) => self.leaf(entry, input, bytes),
                _ => self.refuse(format!("the entry {entry:#x} for {input:#x} is no descriptor of its level")),
            }
        }
    }

    fn leaf(&mut self, entry: u64, input: u64, bytes: u64) {
        let output = entry & ADDRESS;
        let memory = entry >> 2 & 7;
        let is_good =
            entry & !KNOWN == 0 && output == input && memory <= 2 && entry >> 10 & 1 == 1 && entry >> 6 & 1 == 0;
        // Nothing of a payload runs at EL0, and shared memory is inner shareable as the tables' walks are.
        if !is_good || entry >> 54 & 1 == 0 || (memory != 0 && entry >> 8 & 3 != 3) {
            return self.refuse(format!("the descriptor {entry:#x} maps {input:#x} as nothing that a payload has"));
        }
        self.leaves.push(Leaf {
            input,
            bytes,
            write: entry >> 7 & 1 == 0,
            execute: entry >> 53 & 1 == 0,
            device: memory == 0,
            cached: memory == 1,
            other_world: entry >> 5 & 1 == 1,
        });
    }
}

/// Compares every leaf with what a payload may reach there.
pub(super) fn check(leaves: &[Leaf], plan: &Plan, findings: &mut Findings) {
    let (window, window_end) = (plan.window, plan.window.saturating_add(plan.window_bytes));
    for leaf in leaves {
        let at = leaf.input;
        if leaf.write && leaf.execute {
            findings.add(Code::PayloadWriteExecute, format!("{at:#x} of the payload may be written and executed"));
        }
        if let Some((start, end)) = shared(plan).find(|(start, end)| leaf.touches(*start, *end)) {
            // As the other world reaches it: memory of no kernel is a device there, and a partition's has no caches.
            let is_below = (window..window_end).contains(&start);
            let is_theirs = if is_below { !leaf.device && !leaf.cached } else { leaf.device };
            let is_shared = leaf.other_world && is_theirs && leaf.write && !leaf.execute;
            findings.require(is_shared && leaf.is_in(start, end), Code::WorldChannel, || {
                format!("{at:#x} of a channel or of the wish is not mapped as memory that both worlds share, or with something else")
            });
            continue;
        }
        // What EL2 writes without caches is read so, and it alone; a start fills it as all of the window.
        let status = plan.partitions.iter().find(|page| leaf.touches(**page, page.saturating_add(PAGE)));
        let is_page = status.is_some_and(|page| leaf.is_in(*page, page.saturating_add(PAGE)));
        let is_read = is_page && !leaf.device && !leaf.cached && leaf.write;
        findings.require(
            if status.is_some() { is_read } else { leaf.device || leaf.cached },
            Code::PayloadTable,
            || format!("{at:#x} is mapped without caches and is no channel, or what EL2 says of a partition is not"),
        );
        let is_worlds = plan.window_bytes != 0 && leaf.touches(window, window_end);
        // A start writes to all of it.
        if leaf.other_world != is_worlds
            || (is_worlds && (leaf.execute || leaf.device || !leaf.write || !leaf.is_in(window, window_end)))
        {
            let message = match leaf.other_world {
                true => format!(
                    "{at:#x} is mapped as the other world's memory, and is none, or is executable or cannot be written"
                ),
                false => format!("{at:#x} is memory of the other world, and is mapped as secure"),
            };
            findings.add(Code::PayloadOtherWorld, message);
            continue;
        }
        if !is_worlds && !is_expected(leaf) {
            findings
                .add(Code::PayloadReach, format!("the payload maps {at:#x} with other rights than what is there has"));
        }
    }
    let is_mapped = |start: u64, end: u64| {
        let within = |leaf: &Leaf| leaf.end().min(end).saturating_sub(leaf.input.max(start));
        leaves.iter().map(within).sum::<u64>() == end.saturating_sub(start)
    };
    let mut needed = vec![
        (CONTEXTS, CONTEXTS + PAGE, "the contexts"),
        (PLAN_IN_RAM, PLAN_IN_RAM + PAGE, "the world plan"),
        // A restart fills all of it, and what is not mapped ends the payload.
        (window, window_end, "the other world's memory"),
    ];
    needed.extend(plan.cores.is_some().then_some((STATE, STATE + PAGE, "the lines of cores")));
    let segments = plan.segments.iter();
    needed.extend(segments.map(|one| (one.from, one.from.saturating_add(one.bytes), "a segment in flash")));
    for (start, end, what) in needed {
        findings.require(is_mapped(start, end), Code::PayloadReach, || format!("the payload does not map {what}"));
    }
    for (start, end) in shared(plan) {
        findings.require(is_mapped(start, end), Code::WorldChannel, || {
            format!("the payload does not map what both worlds share at {start:#x}")
        });
    }
}

/// Memory that both worlds reach: channels, and the page of the wish.
fn shared(plan: &Plan) -> impl Iterator<Item = (u64, u64)> {
    let channels = plan.channels.iter().map(|channel| (channel.start, channel.end));
    channels.chain((plan.wish != 0).then(|| (plan.wish, plan.wish.saturating_add(PAGE))))
}

/// The other addresses: flash and plan read alone, contexts and state words as a device, the program in its place, devices.
fn is_expected(leaf: &Leaf) -> bool {
    let is_data = !leaf.execute && leaf.write;
    if leaf.touches(0, FLASH_BYTES) {
        return leaf.is_in(0, FLASH_BYTES) && !leaf.write && !leaf.execute && !leaf.device;
    }
    if leaf.touches(CONTEXTS, SECURE_RAM_END) {
        return match leaf.input {
            CONTEXTS | STATE => leaf.bytes == PAGE && is_data && leaf.device,
            PLAN_IN_RAM => leaf.bytes == PAGE && !leaf.write && !leaf.execute && !leaf.device,
            // Tables that the payload could write are none.
            _ => leaf.is_in(PAYLOAD, SECURE_RAM_END) && !leaf.device,
        };
    }
    is_data && leaf.device
}

/// States whether an address may be executed.
pub(super) fn is_text(leaves: &[Leaf], address: u64) -> bool {
    leaves.iter().any(|leaf| leaf.execute && !leaf.write && (leaf.input..leaf.end()).contains(&address))
}

/// States whether the payload reaches these registers.
pub(super) fn has_device(leaves: &[Leaf], start: u64, bytes: u64) -> bool {
    let inside: u64 = leaves
        .iter()
        .filter(|leaf| leaf.device && !leaf.other_world && leaf.is_in(start, start.saturating_add(bytes)))
        .map(|leaf| leaf.bytes)
        .sum();
    inside == bytes
}

/// First address of a device in a range.
pub(super) fn device_in(leaves: &[Leaf], start: u64, end: u64) -> Option<u64> {
    leaves.iter().find(|leaf| leaf.device && leaf.touches(start, end)).map(|leaf| leaf.input)
}
