//! What the demonstration says at its end.

use crate::facts::Facts;
use crate::shared::{Compared, LoopTime, SharedTime, VcpuTime};
use crate::uart::UartFacts;
use serde_json::{Map, Value, json};
use std::fmt;

/// Claims with the numbers behind them.
#[derive(Clone, Debug)]
pub struct Summary {
    facts: Facts,
    /// What was counted with all partitions together.
    claims: Vec<Claim>,
    /// What was measured of the shared core alone.
    time_claims: Vec<Claim>,
}

/// Something that was shown, and whether it was true.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) holds: bool,
    pub(crate) text: String,
}

impl Summary {
    /// Judges the facts.
    #[must_use]
    pub fn new(facts: Facts) -> Self {
        let claims =
            [control_claims(&facts), other_claims(&facts), neighbour_claims(&facts), uart_claims(&facts)].concat();
        let time_claims = shared_claims(&facts.shared);
        Self { facts, claims, time_claims }
    }

    /// States whether everything that was shown was true.
    #[must_use]
    pub fn all_true(&self) -> bool {
        self.claims.iter().chain(&self.time_claims).all(|claim| claim.holds)
    }

    /// The summary for programs.
    ///
    /// `control.stolen_instructions` is 0 when the exit counter of control's core is 0; every exit costs at least one
    /// instruction at EL2, so otherwise the number of exits is a lower bound. What the system cannot show (a core of control's
    /// own, an `office`, a UART of Linux, the loop in the exact run) has no keys.
    #[must_use]
    pub fn json(&self) -> Value {
        let facts = &self.facts;
        let mut value = json!({
            "event": "summary",
            "control.lost_periods": facts.lost_periods(),
            "control.output_changed_bytes": facts.output_changed_bytes,
            "control.iterations": facts.iterations,
            "control.own_hypercalls": facts.control_calls,
            "linux.restarts": facts.linux_restarts,
            "linux.telemetry_messages": facts.telemetry_messages,
            "rtos.messages": facts.rtos_messages,
            "rtos.missing_messages": facts.rtos_missing,
            "attacks.tried": facts.attacks_tried,
            "attacks.succeeded": facts.attacks_succeeded(),
            "attacks.unexpected": facts.attacks_unexpected(),
            "intruder.restarts": facts.intruder_restarts,
            "doorbells.sent": facts.doorbells.0,
            "doorbells.limited": facts.doorbells.1,
            "shared.run_ns": facts.shared.run_ns,
            "shared.switches": facts.shared.switches,
            "elapsed_s": facts.elapsed_s,
            "all_true": self.all_true(),
        });
        if let Some(keys) = value.as_object_mut() {
            if facts.cast.control_is_direct {
                keys.insert("control.stolen_instructions".to_owned(), json!(facts.control_exits));
            }
            if facts.cast.has_office {
                keys.insert("office.said_hello".to_owned(), json!(facts.office_said_hello));
            }
            if facts.cast.uart.is_some() {
                let UartFacts { written, damaged, read, interrupts, .. } = facts.uart;
                for (key, count) in
                    [("written", written), ("read", read), ("damaged", damaged), ("interrupts", interrupts)]
                {
                    keys.insert(format!("uart.{key}"), json!(count));
                }
            }
            if let Some(control) = &facts.shared.control {
                keys.insert("shared.control.response_ns".to_owned(), json!(control.response.measured_ns));
                keys.insert("shared.control.response_bound_ns".to_owned(), json!(control.response.bound_ns));
                keys.insert("shared.control.deadline_ns".to_owned(), json!(control.deadline_ns));
                let lost = control.releases_due.saturating_sub(control.iterations);
                keys.insert("shared.control.lost_periods".to_owned(), json!(lost));
            }
            facts.shared.vcpus.iter().for_each(|vcpu| add_times(keys, vcpu));
        }
        value
    }
}

/// Adds what the exact run says of a vCPU: each measurement beside its bound.
fn add_times(keys: &mut Map<String, Value>, vcpu: &VcpuTime) {
    let mut add = |key: &str, value: Value| keys.insert(format!("shared.{}.{key}", vcpu.partition), value);
    for (key, compared) in [("longest_wait", vcpu.wait), ("longest_blackout", vcpu.blackout), ("used", vcpu.used)] {
        add(&format!("{key}_ns"), json!(compared.measured_ns));
        add(&format!("{key}_bound_ns"), json!(compared.bound_ns));
    }
    add("background_ns", json!(vcpu.background_ns));
    add("wakes", json!(vcpu.wakes));
    add("exhaustions", json!(vcpu.exhaustions));
}

pub(crate) fn claim(holds: bool, text: String) -> Claim {
    Claim { holds, text }
}

fn control_claims(facts: &Facts) -> Vec<Claim> {
    let mut claims = vec![claim(
        facts.iterations > 0 && facts.lost_periods() == 0,
        format!("control lost {} of {} periods", facts.lost_periods(), facts.releases_due),
    )];
    // Elsewhere its interrupts are exits, and so is whatever its neighbours on the core do.
    if facts.cast.control_is_direct {
        claims.push(claim(
            facts.control_exits == 0,
            format!(
                "{} exits to the monitor on control's core (its own {} calls apart)",
                facts.control_exits, facts.control_calls
            ),
        ));
    }
    claims.push(claim(
        facts.output_changed_bytes == 0 && facts.output_bytes > 0,
        format!("{} of {} bytes of its output differ from a run alone", facts.output_changed_bytes, facts.output_bytes),
    ));
    claims
}

