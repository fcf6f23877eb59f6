//! What is said at the end of the demonstration of devices.

use super::facts::DeviceFacts;
use crate::summary::{Claim, claim, write_claims, write_end};
use serde_json::{Value, json};
use std::fmt;

/// Comparisons that office makes of its files: at first, after its back end was killed, after linux panicked.
const COMPARISONS: u64 = 3;

/// Fewer ticks of FreeRTOS would tell little: it has a thousand in each second.
const LEAST_REACTIONS: u64 = 1000;

/// Claims with the numbers behind them.
#[derive(Clone, Debug)]
pub struct DeviceSummary {
    facts: DeviceFacts,
    claims: Vec<Claim>,
}

impl DeviceSummary {
    /// Judges the facts.
    #[must_use]
    pub fn new(facts: DeviceFacts) -> Self {
        let claims = [attack_claims(&facts), sharing_claims(&facts)].concat();
        Self { facts, claims }
    }

    /// States whether everything that was shown was true.
    #[must_use]
    pub fn all_true(&self) -> bool {
        self.claims.iter().all(|claim| claim.holds)
    }

    /// The summary for programs. `smmu.commands_after_boot` is null when the emulator did not say.
    #[must_use]
    pub fn json(&self) -> Value {
        let (facts, counts) = (&self.facts, &self.facts.counts);
        json!({
            "event": "summary",
            "dma.tried": counts.tried,
            "dma.leaked": counts.leaked,
            "dma.landed_outside": counts.landed_outside,
            "dma.events": counts.events.0,
            "dma.events_lost": counts.events.1,
            "dma.events_of_others": counts.events_of_others,
            "smmu.commands_after_boot": facts.commands_after_boot(),
            "office.bytes_changed": counts.bytes_changed,
            "office.rounds": counts.rounds,
            "office.file_system_whole": facts.is_whole,
            "linux.answered": facts.linux_answered,
            "back_ends.killed": counts.killed,
            "restarts": counts.linux_restarts,
            "rtos.messages": counts.rtos_messages.0,
            "rtos.missing_messages": counts.rtos_messages.1,
            "rtos.reactions": counts.reactions.0,
            "rtos.worst_reaction_instructions": counts.reactions.1,
            "rtos.reaction_bound_instructions": facts.reaction_bound.1,
            "rtos.worst_over_bound_instructions": facts.worst_over_bound(),
            "elapsed_s": facts.elapsed_s,
            "all_true": self.all_true(),
        })
    }
}

fn attack_claims(facts: &DeviceFacts) -> Vec<Claim> {
    let counts = &facts.counts;
    let (events, lost) = counts.events;
    vec![
        claim(
            counts.tried > 0 && counts.leaked == 0,
            format!("the intruder's functions aimed at {} places; {} of them leaked", counts.tried, counts.leaked),
        ),
        claim(
            counts.landed_outside == 0,
            format!("{} bytes of monitor, plan and tables are not what was built", counts.landed_outside),
        ),
        claim(
            events > 0 && lost > 0 && counts.events_of_others == 0,
            format!(
                "the SMMU refused {events} of its transfers, and in {lost} floods more than were counted; of others {}",
                counts.events_of_others
            ),
        ),
        claim(
            facts.commands_after_boot() == Some(0),
            match facts.commands_after_boot() {
                Some(commands) => format!("{commands} commands to the SMMU after boot"),
                None => "the SMMU did not say how many commands it was given".to_owned(),
            },
        ),
        claim(
            counts.rtos_messages.0 > 0 && counts.rtos_messages.1 == 0,
            format!(
                "rtos printed {} messages; {} are missing between them",
                counts.rtos_messages.0, counts.rtos_messages.1
            ),
        ),
        claim(
            counts.reactions.0 > LEAST_REACTIONS && facts.worst_over_bound() == 0,
            format!(
                "its {} interrupts beside a CPU of linux waited for {} instructions (not cycles) at most, of {} that check allows",
                counts.reactions.0, counts.reactions.1, facts.reaction_bound.1
            ),
        ),
    ]
}

