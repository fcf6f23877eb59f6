//! Random calls, sends by the fast path, faults, interrupts and time on the whole kernel with its real servers and claims, on a fake core.
//!
//! The kernel itself compares, in every build of a test, how each entry ends with a choice that forgets all that it remembers: who runs, and that no date comes later
//! than it should (`Kernel::compare_with_choice`). This search is there to find an order of events in which that is not so. After each step
//! it compares what can be seen from outside as well: who runs is in the position of its server, nobody's deadline is later than the timer while somebody
//! runs who is not more important, all time is charged to somebody, and interrupts are where their bindings say.

#[path = "search/exchanges.rs"]
mod exchanges;
#[path = "search/left.rs"]
mod left;
#[path = "../../core/sched/tests/support/random.rs"]
mod random;
#[path = "search/rows.rs"]
mod rows;
mod support;
#[path = "search/ways.rs"]
mod ways;

use bulkhead_arch::fake::kernel::FakeCore;
use bulkhead_arch::kernel::Entry;
use bulkhead_kernel::servers::TimeRoom;
use bulkhead_kernel::signal::Signal;
use bulkhead_kernel::{Kernel, Next};
use bulkhead_kernel_abi::call::Call;
use bulkhead_kernel_abi::{Code, Kind};
use bulkhead_objects::{Hold, ThreadState};
use random::Random;
use rows::{
    BAND, CALL, COMPONENT, EMPTY, END_POINTS, FIRST_INTID, IMMORTAL, INTERRUPT, Instance, RECEIVE, SCHEDULER, SEND,
    SERVER, SERVERS, TCAP, TCAPS, THREAD, THREADS,
};
use std::collections::{BTreeMap, BTreeSet};
use support::{room, time_room};

/// One case in this number of the usual number: each is a boot and many calls.
const DIVISOR: u64 = 500;
const STEPS: u64 = 250;
/// Entries in a row that may leave the counter where it is.
const MOST_ENTRIES: u32 = 200;

/// What was seen in all cases: a search that is refused everywhere would show nothing.
#[derive(Default)]
struct Seen {
    done: BTreeMap<(Call, u64), u64>,
    codes: BTreeSet<Code>,
    short: u64,
    exchanges: u64,
    vetoes: u64,
    background_ticks: u64,
    exhaustions: u64,
    idle_ticks: u64,
}

struct Search {
    instance: Instance,
    kernel: Kernel<'static, FakeCore>,
    running: u16,
    /// A `switch` takes its short way where it can.
    exchanges: bool,
    favours_switches: bool,
    exchanged: u64,
    handed_over: u64,
    way: ways::Way,
    /// How often each interrupt may have come: once, and again for each `done` on the time of who pays for it, behind one that came.
    may_have_come: BTreeMap<u32, u64>,
}

impl Search {
    fn new(random: &mut Random) -> Self {
        Self::with(random, time_room())
    }

    fn with(random: &mut Random, time_room: TimeRoom<'static>) -> Self {
        let core = FakeCore {
            acknowledging_ticks: random.below(3),
            looking_ticks: random.below(2),
            loading_ticks: random.below(3),
            ..FakeCore::default()
        };
        Self::on(core, Instance::new(random), time_room)
    }

    fn on(core: FakeCore, instance: Instance, time_room: TimeRoom<'static>) -> Self {
        let tables = instance.tables();
        let mut kernel = Kernel::new(core, room(), time_room, &tables, 62_500_000).expect("rows of a host");
        let Next::Thread(running) = kernel.choose() else { panic!("somebody is never stopped") };
        let (way, exchanges, favours_switches, may_have_come) = (ways::Way::default(), true, false, BTreeMap::new());
        Self {
            instance,
            kernel,
            running,
            exchanges,
            favours_switches,
            exchanged: 0,
            handed_over: 0,
            way,
            may_have_come,
        }
    }

    fn now(&mut self) -> u64 {
        self.kernel.machine().now_ticks
    }

    fn take(&mut self, next: Next) {
        let Next::Thread(running) = next else { panic!("somebody is never stopped") };
        self.running = running;
    }

    fn enter(&mut self, entry: Entry) {
        let next = self.kernel.enter(entry);
        self.take(next);
        self.check();
    }

