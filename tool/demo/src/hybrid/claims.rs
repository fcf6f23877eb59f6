//! What the demonstration of partitions below a payload claims at its end. All are counts: of work, and of instructions, which are no cycles.

use super::facts::{HybridFacts, Payload};
use crate::summary::{Claim, Summary, claim};
use serde_json::json;

/// Looks at a quiet time of which nothing could be said with fewer.
const LEAST_LOOKS: u64 = 2;
/// Software-generated interrupts of one start of `guests/stubborn` that the monitor refuses: the 16 for other cores, and 8 and 15 to itself, which are
/// not for a guest.
const REFUSED_SGIS: u64 = 16 + 2;

/// Judges the facts.
#[must_use]
pub fn judge(facts: &HybridFacts) -> Summary {
    let claims = [payload_claims, partition_claims, intruder_claims, managed_claims, trial_claims];
    Summary::new(facts.elapsed_s).with(
        "What was shown (counts of work and instructions; allowed is what was computed before the run)",
        claims.into_iter().flat_map(|claims| claims(facts)).collect(),
    )
}

/// The first line in which a payload says that something failed.
fn failure_claim(payloads: [&Payload; 4]) -> Claim {
    let first = payloads.iter().find_map(|payload| payload.failures.first());
    claim(
        [],
        first.is_none(),
        first.map_or_else(|| "no assertion of FreeRTOS failed".to_owned(), |line| format!("the payload said: {line}")),
    )
}

fn payload_claims(facts: &HybridFacts) -> Vec<Claim> {
    let HybridFacts { payload, alone, .. } = facts;
    let bound = facts.latency_bound.unwrap_or(0);
    vec![
        failure_claim([payload, alone, &facts.trials.payload, &facts.managed.payload]),
        claim(
            [
                ("rtos.ticks", json!(payload.ticks.1)),
                ("rtos.lost_ticks", json!(payload.lost())),
                ("rtos.rounds", json!(payload.rounds.0)),
            ],
            payload.is_whole(),
            format!(
                "FreeRTOS lost {} of {} ticks, and its fast task did {} rounds for {} of them",
                payload.lost(),
                payload.ticks.0,
                payload.rounds.0,
                payload.rounds.1
            ),
        ),
        claim(
            [
                ("rtos.switches_from_below", json!(facts.path_2.0)),
                ("rtos.worst_switch_instructions", json!(facts.path_2.1)),
                ("rtos.switch_bound_instructions", json!(facts.path_2_bound)),
            ],
            facts.path_2.0 > 0 && facts.path_2.1 > 0 && facts.path_2.1 <= facts.path_2_bound,
            format!(
                "{} times it took core 0 from its partition, with {} instructions at EL3 at most, of {} allowed",
                facts.path_2.0, facts.path_2.1, facts.path_2_bound
            ),
        ),
        claim(
            [
                ("rtos.worst_latency_instructions", json!(alone.latest.1)),
                ("rtos.latency_bound_instructions", json!(facts.latency_bound)),
                ("rtos.worst_own_latency_instructions", json!(alone.latest.0)),
            ],
            alone.is_whole() && alone.latest.1 > 0 && alone.latest.1 <= bound,
            format!(
                "a tick found its vector at most {} instructions late when the partition had the core, of {bound} allowed (in the run on one core)",
                alone.latest.1
            ),
        ),
    ]
}

fn partition_claims(facts: &HybridFacts) -> Vec<Claim> {
    let (due, done) = facts.control;
    let lost = due.saturating_sub(done);
    let (cpus, works) = facts.linux_cpus;
    vec![
        claim(
            [("control.releases", json!(due)), ("control.lost_periods", json!(lost))],
            done > 0 && done == due,
            format!("control, below it on its core, lost {lost} of {due} periods"),
        ),
        claim(
            [("linux.cpus", json!(works)), ("linux.interrupts_between_cpus", json!(facts.linux_sgis))],
            works > 1 && works == cpus && facts.linux_sgis > 0 && facts.linux_ended,
            format!(
                "Linux worked on {works} cores, interrupted one from the other {} times, and ended by itself",
                facts.linux_sgis
            ),
        ),
    ]
}

