//! The SPUMONE seed at EL2: an RTOS above a general-purpose guest on one core.

use super::guests::{TICK_NS, printed, served};
use super::{Cell, Findings, Length, Series};
use crate::Failure;
use crate::costs;
use crate::lab::{Lab, Variant, partition_lines};
use crate::linux::stamp;
use crate::model::spumone::{Delays, Tick};
use crate::model::statistics::{Served, Summary, histogram};
use crate::paths::ONE_TICK_SHIFT;
use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::plan::RamRegion;
use bulkhead_analysis::costs::RECORDED;
use bulkhead_run::{CountingOptions, Passages};
use std::time::Duration;

const NAME: &str = "experiments/spumone-dispatch";
/// Linux boots and works at 62.5 million instructions a second of virtual time.
const LIMIT: Duration = Duration::from_secs(900);
/// Longest time in which the monitor takes no interrupt while the other guest computes, in instructions.
const LONGEST_PATH: f64 = 300.0;

/// Delays of a wire's interrupts, in ticks of the counter, which are instructions.
fn delays(served: &[Served]) -> Vec<f64> {
    served.iter().map(|one| (one.entered_ns - one.request_ns) as f64 / TICK_NS as f64).collect()
}

/// A load of the general-purpose guest.
struct Load {
    label: &'static str,
    arguments: &'static str,
}

/// The load beside which the other figures are taken.
const COMPUTING: &str = "L1, computing";

const LOADS: &[Load] = &[
    Load { label: "L0, idle", arguments: "role=wire requests=1 background=sleep start_us=3000000000" },
    Load { label: COMPUTING, arguments: "role=hog log=0" },
    Load {
        label: "L1, computing something else",
        arguments: "role=wire requests=1 background=compute start_us=3000000000",
    },
    Load {
        label: "L2, interrupt every 0.1 ms with 5 us masked",
        arguments: "role=wire requests=100000000 spacing_us=100 handler_ns=5000 background=compute",
    },
    Load { label: "L3, 50 us masked", arguments: "role=load section_us=50" },
    Load { label: "L3, 200 us masked", arguments: "role=load section_us=200" },
    Load { label: "L3, 1000 us masked", arguments: "role=load section_us=1000" },
];

/// Delays of the RTOS's interrupts, and the passages of the monitor meanwhile, counted by a plugin of the emulator.
fn rtos(lab: &Lab, changes: &[(&str, &str)]) -> Result<(Vec<f64>, Passages), Failure> {
    let mut machine = lab.start(Variant { name: NAME, changes }, |options| {
        options.icount_shift = Some(ONE_TICK_SHIFT);
        options.counting = options.plan.as_ref().map(CountingOptions::for_monitor);
    })?;
    machine.wait_for_line("rtos", "experiment done", LIMIT)?;
    let found = delays(&served(&machine, "rtos")?);
    let counts = machine.counts()?;
    machine.quit();
    let core = counts.cores.first().filter(|core| core.entered && counts.ram_found);
    let core = core.ok_or_else(|| Failure::wrong("no core was counted".to_owned()))?;
    Ok((found, core.passages))
}

fn cell(label: &str, samples: &Summary, value: f64) -> Cell {
    let range = format!(
        "{label} (min {:.0}, mean {:.1}, max {:.0}, n {})",
        samples.minimum, samples.mean, samples.maximum, samples.count
    );
    Cell { label: range, unit: "instructions", ours: Some(value), ..Cell::default() }
}

/// SP-E2, SP-E4 and SP-E5 (1).
pub(super) fn dispatch(lab: &Lab, length: Length) -> Result<Findings, Failure> {
    let mut findings = Findings::default();
    let count = format!("requests={} ", length.choose(2_000, 20_000));
    let requests = ("requests=20000 ", count.as_str());
    // As a partition of its own in `direct` mode, where the interrupt takes the hardware's way: the native figure.
    let alone = [
        (
            "requests=10000 spacing_us=50000 dither_us=500 handler_ns=350000",
            "requests=20000 spacing_us=1000 dither_us=100 handler_ns=0",
        ),
        requests,
        ("memory = \"16 MiB\"", "memory = \"16 MiB\"\ninterrupts = \"direct\""),
    ];
    let machine = lab.run(Variant { name: "experiments/wire-alone", changes: &alone }, |options| {
        options.icount_shift = Some(ONE_TICK_SHIFT);
    })?;
    let native = Summary::of(&delays(&served(&machine, "owner")?));
    findings.cells.push(cell("native", &native, native.maximum));
    let own = Summary::of(&rtos(lab, &[requests, ("background=sleep", "background=compute")])?.0);
    findings.cells.push(cell("the RTOS runs", &own, own.maximum));
    let mut switched = Vec::new();
    let mut switches = None;
    for load in LOADS {
        let (samples, passages) = rtos(lab, &[requests, ("role=hog log=0", load.arguments)])?;
        if load.label == COMPUTING {
            switches = Some(passages);
        }
        let summary = Summary::of(&samples);
        findings.cells.push(cell(&format!("the other guest runs, {}", load.label), &summary, summary.maximum));
        let points = histogram(&samples, 10.0);
        findings.series.push(Series { name: load.label.to_owned(), x: "delay, instructions", y: "interrupts", points });
        switched.push((load.label, summary));
    }
    judge(&mut findings, &native, &own, &switched);
    judge_switches(&mut findings, &own, &switched, &switches.unwrap_or_default());
    Ok(findings)
}

