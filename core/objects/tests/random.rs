//! Random calls, faults, dates and interrupts against a simple model of what must always be true.
//!
//! A case is an instance with some of its threads started, and a few dozen steps. After each step all state is looked at: stacks, rights,
//! queues, positions, who knows what. Each refused call is compared with a copy of all state from before it, world included.

#[path = "../../sched/tests/support/random.rs"]
mod random;
mod support;

use bulkhead_kernel_abi::accounts::FaultRecord;
use bulkhead_kernel_abi::call::{Call, CapabilityOperation, ComponentOperation, InterruptOperation, ThreadOperation};
use bulkhead_kernel_abi::capability::right;
use bulkhead_kernel_abi::{Capability, Code, Kind, NONE};
use bulkhead_objects::{
    Binding, Choice, Component, ComponentState, EndPoint, GATE_CLOSED, GATE_MASK, GATE_NEEDS, Links, NEVER, Outcome,
    Position, Registers, Scheduler, Thread, ThreadState, WORN, event,
};
use random::Random;
use std::collections::{BTreeMap, BTreeSet};
use support::*;

const STEPS: u64 = 40;
const THREADS: u16 = 8;
const SERVERS: u16 = 3;

/// Everything that a refused call must leave as it is.
#[derive(Clone, Debug, PartialEq)]
struct Copy {
    components: Vec<Component>,
    slots: Vec<Capability>,
    threads: Vec<Thread>,
    end_points: Vec<EndPoint>,
    bindings: Vec<Binding>,
    servers: Vec<Position>,
    schedulers: Vec<Scheduler>,
    queues: (Links, Links),
    running: Option<u16>,
    world: Fake,
}

impl Copy {
    fn of(b: &Bench<'_>) -> Self {
        let room = b.objects.room();
        let (ready, listed) = b.objects.queues();
        Self {
            components: room.components.to_vec(),
            slots: room.slots.to_vec(),
            threads: room.threads.to_vec(),
            end_points: room.end_points.to_vec(),
            bindings: room.bindings.to_vec(),
            servers: room.servers.to_vec(),
            schedulers: room.schedulers.to_vec(),
            queues: (ready.clone(), listed.clone()),
            running: b.objects.running(),
            world: b.world.clone(),
        }
    }
}

/// What was seen in all cases: a driver that is refused everywhere would show nothing.
#[derive(Default)]
struct Seen {
    /// This instance calls and does not return.
    is_deep: bool,
    done: BTreeMap<(Call, u64), u64>,
    codes: BTreeSet<Code>,
}

/// What the model knows: rights by what a capability is for, and which awake threads some scheduler was told of.
struct Model {
    rights: BTreeMap<(u8, u16, u64), u8>,
    known: [bool; THREADS as usize],
    before: Vec<Thread>,
}

impl Model {
    fn new(b: &Bench<'_>) -> Self {
        let mut rights = BTreeMap::new();
        for slot in b.objects.room().slots.iter() {
            *rights.entry((slot.kind, slot.object, slot.word)).or_insert(0) |= slot.rights;
        }
        Self { rights, known: [false; THREADS as usize], before: b.objects.room().threads.to_vec() }
    }

