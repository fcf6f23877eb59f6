//! A system with a shared core, a trace of it and results of experiments, and the page made of them.
#![allow(dead_code, reason = "each test file uses a part")]

pub(crate) mod hybrid;
pub(crate) mod markup;

use bulkhead_description::Report;
use bulkhead_plan::model::{Gate, OnEmpty, RouteRule, Schedule, ScheduleKind, Server, System};
use bulkhead_plan::{model, samples};
use bulkhead_report::experiment::Experiment;
use bulkhead_report::timing::{CoreTiming, ServerBound, ServerNames, SlotBound, Timing};
use bulkhead_report::{Evidence, Input, write};
use bulkhead_trace::{ChannelLayout, EventKind, Layout, Timeline};
use serde_json::json;

const MILLISECOND: u64 = 1_000_000;
/// One step of the hand-made schedule.
const STEP: u64 = 50_000;
/// INTID of the device of `gateway`.
const DEVICE: u32 = 34;
/// INTID of the doorbell.
const DOORBELL: u32 = 82;

/// `control`, `gateway` and `linux` share core 0; `alone` owns core 1.
pub(crate) fn system() -> System {
    let mut control = samples::native("control", &[0]);
    control.criticality = model::Criticality::High;
    control.servers = vec![samples::sporadic(1, 2 * MILLISECOND, 10 * MILLISECOND)];
    let mut gateway = samples::native("gateway", &[0]);
    gateway.virtual_uart = true;
    gateway.devices = vec![0];
    gateway.device_routes = vec![model::Route { rule: RouteRule::Priority, ..model::Route::default() }];
    let background = OnEmpty::Background(40);
    gateway.servers = vec![Server { on_empty: background, ..samples::sporadic(5, 3 * MILLISECOND, 15 * MILLISECOND) }];
    let mut linux = samples::linux("linux", &[0]);
    linux.trusted = false;
    linux.criticality = model::Criticality::Low;
    linux.servers = vec![Server { gate: Gate::Always, ..samples::unlimited(9) }];
    let channels = vec![
        samples::channel("telemetry", 0, 2, model::PortKind::Sampling, 64),
        samples::channel("orders", 2, 0, model::PortKind::Queuing { depth: 16 }, 200),
    ];
    let mut system = samples::system(vec![control, gateway, linux, samples::native("alone", &[1])], channels);
    system.schedules = vec![Schedule {
        board_core: 0,
        kind: ScheduleKind::FixedPriority { quanta: Vec::new() },
        eager_floating_point: false,
    }];
    system
}

/// Schedule of the system with bounds as the analysis would give them.
pub(crate) fn timing(system: &System) -> Timing {
    let mut cores = CoreTiming::of_system(system, &ServerNames::default());
    let fits = |text: &str| Some((true, text.to_owned()));
    let bounds = [
        (fits("certain"), Some(2_010_000), Some(4_000_000)),
        (fits("certain"), Some(5_020_000), Some(6_000_000)),
        (None, None, None),
    ];
    for (server, (verdict, response_ns, most_in_period_ns)) in cores[0].servers.iter_mut().zip(bounds) {
        server.bound = ServerBound { verdict, response_ns, most_in_period_ns };
    }
    let slots = [
        (
            Some(10_000),
            Some(8_020_000),
            Some(8_020_000),
            vec![(20 * MILLISECOND, 2_000_000), (100 * MILLISECOND, 18_000_000)],
        ),
        (
            Some(2_020_000),
            Some(14_030_000),
            Some(14_030_000),
            vec![(20 * MILLISECOND, 0), (100 * MILLISECOND, 15_000_000)],
        ),
        (None, Some(7_040_000), Some(7_040_000), vec![(20 * MILLISECOND, 8_000_000), (100 * MILLISECOND, 56_000_000)]),
    ];
    for (slot, (conforming, drained, blackout, supply)) in cores[0].slots.iter_mut().zip(slots) {
        slot.bound =
            SlotBound { conforming_wait_ns: conforming, drained_wait_ns: drained, blackout_ns: blackout, supply };
    }
    Timing { cores, ..Timing::default() }
}

/// A job of a partition in the hand-made schedule.
#[derive(Clone, Copy, Default)]
struct Job {
    left_ns: u64,
    budget_ns: u64,
}