fn named<'s>(switched: &'s [(&str, Summary)], label: &str) -> Option<&'s Summary> {
    switched.iter().find(|(one, _)| one.starts_with(label)).map(|(_, summary)| summary)
}

/// SP-E2: what the RTOS waits for longer when the other guest runs is the passage of the monitor that saves and loads. SP-18: a
/// forced and a voluntary switch apart. SP-E4 (iii): what the other guest computes makes no difference.
fn judge_switches(findings: &mut Findings, own: &Summary, switched: &[(&str, Summary)], passages: &Passages) {
    let Some(computing) = named(switched, COMPUTING) else { return };
    // Beside a guest that always computes there are two kinds: the RTOS's WFI, and its timer, whose own interrupt follows at once.
    let forced = passages.shortest_chained;
    let voluntary = passages.enter.0 + passages.leave.0;
    for (what, length) in [("forced, by the RTOS's interrupt", forced), ("voluntary, by its WFI", voluntary)] {
        findings.cells.push(Cell {
            label: format!("switch, {what}, floating point at its first use"),
            unit: "instructions",
            ours: Some(length as f64),
            ..Cell::default()
        });
    }
    let difference = computing.median - own.median;
    findings.claim(
        (difference - forced as f64).abs() <= 1.0,
        format!("c2 - c1 = {difference:.0} instructions: the passage that saves and loads, {forced}, and at most one of the guest"),
    );
    let rows = switched.iter().filter(|(label, _)| label.starts_with(COMPUTING));
    let far = rows.map(|(_, summary)| (summary.mean / computing.mean - 1.0).abs()).fold(0.0, f64::max);
    findings.claim(far <= 0.01, format!("whatever the other guest computes: rows L1 differ by {:.2} %", far * 100.0));
}

fn judge(findings: &mut Findings, native: &Summary, own: &Summary, switched: &[(&str, Summary)]) {
    let Some(computing) = named(switched, COMPUTING) else { return };
    let delays = Delays { native: native.median, own: own.median, switched: computing.median };
    findings.claim(
        delays.are_ordered(),
        format!("c0 = {:.0} < c1 = {:.0} < c2 = {:.0} instructions", delays.native, delays.own, delays.switched),
    );
    findings.claim(
        native.minimum == native.maximum && own.minimum == own.maximum,
        format!(
            "native and own are constants: {:.0}..{:.0} and {:.0}..{:.0}",
            native.minimum, native.maximum, own.minimum, own.maximum
        ),
    );
    findings.claim(
        computing.minimum == computing.maximum,
        format!("and so is the switch: {:.0}..{:.0}", computing.minimum, computing.maximum),
    );
    // SP-E4 (i): what the other guest masks does not count, only a path of the monitor that is on its way.
    let masked = switched.iter().filter(|(label, _)| label.starts_with("L2") || label.starts_with("L3"));
    let most = masked.map(|(_, summary)| summary.maximum).fold(0.0, f64::max);
    let bound = delays.bound(LONGEST_PATH);
    // c2 and a path of the monitor: sections of 5 to 1000 us (62,500 instructions) add nothing.
    findings.at_most("delay beside masked sections", "instructions", most, bound);
    let idle = named(switched, "L0").map_or(0.0, |summary| summary.mean);
    let text =
        "instructions in the mean: an idle core is asleep in the monitor, which a dispatch leaves by a longer way";
    findings.notes.push(format!("idle {idle:.1}, computing {:.1} {text}", computing.mean));
}

