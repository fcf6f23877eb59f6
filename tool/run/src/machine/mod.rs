//! A running machine: starts QEMU, polls RAM, gives out events and waits for conditions.
//!
//! Nothing is asynchronous. [`Machine::poll`] looks at RAM and at QEMU once and returns what is new; the `wait_` functions
//! (`waiting.rs`) call it about every millisecond until something holds or a deadline passes. Polling RAM is the design: the guests pay
//! nothing for it, and the host pays a few loads.

mod waiting;

use crate::child::QemuProcess;
use crate::console::{ConsoleNames, ConsoleReader, Line};
use crate::diagnosis::CrashReport;
use crate::disks::{DiskTrouble, Held};
use crate::error::RunError;
use crate::input::InputQueue;
use crate::line_log::LineLog;
use crate::medium;
use crate::observer::{Observer, Seen};
use crate::plugin::{self, Counts, CountsFile};
use crate::qemu::{Endpoints, MachineOptions, SECURE_CONSOLE, Streams, check_version};
use crate::qmp::Qmp;
use crate::ram::Ram;
use crate::serial::SerialLine;
use crate::start::{StartWatch, refused};
use crate::uart::Uart;
use bulkhead_abi::status::{REASON_NONE, STATE_RUNNING};
use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long QEMU may take to quit when asked; then it is killed, which loses nothing: everything is read from shared memory. Under
/// instruction counting a machine that sleeps may keep QEMU's main loop from its lock for minutes, when other programs want the
/// host's cores: each sleep ends at once at the next date of a timer, and the lock goes back to the thread that
/// released it.
const QUIT_PATIENCE: Duration = Duration::from_secs(1);

/// How long QEMU that closed its control connection may take to end; on a busy host it is some time.
const END_PATIENCE: Duration = Duration::from_secs(60);

/// Something new that a poll found.
#[derive(Clone, Debug)]
pub enum Event {
    /// A line on a partition's console.
    Line(Line),
    /// A partition changed its state (or was started again).
    State {
        /// Partition index.
        partition: usize,
        /// `STATE_` constant.
        state: u32,
        /// `REASON_` constant.
        reason: u32,
        /// Times started.
        generation: u32,
    },
    /// A core's monitor failed.
    MonitorCrash(Box<CrashReport>),
    /// The boot core could not set up the SMMU and the functions. Its monitor continues, and so does everybody without functions.
    DevicesFailed(Box<CrashReport>),
    /// Bytes on the machine's own serial line.
    Serial(Vec<u8>),
    /// A disk of a function failed its guest; told once for each reason.
    Disk(DiskTrouble),
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Every partition is off or stopped; QEMU was told to quit.
    AllEnded,
    /// The machine was powered off or reset from inside (PSCI), so QEMU ended by itself.
    PoweredOff,
}

/// What a waiting condition may look at.
pub struct View<'a> {
    /// The live view of RAM; `None` for a guest without a monitor.
    pub observer: Option<&'a Observer>,
    /// Lines per console: partitions, then the UARTs that are devices.
    pub lines: &'a [LineLog],
    /// Everything the machine's own serial line printed.
    pub serial: &'a [u8],
    /// The machine's RAM.
    pub ram: &'a Ram,
    consoles: Option<&'a ConsoleReader>,
    uarts: &'a [Uart],
}

impl View<'_> {
    /// Returns the unfinished line of a console, such as a prompt.
    pub fn unfinished(&self, console: usize) -> String {
        let partitions = self.lines.len().saturating_sub(self.uarts.len());
        match console.checked_sub(partitions).and_then(|index| self.uarts.get(index)) {
            Some(uart) => uart.unfinished(),
            None => self.consoles.map(|consoles| consoles.unfinished(console)).unwrap_or_default(),
        }
    }
}

/// A QEMU machine that this process owns; it ends with this value.
pub struct Machine {
    // Dropped first, so that QEMU is gone before anything it uses.
    qemu: QemuProcess,
    qmp: Qmp,
    /// The machine's own line; `None` when all UARTs of the board are devices.
    pub(crate) serial: Option<SerialLine>,
    serial_text: Vec<u8>,
    pub(crate) input: InputQueue,
    ram: Arc<Ram>,
    image: File,
    held: Held,
    troubles: Vec<DiskTrouble>,
    counts: Option<CountsFile>,
    pub(crate) observer: Option<Observer>,
    consoles: Option<ConsoleReader>,
    pub(crate) uarts: Vec<Uart>,
    pub(crate) names: ConsoleNames,
    flush_after: Option<Duration>,
    lines: Vec<LineLog>,
    cursors: Vec<usize>,
    states: Vec<Seen>,
    crashes: Vec<CrashReport>,
    /// A monitor crash does not end the `wait_` functions: for tests that cause one on purpose.
    pub tolerates_crashes: bool,
    start: StartWatch,
    started: Instant,
}

