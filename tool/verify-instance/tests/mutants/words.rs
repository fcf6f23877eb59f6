//! Every word of the head and of the boot tables, set to the smallest and the largest numbers that there are, one at a time: who reads the instance again comes to an end, and refuses it unless another
//! number there makes another good instance.
//!
//! What is accepted is compared with a list in both directions: a field is on it by its name, and one whose other numbers are all refused is not on it. So a field that nobody judges is seen.

use crate::sample::{HEAD, Mutant, PAGE, TABLES, sample};
use crate::{judge, scheduled};
use bulkhead_kernel_abi::Capability;
use bulkhead_kernel_abi::boot::{
    BandRow, BindingRow, BootHeader, CHECKSUM_FROM, ComponentRow, DataRow, DeviceRow, EndPointRow, EntryRow, ExportRow,
    NameRow, PortRow, ProgramRow, QuotaRow, RegionRow, SchedulerRow, SegmentRow, ServerRow, Span, StackRow, TcapRow,
    ThreadRow, WireRow,
};
use bulkhead_kernel_abi::image::{Head, LOAD};
use bulkhead_verify_instance::{Kind, summary};
use core::mem::{offset_of, size_of_val};
use std::collections::BTreeSet;
use std::ops::Range;
use zerocopy::FromZeros;

/// Edges of numbers of 31, 32 and 64 bits.
const WORDS: [u32; 5] = [0, 1, 0x7fff_ffff, 0x8000_0000, u32::MAX];
const LONG_WORDS: [u64; 8] =
    [0, 1, 0x7fff_ffff, 0x8000_0000, u32::MAX as u64, i64::MAX as u64, i64::MIN as u64, u64::MAX];
/// More than there are findings about an instance of which one word is another one.
const FINDINGS: usize = 1000;

/// Fields, by row and name, with their bytes in the row.
macro_rules! fields {
    ($($row:ident: $($field:ident)+;)+) => {
        vec![$($((
            stringify!($row),
            stringify!($field),
            offset_of!($row, $field)..offset_of!($row, $field) + size_of_val(&<$row as FromZeros>::new_zeroed().$field),
        ),)+)+]
    };
}

/// Where another number is another good instance: what somebody is called, how much time he has and how it is spent, what is told to whom, and which of the things that are there a capability is to.
fn free() -> Vec<(&'static str, &'static str, Range<usize>)> {
    fields! {
        ComponentRow: name needs_ticks trust;
        EntryRow: signature;
        ThreadRow: argument label started;
        ServerRow: flags budget_ticks period_ticks smallest_chunk_ticks quantum_ticks background;
        BandRow: longest_period_ticks smallest_budget_ticks admission;
        TcapRow: priority vector;
        BindingRow: bits period_ticks;
        WireRow: doorbell server;
        ExportRow: bits;
        QuotaRow: programs;
        ProgramRow: name floating_point;
        DeviceRow: name;
        PortRow: name record;
        NameRow: name;
        // An empty slot was not granted.
        Capability: kind rights object grant word;
    }
}

/// The spans of boot tables: the row, its bytes, and where the header has the span.
macro_rules! spans {
    ($($span:ident: $row:ident;)+) => { [$((stringify!($row), size_of::<$row>(), |header| header.$span)),+] };
}

