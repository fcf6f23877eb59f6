//! What the consoles said, what the monitors counted and what was executed at EL3, as numbers.

use super::MANAGER;
use crate::facts::{ends_of_control, texts};
use crate::story::index;
use crate::worlds::{TICK_NS, WorldFacts, numbers};
use crate::{CONTROL, INTRUDER, LINUX};
use bulkhead_abi::observe::Counter;
use bulkhead_abi::status::{REASON_WATCHDOG, STATE_OFF, STATE_STOPPED};
use bulkhead_el3::configuration::{MOST_KICK, MOST_PATH_2_OF_CORES};
use bulkhead_plan::model::System;
use bulkhead_run::el3::{Core, Watch};
use bulkhead_run::qemu::SECURE_CONSOLE;
use bulkhead_run::{Machine, Observer, RunError};
use bulkhead_timing::Assumptions;
use bulkhead_timing::payload::bounds as payload_bounds;

/// What the guest `stubborn` says around the time in which it has its ticks and nothing else, and before it masks everything.
const BEGINS: &str = "stubborn takes its ticks";
const ENDS: &str = "stubborn quiet ";
const MASKS: &str = "stubborn masks everything";

/// What the payload said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Payload {
    /// Lines that say that something failed.
    pub failures: Vec<String>,
    /// Rounds of its fast task, and ticks that were due, by the counter, a moment before.
    pub rounds: (u64, u64),
    /// Ticks that were due, by the counter, and those that came.
    pub ticks: (u64, u64),
    /// The latest tick that interrupted the payload, and the latest one that interrupted the world below, in ticks of the counter.
    pub latest: (u64, u64),
}

impl Payload {
    /// States whether a line of the payload's console ends a report.
    pub(super) fn is_report(line: &str) -> bool {
        line.starts_with("rtos: ticks in the payload")
    }

    pub(super) fn of(machine: &Machine) -> Self {
        Self::of_lines(&texts(machine, SECURE_CONSOLE).map(str::to_owned).collect::<Vec<_>>())
    }

    fn of_lines(lines: &[String]) -> Self {
        let facts = WorldFacts::of_lines(lines, &[]);
        let mut rounds = lines.iter().filter_map(|line| match numbers(line.strip_prefix("rtos: rounds")?)[..] {
            [done, asked, ..] => Some((done, asked)),
            _ => None,
        });
        Self {
            rounds: rounds.next_back().unwrap_or_default(),
            ticks: (facts.ticks_due, facts.ticks),
            latest: facts.latest,
            failures: facts.failures,
        }
    }

    /// Ticks that were due and did not come.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.ticks.0.saturating_sub(self.ticks.1)
    }

    /// States whether it lost no tick, and its fast task no round.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.ticks.1 > 0 && self.lost() == 0 && self.rounds.1 > 0 && self.rounds.0 >= self.rounds.1
    }
}

/// The time in which the intruder takes its ticks and does nothing else, each time that it began.
///
/// A look counts when the guest had begun before it and had not ended after it, as its console in RAM says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quiet {
    /// Looks.
    pub looks: u64,
    /// Exits and calls between two looks at the same time.
    pub exits: u64,
    /// Starts that were looked at.
    pub starts: u64,
    /// The start that is looked at, its first count, and the latest one, which is not known to be before its end.
    pub(super) now: Option<(usize, u64, u64)>,
    /// The latest start with a look that counts.
    pub(super) counted: Option<usize>,
}

impl Quiet {
    pub(super) fn look(&mut self, machine: &Machine) {
        let (Some(observer), Ok(intruder)) = (machine.observer(), index(machine, INTRUDER)) else { return };
        let entries = [Counter::Exits, Counter::Hypercall, Counter::Psci];
        let count = |line: &str| texts(machine, INTRUDER).filter(|text| text.starts_with(line)).count();
        let (begun, ended) = (count(BEGINS), count(ENDS));
        let entries = entries.map(|counter| observer.partition_counter(intruder, counter)).iter().sum();
        self.note((begun > ended).then_some(begun), entries);
    }

