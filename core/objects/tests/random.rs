//! Random calls, faults, dates and interrupts against a simple model of what must always be true.
//!
//! A case is an instance with some of its threads started, and a few dozen steps. After each step all state is looked at: stacks, rights,
//! queues, positions, who knows what. Each refused call is compared with a copy of all state from before it, world included.

#[path = "../../sched/tests/support/random.rs"]
mod random;
mod support;

use bulkhead_kernel_abi::accounts::FaultRecord;
use bulkhead_kernel_abi::call::{
    Call, CapabilityOperation, ComponentOperation, InterruptOperation, ServerOperation, TcapOperation, ThreadOperation,
};
use bulkhead_kernel_abi::{Code, Kind, NONE};
use bulkhead_objects::{Choice, NEVER, Outcome, Registers, Sliced, Thread, ThreadState};
use random::Random;
use std::collections::{BTreeMap, BTreeSet};
use support::model::Model;
use support::state::Copy;
use support::time::{BAND, BAND_BUDGET, TCAP_GUEST, TCAP_READ, TCAP_ROOT};
use support::*;

const STEPS: u64 = 40;
const THREADS: u16 = 8;
const SERVERS: u16 = 5;

/// What was seen in all cases: a driver that is refused everywhere would show nothing.
#[derive(Default)]
struct Seen {
    /// This instance calls and does not return.
    is_deep: bool,
    /// And this one makes many a usual `switch`.
    switches: bool,
    /// A `switch` takes its short way where it can, and how many did.
    exchanges: bool,
    exchanged: u64,
    /// Notifications by the short way: the sender continued, or somebody else.
    handed_over: [u64; 2],
    done: BTreeMap<(Call, u64), u64>,
    codes: BTreeSet<Code>,
}

impl Seen {
    /// And what was seen elsewhere.
    fn and(mut self, other: Self) -> Self {
        other.done.into_iter().for_each(|(what, times)| *self.done.entry(what).or_insert(0) += times);
        self.codes.extend(other.codes);
        self
    }
}

/// A slot: mostly one that fits, now and then any.
fn slot(random: &mut Random) -> u64 {
    if random.below(16) == 0 { random.next() } else { random.below(u64::from(SLOTS) + 1) }
}

fn thread_slot(random: &mut Random) -> u64 {
    if random.below(8) == 0 { slot(random) } else { THREAD + random.below(u64::from(THREADS)) }
}

fn tcap_slot(random: &mut Random) -> u64 {
    [TCAP_ROOT, TCAP_TASK, TCAP_APP, TCAP_GUEST, TCAP_READ, EMPTY, EMPTY + 1, slot(random)][random.index(8)]
}

/// One that was made here, of the component that runs: a slot.
fn made(b: &Bench<'_>, kind: Kind) -> Option<u64> {
    let component = b.thread(b.objects.running()?).component;
    let first = b.component(component).first_slot;
    let of_kind = |slot: &u64| b.objects.room().slots[first as usize + *slot as usize].kind == kind.number();
    (EMPTY..EMPTY + 4).find(of_kind)
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
            let third = [SERVER, SERVER_RT, SCHEDULER, EMPTY, slot(random)][random.index(5)];
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
        Call::Delegate => {
            let to = [SEND_GUEST, TCAP_GUEST, tcap_slot(random)][random.index(3)];
            x = [to, tcap_slot(random), 5 * random.below(3), random.below(12), [0, 0, 4, 2][random.index(4)], 0, 0, 0];
        }
        Call::Tcap if random.flip() && made(b, Kind::TCap).is_some() => {
            x = [2, TCAP_ROOT, made(b, Kind::TCap).unwrap_or(0), 0, 0, 0, 0, 0];
        }
        Call::Tcap if random.flip() => x = [0, SCHEDULER, EMPTY + random.below(4), 0, 0, 0, 0, 0],
        Call::Tcap => x = [random.below(6), tcap_slot(random), tcap_slot(random), random.below(9), 0, 0, 0, 0],
        Call::Server if random.flip() => {
            x = [0, BAND, random.below(BAND_BUDGET * 3 / 2), 200, EMPTY + random.below(4), 0, 0, 0];
        }
        Call::Server => {
            let which = made(b, Kind::Server).filter(|_| random.below(4) != 0).unwrap_or(slot(random));
            x = [random.below(5), which, random.below(BAND_BUDGET * 2), 300, 0, 0, 0, 0];
        }
        _ => {}
    }
    x
}

