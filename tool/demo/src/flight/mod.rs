//! The demonstration of an instance of the real-time kernel: a control loop keeps its periods beside a logger, a subsystem whose own scheduler and tasks want
//! all the time that there is, a driver that fails and is begun again by its supervisor, processes that are made and taken apart, and an intruder that tries all that a component can do.
//!
//! There is one run, on one core and on a clock that counts instructions, so it is the same on each host and a response is a number of instructions, which is compared with what `check` computed.
//!
//! **Who says what was true.** Any component can print any line, so no line is believed. Each component keeps numbers in its own pages (`bulkhead_component::counts`),
//! which `verify` has shown to be nobody else's, and the host reads them in the machine's RAM when the instance has ended. What the intruder says of itself
//! is believed only where it is bad for it; how its attacks ended is judged by its supervisor. The rejected alternative, a component that judges and
//! prints a verdict, would need a way to print that others do not have.

mod claims;
mod facts;

use crate::cast::Cast;
use crate::stage::Stage;
use crate::story::{Story, failure, has_ended, must_pass};
use bulkhead_plan::model::{GuestImage, Partition, System};
use bulkhead_run::exit_code;
use bulkhead_run::source::SourceError;
use bulkhead_verify::{Expected, verify_bytes};
pub use claims::judge;
pub use facts::{Counts, FlightFacts, Named, Places, places};

/// Nanoseconds of an instruction are 2 to this power.
pub const ICOUNT_SHIFT: u8 = 4;
/// The server whose bound is that of the loop's response.
const CONTROL_SERVER: &str = "control";

/// The partition that an instance of the real-time kernel has.
pub(crate) fn partition_of(system: &System) -> Option<&Partition> {
    system.partitions.iter().find(|partition| matches!(partition.image, GuestImage::Kernel { .. }))
}

/// Tells it; returns whether all of it was true.
///
/// # Errors
/// When the run cannot be started, fails, or does not end, or a component does not keep a number that is asked for.
pub(crate) fn tell(story: Story<'_>) -> Result<bool, SourceError> {
    let Story { system, mut options, monitor, limit, shown, started } = story;
    let partition = partition_of(system).ok_or_else(|| failure("no partition runs the real-time kernel".to_owned()))?;
    let GuestImage::Kernel { bytes, components, servers, .. } = &partition.image else {
        return Err(failure(format!("`{}` does not run the real-time kernel", partition.name)));
    };
    let expected = Expected::read(monitor).map_err(|message| SourceError { message, exit_code: exit_code::HOST })?;
    must_pass("image", &verify_bytes(&options.image, &expected).findings)?;
    shown.say("the finished image was read again: no page is writable by two components, none reaches the kernel");
    let places = places(bytes, components).map_err(failure)?;
    let bound = servers.iter().find(|server| server.name == CONTROL_SERVER).and_then(|server| server.bound_ns);
    let bound_ns = bound.ok_or_else(|| failure(format!("server `{CONTROL_SERVER}` has no bound")))?;
    shown.say("all components together, on a clock that counts instructions");
    options.icount_shift = Some(ICOUNT_SHIFT);
    let mut machine = Stage::open(options, shown, &system.name)?.watch_until(&Cast::default(), limit, |machine| {
        machine.observer().is_some_and(|observer| has_ended(observer, &partition.name))
    })?;
    let counts = Counts::of_partition(&machine, &partition.name, &places).map_err(failure)?;
    let status = facts::status(&machine, &partition.name)?;
    machine.finish();
    let facts = FlightFacts {
        counts: counts.named().map_err(failure)?,
        bound_ns,
        partition_faults: u64::from(status.restarts) + status.faults,
        elapsed_s: started.elapsed().as_secs_f64(),
    };
    let summary = judge(&facts);
    shown.end(&summary);
    Ok(summary.all_true())
}