fn sharing_claims(facts: &DeviceFacts) -> Vec<Claim> {
    let counts = &facts.counts;
    vec![
        claim(facts.linux_answered, "linux answered over its own network card at a port of the loopback".to_owned()),
        claim(
            counts.killed == 1 && counts.linux_restarts == 1,
            format!(
                "the back end of office's disk was killed {} time(s), linux panicked and was restarted {} time(s)",
                counts.killed, counts.linux_restarts
            ),
        ),
        claim(
            counts.rounds > 0 && counts.office_restarts == 0 && facts.have_ended,
            format!("office waited, copied its files {} times and ended by itself", counts.rounds),
        ),
        claim(
            counts.compared == COMPARISONS && counts.bytes_changed == 0,
            format!(
                "{} bytes of its files changed, in {} of {COMPARISONS} comparisons with its disk",
                counts.bytes_changed, counts.compared
            ),
        ),
        claim(facts.is_whole, "its file system is whole: e2fsck finds nothing to repair".to_owned()),
    ]
}

impl fmt::Display for DeviceSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\nWhat was shown (counts, read from the machine's RAM, its consoles and its disk; no time is judged):"
        )?;
        write_claims(f, &self.claims)?;
        write_end(f, self.facts.elapsed_s, self.all_true())
    }
}

#[cfg(test)]
mod tests {
    use super::super::facts::{BOOT_COMMANDS, DeviceCounts};
    use super::*;

    fn good() -> DeviceFacts {
        let counts = DeviceCounts {
            tried: 20,
            events: (36, 1),
            compared: COMPARISONS,
            rounds: 7,
            linux_restarts: 1,
            killed: 1,
            rtos_messages: (50, 0),
            reactions: (LEAST_REACTIONS + 1, 4000),
            ..DeviceCounts::default()
        };
        DeviceFacts {
            counts,
            have_ended: true,
            linux_answered: true,
            is_whole: true,
            commands: Some(BOOT_COMMANDS),
            reaction_bound: (1, 4000),
            ..DeviceFacts::default()
        }
    }

    #[test]
    fn each_claim_can_fail() {
        assert!(DeviceSummary::new(good()).all_true());
        let spoil: [fn(&mut DeviceFacts); 22] = [
            |facts| facts.counts.tried = 0,
            |facts| facts.counts.leaked = 1,
            |facts| facts.counts.landed_outside = 1,
            |facts| facts.counts.events = (0, 1),
            |facts| facts.counts.events = (36, 0),
            |facts| facts.counts.events_of_others = 1,
            |facts| facts.commands = Some(BOOT_COMMANDS + 1),
            |facts| facts.commands = None,
            |facts| facts.counts.rtos_messages = (0, 0),
            |facts| facts.counts.rtos_messages = (50, 1),
            |facts| facts.counts.reactions.0 = LEAST_REACTIONS,
            |facts| facts.counts.reactions.1 = facts.reaction_bound.1 + 1,
            |facts| facts.linux_answered = false,
            |facts| facts.counts.killed = 0,
            |facts| facts.counts.linux_restarts = 0,
            |facts| facts.counts.linux_restarts = 2,
            |facts| facts.counts.rounds = 0,
            |facts| facts.counts.office_restarts = 1,
            |facts| facts.have_ended = false,
            |facts| facts.counts.compared = COMPARISONS - 1,
            |facts| facts.counts.bytes_changed = 1,
            |facts| facts.is_whole = false,
        ];
        for (number, spoil) in spoil.iter().enumerate() {
            let mut facts = good();
            spoil(&mut facts);
            assert!(!DeviceSummary::new(facts).all_true(), "claim {number}");
        }
    }

    #[test]
    fn the_json_has_the_documented_keys() {
        let value = DeviceSummary::new(good()).json();
        for key in [
            "dma.tried",
            "dma.landed_outside",
            "dma.events",
            "office.bytes_changed",
            "restarts",
            "rtos.worst_over_bound_instructions",
            "smmu.commands_after_boot",
            "elapsed_s",
        ] {
            assert!(value.get(key).is_some_and(Value::is_number), "{key}");
        }
    }
}
