//! Whether what threads of subsystems tell each other depends on how deep in the tree of schedulers they are (CH-E6).
//!
//! A round trip has the same steps at each depth: a signal to who has not looked yet, the end of one's own turn, one run of the own scheduler, and a signal back that takes the core. So has the
//! end of a sleep. What differs is how many schedulers have a number in the claims that are compared, and that a scheduler which waits tells the one above.

use super::depth_cores::between_cores;
use super::{Ran, instance, iterations, must_be, name_of, shown};
use crate::Failure;
use crate::experiments::{Findings, Length};
use crate::lab::Lab;
use bulkhead_system_tests::kernel::Place;

const TEXT: &str = include_str!("../../../systems/depth.kernel.toml");
/// Roles of the component `trials`.
const SPINS: u64 = 3;
pub(super) const TRAVELS: u64 = 8;
pub(super) const ANSWERS: u64 = 9;
pub(super) const LEADS: u64 = 10;
pub(super) const LISTENS: u64 = 11;
/// What a trip and a sleep take together, rounded up: so long somebody keeps the core busy.
const MICROSECONDS_EACH: u64 = 800;
/// What was published of a message in both directions, and of a timer at the top and below, in cycles of the seed's machine.
const PLACES: [(&str, [bool; 2], [f64; 2]); 3] = [
    ("between two at the top", [false, false], [1497.0, 951.0]),
    ("from the top to one below", [false, true], [1513.0, 951.0]),
    ("between two below", [true, true], [1495.0, 901.0]),
];
/// Most that the three may differ by, in percent of the least.
const SPREAD_PERCENT: f64 = 2.0;

/// Least, most, sum and number of round trips, and of instructions from a date to the thread that slept until then.
struct Took {
    trips: [u64; 4],
    timers: [u64; 4],
}

fn took(lab: &Lab, times: u64, is_below: [bool; 2], place: Place) -> Result<Took, Failure> {
    let parents = ["FIRST_PARENT", "SECOND_PARENT"].into_iter().zip(is_below);
    let text = parents.fold(TEXT.to_owned(), |text, (name, is_below)| {
        text.replace(name, if is_below { ", parent = \"top\"" } else { "" })
    });
    let below = is_below.iter().map(|one| u64::from(*one)).sum::<u64>();
    let numbers = [
        ("TRAVELS", TRAVELS | times << 8),
        ("ANSWERS", ANSWERS | times << 8),
        ("LEADS", LEADS),
        ("LISTENS", LISTENS | below << 8),
        ("SPINS", SPINS | (1 + times * MICROSECONDS_EACH / 1000) << 8),
    ];
    let ran = Ran::of(&instance(lab, "depth", &text, &numbers)?.bytes, place)?;
    Ok(Took { trips: ran.first("bench trip ")?, timers: ran.first("bench timer ")? })
}

/// By how much the largest is above the least, in percent.
fn spread_percent(counts: [u64; 3]) -> f64 {
    let (least, most) = counts.iter().fold((u64::MAX, 0), |(least, most), one| (least.min(*one), most.max(*one)));
    100.0 * (most - least) as f64 / least.max(1) as f64
}

/// CH-E6.
pub(super) fn depth(lab: &Lab, length: Length) -> Result<Findings, Failure> {
    let times = iterations("kernel.depth", length)?;
    let mut findings = Findings::default();
    let (mut trips, mut timers) = ([0; 3], [0; 3]);
    for ((what, is_below, published), (trip, timer)) in PLACES.into_iter().zip(trips.iter_mut().zip(&mut timers)) {
        let board = took(lab, times, is_below, Place::Board)?;
        let direct = took(lab, times, is_below, Place::Direct)?;
        let [least, most, sum, count] = board.trips;
        let direct_name = name_of(Place::Direct);
        findings.cells.push(shown(format!("round trip {what}"), "instructions", Some(published[0]), most as f64));
        findings.cells.push(must_be(
            format!("{direct_name}: round trips {what}, all together"),
            "instructions",
            sum,
            direct.trips[2],
        ));
        findings.claim(
            least == most && direct.trips[..2] == [least, most] && count == times,
            format!(
                "round trip {what}: {least} to {most} in {count} on the bare board, {:?} in `direct`",
                direct.trips
            ),
        );
        let [earliest, latest, _, count] = board.timers;
        findings.cells.push(shown(
            format!("timer, {what}: awake behind its date"),
            "instructions",
            Some(published[1]),
            latest as f64,
        ));
        findings.claim(
            count == times && direct.timers[..2] == [earliest, latest],
            format!("timer, {what}: {earliest} to {latest} on the bare board, {:?} in `direct`", direct.timers),
        );
        (*trip, *timer) = (most, latest);
        between_cores(lab, what, times, is_below, &mut findings)?;
    }
    for (what, counts) in [("round trips", trips), ("timers", timers)] {
        let percent = spread_percent(counts);
        findings.cells.push(shown(format!("{what}: from the least to the most of the three"), "%", None, percent));
        if percent > SPREAD_PERCENT {
            findings.notes.push(format!(
                "{what}: {SPREAD_PERCENT} % were promised, which is missed: a thread that becomes awake while its scheduler waits is told to the one above (CH-57), which wakes that one unless it is awake"
            ));
        }
    }
    findings.notes.push("published in cycles of the seed's machine; they stand beside and are not compared".to_owned());
    Ok(findings)
}
