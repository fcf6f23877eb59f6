//! What each stream reaches: stream table, context descriptors and the tables behind them (Arm SMMUv3, IHI 0070, chapters 3 and 5).

use super::{Devices, Function, Translation};
use crate::area::Use;
use crate::board::AddressBits;
use crate::code::Code;
use crate::finding::Findings;
use crate::image::{Contents, PAGE, Partition, View};
use crate::registers::vtcr;
use crate::walk::{self, Map, Memory, Rights, Run, Stage};
use std::collections::BTreeMap;
use std::ops::Range;

/// Streams of the table, and bytes of an entry.
const STREAMS: u64 = 512;
const ENTRY_BYTES: u64 = 64;
/// Bytes of a command; there are three.
const COMMAND_BYTES: u64 = 16;
/// Bytes of a context descriptor.
const DESCRIPTOR_BYTES: u64 = 64;
const ADDRESS: u64 = 0x000f_ffff_ffff_ffff;
/// STE word 0: valid; what Config says.
const VALID: u64 = 1;
const STAGE_1: u64 = 5 << 1;
const STAGE_2: u64 = 6 << 1;
/// STE word 1 of stage 1: descriptors are read write-back and inner shareable, and memory attributes are those of the bus.
const STAGE_1_WORD_1: u64 = 1 << 2 | 1 << 4 | 3 << 6 | 1 << 44;
/// The same of stage 2: attributes alone.
const STAGE_2_WORD_1: u64 = 1 << 44;
/// CD word 0 without IPS and ASID: 39 bits, 4 KiB, walks write-back and inner shareable, no TTB1, valid, AArch64, faults are recorded
/// and abort, the ASID is the descriptor's own.
const DESCRIPTOR_WORD_0: u64 = 25 | 1 << 8 | 1 << 10 | 3 << 12 | 1 << 30 | 1 << 31 | 1 << 41 | 7 << 45;
/// CD word 3, MAIR: index 0 is normal memory, write-back.
const MAIR: u64 = 0xff;

/// What was read of streams.
#[derive(Default)]
pub(crate) struct Streams {
    /// Table pages of devices, by partition.
    pub(crate) tables: Vec<(usize, u64)>,
    /// Descriptors: where they are, and what their tables reach.
    descriptors: BTreeMap<u64, Vec<Range<u64>>>,
    /// What of RAM each function reaches that does not abort.
    pub(crate) functions: Vec<Master>,
    /// What functions reach, in the order of their streams.
    pub(crate) reaches: Vec<Reached>,
    /// Bytes of the file that were read: start and length.
    pub(crate) used: Vec<(u64, u64)>,
}

/// A function, and what of RAM it reaches, by the addresses that its partition knows it by.
pub(crate) struct Master {
    pub(crate) function: Function,
    pub(crate) ranges: Vec<Range<u64>>,
    /// They are all of its partition's RAM: nothing is to be confined.
    pub(crate) is_all: bool,
}

/// What the DMA of a function reaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reached {
    /// Its StreamID: bus, device and function.
    pub stream: u32,
    /// Name of its partition.
    pub partition: String,
    /// Bytes of its partition's RAM.
    pub bytes: u64,
    /// Bytes of that RAM in all.
    pub of_bytes: u64,
    /// It goes through its partition's stage 2, so it reaches what its guest does.
    pub is_guests: bool,
}

