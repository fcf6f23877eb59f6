//! The page of partitions below a payload: both worlds in full, their bounds, and a run of them on one time line.

mod support;

use bulkhead_world::cores::CoresPlan;
use bulkhead_world::flash::{PLAN, WorldPlan};
use std::mem::offset_of;
use support::hybrid::{page_of, system, timeline};
use support::markup::elements;

const COST: u64 = 100_000_000;

fn verdict(page: &str) -> &str {
    page.split("id=\"verdict\">").nth(1).and_then(|rest| rest.split('<').next()).expect("a verdict")
}

/// The first table row that holds all of these, in this order.
fn row<'a>(page: &'a str, parts: &[&str]) -> &'a str {
    let holds = |line: &&str| {
        let mut rest = *line;
        parts.iter().all(|part| match rest.split_once(part) {
            Some((_, behind)) => {
                rest = behind;
                true
            }
            None => false,
        })
    };
    page.lines().find(holds).unwrap_or_else(|| panic!("no row {parts:?} in:\n{page}"))
}

/// QV-16, CF-9: what is whose, what arrives where and who is kicked.
#[test]
fn both_worlds_and_every_partition_are_on_one_page() {
    let page = page_of(&system(COST), None, None);
    assert_eq!(verdict(&page), "\u{2713} Everything that was checked holds.");
    for section in ["overview", "evidence", "time", "cores", "interrupts", "channels", "health", "memory"] {
        assert!(page.contains(&format!("<section id=\"{section}\">")), "{section}");
    }
    row(&page, &["payload", "secure", "EL1", "secure-uart"]);
    row(&page, &["world", "non-secure", "EL2", "monitor with 3 partitions", "the payload\u{2019}s own business"]);
    row(&page, &["control", "0</td>", "mapped"]);
    row(&page, &["office", "1, 2</td>", "mapped"]);
    row(&page, &["drive", "3</td>", "direct"]);
    // The firewall of SGIs and the kicks, core by core.
    row(&page, &["0</td>", "control", "mapped", "payload", ">0\u{2013}7, 10\u{2013}15</td>", "nowhere"]);
    row(&page, &["1</td>", "office", "mapped", "0\u{2013}7, 9\u{2013}14</td>", "core 0, 1, 2, 3"]);
    row(&page, &["3</td>", "drive", "direct", "none</td>", "core 0, 1, 2, 3"]);
    row(&page, &["29", "1 secure", "secure timer"]);
    assert!(page.contains("In it, the image of the monitor at EL2: ") && page.contains("the part <code>hybrid</code>"));
    // Channels between the payload and a partition, where the image below has their pools.
    row(&page, &["telemetry", "payload", "control", ">10</td>", "0x4"]);
    row(&page, &["answers", "office", "payload", "it looks every 2 ms"]);
    assert!(!page.contains("0x0000_0000</code></td><td class=\"left\">interrupt"), "no pool is at 0");
    // Memory of both sides.
    row(&page, &["redistributor of core 3"]);
    row(&page, &["0x4000_0000", "memory of world (NS = 1)"]);
    assert!(page.contains("RAM of office") && page.contains("secure RAM, 16 MiB"), "{page}");
    assert!(!page.contains("has the whole core at any time"), "not beside a payload");
}

/// SG-47: bounds of the payload's tasks and of its servers are there, and one that does not hold is said at the top.
#[test]
fn bounds_are_those_of_the_check() {
    let page = page_of(&system(COST), None, None);
    row(&page, &["axis", "10.000", "50.000", "kept"]);
    row(&page, &["trajectory", "100.000", "300.000", "kept"]);
    row(&page, &["rest", "whenever nothing more urgent does"]);
    assert!(page.contains("every deadline kept") && page.contains("A secure interrupt reaches the payload within"));
    let page = page_of(&system(290_000_000), None, None);
    assert!(verdict(&page).starts_with("\u{2717} 1 of 3"), "{}", verdict(&page));
    row(&page, &["trajectory", "not certain"]);
}

/// SG-87: who ran in either world, on one time line, core by core.
#[test]
fn a_run_is_shown_with_payload_and_partitions_on_one_time_line() {
    let mut timeline = timeline();
    let page = page_of(&system(COST), Some(&timeline), None);
    // The payload's lane has its colour, and so have the partitions'.
    for lane in ["class=\"p3 s5\"", "class=\"p0 s5\"", "class=\"p4 s5\"", "class=\"p1 s5\"", "class=\"p2 s5\""] {
        assert!(page.contains(lane), "{lane}");
    }
    row(&page, &["payload.axis", ">10</td>", "100.000", "20.0", "10.000"]);
    row(&page, &["world.rest", ">10</td>", "400.000", "80.0", "40.000"]);
    row(&page, &["0</td>", "control", "320.000", "64.0", ">8</td>", "40.000", ">7</td>", ">0</td>", ">1</td>"]);
    row(&page, &["0</td>", "payload", "100.000", "20.0", ">10</td>"]);
    row(&page, &["0</td>", "world", "80.000", "16.0", ">2</td>"]);
    row(
        &page,
        &["3</td>", "drive", "370.000", "74.0", ">2</td>", "200.000", ">0</td>", ">0</td>", ">2</td>", ">1</td>"],
    );
    assert_eq!(verdict(&page), "\u{2713} Everything that was checked holds.");
    timeline.lost[0] = 3;
    let page = page_of(&system(COST), Some(&timeline), None);
    assert!(verdict(&page).starts_with("! ") && page.contains("3 records found no room"), "{}", verdict(&page));
}

#[test]
fn a_changed_kick_mask_and_a_changed_image_are_said_at_the_top() {
    let plan = usize::try_from(PLAN).expect("an offset");
    let kicks = plan + offset_of!(WorldPlan, cores) + offset_of!(CoresPlan, kicks);
    for (byte, codes) in [(kicks, &["317"] as &[&str]), (image_byte(), &["311", "026", "027"])] {
        let page = page_of(&system(COST), None, Some(byte));
        assert!(verdict(&page).starts_with("\u{2717} 1 of 3"), "{}", verdict(&page));
        let findings: Vec<_> = page.split("<code>V").skip(1).map(|rest| rest.get(..3).unwrap_or_default()).collect();
        assert!(page.contains("image refused"));
        assert_eq!(findings, codes);
        assert!(!page.contains("Code at EL3"), "a refused file may hold any code");
    }
}

/// A byte of the monitor below, 128 behind the place in the flash file of what is copied to 0x4020_0000, as the table of the flash says it.
fn image_byte() -> usize {
    let page = page_of(&system(COST), None, None);
    let from = page.split("for 0x4020").next().and_then(|before| before.rsplit("<code>0x").nth(1));
    let digits = from.and_then(|text| text.split('<').next()).expect("the segment is in the table of the flash");
    usize::from_str_radix(&digits.replace('_', ""), 16).expect("an address") + 128
}

#[test]
fn the_page_is_well_formed_and_the_same_twice() {
    let timeline = timeline();
    let page = page_of(&system(COST), Some(&timeline), None);
    assert!(elements(&page).contains(&"section".to_owned()));
    assert!(!page.contains("<script") && !page.contains("http:") && !page.contains("https:"));
    assert_eq!(page, page_of(&system(COST), Some(&timeline), None));
}
