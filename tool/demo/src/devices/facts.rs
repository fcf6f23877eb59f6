//! Numbers of a finished run.

use crate::facts::{texts, value_of};
use crate::story::index;
use crate::{INTRUDER, LINUX, OFFICE, RTOS};
use bulkhead_abi::status::STATE_OFF;
use bulkhead_run::{Machine, RunError};

/// What was counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounts {
    /// Targets that the intruder aimed at.
    pub tried: u64,
    /// Of those, what came back from somewhere that was not its own.
    pub leaked: u64,
    /// Bytes outside its own memory that they changed: of what was built, of a guest that is off, and what they wrote to anything else.
    pub landed_outside: u64,
    /// One of their targets was in the memory of the guest that is off.
    pub is_aimed_at_asleep: bool,
    /// What the SMMU refused to the intruder, and how often somebody who looked came too late to see all.
    pub events: (u64, u64),
    /// What the SMMU refused to others.
    pub events_of_others: u64,
    /// Comparisons that office made, and the bytes that differed in all of them.
    pub compared: u64,
    /// See [`Self::compared`].
    pub bytes_changed: u64,
    /// Copies that office finished.
    pub rounds: u64,
    /// Starts of office beside the first.
    pub office_restarts: u32,
    /// Starts of linux beside the first.
    pub linux_restarts: u32,
    /// Back ends that were killed.
    pub killed: u64,
    /// Messages that FreeRTOS printed, and those that are missing between two.
    pub rtos_messages: (u64, u64),
    /// How often one of its interrupt handlers was entered, and the most instructions of the monitor that one waited for.
    pub reactions: (u64, u64),
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceFacts {
    /// Counts.
    pub counts: DeviceCounts,
    /// linux and office were off at the end, not stopped.
    pub have_ended: bool,
    /// linux answered a request at a port of the loopback.
    pub linux_answered: bool,
    /// office's file system is whole, by `e2fsck`.
    pub is_whole: bool,
    /// The core of FreeRTOS, and how many instructions of it a handler waits for at most by the analysis.
    pub reaction_bound: (usize, u64),
    /// Commands that the SMMU was ever given; `None` when nobody knows.
    pub commands: Option<u64>,
    /// Seconds in all.
    pub elapsed_s: f64,
}

/// Commands that the boot core gives (`devices.md` section 3). The register counts modulo 32, so a multiple of that would not be seen; that no script
/// but the boot core's reaches it is what `verify` shows.
pub(super) const BOOT_COMMANDS: u64 = 3;

impl DeviceFacts {
    /// Collects the facts of a run that has ended, from its RAM and its consoles.
    ///
    /// # Errors
    /// When the machine has no monitor.
    pub(super) fn collect(&mut self, machine: &Machine) -> Result<(), RunError> {
        let observer = machine.observer().ok_or_else(|| RunError::Other("the machine has no monitor".to_owned()))?;
        let status = |name: &str| index(machine, name).map(|index| observer.status(index));
        let (intruder, linux, office) = (status(INTRUDER)?, status(LINUX)?, status(OFFICE)?);
        let counts = &mut self.counts;
        // The queue is one: a flood may be noticed by another owner of functions.
        counts.events = (intruder.dma.events, intruder.dma.lost + linux.dma.lost);
        counts.events_of_others = linux.dma.events + office.dma.events;
        (counts.linux_restarts, counts.office_restarts) = (linux.restarts, office.restarts);
        self.have_ended = [linux.state, office.state] == [STATE_OFF; 2];
        counts.read(texts(machine, INTRUDER), texts(machine, LINUX), texts(machine, OFFICE));
        let mut rtos = crate::Facts::default();
        rtos.note_messages(texts(machine, RTOS));
        counts.rtos_messages = (rtos.rtos_messages, rtos.rtos_missing);
        let counted = machine.counts()?;
        let passages = counted.cores.get(self.reaction_bound.0).map(|core| core.passages).unwrap_or_default();
        counts.reactions = (passages.reactions, passages.longest_reaction);
        Ok(())
    }

    /// By how many instructions the worst wait of FreeRTOS's handlers exceeds its bound.
    #[must_use]
    pub fn worst_over_bound(&self) -> u64 {
        self.counts.reactions.1.saturating_sub(self.reaction_bound.1)
    }

    /// Commands that the SMMU was given after boot.
    #[must_use]
    pub fn commands_after_boot(&self) -> Option<u64> {
        self.commands.map(|commands| commands.abs_diff(BOOT_COMMANDS))
    }
}

impl DeviceCounts {
    /// What the guests said.
    fn read<'a>(
        &mut self,
        intruder: impl Iterator<Item = &'a str>,
        linux: impl Iterator<Item = &'a str>,
        office: impl Iterator<Item = &'a str>,
    ) {
        for line in intruder {
            let words: Vec<&str> = line.split_whitespace().collect();
            if let ["intruder:", tried, "targets", "tried,", leaked, "leaked"] = words[..] {
                self.tried = tried.parse().unwrap_or(0);
                // What cannot be read is no good news.
                self.leaked = leaked.parse().unwrap_or(u64::MAX);
            }
        }
        self.killed = linux.filter(|line| line.starts_with("linux: killed the back end")).count() as u64;
        for line in office {
            if let Some(changed) = value_of(line, "changed") {
                self.compared += 1;
                self.bytes_changed = self.bytes_changed.saturating_add(changed);
            }
            self.rounds = value_of(line, "rounds").unwrap_or(self.rounds);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guests_are_heard() {
        let mut counts = DeviceCounts::default();
        counts.read(
            ["intruder: own RAM written and read", "intruder: 20 targets tried, 1 leaked"].into_iter(),
            ["linux: killed the back end of office's disk"].into_iter(),
            ["office: changed=0 before", "office: changed=7 after linux panicked", "office: done rounds=9"].into_iter(),
        );
        let DeviceCounts { tried, leaked, killed, compared, bytes_changed, rounds, .. } = counts;
        assert_eq!((tried, leaked, killed, compared, bytes_changed, rounds), (20, 1, 1, 2, 7, 9));
    }

    #[test]
    fn commands_of_the_boot_core_are_none_after_it() {
        let of = |commands| DeviceFacts { commands, ..DeviceFacts::default() }.commands_after_boot();
        assert_eq!((of(Some(BOOT_COMMANDS)), of(Some(5)), of(None)), (Some(0), Some(2), None));
    }
}
