//! The page of two worlds: everything that is whose is on it, with its bounds, and it is well formed.

mod support;

use bulkhead_description::Report;
use bulkhead_image::world_maps;
use bulkhead_plan::model::{HealthPolicy, PayloadTask, System, Task, WorldWindow, WorldWindows};
use bulkhead_plan::samples;
use bulkhead_report::{WorldsInput, write_worlds};
use bulkhead_timing::{Assumptions, payload};
use bulkhead_trace::{CoreLayout, EventKind, Layout, ServerLayout, SlotLayout, Timeline};
use bulkhead_verify::world::{SecureMonitor, verify_flash};
use support::markup::elements;

fn task(name: &str, priority: u32, cost_ns: u64, period_ns: u64) -> PayloadTask {
    PayloadTask { task: Task { name: name.to_owned(), cost_ns, period_ns, deadline_ns: period_ns }, priority }
}

/// The sample with a task set, of which the second ends within its period only if `cost_ns` is small.
fn system(cost_ns: u64) -> System {
    let mut system = samples::two_worlds();
    let secure = system.secure.as_mut().expect("two worlds");
    secure.tasks = vec![task("control", 8, 10_000_000, 50_000_000), task("trajectory", 4, cost_ns, 300_000_000)];
    system
}

fn page_of(system: &System, damage: Option<usize>) -> String {
    page_with(system, damage, None)
}

fn page_with(system: &System, damage: Option<usize>, timeline: Option<&Timeline>) -> String {
    let secure = system.secure.as_ref().expect("two worlds");
    let mut flash = bulkhead_flash::of_system(system, &samples::secure_monitor()).expect("it fits");
    if let Some(byte) = damage {
        flash.bytes[byte] ^= 1;
    }
    let maps = world_maps(system, &flash).expect("two worlds");
    let expected = SecureMonitor::of_elf(&samples::secure_monitor()).expect("a monitor");
    let assumptions = Assumptions::default();
    write_worlds(&WorldsInput {
        system,
        secure,
        flash: &flash,
        maps: &maps,
        warnings: &Report::default(),
        verdict: &verify_flash(&flash.bytes, &expected),
        flash_hash: &"5".repeat(64),
        bounds: &payload::bounds(system, &assumptions).expect("two worlds"),
        assumptions: &assumptions,
        timeline,
        below: None,
    })
}

fn verdict(page: &str) -> &str {
    page.split("id=\"verdict\">").nth(1).and_then(|rest| rest.split('<').next()).expect("a verdict")
}

/// The first table row that holds all of these.
fn row<'a>(page: &'a str, parts: &[&str]) -> &'a str {
    page.lines().find(|line| parts.iter().all(|part| line.contains(part))).unwrap_or_else(|| panic!("no row {parts:?}"))
}

/// SG-52: each window with what more urgent work may take of it.
#[test]
fn windows_are_on_the_page_with_what_disturbs_them() {
    let mut system = system(3_000_000);
    let secure = system.secure.as_mut().expect("two worlds");
    let rest = secure.servers.iter().position(|server| server.name == "rest").expect("it is there");
    let window = WorldWindow { server: rest, offset_ns: 30_000_000, length_ns: 20_000_000 };
    secure.windows = Some(WorldWindows { major_ns: 100_000_000, windows: vec![window], interrupt: Some(51) });
    let page = page_of(&system, None);
    row(&page, &["rest", "in its windows"]);
    let bounds = payload::bounds(&system, &Assumptions::default()).expect("two worlds");
    let lost = bounds.windows_ns[0].most_lost;
    assert!((13_000_000..20_000_000).contains(&lost), "jobs of both tasks fall into it: {lost}");
    row(&page, &["rest", "30.000", "20.000", &(lost / 1_000_000).to_string()]);
    assert!(page.contains("Interrupt 51 tells the world of each start."));
}

#[test]
fn what_is_whose_is_on_one_page_with_its_bounds() {
    let page = page_of(&system(100_000_000), None);
    assert_eq!(verdict(&page), "\u{2713} Everything that was checked holds.");
    for section in ["overview", "evidence", "time", "interrupts", "channels", "health", "memory"] {
        assert!(page.contains(&format!("<section id=\"{section}\">")), "{section}");
        assert!(page.contains(&format!("href=\"#{section}\"")), "{section}");
    }
    row(&page, &["payload", "secure", "1</td>", "secure-uart, secure-gpio"]);
    row(&page, &["below", "non-secure", "EL1", "16"]);
    row(&page, &["29", "1 secure", "secure timer"]);
    row(&page, &["60", "1 secure", "secure-uart"]);
    row(&page, &["33", "1 non-secure", "below", "wakes urgent"]);
    row(&page, &["telemetry", "0x4100_0000", "interrupt 50"]);
    row(&page, &["answers", "0x4100_1000", "it looks every 2 ms"]);
    row(&page, &["memory of below (NS = 1)", "0x4000_0000"]);
    row(&page, &["secure monitor", "r--", "1.7 KiB"]);
    row(&page, &["contexts of the worlds", "0x0e00_0000"]);
    for world in ["secure RAM, 16 MiB", "RAM, ", "<title>memory of below", "<title>payload: text"] {
        assert_eq!(page.contains(world), world != "<title>memory of below", "{world}");
    }
}

