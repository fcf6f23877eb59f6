//! What the two consoles said, as numbers.

use super::attacks::Attacks;
use crate::facts::texts;
use bulkhead_plan::model::{HealthPolicy, System, WorldServer};
use bulkhead_run::Machine;
use bulkhead_run::qemu::SECURE_CONSOLE;
use bulkhead_timing::Assumptions;
use bulkhead_timing::payload::bounds as payload_bounds;

/// One tick of the counter, and one instruction of these runs.
pub(crate) const TICK_NS: u64 = 16;

/// How late Linux woke a program that slept to an instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delay {
    /// Instants.
    pub samples: u64,
    /// The least: what Linux itself takes.
    pub least_ns: u64,
    /// On average.
    pub mean_ns: u64,
    /// At most.
    pub most_ns: u64,
    /// What was computed before the run of how long Linux may be kept waiting.
    pub bound_ns: Option<u64>,
}

impl Delay {
    /// States whether there were samples, and each is within what Linux waits and then takes itself.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.samples > 0 && self.bound_ns.is_some_and(|bound_ns| self.most_ns <= bound_ns + self.least_ns)
    }
}

/// All that is judged.
#[derive(Clone, Debug, Default)]
pub struct WorldFacts {
    /// Lines of the payload that say that something failed.
    pub failures: Vec<String>,
    /// Ticks that were due, and those that came.
    pub ticks_due: u64,
    /// See above.
    pub ticks: u64,
    /// The latest tick that interrupted the payload, and the latest one that interrupted the other world, in instructions.
    pub latest: (u64, u64),
    /// What was computed of the latter.
    pub latency_bound: Option<u64>,
    /// Jobs of the payload's tasks, and how many of them ended too late.
    pub jobs: u64,
    /// See above.
    pub missed: u64,
    /// The worst response of each of these tasks.
    pub responses_ns: Vec<u64>,
    /// Starts of Linux that came to its first program.
    pub hellos: u64,
    /// It gave the core to an image that masks everything and loops.
    pub hangs: u64,
    /// Restarts because the payload saw no progress, and the longest, from the order to the moment in which Linux may run.
    pub restarts: u64,
    /// See above.
    pub restart_ns: u64,
    /// What was computed of the latter.
    pub restart_bound_ns: Option<u64>,
    /// Texts of the payload that Linux sent back, and those that were not as the payload had sent them.
    pub answered: u64,
    /// See above.
    pub wrong_answers: u64,
    /// The other world switched itself off at the end.
    pub is_off: bool,
    /// With the task for what is urgent, and without it.
    pub delay: Delay,
    /// See above.
    pub idle_delay: Delay,
    /// The hostile world.
    pub attacks: Attacks,
    /// Wall time.
    pub elapsed_s: f64,
}

/// The lines of a console.
pub(super) fn lines_of(machine: &Machine, console: &str) -> Vec<String> {
    texts(machine, console).map(str::to_owned).collect()
}

