//! What the paths of the monitor cost on another board than the reference.

use bulkhead_bench::boards::{self, MOST_ABOVE, above};

/// No path is more than three instructions longer on any board.
#[test]
fn rows_on_other_boards_are_those_of_the_reference() {
    let all = boards::measure(&boards::names(), |board, outcome| {
        println!("{board}: {}: {}", outcome.row.name, outcome.value_text());
    });
    let all = all.unwrap_or_else(|failure| panic!("{}", failure.message));
    let (reference, others) = all.split_first().expect("a board");
    assert!(!others.is_empty() && reference.outcomes.len() > 10, "{} rows", reference.outcomes.len());
    let mut wrong = Vec::new();
    for other in others {
        for (one, there) in reference.outcomes.iter().zip(&other.outcomes) {
            let difference = above(one, there);
            if difference.is_none_or(|difference| difference > MOST_ABOVE) {
                wrong.push(format!(
                    "{}: {} {} there {}",
                    other.board,
                    one.row.name,
                    one.value_text(),
                    there.value_text()
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
