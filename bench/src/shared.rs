//! Shared cores: what it takes from a device's interrupt to the first instruction of its owner's handler, when another
//! guest runs.
//!
//! The device is the board's clock, whose alarm comes exactly a second after the guest set it, so the time of arrival is
//! known to the instruction. What the same guest needs on the bare board is the guest's own part.
//!
//! A sleeping guest's own timer is known as exactly, and takes another way: its timer does not count in the machine while
//! somebody else is loaded.

use crate::Failure;
use crate::lab::{Lab, Variant, partition_lines, serial_lines};
use crate::outcome::Found;
use crate::paths::{ONE_TICK_SHIFT, Printed, Range};

const FILE: &str = "rtc.elf";

fn bare(lab: &Lab) -> Result<Range, Failure> {
    let machine = lab.run_bare(FILE, |options| options.icount_shift = Some(ONE_TICK_SHIFT))?;
    Printed::parse(&serial_lines(&machine))?.row("rtc")
}

fn switch(lab: &Lab, floating_point: &str) -> Result<Found, Failure> {
    let replacement = format!("floating_point = \"{floating_point}\"");
    let variant = Variant { name: "shared", changes: &[("floating_point = \"lazy\"", &replacement)] };
    let machine = lab.run(variant, |options| options.icount_shift = Some(ONE_TICK_SHIFT))?;
    let ours = Printed::parse(&partition_lines(&machine, "woken"))?.row("rtc")?;
    let board = bare(lab)?;
    let details = [
        format!("bare board {}..{} instructions after the alarm", board.minimum, board.maximum),
        format!("shared core, another guest running {}..{}", ours.minimum, ours.maximum),
    ];
    Ok(Found::new(ours.maximum.saturating_sub(board.minimum) as f64, details))
}

pub(crate) fn switch_lazy(lab: &Lab) -> Result<Found, Failure> {
    switch(lab, "lazy")
}

pub(crate) fn switch_eager(lab: &Lab) -> Result<Found, Failure> {
    switch(lab, "eager")
}

/// How late the handler of a sleeping guest's own timer is: 1,000 sleeps from an idle core, and 1,000 while another guest computes.
pub(crate) fn own_timer(lab: &Lab) -> Result<Found, Failure> {
    let latest = |changes| -> Result<Range, Failure> {
        let machine =
            lab.run(Variant { name: "sleeper", changes }, |options| options.icount_shift = Some(ONE_TICK_SHIFT))?;
        Printed::parse(&partition_lines(&machine, "sleeper"))?.row("own_timer")
    };
    // The other guest ends at once, or computes until the last sleep is over.
    let idle = latest(&[("end_us=2000000", "end_us=1"), ("shortest=950", "shortest=500")])?;
    let busy = latest(&[])?;
    let text =
        |what: &str, range: Range| format!("{what} {}..{} instructions after the date", range.minimum, range.maximum);
    let details = [text("from an idle core", idle), text("while another guest computes", busy)];
    Ok(Found::new(idle.maximum.max(busy.maximum) as f64, details))
}
