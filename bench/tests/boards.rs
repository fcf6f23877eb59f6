//! What the paths of the monitor cost on another board than the reference.

use bulkhead_bench::boards;

/// No path is more than three instructions longer on any board.
#[test]
fn rows_on_other_boards_are_those_of_the_reference() {
    let all = boards::measure(&boards::names(), |board, outcome| {
        println!("{board}: {}: {}", outcome.row.name, outcome.value_text());
    });
    let all = all.unwrap_or_else(|failure| panic!("{}", failure.message));
    let (reference, others) = all.split_first().expect("a board");
    assert!(!others.is_empty() && reference.outcomes.len() > 10, "{} rows", reference.outcomes.len());
    let wrong = boards::too_long(&all);
    assert!(wrong.is_empty(), "{wrong:#?}");
}