fn other_claims(facts: &Facts) -> Vec<Claim> {
    vec![
        claim(
            facts.linux_restarts == 1 && facts.linux_ended,
            format!(
                "Linux crashed its kernel, was restarted {} time(s) by policy and ended by itself",
                facts.linux_restarts
            ),
        ),
        claim(
            facts.telemetry_messages > 0,
            format!("Linux printed {} telemetry messages of the controller", facts.telemetry_messages),
        ),
        claim(
            facts.attacks_tried > 0 && facts.attacks_succeeded() == 0 && facts.attacks_unexpected() == 0,
            format!(
                "{} attacks tried, {} succeeded, {} ended otherwise than expected; the intruder was restarted {} times",
                facts.attacks_tried,
                facts.attacks_succeeded(),
                facts.attacks_unexpected(),
                facts.intruder_restarts
            ),
        ),
    ]
}

fn neighbour_claims(facts: &Facts) -> Vec<Claim> {
    let mut claims = vec![claim(
        facts.rtos_messages > 0 && facts.rtos_missing == 0,
        format!("rtos printed {} messages; {} are missing between them", facts.rtos_messages, facts.rtos_missing),
    )];
    if facts.cast.has_office {
        claims.push(claim(
            facts.office_said_hello && facts.office_ended,
            "office, a second Linux on the core of rtos, booted, said hello and ended by itself".to_owned(),
        ));
    }
    claims
}

fn uart_claims(facts: &Facts) -> Vec<Claim> {
    let Some(name) = &facts.cast.uart else { return Vec::new() };
    let UartFacts { written, damaged, read, interrupts, .. } = facts.uart;
    vec![claim(
        facts.uart.holds(),
        format!(
            "Linux drove {name} with its stock driver: {written} lines out, {read} in, {damaged} damaged, {interrupts} interrupts"
        ),
    )]
}

fn shared_claims(shared: &SharedTime) -> Vec<Claim> {
    let run = claim(
        shared.vcpus.len() > 1 && shared.switches > 0,
        format!(
            "{} vCPUs shared the core for {}, with {} switches",
            shared.vcpus.len(),
            time(shared.run_ns),
            shared.switches
        ),
    );
    let control = shared.control.iter().map(loop_claim);
    std::iter::once(run).chain(control).chain(shared.vcpus.iter().flat_map(time_claims)).collect()
}

fn loop_claim(control: &LoopTime) -> Claim {
    let lost = control.releases_due.saturating_sub(control.iterations);
    claim(
        control.holds(),
        format!(
            "control lost {lost} of {} periods and was done at most {} after a release (deadline {})",
            control.releases_due,
            of_allowed(control.response),
            time(control.deadline_ns)
        ),
    )
}

fn time_claims(vcpu: &VcpuTime) -> Vec<Claim> {
    let name = &vcpu.partition;
    let times = if vcpu.exhaustions == 1 { "time" } else { "times" };
    vec![
        claim(
            vcpu.wakes > 0 && vcpu.wait.holds(),
            format!("{name} waited at most {} after {} wake-ups", of_allowed(vcpu.wait), vcpu.wakes),
        ),
        claim(
            vcpu.blackout.holds(),
            format!("{name} was ready without running for at most {}", of_allowed(vcpu.blackout)),
        ),
        claim(
            vcpu.used.measured_ns > 0 && vcpu.used.holds(),
            format!(
                "{name} used {} of budget, which ran out {} {times}, and {} that nobody else wanted",
                of_allowed(vcpu.used),
                vcpu.exhaustions,
                time(vcpu.background_ns)
            ),
        ),
    ]
}

fn of_allowed(compared: Compared) -> String {
    format!("{} of {} allowed", time(compared.measured_ns), compared.bound_ns.map_or_else(|| "?".to_owned(), time))
}

/// Microseconds, or milliseconds from one on, with three decimals.
pub(crate) fn time(time_ns: u64) -> String {
    if time_ns < 1_000_000 {
        return format!("{}.{:03} us", time_ns / 1_000, time_ns % 1_000);
    }
    format!("{}.{:03} ms", time_ns / 1_000_000, time_ns % 1_000_000 / 1_000)
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nWhat was shown (counts, read from the machine's RAM; no time is judged):")?;
        write_claims(f, &self.claims)?;
        let (sent, limited) = self.facts.doorbells;
        writeln!(
            f,
            "  Doorbells of the controller: {sent} let through, {limited} held back by the limiter; no data was lost."
        )?;
        writeln!(
            f,
            "The shared core in a run of its own (exact: 1 instruction = 1 ns; allowed is what was computed before it):"
        )?;
        write_claims(f, &self.time_claims)?;
        write_end(f, self.facts.elapsed_s, self.all_true())
    }
}

