//! Quest's figure 4 on the servers of an instance.

use bulkhead_system_tests::kernel::Place;
use bulkhead_system_tests::kernel::figure::{EXCHANGE_TICKS, SS_03, differences, runs};

/// QV-E10, QV-20, QV-22, QV-32: the switches of the instance come in the order of SS-03, each within as many exchanges as there were switches; on the board and in `direct` to the
/// same instruction.
#[test]
fn the_figure_of_quest_comes_out_on_a_core() {
    let [board, direct] = [Place::Board, Place::Direct].map(runs);
    println!("{board:?}");
    assert_eq!(differences(&board), Vec::<String>::new(), "{board:?}");
    assert_eq!(direct, board);
    // The judge sees an instant that is not right, and an order that is not.
    let mut late = board.clone();
    late[4].1 += 10 * EXCHANGE_TICKS;
    assert_eq!(differences(&late).len(), 1, "{late:?}");
    late.swap(2, 3);
    assert!(differences(&late)[0].contains("order"), "{late:?}");
    assert_eq!(SS_03.len(), board.len());
}
