//! What must always be true of threads, stacks, rights, queues and positions.

use super::Bench;
use bulkhead_kernel_abi::capability::right;
use bulkhead_kernel_abi::{Kind, NONE};
use bulkhead_objects::{
    Component, ComponentState, GATE_CLOSED, GATE_MASK, GATE_NEEDS, NEVER, Thread, ThreadState, WORN, event,
};
use std::collections::{BTreeMap, BTreeSet};

/// What the model knows: rights by what a capability is for, and which awake threads some scheduler was told of.
pub(crate) struct Model {
    rights: BTreeMap<(u8, u16, u64), u8>,
    known: Vec<bool>,
    before: Vec<Thread>,
    /// Objects are made at run time: a capability to one has what its kind can have.
    is_made: bool,
}

impl Model {
    pub(crate) fn new(b: &Bench<'_>) -> Self {
        let mut rights = BTreeMap::new();
        for slot in b.objects.room().slots.iter() {
            *rights.entry((slot.kind, slot.object, slot.word)).or_insert(0) |= slot.rights;
        }
        Self {
            rights,
            known: vec![false; b.objects.room().threads.len()],
            before: b.objects.room().threads.to_vec(),
            is_made: false,
        }
    }

    /// The same, where processes are made.
    pub(crate) fn of_processes(b: &Bench<'_>) -> Self {
        Self { is_made: true, ..Self::new(b) }
    }

    pub(crate) fn check(&mut self, b: &Bench<'_>) {
        self.learn(b);
        stacks(b);
        gates(b);
        for slot in b.objects.room().slots.iter() {
            let most = self.rights.get(&(slot.kind, slot.object, slot.word)).copied();
            let is_made = |kind: &Kind| self.is_made || matches!(kind, Kind::TCap | Kind::Server);
            let kinds = slot.kind().filter(is_made).map(|kind| kind.rights());
            let most = most.or(kinds);
            assert!(most.is_some_and(|most| slot.rights & !most == 0), "{slot:?} grants more than any source");
        }
        threads(b);
        events(b);
        for server in 0..b.objects.room().servers.len() as u16 {
            self.position(b, server);
        }
        self.before = b.objects.room().threads.to_vec();
    }

    /// A scheduler that took an event of a thread, or runs it, knows it.
    fn learn(&mut self, b: &Bench<'_>) {
        for (number, now) in b.objects.room().threads.iter().enumerate() {
            let was_listed = self.before[number].event.list != NONE;
            if !now.is_awake() {
                self.known[number] = false;
            } else if was_listed && now.event.list == NONE {
                self.known[number] = true;
            }
        }
        for position in b.objects.room().servers.iter().filter(|position| position.holder != NONE) {
            // By `switch`, or by an event that is still there: whichever it was, it is known from here on.
            if let Some(pair) = position.next {
                self.known[usize::from(pair.thread)] |= b.thread(pair.thread).event.list == NONE;
            }
        }
    }

    fn position(&self, b: &Bench<'_>, server: u16) {
        let position = b.objects.room().servers[usize::from(server)];
        let here = |number: &u16| b.thread(*number).is_awake() && b.thread(*number).server == server;
        let awake: Vec<u16> = (0..b.objects.room().threads.len() as u16).filter(here).collect();
        let works = (position.work != 0).then_some(position.tcap);
        assert_eq!(position.next.map(|pair| pair.tcap).or(works), b.world.filled[usize::from(server)], "time knows");
        let is_ending = |number: usize| b.component(number as u16).state == ComponentState::Unwinding;
        let paid = (0..64).filter(|number| position.work & 1 << number != 0);
        assert!(paid.clone().all(is_ending), "{server} pays for an end that is over: {:#x}", position.work);
        if let Some(pair) = position.next {
            assert!(awake.contains(&pair.thread), "{pair:?} is next on {server} and not awake there");
            assert_eq!(b.thread(pair.thread).runs_on, pair.tcap);
        }
        if position.holder == NONE {
            let mut queue = Vec::new();
            let mut next = position.ready.first();
            while let Some(thread) = next {
                queue.push(thread);
                assert!(queue.len() <= b.objects.room().threads.len(), "a ring");
                next = b.objects.queues().0.after(thread);
            }
            assert_eq!(position.next.map(|pair| pair.thread), queue.first().copied());
            queue.sort_unstable();
            assert_eq!(queue, awake, "everybody who is awake waits in the FIFO of {server}");
            return;
        }
        let holder = b.objects.room().schedulers[usize::from(position.holder)];
        for thread in awake {
            let is_next = position.next.is_some_and(|pair| pair.thread == thread);
            // The root of a tree is in nobody's list: it is next, or somebody else is and gives way to it.
            let is_holder = thread == holder.thread && position.next.is_some();
            let is_told = b.thread(thread).event.list != NONE || self.known[usize::from(thread)];
            assert!(is_next || is_holder || is_told, "thread {thread} is lost: {:?}", b.thread(thread));
        }
        let root = b.thread(holder.thread);
        let has_work = holder.events.first().is_some() && root.state == ThreadState::WaitingForEvents;
        assert!(position.next.is_some() || !has_work || root.is_suspended, "N5: {position:?}");
    }
}