impl Machine {
    /// Starts a machine. Returns once QEMU answers; guests may not have run yet.
    pub fn start(mut options: MachineOptions) -> Result<Self, RunError> {
        check_version(&options.qemu)?;
        let ram = Arc::new(Ram::create(&options.banks)?);
        let image = medium::image(&options.image)?;
        let disk = options.boot.loader().map(|loader| medium::disk(loader, &options.image)).transpose()?;
        let boot = disk.as_ref().unwrap_or(&image);
        let held = options.functions.hold()?;
        let counts = count_instructions(&mut options)?;
        let is_held = plugin::make_exact(&mut options)?;
        let (qmp, qmp_theirs) = UnixStream::pair().map_err(RunError::host("cannot make a socket"))?;
        let names = options.console_names();
        let Serial { own: serial, uarts, theirs: serial_theirs } = Serial::connect(&options)?;
        let serial_descriptors: Vec<RawFd> = serial_theirs.iter().map(AsRawFd::as_raw_fd).collect();
        let endpoints = Endpoints {
            ram: descriptor_path(ram.file().as_raw_fd()),
            boot: descriptor_path(boot.as_raw_fd()),
            streams: Streams::Inherited { qmp: qmp_theirs.as_raw_fd(), serial: serial_descriptors.clone() },
        };
        let mut inherited = vec![ram.file().as_raw_fd(), boot.as_raw_fd(), qmp_theirs.as_raw_fd()];
        inherited.extend(serial_descriptors);
        inherited.extend(held.descriptors());
        inherited.extend(counts.as_ref().map(CountsFile::descriptor));
        let mut command = Command::new(&options.qemu);
        command.args(options.arguments(&endpoints));
        let mut qemu = QemuProcess::start(command, inherited)?;
        drop((qmp_theirs, serial_theirs));
        let qmp = connect(qmp, &mut qemu, is_held)?;
        let start = StartWatch::new(options.boot.loader().is_some());
        let observer = options.plan.map(|plan| Observer::new(Arc::clone(&ram), Arc::new(plan)));
        let consoles = observer.as_ref().map(|observer| ConsoleReader::new(observer.shared_plan()));
        let partitions = observer.as_ref().map_or(0, Observer::partition_count);
        Ok(Self {
            qemu,
            qmp,
            serial,
            serial_text: Vec::new(),
            input: InputQueue::default(),
            ram,
            image,
            held,
            troubles: Vec::new(),
            counts,
            observer,
            consoles,
            uarts,
            lines: vec![LineLog::default(); names.all().len()],
            cursors: vec![0; names.all().len()],
            names,
            flush_after: None,
            states: vec![Seen::default(); partitions],
            crashes: Vec::new(),
            tolerates_crashes: false,
            start,
            started: Instant::now(),
        })
    }

    /// Returns the live view of RAM; `None` for a guest without a monitor.
    pub fn observer(&self) -> Option<&Observer> {
        self.observer.as_ref()
    }

    /// Reads the instruction counts as they are now; an error if the machine was started without counting.
    pub fn counts(&self) -> Result<Counts, RunError> {
        let missing = || RunError::Plugin("the machine was started without instruction counting".to_owned());
        self.counts.as_ref().ok_or_else(missing)?.read()
    }

    /// Returns the RAM.
    pub fn ram(&self) -> &Ram {
        &self.ram
    }

    /// Returns QEMU's process id.
    pub fn qemu_pid(&self) -> u32 {
        self.qemu.pid()
    }

    /// Returns how long ago the machine was started.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Returns the paths under which another process of the same user can open RAM and image while this one lives.
    pub fn shared_paths(&self) -> (String, String) {
        let path = |descriptor: RawFd| format!("/proc/{}/fd/{descriptor}", std::process::id());
        (path(self.ram.file().as_raw_fd()), path(self.image.as_raw_fd()))
    }

    /// Returns everything the machine's own serial line printed so far.
    pub fn serial_text(&self) -> &[u8] {
        &self.serial_text
    }