/// All numbers of a line.
pub(crate) fn numbers(line: &str) -> Vec<u64> {
    line.split(|character: char| !character.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect()
}

impl WorldFacts {
    pub(super) fn of(machine: &Machine, world: &str) -> Self {
        Self::of_lines(&lines_of(machine, SECURE_CONSOLE), &lines_of(machine, world))
    }

    pub(crate) fn of_lines(payload: &[String], world: &[String]) -> Self {
        let mut facts = Self::default();
        for line in payload {
            facts.payload_line(line);
        }
        for line in world {
            facts.hellos += u64::from(line.ends_with("says hello"));
            facts.hangs += u64::from(line.ends_with("a loop with everything masked"));
            let Some(rest) = line.strip_prefix("latency ") else { continue };
            if let [least_ns, mean_ns, most_ns, samples] = numbers(rest)[..] {
                facts.delay = Delay { samples, least_ns, mean_ns, most_ns, bound_ns: None };
            }
        }
        facts
    }

    fn payload_line(&mut self, line: &str) {
        if line.contains("FAILED") || line.starts_with("BH:") {
            self.failures.push(line.to_owned());
        }
        let Some(rest) = line.strip_prefix("rtos: ") else { return };
        match (rest.split(' ').next(), &numbers(rest)[..]) {
            (Some("task"), [_, jobs, _, most, missed]) => {
                self.jobs += jobs;
                self.missed += missed;
                self.responses_ns.push(most * TICK_NS);
            }
            (Some("telemetry:"), [_, _, answered, wrong]) => (self.answered, self.wrong_answers) = (*answered, *wrong),
            (Some("the"), [took]) if rest.contains("started again") => {
                self.restart_ns = self.restart_ns.max(took * TICK_NS);
            }
            (Some("ticks"), [due]) => self.ticks_due = *due,
            (Some("ticks"), [own, _, latest_own, other, _, latest_other, _]) => {
                self.ticks = own + other;
                self.latest = (*latest_own, *latest_other);
            }
            _ => {
                self.restarts += u64::from(rest == "the other world is restarting: no progress");
                self.is_off |= rest == "the other world is off";
            }
        }
    }

    /// Adds what was computed of the system.
    pub(super) fn bound(&mut self, system: &System) {
        let bounds = payload_bounds(system, &Assumptions::default());
        self.latency_bound = bounds.as_ref().map(|bounds| bounds.latency_ns / TICK_NS);
        let policy = system.secure.as_ref().and_then(|secure| secure.health).map(|health| health.policy);
        let start_ns = bounds.as_ref().and_then(|bounds| bounds.start_ns);
        if let (Some(HealthPolicy::Restart { backoff_ns, .. }), Some(start_ns)) = (policy, start_ns) {
            self.restart_bound_ns = Some(start_ns + backoff_ns);
        }
        self.delay.bound_ns = blackout(system, |server| !server.interrupts.is_empty());
    }

    /// Adds the run without a task for what is urgent.
    pub(super) fn without_urgent(&mut self, system: &System, other: &Self) {
        self.idle_delay = Delay { bound_ns: blackout(system, |server| server.interrupts.is_empty()), ..other.delay };
        self.failures.extend(other.failures.iter().cloned());
        self.missed += other.missed;
    }
}

/// The longest time for which the servers of this kind do not run.
fn blackout(system: &System, is_meant: impl Fn(&WorldServer) -> bool) -> Option<u64> {
    let bounds = payload_bounds(system, &Assumptions::default())?;
    let servers = &system.secure.as_ref()?.servers;
    let meant = servers.iter().zip(&bounds.blackouts_ns).filter(|(server, _)| is_meant(server));
    meant.map(|(_, (blackout_ns, _))| *blackout_ns).max().flatten()
}

#[cfg(test)]
mod tests {
    use super::{Delay, WorldFacts};

    #[test]
    fn lines_become_numbers() {
        let payload = [
            "rtos: FreeRTOS V11.2.0 in the secure world",
            "rtos: the other world is restarting: no progress",
            "rtos: the other world is started again, after counter ticks: 1000",
            "rtos: the other world is off",
            "rtos: telemetry: sent 40 not-sent 3 answered 10 wrong 1",
            "rtos: task 0 jobs 791 response 630779 to 635821 missed 1",
            "rtos: task 1 jobs 132 response 8188685 to 8863767 missed 2",
            "rtos: ticks due: 39517",
            "rtos: ticks in the payload: 21827 late 2 to 260; in the other world: 17690 late 116 to 118; calls 10",
            "BH: CRC plan",
        ];
        let world = [
            "linux: 6.1.0 with 1 CPUs says hello",
            "linux: a loop with everything masked",
            "latency min=5 mean=7 max=9 ns n=500",
            "linux: end: poweroff",
        ];
        let own = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
        let facts = WorldFacts::of_lines(&own(&payload), &own(&world));
        assert_eq!((facts.ticks_due, facts.ticks, facts.latest), (39_517, 39_517, (260, 118)));
        assert_eq!((facts.jobs, facts.missed, facts.hellos, facts.is_off), (923, 3, 1, true));
        assert_eq!((facts.hangs, facts.restarts, facts.restart_ns), (1, 1, 16_000));
        assert_eq!((facts.answered, facts.wrong_answers), (10, 1));
        assert_eq!(facts.responses_ns, [635_821 * 16, 8_863_767 * 16]);
        assert_eq!(facts.delay, Delay { samples: 500, least_ns: 5, mean_ns: 7, most_ns: 9, bound_ns: None });
        assert_eq!(facts.failures, ["BH: CRC plan"]);
    }
}
