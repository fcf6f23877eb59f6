//! The story: three runs, watched until they are told, and what follows from them.

use crate::alone::{on_core_0, only_core};
use crate::cast::Cast;
use crate::facts::{Facts, output_of};
use crate::uart::{ANSWER, REQUEST};
use crate::{CONTROL, INTRUDER, LINUX, OFFICE, Summary, shared};
use bulkhead_abi::status::{STATE_OFF, STATE_STOPPED};
use bulkhead_plan::model::System;
use bulkhead_run::command::Format;
use bulkhead_run::command::show::Show;
use bulkhead_run::control::ControlServer;
use bulkhead_run::source::{SourceError, machine_of};
use bulkhead_run::{End, Event, Machine, MachineOptions, Observer, RunError, exit_code};
use bulkhead_verify::{Expected, verify_bytes};
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
        if let Some(finding) = verify_bytes(&options.image, &expected).findings.first() {
            return Err(failure(format!("the image does not pass `bulkhead verify`: {finding}")));
        }
        shown.say(
            "the finished image was read again: no page is writable by two partitions, no interrupt has two owners",
        );
        shown.say("reference run: the controller alone");
        let reference = reference_output(system, monitor)?;
        shown.say("now all partitions together");
        let names = options.console_names();
        let mut machine = Machine::start(options)?;
        let colour = bulkhead_files::output::colours() && shown.events == Some(Format::Text);
        let mut show = shown.events.map(|format| Show::new(bulkhead_files::Output, format, colour, names, Vec::new()));
        let control = ControlServer::start(&std::process::id().to_string(), &system.name, &machine.shared_paths())?;
        watch(&mut machine, &cast, &control, show.as_mut(), limit)?;
        let mut facts = Facts::collect(&machine, &reference, cast)?;
        drop(machine);
        shown.say("the shared core once more, alone and on a clock that counts instructions");
        facts.shared = shared::measure(system, monitor)?;
        facts.elapsed_s = started.elapsed().as_secs_f64();
        let summary = Summary::new(facts);
        match shown.summary {
            Format::Text => bulkhead_files::output::print(&summary.to_string()),
            Format::Json => bulkhead_files::say!("{}", summary.json()),
        }
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

/// Shows the run until the story is told: controller done, Linux off after its restart, office off, intruder at its end. Answers at
/// the UART of Linux meanwhile, and passes on what `bulkhead attach` sends.
pub(crate) fn watch(
    machine: &mut Machine,
    cast: &Cast,
    control: &ControlServer,
    show: Option<&mut Show<bulkhead_files::Output>>,
    limit: Duration,
) -> Result<(), SourceError> {
    watch_until(machine, cast, control, show, limit, |machine| {
        let has_all = machine.observer().is_some_and(Observer::all_ended);
        has_all || is_told(machine, cast)
    })
}

/// The same until the machine has ended by itself, or this says so after a poll.
pub(crate) fn watch_until(
    machine: &mut Machine,
    cast: &Cast,
    control: &ControlServer,
    mut show: Option<&mut Show<bulkhead_files::Output>>,
    limit: Duration,
    mut is_over: impl FnMut(&Machine) -> bool,
) -> Result<(), SourceError> {
    let start = Instant::now();
    let mut heard = 0;
    loop {
        let mut events = machine.poll();
        let ended = is_over(machine) || machine.end()? == Some(End::PoweredOff);
        if ended {
            events.extend(machine.quit());
        }
        for event in events {
            if let Some(show) = show.as_deref_mut()
                && show.event(&event).is_err()
            {
                return Ok(());
            }
            if let Event::MonitorCrash(report) = event {
                return Err(RunError::MonitorCrashed(report).into());
            }
        }
        if ended {
            return Ok(());
        }
        if start.elapsed() > limit {
            return Err(machine.timeout("the demonstration to end", limit).into());
        }
        if let Some(uart) = &cast.uart {
            heard = answer(machine, uart, heard)?;
        }
        while let Some(bytes) = control.next_input() {
            machine.send_serial(&bytes)?;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Sends a line for each that Linux asked for since `heard` lines came from its UART; returns how many came by now.
fn answer(machine: &mut Machine, uart: &str, heard: usize) -> Result<usize, RunError> {
    let requests: Vec<bool> = machine.lines(uart).skip(heard).map(|line| line.text == REQUEST).collect();
    for _ in requests.iter().filter(|is_request| **is_request) {
        // Far less than the socket takes: a short count is an end of the machine, which is found by itself.
        machine.send_uart(uart, format!("{ANSWER}\n").as_bytes())?;
    }
    Ok(heard + requests.len())
}

fn is_told(machine: &Machine, cast: &Cast) -> bool {
    let Some(observer) = machine.observer() else { return false };
    let office = cast.has_office.then_some(OFFICE);
    [CONTROL, LINUX, INTRUDER].into_iter().chain(office).all(|name| has_ended(observer, name))
}

/// States whether a partition is off or stopped.
pub(crate) fn has_ended(observer: &Observer, name: &str) -> bool {
    let index = observer.plan().partition_named(name);
    index.is_some_and(|index| matches!(observer.status(index).state, STATE_OFF | STATE_STOPPED))
}