    /// Returns the lines of a partition or UART so far, oldest first (the newest 65,536 are kept).
    pub fn lines(&self, console: &str) -> impl Iterator<Item = &Line> {
        let index = self.names.place(console);
        index.and_then(|index| self.lines.get(index)).into_iter().flat_map(LineLog::iter)
    }

    /// Returns what disks of functions failed at so far.
    pub fn disk_troubles(&self) -> &[DiskTrouble] {
        &self.troubles
    }

    /// Gives out unfinished lines after such a pause in output; for showing prompts to people.
    pub fn flush_lines_after(&mut self, pause: Duration) {
        self.flush_after = Some(pause);
        if let Some(consoles) = &mut self.consoles {
            consoles.flush_after = self.flush_after;
        }
    }

    /// Looks at RAM and the serial line once and returns what is new. Does not look at whether QEMU lives.
    ///
    /// A start comes before the lines found with it, every other change of state after what was printed before it.
    pub fn poll(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        // A machine that takes nothing any more is found by [`Self::end`].
        let _ = self.forward_input();
        self.poll_serial(&mut events);
        self.poll_disks(&mut events);
        let (starts, other): (Vec<_>, Vec<_>) = self.poll_states().into_iter().partition(is_start);
        events.extend(starts);
        if let Some(consoles) = &mut self.consoles {
            let mut lines = consoles.poll(&self.ram);
            if !other.is_empty() {
                // What was printed before the change was seen by the first poll; the second one lets go of it.
                lines.extend(consoles.poll(&self.ram));
            }
            self.keep(lines, &mut events);
        }
        let lines = self.uarts.iter_mut().flat_map(|uart| uart.poll(self.flush_after)).collect();
        self.keep(lines, &mut events);
        events.extend(other);
        events
    }

    fn keep(&mut self, lines: Vec<Line>, events: &mut Vec<Event>) {
        for line in lines {
            if let Some(kept) = self.lines.get_mut(line.console) {
                kept.push(line.clone());
            }
            events.push(Event::Line(line));
        }
    }

    fn poll_serial(&mut self, events: &mut Vec<Event>) {
        let bytes = self.serial.as_ref().map(SerialLine::take).unwrap_or_default();
        if !bytes.is_empty() {
            self.serial_text.extend_from_slice(&bytes);
            events.push(Event::Serial(bytes));
        }
    }

    fn poll_disks(&mut self, events: &mut Vec<Event>) {
        let mut new = self.held.shrunk();
        while let Some(event) = self.qmp.next_event() {
            new.extend(
                Some(&event)
                    .filter(|event| event.name == "BLOCK_IO_ERROR")
                    .and_then(|event| self.held.failed(&event.data)),
            );
        }
        self.troubles.extend_from_slice(&new);
        events.extend(new.into_iter().map(Event::Disk));
    }

    fn poll_states(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        let Some(observer) = &self.observer else { return events };
        for (partition, known) in self.states.iter_mut().enumerate() {
            let status = observer.status(partition);
            let (before, generation) = (*known, status.generation);
            *known = before.next(&status);
            if before.missed_start(*known) {
                events.push(Event::State { partition, state: STATE_RUNNING, reason: REASON_NONE, generation });
            }
            if before.differs(*known) {
                events.push(Event::State { partition, state: status.state, reason: status.reason, generation });
            }
        }
        for core in 0..observer.core_count() {
            let Some(report) = CrashReport::of_core(observer, core) else { continue };
            // The boot core may say that its functions failed, and later crash.
            if self.crashes.iter().any(|known| (known.core, known.is_crash()) == (core, report.is_crash())) {
                continue;
            }
            self.crashes.push(report.clone());
            let event = if report.is_crash() { Event::MonitorCrash } else { Event::DevicesFailed };
            events.push(event(Box::new(report)));
        }
        events
    }

    /// Takes what is left when the machine no longer runs: held-back output and unfinished lines.
    pub fn finish(&mut self) -> Vec<Event> {
        let mut events = self.poll();
        if let Some(consoles) = &mut self.consoles {
            let lines = consoles.finish(&self.ram);
            self.keep(lines, &mut events);
        }
        let lines = self.uarts.iter_mut().flat_map(Uart::finish).collect();
        self.keep(lines, &mut events);
        events
    }

