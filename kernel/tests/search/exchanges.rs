//! The short ways of `switch` and of a notification where a scheduler says who runs, on the whole kernel.

use super::*;
use bulkhead_kernel_abi::NONE;
use bulkhead_objects::{Position, Thread};

impl Search {
    /// The same by a capability, or by the way of all calls.
    pub(crate) fn notify(&mut self, end_point: u16, bits: u64) {
        // Behind an interrupt a call is made again, which nobody does here.
        let now = self.now();
        self.spin(now);
        if self.kernel.machine().signalled().is_some() {
            return;
        }
        let registers = self.kernel.registers().expect("it runs");
        registers.x[..=18].fill(0);
        registers.x[8] = SEND + u64::from(end_point);
        registers.pc += 4;
        let grant = self.kernel.objects().room().end_points[usize::from(end_point)].counters.grant;
        let by_capability = self.kernel.objects().room().slots[registers_slot(end_point)];
        let is_short = self.exchanges && by_capability.grant == grant && by_capability.word == bits;
        match if is_short { self.kernel.signal(end_point, grant, bits) } else { Signal::All } {
            Signal::All => self.enter(Entry::Synchronous { syndrome: 0x15 << 26 | 1 << 25, address: 0 }),
            Signal::Nothing => {}
            Signal::Switch => {
                let next = self.kernel.switch();
                self.take(next);
                let room = self.kernel.objects().room();
                let server = &room.servers[usize::from(room.threads[usize::from(self.running)].server)];
                self.handed_over += u64::from(server.holder != NONE);
            }
        }
        self.check();
    }
}

/// The slot of a send in the table of component 0, of which all others are copies.
fn registers_slot(end_point: u16) -> usize {
    SEND as usize + usize::from(end_point)
}

/// A `switch` to somebody of the same server, mostly without anything unusual.
pub(crate) fn usual_switch(search: &mut Search, random: &mut Random) -> [u64; 8] {
    let now = search.now();
    let room = search.kernel.objects().room();
    let server = room.threads[usize::from(search.running)].server;
    let holder = room.servers[usize::from(server)].holder;
    let token = room.schedulers.get(usize::from(holder)).map_or(0, |one| one.token);
    let is_anywhere = random.below(4) == 0;
    let is_there = |one: &u64| is_anywhere || room.threads[*one as usize].server == server;
    let there: Vec<_> = (0..THREADS as u64).filter(is_there).collect();
    let thread = there.get(random.index(there.len())).copied().unwrap_or(random.below(THREADS as u64));
    let tcap = if random.below(4) == 0 { one_of(random, TCAP, TCAPS as u64) } else { 0 };
    let number = [0, 0, 1, 2, 3, 5][random.index(6)];
    let timeout = if random.below(8) == 0 { now + 1 + random.below(100) } else { 0 };
    [SCHEDULER + u64::from(holder).min(1), THREAD + thread, tcap, number, timeout, token, 0, 0]
}

/// CH-23, CH-41: what nobody charges at a `switch` is charged by the next entry, to the same threads, claims and servers. Two instances with the same history: in one each `switch`
/// goes the way of all calls.
#[test]
fn a_switch_by_its_short_way_is_a_switch() {
    let (mut exchanged, mut handed_over) = (0, 0);
    random::check_some("exchanges", DIVISOR / 2, |random| {
        let seed = random.next();
        let pair = [false, true].map(|exchanges| {
            let mut random = Random(seed);
            // What an entry itself takes is not compared.
            let mut search = Search::on(FakeCore::default(), Instance::without_chunks(&mut random), time_room());
            (search.exchanges, search.favours_switches) = (exchanges, true);
            (search, random)
        });
        let [(mut long, mut of_long), (mut short, mut of_short)] = pair;
        for _ in 0..STEPS {
            step(&mut long, &mut of_long, &mut Seen::default());
            step(&mut short, &mut of_short, &mut Seen::default());
            compare(&mut long, &mut short);
            // A part of a budget may have come back since the choice by which the timer is set: it rings, and is set again. An entry of both does that here.
            if long.kernel.machine().timer_ticks != short.kernel.machine().timer_ticks {
                for search in [&mut long, &mut short] {
                    let _ = search.call(Call::Version, [0; 8], 0);
                }
                assert_eq!(long.kernel.machine().timer_ticks, short.kernel.machine().timer_ticks);
            }
        }
        exchanged += short.exchanged;
        handed_over += short.handed_over;
        for search in [&mut long, &mut short] {
            search.check_time(&mut Seen::default());
        }
        compare(&mut long, &mut short);
        let [long, short] = [&long, &short].map(|search| search.kernel.accounts());
        assert_eq!(long.servers, short.servers);
        assert_eq!(long.threads, short.threads);
    });
    println!("{exchanged} switches and {handed_over} notifications by the short way");
    assert!(random::is_short() || exchanged > 1_000 && handed_over > 200, "{exchanged}, {handed_over}");
}

fn compare(long: &mut Search, short: &mut Search) {
    assert_eq!(long.now(), short.now());
    assert_eq!(long.running, short.running);
    let [latest, timer] = [&mut *long, &mut *short].map(|search| search.kernel.machine().timer_ticks);
    assert!(timer <= latest, "the timer rings at {timer} and not at {latest}");
    let running = usize::from(long.running);
    let [long, short] = [&long, &short].map(|search| search.kernel.objects().room());
    for (number, (long, short)) in long.threads.iter().zip(&*short.threads).enumerate() {
        // The one that runs was charged up to the last entry, and they are at different instants when a timer rang early.
        let charged = |one: &Thread| if number == running { None } else { Some((one.used_ticks, one.limit_ticks)) };
        assert_eq!(charged(long), charged(short), "thread {number}");
        let uncharged = |one: &Thread| {
            let mut one = Thread { used_ticks: 0, limit_ticks: 0, ..*one };
            // The vectors write it.
            one.registers.x[8] = 0;
            one
        };
        if uncharged(long) == uncharged(short) {
            continue;
        }
        let [long, short] = [long, short].map(|one| format!("{:?}", uncharged(one)));
        let differs = long.split(", ").zip(short.split(", ")).find(|(long, short)| long != short);
        assert_eq!(differs, None, "thread {number}");
    }
    assert!(long.schedulers == short.schedulers);
    let uncharged = |one: &Position| Position { turn_ticks: 0, ..*one };
    assert!(long.servers.iter().map(uncharged).eq(short.servers.iter().map(uncharged)));
}