    /// The one who runs spins until then, or the ones who take the core from it.
    fn spin(&mut self, until: u64) {
        for _ in 0..MOST_ENTRIES {
            let core = self.kernel.machine();
            if core.signalled().is_none() {
                let dates = [core.timer_ticks, core.periodic_ticks];
                let next = dates.into_iter().filter(|date| *date > core.now_ticks).min().unwrap_or(u64::MAX);
                core.now_ticks = next.min(until.max(core.now_ticks));
            }
            if core.signalled().is_none() {
                return;
            }
            self.enter(Entry::Interrupt);
            if self.now() >= until {
                return;
            }
        }
    }

    fn call(&mut self, call: Call, x: [u64; 8], x8: u64) -> Option<Code> {
        let caller = self.running;
        let registers = self.kernel.registers().expect("it runs");
        registers.x[..8].copy_from_slice(&x);
        registers.x[8] = x8;
        registers.pc += 4;
        let pc = registers.pc;
        let may_done = (call == Call::Interrupt && x[0] == 0).then(|| self.may_say_done(x[1]));
        let syndrome = 0x15 << 26 | 1 << 25 | u64::from(call.number());
        // As the vectors do it.
        let short = if call == Call::Switch && self.exchanges { self.kernel.exchange() } else { None };
        match short {
            Some(next) => {
                self.exchanged += 1;
                self.take(next);
                self.check();
            }
            None => self.enter(Entry::Synchronous { syndrome, address: 0 }),
        }
        let one = &self.kernel.objects().room().threads[usize::from(caller)];
        let register = if call == Call::Invoke { 8 } else { 0 };
        let stayed = one.registers.pc == pc && one.state == ThreadState::Ready && call != Call::Return;
        let code = Code::from_number(one.registers.x[register]).filter(|_| stayed);
        assert!(
            may_done != Some(false) || code != Some(Code::Ok),
            "an interrupt comes again on the time of another one"
        );
        code
    }

    /// States whether who runs may say `done` by this slot, and an interrupt has come that it is about. Then another one may come.
    fn may_say_done(&mut self, slot: u64) -> bool {
        let room = self.kernel.objects().room();
        let one = &room.threads[usize::from(self.running)];
        let first = room.components[usize::from(one.component)].first_slot as usize;
        let found = usize::try_from(slot).ok().and_then(|slot| room.slots.get(first.checked_add(slot)?));
        let found = found.filter(|found| found.kind == Kind::Interrupt.number());
        let binding = found.and_then(|found| room.bindings.get(usize::from(found.object)));
        let came = binding.filter(|binding| binding.hold != Hold::Idle && binding.server == one.server);
        let intid = came.map(|binding| binding.intid);
        intid.is_some_and(|intid| {
            *self.may_have_come.entry(intid).or_insert(1) += 1;
            true
        })
    }

    /// A send as the vectors make it, and no other one.
    fn signal(&mut self, end_point: u16) -> Signal {
        let grant = self.kernel.objects().room().end_points[usize::from(end_point)].counters.grant;
        let done = self.kernel.signal(end_point, grant, 1);
        if done == Signal::Switch {
            let next = self.kernel.switch();
            self.take(next);
        }
        self.check();
        done
    }

    /// What can be seen from outside.
    fn check(&mut self) {
        let now = self.now();
        let (timer_ticks, running) = (self.kernel.machine().timer_ticks, self.running);
        let objects = self.kernel.objects();
        let room = objects.room();
        assert_eq!(objects.running(), Some(running), "who runs is loaded");
        let one = &room.threads[usize::from(running)];
        assert!(one.is_awake(), "who runs is awake");
        let position = &room.servers[usize::from(one.server)];
        assert_eq!(position.next.map(|pair| (pair.thread, pair.tcap)), Some((running, one.runs_on)));
        let level = self.instance.level(one.server);
        for (number, sleeper) in room.threads.iter().enumerate() {
            let matters = self.instance.level(sleeper.dated_on).zip(level).is_some_and(|(its, level)| its <= level);
            if matters && sleeper.deadline_ticks != u64::MAX {
                let date = sleeper.deadline_ticks;
                assert!(timer_ticks <= date || date <= now, "thread {number} would sleep past {date}: {timer_ticks}");
            }
        }
        self.check_interrupts();
    }

