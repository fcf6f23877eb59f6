//! The page of partitions below a payload, before and after a run.

use super::evidence_of;
use bulkhead_abi::Part;
use bulkhead_abi::status::{REASON_NONE, REASON_WATCHDOG, STATE_RUNNING, STATE_STOPPED};
use bulkhead_description::Report;
use bulkhead_flash::{ImageBelow, of_hybrid};
use bulkhead_image::{Image, world_maps};
use bulkhead_plan::checksum::crc32c;
use bulkhead_plan::model::{PayloadTask, System, Task};
use bulkhead_plan::{AreaKind, MonitorImage, samples};
use bulkhead_report::timing::{ServerNames, Timing};
use bulkhead_report::{Input, WorldsInput, write_worlds};
use bulkhead_timing::{Assumptions, payload};
use bulkhead_trace::{CoreLayout, EventKind, Layout, ServerLayout, SlotLayout, Timeline};
use bulkhead_verify::world::{SecureMonitor, verify_hybrid};
use bulkhead_verify::{Expected, Monitor};
use bulkhead_world::flash::{PLAN, PLAN_BYTES};

const MS: u64 = 1_000_000;

/// The sample with tasks of the payload, the lower one of this cost.
pub(crate) fn system(cost_ns: u64) -> System {
    let mut system = samples::hybrid_with_channels();
    let task = |name: &str, priority, cost_ns, period_ns| PayloadTask {
        task: Task { name: name.to_owned(), cost_ns, period_ns, deadline_ns: period_ns },
        priority,
    };
    let secure = system.secure.as_mut().expect("two worlds");
    secure.tasks = vec![task("axis", 8, 10 * MS, 50 * MS), task("trajectory", 4, cost_ns, 300 * MS)];
    system
}

fn monitor() -> MonitorImage {
    let mut monitor = samples::monitor();
    monitor.text.splice(64..72, Part::Hybrid.mark());
    MonitorImage { part: Part::Hybrid, ..monitor }
}

/// The page; `damage` is a byte of the flash file to be changed.
pub(crate) fn page_of(system: &System, timeline: Option<&Timeline>, damage: Option<usize>) -> String {
    let secure = system.secure.as_ref().expect("two worlds");
    let monitor = monitor();
    let image: Image = bulkhead_image::assemble(system, &monitor).expect("a plan");
    let pools: Vec<u64> = system.pools().map(|(index, _)| image.plan.layout.address(AreaKind::Pool(index)).0).collect();
    let statuses: Vec<u64> = image.plan.header.partitions().iter().map(|partition| partition.status.0).collect();
    let start = image.plan.header.image_start.0;
    let below = ImageBelow { start, bytes: &image.bytes, pools: &pools, statuses: &statuses };
    let mut flash = of_hybrid(system, &samples::secure_monitor(), below).expect("it fits");
    if let Some(byte) = damage {
        flash.bytes[byte] ^= 1;
        let [plan, end] = [PLAN, PLAN + PLAN_BYTES].map(|at| usize::try_from(at).expect("an offset"));
        if (plan..end).contains(&byte) {
            // Who changes a plan can make its CRC, too.
            let crc = crc32c(&flash.bytes[plan..end - 4]);
            flash.bytes[end - 4..end].copy_from_slice(&crc.to_le_bytes());
        }
    }
    let expected = Expected::only(Monitor::new(&monitor.text, &monitor.rodata));
    let above = SecureMonitor::of_elf(&samples::secure_monitor()).expect("a monitor");
    let assumptions = Assumptions::default();
    let evidence = evidence_of(&image.bytes, &expected);
    let timing = Timing::of_system(system, &ServerNames::default(), &assumptions);
    let input = Input { system, plan: &image.plan, evidence: &evidence, timing: &timing, timeline, experiments: &[] };
    write_worlds(&WorldsInput {
        system,
        secure,
        flash: &flash,
        maps: &world_maps(system, &flash).expect("two worlds"),
        warnings: &Report::default(),
        verdict: &verify_hybrid(&flash.bytes, &above, &expected),
        flash_hash: &"5".repeat(64),
        bounds: &payload::bounds(system, &assumptions).expect("two worlds"),
        assumptions: &assumptions,
        timeline,
        below: Some(&input),
    })
}

/// 500 ms: the payload has a fifth of its core, `control` what a server has of it from 100 ms on, and `drive` is started again.
pub(crate) fn timeline() -> Timeline {
    let slot = |partition, vcpu| SlotLayout { partition, vcpu };
    let server = |name: &str, slot| ServerLayout { name: name.to_owned(), slot, ..ServerLayout::default() };
    let core = |partition, vcpu| CoreLayout { slots: vec![slot(partition, vcpu)], ..CoreLayout::default() };
    let payloads = CoreLayout {
        is_shared: true,
        slots: vec![slot(0, 0), slot(3, 0), slot(4, 0)],
        servers: vec![server("world.rest", 2), server("payload.axis", 1)],
    };
    let mut timeline = Timeline::new(Layout {
        system: "hybrid".to_owned(),
        clock: "counted".to_owned(),
        partitions: ["control", "office", "drive", "payload", "world"].map(str::to_owned).to_vec(),
        cores: vec![payloads, core(1, 0), core(1, 1), core(2, 0)],
        channels: Vec::new(),
    });
    let run = |slot, server| EventKind::Run {
        slot,
        server: Some(server),
        background: server == 0,
        budget_ns: None,
        until_ns: None,
    };
    for period in 0..10 {
        timeline.push(50 * period * MS, 0, run(1, 1));
        timeline.push((50 * period + 10) * MS, 0, run(if period < 2 { 2 } else { 0 }, 0));
    }
    for (core, partition, at) in [(0, 0, 110), (1, 1, 20), (2, 1, 20), (3, 2, 30), (3, 2, 330)] {
        timeline.push(at * MS, core, EventKind::GuestStart { partition, entry: 0 });
    }
    let state = |state, reason| EventKind::State { partition: 2, state, reason };
    timeline.push(230 * MS, 3, state(STATE_STOPPED, REASON_WATCHDOG));
    timeline.push(230 * MS, 3, EventKind::Fault { partition: 2, reason: REASON_WATCHDOG, syndrome: 0, address: 0 });
    timeline.push(330 * MS, 3, state(STATE_RUNNING, REASON_NONE));
    for at in 0..7 {
        timeline.push((120 + at) * MS, 0, EventKind::Interrupt { intid: 27, owner: Some(0), held: false });
    }
    timeline.finish(500 * MS);
    timeline
}
