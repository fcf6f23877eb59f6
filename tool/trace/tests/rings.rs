//! Rings that are whole, overwritten, cut or damaged, and the timelines and text that come out.

mod support;

use bulkhead_abi::observe::{TRACE_HEADER_BYTES, TRACE_SWITCH, TraceRecord};
use bulkhead_trace::ring::{Batch, RingReader, decode};
use bulkhead_trace::{EventKind, Timeline, perfetto, text};
use support::{COUNTER_HZ, Random, dedicated_core, layout, linux_runs, record, ring, shared_core, timeline};

fn many(count: u64) -> Vec<TraceRecord> {
    (0..count).map(|index| linux_runs(index * 10)).collect()
}

#[test]
fn a_whole_ring_is_read_in_order_and_only_once() {
    let bytes = ring(64, &shared_core());
    assert_eq!(decode(&bytes), Batch { records: shared_core(), lost: 0, warnings: Vec::new() });
    let mut reader = RingReader::new(bytes.len() as u64);
    assert_eq!(reader.poll(bytes.as_slice()).records.len(), shared_core().len());
    assert_eq!(reader.poll(bytes.as_slice()), Batch::default(), "nothing is new");
}

#[test]
fn an_overwritten_ring_has_its_newest_records_and_says_how_many_are_gone() {
    let batch = decode(&ring(16, &many(20)));
    // One slot may be under way while the ring is read.
    assert_eq!((batch.records.as_slice(), batch.lost), (&many(20)[5..], 5));
    assert_eq!(batch.warnings, Vec::<String>::new());
}

#[test]
fn a_cut_ring_is_read_up_to_the_cut() {
    let records = many(10);
    let whole = ring(16, &records);
    for length in 0..whole.len() {
        let batch = decode(&whole[..length]);
        let kept = (length as u64).saturating_sub(TRACE_HEADER_BYTES) / 32;
        let kept = if length < 32 { 0 } else { kept.min(10) as usize };
        assert_eq!(batch.records, records[..kept], "cut at {length}");
        assert_eq!(batch.warnings.is_empty(), kept == 10, "cut at {length}: {:?}", batch.warnings);
    }
    let batch = decode(&whole[..TRACE_HEADER_BYTES as usize + 3 * 32 + 7]);
    assert_eq!(
        (batch.lost, batch.warnings.as_slice()),
        (7, ["the ring is cut: 7 of its 10 records are not in it".to_owned()].as_slice())
    );
}

#[test]
fn a_cut_ring_that_had_wrapped_keeps_what_is_there() {
    let whole = ring(16, &many(24));
    // Slots 0 to 7 hold records 16 to 23, slots 8 to 15 hold 8 to 15; the last four slots are cut off.
    let batch = decode(&whole[..whole.len() - 4 * 32]);
    let times: Vec<_> = batch.records.iter().map(|record| record.time_ticks / 10).collect();
    assert_eq!(times, [9, 10, 11, 16, 17, 18, 19, 20, 21, 22, 23]);
    assert_eq!(batch.warnings.len(), 1);
}

#[test]
fn damaged_rings_never_stop_the_decoder() {
    let mut random = Random(0x5eed_0001);
    for case in 0..2000 {
        let mut bytes = ring(16, &many(random.below(40)));
        for _ in 0..=random.below(12) {
            // Mostly the head, where a wrong number does most harm.
            let end = if random.below(3) > 0 { 32 } else { bytes.len() as u64 };
            let at = random.below(end) as usize;
            bytes[at] = random.below(256) as u8;
        }
        let batch = decode(&bytes);
        assert!(batch.records.len() <= bytes.len() / 32, "case {case}");
        let timeline = Timeline::from_records(layout(), COUNTER_HZ, &[batch]);
        let _ = text::lines(&timeline);
        let file = perfetto::write(&timeline);
        let back = perfetto::read(&file).unwrap_or_else(|error| panic!("case {case}: {error}"));
        assert_eq!(back.events.len(), timeline.events.len(), "case {case}");
    }
}

#[test]
fn what_cannot_be_understood_becomes_a_warning() {
    let mut records = shared_core();
    records.push(record(4100, 0, 0, 77, 1, 2, 3));
    records.push(record(4200, 5, 0, TRACE_SWITCH, 0, 0, 0));
    records.push(record(4050, 0, 0xff, TRACE_SWITCH, 0, 0, 0));
    let timeline = Timeline::from_records(layout(), COUNTER_HZ, &[decode(&ring(64, &records))]);
    let warnings = timeline.warnings.join("\n");
    assert!(warnings.contains("core 0: 1 records are damaged"), "{warnings}");
    assert!(warnings.contains("1 records are of a kind that this tool does not know"), "{warnings}");
    assert!(warnings.contains("1 records bear an earlier time"), "{warnings}");
    let remark = timeline.events.iter().find(|event| matches!(event.kind, EventKind::Mark { .. }));
    assert_eq!(remark.map(|event| event.time_ns), Some(4100 * 16));
    assert_eq!(timeline.events.last().map(|event| (event.time_ns, &event.kind)), Some((4100 * 16, &EventKind::Idle)));
}

#[test]
fn who_ran_when_on_shared_and_dedicated_cores() {
    let timeline = timeline();
    let runs: Vec<_> = timeline.runs(0).iter().map(|run| (run.slot, run.from_ns / 16, run.to_ns / 16)).collect();
    let expected = [
        (1, 10, 1005),
        (0, 1005, 1055),
        (1, 1055, 2010),
        (0, 2010, 2110),
        (1, 2110, 3010),
        (0, 3010, 3020),
        (1, 3020, 3500),
    ];
    assert_eq!(runs, expected);
    let dedicated: Vec<_> = timeline.runs(1).iter().map(|run| (run.slot, run.from_ns / 16, run.to_ns / 16)).collect();
    assert_eq!(dedicated, [(0, 5, 4005)]);
    // Without its beginning, the guest of a dedicated core is known to run from the first record on.
    let batch = Batch { records: dedicated_core().split_off(2), lost: 2, warnings: Vec::new() };
    let cut = Timeline::from_records(layout(), COUNTER_HZ, &[Batch::default(), batch]);
    let runs: Vec<_> = cut.runs(1).iter().map(|run| (run.from_ns / 16, run.to_ns / 16)).collect();
    assert_eq!((runs.as_slice(), cut.is_complete()), ([(1900, 4005)].as_slice(), false));
}

#[test]
fn the_text_names_everybody() {
    let text = text::lines(&timeline());
    for line in [
        "         16000 core 0 control      interrupt 34, waits for its owner",
        "         16000 core 0 control      ready: interrupt 34",
        "         16080 core 0 control      runs on server control, 1.6 us in hand",
        "         33760 core 0 control      budget used up",
        "         33760 core 0 linux        runs on server linux",
        "         48160 core 0 control      budget back: 1.6 us",
        "         56000 core 0 -            idle",
        "         30400 core 1 sensor       doorbell of channel samples\n",
        "         31200 core 1 sensor       doorbell of channel samples, limited",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}
