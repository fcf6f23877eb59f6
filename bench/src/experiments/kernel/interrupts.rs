//! Requests at a fixed distance, which a component serves.

use super::{Ran, claim_no_exits, instance, iterations, must_be, name_of, shown, within};
use crate::Failure;
use crate::experiments::{Findings, Length};
use crate::lab::Lab;
use bulkhead_system_tests::kernel::Place;

const TEXT: &str = include_str!("../../../systems/interrupts.kernel.toml");
/// Roles of the component `trials`.
const SERVES: u64 = 1;
const WATCHES: u64 = 2;
/// A look of the thread that watches: how much of one falls into an absence differs.
const LOOK: f64 = 12.0;
/// What an interrupt costs in `mapped`: row `timer.mapped`.
const MONITOR: f64 = 23.0;
/// How many requests more or fewer were published to come: 30,004 and 30,003 of 30,000.
const MORE_OR_FEWER: f64 = 4.0;

/// How many were served, and how long the thread below was away for one, in the mean.
struct Served {
    ran: Ran,
    served: u64,
    mean: f64,
}

fn served(lab: &Lab, requests: u64, place: Place) -> Result<Served, Failure> {
    let numbers = [("SERVES", SERVES | requests << 8), ("WATCHES", WATCHES)];
    let ran = Ran::of(&instance(lab, "interrupts", TEXT, &numbers)?.bytes, place)?;
    let [served] = ran.first("requests: ")?;
    let [_, _, sum, times] = ran.first("bench handler ")?;
    Ok(Served { ran, served, mean: sum as f64 / times.max(1) as f64 })
}

/// QV-E7.
pub(super) fn interrupts(lab: &Lab, length: Length) -> Result<Findings, Failure> {
    let requests = iterations("kernel.interrupts", length)?;
    let mut findings = Findings::default();
    let board = served(lab, requests, Place::Board)?;
    for (place, published) in [(Place::Direct, 30_003.0), (Place::Mapped, 30_003.0)] {
        let here = served(lab, requests, place)?;
        let name = name_of(place);
        let count = within(
            format!("{name}: requests served"),
            "requests",
            board.served as f64,
            here.served as f64,
            MORE_OR_FEWER,
        );
        findings.cells.push(super::Cell { published: Some(published), ..count });
        let expected = board.mean + if place == Place::Mapped { MONITOR } else { 0.0 };
        let label = format!("{name}: the handler's path, as long as the thread below is away");
        findings.cells.push(within(label, "instructions", expected, here.mean, LOOK));
        if place == Place::Direct {
            let shorter = served(lab, requests / 2, place)?;
            claim_no_exits(&mut findings, &format!("{} requests", requests - requests / 2), &shorter.ran, &here.ran);
        } else {
            let all = here.ran.interrupts;
            findings.claim(
                all >= here.served,
                format!("{name}: the monitor handed {all} interrupts on, {} of them requests", here.served),
            );
        }
    }
    let count = must_be("bare board: requests served", "requests", requests, board.served);
    findings.cells.push(super::Cell { published: Some(30_004.0), slack: MORE_OR_FEWER, ..count });
    findings.cells.push(shown("bare board: the handler's path", "instructions", None, board.mean));
    findings.notes.push("published: 30,004 interrupts on Quest and 30,003 on Quest-V of 30,000 requests, 5,737 and 5,742 ms of round trips together".to_owned());
    Ok(findings)
}