    fn check_interrupts(&mut self) {
        let bindings: Vec<_> = self.kernel.objects().room().bindings.iter().map(|one| (one.intid, one.hold)).collect();
        let may_have_come = self.may_have_come.clone();
        let core = self.kernel.machine();
        for (intid, hold) in bindings.into_iter().filter(|(intid, _)| *intid != 0) {
            let is = (core.active.contains(&intid), core.enabled.contains(&intid));
            match hold {
                Hold::Idle => assert_eq!(is, (false, true), "{intid} may come"),
                Hold::Held => assert_eq!(is, (true, true), "{intid} is held"),
                Hold::Masked => assert_eq!(is, (false, false), "{intid} is masked"),
            }
            let came = core.acknowledged.get(&intid).copied().unwrap_or(0);
            let may = may_have_come.get(&intid).copied().unwrap_or(1);
            assert!(came <= may, "{intid} came {came} times, of {may}");
        }
    }

    /// All time was charged to somebody, or nobody ran.
    fn check_time(&mut self, seen: &mut Seen) {
        // A report, by which the accounts are right.
        let _ = self.call(Call::Version, [0; 8], 0);
        let accounts = self.kernel.accounts();
        let servers = &accounts.servers[..SERVERS];
        let used = servers.iter().map(|one| one.charged_ticks + one.background_ticks).sum::<u64>();
        seen.vetoes += servers.iter().map(|one| one.vetoes).sum::<u64>();
        seen.background_ticks += servers.iter().map(|one| one.background_ticks).sum::<u64>();
        seen.exhaustions += servers.iter().map(|one| one.exhaustions).sum::<u64>();
        seen.idle_ticks += accounts.idle_ticks;
        seen.exchanges += self.exchanged;
        let all = used + accounts.idle_ticks;
        let now = self.now();
        assert!(all <= now, "{all} ticks of {now} were charged");
    }
}

fn slot(random: &mut Random) -> u64 {
    if random.below(16) == 0 { random.next() } else { random.below(64) }
}

fn one_of(random: &mut Random, first: u64, count: u64) -> u64 {
    if random.below(24) == 0 { slot(random) } else { first + random.below(count) }
}

/// A deadline: none, past, near, far.
fn date(random: &mut Random, now: u64) -> u64 {
    [0, now, now + 1 + random.below(40), now + 1 + random.below(400)][random.index(4)]
}

fn arguments(search: &mut Search, random: &mut Random, call: Call) -> [u64; 8] {
    let now = search.now();
    let room = search.kernel.objects().room();
    let mut x = [0; 8];
    match call {
        Call::Receive => {
            let own = room.end_points.iter().position(|one| one.thread == search.running);
            let own = own.map_or(RECEIVE, |place| RECEIVE + place as u64);
            x[0] = if random.below(6) == 0 { 0 } else { own };
            (x[1], x[2]) = ([2, 2, 0, 3][random.index(4)], date(random, now));
        }
        Call::Events => {
            let own = room.schedulers.iter().position(|one| one.thread == search.running).unwrap_or(0);
            x = [SCHEDULER + own as u64, u64::from(random.below(4) == 0), date(random, now), 0, 0, 0, 0, 0];
        }
        Call::Switch => {
            let own = room.schedulers.iter().position(|one| one.thread == search.running).unwrap_or(0);
            let token = room.schedulers[own].token.wrapping_sub(u64::from(random.below(8) == 0));
            let tcap = if random.flip() { 0 } else { one_of(random, TCAP, TCAPS as u64) };
            let (thread, timeout) = (one_of(random, THREAD, THREADS as u64), date(random, now));
            x = [SCHEDULER + own as u64, thread, tcap, random.below(4), timeout, token, 0, 0];
        }
        Call::Delegate => {
            let to = if random.flip() {
                one_of(random, TCAP, TCAPS as u64)
            } else {
                one_of(random, SEND, END_POINTS as u64)
            };
            let ticks = [0, 1 + random.below(20), 5, u64::MAX][random.index(4)];
            x = [to, one_of(random, TCAP, TCAPS as u64), ticks, random.below(5), [0, 4][random.index(2)], 0, 0, 0];
        }
        Call::Tcap => {
            let (to, from) = (one_of(random, TCAP, TCAPS as u64), one_of(random, TCAP, TCAPS as u64));
            x = match random.below(6) {
                0 => [0, SCHEDULER + random.below(2), EMPTY + random.below(4), 0, 0, 0, 0, 0],
                1 => [3, to, 1 + random.below(6), 0, 0, 0, 0, 0],
                2 => [2, to, EMPTY + random.below(4), 0, 0, 0, 0, 0],
                _ => [1, to, from, random.below(30), 0, 0, 0, 0],
            };
        }
        Call::Interrupt => {
            let client = one_of(random, 0, SERVERS as u64);
            let operation = [0, 0, 1 + random.below(4)][random.index(3)];
            x = [operation, one_of(random, INTERRUPT, 3), client, 0, 0, 0, 0, 0];
        }
        Call::Server => {
            let made = EMPTY + random.below(4);
            let which = if random.flip() { made } else { one_of(random, SERVER, SERVERS as u64) };
            let (budget, period) = (1 + random.below(40), 100 + random.below(200));
            x = match random.below(4) {
                0 | 1 => [0, BAND, budget, period, made, 0, 0, 0],
                2 => [1, which, budget, period, 0, 0, 0, 0],
                _ => [2, which, 0, 0, 0, 0, 0, 0],
            };
        }
        Call::Thread => x = thread_arguments(random),
        Call::Component => {
            x = [[4, 5, 5, 5, 6][random.index(5)], one_of(random, COMPONENT, 3), 0, 0, 0, 0, 0, 0];
        }
        Call::Capability => {
            let operation = [0, 0, 2, 4, if random.below(20) == 0 { 3 } else { 2 }][random.index(5)];
            x = match operation {
                0 => [0, 0, slot(random), 0, EMPTY + random.below(4), u64::MAX, 0, 0],
                2 => [2, 0, EMPTY + random.below(4), 0, 0, 0, 0, 0],
                _ => [operation, slot(random), 0, 0, 0, 0, 0, 0],
            };
        }
        Call::Print => (x[0], x[1]) = (random.below(57), random.next()),
        _ => {}
    }
    x
}

