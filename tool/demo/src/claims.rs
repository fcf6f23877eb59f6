//! What the demonstration of partitions claims at its end.
//!
//! `control.stolen_instructions` is 0 when the exit counter of control's core is 0; every exit costs at least one instruction at EL2, so otherwise the
//! number of exits is a lower bound. What the system cannot show (a core of control's own, an `office`, a UART of Linux, the loop in
//! the exact run) has no claim, and so no key.

use crate::facts::Facts;
use crate::shared::{Compared, LoopTime, SharedTime, VcpuTime};
use crate::summary::{Claim, Summary, claim, remark, time};
use crate::uart::UartFacts;
use serde_json::json;

/// Judges the facts.
#[must_use]
pub fn judge(facts: &Facts) -> Summary {
    let claims = [control_claims, other_claims, neighbour_claims, uart_claims, doorbell_remarks];
    Summary::new(facts.elapsed_s)
        .with(
            "What was shown (counts, read from the machine's RAM; no time is judged)",
            claims.into_iter().flat_map(|claims| claims(facts)).collect(),
        )
        .with(
            "The shared core in a run of its own (exact: 1 instruction = 1 ns; allowed is what was computed before it)",
            shared_claims(&facts.shared),
        )
}

fn control_claims(facts: &Facts) -> Vec<Claim> {
    let mut claims = vec![claim(
        [
            ("control.lost_periods", json!(facts.lost_periods())),
            ("control.iterations", json!(facts.iterations)),
            ("control.own_hypercalls", json!(facts.control_calls)),
        ],
        facts.iterations > 0 && facts.lost_periods() == 0,
        format!("control lost {} of {} periods", facts.lost_periods(), facts.releases_due),
    )];
    // Elsewhere its interrupts are exits, and so is whatever its neighbours on the core do.
    if facts.cast.control_is_direct {
        claims.push(claim(
            [("control.stolen_instructions", json!(facts.control_exits))],
            facts.control_exits == 0,
            format!(
                "{} exits to the monitor on control's core (its own {} calls apart)",
                facts.control_exits, facts.control_calls
            ),
        ));
    }
    claims.push(claim(
        [("control.output_changed_bytes", json!(facts.output_changed_bytes))],
        facts.output_changed_bytes == 0 && facts.output_bytes > 0,
        format!("{} of {} bytes of its output differ from a run alone", facts.output_changed_bytes, facts.output_bytes),
    ));
    claims
}

fn other_claims(facts: &Facts) -> Vec<Claim> {
    let (succeeded, unexpected) = (facts.attacks_succeeded(), facts.attacks_unexpected());
    vec![
        claim(
            [("linux.restarts", json!(facts.linux_restarts))],
            facts.linux_restarts == 1 && facts.linux_ended,
            format!(
                "Linux crashed its kernel, was restarted {} time(s) by policy and ended by itself",
                facts.linux_restarts
            ),
        ),
        claim(
            [("linux.telemetry_messages", json!(facts.telemetry_messages))],
            facts.telemetry_messages > 0,
            format!("Linux printed {} telemetry messages of the controller", facts.telemetry_messages),
        ),
        claim(
            [
                ("attacks.tried", json!(facts.attacks_tried)),
                ("attacks.succeeded", json!(succeeded)),
                ("attacks.unexpected", json!(unexpected)),
                ("intruder.restarts", json!(facts.intruder_restarts)),
            ],
            facts.attacks_tried > 0 && succeeded == 0 && unexpected == 0,
            format!(
                "{} attacks tried, {succeeded} succeeded, {unexpected} ended otherwise than expected; the intruder was restarted {} times",
                facts.attacks_tried, facts.intruder_restarts
            ),
        ),
    ]
}

fn neighbour_claims(facts: &Facts) -> Vec<Claim> {
    let mut claims = vec![claim(
        [("rtos.messages", json!(facts.rtos_messages)), ("rtos.missing_messages", json!(facts.rtos_missing))],
        facts.rtos_messages > 0 && facts.rtos_missing == 0,
        format!("rtos printed {} messages; {} are missing between them", facts.rtos_messages, facts.rtos_missing),
    )];
    if facts.cast.has_office {
        claims.push(claim(
            [("office.said_hello", json!(facts.office_said_hello))],
            facts.office_said_hello && facts.office_ended,
            "office, a second Linux on the core of rtos, booted, said hello and ended by itself",
        ));
    }
    claims
}

