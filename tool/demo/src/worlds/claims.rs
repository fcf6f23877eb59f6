//! What the demonstration of two worlds claims at its end. Latencies are instructions, not cycles; delays are nanoseconds of the machine's clock.

use super::facts::{Delay, WorldFacts};
use crate::summary::{Claim, Summary, claim, time};
use serde_json::json;

/// Judges the facts.
#[must_use]
pub fn judge(facts: &WorldFacts) -> Summary {
    let claims = [rtos_claims, linux_claims, delay_claims, attack_claims];
    Summary::new(facts.elapsed_s).with(
        "What was shown (exact: 1 instruction = 16 ns; allowed is what was computed before the run)",
        claims.into_iter().flat_map(|claims| claims(facts)).collect(),
    )
}

fn rtos_claims(facts: &WorldFacts) -> Vec<Claim> {
    let bound = facts.latency_bound.unwrap_or(0);
    vec![
        claim(
            [],
            facts.failures.is_empty(),
            match facts.failures.first() {
                Some(line) => format!("the payload said: {line}"),
                None => "no assertion of FreeRTOS failed".to_owned(),
            },
        ),
        claim(
            [("rtos.ticks", json!(facts.ticks)), ("rtos.lost_ticks", json!(facts.lost_ticks()))],
            facts.ticks > 0 && facts.lost_ticks() == 0,
            format!("FreeRTOS lost {} of {} ticks", facts.lost_ticks(), facts.ticks_due),
        ),
        claim(
            [
                ("rtos.worst_latency_instructions", json!(facts.latest.1)),
                ("rtos.latency_bound_instructions", json!(facts.latency_bound)),
                ("rtos.worst_own_latency_instructions", json!(facts.latest.0)),
            ],
            facts.latest.1 > 0 && facts.latest.1 <= bound,
            format!(
                "a tick found its vector at most {} instructions late when Linux had the core, of {bound} allowed",
                facts.latest.1
            ),
        ),
        claim(
            [("rtos.jobs", json!(facts.jobs)), ("rtos.missed_deadlines", json!(facts.missed))],
            facts.jobs > 0 && facts.missed == 0,
            format!("its tasks missed {} deadlines in {} jobs", facts.missed, facts.jobs),
        ),
    ]
}

fn linux_claims(facts: &WorldFacts) -> Vec<Claim> {
    vec![
        claim(
            [("linux.hangs", json!(facts.hangs)), ("linux.restarts", json!(facts.restarts))],
            facts.hangs > 0 && facts.restarts == facts.hangs,
            format!(
                "Linux hung {} times with everything masked, and was started again {} times",
                facts.hangs, facts.restarts
            ),
        ),
        claim(
            [
                ("linux.restart_max_ns", json!(facts.restart_ns)),
                ("linux.restart_bound_ns", json!(facts.restart_bound_ns)),
            ],
            facts.restart_ns > 0 && facts.restart_bound_ns.is_some_and(|bound_ns| facts.restart_ns <= bound_ns),
            format!(
                "a restart took {} at most, of {} allowed",
                time(facts.restart_ns),
                facts.restart_bound_ns.map_or_else(|| "?".to_owned(), time)
            ),
        ),
        claim(
            [],
            facts.hellos == facts.hangs + 1 && facts.is_off,
            format!("it came to its first program {} times, and switched itself off at last", facts.hellos),
        ),
        claim(
            [("linux.texts_answered", json!(facts.answered)), ("linux.texts_wrong", json!(facts.wrong_answers))],
            facts.answered > 0 && facts.wrong_answers == 0,
            format!("it answered {} texts of FreeRTOS, {} of them wrongly", facts.answered, facts.wrong_answers),
        ),
    ]
}

