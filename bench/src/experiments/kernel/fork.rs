//! Fork, exit and wait, again and again.

use super::{Ran, claim_no_exits, instance, iterations, must_be, shown};
use crate::Failure;
use crate::experiments::{Findings, Length};
use crate::lab::Lab;
use bulkhead_system_tests::kernel::{Counted, Place};

const TEXT: &str = include_str!("../../../systems/fork.kernel.toml");
/// What a process of the program `worker` does: it forks, exits and waits, and counts.
const COUNTS: u64 = 7;
/// What an interrupt costs in `mapped`: row `timer.mapped`.
const MONITOR: u64 = 23;

/// What was counted of some forks.
struct Forks {
    ran: Ran,
    /// From the call to the child's first instruction.
    least: u64,
    most: u64,
    /// All of it.
    total: u64,
}

/// An instance with a process that forks this often.
pub(crate) fn fork_image(lab: &Lab, times: u64) -> Result<Vec<u8>, Failure> {
    Ok(instance(lab, "fork", TEXT, &[("FORKS", COUNTS | times << 8)])?.bytes)
}

/// What it counted: all forks but the first one.
pub(crate) fn counted_forks(lines: &[String]) -> Option<Counted> {
    let line = lines.iter().find_map(|line| line.strip_prefix("fork: "))?;
    let words: Vec<u64> = line.split([' ', ',']).filter_map(|word| word.parse().ok()).collect();
    let [least, most, sum, exits, _] = words[..] else { return None };
    Some(Counted { name: "fork".to_owned(), least, most, sum, times: exits.saturating_sub(1) })
}

fn forks(lab: &Lab, times: u64, place: Place) -> Result<Forks, Failure> {
    let ran = Ran::of(&fork_image(lab, times)?, place)?;
    let [least, most, _, exits, asked] = ran.first("fork: ")?;
    if (exits, asked) != (times, times) {
        return Err(Failure::wrong(format!("{exits} of {asked} children were taken apart, and not {times}")));
    }
    let [total] = ran.first("forks in all: ")?;
    Ok(Forks { ran, least, most, total })
}

/// Row 12: the most that a fork took, of a number of them on the board and in `direct`, from its call to the child's first instruction.
pub(crate) fn longest(lab: &Lab, times: u64) -> Result<u64, Failure> {
    let (board, direct) = (forks(lab, times, Place::Board)?, forks(lab, times, Place::Direct)?);
    let of = |forks: &Forks| (forks.least, forks.most);
    if of(&board) == of(&direct) {
        return Ok(board.most);
    }
    Err(Failure::wrong(format!("forks differ: {:?} on the bare board, {:?} in `direct`", of(&board), of(&direct))))
}

/// QV-E6.
pub(super) fn fork(lab: &Lab, length: Length) -> Result<Findings, Failure> {
    let times = iterations("kernel.fork", length)?;
    let [board, direct, mapped] = [Place::Board, Place::Direct, Place::Mapped].map(|place| forks(lab, times, place));
    let (board, direct, mapped) = (board?, direct?, mapped?);
    let mut findings = Findings::default();
    findings.cells.push(must_be(
        format!("`direct`: {times} times fork, exit and wait"),
        "instructions",
        board.total,
        direct.total,
    ));
    // How many of the monitor's interrupts came within what is counted is not known; that none of them cost anything else is.
    let more = mapped.total.saturating_sub(board.total);
    findings.claim(
        mapped.total >= board.total && more.is_multiple_of(MONITOR) && more / MONITOR <= mapped.ran.interrupts,
        format!(
            "`mapped`: {more} instructions more, which is {MONITOR} for each of {} interrupts; {} came in all",
            more / MONITOR,
            mapped.ran.interrupts
        ),
    );
    findings.claim(
        (board.most - board.least) * 100 <= board.least && (direct.least, direct.most) == (board.least, board.most),
        format!(
            "from the call to the child's first instruction {} to {} on the bare board, {} to {} in `direct`, the first one left out",
            board.least, board.most, direct.least, direct.most
        ),
    );
    let shorter = forks(lab, times / 2, Place::Direct)?;
    claim_no_exits(&mut findings, &format!("{} forks", times - times / 2), &shorter.ran, &direct.ran);
    findings.cells.push(shown(
        "bare board: one fork, exit and wait in the mean",
        "instructions",
        None,
        board.total as f64 / times as f64,
    ));
    findings.notes.push("published as a curve: no overhead of virtualisation to be seen over 40,000 forks".to_owned());
    Ok(findings)
}
