//! Time that a less important client gives to a more important server: the work is done at the client's level and on its budget, in whatever phase, and time that was kept back is no more
//! than the client's own (CH-22, TCAP-02). All phases are searched on the host (`kernel/tests/delegation.rs`); here a core shows it.

use super::{Ran, instance, iterations, must_be, name_of, shown};
use crate::Failure;
use crate::experiments::{Findings, Length};
use crate::lab::Lab;
use bulkhead_system_tests::kernel::Place;

const TEXT: &str = include_str!("../../../systems/delegation.kernel.toml");
/// Roles of the component `trials`.
const GIVES: u64 = 12;
const TAKES: u64 = 13;
const MILLISECOND_TICKS: u64 = 62_500;
/// Servers of the description: what the client may use in any window of its period, and what the service has of its own.
const CLIENT: [u64; 2] = [2 * MILLISECOND_TICKS, 20 * MILLISECOND_TICKS];
const OWN: [u64; 2] = [MILLISECOND_TICKS / 10, 5 * MILLISECOND_TICKS];
/// The gift that the service is told of; some of an earlier one may be left.
const GIFT_TICKS: u64 = MILLISECOND_TICKS;
/// Two gifts take two to four periods of the client; who is between has a job in each of these.
const BETWEEN_MS: u64 = 10;
const MOST_MS: u64 = 80;
/// A passage of the kernel, as bounds of instances count it: a job may find one begun.
const PASSAGE_TICKS: u64 = 3_400;

fn ran(lab: &Lab, times: u64, to_whom: &str, place: Place) -> Result<Ran, Failure> {
    let text = TEXT.replace("TO_WHOM", to_whom);
    let numbers = [("TAKES", TAKES), ("PERIODS", times * MOST_MS / BETWEEN_MS), ("GIVES", GIVES | times << 8)];
    Ran::of(&instance(lab, "delegation", &text, &numbers)?.bytes, place)
}

/// The most of a server with the anchor `dispatch` in a window.
fn envelope([budget, period]: [u64; 2], window: u64) -> u64 {
    window / period * budget + budget.min(window % period)
}

/// When the service ran.
fn runs(ran: &Ran) -> Vec<[u64; 2]> {
    let numbers = |line: &str| -> Option<[u64; 2]> {
        let (from, until) = line.strip_prefix("ran ")?.split_once(' ')?;
        Some([from.parse().ok()?, until.parse().ok()?])
    };
    ran.lines.iter().filter_map(|line| numbers(line)).collect()
}

/// By how much the service ran longer in some window than both servers may; 0 where it did not.
fn beyond(runs: &[[u64; 2]]) -> u64 {
    let mut most = 0;
    for (place, [from, _]) in runs.iter().enumerate() {
        let mut used = 0;
        for [begin, until] in &runs[place..] {
            used += until - begin;
            let window = until - from;
            most = most.max(used.saturating_sub(envelope(CLIENT, window) + envelope(OWN, window)));
        }
    }
    most
}

/// CH-22, TCAP-02.
pub(super) fn delegation(lab: &Lab, length: Length) -> Result<Findings, Failure> {
    let times = iterations("kernel.delegation", length)?;
    let mut findings = Findings::default();
    for place in [Place::Board, Place::Direct] {
        let name = name_of(place);
        let (given, alone) = (ran(lab, times, "send:service.work", place)?, ran(lab, times, "empty:1", place)?);
        let [refused, _] = given.first("gifts: ")?;
        findings.cells.push(must_be(format!("{name}: gifts that were refused"), "gifts", 0, refused));
        let ([signals, count], runs) = (given.first("told: ")?, runs(&given));
        let used: u64 = runs.iter().map(|[from, until]| until - from).sum();
        // What it has of its own in that time is less than half of it.
        findings.claim(
            signals == times && runs.len() as u64 == count && used >= times * GIFT_TICKS,
            format!("{name}: told {signals} times the service ran {used} instructions in {count} pieces, {} for each signal", used / times),
        );
        findings.cells.push(must_be(
            format!("{name}: most beyond what client and service may use, in any window"),
            "instructions",
            0,
            beyond(&runs),
        ));
        let ([_, lost, worst], [.., worst_alone]) = (given.first::<3>("loop: ")?, alone.first::<3>("loop: ")?);
        findings.claim(
            lost == 0 && worst <= worst_alone + OWN[0] + PASSAGE_TICKS,
            format!("{name}: who is between them answers within {worst} instructions, and {worst_alone} where nothing is given: the work does not have the service's level"),
        );
        findings.cells.push(shown(format!("{name}: a budget of the client"), "instructions", None, CLIENT[0] as f64));
    }
    findings.notes.push("what the service has of its own is 100 us in 5 ms, on which it finds that its work is over; it is in what both may use".to_owned());
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::{CLIENT, OWN, beyond};

    #[test]
    fn what_is_beyond_is_found_in_the_window_that_has_it() {
        let [budget, period] = CLIENT;
        assert_eq!(beyond(&[[0, budget], [period, period + budget]]), 0);
        // A budget twice at once, less what the service has of its own in that time.
        assert_eq!(beyond(&[[0, budget], [budget + 5, 2 * budget + 5]]), budget - OWN[0]);
    }
}
