//! An own reader of VMSAv8-64 tables, written from the Arm ARM (DDI 0487, D8.3) and not from the builder.
//!
//! The builder fills tables page by page; this walks them entry by entry and gives back what the hardware would make of
//! each entry: runs of addresses with rights and memory type. Every descriptor bit has to be accounted for: a bit that
//! this reader does not know is a finding, because the hardware might know it.

use crate::board::AddressBits;
use crate::code::Code;
use crate::finding::Findings;
use crate::image::View;
use std::collections::HashSet;

/// Which stage a table is for; the attribute bits differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// EL2 stage 1.
    El2,
    /// Stage 2 of a guest.
    Guest,
    /// Stage 1 of a device, behind the SMMU.
    Device,
}

/// Memory types in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    /// Device-nGnRE.
    Device,
    /// Normal write-back.
    Normal,
    /// Normal non-cacheable.
    NonCacheable,
}

/// Rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rights {
    pub(crate) read: bool,
    pub(crate) write: bool,
    pub(crate) execute: bool,
}

impl Rights {
    pub(crate) const READ: Self = Self { read: true, write: false, execute: false };
    pub(crate) const READ_WRITE: Self = Self { read: true, write: true, execute: false };
    pub(crate) const READ_EXECUTE: Self = Self { read: true, write: false, execute: true };
    pub(crate) const ALL: Self = Self { read: true, write: true, execute: true };
}

impl std::fmt::Display for Rights {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let letter = |has, letter| if has { letter } else { '-' };
        write!(f, "{}{}{}", letter(self.read, 'r'), letter(self.write, 'w'), letter(self.execute, 'x'))
    }
}

/// A run of input addresses that map to a run of output addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) input: u64,
    pub(crate) output: u64,
    pub(crate) bytes: u64,
    pub(crate) rights: Rights,
    pub(crate) memory: Memory,
}

impl Run {
    pub(crate) fn input_end(&self) -> u64 {
        self.input.saturating_add(self.bytes)
    }

    pub(crate) fn output_end(&self) -> u64 {
        self.output.saturating_add(self.bytes)
    }

    fn continues(&self, next: &Self) -> bool {
        self.input_end() == next.input
            && self.output_end() == next.output
            && self.rights == next.rights
            && self.memory == next.memory
    }
}

/// What a walk gives.
#[derive(Clone, Debug, Default)]
pub(crate) struct Map {
    /// Runs by input address, adjacent ones joined.
    pub(crate) runs: Vec<Run>,
    /// Physical addresses of all table pages.
    pub(crate) tables: Vec<u64>,
}

impl Map {
    /// Returns the run that maps an input address.
    pub(crate) fn find(&self, input: u64) -> Option<&Run> {
        self.runs.iter().find(|run| run.input <= input && input < run.input_end())
    }

    /// Returns where an input address leads.
    pub(crate) fn translate(&self, input: u64) -> Option<u64> {
        self.find(input).map(|run| run.output + (input - run.input))
    }
}

const PAGE: u64 = 4096;
const ADDRESS: u64 = 0x0000_ffff_ffff_f000;
const VALID: u64 = 1;
const NOT_BLOCK: u64 = 2;

/// Walks the tables below `root`, which is at the level that VTCR_EL2 or TCR_EL2 says (D8.2.6, 4 KiB granule): 1 for addresses of 31 to 39
/// bits, as every guest has, and 0 for those of 40 to 48 bits.
pub(crate) fn walk(
    view: &View<'_>,
    stage: Stage,
    bits: AddressBits,
    root: u64,
    place: &str,
    findings: &mut Findings,
) -> Map {
    let input_bits = if stage == Stage::El2 { bits.el2 } else { 39 };
    let (input_end, output_end) = (1 << input_bits, 1 << bits.physical);
    let map = Map::default();
    let mut walker = Walker { view, stage, input_end, output_end, place, findings, map, seen: HashSet::new() };
    walker.table(root, if input_bits > 39 { 0 } else { 1 }, 0);
    walker.map
}

struct Walker<'a, 'b> {
    view: &'a View<'b>,
    stage: Stage,
    /// One past the highest address on either side.
    input_end: u64,
    output_end: u64,
    place: &'a str,
    findings: &'a mut Findings,
    map: Map,
    seen: HashSet<u64>,
}

impl Walker<'_, '_> {
    fn bad(&mut self, what: String) {
        let message = format!("{}: {what}", self.place);
        self.findings.add(Code::Table, message);
    }