type Row = (&'static str, usize, fn(&BootHeader) -> Span);

const SPANS: [Row; 21] = spans! {
    components: ComponentRow;
    entries: EntryRow;
    stacks: StackRow;
    capabilities: Capability;
    threads: ThreadRow;
    servers: ServerRow;
    bands: BandRow;
    schedulers: SchedulerRow;
    tcaps: TcapRow;
    end_points: EndPointRow;
    bindings: BindingRow;
    wires: WireRow;
    exports: ExportRow;
    quotas: QuotaRow;
    regions: RegionRow;
    programs: ProgramRow;
    segments: SegmentRow;
    devices: DeviceRow;
    ports: PortRow;
    data: DataRow;
    names: NameRow;
};

/// What a byte of an instance belongs to, and which byte of it it is.
fn owner(header: &BootHeader, place: usize) -> (&'static str, usize) {
    if place < HEAD + size_of::<Head>() {
        return ("Head", place - HEAD);
    } else if place < TABLES {
        return ("nothing", place - HEAD);
    }
    let inside = place - TABLES;
    if inside < size_of::<BootHeader>() {
        return ("BootHeader", inside);
    }
    let of = |(row, bytes, span): &Row| {
        let (first, count) = (span(header).offset as usize, span(header).count as usize);
        let offset = inside.checked_sub(first).filter(|offset| *offset < count * bytes)?;
        Some((*row, offset % bytes))
    };
    SPANS.iter().find_map(of).unwrap_or(("nothing", inside))
}

/// Judges an instance with other bytes at a place; `None` when it is refused, or else the fields that were changed.
fn accepted(good: &[u8], header: &BootHeader, place: usize, bytes: &[u8]) -> Option<BTreeSet<(&'static str, usize)>> {
    let mut mutant = Mutant(good.to_vec());
    mutant.0[place..place + bytes.len()].copy_from_slice(bytes);
    let changed = (place..place + bytes.len()).filter(|byte| good[*byte] != mutant.0[*byte]);
    let changed: BTreeSet<_> = changed.map(|byte| owner(header, byte)).collect();
    let of_checksum = |(row, offset): &(&str, usize)| {
        *row == "Head" && (offset_of!(Head, checksum)..offset_of!(Head, checksum) + 8).contains(offset)
            || *row == "BootHeader" && (offset_of!(BootHeader, crc)..offset_of!(BootHeader, crc) + 4).contains(offset)
    };
    let has_tables = (CHECKSUM_FROM as u64..PAGE as u64).contains(&mutant.tables().bytes);
    let mutant = if has_tables && !changed.iter().any(of_checksum) { mutant.sealed() } else { mutant };
    let findings = judge(&mutant.0);
    assert!(findings.len() <= FINDINGS, "{} findings for {bytes:x?} in {changed:?}", findings.len());
    // For reports, also of what is refused.
    let _ = summary(&mutant.0);
    findings.is_empty().then_some(changed)
}

/// Sets all words of an instance, one at a time; returns what of it was accepted.
fn words(good: &[u8]) -> BTreeSet<(&'static str, usize)> {
    assert_eq!(judge(good), []);
    let header = Mutant(good.to_vec()).tables();
    let end = TABLES + (header.bytes as usize).next_multiple_of(PAGE);
    let mut free = BTreeSet::new();
    for place in (HEAD..end).step_by(4) {
        let with = |bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            bytes.extend(&good[place + bytes.len()..place + 8]);
            bytes
        };
        // What is nobody's field has to be zero.
        let is_field = owner(&header, place).0 != "nothing";
        let long = LONG_WORDS.iter().filter(|_| is_field && place % 8 == 0).map(|word| word.to_le_bytes().to_vec());
        let others: BTreeSet<_> =
            WORDS.iter().take(if is_field { 5 } else { 2 }).map(|word| with(&word.to_le_bytes())).chain(long).collect();
        for bytes in others.iter().filter(|bytes| **bytes != good[place..place + 8]) {
            free.extend(accepted(good, &header, place, bytes).into_iter().flatten());
        }
    }
    free
}

/// What a word of boot tables says is judged, or named here.
#[test]
fn every_word_at_its_extremes_is_judged_or_free() {
    let samples = [sample(), scheduled::sample()];
    let found: BTreeSet<_> = std::thread::scope(|scope| {
        let tried = samples.each_ref().map(|good| scope.spawn(|| words(good)));
        tried.into_iter().flat_map(|one| one.join().expect("it ends")).collect()
    });
    let fields = free();
    let is_of = |(row, _, bytes): &(&str, &str, Range<usize>), (found, offset): &(&str, usize)| {
        row == found && bytes.contains(offset)
    };
    let unknown: Vec<_> = found.iter().filter(|one| !fields.iter().any(|field| is_of(field, one))).collect();
    assert!(unknown.is_empty(), "other numbers in these bytes are accepted: {unknown:?}");
    let judged: Vec<_> = fields.iter().filter(|field| !found.iter().any(|one| is_of(field, one))).collect();
    assert!(judged.is_empty(), "no other number in these fields is accepted: {judged:?}");
}

/// More rows than there can be are not looked at: 65,536 schedulers have numbers that no word has, and each of thousands of programs would have all pages of the pool again.
#[test]
fn rows_beyond_all_numbers_are_refused_at_once() {
    let most = |name: &str, place: usize, bytes: usize| {
        let mut mutant = Mutant(sample());
        let first = mutant.0.len() - TABLES;
        let count = (1_usize << 16) + 1;
        for _ in 0..(count * bytes).div_ceil(PAGE) {
            mutant.grow();
        }
        let bytes = (mutant.0.len() - TABLES) as u64;
        mutant.set(HEAD + offset_of!(Head, tables_bytes), bytes);
        mutant.set(TABLES + offset_of!(BootHeader, bytes), bytes);
        mutant.set(TABLES + place, (count as u64) << 32 | first as u64);
        let findings = judge(&mutant.sealed().0);
        assert!(
            matches!(&findings[..], [one] if one.kind == Kind::Row),
            "{name}: {} findings, {:?}",
            findings.len(),
            findings.first()
        );
    };
    most("schedulers", offset_of!(BootHeader, schedulers), size_of::<SchedulerRow>());
    most("bindings", offset_of!(BootHeader, bindings), size_of::<BindingRow>());
    most("components", offset_of!(BootHeader, components), size_of::<ComponentRow>());
}

/// A page of rubbish for a translation table has hundreds of mistakes, of which enough are told.
#[test]
fn rubbish_in_all_tables_is_told_in_part() {
    let mut mutant = Mutant(sample());
    let first = (mutant.root(0) - LOAD) as usize;
    mutant.0[first..].fill(0x55);
    let findings = judge(&mutant.sealed().0);
    assert!((500..=FINDINGS).contains(&findings.len()), "{} findings", findings.len());
}