    /// `start` is the one that is quiet as of the latest poll; `entries` were read after it.
    fn note(&mut self, start: Option<usize>, entries: u64) {
        let before = self.now.filter(|(number, ..)| Some(*number) == start);
        if let Some((_, first, latest)) = before {
            self.exits = self.exits.max(latest - first);
            self.looks += 1;
            self.starts += u64::from(self.counted != start);
            self.counted = start;
        }
        self.now = start.map(|number| (number, before.map_or(entries, |(_, first, _)| first), entries));
    }
}

/// What a hostile guest tried in the intruder's place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trials {
    /// Attacks with a result.
    pub tried: u64,
    /// Those that gained something.
    pub escaped: u64,
    /// Those that gained nothing and ended otherwise than expected.
    pub unexpected: u64,
    /// Times that its monitor started it again.
    pub restarts: u64,
    /// Attacks of which it said that they ended so, and those of them that its watchdog ended.
    pub restarted: u64,
    /// See above.
    pub watchdog: u64,
    /// It came to the end of its list and switched itself off.
    pub is_done: bool,
    /// Rounds of the control loop that were due, and done.
    pub control: (u64, u64),
    /// The control loop still ran when the last attack was over.
    pub is_beside_control: bool,
    /// The payload meanwhile.
    pub payload: Payload,
}

impl Trials {
    pub(super) fn of(machine: &Machine, is_beside_control: bool) -> Result<Self, RunError> {
        let observer = monitors(machine)?;
        let status = observer.status(index(machine, INTRUDER)?);
        let lines: Vec<&str> = texts(machine, INTRUDER).collect();
        let mut trials = Self::of_lines(&lines);
        trials.restarts = u64::from(status.restarts);
        trials.is_done &= status.state == STATE_OFF;
        trials.control = ends_of_control(texts(machine, CONTROL));
        trials.is_beside_control = is_beside_control;
        trials.payload = Payload::of(machine);
        Ok(trials)
    }

    fn of_lines(lines: &[&str]) -> Self {
        let mut facts = crate::Facts::default();
        lines.iter().for_each(|line| facts.note_attack(line));
        let stopped = format!("restarted, reason {REASON_WATCHDOG:#x}");
        let restarted = |line: &&&str| line.starts_with("attack ") && line.contains(": restarted, reason ");
        Self {
            tried: facts.attacks_tried,
            escaped: facts.attacks_succeeded(),
            unexpected: facts.attacks_unexpected(),
            restarted: lines.iter().filter(restarted).count() as u64,
            watchdog: lines.iter().filter(|line| line.ends_with(&stopped)).count() as u64,
            is_done: lines.iter().any(|line| line.starts_with("attacks done ")),
            ..Self::default()
        }
    }
}

/// What a manager did with a guest that masks everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Managed {
    /// Times that it was to suspend it, and did.
    pub suspended: (u64, u64),
    /// Times that it resumed it.
    pub resumed: u64,
    /// It started it again at last.
    pub restarted: bool,
    /// The payload meanwhile.
    pub payload: Payload,
}

impl Managed {
    pub(super) fn of(machine: &Machine) -> Self {
        let lines: Vec<&str> = texts(machine, MANAGER).collect();
        Self { payload: Payload::of(machine), ..Self::of_lines(&lines) }
    }

    fn of_lines(lines: &[&str]) -> Self {
        let mut managed = Self::default();
        for line in lines {
            managed.restarted |= line.starts_with("keeper restarted, start ");
            let Some(rest) = line.strip_prefix("keeper suspended ") else { continue };
            if let [done, asked, _, resumed] = numbers(rest)[..] {
                (managed.suspended, managed.resumed) = ((asked, done), resumed);
            }
        }
        managed
    }

    /// States whether all that it asked for was done.
    #[must_use]
    pub const fn holds(&self) -> bool {
        let (asked, done) = self.suspended;
        asked > 0 && done == asked && self.resumed == asked && self.restarted
    }
}