/// A second of the shared core: `control` every 10 ms, `gateway` when its device says so, `linux` in between.
pub(crate) fn timeline(system: &System) -> Timeline {
    let mut timeline = Timeline::new(layout(system));
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |limit: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % limit
    };
    let mut jobs = [Job::default(), Job::default()];
    let (mut running, mut next_interrupt) = (usize::MAX, 3 * MILLISECOND);
    for time in (0..1000 * MILLISECOND).step_by(STEP as usize) {
        if time.is_multiple_of(10 * MILLISECOND) {
            jobs[0] = Job { left_ns: STEP * (16 + random(24)), budget_ns: 2 * MILLISECOND };
            timeline.push(time, 0, EventKind::Wake { slot: 0, interrupt: Some(27) });
            timeline.push(time, 0, EventKind::Replenished { server: 0, budget_ns: Some(2 * MILLISECOND) });
        }
        if time >= next_interrupt {
            next_interrupt = time + 15 * MILLISECOND + STEP * random(200);
            timeline.push(time, 0, EventKind::Interrupt { intid: DEVICE, owner: Some(1), held: running != 1 });
            timeline.push(time, 0, EventKind::Wake { slot: 1, interrupt: Some(DEVICE) });
            jobs[1] = Job { left_ns: jobs[1].left_ns + STEP * (20 + random(70)), budget_ns: 3 * MILLISECOND };
        }
        let ready = (0..2).find(|slot| jobs[*slot].left_ns > 0 && jobs[*slot].budget_ns > 0);
        // Out of budget, the gateway continues in the background, below linux every other millisecond.
        let background = (jobs[1].left_ns > 0 && (time / MILLISECOND).is_multiple_of(2)).then_some(1);
        let next = ready.or(background).unwrap_or(2);
        let is_background = next == 1 && jobs[1].budget_ns == 0;
        if next != running {
            let budget_ns = jobs.get(next).map(|job| job.budget_ns).filter(|_| !is_background);
            let kind =
                EventKind::Run { slot: next, server: Some(next), background: is_background, budget_ns, until_ns: None };
            timeline.push(time, 0, kind);
            running = next;
        }
        let Some(job) = jobs.get_mut(next) else { continue };
        job.left_ns -= STEP;
        if !is_background {
            job.budget_ns -= STEP;
            if job.budget_ns == 0 && job.left_ns > 0 {
                timeline.push(time + STEP, 0, EventKind::Exhausted { server: next });
            }
        }
        if job.left_ns == 0 {
            timeline.push(time + STEP, 0, EventKind::Block { slot: next });
        }
    }
    timeline.push(500_000, 1, EventKind::GuestStart { partition: 2, entry: 0x4000_0000 });
    for index in 0..40 {
        let sent = index % 5 != 4;
        timeline.push(20 * MILLISECOND * index + 70_000, 1, EventKind::Doorbell { partition: 2, channel: 1, sent });
        if sent {
            let kind = EventKind::Interrupt { intid: DOORBELL, owner: Some(0), held: false };
            timeline.push(20 * MILLISECOND * index + 90_000, 0, kind);
        }
    }
    timeline.finish(1000 * MILLISECOND);
    timeline
}

fn layout(system: &System) -> Layout {
    let channel = |channel: &model::Channel| ChannelLayout {
        name: channel.name.clone(),
        source: channel.source.partition,
        destination: channel.destination.partition,
        doorbell_interrupt: Some(DOORBELL),
    };
    Layout {
        system: system.name.clone(),
        clock: "instructions, not cycles: each takes 16 ns".to_owned(),
        partitions: system.partitions.iter().map(|partition| partition.name.clone()).collect(),
        cores: timing(system).cores.iter().map(CoreTiming::layout).collect(),
        channels: system.channels.iter().map(channel).collect(),
    }
}

pub(crate) fn experiments() -> Vec<Experiment> {
    let curve = |name: &str, add: f64| {
        let points: Vec<_> = (2..=6).map(|guests| (f64::from(guests), add + 14.9 * f64::from(guests - 1))).collect();
        json!({ "name": name, "x": "guests", "y": "mean round trip, ms", "points": points })
    };
    let result = json!({
        "name": "mips-rtt",
        "what": "answer times of a wire's owner in a ring of guests",
        "how": "requests every 50 ms, quantum 30 ms",
        "length": "short",
        "command": "./x bench mips-rtt",
        "verdict": "met",
        "cells": [
            { "label": "2 guests, none", "unit": "ms", "published": 15.92, "model": 15.87, "ours": 15.9, "tolerance_percent": 3.0, "holds": true },
            { "label": "2 guests, reset", "unit": "ms", "published": 1.07, "model": 1.073, "ours": 1.0731, "tolerance_percent": 3.0, "holds": true },
            { "label": "interrupts", "unit": "", "published": null, "model": null, "ours": 120_000.0, "tolerance_percent": null, "holds": true },
        ],
        "claims": [{ "text": "reset is never slower than recycled", "holds": true }],
        "series": [curve("none", 1.0), curve("recycled", -13.0), curve("reset", -14.0)],
        "notes": ["the seed measured on a board of its own"],
    });
    vec![Experiment::from_json(&result).expect("it has a name")]
}

/// The evidence about a planned system.
pub(crate) fn evidence(image: &[u8]) -> Evidence {
    let monitor = samples::monitor();
    evidence_of(image, &bulkhead_verify::Expected::only(bulkhead_verify::Monitor::new(&monitor.text, &monitor.rodata)))
}

/// The evidence about an image that must hold one of these monitors.
pub(crate) fn evidence_of(image: &[u8], expected: &bulkhead_verify::Expected) -> Evidence {
    Evidence {
        warnings: Report::default(),
        verdict: bulkhead_verify::verify_bytes(image, expected),
        image_hash: bulkhead_verify::hash(image).iter().map(|byte| format!("{byte:02x}")).collect(),
        image_bytes: image.len() as u64,
    }
}

/// The page of a system, with everything that there can be on it.
pub(crate) fn page_of(
    system: &System,
    timing: &Timing,
    timeline: Option<&Timeline>,
    experiments: &[Experiment],
) -> String {
    let mut monitor = samples::monitor();
    if !bulkhead_plan::part_of(system).is_served_by(monitor.part) {
        monitor.part = bulkhead_plan::part_of(system);
        monitor.text.splice(64..72, monitor.part.mark());
    }
    let image = bulkhead_image::assemble(system, &monitor).expect("the sample fits");
    let evidence = evidence(&image.bytes);
    write(Input { system, plan: &image.plan, evidence: &evidence, timing, timeline, experiments })
}

pub(crate) fn page() -> String {
    let system = system();
    page_of(&system, &timing(&system), Some(&timeline(&system)), &experiments())
}
