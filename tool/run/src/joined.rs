//! Both worlds of a system with partitions below its payload on one time line: what the rings of their monitor hold, and the records that the
//! payload writes to its console.
//!
//! Both take their times from the same counter. The payload and the world below it are two partitions more, behind those of the description. On the
//! payload's core the payload says who runs: a task of its own, or a server. In a server's time it is the partition of that core that runs, as long
//! as its monitor says that it does, and otherwise the monitor itself (it starts the partition, or nobody is left): that time is the world's.

use crate::image_file::ImagePlan;
use crate::worlds::{ABOVE, BELOW};
use bulkhead_trace::{CoreLayout, EventKind, Run, SlotLayout, Timeline};

/// Where the payload's core is among those of an image, if a partition is on it.
pub(crate) fn core_of_payload(plan: &ImagePlan) -> Option<usize> {
    plan.header.cores.iter().take(plan.cores.len()).position(|core| core.mpidr & AFFINITY == 0)
}

/// The lowest level of a core's number. A payload has the core that leaves reset first.
const AFFINITY: u64 = 0xff;

/// Numbers of the payload's core in a joined time line.
struct Place {
    core: usize,
    /// Slot of the partition on it, if there is one.
    partition: Option<usize>,
    /// Slots of the payload, and of the world as a whole.
    payload: usize,
    world: usize,
}

/// Puts the records of a payload beside those of the partitions below it.
#[must_use]
pub(crate) fn join(below: Timeline, above: Timeline, core: Option<usize>) -> Timeline {
    let mut joined = below;
    joined.to_ns = joined.to_ns.max(above.to_ns);
    // As long as the core is its partition's alone.
    let has_core = core.map(|core| joined.runs(core)).unwrap_or_default();
    let place = extend_layout(&mut joined, &above, core);
    if let Some(layout) = joined.layout.cores.get_mut(place.core) {
        layout.is_shared = true;
    }
    let first_of_world = joined.layout.partitions.len().saturating_sub(2);
    let mut turns = Turns { place: &place, has_core: &has_core, next: 0, running: None };
    for event in &above.events {
        turns.until(event.time_ns, &mut joined);
        let kind = turns.kind(event.time_ns, first_of_world, event.kind.clone());
        joined.push(event.time_ns, place.core, kind);
    }
    turns.until(joined.to_ns, &mut joined);
    joined.lost.resize(joined.layout.cores.len(), 0);
    if let (Some(lost), Some(more)) = (joined.lost.get_mut(place.core), above.lost.first()) {
        *lost = lost.saturating_add(*more);
    }
    joined.warnings.extend(above.warnings);
    let end_ns = joined.to_ns;
    joined.finish(end_ns);
    joined
}

/// Adds the payload, its world, their slots and servers.
fn extend_layout(joined: &mut Timeline, above: &Timeline, core: Option<usize>) -> Place {
    let layout = &mut joined.layout;
    let first = layout.partitions.len();
    layout.partitions.extend(above.layout.partitions.iter().cloned());
    let core = core.unwrap_or_else(|| {
        layout.cores.push(CoreLayout::default());
        layout.cores.len() - 1
    });
    let Some(found) = layout.cores.get_mut(core) else {
        return Place { core, partition: None, payload: 0, world: 1 };
    };
    let partition = (!found.slots.is_empty()).then_some(0);
    let payload = found.slots.len();
    let place = Place { core, partition, payload, world: payload + 1 };
    found.slots.extend([ABOVE, BELOW].map(|one| SlotLayout { partition: first + one, vcpu: 0 }));
    let servers = above.layout.cores.first().map(|core| core.servers.clone()).unwrap_or_default();
    found.servers = servers;
    for server in &mut found.servers {
        server.slot = if server.slot == BELOW { place.world } else { place.payload };
    }
    place
}

/// Who has the payload's core, while the records pass by.
struct Turns<'a> {
    place: &'a Place,
    /// When its monitor says that the partition of the core runs.
    has_core: &'a [Run],
    /// How many beginnings and ends of these have passed.
    next: usize,
    /// The server that runs, whether in the background, and the slot that it is shown at.
    running: Option<(Option<usize>, bool, usize)>,
}

