//! What the demonstration of an instance claims at its end.

use super::facts::FlightFacts;
use crate::summary::{Claim, Summary, claim, time};
use serde_json::json;

/// Fewer attacks would not be the suite (issue: at least 60).
const LEAST_ATTACKS: u64 = 60;

/// Two tasks see each end of their server's budget, which is used up once in five periods of the loop. A server without a limit loses the core as well, a tenth as often.
const PERIODS_OF_A_STOP: u64 = 5;

/// Judges the facts.
#[must_use]
pub fn judge(facts: &FlightFacts) -> Summary {
    Summary::new(facts.elapsed_s).with(
        "What was shown (numbers that each component keeps in its own pages; 1 instruction = 16 ns, no cycles)",
        [loop_claims(facts), load_claims(facts), other_claims(facts)].concat(),
    )
}

fn loop_claims(facts: &FlightFacts) -> Vec<Claim> {
    let counts = &facts.counts;
    vec![
        claim(
            [("loop.periods", json!(counts.periods)), ("loop.lost_periods", json!(counts.lost_periods))],
            counts.periods > 0 && counts.lost_periods == 0,
            format!("the loop lost {} of {} periods", counts.lost_periods, counts.periods),
        ),
        claim(
            [("loop.worst_response_ns", json!(facts.worst_response_ns())), ("loop.bound_ns", json!(facts.bound_ns))],
            counts.worst_response_ticks > 0 && facts.worst_response_ns() <= facts.bound_ns,
            format!(
                "it was done at most {} after the beginning of a period, of {} that check allows",
                time(facts.worst_response_ns()),
                time(facts.bound_ns)
            ),
        ),
        claim(
            [("loop.wrong_results", json!(counts.wrong_results))],
            counts.wrong_results == 0,
            format!("{} of its results were not that of the first period", counts.wrong_results),
        ),
        claim(
            [("logger.messages", json!(counts.messages)), ("logger.missing_messages", json!(counts.missing_messages))],
            counts.messages >= counts.periods && counts.missing_messages == 0,
            format!("the logger was told {} times; {} periods are missing", counts.messages, counts.missing_messages),
        ),
    ]
}

/// What ran beside it by right.
fn load_claims(facts: &FlightFacts) -> Vec<Claim> {
    let counts = &facts.counts;
    vec![
        claim(
            [("subsystem.rounds", json!(counts.rounds)), ("subsystem.wrong_results", json!(counts.wrong_rounds))],
            counts.rounds > 0 && counts.wrong_rounds == 0,
            format!(
                "tasks of a scheduler of their own computed {} rounds, {} wrong",
                counts.rounds, counts.wrong_rounds
            ),
        ),
        claim(
            [("subsystem.stops", json!(counts.stops))],
            counts.stops.saturating_mul(PERIODS_OF_A_STOP) > counts.periods,
            format!("they never waited, and were stopped {} times since their budget was used up", counts.stops),
        ),
        claim(
            [
                ("processes.created", json!(counts.created)),
                ("processes.ended", json!(counts.ended)),
                ("processes.failed", json!(counts.failed)),
            ],
            counts.created > 0 && counts.ended == counts.created && counts.failed == 0,
            format!(
                "{} processes were spawned and forked, {} ended as they should; {} did not",
                counts.created, counts.ended, counts.failed
            ),
        ),
    ]
}

fn other_claims(facts: &FlightFacts) -> Vec<Claim> {
    let counts = &facts.counts;
    let resets = counts.driver_resets.saturating_add(counts.intruder_resets);
    vec![
        claim(
            [
                ("components.resets", json!(resets)),
                ("driver.resets", json!(counts.driver_resets)),
                ("driver.alarms", json!(counts.rung)),
                ("driver.repeated", json!(counts.repeated)),
            ],
            counts.driver_resets > 0 && counts.given_up == 0 && counts.rung > counts.driver_resets,
            format!(
                "the driver failed in the middle of an alarm and was begun again {} time(s); {} alarms rang, {} asked for twice",
                counts.driver_resets, counts.rung, counts.repeated
            ),
        ),
        claim(
            [
                ("attacks.tried", json!(counts.tried)),
                ("attacks.succeeded", json!(facts.attacks_succeeded())),
                ("intruder.resets", json!(counts.intruder_resets)),
                ("partition.faults", json!(facts.partition_faults)),
            ],
            counts.tried >= LEAST_ATTACKS && facts.attacks_succeeded() == 0 && facts.partition_faults == 0,
            format!(
                "{} attacks tried, {} succeeded; the intruder was begun again {} times, the kernel never",
                counts.tried,
                facts.attacks_succeeded(),
                counts.intruder_resets
            ),
        ),
        claim(
            [("calls", json!(counts.calls))],
            counts.calls > 0,
            format!("components called each other {} times", counts.calls),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::facts::Named;
    use super::*;
    use serde_json::Value;

    fn good() -> FlightFacts {
        let counts = Named {
            periods: 100,
            worst_response_ticks: 1000,
            messages: 101,
            rounds: 10,
            stops: 40,
            created: 6,
            ended: 6,
            rung: 4,
            driver_resets: 2,
            tried: 100,
            calls: 7,
            ..Named::default()
        };
        FlightFacts { counts, bound_ns: 16_000, partition_faults: 0, elapsed_s: 1.0 }
    }

    /// CH-61: each thing that is claimed is judged, and none of them stands for another one.
    #[test]
    fn each_claim_can_be_untrue() {
        assert!(judge(&good()).all_true());
        let spoil: [fn(&mut FlightFacts); 20] = [
            |facts| facts.counts.periods = 0,
            |facts| facts.counts.lost_periods = 1,
            |facts| facts.counts.worst_response_ticks = 1001,
            |facts| facts.counts.wrong_results = 1,
            |facts| facts.counts.messages = 99,
            |facts| facts.counts.missing_messages = 1,
            |facts| facts.counts.rounds = 0,
            |facts| facts.counts.wrong_rounds = 1,
            |facts| facts.counts.stops = 20,
            |facts| (facts.counts.created, facts.counts.ended) = (0, 0),
            |facts| facts.counts.ended = 5,
            |facts| facts.counts.failed = 1,
            |facts| facts.counts.driver_resets = 0,
            |facts| facts.counts.given_up = 1,
            |facts| facts.counts.rung = 2,
            |facts| facts.counts.tried = LEAST_ATTACKS - 1,
            |facts| facts.counts.unexpected = 1,
            |facts| facts.counts.succeeded = 1,
            |facts| facts.partition_faults = 1,
            |facts| facts.counts.calls = 0,
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
            "loop.lost_periods",
            "loop.worst_response_ns",
            "loop.bound_ns",
            "components.resets",
            "attacks.tried",
            "attacks.succeeded",
            "processes.created",
            "calls",
            "elapsed_s",
        ] {
            assert!(value.get(key).is_some_and(Value::is_number), "{key}");
        }
    }
}
