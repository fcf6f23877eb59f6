//! Numbers of a finished run, read from the machine's RAM and its consoles.

use crate::cast::Cast;
use crate::shared::SharedTime;
use crate::uart::UartFacts;
use crate::{CONTROL, INTRUDER, LINUX, OFFICE, RTOS};
use bulkhead_abi::observe::Counter;
use bulkhead_abi::status::STATE_OFF;
use bulkhead_run::{Machine, RunError};
use std::collections::BTreeMap;

/// Verdict of an attack that the intruder did not try here.
const SKIPPED: &str = "skipped";

/// What was counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// Who was there.
    pub cast: Cast,
    /// Releases of the control loop that were due at its end.
    pub releases_due: u64,
    /// Iterations done.
    pub iterations: u64,
    /// Exits to EL2 on control's core after its first instruction, its own calls not counted.
    pub control_exits: u64,
    /// Hypercalls that the control loop made itself (telemetry doorbells).
    pub control_calls: u64,
    /// Bytes of control's output that differ from the reference, in place or length.
    pub output_changed_bytes: u64,
    /// Bytes compared.
    pub output_bytes: u64,
    /// Restarts of Linux.
    pub linux_restarts: u32,
    /// Linux was off at the end, not stopped.
    pub linux_ended: bool,
    /// Telemetry messages that Linux printed.
    pub telemetry_messages: u64,
    /// Attacks by verdict.
    pub attacks: BTreeMap<String, u64>,
    /// Attacks that were tried and have a result.
    pub attacks_tried: u64,
    /// Restarts of the intruder.
    pub intruder_restarts: u32,
    /// Notifications of the controller that its limiter let through, and held back.
    pub doorbells: (u64, u64),
    /// Messages that FreeRTOS printed.
    pub rtos_messages: u64,
    /// Messages of FreeRTOS that are missing between two that it printed.
    pub rtos_missing: u64,
    /// The second Linux said hello.
    pub office_said_hello: bool,
    /// The second Linux was off at the end, not stopped.
    pub office_ended: bool,
    /// What was counted at the UART of Linux.
    pub uart: UartFacts,
    /// What was measured of the shared core in its own run.
    pub shared: SharedTime,
    /// Seconds in all.
    pub elapsed_s: f64,
}

/// Output of a partition, complete lines as bytes.
pub(crate) fn output_of(machine: &Machine, partition: &str) -> Vec<u8> {
    let mut output = Vec::new();
    for line in machine.lines(partition) {
        output.extend_from_slice(&line.bytes);
        output.push(b'\n');
    }
    output
}

/// Texts of the lines of a partition or UART.
pub(crate) fn texts<'a>(machine: &'a Machine, console: &'a str) -> impl Iterator<Item = &'a str> {
    machine.lines(console).map(|line| line.text.as_str())
}

/// Number of bytes that differ, plus the difference in length.
pub(crate) fn changed_bytes(reference: &[u8], found: &[u8]) -> u64 {
    let differing = reference.iter().zip(found).filter(|(left, right)| left != right).count();
    (differing + reference.len().abs_diff(found.len())) as u64
}

/// Reads `key=number` from a line.
pub(crate) fn value_of(line: &str, key: &str) -> Option<u64> {
    line.split_whitespace().find_map(|word| word.strip_prefix(key)?.strip_prefix('=')?.parse().ok())
}

/// Reads the last line of the control loop: releases due and iterations done, zeros if it did not get there.
pub(crate) fn ends_of_control<'a>(lines: impl Iterator<Item = &'a str>) -> (u64, u64) {
    let last = lines.filter(|line| line.starts_with("done ")).last().unwrap_or_default();
    (value_of(last, "releases_due").unwrap_or(0), value_of(last, "iterations").unwrap_or(0))
}

impl Facts {
    /// Collects the facts of a run that has ended.
    ///
    /// # Errors
    /// When the machine has no monitor.
    pub fn collect(machine: &Machine, reference: &[u8], cast: Cast) -> Result<Self, RunError> {
        let observer = machine.observer().ok_or_else(|| RunError::Other("the machine has no monitor".to_owned()))?;
        let mut facts = Self { cast, ..Self::default() };
        let index = |name: &str| observer.plan().partition_named(name);
        if let Some(control) = index(CONTROL) {
            facts.control_exits = observer.partition_counter(control, Counter::Exits);
            facts.control_calls = observer.partition_counter(control, Counter::Hypercall);
            let sent = observer.partition_counter(control, Counter::DoorbellSent);
            facts.doorbells = (sent, observer.partition_counter(control, Counter::DoorbellLimited));
        }
        (facts.releases_due, facts.iterations) = ends_of_control(texts(machine, CONTROL));
        let output = output_of(machine, CONTROL);
        facts.output_changed_bytes = changed_bytes(reference, &output);
        facts.output_bytes = reference.len() as u64;
        if let Some(linux) = index(LINUX) {
            let status = observer.status(linux);
            facts.linux_restarts = status.restarts;
            facts.linux_ended = status.state == STATE_OFF;
        }
        facts.telemetry_messages = machine.lines(LINUX).filter(|line| is_telemetry(&line.text)).count() as u64;
        if let Some(intruder) = index(INTRUDER) {
            facts.intruder_restarts = observer.status(intruder).restarts;
        }
        for line in machine.lines(INTRUDER) {
            facts.note_attack(&line.text);
        }
        facts.note_messages(texts(machine, RTOS));
        if let Some(uart) = &facts.cast.uart {
            facts.uart = UartFacts::of(texts(machine, uart), texts(machine, LINUX));
        }
        facts.office_said_hello = machine.lines(OFFICE).any(|line| line.text.ends_with("says hello"));
        facts.office_ended = index(OFFICE).is_some_and(|office| observer.status(office).state == STATE_OFF);
        Ok(facts)
    }