/// Each frame's stack is marked used, once, and nothing else is.
fn stacks(b: &Bench<'_>) {
    for (number, component) in b.objects.room().components.iter().enumerate() {
        if component.state != ComponentState::Living {
            continue;
        }
        let mut used = 0u64;
        for thread in b.objects.room().threads.iter() {
            let levels = thread
                .levels()
                .filter(|(one, life, _)| usize::from(*one) == number && *life == component.counters.life);
            for (_, _, stack) in levels.filter(|(_, _, stack)| *stack != NONE) {
                assert_eq!(used & 1 << stack, 0, "stack {stack} of {number} is used twice");
                used |= 1 << stack;
            }
        }
        assert_eq!(component.free_stacks, ((1 << component.stacks) - 1) & !used, "component {number}");
    }
}

/// What the gate lets in is what the slow path lets in: a living component, and a capability that is not void (CH-61).
fn gates(b: &Bench<'_>) {
    let room = b.objects.room();
    for component in room.components.iter() {
        let Component { state, counters, needs_ticks, .. } = *component;
        let is_open = state == ComponentState::Living && counters.grant != WORN;
        let needs = if needs_ticks == 0 { 0 } else { GATE_NEEDS };
        let open = u64::from(counters.grant) << 32 | u64::from(right::USE) << 8 | u64::from(Kind::Call.number());
        assert_eq!(component.gate(), if is_open { open | needs } else { GATE_CLOSED }, "{component:?}");
    }
    for slot in room.slots.iter() {
        let word = u64::from(slot.grant) << 32
            | u64::from(slot.object) << 16
            | u64::from(slot.rights) << 8
            | u64::from(slot.kind);
        let Some(callee) = room.components.get(usize::from(slot.object & 63)) else { continue };
        let fits = (word ^ callee.gate()) & GATE_MASK & !GATE_NEEDS == 0 && callee.gate() != GATE_CLOSED;
        let is_one = slot.kind() == Some(Kind::Call)
            && slot.has(right::USE)
            && usize::from(slot.object) < room.components.len()
            && slot.grant == callee.counters.grant
            && slot.grant != WORN
            && callee.state == ComponentState::Living;
        assert_eq!(fits, is_one, "{slot:?} {callee:?}");
    }
}

fn threads(b: &Bench<'_>) {
    let mut earliest = NEVER;
    for (number, thread) in b.objects.room().threads.iter().enumerate() {
        assert_eq!(thread.is_awake(), thread.server != NONE, "thread {number}: {:?} {}", thread.state, thread.server);
        let waits =
            matches!(thread.state, ThreadState::Receiving | ThreadState::Sleeping | ThreadState::WaitingForEvents);
        assert!(waits || thread.deadline_ticks == NEVER, "thread {number} has a date and waits for nothing");
        earliest = earliest.min(thread.deadline_ticks);
        assert_eq!(thread.nothing, [0; 2]);
        if thread.state == ThreadState::Receiving && thread.waits_on != NONE {
            let wakes_on = b.objects.room().end_points[usize::from(thread.end_point)].tcap;
            assert_eq!(b.world.roots[usize::from(thread.tcap)], thread.waits_on, "thread {number}");
            assert!(wakes_on == NONE || wakes_on == thread.tcap, "thread {number}");
            assert_eq!((thread.scheduler, thread.deadline_ticks, thread.takes_all), (NONE, NEVER, true));
        }
        let is_somewhere = !matches!(thread.state, ThreadState::Free | ThreadState::Stopped);
        let home = thread.levels().next().expect("one at least");
        assert!(!is_somewhere || (home.0, home.2) == (thread.home, NONE));
    }
    let timeouts = b.objects.room().servers.iter().map(|position| position.timeout_ticks).min();
    assert_eq!(b.earliest_ticks(), earliest.min(timeouts.expect("servers")), "no date is forgotten");
    for (server, position) in (0u16..).zip(b.objects.room().servers.iter()) {
        let here = |thread: &&Thread| {
            thread.deadline_ticks != NEVER && b.world.roots.get(usize::from(thread.tcap)) == Some(&server)
        };
        let first = b.objects.room().threads.iter().filter(here).map(|thread| thread.deadline_ticks).min();
        let expected = first.unwrap_or(NEVER).min(position.timeout_ticks);
        assert_eq!(b.world.dates[usize::from(server)], expected, "who sleeps is looked for where it would run");
    }
}

/// An event is in one list, and says what is true.
fn events(b: &Bench<'_>) {
    let listed = b.objects.queues().1;
    let mut found = BTreeSet::new();
    for (number, scheduler) in (0u16..).zip(b.objects.room().schedulers.iter()) {
        let mut next = scheduler.events.first();
        while let Some(thread) = next {
            assert!(found.insert(thread), "thread {thread} is in two lists");
            assert_eq!(b.thread(thread).event.list, number);
            assert_ne!(scheduler.thread, thread, "nobody schedules itself");
            next = listed.after(thread);
        }
    }
    for number in 0..b.objects.room().threads.len() as u16 {
        let thread = b.thread(number);
        assert_eq!(found.contains(&number), thread.event.list != NONE);
        assert_eq!(found.contains(&number), thread.event.what != 0, "{:?}", thread.event);
        let is = |bit: u8| thread.event.what & bit != 0;
        // One that was bound to somebody else stays blocked for whom it had before.
        let is_its = thread.event.list == thread.scheduler;
        let mut later = b.world.told_later.iter().map(|(scheduler, _)| usize::from(*scheduler));
        let is_told_later = later.any(|scheduler| b.objects.room().schedulers[scheduler].thread == number);
        assert!(
            !is(event::BLOCKED) || !thread.is_awake() || !is_its || is_told_later,
            "thread {number} is awake and told to be blocked"
        );
        let may_run = thread.is_awake() || thread.state == ThreadState::WaitingForEvents;
        assert!(!is(event::ACTIVATED) || may_run, "thread {number} is told to be awake and is not");
    }
}