/// SP-E4 with stock guests: FreeRTOS and Linux.
pub(super) fn freertos(lab: &Lab, length: Length) -> Result<Findings, Failure> {
    // Long enough for each part of Linux's work: it computes for half a minute first.
    let count = length.choose("dispatch=2000", "dispatch=120000");
    // The short form does not wait for Linux to have booted.
    let from = length.choose("from=500", "from=16000");
    let changes = [("dispatch=120000", count), ("from=16000", from)];
    let mut findings = Findings::default();
    let rtos_alone = Variant {
        name: "rtos",
        changes: &[
            ("rounds=1 every=1000", count),
            ("cores = [0]", "trust = \"trusted\"\ninterrupts = \"direct\"\ncores = [0]"),
        ],
    };
    let alone = lab.run(rtos_alone, |options| options.icount_shift = Some(ONE_TICK_SHIFT))?;
    let mut beside = lab.start(Variant { name: "experiments/spumone-freertos", changes: &changes }, |options| {
        options.icount_shift = Some(ONE_TICK_SHIFT);
    })?;
    beside.wait_for_line("rtos", "rtos: end", LIMIT)?;
    let mut worst = [0.0; 2];
    for (place, (label, start)) in [("tick handler", "rtos: tick handler"), ("task", "rtos: task")].iter().enumerate() {
        for (setting, machine) in [("alone", &alone), ("with Linux at work", &beside)] {
            let get = |key: &str| printed(machine, "rtos", start, key).map(|ticks| ticks as f64);
            let (least, mean, most) = (get("min")?, get("mean")?, get("max")?);
            findings.cells.push(Cell {
                label: format!("{label}, {setting} (min {least:.0}, mean {mean:.0})"),
                unit: "instructions at worst",
                ours: Some(most),
                ..Cell::default()
            });
            if setting != "alone" {
                worst[place] = most;
            } else {
                worst[place] -= most;
            }
        }
    }
    // The short form is over while Linux boots.
    if length == Length::Full {
        let worked = partition_lines(&beside, "linux").iter().any(|line| line.contains("messages to and fro"));
        findings.claim(worked, "Linux computed, started programs and switched processes meanwhile");
    }
    findings.claim(
        worst[0] <= 1_500.0,
        format!("the tick's handler begins at worst {:.0} instructions after its compare value", worst[0]),
    );
    findings.claim(worst[1] <= 5_000.0, format!("the task begins at worst {:.0} instructions after it", worst[1]));
    beside.quit();
    Ok(findings)
}

/// Name of the RTOS's memory among the counted ranges.
const RTOS: &str = "rtos";
const HELLO: &str = "bulkhead.mode=hello";
/// Nine times the same work: runs of Linux differ by a millisecond or so in when it does what, which of one round's 6.6 s is up to a
/// tenth of the loss.
const WORK: &str = "bulkhead.mode=hello,work,work,work,work,work,work,work,work,work";

/// What a run of Linux took and, of its core, what was executed for others.
struct Worked {
    /// Microseconds of the kernel's clock at the end.
    elapsed_us: f64,
    /// Instructions of the RTOS since the first guest began; 0 where there is none.
    rtos: u64,
    passages: Passages,
}

/// Runs Linux to its end; a plugin counts the monitor's instructions and the RTOS's.
fn worked(lab: &Lab, name: &'static str, mode: &str) -> Result<Worked, Failure> {
    let publication = costs::publication_text(lab)?;
    let mut machine = lab.start(Variant { name, changes: &[(HELLO, mode)] }, |options| {
        options.icount_shift = Some(0);
        options.counting = options.plan.as_ref().map(|plan| {
            let mut counting =
                CountingOptions { apart: vec![publication.place(plan)], ..CountingOptions::for_monitor(plan) };
            let rtos = plan.partition_named("rtos").and_then(|index| plan.partitions.get(index)?.ram.first().copied());
            let range = |ram: RamRegion| ram.physical..PhysicalAddress(ram.physical.0.saturating_add(ram.bytes));
            counting.ranges.extend(rtos.map(|ram| (RTOS.to_owned(), range(ram))));
            counting
        });
    })?;
    machine.wait_for_line("linux", "linux: end: poweroff", LIMIT)?;
    let counts = machine.counts()?;
    let lines = partition_lines(&machine, "linux");
    machine.quit();
    let elapsed_us = lines.iter().find_map(|line| stamp(line)).ok_or_else(|| {
        let last = lines.last().map_or("nothing", String::as_str);
        Failure::wrong(format!("Linux printed no time stamp; it printed last: {last}"))
    })?;
    let core = counts.cores.first().filter(|core| core.entered && counts.ram_found);
    let core = core.ok_or_else(|| Failure::wrong("no core was counted".to_owned()))?;
    let since = |name| core.range(name).map_or(0, |range| range.since);
    Ok(Worked { elapsed_us, rtos: since(RTOS), passages: core.passages })
}

