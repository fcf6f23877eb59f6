//! Rounds over pages, with and without a second stage of translation.

use super::{Ran, instance, iterations, must_be};
use crate::Failure;
use crate::experiments::{Findings, Length, Series};
use crate::lab::Lab;
use bulkhead_system_tests::kernel::Place;

const TEXT: &str = include_str!("../../../systems/stage2.kernel.toml");
/// 1 to 512.
const NUMBERS_OF_PAGES: u32 = 10;
const KINDS: [&str; 2] = ["data", "text"];

/// A run of the component, and what a round takes by kind and number of pages.
struct Rounds {
    ran: Ran,
    rows: Vec<(String, f64, u64)>,
}

fn rounds(lab: &Lab, count: u64, with_exit: bool, place: Place) -> Result<Rounds, Failure> {
    let laid = instance(lab, "stage2", TEXT, &[("ARGUMENT", count << 8 | u64::from(with_exit))])?;
    let ran = Ran::of(&laid.bytes, place)?;
    let mut rows = Vec::new();
    for kind in KINDS {
        for pages in (0..NUMBERS_OF_PAGES).map(|power| 1_u64 << power) {
            let [least, most, _, times] = ran.first(&format!("bench {kind}_{pages} "))?;
            if least != most || times != count {
                return Err(Failure::wrong(format!(
                    "{times} rounds over {pages} pages of {kind} took {least} to {most}"
                )));
            }
            rows.push((kind.to_owned(), pages as f64, most));
        }
    }
    Ok(Rounds { ran, rows })
}

/// QV-E1, claims A and B.
pub(super) fn stage2(lab: &Lab, length: Length) -> Result<Findings, Failure> {
    let count = iterations("kernel.stage2", length)?;
    let board = rounds(lab, count, false, Place::Board)?;
    let direct = rounds(lab, count, false, Place::Direct)?;
    let shorter = rounds(lab, count / 2, false, Place::Direct)?;
    let mut findings = Findings::default();
    for ((kind, pages, board), (.., direct)) in board.rows.iter().zip(&direct.rows) {
        findings.cells.push(must_be(
            format!("`direct`: a round over {pages} pages of {kind}"),
            "instructions",
            *board,
            *direct,
        ));
    }
    super::claim_no_exits(&mut findings, "rounds", &shorter.ran, &direct.ran);
    // With an exit in each round.
    let (plain, with) = (rounds(lab, count, true, Place::Board)?, rounds(lab, count, true, Place::Uart)?);
    let without = rounds(lab, count, false, Place::Uart)?;
    let exits = with.ran.exits.abs_diff(without.ran.exits);
    findings.cells.push(must_be(
        "exits that an emulated register adds",
        "exits",
        count * board.rows.len() as u64,
        exits,
    ));
    let more: Vec<u64> =
        with.rows.iter().zip(&plain.rows).map(|((.., with), (.., plain))| with.saturating_sub(*plain)).collect();
    let first = more.first().copied().unwrap_or(0);
    findings.claim(
        first > 0 && more.iter().all(|more| *more == first),
        format!(
            "an exit in each round takes {first} instructions more, however many pages the round touches: {more:?}"
        ),
    );
    for kind in KINDS {
        let points =
            direct.rows.iter().filter(|row| row.0 == kind).map(|(_, pages, ticks)| (*pages, *ticks as f64)).collect();
        findings.series.push(Series { name: kind.to_owned(), x: "pages", y: "instructions", points });
    }
    findings.notes.push("published as curves: equal up to 512 pages, beyond that the walks of two stages show; instructions know no translation buffer".to_owned());
    Ok(findings)
}