    fn check(&mut self, b: &Bench<'_>) {
        self.learn(b);
        stacks(b);
        gates(b);
        for slot in b.objects.room().slots.iter() {
            let most = self.rights.get(&(slot.kind, slot.object, slot.word)).copied();
            assert!(most.is_some_and(|most| slot.rights & !most == 0), "{slot:?} grants more than any source");
        }
        threads(b);
        events(b);
        for server in 0..SERVERS {
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
        let awake: Vec<u16> = (0..THREADS).filter(here).collect();
        assert_eq!(position.next.map(|pair| pair.tcap), b.world.filled[usize::from(server)], "time knows");
        if let Some(pair) = position.next {
            assert!(awake.contains(&pair.thread), "{pair:?} is next on {server} and not awake there");
            assert_eq!(b.thread(pair.thread).runs_on, pair.tcap);
        }
        if position.holder == NONE {
            let mut queue = Vec::new();
            let mut next = position.ready.first();
            while let Some(thread) = next {
                queue.push(thread);
                assert!(queue.len() <= usize::from(THREADS), "a ring");
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
        let is_somewhere = !matches!(thread.state, ThreadState::Free | ThreadState::Stopped);
        let home = thread.levels().next().expect("one at least");
        assert!(!is_somewhere || (home.0, home.2) == (thread.home, NONE));
    }
    let timeouts = b.objects.room().servers.iter().map(|position| position.timeout_ticks).min();
    assert_eq!(b.objects.earliest_ticks(), earliest.min(timeouts.expect("servers")), "no date is forgotten");
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
    for number in 0..THREADS {
        let thread = b.thread(number);
        assert_eq!(found.contains(&number), thread.event.list != NONE);
        assert_eq!(found.contains(&number), thread.event.what != 0, "{:?}", thread.event);
        let is = |bit: u8| thread.event.what & bit != 0;
        // One that was bound to somebody else stays blocked for whom it had before.
        let is_its = thread.event.list == thread.scheduler;
        assert!(
            !is(event::BLOCKED) || !thread.is_awake() || !is_its,
            "thread {number} is awake and told to be blocked"
        );
        let may_run = thread.is_awake() || thread.state == ThreadState::WaitingForEvents;
        assert!(!is(event::ACTIVATED) || may_run, "thread {number} is told to be awake and is not");
    }
}

/// A slot: mostly one that fits, now and then any.
fn slot(random: &mut Random) -> u64 {
    if random.below(16) == 0 { random.next() } else { random.below(u64::from(SLOTS) + 1) }
}

fn thread_slot(random: &mut Random) -> u64 {
    if random.below(8) == 0 { slot(random) } else { THREAD + random.below(u64::from(THREADS)) }
}

/// A deadline: none, past, near.
fn date(random: &mut Random, now: u64) -> u64 {
    [0, now, now + 1 + random.below(20), NEVER][random.index(4)]
}

/// Arguments for a call that has a chance.
fn arguments(b: &Bench<'_>, random: &mut Random, call: Call) -> [u64; 8] {
    let now = b.world.now;
    let mut x = [0; 8].map(|_: u64| random.below(4));
    match call {
        Call::Receive => {
            x[0] = if random.below(4) == 0 { 0 } else { RECEIVE + random.below(5) };
            x[2] = date(random, now);
        }
        Call::Events => {
            x[0] = SCHEDULER + random.below(2);
            x[1] = random.below(2);
            x[2] = date(random, now);
        }
        Call::Switch => {
            let scheduler = random.index(2);
            let token = b.objects.room().schedulers[scheduler].token;
            let tcap = [0, 0, TCAP_TASK, TCAP_APP][random.index(4)];
            let token = token.wrapping_sub(u64::from(random.below(8) == 0));
            x = [
                SCHEDULER + scheduler as u64,
                thread_slot(random),
                tcap,
                random.below(3),
                date(random, now),
                token,
                0,
                0,
            ];
        }
        Call::Interrupt => x = [random.below(6), INTERRUPT, [0, 2, random.next()][random.index(3)], 0, 0, 0, 0, 0],
        Call::Thread => {
            let third = [SERVER, SERVER_RT, SCHEDULER, slot(random)][random.index(4)];
            x = [random.below(11), thread_slot(random), third, SEND_SUPERVISOR, 0, 0, 0, 0];
            let suspended = (0..THREADS).find(|number| b.thread(*number).is_suspended);
            if let Some(number) = suspended.filter(|_| random.flip()) {
                (x[0], x[1]) = (ThreadOperation::Resume.number(), THREAD + u64::from(number));
            }
        }
        Call::Capability => {
            let table = |random: &mut Random| [0, 0, TABLE_SERVICE, slot(random)][random.index(4)];
            let to = if random.flip() { EMPTY + random.below(4) } else { slot(random) };
            x = [random.below(6), table(random), slot(random), table(random), to, random.next(), 0, 0];
            if x[0] == CapabilityOperation::Revoke.number() && random.below(4) != 0 {
                x[0] = 0;
            }
        }
        Call::Component => {
            let which = [COMPONENT_SERVICE, COMPONENT_SERVICE, COMPONENT_APP, slot(random)][random.index(4)];
            let operation = [4, 5, 5, 6, 6, 7, 7, 7, random.below(9)][random.index(9)];
            x = [operation, which, 0, 0, 0, 0, 0, 0];
        }
        Call::Print => x[0] = random.below(60),
        _ => {}
    }
    x
}

/// One call of a thread that runs, if anybody does.
fn make_call(b: &mut Bench<'_>, random: &mut Random, seen: &mut Seen) {
    let server = random.below(u64::from(SERVERS)) as u16;
    let Choice::Run(me) = b.objects.choose(&mut b.world, server) else { return };
    let numbers = [0, 0, 0, 0, 1, 1, 2, 3, 4, 4, 5, 8, 9, 9, 12, 12, 13, 14, 15, 6];
    let call = Call::from_number(numbers[random.index(numbers.len())]).expect("a call");
    // In some instances nobody returns, so that calls come to their depth.
    let call = if seen.is_deep && random.below(4) != 0 { Call::Invoke } else { call };
    let x = arguments(b, random, call);
    let calls =
        [CALL_SERVICE, CALL_RT, CALL_APP, SEND_APP, SEND_TASK, SEND_GUEST, SEND_CHILD_TASK, REMOTE, slot(random)];
    let registers = b.objects.registers().expect("runs");
    registers.x[..8].copy_from_slice(&x);
    registers.x[8] = calls[random.index(if seen.is_deep { 3 } else { calls.len() })];
    registers.pc += 4;
    b.world.looks.set(random.below(80) as u32);
    b.world.is_full = random.below(16) == 0;
    let before = Copy::of(b);
    let outcome = b.objects.call(&mut b.world, call.number());
    let place = |thread: &Thread| (thread.component, thread.life, thread.depth);
    let (was, is) = (&before.threads[usize::from(me)], *b.thread(me));
    let operation = match call {
        Call::Interrupt | Call::Thread | Call::Capability | Call::Component => x[0],
        _ => 0,
    };
    let register = if call == Call::Invoke { 8 } else { 0 };
    let stayed = outcome == Outcome::Done && b.objects.running() == Some(me) && place(was) == place(&is);
    let code = Code::from_number(is.registers.x[register]).filter(|_| stayed && call != Call::Return);
    if code.is_none_or(|code| code == Code::Ok) {
        *seen.done.entry((call, operation)).or_insert(0) += 1;
        return;
    }
    seen.codes.extend(code);
    // A refused call has written its code and nothing else.
    let mut after = Copy::of(b);
    after.threads[usize::from(me)].registers.x[register] = was.registers.x[register];
    // Whether it looked for interrupts is no state of the kernel.
    after.world.looks = before.world.looks.clone();
    assert!(before == after, "{} {operation} was refused with {code:?} and changed something", call.name());
}

fn step(b: &mut Bench<'_>, random: &mut Random, seen: &mut Seen) {
    match random.below(24) {
        0 => {
            b.world.now += random.below(15);
            b.objects.pass_dates(&mut b.world);
        }
        1 => b.objects.used(&mut b.world, random.below(15)),
        2 => b.objects.fault(&mut b.world, FaultRecord { kind: 1, ..Default::default() }),
        3 => {
            b.objects.work(&mut b.world);
        }
        4 => {
            let idle = b.objects.room().bindings[0].hold == bulkhead_objects::Hold::Idle;
            if idle {
                b.objects.top_half(&mut b.world, 0);
            }
        }
        5 => {
            b.world.has_budget = random.flip();
            if b.world.has_budget {
                b.objects.has_budget_again(&mut b.world, 1);
            } else {
                b.objects.out_of_budget(&mut b.world, 1);
            }
        }
        6 => {
            let tcap = random.index(b.world.usable.len());
            b.world.usable[tcap] = [0, 10, 1_000][random.index(3)];
            b.world.ranks[tcap] = random.below(4);
            if let Some(thread) = b.objects.running().filter(|_| b.world.usable[tcap] == 0) {
                b.objects.exhausted(&mut b.world, thread);
            }
        }
        _ => make_call(b, random, seen),
    }
    // A top half may be charged to a request that is never finished here.
    b.world.requests.truncate(8);
}

#[test]
fn random_calls_keep_every_invariant() {
    let mut seen = Seen::default();
    let mut rows = Rows::new();
    random::check("random calls", |random| {
        for (component, policy) in rows.components.iter_mut().zip([0, 1, 0, 0, 2]) {
            component.on_fault = if random.flip() { policy } else { 0 };
            component.stacks = 4;
        }
        bench_of(&rows, |b| {
            let mut model = Model::new(b);
            seen.is_deep = random.below(16) == 0;
            let started: Vec<u16> = (0..THREADS).filter(|_| random.below(4) != 0).collect();
            b.start(&started);
            model.check(b);
            for _ in 0..STEPS {
                step(b, random, &mut seen);
                model.check(b);
            }
            // The flags were never set here, and nobody got any.
            assert!(
                b.objects
                    .room()
                    .threads
                    .iter()
                    .all(|thread| Registers { pstate: 0, ..thread.registers } == thread.registers)
            );
        });
    });
    println!("done: {:?}", seen.done);
    if !random::is_short() {
        assert_seen(&seen);
    }
}

/// Everything that is built was done, and every code was answered.
fn assert_seen(seen: &Seen) {
    let single = [
        Call::Invoke,
        Call::Return,
        Call::Receive,
        Call::Events,
        Call::Switch,
        Call::Yield,
        Call::Print,
        Call::Version,
    ];
    let operations = |call: Call, numbers: &[u64]| numbers.iter().map(|number| (call, *number)).collect::<Vec<_>>();
    let mut wanted: Vec<(Call, u64)> = single.map(|call| (call, 0)).to_vec();
    let numbers: Vec<u64> = InterruptOperation::ALL.iter().map(|one| one.number()).collect();
    wanted.extend(operations(Call::Interrupt, &numbers));
    wanted.extend(ThreadOperation::ALL.iter().skip(1).map(|one| (Call::Thread, one.number())));
    wanted.extend(CapabilityOperation::ALL.iter().map(|one| (Call::Capability, one.number())));
    let ends =
        [ComponentOperation::Destroy, ComponentOperation::Reset, ComponentOperation::Fault, ComponentOperation::Read];
    wanted.extend(ends.map(|one| (Call::Component, one.number())));
    for row in wanted {
        assert!(seen.done.get(&row).is_some_and(|count| *count >= 100), "{row:?}: {:?}", seen.done.get(&row));
    }
    // `NotAdmitted` is of calls to come; `Faulted` and the like are answers of calls that were made.
    let later = [Code::Ok, Code::NotAdmitted, Code::Faulted];
    let missing: Vec<_> = Code::ALL.iter().filter(|code| !seen.codes.contains(code) && !later.contains(code)).collect();
    assert!(missing.is_empty(), "never answered: {missing:?}");
}