/// Percent by which the loss may differ from the sum of its terms. Linux's own exits, nearly one a millisecond while it boots, may take
/// longer on a shared core than alone, which is no term of a tick.
const TERMS_TOLERANCE_PERCENT: f64 = 10.0;

/// A busy core writes down what the host reads at a switch, at most once in 10 ms.
const TICKS_BETWEEN_PUBLICATIONS: f64 = 10.0;
/// Instructions of one publication of two guests, and of the longest: that of an idle core once Linux is off, which the host may or may
/// not wait for.
const PUBLICATION: std::ops::RangeInclusive<u64> = 266..=300;

/// The terms of a tick as they were in a run of Linux beside the RTOS.
fn terms(worked: &Worked) -> Result<Tick, Failure> {
    let Passages { switches, shortest_chained, enter, leave, longest_apart, .. } = worked.passages;
    if switches == 0 || shortest_chained == 0 {
        return Err(Failure::wrong("the RTOS pre-empted Linux at no tick".to_owned()));
    }
    if !PUBLICATION.contains(&longest_apart) {
        return Err(Failure::wrong(format!("a publication takes {longest_apart} instructions, not {PUBLICATION:?}")));
    }
    Ok(Tick {
        // Its timer's own interrupt follows at once, so it is not known who runs next, and this is no `switch` there.
        forced_switch: shortest_chained as f64,
        // Each tick ends with one switch back. Rounded, because the RTOS goes on until the host sees that Linux has ended.
        work: (worked.rtos as f64 / switches as f64).round(),
        voluntary_switch: (enter.0 + leave.0) as f64,
        publication: *PUBLICATION.start() as f64 / TICKS_BETWEEN_PUBLICATIONS,
    })
}

/// SP-E3. The short form takes the boot for the work.
pub(super) fn throughput(lab: &Lab, length: Length) -> Result<Findings, Failure> {
    const SHARED: &str = "experiments/spumone-throughput";
    let work = |name| -> Result<(f64, Worked), Failure> {
        let boot = worked(lab, name, HELLO)?;
        if length == Length::Short {
            return Ok((boot.elapsed_us, boot));
        }
        let work = worked(lab, name, WORK)?;
        Ok((work.elapsed_us - boot.elapsed_us, work))
    };
    let ((alone, _), (shared, run)) = (work("linux")?, work(SHARED)?);
    let loss = 100.0 * (shared - alone) / alone;
    let tick = terms(&run)?;
    let mut findings = Findings::default();
    findings.cells.push(Cell {
        label: "loss of Linux".to_owned(),
        unit: "%",
        published: Some(1.4),
        model: Some(tick.loss_percent(1000.0, 1e9)),
        ours: Some(loss),
        tolerance_percent: Some(TERMS_TOLERANCE_PERCENT),
        ..Cell::default()
    });
    // What the analysis takes for a switch is never less than one was.
    let recorded = RECORDED.switch as f64;
    for (label, ours, model) in [
        ("a tick: forced switch", tick.forced_switch, Some(recorded)),
        ("a tick: work of the RTOS", tick.work, None),
        ("a tick: voluntary switch", tick.voluntary_switch, Some(recorded)),
        ("a tick: share of a publication", tick.publication, Some(RECORDED.publication as f64)),
    ] {
        let unit = "instructions";
        findings.cells.push(Cell { label: label.to_owned(), unit, model, ours: Some(ours), ..Cell::default() });
        if let Some(recorded) = model {
            let text = format!("{label}: {ours:.0} instructions, at most the {recorded:.0} that the analysis counts");
            findings.claim(ours <= recorded, text);
        }
    }
    // The promise is about work. In the boot, which the short form takes for it, the start of the other guest is a part of the loss.
    let most = length.choose(0.16, 0.15);
    findings.claim(loss <= most, format!("Linux loses {loss:.4} % beside a 1 ms tick at 1 GIPS, at most {most} %"));
    let what = length.choose("boot", "work");
    let text = format!("the same {what} took {:.6} s alone and {:.6} s beside FreeRTOS", alone / 1e6, shared / 1e6);
    findings.notes.push(text);
    Ok(findings)
}