fn delay_claims(facts: &WorldFacts) -> Vec<Claim> {
    let (delay, idle) = (&facts.delay, &facts.idle_delay);
    vec![
        claim(
            [
                ("linux.delay_mean_ns", json!(delay.mean_ns)),
                ("linux.delay_max_ns", json!(delay.most_ns)),
                ("linux.delay_bound_ns", json!(delay.bound_ns)),
            ],
            delay.holds(),
            format!("Linux woke a program {}, with a task for its timer", late(delay)),
        ),
        claim(
            [
                ("linux.idle_delay_mean_ns", json!(idle.mean_ns)),
                ("linux.idle_delay_max_ns", json!(idle.most_ns)),
                ("linux.idle_delay_bound_ns", json!(idle.bound_ns)),
            ],
            idle.holds(),
            format!("and {}, in what all others leave", late(idle)),
        ),
        claim(
            [],
            delay.mean_ns < idle.mean_ns && delay.most_ns < idle.most_ns,
            "the task made both less, the mean and the worst",
        ),
    ]
}

fn late(delay: &Delay) -> String {
    format!(
        "{} late on average and {} at most, of {} allowed",
        time(delay.mean_ns),
        time(delay.most_ns),
        delay.bound_ns.map_or_else(|| "?".to_owned(), |bound_ns| time(bound_ns + delay.least_ns)),
    )
}

fn attack_claims(facts: &WorldFacts) -> Vec<Claim> {
    let attacks = &facts.attacks;
    let mut claims = vec![claim(
        [
            ("attacks.tried", json!(attacks.tried)),
            ("attacks.succeeded", json!(attacks.succeeded.len())),
            ("attacks.worst_latency_instructions", json!(attacks.latest)),
        ],
        attacks.tried > 0 && attacks.succeeded.is_empty(),
        format!("a hostile world tried {} attacks, {} succeeded", attacks.tried, attacks.succeeded.len()),
    )];
    claims.extend(attacks.succeeded.iter().map(|what| claim([], false, what)));
    claims
}

impl WorldFacts {
    /// Ticks that were due and did not come.
    #[must_use]
    pub fn lost_ticks(&self) -> u64 {
        self.ticks_due.saturating_sub(self.ticks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worlds::attacks::Attacks;
    use serde_json::Value;

    fn good() -> WorldFacts {
        let delay = Delay { samples: 5, least_ns: 1, mean_ns: 3, most_ns: 6, bound_ns: Some(5) };
        WorldFacts {
            ticks_due: 10,
            ticks: 10,
            latest: (260, 116),
            latency_bound: Some(230),
            jobs: 4,
            hellos: 2,
            hangs: 1,
            restarts: 1,
            restart_ns: 10,
            restart_bound_ns: Some(10),
            answered: 10,
            is_off: true,
            delay,
            idle_delay: Delay { mean_ns: 30, most_ns: 60, bound_ns: Some(60), ..delay },
            attacks: Attacks { tried: 3, ..Attacks::default() },
            ..WorldFacts::default()
        }
    }

    #[test]
    fn each_claim_can_fail() {
        assert!(judge(&good()).all_true());
        let spoil: [fn(&mut WorldFacts); 21] = [
            |facts| facts.failures.push("rtos: FAILED".to_owned()),
            |facts| facts.ticks = 9,
            |facts| (facts.ticks, facts.ticks_due) = (0, 0),
            |facts| facts.latest.1 = 231,
            |facts| facts.latest.1 = 0,
            |facts| facts.missed = 1,
            |facts| facts.jobs = 0,
            |facts| facts.hellos = 1,
            |facts| facts.restarts = 0,
            |facts| (facts.hangs, facts.restarts) = (0, 0),
            |facts| facts.restart_ns = 11,
            |facts| facts.restart_bound_ns = None,
            |facts| facts.answered = 0,
            |facts| facts.wrong_answers = 1,
            |facts| facts.is_off = false,
            |facts| facts.delay.most_ns = 7,
            |facts| facts.delay.samples = 0,
            |facts| facts.idle_delay.bound_ns = None,
            |facts| facts.delay.mean_ns = 30,
            |facts| facts.attacks.tried = 0,
            |facts| facts.attacks.succeeded.push("all of them".to_owned()),
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
            "linux.delay_max_ns",
            "linux.idle_delay_max_ns",
            "linux.restarts",
            "linux.restart_max_ns",
            "linux.texts_answered",
            "attacks.tried",
            "attacks.succeeded",
            "elapsed_s",
        ] {
            assert!(value.get(key).is_some_and(Value::is_number), "{key}");
        }
    }
}