impl Turns<'_> {
    fn slot_at(&self, time_ns: u64) -> usize {
        let is_owned = self.has_core.iter().any(|run| (run.from_ns..run.to_ns).contains(&time_ns));
        self.place.partition.filter(|_| is_owned).unwrap_or(self.place.world)
    }

    /// Hands a server's time on where the partition begins or ends, up to a time.
    fn until(&mut self, time_ns: u64, joined: &mut Timeline) {
        while let Some(run) = self.has_core.get(self.next / 2) {
            let at_ns = if self.next.is_multiple_of(2) { run.from_ns } else { run.to_ns };
            if at_ns >= time_ns {
                return;
            }
            self.next += 1;
            let slot = self.slot_at(at_ns);
            let Some((server, background, before)) = self.running.filter(|(.., before)| *before != slot) else {
                continue;
            };
            joined.push(at_ns, self.place.core, EventKind::Block { slot: before });
            let run = EventKind::Run { slot, server, background, budget_ns: None, until_ns: None };
            joined.push(at_ns, self.place.core, run);
            self.running = Some((server, background, slot));
        }
    }

    /// The same event with the numbers of the joined time line.
    fn kind(&mut self, time_ns: u64, first: usize, kind: EventKind) -> EventKind {
        match kind {
            EventKind::Run { slot: BELOW, server, background, budget_ns, until_ns } => {
                let slot = self.slot_at(time_ns);
                self.running = Some((server, background, slot));
                EventKind::Run { slot, server, background, budget_ns, until_ns }
            }
            EventKind::Run { server, background, budget_ns, until_ns, .. } => {
                self.running = None;
                EventKind::Run { slot: self.place.payload, server, background, budget_ns, until_ns }
            }
            EventKind::Idle => {
                self.running = None;
                EventKind::Idle
            }
            EventKind::Block { slot: BELOW } => {
                let slot = self.running.map_or(self.place.world, |(.., slot)| slot);
                EventKind::Block { slot }
            }
            EventKind::Block { .. } => EventKind::Block { slot: self.place.payload },
            EventKind::State { partition, state, reason } => {
                EventKind::State { partition: first + partition, state, reason }
            }
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::join;
    use bulkhead_abi::status::{REASON_NONE, REASON_REQUESTED, STATE_OFF, STATE_RUNNING};
    use bulkhead_trace::{CoreLayout, EventKind, Layout, ServerLayout, SlotLayout, Timeline};

    fn slot(partition: usize) -> SlotLayout {
        SlotLayout { partition, vcpu: 0 }
    }

    /// `control` on core 0 from 25 to 50, `office` on core 1.
    fn below() -> Timeline {
        let core = |partition| CoreLayout { slots: vec![slot(partition)], ..CoreLayout::default() };
        let mut below = Timeline::new(Layout {
            partitions: vec!["control".to_owned(), "office".to_owned()],
            cores: vec![core(0), core(1)],
            ..Layout::default()
        });
        let state = |state, reason| EventKind::State { partition: 0, state, reason };
        below.push(25, 0, state(STATE_RUNNING, REASON_NONE));
        below.push(25, 0, EventKind::GuestStart { partition: 0, entry: 0 });
        below.push(50, 0, state(STATE_OFF, REASON_NONE));
        below.push(30, 1, EventKind::GuestStart { partition: 1, entry: 0 });
        below.finish(0);
        below
    }

    /// The payload's task until 20, from 40 to 45 and from 60 on; a server meanwhile.
    fn above() -> Timeline {
        let server = |name: &str, slot| ServerLayout { name: name.to_owned(), slot, ..ServerLayout::default() };
        let servers = vec![server("world.btask", 1), server("payload.control", 0)];
        let mut above = Timeline::new(Layout {
            partitions: vec!["payload".to_owned(), "world".to_owned()],
            cores: vec![CoreLayout { is_shared: true, slots: vec![slot(0), slot(1)], servers }],
            ..Layout::default()
        });
        for (at, place) in [(0, 0), (20, 1), (40, 0), (45, 1), (60, 0), (70, 1)] {
            let server = Some(1 - place);
            let run = EventKind::Run { slot: place, server, background: place == 1, budget_ns: None, until_ns: None };
            if at > 0 {
                above.push(at, 0, EventKind::Block { slot: 1 - place });
            }
            above.push(at, 0, run);
        }
        above.push(60, 0, EventKind::State { partition: 1, state: STATE_OFF, reason: REASON_REQUESTED });
        above.lost[0] = 3;
        above.warnings.push("a piece is damaged".to_owned());
        above.finish(80);
        above
    }

    #[test]
    fn a_servers_time_is_the_partitions_while_that_runs_and_else_the_worlds() {
        let joined = join(below(), above(), Some(0));
        assert_eq!(joined.layout.partitions, ["control", "office", "payload", "world"]);
        let runs: Vec<_> = joined
            .runs(0)
            .into_iter()
            .map(|run| (joined.layout.slot_name(0, run.slot).to_string(), run.server, run.from_ns, run.to_ns))
            .collect();
        let run = |name: &str, server, from, to| (name.to_owned(), Some(server), from, to);
        let expected = [
            run("payload", 1, 0, 20),
            run("world", 0, 20, 25),
            run("control", 0, 25, 40),
            run("payload", 1, 40, 45),
            run("control", 0, 45, 50),
            run("world", 0, 50, 60),
            run("payload", 1, 60, 70),
            run("world", 0, 70, 80),
        ];
        assert_eq!(runs, expected);
        // The other core is its owner's, as without a payload.
        let other: Vec<_> = joined.runs(1).into_iter().map(|run| (run.slot, run.from_ns, run.to_ns)).collect();
        assert_eq!(other, [(0, 30, 80)]);
        let state = EventKind::State { partition: 3, state: STATE_OFF, reason: REASON_REQUESTED };
        assert!(joined.events.iter().any(|event| event.kind == state), "the world's own state keeps its name");
        assert_eq!((joined.lost, joined.warnings.len()), (vec![3, 0], 1));
    }

    /// Nobody waits: what who does not run would like to do is in no record. And the file holds all of it.
    #[test]
    fn nobody_is_shown_as_waiting_and_the_file_has_both_worlds() {
        let joined = join(below(), above(), Some(0));
        let measured = bulkhead_trace::Measurements::of(&joined);
        let waits = |core: &bulkhead_trace::measure::CoreMeasure| {
            core.slots.iter().map(|slot| slot.ready.without(&slot.running).total_ns()).sum::<u64>()
        };
        assert_eq!(measured.cores.iter().map(waits).sum::<u64>(), 0);
        let read = bulkhead_trace::perfetto::read(&bulkhead_trace::perfetto::write(&joined)).expect("a trace");
        assert_eq!((read.events, read.layout), (joined.events, joined.layout));
    }

    #[test]
    fn a_payload_above_no_partition_has_a_core_to_itself() {
        let joined = join(below(), above(), None);
        assert_eq!(joined.layout.cores.len(), 3);
        let names = |run: &bulkhead_trace::Run| joined.layout.slot_name(2, run.slot).to_string();
        assert!(joined.runs(2).iter().all(|run| ["payload", "world"].contains(&names(run).as_str())));
        assert_eq!(joined.runs(0).len(), 1, "as without a payload");
        assert_eq!(joined.lost, [0, 0, 3]);
    }
}