/// A `switch` among the threads of one server, by who holds it.
fn usual_switch(b: &Bench<'_>, random: &mut Random, me: u16) -> [u64; 8] {
    let room = b.objects.room();
    let server = b.thread(me).server;
    let position = &room.servers[usize::from(server)];
    let scheduler = usize::from(position.holder).min(random.index(2));
    let token = room.schedulers[scheduler].token.wrapping_sub(u64::from(random.below(16) == 0));
    let is_anywhere = random.below(4) == 0;
    let there: Vec<u16> = (0..THREADS).filter(|one| is_anywhere || b.thread(*one).server == server).collect();
    let thread = there.get(random.index(there.len())).copied().unwrap_or(me);
    let timeout = if random.below(8) == 0 { date(random, b.world.now) } else { position.timeout_ticks };
    let tcap = [0, 0, 0, TCAP_TASK][random.index(4)];
    let number = if random.below(32) == 0 { u64::MAX } else { random.below(3) };
    [SCHEDULER + scheduler as u64, THREAD + u64::from(thread), tcap, number, timeout, token, 0, 0]
}

/// One call of a thread that runs, if anybody does.
fn make_call(b: &mut Bench<'_>, random: &mut Random, seen: &mut Seen) {
    let server = random.below(u64::from(SERVERS)) as u16;
    let Choice::Run(me) = b.objects.choose(&mut b.world, server) else { return };
    let numbers = [0, 0, 0, 0, 1, 1, 2, 3, 4, 4, 5, 8, 8, 9, 9, 9, 12, 12, 13, 14, 15, 6, 7, 7, 10, 10];
    let call = Call::from_number(numbers[random.index(numbers.len())]).expect("a call");
    // In some instances nobody returns, so that calls come to their depth.
    let call = if seen.is_deep && random.below(4) != 0 { Call::Invoke } else { call };
    let mut x = arguments(b, random, call);
    let call = if seen.switches && random.flip() { Call::Switch } else { call };
    match call {
        Call::Switch if seen.switches && random.below(8) != 0 => x = usual_switch(b, random, me),
        // Limits that end soon, and threads that run elsewhere.
        Call::Thread if seen.switches && random.flip() => {
            let (limit, thread) = (random.flip(), thread_slot(random));
            x = if limit {
                [7, thread, 1 + random.below(4), SEND_TASK, 0, 0, 0, 0]
            } else {
                [6, thread, [SERVER, SERVER_RT, SCHEDULER][random.index(3)], 0, 0, 0, 0, 0]
            };
        }
        _ => {}
    }
    let calls =
        [CALL_SERVICE, CALL_RT, CALL_APP, SEND_APP, SEND_TASK, SEND_GUEST, SEND_CHILD_TASK, REMOTE, slot(random)];
    let registers = b.objects.registers().expect("runs");
    registers.x[..8].copy_from_slice(&x);
    registers.x[8] = calls[random.index(if seen.is_deep { 3 } else { calls.len() })];
    registers.pc += 4;
    b.world.looks.set(random.below(80) as u32);
    b.world.is_full = random.below(16) == 0;
    if call == Call::Switch {
        let (now, ticks) = (b.world.now, random.below(3));
        if seen.exchanges && b.objects.exchange(&mut b.world, now, ticks).is_some() {
            seen.exchanged += 1;
            // Behind a call that is said by the next choice, and here at once.
            assert_eq!(b.objects.running(), b.objects.ready_next(b.thread(me).server));
            b.objects.set_running(me);
            return;
        }
        b.objects.used(&mut b.world, ticks);
    }
    let before = Copy::of(b);
    let outcome = b.objects.call(&mut b.world, call.number());
    let place = |thread: &Thread| (thread.component, thread.life, thread.depth);
    let (was, is) = (&before.threads[usize::from(me)], *b.thread(me));
    let operation = match call {
        Call::Tcap | Call::Interrupt | Call::Thread | Call::Server | Call::Capability | Call::Component => x[0],
        _ => 0,
    };
    let register = if call == Call::Invoke { 8 } else { 0 };
    let stayed = outcome == Outcome::Done && b.objects.running() == Some(me) && place(was) == place(&is);
    // A call that is made again in the next turn was not refused.
    let stayed = stayed && was.registers.pc == is.registers.pc;
    let code = Code::from_number(is.registers.x[register]).filter(|_| stayed && call != Call::Return);
    if code.is_none_or(|code| code == Code::Ok) {
        *seen.done.entry((call, operation)).or_insert(0) += 1;
        return;
    }
    if let Some(code) = code {
        assert_in_table(call, operation, code);
    }
    seen.codes.extend(code);
    // A refused call has written its code and nothing else.
    let mut after = Copy::of(b);
    after.threads[usize::from(me)].registers.x[register] = was.registers.x[register];
    // What it had been interrupted in is over, since it makes another call: its server pays for the rest.
    after.threads[usize::from(me)].sliced = was.sliced;
    for (after, before) in after.servers.iter_mut().zip(&before.servers).filter(|_| was.sliced != Sliced::NONE) {
        after.work = before.work;
    }
    // Whether it looked for interrupts is no state of the kernel.
    after.world.looks = before.world.looks.clone();
    assert!(before == after, "{} {operation} was refused with {code:?} and changed something", call.name());
}

