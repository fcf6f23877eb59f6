//! Messages of doubled sizes through a port of 4 KiB, between two components on one core (QV-E9).
//!
//! What a message takes is known from four of them: the smallest one, eight words more, a port full, and a second piece. From that the time of each other size follows, and `bulkhead simulate`
//! says when so much work is done on the servers of the description, by the kernel's own scheduler without the kernel's time. A run is to be that, within an exchange of row 9 for each time
//! that somebody begins to work, and one for a date of the kernel's own meanwhile.

use super::messages_cores::between_cores;
use super::{Ran, instance, iterations, name_of, within};
use crate::Failure;
use crate::experiments::guests::TICK_NS;
use crate::experiments::{Findings, Length};
use crate::lab::Lab;
use bulkhead_description::scenario::{
    CheckedArrival, InstanceArrival, InstanceScenario, Pattern, Target, load_instance,
};
use bulkhead_description::{Options, Report};
use bulkhead_simulate::event::{Event, EventKind};
use bulkhead_simulate::{InstanceSimulation, Limits};
use bulkhead_system_tests::kernel::Place;
use bulkhead_system_tests::kernel::figure::EXCHANGE_TICKS;

const TEXT: &str = include_str!("../../../systems/messages.kernel.toml");
const SHELL_SERVER: &str =
    r#"{ name = "shell", budget = "10 ms", period = "25 ms", on_empty = "stop", anchor = "eligible" }, "#;
const SHELL: &str = r#"
[[component]]
name = "shell"
program = "component:mail.elf"
threads = [{ name = "main", server = "shell", argument = COMPUTES }]
bind = { told = "empty:1", other = "empty:1", put = "empty:1" }
"#;
/// Roles of the component `mail`.
const RECEIVES: u64 = 0;
const SENDS: u64 = 1;
const COMPUTES: u64 = 2;
/// Bytes of the messages: each twice the one before.
const SIZES: [u64; 13] = {
    let (mut sizes, mut place) = ([64; 13], 1);
    while place < sizes.len() {
        sizes[place] = 2 * sizes[place - 1];
        place += 1;
    }
    sizes
};
const PORT_BYTES: u64 = 4096;
const CALL_BYTES: u64 = 64;
/// Messages are this far apart.
const PERIOD_NS: u64 = 100_000_000;
/// Least that the square of the correlation of size and time is to be.
const LINEAR: f64 = 0.999;

/// Budget of the messages' server, and whether a shell is above.
#[derive(Clone, Copy)]
struct Setting {
    name: &'static str,
    budget_ms: u64,
    has_shell: bool,
}

const HIGH: Setting = Setting { name: "High", budget_ms: 50, has_shell: false };
const LOW: Setting = Setting { name: "Low", budget_ms: 40, has_shell: true };

impl Setting {
    /// The description, without numbers.
    fn text(self) -> String {
        let (server, shell) = if self.has_shell { (SHELL_SERVER, SHELL) } else { ("", "") };
        TEXT.replace("SHELL_SERVER", server).replace("BUDGET", &self.budget_ms.to_string()) + shell
    }

    fn numbers(self, times: u64) -> Vec<(&'static str, u64)> {
        let mut numbers = vec![("SENDS", SENDS | times << 8), ("RECEIVES", RECEIVES | times << 8)];
        numbers.extend(self.has_shell.then_some(("COMPUTES", COMPUTES | times << 8)));
        numbers
    }

    /// Least, most and sum of what messages of each size took, from the date at which they are sent.
    fn took(self, lab: &Lab, times: u64, place: Place) -> Result<Vec<[u64; 3]>, Failure> {
        lab.guest("kernel/mail.elf")?;
        let ran = Ran::of(&instance(lab, "messages", &self.text(), &self.numbers(times))?.bytes, place)?;
        let (sent, received) = (ran.first::<1>("sent: sum ")?, ran.first::<1>("received: sum ")?);
        if sent != received {
            return Err(Failure::wrong(format!("{}: {sent:?} was sent, and {received:?} received", self.name)));
        }
        SIZES.into_iter().map(|bytes| ran.first(&format!("{bytes} bytes: "))).collect()
    }