/// A line for each claim.
pub(crate) fn write_claims(f: &mut fmt::Formatter<'_>, claims: &[Claim]) -> fmt::Result {
    claims.iter().try_for_each(|claim| writeln!(f, "  {} {}", if claim.holds { "yes" } else { "NO " }, claim.text))
}

/// How long it took, and the verdict.
pub(crate) fn write_end(f: &mut fmt::Formatter<'_>, elapsed_s: f64, all_true: bool) -> fmt::Result {
    writeln!(f, "  {elapsed_s:.1} s in all (wall clock of this host)")?;
    writeln!(f, "{}", if all_true { "All of it was true." } else { "NOT all of it was true." })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cast::Cast;

    fn good() -> Facts {
        Facts {
            cast: Cast { control_is_direct: true, has_office: true, uart: Some("uart1".to_owned()) },
            uart: UartFacts { written: 2, whole: 2, read: 1, answered: 1, interrupts: 3, damaged: 0 },
            releases_due: 10,
            iterations: 10,
            output_bytes: 5,
            linux_restarts: 1,
            linux_ended: true,
            telemetry_messages: 3,
            attacks_tried: 60,
            rtos_messages: 20,
            office_said_hello: true,
            office_ended: true,
            shared: SharedTime {
                run_ns: 900,
                switches: 9,
                vcpus: vec![vcpu("office"), vcpu("rtos")],
                control: Some(control()),
            },
            ..Facts::default()
        }
    }

    fn control() -> LoopTime {
        let response = Compared { measured_ns: 5, bound_ns: Some(5) };
        LoopTime { releases_due: 10, iterations: 10, response, deadline_ns: 6 }
    }

    fn vcpu(partition: &str) -> VcpuTime {
        let compared = Compared { measured_ns: 5, bound_ns: Some(5) };
        let (wait, blackout, used) = (compared, compared, compared);
        VcpuTime { partition: partition.to_owned(), wakes: 3, wait, blackout, used, ..VcpuTime::default() }
    }

    #[test]
    fn each_claim_can_fail() {
        assert!(Summary::new(good()).all_true());
        let spoil: [fn(&mut Facts); 18] = [
            |facts| facts.iterations = 9,
            |facts| facts.control_exits = 1,
            |facts| facts.uart.whole = 1,
            |facts| facts.shared.control = Some(LoopTime { iterations: 9, ..control() }),
            |facts| facts.shared.control = Some(LoopTime { deadline_ns: 4, ..control() }),
            |facts| facts.output_changed_bytes = 1,
            |facts| facts.linux_restarts = 0,
            |facts| facts.telemetry_messages = 0,
            |facts| facts.rtos_messages = 0,
            |facts| facts.rtos_missing = 1,
            |facts| facts.office_said_hello = false,
            |facts| facts.shared.vcpus.truncate(1),
            |facts| facts.shared.vcpus[1].wait.measured_ns = 6,
            |facts| facts.shared.vcpus[1].blackout.measured_ns = 6,
            |facts| facts.shared.vcpus[0].used.measured_ns = 6,
            |facts| facts.shared.vcpus[0].wait.bound_ns = None,
            |facts| *facts.attacks.entry("escaped".to_owned()).or_default() = 1,
            |facts| *facts.attacks.entry("unexpected".to_owned()).or_default() = 1,
        ];
        for (number, spoil) in spoil.iter().enumerate() {
            let mut facts = good();
            spoil(&mut facts);
            assert!(!Summary::new(facts).all_true(), "claim {number}");
        }
    }

    /// What a system does not have is neither claimed nor judged.
    #[test]
    fn a_claim_is_made_only_of_what_is_there() {
        let full = Summary::new(good()).to_string();
        let mut facts = Facts { cast: Cast::default(), control_exits: 7, office_said_hello: false, ..good() };
        facts.uart = UartFacts::default();
        facts.shared.control = None;
        let less = Summary::new(facts);
        assert!(less.all_true());
        for words in ["exits to the monitor", "office, a second Linux", "Linux drove uart1", "after a release"] {
            assert!(full.contains(words) && !less.to_string().contains(words), "{words}");
        }
        let keys = less.json();
        for key in ["control.stolen_instructions", "office.said_hello", "uart.read", "shared.control.response_ns"] {
            assert!(keys.get(key).is_none(), "{key}");
        }
    }

    #[test]
    fn the_json_has_the_documented_keys() {
        let value = Summary::new(good()).json();
        for key in [
            "control.lost_periods",
            "control.stolen_instructions",
            "control.output_changed_bytes",
            "linux.restarts",
            "attacks.tried",
            "attacks.succeeded",
            "rtos.messages",
            "shared.rtos.longest_wait_ns",
            "shared.rtos.longest_wait_bound_ns",
            "shared.office.longest_blackout_ns",
            "shared.office.longest_blackout_bound_ns",
            "shared.office.used_bound_ns",
            "shared.control.response_bound_ns",
            "uart.interrupts",
            "elapsed_s",
        ] {
            assert!(value.get(key).is_some_and(Value::is_number), "{key}");
        }
    }
}
