//! Doorbells that their receiver limits together: accepted as planned, refused when one partition could use up what another
//! may send (CH-36).
//!
//! The demo sample, where all doorbells to partition 2, linux, count in one word: those of 0 control, 1 rtos and 3 intruder.
//! The second doorbell of rtos rings control, which limits it by itself.

use crate::mutants::{Mutant, complaint};
use crate::support::{EL2_DATA_PAGE, Editor, physical, verify_bytes};
use bulkhead_plan::model::PortKind;
use bulkhead_plan::{AreaKind, samples};
use bulkhead_verify::Code;

fn together() -> Editor {
    let mut system = samples::demo();
    system.channels.push(samples::channel("more", 1, 2, PortKind::Sampling, 8));
    samples::limit_together(&mut system, 2);
    Editor::of(&system)
}

#[rustfmt::skip]
const MUTANTS: &[Mutant] = &[
    ("another window in the same word", Code::DoorbellWords, |image| image.partition(3, |plan| plan.doorbells[0].period_ticks += 1)),
    ("another limit in the same word", Code::DoorbellWords, |image| image.partition(3, |plan| plan.doorbells[0].events += 1)),
    ("no limit in the same word", Code::DoorbellWords, |image| image.partition(3, |plan| {
        (plan.doorbells[0].period_ticks, plan.doorbells[0].events) = (0, 0);
    })),
    ("two receivers of one sender in one word", Code::DoorbellWords, |image| image.partition(1, |plan| {
        plan.doorbells[0].words = plan.doorbells[1].words;
    })),
    ("one sender beside the others' limit", Code::DoorbellWords, |image| {
        let own = image.at(AreaKind::Doorbell(2));
        image.partition(3, |plan| plan.doorbells[0].words = physical(own));
    }),
    ("word inside another page", Code::DoorbellWords, |image| image.partition(3, |plan| plan.doorbells[0].words.0 += 8)),
    ("word that the core of one sender does not map", Code::El2Missing, |image| {
        let (root, words) = (image.el2_root(4), image.at(AreaKind::AllDoorbells(2)));
        image.set(root, words, 3, 0);
    }),
    ("word mapped where nobody is counted", Code::UnknownMapped, |image| {
        let words = image.at(AreaKind::AllDoorbells(2));
        image.add_el2_page(2, words, EL2_DATA_PAGE);
    }),
];

#[test]
fn doorbells_of_one_receiver_may_count_in_one_word() {
    let image = together();
    let words: Vec<u64> = [(0, 0), (1, 1), (3, 0)]
        .map(|(sender, doorbell)| image.plan_of(sender).doorbells[doorbell])
        .map(|doorbell| doorbell.words.0)
        .into();
    assert_eq!(words, [image.at(AreaKind::AllDoorbells(2)); 3]);
    assert_eq!(verify_bytes(&image.finish()).findings, []);
}

#[test]
fn every_mutant_is_refused_with_its_code() {
    let base = together();
    let complaints = MUTANTS.iter().filter_map(|(what, code, change)| {
        let mut image = base.clone();
        change(&mut image);
        complaint(what, *code, &image.finish())
    });
    assert_eq!(complaints.collect::<Vec<_>>(), Vec::<String>::new());
}