/// Who runs notifies, by the short way or the long one; it is charged for it at once, or with its next entry.
fn notify(b: &mut Bench<'_>, random: &mut Random, seen: &mut Seen) {
    let server = random.below(u64::from(SERVERS)) as u16;
    let Choice::Run(me) = b.objects.choose(&mut b.world, server) else { return };
    let (now, ticks) = (b.world.now, random.below(3));
    let end_points = &b.objects.room().end_points[..5];
    if let Some(own) = end_points.iter().position(|one| one.thread == me)
        && random.below(3) == 0
    {
        let _ = b.svc(Call::Receive, &[RECEIVE + own as u64, 2, 0]);
        return;
    }
    if let Some(own) = b.objects.room().schedulers.iter().position(|one| one.thread == me)
        && random.below(3) == 0
    {
        let _ = b.svc(Call::Events, &[SCHEDULER + own as u64, 0, 0]);
        return;
    }
    let waits = |one: &u16| b.thread(end_points[usize::from(*one)].thread).state == ThreadState::Receiving;
    let awaited: Vec<u16> = (0..5).filter(waits).collect();
    let end_point = awaited.get(random.index(awaited.len() + 1)).copied().unwrap_or(random.below(5) as u16);
    let (bits, counters) = (random.below(4), end_points[usize::from(end_point)].counters);
    // What the vectors write when the sender is stored.
    b.objects.registers().expect("runs").x[0] = 0;
    let is_void = random.below(16) == 0;
    let by = (end_point, counters.grant + u32::from(is_void), bits);
    let handed = if seen.exchanges { b.objects.notify_held(&mut b.world, by, now, ticks) } else { None };
    match handed {
        Some(None) => seen.handed_over[0] += 1,
        Some(Some((thread, _))) => {
            seen.handed_over[1] += 1;
            assert_eq!(b.objects.running(), Some(thread));
            assert_eq!(b.objects.ready_next(b.thread(me).server), Some(thread));
            return b.objects.set_running(me);
        }
        None => {}
    }
    b.objects.used(&mut b.world, ticks);
    assert!(!is_void || handed.is_none());
    if handed.is_none() && !is_void {
        b.objects.send_in_full(&mut b.world, end_point, bits);
    }
}

