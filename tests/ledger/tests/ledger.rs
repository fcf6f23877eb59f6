//! Unsafe code, code at EL2 and requirements are what the committed pages say.

use bulkhead_ledger::promises::WITHOUT_TEST;
use bulkhead_ledger::requirements::{citations, measured, page as requirements_page, promised};
use bulkhead_ledger::{code_lines, page, unsafe_sites};

/// Most code lines of our crates that may be linked at EL2, besides the crate that the monitor shares with analysis and simulator.
/// 5,000 were asked for with shared cores included (`bulkhead bench size.lines` says by how much that is missed); this keeps
/// them from growing further.
const CEILING: usize = 5_250;

#[test]
fn the_unsafe_ledger_is_current() {
    let path = "docs/unsafe-ledger.md";
    page::check(path, &unsafe_sites::ledger(&page::read(path)));
}

#[test]
fn code_at_el2_stays_below_the_ceiling() {
    let crates = code_lines::at_el2();
    for (name, lines) in &crates {
        println!("{name:<20} {:>5} lines of Rust, {:>4} of assembly", lines.rust, lines.assembly);
        assert!(lines.rust > 50, "{name}: {lines:?} cannot be all of it; was its folder moved?");
    }
    let own = crates.iter().filter(|(name, _)| *name != code_lines::SHARED_CRATE);
    let total: usize = own.map(|(_, lines)| lines.total()).sum();
    println!("{:<20} {total:>5} code lines at EL2, at most {CEILING}", "all");
    assert!(
        total <= CEILING,
        "{total} code lines are linked at EL2, at most {CEILING} may be; run with --nocapture for the list"
    );
}

#[test]
fn the_requirements_page_is_current() {
    page::check(
        "docs/requirements.md",
        &requirements_page(&citations(), &measured(&page::read("docs/measurements.json"))),
    );
}

/// The head of a file stands for all of it and leads a reader to no test, so it does not count.
#[test]
fn every_promised_requirement_has_a_test() {
    let found = citations();
    let has_test = |id: &str| found.get(id).is_some_and(|tests| tests.iter().any(|test| test.contains(": ")));
    let excused = |id: &str| WITHOUT_TEST.iter().any(|(one, _)| *one == id);
    let missing: Vec<_> = promised().map(|one| one.id).filter(|id| !has_test(id) && !excused(id)).collect();
    assert!(
        missing.is_empty(),
        "no test cites {missing:?}; cite them where they are shown, or say in WITHOUT_TEST why there is none"
    );
    let idle: Vec<_> = WITHOUT_TEST.iter().filter(|(id, _)| found.contains_key(*id)).collect();
    assert!(idle.is_empty(), "these have a test now, remove them from WITHOUT_TEST: {idle:?}");
    let unknown: Vec<_> = WITHOUT_TEST.iter().filter(|(id, _)| promised().all(|one| one.id != *id)).collect();
    assert!(unknown.is_empty(), "nobody promised these: {unknown:?}");
}

#[test]
fn nothing_is_promised_twice() {
    let ids: Vec<_> = promised().map(|one| one.id).collect();
    let different: std::collections::BTreeSet<_> = ids.iter().collect();
    assert_eq!(different.len(), ids.len());
}