fn thread_arguments(random: &mut Random) -> [u64; 8] {
    let thread = one_of(random, THREAD, THREADS as u64);
    match random.below(14) {
        0..=2 => [1, thread, 0, 0, 0, 0, 0, 0],
        3 => [2, thread, 0, 0, 0, 0, 0, 0],
        4..=6 => [3, thread, 0, 0, 0, 0, 0, 0],
        7 => [4, thread, 0, 0, 0, 0, 0, 0],
        8 => [5, thread, 0, 0, 0, 0, 0, 0],
        9 => {
            let to = [one_of(random, SERVER, SERVERS as u64), SCHEDULER + random.below(2), EMPTY][random.index(3)];
            [6, thread, to, 0, 0, 0, 0, 0]
        }
        10 | 11 => [7, thread, 1 + random.below(60), one_of(random, SEND, END_POINTS as u64), 0, 0, 0, 0],
        12 => [8, thread, 0, 0, 0, 0, 0, 0],
        _ => [9, thread, 0, 0, 0, 0, 0, 0],
    }
}

/// One call of who runs.
fn make_call(search: &mut Search, random: &mut Random, seen: &mut Seen) {
    const CALLS: [Call; 28] = [
        Call::Invoke,
        Call::Invoke,
        Call::Invoke,
        Call::Invoke,
        Call::Invoke,
        Call::Return,
        Call::Receive,
        Call::Receive,
        Call::Receive,
        Call::Receive,
        Call::Events,
        Call::Events,
        Call::Switch,
        Call::Switch,
        Call::Switch,
        Call::Yield,
        Call::Interrupt,
        Call::Interrupt,
        Call::Thread,
        Call::Thread,
        Call::Thread,
        Call::Delegate,
        Call::Tcap,
        Call::Server,
        Call::Component,
        Call::Capability,
        Call::Print,
        Call::Version,
    ];
    let is_scheduler = search.kernel.objects().room().schedulers.iter().any(|one| one.thread == search.running);
    let mut call = CALLS[random.index(CALLS.len())];
    if search.running == IMMORTAL {
        call = [Call::Version, Call::Invoke, Call::Thread, Call::Thread, Call::Receive][random.index(5)];
    } else if is_scheduler && random.flip() {
        call = if random.flip() { Call::Switch } else { Call::Events };
    }
    let is_home = search.kernel.objects().room().threads[usize::from(search.running)].depth == 0;
    if call == Call::Return && is_home && random.below(6) != 0 {
        call = Call::Yield;
    }
    let mut x = arguments(search, random, call);
    if search.running == IMMORTAL {
        x = match call {
            // It sleeps for a while, so that others run in the background, or nobody does.
            Call::Receive => [0, 0, search.now() + 1 + random.below(300), 0, 0, 0, 0, 0],
            // And brings back who was stopped.
            Call::Thread => [[1, 4][random.index(2)], THREAD + random.below(THREADS as u64), 0, 0, 0, 0, 0, 0],
            _ => x,
        };
    }
    let x8 = if random.below(3) == 0 { one_of(random, CALL, 4) } else { one_of(random, SEND, END_POINTS as u64) };
    // Whether an interrupt may come says what is left of a budget, of which two come back at each entry: who has fewer entries has fewer.
    if search.favours_switches && call == Call::Interrupt {
        call = Call::Version;
    }
    if search.favours_switches && random.below(4) != 0 {
        let own = search.kernel.objects().room().end_points.iter().position(|one| one.thread == search.running);
        (call, x) = match (random.below(32), own) {
            // A part of the time is somebody else's for a while.
            (0, _) => (Call::Delegate, arguments(search, random, Call::Delegate)),
            (1..=9, Some(own)) => (Call::Receive, [RECEIVE + own as u64, 2, 0, 0, 0, 0, 0, 0]),
            _ => (Call::Switch, exchanges::usual_switch(search, random)),
        };
    }
    let code = search.call(call, x, x8);
    let operation = match call {
        Call::Tcap | Call::Interrupt | Call::Thread | Call::Server | Call::Capability | Call::Component => x[0],
        _ => 0,
    };
    if code.is_none_or(|code| code == Code::Ok) {
        *seen.done.entry((call, operation)).or_insert(0) += 1;
    }
    seen.codes.extend(code);
}