fn uart_claims(facts: &Facts) -> Vec<Claim> {
    let Some(name) = &facts.cast.uart else { return Vec::new() };
    let UartFacts { written, damaged, read, interrupts, .. } = facts.uart;
    vec![claim(
        [
            ("uart.written", json!(written)),
            ("uart.read", json!(read)),
            ("uart.damaged", json!(damaged)),
            ("uart.interrupts", json!(interrupts)),
        ],
        facts.uart.holds(),
        format!(
            "Linux drove {name} with its stock driver: {written} lines out, {read} in, {damaged} damaged, {interrupts} interrupts"
        ),
    )]
}

fn doorbell_remarks(facts: &Facts) -> Vec<Claim> {
    let (sent, limited) = facts.doorbells;
    vec![remark(
        [("doorbells.sent", json!(sent)), ("doorbells.limited", json!(limited))],
        format!(
            "Doorbells of the controller: {sent} let through, {limited} held back by the limiter; no data was lost."
        ),
    )]
}

fn shared_claims(shared: &SharedTime) -> Vec<Claim> {
    let run = claim(
        [("shared.run_ns", json!(shared.run_ns)), ("shared.switches", json!(shared.switches))],
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
        [
            ("shared.control.response_ns", json!(control.response.measured_ns)),
            ("shared.control.response_bound_ns", json!(control.response.bound_ns)),
            ("shared.control.deadline_ns", json!(control.deadline_ns)),
            ("shared.control.lost_periods", json!(lost)),
        ],
        control.holds(),
        format!(
            "control lost {lost} of {} periods and was done at most {} after a release (deadline {})",
            control.releases_due,
            of_allowed(control.response),
            time(control.deadline_ns)
        ),
    )
}

/// What the exact run says of a vCPU: each measurement beside its bound.
fn time_claims(vcpu: &VcpuTime) -> Vec<Claim> {
    let name = &vcpu.partition;
    let times = if vcpu.exhaustions == 1 { "time" } else { "times" };
    let key = |what: &str| format!("shared.{name}.{what}");
    let (wait, blackout, used) = (vcpu.wait, vcpu.blackout, vcpu.used);
    vec![
        claim(
            [
                (&*key("longest_wait_ns"), json!(wait.measured_ns)),
                (&*key("longest_wait_bound_ns"), json!(wait.bound_ns)),
                (&*key("wakes"), json!(vcpu.wakes)),
            ],
            vcpu.wakes > 0 && wait.holds(),
            format!("{name} waited at most {} after {} wake-ups", of_allowed(wait), vcpu.wakes),
        ),
        claim(
            [
                (&*key("longest_blackout_ns"), json!(blackout.measured_ns)),
                (&*key("longest_blackout_bound_ns"), json!(blackout.bound_ns)),
            ],
            blackout.holds(),
            format!("{name} was ready without running for at most {}", of_allowed(blackout)),
        ),
        claim(
            [
                (&*key("used_ns"), json!(used.measured_ns)),
                (&*key("used_bound_ns"), json!(used.bound_ns)),
                (&*key("exhaustions"), json!(vcpu.exhaustions)),
                (&*key("background_ns"), json!(vcpu.background_ns)),
            ],
            used.measured_ns > 0 && used.holds(),
            format!(
                "{name} used {} of budget, which ran out {} {times}, and {} that nobody else wanted",
                of_allowed(used),
                vcpu.exhaustions,
                time(vcpu.background_ns)
            ),
        ),
    ]
}

fn of_allowed(compared: Compared) -> String {
    format!("{} of {} allowed", time(compared.measured_ns), compared.bound_ns.map_or_else(|| "?".to_owned(), time))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cast::Cast;
    use serde_json::Value;

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
        assert!(judge(&good()).all_true());
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
            assert!(!judge(&facts).all_true(), "claim {number}");
        }
    }

    /// What a system does not have is neither claimed nor judged.
    #[test]
    fn a_claim_is_made_only_of_what_is_there() {
        let full = judge(&good()).to_string();
        let mut facts = Facts { cast: Cast::default(), control_exits: 7, office_said_hello: false, ..good() };
        facts.uart = UartFacts::default();
        facts.shared.control = None;
        let less = judge(&facts);
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
        let value = judge(&good()).json();
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