/// All that is judged.
#[derive(Clone, Debug, Default)]
pub struct HybridFacts {
    /// The payload in the run that is shown.
    pub payload: Payload,
    /// The payload with the control loop alone.
    pub alone: Payload,
    /// The latest that a tick may be there, in ticks of the counter, of which an instruction takes one.
    pub latency_bound: Option<u64>,
    /// Ticks that found the world below on the payload's core, and instructions at EL3 of the longest of them.
    pub path_2: (u64, u64),
    /// Most instructions of one.
    pub path_2_bound: u64,
    /// Releases of the control loop that were due, and done.
    pub control: (u64, u64),
    /// CPUs with which Linux said hello, and those that it says work.
    pub linux_cpus: (u64, u64),
    /// Software-generated interrupts that Linux sent, from one of its CPUs to the other.
    pub linux_sgis: u64,
    /// Linux switched itself off at its end.
    pub linux_ended: bool,
    /// Times that the intruder said that it masks everything.
    pub masked: u64,
    /// Times that it was stopped, and started again.
    pub faults: u64,
    /// See above.
    pub restarts: u64,
    /// It is off now because its watchdog stopped it once more than its policy lets it begin.
    pub is_stopped_by_watchdog: bool,
    /// Its time without an exit.
    pub quiet: Quiet,
    /// Software-generated interrupts of the intruder that were refused.
    pub sgis_refused: u64,
    /// Times that EL3 took the intruder's core away, and instructions of the longest.
    pub stops: (u64, u64),
    /// Most instructions of one.
    pub stop_bound: u64,
    /// The hostile guest.
    pub trials: Trials,
    /// The manager.
    pub managed: Managed,
    /// Wall time.
    pub elapsed_s: f64,
}

fn monitors(machine: &Machine) -> Result<&Observer, RunError> {
    machine.observer().ok_or_else(|| RunError::Other("the machine has no monitor".to_owned()))
}

impl HybridFacts {
    /// Collects what the run showed that was shown.
    pub(super) fn collect(&mut self, machine: &Machine) -> Result<(), RunError> {
        let observer = monitors(machine)?;
        let (linux, intruder) = (index(machine, LINUX)?, index(machine, INTRUDER)?);
        self.payload = Payload::of(machine);
        self.control = ends_of_control(texts(machine, CONTROL));
        self.linux_lines(texts(machine, LINUX));
        self.linux_sgis = observer.partition_counter(linux, Counter::SendSgi);
        self.linux_ended = observer.status(linux).state == STATE_OFF;
        let status = observer.status(intruder);
        self.masked = texts(machine, INTRUDER).filter(|line| *line == MASKS).count() as u64;
        (self.faults, self.restarts) = (status.faults, u64::from(status.restarts));
        self.is_stopped_by_watchdog = (status.state, status.reason) == (STATE_STOPPED, REASON_WATCHDOG);
        self.sgis_refused = observer.partition_counter(intruder, Counter::SgiOutside);
        Ok(())
    }

    fn linux_lines<'a>(&mut self, lines: impl Iterator<Item = &'a str>) {
        let number = |text: &str| text.rsplit(' ').next()?.parse().ok();
        for line in lines {
            let said = |end: &str| line.strip_suffix(end).and_then(number);
            self.linux_cpus.0 = said(" CPUs says hello").unwrap_or(self.linux_cpus.0);
            self.linux_cpus.1 = said(" CPUs work").unwrap_or(self.linux_cpus.1);
        }
    }

    /// Adds what was executed at EL3: of the payload's core and of the intruder's.
    pub(super) fn at_el3(&mut self, system: &System, watched: &Watch, cores: &[Core]) -> Result<(), String> {
        let path = |core: usize, name: &str| {
            let core = cores.get(core).map(std::slice::from_ref).unwrap_or_default();
            let paths = watched.paths(core)?;
            Ok::<_, String>(paths.get(name).map_or((0, 0), |passage| (passage.count, passage.longest)))
        };
        let intruder = system.partitions.iter().find(|partition| partition.name == INTRUDER);
        let core = intruder.and_then(|intruder| intruder.cores.first()).ok_or("the intruder has no core")?;
        self.path_2 = path(0, "2")?;
        self.stops = path(*core, "kick")?;
        Ok(())
    }

    /// Adds what was computed of the system before.
    pub(super) fn bound(&mut self, system: &System) {
        let bounds = payload_bounds(system, &Assumptions::default());
        self.latency_bound = bounds.map(|bounds| bounds.latency_ns / TICK_NS);
        (self.path_2_bound, self.stop_bound) = (MOST_PATH_2_OF_CORES, MOST_KICK);
    }
}

