//! Which flows there are: arrows from a cause to its effect.
//!
//! They are found before anything is written, because an arrow whose end is not in the trace must not begin: the UI would
//! show a cause without an effect, and a later trace could take the end for its own.

use crate::timeline::{EventKind, Timeline};
use std::collections::BTreeMap;

/// Flows that begin and end at an event, by the event's index.
#[derive(Clone, Debug, Default)]
pub(super) struct Flows {
    begin: BTreeMap<usize, Vec<u64>>,
    end: BTreeMap<usize, Vec<u64>>,
}

impl Flows {
    /// Finds the flows of a timeline.
    pub(super) fn of(timeline: &Timeline) -> Self {
        let mut flows = Self::default();
        let mut number = 0;
        // Held interrupts by core and owner, doorbells by receiver and INTID: the events that caused them.
        let mut held: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
        let mut rung: BTreeMap<(usize, u32), Vec<usize>> = BTreeMap::new();
        // Wake-ups that no recorded interrupt caused, by core and slot: a guest's timer that its monitor keeps for it.
        let mut woken: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
        for (index, event) in timeline.events.iter().enumerate() {
            let causes = match event.kind {
                EventKind::Interrupt { intid, owner: Some(owner), held: is_held } => {
                    if is_held {
                        held.entry((event.core, owner)).or_default().push(index);
                    }
                    rung.remove(&(owner, intid))
                }
                EventKind::Run { slot, .. } => {
                    let owner = timeline.layout.slot(event.core, slot).map(|owner| owner.partition);
                    let mut causes = owner.and_then(|owner| held.remove(&(event.core, owner))).unwrap_or_default();
                    causes.extend(woken.remove(&(event.core, slot)).unwrap_or_default());
                    Some(causes)
                }
                EventKind::Wake { slot, interrupt: Some(intid) } => {
                    let owner = timeline.layout.slot(event.core, slot).map(|owner| owner.partition);
                    let waiting = owner.and_then(|owner| held.get(&(event.core, owner)));
                    let is_it = |cause: &usize| {
                        let cause = timeline.events.get(*cause).map(|event| &event.kind);
                        matches!(cause, Some(EventKind::Interrupt { intid: held, .. }) if *held == intid)
                    };
                    if !waiting.is_some_and(|causes| causes.iter().any(is_it)) {
                        woken.entry((event.core, slot)).or_default().push(index);
                    }
                    None
                }
                // Not ready any more: a wake-up that comes to nothing has no arrow.
                EventKind::Block { slot } => {
                    woken.remove(&(event.core, slot));
                    None
                }
                EventKind::Doorbell { channel, sent: true, .. } => {
                    let channel = timeline.layout.channels.get(channel);
                    if let Some((to, intid)) = channel.and_then(|to| Some((to.destination, to.doorbell_interrupt?))) {
                        rung.entry((to, intid)).or_default().push(index);
                    }
                    None
                }
                _ => None,
            };
            for cause in causes.unwrap_or_default() {
                number += 1;
                flows.begin.entry(cause).or_default().push(number);
                flows.end.entry(index).or_default().push(number);
            }
        }
        flows
    }

    /// Returns the flows that begin at an event.
    pub(super) fn beginning(&self, event: usize) -> Vec<u64> {
        self.begin.get(&event).cloned().unwrap_or_default()
    }

    /// Returns the flows that end at an event.
    pub(super) fn ending(&self, event: usize) -> Vec<u64> {
        self.end.get(&event).cloned().unwrap_or_default()
    }
}
