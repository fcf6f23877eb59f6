//! What the demonstration says at its end.

use crate::facts::Facts;
use serde_json::{Value, json};
use std::fmt;

/// Claims with the numbers behind them.
#[derive(Clone, Debug)]
pub struct Summary {
    facts: Facts,
    claims: Vec<Claim>,
}

#[derive(Clone, Debug)]
struct Claim {
    holds: bool,
    text: String,
}

impl Summary {
    /// Judges the facts.
    #[must_use]
    pub fn new(facts: Facts) -> Self {
        let claims = [control_claims(&facts), other_claims(&facts)].concat();
        Self { facts, claims }
    }

    /// States whether everything that was shown was true.
    #[must_use]
    pub fn all_true(&self) -> bool {
        self.claims.iter().all(|claim| claim.holds)
    }

    /// The summary for programs.
    ///
    /// `control.stolen_instructions` is 0 when the exit counter of control's core is 0; every exit costs at least one
    /// instruction at EL2, so otherwise the number of exits is a lower bound.
    #[must_use]
    pub fn json(&self) -> Value {
        let facts = &self.facts;
        json!({
            "control.lost_periods": facts.lost_periods(),
            "control.stolen_instructions": facts.control_exits,
            "control.output_changed_bytes": facts.output_changed_bytes,
            "control.iterations": facts.iterations,
            "control.own_hypercalls": facts.control_calls,
            "linux.restarts": facts.linux_restarts,
            "linux.telemetry_messages": facts.telemetry_messages,
            "attacks.tried": facts.attacks_tried,
            "attacks.succeeded": facts.attacks_succeeded(),
            "attacks.unexpected": facts.attacks_unexpected(),
            "intruder.restarts": facts.intruder_restarts,
            "doorbells.sent": facts.doorbells.0,
            "doorbells.limited": facts.doorbells.1,
            "elapsed_s": facts.elapsed_s,
            "all_true": self.all_true(),
        })
    }
}

fn claim(holds: bool, text: String) -> Claim {
    Claim { holds, text }
}

fn control_claims(facts: &Facts) -> Vec<Claim> {
    vec![
        claim(
            facts.iterations > 0 && facts.lost_periods() == 0,
            format!("control lost {} of {} periods", facts.lost_periods(), facts.releases_due),
        ),
        claim(
            facts.control_exits == 0,
            format!(
                "{} exits to the monitor on control's core (its own {} calls apart)",
                facts.control_exits, facts.control_calls
            ),
        ),
        claim(
            facts.output_changed_bytes == 0 && facts.output_bytes > 0,
            format!(
                "{} of {} bytes of its output differ from a run alone",
                facts.output_changed_bytes, facts.output_bytes
            ),
        ),
    ]
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

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nWhat was shown (counts, read from the machine's RAM; no time is judged):")?;
        for claim in &self.claims {
            writeln!(f, "  {} {}", if claim.holds { "yes" } else { "NO " }, claim.text)?;
        }
        let (sent, limited) = self.facts.doorbells;
        writeln!(
            f,
            "  Doorbells of the controller: {sent} let through, {limited} held back by the limiter; no data was lost."
        )?;
        writeln!(f, "  {:.1} s in all (wall clock of this host)", self.facts.elapsed_s)?;
        writeln!(f, "{}", if self.all_true() { "All of it was true." } else { "NOT all of it was true." })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Facts {
        Facts {
            releases_due: 10,
            iterations: 10,
            output_bytes: 5,
            linux_restarts: 1,
            linux_ended: true,
            telemetry_messages: 3,
            attacks_tried: 60,
            ..Facts::default()
        }
    }

    #[test]
    fn each_claim_can_fail() {
        assert!(Summary::new(good()).all_true());
        let spoil: [fn(&mut Facts); 7] = [
            |facts| facts.iterations = 9,
            |facts| facts.control_exits = 1,
            |facts| facts.output_changed_bytes = 1,
            |facts| facts.linux_restarts = 0,
            |facts| facts.telemetry_messages = 0,
            |facts| *facts.attacks.entry("escaped".to_owned()).or_default() = 1,
            |facts| *facts.attacks.entry("unexpected".to_owned()).or_default() = 1,
        ];
        for (number, spoil) in spoil.iter().enumerate() {
            let mut facts = good();
            spoil(&mut facts);
            assert!(!Summary::new(facts).all_true(), "claim {number}");
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
            "elapsed_s",
        ] {
            assert!(value.get(key).is_some_and(Value::is_number), "{key}");
        }
    }
}