/// Reads the stream table and everything behind it.
pub(crate) fn check(
    view: &View<'_>,
    contents: &Contents,
    bits: AddressBits,
    devices: &Devices,
    translation: &Translation,
    findings: &mut Findings,
) -> Streams {
    let mut streams = Streams::default();
    if devices.boot.is_none() {
        return streams;
    }
    let bytes = STREAMS * ENTRY_BYTES;
    let plan = view.plan_range();
    let (start, end) = (translation.streams, translation.streams.saturating_add(bytes));
    let placed = start.is_multiple_of(bytes) && plan.start <= start && end <= plan.end;
    findings.require(placed, Code::StreamTable, || {
        format!("the stream table at {start:#x} is not aligned to its {bytes:#x} bytes, or not in the plan area")
    });
    if !placed {
        return streams;
    }
    streams.used.push((start, bytes));
    streams.used.push((translation.commands, 3 * COMMAND_BYTES));
    let mut spaces: BTreeMap<u64, (usize, u64)> = BTreeMap::new();
    for stream in 0..STREAMS {
        let entry: Vec<u64> = (0..8).filter_map(|word| view.word(start + stream * ENTRY_BYTES + word * 8)).collect();
        let [first, rest @ ..] = entry.as_slice() else { return streams };
        let is_zero = rest.iter().all(|word| *word == 0);
        let function = devices.functions.iter().find(|function| u64::from(function.plan.stream) == stream);
        match (function, first & 0xf) {
            (Some(function), _) if *first == VALID && is_zero => {
                let partition = contents.partitions.get(function.partition);
                streams.reaches.extend(partition.map(|partition| reached(partition, function, 0, false)));
            }
            _ if *first == VALID && is_zero => {}
            (None, _) => findings
                .add(Code::StreamEntry, format!("stream {stream:#x} is nobody's and does not abort ({first:#x})")),
            (Some(function), config) => {
                let partition = contents.partitions.get(function.partition);
                let Some(partition) = partition else { continue };
                if config == VALID | STAGE_1 {
                    let mut reader = Reader { view, bits, streams: &mut streams, spaces: &mut spaces, findings };
                    reader.stage_1(partition, function, &entry, translation);
                } else {
                    stage_2(contents, partition, function, &entry, translation, &mut streams, findings);
                }
            }
        }
    }
    streams
}

struct Reader<'a, 'b> {
    view: &'a View<'b>,
    bits: AddressBits,
    streams: &'a mut Streams,
    /// Descriptors by ASID: the partition and the descriptor that have it.
    spaces: &'a mut BTreeMap<u64, (usize, u64)>,
    findings: &'a mut Findings,
}

impl Reader<'_, '_> {
    fn stage_1(&mut self, partition: &Partition, function: &Function, entry: &[u64], translation: &Translation) {
        let word = |index: usize| entry.get(index).copied().unwrap_or(0);
        let descriptor = word(0) & ADDRESS & !0x3f;
        let rest = entry.iter().skip(2).all(|word| *word == 0);
        let good =
            word(0) == descriptor | VALID | STAGE_1 && word(1) == STAGE_1_WORD_1 && rest && translation.stages[0];
        self.findings.require(good, Code::StreamEntry, || {
            format!(
                "{}: the entry of its stream ({:#x}, {:#x}) does not translate by one descriptor",
                function.name(),
                word(0),
                word(1)
            )
        });
        let plan = self.view.plan_range();
        let words: Vec<u64> = (0..8).filter_map(|index| self.view.word(descriptor + index * 8)).collect();
        let (Some(head), Some(table)) = (words.first(), words.get(1)) else {
            return self
                .findings
                .add(Code::ContextDescriptor, format!("{}: no descriptor at {descriptor:#x}", function.name()));
        };
        let space = head >> 48;
        // IPS has the code of VTCR_EL2.PS.
        let output_bits = vtcr(self.bits.physical) >> 16 & 7;
        let exact = head & 0x0000_ffff_ffff_ffff == DESCRIPTOR_WORD_0 | output_bits << 32
            // Eight bits, because not every SMMU has sixteen.
            && (1..=0xff).contains(&space)
            && table & !(ADDRESS & !(PAGE - 1)) == 0
            && words.iter().enumerate().skip(2).all(|(index, word)| *word == if index == 3 { MAIR } else { 0 })
            && plan.contains(&descriptor)
            && descriptor.saturating_add(DESCRIPTOR_BYTES) <= plan.end;
        self.findings.require(exact, Code::ContextDescriptor, || {
            format!(
                "{}: the descriptor at {descriptor:#x} ({words:x?}) is not the one that its tables need",
                function.name()
            )
        });
        // Cached translations are told apart by ASID alone.
        let owner = *self.spaces.entry(space).or_insert((function.partition, descriptor));
        self.findings.require(owner == (function.partition, descriptor), Code::ContextDescriptor, || {
            format!("{}: address space {space} is that of partition {} too", function.name(), owner.0)
        });
        // Functions of one partition may share one; of two, they would share its address space.
        let known = self.streams.descriptors.get(&descriptor).cloned();
        let ranges = known.unwrap_or_else(|| {
            self.streams.used.push((descriptor, DESCRIPTOR_BYTES));
            let place = format!("device tables of {}", function.name());
            let map = walk::walk(self.view, Stage::Device, self.bits, *table, &place, self.findings);
            self.streams.tables.extend(map.tables.iter().map(|table| (function.partition, *table)));
            self.reach(partition, function, &map)
        });
        let bytes = ranges.iter().map(|range| range.end - range.start).sum();
        self.streams.descriptors.insert(descriptor, ranges.clone());
        self.streams.reaches.push(reached(partition, function, bytes, false));
        let (function, is_all) = (function.clone(), bytes == ram_bytes(partition));
        self.streams.functions.push(Master { function, ranges, is_all });
    }