fn intruder_claims(facts: &HybridFacts) -> Vec<Claim> {
    let quiet = &facts.quiet;
    vec![
        claim(
            [("intruder.quiet_exits", json!(quiet.exits)), ("intruder.quiet_looks", json!(quiet.looks))],
            quiet.looks >= LEAST_LOOKS && quiet.exits == 0,
            format!(
                "the intruder took its own ticks with {} exits, in {} looks at {} of its starts",
                quiet.exits, quiet.looks, quiet.starts
            ),
        ),
        claim(
            [("intruder.sgis_refused", json!(facts.sgis_refused))],
            facts.masked > 0 && facts.sgis_refused == REFUSED_SGIS * facts.masked,
            format!(
                "each time it sent {REFUSED_SGIS} interrupts to other cores or with numbers that are not for a guest, and the monitor refused {} in all",
                facts.sgis_refused
            ),
        ),
        claim(
            [
                ("intruder.masked", json!(facts.masked)),
                ("intruder.stops", json!(facts.faults)),
                ("intruder.restarts", json!(facts.restarts)),
            ],
            facts.masked > 0
                && facts.restarts > 0
                && facts.faults == facts.restarts + 1
                && facts.masked == facts.faults
                && facts.is_stopped_by_watchdog,
            format!(
                "it masked everything {} times, was stopped {} times by its watchdog, and was started again {} times by policy",
                facts.masked, facts.faults, facts.restarts
            ),
        ),
        claim(
            [
                ("intruder.kicks", json!(facts.stops.0)),
                ("intruder.worst_kick_instructions", json!(facts.stops.1)),
                ("intruder.kick_bound_instructions", json!(facts.stop_bound)),
            ],
            facts.stops.0 >= facts.faults && facts.stops.1 > 0 && facts.stops.1 <= facts.stop_bound,
            format!(
                "EL3 took its core away {} times, with {} instructions at most, of {} allowed",
                facts.stops.0, facts.stops.1, facts.stop_bound
            ),
        ),
    ]
}

fn managed_claims(facts: &HybridFacts) -> Vec<Claim> {
    let managed = &facts.managed;
    let (asked, done) = managed.suspended;
    vec![
        claim(
            [("manager.suspended", json!(done)), ("manager.resumed", json!(managed.resumed))],
            managed.holds(),
            format!(
                "a manager suspended it {done} of {asked} times while it masked everything, resumed it {} times, and {}",
                managed.resumed,
                if managed.restarted { "started it again" } else { "did not start it again" }
            ),
        ),
        claim(
            [],
            managed.payload.is_whole(),
            format!("meanwhile FreeRTOS lost {} of {} ticks", managed.payload.lost(), managed.payload.ticks.0),
        ),
    ]
}

