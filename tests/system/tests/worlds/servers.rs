//! The other world in servers of the payload: how long its interrupts wait, and what its share costs the payload's tasks.
//!
//! The published set: T1 50/10 ms and T2 300/100 ms; times in milliseconds of a clock on which an instruction takes 16 ns.

use bulkhead_abi::PhysicalAddress;
use bulkhead_flash::NonSecure;
use bulkhead_system_tests::secure::{MEMORY, Payload, Worlds, flash_of};
use bulkhead_system_tests::system::guest;
use bulkhead_world::context::EntryLevel;
use bulkhead_world::flash::{ServerKind, ServerPlan, UrgentPlan};
use bulkhead_world::health::HealthPlan;

/// Ticks of the counter in a millisecond.
const MS: u64 = 62_500;
const PARAMETERS: u64 = 0x4100_0000;
const TASKS: &str = "tasks=50/10/8,300/100/4";
const BACKGROUND: ServerPlan =
    ServerPlan { kind: ServerKind::Background as u32, priority: 1, budget_ticks: 0, period: 0, voluntary: 0 };

/// How interrupts come to the other world: the words of `guests/arrivals`.
#[derive(Clone, Copy, Debug)]
struct Arrivals {
    samples: u64,
    spacing: u64,
    dither: u64,
    yields: bool,
    sleeps: bool,
}

/// What a run found, in milliseconds.
#[derive(Debug)]
struct Found {
    /// From the date of each interrupt to its vector.
    waits: Vec<f64>,
    /// Worst response of each task, and jobs that missed their deadline.
    responses: Vec<(f64, u64)>,
}

impl Found {
    fn most(&self) -> f64 {
        self.waits.iter().copied().fold(0.0, f64::max)
    }

    fn mean(&self) -> f64 {
        self.waits.iter().sum::<f64>() / self.waits.len() as f64
    }
}

fn run(servers: &[ServerPlan], urgent: &[UrgentPlan], arrivals: Arrivals) -> Found {
    let program = bulkhead_flash::flat(&guest("arrivals.elf"), "arrivals").unwrap_or_else(|error| panic!("{error}"));
    let Arrivals { samples, spacing, dither, yields, sleeps } = arrivals;
    let words = [samples, spacing, dither, 0, MS / 60, u64::from(yields), u64::from(sleeps), 11, 0];
    let parameters: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let segments = vec![(program.base, program.bytes.as_slice()), (PARAMETERS, parameters.as_slice())];
    let world = NonSecure {
        memory: (MEMORY.0, 32 << 20),
        segments,
        entry: program.entry,
        argument: PARAMETERS,
        level: EntryLevel::El1,
    };
    let payload = Payload { file: "busy-world.elf", servers, urgent, health: HealthPlan::nobody(), arguments: TASKS };
    let mut worlds = Worlds::start(flash_of(payload, world));
    let lines = worlds.end();
    assert_eq!(lines.last().map(String::as_str), Some("rtos: end"), "{lines:#?}");
    let mut records = vec![0; samples as usize * 24];
    assert!(worlds.ram().copy_at(PhysicalAddress(PARAMETERS + 0x1000), &mut records));
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"));
    let ms = |ticks: u64| ticks as f64 / MS as f64;
    let waits = records.chunks(24).map(|record| ms(word(&record[8..]) - word(record))).collect();
    let task = |line: &String| {
        let numbers: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
        line.starts_with("rtos: task").then(|| (ms(numbers[3]), numbers[4]))
    };
    Found { waits, responses: lines.iter().filter_map(task).collect() }
}

/// SG-40, SG-43, SG-E5: the idle approach. An interrupt waits for the longest busy stretch of the tasks, 130 ms, at most.
#[test]
fn without_servers_interrupts_wait_for_the_busy_stretch() {
    let found = run(
        &[BACKGROUND],
        &[],
        Arrivals { samples: 60, spacing: 97 * MS, dither: 40 * MS, yields: false, sleeps: false },
    );
    assert!((113.0..=130.0).contains(&found.most()), "{found:?}");
    // The tasks have the core alone: 10 ms, and 100 ms with three of the other's jobs; both with the ticks of the kernel meanwhile.
    let [(first, 0), (second, 0)] = found.responses[..] else { panic!("{found:?}") };
    assert!((10.0..10.15).contains(&first) && (130.0..130.5).contains(&second), "{found:?}");
}