    /// Every run leads where the partition's own RAM is, and nowhere else. Returns what of it that is.
    fn reach(&mut self, partition: &Partition, function: &Function, map: &Map) -> Vec<Range<u64>> {
        for run in &map.runs {
            let in_ram = partition.plan.ram().iter().any(|ram| {
                let offset = run.input.checked_sub(ram.guest.0);
                offset.is_some_and(|offset| {
                    offset.saturating_add(run.bytes) <= ram.bytes && run.output == ram.physical.0.saturating_add(offset)
                })
            });
            let as_memory = run.rights == Rights::READ_WRITE && run.memory == Memory::Normal;
            self.findings.require(in_ram && as_memory, Code::DeviceTable, || {
                format!(
                    "{}: {:#x}..{:#x} leads to {:#x} ({}), which is not RAM of its partition at that address",
                    function.name(),
                    run.input,
                    run.input_end(),
                    run.output,
                    run.rights
                )
            });
        }
        map.runs.iter().map(|run: &Run| run.input..run.input_end()).collect()
    }
}

/// The partition's own tables: what its guest reaches, its functions do.
fn stage_2(
    contents: &Contents,
    partition: &Partition,
    function: &Function,
    entry: &[u64],
    translation: &Translation,
    streams: &mut Streams,
    findings: &mut Findings,
) {
    let vtcr = contents.vcpus_of(partition.index).next().map_or(0, |vcpu| vcpu.plan.vtcr);
    // VTCR_EL2 has T0SZ, SL0, IRGN0, ORGN0, SH0, TG0 and PS in the order of the entry's fields (5.2).
    let fields = (vtcr & 0x7_ffff) << 32;
    let with = 1 << 51 | 1 << 53 | 1 << 58;
    let vmid = partition.index as u64 + 1;
    let expected = [VALID | STAGE_2, STAGE_2_WORD_1, vmid | fields | with, partition.entry.stage2_root.0, 0, 0, 0, 0];
    let good = entry == expected && translation.stages[1];
    findings.require(good, Code::StreamEntry, || {
        format!("{}: the entry of its stream ({entry:x?}) is not {expected:x?}", function.name())
    });
    streams.reaches.push(reached(partition, function, ram_bytes(partition), true));
    let ranges = partition.plan.ram().iter().map(|ram| ram.guest.0..ram.guest.0.saturating_add(ram.bytes)).collect();
    streams.functions.push(Master { function: function.clone(), ranges, is_all: true });
}

fn ram_bytes(partition: &Partition) -> u64 {
    partition.plan.ram().iter().map(|ram| ram.bytes).sum()
}

fn reached(partition: &Partition, function: &Function, bytes: u64, is_guests: bool) -> Reached {
    let (stream, of_bytes) = (function.plan.stream, ram_bytes(partition));
    Reached { stream, partition: partition.name().to_owned(), bytes, of_bytes, is_guests }
}

/// Areas of the file and of the monitor's memory that belong to devices: start, bytes, use.
pub(crate) fn areas(devices: &Devices, translation: &Translation, streams: &Streams) -> Vec<(u64, u64, Use)> {
    use bulkhead_abi::devices::{BootDevices, DevicePlan, EVENT_BYTES, EVENT_ENTRIES};
    let mut areas: Vec<(u64, u64, Use)> = Vec::new();
    for (partition, (place, _)) in &devices.plans {
        areas.push((place.0, size_of::<DevicePlan>() as u64, Use::DevicePlan(*partition)));
    }
    areas.extend(crate::fronts::areas(devices));
    let Some((place, _)) = devices.boot else { return areas };
    areas.push((place.0, size_of::<BootDevices>() as u64, Use::BootDevices));
    areas.push((translation.streams, STREAMS * ENTRY_BYTES, Use::StreamTable));
    areas.push((translation.events, u64::from(EVENT_ENTRIES) * EVENT_BYTES, Use::Events));
    let pages = streams.descriptors.keys().chain([&translation.commands]);
    areas.extend(pages.map(|address| (address - address % PAGE, PAGE, Use::Descriptors)));
    areas.extend(streams.tables.iter().map(|(partition, table)| (*table, PAGE, Use::DeviceTables(*partition))));
    areas
}