    /// When so much work of the messages' server is done that arrives together with the shell's, and how often somebody begins to work until then.
    fn simulated(self, work_ns: u64) -> Result<(u64, u64), Failure> {
        let wrong = |report: Report| Failure::wrong(report.to_text(false));
        let mut text = self.text();
        for (name, number) in self.numbers(1) {
            text = text.replace(name, &number.to_string());
        }
        let path =
            std::env::temp_dir().join(format!("bulkhead-messages-{}-{}.kernel.toml", std::process::id(), self.name));
        std::fs::write(&path, text).map_err(|error| Failure::wrong(format!("{}: {error}", path.display())))?;
        let loaded = load_instance(&path, &Options::from_environment(None));
        let _ = std::fs::remove_file(&path);
        let instance = loaded.map_err(wrong)?;
        let thread = |name: &str| instance.threads.iter().position(|one| one == name);
        let arrival = |thread, work_ns, pattern| InstanceArrival {
            target: Target::Thread(thread),
            arrival: CheckedArrival {
                partition: 0,
                vcpu: 0,
                is_interrupt: false,
                work_ns,
                offset_ns: 0,
                pattern,
                burst: 1,
                spacing_ns: 0,
                client: None,
            },
        };
        let sender = thread("sender.main").ok_or_else(|| Failure::wrong("nobody sends".to_owned()))?;
        let mut arrivals = vec![arrival(sender, work_ns, Pattern::At(vec![0]))];
        arrivals.extend(thread("shell.main").map(|shell| arrival(shell, 0, Pattern::Busy)));
        let scenario =
            InstanceScenario { instance, arrivals, made: Vec::new(), until_ns: None, warnings: Report::default() };
        let limits = Limits { until_ns: PERIOD_NS, events: u64::MAX };
        let mut events: Vec<Event> = Vec::new();
        let simulation = InstanceSimulation::new(scenario, limits, 0).map_err(Failure::wrong);
        simulation?.run(&mut events).map_err(|error| Failure::wrong(error.to_string()))?;
        let done =
            events.iter().position(|event| event.slot == sender && matches!(event.kind, EventKind::Complete { .. }));
        let done = done.ok_or_else(|| Failure::wrong(format!("{}: {work_ns} ns of work are not done", self.name)))?;
        let begins = events[..done].iter().filter(|event| matches!(event.kind, EventKind::Start { .. })).count();
        Ok((events[done].time_ns, begins as u64))
    }
}

/// What a message takes by four of them, in the order of [`SIZES`]: a call for each 64 bytes, and a turn of both for each piece.
fn expected(counts: [u64; 4], bytes: u64) -> u64 {
    let [smallest, with_two_calls, full, with_two_pieces] = counts;
    let call = with_two_calls - smallest;
    let turn = with_two_pieces - full - PORT_BYTES / CALL_BYTES * call;
    smallest + (bytes / CALL_BYTES - 1) * call + (bytes.div_ceil(PORT_BYTES) - 1) * turn
}

/// The square of the correlation.
fn correlation_squared(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let (x, y) = points.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0 / count, y + point.1 / count));
    let sum = |of: fn(f64, f64) -> f64| points.iter().map(|point| of(point.0 - x, point.1 - y)).sum::<f64>();
    sum(|x, y| x * y).powi(2) / (sum(|x, _| x * x) * sum(|_, y| y * y))
}

/// QV-E9, on one core.
pub(super) fn messages(lab: &Lab, length: Length) -> Result<Findings, Failure> {
    let times = iterations("kernel.messages", length)?;
    let mut findings = Findings::default();
    let high = HIGH.took(lab, times, Place::Board)?;
    let counts = [0, 1, 6, 7].map(|place: usize| high[place][0]);
    for (setting, took) in [(HIGH, high.clone()), (LOW, LOW.took(lab, times, Place::Board)?)] {
        for (bytes, [_, _, sum]) in SIZES.into_iter().zip(&took) {
            let (done_ns, begins) = setting.simulated(expected(counts, bytes) * TICK_NS)?;
            let label = format!("{}: {bytes} bytes, begun {begins} time(s)", setting.name);
            let mean = *sum as f64 / times as f64;
            let slack = ((begins + 1) * EXCHANGE_TICKS) as f64;
            findings.cells.push(within(label, "instructions", (done_ns / TICK_NS) as f64, mean, slack));
        }
        let direct = setting.took(lab, times, Place::Direct)?;
        let apart = took.iter().zip(&direct).map(|(board, direct)| board[2].abs_diff(direct[2])).max().unwrap_or(0);
        findings.claim(
            apart <= times * EXCHANGE_TICKS,
            format!(
                "{}: {} differs by {} instructions at most in the mean",
                setting.name,
                name_of(Place::Direct),
                apart / times
            ),
        );
    }
    let points: Vec<_> =
        SIZES.iter().zip(&high).map(|(bytes, took)| (*bytes as f64, took[2] as f64 / times as f64)).collect();
    let squared = correlation_squared(&points);
    between_cores(lab, times, &mut findings)?;
    findings.claim(squared > LINEAR, format!("High is linear in the size: R^2 = {squared:.6}, more than {LINEAR}"));
    findings.notes.push("both ends are on one server, since two of 50 ms in 100 ms leave nothing for the kernel; the second half of the experiment, on two cores, is apart".to_owned());
    findings.notes.push(
        "words go by calls into the receiver, eight at a time: components of the host have no memory in common"
            .to_owned(),
    );
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::{correlation_squared, expected};

    /// A call of 100, and a turn of 1,000 in which the first piece has part.
    #[test]
    fn sizes_follow_from_four_of_them() {
        let counts = [2_100, 2_200, 2_000 + 64 * 100, 3_000 + 128 * 100];
        assert_eq!([64, 128, 4096, 8192].map(|bytes| expected(counts, bytes)), counts);
        assert_eq!(expected(counts, 1 << 18), 2_000 + 4096 * 100 + 63 * 1_000);
    }

    #[test]
    fn a_line_is_one_and_a_hump_is_none() {
        let is_near = |points: &[(f64, f64)], wanted: f64| (correlation_squared(points) - wanted).abs() < 1e-12;
        assert!(is_near(&[(1.0, 3.0), (2.0, 5.0), (4.0, 9.0)], 1.0));
        assert!(is_near(&[(1.0, 1.0), (2.0, 9.0), (3.0, 1.0)], 0.0));
    }
}