    /// Counts `rtos: tick N message M`. The numbers of the messages have one step; a larger one means that some are missing.
    pub(crate) fn note_messages<'a>(&mut self, lines: impl Iterator<Item = &'a str>) {
        let numbers =
            lines.filter_map(|line| line.strip_prefix("rtos: tick ")?.rsplit(' ').next()?.parse::<u64>().ok());
        let mut step = None;
        let mut expected = None;
        for number in numbers {
            self.rtos_messages += 1;
            let step = *step.get_or_insert(number);
            let found = expected.unwrap_or(step);
            self.rtos_missing += number.abs_diff(found) / step.max(1);
            expected = Some(number + step);
        }
    }

    /// Counts `attack N result VERDICT: ...`; an attack that was announced and skipped was not tried.
    pub(crate) fn note_attack(&mut self, line: &str) {
        let Some(rest) = line.strip_prefix("attack ") else { return };
        let mut words = rest.split_whitespace().skip(1);
        if words.next() != Some("result") {
            return;
        }
        let verdict = words.next().unwrap_or("?").trim_end_matches(':').to_owned();
        self.attacks_tried += u64::from(verdict != SKIPPED);
        *self.attacks.entry(verdict).or_default() += 1;
    }

    /// Periods that were due and not served.
    #[must_use]
    pub fn lost_periods(&self) -> u64 {
        self.releases_due.saturating_sub(self.iterations)
    }

    /// Attacks that gained something.
    #[must_use]
    pub fn attacks_succeeded(&self) -> u64 {
        self.attacks.get("escaped").copied().unwrap_or(0)
    }

    /// Attacks that gained nothing but did not end as they were expected to.
    #[must_use]
    pub fn attacks_unexpected(&self) -> u64 {
        self.attacks.get("unexpected").copied().unwrap_or(0)
    }
}

/// A record of the controller that Linux read from the channel and printed.
fn is_telemetry(line: &str) -> bool {
    line.starts_with("linux: telemetry: period ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_differ_and_bytes_that_are_missing_both_count() {
        assert_eq!(changed_bytes(b"period 1\n", b"period 1\n"), 0);
        assert_eq!(changed_bytes(b"period 1\n", b"period 2\n"), 1);
        assert_eq!(changed_bytes(b"period 1\nperiod 2\n", b"period 1\n"), 9);
    }

    #[test]
    fn attacks_are_counted_by_verdict() {
        let mut facts = Facts::default();
        for line in [
            "attack 1 wild jump: expect fault",
            "attack 1 result contained: restarted, reason 2",
            "attack 2 read monitor: expect fault",
            "attack 2 result escaped: value 0x1",
            "attack 3 silence: expect watchdog",
            "attack 3 result skipped: no watchdog=1 in the arguments",
            "control start",
        ] {
            facts.note_attack(line);
        }
        assert_eq!((facts.attacks_tried, facts.attacks_succeeded(), facts.attacks["contained"]), (2, 1, 1));
    }

    #[test]
    fn messages_that_are_missing_are_noticed() {
        let mut facts = Facts::default();
        let lines = ["rtos: FreeRTOS V11", "rtos: tick 1000 message 100", "rtos: tick 2000 message 200"];
        facts.note_messages(lines.into_iter());
        assert_eq!((facts.rtos_messages, facts.rtos_missing), (2, 0));
        facts.note_messages(["rtos: tick 1000 message 100", "rtos: tick 4000 message 400"].into_iter());
        assert_eq!((facts.rtos_messages, facts.rtos_missing), (4, 2));
    }

    #[test]
    fn a_missing_last_line_is_not_zero_lost_periods_by_accident() {
        let facts = Facts::default();
        assert_eq!(facts.lost_periods(), 0);
        assert!(!crate::judge(&facts).all_true(), "no iterations is a failure of its own");
    }
}