/// SG-41, SG-42, SG-46, SG-47, SG-E6: an RTask of 6 ms in 30 ms above both tasks: no interrupt waits longer than its blackout of 24 ms, and
/// the tasks respond within their bounds.
#[test]
fn a_reserved_task_bounds_waits_by_its_blackout() {
    let reserved =
        ServerPlan { kind: ServerKind::Reserved as u32, priority: 9, budget_ticks: 6 * MS, period: 30, voluntary: 0 };
    let found = run(
        &[reserved, BACKGROUND],
        &[],
        Arrivals { samples: 200, spacing: 17 * MS, dither: 8 * MS, yields: false, sleeps: false },
    );
    assert!((20.0..24.0).contains(&found.most()) && found.mean() < 10.0, "{found:?}");
    // With the double hit of a deferrable server: 10 + 6, and 100 + 4 * 10 + 7 * 6 at most.
    let [(first, 0), (second, 0)] = found.responses[..] else { panic!("{found:?}") };
    assert!(first < 16.15 && (150.0..182.5).contains(&second), "{found:?}");
}

const TIMER: u32 = 27;

fn itask(priority: u32, voluntary: u32) -> ServerPlan {
    ServerPlan { kind: ServerKind::Interrupt as u32, priority, budget_ticks: 2 * MS, period: 30, voluntary }
}

const URGENT: [UrgentPlan; 1] = [UrgentPlan { intid: TIMER, server: 0 }];

/// SG-41, SG-44, SG-45, SG-46, SG-E5: an ITask of 2 ms in 30 ms, above both tasks and between them, with an activation that lasts as long as its
/// budget: no interrupt waits longer than the blackout, and the tasks respond within their bounds.
#[test]
fn an_interrupt_task_bounds_waits_by_its_blackout() {
    for (priority, blackout, bounds) in [(9, 28.0, [14.1, 142.5]), (6, 38.0, [10.15, 142.5])] {
        let arrivals = Arrivals { samples: 300, spacing: 11 * MS, dither: 5 * MS, yields: false, sleeps: false };
        let found = run(&[itask(priority, 0), BACKGROUND], &URGENT, arrivals);
        assert!(found.most() <= blackout && found.most() > 27.0 && found.mean() < 7.0, "{found:?}");
        let [(first, 0), (second, 0)] = found.responses[..] else { panic!("{found:?}") };
        assert!(first <= bounds[0] && second <= bounds[1], "{found:?}");
    }
}

/// SG-45: with voluntary return an interrupt waits for nobody: the budget serves many of them. From its date to its vector are at most 800
/// instructions while a task of the payload runs; a tick of the kernel and the release of a task may come between.
#[test]
fn with_voluntary_return_interrupts_wait_for_nobody() {
    let arrivals = Arrivals { samples: 300, spacing: 11 * MS, dither: 5 * MS, yields: true, sleeps: false };
    let found = run(&[itask(9, 1), BACKGROUND], &URGENT, arrivals);
    let ticks = |wait: &f64| (wait * MS as f64).round() as u64;
    let waits: Vec<u64> = found.waits.iter().map(ticks).collect();
    let typical = waits.iter().filter(|wait| (700..=800).contains(*wait)).count();
    let longer = waits.iter().filter(|wait| **wait > 800).count();
    assert!(typical > 100 && longer < 10 && waits.iter().all(|wait| *wait < 2_300), "{waits:?}");
    let [(first, 0), (second, 0)] = found.responses[..] else { panic!("{found:?}") };
    assert!(first < 10.3 && second < 131.0, "{found:?}");
}
