//! Schedules of shared cores: kinds, quanta, time tables.

use super::Resolver;
use super::partition::span;
use crate::code::Code;
use crate::decode::{Duration, Located};
use crate::description::Partition;
use crate::diagnostic::Diagnostic;
use crate::sharing::{FloatingPoint, OnInterrupt, Reading, Ring, Schedule, ScheduleKind, Window};
use crate::source::Span;
use crate::suggest;
use crate::unit::{format_duration, parse_duration};
use bulkhead_abi::schedule::{MAX_CORE_QUANTA, MAX_CORE_WINDOWS};
use bulkhead_plan::model;
use bulkhead_plan::sharing::{MAX_PERIOD_TICKS, PRIORITIES};
use bulkhead_plan::ticks;

const SECOND_NS: u64 = 1_000_000_000;

/// A window whose times could be read.
struct Placed<'d> {
    written: &'d Located<Window>,
    window: model::TableWindow,
}

impl<'r> Resolver<'r> {
    /// The schedule of a core, if it has one.
    pub(super) fn schedule_of(&self, core: u64) -> Option<&'r Located<Schedule>> {
        self.description.schedule.iter().find(|schedule| schedule.core.value == core)
    }

    /// The schedule of a vCPU's core.
    pub(super) fn schedule_of_vcpu(&self, partition: &Partition, vcpu: usize) -> Option<&'r Located<Schedule>> {
        partition.cores.get(vcpu).and_then(|core| self.schedule_of(core.value))
    }

    /// Resolves every schedule; one that cannot be resolved is `None`.
    pub(super) fn schedules(&mut self) -> Vec<Option<model::Schedule>> {
        let description = self.description;
        for (place, schedule) in description.schedule.iter().enumerate() {
            self.schedule_core(place, schedule);
        }
        description.schedule.iter().map(|schedule| self.schedule(schedule)).collect()
    }

    /// Checks that the core exists, is used, and has one schedule.
    fn schedule_core(&mut self, place: usize, schedule: &Schedule) {
        let description = self.description;
        let (core, count) = (&schedule.core, self.board.board.core_mpidr.len());
        if core.value >= count as u64 {
            let message = format!("the board has no core {}", core.value);
            let label = format!("board `{}` has cores 0 to {}", self.board.board.name, count.saturating_sub(1));
            return self.push(Diagnostic::new(Code::UnknownCore, message).at(core.span, label));
        }
        if let Some(first) = description.schedule.iter().take(place).find(|one| one.core.value == core.value) {
            let message = format!("core {} has two schedules", core.value);
            let diagnostic = Diagnostic::new(Code::ScheduleTwice, message);
            return self.push(diagnostic.at(core.span, "the second one").at(first.core.span, "the first one"));
        }
        let is_used = description.partition.iter().any(|one| one.cores.iter().any(|used| used.value == core.value));
        if !is_used {
            let message = format!("core {} has a schedule and no partition", core.value);
            let help = format!("give core {} to a partition, or remove this table", core.value);
            self.push(Diagnostic::new(Code::UnusedSchedule, message).at(core.span, "").help(help));
        }
    }

    fn schedule(&mut self, schedule: &'r Located<Schedule>) -> Option<model::Schedule> {
        let beside = format!("`kind = \"{}\"`", schedule.kind.name());
        let first_quantum = schedule.quanta.first().map(|quantum| quantum.span);
        let first_window = schedule.windows.first().map(|window| window.span);
        if schedule.kind.value != ScheduleKind::RoundRobin {
            self.does_not_apply(span(&schedule.quantum), "quantum", &beside);
            self.does_not_apply(span(&schedule.on_interrupt), "on_interrupt", &beside);
            self.does_not_apply(span(&schedule.reading), "reading", &beside);
            self.does_not_apply(span(&schedule.ring), "ring", &beside);
        }
        if schedule.kind.value != ScheduleKind::Cyclic {
            self.does_not_apply(span(&schedule.major_frame), "major_frame", &beside);
            self.does_not_apply(first_window, "windows", &beside);
        }
        let kind = match schedule.kind.value {
            ScheduleKind::FixedPriority => {
                self.quanta(schedule).map(|quanta| model::ScheduleKind::FixedPriority { quanta })
            }
            ScheduleKind::RoundRobin => {
                self.does_not_apply(first_quantum, "quanta", &beside);
                self.round_robin(schedule)
            }
            ScheduleKind::Cyclic => {
                // Only `fixed-priority` has quanta in the model; inside windows servers of one priority run in order.
                self.does_not_apply(first_quantum, "quanta", &beside);
                self.table(schedule)
            }
        }?;
        let floating_point = schedule.floating_point.as_ref().map(|choice| choice.value);
        Some(model::Schedule {
            board_core: usize::try_from(schedule.core.value).ok()?,
            kind,
            eager_floating_point: floating_point == Some(FloatingPoint::Eager),
        })
    }

    fn round_robin(&mut self, schedule: &Schedule) -> Option<model::ScheduleKind> {
        let quantum = self.needed(&schedule.quantum, "quantum", schedule.kind.span, "a round robin")?;
        let quantum_ns = self.quantum(quantum)?;
        Some(model::ScheduleKind::RoundRobin {
            quantum_ns,
            on_interrupt: schedule.on_interrupt.as_ref().map_or(OnInterrupt::None, |word| word.value),
            reading: schedule.reading.as_ref().map_or(Reading::Latched, |word| word.value),
            ring_moves: schedule.ring.as_ref().is_some_and(|ring| ring.value == Ring::Moves),
        })
    }

    /// Reads a quantum.
    fn quantum(&mut self, text: &Located<Duration>) -> Option<u64> {
        let quantum_ns = self.duration(text)?;
        let in_range = 1..=MAX_PERIOD_TICKS;
        if !in_range.contains(&ticks::round_down(quantum_ns, self.board.board.counter_hz)) {
            let message = format!("a quantum of {} is no turn", format_duration(quantum_ns));
            self.push(Diagnostic::new(Code::BadQuantum, message).at(text.span, "expected a time such as \"10 ms\""));
            return None;
        }
        Some(quantum_ns)
    }

    fn quanta(&mut self, schedule: &Schedule) -> Option<Vec<(u8, u64)>> {
        if let Some(extra) = schedule.quanta.get(MAX_CORE_QUANTA) {
            let message = format!("a core has quanta for at most {MAX_CORE_QUANTA} priorities");
            self.push(Diagnostic::new(Code::BadQuantum, message).at(extra.span, "the first one too many"));
        }
        for (place, quantum) in schedule.quanta.iter().enumerate() {
            let earlier = schedule.quanta.iter().take(place);
            let same = earlier.into_iter().find(|one| one.priority.value == quantum.priority.value);
            if let Some(first) = same {
                let message = format!("priority {} has two quanta", quantum.priority.value);
                let diagnostic = Diagnostic::new(Code::BadQuantum, message);
                self.push(diagnostic.at(quantum.priority.span, "").at(first.priority.span, "the first one"));
            }
        }
        let one = |resolver: &mut Self, quantum: &Located<crate::sharing::Quantum>| {
            let priority = resolver.priority(&quantum.priority);
            let quantum_ns = resolver.quantum(&quantum.quantum);
            Some((priority?, quantum_ns?))
        };
        let quanta: Vec<_> = schedule.quanta.iter().map(|quantum| one(self, quantum)).collect();
        quanta.into_iter().collect()
    }

    /// Reads a priority.
    pub(super) fn priority(&mut self, number: &Located<u64>) -> Option<u8> {
        let priority = u8::try_from(number.value).ok().filter(|priority| *priority < PRIORITIES);
        if priority.is_none() {
            let message = format!("{} is not a priority", number.value);
            let label = format!("expected 0 (the most important) to {}", PRIORITIES - 1);
            self.push(Diagnostic::new(Code::BadPriority, message).at(number.span, label));
        }
        priority
    }

    /// Returns the value of a key that another one asks for, or reports that it is missing.
    pub(super) fn needed<'v, T>(
        &mut self,
        value: &'v Option<Located<T>>,
        key: &str,
        place: Span,
        for_what: &str,
    ) -> Option<&'v Located<T>> {
        if value.is_none() {
            let message = format!("the key `{key}` is missing");
            let label = format!("{for_what} needs `{key}`");
            self.push(Diagnostic::new(Code::KeyNeeded, message).at(place, label));
        }
        value.as_ref()
    }

    fn table(&mut self, schedule: &'r Located<Schedule>) -> Option<model::ScheduleKind> {
        let major = self.needed(&schedule.major_frame, "major_frame", schedule.kind.span, "a time table")?;
        let major_ns = self.exact(major)?;
        if schedule.windows.is_empty() {
            let message = "the time table has no window";
            self.push(
                Diagnostic::new(Code::WindowCount, message)
                    .at(schedule.kind.span, "needs `windows`")
                    .help("for example `windows = [{ partition = \"a\", offset = \"0 ms\", length = \"20 ms\" }]`"),
            );
        }
        if let Some(extra) = schedule.windows.get(MAX_CORE_WINDOWS) {
            let count = schedule.windows.len();
            let message = format!("{count} windows are too many: a time table holds {MAX_CORE_WINDOWS}");
            self.push(Diagnostic::new(Code::WindowCount, message).at(extra.span, "the first one too many"));
        }
        let placed: Vec<Option<Placed<'r>>> =
            schedule.windows.iter().map(|window| self.window(schedule, window, (major_ns, major.span))).collect();
        let mut placed: Vec<Placed<'r>> = placed.into_iter().collect::<Option<_>>()?;
        placed.sort_by_key(|one| one.window.offset_ns);
        for pair in placed.windows(2) {
            self.overlap(pair);
        }
        Some(model::ScheduleKind::Cyclic { major_ns, windows: placed.into_iter().map(|one| one.window).collect() })
    }

    /// Reads a time of a time table, which is a whole number of ticks.
    fn exact(&mut self, text: &Located<Duration>) -> Option<u64> {
        let time_ns = self.duration(text)?;
        let hz = self.board.board.counter_hz;
        if ticks::exact(time_ns, hz).is_some() {
            return Some(time_ns);
        }
        let grid_ns = grid_ns(hz);
        let nearest = time_ns.saturating_add(grid_ns / 2) / grid_ns * grid_ns;
        let message = format!("{} is no whole number of ticks", format_duration(time_ns));
        let note = format!("a time table is on an absolute grid, and the board's counter ticks {hz} times a second");
        let diagnostic = Diagnostic::new(Code::NotWholeTicks, message).at(text.span, "").note(note);
        let replacement = format!("\"{}\"", format_duration(nearest.max(grid_ns)));
        self.push(diagnostic.suggest(text.span, replacement, "the nearest one"));
        None
    }

    fn window(
        &mut self,
        schedule: &Schedule,
        written: &'r Located<Window>,
        (major_ns, major_span): (u64, Span),
    ) -> Option<Placed<'r>> {
        let partition = self.window_partition(schedule, written);
        let (offset_ns, length_ns) = (self.exact(&written.offset), self.exact(&written.length));
        let (offset_ns, length_ns) = (offset_ns?, length_ns?);
        let end_ns = offset_ns.checked_add(length_ns);
        if length_ns == 0 {
            let message = format!("a window of `{}` is empty", written.partition.value);
            self.push(Diagnostic::new(Code::WindowOutside, message).at(written.length.span, "expected a time"));
        } else if end_ns.is_none_or(|end_ns| end_ns > major_ns) {
            let message = format!("a window of `{}` leaves the major frame", written.partition.value);
            let label = end_ns.map_or_else(String::new, |end_ns| format!("ends at {}", format_duration(end_ns)));
            self.push(
                Diagnostic::new(Code::WindowOutside, message)
                    .at(written.span, label)
                    .at(major_span, "the frame starts again here"),
            );
        }
        Some(Placed { written, window: model::TableWindow { partition: partition?, offset_ns, length_ns } })
    }

    /// Finds the partition of a window on the core.
    fn window_partition(&mut self, schedule: &Schedule, window: &Window) -> Option<usize> {
        let description = self.description;
        let (name, core) = (&window.partition, schedule.core.value);
        let is_here = |one: &Located<Partition>| one.cores.iter().any(|used| used.value == core);
        if let Some(found) = description.partition.iter().position(|one| one.name.value == name.value && is_here(one)) {
            return Some(found);
        }
        let exists = description.partition.iter().find(|one| one.name.value == name.value);
        let message = match exists {
            Some(_) => format!("partition `{}` is not on core {core}", name.value),
            None => format!("there is no partition `{}`", name.value),
        };
        let mut diagnostic = Diagnostic::new(Code::UnknownWindow, message).at(name.span, "has a window here");
        let here: Vec<&str> =
            description.partition.iter().filter(|one| is_here(one)).map(|one| one.name.as_str()).collect();
        if let Some(found) = exists {
            diagnostic = diagnostic.at(found.cores.span, "its cores");
        } else if let Some(meant) = suggest::closest(name, here.iter().copied()) {
            diagnostic = diagnostic.suggest(name.span, format!("\"{meant}\""), format!("did you mean `{meant}`?"));
        } else {
            diagnostic = diagnostic.help(format!("on core {core} are {}", suggest::list(&here)));
        }
        self.push(diagnostic);
        None
    }

    fn overlap(&mut self, pair: &[Placed<'_>]) {
        let [first, second] = pair else { return };
        let end_ns = first.window.offset_ns.saturating_add(first.window.length_ns);
        if second.window.offset_ns >= end_ns {
            return;
        }
        let names = (&first.written.partition.value, &second.written.partition.value);
        let message = format!("windows of `{}` and `{}` overlap", names.0, names.1);
        let diagnostic = Diagnostic::new(Code::WindowOverlap, message)
            .at(second.written.span, format!("starts at {}", format_duration(second.window.offset_ns)))
            .at(first.written.span, format!("ends at {}", format_duration(end_ns)));
        self.push(diagnostic.suggest(
            second.written.offset.span,
            format!("\"{}\"", format_duration(end_ns)),
            "start it when the other one ends",
        ));
    }
}

/// The shortest time that is a whole number of ticks and of nanoseconds.
fn grid_ns(hz: u64) -> u64 {
    let (mut one, mut other) = (SECOND_NS, hz.max(1));
    while other != 0 {
        (one, other) = (other, one % other);
    }
    SECOND_NS / one
}

/// The start of a window as written, for sorting; a bad one comes last.
pub(super) fn offset_ns(window: &Window) -> u64 {
    parse_duration(&window.offset.value.0).unwrap_or(u64::MAX)
}