fn trial_claims(facts: &HybridFacts) -> Vec<Claim> {
    let trials = &facts.trials;
    let lost = trials.control.0.saturating_sub(trials.control.1);
    vec![
        claim(
            [
                ("attacks.tried", json!(trials.tried)),
                ("attacks.succeeded", json!(trials.escaped)),
                ("attacks.unexpected", json!(trials.unexpected)),
            ],
            trials.is_done && trials.tried > 0 && trials.escaped == 0 && trials.unexpected == 0,
            format!(
                "a hostile guest in its place tried {} attacks, {} succeeded, {} ended otherwise than expected",
                trials.tried, trials.escaped, trials.unexpected
            ),
        ),
        claim(
            [
                ("attacks.restarts", json!(trials.restarts)),
                ("attacks.restarted", json!(trials.restarted)),
                ("attacks.watchdog_restarts", json!(trials.watchdog)),
            ],
            trials.watchdog > 0 && trials.restarts == trials.restarted,
            format!(
                "it was stopped and started again {} times, by {} of these attacks, of which its watchdog ended {}",
                trials.restarts, trials.restarted, trials.watchdog
            ),
        ),
        claim(
            [("attacks.rtos_lost_ticks", json!(trials.payload.lost())), ("attacks.control_lost_periods", json!(lost))],
            trials.payload.is_whole() && trials.control.1 > 0 && trials.control.0 == trials.control.1,
            format!(
                "meanwhile FreeRTOS lost {} of {} ticks, and control {lost} of {} periods",
                trials.payload.lost(),
                trials.payload.ticks.0,
                trials.control.0
            ),
        ),
        claim(
            [],
            trials.is_beside_control,
            format!(
                "control {} when the last attack was over",
                if trials.is_beside_control { "still ran" } else { "had ended" }
            ),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hybrid::{Managed, Quiet, Trials};
    use serde_json::Value;

    fn payload() -> Payload {
        Payload { rounds: (12, 10), ticks: (12, 12), latest: (9, 111), ..Payload::default() }
    }

    fn good() -> HybridFacts {
        HybridFacts {
            payload: payload(),
            alone: payload(),
            latency_bound: Some(230),
            path_2: (4, 111),
            path_2_bound: 120,
            control: (200, 200),
            linux_cpus: (2, 2),
            linux_sgis: 7,
            linux_ended: true,
            masked: 3,
            faults: 3,
            restarts: 2,
            is_stopped_by_watchdog: true,
            quiet: Quiet { looks: 2, starts: 1, ..Quiet::default() },
            sgis_refused: 54,
            stops: (3, 18),
            stop_bound: 24,
            trials: Trials {
                tried: 9,
                restarts: 3,
                restarted: 3,
                watchdog: 2,
                is_done: true,
                control: (200, 200),
                is_beside_control: true,
                payload: payload(),
                ..Trials::default()
            },
            managed: Managed { suspended: (100, 100), resumed: 100, restarted: true, payload: payload() },
            elapsed_s: 1.0,
        }
    }

    #[test]
    fn each_claim_can_fail() {
        assert!(judge(&good()).all_true());
        let spoil: [fn(&mut HybridFacts); 48] = [
            |facts| facts.payload.failures.push("rtos: FAILED".to_owned()),
            |facts| facts.alone.failures.push("rtos: FAILED".to_owned()),
            |facts| facts.trials.payload.failures.push("rtos: FAILED".to_owned()),
            |facts| facts.payload.ticks = (12, 11),
            |facts| facts.payload.ticks = (0, 0),
            |facts| facts.payload.rounds = (9, 10),
            |facts| facts.payload.rounds = (0, 0),
            |facts| facts.path_2 = (0, 0),
            |facts| facts.path_2.1 = 121,
            |facts| facts.path_2.1 = 0,
            |facts| facts.alone.latest.1 = 231,
            |facts| facts.alone.latest.1 = 0,
            |facts| facts.alone.ticks.1 = 11,
            |facts| facts.latency_bound = None,
            |facts| facts.control = (200, 199),
            |facts| facts.control = (0, 0),
            |facts| facts.linux_cpus = (2, 0),
            |facts| facts.linux_cpus = (1, 1),
            |facts| facts.linux_sgis = 0,
            |facts| facts.linux_ended = false,
            |facts| facts.quiet.looks = 1,
            |facts| facts.quiet.exits = 1,
            |facts| facts.sgis_refused = 0,
            |facts| facts.sgis_refused = 53,
            |facts| facts.sgis_refused = 55,
            |facts| facts.masked = 2,
            |facts| (facts.masked, facts.faults, facts.restarts) = (1, 1, 0),
            |facts| facts.restarts = 3,
            |facts| facts.is_stopped_by_watchdog = false,
            |facts| facts.stops.0 = 2,
            |facts| facts.stops.1 = 25,
            |facts| facts.stops = (3, 0),
            |facts| facts.trials.tried = 0,
            |facts| facts.trials.escaped = 1,
            |facts| facts.trials.unexpected = 1,
            |facts| facts.trials.is_done = false,
            |facts| facts.trials.watchdog = 0,
            |facts| facts.trials.restarts = 2,
            |facts| facts.trials.restarts = 4,
            |facts| facts.trials.is_beside_control = false,
            |facts| facts.trials.payload.ticks.1 = 11,
            |facts| facts.trials.control = (200, 199),
            |facts| facts.trials.control = (0, 0),
            |facts| facts.managed.suspended.1 = 99,
            |facts| facts.managed.suspended = (0, 0),
            |facts| facts.managed.resumed = 99,
            |facts| facts.managed.restarted = false,
            |facts| facts.managed.payload.ticks.1 = 11,
        ];
        for (number, spoil) in spoil.iter().enumerate() {
            let mut facts = good();
            spoil(&mut facts);
            assert!(!judge(&facts).all_true(), "claim {number}");
        }
    }

    #[test]
    fn the_json_has_the_documented_keys() {
        let value = judge(&good()).json();
        for key in [
            "rtos.lost_ticks",
            "rtos.worst_latency_instructions",
            "rtos.latency_bound_instructions",
            "control.lost_periods",
            "linux.cpus",
            "intruder.quiet_exits",
            "intruder.stops",
            "intruder.restarts",
            "intruder.worst_kick_instructions",
            "attacks.tried",
            "attacks.succeeded",
            "elapsed_s",
        ] {
            assert!(value.get(key).is_some_and(Value::is_number), "{key}");
        }
    }
}
