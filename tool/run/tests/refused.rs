//! Refused DMA as the host sees it, on an image of the real planner and RAM without a machine (QV-10, OB-1).

use bulkhead_abi::image::RamBank;
use bulkhead_abi::observe::{COUNTERS_MAGIC, CounterPage};
use bulkhead_abi::status::{DmaRecord, StatusPage};
use bulkhead_abi::{PART_OFFSET, Part, PhysicalAddress};
use bulkhead_plan::model::System;
use bulkhead_plan::{AreaKind, samples};
use bulkhead_run::command::{stats_json, stats_text};
use bulkhead_run::{ImagePlan, Observer, Ram};
use serde_json::{Value, json};
use std::sync::Arc;
use zerocopy::{FromZeros, IntoBytes};

/// What F_TRANSLATION is (IHI 0070, 7.3).
const NO_TRANSLATION: u64 = 0x10;

/// A system as it was switched on, and where its event queue is.
fn observed(system: &System) -> (Observer, PhysicalAddress) {
    let mut monitor = samples::monitor();
    monitor.part = Part::Devices;
    monitor.text.splice(PART_OFFSET..PART_OFFSET + 8, monitor.part.mark());
    let image = bulkhead_image::assemble(system, &monitor).expect("the sample fits");
    let plan = ImagePlan::from_bytes(&image.bytes).expect("the image is valid");
    let bank = RamBank { start: PhysicalAddress(0x4000_0000), bytes: system.memory_bytes };
    let ram = Ram::create_in(&[std::env::temp_dir()], &[bank]).expect("there is room");
    let areas = image.plan.areas();
    let queue = areas.iter().find(|area| area.kind == AreaKind::Events).expect("there is an SMMU").address;
    (Observer::new(Arc::new(ram), Arc::new(plan)), queue)
}

/// What the SMMU writes of a transfer.
fn refuse(observer: &Observer, queue: PhysicalAddress, place: u64, stream: u64, address: u64) {
    let words = [stream << 32 | NO_TRANSLATION, 0, address, 0];
    observer.ram().write_at(PhysicalAddress(queue.0 + 32 * place), words.as_bytes()).expect("in RAM");
}

fn of(json: &Value, partition: &str) -> Value {
    json["dma"][partition].clone()
}

#[test]
fn stats_show_what_owners_counted_and_what_waits_in_the_queue() {
    let (observer, queue) = observed(&samples::functions());
    assert_eq!(observer.plan().event_queue, Some(queue), "the queue is where the scripts say");
    let nothing = json!({ "events": 0, "lost": null, "owner_looks": false, "latest": null });
    assert_eq!(of(&stats_json(&observer), "intruder"), nothing);
    assert_eq!(of(&stats_json(&observer), "quiet"), Value::Null, "it has no function");
    // Two functions of `intruder`, which does not look, and one of `linux`, which does and has counted for itself.
    for (place, (stream, address)) in (0..).zip([(0x10, 0x4000_0000), (0x8, 0x5000), (0x30, 0x900_0000)]) {
        refuse(&observer, queue, place, stream, address);
    }
    let entry = &observer.plan().header.partitions[1];
    let page = CounterPage { magic: COUNTERS_MAGIC, ..CounterPage::new_zeroed() };
    observer.ram().write_at(entry.vcpu_counters[0], page.as_bytes()).expect("in RAM");
    let dma = DmaRecord { events: 300, lost: 2, latest: 0x8 << 32 | NO_TRANSLATION, address: 0x6000 };
    observer.ram().write_at(entry.status, StatusPage { dma, ..StatusPage::default() }.as_bytes()).expect("in RAM");
    let text = stats_text(&observer);
    let expected = "\n\
partition  refused DMA          lost                 latest  stream    address
intruder             2  nobody looks  no translation (0x10)    0x30  0x9000000
linux              300             2  no translation (0x10)     0x8     0x6000
office               0  nobody looks                      -       -          -
";
    assert!(text.contains(expected), "{text}");
    let json = stats_json(&observer);
    let latest = |stream: u32, address: u64| json!({ "type": 16, "means": "no translation", "stream": stream, "address": address });
    let intruder = json!({ "events": 2, "lost": null, "owner_looks": false, "latest": latest(0x30, 0x900_0000) });
    assert_eq!(of(&json, "intruder"), intruder);
    let linux = json!({ "events": 300, "lost": 2, "owner_looks": true, "latest": latest(8, 0x6000) });
    assert_eq!(of(&json, "linux"), linux);
}

#[test]
fn a_full_queue_shows_its_256_events() {
    let (observer, queue) = observed(&samples::functions());
    (0..257).for_each(|place| refuse(&observer, queue, place, 0x10, place));
    let dma = of(&stats_json(&observer), "intruder");
    assert_eq!((&dma["events"], &dma["latest"]["address"]), (&json!(256), &json!(255)), "not what lies behind it");
}

/// A system without functions has no such table.
#[test]
fn without_functions_nothing_is_shown() {
    let image = bulkhead_image::assemble(&samples::shared_cores(), &samples::monitor()).expect("the sample fits");
    let plan = ImagePlan::from_bytes(&image.bytes).expect("the image is valid");
    assert_eq!(plan.event_queue, None);
    let bank = RamBank { start: PhysicalAddress(0x4000_0000), bytes: 64 << 20 };
    let ram = Ram::create_in(&[std::env::temp_dir()], &[bank]).expect("there is room");
    let observer = Observer::new(Arc::new(ram), Arc::new(plan));
    assert!(!stats_text(&observer).contains("DMA"));
    assert_eq!(stats_json(&observer)["dma"], json!({}));
}