#[cfg(test)]
mod tests {
    use super::{HybridFacts, Managed, Payload, Quiet, Trials};

    #[test]
    fn lines_of_the_payload_become_numbers() {
        let lines = [
            "rtos: in the secure world of core 0",
            "rtos: rounds 1132 of 1131 ticks; the world was interrupted 5 times, called 0, and had urgent interrupts 0",
            "rtos: ticks due: 1132",
            "rtos: ticks in the payload: 800 late 2 to 260; in the other world: 332 late 111 to 118; calls 0",
            "rtos: FAILED: assertion",
        ];
        let lines = lines.map(str::to_owned);
        let payload = Payload::of_lines(&lines);
        assert_eq!((payload.rounds, payload.ticks, payload.latest), ((1132, 1131), (1132, 1132), (260, 118)));
        assert_eq!(payload.failures, ["rtos: FAILED: assertion"]);
        assert!(payload.is_whole());
        let reports: Vec<_> = lines.iter().filter(|line| Payload::is_report(line)).collect();
        assert_eq!(reports.len(), 1);
        assert!(!Payload { ticks: (1133, 1132), ..payload.clone() }.is_whole());
        assert!(!Payload { rounds: (999, 1000), ..payload }.is_whole());
        assert!(!Payload::default().is_whole(), "one that said nothing");
    }

    #[test]
    fn a_look_counts_when_the_quiet_time_lasted_after_it() {
        let noted = |looks: &[(Option<usize>, u64)]| {
            let mut quiet = Quiet::default();
            looks.iter().for_each(|(start, entries)| quiet.note(*start, *entries));
            (quiet.starts, quiet.looks, quiet.exits)
        };
        assert_eq!(noted(&[(None, 5), (Some(1), 5), (Some(1), 5), (Some(1), 5)]), (1, 2, 0));
        assert_eq!(
            noted(&[(Some(1), 5), (Some(1), 5), (Some(1), 96), (None, 96)]),
            (1, 2, 0),
            "after its end, perhaps"
        );
        assert_eq!(noted(&[(Some(1), 5), (Some(1), 6), (Some(1), 6)]), (1, 2, 1));
        assert_eq!(noted(&[(Some(1), 5), (Some(1), 5), (None, 9), (Some(2), 9), (Some(2), 9)]), (2, 2, 0));
        assert_eq!(noted(&[(Some(1), 5), (Some(2), 9)]), (0, 0, 0), "two starts are never compared");
    }

    #[test]
    fn attacks_of_a_hostile_guest_are_counted_with_the_stops_by_its_watchdog() {
        let trials = Trials::of_lines(&[
            "attack 1 wild jump: expect fault",
            "attack 1 result contained: restarted, reason 0x2",
            "attack 2 silence: expect fault",
            "attack 2 result contained: restarted, reason 0x5",
            "attack 3 read: expect answer",
            "attack 3 result escaped: value 0x1",
            "attack 4 result unexpected: value 0x1",
            "attack 5 result skipped: nothing 0x0",
            "attacks done tried=4 contained=2 unexpected=1 escaped=1 skipped=1",
        ]);
        let expected = Trials {
            tried: 4,
            escaped: 1,
            unexpected: 1,
            restarted: 2,
            watchdog: 1,
            is_done: true,
            ..Trials::default()
        };
        assert_eq!(trials, expected);
    }

    #[test]
    fn a_manager_says_what_it_did() {
        let lines = ["keeper suspended 99 of 100, at worst 1234 ticks; resumed 98", "keeper restarted, start 2"];
        let managed = Managed::of_lines(&lines);
        assert_eq!((managed.suspended, managed.resumed, managed.restarted), ((100, 99), 98, true));
    }

    #[test]
    fn linux_says_how_many_cpus_work() {
        let mut facts = HybridFacts::default();
        facts
            .linux_lines(["linux: 6.1.0-56-cloud-arm64 with 2 CPUs says hello", "linux: smp: 2 CPUs work"].into_iter());
        assert_eq!(facts.linux_cpus, (2, 2));
        facts = HybridFacts::default();
        facts.linux_lines(["linux: smp: 1 CPUs instead of 2"].into_iter());
        assert_eq!(facts.linux_cpus, (0, 0));
    }
}