/// SG-47 in the report: what `check` computes is what the page says.
#[test]
fn bounds_of_tasks_servers_and_starts_are_those_of_the_check() {
    let system = system(100_000_000);
    let bounds = payload::bounds(&system, &Assumptions::default()).expect("two worlds");
    // The delay of a server is a few microseconds, so all of its table is.
    let text = |ns: Option<u64>, unit_ns: u64| {
        let ns = ns.expect("a bound");
        let whole = (ns / unit_ns).to_string();
        let (thousands, rest) = whole.split_at(whole.len().saturating_sub(3));
        let space = if thousands.is_empty() { "" } else { "\u{202f}" };
        format!(">{thousands}{space}{rest}.{:03}<", ns % unit_ns * 1_000 / unit_ns)
    };
    let page = page_of(&system, None);
    for (name, response) in ["control", "trajectory"].into_iter().zip(&bounds.responses_ns) {
        row(&page, &[name, &text(*response, 1_000_000), "kept"]);
    }
    let (blackout, delay) = bounds.blackouts_ns[1];
    row(&page, &["urgent", "after interrupt 27, 33", &text(blackout, 1_000), &text(delay, 1_000)]);
    row(&page, &["rest", "whenever nothing more urgent does"]);
    assert!(page.contains("A start or restart of below takes at most "), "the start's bound");
    assert!(page.contains("every deadline kept"));
}

#[test]
fn a_deadline_that_is_missed_and_a_damaged_file_are_said_at_the_top() {
    let page = page_of(&system(290_000_000), None);
    assert!(verdict(&page).starts_with("\u{2717} 1 of 3"), "{}", verdict(&page));
    row(&page, &["trajectory", "not certain"]);
    // A word of the secure monitor.
    let page = page_of(&system(100_000_000), Some(0x40));
    assert!(verdict(&page).starts_with("\u{2717} 1 of 3"), "{}", verdict(&page));
    assert!(page.contains("image refused") && page.contains("<code>V301</code>"), "the finding has its code");
    assert!(!page.contains("Code at EL3"), "a refused file may hold any code");
}

/// SG-87: both worlds on one time line.
#[test]
fn a_run_is_shown_with_both_worlds_on_one_time_line() {
    const MS: u64 = 1_000_000;
    let server = |name: &str, slot, budget_ns| ServerLayout {
        name: name.to_owned(),
        slot,
        budget_ns,
        period_ns: budget_ns.map(|_| 30 * MS),
        ..ServerLayout::default()
    };
    let servers = vec![
        server("below.urgent", 1, Some(2 * MS)),
        server("below.rest", 1, None),
        server("payload.control", 0, None),
    ];
    let slots = [0, 1].map(|partition| SlotLayout { partition, vcpu: 0 }).to_vec();
    let mut timeline = Timeline::new(Layout {
        system: "two".to_owned(),
        clock: "counted".to_owned(),
        partitions: vec!["payload".to_owned(), "below".to_owned()],
        cores: vec![CoreLayout { is_shared: true, slots, servers }],
        channels: Vec::new(),
    });
    for period in 0..10 {
        for (at_ms, slot, server) in [(0, 0, 2), (10, 1, 0), (12, 1, 1)] {
            let run =
                EventKind::Run { slot, server: Some(server), background: server == 1, budget_ns: None, until_ns: None };
            timeline.push((50 * period + at_ms) * MS, 0, run);
        }
        timeline.push((50 * period + 12) * MS, 0, EventKind::Exhausted { server: 0 });
    }
    timeline.finish(500 * MS);
    let page = page_with(&system(100_000_000), None, Some(&timeline));
    assert!(page.contains("What ran") && page.contains("class=\"p1 s5\""), "the strip");
    row(&page, &["payload.control", ">10</td>", "100.000", "20.0", "10.000"]);
    row(&page, &["below.urgent", ">10</td>", "20.000", "4.0", "2.000"]);
    row(&page, &["below.rest", "380.000", "76.0", "38.000"]);
    assert_eq!(verdict(&page), "\u{2713} Everything that was checked holds.");
    timeline.lost[0] = 3;
    let page = page_with(&system(100_000_000), None, Some(&timeline));
    assert!(page.contains("! trace incomplete") && page.contains("3 records found no room"));
    assert!(verdict(&page).starts_with("! "), "{}", verdict(&page));
}

#[test]
fn how_the_other_world_is_watched_stands_there_or_that_nobody_says_it() {
    let mut system = system(100_000_000);
    let health = system.secure.as_mut().and_then(|secure| secure.health.as_mut()).expect("health");
    health.policy = HealthPolicy::Restart { max: 3, within_ns: 60_000_000_000, backoff_ns: 10_000_000 };
    let page = page_of(&system, None);
    assert!(page.contains("After a fault: restart after 10 ms, 3 times in 60 s."));
    if let Some(secure) = system.secure.as_mut() {
        secure.health = None;
    }
    assert!(page_of(&system, None).contains("how below is watched is the payload\u{2019}s own business"));
}

#[test]
fn the_page_is_well_formed_and_the_same_twice() {
    let page = page_of(&system(100_000_000), None);
    assert!(elements(&page).contains(&"section".to_owned()));
    assert!(!page.contains("<script") && !page.contains("http:") && !page.contains("https:"));
    assert_eq!(page, page_of(&system(100_000_000), None));
}
