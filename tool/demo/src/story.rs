//! The story: three runs, watched until they are told, and what follows from them.

use crate::alone::{on_core_0, only_core};
use crate::cast::Cast;
use crate::facts::{Facts, output_of};
use crate::stage::Stage;
use crate::{CONTROL, Summary, judge, shared};
use bulkhead_abi::status::{STATE_OFF, STATE_STOPPED};
use bulkhead_plan::model::System;
use bulkhead_run::command::Format;
use bulkhead_run::source::{SourceError, machine_of};
use bulkhead_run::{Machine, MachineOptions, Observer, RunError, exit_code};
use bulkhead_verify::{Expected, Finding, verify_bytes};
use std::path::Path;
use std::time::{Duration, Instant};

/// Wall time in which the run of the controller alone must end.
const REFERENCE_LIMIT: Duration = Duration::from_secs(600);

/// A demonstration to be told.
pub(crate) struct Story<'a> {
    /// The system.
    pub(crate) system: &'a System,
    /// How to start it.
    pub(crate) options: MachineOptions,
    /// The monitor, if it is another one than this tool contains.
    pub(crate) monitor: Option<&'a Path>,
    /// Time that the run with all partitions gets.
    pub(crate) limit: Duration,
    /// What is shown.
    pub(crate) shown: Shown,
    /// When the command began.
    pub(crate) started: Instant,
}

/// What goes to the output.
#[derive(Clone, Copy)]
pub(crate) struct Shown {
    /// Form of what happens in the run with all partitions; `None` for nothing of it.
    pub(crate) events: Option<Format>,
    /// Form of the summary.
    pub(crate) summary: Format,
}

impl Shown {
    /// Says to people what is done.
    pub(crate) fn say(self, text: &str) {
        if self.summary == Format::Text {
            bulkhead_files::say!("demo: {text}");
        }
    }

    /// Shows what was found: as text for people, or as JSON.
    pub(crate) fn end(self, summary: &Summary) {
        match self.summary {
            Format::Text => bulkhead_files::output::print(&summary.to_string()),
            Format::Json => bulkhead_files::say!("{}", summary.json()),
        }
    }
}

/// Refuses to show what was not accepted.
pub(crate) fn must_pass(what: &str, findings: &[Finding]) -> Result<(), SourceError> {
    match findings.first() {
        Some(finding) => Err(failure(format!("the {what} does not pass `bulkhead verify`: {finding}"))),
        None => Ok(()),
    }
}

impl Story<'_> {
    /// Tells it; returns whether all of it was true.
    ///
    /// # Errors
    /// When a run cannot be started, fails, or does not end.
    pub(crate) fn tell(self) -> Result<bool, SourceError> {
        let Self { system, options, monitor, limit, shown, started } = self;
        let cast = Cast::of(system);
        let expected =
            Expected::read(monitor).map_err(|message| SourceError { message, exit_code: exit_code::HOST })?;
        must_pass("image", &verify_bytes(&options.image, &expected).findings)?;
        shown.say(
            "the finished image was read again: no page is writable by two partitions, no interrupt has two owners",
        );
        shown.say("reference run: the controller alone");
        let reference = reference_output(system, monitor)?;
        shown.say("now all partitions together");
        let mut facts =
            Facts::collect(&Stage::open(options, shown, &system.name)?.watch(&cast, limit)?, &reference, cast)?;
        shown.say("the shared core once more, alone and on a clock that counts instructions");
        facts.shared = shared::measure(system, monitor)?;
        facts.elapsed_s = started.elapsed().as_secs_f64();
        let summary = judge(&facts);
        shown.end(&summary);
        Ok(summary.all_true())
    }
}

/// Something of the story that is not as it must be.
pub(crate) fn failure(message: String) -> SourceError {
    SourceError { message, exit_code: exit_code::FAILURE }
}

/// Output of the controller without the other partitions, byte for byte.
fn reference_output(system: &System, monitor: Option<&Path>) -> Result<Vec<u8>, SourceError> {
    let control = system.partitions.iter().find(|partition| partition.name == CONTROL);
    let core = control.and_then(only_core).ok_or_else(|| failure(format!("`{CONTROL}` is not on one core")))?;
    let alone = on_core_0(system, core, |partition| partition.name == CONTROL);
    let mut options = machine_of(&alone, monitor)?;
    options.icount_shift = Some(0);
    let mut machine = Machine::start(options)?;
    machine.wait_for_end(REFERENCE_LIMIT)?;
    machine.finish();
    Ok(output_of(&machine, CONTROL))
}

/// States whether a partition is off or stopped.
pub(crate) fn has_ended(observer: &Observer, name: &str) -> bool {
    let index = observer.plan().partition_named(name);
    index.is_some_and(|index| matches!(observer.status(index).state, STATE_OFF | STATE_STOPPED))
}

/// The index of a partition.
pub(crate) fn index(machine: &Machine, name: &str) -> Result<usize, RunError> {
    let found = machine.observer().and_then(|observer| observer.plan().partition_named(name));
    found.ok_or_else(|| RunError::Other(format!("the machine has no partition `{name}`")))
}