fn step(b: &mut Bench<'_>, random: &mut Random, seen: &mut Seen) {
    match random.below(26) {
        8..=12 if seen.switches => notify(b, random, seen),
        0 => {
            b.world.now += random.below(15);
            b.objects.pass_date(&mut b.world);
        }
        1 => b.used(random.below(15)),
        2 => b.objects.fault(&mut b.world, FaultRecord { kind: 1, ..Default::default() }),
        // What is told later, in any order and only some of it.
        3 if !b.world.told_later.is_empty() => {
            let (scheduler, _) = b.world.told_later.swap_remove(random.index(b.world.told_later.len()));
            b.objects.tell_parent(&mut b.world, scheduler);
        }
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
            if !b.world.has_budget {
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
        7 => {
            // What was given to an end point is used up, or has expired.
            b.world.roots[6] = NONE;
            b.world.looks.set(0);
            assert_eq!(b.objects.spent(&mut b.world, 6, 0), None);
        }
        _ => make_call(b, random, seen),
    }
    // A top half may be charged to a request that is never finished here.
    b.world.requests.truncate(8);
}

#[test]
fn random_calls_keep_every_invariant() {
    let state = || (Seen::default(), Rows::with_band());
    let states = random::check_on_cores("random calls", state, |random, (seen, rows)| {
        for (component, policy) in rows.components.iter_mut().zip([0, 1, 0, 0, 2]) {
            component.on_fault = if random.flip() { policy } else { 0 };
            component.stacks = 4;
        }
        bench_of(rows, |b| {
            let mut model = Model::new(b.with_band());
            seen.is_deep = random.below(16) == 0;
            start_some(b, random);
            model.check(b);
            for _ in 0..STEPS {
                step(b, random, seen);
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
    let seen = states.into_iter().fold(Seen::default(), |all, (seen, _)| all.and(seen));
    println!("done: {:?}", seen.done);
    if !random::is_short() {
        assert_seen(&seen);
    }
}

fn start_some(b: &mut Bench<'_>, random: &mut Random) {
    let started: Vec<u16> = (0..THREADS).filter(|_| random.below(4) != 0).collect();
    b.start(&started);
}

/// N1: what the usual `switch` does by its short way is what the call does: two instances with the same history, one by each.
#[test]
fn a_switch_by_its_short_way_is_a_switch() {
    let (mut exchanged, mut handed_over) = (0, [0; 2]);
    random::check_some("exchanges", 8, |random| {
        let seed = random.next();
        bench(|long| {
            bench(|short| {
                let (mut by_call, mut by_exchange) = (Random(seed), Random(seed));
                let mut seen = [false, true].map(|exchanges| Seen { exchanges, switches: true, ..Seen::default() });
                start_some(long, &mut by_call);
                start_some(short, &mut by_exchange);
                for _ in 0..4 * STEPS {
                    step(long, &mut by_call, &mut seen[0]);
                    step(short, &mut by_exchange, &mut seen[1]);
                    let copies = [Copy::of(long), Copy::of(short)];
                    if copies[0] != copies[1] {
                        let [long, short] = copies.map(|copy| format!("{copy:?}"));
                        let differs: Vec<_> = long.split(", ").zip(short.split(", ")).filter(|(a, b)| a != b).collect();
                        panic!("by the call, and by the short way: {differs:?}");
                    }
                }
                exchanged += seen[1].exchanged;
                handed_over.iter_mut().zip(seen[1].handed_over).for_each(|(all, some)| *all += some);
            });
        });
    });
    println!("{exchanged} switches and {handed_over:?} notifications by the short way");
    assert!(random::is_short() || [exchanged, handed_over[0], handed_over[1]].iter().all(|count| *count > 100));
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
        Call::Delegate,
        Call::Print,
        Call::Version,
    ];
    let operations = |call: Call, numbers: &[u64]| numbers.iter().map(|number| (call, *number)).collect::<Vec<_>>();
    let mut wanted: Vec<(Call, u64)> = single.map(|call| (call, 0)).to_vec();
    let numbers: Vec<u64> = InterruptOperation::ALL.iter().map(|one| one.number()).collect();
    wanted.extend(operations(Call::Interrupt, &numbers));
    wanted.extend(TcapOperation::ALL.iter().map(|one| (Call::Tcap, one.number())));
    wanted.extend(ServerOperation::ALL.iter().map(|one| (Call::Server, one.number())));
    wanted.extend(ThreadOperation::ALL.iter().skip(1).map(|one| (Call::Thread, one.number())));
    wanted.extend(CapabilityOperation::ALL.iter().map(|one| (Call::Capability, one.number())));
    let ends =
        [ComponentOperation::Destroy, ComponentOperation::Reset, ComponentOperation::Fault, ComponentOperation::Read];
    wanted.extend(ends.map(|one| (Call::Component, one.number())));
    for row in wanted {
        assert!(seen.done.get(&row).is_some_and(|count| *count >= 100), "{row:?}: {:?}", seen.done.get(&row));
    }
    // `Faulted` and the like are answers of calls that were made.
    let later = [Code::Ok, Code::Faulted];
    let missing: Vec<_> = Code::ALL.iter().filter(|code| !seen.codes.contains(code) && !later.contains(code)).collect();
    assert!(missing.is_empty(), "never answered: {missing:?}");
}