    fn table(&mut self, address: u64, level: u32, base: u64) {
        let plan = self.view.plan_range();
        if !address.is_multiple_of(PAGE) || address < plan.start || address.saturating_add(PAGE) > plan.end {
            return self.bad(format!("the level-{level} table at {address:#x} is not a page of the plan area"));
        }
        if !self.seen.insert(address) {
            return self.bad(format!("the table at {address:#x} is used for two ranges of addresses"));
        }
        self.map.tables.push(address);
        let covered = PAGE << (9 * (3 - level));
        for index in 0..512 {
            let Some(entry) = self.view.word(address + index * 8) else { return };
            if entry & VALID != 0 {
                self.entry(entry, level, base + index * covered, covered);
            } else if entry != 0 {
                self.bad(format!("the entry for {:#x} is invalid but not zero ({entry:#x})", base + index * covered));
            }
        }
    }

    fn entry(&mut self, entry: u64, level: u32, input: u64, covered: u64) {
        if input >= self.input_end {
            return self.bad(format!("the level-{level} entry for {input:#x} is behind the end of the table"));
        }
        let is_table = level < 3 && entry & NOT_BLOCK != 0;
        if is_table {
            if entry & !(ADDRESS | 3) != 0 {
                self.bad(format!("the table entry for {input:#x} sets more than an address ({entry:#x})"));
            }
            return self.table(entry & ADDRESS, level + 1, input);
        }
        // D8.3.1: pages at level 3 alone, blocks at levels 1 and 2 alone.
        if level == 0 || level == 3 && entry & NOT_BLOCK == 0 {
            return self.bad(format!("the level-{level} entry for {input:#x} has the reserved type ({entry:#x})"));
        }
        let output = entry & ADDRESS;
        if !output.is_multiple_of(covered) || output.saturating_add(covered) > self.output_end {
            let end = self.output_end;
            return self.bad(format!(
                "the entry for {input:#x} leads to {output:#x}, which is misaligned or beyond {end:#x}, where physical addresses end"
            ));
        }
        let decoded = match self.stage {
            Stage::El2 => decode_el2(entry),
            Stage::Guest => decode_guest(entry),
            Stage::Device => decode_device(entry),
        };
        match decoded {
            Some((rights, memory)) => self.push(Run { input, output, bytes: covered, rights, memory }),
            None => {
                self.bad(format!("the entry for {input:#x} has attribute bits that nothing here uses ({entry:#x})"))
            }
        }
    }

    fn push(&mut self, run: Run) {
        match self.map.runs.last_mut() {
            Some(last) if last.continues(&run) => last.bytes += run.bytes,
            _ => self.map.runs.push(run),
        }
    }
}

const ACCESS_FLAG: u64 = 1 << 10;
const SHAREABILITY: u64 = 3 << 8;
const NEVER_EXECUTE: u64 = 1 << 54;

/// Attributes of EL2 stage 1: AttrIndx 4:2, AP 7:6 (bit 6 RES1), SH 9:8, AF 10, XN 54; MAIR_EL2 = 0x44ff04.
fn decode_el2(entry: u64) -> Option<(Rights, Memory)> {
    let known = ADDRESS | 3 | 7 << 2 | 3 << 6 | SHAREABILITY | ACCESS_FLAG | NEVER_EXECUTE;
    if entry & !known != 0 || entry & ACCESS_FLAG == 0 || entry & 1 << 6 == 0 || entry & SHAREABILITY != SHAREABILITY {
        return None;
    }
    let memory = match entry >> 2 & 7 {
        0 => Memory::Device,
        1 => Memory::Normal,
        2 => Memory::NonCacheable,
        _ => return None,
    };
    Some((Rights { read: true, write: entry & 1 << 7 == 0, execute: entry & NEVER_EXECUTE == 0 }, memory))
}

/// Attributes of stage 2: MemAttr 5:2, S2AP 7:6, SH 9:8, AF 10, XN 54 (53 stays zero).
fn decode_guest(entry: u64) -> Option<(Rights, Memory)> {
    let known = ADDRESS | 3 | 0xf << 2 | 3 << 6 | SHAREABILITY | ACCESS_FLAG | NEVER_EXECUTE;
    if entry & !known != 0 || entry & ACCESS_FLAG == 0 || entry & SHAREABILITY != SHAREABILITY {
        return None;
    }
    let memory = match entry >> 2 & 0xf {
        0b0001 => Memory::Device,
        0b1111 => Memory::Normal,
        0b0101 => Memory::NonCacheable,
        _ => return None,
    };
    let (read, write) = (entry & 1 << 6 != 0, entry & 1 << 7 != 0);
    Some((Rights { read, write, execute: read && entry & NEVER_EXECUTE == 0 }, memory))
}

/// Attributes of the SMMU's stage 1 (as of EL1, D8.3): AttrIndx 4:2 (MAIR 0xff alone), AP 7:6 (1: all may write), SH 9:8, AF 10, nG 11,
/// PXN and XN 54:53.
fn decode_device(entry: u64) -> Option<(Rights, Memory)> {
    let attributes = entry & !(ADDRESS | 3);
    let read_write = 1 << 6 | SHAREABILITY | ACCESS_FLAG | 1 << 11 | 3 << 53;
    (attributes == read_write).then_some((Rights::READ_WRITE, Memory::Normal))
}