    /// States how the run has ended, if it has: all partitions ended, or QEMU ended well. A failed QEMU is an error, and so is a
    /// machine in which no monitor starts.
    pub fn end(&mut self) -> Result<Option<End>, RunError> {
        let status = self.qemu.status();
        if status.is_some_and(|status| !status.success()) {
            return Err(self.qemu.ended_error());
        }
        self.refuse_standstill(status.is_some())?;
        if status.is_some() {
            return Ok(Some(End::PoweredOff));
        }
        Ok(self.observer.as_ref().is_some_and(Observer::all_ended).then_some(End::AllEnded))
    }

    /// Fails when it is certain that no monitor will start.
    fn refuse_standstill(&mut self, is_off: bool) -> Result<(), RunError> {
        let Some(observer) = &self.observer else { return Ok(()) };
        if self.start.is_over(|| observer.has_started()) {
            return Ok(());
        }
        if is_off {
            self.serial_text.extend(self.serial.as_ref().map(SerialLine::take).unwrap_or_default());
            return Err(refused("the machine was switched off or reset before", &self.serial_text));
        }
        self.start.ask(&mut self.qmp, observer, &self.image, &self.serial_text)
    }

    /// Returns what a condition may look at, as of the latest poll.
    pub fn view(&self) -> View<'_> {
        View {
            observer: self.observer.as_ref(),
            lines: &self.lines,
            serial: &self.serial_text,
            ram: &self.ram,
            consoles: self.consoles.as_ref(),
            uarts: &self.uarts,
        }
    }

    /// Halts all cores (virtual time stands still too).
    pub fn pause(&mut self) -> Result<(), RunError> {
        self.qmp.execute("stop").map(drop)
    }

    /// Lets the cores continue.
    pub fn resume(&mut self) -> Result<(), RunError> {
        self.qmp.execute("cont").map(drop)
    }

    /// Gives access to QEMU's control connection.
    pub fn qmp(&mut self) -> &mut Qmp {
        &mut self.qmp
    }

    /// Asks QEMU to quit, kills it if it does not, and returns what was still unread.
    pub fn quit(&mut self) -> Vec<Event> {
        if self.qemu.status().is_none() && self.qmp.send("quit").is_ok() {
            let _ = self.qemu.wait(QUIT_PATIENCE);
        }
        self.qemu.kill();
        self.finish()
    }
}

/// Our ends of the machine's serial lines, and QEMU's.
struct Serial {
    own: Option<SerialLine>,
    uarts: Vec<Uart>,
    theirs: Vec<UnixStream>,
}

impl Serial {
    fn connect(options: &MachineOptions) -> Result<Self, RunError> {
        let partitions = options.plan.as_ref().map_or(0, |plan| plan.partitions.len());
        let records = options.trace_plan().is_some();
        let mut serial = Self { own: None, uarts: Vec::new(), theirs: Vec::new() };
        for line in options.serial_lines() {
            let (ours, theirs) = UnixStream::pair().map_err(RunError::host("cannot make a socket"))?;
            let ours = SerialLine::start(ours)?;
            match line {
                Some(name) => {
                    let uart = Uart::new(ours, partitions + serial.uarts.len());
                    let has_records = records && name == SECURE_CONSOLE;
                    serial.uarts.push(if has_records { uart.with_records() } else { uart });
                }
                None => serial.own = Some(ours),
            }
            serial.theirs.push(theirs);
        }
        Ok(serial)
    }
}

/// Connects to a QEMU that was started, and lets its cores go if they were held for the plugins only.
fn connect(stream: UnixStream, qemu: &mut QemuProcess, is_held: bool) -> Result<Qmp, RunError> {
    let connected = Qmp::connect(stream).and_then(|mut qmp| {
        if is_held {
            qmp.execute("cont")?;
        }
        Ok(qmp)
    });
    // QEMU that refuses its arguments closes the socket: its own words say more than "closed".
    connected.map_err(|error| if qemu.wait(END_PATIENCE).is_some() { qemu.ended_error() } else { error })
}

fn is_start(event: &Event) -> bool {
    matches!(event, Event::State { state: STATE_RUNNING, .. })
}

/// Adds the counting plugin to the options if they ask for it.
fn count_instructions(options: &mut MachineOptions) -> Result<Option<CountsFile>, RunError> {
    let Some(counting) = &options.counting else { return Ok(None) };
    let counts = CountsFile::create(counting, options.cores)?;
    let argument = counts.argument(&plugin::library()?, counting, &options.banks);
    options.plugins.push(argument);
    Ok(Some(counts))
}

fn descriptor_path(descriptor: RawFd) -> String {
    format!("/proc/self/fd/{descriptor}")
}
