//! What the demonstration of devices claims at its end.

use super::facts::DeviceFacts;
use crate::summary::{Claim, Summary, claim};
use serde_json::json;

/// Comparisons that office makes of its files: at first, after its back end was killed, after linux panicked.
const COMPARISONS: u64 = 3;

/// Fewer ticks of FreeRTOS would tell little: it has a thousand in each second.
const LEAST_REACTIONS: u64 = 1000;

/// Judges the facts. `smmu.commands_after_boot` is null when the emulator did not say.
#[must_use]
pub fn judge(facts: &DeviceFacts) -> Summary {
    Summary::new(facts.elapsed_s).with(
        "What was shown (counts, read from the machine's RAM, its consoles and its disk; no time is judged)",
        [attack_claims(facts), sharing_claims(facts)].concat(),
    )
}

fn attack_claims(facts: &DeviceFacts) -> Vec<Claim> {
    let counts = &facts.counts;
    let (events, lost) = counts.events;
    let (messages, missing) = counts.rtos_messages;
    vec![
        claim(
            [("dma.tried", json!(counts.tried)), ("dma.leaked", json!(counts.leaked))],
            counts.tried > 0 && counts.leaked == 0,
            format!("the intruder's functions aimed at {} places; {} of them leaked", counts.tried, counts.leaked),
        ),
        claim(
            [("dma.landed_outside", json!(counts.landed_outside))],
            counts.landed_outside == 0 && counts.is_aimed_at_asleep,
            match counts.is_aimed_at_asleep {
                true => format!(
                    "{} bytes of theirs are in what was built, in the memory of a guest that sleeps, or anywhere outside the intruder",
                    counts.landed_outside
                ),
                false => "none of them was in the memory of the guest that sleeps".to_owned(),
            },
        ),
        claim(
            [
                ("dma.events", json!(events)),
                ("dma.events_lost", json!(lost)),
                ("dma.events_of_others", json!(counts.events_of_others)),
            ],
            events > 0 && lost > 0 && counts.events_of_others == 0,
            format!(
                "the SMMU refused {events} of its transfers, and in {lost} floods more than were counted; of others {}",
                counts.events_of_others
            ),
        ),
        claim(
            [("smmu.commands_after_boot", json!(facts.commands_after_boot()))],
            facts.commands_after_boot() == Some(0),
            match facts.commands_after_boot() {
                Some(commands) => format!("{commands} commands to the SMMU after boot"),
                None => "the SMMU did not say how many commands it was given".to_owned(),
            },
        ),
        claim(
            [("rtos.messages", json!(messages)), ("rtos.missing_messages", json!(missing))],
            messages > 0 && missing == 0,
            format!("rtos printed {messages} messages; {missing} are missing between them"),
        ),
        claim(
            [
                ("rtos.reactions", json!(counts.reactions.0)),
                ("rtos.worst_reaction_instructions", json!(counts.reactions.1)),
                ("rtos.reaction_bound_instructions", json!(facts.reaction_bound.1)),
                ("rtos.worst_over_bound_instructions", json!(facts.worst_over_bound())),
            ],
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
        claim(
            [("linux.answered", json!(facts.linux_answered))],
            facts.linux_answered,
            "linux answered over its own network card at a port of the loopback",
        ),
        claim(
            [("back_ends.killed", json!(counts.killed)), ("restarts", json!(counts.linux_restarts))],
            counts.killed == 1 && counts.linux_restarts == 1,
            format!(
                "the back end of office's disk was killed {} time(s), linux panicked and was restarted {} time(s)",
                counts.killed, counts.linux_restarts
            ),
        ),
        claim(
            [("office.rounds", json!(counts.rounds))],
            counts.rounds > 0 && counts.office_restarts == 0 && facts.have_ended,
            format!("office waited, copied its files {} times and ended by itself", counts.rounds),
        ),
        claim(
            [("office.bytes_changed", json!(counts.bytes_changed))],
            counts.compared == COMPARISONS && counts.bytes_changed == 0,
            format!(
                "{} bytes of its files changed, in {} of {COMPARISONS} comparisons with its disk",
                counts.bytes_changed, counts.compared
            ),
        ),
        claim(
            [("office.file_system_whole", json!(facts.is_whole))],
            facts.is_whole,
            "its file system is whole: e2fsck finds nothing to repair",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::facts::{BOOT_COMMANDS, DeviceCounts};
    use super::*;
    use serde_json::Value;

    fn good() -> DeviceFacts {
        let counts = DeviceCounts {
            tried: 20,
            is_aimed_at_asleep: true,
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
        assert!(judge(&good()).all_true());
        let spoil: [fn(&mut DeviceFacts); 23] = [
            |facts| facts.counts.tried = 0,
            |facts| facts.counts.leaked = 1,
            |facts| facts.counts.landed_outside = 1,
            |facts| facts.counts.is_aimed_at_asleep = false,
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
            assert!(!judge(&facts).all_true(), "claim {number}");
        }
    }

    #[test]
    fn the_json_has_the_documented_keys() {
        let value = judge(&good()).json();
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
