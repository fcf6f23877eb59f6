//! The scheduler of shared cores by itself: what the guest `schedcost` counts of the monitor's own code.

use crate::Failure;
use crate::lab::Lab;
use crate::lab::serial_lines;
use crate::outcome::Found;
use crate::paths::{ONE_TICK_SHIFT, Printed};
use std::rc::Rc;

fn printed(lab: &Lab) -> Result<Rc<Printed>, Failure> {
    lab.once("scheduler", || {
        let machine = lab.run_bare("schedcost.elf", |options| options.icount_shift = Some(ONE_TICK_SHIFT))?;
        Printed::parse(&serial_lines(&machine))
    })
}

/// The largest of some rows.
fn largest(lab: &Lab, servers: usize, names: &[&str]) -> Result<Found, Failure> {
    let printed = printed(lab)?;
    let mut largest = 0;
    let mut details = Vec::new();
    for name in names {
        let range = printed.row(&format!("{name}_{servers}"))?;
        largest = largest.max(range.maximum);
        details.push(format!("{name} {}..{}", range.minimum, range.maximum));
    }
    Ok(Found::new(largest as f64, details))
}

const PICKS: &[&str] = &["pick_again", "pick_after_wake", "pick_after_block", "pick_after_pending", "pick_after_date"];

pub(crate) fn pick_4(lab: &Lab) -> Result<Found, Failure> {
    largest(lab, 4, PICKS)
}

pub(crate) fn pick_16(lab: &Lab) -> Result<Found, Failure> {
    largest(lab, 16, PICKS)
}

pub(crate) fn pick_64(lab: &Lab) -> Result<Found, Failure> {
    largest(lab, 64, PICKS)
}

pub(crate) fn replenish_16(lab: &Lab) -> Result<Found, Failure> {
    largest(lab, 16, &["replenish"])
}

pub(crate) fn replenish_64(lab: &Lab) -> Result<Found, Failure> {
    largest(lab, 64, &["replenish"])
}

pub(crate) fn preemption(lab: &Lab) -> Result<Found, Failure> {
    largest(lab, 16, &["wake_and_pick_alone"])
}

pub(crate) fn exhaustion(lab: &Lab) -> Result<Found, Failure> {
    largest(lab, 16, &["exhaust_and_pick"])
}

pub(crate) fn anything(lab: &Lab) -> Result<Found, Failure> {
    largest(lab, 16, &["any_pick", "any_report", "any_date"])
}

pub(crate) fn state_bytes(lab: &Lab) -> Result<Found, Failure> {
    largest(lab, 16, &["size"])
}
