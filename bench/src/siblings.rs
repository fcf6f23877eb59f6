//! A software-generated interrupt to a sibling that shares its core and is away, while somebody else computes there: what it costs on both cores.
//!
//! Up to the decision is, for its sender, from its entry to the instruction that calls the other core. For that core it is from its entry to the end
//! of the handler when nobody's turn changes, since the receiver has used its budget; and to the first instruction that keeps a register of the guest that
//! was running when the receiver was asleep and comes first. What follows is the way back to both guests, or the exchange.

use crate::Failure;
use crate::lab::Lab;
use crate::outcome::Found;
use crate::symbols;
use bulkhead_abi::{Part, PhysicalAddress};
use bulkhead_run::ImagePlan;
use bulkhead_system_tests::siblings::{SEND, Stage, Storm};
use std::ops::Range;
use std::rc::Rc;

/// The handler of the monitor, and what begins an exchange.
const HANDLER: &str = "bulkhead_handle_interrupt";
const EXCHANGE: &str = "bulkhead_save_guest";
/// MSR ICC_SGI1R_EL1, Xt: the register's number is in the lowest bits.
const CALLS_OTHER_CORE: u32 = 0xd518_cba0;

/// Where a decision ends and what calls other cores, in an image.
fn milestones(lab: &Lab, end: Range<u64>) -> Result<impl FnOnce(&ImagePlan) -> Vec<Range<PhysicalAddress>>, Failure> {
    let elf = lab.monitor(Part::Shared)?;
    let mut all = symbols::instructions(&elf, |word| word & !0x1f == CALLS_OTHER_CORE);
    all.push(end);
    Ok(move |plan: &ImagePlan| {
        let place = |offset| PhysicalAddress(plan.header.text.0.saturating_add(offset));
        all.iter().map(|range| place(range.start)..place(range.end)).collect()
    })
}

/// The first one in an absence, and a further one.
fn storms(lab: &Lab) -> Result<Rc<[Storm; 2]>, Failure> {
    let milestones = milestones(lab, symbols::function(&lab.monitor(Part::Shared)?, HANDLER)?)?;
    lab.once("siblings", || {
        let mut stage = Stage::away(milestones);
        let storms = [stage.storm(SEND, 1, 1), stage.storm(SEND, 1, 1)];
        match storms.map(|storm| storm.entries) {
            [1, 0] => Ok(storms),
            _ => Err(Failure::wrong(format!("the first was not the only one that entered: {storms:?}"))),
        }
    })
}

fn both_sides(storm: Storm) -> Result<Found, Failure> {
    match storm.up_to {
        [0, _] | [_, 0] => Err(Failure::wrong(format!("a side has no decision: {storm:?}"))),
        [core, sender] => Ok(Found::new((sender + core) as f64, [format!("sender {sender}, the shared core {core}")])),
    }
}

/// Up to the decision, to one that has used its budget.
pub(crate) fn up_to_the_decision(lab: &Lab) -> Result<Found, Failure> {
    both_sides(storms(lab)?[0])
}

/// Up to the decision, to one that sleeps and comes first.
pub(crate) fn wakes(lab: &Lab) -> Result<Found, Failure> {
    let exchange = symbols::assembly(&lab.monitor(Part::Shared)?, EXCHANGE)?;
    both_sides(Stage::asleep(milestones(lab, exchange)?).wake())
}

/// There and back.
pub(crate) fn there_and_back(lab: &Lab) -> Result<Found, Failure> {
    let storms = storms(lab)?;
    let [first, further] = *storms;
    let details = [
        format!("sender {}, the shared core {}", first.sender, first.lost),
        format!("each further one in the same absence: sender {}, that core {}", further.sender, further.lost),
    ];
    Ok(Found::new((first.sender + first.lost) as f64, details))
}
