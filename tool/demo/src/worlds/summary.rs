//! What the demonstration of two worlds says at its end.

use super::facts::{Delay, WorldFacts};
use crate::summary::{Claim, claim, time, write_claims, write_end};
use serde_json::{Value, json};
use std::fmt;

/// Claims with the numbers behind them.
#[derive(Clone, Debug)]
pub struct WorldSummary {
    facts: WorldFacts,
    claims: Vec<Claim>,
}

impl WorldSummary {
    /// Judges the facts.
    #[must_use]
    pub fn new(facts: WorldFacts) -> Self {
        let claims = [rtos_claims(&facts), linux_claims(&facts), attack_claims(&facts)].concat();
        Self { facts, claims }
    }

    /// States whether everything that was shown was true.
    #[must_use]
    pub fn all_true(&self) -> bool {
        self.claims.iter().all(|claim| claim.holds)
    }

    /// The summary for programs. Latencies are instructions, not cycles; delays are nanoseconds of the machine's clock.
    #[must_use]
    pub fn json(&self) -> Value {
        let facts = &self.facts;
        let (delay, idle) = (&facts.delay, &facts.idle_delay);
        json!({
            "event": "summary",
            "rtos.ticks": facts.ticks,
            "rtos.lost_ticks": facts.lost_ticks(),
            "rtos.worst_latency_instructions": facts.latest.1,
            "rtos.latency_bound_instructions": facts.latency_bound,
            "rtos.worst_own_latency_instructions": facts.latest.0,
            "rtos.jobs": facts.jobs,
            "rtos.missed_deadlines": facts.missed,
            "linux.delay_mean_ns": delay.mean_ns,
            "linux.delay_max_ns": delay.most_ns,
            "linux.delay_bound_ns": delay.bound_ns,
            "linux.idle_delay_mean_ns": idle.mean_ns,
            "linux.idle_delay_max_ns": idle.most_ns,
            "linux.idle_delay_bound_ns": idle.bound_ns,
            "linux.hangs": facts.hangs,
            "linux.restarts": facts.restarts,
            "linux.restart_max_ns": facts.restart_ns,
            "linux.restart_bound_ns": facts.restart_bound_ns,
            "linux.texts_answered": facts.answered,
            "linux.texts_wrong": facts.wrong_answers,
            "attacks.tried": facts.attacks.tried,
            "attacks.succeeded": facts.attacks.succeeded.len(),
            "attacks.worst_latency_instructions": facts.attacks.latest,
            "elapsed_s": facts.elapsed_s,
            "all_true": self.all_true(),
        })
    }
}

fn rtos_claims(facts: &WorldFacts) -> Vec<Claim> {
    let bound = facts.latency_bound.unwrap_or(0);
    vec![
        claim(
            facts.failures.is_empty(),
            match facts.failures.first() {
                Some(line) => format!("the payload said: {line}"),
                None => "no assertion of FreeRTOS failed".to_owned(),
            },
        ),
        claim(
            facts.ticks > 0 && facts.lost_ticks() == 0,
            format!("FreeRTOS lost {} of {} ticks", facts.lost_ticks(), facts.ticks_due),
        ),
        claim(
            facts.latest.1 > 0 && facts.latest.1 <= bound,
            format!(
                "a tick found its vector at most {} instructions late when Linux had the core, of {bound} allowed",
                facts.latest.1
            ),
        ),
        claim(
            facts.jobs > 0 && facts.missed == 0,
            format!("its tasks missed {} deadlines in {} jobs", facts.missed, facts.jobs),
        ),
    ]
}

fn linux_claims(facts: &WorldFacts) -> Vec<Claim> {
    let (delay, idle) = (&facts.delay, &facts.idle_delay);
    vec![
        claim(
            facts.hangs > 0 && facts.restarts == facts.hangs,
            format!(
                "Linux hung {} times with everything masked, and was started again {} times",
                facts.hangs, facts.restarts
            ),
        ),
        claim(
            facts.restart_ns > 0 && facts.restart_bound_ns.is_some_and(|bound_ns| facts.restart_ns <= bound_ns),
            format!(
                "a restart took {} at most, of {} allowed",
                time(facts.restart_ns),
                facts.restart_bound_ns.map_or_else(|| "?".to_owned(), time)
            ),
        ),
        claim(
            facts.hellos == facts.hangs + 1 && facts.is_off,
            format!("it came to its first program {} times, and switched itself off at last", facts.hellos),
        ),
        claim(
            facts.answered > 0 && facts.wrong_answers == 0,
            format!("it answered {} texts of FreeRTOS, {} of them wrongly", facts.answered, facts.wrong_answers),
        ),
        claim(delay.holds(), format!("Linux woke a program {}, with a task for its timer", late(delay))),
        claim(idle.holds(), format!("and {}, in what all others leave", late(idle))),
        claim(
            delay.mean_ns < idle.mean_ns && delay.most_ns < idle.most_ns,
            "the task made both less, the mean and the worst".to_owned(),
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
        attacks.tried > 0 && attacks.succeeded.is_empty(),
        format!("a hostile world tried {} attacks, {} succeeded", attacks.tried, attacks.succeeded.len()),
    )];
    claims.extend(attacks.succeeded.iter().map(|what| claim(false, what.clone())));
    claims
}

impl WorldFacts {
    /// Ticks that were due and did not come.
    #[must_use]
    pub fn lost_ticks(&self) -> u64 {
        self.ticks_due.saturating_sub(self.ticks)
    }
}

impl fmt::Display for WorldSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nWhat was shown (exact: 1 instruction = 16 ns; allowed is what was computed before the run):")?;
        write_claims(f, &self.claims)?;
        write_end(f, self.facts.elapsed_s, self.all_true())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worlds::attacks::Attacks;

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
        assert!(WorldSummary::new(good()).all_true());
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
            assert!(!WorldSummary::new(facts).all_true(), "claim {number}");
        }
    }

    #[test]
    fn the_json_has_the_documented_keys() {
        let value = WorldSummary::new(good()).json();
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