fn step(search: &mut Search, random: &mut Random, seen: &mut Seen) {
    match random.below(20) {
        0..=3 => {
            let most = [4, 30, 200][random.index(3)];
            let until = search.now() + random.below(most);
            search.spin(until);
        }
        4 => {
            let intid = FIRST_INTID + random.below(2) as u32;
            search.kernel.machine().pending.insert(intid);
            let now = search.now();
            search.spin(now);
        }
        5 if search.running != IMMORTAL && random.below(4) == 0 => {
            search.enter(Entry::Synchronous { syndrome: 0x24 << 26, address: 0x10 });
        }
        6..=9 if search.favours_switches => {
            let room = search.kernel.objects().room();
            let waits = |one: &u16| room.threads[usize::from(*one)].state == ThreadState::Receiving;
            // Each end point is the thread's of its number.
            let awaited: Vec<u16> = (0..END_POINTS as u16).filter(waits).collect();
            let end_point = awaited.get(random.index(awaited.len() + 1)).copied();
            let end_point = end_point.unwrap_or(random.below(END_POINTS as u64) as u16);
            search.notify(end_point, 1 << end_point);
        }
        6 | 7 => {
            let end_point = random.below(END_POINTS as u64) as u16;
            let done = match search.way {
                ways::Way::Fast => search.signal(end_point),
                _ => search.send(end_point).unwrap_or(Signal::All),
            };
            seen.short += u64::from(done != Signal::All);
        }
        _ => {
            // What was done since the last entry took time.
            search.kernel.machine().now_ticks += random.below(3);
            make_call(search, random, seen);
        }
    }
}

#[test]
fn no_order_of_events_makes_a_choice_stale() {
    let mut seen = Seen::default();
    random::check_some("choices", DIVISOR, |random| {
        let mut search = Search::new(random);
        search.check();
        for _ in 0..STEPS {
            step(&mut search, random, &mut seen);
        }
        search.check_time(&mut seen);
    });
    println!("{:?}, {:?}", seen.done, seen.codes);
    println!(
        "{} sends by the fast path, {} switches by the short way, {} vetoes, {} exhaustions, {} ticks in the background, {} idle",
        seen.short, seen.exchanges, seen.vetoes, seen.exhaustions, seen.background_ticks, seen.idle_ticks
    );
    if !random::is_short() {
        let seen = [seen.short, seen.exchanges, seen.vetoes, seen.exhaustions, seen.background_ticks, seen.idle_ticks];
        assert!(seen.iter().all(|count| *count != 0), "{seen:?}");
    }
}
